/* The file of what the brain persists (GW_ACT_PERSIST): those bytes and a checksum of them. A peer that
 * remembers other votes than it gave must not vote, so a bit that flips has to be noticed. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_RECORD_H
#define GODWIT_TOOLS_GODWIT_NODE_RECORD_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_NODE_RECORD_CHECKSUM = sizeof(gw_hash) }; /* bytes */

/* Writes the checksum of the `length` bytes behind them, where there is room for it. */
void gw_node_record_seal(uint8_t *bytes, size_t length);

/* Of a file's bytes: how many of them are the record's; false: they are not what was sealed. */
bool gw_node_record_open(const uint8_t *bytes, size_t size, size_t *length);

#endif
