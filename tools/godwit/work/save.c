#include "tools/godwit/work/save.h"

#include "checkpoint/catalog.h"
#include "checkpoint/writer.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/state/chunk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_BYTES = 256 << 20 };

/* A request to the writer. Its address is the token with which the writer reports its end. */
typedef struct request {
    gw_token token; /* of the action; 0 = a manifest that came from another peer */
    uint64_t step;
    gw_hash root; /* of a manifest */
} request;

/* A checkpoint of the job that was on the disk at the start. */
typedef struct saved_before {
    uint64_t step, created_ms;
    gw_hash root;
} saved_before;

struct gw_saver {
    gw_saver_options options;
    gw_param *params;
    saved_before *before;
    uint32_t before_count;
    gw_ckpt_writer *writer;
    bool retain_fails; /* the writer thread's: the last retention failed */
    bool has_save; /* a SAVE, of `save_step`, may be under way, or pin chunks that no manifest names yet */
    uint64_t save_step;
};

uint64_t gw_saver_need(uint64_t image_bytes) {
    return image_bytes < STAGING_BYTES ? image_bytes : STAGING_BYTES;
}

static bool read_state(void *context, uint64_t offset, void *bytes, size_t length, gw_err *err) {
    gw_saver *saver = context;
    gw_device *device = saver->options.device;
    return device->ops->state_read(device, offset, length, bytes, err);
}

static request *request_of(gw_token token, uint64_t step, const gw_hash *root) {
    request *r = malloc(sizeof *r);
    GW_ASSERT_MEMORY(r != NULL);
    *r = (request){.token = token, .step = step};
    if (root != NULL) r->root = *root;
    return r;
}

static uint64_t token_of(const request *r) {
    return (uint64_t)(uintptr_t)r;
}

static void say_stored(gw_saver *saver, gw_token token, const gw_ckpt_chunk *chunks, uint32_t count,
                       const gw_err *err) {
    gw_mail *mail = gw_mail_new(GW_EV_STORED, token);
    gw_mail_outcome(mail, err);
    mail->hashes = calloc(count ? count : 1, sizeof(gw_hash));
    GW_ASSERT_MEMORY(mail->hashes != NULL);
    for (uint32_t i = 0; i < count; i++) mail->hashes[i] = chunks[i].name;
    mail->event.stored.hashes = mail->hashes;
    mail->event.stored.count = count;
    gw_mailbox_post(saver->options.mail, mail);
}

static void say_manifest(gw_saver *saver, gw_token token, const gw_hash *root, const gw_err *err) {
    gw_mail *mail = gw_mail_new(GW_EV_MANIFEST_STORED, token);
    gw_mail_outcome(mail, err);
    mail->event.manifest_stored.root = *root;
    gw_mailbox_post(saver->options.mail, mail);
}

/* Manifests of other peers and retentions end without an event; the log gets their failures. */
static void say_kept(uint64_t step, const gw_err *err) {
    if (err)
        gw_log(GW_WARN, "checkpoint", "the manifest of step %llu, which came from a peer, is not stored: %s",
               (unsigned long long)step, err->text);
}

/* Logs the first of several retentions that fail in a row. */
static void say_retained(gw_saver *saver, const gw_err *err) {
    bool fails = err && err->code != GW_E_ABORTED;
    if (fails && !saver->retain_fails)
        gw_log(GW_WARN, "checkpoint", "old checkpoints cannot be deleted: %s", err->text);
    saver->retain_fails = fails;
}

static void manifest_done(gw_saver *saver, const request *r, const gw_err *err) {
    if (r->token == 0) {
        say_kept(r->step, err);
        return;
    }
    /* From here on the manifest keeps the chunks, not the pins. */
    if (!err) gw_store_release(saver->options.store, r->step);
    say_manifest(saver, r->token, &r->root, err);
}

/* On the writer's thread: a request has ended. */
static void writer_done(void *context, const gw_ckpt_done *done) {
    gw_saver *saver = context;
    request *r = (request *)(uintptr_t)done->token; /* NULL for a retention */
    if (done->kind == GW_CKPT_SNAPSHOT)
        say_stored(saver, r->token, done->chunks, done->err ? 0 : done->chunk_count, done->err);
    else if (done->kind == GW_CKPT_MANIFEST)
        manifest_done(saver, r, done->err);
    else
        say_retained(saver, done->err);
    free(r);
}

static gw_param *copy_params(const gw_param *params, uint32_t count) {
    gw_param *copy = calloc(count ? count : 1, sizeof *copy);
    GW_ASSERT_MEMORY(copy != NULL);
    if (count > 0) memcpy(copy, params, count * sizeof *copy); /* params may be NULL where there are none */
    return copy;
}

