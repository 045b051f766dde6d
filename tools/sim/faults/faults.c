/* The times at which faults strike, the faults of processes and clocks, and restarts. */
#include "tools/sim/faults/inside.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint64_t sim_next_in(sim_cluster *c, uint32_t mean_ms) {
    return sim_between(c, 1, 2 * (uint64_t)mean_ms) * SIM_MS;
}

uint64_t sim_heal_ns(const sim_cluster *c) {
    return SIM_START_NS + c->options->fault_ms * SIM_MS;
}

/* In a long haul, a condition ends soon after all faults are healed: in calm, none lasts longer than in
 * other runs. */
uint64_t sim_lasting_ns(sim_cluster *c, uint64_t usual_ms) {
    uint32_t haul = c->options->haul;
    if (haul == 0) return usual_ms * SIM_MS;
    uint64_t most = sim_between(c, 1, haul), for_ns = usual_ms * SIM_MS * sim_between(c, 1, most);
    uint64_t left_ns = sim_heal_ns(c) - sim_now(c) + usual_ms * SIM_MS;
    return for_ns < left_ns ? for_ns : left_ns;
}

sim_peer *sim_any_running(sim_cluster *c) {
    uint32_t first = (uint32_t)sim_between(c, 0, c->count - 1);
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[(first + i) % c->count];
        if (sim_runs(p)) return p;
    }
    return NULL;
}

/* Restarts. */

static bool stays_away(const sim_peer *p) { /* the peer is gone, or has seen the end of the job */
    return p->gone || (p->finished && p->finish == GW_FINISH_DONE);
}

static void restart_later(sim_cluster *c, const sim_peer *p, uint64_t delay_ns);

/* A peer whose record is damaged refuses to start; its operator moves the directory away, as the error
 * message advises. */
static bool finds_record_spoilt(sim_cluster *c, sim_peer *p) {
    if (!sim_chance(c, c->options->spoil_permille / 1000.0)) return false;
    if (!sim_can_lose_disk(c, p) || !sim_record_spoils(c, p)) return false;
    sim_trace(c, "peer %u does not start: its record is damaged", p->number);
    c->result->faults[GW_SIM_SPOILT_RECORD]++;
    sim_lose_disk(c, p);
    restart_later(c, p, sim_next_in(c, c->options->restart_ms + 1));
    return true;
}

static bool loses_disk(sim_cluster *c, const sim_peer *p) {
    return sim_chance(c, c->options->wipe_permille / 1000.0) && sim_can_lose_disk(c, p);
}

static void restart(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    sim_peer *p = &c->peers[event->a];
    if (p->brain != NULL || stays_away(p) || p->boot != event->b) return;
    c->result->faults[GW_SIM_RESTART]++;
    if (!c->calm && loses_disk(c, p)) {
        c->result->faults[GW_SIM_WIPE]++;
        sim_lose_disk(c, p);
    }
    if (!c->calm && c->options->spoil_permille != 0 && finds_record_spoilt(c, p)) return;
    sim_start(c, p);
}

static void restart_later(sim_cluster *c, const sim_peer *p, uint64_t delay_ns) {
    gw_sim_event event = {.run = restart, .context = c, .a = p->number, .b = p->boot};
    gw_sim_schedule(c->engine, sim_now(c) + delay_ns, &event);
}

void sim_crash_and_restart(sim_cluster *c, sim_peer *p) {
    sim_crash(c, p);
    if (p->host_down) sim_disk_unsynced(c, p);
    restart_later(c, p, sim_next_in(c, c->options->restart_ms + 1));
}

static void crash_one(sim_cluster *c, sim_peer *p) {
    p->host_down = sim_chance(c, 0.2);
    p->abrupt = sim_chance(c, 0.4);
    c->result->faults[GW_SIM_CRASH]++;
    sim_crash_and_restart(c, p);
}

static void crash(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p != NULL) crash_one(c, p);
}

static void power_loss(sim_cluster *c) {
    sim_trace(c, "the power fails");
    c->result->faults[GW_SIM_POWER_LOSS]++;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        if (!sim_runs(p)) continue;
        p->host_down = p->abrupt = true;
        sim_crash_and_restart(c, p);
    }
}

static void jump(sim_cluster *c) {
    sim_peer *p = &c->peers[sim_between(c, 0, c->count - 1)];
    uint64_t ahead_ms = sim_chance(c, 0.5) ? sim_between(c, 10, 500) : sim_between(c, 500, 10000);
    c->result->faults[GW_SIM_CLOCK_JUMP]++;
    sim_jump(c, p, ahead_ms * SIM_MS);
}

