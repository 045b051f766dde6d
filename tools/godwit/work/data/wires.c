#include "tools/godwit/work/data/wires.h"

#include "core/base/assert.h"
#include "core/base/id_index.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "net/fabric/fabric.h"
#include "net/loop/warning_rate.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDIAL_NS  UINT64_C(10000000)
#define SETTLE_NS  UINT64_C(1000000000)
#define LASTING_NS UINT64_C(1000000000)
/* Pauses double so often: up to ten seconds after links that did not last, to one after dials that failed, as
 * of control links, so that not much time is lost once what this peer lacked is there again. */
enum { MOST_VAIN = 10, MOST_FAILED = 7 };

/* Wires that were dropped and are kept: a peer that is dialled in vain soon after was of the life that its
 * wire tells. */
enum { KEPT = GW_MAX_MEMBERS };

typedef struct gw_wire gw_wire;

typedef struct dial {
    gw_wire *wire;
    gw_stream *stream; /* NULL: over */
} dial;

/* The data connections to one peer. */
struct gw_wire {
    gw_peer_id id; /* first, for the index */
    gw_wires *wires;
    /* the loop's */
    bool followed;
    uint64_t dropped; /* number of the drop, from 1; 0 = the wire is in use */
    gw_incarnation life;
    gw_addr addr;
    gw_timer redial;
    dial dials[2 + GW_FABRIC_RAILS];
    uint32_t dialling;
    uint32_t failed;         /* dials in a row, since the control link came up */
    _Atomic uint64_t landed; /* bytes of what was fetched from there; any thread */
    /* under the lock */
    bool standing;
    uint64_t link;
    gw_path_kind kind;
    uint64_t up_ns;
    char why[96];      /* it does not stand; empty: nothing is known to have failed */
    bool own_fault;    /* that is a fault of this peer's own */
    uint32_t vain;     /* links in a row that did not last, or did not come up although their streams had */
    uint32_t fetching; /* operations that count what has landed */
};

