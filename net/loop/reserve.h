/* File descriptors that sockets to peers may not take. A peer whose connections reach the process's limit
 * must still be able to write to its disk and to answer `godwit status`. Any thread. */
#ifndef GODWIT_NET_LOOP_RESERVE_H
#define GODWIT_NET_LOOP_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

/* Sets how many descriptors are kept free below the limit (RLIMIT_NOFILE) that is in force; initially 0. */
void gw_reserve_set(uint32_t count);
/* Whether `fd`, which was just opened, is one of the reserved descriptors. */
bool gw_reserve_holds(int fd);
/* Takes the result of socket() or accept() and returns it unless it is a reserved descriptor. That one is
 * closed, and the result is -1 with errno EMFILE. */
int gw_reserve_spare(int fd);

#endif
