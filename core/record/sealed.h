/* The file that holds what a brain persists (GW_ACT_PERSIST): the record's bytes, followed by a checksum of
 * them. A peer that remembers other votes than it gave must not vote, so a bit that flips has to be noticed.
 * Both functions are pure; any thread may call them. */
#ifndef GODWIT_CORE_RECORD_SEALED_H
#define GODWIT_CORE_RECORD_SEALED_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_RECORD_FILE_CHECKSUM = sizeof(gw_hash) }; /* bytes that the checksum takes */

/* Writes the checksum of the first `length` bytes behind them. The buffer has room for
 * length + GW_RECORD_FILE_CHECKSUM bytes. */
void gw_record_file_seal(uint8_t *bytes, size_t length);

/* Checks the `size` bytes of a file. Returns true and stores in *length how many of them are the record's;
 * returns false if the bytes are not those that were sealed. */
bool gw_record_file_open(const uint8_t *bytes, size_t size, size_t *length);

#endif
