/* The file that keeps the energy of a peer's jobs in its directory, so that the figures of a whole run
 * survive the peer's restarts. A text: the line "godwit-energy 1", and for each job its id and the joules by
 * source:
 *
 *     1f3a...64 digits rapl 81723.5 nvml 1200345
 *
 * Pure. */
#ifndef GODWIT_TOOLS_GODWIT_ENERGY_RECORD_H
#define GODWIT_TOOLS_GODWIT_ENERGY_RECORD_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "tools/godwit/energy/energy.h"

#include <stddef.h>
#include <stdint.h>

enum { GW_ENERGY_JOBS = 16, GW_ENERGY_RECORD_BYTES = 8192 };

typedef struct gw_energy_job {
    gw_hash id;
    double joules[GW_ENERGY_SOURCES];
} gw_energy_job;

/* The jobs that the directory has had, the last one last; of more than there is room for, the last ones. */
typedef struct gw_energy_record {
    uint32_t count;
    gw_energy_job jobs[GW_ENERGY_JOBS];
} gw_energy_record;

/* Returns the job's entry, which becomes the last one; a job that has none gets one of zeros. */
gw_energy_job *gw_energy_record_job(gw_energy_record *record, const gw_hash *id);

/* Writes the text; returns its length. */
size_t gw_energy_record_write(const gw_energy_record *record, char text[GW_ENERGY_RECORD_BYTES]);
/* Reads a text of `length` bytes. Fails with GW_E_INVALID and the number of the line, and leaves a record
 * without jobs. */
bool gw_energy_record_read(const char *text, size_t length, gw_energy_record *record, gw_err *err);

#endif