struct gw_wires {
    gw_loop *loop;
    const gw_local *local;
    gw_transport *transport;
    gw_collective *collective;
    gw_wires_told *told;
    void *told_context;
    uint32_t streams;
    uint64_t attempts;
    int spare;              /* a descriptor, for the fence; -1: none could be had */
    gw_rate_limit failures; /* to open or take over a stream, for reasons of this peer's */
    /* The list and its index are changed by the loop's thread alone, and under the lock: that thread reads
     * them without it. */
    gw_wire **list;
    uint32_t count, capacity;
    gw_id_index index;
    uint64_t drops;   /* wires that have been dropped so far */
    uint64_t landed;  /* from peers that are forgotten; under the lock */
    uint64_t corrupt; /* links that ended so; under the lock */
    gw_rate_limit corruptions;
    bool look_posted; /* look_again has been posted and has not begun; under the lock */
    bool stopped;     /* changed by the loop, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void dial_all(void *context);

static gw_id_records records(const gw_wires *wires) {
    return (gw_id_records){wires->list, 0};
}

static gw_wire *find(const gw_wires *wires, const gw_peer_id *id) {
    uint32_t number = gw_id_index_find(&wires->index, records(wires), id);
    return number == UINT32_MAX ? NULL : wires->list[number];
}

/* With the lock held. */
static void make_room(gw_wires *wires) {
    if (wires->count < wires->capacity) return;
    wires->capacity = wires->capacity > 0 ? 2 * wires->capacity : 16;
    gw_wire **list = realloc(wires->list, wires->capacity * sizeof(void *));
    GW_ASSERT_MEMORY(list != NULL);
    wires->list = list;
    GW_ASSERT_MEMORY(gw_id_index_reserve(&wires->index, records(wires), wires->count, wires->capacity));
}

static gw_wire *find_or_add(gw_wires *wires, const gw_peer_id *id) {
    gw_wire *wire = find(wires, id);
    if (wire) wire->dropped = 0;
    if (wire) return wire;
    wire = calloc(1, sizeof *wire);
    GW_ASSERT_MEMORY(wire != NULL);
    wire->wires = wires;
    wire->id = *id;
    pthread_mutex_lock(&wires->lock);
    make_room(wires);
    wires->list[wires->count] = wire;
    gw_id_index_put(&wires->index, records(wires), wires->count++);
    pthread_mutex_unlock(&wires->lock);
    return wire;
}

static int latest_drop_first(const void *a, const void *b) {
    uint64_t first = (*(gw_wire *const *)a)->dropped, second = (*(gw_wire *const *)b)->dropped;
    return (first < second) - (first > second);
}

/* Drops a wire. Frees wires once twice as many as are kept have been dropped: all but the KEPT latest ones
 * and those that operations still count on. */
static void forget(gw_wires *wires, gw_wire *wire) {
    uint32_t dropped = 0, kept = 0;
    wire->dropped = ++wires->drops;
    for (uint32_t i = 0; i < wires->count; i++) dropped += wires->list[i]->dropped > 0;
    if (dropped < 2 * KEPT) return;
    pthread_mutex_lock(&wires->lock);
    qsort(wires->list, wires->count, sizeof(void *), latest_drop_first); /* those in use come last */
    for (uint32_t i = 0; i < wires->count; i++) {
        gw_wire *old = wires->list[i];
        if (old->dropped == 0 || i < KEPT || old->fetching > 0) {
            wires->list[kept++] = old;
            continue;
        }
        wires->landed += atomic_load(&old->landed);
        free(old);
    }
    wires->count = kept;
    gw_id_index_rebuild(&wires->index, records(wires), kept);
    pthread_mutex_unlock(&wires->lock);
}

/* ---- the transport's threads ---- */

static void op_completed(void *context, const gw_completion *completion) {
    gw_wires *wires = context;
    gw_wire_op *op = (gw_wire_op *)(uintptr_t)completion->token;
    if (op->from) {
        pthread_mutex_lock(&wires->lock);
        op->from->fetching--;
        pthread_mutex_unlock(&wires->lock);
    }
    op->done(op, completion);
}

void gw_wires_tell_corrupt(gw_wires *wires, const char *kind, const gw_peer_id *peer, const char *why) {
    char id[GW_SHORT_TEXT];
    uint64_t times;
    pthread_mutex_lock(&wires->lock);
    uint64_t corrupt = ++wires->corrupt;
    bool speaks = gw_rate_limit_admits(&wires->corruptions, gw_now_ns(), &times);
    pthread_mutex_unlock(&wires->lock);
    if (speaks)
        gw_log(GW_WARN, "node/wires", "%s to %s ended, number %" PRIu64 " that did so: %s", kind,
               gw_peer_id_short(peer, id), corrupt, why);
}

uint64_t gw_wires_corrupt(gw_wires *wires) {
    pthread_mutex_lock(&wires->lock);
    uint64_t corrupt = wires->corrupt;
    pthread_mutex_unlock(&wires->lock);
    return corrupt;
}

static void look_again(void *context);

/* Has the loop look at every wire: at once for all changes since its last look. Nothing else would dial a
 * link that was lost, so a look that cannot be posted is not passed over. */
static void post_look(gw_wires *wires) {
    gw_err err;
    pthread_mutex_lock(&wires->lock);
    bool posted = wires->look_posted;
    wires->look_posted = true;
    pthread_mutex_unlock(&wires->lock);
    if (!posted) GW_ASSERT_MEMORY(gw_loop_post(wires->loop, look_again, wires, &err));
}

/* With the lock held. */
static void note_why(gw_wire *wire, const char *why, bool own_fault) {
    snprintf(wire->why, sizeof wire->why, "%s", why);
    wire->own_fault = own_fault;
}

static void link_up(void *context, const gw_peer_id *peer, uint64_t link, gw_path_kind kind) {
    char text[GW_SHORT_TEXT];
    gw_log(GW_INFO, "node/wires", "data link to %s: %s", gw_peer_id_short(peer, text),
           gw_path_kind_name(kind));
    gw_wires *wires = context;
    pthread_mutex_lock(&wires->lock);
    gw_wire *wire = find(wires, peer);
    if (wire) {
        wire->standing = true;
        wire->link = link;
        wire->kind = kind;
        wire->up_ns = gw_now_ns();
        note_why(wire, "", false);
    }
    pthread_cond_broadcast(&wires->changed);
    pthread_mutex_unlock(&wires->lock);
    post_look(wires);
}

static void link_down(void *context, const gw_peer_id *peer, uint64_t link, const gw_err *why) {
    gw_wires *wires = context;
    char text[GW_SHORT_TEXT];
    gw_log(GW_DEBUG, "node/wires", "data link to %s: %s", gw_peer_id_short(peer, text), why->text);
    if (why->code == GW_E_CORRUPT) gw_wires_tell_corrupt(wires, "data link", peer, why->text);
    pthread_mutex_lock(&wires->lock);
    gw_wire *wire = find(wires, peer);
    /* A higher number than that which stands: of the link that ended it, and has not come up. */
    if (wire && (!wire->standing || link >= wire->link)) {
        bool lasted = wire->standing && gw_now_ns() - wire->up_ns >= LASTING_NS;
        wire->vain = lasted ? 0 : wire->vain + 1;
        wire->standing = false;
        note_why(wire, why->text, false);
    }
    pthread_cond_broadcast(&wires->changed);
    pthread_mutex_unlock(&wires->lock);
    post_look(wires);
}

static bool is_standing(gw_wires *wires, const gw_wire *wire) {
    pthread_mutex_lock(&wires->lock);
    bool standing = wire->standing;
    pthread_mutex_unlock(&wires->lock);
    return standing;
}

uint64_t gw_wires_pause_ns(uint32_t vain) {
    return REDIAL_NS << (vain < MOST_VAIN ? vain : MOST_VAIN);
}

static uint64_t pause_of(gw_wires *wires, const gw_wire *wire) {
    pthread_mutex_lock(&wires->lock);
    uint32_t vain = wire->vain;
    pthread_mutex_unlock(&wires->lock);
    return gw_wires_pause_ns(vain);
}

/* ---- dialling ---- */

/* On its own side, for a reason that others have no part in. While descriptors have run out, every peer is
 * dialled in vain. */
static void fail_here(gw_wires *wires, gw_wire *wire, const gw_err *why) {
    uint64_t times;
    pthread_mutex_lock(&wires->lock);
    note_why(wire, why->text, true);
    pthread_mutex_unlock(&wires->lock);
    post_look(wires);
    if (gw_rate_limit_admits(&wires->failures, gw_now_ns(), &times))
        gw_log(GW_WARN, "node/wires", "%" PRIu64 " data stream%s failed: %s", times, times == 1 ? "" : "s",
               why->text);
}

static bool we_dial(const gw_wire *wire) {
    return gw_peer_id_compare(&wire->wires->local->identity->id, &wire->id) < 0;
}

static void drop_dials(gw_wire *wire) {
    for (uint32_t i = 0; i < wire->wires->streams; i++) {
        gw_stream_close(wire->dials[i].stream);
        wire->dials[i].stream = NULL;
    }
    wire->dialling = 0;
}

/* Dials after a pause, if it is ours to dial and still makes sense then. */
static void dial_later(gw_wire *wire, uint64_t pause_ns) {
    gw_wires *wires = wire->wires;
    if (wires->stopped || !wire->followed || !we_dial(wire) || wire->redial.loop) return;
    gw_err err;
    if (!gw_timer_set(wires->loop, &wire->redial, gw_now_ns() + pause_ns, dial_all, wire, &err))
        gw_log(GW_WARN, "node/wires", "cannot dial: %s", err.text);
}

static void tell(gw_wires *wires, gw_wire *wire) {
    char why[sizeof wire->why];
    if (wires->told == NULL || wires->stopped || !wire->followed) return;
    pthread_mutex_lock(&wires->lock);
    bool stands = wire->standing, own_fault = wire->own_fault;
    memcpy(why, wire->why, sizeof why);
    pthread_mutex_unlock(&wires->lock);
    const char *otherwise = we_dial(wire) ? "it does not answer" : "it has made none";
    wires->told(wires->told_context, &wire->id, stands, why[0] != '\0' ? why : otherwise, own_fault);
}

void gw_wires_tell(gw_wires *wires, const gw_peer_id *peer) {
    gw_wire *wire = find(wires, peer);
    if (wire) tell(wires, wire);
}

/* What is told may have wires dropped, and forgotten. */
static void tell_all(gw_wires *wires) {
    uint32_t count = 0;
    gw_peer_id *ids = malloc((wires->count + 1) * sizeof *ids);
    GW_ASSERT_MEMORY(ids != NULL);
    for (uint32_t i = 0; i < wires->count; i++)
        if (wires->list[i]->followed) ids[count++] = wires->list[i]->id;
    for (uint32_t i = 0; i < count; i++) gw_wires_tell(wires, &ids[i]);
    free(ids);
}

static void look_again(void *context) {
    gw_wires *wires = context;
    pthread_mutex_lock(&wires->lock);
    wires->look_posted = false;
    pthread_mutex_unlock(&wires->lock);
    for (uint32_t i = 0; i < wires->count; i++) {
        gw_wire *wire = wires->list[i];
        if (wire->dialling == 0 && !is_standing(wires, wire)) dial_later(wire, pause_of(wires, wire));
    }
    tell_all(wires);
}

static void give_up(gw_wire *wire) {
    drop_dials(wire);
    dial_later(wire, gw_wires_pause_ns(wire->failed));
    if (wire->failed < MOST_FAILED) wire->failed++;
}

static void on_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    dial *d = context;
    gw_wire *wire = d->wire;
    GW_ASSERT(d->stream == stream);
    if (!gw_peer_id_equal(&remote->id, &wire->id) || !gw_same_life(&remote->incarnation, &wire->life)) {
        give_up(wire);
        return;
    }
    gw_detached detached;
    gw_err err;
    if (!gw_stream_detach(stream, &detached, &err)) {
        give_up(wire);
        return;
    }
    d->stream = NULL;
    wire->dialling--;
    if (!gw_fabric_adopt(wire->wires->transport, &detached, &err)) {
        fail_here(wire->wires, wire, &err);
        give_up(wire);
    } else if (wire->dialling == 0) {
        wire->failed = 0;
    }
}

