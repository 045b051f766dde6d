#include "tools/sim/run.h"

#include "tools/sim/world/cluster.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Once a peer is done the others have this long to end, too: some wait long for those that ended, and then
 * others for these. In a long haul one that was cut off may have all steps to make, alone, with nobody left
 * to tell it of the end. */
static uint64_t aftermath_ns(const gw_sim_options *o) {
    uint64_t alone_ns = o->haul != 0 ? (uint64_t)o->steps * o->shards * o->shard_us * 1000 : 0;
    return 100000 * SIM_MS + 24 * sim_resume_ns(o) + alone_ns;
}

static bool is_on_record(const sim_cluster *c, uint32_t peers, const sim_saved *checkpoint) {
    for (uint32_t i = 0; i < peers; i++) {
        const sim_disk *disk = &c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count; k++) {
            const sim_saved *one = &disk->saved[k];
            if (one->manifest && one->step == checkpoint->step && one->state == checkpoint->state)
                return true;
        }
    }
    return false;
}

/* Different ones, of all disks. */
static uint32_t count_checkpoints(const sim_cluster *c) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_disk *disk = &c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count; k++)
            count += disk->saved[k].manifest && !is_on_record(c, i, &disk->saved[k]);
    }
    return count;
}

/* In calm the job is done after this, at most, from now on: those that are left wait for what the others may
 * know, and for each checkpoint that lacks chunks, for somebody who has the rest of it: one that is damaged,
 * or (float sums) any of those on record, as that was given up with steps that were made again, and somebody
 * who was away kept a part, or as the disks with the rest are lost. */
static uint64_t bound_ns(const sim_cluster *c) {
    enum { SOME_WAITS = 6 };
    const gw_sim_options *o = c->options;
    bool lacks_chunks = o->damage_ms != 0 || o->unsynced_permille != 0 || o->fast;
    uint64_t waits = lacks_chunks ? SOME_WAITS : 0, each = o->fast ? count_checkpoints(c) + 1 : 0;
    if (each > waits) waits = each;
    if (o->core != 0) waits += 24;
    return o->bound_ms * SIM_MS + waits * sim_resume_ns(o);
}

/* ---- one run ---- */

static void open_cluster(sim_cluster *c, const gw_sim_options *o, gw_sim_result *result) {
    c->options = o;
    c->result = result;
    c->links = calloc((size_t)c->count * c->count, sizeof *c->links);
    GW_ASSERT_MEMORY(c->links != NULL);
    for (uint32_t i = 0; i < SIM_SEEDS; i++) c->seeds[i] = i;
    c->rng = gw_rng_seeded(o->seed);
    c->engine = gw_sim_engine_create(SIM_START_NS);
    gw_sim_network_open(&c->network, c->engine, o->peers, gw_rng_next(&c->rng));
    c->network.context = c;
    c->network.weather = (gw_sim_weather){.drop = o->drop_permille / 1000.0,
                                          .duplicate = o->duplicate_permille / 1000.0,
                                          .garble = o->garble_permille / 1000.0,
                                          .tail = o->tail_permille / 1000.0,
                                          .delay_least_ns = (uint64_t)o->delay_us * 1000 / 10,
                                          .delay_most_ns = (uint64_t)o->delay_us * 1000};
    c->states = calloc(o->steps + 1u, sizeof *c->states);
    GW_ASSERT_MEMORY(c->states != NULL);
    c->states[0] = gw_mix64(o->seed);
    c->shown = calloc(o->steps + 1u, sizeof *c->shown);
    c->effects = calloc(o->steps + 1u, sizeof *c->effects);
    c->damages = calloc(o->steps + 1u, sizeof *c->damages);
    c->gave_up = calloc(o->steps + 1u, sizeof *c->gave_up);
    GW_ASSERT_MEMORY(c->shown != NULL && c->effects != NULL && c->damages != NULL && c->gave_up != NULL);
    for (uint64_t step = 0; step < o->steps; step++)
        c->states[step + 1] = sim_state_after(o, c->states[step], step);
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        *p = (sim_peer){.number = i, .slowness = 1, .clock_rate = 1, .clock_base_ns = sim_now(c)};
        p->clock_since_ns = sim_now(c);
        sim_name(p);
        if (sim_chance(c, o->slow_permille / 1000.0)) p->slowness = 1 + 3 * gw_rng_unit(&c->rng);
        if (o->drift_permille != 0)
            p->clock_rate = 1 + o->drift_permille / 1000.0 * (2 * gw_rng_unit(&c->rng) - 1);
        result->faults[GW_SIM_SLOW_PEER] += p->slowness > 1;
        result->faults[GW_SIM_SKEWED_CLOCK] += p->clock_rate < 1 || p->clock_rate > 1;
    }
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

