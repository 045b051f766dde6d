#include "tools/sim/setup/result.h"

#include "core/base/assert.h"
#include "tools/godwit/text/wrap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char *gw_sim_fault_name(gw_sim_fault fault) {
    static const char *const names[] = {
        [GW_SIM_CRASH] = "crashes",
        [GW_SIM_POWER_LOSS] = "power losses",
        [GW_SIM_RESTART] = "restarts",
        [GW_SIM_WIPE] = "lost disks",
        [GW_SIM_POISON_DEATH] = "deaths at poison shards",
        [GW_SIM_PAUSE] = "pauses",
        [GW_SIM_SLOW_PEER] = "slow peers",
        [GW_SIM_SKEWED_CLOCK] = "skewed clocks",
        [GW_SIM_CLOCK_JUMP] = "clock jumps",
        [GW_SIM_PARTITION] = "partitions",
        [GW_SIM_ONE_WAY] = "one-way cuts",
        [GW_SIM_FLAP] = "flaps",
        [GW_SIM_BLIND] = "pairs parted",
        [GW_SIM_CLOG] = "clogged ways",
        [GW_SIM_BREAK] = "broken links",
        [GW_SIM_LOST_DATA] = "lost data links",
        [GW_SIM_LOST_PATH] = "pairs that no sums passed between",
        [GW_SIM_DROP] = "datagrams lost",
        [GW_SIM_DUPLICATE] = "datagrams doubled",
        [GW_SIM_GARBLE] = "datagrams garbled",
        [GW_SIM_LATE] = "datagrams and messages late",
        [GW_SIM_FULL_DISK] = "full disks",
        [GW_SIM_HANGING_DISK] = "hanging disks",
        [GW_SIM_SLOW_DISK] = "slow disks",
        [GW_SIM_CRAWLING_DISK] = "crawling disks",
        [GW_SIM_FLIPPED_CHUNK] = "chunks with flipped bits",
        [GW_SIM_MISDIRECTED] = "chunks damaged by misdirected writes",
        [GW_SIM_LOST_CHUNK] = "chunks lost in a power loss",
        [GW_SIM_TORN_CHUNK] = "chunks torn in a power loss",
        [GW_SIM_FAILED_RECORD] = "records not written",
        [GW_SIM_LOST_RECORD] = "records lost while they were written",
        [GW_SIM_SPOILT_RECORD] = "damaged records",
        [GW_SIM_LEAVE] = "leaves",
        [GW_SIM_STOP] = "stops",
        [GW_SIM_LOST_DEVICE] = "lost devices",
        [GW_SIM_FAILED_SHARD] = "shards that could not be computed",
        [GW_SIM_TORN_SHARD] = "shards added in part",
        [GW_SIM_TORN_FREEZE] = "freezes with a shard added in part",
        [GW_SIM_FAILED_UPDATE] = "updates that failed",
        [GW_SIM_FAILED_EFFECT] = "effects that could not take place",
        [GW_SIM_FAILED_LOOK] = "states that could not be looked at",
        [GW_SIM_FAILED_PROBE] = "shards that could not be computed once more",
        [GW_SIM_LATE_NAME] = "names of seeds known late",
        [GW_SIM_STALE_NAME] = "names of seeds that led elsewhere",
        [GW_SIM_OLDER_LIFE] = "lives that speak the gossip of the version before",
        [GW_SIM_DAMAGED_SUM] = "damaged sums",
        [GW_SIM_SPOILT_PART] = "parts of sums that changed in memory",
        [GW_SIM_WRONG] = "wrong contributions",
        [GW_SIM_FLIP] = "flipped states",
        [GW_SIM_CHANGING_MACHINE] = "machines that change bits on their way",
        [GW_SIM_CHANGED_SUM] = "sums of which bits changed on their way",
        [GW_SIM_CHANGED_STATE] = "states of which bits changed on their way",
        [GW_SIM_LOST_CLAIM] = "shards given back for want of payload",
        [GW_SIM_LOST_WORKER] = "lost worker processes",
        [GW_SIM_GIVEN_BACK] = "shards given back that ended worker processes",
        [GW_SIM_OWED_SHARD] = "of these given back while the peer was frozen",
        [GW_SIM_LOST_ANSWER] = "lost answers",
        [GW_SIM_FAILED_REDUCTION] = "failed reductions",
        [GW_SIM_SPLIT_REDUCTION] = "split reductions",
        [GW_SIM_NAMED_REDUCTION] = "failed reductions that named a member",
        [GW_SIM_FAILED_FETCH] = "fetches that failed because of others",
        [GW_SIM_GONE] = "peers gone for good",
    };
    GW_ASSERT(fault < GW_SIM_FAULTS);
    return names[fault];
}

const char *gw_sim_excuse_name(gw_sim_excuse excuse) {
    static const char *const names[] = {
        [GW_SIM_NO_EXCUSE] = "without an excuse",
        [GW_SIM_LEFT] = "asked to leave",
        [GW_SIM_STOPPED] = "asked to stop",
        [GW_SIM_MISSED_END] = "told that the job had ended",
        [GW_SIM_OWN_DISK] = "because of their disks",
        [GW_SIM_DISKS] = "because no peer could store the last state",
        [GW_SIM_DEVICE] = "because of their devices",
        [GW_SIM_GAVE_UP] = "because of shards that could not be computed",
        [GW_SIM_REFUSED] = "because of operations that failed",
        [GW_SIM_WRONG_BITS] = "because of wrong bits",
        [GW_SIM_ALONE] = "because no other peer was left",
    };
    GW_ASSERT(excuse < GW_SIM_EXCUSES);
    return names[excuse];
}

