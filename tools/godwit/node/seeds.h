/* Where the seeds of --join are. A name may come up later, and lead elsewhere after weeks: each is looked up
 * by a thread of its own, as a resolver may take half a minute for one, at once and again and again: each
 * second while somebody waits for it, and each minute in the end. What a name led to holds for as long as the
 * resolver fails.
 *
 * Thread: one, but for what it tells. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_SEEDS_H
#define GODWIT_TOOLS_GODWIT_NODE_SEEDS_H

#include "core/base/err.h"
#include "core/brain/peer.h"

typedef struct gw_seeds gw_seeds;

/* All addresses of all seeds, other ones than were told before; at first than gw_seeds_known has. Called on a
 * thread that looks up, one call at a time, and must not close the seeds. */
typedef void gw_seeds_tell(void *context, const gw_addr *addrs, uint32_t count);

/* The addresses that need no look-up, of `count` well-formed HOST:PORT; returns how many. */
uint32_t gw_seeds_known(char *const *seeds, uint32_t count, gw_addr addrs[GW_MAX_SEEDS]);

/* At most GW_MAX_SEEDS (checked), which are copied. `wait_ns`: for how long somebody waits for them. *opened
 * is the caller's, for gw_seeds_close, and NULL where none is a name. Fails without memory, or without
 * threads. */
bool gw_seeds_open(char *const *seeds, uint32_t count, uint64_t wait_ns, gw_seeds_tell *tell, void *context,
                   gw_seeds **opened, gw_err *err);
/* Nothing is told afterwards. Does not wait for a resolver that does not answer: its thread ends by itself.
 * NULL is allowed. */
void gw_seeds_close(gw_seeds *seeds);

#endif
