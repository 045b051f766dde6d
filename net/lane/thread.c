#include "net/lane/thread.h"

#include "core/base/assert.h"
#include "net/link/stream.h"
#include "net/loop/loop.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    EVENTS = 32,
    ROUNDS = 16,      /* of work between two looks at the sockets */
    SPIN_NS = 100000, /* with gw_lane_thread_spin, since anything happened */
    LINGER_NS =
        20000, /* polled channels are looked at for so long before the thread sleeps: a wake-up costs more */
};

/* A channel's place in the lane. */
typedef struct seat {
    struct seat *next; /* in the inbox */
    gw_channel *channel;
    gw_data_link *link;
    bool readable, writable; /* edge-triggered: true until the channel says otherwise */
    bool ending;             /* the peer has closed its side: read on until its last byte */
    bool pushed;             /* the user may have something to send, or bytes wait half sent */
    bool refused;            /* by the user, or out of memory: `trouble` says why */
    gw_err trouble;
} seat;

struct gw_lane_thread {
    const char *name;
    uint32_t number;
    gw_lane_user user;
    bool used; /* user is set */
    gw_lane_broken *broken;
    void *context;
    pthread_t thread;
    pthread_mutex_t gate;
    atomic_uint visitors; /* want the gate: the thread lets them go first */
    int epoll_fd, event_fd;
    atomic_bool spin, closing;
    uint64_t spin_end_ns;     /* the thread's */
    atomic_bool called;       /* something for the thread was left since it last looked */
    atomic_bool asleep;       /* it waits, or is about to: needs a write to event_fd */
    _Atomic uint64_t turn_ns; /* when it began what it is at; 0 = it sleeps */
    pthread_mutex_t inbox_lock;
    seat *inbox;
    /* inside the gate */
    seat **seats;
    uint32_t seat_count, seat_capacity;
    uint32_t polled_count; /* of the seats */
    gw_lane_watch *watches[GW_LANE_WATCHES];
    uint32_t watch_count;
    uint64_t alarm_ns, heartbeat_ns;
    uint32_t silence_most; /* heartbeats */
};

void gw_data_link_forget(gw_data_link *link) {
    if (atomic_fetch_sub(&link->references, 1) == 1) free(link);
}

static seat *seat_of(gw_lane_peer *peer) {
    return gw_channel_of(peer)->owner;
}

static bool is_parked(const seat *s) {
    return s->channel->in.parked;
}

static bool is_polled(const seat *s) {
    return s->channel->ops->arm != NULL;
}

static void resume(gw_channel *channel) {
    channel->in.parked = false;
}

/* ---- seats ---- */

static void free_seat(gw_lane_thread *lane, seat *s) {
    /* Closing the descriptor is not enough: another process may have one of the same file. */
    (void)epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, s->channel->fd, NULL);
    s->channel->ops->close(s->channel);
    gw_data_link_forget(s->link);
    free(s);
}

/* Takes away seat i. With `why`: it broke by itself. */
static void drop_seat(gw_lane_thread *lane, uint32_t i, const gw_err *why) {
    seat *s = lane->seats[i];
    lane->seats[i] = lane->seats[--lane->seat_count];
    lane->polled_count -= is_polled(s);
    if (lane->used) lane->user.down(lane->user.context, &s->channel->peer);
    if (why != NULL) lane->broken(lane->context, s->link, why);
    free_seat(lane, s);
}

static bool seat_down(gw_lane_thread *lane, seat *s, gw_err *err) {
    if (lane->seat_count == lane->seat_capacity) {
        uint32_t capacity = lane->seat_capacity == 0 ? 8 : 2 * lane->seat_capacity;
        seat **seats = realloc(lane->seats, capacity * sizeof(seat *));
        if (seats == NULL) return gw_fail(err, GW_E_NOMEM, "net/lane_thread: no memory for a channel");
        lane->seats = seats;
        lane->seat_capacity = capacity;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = s};
    if (epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, s->channel->fd, &event) != 0)
        return gw_fail_errno(err, errno, "net/lane_thread: epoll_ctl");
    lane->seats[lane->seat_count++] = s;
    lane->polled_count += is_polled(s);
    if (lane->used) lane->user.up(lane->user.context, &s->channel->peer);
    return true;
}

/* Takes new channels, drops those of ended links and seats the new ones, in this order: a link that had a
 * predecessor when it was made comes up after that has gone down. */
