#include "net/collective/collective.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/trace.h"
#include "net/collective/lanes.h"
#include "net/collective/part.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rail as the collectives use it: its channels and, in order, its parts of the calls. Used by the rail's
 * thread. */
typedef struct gw_collective_rail {
    gw_collective *collective;
    uint32_t rail;
    /* The state of each is the part whose message is landing there, or NULL. The list is changed by the rail's thread
     * under the collective's lock. */
    gw_rail_peer **peers;
    uint32_t peer_count, peer_capacity;
    gw_part *first, *last;
    gw_collective_tag latest; /* the tag of the last call that this rail has seen */
    uint64_t progress_ns;     /* when something was last sent or received */
    gw_part *inbox,
        *inbox_last; /* parts that were started and not seen by this rail; guarded by the collective's lock */
} gw_collective_rail;

struct gw_collective {
    gw_transport *transport;
    gw_collective_done *done;
    void *context;
    uint32_t rail_count, sure_count; /* rails, and those that every link has */
    gw_collective_rail *rails;
    gw_lanes
        lanes; /* how many rails large sums use, where links may have more than sure_count; under the lock */
    pthread_mutex_t lock;
    pthread_cond_t idle; /* signalled when the queue is empty and no thread delivers */
    gw_call *first, *last;
    gw_collective_tag latest;
    bool delivering;
    uint64_t delivered_ns;
};

/* Compares tags by epoch, step, attempt and bucket. */
static int compare_tags(const gw_collective_tag *a, const gw_collective_tag *b) {
    if (a->fence.epoch != b->fence.epoch) return a->fence.epoch < b->fence.epoch ? -1 : 1;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->attempt != b->attempt) return a->attempt < b->attempt ? -1 : 1;
    return a->bucket < b->bucket ? -1 : a->bucket > b->bucket;
}

/* How many rails a call uses. */

/* Whether that is chosen: for large sums of integers, which have the same bytes however they are cut. */
static bool is_chosen(const gw_collective *collective, const gw_call *call) {
    return collective->rail_count > collective->sure_count && call->is.type == GW_SUM_I64 &&
           call->elements > GW_PART_CACHED;
}

static bool has_channel(const gw_collective_rail *rail, const gw_peer_id *id) {
    for (uint32_t i = 0; i < rail->peer_count; i++)
        if (gw_peer_id_equal(&rail->peers[i]->id, id)) return true;
    return false;
}

/* How many rails this member offers for a call: those that have channels to both of its neighbours in the ring. The
 * member of rank 0 offers no more than it has chosen, and so chooses for all. */
static uint32_t offer_lanes(gw_collective *collective, const gw_call *call) {
    uint32_t n = call->is.member_count, rank = call->is.rank, lanes = collective->sure_count;
    const gw_peer_id *left = &call->is.members[(rank + n - 1) % n],
                     *right = &call->is.members[(rank + 1) % n];
    if (!is_chosen(collective, call)) return lanes;
    pthread_mutex_lock(&collective->lock);
    uint32_t most = rank == 0 ? gw_lanes_choose(&collective->lanes) : collective->rail_count;
    while (lanes < most && has_channel(&collective->rails[lanes], left) &&
           has_channel(&collective->rails[lanes], right))
        lanes++;
    pthread_mutex_unlock(&collective->lock);
    return lanes < most ? lanes : most;
}

/* Notes how long a sum took on so many rails. Called with the lock held. */
static void learn(gw_collective *collective, const gw_call *call, uint64_t since_ns, uint64_t now_ns) {
    if (!is_chosen(collective, call) || call->is.rank != 0 || call->entered_ns == 0) return;
    if (since_ns < call->entered_ns) since_ns = call->entered_ns;
    if (gw_lanes_learn(&collective->lanes, call->part_count, call->elements, now_ns - since_ns))
        gw_log(GW_INFO, "net/collective", "large sums go by %u stream%s to each peer: the fastest number now",
               collective->lanes.best, collective->lanes.best == 1 ? "" : "s");
}

/* The ends of calls. */

