/* The outputs of a map's child on the disk (outputs.h): its own file, and copies of those of its siblings, `outputs.ID` with
 * the id of the member in digits, byte by byte the same. A thread flushes the own file, and another one fetches from other
 * nodes, by the member's door.
 *
 * Thread: the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_CHILD_COPIER_H
#define GODWIT_TOOLS_GODWIT_MAP_CHILD_COPIER_H

#include "core/flock/record.h"
#include "core/map/copies.h"
#include "net/loop/loop.h"
#include "tools/godwit/map/store.h"

typedef struct gw_copier gw_copier;

typedef struct gw_copier_events {
    void *context;
    /* The first `bytes` of the own file are on the disk. */
    void (*flushed)(void *context, uint64_t bytes);
    /* The first `bytes` of a member's file are on this disk. */
    void (*copied)(void *context, const gw_peer_id *whose, uint64_t bytes);
    /* It could not be fetched; a copied() may have come before. */
    void (*missed)(void *context, const gw_peer_id *whose);
    /* The disk takes no writes: the child has to end. */
    void (*failed)(void *context, const gw_err *err);
} gw_copier_events;

/* Opens the own file in `folder`, the job's, of the member in `directory`; both names are borrowed. NULL on failure. */
gw_copier *gw_copier_open(gw_loop *loop, const char *folder, const char *directory,
                          const gw_job_record_id *job, const gw_copier_events *events, gw_err *err);
/* Begins: what is on the disk from an earlier life is told. */
bool gw_copier_begin(gw_copier *copier, gw_err *err);
/* Ends what is under way, for `patience_ns` at most. False: it does not end, and the process must end as it is. NULL is
 * allowed. */
bool gw_copier_close(gw_copier *copier, uint64_t patience_ns);

/* Adds what a task has written to the own file, and has it flushed. *end is where it ends there. Fails with GW_E_IO. */
bool gw_copier_add(gw_copier *copier, gw_map_store *store, uint32_t task, uint32_t attempt,
                   const gw_map_written *written, uint64_t *end, gw_err *err);

/* Copies a part of a file, unless another one is being copied. */
void gw_copier_copy(gw_copier *copier, const gw_map_copies_errand *errand);
bool gw_copier_is_copying(const gw_copier *copier);

#endif
