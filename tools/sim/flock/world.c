#include "tools/sim/flock/world.h"

#include "core/base/assert.h"
#include "core/flock/links.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t sim_flock_now(const sim_flock *w) {
    return gw_sim_now(w->engine);
}

uint64_t sim_flock_between(sim_flock *w, uint64_t least, uint64_t most) {
    return least + (most > least ? gw_rng_below(&w->rng, most - least + 1) : 0);
}

bool sim_flock_chance(sim_flock *w, double probability) {
    return gw_rng_unit(&w->rng) < probability;
}

void sim_flock_say(const sim_flock *w, const char *format, ...) {
    if (w->trace == NULL) return;
    va_list list;
    va_start(list, format);
    fprintf(w->trace, "%14.6f ", (double)sim_flock_now(w) / 1e9);
    vfprintf(w->trace, format, list);
    fputc('\n', w->trace);
    va_end(list);
}

sim_link *sim_flock_link(const sim_flock *w, uint32_t a, uint32_t b) {
    return &w->links[(size_t)a * w->count + b];
}

static bool is_cut(const sim_flock *w, uint32_t a, uint32_t b) {
    return w->cut[(size_t)a * w->count + b];
}

static bool is_linkable(const sim_flock *w, uint32_t a, uint32_t b) {
    return a != b && w->members[a].alive && w->members[b].alive && !is_cut(w, a, b);
}

/* Gossip takes a member for live that another one can reach for it. */
static bool is_reachable(const sim_flock *w, uint32_t a, uint32_t b) {
    if (is_linkable(w, a, b)) return true;
    for (uint32_t by = 0; by < w->count; by++)
        if (is_linkable(w, a, by) && is_linkable(w, by, b)) return true;
    return false;
}

/* Links. */

static void break_link(sim_flock *w, uint32_t a, uint32_t b) {
    for (int i = 0; i < 2; i++) {
        sim_member *m = &w->members[i == 0 ? a : b], *other = &w->members[i == 0 ? b : a];
        sim_link *link = sim_flock_link(w, m->number, other->number);
        if (!link->up) continue;
        link->up = false;
        link->breaks++;
        if (m->alive) gw_exchange_down(m->exchange, &other->id);
    }
}

static void make_link(sim_flock *w, uint32_t a, uint32_t b) {
    if (!is_linkable(w, a, b) || sim_flock_link(w, a, b)->up) return;
    sim_flock_link(w, a, b)->up = sim_flock_link(w, b, a)->up = true;
    sim_flock_link(w, a, b)->up_ns = sim_flock_link(w, b, a)->up_ns = sim_flock_now(w);
    for (int i = 0; i < 2; i++) {
        sim_member *m = &w->members[i == 0 ? a : b];
        gw_exchange_up(m->exchange, &w->members[i == 0 ? b : a].id, sim_flock_now(w));
        sim_member_follow_exchange(m);
    }
}

/* Ends a link that nobody keeps, and nobody has asked for lately. */
static void end_link(void *context, const gw_sim_event *event) {
    sim_flock *w = context;
    uint32_t a = (uint32_t)event->a, b = (uint32_t)event->b;
    const sim_link *there = sim_flock_link(w, a, b), *back = sim_flock_link(w, b, a);
    uint64_t asked_ns = there->asked_ns > back->asked_ns ? there->asked_ns : back->asked_ns;
    if (!there->kept && !back->kept && asked_ns + GW_FLOCK_LINKS_IDLE_NS <= sim_flock_now(w))
        break_link(w, a, b);
}

static void plan_link(sim_flock *w, uint64_t after_ns, void (*run)(void *, const gw_sim_event *), uint32_t a,
                      uint32_t b) {
    gw_sim_schedule(w->engine, sim_flock_now(w) + after_ns,
                    &(gw_sim_event){.run = run, .context = w, .a = a, .b = b});
}

static void connect_link(void *context, const gw_sim_event *event) {
    make_link(context, (uint32_t)event->a, (uint32_t)event->b);
}

void sim_flock_reach(sim_flock *w, uint32_t from, uint32_t to) {
    sim_link *link = sim_flock_link(w, from, to);
    if (!link->sees || link->up) return;
    link->asked_ns = sim_flock_now(w);
    plan_link(w, sim_flock_between(w, w->config.message_least_ns, w->config.message_most_ns), connect_link,
              from, to);
    plan_link(w, GW_FLOCK_LINKS_IDLE_NS, end_link, from, to);
}

