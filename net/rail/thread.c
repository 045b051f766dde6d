#include "net/rail/thread.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "net/link/stream.h"

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
    ROUNDS = 16,      /* rounds of work between two looks at the sockets */
    SPIN_NS = 100000, /* how long the thread polls after an event, with gw_rail_thread_spin */
    LINGER_NS =
        20000, /* how long polled channels are polled before the thread sleeps, since a wake-up costs more */
};

/* A channel in the rail, with what the thread knows of it. */
typedef struct seat {
    struct seat *next; /* in the inbox */
    gw_channel *channel;
    gw_data_link *link;
    bool readable, writable; /* edge-triggered: true until the channel reports that it is blocked */
    bool ending;             /* the peer has closed its side; the channel is read up to its last byte */
    bool pushed;             /* the user may have something to send, or a message is half sent */
    bool refused;            /* the user has refused the channel, or memory has run out; `trouble` says why */
    gw_err trouble;
} seat;

struct gw_rail_thread {
    const char *name;
    uint32_t number;
    gw_rail_user user;
    bool used; /* user is set */
    gw_rail_broken *broken;
    void *context;
    pthread_t thread;
    pthread_mutex_t gate;
    atomic_uint visitors; /* threads that want the gate, to which this thread gives precedence */
    int epoll_fd, event_fd;
    atomic_bool spin, closing;
    uint64_t spin_end_ns;     /* used by the thread */
    atomic_bool called;       /* something was left for the thread since it last looked */
    atomic_bool asleep;       /* it sleeps or is about to, and needs a write to event_fd */
    _Atomic uint64_t turn_ns; /* when the present turn began; 0: it sleeps */
    pthread_mutex_t inbox_lock;
    seat *inbox;
    /* The fields below are accessed with the gate held. */
    seat **seats;
    uint32_t seat_count, seat_capacity;
    uint32_t polled_count; /* how many of the seats are polled */
    gw_rail_watch *watches[GW_RAIL_WATCHES];
    uint32_t watch_count;
    uint64_t alarm_ns, heartbeat_ns;
    uint32_t silence_most; /* heartbeats */
};

void gw_data_link_forget(gw_data_link *link) {
    if (atomic_fetch_sub(&link->references, 1) == 1) free(link);
}

static seat *seat_of(gw_rail_peer *peer) {
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

/* Seats. */

static void free_seat(gw_rail_thread *rail, seat *s) {
    /* Closing the descriptor is not enough: another process may have one of the same file. */
    (void)epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, s->channel->fd, NULL);
    s->channel->ops->close(s->channel);
    gw_data_link_forget(s->link);
    free(s);
}

/* Removes seat i. `why` is the reason if the channel broke by itself, else NULL. */
static void drop_seat(gw_rail_thread *rail, uint32_t i, const gw_err *why) {
    seat *s = rail->seats[i];
    rail->seats[i] = rail->seats[--rail->seat_count];
    rail->polled_count -= is_polled(s);
    if (rail->used) rail->user.down(rail->user.context, &s->channel->peer);
    if (why != NULL) rail->broken(rail->context, s->link, why);
    free_seat(rail, s);
}

static bool seat_down(gw_rail_thread *rail, seat *s, gw_err *err) {
    if (rail->seat_count == rail->seat_capacity) {
        uint32_t capacity = rail->seat_capacity == 0 ? 8 : 2 * rail->seat_capacity;
        seat **seats = realloc(rail->seats, capacity * sizeof(seat *));
        if (seats == NULL) return gw_fail(err, GW_E_NOMEM, "net/rail: no memory for a channel");
        rail->seats = seats;
        rail->seat_capacity = capacity;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = s};
    if (epoll_ctl(rail->epoll_fd, EPOLL_CTL_ADD, s->channel->fd, &event) != 0)
        return gw_fail_errno(err, errno, "net/rail: epoll_ctl");
    rail->seats[rail->seat_count++] = s;
    rail->polled_count += is_polled(s);
    if (rail->used) rail->user.up(rail->user.context, &s->channel->peer);
    return true;
}

/* Takes new channels, drops those of ended links and seats the new ones, in this order: a link that had a
 * predecessor when it was made comes up after that has gone down. */
