#include "kernels/data/tokens/tokens.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/base/wire.h"
#include "kernels/data/folder.h"
#include "kernels/data/inflate.h"
#include "kernels/data/tokens/hash.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool add_path(gw_tokens *tokens, const char *path, gw_err *err) {
    if (tokens->file_count == GW_TOKENS_FILES)
        return gw_fail(err, GW_E_LIMIT, "more than %d files", GW_TOKENS_FILES);
    gw_token_file *grown = realloc(tokens->files, (tokens->file_count + 1) * sizeof *grown);
    if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    tokens->files = grown;
    grown[tokens->file_count] = (gw_token_file){.path = strdup(path), .file = {.fd = -1}};
    if (grown[tokens->file_count].path == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    tokens->file_count++;
    return true;
}

/* Adds a file that is named, or matches a pattern. (gw_folder_list lists no keys.) */
static bool add_named(gw_tokens *tokens, const char *path, gw_err *err) {
    if (gw_folder_is_key(path))
        return gw_fail(err, GW_E_USAGE, "%s is a cluster key, and no text to train on", path);
    return add_path(tokens, path, err);
}

static bool add_matching(gw_tokens *tokens, const char *pattern, gw_err *err) {
    glob_t found;
    errno = 0;
    int result = glob(pattern, GLOB_ERR, NULL, &found); /* the result is sorted */
    if (result == GLOB_NOMATCH) return gw_fail(err, GW_E_NOTFOUND, "no file matches '%s'", pattern);
    if (result == GLOB_NOSPACE) return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    if (result != 0) return gw_fail_errno(err, errno, "cannot look for files that match '%s'", pattern);
    bool added = true;
    for (size_t i = 0; i < found.gl_pathc && added; i++) added = add_named(tokens, found.gl_pathv[i], err);
    globfree(&found);
    return added;
}

/* Whether a name is a pattern: it has special characters, and no file has that very name. */
static bool is_pattern(const char *name) {
    return strpbrk(name, "*?[") != NULL && access(name, F_OK) != 0;
}

static bool is_called(const char *path, const char *extension) {
    size_t length = strlen(path), end = strlen(extension);
    return length > end && strcmp(path + length - end, extension) == 0;
}

static bool is_token_file(const char *path) {
    return is_called(path, ".bin") || is_called(path, ".npy");
}

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Files of one kind in a folder, as text for people: as many as fit, and how many more there are. */
typedef struct named {
    uint32_t count, shown;
    char text[400];
} named;

static void name_file(named *n, const char *path) {
    size_t used = strlen(n->text);
    n->count++;
    if (n->shown + 1 < n->count || used + strlen(path) + 2 >= sizeof n->text) return;
    n->shown++;
    snprintf(n->text + used, sizeof n->text - used, "%s%s", used > 0 ? ", " : "", path);
}

static const char *names_text(const named *n, char *text, size_t size) {
    char more[40] = "";
    if (n->shown < n->count) snprintf(more, sizeof more, " and %u more", n->count - n->shown);
    snprintf(text, size, "%u file%s, %s%s", n->count, n->count == 1 ? "" : "s", n->text, more);
    return text;
}

/* Logs files that are not taken, and why. */
static void log_left(const named *left, const char *why) {
    char text[500];
    if (left->count > 0)
        gw_log(GW_INFO, "data", "not taken, as %s: %s", why, names_text(left, text, sizeof text));
}

/* Adds the .bin and .npy files below a folder; where it has none, all that are text, as far as their first
 * bytes tell. Logs what is taken, and what is not. */
