/* Who exchanges with whom in recursive doubling (net/collective/doubling.c). Pure. */
#ifndef GODWIT_NET_COLLECTIVE_DOUBLING_H
#define GODWIT_NET_COLLECTIVE_DOUBLING_H

#include <stdint.h>

/* The number m of exchanges: the largest one with 2^m <= members. Stages 1 to m exchange sums; stage 0 comes
 * before them and stage m + 1 after them. */
uint32_t gw_doubling_rounds(uint32_t members);
/* The partner of member `rank` in a stage from 0 to m + 1; `rank` itself if it has none in that stage. In
 * stage 0 only the even one of two partners sends, in stage m + 1 only the odd one. */
uint32_t gw_doubling_partner(uint32_t members, uint32_t rank, uint32_t stage);

#endif
