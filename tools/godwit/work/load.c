/* Brings a whole state image here: from members that hold it, or from a checkpoint. */
#include "tools/godwit/work/load.h"

#include "checkpoint/catalog.h"
#include "checkpoint/restore.h"
#include "core/base/assert.h"
#include "core/state/chunk.h"
#include "core/state/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOAD_THREADS = 8 };

/* ---- from members ---- */

typedef struct copying {
    gw_load *load;
    uint8_t *image;
    uint64_t image_bytes;
    uint32_t chunks;
    pthread_mutex_t lock;
    uint32_t next;
    bool *dead; /* by donor: it failed once, and is asked no more */
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
                atomic_fetch_add(&load->loader->engine->pieces, 1);
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
    if (load->count == 0) return gw_fail(err, GW_E_PEER, "nobody to copy the state from");
    gw_peer_id missing;
    /* Connections may still be on their way up; a donor that has none in a second is passed over. */
    gw_wires_wait(load->loader->fetcher->wires, load->peers, load->count, &load->loader->self,
                  &load->loader->ending,
                  UINT64_C(1000000000) * load->loader->fetcher->time_scale_percent / 100, &missing);
    copying c = {
        .load = load, .image = image, .image_bytes = load->loader->engine->device->layout->image_bytes};
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

/* ---- from a checkpoint ---- */

static bool is_wanted(const gw_load *load, const gw_manifest *manifest) {
    return gw_hash_equal(&manifest->root, &load->root) && manifest->step == load->step &&
           gw_hash_equal(&manifest->job_id, &load->loader->job_id);
}

/* Reads the manifest from this peer's disk. False with *silent: the manifest may be here all the same. */
static bool read_manifest(const gw_load *load, gw_manifest *manifest, bool *silent, gw_err *err) {
    const gw_loader *loader = load->loader;
    *silent = false;
    if (!gw_catalog_find(gw_store_io(loader->store), gw_store_dir(loader->store), &loader->job_id, load->step,
                         &load->root, manifest, err)) {
        *silent = err->code != GW_E_NOTFOUND && !gw_catalog_is_damage(err);
        return false;
    }
    if (is_wanted(load, manifest)) return true;
    gw_manifest_free(manifest);
    return gw_fail(err, GW_E_NOTFOUND, "manifest of another checkpoint");
}

/* Asks the holders for the manifest itself, and keeps it. */
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
        good = is_wanted(load, manifest);
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

/* Where nobody has it, nothing here is of any use; who did not answer may have it, and so may a disk that
 * would not give it just now. */
static bool find_manifest(gw_load *load, gw_manifest *manifest, gw_err *err) {
    bool silent;
    if (read_manifest(load, manifest, &silent, err) || fetch_manifest(load, manifest, &silent, err))
        return true;
    if (!silent) load->sound = gw_set_of(gw_chunk_count(load->loader->engine->device->layout->image_bytes));
    return false;
}

typedef struct restoring {
    gw_load *load;
    uint8_t *image;
    atomic_bool *silent; /* by holder: it has not given a chunk that it has, which may have taken long */
} restoring;

/* What one of the holders has sent is not what was asked for. */
static void tell_wrong(const gw_load *load, const gw_peer_id *holder, uint32_t index) {
    gw_mail *mail = gw_mail_new(0, 0);
    char evidence[128];
    snprintf(evidence, sizeof evidence,
             "it sent other bytes than those of chunk %u of the checkpoint of step %llu", index,
             (unsigned long long)load->step);
    mail->event.peer = *holder;
    gw_mail_text(mail, evidence);
    gw_mailbox_post(load->loader->mail, mail);
}

/* Asks all holders in turn, beginning with another one for each chunk; and then those that are silent: of one
 * whose disk hangs every chunk would be waited for. */
static bool restore_fetch(void *context, uint32_t index, uint32_t *asked, const gw_hash *name, void *bytes,
                          uint32_t length, gw_err *err) {
    const restoring *r = context;
    gw_load *load = r->load;
    if (*asked > 0) tell_wrong(load, &load->peers[(index + *asked - 1) % load->count], index);
    gw_fail(err, GW_E_NOTFOUND, "no peer that is here holds it");
    while (load->count > 0 && *asked < 2 * load->count) {
        bool last = *asked >= load->count;
        uint32_t holder = (index + (*asked)++) % load->count;
        if (atomic_load(&r->silent[holder]) != last) continue;
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
    atomic_fetch_add(&r->load->loader->engine->pieces, 1);
    return true;
}

/* The chunks of a checkpoint that are sound here. Each is read and compared, as one damaged chunk is seldom
 * alone. Size 0: there was no memory to read a chunk, and nothing is known. */
static gw_set sound_chunks(gw_loader *loader, const gw_manifest *manifest) {
    uint8_t *bytes = malloc(gw_chunk_room(manifest->state_bytes));
    if (bytes == NULL) return (gw_set){0};
    gw_set sound = gw_set_of(manifest->chunk_count);
    for (uint32_t i = 0; i < manifest->chunk_count && !atomic_load(&loader->ending); i++) {
        gw_err err;
        uint32_t length = gw_chunk_length(manifest->state_bytes, i);
        atomic_fetch_add(&loader->engine->pieces, 1);
        if (gw_store_read(loader->store, &manifest->chunks[i], bytes, length, &err))
            gw_set_add(&sound, i);
        else if (err.code != GW_E_NOTFOUND)
            gw_log(GW_WARN, "checkpoint", "step %llu, chunk %u: %s", (unsigned long long)manifest->step, i,
                   err.text);
    }
    free(bytes);
    return sound;
}

bool gw_load_from_checkpoint(gw_load *load, uint8_t *image, gw_err *err) {
    gw_loader *loader = load->loader;
    gw_peer_id missing;
    gw_wires_wait(loader->fetcher->wires, load->peers, load->count, &loader->self, &loader->ending,
                  UINT64_C(1000000000) * loader->fetcher->time_scale_percent / 100, &missing);
    gw_manifest manifest = {0};
    if (!find_manifest(load, &manifest, err)) return false;
    bool good = manifest.state_bytes == loader->engine->device->layout->image_bytes;
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
    if (stats.unstored > 0) gw_log(GW_WARN, "checkpoint", "not stored here: %s", stats.unstored_err.text);
    bool by_others = stats.damaged == 0 && (err->code == GW_E_PEER || err->code == GW_E_ABORTED);
    bool disk_is_well = !good && (by_others || err->code == GW_E_NOMEM);
    if (good) load->sound = here;
    if (!good) gw_set_free(&here);
    if (!good && !disk_is_well) load->sound = sound_chunks(loader, &manifest);
    if (good && load->fingerprint == 0) load->fingerprint = manifest.fingerprint;
    load->created_ms = manifest.created_ms;
    gw_manifest_free(&manifest);
    return good;
}
