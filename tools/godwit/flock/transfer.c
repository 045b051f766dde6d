#include "tools/godwit/flock/transfer.h"

#include "checkpoint/catalog.h"
#include "checkpoint/restore.h"
#include "core/base/assert.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/os/condition.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/flock/submission.h"
#include "tools/godwit/text/json.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 256, RESTORE_THREADS = 4, TAG = 1 };

/* Asking. */

struct gw_member_ask {
    gw_flock_member *m;
    gw_peer_id to;
    json_t *request;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    bool answered;
    json_t *answer;
    void *bytes;
    size_t count;
};

void gw_transfer_answered(gw_member_ask *ask, json_t *answer, const void *bytes, size_t count) {
    void *copy = count > 0 ? malloc(count) : NULL;
    GW_ASSERT_MEMORY(count == 0 || copy != NULL);
    if (count > 0) memcpy(copy, bytes, count);
    pthread_mutex_lock(&ask->lock);
    ask->answer = answer;
    ask->bytes = copy;
    ask->count = count;
    ask->answered = true;
    pthread_cond_signal(&ask->wake); /* under the lock: the thread frees the ask when it has it */
    pthread_mutex_unlock(&ask->lock);
}

static void pass_on(void *context) {
    gw_member_ask *ask = context;
    gw_reply reply = {.ask = ask};
    if (atomic_load(&ask->m->closing))
        gw_member_refuse(ask->m, &reply, "this member ends");
    else if (!gw_peer_id_equal(&ask->to, &ask->m->identity.id))
        gw_member_pass_on(ask->m, &reply, &ask->to, ask->request);
    else if (!gw_member_stock_serve(ask->m, &reply, ask->request, NULL, 0))
        gw_member_refuse(ask->m, &reply, "this is asked of others alone");
}

json_t *gw_transfer_ask(gw_flock_member *m, const gw_peer_id *to, json_t *request, void **bytes,
                        size_t *count, gw_err *err) {
    gw_member_ask ask = {.m = m, .to = *to, .request = request};
    *bytes = NULL;
    *count = 0;
    pthread_mutex_init(&ask.lock, NULL);
    gw_cond_init(&ask.wake);
    bool posted = !atomic_load(&m->closing) && gw_loop_post(m->loop, pass_on, &ask, err);
    pthread_mutex_lock(&ask.lock);
    while (posted && !ask.answered) pthread_cond_wait(&ask.wake, &ask.lock);
    pthread_mutex_unlock(&ask.lock);
    pthread_cond_destroy(&ask.wake);
    pthread_mutex_destroy(&ask.lock);
    json_decref(request);
    const char *why = json_string_value(json_object_get(ask.answer, "error"));
    if (ask.answer != NULL && why == NULL) {
        *bytes = ask.bytes;
        *count = ask.count;
        return ask.answer;
    }
    if (atomic_load(&m->closing))
        gw_fail(err, GW_E_ABORTED, "this member ends");
    else if (why != NULL)
        gw_fail(err, GW_E_NOTFOUND, "%s", why);
    json_decref(ask.answer);
    free(ask.bytes);
    return NULL;
}

/* Chunks. */

/* Names of chunks, and their bytes one behind the other as far as a member has sent them. */
typedef struct chunks {
    const gw_hash *names;
    uint32_t count;
    const char *job; /* digits of the job of whose checkpoints they are; NULL: of files */
    void *bytes;
    uint32_t lengths[GW_STORE_BATCH];
    uint32_t got;
} chunks;

static json_t *request_of(const chunks *c) {
    json_t *request = json_object(), *names = json_array();
    char text[GW_HASH_TEXT];
    gw_json_text(request, "do", "chunks");
    gw_json_text(request, "job", c->job);
    for (uint32_t i = 0; i < c->count; i++) {
        gw_hex(c->names[i].bytes, sizeof c->names[i].bytes, text);
        json_array_append_new(names, json_string(text));
    }
    json_object_set_new(request, "names", names);
    return request;
}

