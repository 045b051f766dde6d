/* What is on its way, and what comes first. */
#include "flock_room.h"

#include <stdlib.h>
#include <string.h>

flock_event *flock_post(flock *f, uint32_t to, uint64_t delay_ns, gw_event event) {
    if (f->queued == f->capacity) {
        f->capacity = f->capacity == 0 ? 64 : 2 * f->capacity;
        f->queue = realloc(f->queue, f->capacity * sizeof *f->queue);
    }
    flock_event *e = &f->queue[f->queued++];
    *e = (flock_event){.at = f->now + delay_ns, .serial = f->serial++, .to = to, .event = event};
    e->life = f->peers[to].config.incarnation.boot;
    return e;
}

void flock_keep_bytes(flock_event *e, const void *bytes, size_t length) {
    e->bytes = malloc(length + 1);
    memcpy(e->bytes, bytes, length);
    e->event.bytes = e->bytes;
    e->event.length = length;
}

static void free_event(flock_event *e) {
    free(e->bytes);
    free(e->slots);
    free(e->hashes);
    gw_set_free(&e->held);
    gw_set_free(&e->claimed);
}

void flock_forget_events(flock *f) {
    for (uint32_t k = 0; k < f->queued; k++) free_event(&f->queue[k]);
    free(f->queue);
}

static bool earlier(const flock_event *a, const flock_event *b) {
    return a->at != b->at ? a->at < b->at : a->serial < b->serial;
}

static void handle(flock *f, flock_event *e) {
    flock_peer *p = &f->peers[e->to];
    if (e->redial) flock_link(f, e->to, (uint32_t)flock_index(f, &e->event.peer));
    if (e->redial || p->brain == NULL || p->config.incarnation.boot != e->life || p->finished) return;
    if (e->event.kind == (gw_event_kind)0) {
        p->fell = (gw_loss){.id = p->config.id, .boot = e->life, .step = p->step, .shard = e->event.shard};
        flock_kill(f, e->to);
        return;
    }
    if (e->event.kind == GW_EV_MESSAGE && !p->linked[flock_index(f, &e->event.peer)]) return;
    if (e->event.kind == GW_EV_LINK_DOWN && e->event.link_end == GW_LINK_CLOSED) {
        uint32_t other = (uint32_t)flock_index(f, &e->event.peer);
        p->linked[other] = false;
        if (f->peers[other].brain == NULL && !f->cut[e->to][other])
            flock_refuse(f, e->to, other); /* it dials again at once */
    }
    if (e->held.size > 0) {
        e->event.held = &e->held;
        e->event.claimed = &e->claimed;
    }
    e->event.slots = e->slots;
    if (e->slots != NULL) e->event.check_table = e->slots + e->table_at;
    e->event.hashes = e->hashes;
    flock_tell(f, e->to, e->event);
}

static bool all_finished(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && !f->peers[i].finished) return false;
    return true;
}

static bool next_event(const flock *f, uint32_t *next) {
    bool any = false;
    for (uint32_t k = 0; k < f->queued; k++) {
        if (f->peers[f->queue[k].to].stopped || (any && !earlier(&f->queue[k], &f->queue[*next]))) continue;
        *next = k;
        any = true;
    }
    return any;
}

bool flock_run(flock *f, bool (*condition)(const flock *f), uint64_t most) {
    for (uint64_t n = 0; n < most; n++) {
        if (condition != NULL ? condition(f) : all_finished(f)) return true;
        uint64_t timer = UINT64_MAX;
        uint32_t who = 0, next = 0;
        for (uint32_t i = 0; i < f->count; i++) {
            flock_peer *p = &f->peers[i];
            if (p->brain == NULL || p->finished || p->stopped) continue;
            uint64_t due = gw_peer_deadline(p->brain);
            if (due < timer) timer = due, who = i;
        }
        bool any = next_event(f, &next);
        if (!any && timer == UINT64_MAX) return false;
        if (!any || timer < f->queue[next].at) {
            if (timer > f->now) f->now = timer;
            flock_event tick = {
                .to = who, .life = f->peers[who].config.incarnation.boot, .event = {.kind = GW_EV_TIMER}};
            handle(f, &tick);
            continue;
        }
        flock_event e = f->queue[next];
        f->queue[next] = f->queue[--f->queued];
        if (e.at > f->now) f->now = e.at;
        handle(f, &e);
        free_event(&e);
    }
    return false;
}
