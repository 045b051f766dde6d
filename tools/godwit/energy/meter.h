/* The energy that a peer takes for its job: a thread of its own reads the counters of the processors and
 * what NVML tells of the GPUs, at most some times a second, and adds up this process's share. What is known
 * is kept in the peer's directory, in the file "energy", every half a minute, with checkpoints, and at the
 * end.
 *
 *   processors  by the counters of the kernel (counters.h), of which the process has the share of its
 *               processor time (usage.h); where there are none, by --cpu-watts, an estimate; else not known
 *   GPUs        by NVML, of those that the device computes on. A GPU that several processes use counts by
 *               their number, as it does where it is divided (MIG): NVML counts the whole GPU
 *
 * All functions but the first take NULL: there is no meter then, and nothing is known.
 *
 * Threads: the main thread opens and closes; the loop's thread does the rest, and waits for no counter while
 * the job runs. */
#ifndef GODWIT_TOOLS_GODWIT_ENERGY_METER_H
#define GODWIT_TOOLS_GODWIT_ENERGY_METER_H

#include "core/base/id.h"
#include "core/os/directory.h"
#include "tools/godwit/energy/energy.h"
#include "tools/godwit/watch/gpu_watch.h"

#include <stdint.h>

typedef struct gw_energy_meter gw_energy_meter;

typedef struct gw_energy_options {
    const char *root;        /* the folder under which sys and proc are; NULL = "/" */
    gw_directory *directory; /* of the peer; must outlive the meter */
    gw_hash job;
    bool fresh;         /* what was counted for the job before is forgotten */
    bool workers;       /* processes that this one starts compute for the job */
    bool asked;         /* somebody wants the energy: the log says it if it is not known */
    double cpu_watts;   /* --cpu-watts: what a processor takes while it computes; 0 = not given */
    gw_gpu_watch *gpus; /* must outlive the meter; NULL = there are none */
} gw_energy_options;

/* Opens the meter and begins to read. Returns NULL on failure. */
gw_energy_meter *gw_energy_meter_open(const gw_energy_options *options, gw_err *err);
/* Writes the file and ends the thread, for which it waits so long at the most. False: the disk or a counter hangs;
 * the meter stays, what it borrows must stay too, and it may be closed again. */
bool gw_energy_meter_close(gw_energy_meter *meter, uint64_t patience_ns);

/* Begins a read if one is due. `steps` and `shards`: how many steps this process has taken part in so far,
 * and how many shards it has computed. */
void gw_energy_meter_look(gw_energy_meter *meter, uint64_t steps, uint64_t shards);
/* A checkpoint is complete: the file is written soon. */
void gw_energy_meter_keep(gw_energy_meter *meter);
/* Copies the figures as of the last read. */
void gw_energy_meter_copy(gw_energy_meter *meter, gw_energy *energy);
/* At the end of the run: reads once more and copies the figures as of then, waiting for that a second at
 * the most. */
void gw_energy_meter_finish(gw_energy_meter *meter, uint64_t steps, uint64_t shards, gw_energy *energy);
/* Returns the microjoules that one more shard here takes (rate.h); 0 = not known. */
uint64_t gw_energy_meter_shard(gw_energy_meter *meter);

#endif
