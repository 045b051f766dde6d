#include "tools/godwit/work/data/links.h"

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
/* How often the pause before a dial doubles: up to ten seconds after links that did not last, and, as with
 * control links, to one second after dials that failed, so that little time is lost once the failure has
 * ended. */
enum { MOST_SHORT_LIVED = 10, MOST_FAILED = 7 };

/* The number of dropped links that are kept. The brain may still dial such a peer, and when that fails,
 * the link says which life of the peer it was. */
enum { KEPT = GW_MAX_MEMBERS };

typedef struct data_link data_link;

/* One stream that is being dialled. */
typedef struct dial {
    data_link *link;
    gw_stream *stream; /* NULL: the dial has ended */
} dial;

/* The data link to one peer. */
struct data_link {
    gw_peer_id id; /* must come first, for the index */
    gw_data_links *links;
    /* Members of the loop's thread. */
    bool followed;    /* the control link to the peer is up */
    uint64_t dropped; /* number of the drop, from 1; 0 = the link is in use */
    gw_incarnation life;
    gw_addr addr;
    gw_timer redial;
    dial dials[2 + GW_FABRIC_RAILS], extra_dials[GW_FABRIC_RAILS];
    uint32_t dialling;       /* streams of `dials` */
    uint64_t attempt;        /* the newest */
    uint64_t extra_of;       /* the number of the link for which extra streams were dialled */
    uint32_t failed;         /* dials that failed in a row, since the control link came up */
    _Atomic uint64_t landed; /* bytes that were fetched from the peer; any thread */
    /* Members under the lock. */
    bool standing;
    uint64_t number; /* of the fabric's link; a later link has a higher one */
    gw_path_kind kind;
    uint64_t up_ns;
    char why[96];     /* why the link does not stand; empty: nothing is known to have failed */
    bool own_fault;   /* that is a fault of this peer's own */
    uint32_t unheard; /* as in gw_data_link_state */
    /* Links in a row that did not last, or did not come up although their streams had. */
    uint32_t short_lived;
    uint32_t fetching; /* fetches under way, which count into `landed` */
};