static void take_inbox(gw_lane_thread *lane) {
    pthread_mutex_lock(&lane->inbox_lock);
    seat *inbox = lane->inbox;
    lane->inbox = NULL;
    pthread_mutex_unlock(&lane->inbox_lock);
    for (uint32_t i = lane->seat_count; i > 0; i--)
        if (atomic_load(&lane->seats[i - 1]->link->ended)) drop_seat(lane, i - 1, NULL);
    seat *in_order = NULL;
    while (inbox != NULL) {
        seat *next = inbox->next;
        inbox->next = in_order;
        in_order = inbox;
        inbox = next;
    }
    while (in_order != NULL) {
        seat *s = in_order;
        in_order = s->next;
        gw_err err;
        if (atomic_load(&s->link->ended)) {
            free_seat(lane, s);
        } else if (!seat_down(lane, s, &err)) {
            lane->broken(lane->context, s->link, &err);
            free_seat(lane, s);
        }
    }
}

/* ---- the thread ---- */

/* One round of work on a seat. False: it is broken, err says why. */
static bool serve(gw_lane_thread *lane, seat *s, gw_err *err) {
    if (s->refused) {
        *err = s->trouble;
        return false;
    }
    if (s->readable) {
        gw_flow flow = s->channel->ops->receive(s->channel, &lane->user, err);
        if (flow == GW_FLOW_BROKEN) return false;
        if (flow == GW_FLOW_BLOCKED && !s->ending) s->readable = false;
        if (flow == GW_FLOW_IDLE && s->ending)
            return gw_fail(err, GW_E_PEER, "net/lane_thread: the peer closed the connection");
    }
    if (s->writable && s->pushed) {
        gw_flow flow = s->channel->ops->send(s->channel, &lane->user, err);
        if (flow == GW_FLOW_BROKEN) return false;
        if (flow == GW_FLOW_BLOCKED) s->writable = false;
        if (flow == GW_FLOW_IDLE) s->pushed = false;
    }
    return true;
}

static bool has_work(const seat *s) {
    return s->refused || (s->readable && !is_parked(s)) || (s->writable && s->pushed);
}

/* True while there is more to do without waiting. */
static bool serve_all(gw_lane_thread *lane) {
    bool busy = false;
    for (uint32_t i = lane->seat_count; i > 0; i--) {
        gw_err err;
        if (has_work(lane->seats[i - 1]) && !serve(lane, lane->seats[i - 1], &err))
            drop_seat(lane, i - 1, &err);
    }
    for (uint32_t i = 0; i < lane->seat_count && !busy; i++) busy = has_work(lane->seats[i]);
    return busy;
}

static void note_events(gw_lane_thread *lane, const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        seat *s = events[i].data.ptr;
        if (events[i].data.ptr == &lane->event_fd) {
            uint64_t ignored;
            GW_ASSERT(read(lane->event_fd, &ignored, sizeof ignored) == sizeof ignored || errno == EAGAIN);
            continue;
        }
        if (events[i].data.ptr == NULL) continue; /* a watch: all are polled */
        if (is_polled(s)) s->readable = s->writable = true;
        if (is_polled(s)) continue;
        if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) s->readable = true;
        if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) s->ending = true;
        if (events[i].events & EPOLLOUT) s->writable = true;
        /* Parked, and the peer is gone: what it would have sent after the parked message never comes. */
        if (s->ending && is_parked(s)) {
            s->refused = true;
            gw_fail(&s->trouble, GW_E_PEER, "net/lane_thread: the peer closed the connection");
        }
    }
}

static int wait_for_events(const gw_lane_thread *lane, struct epoll_event events[EVENTS], int timeout) {
    int count = epoll_wait(lane->epoll_fd, events, EVENTS, timeout);
    if (count < 0 && errno == EINTR)
        count = epoll_wait(lane->epoll_fd, events, EVENTS, 0); /* see net/loop/loop.c */
    GW_ASSERT(count >= 0 || errno == EINTR);
    return count;
}

/* What the wait has told of, and what it had no room for. */
static void note_all(gw_lane_thread *lane, struct epoll_event events[EVENTS], int count) {
    note_events(lane, events, count);
    for (uint32_t noted = EVENTS; count == EVENTS && noted <= lane->seat_count; noted += EVENTS) {
        count = wait_for_events(lane, events, 0);
        note_events(lane, events, count);
    }
}

