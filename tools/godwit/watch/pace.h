/* Notices that a peer has become slow: that it computes for some time at less than half of the speed that is usual
 * for it, while the others do not. Where the shards of all peers take longer, the job has other shards, and no peer
 * is slow. Pure. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_PACE_H
#define GODWIT_TOOLS_GODWIT_WATCH_PACE_H

#include "core/base/id.h"
#include "core/record/view.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GW_PACE_KNOWN = 6,     /* looks after which the speed of a peer counts as known */
    GW_PACE_ROW = 4,       /* looks in a row that change the verdict */
    GW_PACE_LONGEST = 120, /* the usual speed is a mean of the last looks, of about so many */
};
/* The time between two looks. */
#define GW_PACE_LOOK_NS UINT64_C(5000000000)

typedef struct gw_pace_peer {
    gw_peer_id id;
    uint32_t looks, row; /* looks so far; those in a row that speak against the verdict */
    double usual, speed; /* shards a second: the mean while it was not slow; at the last look, 0: not known */
    bool slow;
} gw_pace_peer;

/* Starts as zeros. */
typedef struct gw_pace {
    uint64_t looked_ns;
    uint32_t count;
    gw_pace_peer peers[GW_MAX_MEMBERS];
} gw_pace;

/* One peer at a look: a member of the view, or this peer. */
typedef struct gw_pace_speed {
    gw_peer_id id;
    double speed; /* shards a second while it computes; 0: not known */
} gw_pace_speed;

/* A peer has become slow, or is no longer slow (peer->slow). */
typedef void gw_pace_news(void *context, const gw_pace_peer *peer);

/* Whether it is time to look. */
bool gw_pace_is_due(const gw_pace *pace, uint64_t now_ns);
/* Looks once. Peers that are not among the speeds are forgotten. */
void gw_pace_look(gw_pace *pace, uint64_t now_ns, const gw_pace_speed *speeds, uint32_t count,
                  gw_pace_news *news, void *context);

#endif
