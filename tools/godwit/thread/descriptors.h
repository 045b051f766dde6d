/* How many files and connections this process may have open. */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_DESCRIPTORS_H
#define GODWIT_TOOLS_GODWIT_THREAD_DESCRIPTORS_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Descriptors that sockets to peers leave free, for files and for connections of `godwit status`. */
enum { GW_DESCRIPTORS_RESERVE = 12 };

/* Raises the soft limit to the hard one: the usual soft one is there for programs that call select(), which
 * none of this does. Where it cannot be raised, it is as large as it is. */
void gw_descriptors_take(void);

/* About how many descriptors each peer of a run of so many takes; `open` are open at its start. */
uint64_t gw_descriptors_needed(uint32_t peers, bool http, uint32_t open);

/* For a run that begins with `peers` (1: as many as come): false where the limit is too low for any other
 * peer; where it is for some of them, logs a warning. Has some kept free from now on (net/loop/reserve.h). */
bool gw_descriptors_check(uint32_t peers, bool http, gw_err *err);

#endif
