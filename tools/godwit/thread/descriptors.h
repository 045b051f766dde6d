/* The number of files and connections that this process may have open. */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_DESCRIPTORS_H
#define GODWIT_TOOLS_GODWIT_THREAD_DESCRIPTORS_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Descriptors that are kept free for files and for connections of `godwit status`: sockets to peers do not
 * use them. */
enum { GW_DESCRIPTORS_RESERVE = 12 };

/* Raises the soft limit to the hard one, if that is possible. The usual soft limit protects programs that
 * call select(), which this program does not. */
void gw_descriptors_take(void);

/* Estimates the descriptors that each peer of a run of `peers` uses; `open` are open at its start. */
uint64_t gw_descriptors_needed(uint32_t peers, bool http, uint32_t open);

/* Checks the limit for a run that begins with `peers` (1 = as many as come). Fails where it is too low for
 * even one other peer, and logs a warning where it is too low for all of them. From here on some
 * descriptors are kept free (net/loop/reserve.h). */
bool gw_descriptors_check(uint32_t peers, bool http, gw_err *err);

#endif
