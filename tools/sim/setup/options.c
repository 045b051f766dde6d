#include "tools/sim/setup/options.h"

#include "core/base/assert.h"
#include "core/record/deaths.h"
#include "core/rng.h"
#include "core/state/placement.h"
#include "tools/godwit/text/number.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 100000000, MANY_STEPS = 1000000, USUAL_BOUND_MS = 120000 };

#define AT(field) offsetof(gw_sim_options, field)

const gw_sim_option gw_sim_option_table[] = {
    {"peers", "N",
     "peers, 1 to 256, as many as a view holds (default: 1 to 64, drawn); larger flocks can only gossip "
     "(--gossip)",
     AT(peers), 1, GW_SIM_PEERS, 1, 2, 0, false},
    {"founders", "N", "how many peers found the job; the others join", AT(founders), 1, GW_SIM_PEERS, 1, 1, 0,
     false},
    {"core", "N",
     "how many peers are left when all faults are healed (majority: and as many more as a majority takes); "
     "the others are gone for good; 0 = all",
     AT(core), 0, GW_SIM_PEERS, 0.2, 1, 0, true},
    {"force", "0|1", "1: the core is no majority, and an operator forces a view", AT(force), 0, 1, 0, 0, 0,
     true},
    {"stay", "PERMILLE", "majority: peers that stay beside the core, which can do without them",
     AT(stay_permille), 0, 1000, 0.5, 1, 0, true},
    {"steps", "N", "steps of the job", AT(steps), 1, MANY_STEPS, 1, 1, 0, false},
    {"shards", "N", "shards of a step", AT(shards), 1, 10000, 1, 4, 40, false},
    {"majority", "0|1", "1: --quorum majority", AT(majority), 0, 1, 0.5, 1, 1, false},
    {"fast", "0|1", "1: sums depend on the view, as float sums do; implies majority", AT(fast), 0, 1, 0.25, 1,
     1, false},
    {"shard-us", "US", "mean time of a shard", AT(shard_us), 1, LONG, 1, 500, 20000, false},
    {"checkpoint-every", "STEPS", "0 = only at the end", AT(checkpoint_steps), 0, LONG, 0.9, 1, 12, false},
    {"checkpoint-time", "MS", "also when the last checkpoint is so old; 0 = not by time", AT(checkpoint_ms),
     0, LONG, 0, 0, 0, true},
    {"end-step", "N", "the job ends by itself after N steps; 0 = not before the last", AT(end_step), 0,
     MANY_STEPS, 0.2, 1, 0, false},
    {"poison-step", "N", "every peer that computes the last shard of step N dies; 0 = none", AT(poison_step),
     0, MANY_STEPS, 0, 0, 0, true},
    {"bad-step", "N", "a third of the shards of step N have elements that are not finite; 0 = none",
     AT(bad_step), 0, MANY_STEPS, 0, 0, 0, true},
    {"skip", "0|1", "1: --on-bad skip", AT(skip), 0, 1, 0, 0, 0, true},
    {"crash-ms", "MS", "a process or host dies", AT(crash_ms), 0, LONG, 0.7, 500, 8000, true},
    {"power-ms", "MS", "all processes die at once", AT(power_ms), 0, LONG, 0.1, 3000, 15000, true},
    {"restart-ms", "MS", "mean time until a dead process is started again", AT(restart_ms), 0, LONG, 1, 50,
     4000, false},
    {"wipe", "PERMILLE",
     "restarts without the disk, as another peer (majority: where the others suffice without it)",
     AT(wipe_permille), 0, 1000, 0.2, 20, 300, true},
    {"pause-ms", "MS", "a process is paused for up to 6 s", AT(pause_ms), 0, LONG, 0.4, 500, 8000, true},
    {"slow", "PERMILLE", "peers that compute up to four times more slowly", AT(slow_permille), 0, 1000, 0.5,
     100, 500, true},
    {"drift", "PERMILLE", "clocks run faster or slower by up to this much", AT(drift_permille), 0, 200, 0.3,
     1, 100, true},
    {"jump-ms", "MS", "a clock jumps ahead by up to 10 s", AT(jump_ms), 0, LONG, 0.15, 1000, 10000, true},
    {"partition-ms", "MS", "the network is cut in two, one way or both", AT(partition_ms), 0, LONG, 0.5, 1000,
     10000, true},
    {"flap", "PERMILLE", "cuts that come and go several times a second", AT(flap_permille), 0, 1000, 0.3, 100,
     1000, true},
    {"blind-ms", "MS", "some pairs of peers cannot reach each other, all others can", AT(blind_ms), 0, LONG,
     0.25, 1000, 10000, true},
    {"clog-ms", "MS", "nothing moves from one peer to another for up to 3 s, and then all of it arrives",
     AT(clog_ms), 0, LONG, 0.25, 200, 4000, true},
    {"break-ms", "MS", "a control link breaks", AT(break_ms), 0, LONG, 0.5, 100, 5000, true},
    {"data-ms", "MS", "data links of a peer are gone for up to 30 s, while its control links stand",
     AT(data_ms), 0, LONG, 0, 0, 0, true},
    {"path-ms", "MS",
     "no sum passes between two peers for up to 90 s, while their links stand; a failed sum then names the "
     "other member",
     AT(path_ms), 0, LONG, 0, 0, 0, true},
    {"drop", "PERMILLE", "datagrams lost", AT(drop_permille), 0, 1000, 0.5, 1, 300, true},
    {"duplicate", "PERMILLE", "datagrams doubled", AT(duplicate_permille), 0, 1000, 0.3, 1, 100, true},
    {"garble", "PERMILLE", "datagrams that arrive with flipped bits", AT(garble_permille), 0, 1000, 0.2, 1,
     50, true},
    {"delay-us", "US", "longest delay of a datagram", AT(delay_us), 1, LONG, 1, 100, 5000, false},
    {"tail", "PERMILLE", "datagrams that take up to 50 times as long, and are overtaken", AT(tail_permille),
     0, 1000, 0.25, 1, 50, true},
    {"full-ms", "MS", "a disk is full for up to 3 s, but for small files", AT(full_ms), 0, LONG, 0.2, 1000,
     8000, true},
    {"tight", "PERMILLE", "full disks that have room again once something on them is deleted",
     AT(tight_permille), 0, 1000, 0, 0, 0, true},
    {"hang-ms", "MS", "a disk hangs for up to 90 s", AT(hang_ms), 0, LONG, 0.15, 2000, 15000, true},
    {"slow-disk-ms", "MS", "a disk takes up to 100 times longer, for up to 10 s", AT(slow_disk_ms), 0, LONG,
     0.2, 1000, 10000, true},
    {"crawl-ms", "MS", "a disk takes up to two minutes for each operation, and makes progress all the while",
     AT(crawl_ms), 0, LONG, 0, 0, 0, true},
    {"damage-ms", "MS", "bits flip in a chunk on a disk, or a write overwrites another chunk", AT(damage_ms),
     0, LONG, 0.15, 500, 8000, true},
    {"unsynced", "PERMILLE",
     "chunks reported durable just before a host dies that are nevertheless lost or torn",
     AT(unsynced_permille), 0, 1000, 0.1, 10, 500, true},
    {"record-ms", "MS",
     "votes cannot be recorded for up to 30 s, because of I/O errors or a disk that is full to the last byte",
     AT(record_ms), 0, LONG, 0, 0, 0, true},
    {"spoil", "PERMILLE",
     "restarts that find the record of votes damaged, and so happen without the disk (--wipe)",
     AT(spoil_permille), 0, 1000, 0, 0, 0, true},
    {"leave-ms", "MS", "a peer is asked to leave", AT(leave_ms), 0, LONG, 0.15, 3000, 10000, true},
    {"stop-ms", "MS", "the whole job is asked to stop, and started again", AT(stop_ms), 0, LONG, 0.15, 3000,
     15000, true},
    {"device-ms", "MS", "the device of a peer breaks down", AT(device_ms), 0, LONG, 0, 0, 0, true},
    {"fail", "PERMILLE", "shards that a worker cannot compute, so that its peer ends", AT(fail_permille), 0,
     1000, 0, 0, 0, true},
    {"torn", "PERMILLE", "share of the shards that cannot be computed (--fail) that have been added in part",
     AT(torn_permille), 0, 1000, 0, 0, 0, true},
    {"refuse", "PERMILLE",
     "updates, effects of steps, looks at states and shards computed again that fail, so that the peer ends",
     AT(refuse_permille), 0, 1000, 0, 0, 0, true},
    {"names", "PERMILLE",
     "lives whose seeds are names, which are known only after a while, and may be outdated at first",
     AT(names_permille), 0, 1000, 0, 0, 0, true},
    {"first", "N", "the job goes on from a state after N steps, which is on the disks of some peers",
     AT(first_step), 0, LONG, 0, 0, 0, false},
    {"older", "PERMILLE", "lives that speak the version of gossip before, as during an upgrade",
     AT(older_permille), 0, 1000, 0, 0, 0, true},
    {"corrupt", "PERMILLE", "sums that a member finds damaged", AT(corrupt_permille), 0, 1000, 0.2, 1, 10,
     true},
    {"part", "PERMILLE", "sums for which a member's own part has changed in its memory", AT(part_permille), 0,
     1000, 0, 0, 0, true},
    {"worker-loss", "PERMILLE",
     "shards at which a worker process ends; where there are any, the shard of --poison-step ends worker "
     "processes and no peers",
     AT(worker_permille), 0, 1000, 0, 0, 0, true},
    {"lose", "PERMILLE", "claimed shards that are given back because their payload is not available",
     AT(lose_permille), 0, 1000, 0.25, 1, 5, true},
    {"verify", "PERMILLE", "shards that are computed twice", AT(verify_permille), 0, 1000, 0, 0, 0, false},
    {"wrong", "PERMILLE", "share of one peer's contributions to such shards that are wrong",
     AT(wrong_permille), 0, 1000, 0, 0, 0, true},
    {"flip-ms", "MS", "a bit flips in a state in memory, at any time; needs --verify", AT(flip_ms), 0, LONG,
     0, 0, 0, true},
    {"change-ms", "MS",
     "a machine begins to change bits of some sums and states that it sends, receives, or both",
     AT(change_ms), 0, LONG, 0, 0, 0, true},
    {"unanswered", "PERMILLE", "steals whose answer the thief never gets", AT(unanswered_permille), 0, 1000,
     0.7, 1, 50, true},
    {"haul", "N", "a long haul: conditions last up to N times as long; 0 = none", AT(haul), 0, 1000, 0, 0, 0,
     true},
    {"fault-ms", "MS", "how long faults happen; then all are healed", AT(fault_ms), 0, LONG, 1, 2000, 0,
     false},
    {"resume-ms", "MS", "--resume-timeout, 0 = 10 s, or 60 s with float sums", AT(resume_ms), 0, LONG, 0, 0,
     0, false},
    {"replicas", "N", "--replicas, 0 = 2", AT(replicas), 0, GW_MAX_REPLICAS, 0, 0, 0, false},
    {"keep", "N", "--keep, 0 = 2", AT(keep), 0, GW_SIM_KEEP, 0, 0, 0, false},
    {"frugal", "N",
     "--deal energy: steps may take N - 1 thousandths longer, and peers' shards cost different energy; 0 = "
     "--deal "
     "speed",
     AT(frugal), 0, 1001, 0, 0, 0, false},
    {"evaluate-every", "N", "--keep-best: one step in N is an evaluation; 0 = none is", AT(evaluate_every), 0,
     LONG, 0, 0, 0, false},
    {"patience", "N", "--patience, 0 = the job does not end by it", AT(patience), 0, LONG, 0, 0, 0, false},
    {"bound-ms", "MS",
     "the time within which the job must be done after that (120000, or by the length of a long haul)",
     AT(bound_ms), 1, LONG, 0, 0, 0, false},
};
const uint32_t gw_sim_option_count = sizeof gw_sim_option_table / sizeof *gw_sim_option_table;

