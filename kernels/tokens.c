#include "kernels/tokens.h"

#include "core/check.h"
#include "core/wire.h"
#include "kernels/map_file.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 20240520, VERSION = 1, HEADER_BYTES = 1024, TOKEN_BYTES = 2 };

static uint32_t word_at(const uint8_t *bytes, size_t word) {
    const uint8_t *b = bytes + 4 * word;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint32_t token_at(const gw_tokens *tokens, const gw_token_file *file, uint64_t i) {
    if (!tokens->shards) return file->map[i];
    const uint8_t *b = file->map + HEADER_BYTES + TOKEN_BYTES * i;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8;
}

static bool add_path(gw_tokens *tokens, const char *path, gw_err *err) {
    if (tokens->file_count == GW_TOKENS_FILES)
        return gw_fail(err, GW_E_LIMIT, "more than %d files", GW_TOKENS_FILES);
    gw_token_file *grown = realloc(tokens->files, (tokens->file_count + 1) * sizeof *grown);
    if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    tokens->files = grown;
    grown[tokens->file_count] = (gw_token_file){.path = strdup(path), .fd = -1};
    if (grown[tokens->file_count].path == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    tokens->file_count++;
    return true;
}

static bool add_matching(gw_tokens *tokens, const char *pattern, gw_err *err) {
    glob_t found;
    int result = glob(pattern, 0, NULL, &found); /* sorted */
    if (result != 0)
        return gw_fail(err, result == GLOB_NOMATCH ? GW_E_NOTFOUND : GW_E_IO, "no file matches '%s'",
                       pattern);
    bool added = true;
    for (size_t i = 0; i < found.gl_pathc && added; i++) added = add_path(tokens, found.gl_pathv[i], err);
    globfree(&found);
    return added;
}

static bool list_files(gw_tokens *tokens, const char *list, gw_err *err) {
    char *copy = strdup(list), *rest = copy, *item;
    bool listed = copy != NULL || gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    while (listed && (item = strsep(&rest, ",")) != NULL) {
        if (item[0] == '\0')
            listed = gw_fail(err, GW_E_USAGE, "'%s' is not a list of files separated by commas", list);
        else
            listed =
                strpbrk(item, "*?[") != NULL ? add_matching(tokens, item, err) : add_path(tokens, item, err);
    }
    free(copy);
    return listed;
}

static bool has_magic(const gw_token_file *file) {
    return file->bytes >= sizeof(uint32_t) && word_at(file->map, 0) == MAGIC;
}

/* A shard says what it is; a file that calls itself one and does not is damaged. */
static bool is_shard(const gw_token_file *file) {
    size_t length = strlen(file->path);
    return has_magic(file) || (length > 4 && strcmp(file->path + length - 4, ".bin") == 0);
}

static bool read_header(gw_token_file *file, gw_err *err) {
    if (!has_magic(file))
        return gw_fail(err, GW_E_INVALID, "%s is no token shard: it does not begin with %d", file->path,
                       MAGIC);
    if (file->bytes < HEADER_BYTES)
        return gw_fail(err, GW_E_CORRUPT, "%s ends after %llu bytes, within its header of %d", file->path,
                       (unsigned long long)file->bytes, HEADER_BYTES);
    uint32_t version = word_at(file->map, 1);
    if (version != VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s is a token shard of version %u; this reads version %d",
                       file->path, version, VERSION);
    file->tokens = word_at(file->map, 2);
    uint64_t expected = HEADER_BYTES + TOKEN_BYTES * file->tokens;
    if (file->bytes != expected)
        return gw_fail(err, GW_E_CORRUPT, "%s has %llu bytes; its header says %llu tokens, which take %llu",
                       file->path, (unsigned long long)file->bytes, (unsigned long long)file->tokens,
                       (unsigned long long)expected);
    return true;
}

static bool open_file(gw_tokens *tokens, uint32_t number, gw_err *err) {
    gw_token_file *file = &tokens->files[number];
    if (!gw_map_file(file->path, &file->fd, &file->map, &file->bytes, err)) return false;
    bool shard = is_shard(file);
    if (number == 0) tokens->shards = shard;
    if (shard != tokens->shards)
        return gw_fail(err, GW_E_INVALID, "%s is %s, but %s is %s", tokens->files[0].path,
                       tokens->shards ? "a token shard" : "plain bytes", file->path,
                       shard ? "a token shard" : "plain bytes");
    file->tokens = file->bytes;
    if (shard && !read_header(file, err)) return false;
    if (file->tokens < (uint64_t)tokens->context + 1)
        return gw_fail(err, GW_E_INVALID, "%s has %llu tokens; a window of %u and what follows it need %u",
                       file->path, (unsigned long long)file->tokens, tokens->context, tokens->context + 1);
    file->first_window = tokens->windows;
    tokens->windows += (file->tokens - 1) / tokens->context;
    tokens->tokens += file->tokens;
    return true;
}

static void find_largest(gw_tokens *tokens, const gw_token_file *file) {
    uint32_t largest = tokens->largest;
    for (uint64_t i = 0; i < file->tokens; i++) {
        uint32_t token = token_at(tokens, file, i);
        largest = token > largest ? token : largest;
    }
    tokens->largest = largest;
}

/* Of kind, context, and of every file's length and hash. */
static bool digest(gw_tokens *tokens, gw_err *err) {
    size_t size = 8 + tokens->file_count * (8 + sizeof(gw_hash));
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %u hashes", tokens->file_count);
    gw_writer w = gw_writer_on(bytes, size);
    gw_put_u32(&w, tokens->shards);
    gw_put_u32(&w, tokens->context);
    for (uint32_t i = 0; i < tokens->file_count; i++) {
        const gw_token_file *file = &tokens->files[i];
        gw_hash hash;
        gw_put_u64(&w, file->tokens);
        gw_blake2b(file->map, file->bytes, &hash, sizeof hash);
        gw_put_hash(&w, &hash);
        find_largest(tokens, file);
    }
    GW_CHECK(!w.failed && w.length == size);
    gw_blake2b(bytes, size, &tokens->digest, sizeof tokens->digest);
    free(bytes);
    return true;
}

bool gw_tokens_open(const char *list, uint32_t context, gw_tokens *tokens, gw_err *err) {
    GW_CHECK(context >= 1);
    *tokens = (gw_tokens){.context = context};
    bool opened = list_files(tokens, list, err);
    for (uint32_t i = 0; opened && i < tokens->file_count; i++) opened = open_file(tokens, i, err);
    if (opened && digest(tokens, err)) return true;
    gw_tokens_close(tokens);
    return false;
}

void gw_tokens_close(gw_tokens *tokens) {
    for (uint32_t i = 0; i < tokens->file_count; i++) {
        gw_token_file *file = &tokens->files[i];
        if (file->map != NULL) munmap((void *)(uintptr_t)file->map, file->bytes);
        if (file->fd >= 0) close(file->fd);
        free(file->path);
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
    GW_CHECK(window < tokens->windows);
    const gw_token_file *file = file_of(tokens, window);
    uint64_t first = (window - file->first_window) * tokens->context;
    struct stat about; /* reading a mapping behind the file's end would be the end of the process */
    if (fstat(file->fd, &about) != 0) return gw_fail_errno(err, errno, "fstat of %s", file->path);
    if ((uint64_t)about.st_size < file->bytes)
        return gw_fail(err, GW_E_CORRUPT, "%s has shrunk from %llu to %llu bytes", file->path,
                       (unsigned long long)file->bytes, (unsigned long long)about.st_size);
    for (uint32_t i = 0; i <= tokens->context; i++) {
        uint32_t token = token_at(tokens, file, first + i);
        if (token > tokens->largest)
            return gw_fail(err, GW_E_CORRUPT, "%s has changed: token %llu is %u, above %u", file->path,
                           (unsigned long long)(first + i), token, tokens->largest);
        if (i < tokens->context) inputs[i] = token;
        if (i > 0) targets[i - 1] = token;
    }
    return true;
}