/* A member looks to whom it keeps links. */
static void follow_links(void *context, const gw_sim_event *event) {
    sim_flock *w = context;
    sim_member *m = &w->members[event->a];
    uint32_t count = 0, got, chosen[GW_FLOCK_LINKS_ALL];
    m->follows = false;
    if (!m->alive) return;
    gw_peer_id *ids = calloc(w->count, sizeof *ids);
    uint32_t *numbers = calloc(w->count, sizeof *numbers);
    bool *was = calloc(w->count, sizeof *was);
    GW_ASSERT_MEMORY(ids != NULL && numbers != NULL && was != NULL);
    for (uint32_t i = 0; i < w->count; i++) {
        sim_link *link = sim_flock_link(w, m->number, i);
        was[i] = link->kept;
        link->kept = false;
        if (!link->sees) continue;
        ids[count] = w->members[i].id;
        numbers[count++] = i;
    }
    got = gw_flock_links_choose(&m->id, ids, count, chosen);
    for (uint32_t i = 0; i < got; i++) {
        sim_flock_link(w, m->number, numbers[chosen[i]])->kept = true;
        make_link(w, m->number, numbers[chosen[i]]);
    }
    for (uint32_t i = 0; i < w->count; i++) {
        sim_link *link = sim_flock_link(w, m->number, i);
        if (!was[i] || link->kept) continue;
        link->asked_ns = sim_flock_now(w);
        plan_link(w, GW_FLOCK_LINKS_IDLE_NS, end_link, m->number, i);
    }
    free(ids);
    free(numbers);
    free(was);
}

static void follow_links_soon(sim_flock *w, uint32_t number) {
    if (w->members[number].follows) return;
    w->members[number].follows = true;
    plan_link(w, 0, follow_links, number, 0);
}

static void meet(sim_member *m, const sim_member *other) {
    sim_link *link = sim_flock_link(m->of, m->number, other->number);
    if (link->known_at == 0) {
        if (m->known_count == m->known_room) {
            m->known_room = 2 * m->known_room + 8;
            m->known = realloc(m->known, m->known_room * sizeof *m->known);
            GW_ASSERT_MEMORY(m->known != NULL);
        }
        link->known_at = ++m->known_count;
    }
    m->known[link->known_at - 1] = (sim_known){other->id, sim_flock_now(m->of)};
}

void sim_flock_introduce(sim_flock *w) {
    for (uint32_t a = 0; a < w->count; a++)
        for (uint32_t b = 0; b < w->count; b++)
            if (a != b) meet(&w->members[a], &w->members[b]);
}

/* Event a looks again at whether b is live. */
static void notice(void *context, const gw_sim_event *event) {
    sim_flock *w = context;
    uint32_t a = (uint32_t)event->a, b = (uint32_t)event->b;
    sim_member *m = &w->members[a], *other = &w->members[b];
    sim_link *link = sim_flock_link(w, a, b);
    if (!m->alive) return;
    bool live = is_reachable(w, a, b);
    if (live) {
        meet(m, other);
        gw_sides_live(m->sides, &other->id, &(gw_incarnation){.boot = other->lives});
        if (!link->up) follow_links_soon(w, a);
    } else if (link->sees) {
        sim_flock_say(w, "%u takes %u for dead", a, b);
        const gw_claims *claims = gw_exchange_claims_of(m->exchange, &other->id);
        meet(m, other); /* it was there until now */
        link->lost_ns = claims != NULL && claims->drained ? 0 : sim_flock_now(w);
        break_link(w, a, b);
        gw_sides_lost(m->sides, &other->id, claims, sim_flock_now(w));
        gw_exchange_gone(m->exchange, &other->id);
    }
    if (live == link->sees) return;
    link->sees = live;
    sim_member_decide_soon(m);
}

static void plan_notice(sim_flock *w, uint32_t a, uint32_t b) {
    if (a == b) return;
    uint64_t at =
        sim_flock_now(w) + sim_flock_between(w, w->config.notice_least_ns, w->config.notice_most_ns);
    gw_sim_schedule(w->engine, at, &(gw_sim_event){.run = notice, .context = w, .a = a, .b = b});
}

/* A member has come, or is gone. */
static void plan_notices(sim_flock *w, uint32_t number) {
    for (uint32_t i = 0; i < w->count; i++) {
        plan_notice(w, number, i);
        plan_notice(w, i, number);
    }
}

void sim_flock_cut(sim_flock *w, uint32_t a, uint32_t b, bool cut) {
    if (is_cut(w, a, b) == cut) return;
    w->cut[(size_t)a * w->count + b] = w->cut[(size_t)b * w->count + a] = cut;
    if (cut) break_link(w, a, b);
    plan_notice(w, a, b);
    plan_notice(w, b, a);
}

/* Processes. */

