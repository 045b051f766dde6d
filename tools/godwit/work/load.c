#include "tools/godwit/work/load.h"

#include "checkpoint/catalog.h"
#include "checkpoint/restore.h"
#include "core/base/assert.h"
#include "core/os/trace.h"
#include "core/state/chunk.h"
#include "core/state/placement.h"
#include "kernels/exact/exact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOAD_THREADS = 8,
    PIECE_BYTES = 64 << 20, /* of a state; handling one takes well under a second */
};

/* Waits at most one second (scaled) for data links to the sources, which may still be coming up. A source
 * without one is passed over. */
static void wait_for_links(const gw_load *load) {
    gw_loader *loader = load->loader;
    gw_peer_id missing;
    gw_data_links_wait(loader->fetcher->data_links, load->peers, load->count, &loader->self, &loader->ending,
                       UINT64_C(1000000000) * loader->fetcher->time_scale_percent / 100, &missing);
}

static void count_piece(const gw_load *load) {
    atomic_fetch_add(&load->loader->engine->pieces, 1);
}

static uint64_t image_bytes_of(const gw_load *load) {
    return load->loader->engine->device->layout->image_bytes;
}

/* Fetches from the memory of other members. */

typedef struct copying {
    gw_load *load;
    uint8_t *image;
    uint64_t image_bytes;
    uint32_t chunks;
    pthread_mutex_t lock; /* guards the members below */
    uint32_t next;        /* index of the first chunk that no thread has begun */
    bool *dead;           /* by donor: one fetch from it failed, and no more is asked of it */
    bool failed;
    gw_err err;
} copying;

static bool copy_chunk(copying *c, uint32_t index, gw_err *err) {
    const gw_load *load = c->load;
    gw_hash name = gw_state_chunk_name(load->step, load->fingerprint, index);
    uint32_t length = gw_chunk_length(c->image_bytes, index);
    gw_fail(err, GW_E_PEER, "no donor is left");
    for (uint32_t i = 0; i < load->count; i++) {
        uint32_t donor = (index + i) % load->count;
        pthread_mutex_lock(&c->lock);
        bool dead = c->dead[donor];
        pthread_mutex_unlock(&c->lock);
        if (dead) continue;
        uint64_t got;
        if (atomic_load(&load->loader->ending)) return gw_fail(err, GW_E_ABORTED, "this peer is ending");
        if (gw_fetch(load->loader->fetcher, &load->peers[donor], &name, c->image + gw_chunk_offset(index),
                     length, &got, err)) {
            if (got == length) {
                count_piece(load);
                return true;
            }
            gw_fail(err, GW_E_CORRUPT, "%llu bytes instead of %u", (unsigned long long)got, length);
        }
        pthread_mutex_lock(&c->lock);
        c->dead[donor] = true;
        pthread_mutex_unlock(&c->lock);
    }
    return gw_fail_in(err, "chunk %u of the state", index);
}

static void *copy_main(void *context) {
    copying *c = context;
    pthread_mutex_lock(&c->lock);
    while (!c->failed && c->next < c->chunks) {
        uint32_t index = c->next++;
        pthread_mutex_unlock(&c->lock);
        gw_err err;
        bool good = copy_chunk(c, index, &err);
        pthread_mutex_lock(&c->lock);
        if (!good && !c->failed) {
            c->failed = true;
            c->err = err;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

bool gw_load_from_peers(gw_load *load, uint8_t *image, gw_err *err) {
    if (load->count == 0) return gw_fail(err, GW_E_PEER, "no member has the state");
    wait_for_links(load);
    copying c = {.load = load, .image = image, .image_bytes = image_bytes_of(load)};
    c.chunks = gw_chunk_count(c.image_bytes);
    c.dead = calloc(load->count, sizeof(bool));
    GW_ASSERT_MEMORY(c.dead != NULL);
    pthread_mutex_init(&c.lock, NULL);
    uint32_t wanted = load->count * 2 < LOAD_THREADS ? load->count * 2 : LOAD_THREADS, started = 0;
    if (wanted > c.chunks) wanted = c.chunks;
    pthread_t threads[LOAD_THREADS];
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, copy_main, &c) == 0) started++;
    copy_main(&c);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&c.lock);
    free(c.dead);
    if (c.failed) *err = c.err;
    return !c.failed;
}

/* Reads a checkpoint. */

static bool manifest_matches(const gw_load *load, const gw_manifest *manifest) {
    return gw_hash_equal(&manifest->root, &load->root) && manifest->step == load->step &&
           gw_hash_equal(&manifest->job_id, &load->loader->job_id);
}