/* Delivers every call at the head of the queue whose parts have all ended, in order, one thread at a time. */
static void deliver(gw_collective *collective) {
    pthread_mutex_lock(&collective->lock);
    while (!collective->delivering && collective->first != NULL && collective->first->parts_left == 0) {
        gw_call *call = collective->first;
        collective->first = call->next;
        if (collective->first == NULL) collective->last = NULL;
        collective->delivering = true;
        uint64_t now = gw_now_ns(), since = call->started_ns;
        if (since < collective->delivered_ns) since = collective->delivered_ns;
        collective->delivered_ns = now;
        gw_collective_status status = (gw_collective_status)atomic_load(&call->status);
        if (status == 0) learn(collective, call, since, now);
        pthread_mutex_unlock(&collective->lock);
        gw_collective_result result = {.token = call->is.token,
                                       .rails = call->part_count,
                                       .status = status == 0 ? GW_COLLECTIVE_OK : status,
                                       .elapsed_ns = now - since};
        for (uint32_t i = 0; i < call->part_count; i++) {
            result.sent_bytes += call->parts[i].sent_bytes;
            result.received_bytes += call->parts[i].received_bytes;
            result.saved_bytes += call->parts[i].saved_bytes;
        }
        if (status == GW_COLLECTIVE_FAILED) {
            result.suspect = call->suspect;
            result.changed = call->changed;
            result.err = &call->err;
        }
        collective->done(collective->context, &result);
        free(call);
        pthread_mutex_lock(&collective->lock);
        collective->delivering = false;
    }
    if (collective->first == NULL && !collective->delivering) pthread_cond_broadcast(&collective->idle);
    pthread_mutex_unlock(&collective->lock);
}

/* Ends every call that is not done yet. The rails take their parts down when they wake. */
static void end_calls(gw_collective *collective, gw_collective_status status, const gw_peer_id *suspect,
                      bool changed, const gw_err *err) {
    pthread_mutex_lock(&collective->lock);
    for (gw_call *call = collective->first; call != NULL; call = call->next) {
        if (call->parts_left == 0 || atomic_load(&call->status) != 0) continue;
        if (err != NULL) call->err = *err;
        if (suspect != NULL) call->suspect = *suspect;
        call->changed = changed;
        atomic_store(&call->status, (int)status);
    }
    pthread_mutex_unlock(&collective->lock);
    for (uint32_t i = 0; i < collective->rail_count; i++)
        collective->transport->ops->rail_wake(collective->transport, i);
}

static void fail_calls(gw_collective_rail *rail, const gw_peer_id *suspect, const gw_err *err) {
    end_calls(rail->collective, GW_COLLECTIVE_FAILED, suspect, false, err);
}

/* Whether what has arrived from this peer is what it sent, and what was added up here is still intact. If
 * not, all calls fail. */
static bool is_unchanged(gw_collective_rail *rail, const gw_part *part, const gw_rail_peer *peer) {
    const gw_collective_tag *tag = &part->call->is.tag;
    char id[GW_SHORT_TEXT], what[100] = "what this peer had added up has other bits now";
    gw_err err;
    if (!part->changed && !part->own_changed) return true;
    if (!part->own_changed)
        snprintf(what, sizeof what, "what came from peer %s has other bits than it had there",
                 gw_peer_id_short(&peer->id, id));
    gw_fail(&err, GW_E_CORRUPT, "net/collective: step %llu bucket %u: %s", (unsigned long long)tag->step,
            tag->bucket, what);
    end_calls(rail->collective, GW_COLLECTIVE_FAILED, part->own_changed ? NULL : &peer->id, true, &err);
    return false;
}

/* Records that all members have entered a part of a ring. In recursive doubling a member knows that at the end
 * only. */
static void trace_entered(gw_part *part) {
    if (part->traced || !part->all_entered || part->ops != &gw_ring_ops) return;
    part->traced = true;
    gw_trace_end(GW_TRACE_ENTER, part->opened_ns, 0, part->call->is.tag.step, 0);
}

static void trace_part(const gw_part *part) {
    const gw_collective_tag *tag = &part->call->is.tag;
    gw_trace_end(GW_TRACE_PART, part->opened_ns, (uint32_t)(part->sent_bytes >> 10), tag->step,
                 part->rail << 3 | (tag->bucket & 3) << 1 | (part->ops == &gw_ring_ops));
}

static void end_part(gw_collective_rail *rail, gw_part *part) {
    gw_collective *collective = rail->collective;
    trace_part(part);
    part->ops->close(part);
    pthread_mutex_lock(&collective->lock);
    GW_ASSERT(part->call->parts_left > 0);
    part->call->parts_left--;
    pthread_mutex_unlock(&collective->lock);
}

/* A rail. The functions are called on its thread. */

