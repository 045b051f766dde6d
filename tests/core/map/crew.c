#include "crew.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { DISK_NS = 100000000, LINK_NS = 1000000 };

static uint64_t usual(void *context, uint32_t task) {
    (void)context;
    return 1000000 + task % 7 * 3000000;
}

static uint32_t place_of(const crew *c, const gw_peer_id *id) {
    for (uint32_t i = 0; i < c->count; i++)
        if (gw_peer_id_equal(&c->peers[i].self.peer, id)) return i;
    cr_assert_fail("a message to nobody");
    return 0;
}

static void take_message(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    crew_peer *p = context;
    crew *c = p->of;
    cr_assert_leq(length, GW_MAP_SHARE_MESSAGE_BYTES);
    uint32_t from = (uint32_t)(p - c->peers), place = place_of(c, to);
    if (c->cut[from][place] || gw_rng_unit(&c->rng) < c->loss) return;
    crew_message *m = malloc(sizeof *m + length);
    *m = (crew_message){.from = from, .to = place, .at_ns = c->now_ns + LINK_NS, .length = length};
    memcpy(m->bytes, bytes, length);
    *c->last = m;
    c->last = &m->next;
    c->sent_bytes += length;
}

static void note_learned(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                         uint32_t count) {
    crew_peer *p = context;
    crew_learned *l = malloc(sizeof *l + count * sizeof *rows);
    *l = (crew_learned){.origin = *origin, .first = first, .at_ns = p->of->now_ns, .count = count};
    memcpy(l->rows, rows, count * sizeof *rows);
    *p->last = l;
    p->last = &l->next;
}

static void note_committed(void *context, const gw_map_origin *origin, uint64_t count) {
    crew_peer *p = context;
    uint32_t at = 0;
    while (at < p->committed_count && memcmp(&p->committed[at].origin, origin, sizeof *origin) != 0) at++;
    cr_assert_lt(at, CREW_ORIGINS);
    if (at == p->committed_count) p->committed_count++;
    p->committed[at] = (crew_committed_rows){*origin, count};
}

void crew_committed(const crew *c, bool *tasks) {
    memset(tasks, 0, c->tasks * sizeof *tasks);
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t k = 0; k < c->peers[i].committed_count; k++) {
            const crew_committed_rows *rows = &c->peers[i].committed[k];
            for (const crew_learned *l = c->peers[i].disk; l != NULL; l = l->next)
                for (uint32_t n = 0; n < l->count && memcmp(&l->origin, &rows->origin, sizeof l->origin) == 0;
                     n++)
                    if (l->first + n < rows->count) tasks[l->rows[n].task] = true;
        }
}

void crew_start(crew *c, uint32_t place) {
    crew_peer *p = &c->peers[place];
    gw_err err;
    p->self.life = gw_rng_next(&c->rng) | 1;
    gw_map_share_config config = {.self = p->self,
                                  .tasks = c->tasks,
                                  .slots = p->slots,
                                  .sink = {p, take_message, note_learned, note_committed}};
    p->share = gw_map_share_open(&config, c->now_ns, &err);
    cr_assert_not_null(p->share);
    for (const crew_learned *l = p->disk; l != NULL; l = l->next)
        cr_assert(gw_map_share_recover(p->share, &l->origin, l->first, l->rows, l->count));
}

crew *crew_open(uint32_t peers, uint32_t slots, uint32_t tasks, uint64_t seed) {
    crew *c = calloc(1, sizeof *c);
    c->count = peers;
    c->tasks = tasks;
    c->rng = gw_rng_seeded(seed);
    c->last = &c->first;
    c->duration = usual;
    c->started = calloc(tasks + 1, sizeof *c->started);
    c->now_ns = 1;
    c->step_ns = 500000;
    for (uint32_t i = 0; i < peers; i++) {
        crew_peer *p = &c->peers[i];
        *p = (crew_peer){.of = c, .slots = slots, .speed = 1, .last = &p->disk, .undurable = &p->disk};
        p->runs = calloc(CREW_RUNS, sizeof *p->runs);
        p->self.peer.bytes[0] = (uint8_t)(i + 1);
        crew_start(c, i);
    }
    return c;
}

void crew_close(crew *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        crew_peer *p = &c->peers[i];
        gw_map_share_close(p->share);
        while (p->disk != NULL) {
            crew_learned *l = p->disk;
            p->disk = l->next;
            free(l);
        }
        free(p->runs);
    }
    while (c->first != NULL) {
        crew_message *m = c->first;
        c->first = m->next;
        free(m);
    }
    free(c->started);
    free(c);
}

void crew_kill(crew *c, uint32_t place) {
    crew_peer *p = &c->peers[place];
    gw_map_share_close(p->share);
    p->share = NULL;
    p->run_count = 0;
    while (*p->undurable != NULL) {
        crew_learned *l = *p->undurable;
        *p->undurable = l->next;
        free(l);
    }
    p->last = p->undurable;
}

void crew_cut(crew *c, uint32_t a, uint32_t b, bool cut) {
    c->cut[a][b] = c->cut[b][a] = cut;
}