/* Takes those of an answer's chunks whose bytes have their names. Returns whether all of them have. */
static bool take_chunks(chunks *c, const json_t *answer, const uint8_t *bytes, size_t count) {
    const json_t *lengths = json_object_get(answer, "lengths");
    size_t at = 0;
    for (c->got = 0; c->got < c->count && c->got < json_array_size(lengths); c->got++) {
        json_int_t length = json_integer_value(json_array_get(lengths, c->got));
        gw_hash name;
        if (length <= 0 || length > GW_CHUNK_BYTES || (size_t)length > count - at) return false;
        gw_blake2b(bytes + at, (size_t)length, name.bytes, sizeof name.bytes);
        if (!gw_hash_equal(&name, &c->names[c->got])) return false;
        c->lengths[c->got] = (uint32_t)length;
        at += (size_t)length;
    }
    return true;
}

/* Fetches the first of the chunks, and more of them where the member that has it has them too. The caller frees the
 * bytes. */
static bool fetch_chunks(gw_transfer *t, chunks *c, gw_err *err) {
    uint32_t first = atomic_load(&t->first);
    gw_fail(err, GW_E_NOTFOUND, "no other node is there");
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t at = (first + i) % t->count;
        size_t count;
        json_t *answer = gw_transfer_ask(t->m, &t->peers[at], request_of(c), &c->bytes, &count, err);
        if (answer == NULL && err->code == GW_E_ABORTED) return false;
        if (answer == NULL) continue;
        bool good = take_chunks(c, answer, c->bytes, count);
        json_decref(answer);
        if (!good) {
            char text[GW_SHORT_TEXT];
            gw_log(GW_WARN, "flock", "the node %s has sent other bytes than were asked of it",
                   gw_peer_id_short(&t->peers[at], text));
        }
        if (c->got > 0) {
            atomic_store(&t->first, at);
            return true;
        }
        free(c->bytes);
        c->bytes = NULL;
        gw_fail(err, GW_E_NOTFOUND, "what another node has sent is not what was asked for");
    }
    return false;
}

/* Files. */

static bool store_chunks(gw_flock_member *m, const chunks *c, gw_err *err) {
    gw_store_item items[GW_STORE_BATCH];
    const uint8_t *bytes = c->bytes;
    for (uint32_t i = 0; i < c->got; i++) {
        items[i] = (gw_store_item){.name = c->names[i], .bytes = bytes, .length = c->lengths[i]};
        bytes += c->lengths[i];
    }
    return gw_store_put(m->chunks, gw_member_stock_tag(m), items, c->got, err);
}

/* Fetches and stores chunks of files; `count` may be any. */
static bool bring_chunks(gw_transfer *t, const gw_hash *names, uint32_t count, gw_err *err) {
    while (count > 0) {
        chunks c = {.names = names, .count = count < GW_STORE_BATCH ? count : GW_STORE_BATCH};
        bool good = fetch_chunks(t, &c, err) && store_chunks(t->m, &c, err);
        free(c.bytes);
        if (!good) return false;
        names += c.got;
        count -= c.got;
    }
    return true;
}

static bool read_list(gw_transfer *t, const gw_hash *name, gw_job_files *files, gw_err *err) {
    uint8_t *bytes = malloc(GW_CHUNK_BYTES);
    uint32_t length;
    GW_ASSERT_MEMORY(bytes != NULL);
    bool good = gw_store_find(t->m->chunks, name, bytes, &length, err) ||
                (bring_chunks(t, name, 1, err) && gw_store_find(t->m->chunks, name, bytes, &length, err));
    good = good && gw_job_files_read(bytes, length, files, err);
    free(bytes);
    return good;
}