static void take_inbox(gw_rail_thread *rail) {
    pthread_mutex_lock(&rail->inbox_lock);
    seat *inbox = rail->inbox;
    rail->inbox = NULL;
    pthread_mutex_unlock(&rail->inbox_lock);
    for (uint32_t i = rail->seat_count; i > 0; i--)
        if (atomic_load(&rail->seats[i - 1]->link->ended)) drop_seat(rail, i - 1, NULL);
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
            free_seat(rail, s);
        } else if (!seat_down(rail, s, &err)) {
            rail->broken(rail->context, s->link, &err);
            free_seat(rail, s);
        }
    }
}

/* The thread. */

/* One round of work on a seat. False: it is broken, err says why. */
static bool serve(gw_rail_thread *rail, seat *s, gw_err *err) {
    if (s->refused) {
        *err = s->trouble;
        return false;
    }
    if (s->readable) {
        gw_flow flow = s->channel->ops->receive(s->channel, &rail->user, err);
        if (flow == GW_FLOW_BROKEN) return false;
        if (flow == GW_FLOW_BLOCKED && !s->ending) s->readable = false;
        if (flow == GW_FLOW_IDLE && s->ending)
            return gw_fail(err, GW_E_PEER, "net/rail: the peer closed the connection");
    }
    if (s->writable && s->pushed) {
        gw_flow flow = s->channel->ops->send(s->channel, &rail->user, err);
        if (flow == GW_FLOW_BROKEN) return false;
        if (flow == GW_FLOW_BLOCKED) s->writable = false;
        if (flow == GW_FLOW_IDLE) s->pushed = false;
    }
    return true;
}

static bool has_work(const seat *s) {
    return s->refused || (s->readable && !is_parked(s)) || (s->writable && s->pushed);
}

/* Serves all seats for one round. True while there is more to do without waiting. */
static bool serve_all(gw_rail_thread *rail) {
    bool busy = false;
    for (uint32_t i = rail->seat_count; i > 0; i--) {
        gw_err err;
        if (has_work(rail->seats[i - 1]) && !serve(rail, rail->seats[i - 1], &err))
            drop_seat(rail, i - 1, &err);
    }
    for (uint32_t i = 0; i < rail->seat_count && !busy; i++) busy = has_work(rail->seats[i]);
    return busy;
}

static void note_events(gw_rail_thread *rail, const struct epoll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        seat *s = events[i].data.ptr;
        if (events[i].data.ptr == &rail->event_fd) {
            uint64_t ignored;
            GW_ASSERT(read(rail->event_fd, &ignored, sizeof ignored) == sizeof ignored || errno == EAGAIN);
            continue;
        }
        if (events[i].data.ptr == NULL) continue; /* a watch; all of them are polled */
        if (is_polled(s)) s->readable = s->writable = true;
        if (is_polled(s)) continue;
        if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) s->readable = true;
        if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) s->ending = true;
        if (events[i].events & EPOLLOUT) s->writable = true;
        /* A parked channel whose peer is gone ends: what the peer would have sent after the parked message
         * never comes. */
        if (s->ending && is_parked(s)) {
            s->refused = true;
            gw_fail(&s->trouble, GW_E_PEER, "net/rail: the peer closed the connection");
        }
    }
}

static int wait_for_events(const gw_rail_thread *rail, struct epoll_event events[EVENTS], int timeout) {
    int count = epoll_wait(rail->epoll_fd, events, EVENTS, timeout);
    if (count < 0 && errno == EINTR)
        count = epoll_wait(rail->epoll_fd, events, EVENTS, 0); /* see net/loop/loop.c */
    GW_ASSERT(count >= 0 || errno == EINTR);
    return count;
}

/* Notes the events of the wait, and those for which it had no room. */
static void note_all(gw_rail_thread *rail, struct epoll_event events[EVENTS], int count) {
    note_events(rail, events, count);
    for (uint32_t noted = EVENTS; count == EVENTS && noted <= rail->seat_count; noted += EVENTS) {
        count = wait_for_events(rail, events, 0);
        note_events(rail, events, count);
    }
}

static int wait_ms(const gw_rail_thread *rail) {
    uint64_t until = rail->alarm_ns;
    if (rail->seat_count > rail->polled_count && rail->heartbeat_ns < until) until = rail->heartbeat_ns;
    if (until == UINT64_MAX) return -1;
    uint64_t now = gw_now_ns();
    if (now >= until) return 0;
    uint64_t ms = (until - now + 999999u) / 1000000u;
    return ms > 60000 ? 60000 : (int)ms;
}