/* Reads the manifest from this peer's disk. False with *silent: the disk did not answer properly, and may
 * have the manifest all the same. */
static bool read_manifest(const gw_load *load, gw_manifest *manifest, bool *silent, gw_err *err) {
    const gw_loader *loader = load->loader;
    *silent = false;
    if (!gw_catalog_find(gw_store_io(loader->store), gw_store_dir(loader->store), &loader->job_id, load->step,
                         &load->root, manifest, err)) {
        *silent = err->code != GW_E_NOTFOUND && !gw_catalog_is_damage(err);
        return false;
    }
    if (manifest_matches(load, manifest)) return true;
    gw_manifest_free(manifest);
    return gw_fail(err, GW_E_NOTFOUND, "manifest of another checkpoint");
}

/* Fetches the manifest from one of the holders after the other, and stores it on this peer's disk. Sets
 * *silent if a holder did not answer properly, and may have the manifest all the same. */
static bool fetch_manifest(gw_load *load, gw_manifest *manifest, bool *silent, gw_err *err) {
    const gw_hash name = gw_manifest_name(load->step, &load->root);
    void *bytes = malloc(GW_MANIFEST_MAX_BYTES);
    if (!bytes) {
        *silent = true;
        return gw_fail(err, GW_E_NOMEM, "manifest");
    }
    gw_fail(err, GW_E_NOTFOUND, "nobody has the manifest");
    bool good = false;
    for (uint32_t i = 0; i < load->count && !good; i++) {
        uint64_t length;
        if (gw_peer_id_equal(&load->peers[i], &load->loader->self)) continue;
        if (!gw_fetch(load->loader->fetcher, &load->peers[i], &name, bytes, GW_MANIFEST_MAX_BYTES, &length,
                      err)) {
            *silent |= err->code != GW_E_NOTFOUND;
            continue;
        }
        if (!gw_manifest_decode(bytes, length, manifest, err)) continue;
        good = manifest_matches(load, manifest);
        if (good) {
            gw_saver_keep_manifest(load->loader->engine->saver, manifest->step, bytes, length);
        } else {
            gw_manifest_free(manifest);
            gw_fail(err, GW_E_CORRUPT, "manifest of another checkpoint");
        }
    }
    free(bytes);
    return good;
}

/* If the manifest exists nowhere, the chunks here are of no use, and `sound` becomes the empty set. It may
 * exist on a disk or at a holder that did not answer; then nothing is concluded. */
static bool find_manifest(gw_load *load, gw_manifest *manifest, gw_err *err) {
    bool silent;
    if (read_manifest(load, manifest, &silent, err) || fetch_manifest(load, manifest, &silent, err))
        return true;
    if (!silent) load->sound = gw_set_of(gw_chunk_count(image_bytes_of(load)));
    return false;
}

typedef struct restoring {
    gw_load *load;
    uint8_t *image;
    atomic_bool
        *silent; /* by holder: it failed to give a chunk that it has, and may have taken long to fail */
} restoring;

/* Reports that a holder sent other bytes than the chunk that it was asked for. */
static void report_wrong_bytes(const gw_load *load, const gw_peer_id *holder, uint32_t index) {
    gw_mail *mail = gw_mail_new(0, 0);
    char evidence[128];
    snprintf(evidence, sizeof evidence,
             "it sent other bytes than those of chunk %u of the checkpoint of step %llu", index,
             (unsigned long long)load->step);
    mail->event.peer = *holder;
    gw_mail_text(mail, evidence);
    gw_mailbox_post(load->loader->mail, mail);
}

/* Asks the holders one after the other: first those that answer, beginning with another one for each chunk,
 * then the silent ones. If a holder whose disk hangs came first, every chunk would wait for it. */
static bool restore_fetch(void *context, uint32_t index, uint32_t *asked, const gw_hash *name, void *bytes,
                          uint32_t length, gw_err *err) {
    const restoring *r = context;
    gw_load *load = r->load;
    if (*asked > 0) report_wrong_bytes(load, &load->peers[(index + *asked - 1) % load->count], index);
    gw_fail(err, GW_E_NOTFOUND, "no peer that is here holds it");
    while (load->count > 0 && *asked < 2 * load->count) {
        bool second_round = *asked >= load->count;
        uint32_t holder = (index + (*asked)++) % load->count;
        if (atomic_load(&r->silent[holder]) != second_round) continue;
        const gw_set *has = &load->inventories[holder];
        if (gw_peer_id_equal(&load->peers[holder], &load->loader->self)) continue;
        if (index >= has->size || !gw_set_has(has, index)) continue;
        uint64_t got;
        if (atomic_load(&load->loader->ending)) return gw_fail(err, GW_E_ABORTED, "this peer is ending");
        if (!gw_fetch(load->loader->fetcher, &load->peers[holder], name, bytes, length, &got, err)) {
            if (err->code != GW_E_NOTFOUND) atomic_store(&r->silent[holder], true);
            continue;
        }
        if (got == length) return true;
        gw_fail(err, GW_E_CORRUPT, "%llu bytes instead of %u", (unsigned long long)got, length);
    }
    return false;
}

