/* The share of a process in the energy of its machine. Counters of energy count the machine, and a process
 * takes the share of it that it has of the time in which the processors computed. The shares of all
 * processes add up to the machine's energy, the idle power included, and peers that run on one machine count
 * nothing twice.
 *
 * Thread: one at a time. */
#ifndef GODWIT_TOOLS_GODWIT_ENERGY_USAGE_H
#define GODWIT_TOOLS_GODWIT_ENERGY_USAGE_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_USAGE_PROCESSES = 256 };

typedef struct gw_energy_usage {
    const char *root; /* the folder with proc, which outlives this; "" for the machine's own */
    bool workers;     /* the processes below this one are its, too */
    bool begun;
    uint64_t busy, own;                /* ticks at the last read */
    uint32_t pids[GW_USAGE_PROCESSES]; /* this process and those below it, as of the last read */
    uint32_t pid_count;
} gw_energy_usage;

/* Reads both; on the first call it only begins. Writes the seconds since the last call in which this
 * process has computed, and those in which the machine has; a machine whose time cannot be read has -1.
 * Returns false if this process's time cannot be read. */
bool gw_energy_usage_read(gw_energy_usage *usage, double *own_s, double *busy_s);

#endif
