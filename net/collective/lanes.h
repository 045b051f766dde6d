/* How many rails large sums are shared among, where links have more than one: what has proved fastest.
 *
 * More rails are more threads, which pay where cores are idle and the network is faster than one of them. Nobody can tell
 * that beforehand, so two numbers are compared now and then: sums are made with either in turns, and the medians decide.
 * More rails have to be 5 % faster to be used, and fewer are used if they are no slower. Comparisons get rarer while they
 * change nothing, or take back what the last one has changed.
 *
 * Pure. Thread: one at a time. */
#ifndef GODWIT_NET_COLLECTIVE_LANES_H
#define GODWIT_NET_COLLECTIVE_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_LANES_SUMS = 7 /* with either number, in one comparison */ };

typedef struct gw_lanes {
    uint32_t most;        /* the rails that there are */
    uint32_t best;        /* how many are used */
    uint32_t before;      /* how many were, before that changed the last time; 0: it has not */
    uint32_t trial;       /* how many are compared with that; 0: no comparison is under way */
    uint32_t rest, pause; /* the sums until the next comparison begins, and how many that were this time */
    bool down;            /* the next comparison is with fewer */
    uint32_t counts[2];   /* the sums that were measured: with `best`, with `trial` */
    uint32_t others;      /* sums in a row that had another number than was chosen, as others have fewer */
    double ns[2][GW_LANES_SUMS]; /* of an element */
} gw_lanes;

/* Begins with one rail of `most`. */
gw_lanes gw_lanes_begin(uint32_t most);
/* The number for the next sum. */
uint32_t gw_lanes_choose(const gw_lanes *lanes);
/* Notes that a sum with so many rails took so long. Returns whether `best` has changed. */
bool gw_lanes_learn(gw_lanes *lanes, uint32_t used, uint64_t elements, uint64_t ns);

#endif