struct gw_data_links {
    gw_loop *loop;
    const gw_local *local;
    gw_transport *transport;
    gw_collective *collective;
    gw_data_link_changed *on_change;
    void *changed_context;
    uint32_t streams, most_streams;
    uint64_t attempts;
    int spare;              /* a descriptor, for the fence; -1 = none could be opened */
    gw_rate_limit failures; /* of this peer to open or take over a stream */
    /* The list and its index are changed by the loop's thread alone, under the lock. That thread may
     * therefore read them without it. */
    data_link **list;
    uint32_t count, capacity;
    gw_id_index index;
    uint64_t drops;   /* links that have been dropped so far */
    uint64_t landed;  /* bytes from peers that are forgotten; under the lock */
    uint64_t corrupt; /* links that ended because bits changed on the way; under the lock */
    gw_rate_limit corruptions;
    bool look_posted; /* look has been posted and has not begun; under the lock */
    bool stopped;     /* changed by the loop, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void dial_all(void *context);

static gw_id_records records(const gw_data_links *links) {
    return (gw_id_records){links->list, 0};
}

static data_link *find(const gw_data_links *links, const gw_peer_id *id) {
    uint32_t number = gw_id_index_find(&links->index, records(links), id);
    return number == UINT32_MAX ? NULL : links->list[number];
}

/* Called with the lock held. */
static void make_room(gw_data_links *links) {
    if (links->count < links->capacity) return;
    links->capacity = links->capacity > 0 ? 2 * links->capacity : 16;
    data_link **list = realloc(links->list, links->capacity * sizeof(void *));
    GW_ASSERT_MEMORY(list != NULL);
    links->list = list;
    GW_ASSERT_MEMORY(gw_id_index_reserve(&links->index, records(links), links->count, links->capacity));
}

static data_link *find_or_add(gw_data_links *links, const gw_peer_id *id) {
    data_link *link = find(links, id);
    if (link) link->dropped = 0;
    if (link) return link;
    link = calloc(1, sizeof *link);
    GW_ASSERT_MEMORY(link != NULL);
    link->links = links;
    link->id = *id;
    pthread_mutex_lock(&links->lock);
    make_room(links);
    links->list[links->count] = link;
    gw_id_index_put(&links->index, records(links), links->count++);
    pthread_mutex_unlock(&links->lock);
    return link;
}

static int latest_drop_first(const void *a, const void *b) {
    uint64_t first = (*(data_link *const *)a)->dropped, second = (*(data_link *const *)b)->dropped;
    return (first < second) - (first > second);
}

/* Marks a link as dropped. When there are 2 * KEPT dropped links, frees all of them but the KEPT that were
 * dropped last and those that fetches still refer to. */
static void forget(gw_data_links *links, data_link *link) {
    uint32_t dropped = 0, kept = 0;
    link->dropped = ++links->drops;
    for (uint32_t i = 0; i < links->count; i++) dropped += links->list[i]->dropped > 0;
    if (dropped < 2 * KEPT) return;
    pthread_mutex_lock(&links->lock);
    qsort(links->list, links->count, sizeof(void *), latest_drop_first); /* links in use come last */
    for (uint32_t i = 0; i < links->count; i++) {
        data_link *old = links->list[i];
        if (old->dropped == 0 || i < KEPT || old->fetching > 0) {
            links->list[kept++] = old;
            continue;
        }
        links->landed += atomic_load(&old->landed);
        free(old);
    }
    links->count = kept;
    gw_id_index_rebuild(&links->index, records(links), kept);
    pthread_mutex_unlock(&links->lock);
}

/* Callbacks on threads of the transport. */

static void op_completed(void *context, const gw_completion *completion) {
    gw_data_links *links = context;
    gw_data_op *op = (gw_data_op *)(uintptr_t)completion->token;
    if (op->from) {
        pthread_mutex_lock(&links->lock);
        op->from->fetching--;
        pthread_mutex_unlock(&links->lock);
    }
    op->done(op, completion);
}

void gw_data_links_report_corrupt(gw_data_links *links, const char *kind, const gw_peer_id *peer,
                                  const char *why) {
    char id[GW_SHORT_TEXT];
    uint64_t times;
    pthread_mutex_lock(&links->lock);
    uint64_t corrupt = ++links->corrupt;
    bool log = gw_rate_limit_admits(&links->corruptions, gw_now_ns(), &times);
    pthread_mutex_unlock(&links->lock);
    if (log)
        gw_log(GW_WARN, "work/data",
               "%s to %s ended because bits changed on the way (number %" PRIu64 " since the start): %s",
               kind, gw_peer_id_short(peer, id), corrupt, why);
}

uint64_t gw_data_links_corrupt(gw_data_links *links) {
    pthread_mutex_lock(&links->lock);
    uint64_t corrupt = links->corrupt;
    pthread_mutex_unlock(&links->lock);
    return corrupt;
}

static void look(void *context);

/* Has the loop look at every link: once for all changes since its last look. Nothing else would dial a
 * link that was lost, so the process ends if the look cannot be posted. */
static void post_look(gw_data_links *links) {
    gw_err err;
    pthread_mutex_lock(&links->lock);
    bool posted = links->look_posted;
    links->look_posted = true;
    pthread_mutex_unlock(&links->lock);
    if (!posted) GW_ASSERT_MEMORY(gw_loop_post(links->loop, look, links, &err));
}

/* Called with the lock held. */
static void note_why(data_link *link, const char *why, bool own_fault) {
    snprintf(link->why, sizeof link->why, "%s", why);
    link->own_fault = own_fault;
}

static void link_up(void *context, const gw_peer_id *peer, uint64_t number, gw_path_kind kind) {
    char text[GW_SHORT_TEXT];
    gw_log(GW_INFO, "work/data", "data link to %s: %s", gw_peer_id_short(peer, text),
           gw_path_kind_name(kind));
    gw_data_links *links = context;
    pthread_mutex_lock(&links->lock);
    data_link *link = find(links, peer);
    if (link) {
        link->standing = true;
        link->number = number;
        link->kind = kind;
        link->up_ns = gw_now_ns();
        note_why(link, "", false);
    }
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
    post_look(links);
}

static void link_down(void *context, const gw_peer_id *peer, uint64_t number, const gw_err *why) {
    gw_data_links *links = context;
    char text[GW_SHORT_TEXT];
    gw_log(GW_DEBUG, "work/data", "data link to %s: %s", gw_peer_id_short(peer, text), why->text);
    if (why->code == GW_E_CORRUPT) gw_data_links_report_corrupt(links, "data link", peer, why->text);
    pthread_mutex_lock(&links->lock);
    data_link *link = find(links, peer);
    /* A number above that of the standing link belongs to the link that replaced it, and did not come up. */
    if (link && (!link->standing || number >= link->number)) {
        bool lasted = link->standing && gw_now_ns() - link->up_ns >= LASTING_NS;
        link->short_lived = lasted ? 0 : link->short_lived + 1;
        link->standing = false;
        link->unheard += why->code == GW_E_UNHEARD;
        note_why(link, why->text, false);
    }
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
    post_look(links);
}

static bool is_standing(gw_data_links *links, const data_link *link) {
    pthread_mutex_lock(&links->lock);
    bool standing = link->standing;
    pthread_mutex_unlock(&links->lock);
    return standing;
}

uint64_t gw_data_links_pause_ns(uint32_t short_lived) {
    return REDIAL_NS << (short_lived < MOST_SHORT_LIVED ? short_lived : MOST_SHORT_LIVED);
}

static uint64_t pause_of(gw_data_links *links, const data_link *link) {
    pthread_mutex_lock(&links->lock);
    uint32_t short_lived = link->short_lived;
    pthread_mutex_unlock(&links->lock);
    return gw_data_links_pause_ns(short_lived);
}

/* Dialling. */

/* Notes a failure on this side, in which the peer has no part. The log gets few of these: while the
 * process has no descriptors left, every dial fails so. */
static void note_own_failure(gw_data_links *links, data_link *link, const gw_err *why) {
    uint64_t times;
    pthread_mutex_lock(&links->lock);
    note_why(link, why->text, true);
    pthread_mutex_unlock(&links->lock);
    post_look(links);
    if (gw_rate_limit_admits(&links->failures, gw_now_ns(), &times))
        gw_log(GW_WARN, "work/data", "%" PRIu64 " data stream%s failed: %s", times, times == 1 ? "" : "s",
               why->text);
}

static bool we_dial(const data_link *link) {
    return gw_peer_id_compare(&link->links->local->identity->id, &link->id) < 0;
}

static void drop_dials(data_link *link) {
    for (uint32_t i = 0; i < link->links->streams; i++) {
        gw_stream_close(link->dials[i].stream);
        link->dials[i].stream = NULL;
    }
    link->dialling = 0;
    for (uint32_t i = 0; i < GW_FABRIC_RAILS; i++) {
        gw_stream_close(link->extra_dials[i].stream);
        link->extra_dials[i].stream = NULL;
    }
}

/* Dials after a pause, if this peer is the one that dials and the link is still needed then. */
static void dial_later(data_link *link, uint64_t pause_ns) {
    gw_data_links *links = link->links;
    if (links->stopped || !link->followed || !we_dial(link) || link->redial.loop) return;
    gw_err err;
    if (!gw_timer_set(links->loop, &link->redial, gw_now_ns() + pause_ns, dial_all, link, &err))
        gw_log(GW_WARN, "work/data", "cannot dial: %s", err.text);
}

static void report(gw_data_links *links, data_link *link) {
    char why[sizeof link->why];
    if (links->on_change == NULL || links->stopped || !link->followed) return;
    pthread_mutex_lock(&links->lock);
    gw_data_link_state state = {
        .stands = link->standing, .own_fault = link->own_fault, .unheard = link->unheard};
    memcpy(why, link->why, sizeof why);
    pthread_mutex_unlock(&links->lock);
    state.why = why[0] != '\0'  ? why
                : we_dial(link) ? "the peer does not answer"
                                : "the peer has dialled none";
    links->on_change(links->changed_context, &link->id, &state);
}

void gw_data_links_report(gw_data_links *links, const gw_peer_id *peer) {
    data_link *link = find(links, peer);
    if (link) report(links, link);
}

/* The receiver of a report may have links dropped and freed, so the ids are gathered first. */
static void report_all(gw_data_links *links) {
    uint32_t count = 0;
    gw_peer_id *ids = malloc((links->count + 1) * sizeof *ids);
    GW_ASSERT_MEMORY(ids != NULL);
    for (uint32_t i = 0; i < links->count; i++)
        if (links->list[i]->followed) ids[count++] = links->list[i]->id;
    for (uint32_t i = 0; i < count; i++) gw_data_links_report(links, &ids[i]);
    free(ids);
}

static void dial_extras(data_link *link);

static void look(void *context) {
    gw_data_links *links = context;
    pthread_mutex_lock(&links->lock);
    links->look_posted = false;
    pthread_mutex_unlock(&links->lock);
    for (uint32_t i = 0; i < links->count; i++) {
        data_link *link = links->list[i];
        if (link->dialling == 0 && !is_standing(links, link)) dial_later(link, pause_of(links, link));
        dial_extras(link);
    }
    report_all(links);
}

static void give_up(data_link *link) {
    drop_dials(link);
    dial_later(link, gw_data_links_pause_ns(link->failed));
    if (link->failed < MOST_FAILED) link->failed++;
}

/* Whether who answers a dial is the peer that was dialled, in the life in which it is followed. */
static bool is_dialled(const data_link *link, const gw_remote *remote) {
    return gw_peer_id_equal(&remote->id, &link->id) && gw_same_life(&remote->incarnation, &link->life);
}

static void on_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    dial *d = context;
    data_link *link = d->link;
    GW_ASSERT(d->stream == stream);
    if (!is_dialled(link, remote)) {
        give_up(link);
        return;
    }
    gw_detached detached;
    gw_err err;
    if (!gw_stream_detach(stream, &detached, &err)) {
        give_up(link);
        return;
    }
    d->stream = NULL;
    link->dialling--;
    if (!gw_fabric_adopt(link->links->transport, &detached, &err)) {
        note_own_failure(link->links, link, &err);
        give_up(link);
    } else if (link->dialling == 0) {
        link->failed = 0;
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
    gw_log(GW_DEBUG, "work/data", "dialling a data stream: %s", text);
    d->stream = NULL;
    gw_data_links *links = d->link->links;
    pthread_mutex_lock(&links->lock);
    note_why(d->link, text, false);
    pthread_mutex_unlock(&links->lock);
    give_up(d->link);
    post_look(links);
}

/* Dials a stream, whose events are those of `d`. False: this side has failed, which is noted. */
static bool dial_stream(data_link *link, dial *d, uint64_t label, const gw_stream_events *events) {
    gw_data_links *links = link->links;
    gw_err err;
    GW_ASSERT(events->context == d);
    d->link = link;
    d->stream = gw_stream_dial(links->loop, links->local, &link->addr, GW_STREAM_DATA, label, events, &err);
    if (d->stream == NULL) note_own_failure(links, link, &err);
    return d->stream != NULL;
}

/* Extra streams (net/fabric/fabric.h). A link is whole without them, so nothing is done where one fails. */

static void on_extra_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    dial *d = context;
    data_link *link = d->link;
    gw_detached detached;
    gw_err err;
    d->stream = NULL;
    if (!is_dialled(link, remote)) {
        gw_stream_close(stream);
    } else if (!gw_stream_detach(stream, &detached, &err)) {
        gw_stream_close(stream);
        note_own_failure(link->links, link, &err);
    } else if (!gw_fabric_adopt(link->links->transport, &detached, &err)) {
        note_own_failure(link->links, link, &err);
    }
}

