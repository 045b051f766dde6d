/* What `godwit inspect` finds out about one checkpoint: which of its chunks are here and sound, and the norms
 * of its tensors as far as the chunks here tell. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_REPORT_H
#define GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_REPORT_H

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"

typedef enum gw_inspect_status { GW_CHUNK_HELD = 1, GW_CHUNK_MISSING, GW_CHUNK_DAMAGED } gw_inspect_status;

typedef struct gw_inspect_norm {
    double norm;     /* Euclidean, over all elements; meaningless while chunks are missing */
    uint32_t chunks; /* that the tensor lies in */
    uint32_t absent; /* of these not here or damaged */
} gw_inspect_norm;

typedef struct gw_inspect_report {
    const gw_manifest *manifest; /* the caller's */
    uint8_t *status;             /* gw_inspect_status of each chunk */
    uint32_t held, missing, damaged;
    gw_err why;             /* of the first damaged chunk */
    gw_inspect_norm *norms; /* of each tensor */
} gw_inspect_report;

/* Reads and verifies every chunk of the manifest that `store` (opened to look) has; NULL: has none. Fails
 * only for want of memory. The caller frees on success. */
bool gw_inspect_collect(const gw_manifest *manifest, gw_store *store, gw_inspect_report *report, gw_err *err);
void gw_inspect_report_free(gw_inspect_report *report);

/* How many chunks of a manifest are there, by their names and sizes alone; quick. */
uint32_t gw_inspect_count_held(const gw_manifest *manifest, gw_store *store);

/* "f32". */
const char *gw_inspect_dtype_name(gw_dtype dtype);

#endif
