#include "tools/sim/run.h"

#include "tools/sim/cluster.h"

#include "core/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Once a peer is done the others have this long to end, too: some wait long for those that ended,
 * and then others for these. */
#define AFTERMATH_NS(options) (100000 * SIM_MS + 24 * sim_resume_ns(options))

/* ---- options ---- */

gw_sim_options gw_sim_unset(uint64_t seed) {
    return (gw_sim_options){.seed = seed,
                            .crash_ms = UINT32_MAX,
                            .restart_ms = UINT32_MAX,
                            .pause_ms = UINT32_MAX,
                            .partition_ms = UINT32_MAX,
                            .break_ms = UINT32_MAX,
                            .leave_ms = UINT32_MAX,
                            .disk_ms = UINT32_MAX,
                            .stop_ms = UINT32_MAX,
                            .hang_ms = UINT32_MAX,
                            .corrupt_permille = UINT32_MAX,
                            .lose_permille = UINT32_MAX,
                            .drop_permille = UINT32_MAX,
                            .duplicate_permille = UINT32_MAX,
                            .delay_us = UINT32_MAX,
                            .shard_us = UINT32_MAX,
                            .end_step = UINT32_MAX,
                            .checkpoint_steps = UINT32_MAX,
                            .fault_ms = UINT32_MAX,
                            .bound_ms = 120000};
}

static void draw(gw_rng *rng, uint32_t *field, uint32_t unset, uint32_t least, uint32_t most) {
    uint32_t value = least + (uint32_t)gw_rng_below(rng, (uint64_t)most - least + 1);
    if (*field == unset) *field = value;
}

/* Off, or a mean interval. */
static void draw_rate(gw_rng *rng, uint32_t *field, double probability, uint32_t least, uint32_t most) {
    bool on = gw_rng_unit(rng) < probability;
    uint32_t value = least + (uint32_t)gw_rng_below(rng, (uint64_t)most - least + 1);
    if (*field == UINT32_MAX) *field = on ? value : 0;
}

void gw_sim_draw(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x600dULL);
    draw(&rng, &o->peers, 0, 2, 7);
    draw(&rng, &o->shards, 0, 4, 40);
    draw(&rng, &o->shard_us, UINT32_MAX, 500, 20000);
    draw(&rng, &o->checkpoint_steps, UINT32_MAX, 0, 12);
    draw(&rng, &o->fault_ms, UINT32_MAX, 2000, 20000);
    uint64_t step_us = (uint64_t)o->shards * o->shard_us / (o->peers * SIM_WORKERS) + 6000;
    uint64_t steps = (uint64_t)o->fault_ms * 1000 / step_us / 2;
    if (o->steps == 0) o->steps = steps < 10 ? 10 : steps > 300 ? 300 : (uint32_t)steps;
    draw_rate(&rng, &o->crash_ms, 0.7, 500, 8000);
    draw(&rng, &o->restart_ms, UINT32_MAX, 50, 4000);
    draw_rate(&rng, &o->pause_ms, 0.4, 500, 8000);
    draw_rate(&rng, &o->partition_ms, 0.5, 1000, 10000);
    draw_rate(&rng, &o->break_ms, 0.5, 100, 5000);
    draw_rate(&rng, &o->leave_ms, 0.15, 3000, 10000);
    draw_rate(&rng, &o->disk_ms, 0.2, 1000, 8000);
    draw_rate(&rng, &o->drop_permille, 0.5, 1, 100);
    draw_rate(&rng, &o->duplicate_permille, 0.3, 1, 100);
    draw(&rng, &o->delay_us, UINT32_MAX, 100, 5000);
    draw_rate(&rng, &o->stop_ms, 0.15, 3000, 15000);
    draw_rate(&rng, &o->corrupt_permille, 0.2, 1, 10);
    draw(&rng, &o->founders, 0, 1, o->peers);
    if (o->majority) o->founders = o->peers;
    draw_rate(&rng, &o->end_step, 0.2, o->steps / 2 + 1, o->steps);
    draw_rate(&rng, &o->hang_ms, 0.15, 2000, 15000);
    draw_rate(&rng, &o->lose_permille, 0.25, 1, 5);
}

const char *gw_sim_command(const gw_sim_options *o, char *text, size_t size) {
    snprintf(text, size,
             "godwit sim --seed %" PRIu64
             " --peers %u --founders %u --steps %u --shards %u --quorum %s --reduce %s "
             "--shard-us %u --checkpoint-every %u --poison-step %u --end-step %u --crash-ms %u "
             "--restart-ms %u --pause-ms %u --partition-ms %u --break-ms %u --leave-ms %u --disk-ms %u "
             "--stop-ms %u --hang-ms %u --corrupt %u --lose %u "
             "--drop %u --duplicate %u --delay-us %u --fault-ms %u --bound-ms %u",
             o->seed, o->peers, o->founders, o->steps, o->shards, o->majority ? "majority" : "any",
             o->fast ? "fast" : "exact", o->shard_us, o->checkpoint_steps, o->poison_step, o->end_step,
             o->crash_ms, o->restart_ms, o->pause_ms, o->partition_ms, o->break_ms, o->leave_ms, o->disk_ms,
             o->stop_ms, o->hang_ms, o->corrupt_permille, o->lose_permille, o->drop_permille,
             o->duplicate_permille, o->delay_us, o->fault_ms, o->bound_ms);
    return text;
}

