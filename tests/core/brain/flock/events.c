/* What is on its way, and what comes first. */
#include "core/base/assert.h"
#include "tests/core/brain/flock/inside.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static bool earlier(const flock_event *a, const flock_event *b) {
    return a->at != b->at ? a->at < b->at : a->serial < b->serial;
}

/* The queue is a heap: a child is not earlier than its parent. */
static void put(flock *f, flock_event *e) {
    if (f->queued == f->capacity) {
        f->capacity = f->capacity == 0 ? 64 : 2 * f->capacity;
        f->queue = realloc(f->queue, f->capacity * sizeof *f->queue);
    }
    uint32_t at = f->queued++;
    for (; at > 0 && earlier(e, f->queue[(at - 1) / 2]); at = (at - 1) / 2)
        f->queue[at] = f->queue[(at - 1) / 2];
    f->queue[at] = e;
}

static flock_event *take(flock *f) {
    flock_event *first = f->queue[0], *last = f->queue[--f->queued];
    uint32_t at = 0;
    for (uint32_t child = 1; child < f->queued; child = 2 * at + 1) {
        if (child + 1 < f->queued && earlier(f->queue[child + 1], f->queue[child])) child++;
        if (!earlier(f->queue[child], last)) break;
        f->queue[at] = f->queue[child];
        at = child;
    }
    if (f->queued > 0) f->queue[at] = last;
    return first;
}

flock_event *flock_post(flock *f, uint32_t to, uint64_t delay_ns, gw_event event) {
    flock_event *e = malloc(sizeof *e);
    *e = (flock_event){.at = f->now + delay_ns, .serial = f->serial++, .to = to, .event = event};
    e->life = f->peers[to].config.incarnation.boot;
    put(f, e);
    return e;
}

void flock_keep_bytes(flock_event *e, const void *bytes, size_t length) {
    e->bytes = malloc(length + 1);
    memcpy(e->bytes, bytes, length);
    if (e->event.kind == GW_EV_MESSAGE) {
        e->event.message.bytes = e->bytes;
        e->event.message.length = length;
    } else {
        GW_ASSERT(e->event.kind == GW_EV_DATAGRAM);
        e->event.datagram.bytes = e->bytes;
        e->event.datagram.length = length;
    }
}

static void free_event(flock_event *e) {
    free(e->bytes);
    free(e->slots);
    free(e->hashes);
    gw_set_free(&e->held);
    gw_set_free(&e->claimed);
    free(e);
}

void flock_forget_events(flock *f) {
    for (uint32_t i = 0; i < f->count; i++) flock_release(f, i);
    while (f->queued > 0) free_event(take(f));
    free(f->queue);
}

void flock_release(flock *f, uint32_t i) {
    for (flock_event *e = f->peers[i].waiting, *next; e != NULL; e = next) {
        next = e->next;
        put(f, e);
    }
    f->peers[i].waiting = NULL;
}

static void handle(flock *f, flock_event *e) {
    flock_peer *p = &f->peers[e->to];
    if (e->redial) flock_link(f, e->to, (uint32_t)flock_index(f, &e->event.peer));
    if (e->redial || p->brain == NULL || p->config.incarnation.boot != e->life || p->finished) return;
    if (e->event.kind == (gw_event_kind)0) {
        p->fell =
            (gw_shard_death){.id = p->config.id, .boot = e->life, .step = p->step, .shard = e->fatal_shard};
        flock_kill(f, e->to);
        return;
    }
    if (e->event.kind == GW_EV_MESSAGE && !p->linked[flock_index(f, &e->event.peer)]) return;
    if (e->event.kind == GW_EV_LINK_DOWN && e->event.link.end == GW_LINK_CLOSED) {
        uint32_t other = (uint32_t)flock_index(f, &e->event.peer);
        p->linked[other] = false;
        if (f->peers[other].brain == NULL && !f->cut[e->to][other])
            flock_refuse(f, e->to, other); /* it dials again at once */
    }
    if (e->event.kind == GW_EV_FROZEN && e->held.size > 0) {
        e->event.frozen.held = &e->held;
        e->event.frozen.claimed = &e->claimed;
    }
    if (e->event.kind == GW_EV_LOADED && e->held.size > 0) e->event.loaded.held = &e->held;
    if (e->event.kind == GW_EV_REDUCED && e->slots != NULL) {
        e->event.reduced.slots = e->slots;
        e->event.reduced.check_table = e->slots + e->table_at;
    }
    if (e->event.kind == GW_EV_STORED) e->event.stored.hashes = e->hashes;
    flock_tell(f, e->to, e->event);
}

static bool all_finished(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && !f->peers[i].finished) return false;
    return true;
}

/* The earliest for a peer that is not stopped, or NULL. */
static const flock_event *next_event(flock *f) {
    while (f->queued > 0 && f->peers[f->queue[0]->to].stopped) {
        flock_event *e = take(f);
        e->next = f->peers[e->to].waiting;
        f->peers[e->to].waiting = e;
    }
    return f->queued > 0 ? f->queue[0] : NULL;
}

bool flock_run(flock *f, bool (*condition)(const flock *f), uint64_t most) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL) f->peers[i].due_ns = gw_peer_deadline(f->peers[i].brain);
    for (uint64_t n = 0; n < most; n++) {
        if (condition != NULL ? condition(f) : all_finished(f)) return true;
        uint64_t timer = UINT64_MAX;
        uint32_t who = 0;
        for (uint32_t i = 0; i < f->count; i++) {
            flock_peer *p = &f->peers[i];
            if (p->brain == NULL || p->finished || p->stopped) continue;
            if (p->due_ns < timer) timer = p->due_ns, who = i;
        }
        const flock_event *next = next_event(f);
        if (next == NULL && timer == UINT64_MAX) return false;
        if (next == NULL || timer < next->at) {
            if (timer > f->now) f->now = timer;
            flock_event tick = {
                .to = who, .life = f->peers[who].config.incarnation.boot, .event = {.kind = GW_EV_TIMER}};
            handle(f, &tick);
            continue;
        }
        flock_event *e = take(f);
        if (e->at > f->now) f->now = e->at;
        handle(f, e);
        free_event(e);
    }
    return false;
}

void flock_run_for(flock *f, uint64_t time_ns) {
    uint64_t until_ns = f->now + time_ns;
    while (f->now < until_ns) cr_assert(!flock_run(f, NULL, 1));
}