bool gw_transfer_files(gw_transfer *t, const gw_hash *list, gw_job_files *files, gw_err *err) {
    if (!read_list(t, list, files, err)) return gw_fail_in(err, "the files that travel with the job");
    gw_hash *missing = NULL;
    uint32_t count = 0, room = 0;
    for (uint32_t i = 0; i < files->count; i++) {
        const gw_job_file *file = &files->list[i];
        for (uint32_t k = 0; k < gw_chunk_count(file->bytes); k++) {
            if (gw_store_has(t->m->chunks, &file->chunks[k], gw_chunk_length(file->bytes, k))) continue;
            if (count == room) {
                room = 2 * room + 64;
                missing = realloc(missing, room * sizeof *missing);
                GW_ASSERT_MEMORY(missing != NULL);
            }
            missing[count++] = file->chunks[k];
        }
    }
    bool good = bring_chunks(t, missing, count, err);
    free(missing);
    if (good) return true;
    gw_job_files_free(files);
    return gw_fail_in(err, "the files that travel with the job");
}

/* Checkpoints. */

/* A checkpoint that somebody has. */
typedef struct candidate {
    gw_manifest manifest; /* its job, step, root and epoch alone */
    uint32_t peer;        /* index of the member that has told it */
    gw_job_record_id of;  /* the job in whose folder it is there */
} candidate;

typedef struct search {
    gw_transfer *t;
    const gw_job_record_id *job;
    char job_text[GW_JOB_RECORD_ID_TEXT];
    gw_store *store;
    candidate list[CANDIDATES];
    uint32_t count;
} search;

static bool read_hash(const json_t *object, const char *key, gw_hash *hash) {
    return gw_unhex(json_string_value(json_object_get(object, key)), hash->bytes, sizeof hash->bytes);
}

static void take_candidates(search *s, uint32_t peer, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list) && s->count < CANDIDATES; i++) {
        const json_t *one = json_array_get(list, i);
        candidate *c = &s->list[s->count];
        *c = (candidate){.peer = peer};
        c->manifest.step = (uint64_t)json_integer_value(json_object_get(one, "step"));
        c->manifest.epoch = (uint64_t)json_integer_value(json_object_get(one, "epoch"));
        s->count += read_hash(one, "job_id", &c->manifest.job_id) &&
                    read_hash(one, "root", &c->manifest.root) &&
                    gw_submission_read_id(json_string_value(json_object_get(one, "of")), &c->of);
    }
}

static bool ask_for_checkpoints(search *s, gw_err *err) {
    for (uint32_t i = 0; i < s->t->count; i++) {
        void *bytes;
        size_t count;
        json_t *request = json_pack("{s:s,s:s}", "do", "checkpoints", "job", s->job_text);
        json_t *answer = gw_transfer_ask(s->t->m, &s->t->peers[i], request, &bytes, &count, err);
        if (answer == NULL && err->code == GW_E_ABORTED) return false;
        take_candidates(s, i, json_object_get(answer, "checkpoints"));
        json_decref(answer);
        free(bytes);
    }
    return true;
}

/* Whether all chunks of a manifest are in the store. Their bytes are verified when they are read. */
static bool is_whole(gw_store *store, const gw_manifest *manifest) {
    for (uint32_t i = 0; i < manifest->chunk_count; i++)
        if (!gw_store_has(store, &manifest->chunks[i], gw_chunk_length(manifest->state_bytes, i)))
            return false;
    return true;
}

static bool fetch_state_chunk(void *context, uint32_t index, uint32_t *asked, const gw_hash *name,
                              void *bytes, uint32_t length, gw_err *err) {
    const search *s = context;
    chunks c = {.names = name, .count = 1, .job = s->job_text};
    (void)index;
    if ((*asked)++ > 0) return gw_fail(err, GW_E_NOTFOUND, "no other node has it"); /* all were asked */
    bool good = fetch_chunks(s->t, &c, err) &&
                (c.lengths[0] == length || gw_fail(err, GW_E_CORRUPT, "it has %u bytes", c.lengths[0]));
    if (good) memcpy(bytes, c.bytes, length);
    free(c.bytes);
    return good;
}

