#include "console_rig.h"

#include <time.h>

gw_node_snapshot *rig_busy_snapshot(void) {
    static gw_node_snapshot s;
    s = (gw_node_snapshot){.job = "digits",
                           .cluster = "a \"quoted\" \\ name",
                           .version = "1",
                           .phase = "computing",
                           .healthy = true,
                           .epoch = 3,
                           .members = 4,
                           .step = 312,
                           .steps = 590,
                           .step_ms = 412,
                           .shards_per_s = 116.4,
                           .report = "loss=0.1234 note=fine",
                           .latest = "loss=0.1234 note=fine val_loss=0.75",
                           .evaluation = "val_loss=0.75 note=well",
                           .evaluation_step = 251,
                           .checkpoint_step = 300,
                           .fingerprint = UINT64_MAX,
                           .peer_count = 2,
                           .peers = {{.state = "alive", .self = true, .checkpoint_step = 300},
                                     {.state = "dead", .checkpoint_step = UINT64_MAX}}};
    s.leader.bytes[0] = 0x1f;
    s.counter[GW_COUNT_SHARDS_STOLEN] = 118;
    s.counter[GW_COUNT_REDUCE_NS] = 1500000000;
    s.packets[GW_PACKET_GOOD] = 5;
    s.packets[GW_PACKET_WRONG_KEY] = 2;
    return &s;
}

double rig_cpu_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}