/* It stops the job, as it should. */
static bool stops_the_job(sim_cluster *c, const sim_peer *p) {
    bool poisoned = p->finished && sim_names_poison(c, p), bad = p->finished && sim_ends_of_bad(c, p);
    c->result->poisoned |= poisoned;
    c->result->bad |= bad;
    return poisoned || bad;
}

static bool failed_end(const sim_peer *p) {
    return p->finished && (p->finish == GW_FINISH_FAILED || p->finish == GW_FINISH_DENIED) && !p->excused;
}

/* Whether nothing more is to come; decides what that means. Each peer stops the job by itself. */
static bool is_over(sim_cluster *c) {
    bool done = false, running = false;
    if (c->result->unseen) return true;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *p = &c->peers[i];
        bool stops = stops_the_job(c, p);
        if (!stops && failed_end(p)) {
            sim_violation(c, "peer %u gave up: %s", i, p->finish_text);
            return true;
        }
        done |= stops || (p->finished && p->finish == GW_FINISH_DONE);
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

/* How it ends is looked at now and then, and behind the last event. */
static void run_until(sim_cluster *c, uint64_t until_ns) {
    bool more = true, over = false;
    while (more && !over && !c->result->failed && !c->result->unseen) {
        more = gw_sim_step(c->engine, until_ns);
        if (!more || (gw_sim_events_run(c->engine) & 15) == 0) over = is_over(c);
    }
}

/* It waits without a view, and so do others that it has met, too few to begin a job, or to be the majority of
 * those who began it or of the newest view: those who ended may come back. */
static bool waits_with_too_few(sim_cluster *c, const sim_peer *p) {
    uint32_t waiting = 1;
    bool among[SIM_PEERS] = {false};
    among[p->number] = true;
    for (uint32_t i = 0; i < c->count; i++) {
        gw_peer_status status;
        const sim_peer *other = &c->peers[i];
        if (!sim_runs(other) || (other != p && other->boot != p->met[i])) continue;
        gw_peer_status_get(other->brain, &status);
        if (status.view != NULL) return false;
        waiting += other != p;
        among[i] = true;
    }
    uint32_t founders = c->options->founders, least = c->options->majority ? founders / 2 + 1 : founders;
    return waiting > 1 &&
           (waiting < least || (c->options->majority && !sim_is_majority(c, &c->newest, among)));
}

/* All who run for so long, with nothing going wrong, meet if a seed does: whoever has company asks one of the
 * seeds every five seconds, any of them, and others of these may be gone. */
#define MEET_NS (30000 * SIM_MS)

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Since when this life was there for others, with nothing going wrong any more. */
static uint64_t there_since_ns(const sim_cluster *c, const sim_peer *p) {
    return later(later(p->started_ns, p->paused_until_ns), c->result->healed_ns);
}

/* This life, and the last one of one that ended the job, ran for so long with a seed that was there for both
 * that each heard of the other. (Without one they may look for each other in vain.) */
static bool had_met(const sim_cluster *c, const sim_peer *p, const sim_peer *done) {
    uint64_t since_ns = later(there_since_ns(c, p), there_since_ns(c, done));
    for (uint32_t i = 0; i < SIM_SEEDS; i++) {
        if (c->seeds[i] >= c->count) continue;
        const sim_peer *seed = &c->peers[c->seeds[i]];
        uint64_t until_ns =
            sim_runs(seed) || seed->ended_ns > done->ended_ns ? done->ended_ns : seed->ended_ns;
        if (until_ns >= later(since_ns, there_since_ns(c, seed)) + MEET_NS) return true;
    }
    return false;
}

/* By majority: those that it knows to have ended, as their hosts say so, leave one of what it has installed
 * and promised. The others may be cut off, for all that it knows, and it waits for them. */
static bool may_hope(sim_cluster *c, const sim_peer *p) {
    bool left[SIM_PEERS] = {false};
    for (uint32_t i = 0; i < c->count; i++) left[i] = c->peers[i].brain != NULL || c->peers[i].host_down;
    return c->options->majority && !sim_lacks_majority(c, p, left);
}

/* It has the final manifest and sums that everybody would make alike; or one that has ended the job told it
 * so, or ended before its eyes; or it met that one, which ended while it was cut off, and does not wait with
 * others to begin a job. Whoever was away or cut off for all of that cannot know. */
static bool knows_of_the_end(sim_cluster *c, const sim_peer *p) {
    bool recorded = false, met = false, told = p->told_end;
    for (uint32_t i = 0; i < p->disk.saved_count; i++)
        recorded |= p->disk.saved[i].manifest && p->disk.saved[i].step == sim_last_step(c->options);
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *done = &c->peers[i];
        if (done->finish != GW_FINISH_DONE) continue;
        met |= done->boot == p->greeted_by[i];
        told |= had_met(c, p, done);
    }
    return told || (met && !waits_with_too_few(c, p) && !may_hope(c, p)) || (recorded && !c->options->fast);
}