static void push_all(gw_collective_rail *rail) {
    gw_transport *transport = rail->collective->transport;
    for (uint32_t i = 0; i < rail->peer_count; i++) transport->ops->rail_push(transport, rail->peers[i]);
}

/* Whether calls that were ended must still be taken down on this rail. */
static bool is_ending(const gw_collective_rail *rail) {
    return rail->first != NULL && atomic_load(&rail->first->call->status) != 0;
}

/* Removes the parts that are done. They are in order, so the next ones may send. */
static void settle(gw_collective_rail *rail) {
    bool ended = false;
    for (gw_part **at = &rail->first, *before = NULL; *at != NULL;) {
        gw_part *part = *at;
        if (part->done && atomic_load(&part->call->status) == 0) {
            *at = part->next;
            if (rail->last == part) rail->last = before;
            end_part(rail, part);
            ended = true;
        } else {
            before = part;
            at = &part->next;
        }
    }
    if (ended) deliver(rail->collective);
}

static void on_up(void *context, gw_rail_peer *peer) {
    gw_collective *collective = context;
    gw_collective_rail *rail = &collective->rails[peer->rail];
    peer->state = NULL;
    if (rail->peer_count == rail->peer_capacity) {
        uint32_t capacity = rail->peer_capacity == 0 ? 8 : 2 * rail->peer_capacity;
        pthread_mutex_lock(&collective->lock);
        gw_rail_peer **peers = realloc(rail->peers, capacity * sizeof(gw_rail_peer *));
        if (peers != NULL) rail->peers = peers;
        pthread_mutex_unlock(&collective->lock);
        if (peers == NULL) {
            gw_err err;
            gw_fail(&err, GW_E_NOMEM, "net/collective: no memory for a channel");
            collective->transport->ops->rail_refuse(collective->transport, peer, &err);
            return;
        }
        rail->peer_capacity = capacity;
    }
    pthread_mutex_lock(&collective->lock);
    rail->peers[rail->peer_count++] = peer;
    pthread_mutex_unlock(&collective->lock);
}

static void on_down(void *context, gw_rail_peer *peer) {
    gw_collective *collective = context;
    gw_collective_rail *rail = &collective->rails[peer->rail];
    pthread_mutex_lock(&collective->lock);
    for (uint32_t i = 0; i < rail->peer_count; i++)
        if (rail->peers[i] == peer) rail->peers[i--] = rail->peers[--rail->peer_count];
    pthread_mutex_unlock(&collective->lock);
    bool hit = false;
    for (gw_part *part = rail->first; part != NULL; part = part->next) {
        if (part->sending_to == peer) {
            part->sending_to = NULL;
            part->in_flight = 0;
        }
        hit = hit || gw_is_member(part->call->is.members, part->call->is.member_count, &peer->id);
    }
    if (!hit) return;
    char id[GW_SHORT_TEXT];
    gw_err err;
    gw_fail(&err, GW_E_PEER, "net/collective: the link to %s broke", gw_peer_id_short(&peer->id, id));
    fail_calls(rail, &peer->id, &err);
}

static bool on_next(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    gw_collective *collective = context;
    gw_collective_rail *rail = &collective->rails[peer->rail];
    if (is_ending(rail)) return false;
    for (gw_part *part = rail->first; part != NULL; part = part->next) {
        if (part->tx_done) continue;
        bool has = part->ops->next(part, peer, message);
        if (has) part->sent_bytes += message->bytes;
        if (part->tx_done) push_all(rail);
        return has;
    }
    return false;
}

static void on_sent(void *context, gw_rail_peer *peer) {
    gw_collective *collective = context;
    gw_collective_rail *rail = &collective->rails[peer->rail];
    gw_part *part = rail->first;
    while (part != NULL && (part->sending_to != peer || part->in_flight == 0)) part = part->next;
    GW_ASSERT(part != NULL);
    rail->progress_ns = gw_now_ns();
    part->in_flight--;
    if (atomic_load(&part->call->status) != 0)
        return; /* the call is being ended, and its peers may be gone */
    bool blocked = !part->tx_done;
    part->ops->sent(part, peer);
    if (!is_unchanged(rail, part, peer)) return;
    if (blocked && part->tx_done) push_all(rail);
    settle(rail);
}