uint32_t *gw_sim_option_value(gw_sim_options *options, const gw_sim_option *option) {
    return (uint32_t *)(void *)((char *)options + option->at);
}

gw_sim_options gw_sim_unset(uint64_t seed) {
    gw_sim_options options = {.seed = seed};
    for (uint32_t i = 0; i < gw_sim_option_count; i++)
        *gw_sim_option_value(&options, &gw_sim_option_table[i]) = GW_SIM_UNSET;
    return options;
}

void gw_sim_undisturbed(gw_sim_options *options) {
    for (uint32_t i = 0; i < gw_sim_option_count; i++) {
        const gw_sim_option *option = &gw_sim_option_table[i];
        uint32_t *value = gw_sim_option_value(options, option);
        if (option->fault && *value == GW_SIM_UNSET) *value = 0;
    }
}

void gw_sim_repairs(gw_sim_options *options) {
    const struct {
        size_t at;
        uint32_t value;
    } all[] = {
        {AT(peers), 2 + (uint32_t)(gw_mix64(options->seed) % 5)},
        {AT(steps), 12},
        {AT(end_step), 0},
        {AT(shard_us), 4000},
        {AT(fault_ms), 800},
        {AT(crash_ms), 200},
        {AT(restart_ms), 60},
        {AT(break_ms), 150},
        {AT(corrupt_permille), 20},
        {AT(lose_permille), 20},
        {AT(unanswered_permille), 200},
        {AT(slow_permille), 500},
        {AT(verify_permille), 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint32_t *value = (uint32_t *)(void *)((char *)options + all[i].at);
        if (*value == GW_SIM_UNSET) *value = all[i].value;
    }
    gw_sim_undisturbed(options);
}

/* Drawing options from the seed. */

static void set_unset(uint32_t *value, uint32_t drawn) {
    if (*value == GW_SIM_UNSET) *value = drawn;
}

static uint32_t between(gw_rng *rng, uint32_t least, uint32_t most) {
    return least + (uint32_t)gw_rng_below(rng, (uint64_t)most - least + 1);
}

/* Most flocks are small, where faults meet other faults; some are large. */
static uint32_t draw_peers(gw_rng *rng) {
    double lot = gw_rng_unit(rng);
    return lot < 0.02    ? 1
           : lot < 0.92  ? between(rng, 2, 7)
           : lot < 0.993 ? between(rng, 8, 16)
                         : between(rng, 17, GW_SIM_DRAWN_PEERS);
}

static uint32_t draw_steps(const gw_sim_options *o) {
    uint64_t step_us = (uint64_t)o->shards * o->shard_us / (o->peers * 2) + 6000;
    uint64_t steps = (uint64_t)o->fault_ms * 1000 / step_us / 2;
    return steps < 10 ? 10 : steps > 300 ? 300 : (uint32_t)steps;
}

static uint32_t least_founders(const gw_sim_options *options) {
    return options->majority != 0 ? options->peers - options->peers / 3 : 1;
}

void gw_sim_bound_founders(gw_sim_options *options) {
    uint32_t least = least_founders(options);
    if (options->founders > options->peers) options->founders = options->peers;
    if (options->founders < least) options->founders = least;
}

/* Draws the founders, with a majority rule. This was added after seeds had been recorded, so it uses
 * random numbers of its own. */
static uint32_t draw_majority_founders(const gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0xf0a2dULL);
    bool on = gw_rng_unit(&rng) < 0.4;
    uint32_t drawn = between(&rng, least_founders(o), o->peers);
    return on ? drawn : o->peers;
}

