/* Who exchanges with whom in recursive doubling (net/collective/doubling.c). Pure. */
#ifndef GODWIT_NET_COLLECTIVE_DOUBLING_H
#define GODWIT_NET_COLLECTIVE_DOUBLING_H

#include <stdint.h>

/* m, of 2^m <= members: how often the sums are exchanged. Stage 0 is before that, and m + 1 after it. */
uint32_t gw_doubling_rounds(uint32_t members);
/* The partner of this member in a stage of 0 to m + 1, which has this one as its own; itself: it has none. Of
 * two in stage 0 the even one sends only, and in stage m + 1 the odd one. */
uint32_t gw_doubling_partner(uint32_t members, uint32_t rank, uint32_t stage);

#endif