static int wait_ms(const gw_lane_thread *lane) {
    uint64_t until = lane->alarm_ns;
    if (lane->seat_count > lane->polled_count && lane->heartbeat_ns < until) until = lane->heartbeat_ns;
    if (until == UINT64_MAX) return -1;
    uint64_t now = gw_now_ns();
    if (now >= until) return 0;
    uint64_t ms = (until - now + 999999u) / 1000000u;
    return ms > 60000 ? 60000 : (int)ms;
}

static void enter_own_gate(gw_lane_thread *lane) {
    while (atomic_load(&lane->visitors) > 0) sched_yield();
    pthread_mutex_lock(&lane->gate);
}

/* True when anybody called. */
static bool heed_calls(gw_lane_thread *lane) {
    if (!atomic_exchange(&lane->called, false)) return false;
    take_inbox(lane);
    if (lane->used) lane->user.woken(lane->user.context, lane->number);
    return true;
}

/* True when it was time. */
static bool heed_alarm(gw_lane_thread *lane) {
    if (lane->alarm_ns == UINT64_MAX || gw_now_ns() < lane->alarm_ns) return false;
    lane->alarm_ns = UINT64_MAX;
    if (lane->used) lane->user.alarmed(lane->user.context, lane->number);
    return true;
}

static void end_silent(gw_lane_thread *lane, uint32_t i) {
    gw_err err;
    gw_fail(&err, GW_E_TIMEOUT,
            "net/lane_thread: nothing has come from the peer for %u s, not even heartbeats, though the "
            "connection stands: it hangs, or somebody on the way swallows them",
            (unsigned)(lane->silence_most * (GW_HEARTBEAT_NS / 1000000000u)));
    drop_seat(lane, i, &err);
}

/* Without a user nothing is sent or read. */
static void beat(gw_lane_thread *lane, uint64_t now_ns) {
    if (now_ns < lane->heartbeat_ns) return;
    lane->heartbeat_ns = now_ns + GW_HEARTBEAT_NS;
    for (uint32_t i = lane->used ? lane->seat_count : 0; i > 0; i--) {
        seat *s = lane->seats[i - 1];
        if (s->channel->ops->heartbeat == NULL) continue;
        s->pushed = true;
        if (s->channel->ops->heartbeat(s->channel) > lane->silence_most) end_silent(lane, i - 1);
    }
}

/* One look at everything that is polled; true when there was anything. */
static bool poll_once(gw_lane_thread *lane) {
    bool busy = false;
    for (uint32_t i = 0; i < lane->watch_count; i++)
        busy = lane->watches[i]->poll(lane->watches[i]->context) || busy;
    if (lane->polled_count == 0 || !lane->used) return busy;
    for (uint32_t i = 0; i < lane->seat_count; i++) {
        seat *s = lane->seats[i];
        if (is_polled(s)) s->readable = s->writable = true;
    }
    return serve_all(lane) || busy;
}

/* Looks at what is polled for a while; true when there was anything. */
static bool linger(gw_lane_thread *lane) {
    if (lane->polled_count + lane->watch_count == 0) return false;
    uint64_t end = gw_now_ns() + LINGER_NS;
    do {
        if (poll_once(lane)) return true;
    } while (gw_now_ns() < end && !atomic_load(&lane->called) && atomic_load(&lane->visitors) == 0);
    return false;
}

/* Has everything that is polled call when there is something; false when there is already. */
static bool arm(gw_lane_thread *lane) {
    bool quiet = true;
    for (uint32_t i = 0; i < lane->watch_count; i++)
        quiet = lane->watches[i]->arm(lane->watches[i]->context) && quiet;
    for (uint32_t i = 0; i < lane->seat_count && lane->used; i++) {
        seat *s = lane->seats[i];
        if (!is_polled(s) || s->channel->ops->arm(s->channel, !is_parked(s), s->pushed)) continue;
        s->readable = s->writable = true;
        quiet = false;
    }
    return quiet;
}

/* Whether to poll on: somebody wants that, and something happened not long ago. */
static bool spins(gw_lane_thread *lane, bool happened) {
    if (!atomic_load(&lane->spin)) return false;
    uint64_t now = gw_now_ns();
    if (happened) lane->spin_end_ns = now + SPIN_NS;
    return now < lane->spin_end_ns;
}