static void pause_one(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p == NULL || p->paused_until_ns > sim_now(c)) return;
    uint64_t for_ms = sim_chance(c, 0.5) ? sim_between(c, 10, 500) : sim_between(c, 500, 6000);
    uint64_t for_ns = sim_lasting_ns(c, for_ms);
    p->paused_until_ns = sim_now(c) + for_ns;
    c->result->faults[GW_SIM_PAUSE]++;
    sim_trace(c, "peer %u is paused for %" PRIu64 " ms", p->number, for_ns / SIM_MS);
}

static void leave_one(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p == NULL || p->paused_until_ns > sim_now(c)) return;
    c->result->faults[GW_SIM_LEAVE]++;
    SIM_NOTIFY(c, mishap, p, SIM_ASKED_TO_LEAVE);
    sim_trace(c, "peer %u is asked to leave", p->number);
    gw_event event = {.kind = GW_EV_LEAVE};
    sim_event(c, p, &event);
}

/* The user stops the whole job, and starts it again. */
static void stop_job(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p == NULL || p->paused_until_ns > sim_now(c)) return;
    c->result->faults[GW_SIM_STOP]++;
    SIM_NOTIFY(c, mishap, p, SIM_ASKED_TO_STOP);
    sim_trace(c, "the job is to stop, says peer %u", p->number);
    gw_event event = {.kind = GW_EV_STOP};
    sim_event(c, p, &event);
}

static void lose_device(sim_cluster *c) {
    sim_peer *p = sim_any_running(c);
    if (p == NULL || p->paused_until_ns > sim_now(c)) return;
    c->result->faults[GW_SIM_LOST_DEVICE]++;
    SIM_NOTIFY(c, mishap, p, SIM_LOST_DEVICE);
    sim_trace(c, "what peer %u computes with breaks down", p->number);
    gw_event event = {.kind = GW_EV_DEVICE_LOST, .text = "it has fallen off the bus"};
    sim_event(c, p, &event);
}

/* When faults strike. */

typedef struct fault {
    void (*strike)(sim_cluster *c);
    size_t mean_at; /* offset of its mean interval in the options */
} fault;

static const fault faults[] = {
    {crash, offsetof(gw_sim_options, crash_ms)},
    {power_loss, offsetof(gw_sim_options, power_ms)},
    {pause_one, offsetof(gw_sim_options, pause_ms)},
    {jump, offsetof(gw_sim_options, jump_ms)},
    {sim_partition, offsetof(gw_sim_options, partition_ms)},
    {sim_blind, offsetof(gw_sim_options, blind_ms)},
    {sim_clog, offsetof(gw_sim_options, clog_ms)},
    {sim_break_link, offsetof(gw_sim_options, break_ms)},
    {sim_lose_data, offsetof(gw_sim_options, data_ms)},
    {sim_lose_path, offsetof(gw_sim_options, path_ms)},
    {leave_one, offsetof(gw_sim_options, leave_ms)},
    {stop_job, offsetof(gw_sim_options, stop_ms)},
    {lose_device, offsetof(gw_sim_options, device_ms)},
    {sim_fill_disk, offsetof(gw_sim_options, full_ms)},
    {sim_hang_disk, offsetof(gw_sim_options, hang_ms)},
    {sim_crawl_disk, offsetof(gw_sim_options, crawl_ms)},
    {sim_slow_disk, offsetof(gw_sim_options, slow_disk_ms)},
    {sim_damage_disk, offsetof(gw_sim_options, damage_ms)},
    {sim_flip, offsetof(gw_sim_options, flip_ms)},
    {sim_begin_to_change, offsetof(gw_sim_options, change_ms)},
    {sim_refuse_records, offsetof(gw_sim_options, record_ms)},
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
    gw_sim_schedule(c->engine, sim_now(c) + sim_next_in(c, mean_of(c, f)), event);
}

void sim_faults_plan(sim_cluster *c) {
    for (uint32_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (mean_of(c, &faults[i]) == 0) continue;
        gw_sim_event event = {.run = strike, .context = c, .a = i};
        gw_sim_schedule(c->engine, sim_now(c) + sim_next_in(c, mean_of(c, &faults[i])), &event);
    }
}

/* Where all seeds are gone for good, peers that have met no others cannot find any: the operator then
 * names other seeds, and restarts the peers that are in no view. */
static void name_living_seeds(sim_cluster *c) {
    bool gone = true;
    for (int i = 0; i < SIM_SEEDS; i++) gone &= c->seeds[i] >= c->count || c->peers[c->seeds[i]].gone;
    if (!gone) return;
    for (uint32_t i = 0, named = 0; i < c->count && named < SIM_SEEDS; i++)
        if (!c->peers[i].gone) c->seeds[named++] = i;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        if (sim_runs(p) && p->m.fence.epoch == 0 && !p->by_name) sim_crash(c, p);
    }
}