static void on_extra_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault,
                            const char *text) {
    (void)stream, (void)why, (void)fault;
    dial *d = context;
    gw_log(GW_DEBUG, "work/data", "dialling another data stream: %s", text);
    d->stream = NULL;
}

/* Dials the extra streams of a link over TCP, once for each. */
static void dial_extras(data_link *link) {
    gw_data_links *links = link->links;
    pthread_mutex_lock(&links->lock);
    bool fits = link->standing && link->kind == GW_PATH_TCP && link->extra_of != link->number;
    uint64_t number = link->number;
    pthread_mutex_unlock(&links->lock);
    if (!fits || links->stopped || !link->followed || !we_dial(link)) return;
    link->extra_of = number;
    for (uint32_t i = 0; i < links->most_streams - links->streams; i++) {
        dial *d = &link->extra_dials[i];
        gw_stream_events events = {
            .context = d, .ready = on_extra_ready, .message = on_message, .closed = on_extra_closed};
        gw_stream_close(d->stream);
        (void)dial_stream(link, d, gw_fabric_extra_label(link->attempt, links->streams + i), &events);
    }
}

static void dial_all(void *context) {
    data_link *link = context;
    gw_data_links *links = link->links;
    if (links->stopped || !link->followed || link->dialling > 0 || is_standing(links, link)) return;
    /* The number of the attempt rises over all lives of this peer: its high part is the boot count. */
    link->attempt =
        ((links->local->identity->incarnation.boot << 24) + ++links->attempts) & (UINT64_MAX >> 16);
    for (uint32_t i = 0; i < links->streams; i++) {
        dial *d = &link->dials[i];
        gw_stream_events events = {
            .context = d, .ready = on_ready, .message = on_message, .closed = on_closed};
        if (!dial_stream(link, d, gw_fabric_stream_label(link->attempt, i, links->streams), &events)) {
            give_up(link);
            return;
        }
        link->dialling++;
    }
}

