#include "tools/sim/run.h"

#include "tools/sim/faults/faults.h"
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"

static void on_datagram(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {.kind = GW_EV_DATAGRAM,
                      .datagram.from = gw_sim_addr(op->from),
                      .datagram.bytes = op->bytes,
                      .datagram.length = op->length};
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

static void garble(void *context, const uint8_t *bytes, size_t length) {
    sim_cluster *c = context;
    if (c->garbler == NULL) c->garbler = gw_sim_garbler_open();
    if (gw_sim_garbler_passes(c->garbler, &c->rng, bytes, length))
        sim_violation(c, "a datagram of %zu bytes that was damaged on its way was taken for sound", length);
}

static void start_one(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    if (c->peers[event->a].brain == NULL && c->peers[event->a].boot == 0) sim_start(c, &c->peers[event->a]);
}

/* Runs events until the time, or until the run is over, which is checked now and then and after the last
 * event. */
static void run_until(sim_judges *j, uint64_t until_ns) {
    sim_cluster *c = j->c;
    bool more = true, over = false;
    while (more && !over && !c->result->failed && !c->result->unseen) {
        more = gw_sim_step(c->engine, until_ns);
        if (!more || (gw_sim_events_run(c->engine) & 15) == 0) over = sim_is_over(j);
    }
}

/* Runs to the end without further faults: the job ends within the bound, and all peers end soon after the
 * first one. */
static void run_to_the_end(sim_judges *j) {
    sim_cluster *c = j->c;
    gw_sim_result *r = c->result;
    const uint64_t bound = sim_bound_ns(c), until_ns = sim_now(c) + bound;
    while (!r->failed && !sim_is_over(j) && sim_now(c) < until_ns && r->done_ns == 0)
        run_until(j, sim_now(c) + 100 * SIM_MS);
    if (r->failed || r->unseen) return;
    bool stopped = r->done_ns == 0 && (r->poisoned || r->bad);
    if (!stopped) sim_check_done(j, bound);
    if (r->failed) return;
    run_until(j, sim_now(c) + sim_aftermath_ns(c->options));
    (stopped ? sim_check_all_stop : sim_check_all_end)(j);
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Counts the tested time: until the last life has begun and the last one has ended, or up to a failure.
 * After that no peer runs, or peers only wait for ever, and nothing can fail. */
static void count_time(const sim_cluster *c) {
    gw_sim_result *r = c->result;
    uint64_t until_ns = r->failed ? sim_now(c) : SIM_START_NS;
    for (uint32_t i = 0; i < c->count; i++)
        until_ns = later(until_ns, later(c->peers[i].started_ns, c->peers[i].ended_ns));
    r->ended_ns = sim_now(c);
    r->virtual_ns = until_ns - SIM_START_NS;
    r->fire_ns = (until_ns < r->healed_ns ? until_ns : r->healed_ns) - SIM_START_NS;
    if (c->options->haul != 0) {
        r->hauls = 1;
        r->haul_ns = r->virtual_ns;
        r->haul_fire_ns = r->fire_ns;
    }
}

void gw_sim_run(const gw_sim_options *options, gw_sim_result *result) {
    *result = (gw_sim_result){0};
    GW_ASSERT(options->peers >= 1 && options->peers <= SIM_PEERS && options->steps > 0 &&
              options->shards > 0);
    sim_cluster *c = sim_cluster_open(options, result);
    sim_faults *faults = sim_faults_open(c);
    sim_judges *judges = sim_judges_open(c);
    c->network.context = c;
    c->network.deliver = deliver;
    c->network.garble = garble;
    for (uint32_t i = 0; i < c->count; i++) {
        gw_sim_event event = {.run = start_one, .context = c, .a = i};
        bool late = options->founders < options->peers && sim_chance(c, 0.4);
        uint64_t most_ms = late ? options->fault_ms : 500;
        gw_sim_schedule(c->engine, sim_now(c) + sim_between(c, 0, most_ms) * SIM_MS, &event);
    }
    sim_faults_plan(c);
    run_until(judges, sim_heal_ns(c));
    if (!result->failed) sim_faults_end(c);
    result->healed_ns = sim_now(c);
    run_to_the_end(judges);
    count_time(c);
    result->events = gw_sim_events_run(c->engine);
    result->faults[GW_SIM_DROP] = c->network.dropped;
    result->faults[GW_SIM_DUPLICATE] = c->network.duplicated;
    result->faults[GW_SIM_GARBLE] = c->network.garbled;
    result->faults[GW_SIM_LATE] = c->network.late;
    sim_cluster_close(c);
    sim_judges_close(judges);
    sim_faults_close(faults);
}
