#include "net/fabric/fabric.h"

#include "core/base/assert.h"
#include "net/fabric/inside.h"
#include "net/loop/backoff.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BULK_WINDOW = 8 /* pieces in flight: 2 MiB cover 10 Gbit/s at a round trip of 1.6 ms */ };

static gw_fabric *fabric_of(gw_transport *transport) {
    return (gw_fabric *)transport;
}

/* One-sided operations. */

static void enter_both(gw_fabric *f) {
    pthread_mutex_lock(&f->change_lock);
    gw_rail_thread_enter(f->rails[STREAM_WORDS]);
    gw_rail_thread_enter(f->rails[STREAM_BULK]);
}

static void leave_both(gw_fabric *f) {
    gw_rail_thread_leave(f->rails[STREAM_BULK]);
    gw_rail_thread_leave(f->rails[STREAM_WORDS]);
    pthread_mutex_unlock(&f->change_lock);
}

static bool fabric_add_region(gw_transport *transport, uint32_t region, const void *memory, uint64_t bytes,
                              gw_err *err) {
    gw_fabric *f = fabric_of(transport);
    enter_both(f);
    bool done = gw_regions_add(&f->regions, region, memory, bytes, err);
    leave_both(f);
    for (uint32_t i = 0; i < GW_PATH_KINDS && done; i++) {
        gw_path *path = f->paths[i];
        if (path != NULL && path->ops->add_region != NULL) path->ops->add_region(path, region, memory, bytes);
    }
    return done;
}

static bool fabric_share_words(gw_transport *transport, uint32_t region, uint64_t count, gw_err *err) {
    gw_fabric *f = fabric_of(transport);
    enter_both(f);
    bool done = gw_regions_share(&f->regions, region, count, err);
    leave_both(f);
    return done;
}

static uint64_t fabric_word(gw_transport *transport, gw_word_do what, uint32_t region, uint64_t index,
                            uint64_t expected, uint64_t operand) {
    gw_words *words = fabric_of(transport)->regions.words;
    uint64_t offset, bytes;
    GW_ASSERT(gw_words_find(words, region, &offset, &bytes) && index < bytes / 8);
    return gw_words_do(words, what, offset + 8 * index, expected, operand);
}

static void fabric_remove_region(gw_transport *transport, uint32_t region) {
    gw_fabric *f = fabric_of(transport);
    for (uint32_t i = 0; i < GW_PATH_KINDS; i++) {
        gw_path *path = f->paths[i];
        if (path != NULL && path->ops->remove_region != NULL) path->ops->remove_region(path, region);
    }
    enter_both(f);
    gw_regions_remove(&f->regions, region);
    leave_both(f);
}

/* Moves the fence of the regions, between the two calls of each path. Takes `members`, which was allocated
 * with malloc. False: the fence has ended and nothing is served. */
static bool move_fence(gw_fabric *f, const gw_fence *fence, gw_peer_id *members, uint32_t count,
                       gw_err *err) {
    bool mapped = false; /* other peers may have mapped the words' memory */
    for (uint32_t i = 0; i < GW_PATH_KINDS; i++) {
        gw_path *path = f->paths[i];
        mapped = mapped || path != NULL;
        if (path != NULL && path->ops->fence_begin != NULL)
            path->ops->fence_begin(path, fence, members, count);
    }
    bool moved = !mapped || gw_words_renew(f->regions.words, err);
    gw_fence to = moved ? *fence : (gw_fence){0};
    gw_peer_id *former = gw_regions_fence(&f->regions, &to, members, count);
    for (uint32_t i = 0; i < GW_PATH_KINDS; i++) {
        gw_path *path = f->paths[i];
        if (path != NULL && path->ops->fence_end != NULL) path->ops->fence_end(path, &to, members, count);
    }
    free(former);
    return moved;
}

