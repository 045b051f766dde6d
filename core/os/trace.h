/* A recorder of what the threads of a peer do and when, for `godwit trace`. Each thread that records has a
 * ring of its own, which only it writes; readers copy from the rings without a lock, and count what they come
 * too late for. While nobody reads, a place that records costs one relaxed load and a branch that is
 * predicted.
 *
 * A record is a span of time with a kind and its numbers. A span is recorded at its end. The kinds and the
 * meaning of their numbers are a format that peers send to other programs (GW_TRACE_VERSION): a number is
 * never given another meaning.
 *
 * Threads: any. The rings stay until the process ends: GW_TRACE_THREADS of them at the most, of
 * GW_TRACE_RING_BYTES each. */
#ifndef GODWIT_CORE_OS_TRACE_H
#define GODWIT_CORE_OS_TRACE_H

#include "core/os/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_TRACE_VERSION = 1, /* of the kinds and of gw_trace_record */
    GW_TRACE_THREADS = 192,
    GW_TRACE_RING = 8192, /* records of a ring; a power of two */
    GW_TRACE_THREAD_TEXT = 16,
    GW_TRACE_WAIT_NS = 5000, /* no wait is shorter */
};

/* Behind each kind stand the numbers of its record: a, b and c, where they mean something. An instant is a
 * span of no length. */
typedef enum gw_trace_kind {
    /* Threads of workers. */
    GW_TRACE_SHARD = 1, /* a: shard; b: step; c: gw_trace_shard_end. A shard is computed */
    GW_TRACE_PAYLOAD,   /* a: shard; b: step. A worker waits for the payload of a shard */
    GW_TRACE_UNITS,     /* a: units; c: gw_unit_work. A worker applies or hashes units of the state */

    /* The compute thread. */
    GW_TRACE_REDUCE,  /* a: members; b: step; c: attempt. The sums of a step, from the brain's request on */
    GW_TRACE_GATHER,  /* b: step. It waits for data links to all members */
    GW_TRACE_PREPARE, /* b: step. The device prepares its sums */
    GW_TRACE_BUCKET,  /* a: members; b: step; c: attempt << 2 | bucket. From this peer's entry into an
                         all-reduce until its end */
    GW_TRACE_CHECK,   /* b: step. The device checks the sums of all */
    GW_TRACE_APPLY,   /* b: step. The next state takes the place of the present one */
    GW_TRACE_STAGED,  /* b: step. An apply waits for the copy of the state that a checkpoint takes */
    GW_TRACE_COMMIT,  /* b: step. The job's effects of a step */
    GW_TRACE_PROBE,   /* a: shard; b: step. A disputed shard is computed once more */
    GW_TRACE_LOOK,    /* b: step. The bits of the state are compared with its fingerprint */
    GW_TRACE_LOAD,    /* b: step. A state is loaded */

    /* The threads of data links. */
    GW_TRACE_PART,  /* a: KiB sent; b: step; c: rail << 3 | bucket << 1 | ring. A part of an all-reduce, and
                       whether it goes round a ring or by recursive doubling */
    GW_TRACE_ENTER, /* b: step. The beginning of a part of a ring: not all members have entered */
    GW_TRACE_HOP,   /* a: index of the message; b: bytes. A message of a part arrives and is added */

    /* The checkpoint writer. */
    GW_TRACE_STAGE,    /* a: chunk; b: step. A chunk of the state is copied */
    GW_TRACE_HASH,     /* a: chunks; b: bytes */
    GW_TRACE_WRITE,    /* a: chunks; b: bytes that were new. Chunks go to the disk */
    GW_TRACE_MANIFEST, /* b: bytes of the manifest */
    GW_TRACE_RETAIN,   /* Old checkpoints are deleted. */

    /* The loop's thread. */
    GW_TRACE_STEP,    /* a: shards; b: step. An instant: the step begins */
    GW_TRACE_DEAL,    /* b: step. An instant: shards are dealt */
    GW_TRACE_SEALED,  /* b: step. An instant: this peer claims no more, and no shard runs */
    GW_TRACE_STEAL,   /* a: shards; b: the victim, as gw_trace_peer has it. From the swap of its word on */
    GW_TRACE_MISS,    /* b: the victim. A swap that took nothing */
    GW_TRACE_LOOK_AT, /* b: a peer. A thief reads its word */
    GW_TRACE_FREEZE,  /* b: epoch. From the brain's request on until nothing is computed or summed for it */
    GW_TRACE_VIEW,    /* a: members; b: epoch. A change of view, since its cause was known */
    GW_TRACE_SAVE,    /* a: chunks; b: step. This peer's chunks of a checkpoint, until they are stored */
    GW_TRACE_CHECKPOINT, /* b: step. An instant: a checkpoint is complete */
    GW_TRACE_ALIVE,      /* b: a peer. An instant: it was met */
    GW_TRACE_DEAD,       /* b: a peer. An instant: it died */
    GW_TRACE_LEFT,       /* b: a peer. An instant: it left */
    GW_TRACE_REPAIR,     /* a: shards that are dealt again; b: step. An instant */

    /* The threads of data links. */
    GW_TRACE_PACK,  /* a: index of the message; b: bytes. What a message of a part sends is packed */
    GW_TRACE_KINDS, /* no kind: their number */
} gw_trace_kind;

