#include "tools/godwit/metrics/records.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0x82f63b78U : 0);
        table[i] = value;
    }
}

uint32_t gw_crc32c(const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    uint32_t crc = UINT32_MAX;
    pthread_once(&table_once, make_table);
    for (size_t i = 0; i < count; i++) crc = crc >> 8 ^ table[(crc ^ at[i]) & 0xff];
    return ~crc;
}

/* The checksum of a checksum is no good one, so what files contain is changed. */
static uint32_t masked_crc(const void *bytes, size_t count) {
    uint32_t crc = gw_crc32c(bytes, count);
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

static void put(uint8_t *bytes, uint64_t value, size_t count) {
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *bytes, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

void gw_record_frame(const void *bytes, size_t count, uint8_t head[GW_RECORD_HEAD],
                     uint8_t tail[GW_RECORD_TAIL]) {
    put(head, count, 8);
    put(head + 8, masked_crc(head, 8), 4);
    put(tail, masked_crc(bytes, count), 4);
}

bool gw_records_open(const char *path, gw_records *records, gw_err *err) {
    *records = (gw_records){.in = fopen(path, "re")};
    return records->in != NULL || gw_fail_errno(err, errno, "cannot read %s", path);
}

static bool make_room(gw_records *r, size_t count) {
    if (count <= r->room) return true;
    uint8_t *bytes = realloc(r->bytes, count);
    if (bytes == NULL) return false;
    r->bytes = bytes;
    r->room = count;
    return true;
}

bool gw_records_next(gw_records *r, const uint8_t **bytes, size_t *count) {
    uint8_t head[GW_RECORD_HEAD];
    if (r->damaged) return false;
    size_t got = fread(head, 1, sizeof head, r->in);
    if (got == 0 && feof(r->in)) return false;
    r->damaged = true;
    if (got != sizeof head || get(head + 8, 4) != masked_crc(head, 8)) return false;
    uint64_t length = get(head, 8);
    if (length > GW_RECORD_MOST || !make_room(r, (size_t)length + GW_RECORD_TAIL)) return false;
    *bytes = r->bytes;
    *count = (size_t)length;
    if (fread(r->bytes, 1, *count + GW_RECORD_TAIL, r->in) != *count + GW_RECORD_TAIL) return false;
    r->damaged = get(r->bytes + *count, GW_RECORD_TAIL) != masked_crc(r->bytes, *count);
    return !r->damaged;
}

void gw_records_close(gw_records *records) {
    if (records->in != NULL) fclose(records->in);
    free(records->bytes);
    *records = (gw_records){.in = NULL};
}
