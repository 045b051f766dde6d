/* What goes wrong: crashes of processes and hosts, restarts, pauses, partitions, broken links, peers that
 * leave, full disks. Each kind comes at random intervals with a mean of its own. */
#include "tools/sim/cluster.h"

#include "core/check.h"

#include <inttypes.h>
#include <string.h>

static uint64_t next_in(sim_cluster *c, uint32_t mean_ms) {
    return sim_between(c, 1, 2 * (uint64_t)mean_ms) * SIM_MS;
}

static sim_peer *any_running(sim_cluster *c) {
    uint32_t first = (uint32_t)sim_between(c, 0, c->count - 1);
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[(first + i) % c->count];
        if (sim_runs(p)) return p;
    }
    return NULL;
}

/* ---- coming back ---- */

static bool stays_away(const sim_peer *p) { /* it has seen the end of the job */
    return p->finished && p->finish == GW_FINISH_DONE;
}

static void restart(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    sim_peer *p = &c->peers[event->a];
    if (p->brain != NULL || stays_away(p) || p->boot != event->b) return;
    c->result->restarts++;
    sim_start(c, p);
}

static void restart_later(sim_cluster *c, const sim_peer *p, uint64_t delay_ns) {
    gw_sim_event event = {.run = restart, .context = c, .a = p->number, .b = p->boot};
    gw_sim_schedule(c->engine, sim_now(c) + delay_ns, &event);
}

bool sim_gave_up_rightly(const sim_peer *p) {
    return p->finish == GW_FINISH_FAILED && (strstr(p->finish_text, "so that the others go on") != NULL ||
                                             strstr(p->finish_text, "(failing disk: ") != NULL ||
                                             strstr(p->finish_text, "or they all failed") != NULL);
}

void sim_ended(sim_cluster *c, const sim_peer *p) {
    if (p->finish == GW_FINISH_LEFT || p->finish == GW_FINISH_STOPPED || sim_gave_up_rightly(p))
        restart_later(c, p, next_in(c, c->options->restart_ms + 1));
}

/* ---- the kinds ---- */

bool sim_is_poison(const sim_cluster *c, uint64_t step, uint32_t shard) {
    uint32_t poison = c->options->poison_step;
    return poison != 0 && step == poison && shard == sim_shards(c->options, step) - 1;
}

void sim_crash_and_restart(sim_cluster *c, sim_peer *p) {
    sim_crash(c, p);
    restart_later(c, p, next_in(c, c->options->restart_ms + 1));
}

static void crash_one(sim_cluster *c, sim_peer *p) {
    p->host_down = sim_chance(c, 0.2);
    p->abrupt = sim_chance(c, 0.4);
    c->result->crashes++;
    sim_crash_and_restart(c, p);
}

static void crash(sim_cluster *c) {
    if (sim_chance(c, 0.03)) { /* the whole cluster loses power */
        for (uint32_t i = 0; i < c->count; i++)
            if (sim_runs(&c->peers[i])) crash_one(c, &c->peers[i]);
        return;
    }
    sim_peer *p = any_running(c);
    if (p != NULL) crash_one(c, p);
}

static void pause_one(sim_cluster *c) {
    sim_peer *p = any_running(c);
    if (p == NULL || p->paused_until_ns > sim_now(c)) return;
    uint64_t for_ns = sim_chance(c, 0.5) ? sim_between(c, 10, 500) : sim_between(c, 500, 6000);
    p->paused_until_ns = sim_now(c) + for_ns * SIM_MS;
    c->result->pauses++;
    sim_trace(c, "peer %u is paused for %llu ms", p->number, (unsigned long long)for_ns);
}

static void heal(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    (void)event;
    sim_trace(c, "the network heals");
    gw_sim_network_heal(&c->network);
}

static void break_if_cut(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    uint32_t a = (uint32_t)event->a, b = (uint32_t)event->b;
    if (!sim_reaches_both(c, a, b)) sim_break(c, a, b);
}

