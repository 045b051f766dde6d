/* The payload of the job's shards on this peer: holds the blocks that the view places here
 * (core/shard/holders.h), brings others for the shards that it computes, and fetches ahead of the workers.
 *
 * A block that is needed and not here is read from a holder; when no holder gives it, from one of the view
 * before; and then written by the job. So what dies or moves costs time, never a byte of the result.
 *
 * Memory: the blocks held (and, for a while after a view change, those held before it, for the others to
 * copy), and at most two blocks a worker that are not: one being computed, one ahead.
 *
 * Threads: `control` calls come from the loop's thread. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_PAYLOAD_H
#define GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_PAYLOAD_H

#include "core/base/set.h"
#include "core/godwit.h"
#include "core/record/view.h"
#include "tools/godwit/work/payload/read.h"

/* What its own threads are called (tools/godwit/watch/stacks.h): they bring blocks, and so may be in the
 * job's code. */
#define GW_PAYLOAD_THREADS "gw-payload"

typedef struct gw_payloads gw_payloads;

/* What it needs of the world: the way to others, the slots' region, which comes and goes and is another each
 * time, and the index, which stands (0 at first). From the loop's thread and others. */
typedef struct gw_payload_world {
    gw_payload_way way;
    bool (*share)(void *context, const void *slots, uint64_t bytes, gw_err *err);
    void (*unshare)(void *context);
    void (*publish)(void *context, uint32_t shard, uint64_t entry);
} gw_payload_world;

typedef struct gw_payloads_options {
    const gw_job_type *type;
    void *job; /* outlives it */
    gw_payload_plan plan;
    gw_payload_world world;
    gw_peer_id self;
    uint32_t workers;
    bool ahead;        /* fetch ahead of the workers */
    uint64_t spare_ns; /* how long after a view change the blocks of the former view are kept */
} gw_payloads_options;

typedef struct gw_payload_counts {
    uint64_t local_bytes;  /* of blocks that shards found here */
    uint64_t read_bytes;   /* read from other peers */
    uint64_t reads_failed; /* attempts to read a block from a peer that ended otherwise */
    uint64_t written;      /* blocks written by the job */
    uint64_t waited_ns;    /* that workers waited for payload, all together */
} gw_payload_counts;

gw_payloads *gw_payloads_open(const gw_payloads_options *options, gw_err *err);
/* Ends its threads, while `share` and `unshare` still work and after every read has ended or been abandoned
 * (a freeze comes before both). False when one is in the job's code for longer than `patience_ns`: then this
 * cannot be closed, and what it uses must stay as long as the process. NULL is allowed. */
bool gw_payloads_end(gw_payloads *payloads, uint64_t patience_ns);
/* After the workers have ended. NULL is allowed. */
void gw_payloads_close(gw_payloads *payloads);

/* Control. The view is over: what is being read is given up. The reads themselves are abandoned by the
 * caller, afterwards. NULL is allowed. */
void gw_payloads_freeze(gw_payloads *payloads);
/* Control, with the fence closed. This view's placement from now on. */
void gw_payloads_install(gw_payloads *payloads, const gw_view *view);
/* Control. The positions of a deal of `step` among the view's members (core/shard/holders.h), *count of them;
 * the caller's to free. */
uint32_t *gw_payloads_order(gw_payloads *payloads, uint64_t step, const gw_set *list, const uint32_t *cuts,
                            uint32_t *count);

typedef enum gw_payload_end {
    GW_PAYLOAD_HERE = 1, /* *block is it (NULL: this shard has none); to be released */
    GW_PAYLOAD_GIVEN_UP, /* the view ended */
    GW_PAYLOAD_LOST,     /* nobody has it, and the job failed to write it: *err */
} gw_payload_end;

/* Any thread, and quick: `shard` has been claimed, and will be taken at once. The shards next[0..count) are
 * unclaimed and will probably be taken after it, by whichever worker: as many as there are workers are
 * fetched ahead, which replaces what was said before. Calls must come in the order of the claims: a block
 * that is said to come after it has been taken would be read again. */
void gw_payloads_expect(gw_payloads *payloads, uint32_t shard, const uint32_t *next, uint32_t count);
/* Any thread that may wait: a worker, before it computes `shard`. */
gw_payload_end gw_payloads_take(gw_payloads *payloads, uint32_t shard, const void **block, gw_err *err);
void gw_payloads_release(gw_payloads *payloads, uint32_t shard, const void *block);

/* Any thread. */
gw_payload_counts gw_payloads_count(gw_payloads *payloads);
/* Any thread: when a piece of any block arrived last from another peer (gw_now_ns; 0: none has). NULL is
 * allowed. */
uint64_t gw_payloads_landed_ns(const gw_payloads *payloads);

#endif
