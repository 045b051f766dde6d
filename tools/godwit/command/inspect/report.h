/* What `godwit inspect` finds out about one checkpoint: which of its chunks are here and intact, and the
 * norms of its tensors as far as the chunks here allow. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_REPORT_H
#define GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_REPORT_H

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"

typedef enum gw_inspect_status { GW_CHUNK_HELD = 1, GW_CHUNK_MISSING, GW_CHUNK_DAMAGED } gw_inspect_status;

typedef struct gw_inspect_norm {
    double norm;     /* Euclidean, over all elements; meaningless while chunks are missing */
    uint32_t chunks; /* chunks that hold parts of the tensor */
    uint32_t absent; /* those of them that are missing or damaged */
} gw_inspect_norm;

typedef struct gw_inspect_report {
    const gw_manifest *manifest; /* the caller's */
    uint8_t *status;             /* a gw_inspect_status for each chunk */
    uint32_t held, missing, damaged;
    gw_err why;             /* error of the first damaged chunk */
    gw_inspect_norm *norms; /* one for each tensor */
} gw_inspect_report;

/* Reads and verifies every chunk of the manifest that `store` (opened to look) has; with NULL all chunks
 * are missing. Fails only when memory runs out. On success the caller calls gw_inspect_report_free. */
bool gw_inspect_collect(const gw_manifest *manifest, gw_store *store, gw_inspect_report *report, gw_err *err);
void gw_inspect_report_free(gw_inspect_report *report);

/* Returns how many chunks of a manifest are in the store, by their names and sizes alone, without reading
 * them. */
uint32_t gw_inspect_count_held(const gw_manifest *manifest, gw_store *store);

/* Returns the name of a type: "f32". */
const char *gw_inspect_dtype_name(gw_dtype dtype);

#endif
