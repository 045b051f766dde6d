#include "tools/sim/run.h"

#include "core/check.h"

#include <inttypes.h>

const char *gw_sim_fault_name(gw_sim_fault fault) {
    static const char *const names[] = {
        [GW_SIM_CRASH] = "crashes",
        [GW_SIM_POWER_LOSS] = "power losses",
        [GW_SIM_RESTART] = "restarts",
        [GW_SIM_WIPE] = "lost disks",
        [GW_SIM_POISON_DEATH] = "deaths of poison",
        [GW_SIM_PAUSE] = "pauses",
        [GW_SIM_CLOCK_JUMP] = "clock jumps",
        [GW_SIM_PARTITION] = "partitions",
        [GW_SIM_ONE_WAY] = "one-way cuts",
        [GW_SIM_FLAP] = "flaps",
        [GW_SIM_BLIND] = "pairs parted",
        [GW_SIM_CLOG] = "clogged ways",
        [GW_SIM_BREAK] = "broken links",
        [GW_SIM_DROP] = "datagrams lost",
        [GW_SIM_DUPLICATE] = "datagrams doubled",
        [GW_SIM_GARBLE] = "datagrams garbled",
        [GW_SIM_FULL_DISK] = "full disks",
        [GW_SIM_HANGING_DISK] = "hanging disks",
        [GW_SIM_SLOW_DISK] = "slow disks",
        [GW_SIM_DAMAGED_CHUNK] = "damaged chunks",
        [GW_SIM_UNSYNCED] = "chunks lost or torn in a power loss",
        [GW_SIM_LEAVE] = "leaves",
        [GW_SIM_STOP] = "stops",
        [GW_SIM_LOST_DEVICE] = "lost devices",
        [GW_SIM_DAMAGED_SUM] = "damaged sums",
        [GW_SIM_WRONG] = "wrong contributions",
        [GW_SIM_FLIP] = "flipped states",
        [GW_SIM_LOST_CLAIM] = "shards given back",
        [GW_SIM_LOST_ANSWER] = "lost answers",
        [GW_SIM_FAILED_REDUCTION] = "failed reductions",
        [GW_SIM_SPLIT_REDUCTION] = "split reductions",
    };
    GW_CHECK(fault < GW_SIM_FAULTS);
    return names[fault];
}

void gw_sim_result_add(gw_sim_result *into, const gw_sim_result *one) {
    into->poisoned += one->poisoned;
    into->unseen += one->unseen;
    into->virtual_ns += one->virtual_ns;
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
    into->checkpoints += one->checkpoints;
    for (int i = 0; i < GW_SIM_FAULTS; i++) into->faults[i] += one->faults[i];
}

void gw_sim_result_print(const gw_sim_result *all, uint64_t seeds, uint64_t failed) {
    printf("godwit sim: %" PRIu64 " seeds, %" PRIu64 " failed, %.2f virtual hours, %" PRIu64
           " events, %" PRIu64 " steps applied, %" PRIu64 " shown (%" PRIu64
           " anew after all who knew had died), %" PRIu64 " views, %" PRIu64 " repairs, %" PRIu64
           " steals, %" PRIu64 " checkpoints, %" PRIu64 " resumes, %" PRIu64 " ended by poison, %" PRIu64
           " by what nobody was left to see; faults:",
           seeds, failed, (double)all->virtual_ns / 3.6e12, all->events, all->steps_applied, all->steps_shown,
           all->forgotten, all->views, all->repairs, all->steals, all->checkpoints, all->resumes,
           all->poisoned, all->unseen);
    for (int i = 0; i < GW_SIM_FAULTS; i++)
        printf("%s %" PRIu64 " %s", i == 0 ? "" : ",", all->faults[i], gw_sim_fault_name((gw_sim_fault)i));
    printf("\n");
}
