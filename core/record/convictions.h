/* Convictions: which peers were found to compute or to hold wrong bits (core/README.md, section 5). Every
 * vote carries the voter's set, an installation unites the sets of its voters, and the durable record keeps a
 * conviction until the convicted peer has heard of it, since a peer that is cut off before that may come back
 * with what it has made of its wrong state. A set has at most one conviction a peer, so that the sets of
 * several peers can be united in any order. The functions are pure. */
#ifndef GODWIT_CORE_RECORD_CONVICTIONS_H
#define GODWIT_CORE_RECORD_CONVICTIONS_H

#include "core/base/id.h"
#include "core/base/wire.h"

#include <stdbool.h>

enum { GW_MAX_CONVICTIONS = 256 }; /* if more peers are convicted, the earliest convictions are forgotten */

typedef struct gw_conviction {
    gw_peer_id id;
    uint64_t epoch; /* of the view that found it; the latest, if several did */
    uint64_t step; /* what the peer has of later steps counts for nothing; the lowest, if there are several */
    uint64_t boot; /* the life of the peer that was convicted, the latest */
} gw_conviction;

typedef struct gw_convictions {
    uint32_t count;
    gw_conviction list[GW_MAX_CONVICTIONS];
} gw_convictions;

/* Both return true if the set has changed. */
bool gw_convictions_add(gw_convictions *convictions, const gw_conviction *one);
bool gw_convictions_unite(gw_convictions *into, const gw_convictions *more);
/* The conviction of this peer, or NULL. Valid until the next change of the set. */
const gw_conviction *gw_convictions_of(const gw_convictions *convictions, const gw_peer_id *id);
/* Removes the conviction of a peer; returns whether there was one. */
bool gw_convictions_drop(gw_convictions *convictions, const gw_peer_id *id);

void gw_convictions_put(gw_writer *w, const gw_convictions *convictions);
/* Fails the reader on more than GW_MAX_CONVICTIONS, or on two of one peer. */
void gw_convictions_get(gw_reader *r, gw_convictions *convictions);
enum { GW_CONVICTION_BYTES = 40 }; /* of one conviction as put; 4 bytes precede the list */

/* Checkpoints that a convicted peer has given up, by their roots. They may still be on its disk. */
enum { GW_MAX_GIVEN_UP = 64 };
typedef struct gw_given_up {
    uint32_t count;
    gw_hash roots[GW_MAX_GIVEN_UP];
} gw_given_up;

/* Adds a root; a full list is left as it is. */
void gw_given_up_add(gw_given_up *given_up, const gw_hash *root);
bool gw_given_up_drop(gw_given_up *given_up, const gw_hash *root); /* returns whether it was there */
void gw_given_up_put(gw_writer *w, const gw_given_up *given_up);
/* Fails the reader on more than GW_MAX_GIVEN_UP. */
void gw_given_up_get(gw_reader *r, gw_given_up *given_up);

#endif
