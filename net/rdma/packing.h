/* Whether exact sums travel packed by RDMA (core/vector/pack.h). They gain where the cards are slower than the cores
 * that would pack: sending and packing overlap, so that a sum takes as long as the slower of the two, and packing
 * halves the bytes. What the slower of two ports carries is known from its speed and width, which both sides have in
 * their cards. It is not probed: a probe would measure what else is on the way, or how busy the other side is at
 * the time, and would have to be made for each pair of peers. */
#ifndef GODWIT_NET_RDMA_PACKING_H
#define GODWIT_NET_RDMA_PACKING_H

#include <stdbool.h>
#include <stdint.h>

/* The Mbit a second of a port, from `active_speed` and `active_width` of its attributes; 0 if one of them is not known
 * here. Pure. */
uint32_t gw_rdma_port_mbits(uint32_t speed, uint32_t width);

/* Measures the Mbit a second of sums, 64 bits an element, that one core of this machine packs and also unpacks and
 * adds, as a member of a ring does. Takes some milliseconds. 0 without memory. Any thread. */
uint32_t gw_rdma_packing_mbits(void);

/* Whether packing is faster than the link: `link` is what the slower port carries, 0 if that is not known, `packing`
 * what a core packs, and each of `rails` rails has one. Pure. */
bool gw_rdma_packs(uint32_t link, uint32_t packing, uint32_t rails);

#endif