/* ---- one run ---- */

static void open_cluster(sim_cluster *c, const gw_sim_options *o, gw_sim_result *result) {
    c->options = o;
    c->result = result;
    c->count = o->peers;
    c->rng = gw_rng_seeded(o->seed);
    c->engine = gw_sim_engine_create(1000 * SIM_MS);
    gw_sim_network_open(&c->network, c->engine, o->peers, gw_rng_next(&c->rng));
    c->network.context = c;
    c->network.weather = (gw_sim_weather){.drop = o->drop_permille / 1000.0,
                                          .duplicate = o->duplicate_permille / 1000.0,
                                          .delay_least_ns = (uint64_t)o->delay_us * 1000 / 10,
                                          .delay_most_ns = (uint64_t)o->delay_us * 1000};
    c->states = calloc(o->steps + 1u, sizeof *c->states);
    GW_CHECK(c->states != NULL);
    c->states[0] = gw_mix64(o->seed);
    c->shown = calloc(o->steps + 1u, sizeof *c->shown);
    c->effects = calloc(o->steps + 1u, sizeof *c->effects);
    GW_CHECK(c->shown != NULL && c->effects != NULL);
    for (uint64_t step = 0; step < o->steps; step++) {
        uint64_t sum = 0;
        for (uint32_t s = 0; s < sim_shards(o, step); s++) sum += sim_contribution(c->states[step], step, s);
        c->states[step + 1] = sim_next_state(c->states[step], sum);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        *p = (sim_peer){.number = i, .slowness = 1};
        gw_blake2b(&i, sizeof i, p->id.bytes, sizeof p->id.bytes);
        if (sim_chance(c, 0.2)) p->slowness = 1 + 3 * gw_rng_unit(&c->rng);
    }
}

static void close_cluster(sim_cluster *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        gw_peer_destroy(p->brain);
        sim_work_forget(p);
        gw_actions_free(&p->actions);
        sim_disk_free(&p->disk);
    }
    sim_reductions_free(c);
    gw_sim_network_close(&c->network);
    gw_sim_engine_destroy(c->engine);
    free(c->states);
    free(c->committed);
    free(c->made);
    free(c->held);
    free(c->shown);
    free(c->effects);
    free(c);
}

static void on_datagram(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {
        .kind = GW_EV_DATAGRAM, .addr = gw_sim_addr(op->from), .bytes = op->bytes, .length = op->length};
    sim_event(c, p, &event);
}

static void deliver(void *context, uint32_t from, uint32_t to, const uint8_t *bytes, size_t length) {
    sim_cluster *c = context;
    sim_op op = sim_op_to(&c->peers[to], on_datagram);
    op.from = from;
    op.bytes = bytes;
    op.length = (uint32_t)length;
    sim_later(c, 0, &op);
}

static void start_one(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    if (c->peers[event->a].brain == NULL && c->peers[event->a].boot == 0) sim_start(c, &c->peers[event->a]);
}

/* A shard whose holders died three times ends the job by design; with crashes as dense as some seeds have
 * them, chance does that. */
static bool names_poison(const sim_cluster *c, const sim_peer *p) {
    return p->finish == GW_FINISH_FAILED && c->result->crashes + c->result->poison_deaths >= 3 &&
           strstr(p->finish_text, "is poison") != NULL;
}

static bool failed_end(const sim_cluster *c, const sim_peer *p) {
    return p->finished && (p->finish == GW_FINISH_FAILED || p->finish == GW_FINISH_DENIED) &&
           !names_poison(c, p) && !sim_gave_up_rightly(p);
}

/* Whether nothing more is to come; decides what that means. */
static bool is_over(sim_cluster *c) {
    bool done = false, running = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *p = &c->peers[i];
        if (p->finished && names_poison(c, p)) {
            c->result->poisoned = 1;
            return true;
        }
        if (failed_end(c, p)) {
            sim_violation(c, "peer %u gave up: %s", i, p->finish_text);
            return true;
        }
        done |= p->finished && p->finish == GW_FINISH_DONE;
        running |= sim_runs(p);
    }
    return done && !running && c->calm;
}