static bool restore_keep(void *context, uint32_t index) {
    const gw_load *load = ((restoring *)context)->load;
    return gw_placement_holds(index, load->members, load->member_count, load->loader->replicas,
                              &load->loader->self);
}

static bool restore_write(void *context, uint64_t offset, const void *bytes, uint32_t length, gw_err *err) {
    (void)err;
    const restoring *r = context;
    memcpy(r->image + offset, bytes, length);
    count_piece(r->load);
    return true;
}

/* The chunks of a checkpoint that are sound on this peer's disk. All are read and verified, because one
 * damaged chunk seldom comes alone. A set of size 0 means that there was no memory to read a chunk, and
 * that nothing is known. */
static gw_set sound_chunks(const gw_load *load, const gw_manifest *manifest) {
    uint8_t *bytes = malloc(gw_chunk_room(manifest->state_bytes));
    if (bytes == NULL) return (gw_set){0};
    gw_set sound = gw_set_of(manifest->chunk_count);
    for (uint32_t i = 0; i < manifest->chunk_count && !atomic_load(&load->loader->ending); i++) {
        gw_err err;
        uint32_t length = gw_chunk_length(manifest->state_bytes, i);
        count_piece(load);
        if (gw_store_read(load->loader->store, &manifest->chunks[i], bytes, length, &err))
            gw_set_add(&sound, i);
        else if (err.code != GW_E_NOTFOUND)
            gw_log(GW_WARN, "checkpoint", "step %llu, chunk %u: %s", (unsigned long long)manifest->step, i,
                   err.text);
    }
    free(bytes);
    return sound;
}

/* Takes what the manifest says of the best state, and logs where that is of no use to this run. */
static void note_best(gw_load *load, const gw_manifest *manifest) {
    const char *by = load->loader->best_by;
    double value;
    gw_checkpoint_ref best = gw_manifest_best(manifest, &value);
    if (strcmp(manifest->best_by, by) == 0) {
        load->best = manifest->best;
    } else if (by[0] != '\0' && load->step > 0) {
        gw_log(
            GW_WARN, "checkpoint",
            "the checkpoint of step %llu knows of no best state by %s: evaluations from here on are compared",
            (unsigned long long)load->step, by);
    }
    if (best.step > 0 && strcmp(manifest->best_by, by) != 0)
        gw_log(GW_WARN, "checkpoint",
               "the best state by %s, of step %llu, is not kept any longer: that takes --keep-best %s",
               manifest->best_by, (unsigned long long)best.step, manifest->best_by);
}

bool gw_load_from_checkpoint(gw_load *load, uint8_t *image, gw_err *err) {
    gw_loader *loader = load->loader;
    wait_for_links(load);
    gw_manifest manifest = {0};
    if (!find_manifest(load, &manifest, err)) return false;
    bool good = manifest.state_bytes == image_bytes_of(load);
    if (!good) gw_fail(err, GW_E_CORRUPT, "the manifest is not of a state of this job's size");
    restoring r = {.load = load, .image = image, .silent = calloc(load->count + 1, sizeof *r.silent)};
    gw_set here = gw_set_of(manifest.chunk_count);
    GW_ASSERT_MEMORY(r.silent != NULL);
    gw_restore restore = {
        .manifest = &manifest,
        .store = loader->store,
        .tag = load->step,
        .fetch = restore_fetch,
        .keep = restore_keep,
        .write = restore_write,
        .context = &r,
        .here = &here,
        .threads = LOAD_THREADS,
    };
    gw_restore_stats stats = {0};
    good = good && gw_restore_run(&restore, &stats, err);
    gw_store_release(loader->store, load->step);
    free(r.silent);
    if (good && stats.damaged > 0)
        gw_log(GW_WARN, "checkpoint", "%u damaged chunks of step %llu were replaced from other peers",
               stats.damaged, (unsigned long long)load->step);
    if (stats.unstored > 0)
        gw_log(GW_WARN, "checkpoint", "chunks fetched from other peers are not stored here: %s",
               stats.unstored_err.text);
    if (good) {
        load->sound = here;
        if (load->fingerprint == 0) load->fingerprint = manifest.fingerprint;
    } else {
        gw_set_free(&here);
        /* A failure of other peers, or of memory, says nothing of this disk. */
        bool by_others = stats.damaged == 0 && (err->code == GW_E_PEER || err->code == GW_E_ABORTED);
        if (!by_others && err->code != GW_E_NOMEM) load->sound = sound_chunks(load, &manifest);
    }
    load->created_ms = manifest.created_ms;
    const char *chain = gw_manifest_param(&manifest, GW_SAVER_CHAIN);
    load->chain = chain != NULL ? strtoull(chain, NULL, 16) : 0;
    if (good) note_best(load, &manifest);
    gw_manifest_free(&manifest);
    return good;
}