void sim_flock_start(sim_flock *w, uint32_t number) {
    sim_member *m = &w->members[number];
    GW_ASSERT(!m->alive);
    m->alive = true;
    m->lives++;
    m->alive_ns = sim_flock_now(w);
    sim_flock_say(w, "%u starts", number);
    for (uint32_t i = 0; i < w->count; i++) {
        sim_flock_link(w, number, i)->sees = false;
        sim_flock_link(w, number, i)->lost_ns = 0;
        sim_flock_link(w, number, i)->kept = false;
    }
    sim_member_open(m);
    plan_notices(w, number);
}

void sim_flock_kill(sim_flock *w, uint32_t number, bool machine) {
    sim_member *m = &w->members[number];
    GW_ASSERT(m->alive);
    sim_flock_say(w, "%u ends%s", number, machine ? ", and its machine" : "");
    m->alive = false;
    m->alive_ns = sim_flock_now(w);
    for (uint32_t i = 0; i < w->count; i++) break_link(w, number, i);
    sim_member_close(m);
    if (machine) m->child_count = 0;
    plan_notices(w, number);
}

void sim_flock_run(sim_flock *w, uint64_t ns) {
    uint64_t until = sim_flock_now(w) + ns;
    while (gw_sim_step(w->engine, until)) {
    }
}

/* Ids are of the member's number, and of how often its disk was lost. */
static gw_peer_id id_of(uint32_t number, uint32_t generation) {
    gw_peer_id id = {{(uint8_t)(number >> 8), (uint8_t)number, (uint8_t)generation, 1}};
    return id;
}

sim_flock *sim_flock_open(const sim_flock_config *config) {
    sim_flock *w = calloc(1, sizeof *w);
    gw_err err;
    GW_ASSERT_MEMORY(w != NULL);
    w->config = *config;
    w->count = config->count;
    w->engine = gw_sim_engine_create(SIM_FLOCK_SECOND);
    w->rng = gw_rng_seeded(config->seed);
    w->members = calloc(w->count, sizeof *w->members);
    w->links = calloc((size_t)w->count * w->count, sizeof *w->links);
    w->cut = calloc((size_t)w->count * w->count, sizeof *w->cut);
    GW_ASSERT_MEMORY(w->members != NULL && w->links != NULL && w->cut != NULL);
    for (uint32_t i = 0; i < w->count; i++) {
        sim_member *m = &w->members[i];
        *m = (sim_member){.of = w, .number = i, .id = id_of(i, 0), .disk = gw_job_records_open(&err)};
        GW_ASSERT_MEMORY(m->disk != NULL);
        m->claims.has = (gw_allot_need){4, 4096, 0};
    }
    return w;
}

void sim_flock_close(sim_flock *w) {
    for (uint32_t i = 0; i < w->count; i++) {
        sim_member *m = &w->members[i];
        if (m->alive) sim_member_close(m);
        gw_job_records_close(m->disk);
        free(m->children);
        free(m->known);
    }
    gw_sim_engine_destroy(w->engine);
    free(w->members);
    free(w->links);
    free(w->cut);
    free(w);
}

void sim_flock_restore(sim_flock *w, uint32_t number, const gw_job_records *records) {
    sim_member *m = &w->members[number];
    gw_err err;
    GW_ASSERT(!m->alive);
    gw_job_records_close(m->disk);
    m->disk = gw_job_records_open(&err);
    GW_ASSERT_MEMORY(m->disk != NULL);
    m->child_count = 0; /* their folders are gone, too */
    for (uint32_t i = 0; records != NULL && i < gw_job_records_count(records); i++)
        gw_job_records_join(m->disk, gw_job_records_at(records, i));
    if (records != NULL) return;
    for (uint32_t i = 0; i < w->count; i++) {
        sim_link *link = sim_flock_link(w, i, number);
        if (link->sees && w->members[i].alive) {
            gw_sides_lost(w->members[i].sides, &m->id, gw_exchange_claims_of(w->members[i].exchange, &m->id),
                          sim_flock_now(w));
            gw_exchange_gone(w->members[i].exchange, &m->id);
        }
        link->sees = false;
        link->lost_ns = 0;
        link->known_at = 0;
        sim_flock_link(w, number, i)->known_at = 0;
    }
    m->id = id_of(number, m->id.bytes[2] + 1u);
    m->known_count = 0;
    m->losses.count = 0;
    m->doubtful_until = 0;
}

bool sim_flock_agree(const sim_flock *w) {
    const sim_member *first = NULL;
    for (uint32_t i = 0; i < w->count; i++) {
        const sim_member *m = &w->members[i];
        if (!m->alive) continue;
        if (first == NULL) first = m;
        if (gw_job_records_digest(m->records) != gw_job_records_digest(first->records)) return false;
    }
    return true;
}

uint32_t sim_flock_running(const sim_flock *w, const gw_job_record_id *id) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const sim_child *child = sim_flock_child(w, i, id);
        count += child != NULL && !child->leaving;
    }
    return count;
}
