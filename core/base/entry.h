/* Entries of a file to which others are appended: each tells its length and has a checksum, so that what a crash has torn off
 * the end, and what a disk has damaged, is known.
 *
 * Bytes (wire.h): length u32 | the first 8 bytes of the BLAKE2b-128 of the body | body.
 *
 * Pure; any thread. */
#ifndef GODWIT_CORE_BASE_ENTRY_H
#define GODWIT_CORE_BASE_ENTRY_H

#include "core/base/wire.h"

#include <stdint.h>

enum { GW_ENTRY_HEAD_BYTES = 4 + 8 };

/* Writes the head of an entry, whose body of `length` bytes stands behind it already. */
void gw_entry_seal(uint8_t *entry, uint32_t length);

typedef enum gw_entry_found {
    GW_ENTRY_WHOLE,
    GW_ENTRY_TORN,    /* the bytes end before it does */
    GW_ENTRY_DAMAGED, /* its body has another checksum, or more than `most` bytes */
} gw_entry_found;

/* Reads the next entry; *body and *length become its body, which stands in the reader's bytes. */
gw_entry_found gw_entry_read(gw_reader *r, uint32_t most, const uint8_t **body, uint32_t *length);

#endif