/* In a long haul, minutes take the place of seconds between faults. */
static uint32_t spread(const gw_sim_options *o) {
    return o->haul != 0 ? 180 : 1;
}

static bool is_interval(const gw_sim_option *option) {
    return option->fault && strcmp(option->unit, "MS") == 0;
}

/* The time depends on the number of peers: ten peers cost three times as much processor time as five. */
static uint32_t draw_haul_ms(gw_rng *rng, uint32_t peers) {
    enum { MINUTE_MS = 60000, FEW = 5 };
    uint32_t ms = between(rng, 40 * MINUTE_MS, 260 * MINUTE_MS);
    return peers > FEW ? ms / peers * FEW : ms;
}

static uint32_t draw_haul_peers(gw_rng *rng) {
    double lot = gw_rng_unit(rng);
    uint32_t few = between(rng, 2, 6), more = between(rng, 7, 10);
    return lot < 0.03 ? 1 : lot < 0.93 ? few : more;
}

/* Returns the number of shards that each worker computes in a step. */
static uint32_t rounds(const gw_sim_options *o, uint32_t peers) {
    enum { WORKERS = 2, STEPS_DIFFER_BY = 2 };
    return (o->shards + STEPS_DIFFER_BY - 1) / (WORKERS * peers) + 1;
}