static gw_arrival disagree(gw_collective_rail *rail, const gw_rail_peer *peer, const gw_call *call,
                           const gw_part_header *header) {
    char id[GW_SHORT_TEXT];
    gw_err err;
    gw_fail(&err, GW_E_INVALID,
            "net/collective: step %llu bucket %u: peer %s sums %llu elements of type %d among %u members, "
            "this one "
            "%llu of type %d among %u",
            (unsigned long long)header->tag.step, header->tag.bucket, gw_peer_id_short(&peer->id, id),
            (unsigned long long)header->elements, (int)header->sum, header->members,
            (unsigned long long)call->elements, (int)call->is.type, call->is.member_count);
    fail_calls(rail, &peer->id, &err);
    return GW_ARRIVAL_REFUSE;
}

static gw_arrival on_arrive(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    gw_collective *collective = context;
    gw_collective_rail *rail = &collective->rails[peer->rail];
    gw_part_header header;
    if (!gw_part_decode(message->header, &header)) return GW_ARRIVAL_REFUSE;
    gw_part *part = rail->first;
    while (part != NULL && compare_tags(&part->call->is.tag, &header.tag) != 0) part = part->next;
    if (part == NULL) {
        if (compare_tags(&header.tag, &rail->latest) <= 0) return GW_ARRIVAL_DROP;
        /* A message of the same epoch and another view comes from the other half of a partition, whose calls
         * never come here. */
        bool foreign = header.tag.fence.epoch == rail->latest.fence.epoch &&
                       !gw_view_name_equal(&header.tag.fence.view, &rail->latest.fence.view);
        return foreign ? GW_ARRIVAL_DROP : GW_ARRIVAL_PARK;
    }
    const gw_call *call = part->call;
    if (!gw_view_name_equal(&header.tag.fence.view, &call->is.tag.fence.view)) return GW_ARRIVAL_DROP;
    if (atomic_load(&call->status) != 0) return GW_ARRIVAL_DROP;
    if (is_ending(rail)) return GW_ARRIVAL_PARK; /* until the calls before it are taken down */
    if (header.elements != call->elements || header.members != call->is.member_count ||
        header.sum != call->is.type)
        return disagree(rail, peer, call, &header);
    gw_arrival arrival = part->ops->arrive(part, peer, &header, message);
    if (arrival == GW_ARRIVAL_LAND) {
        peer->state = part;
        part->received_bytes += message->bytes;
        part->landing_index = header.index;
        part->landing_bytes = message->bytes;
        part->arrived_ns = gw_trace_begin();
    }
    return arrival;
}

static void on_fold(void *context, gw_rail_peer *peer, uint32_t offset, const void *payload, uint32_t bytes) {
    (void)context;
    gw_part *part = peer->state;
    GW_ASSERT(part != NULL);
    if (atomic_load(&part->call->status) != 0) return; /* the call is being ended */
    part->ops->fold(part, offset, payload, bytes);
}

/* Adds a part of a call to what a rail is to take. Called with the lock held. */
static void give_part(gw_collective *collective, gw_part *part) {
    gw_collective_rail *rail = &collective->rails[part->rail];
    if (rail->inbox_last == NULL)
        rail->inbox = part;
    else
        rail->inbox_last->next = part;
    rail->inbox_last = part;
}

/* Cuts a call among rails, as all members have entered. Its part on rail 0 is there. */
static void cut(gw_collective *collective, gw_call *call, uint32_t lanes) {
    pthread_mutex_lock(&collective->lock);
    GW_ASSERT(lanes >= 1 && lanes <= collective->rail_count && call->part_count == 1);
    call->entered_ns = gw_now_ns();
    call->part_count = lanes;
    call->parts_left += lanes - 1;
    for (uint32_t i = 0; i < lanes; i++) {
        uint64_t first = call->elements * i / lanes, end = call->elements * (i + 1) / lanes;
        gw_part *part = &call->parts[i];
        if (i > 0) {
            *part = (gw_part){.ops = &gw_ring_ops,
                              .call = call,
                              .transport = collective->transport,
                              .rail = i,
                              .on = &collective->rails[i],
                              .lanes = 1};
            give_part(collective, part);
        }
        part->first = first;
        part->count = end - first;
    }
    pthread_mutex_unlock(&collective->lock);
    for (uint32_t i = 1; i < lanes; i++) collective->transport->ops->rail_wake(collective->transport, i);
}

/* Begins a part of a ring, as all members have entered. */
static bool begin_part(gw_collective_rail *rail, gw_part *part) {
    gw_err err;
    if (part->rail == 0) cut(rail->collective, part->call, part->lanes);
    if (part->ops->begin(part, &err)) return true;
    fail_calls(rail, NULL, &err);
    return false;
}

