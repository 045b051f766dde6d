/* Which peers were found to compute or to hold other bits than the rest: told with every vote, united in
 * every install and kept in the durable record until they have heard it, as one that is cut off before that
 * may come back with what it has made of its state (design section 11). One a peer, so that sets of several
 * peers can be united in any order. Pure. */
#ifndef GODWIT_CORE_RECORD_CONVICTIONS_H
#define GODWIT_CORE_RECORD_CONVICTIONS_H

#include "core/base/id.h"
#include "core/base/wire.h"

#include <stdbool.h>

enum { GW_MAX_CONVICTIONS = 256 }; /* of more peers the earliest are forgotten */

typedef struct gw_conviction {
    gw_peer_id id;
    uint64_t epoch; /* of the view in which it was found so, the latest if it was more than once */
    uint64_t step;  /* what it has of later ones counts for nothing: the lowest if it was more than once */
    uint64_t boot;  /* which of its lives that was, the latest */
} gw_conviction;

typedef struct gw_convictions {
    uint32_t count;
    gw_conviction list[GW_MAX_CONVICTIONS];
} gw_convictions;

/* True when the set has changed. */
bool gw_convictions_add(gw_convictions *convictions, const gw_conviction *one);
bool gw_convictions_unite(gw_convictions *into, const gw_convictions *more);
/* That of this peer, or NULL. Valid until the next change. */
const gw_conviction *gw_convictions_of(const gw_convictions *convictions, const gw_peer_id *id);
/* True when there was one. */
bool gw_convictions_drop(gw_convictions *convictions, const gw_peer_id *id);

void gw_convictions_put(gw_writer *w, const gw_convictions *convictions);
/* Fails the reader on more than GW_MAX_CONVICTIONS, or two of one peer. */
void gw_convictions_get(gw_reader *r, gw_convictions *convictions);
enum { GW_CONVICTION_BYTES = 40 }; /* of one, as put; with 4 before them all */

/* Checkpoints that a convicted peer has given up, and that may be on its disk still. */
enum { GW_MAX_GIVEN_UP = 64 };
typedef struct gw_given_up {
    uint32_t count;
    gw_hash roots[GW_MAX_GIVEN_UP];
} gw_given_up;

/* Of more than there is room for the latest are left out. */
void gw_given_up_add(gw_given_up *given_up, const gw_hash *root);
bool gw_given_up_drop(gw_given_up *given_up, const gw_hash *root); /* true when it was there */
void gw_given_up_put(gw_writer *w, const gw_given_up *given_up);
/* Fails the reader on more than GW_MAX_GIVEN_UP. */
void gw_given_up_get(gw_reader *r, gw_given_up *given_up);

#endif