static void enter_own_gate(gw_rail_thread *rail) {
    while (atomic_load(&rail->visitors) > 0) sched_yield();
    pthread_mutex_lock(&rail->gate);
}

/* Handles calls of other threads. True if there were any. */
static bool handle_calls(gw_rail_thread *rail) {
    if (!atomic_exchange(&rail->called, false)) return false;
    take_inbox(rail);
    if (rail->used) rail->user.woken(rail->user.context, rail->number);
    return true;
}

/* Calls `alarmed` if it is time. True if it was. */
static bool handle_alarm(gw_rail_thread *rail) {
    if (rail->alarm_ns == UINT64_MAX || gw_now_ns() < rail->alarm_ns) return false;
    rail->alarm_ns = UINT64_MAX;
    if (rail->used) rail->user.alarmed(rail->user.context, rail->number);
    return true;
}

static void end_silent(gw_rail_thread *rail, uint32_t i) {
    gw_err err;
    gw_fail(&err, GW_E_TIMEOUT,
            "net/rail: nothing has come from the peer for %u s, not even heartbeats, though the "
            "connection stands: it hangs, or somebody on the way swallows them",
            (unsigned)(rail->silence_most * (GW_HEARTBEAT_NS / 1000000000u)));
    drop_seat(rail, i, &err);
}

/* Sends heartbeats and counts silence. Without a user nothing is sent or read. */
static void beat(gw_rail_thread *rail, uint64_t now_ns) {
    if (now_ns < rail->heartbeat_ns) return;
    rail->heartbeat_ns = now_ns + GW_HEARTBEAT_NS;
    for (uint32_t i = rail->used ? rail->seat_count : 0; i > 0; i--) {
        seat *s = rail->seats[i - 1];
        if (s->channel->ops->heartbeat == NULL) continue;
        s->pushed = true;
        if (s->channel->ops->heartbeat(s->channel) > rail->silence_most) end_silent(rail, i - 1);
    }
}

/* Polls everything once; true if there was anything. */
static bool poll_once(gw_rail_thread *rail) {
    bool busy = false;
    for (uint32_t i = 0; i < rail->watch_count; i++)
        busy = rail->watches[i]->poll(rail->watches[i]->context) || busy;
    if (rail->polled_count == 0 || !rail->used) return busy;
    for (uint32_t i = 0; i < rail->seat_count; i++) {
        seat *s = rail->seats[i];
        if (is_polled(s)) s->readable = s->writable = true;
    }
    return serve_all(rail) || busy;
}

/* Polls for a while; true if there was anything. */
static bool poll_for_a_while(gw_rail_thread *rail) {
    if (rail->polled_count + rail->watch_count == 0) return false;
    uint64_t end = gw_now_ns() + LINGER_NS;
    do {
        if (poll_once(rail)) return true;
    } while (gw_now_ns() < end && !atomic_load(&rail->called) && atomic_load(&rail->visitors) == 0);
    return false;
}

/* Arms everything that is polled; false if there is something already. */
static bool arm(gw_rail_thread *rail) {
    bool idle = true;
    for (uint32_t i = 0; i < rail->watch_count; i++)
        idle = rail->watches[i]->arm(rail->watches[i]->context) && idle;
    for (uint32_t i = 0; i < rail->seat_count && rail->used; i++) {
        seat *s = rail->seats[i];
        if (!is_polled(s) || s->channel->ops->arm(s->channel, !is_parked(s), s->pushed)) continue;
        s->readable = s->writable = true;
        idle = false;
    }
    return idle;
}

/* Whether to go on polling: polling is switched on, and something has happened not long ago. */
static bool keeps_polling(gw_rail_thread *rail, bool happened) {
    if (!atomic_load(&rail->spin)) return false;
    uint64_t now = gw_now_ns();
    if (happened) rail->spin_end_ns = now + SPIN_NS;
    return now < rail->spin_end_ns;
}