static bool fabric_fence(gw_transport *transport, const gw_fence *fence, const gw_peer_id *members,
                         uint32_t count, gw_err *err) {
    gw_fabric *f = fabric_of(transport);
    gw_fence to = fence != NULL ? *fence : (gw_fence){0};
    gw_peer_id *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;
    bool copied = count == 0 || copy != NULL;
    if (!copied) {
        gw_fail(err, GW_E_NOMEM, "net/fabric: no memory for the fence's %u members", count);
        to = (gw_fence){0};
        count = 0;
    }
    if (count > 0) memcpy(copy, members, count * sizeof *copy);
    enter_both(f);
    gw_err why;
    bool moved = move_fence(f, &to, copy, count, copied ? err : &why);
    leave_both(f);
    return copied && moved;
}

/* Whether an operation is too large for the rail of small operations. */
static bool is_large(const gw_op *op) {
    return op->kind == GW_OP_FETCH || (op->kind == GW_OP_READ && op->bytes > GW_SMALL_BYTES);
}

/* Offers an operation to the peer's path. False if it must go by the rails. */
static bool post_direct(gw_fabric *f, const gw_op *op) {
    gw_completion completion = {.token = op->token, .peer = op->peer, .kind = op->kind};
    gw_path_posted how = GW_PATH_PASS;
    pthread_rwlock_rdlock(&f->posts_lock);
    const gw_pair *pair = gw_fabric_find(f, &op->peer);
    if (pair != NULL && pair->direct != NULL && !pair->direct_over)
        how = pair->direct->path->ops->post(pair->direct, op, &completion);
    pthread_rwlock_unlock(&f->posts_lock);
    if (how != GW_PATH_PASS && !is_large(op)) atomic_fetch_add_explicit(&f->direct, 1, memory_order_relaxed);
    if (how == GW_PATH_DONE) f->events.completed(f->events.context, &completion);
    return how != GW_PATH_PASS;
}

void gw_fabric_post_rails(gw_fabric *f, const gw_op *op) {
    size_t payload = op->kind == GW_OP_WRITE ? op->bytes : 0;
    gw_posted *posted = calloc(1, sizeof *posted + payload);
    if (posted == NULL) {
        gw_completion completion = {op->token, op->peer, op->kind, GW_OP_UNREACHABLE, 0};
        f->events.completed(f->events.context, &completion);
        return;
    }
    posted->op = *op;
    if (payload > 0) memcpy(posted->payload, op->buffer, payload);
    gw_onesided_post(is_large(op) ? f->bulk : f->words, posted);
}

static void fabric_post(gw_transport *transport, const gw_op *op) {
    gw_fabric *f = fabric_of(transport);
    if (f->loop != NULL && post_direct(f, op)) return;
    gw_fabric_post_rails(f, op);
}

static void fabric_abandon(gw_transport *transport, const gw_peer_id *peer) {
    gw_fabric *f = fabric_of(transport);
    pthread_rwlock_rdlock(&f->posts_lock);
    for (const gw_pair *pair = f->pairs; pair != NULL; pair = pair->next) {
        if (pair->direct == NULL || (peer != NULL && !gw_peer_id_equal(&pair->peer, peer))) continue;
        const gw_path_ops *ops = pair->direct->path->ops;
        if (ops->abandon != NULL) ops->abandon(pair->direct);
    }
    pthread_rwlock_unlock(&f->posts_lock);
    gw_onesided_abandon(f->words, peer);
    gw_onesided_abandon(f->bulk, peer);
}

static void fabric_spin(gw_transport *transport, bool spin) {
    gw_rail_thread_spin(fabric_of(transport)->rails[STREAM_WORDS], spin);
}

static gw_transport_counts fabric_count(gw_transport *transport) {
    gw_fabric *f = fabric_of(transport);
    return (gw_transport_counts){.direct = atomic_load_explicit(&f->direct, memory_order_relaxed),
                                 .served = gw_onesided_served(f->words) + gw_onesided_served(f->bulk),
                                 .pulled_bytes =
                                     atomic_load_explicit(&f->pulled_bytes, memory_order_relaxed)};
}

static void on_answered(void *context, gw_lookup *lookup) {
    gw_fabric *f = context;
    if (lookup->of_path)
        gw_settle_found(f, lookup);
    else
        gw_onesided_answered(f->bulk, lookup);
}

