/* What a member reads from its disk and writes there for others, on a thread of its own:
 *
 *   {"do": "put", "chunks": [{"name": HEX32, "bytes": N}...]}    chunks of files, whose bytes follow; from commands alone
 *   {"do": "chunks", "names": [HEX32...] [, "job": ID]}          chunks of files, or of a job's checkpoints; as many of the
 *                                                                first ones as are here and fit, and their "lengths"
 *   {"do": "checkpoints", "job": ID}                             the newest ones of a job that are here
 *   {"do": "manifest", "job": ID, "job_id": HEX32, "step": N, "root": HEX32}
 */
#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/flock/submission.h"
#include "tools/godwit/text/json.h"

#include <stdlib.h>
#include <string.h>

enum { ERRANDS = 256, CHECKPOINTS = 16, MANIFEST_BYTES = 12 << 20, PINNED_SWEEPS = 2 };

#define SWEEP_NS      (600 * GW_SECOND_NS)
#define WAIT_CLOSE_NS (5 * GW_SECOND_NS)

/* A request that the reader serves. */
typedef struct errand {
    gw_flock_member *m;
    gw_reply reply;
    json_t *request;
    uint8_t *given;
    size_t given_count;
    gw_job_record_id line[GW_MEMBER_LINE];
    uint32_t line_count;
    char line_state[GW_MEMBER_LINE][GW_PATH_BYTES]; /* the directories of the peers of these jobs */
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
    const char *digits = json_string_value(text);
    size_t count = 2 * sizeof hash->bytes;
    if (digits == NULL || strlen(digits) != count || strspn(digits, "0123456789abcdef") != count)
        return false;
    for (size_t i = 0; i < sizeof hash->bytes; i++) sscanf(digits + 2 * i, "%2hhx", &hash->bytes[i]);
    return true;
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

/* Errands. */

static bool is_put(const json_t *request) {
    return strcmp(json_string_value(json_object_get(request, "do")), "put") == 0;
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
    const char *what = json_string_value(json_object_get(e->request, "do"));
    gw_err err;
    e->answer = json_object();
    if (is_put(e->request))
        put(e);
    else if (strcmp(what, "chunks") == 0)
        serve_chunks(e);
    else if (strcmp(what, "checkpoints") == 0)
        list_checkpoints(e);
    else
        read_manifest(e);
    if (!gw_loop_post(e->m->loop, finish, e, &err)) gw_log(GW_ERROR, "flock", "%s", err.text);
}

uint32_t gw_member_line_of(const gw_flock_member *m, const gw_job_record_id *id, gw_job_record_id *ids) {
    static const gw_job_record_id none;
    gw_job_record_id next = *id;
    uint32_t count = 0;
    while (count < GW_MEMBER_LINE && !gw_job_record_id_equal(&next, &none)) {
        const gw_job_record *record = gw_job_records_find(m->records, &next);
        gw_job_spec spec;
        gw_err err;
        ids[count++] = next;
        if (record == NULL || record->spec == NULL ||
            !gw_job_spec_read(record->spec, record->spec_bytes, &spec, &err))
            break;
        next = spec.adopts;
        gw_job_spec_free(&spec);
    }
    return count;
}

/* Finds the folders of the job of a request. False: it names none that can be. */
static bool find_folders(errand *e) {
    const json_t *job = json_object_get(e->request, "job");
    char folder[GW_KEEPER_FOLDER_TEXT];
    gw_job_record_id id;
    gw_err err;
    if (job == NULL) return true;
    if (!gw_submission_read_id(json_string_value(job), &id)) return false;
    e->line_count = gw_member_line_of(e->m, &id, e->line);
    for (uint32_t i = 0; i < e->line_count; i++)
        if (!gw_children_folder(e->m->children, &e->line[i], folder, &err) ||
            !gw_durable_path(e->line_state[i], &err, "%s/state", folder))
            return false;
    return true;
}

bool gw_member_stock_serve(gw_flock_member *m, const gw_reply *reply, const json_t *request,
                           const void *bytes, size_t count) {
    const char *what = json_string_value(json_object_get(request, "do"));
    bool writes = strcmp(what, "put") == 0 && reply->call != NULL;
    if (!writes && strcmp(what, "chunks") != 0 && strcmp(what, "checkpoints") != 0 &&
        strcmp(what, "manifest") != 0)
        return false;
    if (m->errands == ERRANDS) {
        gw_member_refuse(m, reply, "too many requests wait for the disk of this node: try again");
        return true;
    }
    errand *e = calloc(1, sizeof *e);
    GW_ASSERT_MEMORY(e != NULL);
    e->m = m;
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

static void run_sweep(void *context) {
    sweep *s = context;
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
    s->lists = calloc(count + 1, sizeof *s->lists);
    GW_ASSERT_MEMORY(s->lists != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const gw_job_record *record = gw_job_records_at(m->records, i);
        gw_job_spec spec;
        if (record->spec == NULL || !gw_job_spec_read(record->spec, record->spec_bytes, &spec, &err))
            continue;
        if (!gw_hash_equal(&spec.files, &none)) s->lists[s->list_count++] = spec.files;
        gw_job_spec_free(&spec);
    }
    s->number = atomic_fetch_add(&m->sweeps, 1) + 1;
    gw_helper_give(m->reader, run_sweep, s);
    if (!gw_timer_set(m->loop, &m->sweep_timer, gw_now_ns() + SWEEP_NS, begin_sweep, m, &err))
        gw_log(GW_ERROR, "flock", "%s", err.text);
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