/* Checks the image and puts it in the place of the present state. */

/* Hashes the image in pieces, and counts them: a large one takes long, and its progress must show. */
static gw_state_print image_print(const gw_load *load, const uint8_t *image) {
    const gw_layout *layout = load->loader->engine->device->layout;
    gw_state_print print = {0};
    for (uint64_t at = 0, within, length; at < layout->image_bytes; at += length) {
        uint32_t t = gw_layout_find(layout, at, PIECE_BYTES, &within, &length);
        *gw_state_print_part(&print, &layout->tensors[t]) += gw_exact_hash_state(
            gw_exact_path_best(), layout->of[t].first_word + within / 8, length, image + at);
        count_piece(load);
    }
    return print;
}

static bool image_matches(gw_load *load, const uint8_t *image, gw_err *err) {
    load->print = image_print(load, image);
    uint64_t found = gw_state_print_whole(load->print);
    /* A checkpoint that came from a job of another build has a root and no fingerprint. */
    if (load->fingerprint == 0 && load->kind == GW_LOAD_MANIFEST) load->fingerprint = found;
    if (load->fingerprint == found) return true;
    return gw_fail(err, GW_E_CORRUPT, "the state has fingerprint %016llx instead of %016llx",
                   (unsigned long long)found, (unsigned long long)load->fingerprint);
}

/* Copies the state from all donors at once. If the copy has wrong bits, copies it from each donor alone: bits
 * may change again and again in the memory of one of them, or on the way from there. */
static bool copy_image(gw_load *load, uint8_t *image, gw_err *err) {
    char id[GW_SHORT_TEXT];
    if (!gw_load_from_peers(load, image, err)) return false;
    bool good = image_matches(load, image, err);
    if (!good && load->count == 1) load->changed = load->peers;
    for (uint32_t i = 0; i < load->count && load->count > 1 && !good; i++) {
        gw_load one = *load;
        one.peers = &load->peers[i];
        one.count = 1;
        good = gw_load_from_peers(&one, image, err) && image_matches(load, image, err);
        if (good) break;
        gw_log(GW_WARN, "work/load", "the state as copied from peer %s alone: %s",
               gw_peer_id_short(one.peers, id), err->text);
        if (err->code == GW_E_CORRUPT && load->changed == NULL) load->changed = one.peers;
    }
    return good;
}

/* A checkpoint of wrong bits is of no use, although every chunk matches its hash: then no chunk counts as
 * sound. */
static bool read_image(gw_load *load, uint8_t *image, gw_err *err) {
    if (!gw_load_from_checkpoint(load, image, err)) return false;
    if (image_matches(load, image, err)) return true;
    gw_set_free(&load->sound);
    load->sound = gw_set_of(gw_chunk_count(image_bytes_of(load)));
    return false;
}

static bool write_image(const gw_load *load, const uint8_t *image, gw_err *err) {
    gw_device *device = load->loader->engine->device;
    uint64_t bytes = image_bytes_of(load);
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t length = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (!device->ops->state_write(device, at, length, image + at, err)) return false;
        count_piece(load);
    }
    return true;
}

static bool load_image(gw_load *load, uint64_t *fingerprint, gw_err *err) {
    gw_engine *engine = load->loader->engine;
    uint64_t bytes = image_bytes_of(load);
    uint8_t *image = malloc(bytes ? bytes : 1);
    if (!image) return gw_fail(err, GW_E_NOMEM, "%llu bytes for the state", (unsigned long long)bytes);
    bool good = load->kind == GW_LOAD_PEERS ? copy_image(load, image, err) : read_image(load, image, err);
    *fingerprint = load->fingerprint;
    if (good) {
        gw_engine_wait_staged(engine);
        pthread_rwlock_wrlock(&engine->state.lock);
        engine->state.valid = false;
        gw_workers_wait_idle(engine->workers);
        good = write_image(load, image, err);
        engine->state.valid = good;
        engine->state.step = load->step;
        engine->state.print = load->print;
        pthread_rwlock_unlock(&engine->state.lock);
    }
    free(image);
    return good;
}

