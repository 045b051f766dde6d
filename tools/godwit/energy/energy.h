/* What a peer's share of the energy of its machine is: where it is measured, and the figures that people see.
 *
 * A joule belongs to a *source*: what has told of it. Some sources count (a counter of the hardware that the
 * kernel or the driver shows), some are powers that are added up over time, and one is an estimate. */
#ifndef GODWIT_TOOLS_GODWIT_ENERGY_ENERGY_H
#define GODWIT_TOOLS_GODWIT_ENERGY_ENERGY_H

#include <stdbool.h>

typedef enum gw_energy_source {
    GW_ENERGY_NONE,       /* nothing tells of it */
    GW_ENERGY_RAPL,       /* counters of processor packages and their memory (powercap) */
    GW_ENERGY_HWMON,      /* counters of processor sockets by a hwmon driver (amd_energy) */
    GW_ENERGY_METER,      /* a meter of the whole machine's power (ACPI), added up over time */
    GW_ENERGY_ESTIMATE,   /* no measurement: processor time, times the watts that --cpu-watts gives */
    GW_ENERGY_NVML,       /* counters of GPUs */
    GW_ENERGY_NVML_POWER, /* the power of GPUs that have no counter, added up over time */
    GW_ENERGY_SOURCES
} gw_energy_source;

/* Returns the source's name in JSON, metrics and files ("rapl"); that of GW_ENERGY_NONE is "none". */
const char *gw_energy_source_name(gw_energy_source source);
/* Returns what the source is, in words for people ("RAPL"). */
const char *gw_energy_source_text(gw_energy_source source);

enum { GW_ENERGY_LACK_TEXT = 400 };

/* The energy of one peer. Joules add up over all lives of the peer, as long as its directory is kept. */
typedef struct gw_energy {
    gw_energy_source processors, gpus; /* where they come from now; GW_ENERGY_NONE: nowhere */
    double joules[GW_ENERGY_SOURCES];  /* of the job so far, by source */
    double watts;                      /* recent mean power; 0 = not known yet */
    double step_joules,
        shard_joules; /* recent means, of a step and of a shard computed here; 0 = not known yet */
    char lack[GW_ENERGY_LACK_TEXT]; /* what is missing, why, and what to do; "" = nothing is */
} gw_energy;

/* The joules of all sources together. */
double gw_energy_joules(const gw_energy *energy);
/* Whether a part of the joules is an estimate and no measurement. */
bool gw_energy_is_estimate(const gw_energy *energy);

#endif
