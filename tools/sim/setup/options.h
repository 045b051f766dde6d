/* What one simulated run is made of: a table of named numbers, so that drawing them from a seed, reading them
 * from a command line, printing them and taking them out one by one are written once. */
#ifndef GODWIT_TOOLS_SIM_SETUP_OPTIONS_H
#define GODWIT_TOOLS_SIM_SETUP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    GW_SIM_PEERS = 256,      /* most: as many as a view holds (core/record/view.h) */
    GW_SIM_DRAWN_PEERS = 64, /* most of a seed */
    GW_SIM_KEEP = 4,         /* most checkpoints to be kept */
    GW_SIM_COMMAND = 1400    /* bytes that any command line fits into */
};

#define GW_SIM_UNSET UINT32_MAX /* to be drawn from the seed */

/* Fields that end in _ms among the faults are the mean virtual time between two of a kind; 0 = none of it. */
typedef struct gw_sim_options {
    uint64_t seed;
    uint32_t peers, founders; /* at least `founders` peers found the job, the others join */
    uint32_t core;  /* so many, drawn by lot, are left in the end, the others are gone; 0 = all. Majority: and
                       whom it takes to be one of every view that any of them has installed or promised */
    uint32_t force; /* 0 or 1; majority: any are left of it, and an operator forces a view */
    uint32_t stay_permille; /* majority: of those whom the core can do without, whatever they have promised */
    uint32_t steps, shards;
    uint32_t majority, fast;                  /* 0 or 1; fast needs majority */
    uint32_t shard_us;                        /* mean time of a shard */
    uint32_t checkpoint_steps, checkpoint_ms; /* 0 = not by this measure; both: only at the end */
    uint32_t end_step;    /* the job itself ends after so many steps, before `steps`; 0 = it does not */
    uint32_t poison_step; /* the last shard of this step kills every peer that computes it; 0 = none does */
    uint32_t bad_step;    /* some contributions to this step have elements that are not finite; 0 = none do */
    uint32_t skip;        /* 0 or 1: --on-bad skip */
    uint32_t crash_ms, power_ms, restart_ms, wipe_permille;
    uint32_t pause_ms, slow_permille, drift_permille, jump_ms;
    uint32_t partition_ms, flap_permille, blind_ms, clog_ms, break_ms, data_ms;
    uint32_t
        part_permille; /* a member of a reduction enters with a part that is not what it was added up to */
    uint32_t path_ms;  /* of two that reach each other sums do not pass */
    uint32_t drop_permille, duplicate_permille, garble_permille, delay_us, tail_permille;
    uint32_t full_ms, hang_ms, slow_disk_ms, crawl_ms, damage_ms, unsynced_permille;
    uint32_t record_ms, spoil_permille; /* of what is remembered of votes */
    uint32_t leave_ms, stop_ms, device_ms;
    uint32_t corrupt_permille; /* a member of a reduction finds a sum with flipped bits */
    uint32_t fail_permille;    /* a worker cannot compute a shard, and its peer ends */
    uint32_t torn_permille;    /* of these shards, those that have been added in part */
    uint32_t refuse_permille;  /* of what else is asked of machines: it fails there, and the peer ends */
    uint32_t names_permille;   /* lives whose seeds are names that are looked up */
    uint32_t lose_permille;    /* a claimed shard is given back, as its payload cannot be had */
    uint32_t verify_permille;  /* shards that are computed twice (--verify) */
    uint32_t wrong_permille;   /* contributions of one peer, of such shards, that are wrong */
    uint32_t flip_ms;          /* a bit flips in a state in memory; needs verify_permille and quorum any */
    uint32_t change_ms;        /* a machine begins to change bits of what it sends, or receives, or either */
    uint32_t unanswered_permille; /* the answer to a swap of a range word is lost, the swap is not */
    uint32_t haul;                /* a long haul: what lasts, lasts up to so many times as long; 0 = none */
    uint32_t fault_ms;            /* faults happen this long; then everything is healed */
    uint32_t bound_ms;            /* the job must be done this much after everything is healed */
    uint32_t resume_ms;           /* --resume-timeout; 0 = the usual one */
    uint32_t replicas, keep;      /* --replicas, --keep (most GW_SIM_KEEP); 0 = as usual, 2 */
    uint32_t processor_s; /* a run fails that takes so much of processor time (limit.h); 0 = as usual */
    FILE *trace;          /* everything that happens is written here; NULL = nowhere */
} gw_sim_options;

typedef struct gw_sim_option {
    const char *name, *unit, *help;
    size_t at;            /* where in gw_sim_options: a uint32_t */
    uint32_t least, most; /* that may be given */
    double odds;          /* of its being drawn at all; otherwise it is 0 */
    uint32_t from, to;    /* drawn: even odds between; to 0 = by a rule of its own (gw_sim_draw) */
    bool fault;           /* 0 takes it out */
} gw_sim_option;

extern const gw_sim_option gw_sim_option_table[];
extern const uint32_t gw_sim_option_count;

uint32_t *gw_sim_option_value(gw_sim_options *options, const gw_sim_option *option);

/* All unset but the seed. */
gw_sim_options gw_sim_unset(uint64_t seed);
/* Takes out every fault that is unset. */
void gw_sim_undisturbed(gw_sim_options *options);
/* A short schedule of nothing but what a repair is made of: kills, steals, shards that are done late or given
 * back, answers that are lost, sums that are damaged or split. Sets what is unset, from the seed. */
void gw_sim_repairs(gw_sim_options *options);
/* One seed in eight, by lot, is a long haul, unless what is given says how long it takes: a run of hours in a
 * small flock, with steps of seconds to a minute, where faults come minutes apart and last minutes. Sets what
 * is unset of that, from the seed; `haul` is 0 for all other seeds, and nothing else of them is touched. */
void gw_sim_haul(gw_sim_options *options);
/* What a seed stands for: a quiet, a rough or a cruel world, by lot; no long haul unless that is set. What is
 * set already is kept. */
void gw_sim_draw(gw_sim_options *options);

/* The run that a seed stands for: what is given, and what that leaves unset drawn from the seed. With
 * `repairs` such a schedule (gw_sim_repairs). */
gw_sim_options gw_sim_prepare(const gw_sim_options *given, uint64_t seed, bool repairs);

/* No more than there are. Where a majority rules, no more may join later than half as many as found the job.
 * Those of the founders that have not heard of the first view are fewer than half of them; with these the
 * others must not be enough to found it a second time (README, --quorum majority). */
void gw_sim_bound_founders(gw_sim_options *options);

/* The options as a command line that replays the run: "godwit sim --seed 7 ...". Returns `text`. */
const char *gw_sim_command(const gw_sim_options *options, char *text, size_t size);
/* Reads such a line back; *wrong points at the word that is no option, or has no such value. */
bool gw_sim_command_read(const char *text, gw_sim_options *options, const char **wrong);

#endif