/* Tells a peer which others live, as far as it reaches them. */
static void tell_peers(crew *c, uint32_t place) {
    gw_peer_id live[CREW_PEERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (i != place && c->peers[i].share != NULL && !c->cut[place][i])
            live[count++] = c->peers[i].self.peer;
    gw_map_share_set_peers(c->peers[place].share, live, count, c->now_ns);
}

static void tell_all_peers(crew *c) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->peers[i].share != NULL) tell_peers(c, i);
}

static void deliver(crew *c) {
    while (c->first != NULL && c->first->at_ns <= c->now_ns) {
        crew_message *m = c->first;
        c->first = m->next;
        if (c->first == NULL) c->last = &c->first;
        crew_peer *p = &c->peers[m->to];
        if (p->share != NULL && !c->cut[m->from][m->to])
            cr_assert(
                gw_map_share_message(p->share, &c->peers[m->from].self.peer, m->bytes, m->length, c->now_ns));
        free(m);
    }
}

/* A task kills the process that runs it. The others hear of it by the member, unless that is lost. */
static void die(crew *c, uint32_t place) {
    crew_peer *p = &c->peers[place];
    uint8_t message[GW_MAP_SHARE_MESSAGE_BYTES];
    cr_assert(p->deaths < CREW_DEATHS && p->run_count <= CREW_SLOTS);
    uint32_t *tasks = p->died[p->deaths], count = p->run_count;
    for (uint32_t i = 0; i < count; i++) tasks[i] = p->runs[i].task;
    p->died_count[p->deaths++] = count;
    size_t length = gw_map_share_write_death(message, sizeof message, p->deaths, tasks, count);
    for (uint32_t i = 0; i < c->count; i++)
        if (i != place && c->peers[i].share != NULL) take_message(p, &c->peers[i].self.peer, message, length);
    crew_kill(c, place);
    tell_all_peers(c);
    crew_start(c, place);
    tell_all_peers(c);
    for (uint32_t i = 0; i < p->deaths; i++)
        gw_map_share_died(p->share, i + 1, p->died[i], p->died_count[i], c->now_ns);
}

static void end_runs(crew *c, crew_peer *p) {
    for (uint32_t i = 0; i < p->run_count; i++) {
        if (p->runs[i].ends_ns > c->now_ns || p->runs[i].task + 1 != c->killer) continue;
        die(c, (uint32_t)(p - c->peers));
        return;
    }
    for (uint32_t i = 0; i < p->run_count;) {
        crew_run run = p->runs[i];
        if (run.ends_ns > c->now_ns) {
            i++;
            continue;
        }
        p->runs[i] = p->runs[--p->run_count];
        gw_map_row row = {.task = run.task,
                          .outcome = run.task % 11 == 10 ? GW_MAP_FAILURE : GW_MAP_SUCCESS,
                          .attempt = 1,
                          .exit_code = run.task % 11 == 10,
                          .wall_us = (uint64_t)((double)c->duration(c->context, run.task) / p->speed) / 1000,
                          .hash = {{(uint8_t)run.task, (uint8_t)(run.task >> 8)}}};
        gw_map_share_ended(p->share, row.task, row.wall_us, c->now_ns);
        gw_map_share_finished(p->share, &row, c->now_ns);
    }
}

static void start_runs(crew *c, crew_peer *p) {
    uint32_t task;
    while (gw_map_share_next_failed(p->share, &task, c->now_ns)) {
        gw_map_row row = {.task = task, .outcome = GW_MAP_FAILURE, .attempt = 3, .signal = 9};
        gw_map_share_finished(p->share, &row, c->now_ns);
    }
    while (gw_map_share_next(p->share, &task, c->now_ns)) {
        cr_assert_lt(p->run_count, CREW_RUNS);
        p->runs[p->run_count++] =
            (crew_run){task, c->now_ns + (uint64_t)((double)c->duration(c->context, task) / p->speed)};
        c->started[task]++;
        c->starts++;
    }
}

static void write_disk(crew *c, crew_peer *p) {
    while (*p->undurable != NULL && c->now_ns >= (*p->undurable)->at_ns + DISK_NS) {
        const crew_learned *l = *p->undurable;
        p->undurable = &(*p->undurable)->next;
        gw_map_share_durable(p->share, &l->origin, l->first + l->count, c->now_ns);
    }
}

bool crew_is_complete(const crew *c) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->peers[i].share != NULL && !gw_map_share_all_complete(c->peers[i].share)) return false;
    return true;
}

void crew_step(crew *c) {
    c->now_ns += c->step_ns;
    deliver(c);
    for (uint32_t i = 0; i < c->count; i++) {
        crew_peer *p = &c->peers[i];
        if (p->share == NULL) continue;
        end_runs(c, p);
        start_runs(c, p);
        write_disk(c, p);
        if (gw_map_share_next_deadline(p->share) <= c->now_ns) gw_map_share_tick(p->share, c->now_ns);
    }
}

void crew_run_for(crew *c, double seconds, bool until_complete) {
    uint64_t end_ns = c->now_ns + (uint64_t)(seconds * 1e9);
    tell_all_peers(c);
    while (c->now_ns < end_ns && !(until_complete && crew_is_complete(c))) crew_step(c);
}