static void unfollow(data_link *link) {
    link->followed = false;
    gw_timer_cancel(&link->redial);
    drop_dials(link);
}

static void end_connections(data_link *link) {
    gw_data_links *links = link->links;
    unfollow(link);
    gw_transport_unlink(links->transport, &link->id);
    pthread_mutex_lock(&links->lock);
    link->standing = false;
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
}

void gw_data_links_follow(gw_data_links *links, const gw_remote *remote) {
    data_link *link = find_or_add(links, &remote->id);
    bool reborn = !gw_same_life(&link->life, &remote->incarnation);
    link->followed = true;
    link->life = remote->incarnation;
    link->addr = remote->listen;
    link->failed = 0;
    if (!we_dial(link)) return;
    if (reborn) {
        end_connections(link);
        link->followed = true;
    }
    gw_timer_cancel(&link->redial);
    dial_all(link);
}

void gw_data_links_unfollow(gw_data_links *links, const gw_peer_id *peer) {
    data_link *link = find(links, peer);
    if (link) unfollow(link);
}

void gw_data_links_life(const gw_data_links *links, const gw_peer_id *peer, gw_incarnation *life) {
    const data_link *link = find(links, peer);
    *life = link ? link->life : (gw_incarnation){0};
}

gw_path_kind gw_data_links_path(gw_data_links *links, const gw_peer_id *peer) {
    pthread_mutex_lock(&links->lock);
    const data_link *link = find(links, peer);
    gw_path_kind kind = link && link->standing ? link->kind : 0;
    pthread_mutex_unlock(&links->lock);
    return kind;
}

