/* Memory that this peer lends: for as long as a loan lasts, others may READ it with a key that they were
 * told.
 *
 * Answers are what a lookup has found (net/data/provider.h). They are registered for the loan alone, and
 * given back to the provider with it: the bytes cannot go away under a reader.
 *
 * Parts of data regions are registered a slice at a time, when the first part of one is lent, and stay so
 * until the region is removed: the region's owner says how long its memory lives, so this is where
 * registrations can be kept. Slices that nobody reads are let go, the least recently lent first, when more
 * would be kept than is allowed, or the process may lock no more memory.
 *
 * Data regions belong to a view, answers to none. Nobody is asked to give a part of a region back before the
 * fence moves: its slice is deregistered, and who still reads it is refused by the device (nothing happens to
 * anybody; the rails say what is wrong). Its key is not given out again soon, should the device use it anew.
 * Slices that are not lent keep their keys: whoever once knew them
 * keeps to what it was lent, as whoever holds the cluster's key is trusted to.
 *
 * Any thread; registering and deregistering wait for the kernel. */
#ifndef GODWIT_NET_RDMA_LOANS_H
#define GODWIT_NET_RDMA_LOANS_H

#include "net/data/provider.h"
#include "net/rdma/memory.h"

enum {
    GW_RDMA_PART_BYTES = 4 << 20, /* of a region, most that is lent at once; never over a multiple of this */
    GW_RDMA_SLICE_BYTES = 16 << 20, /* a multiple of it */
};

/* Most that is registered, in bytes. */
typedef struct gw_rdma_loans_limits {
    uint64_t kept;    /* of regions */
    uint64_t answers; /* one alone may be larger */
} gw_rdma_loans_limits;

typedef struct gw_rdma_loans gw_rdma_loans;

typedef struct gw_rdma_loan {
    uint64_t address, bytes;
    uint32_t rkey;
} gw_rdma_loan;

/* Holds `memory`. NULL: out of memory. */
gw_rdma_loans *gw_rdma_loans_open(gw_rdma_memory *memory, const gw_rdma_loans_limits *limits);
/* All loans have ended. NULL is allowed. */
void gw_rdma_loans_close(gw_rdma_loans *loans);

/* A data region (net/data/transport.h) whose parts may be lent. Without memory to note it down, none are. */
void gw_rdma_loans_add(gw_rdma_loans *loans, uint32_t region, const void *memory, uint64_t bytes);
/* When this returns, READs of it are refused. */
void gw_rdma_loans_remove(gw_rdma_loans *loans, uint32_t region);
/* When this returns, READs of parts of regions that were lent before are refused. */
void gw_rdma_loans_revoke(gw_rdma_loans *loans);

/* NULL: it cannot be lent, and must go by the rails. */
const gw_rdma_loan *gw_rdma_loans_lend_part(gw_rdma_loans *loans, uint32_t region, uint64_t offset,
                                            uint64_t bytes);
/* Takes the lookup, which has found bytes, also on failure. */
const gw_rdma_loan *gw_rdma_loans_lend_answer(gw_rdma_loans *loans, gw_lookup *lookup);
/* The reader is done, or gone and its queue pair destroyed. NULL is allowed. */
void gw_rdma_loans_end(gw_rdma_loans *loans, const gw_rdma_loan *loan);

/* The device was removed, and all loans have ended: lets go of it. Until _take nothing can be lent. */
void gw_rdma_loans_let_go(gw_rdma_loans *loans);
/* Another device's memory, which is held. */
void gw_rdma_loans_take(gw_rdma_loans *loans, gw_rdma_memory *memory);

/* Bytes of answers that are lent, and of regions that are registered. */
void gw_rdma_loans_count(gw_rdma_loans *loans, uint64_t *answers, uint64_t *kept);

#endif
