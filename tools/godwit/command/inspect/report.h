/* What `godwit inspect` finds out about one checkpoint: which of its chunks are here and intact, who has
 * the others, and the norms of its tensors as far as the chunks here allow. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_REPORT_H
#define GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_REPORT_H

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "tools/godwit/command/inspect/others.h"

typedef enum gw_inspect_status {
    GW_CHUNK_HELD = 1, /* it is here and intact */
    GW_CHUNK_OTHERS,   /* it is not here, and another peer says that it has it */
    GW_CHUNK_MISSING,  /* it is not here, and no peer that was asked has it, or none was asked */
    GW_CHUNK_DAMAGED
} gw_inspect_status;

typedef struct gw_inspect_norm {
    double norm;     /* Euclidean, over all elements; meaningless while chunks are missing */
    double last;     /* the value of the last element; likewise */
    uint32_t chunks; /* chunks that hold parts of the tensor */
    uint32_t absent; /* those of them that are not here, or damaged */
    uint32_t others; /* those of the absent ones that other peers have, or may have */
} gw_inspect_norm;

typedef struct gw_inspect_report {
    const gw_manifest *manifest; /* the caller's */
    uint8_t *status;             /* a gw_inspect_status for each chunk */
    uint32_t held, others, missing, damaged;
    const gw_inspect_others *from; /* the caller's; NULL = unknown */
    gw_err why;                    /* error of the first damaged chunk */
    gw_inspect_norm *norms;        /* one for each tensor */
    char *command; /* by which the job was last started in the directory; NULL = not known; owned */
} gw_inspect_report;

/* Reads and verifies every chunk of the manifest that `store` (opened to look) has; with NULL none is
 * here. Fails only when memory runs out. On success the caller calls gw_inspect_report_free. */
bool gw_inspect_collect(const gw_manifest *manifest, gw_store *store, gw_inspect_report *report, gw_err *err);
/* Notes who has the chunks that are not here. `others` must outlive the report. */
void gw_inspect_note_others(gw_inspect_report *report, const gw_inspect_others *others);
/* The first holder of a chunk, or NULL. */
const gw_service_holder *gw_inspect_holder(const gw_inspect_report *report, uint32_t chunk);
/* Whether a tensor is a result that a job keeps in its state: one F64. */
bool gw_inspect_is_result(const gw_tensor *tensor);
/* Reads the results that are not here from the peers that have them, as far as they answer. */
void gw_inspect_fetch_results(gw_inspect_report *report, gw_client *client, gw_inspect_others *others);
void gw_inspect_report_free(gw_inspect_report *report);

/* Returns how many chunks of a manifest are in the store, by their names and sizes alone, without reading
 * them. */
uint32_t gw_inspect_count_held(const gw_manifest *manifest, gw_store *store);

#endif