static void describe(const sim_cluster *c, char *text, size_t size) {
    size_t used = 0;
    for (uint32_t i = 0; i < c->count && used < size; i++) {
        const sim_peer *p = &c->peers[i];
        gw_peer_status status = {.phase = p->finished ? "ended" : "down"};
        if (sim_runs(p)) gw_peer_status_get(p->brain, &status);
        int more = snprintf(text + used, size - used, " [%u: %s, step %" PRIu64 ", view %" PRIu64 " of %u]",
                            i, status.phase, status.step, status.view == NULL ? 0 : status.view->epoch,
                            status.view == NULL ? 0 : status.view->count);
        used += more > 0 ? (size_t)more : 0;
    }
}

static void run_until(sim_cluster *c, uint64_t until_ns) {
    while (!c->result->failed && gw_sim_step(c->engine, until_ns))
        if ((gw_sim_events_run(c->engine) & 15) == 0 && is_over(c)) return;
}

/* It met one that has ended the job since, or has the final manifest and sums that everybody would make
 * alike. */
static bool knows_of_the_end(const sim_cluster *c, const sim_peer *p) {
    bool recorded = false, met = false;
    for (uint32_t i = 0; i < p->disk.saved_count; i++)
        recorded |= p->disk.saved[i].manifest && p->disk.saved[i].step == sim_last_step(c->options);
    for (uint32_t i = 0; i < c->count; i++)
        met |= c->peers[i].finish == GW_FINISH_DONE && c->peers[i].boot == p->met[i];
    return met || (recorded && !c->options->fast);
}

/* In calm: the job ends within the bound, and soon after the first peer all end. */
static void run_to_the_end(sim_cluster *c) {
    char text[400] = "";
    uint64_t bound_ns = sim_now(c) + (uint64_t)c->options->bound_ms * SIM_MS;
    while (!c->result->failed && !is_over(c) && sim_now(c) < bound_ns && c->result->done_ns == 0)
        run_until(c, sim_now(c) + 100 * SIM_MS);
    if (c->result->failed || c->result->poisoned) return;
    if (c->result->done_ns == 0) {
        describe(c, text, sizeof text);
        sim_violation(c, "the job is not done %u ms after everything was healed:%s", c->options->bound_ms,
                      text);
        return;
    }
    run_until(c, sim_now(c) + AFTERMATH_NS(c->options));
    sim_check_effects(c);
    bool waits = false; /* whoever has nothing that tells it of the end waits for ever */
    for (uint32_t i = 0; i < c->count; i++)
        waits |= sim_runs(&c->peers[i]) && knows_of_the_end(c, &c->peers[i]);
    if (c->result->failed || !waits) return;
    describe(c, text, sizeof text);
    sim_violation(c, "a peer is done, others do not end:%s", text);
}

void gw_sim_run(const gw_sim_options *options, gw_sim_result *result) {
    *result = (gw_sim_result){0};
    sim_cluster *c = calloc(1, sizeof *c);
    GW_CHECK(c != NULL && options->peers >= 1 && options->peers <= SIM_PEERS && options->steps > 0 &&
             options->shards > 0);
    open_cluster(c, options, result);
    c->network.deliver = deliver;
    for (uint32_t i = 0; i < c->count; i++) {
        gw_sim_event event = {.run = start_one, .context = c, .a = i};
        bool late = options->founders < options->peers && sim_chance(c, 0.4);
        uint64_t most_ms = late ? options->fault_ms : 500;
        gw_sim_schedule(c->engine, sim_now(c) + sim_between(c, 0, most_ms) * SIM_MS, &event);
    }
    sim_faults_plan(c);
    run_until(c, sim_now(c) + (uint64_t)options->fault_ms * SIM_MS);
    sim_faults_end(c);
    result->healed_ns = sim_now(c);
    run_to_the_end(c);
    result->virtual_ns = sim_now(c);
    result->events = gw_sim_events_run(c->engine);
    close_cluster(c);
}

void gw_sim_result_add(gw_sim_result *into, const gw_sim_result *one) {
    into->virtual_ns += one->virtual_ns;
    into->events += one->events;
    into->views += one->views;
    into->repairs += one->repairs;
    into->steals += one->steals;
    into->steps_applied += one->steps_applied;
    into->steps_shown += one->steps_shown;
    into->forgotten += one->forgotten;
    into->crashes += one->crashes;
    into->restarts += one->restarts;
    into->pauses += one->pauses;
    into->partitions += one->partitions;
    into->one_way += one->one_way;
    into->breaks += one->breaks;
    into->leaves += one->leaves;
    into->disk_faults += one->disk_faults;
    into->stops += one->stops;
    into->hangs += one->hangs;
    into->lost_claims += one->lost_claims;
    into->poisoned += one->poisoned;
    into->corruptions += one->corruptions;
    into->lost_answers += one->lost_answers;
    into->failed_reductions += one->failed_reductions;
    into->split_reductions += one->split_reductions;
    into->resumes += one->resumes;
}
