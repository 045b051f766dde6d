#include "tools/godwit/work/fetch.h"

#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/state/chunk.h"

#include <stdlib.h>
#include <string.h>

/* A peer is silent when nothing has come from it for so long. All fetches from a peer share its link, so
 * bytes of any of them count. */
#define SILENT_NS UINT64_C(10000000000)
enum { LOOKS = 5 }; /* how often a waiting thread looks in that time */

/* Asking. */

typedef struct fetch {
    gw_data_op op; /* must come first */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
    gw_completion result;
} fetch;

static void fetched(gw_data_op *op, const gw_completion *completion) {
    fetch *f = (fetch *)op;
    pthread_mutex_lock(&f->lock);
    f->over = true;
    f->result = *completion;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static bool is_over_by(fetch *f, uint64_t end_ns) {
    pthread_mutex_lock(&f->lock);
    while (!f->over)
        if (!gw_cond_wait_until(&f->changed, &f->lock, end_ns)) break;
    bool over = f->over;
    pthread_mutex_unlock(&f->lock);
    return over;
}

static void wait_fetched(gw_fetcher *fetcher, fetch *f, const gw_peer_id *peer) {
    const uint64_t silent_ns = SILENT_NS * fetcher->time_scale_percent / 100;
    uint64_t landed = gw_data_links_landed(fetcher->data_links, peer), moved_ns = gw_now_ns(), now = moved_ns;
    while (now < moved_ns + silent_ns) {
        if (is_over_by(f, now + silent_ns / LOOKS)) return;
        now = gw_now_ns();
        uint64_t before = landed;
        landed = gw_data_links_landed(fetcher->data_links, peer);
        if (landed != before) moved_ns = now;
    }
    /* The buffer is the transport's until the completion, so a silent peer is abandoned, then waited for. */
    gw_data_links_abandon(fetcher->data_links, peer);
    pthread_mutex_lock(&f->lock);
    while (!f->over) pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

bool gw_fetch(gw_fetcher *fetcher, const gw_peer_id *peer, const gw_hash *name, void *bytes,
              uint64_t capacity, uint64_t *length, gw_err *err) {
    fetch f = {.op = {.done = fetched}};
    pthread_mutex_init(&f.lock, NULL);
    gw_cond_init(&f.changed);
    gw_op request = {.kind = GW_OP_FETCH, .peer = *peer, .buffer = bytes, .bytes = capacity, .name = *name};
    gw_data_links_post(fetcher->data_links, &request, &f.op);
    wait_fetched(fetcher, &f, peer);
    pthread_cond_destroy(&f.changed);
    pthread_mutex_destroy(&f.lock);
    *length = f.result.value;
    if (f.result.status == GW_OP_OK) {
        atomic_fetch_add(&fetcher->bytes, *length);
        return true;
    }
    char text[GW_SHORT_TEXT];
    gw_code code = f.result.status == GW_OP_NOTFOUND ? GW_E_NOTFOUND : GW_E_PEER;
    return gw_fail(err, code, "fetch from %s: %s", gw_peer_id_short(peer, text),
                   gw_op_status_name(f.result.status));
}

/* Answering, on two threads of the data links: one for names that are in files, one for those of the
 * state. */

static const char state_mark[8] = "gwstate", manifest_mark[8] = "gwmanif";
enum { MANIFEST_ROOT = 16 /* bytes of the root in a manifest's name */ };

gw_hash gw_state_chunk_name(uint64_t step, uint64_t fingerprint, uint64_t index) {
    gw_hash name;
    gw_writer w = gw_writer_on(name.bytes, sizeof name.bytes);
    gw_put_bytes(&w, state_mark, sizeof state_mark);
    gw_put_u64(&w, step);
    gw_put_u64(&w, fingerprint);
    gw_put_u64(&w, index);
    GW_ASSERT(!w.failed && w.length == sizeof name.bytes);
    return name;
}

/* Finds a chunk of the state, if this peer has the very state that is asked for. */
static gw_op_status find_state_chunk(gw_server *server, const gw_hash *name, void **found, uint64_t *length) {
    gw_reader r = gw_reader_on(name->bytes + sizeof state_mark, sizeof name->bytes - sizeof state_mark);
    uint64_t step = gw_get_u64(&r), fingerprint = gw_get_u64(&r), index = gw_get_u64(&r);
    uint64_t bytes = server->engine->device->layout->image_bytes;
    if (index >= gw_chunk_count(bytes)) return GW_OP_NOTFOUND;
    uint32_t size = gw_chunk_length(bytes, (uint32_t)index);
    void *copy = malloc(size);
    if (!copy) return GW_OP_UNAVAILABLE;
    gw_err err;
    pthread_rwlock_rdlock(&server->engine->state.lock);
    bool here = server->engine->state.valid && server->engine->state.step == step &&
                gw_state_print_whole(server->engine->state.print) == fingerprint;
    bool good = here && server->engine->device->ops->state_read(
                            server->engine->device, gw_chunk_offset((uint32_t)index), size, copy, &err);
    pthread_rwlock_unlock(&server->engine->state.lock);
    if (!good) {
        free(copy);
        return here ? GW_OP_UNAVAILABLE : GW_OP_NOTFOUND;
    }
    *found = copy;
    *length = size;
    return GW_OP_OK;
}

/* Finds a stored chunk. Its name does not tell its length. A damaged chunk counts as not found. */
static gw_op_status find_chunk(gw_server *server, const gw_hash *name, void **found, uint64_t *length) {
    void *bytes = malloc(GW_CHUNK_BYTES);
    uint32_t size;
    gw_err err;
    if (!bytes) return GW_OP_UNAVAILABLE;
    if (gw_store_find(server->store, name, bytes, &size, &err)) {
        *found = bytes;
        *length = size;
        return GW_OP_OK;
    }
    free(bytes);
    return err.code == GW_E_NOTFOUND || err.code == GW_E_CORRUPT ? GW_OP_NOTFOUND : GW_OP_UNAVAILABLE;
}

gw_hash gw_manifest_name(uint64_t step, const gw_hash *root) {
    gw_hash name;
    gw_writer w = gw_writer_on(name.bytes, sizeof name.bytes);
    gw_put_bytes(&w, manifest_mark, sizeof manifest_mark);
    gw_put_u64(&w, step);
    gw_put_bytes(&w, root->bytes, MANIFEST_ROOT);
    GW_ASSERT(!w.failed && w.length == sizeof name.bytes);
    return name;
}

/* Finds and encodes this job's manifest of that name. A damaged manifest counts as not found. */
static gw_op_status find_manifest(const gw_server *server, const gw_hash *name, void **found,
                                  uint64_t *length) {
    gw_reader r = gw_reader_on(name->bytes + sizeof manifest_mark, sizeof name->bytes - sizeof manifest_mark);
    uint64_t step = gw_get_u64(&r);
    gw_hash root = {{0}};
    gw_get_bytes(&r, root.bytes, MANIFEST_ROOT);
    gw_manifest manifest;
    gw_err err;
    if (!gw_catalog_find(gw_store_io(server->store), gw_store_dir(server->store), &server->job_id, step,
                         &root, &manifest, &err))
        return err.code == GW_E_IO || err.code == GW_E_NOMEM ? GW_OP_UNAVAILABLE : GW_OP_NOTFOUND;
    gw_hash own = gw_manifest_name(manifest.step, &manifest.root);
    bool wanted = gw_hash_equal(&own, name) && gw_hash_equal(&manifest.job_id, &server->job_id);
    size_t size = 0;
    bool good = wanted && gw_manifest_encode(&manifest, found, &size, &err);
    gw_manifest_free(&manifest);
    *length = size;
    if (!wanted) return GW_OP_NOTFOUND;
    return good ? GW_OP_OK : GW_OP_UNAVAILABLE;
}

static bool is_of_state(const gw_hash *name) {
    return memcmp(name->bytes, state_mark, sizeof state_mark) == 0;
}

static bool provided_from_memory(void *context, const gw_hash *name) {
    (void)context;
    return is_of_state(name);
}

static gw_op_status provide(void *context, const gw_peer_id *requester, const gw_hash *name,
                            const void **bytes, uint64_t *length) {
    (void)requester;
    gw_server *server = context;
    void *found = NULL;
    gw_op_status status;
    if (is_of_state(name))
        status = find_state_chunk(server, name, &found, length);
    else if (memcmp(name->bytes, manifest_mark, sizeof manifest_mark) == 0)
        status = find_manifest(server, name, &found, length);
    else
        status = find_chunk(server, name, &found, length);
    GW_ASSERT((status == GW_OP_OK) == (found != NULL));
    *bytes = found;
    return status;
}

static void provided(void *context, const void *bytes, uint64_t length) {
    atomic_fetch_add(&((gw_server *)context)->bytes, length);
    free((void *)(uintptr_t)bytes);
}

gw_fetch_provider gw_server_provider(gw_server *server) {
    return (gw_fetch_provider){
        .context = server, .find = provide, .release = provided, .in_memory = provided_from_memory};
}