/* Rails. */

static gw_rail_thread *rail_of(gw_transport *transport, uint32_t rail) {
    gw_fabric *f = fabric_of(transport);
    GW_ASSERT(rail < f->most_streams - GW_PATH_FIRST_RAIL);
    return f->rails[GW_PATH_FIRST_RAIL + rail];
}

static uint32_t fabric_rails(const gw_transport *transport) {
    return ((const gw_fabric *)transport)->most_streams - GW_PATH_FIRST_RAIL;
}

static uint32_t fabric_sure_rails(const gw_transport *transport) {
    return ((const gw_fabric *)transport)->streams - GW_PATH_FIRST_RAIL;
}

static void fabric_rail_use(gw_transport *transport, const gw_rail_user *user) {
    for (uint32_t i = 0; i < fabric_rails(transport); i++) {
        gw_rail_thread *rail = rail_of(transport, i);
        gw_rail_thread_enter(rail);
        gw_rail_thread_use(rail, user);
        gw_rail_thread_leave(rail);
    }
}

static void fabric_rail_wake(gw_transport *transport, uint32_t rail) {
    gw_rail_thread_wake(rail_of(transport, rail));
}

static void fabric_rail_refresh(gw_transport *transport, uint32_t rail) {
    gw_rail_thread_refresh(rail_of(transport, rail));
}

static void fabric_rail_push(gw_transport *transport, gw_rail_peer *peer) {
    gw_rail_thread_push(rail_of(transport, peer->rail), peer);
}

static void fabric_rail_resume(gw_transport *transport, gw_rail_peer *peer) {
    gw_rail_thread_resume(rail_of(transport, peer->rail), peer);
}

static bool fabric_rail_release(gw_transport *transport, gw_rail_peer *peer) {
    return gw_rail_thread_release(rail_of(transport, peer->rail), peer);
}

static void fabric_rail_alarm(gw_transport *transport, uint32_t rail, uint64_t at_ns) {
    gw_rail_thread_alarm(rail_of(transport, rail), at_ns);
}

static void fabric_rail_refuse(gw_transport *transport, gw_rail_peer *peer, const gw_err *why) {
    gw_rail_thread_refuse(rail_of(transport, peer->rail), peer, why);
}

/* Life. */

static void fabric_close(gw_transport *transport) {
    gw_fabric *f = fabric_of(transport);
    gw_fabric_cut_all(f);
    if (f->loop != NULL) gw_settle_stop(f);
    for (uint32_t i = 0; i < f->most_streams; i++)
        if (f->rails[i] != NULL) gw_rail_thread_stop(f->rails[i]);
    if (f->provider != NULL) gw_provider_close(f->provider);
    if (f->loop != NULL) gw_settle_close(f);
    if (f->words != NULL) gw_onesided_close(f->words);
    if (f->bulk != NULL) gw_onesided_close(f->bulk);
    for (uint32_t i = 0; i < f->most_streams; i++)
        if (f->rails[i] != NULL) gw_rail_thread_close(f->rails[i]);
    free(f->regions.members);
    if (f->regions.words != NULL) gw_words_close(f->regions.words);
    while (f->pairs != NULL) {
        gw_pair *pair = f->pairs;
        f->pairs = pair->next;
        free(pair);
    }
    pthread_mutex_destroy(&f->change_lock);
    pthread_mutex_destroy(&f->links_lock);
    pthread_rwlock_destroy(&f->posts_lock);
    free(f);
}

uint32_t gw_fabric_streams(const gw_transport *transport) {
    return ((const gw_fabric *)transport)->streams;
}

uint32_t gw_fabric_most_streams(const gw_transport *transport) {
    return ((const gw_fabric *)transport)->most_streams;
}

uint64_t gw_fabric_busy_since(gw_transport *transport) {
    const gw_fabric *f = fabric_of(transport);
    uint64_t first = f->loop != NULL ? gw_loop_busy_since(f->loop) : 0;
    for (uint32_t i = 0; i < f->most_streams; i++) {
        uint64_t since = gw_rail_thread_busy_since(f->rails[i]);
        if (since != 0 && (first == 0 || since < first)) first = since;
    }
    return first;
}