void gw_sim_result_add(gw_sim_result *into, const gw_sim_result *one) {
    into->poisoned += one->poisoned;
    into->bad += one->bad;
    into->forced += one->forced;
    into->unseen += one->unseen;
    into->virtual_ns += one->virtual_ns;
    into->microjoules += one->microjoules;
    into->fire_ns += one->fire_ns;
    into->hauls += one->hauls;
    into->haul_ns += one->haul_ns;
    into->haul_fire_ns += one->haul_fire_ns;
    into->calmed += one->calmed;
    into->calm_ns += one->calm_ns;
    if (one->calm_most_ns > into->calm_most_ns) into->calm_most_ns = one->calm_most_ns;
    if (one->calm_most_share > into->calm_most_share) into->calm_most_share = one->calm_most_share;
    into->events += one->events;
    into->views += one->views;
    into->repairs += one->repairs;
    into->steals += one->steals;
    into->resumes += one->resumes;
    into->steps_applied += one->steps_applied;
    into->steps_shown += one->steps_shown;
    into->forgotten += one->forgotten;
    into->disputes += one->disputes;
    into->expelled += one->expelled;
    into->mistaken += one->mistaken;
    into->checkpoints += one->checkpoints;
    into->lost_with_lives += one->lost_with_lives;
    into->lost_unheard += one->lost_unheard;
    into->best_kept += one->best_kept;
    into->spoilt += one->spoilt;
    into->told_late += one->told_late;
    into->told_lost += one->told_lost;
    into->untold += one->untold;
    into->waiting += one->waiting;
    for (int i = 0; i < GW_SIM_FAULTS; i++) into->faults[i] += one->faults[i];
    for (int i = 0; i < GW_SIM_EXCUSES; i++) into->excused[i] += one->excused[i];
}

static const char *fault_name(int fault) {
    return gw_sim_fault_name((gw_sim_fault)fault);
}

static const char *excuse_name(int excuse) {
    return gw_sim_excuse_name((gw_sim_excuse)excuse);
}

/* Writes "12 pauses, 3 leaves"; with `none` it writes the names of the kinds that did not occur. */
static char *list_counts(const uint64_t *counts, int kinds, const char *(*name)(int), bool none) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    const char *between = "";
    if (out == NULL) return NULL;
    for (int i = 0; i < kinds; i++) {
        if ((counts[i] == 0) != none) continue;
        fputs(between, out);
        if (!none) fprintf(out, "%" PRIu64 " ", counts[i]);
        fputs(name(i), out);
        between = ", ";
    }
    return fclose(out) == 0 ? text : NULL;
}

static void print_list(const char *title, char *text) {
    if (text != NULL && text[0] != '\0') {
        puts(title);
        gw_print_wrapped("  ", text);
    }
    free(text);
}

static double hours(uint64_t ns) {
    return (double)ns / 3.6e12;
}

static void print_calm(const gw_sim_result *all) {
    double mean_ns = all->calmed == 0 ? 0 : (double)all->calm_ns / (double)all->calmed;
    printf("%14" PRIu64 "  other jobs done after healing: %.1f s on average, at most %.1f s\n"
           "%14.0f  %% of the allowed time, at most\n",
           all->calmed, mean_ns / 1e9, (double)all->calm_most_ns / 1e9, all->calm_most_share * 100);
}

void gw_sim_result_print(const gw_sim_result *all, uint64_t seeds, uint64_t failed) {
    const struct {
        uint64_t count;
        const char *what;
    } rows[] = {
        {all->events, "events"},
        {all->steps_applied, "steps applied"},
        {all->steps_shown, "steps shown"},
        {all->forgotten, "shown again after all who knew had died"},
        {all->views, "views"},
        {all->repairs, "repairs"},
        {all->steals, "steals"},
        {all->checkpoints, "checkpoints"},
        {all->lost_with_lives, "not kept: the lives that had them have ended"},
        {all->lost_unheard, "not kept: their holders never heard of it, or had a full disk"},
        {all->spoilt, "not kept: disks have lost them"},
        {all->best_kept, "peers done that named the best state, which was on the disks"},
        {all->told_late, "reported complete after later ones, and not checked"},
        {all->told_lost, "reported complete when disks had lost copies of them"},
        {all->untold, "resumed from less: its holders had found no manifest of the rest"},
        {all->resumes, "resumes"},
        {all->forced, "views forced by an operator, as a majority was lost"},
        {all->mistaken, "sound machines found to be faulty, among several that were"},
        {all->waiting, "peers left waiting for what no peer knows any more"},
        {all->poisoned, "ended by poison"},
        {all->bad, "ended by sums that were not finite"},
        {all->unseen, "ended by wrong bits that no other peer was left to find"},
    };
    printf("godwit sim: %" PRIu64 " seed%s, %" PRIu64 " failed, %.2f virtual hours\n", seeds,
           seeds == 1 ? "" : "s", failed, hours(all->virtual_ns));
    printf("%14.2f  of them under fire\n", hours(all->fire_ns));
    printf("%14" PRIu64 "  long hauls: %.2f virtual hours, %.2f under fire\n", all->hauls,
           hours(all->haul_ns), hours(all->haul_fire_ns));
    print_calm(all);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("%14" PRIu64 "  %s\n", rows[i].count, rows[i].what);
    print_list("ended by themselves:", list_counts(all->excused, GW_SIM_EXCUSES, excuse_name, false));
    print_list("faults:", list_counts(all->faults, GW_SIM_FAULTS, fault_name, false));
    print_list("no:", list_counts(all->faults, GW_SIM_FAULTS, fault_name, true));
}
