/* The payload of the job's shards on this peer. It holds the blocks that the view places here
 * (core/shard/holders.h), reads other blocks for the shards that this peer computes, and fetches ahead of
 * the workers.
 *
 * A block that is needed and not here is read from a holder; when no holder gives it, from a holder of the
 * view before; and at last the job writes it. Thus a death or a move of blocks costs time, never a byte of
 * the result.
 *
 * Memory: the blocks held (and, for a while after a change of view, those held before it, for the others
 * to copy), and at most two other blocks a worker: one for the shard that it computes, one fetched ahead.
 *
 * Threads: `control` calls come from the loop's thread. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_PAYLOAD_H
#define GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_PAYLOAD_H

#include "core/base/set.h"
#include "core/godwit.h"
#include "core/record/view.h"
#include "tools/godwit/work/payload/read.h"

/* The name of its threads (tools/godwit/watch/stacks.h). They fetch blocks, and may be inside the job's
 * code. */
#define GW_PAYLOAD_THREADS "gw-payload"

typedef struct gw_payloads gw_payloads;

/* What it needs of the data links: reads from other peers, the region of the slots, which is shared and
 * withdrawn again and again, and the words of the index, whose region stands throughout and holds zeros at
 * first. Called by any thread. */
typedef struct gw_payload_world {
    gw_payload_way way;
    bool (*share)(void *context, const void *slots, uint64_t bytes, gw_err *err);
    void (*unshare)(void *context);
    void (*publish)(void *context, uint32_t shard, uint64_t entry);
} gw_payload_world;

typedef struct gw_payloads_options {
    const gw_job_type *type;
    void *job; /* must outlive it */
    gw_payload_plan plan;
    gw_payload_world world;
    gw_peer_id self;
    uint32_t workers;
    bool ahead;        /* whether to fetch ahead of the workers */
    uint64_t spare_ns; /* how long after a view change the blocks of the former view are kept */
} gw_payloads_options;

typedef struct gw_payload_counts {
    uint64_t local_bytes;  /* of blocks that shards found here */
    uint64_t read_bytes;   /* read from other peers */
    uint64_t reads_failed; /* number of attempts to read a block from a peer that failed */
    uint64_t written;      /* number of blocks written by the job */
    uint64_t waited_ns;    /* time that workers waited for payload, over all workers */
} gw_payload_counts;

/* Starts the threads that fetch. NULL on failure. */
gw_payloads *gw_payloads_open(const gw_payloads_options *options, gw_err *err);
/* Ends the threads that fetch. The functions of the world must still work, and every read must have ended
 * or been abandoned, after gw_payloads_freeze. False when a thread stays in the job's code for longer than
 * `patience_ns`: then the payloads cannot be closed, and everything they use must live as long as the
 * process. NULL is allowed. */
bool gw_payloads_end(gw_payloads *payloads, uint64_t patience_ns);
/* To be called after the workers have ended. NULL is allowed. */
void gw_payloads_close(gw_payloads *payloads);

/* Control. The view has ended: threads that wait for blocks give up. The caller abandons the reads themselves
 * afterwards. NULL is allowed. */
void gw_payloads_freeze(gw_payloads *payloads);
/* Control, with the fence closed. The placement of this view holds from now on. */
void gw_payloads_install(gw_payloads *payloads, const gw_view *view);
/* Control. Returns the shards at the positions of a deal of `step` among the view's members
 * (core/shard/holders.h), *count of them; the caller frees the list. */
uint32_t *gw_payloads_order(gw_payloads *payloads, uint64_t step, const gw_set *list, const uint32_t *cuts,
                            uint32_t *count);

typedef enum gw_payload_end {
    GW_PAYLOAD_HERE = 1, /* *block has it (NULL: this shard has none); the caller releases it */
    GW_PAYLOAD_GIVEN_UP, /* the view ended */
    GW_PAYLOAD_LOST,     /* no peer has it, and the job failed to write it, as *err says */
} gw_payload_end;

/* Any thread; returns at once. `shard` has been claimed, and its block will be taken next. The shards
 * next[0..count) are unclaimed and will probably be taken after it, by any worker: as many of them as
 * there are workers are fetched ahead, in place of those of the last call. Calls must come in the order of
 * the claims: a block that is announced after it has been taken would be read again. */
void gw_payloads_expect(gw_payloads *payloads, uint32_t shard, const uint32_t *next, uint32_t count);
/* Any thread that may wait: a worker calls it before it computes `shard`. */
gw_payload_end gw_payloads_take(gw_payloads *payloads, uint32_t shard, const void **block, gw_err *err);
/* Any thread. `block` NULL is allowed. */
void gw_payloads_release(gw_payloads *payloads, uint32_t shard, const void *block);

/* Any thread. */
gw_payload_counts gw_payloads_count(gw_payloads *payloads);
/* Any thread: the time (gw_now_ns) at which a piece of any block arrived last from another peer; 0 = none
 * has. NULL is allowed. */
uint64_t gw_payloads_landed_ns(const gw_payloads *payloads);

#endif