/* Draws about as many steps as there would be time for while faults happen, without these faults. */
static void draw_haul_steps(gw_rng *rng, gw_sim_options *o) {
    uint32_t shards = between(rng, 4, 24), least_ms = between(rng, 4000, 8000);
    uint32_t step_ms = least_ms << gw_rng_below(rng, 4), permille = between(rng, 600, 1100);
    set_unset(&o->shards, shards);
    set_unset(&o->shard_us, step_ms * 1000 / rounds(o, o->peers));
    uint64_t steps = (uint64_t)o->fault_ms * permille / 1000 / step_ms;
    set_unset(&o->steps, steps < 10 ? 10 : (uint32_t)steps);
}

static void draw_haul_checkpoints(gw_rng *rng, gw_sim_options *o) {
    bool by_time = gw_rng_unit(rng) < 0.6, by_steps = gw_rng_unit(rng) < 0.6;
    uint32_t time_ms = between(rng, 10000, 600000);
    set_unset(&o->checkpoint_ms, by_time ? time_ms : 0);
    if (by_time && !by_steps) set_unset(&o->checkpoint_steps, 0);
}

void gw_sim_haul(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x1046ULL);
    bool open = o->fault_ms == GW_SIM_UNSET && o->steps == GW_SIM_UNSET && o->shard_us == GW_SIM_UNSET;
    bool chosen = gw_rng_below(&rng, 8) == 0;
    uint32_t times = between(&rng, 10, 60), peers = draw_haul_peers(&rng);
    uint32_t restart_ms = between(&rng, 50, 1000), restart_times = between(&rng, 1, 120);
    set_unset(&o->haul, open && chosen ? times : 0);
    if (o->haul == 0) return;
    set_unset(&o->peers, peers);
    set_unset(&o->restart_ms, restart_ms * restart_times);
    set_unset(&o->fault_ms, draw_haul_ms(&rng, o->peers));
    draw_haul_steps(&rng, o);
    draw_haul_checkpoints(&rng, o);
}