static void *rail_main(void *argument) {
    gw_rail_thread *rail = argument;
    pthread_setname_np(pthread_self(), rail->name);
    struct epoll_event events[EVENTS];
    int count = 0;
    while (!atomic_load(&rail->closing)) {
        uint64_t now_ns = gw_now_ns();
        atomic_store(&rail->turn_ns, now_ns);
        enter_own_gate(rail);
        note_all(rail, events, count);
        beat(rail, now_ns);
        bool called = handle_calls(rail), busy = poll_once(rail);
        busy = (rail->used && serve_all(rail)) || busy;
        bool spin = keeps_polling(rail, called || busy);
        uint32_t round = 1;
        for (; busy && round < ROUNDS && !atomic_load(&rail->called); round++) busy = serve_all(rail);
        if (!busy || round == ROUNDS)
            busy = handle_alarm(rail) || busy; /* after handling what has come in time */
        busy = busy || poll_for_a_while(rail) || (!spin && !arm(rail));
        int timeout = wait_ms(rail);
        pthread_mutex_unlock(&rail->gate);
        if (busy || spin) timeout = 0;
        if (!busy && spin) sched_yield(); /* the peer's thread may be waiting for this core */
        if (timeout != 0) {
            atomic_store(&rail->turn_ns, 0);
            atomic_store(&rail->asleep, true);
            if (atomic_load(&rail->called) || atomic_load(&rail->closing)) timeout = 0;
        }
        count = wait_for_events(rail, events, timeout);
        atomic_store(&rail->asleep, false);
    }
    return NULL;
}

/* From outside. */

static bool start_thread(gw_rail_thread *rail, gw_err *err) {
    rail->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    rail->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &rail->event_fd};
    if (rail->epoll_fd < 0 || rail->event_fd < 0 ||
        epoll_ctl(rail->epoll_fd, EPOLL_CTL_ADD, rail->event_fd, &event) != 0)
        return gw_fail_errno(err, errno, "net/rail: epoll%s",
                             errno == EMFILE ? " (raise the limit of open files, ulimit -n)" : "");
    int failed = pthread_create(&rail->thread, NULL, rail_main, rail);
    if (failed != 0) return gw_fail_thread(err, failed, "net/rail: pthread_create");
    return true;
}

static void free_rail(gw_rail_thread *rail) {
    if (rail->epoll_fd >= 0) close(rail->epoll_fd);
    if (rail->event_fd >= 0) close(rail->event_fd);
    pthread_mutex_destroy(&rail->gate);
    pthread_mutex_destroy(&rail->inbox_lock);
    free(rail->seats);
    free(rail);
}

gw_rail_thread *gw_rail_thread_open(const char *name, uint32_t number, gw_rail_broken *broken, void *context,
                                    gw_err *err) {
    gw_rail_thread *rail = calloc(1, sizeof *rail);
    if (rail == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rail: no memory for a rail");
        return NULL;
    }
    rail->name = name;
    rail->number = number;
    rail->broken = broken;
    rail->context = context;
    rail->alarm_ns = UINT64_MAX;
    gw_rail_thread_set_silence(rail, GW_SILENCE_NS);
    rail->epoll_fd = rail->event_fd = -1;
    pthread_mutex_init(&rail->gate, NULL);
    pthread_mutex_init(&rail->inbox_lock, NULL);
    if (!start_thread(rail, err)) {
        free_rail(rail);
        return NULL;
    }
    return rail;
}

void gw_rail_thread_set_silence(gw_rail_thread *rail, uint64_t silence_ns) {
    rail->silence_most = (uint32_t)(silence_ns / GW_HEARTBEAT_NS);
}

static void call(gw_rail_thread *rail) {
    atomic_store(&rail->called, true);
    if (!atomic_exchange(&rail->asleep, false)) return;
    uint64_t one = 1;
    GW_ASSERT(write(rail->event_fd, &one, sizeof one) == sizeof one || errno == EAGAIN);
}

void gw_rail_thread_stop(gw_rail_thread *rail) {
    atomic_store(&rail->closing, true);
    call(rail);
    pthread_join(rail->thread, NULL);
    take_inbox(rail);
    while (rail->seat_count > 0) drop_seat(rail, rail->seat_count - 1, NULL);
}

uint64_t gw_rail_thread_busy_since(const gw_rail_thread *rail) {
    return atomic_load(&rail->turn_ns);
}

void gw_rail_thread_close(gw_rail_thread *rail) {
    GW_ASSERT(atomic_load(&rail->closing) && rail->seat_count == 0);
    free_rail(rail);
}