static bool keep(void *context, uint32_t index) {
    (void)context;
    (void)index;
    return true;
}

static bool write_nothing(void *context, uint64_t offset, const void *bytes, uint32_t length, gw_err *err) {
    (void)context;
    (void)offset;
    (void)bytes;
    (void)length;
    (void)err;
    return true;
}

/* Brings the chunks of a manifest into the store. */
static bool bring_state(search *s, const gw_manifest *manifest, gw_err *err) {
    gw_restore_stats stats;
    gw_restore restore = {.manifest = manifest,
                          .store = s->store,
                          .tag = TAG,
                          .fetch = fetch_state_chunk,
                          .keep = keep,
                          .write = write_nothing,
                          .context = s,
                          .threads = RESTORE_THREADS};
    if (is_whole(s->store, manifest)) return true;
    if (!gw_restore_run(&restore, &stats, err)) return false;
    if (stats.unstored == 0) return true;
    *err = stats.unstored_err;
    return false;
}

/* Reads the manifest of a candidate, from this disk or from the member that has told it. The caller frees the bytes. */
static bool read_manifest(search *s, const candidate *c, void **bytes, size_t *length, gw_err *err) {
    char of[GW_JOB_RECORD_ID_TEXT];
    const gw_manifest *m = &c->manifest;
    if (gw_catalog_bytes(gw_store_io(s->store), gw_store_dir(s->store), &m->job_id, m->step, &m->root, bytes,
                         length, err))
        return true;
    if (c->peer == UINT32_MAX) return false;
    gw_hex(c->of.bytes, sizeof c->of.bytes, of);
    json_t *request = json_pack("{s:s,s:s}", "do", "manifest", "job", of);
    gw_json_count(request, "step", m->step);
    gw_json_hash(request, "job_id", &m->job_id);
    gw_json_hash(request, "root", &m->root);
    json_t *answer = gw_transfer_ask(s->t->m, &s->t->peers[c->peer], request, bytes, length, err);
    json_decref(answer);
    return answer != NULL;
}

/* Brings a checkpoint. *best becomes the one of the best evaluation up to it. */
static bool bring_checkpoint(search *s, const candidate *c, gw_checkpoint_ref *best, gw_err *err) {
    void *bytes = NULL;
    size_t length = 0;
    double value;
    gw_manifest manifest;
    if (!read_manifest(s, c, &bytes, &length, err) || !gw_manifest_decode(bytes, length, &manifest, err)) {
        free(bytes);
        return false;
    }
    bool good = (gw_hash_equal(&manifest.root, &c->manifest.root) && manifest.step == c->manifest.step) ||
                gw_fail(err, GW_E_NOTFOUND, "the manifest is of another checkpoint");
    if (c->peer != UINT32_MAX) atomic_store(&s->t->first, c->peer);
    good = good && bring_state(s, &manifest, err) &&
           gw_catalog_save(gw_store_io(s->store), gw_store_dir(s->store), bytes, length, err);
    gw_store_release(s->store, TAG);
    *best = gw_manifest_best(&manifest, &value);
    gw_manifest_free(&manifest);
    free(bytes);
    return good;
}

static bool own_candidates(search *s, gw_err *err) {
    gw_catalog catalog;
    if (!gw_catalog_load(gw_store_io(s->store), gw_store_dir(s->store), &catalog, err)) return false;
    for (uint32_t i = 0; i < catalog.good_count && s->count < CANDIDATES; i++) {
        candidate *c = &s->list[s->count++];
        *c = (candidate){.peer = UINT32_MAX, .of = *s->job};
        c->manifest.job_id = catalog.good[i].job_id;
        c->manifest.step = catalog.good[i].step;
        c->manifest.epoch = catalog.good[i].epoch;
        c->manifest.root = catalog.good[i].root;
    }
    gw_catalog_free(&catalog);
    return true;
}

