#include "tools/godwit/work/fetch.h"

#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/state/chunk.h"
#include "tools/godwit/service/service.h"

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

static bool fail_fetch(const gw_peer_id *peer, gw_op_status status, gw_err *err) {
    char text[GW_SHORT_TEXT];
    gw_code code = status == GW_OP_NOTFOUND ? GW_E_NOTFOUND : GW_E_PEER;
    return gw_fail(err, code, "fetch from %s: %s", gw_peer_id_short(peer, text), gw_op_status_name(status));
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
    return fail_fetch(peer, f.result.status, err);
}

/* A fetch that may outlive its caller. It is freed by the side that is done with it last: the caller, or the
 * completion. */
typedef struct fetch_aside {
    fetch fetch; /* must come first */
    gw_fetcher *fetcher;
    bool left; /* the caller does not wait any more; guarded by the fetch's lock */
    uint8_t bytes[];
} fetch_aside;

enum { MOST_ASIDE = 4, TRIES_ASIDE = 3 };

static void free_aside(fetch_aside *f) {
    atomic_fetch_sub(&f->fetcher->aside, 1);
    pthread_cond_destroy(&f->fetch.changed);
    pthread_mutex_destroy(&f->fetch.lock);
    free(f);
}

static void fetched_aside(gw_data_op *op, const gw_completion *completion) {
    fetch_aside *f = (fetch_aside *)op;
    pthread_mutex_lock(&f->fetch.lock);
    f->fetch.over = true;
    f->fetch.result = *completion;
    bool left = f->left;
    pthread_cond_signal(&f->fetch.changed);
    pthread_mutex_unlock(&f->fetch.lock);
    if (left) free_aside(f);
}

/* Fetches once to memory that may be left behind. *status becomes GW_OP_UNKNOWN where the operation was
 * abandoned, as all are when a view changes, and remains as it was where there is another error. */
static bool fetch_once_aside(gw_fetcher *fetcher, const gw_peer_id *peer, const gw_hash *name, void *bytes,
                             uint64_t capacity, uint64_t *length, gw_op_status *status, gw_err *err) {
    char text[GW_SHORT_TEXT];
    if (atomic_fetch_add(&fetcher->aside, 1) >= MOST_ASIDE) {
        atomic_fetch_sub(&fetcher->aside, 1);
        return gw_fail(err, GW_E_PEER, "peers have not answered earlier fetches yet");
    }
    fetch_aside *f = calloc(1, sizeof *f + capacity);
    if (f == NULL) {
        atomic_fetch_sub(&fetcher->aside, 1);
        return gw_fail(err, GW_E_NOMEM, "out of memory for a fetch");
    }
    f->fetcher = fetcher;
    f->fetch.op.done = fetched_aside;
    pthread_mutex_init(&f->fetch.lock, NULL);
    gw_cond_init(&f->fetch.changed);
    gw_op request = {
        .kind = GW_OP_FETCH, .peer = *peer, .buffer = f->bytes, .bytes = capacity, .name = *name};
    gw_data_links_post(fetcher->data_links, &request, &f->fetch.op);
    uint64_t end_ns = gw_now_ns() + SILENT_NS * fetcher->time_scale_percent / 100;
    pthread_mutex_lock(&f->fetch.lock);
    while (!f->fetch.over)
        if (!gw_cond_wait_until(&f->fetch.changed, &f->fetch.lock, end_ns)) break;
    bool left = f->left = !f->fetch.over;
    gw_completion result = f->fetch.result;
    pthread_mutex_unlock(&f->fetch.lock);
    if (left) return gw_fail(err, GW_E_PEER, "fetch from %s: no answer", gw_peer_id_short(peer, text));
    *status = result.status;
    *length = result.value;
    if (result.status == GW_OP_OK) memcpy(bytes, f->bytes, *length);
    free_aside(f);
    return result.status == GW_OP_OK || fail_fetch(peer, result.status, err);
}

bool gw_fetch_aside(gw_fetcher *fetcher, const gw_peer_id *peer, const gw_hash *name, void *bytes,
                    uint64_t capacity, uint64_t *length, gw_err *err) {
    gw_op_status status = GW_OP_UNKNOWN;
    for (uint32_t i = 0; i < TRIES_ASIDE && status == GW_OP_UNKNOWN; i++) {
        status = GW_OP_UNAVAILABLE;
        if (!fetch_once_aside(fetcher, peer, name, bytes, capacity, length, &status, err)) continue;
        atomic_fetch_add(&fetcher->bytes, *length);
        return true;
    }
    return false;
}

/* Answering, on two threads of the data links: one for names that are in files, one for those of the
 * state. */

static const char state_mark[8] = "gwstate", manifest_mark[8] = "gwmanif", held_mark[8] = "gwheld1";
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

static gw_hash checkpoint_name(const char mark[8], uint64_t step, const gw_hash *root) {
    gw_hash name;
    gw_writer w = gw_writer_on(name.bytes, sizeof name.bytes);
    gw_put_bytes(&w, mark, 8);
    gw_put_u64(&w, step);
    gw_put_bytes(&w, root->bytes, MANIFEST_ROOT);
    GW_ASSERT(!w.failed && w.length == sizeof name.bytes);
    return name;
}