/* How a shard ended. */
typedef enum gw_trace_shard_end {
    GW_TRACE_SHARD_HELD,    /* it was added */
    GW_TRACE_SHARD_DROPPED, /* nobody needed it any more */
    GW_TRACE_SHARD_FAILED,
    GW_TRACE_SHARD_AGAIN, /* it was computed to compare its bits */
    GW_TRACE_SHARD_RUNS,  /* it has not ended */
} gw_trace_shard_end;

typedef struct gw_trace_record {
    uint64_t begin_ns, end_ns; /* gw_now_ns */
    uint64_t b;
    uint32_t a;
    uint16_t c;
    uint16_t kind; /* gw_trace_kind; a reader of another version may not know it */
} gw_trace_record;

#define GW_TRACE_RING_BYTES (GW_TRACE_RING * sizeof(gw_trace_record))

/* The number of readers; only this header and core/os/trace.c use it. */
extern _Atomic uint32_t gw_trace_readers;

/* Whether somebody reads. */
static inline bool gw_trace_is_on(void) {
    return __builtin_expect(atomic_load_explicit(&gw_trace_readers, memory_order_relaxed) != 0, 0);
}

/* Adds a record to the ring of the calling thread. A thread without a ring, as there are too many, loses it.
 * Signal handlers must not call it. */
void gw_trace_add(gw_trace_kind kind, uint64_t begin_ns, uint64_t end_ns, uint32_t a, uint64_t b, uint32_t c);

/* The begin of a span: the time, or 0 while nobody reads. */
static inline uint64_t gw_trace_begin(void) {
    return gw_trace_is_on() ? gw_now_ns() : 0;
}

/* The end of a span, which begin_ns began; 0: it is not recorded. */
static inline void gw_trace_end(gw_trace_kind kind, uint64_t begin_ns, uint32_t a, uint64_t b, uint32_t c) {
    if (gw_trace_is_on() && begin_ns != 0) gw_trace_add(kind, begin_ns, gw_now_ns(), a, b, c);
}

/* The end of a wait, which is not recorded where there was nothing to wait for. */
static inline void gw_trace_waited(gw_trace_kind kind, uint64_t begin_ns, uint32_t a, uint64_t b) {
    if (!gw_trace_is_on() || begin_ns == 0) return;
    uint64_t now_ns = gw_now_ns();
    if (now_ns - begin_ns >= GW_TRACE_WAIT_NS) gw_trace_add(kind, begin_ns, now_ns, a, b, 0);
}

/* An instant. */
static inline void gw_trace_mark(gw_trace_kind kind, uint32_t a, uint64_t b) {
    if (!gw_trace_is_on()) return;
    uint64_t now_ns = gw_now_ns();
    gw_trace_add(kind, now_ns, now_ns, a, b, 0);
}

/* The first eight bytes of the id of a peer, as records name peers. */
uint64_t gw_trace_peer(const uint8_t id[8]);

/* A thread that records, as readers see it. */
typedef struct gw_trace_thread {
    uint32_t number; /* of its ring; below GW_TRACE_THREADS */
    char name[GW_TRACE_THREAD_TEXT];
} gw_trace_thread;

/* Where a reader is. The reader owns it; one thread at a time uses it. */
typedef struct gw_trace_cursor {
    uint64_t next[GW_TRACE_THREADS]; /* by ring, the number of the next record */
    uint64_t lost;                   /* records that were overwritten before this reader came */
} gw_trace_cursor;

/* Begins to read: from here on threads record. */
void gw_trace_open(gw_trace_cursor *cursor);
/* Ends it; with the last reader the threads cease to record. */
void gw_trace_close(gw_trace_cursor *cursor);

/* Lists the threads that have rings, of which some may have ended, and returns how many. A ring changes its
 * thread only while nobody reads. */
uint32_t gw_trace_list(gw_trace_thread list[GW_TRACE_THREADS]);

/* Copies at most `most` records of a ring that have been added since the last call, the oldest first. Returns
 * how many. What was overwritten meanwhile is counted in `lost`. */
uint32_t gw_trace_read(gw_trace_cursor *cursor, uint32_t number, gw_trace_record *records, uint32_t most);

/* Records that were lost as there are more threads than rings. */
uint64_t gw_trace_homeless(void);

#endif