uint64_t gw_fabric_files_since(gw_transport *transport) {
    return gw_provider_files_since(fabric_of(transport)->provider);
}

static const gw_transport_ops fabric_ops = {
    .add_region = fabric_add_region,
    .remove_region = fabric_remove_region,
    .share_words = fabric_share_words,
    .word = fabric_word,
    .fence = fabric_fence,
    .post = fabric_post,
    .abandon = fabric_abandon,
    .unlink = gw_fabric_unlink,
    .spin = fabric_spin,
    .count = fabric_count,
    .close = fabric_close,
    .rails = fabric_rails,
    .sure_rails = fabric_sure_rails,
    .rail_use = fabric_rail_use,
    .rail_wake = fabric_rail_wake,
    .rail_refresh = fabric_rail_refresh,
    .rail_push = fabric_rail_push,
    .rail_resume = fabric_rail_resume,
    .rail_release = fabric_rail_release,
    .rail_alarm = fabric_rail_alarm,
    .rail_refuse = fabric_rail_refuse,
};

static bool open_threads(gw_fabric *f, const gw_fabric_options *options, gw_err *err) {
    for (uint32_t i = 0; i < f->most_streams; i++) {
        const char *name = i == STREAM_WORDS  ? "gw-data-words"
                           : i == STREAM_BULK ? "gw-data-bulk"
                                              : "gw-data-sums";
        f->rails[i] = gw_rail_thread_open(name, gw_stream_rail(i), gw_fabric_broken, f, err);
        if (f->rails[i] == NULL) return false;
        if (options->silence_ns != 0) gw_rail_thread_set_silence(f->rails[i], options->silence_ns);
    }
    f->provider = gw_provider_open(&options->provider, on_answered, f, err);
    if (f->provider == NULL) return false;
    f->words = gw_onesided_open(f->rails[STREAM_WORDS], GW_REQUESTER_WINDOW, GW_SMALL_BYTES, &f->regions,
                                NULL, &f->events, gw_settle_received, f, err);
    if (f->words == NULL) return false;
    f->bulk = gw_onesided_open(f->rails[STREAM_BULK], BULK_WINDOW, GW_PIECE_BYTES, &f->regions, f->provider,
                               &f->events, NULL, NULL, err);
    return f->bulk != NULL;
}

bool gw_fabric_open(const gw_fabric_options *options, gw_transport **transport, gw_err *err) {
    if (options->rails < 1 || options->rails > GW_FABRIC_RAILS ||
        options->extra_rails > GW_FABRIC_RAILS - options->rails)
        return gw_fail(err, GW_E_USAGE, "net/fabric: a link has 1 to %d rails, not %u and %u more",
                       GW_FABRIC_RAILS, options->rails, options->extra_rails);
    GW_ASSERT(options->kinds != 0);
    gw_fabric *f = calloc(1, sizeof *f);
    if (f == NULL) return gw_fail(err, GW_E_NOMEM, "net/fabric: no memory for a transport");
    f->base.ops = &fabric_ops;
    f->events = options->events;
    f->kinds = options->kinds;
    f->streams = GW_PATH_FIRST_RAIL + options->rails;
    f->most_streams = f->streams + options->extra_rails;
    f->settle_ns = options->settle_ns != 0 ? options->settle_ns : 1000000000u;
    f->retry_ns = options->retry_ns != 0 ? options->retry_ns : GW_BACKOFF_FIRST_NS;
    pthread_mutex_init(&f->change_lock, NULL);
    pthread_mutex_init(&f->links_lock, NULL);
    pthread_rwlock_init(&f->posts_lock, NULL);
    f->regions.words = gw_words_open(err);
    bool done = f->regions.words != NULL && open_threads(f, options, err);
    if (!done || (f->kinds != GW_FABRIC_TCP && !gw_settle_open(f, &options->rdma, err))) {
        fabric_close(&f->base);
        return false;
    }
    *transport = &f->base;
    return true;
}
