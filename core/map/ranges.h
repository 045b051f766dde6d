/* Lists of tasks as bytes (core/base/wire.h), at the end of a message: ranges u32 | first u32, length u32 each. Pure; any
 * thread. */
#ifndef GODWIT_CORE_MAP_RANGES_H
#define GODWIT_CORE_MAP_RANGES_H

#include "core/base/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAP_RANGES = 4096 /* of one list */ };

/* Writes tasks, which rise where they are to take little room. Returns how many of them there is room for in a list. */
uint32_t gw_map_ranges_put(gw_writer *w, const uint32_t *tasks, uint32_t count);

/* Reads a list, with which the message ends; the caller frees it. False: it is malformed, or has a task that is not below
 * `most`, or more than `most`. Running out of memory ends the process. */
bool gw_map_ranges_get(gw_reader *r, uint32_t most, uint32_t **tasks, uint32_t *count);

#endif