/* Draws the options that depend on others. It draws the same number of random numbers whatever is set. */
static void draw_dependent(gw_rng *rng, gw_sim_options *o) {
    enum { LARGE = 16 }; /* flocks in which a second has a hundred times as many events */
    uint32_t founders = between(rng, 1, o->peers), fault_ms = between(rng, 2000, 20000);
    bool has_core = gw_rng_unit(rng) < 0.2, ends = gw_rng_unit(rng) < 0.2;
    set_unset(&o->fault_ms, o->peers > LARGE ? fault_ms / 4 : fault_ms);
    set_unset(&o->steps, draw_steps(o));
    if (o->fast != 0) o->majority = 1;
    set_unset(&o->founders, o->majority != 0 ? draw_majority_founders(o) : founders);
    gw_sim_bound_founders(o);
    uint32_t core = between(rng, o->founders, o->peers), end = between(rng, o->steps / 2 + 1, o->steps);
    if (o->core == GW_SIM_UNSET && o->majority == 0) o->core = has_core ? core : 0;
    set_unset(&o->end_step, ends ? end : 0);
}

/* Draws an option that was added after seeds had been recorded: it uses random numbers of its own, so that
 * everything else that a seed draws stays the same. 0 = not drawn. */
static uint32_t draw_own(const gw_sim_options *o, uint64_t salt, double odds, uint32_t from, uint32_t to) {
    gw_rng rng = gw_rng_seeded(o->seed ^ salt);
    bool on = gw_rng_unit(&rng) < odds;
    uint32_t drawn = between(&rng, from, to);
    return on ? drawn : 0;
}

/* Draws the core, by random numbers of its own. */
static void draw_core(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0xc03eULL);
    bool on = gw_rng_unit(&rng) < 0.3;
    uint32_t drawn = between(&rng, 1, o->peers / 2 + 1);
    set_unset(&o->core, on ? drawn : 0);
    if (o->core >= o->peers) o->core = 0;
    bool stay = gw_rng_unit(&rng) < 0.5;
    uint32_t staying = between(&rng, 100, 900);
    set_unset(&o->stay_permille, stay ? staying : 0);
    bool force = gw_rng_unit(&rng) < 0.3;
    set_unset(&o->force, force);
    if (o->core == 0 || o->majority == 0) o->stay_permille = o->force = 0;
}

