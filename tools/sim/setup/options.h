/* The options of a simulated run: a table of named numbers, so that drawing them from a seed, reading them
 * from a command line, printing them and removing them one by one are written once. */
#ifndef GODWIT_TOOLS_SIM_SETUP_OPTIONS_H
#define GODWIT_TOOLS_SIM_SETUP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    GW_SIM_PEERS = 256,      /* at most: as many as a view holds (core/record/view.h) */
    GW_SIM_DRAWN_PEERS = 64, /* the most that a seed draws */
    GW_SIM_KEEP = 4,         /* the most checkpoints to keep */
    GW_SIM_COMMAND = 1400    /* bytes that any command line fits into */
};

#define GW_SIM_UNSET UINT32_MAX /* not given: to be drawn from the seed */

/* Fields of faults that end in _ms are the mean virtual time between two faults of the kind; 0 = none.
 * Fields that end in _permille are shares. */
typedef struct gw_sim_options {
    uint64_t seed;
    uint32_t peers, founders; /* at least `founders` peers found the job; the others join */
    /* the number of peers, drawn by lot, that are left in the end; 0 = all. With a majority rule, further
     * peers stay so that a majority is left of every view that one of them has installed or promised */
    uint32_t core;
    uint32_t force; /* 0 or 1; majority: the core need not be a majority, and an operator forces a view */
    /* majority: share of the other peers that stay beside the core, whatever they have promised */
    uint32_t stay_permille;
    uint32_t steps, shards;
    uint32_t majority, fast;                  /* 0 or 1; fast needs majority */
    uint32_t shard_us;                        /* mean time of a shard */
    uint32_t checkpoint_steps, checkpoint_ms; /* 0 = not by this measure; both 0 = only at the end */
    uint32_t end_step;    /* the job itself ends after so many steps, before `steps`; 0 = it does not */
    uint32_t poison_step; /* the last shard of this step kills every peer that computes it; 0 = none does */
    uint32_t bad_step;    /* some contributions to this step have elements that are not finite; 0 = none do */
    uint32_t skip;        /* 0 or 1: --on-bad skip */
    uint32_t crash_ms, power_ms, restart_ms, wipe_permille;
    uint32_t pause_ms, slow_permille, drift_permille, jump_ms;
    uint32_t partition_ms, flap_permille, blind_ms, clog_ms, break_ms, data_ms;
    /* A member enters a reduction with a part that has changed since it was added up. */
    uint32_t part_permille;
    uint32_t path_ms; /* no sums pass between two peers that reach each other */
    uint32_t drop_permille, duplicate_permille, garble_permille, delay_us, tail_permille;
    uint32_t full_ms, hang_ms, slow_disk_ms, crawl_ms, damage_ms, unsynced_permille;
    uint32_t tight_permille;            /* share of the full disks that get room by what is deleted */
    uint32_t record_ms, spoil_permille; /* faults of the records of votes */
    uint32_t leave_ms, stop_ms, device_ms;
    uint32_t corrupt_permille; /* a member of a reduction gets a sum with flipped bits */
    uint32_t fail_permille;    /* a worker cannot compute a shard, and its peer ends */
    uint32_t torn_permille;    /* share of these shards that have been added in part */
    uint32_t refuse_permille;  /* share of other operations of machines that fail, so that the peer ends */
    uint32_t names_permille;   /* share of the lives whose seeds are names that are looked up */
    uint32_t first_step;     /* the job goes on from the state after so many steps; 0: from the initial one */
    uint32_t older_permille; /* share of the lives that speak the version of gossip before */
    uint32_t worker_permille;     /* a worker process ends while it computes a shard */
    uint32_t lose_permille;       /* a claimed shard is given back, because its payload is not available */
    uint32_t verify_permille;     /* share of the shards that are computed twice (--verify) */
    uint32_t wrong_permille;      /* share of one peer's contributions to such shards that are wrong */
    uint32_t flip_ms;             /* a bit flips in a state in memory; needs verify_permille and quorum any */
    uint32_t change_ms;           /* a machine begins to change bits of what it sends, receives, or both */
    uint32_t unanswered_permille; /* the answer to a swap of a range word is lost, but not the swap */
    uint32_t haul;                /* a long haul: conditions last up to so many times as long; 0 = none */
    uint32_t fault_ms;            /* faults happen for this time; then all are healed */
    uint32_t bound_ms;            /* the job must be done within this time after all faults are healed */
    uint32_t resume_ms;           /* --resume-timeout; 0 = the usual one */
    uint32_t replicas, keep;      /* --replicas, --keep (most GW_SIM_KEEP); 0 = as usual, 2 */
    uint32_t frugal;              /* --deal energy:(frugal - 1) thousandths; 0 = --deal speed */
    uint32_t evaluate_every, patience; /* --keep-best: steps between evaluations; --patience; 0 = none */
    uint32_t processor_s; /* a run that uses so much processor time fails (limit.h); 0 = the default */
    FILE *trace;          /* everything that happens is written here; NULL = nowhere */
} gw_sim_options;

typedef struct gw_sim_option {
    const char *name, *unit, *help;
    size_t at;            /* offset in gw_sim_options of a uint32_t */
    uint32_t least, most; /* bounds of a given value */
    double odds;          /* probability that it is drawn; otherwise it is 0 */
    /* drawn uniformly between these; `to` 0 = drawn by a rule of its own (gw_sim_draw) */
    uint32_t from, to;
    bool fault; /* 0 removes the fault */
} gw_sim_option;

extern const gw_sim_option gw_sim_option_table[];
extern const uint32_t gw_sim_option_count;

uint32_t *gw_sim_option_value(gw_sim_options *options, const gw_sim_option *option);

/* Returns options that are all unset, except for the seed. */
gw_sim_options gw_sim_unset(uint64_t seed);
/* Sets every fault that is unset to 0. */
void gw_sim_undisturbed(gw_sim_options *options);
/* Sets what is unset, from the seed, to a short schedule of the faults that make repairs: kills, steals,
 * late or returned shards, lost answers, damaged or split sums. */
void gw_sim_repairs(gw_sim_options *options);
/* Makes one seed in eight, by lot, a long haul, unless the given options determine the length of the run:
 * a run of hours in a small flock, with steps of seconds to a minute, where faults come minutes apart and
 * last minutes. Sets what is unset of that, from the seed. For all other seeds `haul` becomes 0, and
 * nothing else changes. */
void gw_sim_haul(gw_sim_options *options);
/* Draws what is unset from the seed: a quiet, a rough or a cruel world, by lot; a long haul only if that
 * is set. */
void gw_sim_draw(gw_sim_options *options);

/* Returns the run of a seed: the given options, and the others drawn from the seed. With `repairs` it is a
 * schedule of gw_sim_repairs. */
gw_sim_options gw_sim_prepare(const gw_sim_options *given, uint64_t seed, bool repairs);

/* Bounds the number of founders by the number of peers. With a majority rule, at most half as many peers
 * may join later as found the job. The founders that have not heard of the first view are fewer than half
 * of them; together with these the later peers must not be enough to found the job a second time (README,
 * --quorum majority). */
void gw_sim_bound_founders(gw_sim_options *options);

/* Writes the options as a command line that replays the run: "godwit sim --seed 7 ...". Returns `text`. */
const char *gw_sim_command(const gw_sim_options *options, char *text, size_t size);
/* Reads such a line back; *wrong points at the word that is no option, or has no valid value. */
bool gw_sim_command_read(const char *text, gw_sim_options *options, const char **wrong);

#endif