/* Notes the checkpoints that are on the disk. One that is made again, as by the same command after the job's
 * end, keeps the time at which it was saved: people and commands go by the job that was saved last. */
static bool note_saved(gw_saver *saver, gw_err *err) {
    gw_store *store = saver->options.store;
    gw_catalog catalog;
    if (!gw_catalog_load(gw_store_io(store), gw_store_dir(store), &catalog, err)) return false;
    saver->before = calloc(catalog.good_count ? catalog.good_count : 1, sizeof *saver->before);
    GW_ASSERT_MEMORY(saver->before != NULL);
    for (uint32_t i = 0; i < catalog.good_count; i++) {
        const gw_manifest *one = &catalog.good[i];
        if (gw_hash_equal(&one->job_id, &saver->options.job_id))
            saver->before[saver->before_count++] =
                (saved_before){.step = one->step, .created_ms = one->created_ms, .root = one->root};
    }
    gw_catalog_free(&catalog);
    return true;
}

/* When a checkpoint was saved first: before the start, or now. */
static uint64_t created_ms(const gw_saver *saver, uint64_t step, const gw_hash *root) {
    for (uint32_t i = 0; i < saver->before_count; i++)
        if (saver->before[i].step == step && gw_hash_equal(&saver->before[i].root, root))
            return saver->before[i].created_ms;
    return gw_wall_ns() / 1000000;
}

gw_saver *gw_saver_open(const gw_saver_options *options, gw_err *err) {
    gw_saver *saver = calloc(1, sizeof *saver);
    if (!saver) {
        gw_fail(err, GW_E_NOMEM, "checkpoints: out of memory");
        return NULL;
    }
    saver->options = *options;
    saver->params = copy_params(options->params, options->param_count);
    if (note_saved(saver, err) &&
        gw_ckpt_open(options->store, STAGING_BYTES, writer_done, saver, &saver->writer, err))
        return saver;
    gw_saver_close(saver);
    return NULL;
}

void gw_saver_close(gw_saver *saver) {
    if (!saver) return;
    gw_ckpt_close(saver->writer, true);
    free(saver->before);
    free(saver->params);
    free(saver);
}

void gw_saver_save(gw_saver *saver, const gw_action *action) {
    /* The checkpoint before may never have got its manifest: a new one takes its place, and its pins end. */
    if (saver->has_save && saver->save_step != action->step) gw_ckpt_abandon(saver->writer, saver->save_step);
    saver->has_save = true;
    saver->save_step = action->step;
    request *r = request_of(action->token, action->step, NULL);
    const gw_ckpt_request snapshot = {
        .token = token_of(r),
        .tag = action->step,
        .state_bytes = saver->options.device->layout->image_bytes,
        .indices = action->save.chunks,
        .count = action->save.count,
        .hash_only = action->save.hash_only,
        .read = read_state,
        .read_context = saver,
    };
    gw_err err;
    if (gw_ckpt_snapshot(saver->writer, &snapshot, &err)) return;
    say_stored(saver, r->token, NULL, 0, &err);
    free(r);
}

/* The parameters of a manifest of this step: the saver's, and the receipts' chain. The caller frees the list;
 * `text` must live as long. */