static void on_message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    (void)context, (void)stream, (void)bytes, (void)count;
    GW_ASSERT(false && "a data stream was read before it was handed over");
}

static void on_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    (void)why, (void)fault;
    dial *d = context;
    GW_ASSERT(d->stream == stream);
    gw_log(GW_DEBUG, "node/wires", "dialling a data stream: %s", text);
    d->stream = NULL;
    gw_wires *wires = d->wire->wires;
    pthread_mutex_lock(&wires->lock);
    note_why(d->wire, text, false);
    pthread_mutex_unlock(&wires->lock);
    give_up(d->wire);
    post_look(wires);
}

static void dial_all(void *context) {
    gw_wire *wire = context;
    gw_wires *wires = wire->wires;
    if (wires->stopped || !wire->followed || wire->dialling > 0 || is_standing(wires, wire)) return;
    /* Attempts of all lives of this peer rise: the boot count is the high part. */
    uint64_t attempt =
        ((wires->local->identity->incarnation.boot << 24) + ++wires->attempts) & (UINT64_MAX >> 16);
    for (uint32_t i = 0; i < wires->streams; i++) {
        dial *d = &wire->dials[i];
        d->wire = wire;
        gw_stream_events events = {
            .context = d, .ready = on_ready, .message = on_message, .closed = on_closed};
        gw_err err;
        d->stream = gw_stream_dial(wires->loop, wires->local, &wire->addr, GW_STREAM_DATA,
                                   gw_fabric_stream_label(attempt, i, wires->streams), &events, &err);
        if (!d->stream) {
            fail_here(wires, wire, &err);
            give_up(wire);
            return;
        }
        wire->dialling++;
    }
}