/* Draws the share of the shards that are computed twice, if any are: all, or a share that may be small. It
 * uses random numbers of its own. */
static uint32_t draw_share(const gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x5a4eULL);
    bool all = gw_rng_unit(&rng) < 0.5, small = gw_rng_unit(&rng) < 0.5;
    uint32_t drawn = between(&rng, 10, small ? 100 : 1000);
    return all ? 1000 : drawn;
}

/* Scales the share of wrong contributions, so that as many are wrong in all where only a share of the
 * shards can be. */
static uint32_t as_often(uint32_t wrong, uint32_t share) {
    enum { MOST = 500 };
    uint32_t scaled = wrong * 1000 / share;
    return scaled > MOST ? MOST : scaled;
}

/* Draws a machine that computes or remembers wrong, and a shard that kills every peer that computes it, by
 * random numbers of its own. */
static void draw_bad_machines(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0xbadb175ULL);
    double lot = gw_rng_unit(&rng);
    bool poison = gw_rng_unit(&rng) < 0.05;
    uint32_t wrong = between(&rng, 1, 20), flip_ms = between(&rng, 200, 3000);
    uint32_t poison_step = between(&rng, 1, o->steps);
    set_unset(&o->verify_permille, lot < 0.1 ? draw_share(o) : 0);
    bool verified = o->verify_permille != 0;
    set_unset(&o->wrong_permille, verified && lot >= 0.05 ? as_often(wrong, o->verify_permille) : 0);
    set_unset(&o->flip_ms, verified && lot < 0.05 ? flip_ms * spread(o) : 0);
    set_unset(&o->poison_step, poison ? poison_step : 0);
}

/* Draws faults of the records of votes, by random numbers of its own. */
static void draw_records(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x4ec04dULL);
    bool fails = gw_rng_unit(&rng) < 0.33, spoils = gw_rng_unit(&rng) < 0.15;
    uint32_t record_ms = between(&rng, 1000, 10000), spoil = between(&rng, 10, 200);
    set_unset(&o->record_ms, fails ? record_ms * spread(o) : 0);
    set_unset(&o->spoil_permille, spoils ? spoil : 0);
}

/* Draws the loss of data links while control links stand, by random numbers of its own. */
static void draw_data(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0xda7aULL);
    bool on = gw_rng_unit(&rng) < 0.2;
    uint32_t drawn = between(&rng, 1000, 10000);
    set_unset(&o->data_ms, on ? drawn * spread(o) : 0);
}

/* Draws sums that are not finite, shards that cannot be computed, seeds that are names, and disks that
 * crawl, by random numbers of its own. */
static void draw_latest(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x10bULL);
    double bad = gw_rng_unit(&rng);
    bool fails = gw_rng_unit(&rng) < 0.15, named = gw_rng_unit(&rng) < 0.2;
    uint32_t step = between(&rng, 1, o->steps), fail = between(&rng, 1, 20), names = between(&rng, 100, 1000);
    set_unset(&o->bad_step, bad < 0.08 ? step : 0);
    set_unset(&o->skip, bad < 0.05);
    set_unset(&o->fail_permille, fails ? fail : 0);
    set_unset(&o->names_permille, named ? names : 0);
    bool crawls = gw_rng_unit(&rng) < 0.1;
    uint32_t crawl_ms = between(&rng, 2000, 15000);
    set_unset(&o->crawl_ms, crawls ? crawl_ms * spread(o) : 0);
}

/* Draws flocks in the middle of an upgrade, by random numbers of its own. */
static void draw_upgrade(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x01de4ULL);
    bool on = gw_rng_unit(&rng) < 0.25;
    uint32_t older = between(&rng, 100, 1000);
    set_unset(&o->older_permille, on ? older : 0);
}

/* Draws jobs that go on from the state of another one, by random numbers of its own. Disks do not damage
 * chunks then: the job has no other first state. */
