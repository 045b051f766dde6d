/* Descriptors that sockets to peers do not take: a peer that has met more of them than its limit allows must
 * still be able to write its disk, and to answer whoever asks how it is. Any thread. */
#ifndef GODWIT_NET_LOOP_RESERVE_H
#define GODWIT_NET_LOOP_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

/* How many are kept free, below the limit that holds at the time; 0 at first. */
void gw_reserve_set(uint32_t count);
/* Whether `fd`, which is new, is one of these. */
bool gw_reserve_holds(int fd);
/* `fd` is new, as from socket() or accept(), or negative where there was none. Takes one of the reserve back:
 * then it is closed, and the result is -1 with errno EMFILE. */
int gw_reserve_spare(int fd);

#endif
