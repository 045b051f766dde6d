/* The replay filter remembers which numbered packets it has seen, by the sliding window of RFC 6479 (IPsec),
 * one window for each life of a sender. net/secure/packet.h states the rules. Thread: belongs to one thread.
 * Pure. */
#ifndef GODWIT_NET_SECURE_REPLAY_H
#define GODWIT_NET_SECURE_REPLAY_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stddef.h>
#include <stdint.h>

enum { GW_REPLAY_WINDOW = 1024 /* counters of a life that are told apart */ };

typedef struct gw_replay gw_replay;

typedef enum gw_replay_verdict {
    GW_REPLAY_FRESH,
    GW_REPLAY_SEEN,     /* this counter was accepted before, or is the window or more behind the newest */
    GW_REPLAY_OUTDATED, /* a newer boot of this sender is known */
} gw_replay_verdict;

/* Remembers at most `lives` lives; the one not heard for longest is forgotten for a new one. */
gw_replay *gw_replay_open(size_t lives, gw_err *err);
void gw_replay_close(gw_replay *replay);

/* Judges an authentic packet and remembers it if it is fresh. A packet of a newer boot discards the sender's
 * older lives. */
gw_replay_verdict gw_replay_accept(gw_replay *replay, const gw_peer_id *sender, uint64_t boot, uint64_t nonce,
                                   uint64_t counter);

#endif