static void arm(gw_collective_rail *rail);

static void on_landed(void *context, gw_rail_peer *peer) {
    gw_collective *collective = context;
    gw_collective_rail *rail = &collective->rails[peer->rail];
    gw_part *part = peer->state;
    GW_ASSERT(part != NULL);
    peer->state = NULL;
    if (atomic_load(&part->call->status) != 0)
        return; /* the call is being ended, and its peers may be gone */
    rail->progress_ns = gw_now_ns();
    bool blocked = !part->tx_done, waiting = !part->all_entered;
    part->ops->landed(part, peer);
    if (part->landing_bytes > 0)
        gw_trace_end(GW_TRACE_HOP, part->arrived_ns, part->landing_index, part->landing_bytes, 0);
    trace_entered(part);
    if (!is_unchanged(rail, part, peer)) return;
    bool begins = waiting && part->all_entered;
    if (begins && part->ops->begin != NULL && !begin_part(rail, part)) return;
    if (blocked && part->tx_done) push_all(rail);
    if (begins && !part->done) arm(rail);
    settle(rail);
}

/* Ends the parts of ended calls, after releasing their memory. A failure or abort ends all calls that there
 * are, so the ended ones are the oldest, and no part of a later call has anything in flight (on_next and
 * on_arrive see to that). */
static void take_down(gw_collective_rail *rail) {
    gw_transport *transport = rail->collective->transport;
    if (!is_ending(rail)) return;
    for (uint32_t i = 0; i < rail->peer_count; i++) {
        (void)transport->ops->rail_release(transport, rail->peers[i]);
        rail->peers[i]->state = NULL;
    }
    while (is_ending(rail)) {
        gw_part *part = rail->first;
        rail->first = part->next;
        end_part(rail, part);
    }
    if (rail->first == NULL) rail->last = NULL;
    for (uint32_t i = 0; i < rail->peer_count; i++) transport->ops->rail_resume(transport, rail->peers[i]);
    push_all(rail);
    deliver(rail->collective);
}

/* Opens a part. A link to every member must stand: one that breaks later fails the call, and so does one that
 * is missing now. On rails beside the first one those of neighbours are enough. */
static void open_part(gw_collective_rail *rail, gw_part *part) {
    const gw_collective_call *is = &part->call->is;
    gw_rail_peer *peer;
    gw_err err;
    if (rail->rail == 0) part->lanes = offer_lanes(rail->collective, part->call);
    for (uint32_t i = 0; i < is->member_count && rail->rail == 0; i++) {
        if (i == is->rank || gw_part_peer(part, i, &peer, &err)) continue;
        fail_calls(rail, &is->members[i], &err);
        return;
    }
    if (!part->ops->open(part, &err)) fail_calls(rail, NULL, &err);
}

static void take_inbox(gw_collective_rail *rail) {
    gw_collective *collective = rail->collective;
    gw_transport *transport = collective->transport;
    pthread_mutex_lock(&collective->lock);
    gw_part *part = rail->inbox;
    rail->inbox = rail->inbox_last = NULL;
    pthread_mutex_unlock(&collective->lock);
    bool came = part != NULL;
    if (came) transport->ops->rail_refresh(transport, rail->rail);
    while (part != NULL) {
        gw_part *next = part->next;
        part->next = NULL;
        rail->latest = part->call->is.tag;
        if (rail->last == NULL)
            rail->first = part;
        else
            rail->last->next = part;
        rail->last = part;
        part->opened_ns = gw_trace_begin();
        if (atomic_load(&part->call->status) == 0) open_part(rail, part);
        part = next;
    }
    if (!came) return;
    for (uint32_t i = 0; i < rail->peer_count; i++) transport->ops->rail_resume(transport, rail->peers[i]);
    push_all(rail);
    take_down(rail); /* calls may have been ended before they came here */
}

/* Sets the alarm for the first deadline of a part that makes no progress. */
static void arm(gw_collective_rail *rail) {
    uint64_t at = UINT64_MAX;
    for (gw_part *part = rail->first; part != NULL; part = part->next) {
        uint64_t limit = rail->progress_ns + (uint64_t)part->call->is.progress_ms * 1000000u;
        if (part->all_entered && !part->done && limit < at) at = limit;
    }
    rail->collective->transport->ops->rail_alarm(rail->collective->transport, rail->rail, at);
}