void gw_data_links_drop(gw_data_links *links, const gw_peer_id *peer) {
    data_link *link = find(links, peer);
    if (!link) return;
    end_connections(link);
    forget(links, link);
}

void gw_data_links_adopt(gw_data_links *links, gw_stream *stream) {
    data_link *link = find_or_add(links, &gw_stream_remote(stream)->id);
    gw_detached detached;
    gw_err err;
    bool good = gw_stream_detach(stream, &detached, &err);
    if (!good)
        gw_stream_close(stream);
    else
        good = gw_fabric_adopt(links->transport, &detached, &err);
    if (!good) note_own_failure(links, link, &err);
}

/* Opening and closing. */

/* The acknowledgement timeout is an exponent of 2, of 5 bits: raises it until the timeout has grown by
 * `percent` at least. */
static gw_rdma_options scaled(const gw_rdma_options *options, uint32_t percent) {
    gw_rdma_options rdma = *options;
    if (rdma.ack_timeout == 0) rdma.ack_timeout = GW_RDMA_ACK_TIMEOUT;
    for (uint32_t reached = 100; reached < percent && rdma.ack_timeout < GW_RDMA_ACK_TIMEOUT_MOST;
         reached *= 2)
        rdma.ack_timeout++;
    return rdma;
}

/* A device that fails or is down is not used; a name that no device has is an error of the command line. */
static bool device_exists(const gw_data_links_options *how, gw_err *err) {
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

gw_data_links *gw_data_links_open(gw_loop *loop, const gw_local *local, const gw_data_links_options *how,
                                  const gw_fetch_provider *provider, gw_collective_done *done,
                                  void *done_context, gw_err *err) {
    gw_data_links *links = calloc(1, sizeof *links);
    if (!links) {
        gw_fail(err, GW_E_NOMEM, "data plane: out of memory");
        return NULL;
    }
    links->loop = loop;
    links->local = local;
    links->on_change = how->on_change;
    links->changed_context = how->changed_context;
    links->spare = keep_spare();
    pthread_mutex_init(&links->lock, NULL);
    gw_cond_init(&links->changed);
    gw_fabric_options options = {
        .kinds = how->kinds,
        .rails = how->rails,
        .extra_rails = how->extra_rails,
        .settle_ns = SETTLE_NS * how->time_scale_percent / 100,
        .silence_ns = how->silence_ns,
        .rdma = scaled(&how->rdma, how->time_scale_percent),
        .events = {.context = links, .completed = op_completed, .link_up = link_up, .link_down = link_down},
        .provider = *provider,
    };
    if (!device_exists(how, err) || !gw_fabric_open(&options, &links->transport, err) ||
        !gw_collective_open(links->transport, done, done_context, &links->collective, err)) {
        gw_data_links_stop(links);
        gw_data_links_close(links);
        return NULL;
    }
    links->streams = gw_fabric_streams(links->transport);
    links->most_streams = gw_fabric_most_streams(links->transport);
    return links;
}

void gw_data_links_stop(gw_data_links *links) {
    if (!links) return;
    pthread_mutex_lock(&links->lock);
    links->stopped = true;
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
    for (uint32_t i = 0; i < links->count; i++) {
        data_link *link = links->list[i];
        gw_timer_cancel(&link->redial);
        drop_dials(link);
        gw_transport_unlink(links->transport, &link->id);
    }
}

void gw_data_links_close(gw_data_links *links) {
    if (!links) return;
    GW_ASSERT(links->stopped);
    if (links->collective) gw_collective_close(links->collective);
    if (links->transport) gw_transport_close(links->transport);
    for (uint32_t i = 0; i < links->count; i++) free(links->list[i]);
    free(links->list);
    gw_id_index_free(&links->index);
    pthread_cond_destroy(&links->changed);
    pthread_mutex_destroy(&links->lock);
    if (links->spare >= 0) close(links->spare);
    free(links);
}

static bool move_fence(gw_data_links *links, const gw_view *view, gw_err *err) {
    if (!view) return gw_transport_fence(links->transport, NULL, NULL, 0, err);
    gw_peer_id members[GW_MAX_MEMBERS];
    for (uint32_t i = 0; i < view->count; i++) members[i] = view->members[i].id;
    gw_fence fence = {.epoch = view->epoch, .view = view->name};
    return gw_transport_fence(links->transport, &fence, members, view->count, err);
}

/* A new fence takes a descriptor before the old one gives its own back. A peer that cannot move its fence
 * must leave, so a spare descriptor is kept for the time when the process has none left. */
bool gw_data_links_fence(gw_data_links *links, const gw_view *view, gw_err *err) {
    bool moved = move_fence(links, view, err);
    if (!moved && links->spare >= 0) {
        close(links->spare);
        links->spare = -1;
        moved = move_fence(links, view, err);
    }
    if (links->spare < 0) links->spare = keep_spare();
    return moved;
}

gw_transport *gw_data_links_transport(gw_data_links *links) {
    return links->transport;
}

/* Finds the link of a peer, and keeps it until the fetch is done. NULL: there is none. */
static data_link *fetch_from(gw_data_links *links, const gw_peer_id *peer) {
    pthread_mutex_lock(&links->lock);
    data_link *link = find(links, peer);
    if (link) link->fetching++;
    pthread_mutex_unlock(&links->lock);
    return link;
}

uint64_t gw_data_links_landed(gw_data_links *links, const gw_peer_id *peer) {
    pthread_mutex_lock(&links->lock);
    const data_link *from = peer != NULL ? find(links, peer) : NULL;
    uint64_t bytes = peer == NULL ? links->landed : from != NULL ? atomic_load(&from->landed) : 0;
    for (uint32_t i = 0; peer == NULL && i < links->count; i++) bytes += atomic_load(&links->list[i]->landed);
    pthread_mutex_unlock(&links->lock);
    return bytes;
}

void gw_data_links_post(gw_data_links *links, gw_op *request, gw_data_op *op) {
    request->token = (uint64_t)(uintptr_t)op;
    op->from = request->kind == GW_OP_FETCH ? fetch_from(links, &request->peer) : NULL;
    if (op->from) request->landed = &op->from->landed;
    gw_transport_post(links->transport, request);
}

void gw_data_links_abandon(gw_data_links *links, const gw_peer_id *peer) {
    gw_transport_abandon(links->transport, peer);
}

/* Called with the lock held. */
static bool all_stand(gw_data_links *links, const gw_peer_id *members, uint32_t count, const gw_peer_id *self,
                      gw_peer_id *missing) {
    for (uint32_t i = 0; i < count; i++) {
        if (gw_peer_id_equal(&members[i], self)) continue;
        const data_link *link = find(links, &members[i]);
        if (link && link->standing) continue;
        *missing = members[i];
        return false;
    }
    return true;
}

bool gw_data_links_wait(gw_data_links *links, const gw_peer_id *members, uint32_t count,
                        const gw_peer_id *self, const atomic_bool *stop, uint64_t patience_ns,
                        gw_peer_id *missing) {
    uint64_t end = gw_now_ns() + patience_ns;
    pthread_mutex_lock(&links->lock);
    bool good;
    while (!(good = all_stand(links, members, count, self, missing)) && !atomic_load(stop) && !links->stopped)
        if (!gw_cond_wait_until(&links->changed, &links->lock, end)) break;
    pthread_mutex_unlock(&links->lock);
    return good;
}

void gw_data_links_wake(gw_data_links *links) {
    pthread_mutex_lock(&links->lock);
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
}

uint64_t gw_data_links_busy_since(gw_data_links *links) {
    return gw_fabric_busy_since(links->transport);
}

uint64_t gw_data_links_files_since(gw_data_links *links) {
    return gw_fabric_files_since(links->transport);
}

gw_collective *gw_data_links_collective(gw_data_links *links) {
    return links->collective;
}