static bool add_folder(gw_tokens *tokens, const char *path, gw_err *err) {
    gw_folder folder;
    named taken = {0}, others = {0}, binary = {0}, left = {0};
    char text[500];
    if (!gw_folder_list(path, &folder, err)) return false;
    bool some = false, added = true;
    for (uint32_t i = 0; i < folder.count; i++) some |= is_token_file(folder.paths[i]);
    for (uint32_t i = 0; i < folder.count && added; i++) {
        bool other = some && !is_token_file(folder.paths[i]);
        named *kind = other ? &others : !some && gw_folder_is_binary(folder.paths[i]) ? &binary : &taken;
        name_file(kind, folder.paths[i]);
        if (kind == &taken) added = add_path(tokens, folder.paths[i], err);
    }
    for (uint32_t i = 0; i < folder.left_count; i++) name_file(&left, folder.left[i]);
    if (added && taken.count == 0)
        added =
            gw_fail(err, GW_E_NOTFOUND,
                    "there is no text in the folder %s: name files that shall be taken as they are", path);
    if (added) gw_log(GW_INFO, "data", "taken: %s", names_text(&taken, text, sizeof text));
    log_left(&others, "there are files of tokens (.bin, .npy)");
    log_left(&binary, "a byte of zero shows that they are no text (name them to take them)");
    log_left(&left, "they are keys, or directories of Godwit");
    gw_folder_free(&folder);
    return added;
}

/* Adds the files of an item of the list: a file, the files in a folder, or those that match a pattern. */
static bool add_item(gw_tokens *tokens, const char *item, gw_err *err) {
    if (is_pattern(item)) return add_matching(tokens, item, err);
    return is_folder(item) ? add_folder(tokens, item, err) : add_named(tokens, item, err);
}

static bool list_files(gw_tokens *tokens, const char *list, gw_err *err) {
    if (access(list, F_OK) == 0) return add_item(tokens, list, err); /* a name may have commas */
    char *copy = strdup(list), *rest = copy, *item;
    bool listed = copy != NULL || gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    while (listed && (item = strsep(&rest, ",")) != NULL) {
        if (item[0] == '\0')
            listed = gw_fail(err, GW_E_USAGE, "'%s' is not a list of files separated by commas", list);
        else
            listed = add_item(tokens, item, err);
    }
    free(copy);
    return listed;
}

/* Warns of plain bytes that are compressed, which a user may have taken for a text. */
static bool warn_of_compression(const gw_plain_file *file, gw_err *err) {
    char start[GW_COMPRESSION_BYTES];
    gw_compression compression = GW_PLAIN;
    gw_err ignored;
    size_t there = file->bytes < sizeof start ? file->bytes : sizeof start;
    if (!gw_plain_read(file, 0, start, there, err)) return false;
    if (!gw_compression_of(start, there, &compression, &ignored) || compression != GW_PLAIN)
        gw_log(GW_WARN, "data", "%s is compressed, and its bytes are taken as they are: decompress it first",
               file->path);
    return true;
}

static bool open_file(gw_tokens *tokens, uint32_t number, uint32_t headless, gw_err *err) {
    gw_token_file *file = &tokens->files[number];
    if (!gw_plain_open(file->path, &file->file, err) ||
        !gw_token_form_of(&file->file, headless, &file->form, err))
        return false;
    bool numbers = file->form.numbers;
    if (number == 0) tokens->shards = numbers;
    if (numbers != tokens->shards)
        return gw_fail(err, GW_E_INVALID, "%s is %s, but %s is %s", tokens->files[0].path,
                       tokens->shards ? "a token shard" : "plain bytes", file->path,
                       numbers ? "a token shard" : "plain bytes");
    return numbers || warn_of_compression(&file->file, err);
}

/* Divides the files into windows. All files without a window are reported at once, since there may be many
 * among texts. */
static bool divide(gw_tokens *tokens, gw_err *err) {
    const gw_token_file *first = NULL;
    char others[40] = "";
    uint32_t small = 0;
    for (uint32_t i = 0; i < tokens->file_count; i++) {
        gw_token_file *file = &tokens->files[i];
        bool none = file->form.tokens <= tokens->context;
        if (none && small++ == 0) first = file;
        if (none) continue;
        file->first_window = tokens->windows;
        tokens->windows += (file->form.tokens - 1) / tokens->context;
        tokens->tokens += file->form.tokens;
    }
    if (small == 0) return true;
    if (small > 1) snprintf(others, sizeof others, ", and %u more have too few", small - 1);
    return gw_fail(
        err, GW_E_INVALID,
        "%s has %llu tokens%s; a window of %u and the token after it need %u: join such files with "
        "others%s, or take a smaller --context",
        first->path, (unsigned long long)first->form.tokens, others, tokens->context, tokens->context + 1,
        small < tokens->file_count ? ", leave them out" : "");
}