static void unfollow(gw_wire *wire) {
    wire->followed = false;
    gw_timer_cancel(&wire->redial);
    drop_dials(wire);
}

static void end_connections(gw_wire *wire) {
    gw_wires *wires = wire->wires;
    unfollow(wire);
    gw_transport_unlink(wires->transport, &wire->id);
    pthread_mutex_lock(&wires->lock);
    wire->standing = false;
    pthread_cond_broadcast(&wires->changed);
    pthread_mutex_unlock(&wires->lock);
}

void gw_wires_follow(gw_wires *wires, const gw_remote *remote) {
    gw_wire *wire = find_or_add(wires, &remote->id);
    bool reborn = !gw_same_life(&wire->life, &remote->incarnation);
    wire->followed = true;
    wire->life = remote->incarnation;
    wire->addr = remote->listen;
    wire->failed = 0;
    if (!we_dial(wire)) return;
    if (reborn) {
        end_connections(wire);
        wire->followed = true;
    }
    gw_timer_cancel(&wire->redial);
    dial_all(wire);
}

void gw_wires_unfollow(gw_wires *wires, const gw_peer_id *peer) {
    gw_wire *wire = find(wires, peer);
    if (wire) unfollow(wire);
}

void gw_wires_life(const gw_wires *wires, const gw_peer_id *peer, gw_incarnation *life) {
    const gw_wire *wire = find(wires, peer);
    *life = wire ? wire->life : (gw_incarnation){0};
}

gw_path_kind gw_wires_path(gw_wires *wires, const gw_peer_id *peer) {
    pthread_mutex_lock(&wires->lock);
    const gw_wire *wire = find(wires, peer);
    gw_path_kind kind = wire && wire->standing ? wire->kind : 0;
    pthread_mutex_unlock(&wires->lock);
    return kind;
}

