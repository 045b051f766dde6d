/* The metrics of a peer's GPUs: Godwit's own, in base units, and those of NVIDIA's DCGM exporter, so that
 * boards and alerts that were made for it work. Source of the latter:
 * github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv.
 *
 * Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_SNAPSHOT_GPUS_H
#define GODWIT_TOOLS_GODWIT_SHOW_SNAPSHOT_GPUS_H

#include "tools/godwit/show/exposition.h"
#include "tools/godwit/show/snapshot.h"

/* Writes each figure for the GPUs that tell it; nothing where the peer has no GPU. */
void gw_snapshot_gpus(gw_exposition *page, const gw_node_snapshot *snapshot);

#endif