static void draw_origin(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x0519ULL);
    bool on = gw_rng_unit(&rng) < 0.1 && o->fast == 0 && o->damage_ms == 0;
    uint32_t first = between(&rng, 1, 6);
    set_unset(&o->first_step, on && o->steps > first + 1 ? first : 0);
    if (o->first_step >= o->steps) o->first_step = 0;
}

/* Draws parts of sums that change in memory or are added in part, by random numbers of its own. */
static void draw_parts(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x9a47ULL);
    bool on = gw_rng_unit(&rng) < 0.1;
    uint32_t drawn = between(&rng, 1, 20);
    set_unset(&o->part_permille, on ? drawn : 0);
    bool tears = gw_rng_unit(&rng) < 0.5;
    uint32_t torn = between(&rng, 100, 1000);
    set_unset(&o->torn_permille, tears && o->fail_permille != 0 ? torn : 0);
}

/* Draws a short --resume-timeout, by random numbers of its own: peers that wait for the holders of what
 * was shown or saved give up soon, and compute other steps instead. */
static void draw_resume(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x5e77eULL);
    bool on = gw_rng_unit(&rng) < 0.1 && o->fast != 0;
    uint32_t drawn = between(&rng, 500, 5000);
    set_unset(&o->resume_ms, on ? drawn : 0);
}

/* Draws --replicas and --keep, by random numbers of its own. */
static void draw_kept(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x4ee9ULL);
    bool copied = gw_rng_unit(&rng) < 0.3, kept = gw_rng_unit(&rng) < 0.3;
    uint32_t replicas = between(&rng, 1, 5), keep = between(&rng, 1, GW_SIM_KEEP);
    set_unset(&o->replicas, copied ? replicas : 0);
    set_unset(&o->keep, kept ? keep : 0);
}

/* Draws evaluations by random numbers of its own, and, for jobs that end by themselves, after how many of
 * them in vain they do. */
static void draw_evaluations(gw_sim_options *o) {
    gw_rng rng = gw_rng_seeded(o->seed ^ 0xbe57ULL);
    bool on = gw_rng_unit(&rng) < 0.4, impatient = gw_rng_unit(&rng) < 0.5;
    uint32_t every = between(&rng, 1, 12), patience = between(&rng, 1, 8);
    set_unset(&o->evaluate_every, on ? every : 0);
    set_unset(&o->patience, impatient && o->evaluate_every != 0 && o->end_step != 0 ? patience : 0);
}

/* Returns the time to the end of the job. A long haul takes until the peers that are left have computed
 * all of it once more, and as long again; and once more for each life that a poison shard takes before it
 * is found, because a peer that is alone, and has saved nothing, begins again. */
static uint32_t draw_bound_ms(const gw_sim_options *o) {
    if (o->haul == 0) return USUAL_BOUND_MS;
    uint32_t left = o->core != 0 ? o->core : o->peers, times = o->verify_permille != 0 ? 4 : 2;
    if (o->poison_step != 0) times += GW_POISON_DEATHS;
    uint64_t step_us = (uint64_t)rounds(o, left) * o->shard_us;
    uint64_t bound_ms = USUAL_BOUND_MS + o->steps * step_us / 1000 * times;
    return bound_ms > LONG ? LONG : (uint32_t)bound_ms;
}