static gw_param *manifest_params(const gw_saver *saver, uint64_t step, char text[17], uint32_t *count) {
    const gw_saver_options *options = &saver->options;
    gw_param *list = calloc((size_t)options->param_count + 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    *count = options->param_count;
    for (uint32_t i = 0; i < *count; i++) list[i] = saver->params[i];
    uint64_t chain = options->receipts != NULL ? gw_receipts_chain(options->receipts, step) : 0;
    snprintf(text, 17, "%016" PRIx64, chain);
    if (chain != 0 && *count < GW_MAX_PARAMS) list[(*count)++] = (gw_param){GW_SAVER_CHAIN, text};
    return list;
}

void gw_saver_manifest(gw_saver *saver, const gw_action *action) {
    const gw_saver_options *options = &saver->options;
    char chain[17];
    uint32_t param_count;
    gw_param *params = manifest_params(saver, action->step, chain, &param_count);
    gw_manifest manifest = {
        .job_id = options->job_id,
        .epoch = action->manifest.epoch,
        .step = action->step,
        .fingerprint = action->manifest.fingerprint,
        .ended = action->manifest.ended,
        .params = params,
        .param_count = param_count,
        .tensors = options->plan->tensors,
        .tensor_count = options->plan->tensor_count,
        .chunks = action->manifest.hashes,
        .chunk_count = action->manifest.count,
    };
    strncpy(manifest.job_name, options->job_name, sizeof manifest.job_name - 1);
    const gw_best *best = &action->manifest.best;
    if (gw_best_is_known(best)) {
        snprintf(manifest.best_by, sizeof manifest.best_by, "%s", options->best_by);
        manifest.best = *best;
    }
    gw_err err;
    void *bytes = NULL;
    size_t length = 0;
    bool good = gw_manifest_seal(&manifest, &err);
    if (good) manifest.created_ms = created_ms(saver, manifest.step, &manifest.root);
    if (good && !action->manifest.hash_only) good = gw_manifest_encode(&manifest, &bytes, &length, &err);
    free(params);
    if (!good || action->manifest.hash_only) {
        say_manifest(saver, action->token, &manifest.root, good ? NULL : &err);
        return;
    }
    request *r = request_of(action->token, action->step, &manifest.root);
    if (!gw_ckpt_manifest(saver->writer, token_of(r), bytes, length, &err)) {
        say_manifest(saver, r->token, &r->root, &err);
        free(r);
    }
    free(bytes);
}

void gw_saver_retain(gw_saver *saver, const gw_action *action) {
    gw_err err;
    gw_saver_abandon(saver); /* the checkpoint has its manifest, or was given up */
    if (!gw_ckpt_retain(saver->writer, 0, &saver->options.job_id, action->retain.roots, action->retain.count,
                        &err))
        gw_log(GW_WARN, "checkpoint", "old checkpoints are not deleted: %s", err.text);
}

void gw_saver_staged(gw_saver *saver) {
    gw_ckpt_finish_staging(saver->writer);
}

void gw_saver_keep_manifest(gw_saver *saver, uint64_t step, const void *bytes, size_t length) {
    request *r = request_of(0, step, NULL);
    gw_err err;
    if (gw_ckpt_manifest(saver->writer, token_of(r), bytes, length, &err)) return;
    say_kept(step, &err);
    free(r);
}

void gw_saver_abandon(gw_saver *saver) {
    if (saver->has_save) gw_ckpt_abandon(saver->writer, saver->save_step);
    saver->has_save = false;
}

uint64_t gw_saver_moved(gw_saver *saver) {
    gw_ckpt_stats stats;
    gw_ckpt_stats_read(saver->writer, &stats);
    return stats.hashed_bytes + stats.disk_changes;
}

uint64_t gw_saver_written(gw_saver *saver) {
    gw_ckpt_stats stats;
    gw_ckpt_stats_read(saver->writer, &stats);
    return stats.written_bytes;
}

/* What is on disk at the start. */

/* The chunks of a checkpoint that are here. Quarantined chunks are read: they may be sound after all. *why
 * tells what is wrong with the first one that is not, if there is one. */
static bool chunks_here(gw_store *store, const gw_manifest *manifest, gw_set *found, gw_err *why,
                        gw_err *err) {
    uint8_t *bytes = malloc(gw_chunk_room(manifest->state_bytes));
    if (bytes == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a chunk of a checkpoint");
    gw_set here = gw_set_of(manifest->chunk_count);
    bool any = false;
    for (uint32_t i = 0; i < manifest->chunk_count; i++) {
        const gw_hash *name = &manifest->chunks[i];
        uint32_t length = gw_chunk_length(manifest->state_bytes, i);
        gw_err other;
        if (gw_store_has(store, name, length) ||
            gw_store_read(store, name, bytes, length, any ? &other : why))
            gw_set_add(&here, i);
        else
            any = true;
    }
    free(bytes);
    *found = here;
    return true;
}

static bool has_orphans(gw_store *store, const gw_catalog *catalog) {
    gw_err err;
    bool any = false;
    size_t count = 0, named = 0;
    for (uint32_t i = 0; i < catalog->good_count; i++) count += catalog->good[i].chunk_count;
    gw_hash *names = malloc(count ? count * sizeof *names : 1);
    GW_ASSERT_MEMORY(names != NULL);
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *manifest = &catalog->good[i];
        for (uint32_t k = 0; k < manifest->chunk_count; k++) names[named++] = manifest->chunks[k];
    }
    if (!gw_store_has_others(store, names, named, &any, &err))
        gw_log(GW_WARN, "checkpoint", "the store cannot be searched for chunks without a manifest: %s",
               err.text);
    free(names);
    return any;
}

/* A chunk of a manifest, for gw_found.older_bytes. */
typedef struct named_chunk {
    gw_hash name;
    uint32_t bytes; /* on this disk, of a checkpoint that may give way; 0: it stays */
} named_chunk;

/* By name, and of one name those that stay first. */
static int compare_chunks(const void *a, const void *b) {
    const named_chunk *one = a, *other = b;
    int order = memcmp(&one->name, &other->name, sizeof one->name);
    return order != 0 ? order : (one->bytes > other->bytes) - (one->bytes < other->bytes);
}

/* Counts the bytes that would be free without the checkpoints before the newest whole one. `listed` has the
 * place of each manifest of the catalog in found->list, from 1 on; 0: it is not there. */
static void count_older(gw_found *found, const gw_catalog *catalog, const uint32_t *listed) {
    size_t most = 0, count = 0;
    for (uint32_t i = 0; i < catalog->good_count; i++) most += catalog->good[i].chunk_count;
    named_chunk *chunks = malloc(most ? most * sizeof *chunks : 1);
    GW_ASSERT_MEMORY(chunks != NULL);
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *manifest = &catalog->good[i];
        const gw_inventory *own = listed[i] > 0 ? &found->list[listed[i] - 1] : NULL;
        bool older = found->whole != NULL && own != NULL && own->step < found->whole->step &&
                     !gw_hash_equal(&manifest->root, &found->newest.best.kept.root);
        for (uint32_t k = 0; k < manifest->chunk_count; k++) {
            bool goes = older && gw_set_has(&own->chunks, k);
            chunks[count++] = (named_chunk){.name = manifest->chunks[k],
                                            .bytes = goes ? gw_chunk_length(manifest->state_bytes, k) : 0};
        }
    }
    qsort(chunks, count, sizeof *chunks, compare_chunks);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || !gw_hash_equal(&chunks[i].name, &chunks[i - 1].name))
            found->older_bytes += chunks[i].bytes;
    free(chunks);
}