bool gw_rail_thread_add(gw_rail_thread *rail, gw_channel *channel, gw_data_link *link, gw_err *err) {
    seat *s = calloc(1, sizeof *s);
    if (s == NULL) {
        channel->ops->close(channel);
        return gw_fail(err, GW_E_NOMEM, "net/rail: no memory for a channel");
    }
    *s = (seat){.channel = channel, .link = link, .readable = true, .writable = true};
    channel->owner = s;
    atomic_fetch_add(&link->references, 1);
    pthread_mutex_lock(&rail->inbox_lock);
    s->next = rail->inbox;
    rail->inbox = s;
    pthread_mutex_unlock(&rail->inbox_lock);
    call(rail);
    return true;
}

bool gw_rail_thread_watch(gw_rail_thread *rail, gw_rail_watch *watch, gw_err *err) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    gw_rail_thread_enter(rail);
    bool done = rail->watch_count < GW_RAIL_WATCHES ||
                gw_fail(err, GW_E_LIMIT, "net/rail: more than %d watches", GW_RAIL_WATCHES);
    if (done && epoll_ctl(rail->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) != 0)
        done = gw_fail_errno(err, errno, "net/rail: epoll_ctl");
    if (done) rail->watches[rail->watch_count++] = watch;
    gw_rail_thread_leave(rail);
    if (done) call(rail); /* the watch is armed before the thread sleeps again */
    return done;
}

void gw_rail_thread_unwatch(gw_rail_thread *rail, gw_rail_watch *watch) {
    gw_rail_thread_enter(rail);
    for (uint32_t i = 0; i < rail->watch_count; i++) {
        if (rail->watches[i] != watch) continue;
        rail->watches[i] = rail->watches[--rail->watch_count];
        (void)epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        break;
    }
    gw_rail_thread_leave(rail);
}

void gw_rail_thread_wake(gw_rail_thread *rail) {
    call(rail);
}

void gw_rail_thread_spin(gw_rail_thread *rail, bool spin) {
    if (atomic_exchange(&rail->spin, spin) != spin && spin) call(rail);
}

void gw_rail_thread_enter(gw_rail_thread *rail) {
    atomic_fetch_add(&rail->visitors, 1);
    pthread_mutex_lock(&rail->gate);
}

void gw_rail_thread_leave(gw_rail_thread *rail) {
    pthread_mutex_unlock(&rail->gate);
    atomic_fetch_sub(&rail->visitors, 1);
}

void gw_rail_thread_use(gw_rail_thread *rail, const gw_rail_user *user) {
    rail->used = user != NULL;
    rail->alarm_ns = UINT64_MAX;
    if (user == NULL) {
        /* Messages that a past user left half sent or half received must not be touched again. */
        for (uint32_t i = 0; i < rail->seat_count; i++)
            (void)gw_rail_thread_release(rail, &rail->seats[i]->channel->peer);
        return;
    }
    rail->user = *user;
    for (uint32_t i = 0; i < rail->seat_count; i++) {
        resume(rail->seats[i]->channel);
        rail->user.up(rail->user.context, &rail->seats[i]->channel->peer);
    }
    if (rail->seat_count > 0) call(rail);
}

/* Functions that are called with the gate held. */

void gw_rail_thread_refresh(gw_rail_thread *rail) {
    take_inbox(rail);
}

void gw_rail_thread_push(gw_rail_thread *rail, gw_rail_peer *peer) {
    GW_ASSERT(peer->rail == rail->number);
    seat_of(peer)->pushed = true;
}

void gw_rail_thread_resume(gw_rail_thread *rail, gw_rail_peer *peer) {
    GW_ASSERT(peer->rail == rail->number);
    resume(gw_channel_of(peer));
}

bool gw_rail_thread_release(gw_rail_thread *rail, gw_rail_peer *peer) {
    GW_ASSERT(peer->rail == rail->number);
    seat *s = seat_of(peer);
    s->pushed = true; /* the rest of the message is sent even if no user pushes again */
    if (gw_channel_release(gw_channel_of(peer))) return true;
    s->refused = true;
    return gw_fail(&s->trouble, GW_E_NOMEM, "net/rail: no memory to release a message");
}

void gw_rail_thread_alarm(gw_rail_thread *rail, uint64_t at_ns) {
    rail->alarm_ns = at_ns;
}

void gw_rail_thread_refuse(gw_rail_thread *rail, gw_rail_peer *peer, const gw_err *why) {
    GW_ASSERT(peer->rail == rail->number);
    seat *s = seat_of(peer);
    s->refused = true;
    s->trouble = *why;
}
