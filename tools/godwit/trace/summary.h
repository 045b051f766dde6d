/* Where the time of each peer has gone, from a file that gw_timeline_write has written. The time of a peer is
 * that of its workers: while a worker computes a shard, it computes; otherwise the worker does what its peer
 * does, or waits. */
#ifndef GODWIT_TOOLS_GODWIT_TRACE_SUMMARY_H
#define GODWIT_TOOLS_GODWIT_TRACE_SUMMARY_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum gw_trace_share {
    GW_SHARE_COMPUTE, /* shards */
    GW_SHARE_WAIT,    /* for other members or other workers, for payload, for the copy of a checkpoint */
    GW_SHARE_REDUCE,  /* sums, since all members had entered */
    GW_SHARE_APPLY,   /* the next state */
    GW_SHARE_OTHER,   /* changes of view, loads, effects, and what lies between */
    GW_SHARES,
} gw_trace_share;

enum { GW_SUMMARY_PEERS = 256, GW_SUMMARY_NAME_TEXT = 100, GW_SUMMARY_WHY_TEXT = 200 };

typedef struct gw_summary_peer {
    char name[GW_SUMMARY_NAME_TEXT];
    char why[GW_SUMMARY_WHY_TEXT]; /* why its trace ended early; empty: it did not */
    double seconds;                /* that it was traced */
    uint32_t workers;
    double shares[GW_SHARES]; /* of the time of its workers; their sum is 1, or all are 0 */
    double reduce_s;          /* time in reductions since all members had entered */
    double hidden_s;          /* of it, the time in which a worker of this peer computed */
    double pack_s;            /* of reduce_s, the time in which it packed what a message was to send */
    double pack_hidden_s;     /* of that, the time in which another message arrived */
    uint64_t shards, lost;    /* shards of which some part was computed; records that are missing */
    int64_t offset_ns;        /* of its clock */
    uint64_t error_ns;        /* bound of the offset's error */
} gw_summary_peer;

typedef struct gw_summary {
    gw_summary_peer *peers; /* owned */
    uint32_t count;
} gw_summary;

/* Reads a file's bytes. Fails with GW_E_INVALID if they are no trace of peers, GW_E_LIMIT for too many peers, or
 * GW_E_NOMEM. */
bool gw_summary_read(const void *bytes, size_t count, gw_summary *summary, gw_err *err);
void gw_summary_free(gw_summary *summary);

/* Prints a table for people: a line for each peer, one for all, and what is to be known of the clocks. */
void gw_summary_print(const gw_summary *summary, FILE *out);

#endif
