/* The addresses of the seeds of --join. A name may get an address later, and another one after weeks:
 * therefore each name is looked up by a thread of its own, because a resolver may take half a minute for one:
 * at once, and then again and again, each second while the peer waits for its seeds, less and less often
 * later, and each minute in the end. While the resolver fails, the last addresses of a name stay valid.
 *
 * The name of a service (dns:NAME:PORT) leads to many peers, which come and go, and among which this peer is
 * itself. What it leads to at first may be this peer alone, so that it is looked up each second while the
 * peer waits for its seeds, whatever was found, and each ten seconds in the end. Where it has more addresses
 * than there is room for, each look-up takes others of them, chosen by chance, so that no part of the service
 * stays unknown to another.
 *
 * A file (file:PATH) has the address of a peer, HOST:PORT, in each line, and is read each second: whoever starts
 * peers writes those that it has started, and this peer finds those that come later. One that is missing or empty
 * leads to no peer yet.
 *
 * Threads: one, except for the callback. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_SEEDS_H
#define GODWIT_TOOLS_GODWIT_NODE_SEEDS_H

#include "core/base/err.h"
#include "core/brain/peer.h"

typedef struct gw_seeds gw_seeds;

/* All addresses of all seeds, when they differ from those of the last call (before the first call: from
 * those of gw_seeds_known). Called on a thread that looks up, one call at a time; it must not close the
 * seeds. */
typedef void gw_seeds_found(void *context, const gw_addr *addrs, uint32_t count);

/* The addresses that need no look-up, of `count` well-formed seeds; returns their number. */
uint32_t gw_seeds_known(char *const *seeds, uint32_t count, gw_addr addrs[GW_MAX_SEEDS]);

/* Starts the look-ups of at most GW_MAX_SEEDS (checked) seeds, which are copied. `wait_ns`: for how long
 * the peer waits for them. *opened is the caller's, for gw_seeds_close, and NULL if no seed is a name.
 * Fails if there is no memory or no thread to be had. */
bool gw_seeds_open(char *const *seeds, uint32_t count, uint64_t wait_ns, gw_seeds_found *found, void *context,
                   gw_seeds **opened, gw_err *err);
/* Ends the look-ups: no callback follows. Does not wait for a resolver that does not answer; its thread
 * ends by itself. NULL is allowed. */
void gw_seeds_close(gw_seeds *seeds);

#endif