static void check_deadline(gw_collective_rail *rail) {
    uint64_t now = gw_now_ns();
    for (gw_part *part = rail->first; part != NULL; part = part->next) {
        uint64_t limit = rail->progress_ns + (uint64_t)part->call->is.progress_ms * 1000000u;
        if (!part->all_entered || part->done || now < limit) continue;
        gw_err err;
        gw_fail(&err, GW_E_TIMEOUT, "net/collective: step %llu bucket %u: no progress for %u ms",
                (unsigned long long)part->call->is.tag.step, part->call->is.tag.bucket,
                part->call->is.progress_ms);
        fail_calls(rail, NULL, &err);
        return;
    }
}

static void on_woken(void *context, uint32_t number) {
    gw_collective *collective = context;
    gw_collective_rail *rail = &collective->rails[number];
    take_down(rail);
    take_inbox(rail);
    settle(rail);
    arm(rail);
}

static void on_alarmed(void *context, uint32_t number) {
    gw_collective *collective = context;
    gw_collective_rail *rail = &collective->rails[number];
    check_deadline(rail);
    take_down(rail);
    settle(rail);
    arm(rail);
}

bool gw_part_peer(const gw_part *part, uint32_t rank, gw_rail_peer **peer, gw_err *err) {
    const gw_peer_id *id = &part->call->is.members[rank];
    for (uint32_t i = part->on->peer_count; i > 0; i--) { /* newest first */
        *peer = part->on->peers[i - 1];
        if (gw_peer_id_equal(&(*peer)->id, id)) return true;
    }
    *peer = NULL;
    char text[GW_SHORT_TEXT];
    return gw_fail(err, GW_E_PEER, "net/collective: no link to %s", gw_peer_id_short(id, text));
}

/* Functions for any thread. */

bool gw_collective_open(gw_transport *transport, gw_collective_done *done, void *context,
                        gw_collective **collective, gw_err *err) {
    gw_collective *c = calloc(1, sizeof *c);
    uint32_t rails = transport->ops->rails(transport), sure = transport->ops->sure_rails(transport);
    gw_collective_rail *states = calloc(rails, sizeof *states);
    if (c == NULL || states == NULL) {
        free(c);
        free(states);
        return gw_fail(err, GW_E_NOMEM, "net/collective: no memory");
    }
    *c = (gw_collective){.transport = transport,
                         .done = done,
                         .context = context,
                         .rail_count = rails,
                         .sure_count = sure,
                         .rails = states,
                         .lanes = gw_lanes_begin(rails)};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->idle, NULL);
    for (uint32_t i = 0; i < rails; i++) states[i] = (gw_collective_rail){.collective = c, .rail = i};
    gw_rail_user user = {.context = c,
                         .up = on_up,
                         .down = on_down,
                         .next = on_next,
                         .sent = on_sent,
                         .arrive = on_arrive,
                         .fold = on_fold,
                         .landed = on_landed,
                         .woken = on_woken,
                         .alarmed = on_alarmed};
    transport->ops->rail_use(transport, &user);
    *collective = c;
    return true;
}

static bool check_call(const gw_collective_call *is, gw_err *err) {
    if (is->type != GW_SUM_I64 && is->type != GW_SUM_F32)
        return gw_fail(err, GW_E_INVALID, "net/collective: unknown element type %d", (int)is->type);
    if (is->member_count < 1 || is->member_count > GW_COLLECTIVE_MEMBERS || is->rank >= is->member_count)
        return gw_fail(err, GW_E_INVALID, "net/collective: rank %u of %u members", is->rank,
                       is->member_count);
    if (is->piece_count < 1 || is->progress_ms == 0)
        return gw_fail(err, GW_E_INVALID, "net/collective: a call needs a piece and a deadline");
    uint64_t elements = 0;
    for (uint32_t i = 0; i < is->piece_count; i++) {
        const gw_collective_piece *s = &is->pieces[i];
        if (s->count > GW_COLLECTIVE_ELEMENTS || (elements += s->count) > GW_COLLECTIVE_ELEMENTS)
            return gw_fail(err, GW_E_LIMIT, "net/collective: more than 2^40 elements");
        uint64_t misaligned = ((uintptr_t)s->in | (uintptr_t)s->out) % gw_sum_bytes(is->type);
        if (s->count > 0 && (s->in == NULL || s->out == NULL || misaligned != 0))
            return gw_fail(err, GW_E_INVALID, "net/collective: piece %u is not aligned memory", i);
        if (s->in == s->out && s->count > 0 && is->member_count > 1)
            return gw_fail(err, GW_E_INVALID, "net/collective: piece %u: in and out are the same", i);
    }
    return true;
}