void gw_sim_draw(gw_sim_options *o) {
    set_unset(&o->haul, 0);
    set_unset(&o->checkpoint_ms, 0);
    gw_rng rng = gw_rng_seeded(o->seed ^ 0x600dULL);
    uint32_t peers = draw_peers(&rng);
    bool wipes = o->wipe_permille != GW_SIM_UNSET;
    set_unset(&o->peers, peers);
    for (uint32_t i = 0; i < gw_sim_option_count; i++) {
        const gw_sim_option *option = &gw_sim_option_table[i];
        uint32_t *value = gw_sim_option_value(o, option);
        if (option->to == 0) continue;
        bool on = gw_rng_unit(&rng) < option->odds;
        uint32_t drawn = between(&rng, option->from, option->to);
        if (is_interval(option)) drawn *= spread(o);
        set_unset(value, on ? drawn : 0);
    }
    draw_dependent(&rng, o);
    if (o->majority != 0 && !wipes) o->wipe_permille = draw_own(o, 0x3195ULL, 0.33, 20, 300);
    draw_core(o);
    set_unset(&o->device_ms, draw_own(o, 0xdef1ceULL, 0.15, 2000, 10000) * spread(o));
    draw_bad_machines(o);
    draw_records(o);
    draw_data(o);
    draw_latest(o);
    draw_upgrade(o);
    draw_origin(o);
    draw_resume(o);
    draw_kept(o);
    draw_parts(o);
    draw_evaluations(o);
    set_unset(&o->path_ms, draw_own(o, 0x9a745ULL, 0.1, 1000, 10000) * spread(o));
    set_unset(&o->refuse_permille, draw_own(o, 0x4ef5eULL, 0.1, 1, 20));
    /* In half of the runs with a poison shard it ends worker processes. */
    set_unset(&o->worker_permille, draw_own(o, 0x30a4e4ULL, o->poison_step != 0 ? 0.5 : 0.1, 1, 50));
    set_unset(&o->frugal, draw_own(o, 0xf49a1ULL, 0.25, 1, 300));
    set_unset(&o->change_ms, draw_own(o, 0xc4a26eULL, 0.1, 1000, 10000) * spread(o));
    set_unset(&o->tight_permille, draw_own(o, 0x7164474ULL, 0.5, 200, 1000));
    set_unset(&o->bound_ms, draw_bound_ms(o));
}

gw_sim_options gw_sim_prepare(const gw_sim_options *given, uint64_t seed, bool repairs) {
    gw_sim_options run = *given;
    run.seed = seed;
    if (repairs)
        gw_sim_repairs(&run);
    else
        gw_sim_haul(&run);
    gw_sim_draw(&run);
    return run;
}

/* Options as text. */

const char *gw_sim_command(const gw_sim_options *options, char *text, size_t size) {
    gw_sim_options copy = *options;
    int length = snprintf(text, size, "godwit sim --seed %" PRIu64, options->seed);
    for (uint32_t i = 0; i < gw_sim_option_count; i++) {
        const gw_sim_option *option = &gw_sim_option_table[i];
        uint32_t value = *gw_sim_option_value(&copy, option);
        GW_ASSERT(length > 0 && (size_t)length < size);
        length += snprintf(text + length, size - (size_t)length, " --%s %" PRIu32, option->name, value);
    }
    GW_ASSERT((size_t)length < size);
    return text;
}

static bool read_option(const gw_sim_option *option, const char *text, uint32_t *value) {
    uint64_t read;
    if (!gw_number_read(text, option->least, option->most, &read)) return false;
    *value = (uint32_t)read;
    return true;
}

static const gw_sim_option *find(const char *name) {
    for (uint32_t i = 0; i < gw_sim_option_count; i++)
        if (strcmp(gw_sim_option_table[i].name, name) == 0) return &gw_sim_option_table[i];
    return NULL;
}

/* Reads one word from *text, which moves on; false where there is none, or it is too long. */
static bool next_word(const char **text, char *word, size_t size) {
    *text += strspn(*text, " \t\n");
    size_t length = strcspn(*text, " \t\n");
    if (length == 0 || length >= size) return false;
    memcpy(word, *text, length);
    word[length] = '\0';
    *text += length;
    return true;
}

bool gw_sim_command_read(const char *text, gw_sim_options *options, const char **wrong) {
    char word[32], value[32];
    *options = gw_sim_unset(1);
    *wrong = text;
    for (int i = 0; i < 2; i++) /* godwit sim */
        if (!next_word(&text, word, sizeof word)) return false;
    if (strcmp(word, "sim") != 0) return false;
    for (*wrong = text; next_word(&text, word, sizeof word); *wrong = text) {
        if (strncmp(word, "--", 2) != 0 || !next_word(&text, value, sizeof value)) return false;
        const gw_sim_option *option = find(word + 2);
        if (strcmp(word, "--seed") == 0) {
            if (!gw_number_read(value, 0, UINT64_MAX, &options->seed)) return false;
        } else if (option == NULL || !read_option(option, value, gw_sim_option_value(options, option))) {
            return false;
        }
    }
    return *text == '\0';
}
