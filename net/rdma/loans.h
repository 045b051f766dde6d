/* Memory that this peer lends: while a loan lasts, another peer may READ it with a key that it was told.
 *
 * Answers are the bytes that a lookup has found (net/data/provider.h). They are registered for one loan and
 * given back to the provider at its end, so the bytes stay while they are read.
 *
 * Parts of data regions are registered by slices, when the first part of a slice is lent. A slice stays
 * registered until its region is removed: the region's owner says how long its memory lives, so registrations
 * can be kept here. Slices that nobody reads are released, the least recently lent first, when more would be
 * kept than the limits allow or the process may lock no more memory.
 *
 * Data regions belong to a view, answers do not. A fence revokes loans of parts at once: their slices are
 * deregistered, and the device refuses further READs, which harms nobody; the rails then tell the reader what
 * is wrong. A revoked key is not given out again soon, even if the device assigns it anew. Slices that are
 * not lent keep their keys: a peer that once knew them keeps to what it was lent, as every holder of the
 * cluster's key is trusted to.
 *
 * Any thread. Registering and deregistering wait for the kernel. */
#ifndef GODWIT_NET_RDMA_LOANS_H
#define GODWIT_NET_RDMA_LOANS_H

#include "net/data/provider.h"
#include "net/rdma/memory.h"

enum {
    GW_RDMA_PART_BYTES =
        4 << 20, /* most bytes of a region in one loan, which never crosses a multiple of this */
    GW_RDMA_SLICE_BYTES = 16 << 20, /* a multiple of GW_RDMA_PART_BYTES */
};

/* The most bytes that are registered. */
typedef struct gw_rdma_loans_limits {
    uint64_t kept;    /* slices of regions */
    uint64_t answers; /* answers; a single one may be larger */
} gw_rdma_loans_limits;

typedef struct gw_rdma_loans gw_rdma_loans;

typedef struct gw_rdma_loan {
    uint64_t address, bytes;
    uint32_t rkey;
} gw_rdma_loan;

/* Opens it with nothing lent. Holds `memory`. NULL if out of memory. */
gw_rdma_loans *gw_rdma_loans_open(gw_rdma_memory *memory, const gw_rdma_loans_limits *limits);
/* Closes it. All loans must have ended. NULL is allowed. */
void gw_rdma_loans_close(gw_rdma_loans *loans);

/* Adds a data region (net/data/transport.h), whose parts may be lent from now on. If out of memory, none will
 * be lent. */
void gw_rdma_loans_add(gw_rdma_loans *loans, uint32_t region, const void *memory, uint64_t bytes);
/* Removes a data region. When this returns, READs of it are refused. */
void gw_rdma_loans_remove(gw_rdma_loans *loans, uint32_t region);
/* Revokes the loans of parts of regions. When this returns, READs by them are refused. */
void gw_rdma_loans_revoke(gw_rdma_loans *loans);

/* Lends a part of a region. NULL if it cannot be lent and must go by the rails. */
const gw_rdma_loan *gw_rdma_loans_lend_part(gw_rdma_loans *loans, uint32_t region, uint64_t offset,
                                            uint64_t bytes);
/* Lends the bytes that the lookup has found. Takes the lookup, on failure too. NULL if they cannot be
 * lent. */
const gw_rdma_loan *gw_rdma_loans_lend_answer(gw_rdma_loans *loans, gw_lookup *lookup);
/* Ends a loan: the reader is done, or is gone and its queue pair destroyed. NULL is allowed. */
void gw_rdma_loans_end(gw_rdma_loans *loans, const gw_rdma_loan *loan);

/* Releases the device, which was removed. All loans must have ended. Until gw_rdma_loans_take nothing can be
 * lent. */
void gw_rdma_loans_release(gw_rdma_loans *loans);
/* Takes the memory of another device, and holds it. */
void gw_rdma_loans_take(gw_rdma_loans *loans, gw_rdma_memory *memory);

/* Counts the bytes of answers that are lent, and of regions that are registered. */
void gw_rdma_loans_count(gw_rdma_loans *loans, uint64_t *answers, uint64_t *kept);

#endif
