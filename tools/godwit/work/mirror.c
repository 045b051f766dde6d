#include "tools/godwit/work/mirror.h"

#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/state/chunk.h"
#include "core/state/placement.h"
#include "tools/godwit/thread/helper.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS UINT64_C(10000000000) /* between two looks at the disk, and two tries */
#define TAG      (UINT64_C(1) << 63)   /* of pins: no checkpoint that is being made has it */

struct gw_mirror {
    gw_mirror_options options;
    gw_helper *helper;
    atomic_bool ending, busy;
    atomic_bool whole; /* the last look at the disk has found everything there */
    gw_hash root;      /* what the last look was for, and the view */
    gw_view_name view;
    uint64_t again_ns;
    bool warned; /* the log says that it failed; the helper's */
};

/* One look at the disk, and the fetches that follow from it. */
typedef struct look {
    gw_mirror *mirror;
    gw_checkpoint_ref kept;
    gw_peer_id members[GW_MAX_MEMBERS];
    uint32_t count;
    uint8_t *bytes; /* room for a chunk */
    uint32_t fetched;
} look;

/* Fetches from the other members, beginning with another one for each `turn`, until one gives what is
 * accepted. */
static bool fetch_any(look *l, uint32_t turn, const gw_hash *name, void *bytes, uint64_t capacity,
                      uint64_t *length, gw_err *err) {
    gw_mirror *m = l->mirror;
    gw_fail(err, GW_E_NOTFOUND, "no peer that is here has it");
    for (uint32_t k = 0; k < l->count && !atomic_load(&m->ending); k++) {
        const gw_peer_id *peer = &l->members[(turn + k) % l->count];
        if (gw_peer_id_equal(peer, &m->options.self)) continue;
        if (gw_fetch_aside(m->options.fetcher, peer, name, bytes, capacity, length, err)) return true;
    }
    return false;
}

/* Fetches the manifest, and has it stored. */
static bool fetch_manifest(look *l, gw_manifest *manifest, gw_err *err) {
    gw_mirror *m = l->mirror;
    const gw_hash name = gw_manifest_name(l->kept.step, &l->kept.root);
    uint64_t length = 0;
    void *bytes = malloc(GW_MANIFEST_MAX_BYTES);
    if (bytes == NULL) return gw_fail(err, GW_E_NOMEM, "manifest");
    bool good = fetch_any(l, 0, &name, bytes, GW_MANIFEST_MAX_BYTES, &length, err) &&
                gw_manifest_decode(bytes, length, manifest, err);
    if (good && (manifest->step != l->kept.step || !gw_hash_equal(&manifest->root, &l->kept.root) ||
                 !gw_hash_equal(&manifest->job_id, &m->options.job_id))) {
        gw_manifest_free(manifest);
        good = gw_fail(err, GW_E_CORRUPT, "it is the manifest of another checkpoint");
    }
    if (good) gw_saver_keep_manifest(m->options.saver, manifest->step, bytes, length);
    l->fetched += good;
    free(bytes);
    return good;
}

static bool fetch_chunk(look *l, const gw_manifest *manifest, uint32_t index, gw_err *err) {
    const gw_hash *name = &manifest->chunks[index];
    uint32_t length = gw_chunk_length(manifest->state_bytes, index);
    uint64_t got = 0;
    gw_hash found;
    if (!fetch_any(l, index, name, l->bytes, length, &got, err)) return gw_fail_in(err, "chunk %u", index);
    gw_blake2b(l->bytes, got, found.bytes, sizeof found.bytes);
    if (got != length || !gw_hash_equal(&found, name))
        return gw_fail(err, GW_E_CORRUPT, "chunk %u: its bytes do not fit its name", index);
    gw_store_item item = {.name = *name, .bytes = l->bytes, .length = length};
    l->fetched++;
    return gw_store_put(l->mirror->options.store, TAG, &item, 1, err);
}

/* Fetches what is placed here and missing. */
static bool complete(look *l, gw_err *err) {
    const gw_mirror_options *o = &l->mirror->options;
    gw_manifest manifest = {0};
    if (!gw_catalog_find(gw_store_io(o->store), gw_store_dir(o->store), &o->job_id, l->kept.step,
                         &l->kept.root, &manifest, err) &&
        !fetch_manifest(l, &manifest, err))
        return gw_fail_in(err, "manifest");
    bool good = true;
    l->bytes = malloc(gw_chunk_room(manifest.state_bytes));
    if (l->bytes == NULL) good = gw_fail(err, GW_E_NOMEM, "memory for a chunk");
    for (uint32_t i = 0; i < manifest.chunk_count && good && !atomic_load(&l->mirror->ending); i++) {
        if (!gw_placement_holds(i, l->members, l->count, o->replicas, &o->self) ||
            gw_store_has(o->store, &manifest.chunks[i], gw_chunk_length(manifest.state_bytes, i)))
            continue;
        good = fetch_chunk(l, &manifest, i, err);
    }
    free(l->bytes);
    gw_manifest_free(&manifest);
    return good;
}

/* On the helper. The chunks stay pinned until the next look, as the manifest may not be on the disk yet. */
static void run_look(void *context) {
    look *l = context;
    gw_mirror *m = l->mirror;
    gw_err err;
    gw_store_release(m->options.store, TAG);
    bool good = complete(l, &err), ending = atomic_load(&m->ending);
    if (good && l->fetched > 0 && !ending)
        gw_log(GW_INFO, "checkpoint", "the checkpoint of the best state, of step %llu, has been copied here",
               (unsigned long long)l->kept.step);
    if (!good && !m->warned && !ending)
        gw_log(
            GW_WARN, "checkpoint",
            "the checkpoint of the best state, of step %llu, cannot be copied here, and is tried again: %s",
            (unsigned long long)l->kept.step, err.text);
    m->warned = !good;
    atomic_store(&m->whole, good && l->fetched == 0);
    atomic_store(&m->busy, false);
    free(l);
}

gw_mirror *gw_mirror_open(const gw_mirror_options *options, gw_err *err) {
    gw_mirror *mirror = calloc(1, sizeof *mirror);
    if (mirror == NULL) {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    mirror->options = *options;
    mirror->helper = gw_helper_open("gw-mirror", err);
    if (mirror->helper != NULL) return mirror;
    free(mirror);
    return NULL;
}

void gw_mirror_close(gw_mirror *mirror) {
    if (mirror == NULL) return;
    atomic_store(&mirror->ending, true);
    gw_helper_close(mirror->helper);
    free(mirror);
}

void gw_mirror_look(gw_mirror *mirror, const gw_view *view, const gw_checkpoint_ref *kept) {
    uint64_t now = gw_now_ns();
    if (kept->step == 0 || view->count < 2 || atomic_load(&mirror->busy)) return;
    bool same = gw_hash_equal(&mirror->root, &kept->root) && gw_view_name_equal(&mirror->view, &view->name);
    if (same && (atomic_load(&mirror->whole) || now < mirror->again_ns)) return;
    mirror->root = kept->root;
    mirror->view = view->name;
    mirror->again_ns = now + AGAIN_NS;
    look *l = calloc(1, sizeof *l);
    GW_ASSERT_MEMORY(l != NULL);
    *l = (look){.mirror = mirror, .kept = *kept, .count = view->count};
    for (uint32_t i = 0; i < view->count; i++) l->members[i] = view->members[i].id;
    atomic_store(&mirror->busy, true);
    atomic_store(&mirror->whole, false);
    gw_helper_give(mirror->helper, run_look, l);
}