/* Lists the checkpoints of the job, and notes the newest whole one. *newest: the index in the catalog of the
 * newest one, or where there is none, of the newest of another job. */
static bool list_checkpoints(gw_store *store, const gw_catalog *catalog, const gw_hash *job_id,
                             uint64_t state_bytes, gw_found *found, uint32_t *listed, uint32_t *newest,
                             gw_err *err) {
    *newest = 0;
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *manifest = &catalog->good[i];
        if (!gw_hash_equal(&manifest->job_id, job_id) || manifest->state_bytes != state_bytes) continue;
        gw_inventory *one = &found->list[found->count];
        *one = (gw_inventory){
            .epoch = manifest->epoch,
            .step = manifest->step,
            .root = manifest->root,
            .fingerprint = manifest->fingerprint,
            .ended = manifest->ended,
        };
        gw_err why;
        if (!chunks_here(store, manifest, &one->chunks, &why, err)) return false;
        listed[i] = ++found->count;
        uint32_t lacks = manifest->chunk_count - gw_set_count(&one->chunks);
        if (lacks == 0 && (found->whole == NULL || gw_inventory_is_newer(one, found->whole)))
            found->whole = one;
        if (found->count > 1 && !gw_inventory_is_newer(one, &found->list[listed[*newest] - 1])) continue;
        *newest = i;
        found->lack[0] = '\0';
        if (lacks > 0)
            snprintf(found->lack, sizeof found->lack,
                     "the checkpoint of step %" PRIu64 " lacks %" PRIu32 " of %" PRIu32
                     " chunks here (%.200s)",
                     one->step, lacks, manifest->chunk_count, why.text);
    }
    return true;
}

bool gw_found_load(gw_store *store, const gw_hash *job_id, uint64_t state_bytes, gw_found *found,
                   gw_err *err) {
    gw_catalog catalog;
    *found = (gw_found){0};
    if (!gw_catalog_load(gw_store_io(store), gw_store_dir(store), &catalog, err)) return false;
    found->orphans = has_orphans(store, &catalog);
    for (uint32_t i = 0; i < catalog.bad_count; i++)
        gw_log(GW_WARN, "checkpoint", "%s", catalog.bad[i].err.text);
    found->list = calloc((size_t)catalog.good_count + 1, sizeof *found->list);
    uint32_t *listed = calloc((size_t)catalog.good_count + 1, sizeof *listed);
    GW_ASSERT_MEMORY(found->list != NULL && listed != NULL);
    uint32_t newest;
    bool good = list_checkpoints(store, &catalog, job_id, state_bytes, found, listed, &newest, err);
    if (good && catalog.good_count > 0) {
        gw_manifest *moved = &catalog.good[newest];
        found->newest = *moved;
        count_older(found, &catalog, listed);
        *moved = (gw_manifest){0};
    }
    free(listed);
    gw_catalog_free(&catalog);
    return good;
}

void gw_found_free(gw_found *found) {
    for (uint32_t i = 0; i < found->count; i++) gw_set_free(&found->list[i].chunks);
    free(found->list);
    gw_manifest_free(&found->newest);
    *found = (gw_found){0};
}