void gw_wires_drop(gw_wires *wires, const gw_peer_id *peer) {
    gw_wire *wire = find(wires, peer);
    if (!wire) return;
    end_connections(wire);
    forget(wires, wire);
}

void gw_wires_adopt(gw_wires *wires, gw_stream *stream) {
    gw_wire *wire = find_or_add(wires, &gw_stream_remote(stream)->id);
    gw_detached detached;
    gw_err err;
    bool good = gw_stream_detach(stream, &detached, &err);
    if (!good)
        gw_stream_close(stream);
    else
        good = gw_fabric_adopt(wires->transport, &detached, &err);
    if (!good) fail_here(wires, wire, &err);
}

/* ---- the rest ---- */

/* Each step of the exponent doubles the time: as much as the scale at least, within what 5 bits hold. */
static gw_rdma_options scaled(const gw_rdma_options *options, uint32_t percent) {
    gw_rdma_options rdma = *options;
    if (rdma.ack_timeout == 0) rdma.ack_timeout = GW_RDMA_ACK_TIMEOUT;
    for (uint32_t reached = 100; reached < percent && rdma.ack_timeout < GW_RDMA_ACK_TIMEOUT_MOST;
         reached *= 2)
        rdma.ack_timeout++;
    return rdma;
}

/* A device that fails, or is down, is done without; a name that no device has is a mistake. */
static bool device_exists(const gw_wires_options *how, gw_err *err) {
    gw_rdma_info *devices = NULL;
    uint32_t count = 0;
    if (how->rdma.device == NULL || (how->kinds & GW_FABRIC_RDMA) == 0) return true;
    bool exists = false, known = gw_rdma_list(&devices, &count, err);
    for (uint32_t i = 0; i < count; i++) exists |= strcmp(devices[i].name, how->rdma.device) == 0;
    free(devices);
    if (exists) return true;
    if (known) gw_fail(err, GW_E_USAGE, "this machine has no such device; 'godwit devices' lists them");
    err->code = GW_E_USAGE;
    return gw_fail_in(err, "--rdma-device %s", how->rdma.device);
}

