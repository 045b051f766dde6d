/* What a member reads from its disk and writes there for others, on a thread of its own:
 *
 *   {"do": "put", "chunks": [{"name": HEX32, "bytes": N}...]}    chunks of files, whose bytes follow; from commands alone
 *   {"do": "chunks", "names": [HEX32...] [, "job": ID]}          chunks of files, or of a job's checkpoints; as many of the
 *                                                                first ones as are here and fit, and their "lengths"
 *   {"do": "checkpoints", "job": ID}                             the newest ones of a job that are here
 *   {"do": "manifest", "job": ID, "job_id": HEX32, "step": N, "root": HEX32}
 *   {"do": "results", "job": ID}                                 what children of a job have left here, as files
 *   {"do": "result", "job": ID, "path": PATH, "offset": N}       a piece of such a file
 *   {"do": "rows", "job": ID, "offset": N}                       a piece of the rows of a map, and the "size" of them all
 *   {"do": "log", "job": ID, "stream": TEXT, "offset": N}        a piece of what a child writes (serve.c finds the node)
 */
#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/flock/beneath.h"
#include "tools/godwit/flock/history.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/flock/submission.h"
#include "tools/godwit/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ERRANDS = 256, CHECKPOINTS = 16, MANIFEST_BYTES = 12 << 20, PINNED_SWEEPS = 2, COPY_S = 3600 };

#define SWEEP_NS      (600 * GW_SECOND_NS)
#define WAIT_CLOSE_NS (5 * GW_SECOND_NS)

/* A request that the reader serves. */
typedef struct errand {
    gw_flock_member *m;
    gw_reply reply;
    int service;
    json_t *request;
    uint8_t *given;
    size_t given_count;
    gw_job_record_id line[GW_MEMBER_LINE];
    uint32_t line_count;
    char line_state[GW_MEMBER_LINE][GW_PATH_BYTES]; /* the directories of the peers of these jobs */
    char folder[GW_KEEPER_FOLDER_TEXT];             /* of the first of these jobs */
    bool runs;                                      /* a child of that job is here */
    json_t *answer;
    uint8_t *bytes;
    size_t count;
} errand;

static void refuse(errand *e, const char *text) {
    json_decref(e->answer);
    e->answer = json_object();
    gw_json_text(e->answer, "error", text);
}

static bool read_hash(const json_t *text, gw_hash *hash) {
    return gw_unhex(json_string_value(text), hash->bytes, sizeof hash->bytes);
}

/* Chunks. */

static void put(errand *e) {
    gw_store_item items[GW_STORE_BATCH];
    const json_t *list = json_object_get(e->request, "chunks");
    size_t count = json_array_size(list), at = 0;
    gw_err err;
    for (size_t i = 0; i < count && count <= GW_STORE_BATCH; i++) {
        const json_t *one = json_array_get(list, i);
        json_int_t bytes = json_integer_value(json_object_get(one, "bytes"));
        gw_hash name;
        if (bytes <= 0 || bytes > GW_CHUNK_BYTES || (size_t)bytes > e->given_count - at ||
            !read_hash(json_object_get(one, "name"), &items[i].name)) {
            refuse(e, "a chunk has a name and 1 to 4194304 bytes behind the request");
            return;
        }
        items[i].bytes = e->given + at;
        items[i].length = (uint32_t)bytes;
        gw_blake2b(items[i].bytes, items[i].length, name.bytes, sizeof name.bytes);
        if (!gw_hash_equal(&name, &items[i].name)) {
            refuse(e, "the bytes of a chunk do not have the hash that is its name");
            return;
        }
        at += (size_t)bytes;
    }
    if (count == 0 || count > GW_STORE_BATCH || at != e->given_count)
        refuse(e, "1 to 8 chunks are put at once, and their bytes follow");
    else if (!gw_store_put(e->m->chunks, gw_member_stock_tag(e->m), items, (uint32_t)count, &err))
        refuse(e, err.text);
}

/* Finds a chunk among those of files, or in the checkpoints of a job. `bytes` has room for a chunk. */
static bool find_chunk(const errand *e, gw_store *const *stores, uint32_t store_count, const gw_hash *name,
                       uint8_t *bytes, uint32_t *length, gw_err *err) {
    if (e->line_count == 0) return gw_store_find(e->m->chunks, name, bytes, length, err);
    gw_fail(err, GW_E_NOTFOUND, "this node has no such chunk");
    for (uint32_t i = 0; i < store_count; i++)
        if (gw_store_find(stores[i], name, bytes, length, err)) return true;
    return false;
}