gw_hash gw_manifest_name(uint64_t step, const gw_hash *root) {
    return checkpoint_name(manifest_mark, step, root);
}

gw_hash gw_held_name(uint64_t step, const gw_hash *root) {
    return checkpoint_name(held_mark, step, root);
}

/* Reads this job's manifest that such a name means. A damaged manifest counts as not found. */
static gw_op_status read_named(const gw_server *server, const char mark[8], const gw_hash *name,
                               gw_manifest *manifest) {
    gw_reader r = gw_reader_on(name->bytes + 8, sizeof name->bytes - 8);
    uint64_t step = gw_get_u64(&r);
    gw_hash root = {{0}};
    gw_get_bytes(&r, root.bytes, MANIFEST_ROOT);
    gw_err err;
    if (!gw_catalog_find(gw_store_io(server->store), gw_store_dir(server->store), &server->job_id, step,
                         &root, manifest, &err))
        return err.code == GW_E_IO || err.code == GW_E_NOMEM ? GW_OP_UNAVAILABLE : GW_OP_NOTFOUND;
    gw_hash own = checkpoint_name(mark, manifest->step, &manifest->root);
    if (gw_hash_equal(&own, name) && gw_hash_equal(&manifest->job_id, &server->job_id)) return GW_OP_OK;
    gw_manifest_free(manifest);
    return GW_OP_NOTFOUND;
}

static gw_op_status find_manifest(const gw_server *server, const gw_hash *name, void **found,
                                  uint64_t *length) {
    gw_manifest manifest;
    gw_err err;
    gw_op_status status = read_named(server, manifest_mark, name, &manifest);
    if (status != GW_OP_OK) return status;
    size_t size = 0;
    bool good = gw_manifest_encode(&manifest, found, &size, &err);
    gw_manifest_free(&manifest);
    *length = size;
    return good ? GW_OP_OK : GW_OP_UNAVAILABLE;
}

/* Finds out which chunks of a checkpoint are here, for a peer whose client asks (tools/godwit/service). */
static gw_op_status find_held(const gw_server *server, const gw_hash *name, void **found, uint64_t *length) {
    gw_manifest manifest;
    gw_op_status status = read_named(server, held_mark, name, &manifest);
    if (status != GW_OP_OK) return status;
    gw_set held = gw_service_held(server->store, &manifest);
    gw_manifest_free(&manifest);
    size_t most = GW_HELD_BYTES(held.size);
    void *bytes = malloc(most);
    if (bytes != NULL) {
        gw_writer w = gw_writer_on(bytes, most);
        gw_set_put(&w, &held);
        GW_ASSERT(!w.failed);
        *length = w.length;
    }
    gw_set_free(&held);
    *found = bytes;
    return bytes != NULL ? GW_OP_OK : GW_OP_UNAVAILABLE;
}

bool gw_held_decode(const void *bytes, size_t length, gw_set *chunks, gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    *chunks = gw_set_get(&r);
    if (gw_reader_done(&r)) return true;
    gw_set_free(chunks);
    return gw_fail(err, GW_E_INVALID, "a malformed list of chunks");
}

bool gw_name_is_chunk(const gw_hash *name) {
    return memcmp(name->bytes, state_mark, sizeof state_mark) != 0 &&
           memcmp(name->bytes, manifest_mark, sizeof manifest_mark) != 0 &&
           memcmp(name->bytes, held_mark, sizeof held_mark) != 0 && !gw_history_is_name(name) &&
           !gw_card_is_name(name);
}

static bool is_of_state(const gw_hash *name) {
    return memcmp(name->bytes, state_mark, sizeof state_mark) == 0;
}

static bool provided_from_memory(void *context, const gw_hash *name) {
    (void)context;
    return is_of_state(name) || gw_history_is_name(name) || gw_card_is_name(name);
}

/* Finds the last steps that this peer has made. */
static gw_op_status find_steps(const gw_server *server, const gw_hash *name, void **found, uint64_t *length) {
    void *bytes = malloc(GW_HISTORY_BYTES);
    if (bytes == NULL) return GW_OP_UNAVAILABLE;
    *length = gw_history_write(server->history, name, bytes, GW_HISTORY_BYTES);
    if (*length > 0) {
        *found = bytes;
        return GW_OP_OK;
    }
    free(bytes);
    return GW_OP_NOTFOUND;
}

/* Finds the card of this peer. */
static gw_op_status find_card(const gw_server *server, void **found, uint64_t *length) {
    gw_node_snapshot *snapshot = malloc(sizeof *snapshot);
    uint8_t *bytes = malloc(GW_CARD_BYTES);
    bool known =
        server->board != NULL && snapshot != NULL && bytes != NULL && gw_board_copy(server->board, snapshot);
    if (known) {
        gw_card card;
        gw_card_of(snapshot, &card);
        *length = gw_card_put(&card, bytes);
        *found = bytes;
    } else {
        free(bytes);
    }
    free(snapshot);
    return known ? GW_OP_OK : GW_OP_NOTFOUND;
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
    else if (memcmp(name->bytes, held_mark, sizeof held_mark) == 0)
        status = find_held(server, name, &found, length);
    else if (gw_history_is_name(name))
        status = find_steps(server, name, &found, length);
    else if (gw_card_is_name(name))
        status = find_card(server, &found, length);
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
