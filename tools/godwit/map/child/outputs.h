/* What the tasks of a map's child on a flock have written: the file `outputs` of the job's folder, to which each attempt
 * that has ended adds a frame, before its row is made durable.
 *
 * Bytes (core/base/wire.h): frames, each: "GWMO" | task u32 | attempt u32 | bytes of standard output u64 | bytes of
 * standard error u64 | bytes of files that are brought back (tools/godwit/map/files.h) u64 | all three. `task` is a position in the list of tasks.
 *
 * One thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_CHILD_OUTPUTS_H
#define GODWIT_TOOLS_GODWIT_MAP_CHILD_OUTPUTS_H

#include "tools/godwit/map/store.h"

#define GW_OUTPUTS_NAME "outputs"

enum { GW_OUTPUTS_HEAD_BYTES = 36 };

typedef struct gw_outputs_head {
    uint32_t task, attempt;
    uint64_t output, errors, files; /* bytes */
} gw_outputs_head;

/* Reads the head of a frame. False: it is none. */
bool gw_outputs_read_head(const void *bytes, gw_outputs_head *head);

/* Opens the file in `folder` to add to it, without what a crash has torn off its end. Returns the descriptor, or -1. */
int gw_outputs_open(const char *folder, gw_err *err);
/* Adds a frame. Fails with GW_E_IO. */
bool gw_outputs_add(int fd, gw_map_store *store, uint32_t task, uint32_t attempt,
                    const gw_map_written *written, gw_err *err);

#endif