static void read_chunks(errand *e, gw_store *const *stores, uint32_t store_count) {
    const json_t *names = json_object_get(e->request, "names");
    json_t *lengths = json_array();
    uint8_t *chunk = malloc(GW_CHUNK_BYTES);
    uint32_t length;
    gw_err err = {GW_E_INVALID, "chunks have names"};
    e->bytes = malloc(GW_CHUNK_BYTES);
    GW_ASSERT_MEMORY(chunk != NULL && e->bytes != NULL);
    for (size_t i = 0; i < json_array_size(names); i++) {
        gw_hash name;
        if (!read_hash(json_array_get(names, i), &name) ||
            !find_chunk(e, stores, store_count, &name, chunk, &length, &err) ||
            length > GW_CHUNK_BYTES - e->count)
            break;
        memcpy(e->bytes + e->count, chunk, length);
        e->count += length;
        json_array_append_new(lengths, json_integer(length));
    }
    free(chunk);
    if (e->count == 0) refuse(e, err.text);
    json_object_set_new(e->answer, "lengths", lengths);
}

static void serve_chunks(errand *e) {
    gw_store *stores[GW_MEMBER_LINE];
    uint32_t count = 0;
    char found[GW_PATH_BYTES];
    gw_err err;
    for (uint32_t i = 0; i < e->line_count; i++)
        if (gw_directory_find(e->line_state[i], found, &err) &&
            gw_store_open(found, GW_STORE_LOOK, NULL, &stores[count], &err))
            count++;
    read_chunks(e, stores, count);
    while (count > 0) gw_store_close(stores[--count]);
}

/* Checkpoints. */

static void list_checkpoints(errand *e) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < e->line_count; i++) {
        char found[GW_PATH_BYTES], of[GW_JOB_RECORD_ID_TEXT];
        gw_catalog catalog;
        gw_err err;
        if (!gw_directory_find(e->line_state[i], found, &err) ||
            !gw_catalog_load(gw_io_system(), found, &catalog, &err))
            continue;
        gw_hex(e->line[i].bytes, sizeof e->line[i].bytes, of);
        for (uint32_t k = 0; k < catalog.good_count && k < CHECKPOINTS; k++) {
            json_t *one = json_object();
            gw_json_text(one, "of", of);
            gw_json_hash(one, "job_id", &catalog.good[k].job_id);
            gw_json_count(one, "step", catalog.good[k].step);
            gw_json_count(one, "epoch", catalog.good[k].epoch);
            gw_json_hash(one, "root", &catalog.good[k].root);
            json_array_append_new(list, one);
        }
        gw_catalog_free(&catalog);
    }
    json_object_set_new(e->answer, "checkpoints", list);
}

static void read_manifest(errand *e) {
    char found[GW_PATH_BYTES];
    gw_hash job_id, root;
    gw_err err = {GW_E_NOTFOUND, "this node does not know the job"};
    void *bytes;
    size_t length;
    uint64_t step = (uint64_t)json_integer_value(json_object_get(e->request, "step"));
    if (!read_hash(json_object_get(e->request, "job_id"), &job_id) ||
        !read_hash(json_object_get(e->request, "root"), &root)) {
        refuse(e, "a manifest has a job_id and a root");
        return;
    }
    if (e->line_count == 0 || !gw_directory_find(e->line_state[0], found, &err) ||
        !gw_catalog_bytes(gw_io_system(), found, &job_id, step, &root, &bytes, &length, &err)) {
        refuse(e, err.text);
        return;
    }
    e->bytes = bytes;
    e->count = length;
    if (length <= MANIFEST_BYTES) return;
    e->count = 0;
    refuse(e, "the manifest is too large to be sent");
}

/* Results: what children have written to their streams and in work/. */

typedef struct listing {
    json_t *list;
    const char *prefix;
    bool more; /* than are told */
} listing;

