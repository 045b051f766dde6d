#include "core/flock/files.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, FILE_LEAST_BYTES = 2 + 1 + 1 + 8 };
enum {
    CHUNKS_MOST =
        GW_JOB_FILES_MOST + GW_JOB_FILES_BYTES / GW_CHUNK_BYTES + GW_JOB_FILES_TASKS_BYTES / GW_CHUNK_BYTES
};

static const uint8_t MAGIC[] = {'G', 'J', 'F', VERSION};

_Static_assert((int)GW_JOB_FILES_LIST_BYTES < (int)GW_CHUNK_BYTES, "a list is one chunk");
_Static_assert(sizeof MAGIC + GW_JOB_FILES_MOST * (FILE_LEAST_BYTES + GW_JOB_PATH_BYTES) +
                       CHUNKS_MOST * sizeof(gw_hash) <
                   GW_JOB_FILES_LIST_BYTES,
               "every list that is allowed has room");

bool gw_job_path_is_valid(const char *path) {
    size_t length = strlen(path), wrong;
    bool control;
    if (length == 0 || length > GW_JOB_PATH_BYTES || !gw_utf8_is_printable(path, &wrong, &control))
        return false;
    for (const char *part = path;;) {
        size_t part_length = strcspn(part, "/");
        if (part_length == 0 || (part_length == 1 && part[0] == '.') ||
            (part_length == 2 && memcmp(part, "..", 2) == 0))
            return false;
        part += part_length;
        if (*part == '\0') return true;
        part++;
    }
}

/* Whether the first `length` bytes of a path are the path of a file of the list. */
static bool is_file(const gw_job_file *list, uint32_t count, const char *path, size_t length) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strncmp(list[middle].path, path, length);
        if (order == 0 && list[middle].path[length] == '\0') return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static bool check_path(const gw_job_file *list, uint32_t count, uint32_t at, gw_err *err) {
    const char *path = list[at].path;
    if (!gw_job_path_is_valid(path))
        return gw_fail(
            err, GW_E_USAGE,
            "a file that travels needs a relative name of printable characters without '..', of %d "
            "bytes at most: %.200s",
            GW_JOB_PATH_BYTES, path);
    if (at > 0 && strcmp(list[at - 1].path, path) >= 0)
        return gw_fail(err, GW_E_USAGE,
                       "files of a job are in the order of their names, and none comes twice: %.200s", path);
    for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++)
        if (is_file(list, count, path, (size_t)(slash - path)))
            return gw_fail(err, GW_E_USAGE, "a file of the job is a folder of another one: %.200s", path);
    return true;
}

static bool is_of_tasks(const gw_job_file *file) {
    return strcmp(file->path, GW_JOB_FILES_TASKS) == 0;
}

static bool check(const gw_job_file *list, uint32_t count, gw_err *err) {
    uint64_t bytes = 0;
    if (count == 0) return gw_fail(err, GW_E_USAGE, "no file travels with the job");
    if (count > GW_JOB_FILES_MOST)
        return gw_fail(err, GW_E_LIMIT, "%u files travel with the job; %d are allowed", count,
                       GW_JOB_FILES_MOST);
    for (uint32_t i = 0; i < count; i++) {
        if (!check_path(list, count, i, err)) return false;
        if (is_of_tasks(&list[i])) {
            if (list[i].bytes <= GW_JOB_FILES_TASKS_BYTES) continue;
            return gw_fail(err, GW_E_LIMIT, "the inputs of the map have more than %d MiB",
                           GW_JOB_FILES_TASKS_BYTES >> 20);
        }
        if (list[i].bytes > GW_JOB_FILES_BYTES || (bytes += list[i].bytes) > GW_JOB_FILES_BYTES)
            return gw_fail(err, GW_E_LIMIT, "the files of the job have more than %d MiB",
                           GW_JOB_FILES_BYTES >> 20);
    }
    return true;
}