static const gw_view *view_of(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return status.view;
}

/* All members of its view run, in the lives that it names, and are in it: nobody is missing, and they could
 * end. */
static bool lives_in_whole_view(sim_cluster *c, const sim_peer *p) {
    const gw_view *view = view_of(p);
    if (view == NULL) return false;
    for (uint32_t i = 0; i < view->count; i++) {
        const sim_peer *member = sim_by_id(c, &view->members[i].id);
        if (member == NULL || !sim_runs(member) || member->boot != view->members[i].boot) return false;
        const gw_view *its = view_of(member);
        if (its == NULL || !gw_view_name_equal(&its->name, &view->name)) return false;
    }
    return true;
}

static void count_calm(const sim_cluster *c, uint64_t bound) {
    gw_sim_result *r = c->result;
    if (r->done_ns <= r->healed_ns) return;
    uint64_t took_ns = r->done_ns - r->healed_ns;
    r->calm_most_share = (double)took_ns / (double)bound;
    if (c->options->haul != 0) return;
    r->calmed = 1;
    r->calm_ns = r->calm_most_ns = took_ns;
}

/* What stopped the job at one peer stops it at all: who goes on without those that have ended comes to it, or
 * to the job's end. By majority those who have ended may be missing. */
static void check_all_stop(sim_cluster *c) {
    char text[400] = "";
    bool goes_on = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *p = &c->peers[i];
        if (!sim_runs(p)) continue;
        bool lives = c->options->majority ? lives_in_whole_view(c, p) : view_of(p) != NULL;
        goes_on |= lives;
        c->result->waiting += !lives;
    }
    if (c->result->failed || !goes_on) return;
    describe(c, text, sizeof text);
    sim_violation(c, "a peer has stopped the job, others do not end:%s", text);
}

/* In calm: the job ends within the bound, and soon after the first peer all end. */
static void run_to_the_end(sim_cluster *c) {
    char text[400] = "";
    const uint64_t bound = bound_ns(c), until_ns = sim_now(c) + bound;
    while (!c->result->failed && !is_over(c) && sim_now(c) < until_ns && c->result->done_ns == 0)
        run_until(c, sim_now(c) + 100 * SIM_MS);
    if (c->result->failed || c->result->unseen) return;
    if (c->result->done_ns == 0 && (c->result->poisoned || c->result->bad)) {
        run_until(c, sim_now(c) + aftermath_ns(c->options));
        check_all_stop(c);
        return;
    }
    if (c->result->done_ns == 0) {
        describe(c, text, sizeof text);
        sim_violation(c, "the job is not done %" PRIu64 " ms after everything was healed:%s", bound / SIM_MS,
                      text);
        return;
    }
    count_calm(c, bound);
    run_until(c, sim_now(c) + aftermath_ns(c->options));
    sim_check_effects(c);
    bool waits = false; /* whoever has nothing that tells it of the end waits for ever */
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *p = &c->peers[i];
        if (!sim_runs(p)) continue;
        bool may_wait = !knows_of_the_end(c, p) && !lives_in_whole_view(c, p);
        waits |= !may_wait;
        c->result->waiting += may_wait;
    }
    if (c->result->failed || !waits) return;
    describe(c, text, sizeof text);
    sim_violation(c, "a peer is done, others do not end:%s", text);
}

/* Nothing can fail where nobody runs, and who only waits for ever tries nothing: what comes behind the last
 * life's beginning and the last end is no time under test, unless it led to the failure. */
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
    sim_cluster *c = sim_cluster_new(options->peers);
    open_cluster(c, options, result);
    c->network.deliver = deliver;
    c->network.garble = garble;
    for (uint32_t i = 0; i < c->count; i++) {
        gw_sim_event event = {.run = start_one, .context = c, .a = i};
        bool late = options->founders < options->peers && sim_chance(c, 0.4);
        uint64_t most_ms = late ? options->fault_ms : 500;
        gw_sim_schedule(c->engine, sim_now(c) + sim_between(c, 0, most_ms) * SIM_MS, &event);
    }
    sim_faults_plan(c);
    run_until(c, sim_heal_ns(c));
    if (!result->failed) sim_faults_end(c);
    result->healed_ns = sim_now(c);
    run_to_the_end(c);
    count_time(c);
    result->events = gw_sim_events_run(c->engine);
    result->faults[GW_SIM_DROP] = c->network.dropped;
    result->faults[GW_SIM_DUPLICATE] = c->network.duplicated;
    result->faults[GW_SIM_GARBLE] = c->network.garbled;
    result->faults[GW_SIM_LATE] = c->network.late;
    sim_cluster_free(c);
}