static bool list_file(void *context, const char *path, const struct stat *status) {
    listing *l = context;
    char whole[GW_JOB_PATH_BYTES + 1];
    int length = snprintf(whole, sizeof whole, "%s%s", l->prefix, path);
    if (json_array_size(l->list) == GW_JOB_FILES_MOST) {
        l->more = true;
        return false;
    }
    if (length > GW_JOB_PATH_BYTES || !gw_job_path_is_valid(whole)) return true;
    json_t *one = json_object();
    gw_json_text(one, "path", whole);
    gw_json_count(one, "bytes", (uint64_t)status->st_size);
    gw_json_flag(one, "executable", (status->st_mode & S_IXUSR) != 0);
    json_array_append_new(l->list, one);
    return true;
}

static void list_results(errand *e) {
    static const char *const streams[] = {GW_KEEPER_OUT, GW_KEEPER_ERR};
    listing l = {.list = json_array(), .prefix = ""};
    struct stat status;
    gw_err err;
    int root = open(e->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; root >= 0 && i < sizeof streams / sizeof *streams; i++)
        if (fstatat(root, streams[i], &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
            list_file(&l, streams[i], &status);
    int work = root >= 0 ? openat(root, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    l.prefix = "work/";
    if (work >= 0 && !gw_beneath_list(work, list_file, &l, &err) && !l.more) refuse(e, err.text);
    if (work >= 0) close(work);
    if (root >= 0) close(root);
    gw_json_flag(e->answer, "more", l.more);
    json_object_set_new(e->answer, "files", l.list);
}

static void read_result(errand *e) {
    const char *path = json_string_value(json_object_get(e->request, "path"));
    json_int_t offset = json_integer_value(json_object_get(e->request, "offset"));
    struct stat status;
    gw_err err = {GW_E_NOTFOUND, "the job has left nothing here"};
    if (path == NULL || offset < 0 || !gw_job_path_is_valid(path) ||
        (strcmp(path, GW_KEEPER_OUT) != 0 && strcmp(path, GW_KEEPER_ERR) != 0 &&
         strncmp(path, "work/", 5) != 0)) {
        refuse(e, "this is no result of a job");
        return;
    }
    int root = open(e->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root >= 0 ? gw_beneath_open(root, path, &status, &err) : -1;
    e->bytes = malloc(GW_MEMBER_PIECE_BYTES);
    GW_ASSERT_MEMORY(e->bytes != NULL);
    ssize_t got = fd >= 0 ? pread(fd, e->bytes, GW_MEMBER_PIECE_BYTES, (off_t)offset) : -1;
    if (fd >= 0 && got < 0) gw_fail_errno(&err, errno, "%s cannot be read", path);
    if (got < 0)
        refuse(e, err.text);
    else
        e->count = (size_t)got;
    if (fd >= 0) close(fd);
    if (root >= 0) close(root);
}

/* Reads a piece of a file of the job's folder, from its end on where the offset is below 0, and tells the file's "size". */
static void read_piece(errand *e, const char *name) {
    json_int_t offset = json_integer_value(json_object_get(e->request, "offset"));
    struct stat status = {.st_size = 0};
    int root = open(e->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root >= 0 ? openat(root, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0 && fstat(fd, &status) == 0 && !S_ISREG(status.st_mode)) status.st_size = 0;
    if (offset < 0) offset = status.st_size + offset > 0 ? status.st_size + offset : 0;
    e->bytes = malloc(GW_MEMBER_PIECE_BYTES);
    GW_ASSERT_MEMORY(e->bytes != NULL);
    ssize_t got =
        fd >= 0 && S_ISREG(status.st_mode) ? pread(fd, e->bytes, GW_MEMBER_PIECE_BYTES, (off_t)offset) : 0;
    e->count = got > 0 ? (size_t)got : 0;
    gw_json_count(e->answer, "offset", (uint64_t)offset);
    gw_json_count(e->answer, "size", (uint64_t)status.st_size);
    if (fd >= 0) close(fd);
    if (root >= 0) close(root);
}

static void read_rows(errand *e) {
    read_piece(e, GW_CHILD_ROWS);
}

/* The name of the file of a stream: what the child writes, and of a map what its tasks do (tools/godwit/map/child), which may
 * be that of another member, of which there can be a copy here. False: there is no such stream. */
static bool name_stream(const errand *e, char name[2 * GW_ID_TEXT]) {
    static const char *const names[] = {GW_KEEPER_OUT, GW_KEEPER_ERR, GW_CHILD_ROWS, GW_CHILD_OUTPUTS,
                                        GW_JOB_HISTORY_NAME};
    const char *stream = json_string_value(json_object_get(e->request, "stream"));
    const json_t *of = json_object_get(e->request, "of");
    char whose[GW_ID_TEXT];
    gw_peer_id found;
    size_t i = 0;
    while (i < sizeof names / sizeof *names && (stream == NULL || strcmp(stream, names[i]) != 0)) i++;
    if (i == sizeof names / sizeof *names) return false;
    snprintf(name, 2 * GW_ID_TEXT, "%s", names[i]);
    if (of == NULL) return true;
    if (strcmp(stream, GW_CHILD_OUTPUTS) != 0 ||
        !gw_unhex(json_string_value(of), found.bytes, sizeof found.bytes))
        return false;
    gw_hex(found.bytes, sizeof found.bytes, whose);
    if (!gw_peer_id_equal(&found, &e->m->identity.id))
        snprintf(name, 2 * GW_ID_TEXT, "%s.%s", GW_CHILD_OUTPUTS, whose);
    return true;
}

static void read_log(errand *e) {
    char name[2 * GW_ID_TEXT];
    if (!name_stream(e, name)) {
        refuse(e, "a stream is out, err, rows, history, or outputs, which may be those of a node");
        return;
    }
    gw_json_peer(e->answer, "node", &e->m->identity.id);
    gw_json_text(e->answer, "name", e->m->claims.name);
    gw_json_flag(e->answer, "running", e->runs);
    read_piece(e, name);
}

/* Errands. */

/* What the reader serves. */
static const struct {
    const char *what;
    void (*serve)(errand *e);
    bool from_commands_alone, of_a_job;
} services[] = {
    {"put", put, true, false},
    {"chunks", serve_chunks, false, false},
    {"checkpoints", list_checkpoints, false, true},
    {"manifest", read_manifest, false, true},
    {"results", list_results, false, true},
    {"result", read_result, false, true},
    {"rows", read_rows, false, true},
    {"log", read_log, false, true},
};
enum { SERVICES = sizeof services / sizeof *services };

static int service_of(const json_t *request, bool from_command) {
    const char *what = json_string_value(json_object_get(request, "do"));
    for (int i = 0; i < SERVICES; i++)
        if (strcmp(services[i].what, what) == 0 && (from_command || !services[i].from_commands_alone))
            return i;
    return -1;
}

static void finish(void *context) {
    errand *e = context;
    e->m->errands--;
    gw_member_answer(e->m, &e->reply, e->answer, e->count > 0 ? e->bytes : NULL, e->count);
    json_decref(e->request);
    free(e->given);
    free(e->bytes);
    free(e);
}

static void run(void *context) {
    errand *e = context;
    gw_err err;
    e->answer = json_object();
    services[e->service].serve(e);
    if (!gw_loop_post(e->m->loop, finish, e, &err)) gw_log(GW_ERROR, "flock", "%s", err.text);
}

uint32_t gw_member_line_of(const gw_flock_member *m, const gw_job_record_id *id, gw_job_record_id *ids) {
    static const gw_job_record_id none;
    gw_job_record_id next = *id;
    uint32_t count = 0;
    while (count < GW_MEMBER_LINE && !gw_job_record_id_equal(&next, &none)) {
        ids[count++] = next;
        next = gw_job_records_tries_again(m->records, &next);
    }
    return count;
}

/* Finds the folders of the job of a request. False: it names none that can be. */
static bool find_folders(errand *e) {
    const json_t *job = json_object_get(e->request, "job");
    char folder[GW_KEEPER_FOLDER_TEXT];
    gw_job_record_id id;
    gw_err err;
    if (job == NULL) return !services[e->service].of_a_job;
    if (!gw_submission_read_id(json_string_value(job), &id)) return false;
    e->line_count = gw_member_line_of(e->m, &id, e->line);
    e->runs = gw_children_find(e->m->children, &id) != NULL;
    for (uint32_t i = 0; i < e->line_count; i++)
        if (!gw_children_folder(e->m->children, &e->line[i], folder, &err) ||
            !gw_durable_path(e->line_state[i], &err, "%s/state", folder))
            return false;
    return gw_children_folder(e->m->children, &id, e->folder, &err);
}

bool gw_member_stock_serve(gw_flock_member *m, const gw_reply *reply, const json_t *request,
                           const void *bytes, size_t count) {
    int service = service_of(request, reply->call != NULL);
    if (service < 0) return false;
    if (m->errands == ERRANDS) {
        gw_member_refuse(m, reply, "too many requests wait for the disk of this node: try again");
        return true;
    }
    errand *e = calloc(1, sizeof *e);
    GW_ASSERT_MEMORY(e != NULL);
    e->m = m;
    e->service = service;
    e->reply = *reply;
    e->request = json_deep_copy(request);
    e->given = count > 0 ? malloc(count) : NULL;
    e->given_count = count;
    GW_ASSERT_MEMORY(e->request != NULL && (count == 0 || e->given != NULL));
    if (count > 0) memcpy(e->given, bytes, count);
    if (!find_folders(e)) {
        gw_member_refuse(m, reply, "this names no job");
        json_decref(e->request);
        free(e->given);
        free(e);
        return true;
    }
    m->errands++;
    gw_helper_give(m->reader, run, e);
    return true;
}

/* Removing what no record needs. */

uint64_t gw_member_stock_tag(const gw_flock_member *m) {
    return atomic_load(&m->sweeps);
}

typedef struct sweep {
    gw_flock_member *m;
    gw_job_record_id *done; /* jobs of steps */
    uint32_t done_count;
    gw_hash *lists;
    uint32_t list_count;
    gw_hash *needed;
    size_t needed_count, room;
    uint64_t number;
} sweep;

static void need(sweep *s, const gw_hash *name) {
    if (s->needed_count == s->room) {
        s->room = 2 * s->room + 64;
        s->needed = realloc(s->needed, s->room * sizeof *s->needed);
        GW_ASSERT_MEMORY(s->needed != NULL);
    }
    s->needed[s->needed_count++] = *name;
}

static void need_list(sweep *s, const gw_hash *list, uint8_t *bytes) {
    gw_job_files files;
    gw_err err;
    uint32_t length;
    need(s, list);
    if (!gw_store_find(s->m->chunks, list, bytes, &length, &err) ||
        !gw_job_files_read(bytes, length, &files, &err))
        return; /* it is not here: nor does anybody fetch its chunks who has not pinned them */
    for (uint32_t i = 0; i < files.count; i++)
        for (uint32_t k = 0; k < gw_chunk_count(files.list[i].bytes); k++) need(s, &files.list[i].chunks[k]);
    gw_job_files_free(&files);
}

/* Removes the folder of a job. With `copies`, only where no child of it has ever run here, so that it holds a copy of
 * another node's checkpoint alone, and is old. */
static void remove_folder(int jobs, const gw_job_record_id *id, bool copies) {
    char name[GW_JOB_RECORD_ID_TEXT], path[2 * GW_JOB_RECORD_ID_TEXT];
    struct stat status;
    gw_err err;
    gw_hex(id->bytes, sizeof id->bytes, name);
    if (fstatat(jobs, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    snprintf(path, sizeof path, "%s/%s", name, GW_CHILD_KIND_NAME);
    if (copies && (faccessat(jobs, path, F_OK, 0) == 0 || status.st_mtime + COPY_S > time(NULL))) return;
    if (!gw_beneath_remove(jobs, name, &err)) gw_log(GW_WARN, "flock", "the folder of a job: %s", err.text);
}

static int open_jobs(const gw_flock_member *m) {
    char path[GW_PATH_BYTES];
    gw_err err;
    return gw_durable_path(path, &err, "%s/jobs", m->directory.path)
               ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
               : -1;
}

static void run_sweep(void *context) {
    sweep *s = context;
    int jobs = open_jobs(s->m);
    for (uint32_t i = 0; i < s->done_count && jobs >= 0; i++) remove_folder(jobs, &s->done[i], true);
    if (jobs >= 0) close(jobs);
    uint8_t *bytes = malloc(GW_CHUNK_BYTES);
    gw_store_swept swept;
    gw_err err;
    GW_ASSERT_MEMORY(bytes != NULL);
    for (uint32_t i = 0; i < s->list_count; i++) need_list(s, &s->lists[i], bytes);
    if (s->number > PINNED_SWEEPS) gw_store_release(s->m->chunks, s->number - PINNED_SWEEPS - 1);
    if (!gw_store_sweep(s->m->chunks, s->needed, s->needed_count, &swept, &err))
        gw_log(GW_WARN, "flock", "files that no job needs any more cannot be removed: %s", err.text);
    else if (swept.deleted > 0)
        gw_log(GW_INFO, "flock", "%u chunks of files that no job needs any more are removed", swept.deleted);
    free(bytes);
    free(s->done);
    free(s->lists);
    free(s->needed);
    free(s);
}

/* The lists of the files of all jobs whose specifications are known: a job that is over may be tried again. */
static void begin_sweep(void *context) {
    gw_flock_member *m = context;
    uint32_t count = gw_job_records_count(m->records);
    gw_hash none = {{0}};
    gw_err err;
    sweep *s = calloc(1, sizeof *s);
    GW_ASSERT_MEMORY(s != NULL);
    s->m = m;
    char **builds = calloc(count + 1, sizeof *builds);
    uint32_t build_count = 0;
    s->lists = calloc(count + 1, sizeof *s->lists);
    s->done = calloc(count + 1, sizeof *s->done);
    GW_ASSERT_MEMORY(s->lists != NULL && s->done != NULL && builds != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const gw_job_record *record = gw_job_records_at(m->records, i);
        gw_job_spec spec;
        if (record->spec == NULL || !gw_job_spec_read(record->spec, record->spec_bytes, &spec, &err))
            continue;
        if (!gw_hash_equal(&spec.files, &none)) s->lists[s->list_count++] = spec.files;
        if (spec.kind == GW_JOB_RUN && gw_job_record_is_done(record) &&
            gw_children_find(m->children, &record->id) == NULL && !gw_member_is_preparing(m, &record->id))
            s->done[s->done_count++] = record->id;
        if (spec.build != NULL && !gw_job_record_is_over(record)) {
            builds[build_count] = strdup(spec.build);
            GW_ASSERT_MEMORY(builds[build_count++] != NULL);
        }
        gw_job_spec_free(&spec);
    }
    gw_member_builds_tidy(m, builds, build_count);
    s->number = atomic_fetch_add(&m->sweeps, 1) + 1;
    gw_helper_give(m->reader, run_sweep, s);
    if (!gw_timer_set(m->loop, &m->sweep_timer, gw_now_ns() + SWEEP_NS, begin_sweep, m, &err))
        gw_log(GW_ERROR, "flock", "%s", err.text);
}

typedef struct removal {
    gw_flock_member *m;
    uint32_t count;
    gw_job_record_id ids[];
} removal;

static void run_removal(void *context) {
    removal *r = context;
    int jobs = open_jobs(r->m);
    for (uint32_t i = 0; i < r->count && jobs >= 0; i++) remove_folder(jobs, &r->ids[i], false);
    if (jobs >= 0) close(jobs);
    free(r);
}

void gw_member_stock_forget(gw_flock_member *m, const gw_job_record_id *ids, uint32_t count) {
    removal *r = calloc(1, sizeof *r + count * sizeof *ids);
    GW_ASSERT_MEMORY(r != NULL);
    r->m = m;
    r->count = count;
    memcpy(r->ids, ids, count * sizeof *ids);
    gw_helper_give(m->reader, run_removal, r);
    begin_sweep(m);
}

/* Opening and closing. */

bool gw_member_stock_open(gw_flock_member *m, gw_err *err) {
    atomic_store(&m->sweeps, 1);
    m->reader = gw_helper_open("flock-read", err);
    return m->reader != NULL &&
           gw_store_open(m->directory.path, GW_STORE_WRITE, &m->directory.io, &m->chunks, err) &&
           gw_timer_set(m->loop, &m->sweep_timer, gw_now_ns() + SWEEP_NS, begin_sweep, m, err);
}

bool gw_member_stock_close(gw_flock_member *m) {
    gw_timer_cancel(&m->sweep_timer);
    if (!gw_helper_close_until(m->reader, gw_now_ns() + WAIT_CLOSE_NS)) return false;
    m->reader = NULL;
    gw_loop_turn(m->loop, 0); /* answers that have been posted */
    gw_store_close(m->chunks);
    return true;
}