static void put(gw_writer *w, const gw_job_file *list, uint32_t count) {
    gw_put_bytes(w, MAGIC, sizeof MAGIC);
    for (uint32_t i = 0; i < count; i++) {
        gw_put_string(w, list[i].path);
        gw_put_u8(w, list[i].executable);
        gw_put_u64(w, list[i].bytes);
        for (uint32_t k = 0; k < gw_chunk_count(list[i].bytes); k++) gw_put_hash(w, &list[i].chunks[k]);
    }
}

bool gw_job_files_write(const gw_job_file *list, uint32_t count, uint8_t **bytes, size_t *length,
                        gw_err *err) {
    if (!check(list, count, err)) return false;
    *bytes = malloc(GW_JOB_FILES_LIST_BYTES);
    GW_ASSERT_MEMORY(*bytes != NULL);
    gw_writer w = gw_writer_on(*bytes, GW_JOB_FILES_LIST_BYTES);
    put(&w, list, count);
    GW_ASSERT(!w.failed);
    *length = w.length;
    return true;
}

/* What was read points into these. */
typedef struct memory {
    gw_job_file list[GW_JOB_FILES_MOST];
    gw_hash chunks[CHUNKS_MOST];
    char texts[]; /* all paths; a string's length on the wire takes more bytes than its terminator */
} memory;

static void get_file(gw_reader *r, memory *m, size_t *texts, uint32_t *chunks, gw_job_file *file) {
    uint16_t length = gw_get_u16(r);
    const uint8_t *path = gw_get_view(r, length);
    uint8_t executable = gw_get_u8(r);
    file->bytes = gw_get_u64(r);
    r->failed |= path == NULL || executable > 1 || file->bytes > GW_JOB_FILES_TASKS_BYTES;
    uint32_t count = r->failed ? 0 : gw_chunk_count(file->bytes);
    r->failed |= count > CHUNKS_MOST - *chunks || (path != NULL && memchr(path, '\0', length) != NULL);
    if (r->failed) return;
    memcpy(m->texts + *texts, path, length);
    m->texts[*texts + length] = '\0';
    file->path = m->texts + *texts;
    *texts += (size_t)length + 1;
    file->executable = executable != 0;
    file->chunks = m->chunks + *chunks;
    for (uint32_t i = 0; i < count; i++) gw_get_hash(r, &m->chunks[(*chunks)++]);
}

bool gw_job_files_read(const void *bytes, size_t length, gw_job_files *files, gw_err *err) {
    static const char malformed[] = "the list of a job's files is malformed";
    size_t texts = 0;
    uint32_t chunks = 0;
    gw_err why;
    *files = (gw_job_files){.count = 0};
    if (length > GW_JOB_FILES_LIST_BYTES || length < sizeof MAGIC ||
        memcmp(bytes, MAGIC, sizeof MAGIC - 1) != 0)
        return gw_fail(err, GW_E_INVALID, "%s", malformed);
    gw_reader r = gw_reader_on(bytes, length);
    gw_get_view(&r, sizeof MAGIC - 1);
    uint8_t version = gw_get_u8(&r);
    if (version > VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "the list of a job's files is of version %u; this build reads %d", version, VERSION);
    memory *m = calloc(1, sizeof *m + length);
    GW_ASSERT_MEMORY(m != NULL);
    while (!r.failed && gw_reader_left(&r) > 0 && files->count < GW_JOB_FILES_MOST) {
        get_file(&r, m, &texts, &chunks, &m->list[files->count]);
        files->bytes += m->list[files->count].bytes;
        files->count++;
    }
    files->list = m->list;
    files->memory = m;
    if (version != VERSION || !gw_reader_done(&r)) {
        gw_job_files_free(files);
        return gw_fail(err, GW_E_INVALID, "%s", malformed);
    }
    if (check(files->list, files->count, &why)) return true;
    gw_job_files_free(files);
    return gw_fail(err, GW_E_INVALID, "%s: %s", malformed, why.text);
}

void gw_job_files_free(gw_job_files *files) {
    free(files->memory);
    *files = (gw_job_files){.count = 0};
}