/* One block holds the call and all of its arrays. */
static gw_call *make_call(const gw_collective_call *is, uint32_t rails) {
    size_t members = is->member_count * sizeof(gw_peer_id),
           pieces = is->piece_count * sizeof(gw_collective_piece),
           starts = (is->piece_count + (size_t)1) * sizeof(uint64_t), parts = rails * sizeof(gw_part);
    gw_call *call = calloc(1, sizeof *call + parts + pieces + starts + members);
    if (call == NULL) return NULL;
    call->parts = (gw_part *)(call + 1);
    gw_collective_piece *piece_copy = (gw_collective_piece *)(call->parts + rails);
    call->starts = (uint64_t *)(piece_copy + is->piece_count);
    gw_peer_id *member_copy = (gw_peer_id *)(call->starts + is->piece_count + 1);
    memcpy(piece_copy, is->pieces, pieces);
    memcpy(member_copy, is->members, members);
    call->is = *is;
    call->is.pieces = piece_copy;
    call->is.members = member_copy;
    for (uint32_t i = 0; i < is->piece_count; i++)
        call->starts[i + 1] = call->starts[i] + is->pieces[i].count;
    call->elements = call->starts[is->piece_count];
    return call;
}

/* Makes the part with which a call begins. A call of one member has none, and is done. */
static void make_part(gw_collective *collective, gw_call *call) {
    uint64_t bytes = call->elements * gw_sum_bytes(call->is.type);
    bool small = bytes <= GW_DOUBLING_BYTES;
    if (call->is.member_count == 1) {
        for (uint32_t i = 0; i < call->is.piece_count; i++) {
            const gw_collective_piece *s = &call->is.pieces[i];
            if (s->in != s->out && s->count > 0)
                memcpy(s->out, s->in, s->count * gw_sum_bytes(call->is.type));
        }
        return;
    }
    call->part_count = 1;
    call->parts[0] = (gw_part){.ops = small ? &gw_doubling_ops : &gw_ring_ops,
                               .call = call,
                               .transport = collective->transport,
                               .on = &collective->rails[0],
                               .count = call->elements};
}

bool gw_collective_start(gw_collective *collective, const gw_collective_call *is, gw_err *err) {
    if (!check_call(is, err)) return false;
    gw_call *call = make_call(is, collective->rail_count);
    if (call == NULL) return gw_fail(err, GW_E_NOMEM, "net/collective: no memory for a call");
    make_part(collective, call);
    call->started_ns = gw_now_ns();
    pthread_mutex_lock(&collective->lock);
    bool rises = compare_tags(&is->tag, &collective->latest) > 0;
    if (rises) {
        collective->latest = is->tag;
        call->parts_left = call->part_count;
        if (collective->last == NULL)
            collective->first = call;
        else
            collective->last->next = call;
        collective->last = call;
        if (call->part_count > 0) give_part(collective, &call->parts[0]);
    }
    pthread_mutex_unlock(&collective->lock);
    if (!rises) {
        free(call);
        return gw_fail(err, GW_E_INVALID, "net/collective: step %llu bucket %u: the tag does not rise",
                       (unsigned long long)is->tag.step, is->tag.bucket);
    }
    if (is->member_count > 1)
        collective->transport->ops->rail_wake(collective->transport, 0); /* the call may be freed by now */
    else
        deliver(collective);
    return true;
}

void gw_collective_abort(gw_collective *collective) {
    end_calls(collective, GW_COLLECTIVE_ABORTED, NULL, false, NULL);
}

void gw_collective_close(gw_collective *collective) {
    gw_collective_abort(collective);
    pthread_mutex_lock(&collective->lock);
    while (collective->first != NULL || collective->delivering)
        pthread_cond_wait(&collective->idle, &collective->lock);
    pthread_mutex_unlock(&collective->lock);
    collective->transport->ops->rail_use(collective->transport, NULL);
    for (uint32_t i = 0; i < collective->rail_count; i++) free(collective->rails[i].peers);
    pthread_mutex_destroy(&collective->lock);
    pthread_cond_destroy(&collective->idle);
    free(collective->rails);
    free(collective);
}
