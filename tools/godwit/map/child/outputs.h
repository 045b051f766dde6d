/* What the tasks of a map's child on a flock have written: the file GW_CHILD_OUTPUTS of the job's folder, to which each attempt
 * that has ended adds a frame, before its row is told (core/map/copies.h).
 *
 * Bytes (core/base/wire.h): frames, each: "GWMO" | task u32 | attempt u32 | bytes of standard output u64 | bytes of
 * standard error u64 | bytes of files that are brought back (tools/godwit/map/files.h) u64 | first 8 bytes of the
 * BLAKE2b-128 of what follows | all three. `task` is a position in the list of tasks.
 *
 * One thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_CHILD_OUTPUTS_H
#define GODWIT_TOOLS_GODWIT_MAP_CHILD_OUTPUTS_H

#include "tools/godwit/map/store.h"

#include <sodium.h>

enum { GW_OUTPUTS_HEAD_BYTES = 44, GW_OUTPUTS_SUM_BYTES = 8 };

typedef struct gw_outputs_head {
    uint32_t task, attempt;
    uint64_t output, errors, files; /* bytes */
    uint8_t sum[GW_OUTPUTS_SUM_BYTES];
} gw_outputs_head;

/* Reads the head of a frame. False: it is none. */
bool gw_outputs_read_head(const void *bytes, gw_outputs_head *head);

/* Begins to sum what follows the head of a frame, and ends it. */
void gw_outputs_sum_begin(crypto_generichash_state *sum);
void gw_outputs_sum_end(crypto_generichash_state *sum, uint8_t bytes[GW_OUTPUTS_SUM_BYTES]);

/* Opens the file `name` in `folder`, which is made where there is none, without what a crash has torn off its end. Returns
 * the descriptor, or -1; *end is where the file ends. */
int gw_outputs_open(const char *folder, const char *name, uint64_t *end, gw_err *err);
/* Adds a frame at *end, which is moved behind it. Fails with GW_E_IO. */
bool gw_outputs_add(int fd, uint64_t *end, gw_map_store *store, uint32_t task, uint32_t attempt,
                    const gw_map_written *written, gw_err *err);

#endif