/* Fetches the steps that led to the state, and that people here have not seen. Without them the state is as
 * good. */
static void fetch_steps(const gw_load *load, gw_mail *mail) {
    uint64_t known = gw_history_known(load->loader->history), length;
    const gw_hash name = gw_history_name(known, load->step);
    if (load->kind != GW_LOAD_PEERS || known >= load->step) return;
    mail->bytes = malloc(GW_HISTORY_BYTES);
    if (mail->bytes == NULL) return;
    for (uint32_t i = 0; i < load->count && !atomic_load(&load->loader->ending); i++) {
        gw_err err;
        if (!gw_fetch(load->loader->fetcher, &load->peers[i], &name, mail->bytes, GW_HISTORY_BYTES, &length,
                      &err))
            continue;
        mail->bytes_count = length;
        return;
    }
}

static bool load_initial(gw_load *load, uint64_t *fingerprint, gw_err *err) {
    gw_engine *engine = load->loader->engine;
    gw_engine_wait_staged(engine);
    pthread_rwlock_wrlock(&engine->state.lock);
    engine->state.valid = gw_workers_units(engine->workers, GW_UNIT_INIT, &engine->state.print, err);
    engine->state.step = 0;
    *fingerprint = gw_state_print_whole(engine->state.print);
    bool good = engine->state.valid;
    pthread_rwlock_unlock(&engine->state.lock);
    return good;
}

static void free_load(gw_load *load) {
    for (uint32_t i = 0; load->inventories && i < load->count; i++) gw_set_free(&load->inventories[i]);
    free(load->inventories);
    free(load->peers);
    free(load->members);
    free(load);
}

static void run_load(void *context) {
    gw_load *load = context;
    gw_mail *mail = gw_mail_new(GW_EV_LOADED, load->token);
    gw_err err = {0};
    uint64_t fingerprint = 0, began_ns = gw_trace_begin();
    bool good = load->kind == GW_LOAD_INIT ? load_initial(load, &fingerprint, &err)
                                           : load_image(load, &fingerprint, &err);
    if (good) fetch_steps(load, mail);
    gw_trace_end(GW_TRACE_LOAD, began_ns, 0, load->step, 0);
    mail->loaded_step = load->step;
    if (!good) gw_fail_in(&err, "state of step %llu", (unsigned long long)load->step);
    gw_mail_outcome(mail, good ? NULL : &err);
    mail->event.loaded.fingerprint = fingerprint;
    mail->event.loaded.best = load->best;
    if (!good && load->changed != NULL) {
        mail->event.loaded.changed = true;
        mail->event.peer = *load->changed;
    }
    mail->created_ms = good ? load->created_ms : 0;
    mail->chain = good ? load->chain : 0;
    mail->held = load->sound;
    if (mail->held.size > 0) mail->event.loaded.held = &mail->held;
    gw_mailbox_post(load->loader->mail, mail);
    free_load(load);
}

void gw_loader_begin(gw_loader *loader, const gw_view *view, const gw_action *action) {
    uint32_t count = action->load.source_count;
    gw_load *load = calloc(1, sizeof *load);
    GW_ASSERT_MEMORY(load != NULL);
    *load = (gw_load){
        .loader = loader,
        .token = action->token,
        .kind = action->load.kind,
        .step = action->step,
        .fingerprint = action->load.fingerprint,
        .root = action->load.root,
        .count = count,
        .peers = calloc(count ? count : 1, sizeof(gw_peer_id)),
        .inventories =
            action->load.kind == GW_LOAD_MANIFEST ? calloc(count ? count : 1, sizeof(gw_set)) : NULL,
        .members = calloc(GW_MAX_MEMBERS, sizeof(gw_peer_id)),
        .member_count = view->count,
    };
    GW_ASSERT_MEMORY(load->peers != NULL && load->members != NULL &&
                     (load->inventories != NULL || load->kind != GW_LOAD_MANIFEST));
    for (uint32_t i = 0; i < count && load->kind != GW_LOAD_INIT; i++)
        load->peers[i] = action->load.sources[i];
    for (uint32_t i = 0; i < count && load->inventories != NULL; i++)
        load->inventories[i] = gw_set_copy(&action->load.inventories[i]);
    for (uint32_t i = 0; i < view->count; i++) load->members[i] = view->members[i].id;
    gw_helper_give(loader->compute, run_load, load);
}
