#include "net/fabric/fabric.h"

#include "core/base/assert.h"
#include "net/fabric/inside.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BULK_WINDOW = 8 /* pieces in flight: 2 MiB cover 10 Gbit/s at 1.6 ms */ };

static gw_fabric *fabric_of(gw_transport *transport) {
    return (gw_fabric *)transport;
}

/* ---- one-sided operations ---- */

static void enter_both(gw_fabric *f) {
    pthread_mutex_lock(&f->change_lock);
    gw_lane_thread_enter(f->lanes[STREAM_WORDS]);
    gw_lane_thread_enter(f->lanes[STREAM_BULK]);
}

static void leave_both(gw_fabric *f) {
    gw_lane_thread_leave(f->lanes[STREAM_BULK]);
    gw_lane_thread_leave(f->lanes[STREAM_WORDS]);
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

/* The regions' fence, with the paths' on both sides of it. Takes `members`, malloc'd. False: it is that of
 * nobody, and nothing is served. */
static bool move_fence(gw_fabric *f, const gw_fence *fence, gw_peer_id *members, uint32_t count,
                       gw_err *err) {
    bool mapped = false; /* others may have the words' memory */
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

/* Too large for the lane of small operations. */
static bool is_large(const gw_op *op) {
    return op->kind == GW_OP_FETCH || (op->kind == GW_OP_READ && op->bytes > GW_SMALL_BYTES);
}

/* Offers an operation to the peer's path. False: it goes by the lanes. */
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

void gw_fabric_post_lanes(gw_fabric *f, const gw_op *op) {
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
    gw_fabric_post_lanes(f, op);
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
    gw_lane_thread_spin(fabric_of(transport)->lanes[STREAM_WORDS], spin);
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

/* ---- lanes ---- */

static gw_lane_thread *lane_of(gw_transport *transport, uint32_t lane) {
    gw_fabric *f = fabric_of(transport);
    GW_ASSERT(lane < f->streams - FIRST_LANE);
    return f->lanes[FIRST_LANE + lane];
}

static uint32_t fabric_lanes(const gw_transport *transport) {
    return ((const gw_fabric *)transport)->streams - FIRST_LANE;
}

static void fabric_lane_use(gw_transport *transport, const gw_lane_user *user) {
    for (uint32_t i = 0; i < fabric_lanes(transport); i++) {
        gw_lane_thread *lane = lane_of(transport, i);
        gw_lane_thread_enter(lane);
        gw_lane_thread_use(lane, user);
        gw_lane_thread_leave(lane);
    }
}

static void fabric_lane_wake(gw_transport *transport, uint32_t lane) {
    gw_lane_thread_wake(lane_of(transport, lane));
}

static void fabric_lane_refresh(gw_transport *transport, uint32_t lane) {
    gw_lane_thread_refresh(lane_of(transport, lane));
}

static void fabric_lane_push(gw_transport *transport, gw_lane_peer *peer) {
    gw_lane_thread_push(lane_of(transport, peer->lane), peer);
}

static void fabric_lane_resume(gw_transport *transport, gw_lane_peer *peer) {
    gw_lane_thread_resume(lane_of(transport, peer->lane), peer);
}

static bool fabric_lane_release(gw_transport *transport, gw_lane_peer *peer) {
    return gw_lane_thread_release(lane_of(transport, peer->lane), peer);
}

static void fabric_lane_alarm(gw_transport *transport, uint32_t lane, uint64_t at_ns) {
    gw_lane_thread_alarm(lane_of(transport, lane), at_ns);
}

static void fabric_lane_refuse(gw_transport *transport, gw_lane_peer *peer, const gw_err *why) {
    gw_lane_thread_refuse(lane_of(transport, peer->lane), peer, why);
}

/* ---- life ---- */

static void fabric_close(gw_transport *transport) {
    gw_fabric *f = fabric_of(transport);
    gw_fabric_cut_all(f);
    if (f->loop != NULL) gw_settle_stop(f);
    for (uint32_t i = 0; i < f->streams; i++)
        if (f->lanes[i] != NULL) gw_lane_thread_stop(f->lanes[i]);
    if (f->provider != NULL) gw_provider_close(f->provider);
    if (f->loop != NULL) gw_settle_close(f);
    if (f->words != NULL) gw_onesided_close(f->words);
    if (f->bulk != NULL) gw_onesided_close(f->bulk);
    for (uint32_t i = 0; i < f->streams; i++)
        if (f->lanes[i] != NULL) gw_lane_thread_close(f->lanes[i]);
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

uint64_t gw_fabric_busy_since(gw_transport *transport) {
    const gw_fabric *f = fabric_of(transport);
    uint64_t first = f->loop != NULL ? gw_loop_busy_since(f->loop) : 0;
    for (uint32_t i = 0; i < f->streams; i++) {
        uint64_t since = gw_lane_thread_busy_since(f->lanes[i]);
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
    .lanes = fabric_lanes,
    .lane_use = fabric_lane_use,
    .lane_wake = fabric_lane_wake,
    .lane_refresh = fabric_lane_refresh,
    .lane_push = fabric_lane_push,
    .lane_resume = fabric_lane_resume,
    .lane_release = fabric_lane_release,
    .lane_alarm = fabric_lane_alarm,
    .lane_refuse = fabric_lane_refuse,
};

static bool open_threads(gw_fabric *f, const gw_fabric_options *options, gw_err *err) {
    for (uint32_t i = 0; i < f->streams; i++) {
        const char *name = i == STREAM_WORDS  ? "gw-data-words"
                           : i == STREAM_BULK ? "gw-data-bulk"
                                              : "gw-data-sums";
        f->lanes[i] = gw_lane_thread_open(name, gw_stream_lane(i), gw_fabric_broken, f, err);
        if (f->lanes[i] == NULL) return false;
        if (options->silence_ns != 0) gw_lane_thread_bear(f->lanes[i], options->silence_ns);
    }
    f->provider = gw_provider_open(&options->provider, on_answered, f, err);
    if (f->provider == NULL) return false;
    f->words = gw_onesided_open(f->lanes[STREAM_WORDS], GW_ASKER_WINDOW, GW_SMALL_BYTES, &f->regions, NULL,
                                &f->events, gw_settle_told, f, err);
    if (f->words == NULL) return false;
    f->bulk = gw_onesided_open(f->lanes[STREAM_BULK], BULK_WINDOW, GW_PIECE_BYTES, &f->regions, f->provider,
                               &f->events, NULL, NULL, err);
    return f->bulk != NULL;
}

bool gw_fabric_open(const gw_fabric_options *options, gw_transport **transport, gw_err *err) {
    if (options->lanes < 1 || options->lanes > GW_FABRIC_LANES)
        return gw_fail(err, GW_E_USAGE, "net/fabric: a link has 1 to %d lanes, not %u", GW_FABRIC_LANES,
                       options->lanes);
    GW_ASSERT(options->kinds != 0);
    gw_fabric *f = calloc(1, sizeof *f);
    if (f == NULL) return gw_fail(err, GW_E_NOMEM, "net/fabric: no memory for a transport");
    f->base.ops = &fabric_ops;
    f->events = options->events;
    f->kinds = options->kinds;
    f->streams = FIRST_LANE + options->lanes;
    f->settle_ns = options->settle_ns != 0 ? options->settle_ns : 1000000000u;
    f->retry_ns = options->retry_ns != 0 ? options->retry_ns : UINT64_C(30000000000);
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