/* Brings the checkpoint of the best evaluation, where it is another one than the newest. Returns whether it is here. */
static bool bring_best(search *s, const candidate *newest, const gw_checkpoint_ref *best) {
    gw_checkpoint_ref none;
    gw_err err = {GW_E_NOTFOUND, "no node has it"};
    if (best->step == 0 || gw_hash_equal(&best->root, &newest->manifest.root)) return false;
    for (uint32_t i = 0; i < s->count; i++)
        if (gw_hash_equal(&s->list[i].manifest.root, &best->root) &&
            gw_hash_equal(&s->list[i].manifest.job_id, &newest->manifest.job_id) &&
            bring_checkpoint(s, &s->list[i], &none, &err))
            return true;
    gw_log(GW_WARN, "flock",
           "the checkpoint of the best evaluation of job %.8s, of step %llu, cannot be had: %s", s->job_text,
           (unsigned long long)best->step, err.text);
    return false;
}

/* Removes all checkpoints of the job but these, and the chunks that none needs any more. */
static bool drop_others(search *s, const candidate *newest, const gw_hash *kept, uint32_t kept_count,
                        gw_err *err) {
    gw_hash *needed = NULL;
    size_t needed_count = 0;
    bool complete = false;
    gw_store_swept swept;
    gw_err why;
    bool good = gw_catalog_retain(gw_store_io(s->store), gw_store_dir(s->store), &newest->manifest.job_id,
                                  kept, kept_count, &needed, &needed_count, &complete, &why, err) &&
                (!complete || gw_store_sweep(s->store, needed, needed_count, &swept, err));
    free(needed);
    return good;
}

static bool bring_newest(search *s, bool alone, uint64_t *step, gw_err *err) {
    const gw_manifest *order[CANDIDATES];
    gw_checkpoint_ref best;
    *step = 0;
    if (!own_candidates(s, err) || !ask_for_checkpoints(s, err)) return false;
    for (uint32_t i = 0; i < s->count; i++) order[i] = &s->list[i].manifest;
    gw_catalog_order(order, s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        const candidate *c = (const candidate *)order[i]; /* its first member */
        if (bring_checkpoint(s, c, &best, err)) {
            gw_hash kept[] = {c->manifest.root, best.root};
            *step = c->manifest.step;
            uint32_t count = bring_best(s, c, &best) ? 2 : 1;
            return !alone || drop_others(s, c, kept, count, err);
        }
        if (err->code == GW_E_ABORTED || err->code == GW_E_IO) return false;
        gw_log(GW_WARN, "flock", "the checkpoint of step %llu of job %.8s cannot be had: %s",
               (unsigned long long)c->manifest.step, s->job_text, err->text);
    }
    return s->count == 0 ||
           gw_fail(err, GW_E_NOTFOUND, "none of the %u checkpoints that nodes know can be had whole now",
                   s->count);
}

bool gw_transfer_checkpoint(gw_transfer *t, const gw_job_record_id *job, const char *state, bool alone,
                            uint64_t *step, gw_err *err) {
    gw_directory directory = {.fd = -1};
    gw_dirlock lock = {-1};
    search *s = calloc(1, sizeof *s);
    GW_ASSERT_MEMORY(s != NULL);
    s->t = t;
    s->job = job;
    gw_hex(job->bytes, sizeof job->bytes, s->job_text);
    bool good = gw_directory_open(state, &directory, err) &&
                gw_dirlock_take(&directory.io, directory.path, &lock, err) &&
                gw_store_open(directory.path, GW_STORE_WRITE, &directory.io, &s->store, err) &&
                bring_newest(s, alone, step, err);
    gw_store_close(s->store);
    gw_dirlock_release(&lock);
    if (directory.fd >= 0) gw_directory_close(&directory);
    free(s);
    return good;
}
