#include "kernels/data/tokens/tokens.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "kernels/data/tokens/hash.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char extension[] = ".bin"; /* a shard's */

enum { HEADER_WORDS = 3, TOKEN_BYTES = 2 };

/* The first bytes of a file; zeros behind its end. */
typedef struct header {
    uint8_t bytes[4 * HEADER_WORDS];
} header;

static uint32_t word_at(const header *head, size_t word) {
    const uint8_t *b = head->bytes + 4 * word;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint32_t token_bytes(const gw_tokens *tokens) {
    return tokens->shards ? TOKEN_BYTES : 1;
}

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

static bool add_matching(gw_tokens *tokens, const char *pattern, gw_err *err) {
    glob_t found;
    errno = 0;
    int result = glob(pattern, GLOB_ERR, NULL, &found); /* the result is sorted */
    if (result == GLOB_NOMATCH) return gw_fail(err, GW_E_NOTFOUND, "no file matches '%s'", pattern);
    if (result == GLOB_NOSPACE) return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    if (result != 0) return gw_fail_errno(err, errno, "cannot look for files that match '%s'", pattern);
    bool added = true;
    for (size_t i = 0; i < found.gl_pathc && added; i++) added = add_path(tokens, found.gl_pathv[i], err);
    globfree(&found);
    return added;
}

/* Whether a name is a pattern: it has special characters, and no file has that very name. */
static bool is_pattern(const char *name) {
    return strpbrk(name, "*?[") != NULL && access(name, F_OK) != 0;
}

static bool list_files(gw_tokens *tokens, const char *list, gw_err *err) {
    char *copy = strdup(list), *rest = copy, *item;
    bool listed = copy != NULL || gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    while (listed && (item = strsep(&rest, ",")) != NULL) {
        if (item[0] == '\0')
            listed = gw_fail(err, GW_E_USAGE, "'%s' is not a list of files separated by commas", list);
        else
            listed = is_pattern(item) ? add_matching(tokens, item, err) : add_path(tokens, item, err);
    }
    free(copy);
    return listed;
}

/* Whether a file is a shard, by its header or its extension. A file with the extension and without the header
 * is damaged. */
static bool is_shard(const gw_token_file *file, const header *head) {
    size_t length = strlen(file->path), end = strlen(extension);
    return word_at(head, 0) == GW_TOKENS_MAGIC ||
           (length > end && strcmp(file->path + length - end, extension) == 0);
}

static bool check_header(gw_token_file *file, const header *head, gw_err *err) {
    uint64_t bytes = file->file.bytes;
    if (word_at(head, 0) != GW_TOKENS_MAGIC)
        return gw_fail(err, GW_E_INVALID,
                       "%s is no token shard: it does not begin with %d. The name of plain bytes must not "
                       "end in %s",
                       file->path, GW_TOKENS_MAGIC, extension);
    if (bytes < GW_TOKENS_HEADER)
        return gw_fail(err, GW_E_CORRUPT, "%s ends after %llu bytes, within its header of %d", file->path,
                       (unsigned long long)bytes, GW_TOKENS_HEADER);
    uint32_t version = word_at(head, 1);
    if (version != GW_TOKENS_VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s is a token shard of version %u; this reads version %d",
                       file->path, version, GW_TOKENS_VERSION);
    file->tokens = word_at(head, 2);
    uint64_t expected = GW_TOKENS_HEADER + TOKEN_BYTES * file->tokens;
    if (bytes != expected)
        return gw_fail(err, GW_E_CORRUPT, "%s has %llu bytes; its header says %llu tokens, which take %llu",
                       file->path, (unsigned long long)bytes, (unsigned long long)file->tokens,
                       (unsigned long long)expected);
    return true;
}

static bool open_file(gw_tokens *tokens, uint32_t number, gw_err *err) {
    gw_token_file *file = &tokens->files[number];
    header head = {{0}};
    if (!gw_plain_open(file->path, &file->file, err)) return false;
    size_t there = file->file.bytes < sizeof head.bytes ? file->file.bytes : sizeof head.bytes;
    if (!gw_plain_read(&file->file, 0, head.bytes, there, err)) return false;
    bool shard = is_shard(file, &head);
    file->tokens = file->file.bytes;
    if (shard && !check_header(file, &head, err)) return false;
    if (number == 0) tokens->shards = shard;
    if (shard != tokens->shards)
        return gw_fail(err, GW_E_INVALID, "%s is %s, but %s is %s", tokens->files[0].path,
                       tokens->shards ? "a token shard" : "plain bytes", file->path,
                       shard ? "a token shard" : "plain bytes");
    return true;
}

/* Divides the files into windows. All files without a window are reported at once, since there may be many
 * among texts. */
static bool divide(gw_tokens *tokens, gw_err *err) {
    const gw_token_file *first = NULL;
    char others[40] = "";
    uint32_t small = 0;
    for (uint32_t i = 0; i < tokens->file_count; i++) {
        gw_token_file *file = &tokens->files[i];
        bool none = file->tokens <= tokens->context;
        if (none && small++ == 0) first = file;
        if (none) continue;
        file->first_window = tokens->windows;
        tokens->windows += (file->tokens - 1) / tokens->context;
        tokens->tokens += file->tokens;
    }
    if (small == 0) return true;
    if (small > 1) snprintf(others, sizeof others, ", and %u more have too few", small - 1);
    return gw_fail(
        err, GW_E_INVALID,
        "%s has %llu tokens%s; a window of %u and the token after it need %u: join such files with "
        "others%s, or take a smaller --context",
        first->path, (unsigned long long)first->tokens, others, tokens->context, tokens->context + 1,
        small < tokens->file_count ? ", leave them out" : "");
}

/* The hash of kind, context, and every file's length and hash. */
static void digest(gw_tokens *tokens, const gw_token_content *contents) {
    size_t size = 8 + tokens->file_count * (8 + sizeof(gw_hash));
    uint8_t *bytes = malloc(size);
    GW_ASSERT_MEMORY(bytes != NULL);
    gw_writer w = gw_writer_on(bytes, size);
    gw_put_u32(&w, tokens->shards);
    gw_put_u32(&w, tokens->context);
    for (uint32_t i = 0; i < tokens->file_count; i++) {
        gw_put_u64(&w, tokens->files[i].tokens);
        gw_put_hash(&w, &contents[i].hash);
    }
    GW_ASSERT(!w.failed && w.length == size);
    gw_blake2b(bytes, w.length, &tokens->digest, sizeof tokens->digest);
    free(bytes);
}

bool gw_tokens_read(gw_tokens *tokens, gw_err *err) {
    uint32_t count = tokens->file_count;
    gw_plain_file *files = calloc(count, sizeof *files);
    gw_token_content *contents = calloc(count, sizeof *contents);
    GW_ASSERT_MEMORY(files != NULL && contents != NULL);
    for (uint32_t i = 0; i < count; i++) files[i] = tokens->files[i].file;
    bool read = gw_token_hash(files, count, tokens->shards ? GW_TOKENS_HEADER : 0, token_bytes(tokens),
                              gw_token_hash_threads(), contents, err);
    for (uint32_t i = 0; read && i < count; i++)
        if (contents[i].largest > tokens->largest) tokens->largest = contents[i].largest;
    if (read) digest(tokens, contents);
    free(files);
    free(contents);
    return read;
}

bool gw_tokens_begin(const char *list, uint32_t context, gw_tokens *tokens, gw_err *err) {
    GW_ASSERT(context >= 1);
    *tokens = (gw_tokens){.context = context};
    bool opened = list_files(tokens, list, err);
    for (uint32_t i = 0; opened && i < tokens->file_count; i++) opened = open_file(tokens, i, err);
    if (opened && divide(tokens, err)) return true;
    gw_tokens_close(tokens);
    return false;
}

bool gw_tokens_open(const char *list, uint32_t context, gw_tokens *tokens, gw_err *err) {
    if (!gw_tokens_begin(list, context, tokens, err)) return false;
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

bool gw_tokens_window(const gw_tokens *tokens, uint64_t window, uint32_t *inputs, uint32_t *targets,
                      gw_err *err) {
    GW_ASSERT(window < tokens->windows);
    const gw_token_file *file = file_of(tokens, window);
    uint64_t first = (window - file->first_window) * tokens->context;
    uint32_t width = token_bytes(tokens);
    size_t bytes = (size_t)width * (tokens->context + 1);
    /* Raw tokens are read to the end of the buffer, so that they can be widened in place. */
    uint8_t *raw = (uint8_t *)(inputs + tokens->context) - bytes;
    if (!gw_plain_read(&file->file, (tokens->shards ? GW_TOKENS_HEADER : 0) + first * width, raw, bytes,
                       err) ||
        !gw_plain_unchanged(&file->file, err))
        return false;
    for (uint32_t i = 0; i < tokens->context; i++) targets[i] = gw_token_at(raw, width, i + 1);
    inputs[0] = gw_token_at(raw, width, 0);
    memcpy(inputs + 1, targets, (tokens->context - 1) * sizeof *inputs);
    for (uint32_t i = 0; i <= tokens->context; i++) {
        uint32_t token = i == 0 ? inputs[0] : targets[i - 1];
        if (token > tokens->largest)
            return gw_fail(err, GW_E_CORRUPT, "%s has changed: token %llu is %u, above %u", file->path,
                           (unsigned long long)(first + i), token, tokens->largest);
    }
    return true;
}