static void partition(sim_cluster *c) {
    bool one_way = sim_chance(c, 0.4);
    gw_sim_network_heal(&c->network);
    for (uint32_t i = 0; i < c->count; i++) c->network.group[i] = sim_chance(c, 0.5);
    c->network.cut[0][1] = true;
    c->network.cut[1][0] = !one_way;
    *(one_way ? &c->result->one_way : &c->result->partitions) += 1;
    sim_trace(c, "the network is cut%s", one_way ? " one way" : "");
    for (uint32_t i = 0; i < c->count; i++) sim_trace(c, "  peer %u on side %u", i, c->network.group[i]);
    for (uint32_t a = 0; a < c->count; a++) {
        for (uint32_t b = a + 1; b < c->count; b++) {
            gw_sim_event event = {.run = break_if_cut, .context = c, .a = a, .b = b};
            gw_sim_schedule(c->engine, sim_now(c) + sim_between(c, 500, 4000) * SIM_MS, &event);
        }
    }
    gw_sim_event event = {.run = heal, .context = c};
    gw_sim_schedule(c->engine, sim_now(c) + sim_between(c, 50, 8000) * SIM_MS, &event);
}

static void break_link(sim_cluster *c) {
    uint32_t a = (uint32_t)sim_between(c, 0, c->count - 1), b = (uint32_t)sim_between(c, 0, c->count - 1);
    if (a == b || !sim_link_of(c, a, b)->up) return;
    c->result->breaks++;
    sim_trace(c, "the link of %u and %u breaks", a, b);
    sim_break(c, a, b);
}

static void leave_one(sim_cluster *c) {
    sim_peer *p = any_running(c);
    if (p == NULL || p->paused_until_ns > sim_now(c)) return;
    c->result->leaves++;
    sim_trace(c, "peer %u is asked to leave", p->number);
    gw_event event = {.kind = GW_EV_LEAVE};
    sim_event(c, p, &event);
}

/* The user stops the whole job, and starts it again. */
static void stop_job(sim_cluster *c) {
    sim_peer *p = any_running(c);
    if (p == NULL || p->paused_until_ns > sim_now(c)) return;
    c->result->stops++;
    sim_trace(c, "the job is to stop, says peer %u", p->number);
    gw_event event = {.kind = GW_EV_STOP};
    sim_event(c, p, &event);
}

static void fill_disk(sim_cluster *c) {
    sim_peer *p = any_running(c);
    if (p == NULL) return;
    c->result->disk_faults++;
    p->disk_bad_until_ns = sim_now(c) + sim_between(c, 100, 3000) * SIM_MS;
}

static void hang_disk(sim_cluster *c) {
    sim_peer *p = any_running(c);
    if (p == NULL) return;
    c->result->hangs++;
    uint64_t for_ms = sim_chance(c, 0.5) ? sim_between(c, 100, 5000) : sim_between(c, 5000, 90000);
    sim_trace(c, "the disk of peer %u hangs for %" PRIu64 " ms", p->number, for_ms);
    p->disk_hangs_until_ns = sim_now(c) + for_ms * SIM_MS;
}

/* ---- when ---- */

typedef struct fault {
    void (*strike)(sim_cluster *c);
    size_t mean_at; /* of its mean interval in the options */
} fault;

static const fault faults[] = {
    {crash, offsetof(gw_sim_options, crash_ms)},         {pause_one, offsetof(gw_sim_options, pause_ms)},
    {partition, offsetof(gw_sim_options, partition_ms)}, {break_link, offsetof(gw_sim_options, break_ms)},
    {leave_one, offsetof(gw_sim_options, leave_ms)},     {fill_disk, offsetof(gw_sim_options, disk_ms)},
    {stop_job, offsetof(gw_sim_options, stop_ms)},       {hang_disk, offsetof(gw_sim_options, hang_ms)},
};

static uint32_t mean_of(const sim_cluster *c, const fault *f) {
    uint32_t mean_ms;
    memcpy(&mean_ms, (const char *)c->options + f->mean_at, sizeof mean_ms);
    return mean_ms;
}

static void strike(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    const fault *f = &faults[event->a];
    if (c->calm) return;
    f->strike(c);
    gw_sim_schedule(c->engine, sim_now(c) + next_in(c, mean_of(c, f)), event);
}

void sim_faults_plan(sim_cluster *c) {
    for (uint32_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (mean_of(c, &faults[i]) == 0) continue;
        gw_sim_event event = {.run = strike, .context = c, .a = i};
        gw_sim_schedule(c->engine, sim_now(c) + next_in(c, mean_of(c, &faults[i])), &event);
    }
}

void sim_faults_end(sim_cluster *c) {
    sim_trace(c, "CALM: no more faults");
    c->calm = true;
    gw_sim_network_heal(&c->network);
    c->network.weather.drop = c->network.weather.duplicate = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        p->disk_bad_until_ns = p->disk_hangs_until_ns = 0;
        p->slowness = 1;
        if (p->brain == NULL && !stays_away(p)) restart_later(c, p, sim_between(c, 1, 1000) * SIM_MS);
    }
}
