#include "kernels/data/tokens/shards.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "core/os/output.h"
#include "kernels/data/tokens/tokens.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKEN_BYTES_MOST = 4, WAITING = GW_TOKEN_SHARDS_REST, NUMBER_DIGITS = 6 };

struct gw_token_shards {
    uint64_t most;
    uint32_t width;   /* bytes of a token, 2 or 4 */
    gw_output *files; /* all files, open until the end */
    uint32_t count;
    char *name;       /* name of the file, if there is only one */
    uint64_t in_last; /* tokens in the last file */
    uint64_t total;   /* tokens in all files */
    uint32_t waiting; /* tokens in `bytes`, not yet written */
    uint32_t tokens[WAITING];
    uint8_t bytes[WAITING * TOKEN_BYTES_MOST]; /* tokens as they are written */
};

static const char extension[] = ".bin";

/* The length of the name without the extension .bin. */
static size_t stem_length(const char *name) {
    size_t length = strlen(name), end = strlen(extension);
    return length > end && strcmp(name + length - end, extension) == 0 ? length - end : length;
}

/* Makes the name of the file with this number, from 1 on; the caller frees it. */
static bool number_name(const char *name, uint32_t number, char **numbered, gw_err *err) {
    if (asprintf(numbered, "%.*s_%0*u%s", (int)stem_length(name), name, NUMBER_DIGITS, number, extension) >=
        0)
        return true;
    *numbered = NULL;
    return gw_fail(err, GW_E_NOMEM, "out of memory");
}

static bool exists(const char *path) {
    struct stat status;
    return stat(path, &status) == 0;
}

/* Checks that `path` is missing, empty, or an older shard, since a mistaken name may be that of a text. */
static bool may_replace(const char *path, gw_err *err) {
    uint8_t magic[4];
    FILE *file = fopen(path, "re");
    if (file == NULL) return errno == ENOENT || gw_fail_errno(err, errno, "cannot look at %s", path);
    size_t got = fread(magic, 1, sizeof magic, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    gw_reader r = gw_reader_on(magic, got);
    uint32_t magic_number = got == 0 ? GW_TOKENS_MAGIC : gw_get_u32(&r);
    bool may = !failed && (magic_number == GW_TOKENS_MAGIC || magic_number == GW_TOKENS_WIDE_MAGIC);
    return may || gw_fail(err, GW_E_DENIED,
                          "%s exists and is no token shard: name another file, or move it away", path);
}

/* Whether a file's name consists of this stem and a number. */
static bool is_numbered(const char *file, const char *stem, size_t length) {
    if (strncmp(file, stem, length) != 0 || file[length] != '_') return false;
    const char *number = file + length + 1;
    return strspn(number, "0123456789") == NUMBER_DIGITS && strcmp(number + NUMBER_DIGITS, extension) == 0;
}

/* Finds the first numbered file of any run under this name; `found` is "" where there is none. Returns false
 * with errno where the folder cannot be read. */
static bool find_numbered(DIR *folder, const char *stem, size_t length, char found[NAME_MAX + 1]) {
    const struct dirent *entry;
    found[0] = '\0';
    while ((void)(errno = 0), (entry = readdir(folder)) != NULL)
        if (is_numbered(entry->d_name, stem, length) &&
            (found[0] == '\0' || strcmp(entry->d_name, found) < 0))
            snprintf(found, NAME_MAX + 1, "%s", entry->d_name);
    return errno == 0;
}

/* Checks that no numbered file of another run exists. All numbers count, since the run's first file may have
 * been moved away. */
static bool check_none_numbered(const char *name, gw_err *err) {
    char found[NAME_MAX + 1] = "";
    const char *slash = strrchr(name, '/');
    size_t before = slash != NULL ? (size_t)(slash + 1 - name) : 0;
    char *parent = before > 0 ? strndup(name, before) : strdup(".");
    if (parent == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    DIR *folder = opendir(parent);
    bool known = folder != NULL && find_numbered(folder, name + before, stem_length(name) - before, found);
    if (!known) gw_fail_errno(err, errno, "cannot look for older files in %s", parent);
    if (folder != NULL) closedir(folder);
    free(parent);
    if (!known || found[0] == '\0') return known;
    return gw_fail(err, GW_E_DENIED,
                   "%.*s%s of another run exists: name another file, or remove all files of that run first",
                   (int)before, name, found);
}

/* Begins a file with room for the header, which is written when the tokens have been counted. */
static bool begin_file(gw_token_shards *s, const char *path, gw_err *err) {
    static const uint8_t zeros[GW_TOKENS_HEADER];
    gw_output *grown = realloc(s->files, (s->count + 1) * sizeof *grown);
    if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    s->files = grown;
    if (!gw_output_open(path, &s->files[s->count], err)) return false;
    s->in_last = 0;
    return gw_output_write(&s->files[s->count++], zeros, sizeof zeros, err);
}

static bool end_file(gw_token_shards *s, gw_err *err) {
    uint8_t header[GW_TOKENS_HEADER] = {0};
    const gw_output *file = &s->files[s->count - 1];
    gw_writer w = gw_writer_on(header, sizeof header);
    gw_put_u32(&w, s->width == 2 ? GW_TOKENS_MAGIC : GW_TOKENS_WIDE_MAGIC);
    gw_put_u32(&w, s->width == 2 ? GW_TOKENS_VERSION : GW_TOKENS_WIDE_VERSION);
    gw_put_u32(&w, (uint32_t)s->in_last);
    if (lseek(file->fd, 0, SEEK_SET) != 0) return gw_fail_errno(err, errno, "cannot write %s", file->target);
    return gw_output_write(file, header, sizeof header, err) && gw_output_flush(file, err);
}

bool gw_token_shards_open(const char *path, uint64_t most, uint32_t vocabulary, gw_token_shards **out,
                          gw_err *err) {
    GW_ASSERT(most >= GW_TOKEN_SHARDS_LEAST && most <= GW_TOKEN_SHARDS_MOST);
    gw_token_shards *s = calloc(1, sizeof *s);
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to write tokens");
    s->most = most;
    s->width = vocabulary <= GW_TOKEN_SHARDS_NARROW ? 2 : 4;
    if (begin_file(s, path, err)) {
        s->name = strdup(s->files[0].target);
        if (s->name == NULL) gw_fail(err, GW_E_NOMEM, "out of memory");
        if (s->name != NULL && may_replace(s->name, err) && check_none_numbered(s->name, err)) {
            *out = s;
            return true;
        }
    }
    return gw_token_shards_end(s, false, NULL, err);
}

static bool next_file(gw_token_shards *s, gw_err *err) {
    char *path;
    if (s->count == GW_TOKENS_FILES)
        return gw_fail(err, GW_E_LIMIT, "the tokens take more than %d files, the most that a job reads",
                       GW_TOKENS_FILES);
    if (s->count == 1 && exists(s->name))
        return gw_fail(err, GW_E_DENIED,
                       "%s exists, and the tokens take several files: name another file, or move it away",
                       s->name);
    bool done = end_file(s, err);
    if (done && s->count == 1) {
        done = number_name(s->name, 1, &path, err) && gw_output_move(&s->files[0], path, err);
        free(path);
    }
    if (!done || !number_name(s->name, s->count + 1, &path, err)) return false;
    done = begin_file(s, path, err);
    free(path);
    return done;
}

/* Moves the first `count` waiting tokens into the last file. */
static bool put(gw_token_shards *s, uint32_t count, gw_err *err) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t b = 0; b < s->width; b++)
            s->bytes[s->width * i + b] = (uint8_t)(s->tokens[i] >> (8 * b));
    }
    if (!gw_output_write(&s->files[s->count - 1], s->bytes, (size_t)count * s->width, err)) return false;
    s->in_last += count;
    s->total += count;
    s->waiting -= count;
    memmove(s->tokens, s->tokens + count, s->waiting * sizeof s->tokens[0]);
    return true;
}