static void *lane_main(void *argument) {
    gw_lane_thread *lane = argument;
    pthread_setname_np(pthread_self(), lane->name);
    struct epoll_event events[EVENTS];
    int count = 0;
    while (!atomic_load(&lane->closing)) {
        uint64_t now_ns = gw_now_ns();
        atomic_store(&lane->turn_ns, now_ns);
        enter_own_gate(lane);
        note_all(lane, events, count);
        beat(lane, now_ns);
        bool called = heed_calls(lane), busy = poll_once(lane);
        busy = (lane->used && serve_all(lane)) || busy;
        bool spin = spins(lane, called || busy);
        uint32_t round = 1;
        for (; busy && round < ROUNDS && !atomic_load(&lane->called); round++) busy = serve_all(lane);
        if (!busy || round == ROUNDS) busy = heed_alarm(lane) || busy; /* after what has come in time */
        busy = busy || linger(lane) || (!spin && !arm(lane));
        int timeout = wait_ms(lane);
        pthread_mutex_unlock(&lane->gate);
        if (busy || spin) timeout = 0;
        if (!busy && spin) sched_yield(); /* the other end's thread may be waiting for this very core */
        if (timeout != 0) {
            atomic_store(&lane->turn_ns, 0);
            atomic_store(&lane->asleep, true);
            if (atomic_load(&lane->called) || atomic_load(&lane->closing)) timeout = 0;
        }
        count = wait_for_events(lane, events, timeout);
        atomic_store(&lane->asleep, false);
    }
    return NULL;
}

/* ---- from outside ---- */

static bool start_thread(gw_lane_thread *lane, gw_err *err) {
    lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    lane->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &lane->event_fd};
    if (lane->epoll_fd < 0 || lane->event_fd < 0 ||
        epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, lane->event_fd, &event) != 0)
        return gw_fail_errno(err, errno, "net/lane_thread: epoll%s",
                             errno == EMFILE ? " (raise the limit of open files, ulimit -n)" : "");
    int failed = pthread_create(&lane->thread, NULL, lane_main, lane);
    if (failed != 0) return gw_fail_thread(err, failed, "net/lane_thread: pthread_create");
    return true;
}

static void free_lane(gw_lane_thread *lane) {
    if (lane->epoll_fd >= 0) close(lane->epoll_fd);
    if (lane->event_fd >= 0) close(lane->event_fd);
    pthread_mutex_destroy(&lane->gate);
    pthread_mutex_destroy(&lane->inbox_lock);
    free(lane->seats);
    free(lane);
}

gw_lane_thread *gw_lane_thread_open(const char *name, uint32_t number, gw_lane_broken *broken, void *context,
                                    gw_err *err) {
    gw_lane_thread *lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/lane_thread: no memory for a lane");
        return NULL;
    }
    lane->name = name;
    lane->number = number;
    lane->broken = broken;
    lane->context = context;
    lane->alarm_ns = UINT64_MAX;
    gw_lane_thread_bear(lane, GW_SILENCE_NS);
    lane->epoll_fd = lane->event_fd = -1;
    pthread_mutex_init(&lane->gate, NULL);
    pthread_mutex_init(&lane->inbox_lock, NULL);
    if (!start_thread(lane, err)) {
        free_lane(lane);
        return NULL;
    }
    return lane;
}

void gw_lane_thread_bear(gw_lane_thread *lane, uint64_t silence_ns) {
    lane->silence_most = (uint32_t)(silence_ns / GW_HEARTBEAT_NS);
}

static void call(gw_lane_thread *lane) {
    atomic_store(&lane->called, true);
    if (!atomic_exchange(&lane->asleep, false)) return;
    uint64_t one = 1;
    GW_ASSERT(write(lane->event_fd, &one, sizeof one) == sizeof one || errno == EAGAIN);
}

void gw_lane_thread_stop(gw_lane_thread *lane) {
    atomic_store(&lane->closing, true);
    call(lane);
    pthread_join(lane->thread, NULL);
    take_inbox(lane);
    while (lane->seat_count > 0) drop_seat(lane, lane->seat_count - 1, NULL);
}

uint64_t gw_lane_thread_busy_since(const gw_lane_thread *lane) {
    return atomic_load(&lane->turn_ns);
}

void gw_lane_thread_close(gw_lane_thread *lane) {
    GW_ASSERT(atomic_load(&lane->closing) && lane->seat_count == 0);
    free_lane(lane);
}