/* Ends a condition now. Its end stays recorded, because brains react to it only after a while. */
static void end_now(const sim_cluster *c, uint64_t *until_ns) {
    if (*until_ns > sim_now(c)) *until_ns = sim_now(c);
}

void sim_faults_end(sim_cluster *c) {
    sim_trace(c, "CALM: no more faults");
    c->calm = true;
    gw_sim_network_heal(&c->network);
    gw_sim_network_open_ways(&c->network);
    gw_sim_weather *weather = &c->network.weather;
    weather->drop = weather->duplicate = weather->garble = weather->tail = 0;
    sim_data_mend(c);
    sim_leave_a_core(c);
    name_living_seeds(c);
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        end_now(c, &p->disk_full_until_ns);
        end_now(c, &p->disk_slow_until_ns);
        end_now(c, &p->record_fails_until_ns);
        sim_disk_end_hang(c, p);
        p->slowness = 1;
        if (sim_runs(p) && p->by_name) sim_look_up(c, p, SIM_LOOK_UP_CALM_MS);
        if (p->brain == NULL && !stays_away(p)) restart_later(c, p, sim_between(c, 1, 1000) * SIM_MS);
    }
}

/* Starts a process again, sooner or later, that has ended by itself for a reason that does not end the
 * job. */
static void on_process_exited(void *context, sim_peer *p) {
    sim_cluster *c = context;
    if (sim_reason_of_end(p) != GW_SIM_NO_EXCUSE)
        restart_later(c, p, sim_next_in(c, c->options->restart_ms + 1));
}

static void forget_payloads(const sim_cluster *c, const sim_peer *p) {
    sim_faults_of(c)->payloads[p->number] = (struct sim_payloads){.lost = 0};
}

static void on_life(void *context, sim_peer *p) {
    forget_payloads(context, p);
}

static void on_end(void *context, sim_peer *p) {
    if (p->changes == SIM_UNTIL_IT_ENDS) p->changes = 0;
    forget_payloads(context, p);
}

static const sim_observer observer = {
    .life_begins = on_life, .process_ends = on_end, .process_exited = on_process_exited};

static const sim_hazards hazards = {.gives_up = sim_hazard_gives_up,
                                    .loses_payload = sim_hazard_loses_payload,
                                    .loses_worker = sim_hazard_loses_worker,
                                    .drops_worker = sim_hazard_drops_worker,
                                    .computes = sim_hazard_computes,
                                    .dies_of = sim_hazard_dies_of,
                                    .fails_probe = sim_hazard_fails_probe,
                                    .refuses = sim_hazard_refuses,
                                    .loses_answer = sim_hazard_loses_answer,
                                    .touches_part = sim_hazard_touches_part,
                                    .damages_sum = sim_hazard_damages_sum,
                                    .would_change = sim_hazard_would_change,
                                    .changes = sim_hazard_changes};

sim_faults *sim_faults_open(sim_cluster *c) {
    const gw_sim_options *o = c->options;
    sim_faults *f = calloc(1, sizeof *f);
    GW_ASSERT_MEMORY(f != NULL);
    f->damages = calloc(o->steps + 1u, sizeof *f->damages);
    f->gave_up = calloc(o->steps + 1u, sizeof *f->gave_up);
    f->crashed = calloc(o->steps + 1u, sizeof *f->crashed);
    f->payloads = calloc(c->count, sizeof *f->payloads);
    GW_ASSERT_MEMORY(f->damages != NULL && f->gave_up != NULL && f->crashed != NULL && f->payloads != NULL);
    c->hazards = &hazards;
    c->hazards_context = f;
    sim_observe(c, &observer, c);
    c->network.weather = (gw_sim_weather){.drop = o->drop_permille / 1000.0,
                                          .duplicate = o->duplicate_permille / 1000.0,
                                          .garble = o->garble_permille / 1000.0,
                                          .tail = o->tail_permille / 1000.0,
                                          .delay_least_ns = (uint64_t)o->delay_us * 1000 / 10,
                                          .delay_most_ns = (uint64_t)o->delay_us * 1000};
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        if (sim_chance(c, o->slow_permille / 1000.0)) p->slowness = 1 + 3 * gw_rng_unit(&c->rng);
        if (o->drift_permille != 0)
            p->clock_rate = 1 + o->drift_permille / 1000.0 * (2 * gw_rng_unit(&c->rng) - 1);
        c->result->faults[GW_SIM_SLOW_PEER] += p->slowness > 1;
        c->result->faults[GW_SIM_SKEWED_CLOCK] += p->clock_rate < 1 || p->clock_rate > 1;
    }
    return f;
}

void sim_faults_close(sim_faults *f) {
    free(f->damages);
    free(f->gave_up);
    free(f->crashed);
    free(f->payloads);
    free(f);
}