/* Writes waiting tokens. A further file is begun only when so many tokens wait that it is not too small. */
static bool make_room(gw_token_shards *s, gw_err *err) {
    if (s->in_last == s->most && !next_file(s, err)) return false;
    uint64_t room = s->most - s->in_last;
    return put(s, room < s->waiting ? (uint32_t)room : s->waiting, err);
}

bool gw_token_shards_write(gw_token_shards *s, const uint32_t *tokens, size_t count, gw_err *err) {
    for (size_t i = 0; i < count; i++) {
        GW_ASSERT(s->width == 4 || tokens[i] < GW_TOKEN_SHARDS_NARROW);
        if (s->waiting == WAITING && !make_room(s, err)) return false;
        s->tokens[s->waiting++] = tokens[i];
    }
    return true;
}

static bool describe(const gw_token_shards *s, gw_token_shards_written *written, gw_err *err) {
    *written = (gw_token_shards_written){.tokens = s->total,
                                         .files = s->count,
                                         .first = strdup(s->files[0].target),
                                         .last = strdup(s->files[s->count - 1].target)};
    if (written->first != NULL && written->last != NULL) return true;
    free(written->first);
    free(written->last);
    return gw_fail(err, GW_E_NOMEM, "out of memory");
}

/* Moves all files to their places. Several files are all new ones, and none stays if one cannot be moved. */
static bool place_files(gw_token_shards *s, bool good, gw_err *err) {
    bool several = s->count > 1, placed = good;
    uint32_t done = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        placed = gw_output_end(&s->files[i], placed, err);
        done += placed;
    }
    for (uint32_t i = 1; good && !placed && several && i <= done; i++) {
        char *path;
        gw_err ignored;
        if (number_name(s->name, i, &path, &ignored)) unlink(path);
        free(path);
    }
    return placed;
}

bool gw_token_shards_end(gw_token_shards *s, bool good, gw_token_shards_written *written, gw_err *err) {
    good = good && put(s, s->waiting, err) && end_file(s, err) && describe(s, written, err);
    bool placed = place_files(s, good, err);
    if (good && !placed) {
        free(written->first);
        free(written->last);
    }
    free(s->files);
    free(s->name);
    free(s);
    return placed;
}