bool gw_lane_thread_add(gw_lane_thread *lane, gw_channel *channel, gw_data_link *link, gw_err *err) {
    seat *s = calloc(1, sizeof *s);
    if (s == NULL) {
        channel->ops->close(channel);
        return gw_fail(err, GW_E_NOMEM, "net/lane_thread: no memory for a channel");
    }
    *s = (seat){.channel = channel, .link = link, .readable = true, .writable = true};
    channel->owner = s;
    atomic_fetch_add(&link->references, 1);
    pthread_mutex_lock(&lane->inbox_lock);
    s->next = lane->inbox;
    lane->inbox = s;
    pthread_mutex_unlock(&lane->inbox_lock);
    call(lane);
    return true;
}

bool gw_lane_thread_watch(gw_lane_thread *lane, gw_lane_watch *watch, gw_err *err) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    gw_lane_thread_enter(lane);
    bool done = lane->watch_count < GW_LANE_WATCHES ||
                gw_fail(err, GW_E_LIMIT, "net/lane_thread: more than %d watches", GW_LANE_WATCHES);
    if (done && epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) != 0)
        done = gw_fail_errno(err, errno, "net/lane_thread: epoll_ctl");
    if (done) lane->watches[lane->watch_count++] = watch;
    gw_lane_thread_leave(lane);
    if (done) call(lane); /* it is armed before the thread sleeps again */
    return done;
}

void gw_lane_thread_unwatch(gw_lane_thread *lane, gw_lane_watch *watch) {
    gw_lane_thread_enter(lane);
    for (uint32_t i = 0; i < lane->watch_count; i++) {
        if (lane->watches[i] != watch) continue;
        lane->watches[i] = lane->watches[--lane->watch_count];
        (void)epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        break;
    }
    gw_lane_thread_leave(lane);
}

void gw_lane_thread_wake(gw_lane_thread *lane) {
    call(lane);
}

void gw_lane_thread_spin(gw_lane_thread *lane, bool spin) {
    if (atomic_exchange(&lane->spin, spin) != spin && spin) call(lane);
}

void gw_lane_thread_enter(gw_lane_thread *lane) {
    atomic_fetch_add(&lane->visitors, 1);
    pthread_mutex_lock(&lane->gate);
}

void gw_lane_thread_leave(gw_lane_thread *lane) {
    pthread_mutex_unlock(&lane->gate);
    atomic_fetch_sub(&lane->visitors, 1);
}

void gw_lane_thread_use(gw_lane_thread *lane, const gw_lane_user *user) {
    lane->used = user != NULL;
    lane->alarm_ns = UINT64_MAX;
    if (user == NULL) {
        /* What a past user left half sent or half landed must not be touched again. */
        for (uint32_t i = 0; i < lane->seat_count; i++)
            (void)gw_lane_thread_release(lane, &lane->seats[i]->channel->peer);
        return;
    }
    lane->user = *user;
    for (uint32_t i = 0; i < lane->seat_count; i++) {
        resume(lane->seats[i]->channel);
        lane->user.up(lane->user.context, &lane->seats[i]->channel->peer);
    }
    if (lane->seat_count > 0) call(lane);
}

/* ---- inside the gate ---- */

void gw_lane_thread_refresh(gw_lane_thread *lane) {
    take_inbox(lane);
}

void gw_lane_thread_push(gw_lane_thread *lane, gw_lane_peer *peer) {
    GW_ASSERT(peer->lane == lane->number);
    seat_of(peer)->pushed = true;
}

void gw_lane_thread_resume(gw_lane_thread *lane, gw_lane_peer *peer) {
    GW_ASSERT(peer->lane == lane->number);
    resume(gw_channel_of(peer));
}

bool gw_lane_thread_release(gw_lane_thread *lane, gw_lane_peer *peer) {
    GW_ASSERT(peer->lane == lane->number);
    seat *s = seat_of(peer);
    s->pushed = true; /* the rest of a message goes on, also when no user pushes again */
    if (gw_channel_release(gw_channel_of(peer))) return true;
    s->refused = true;
    return gw_fail(&s->trouble, GW_E_NOMEM, "net/lane_thread: no memory to let go of a message");
}

void gw_lane_thread_alarm(gw_lane_thread *lane, uint64_t at_ns) {
    lane->alarm_ns = at_ns;
}

void gw_lane_thread_refuse(gw_lane_thread *lane, gw_lane_peer *peer, const gw_err *why) {
    GW_ASSERT(peer->lane == lane->number);
    seat *s = seat_of(peer);
    s->refused = true;
    s->trouble = *why;
}