/* Whether all files are bytes, or all llm.c's shards of 16 bits: their digest is that of earlier versions. */
static bool is_usual(const gw_tokens *tokens) {
    bool usual = true;
    for (uint32_t i = 0; i < tokens->file_count; i++) {
        const gw_token_form *form = &tokens->files[i].form;
        usual &= !form->numbers || (form->head == GW_TOKENS_HEADER && form->width == 2);
    }
    return usual;
}

/* Computes the digest: the hash of kind, context, and every file's length and hash, and of the file's form
 * unless all are bytes or shards of 16 bits. */
static void digest(gw_tokens *tokens, const gw_token_content *contents) {
    enum { OTHER_FORMS = 2 };
    bool usual = is_usual(tokens);
    size_t size = 8 + tokens->file_count * ((usual ? 8 : 16) + sizeof(gw_hash));
    uint8_t *bytes = malloc(size);
    GW_ASSERT_MEMORY(bytes != NULL);
    gw_writer w = gw_writer_on(bytes, size);
    gw_put_u32(&w, usual ? tokens->shards : OTHER_FORMS);
    gw_put_u32(&w, tokens->context);
    for (uint32_t i = 0; i < tokens->file_count; i++) {
        const gw_token_form *form = &tokens->files[i].form;
        gw_put_u64(&w, form->tokens);
        gw_put_hash(&w, &contents[i].hash);
        if (!usual) gw_put_u32(&w, form->head);
        if (!usual) gw_put_u32(&w, form->width);
    }
    GW_ASSERT(!w.failed && w.length == size);
    gw_blake2b(bytes, w.length, &tokens->digest, sizeof tokens->digest);
    free(bytes);
}

bool gw_tokens_read(gw_tokens *tokens, gw_err *err) {
    uint32_t count = tokens->file_count;
    gw_plain_file *files = calloc(count, sizeof *files);
    gw_token_form *forms = calloc(count, sizeof *forms);
    gw_token_content *contents = calloc(count, sizeof *contents);
    GW_ASSERT_MEMORY(files != NULL && forms != NULL && contents != NULL);
    for (uint32_t i = 0; i < count; i++) {
        files[i] = tokens->files[i].file;
        forms[i] = tokens->files[i].form;
    }
    bool read = gw_token_hash(files, forms, count, gw_token_hash_threads(), contents, err);
    for (uint32_t i = 0; read && i < count; i++)
        if (contents[i].largest > tokens->largest) tokens->largest = contents[i].largest;
    if (read) digest(tokens, contents);
    free(files);
    free(forms);
    free(contents);
    return read;
}

/* A file, whatever it is called. */
typedef struct inode {
    dev_t device;
    ino_t number;
    uint32_t list; /* 0 or 1 */
    const char *path;
} inode;

static int compare_inodes(const void *a, const void *b) {
    const inode *one = a, *other = b;
    if (one->device != other->device) return one->device < other->device ? -1 : 1;
    return one->number == other->number ? 0 : one->number < other->number ? -1 : 1;
}

const char *gw_tokens_repeated(const gw_tokens *tokens, const gw_tokens *other) {
    const gw_tokens *lists[] = {tokens, other};
    uint32_t count = 0, most = tokens->file_count + (other != NULL ? other->file_count : 0);
    inode *all = calloc((size_t)most + 1, sizeof *all);
    const char *path = NULL;
    GW_ASSERT_MEMORY(all != NULL);
    for (uint32_t k = 0; k < (other != NULL ? 2 : 1); k++)
        for (uint32_t i = 0; i < lists[k]->file_count; i++) {
            struct stat about;
            if (fstat(lists[k]->files[i].file.fd, &about) == 0)
                all[count++] = (inode){about.st_dev, about.st_ino, k, lists[k]->files[i].path};
        }
    qsort(all, count, sizeof *all, compare_inodes);
    for (uint32_t i = 1; i < count && path == NULL; i++)
        if (compare_inodes(&all[i - 1], &all[i]) == 0 && (other == NULL || all[i - 1].list != all[i].list))
            path = all[i].path;
    free(all);
    return path;
}

