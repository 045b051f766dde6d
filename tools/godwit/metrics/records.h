/* Files of records in TensorFlow's format TFRecord, which TensorBoard's event files have: each record is its
 * length (8 bytes, little-endian), a checksum of the length, the bytes, and a checksum of these. A checksum
 * is a CRC32C that is rotated and shifted. Source: tensorflow/core/lib/io/record_writer.h.
 *
 * Thread: any; a reader belongs to its caller. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_RECORDS_H
#define GODWIT_TOOLS_GODWIT_METRICS_RECORDS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* CRC32C (Castagnoli) of the bytes. */
uint32_t gw_crc32c(const void *bytes, size_t count);

/* What stands before and after the bytes of a record. */
enum { GW_RECORD_HEAD = 12, GW_RECORD_TAIL = 4 };
void gw_record_frame(const void *bytes, size_t count, uint8_t head[GW_RECORD_HEAD],
                     uint8_t tail[GW_RECORD_TAIL]);

enum { GW_RECORD_MOST = 1 << 24 }; /* bytes of a record that is read; a longer one counts as damaged */

typedef struct gw_records {
    FILE *in;
    uint8_t *bytes; /* of the record that was read last */
    size_t room;
    /* The last record is cut off, or a checksum differs: TensorBoard reads no further either. */
    bool damaged;
} gw_records;

bool gw_records_open(const char *path, gw_records *records, gw_err *err);
/* Reads the next record; the bytes live until the next call. Returns false at the end, at damage, and where
 * memory runs out. */
bool gw_records_next(gw_records *records, const uint8_t **bytes, size_t *count);
void gw_records_close(gw_records *records);

#endif
