/* The speed at which this core seals and opens records (net/secure/record.h). */
#ifndef GODWIT_TOOLS_BENCH_RECORDS_H
#define GODWIT_TOOLS_BENCH_RECORDS_H

#include "net/secure/record.h"

typedef struct gw_record_speed {
    double seal, open; /* bytes per nanosecond of wall time */
} gw_record_speed;

/* How records are sealed: the algorithm, and the length from which on libcrypto does it (gw_cipher_prefer_libcrypto);
 * 0 = as peers do it. */
typedef struct gw_sealing {
    gw_algorithm algorithm;
    size_t libcrypto_from;
} gw_sealing;

/* Seals and opens `bytes` bytes in records of `record_bytes`, and measures the speed. */
bool gw_record_measure_speed(gw_sealing sealing, uint32_t record_bytes, uint64_t bytes,
                             gw_record_speed *speed, gw_err *err);

#endif