static void warn_of_repetition(const gw_tokens *tokens) {
    const char *twice = gw_tokens_repeated(tokens, NULL);
    if (twice != NULL)
        gw_log(GW_WARN, "data", "%s is among the files more than once, and is read as often in each epoch",
               twice);
}

bool gw_tokens_begin(const char *list, uint32_t context, uint32_t headless, gw_tokens *tokens, gw_err *err) {
    GW_ASSERT(context >= 1 && (headless == 0 || headless == 2 || headless == 4));
    *tokens = (gw_tokens){.context = context};
    bool opened = list_files(tokens, list, err);
    for (uint32_t i = 0; opened && i < tokens->file_count; i++) opened = open_file(tokens, i, headless, err);
    if (opened && divide(tokens, err)) {
        warn_of_repetition(tokens);
        return true;
    }
    gw_tokens_close(tokens);
    return false;
}

bool gw_tokens_open(const char *list, uint32_t context, uint32_t headless, gw_tokens *tokens, gw_err *err) {
    if (!gw_tokens_begin(list, context, headless, tokens, err)) return false;
    if (gw_tokens_read(tokens, err)) return true;
    gw_tokens_close(tokens);
    return false;
}

void gw_tokens_close(gw_tokens *tokens) {
    for (uint32_t i = 0; i < tokens->file_count; i++) {
        gw_plain_close(&tokens->files[i].file);
        free(tokens->files[i].path);
    }
    free(tokens->files);
    *tokens = (gw_tokens){0};
}

static const gw_token_file *file_of(const gw_tokens *tokens, uint64_t window) {
    uint32_t low = 0, high = tokens->file_count; /* the file is in [low, high) */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (tokens->files[middle].first_window <= window)
            low = middle;
        else
            high = middle;
    }
    return &tokens->files[low];
}

const gw_token_file *gw_tokens_place(const gw_tokens *tokens, uint64_t window, uint64_t *first) {
    GW_ASSERT(window < tokens->windows);
    const gw_token_file *file = file_of(tokens, window);
    *first = (window - file->first_window) * tokens->context;
    return file;
}

static bool read_window(const gw_tokens *tokens, uint64_t window, uint32_t *inputs, uint32_t *targets,
                        gw_err *err) {
    uint64_t first;
    const gw_token_file *file = gw_tokens_place(tokens, window, &first);
    const uint32_t width = file->form.width;
    const bool wide = width == sizeof *targets;
    uint64_t at = file->form.head + first * width;
    size_t count = tokens->context + (wide ? 0 : 1), bytes = width * count;
    uint8_t before[sizeof *targets];
    /* Tokens are widened in place. Tokens of one or two bytes are read to the end of the buffer, wide ones
     * behind its first element. */
    uint8_t *raw = wide ? (uint8_t *)targets : (uint8_t *)(inputs + tokens->context) - bytes;
    if ((wide && !gw_plain_read(&file->file, at, before, width, err)) ||
        !gw_plain_read(&file->file, wide ? at + width : at, raw, bytes, err) ||
        !gw_plain_unchanged(&file->file, err))
        return false;
    for (uint32_t i = 0; i < tokens->context; i++) targets[i] = gw_token_at(raw, width, wide ? i : i + 1);
    inputs[0] = gw_token_at(wide ? before : raw, width, 0);
    memcpy(inputs + 1, targets, (tokens->context - 1) * sizeof *inputs);
    for (uint32_t i = 0; i <= tokens->context; i++) {
        uint32_t token = i == 0 ? inputs[0] : targets[i - 1];
        if (token > tokens->largest)
            return gw_fail(err, GW_E_CORRUPT, "%s has changed: token %llu is %u, above %u", file->path,
                           (unsigned long long)(first + i), token, tokens->largest);
    }
    return true;
}

bool gw_tokens_window(const gw_tokens *tokens, uint64_t window, uint32_t *inputs, uint32_t *targets,
                      gw_err *err) {
    gw_err why;
    if (read_window(tokens, window, inputs, targets, &why)) return true;
    if (why.code != GW_E_CORRUPT) {
        *err = why;
        return false;
    }
    return gw_fail(
        err, why.code,
        "%s. Put back what it held, and the same command goes on from the last checkpoint; or give "
        "--continue as well, which goes on with what it holds now",
        why.text);
}