static int keep_spare(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

gw_wires *gw_wires_open(gw_loop *loop, const gw_local *local, const gw_wires_options *how,
                        const gw_fetch_provider *provider, gw_collective_done *done, void *done_context,
                        gw_err *err) {
    gw_wires *wires = calloc(1, sizeof *wires);
    if (!wires) {
        gw_fail(err, GW_E_NOMEM, "data plane: out of memory");
        return NULL;
    }
    wires->loop = loop;
    wires->local = local;
    wires->told = how->told;
    wires->told_context = how->told_context;
    wires->spare = keep_spare();
    pthread_mutex_init(&wires->lock, NULL);
    gw_cond_init(&wires->changed);
    gw_fabric_options options = {
        .kinds = how->kinds,
        .rails = 1,
        .settle_ns = SETTLE_NS * how->time_scale_percent / 100,
        .silence_ns = how->silence_ns,
        .rdma = scaled(&how->rdma, how->time_scale_percent),
        .events = {.context = wires, .completed = op_completed, .link_up = link_up, .link_down = link_down},
        .provider = *provider,
    };
    if (!device_exists(how, err) || !gw_fabric_open(&options, &wires->transport, err) ||
        !gw_collective_open(wires->transport, done, done_context, &wires->collective, err)) {
        gw_wires_stop(wires);
        gw_wires_close(wires);
        return NULL;
    }
    wires->streams = gw_fabric_streams(wires->transport);
    return wires;
}

void gw_wires_stop(gw_wires *wires) {
    if (!wires) return;
    pthread_mutex_lock(&wires->lock);
    wires->stopped = true;
    pthread_cond_broadcast(&wires->changed);
    pthread_mutex_unlock(&wires->lock);
    for (uint32_t i = 0; i < wires->count; i++) {
        gw_wire *wire = wires->list[i];
        gw_timer_cancel(&wire->redial);
        drop_dials(wire);
        gw_transport_unlink(wires->transport, &wire->id);
    }
}

void gw_wires_close(gw_wires *wires) {
    if (!wires) return;
    GW_ASSERT(wires->stopped);
    if (wires->collective) gw_collective_close(wires->collective);
    if (wires->transport) gw_transport_close(wires->transport);
    for (uint32_t i = 0; i < wires->count; i++) free(wires->list[i]);
    free(wires->list);
    gw_id_index_free(&wires->index);
    pthread_cond_destroy(&wires->changed);
    pthread_mutex_destroy(&wires->lock);
    if (wires->spare >= 0) close(wires->spare);
    free(wires);
}

static bool move_fence(gw_wires *wires, const gw_view *view, gw_err *err) {
    if (!view) return gw_transport_fence(wires->transport, NULL, NULL, 0, err);
    gw_peer_id members[GW_MAX_MEMBERS];
    for (uint32_t i = 0; i < view->count; i++) members[i] = view->members[i].id;
    gw_fence fence = {.epoch = view->epoch, .view = view->name};
    return gw_transport_fence(wires->transport, &fence, members, view->count, err);
}

/* A fence takes a descriptor before it gives the last one's back. Without its fence a peer must leave, so one
 * is kept for when they have run out. */
bool gw_wires_fence(gw_wires *wires, const gw_view *view, gw_err *err) {
    bool moved = move_fence(wires, view, err);
    if (!moved && wires->spare >= 0) {
        close(wires->spare);
        wires->spare = -1;
        moved = move_fence(wires, view, err);
    }
    if (wires->spare < 0) wires->spare = keep_spare();
    return moved;
}

gw_transport *gw_wires_transport(gw_wires *wires) {
    return wires->transport;
}

/* A wire that stays until the operation is done; NULL: there is none. */
static gw_wire *fetch_from(gw_wires *wires, const gw_peer_id *peer) {
    pthread_mutex_lock(&wires->lock);
    gw_wire *wire = find(wires, peer);
    if (wire) wire->fetching++;
    pthread_mutex_unlock(&wires->lock);
    return wire;
}

uint64_t gw_wires_landed(gw_wires *wires, const gw_peer_id *peer) {
    pthread_mutex_lock(&wires->lock);
    const gw_wire *from = peer != NULL ? find(wires, peer) : NULL;
    uint64_t bytes = peer == NULL ? wires->landed : from != NULL ? atomic_load(&from->landed) : 0;
    for (uint32_t i = 0; peer == NULL && i < wires->count; i++) bytes += atomic_load(&wires->list[i]->landed);
    pthread_mutex_unlock(&wires->lock);
    return bytes;
}

void gw_wires_post(gw_wires *wires, gw_op *request, gw_wire_op *op) {
    request->token = (uint64_t)(uintptr_t)op;
    op->from = request->kind == GW_OP_FETCH ? fetch_from(wires, &request->peer) : NULL;
    if (op->from) request->landed = &op->from->landed;
    gw_transport_post(wires->transport, request);
}

void gw_wires_abandon(gw_wires *wires, const gw_peer_id *peer) {
    gw_transport_abandon(wires->transport, peer);
}

/* With the lock held. */
static bool all_stand(gw_wires *wires, const gw_peer_id *members, uint32_t count, const gw_peer_id *self,
                      gw_peer_id *missing) {
    for (uint32_t i = 0; i < count; i++) {
        if (gw_peer_id_equal(&members[i], self)) continue;
        const gw_wire *wire = find(wires, &members[i]);
        if (wire && wire->standing) continue;
        *missing = members[i];
        return false;
    }
    return true;
}

bool gw_wires_wait(gw_wires *wires, const gw_peer_id *members, uint32_t count, const gw_peer_id *self,
                   const atomic_bool *stop, uint64_t patience_ns, gw_peer_id *missing) {
    uint64_t end = gw_now_ns() + patience_ns;
    pthread_mutex_lock(&wires->lock);
    bool good;
    while (!(good = all_stand(wires, members, count, self, missing)) && !atomic_load(stop) && !wires->stopped)
        if (!gw_cond_wait_until(&wires->changed, &wires->lock, end)) break;
    pthread_mutex_unlock(&wires->lock);
    return good;
}

void gw_wires_wake(gw_wires *wires) {
    pthread_mutex_lock(&wires->lock);
    pthread_cond_broadcast(&wires->changed);
    pthread_mutex_unlock(&wires->lock);
}

uint64_t gw_wires_busy_since(gw_wires *wires) {
    return gw_fabric_busy_since(wires->transport);
}

uint64_t gw_wires_files_since(gw_wires *wires) {
    return gw_fabric_files_since(wires->transport);
}

gw_collective *gw_wires_collective(gw_wires *wires) {
    return wires->collective;
}
