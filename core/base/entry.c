#include "core/base/entry.h"

#include "core/base/id.h"

#include <string.h>

enum { SUM_BYTES = 8 };

static void checksum(const void *bytes, size_t length, uint8_t sum[SUM_BYTES]) {
    uint8_t hash[16];
    gw_blake2b(bytes, length, hash, sizeof hash);
    memcpy(sum, hash, SUM_BYTES);
}

void gw_entry_seal(uint8_t *entry, uint32_t length) {
    uint8_t sum[SUM_BYTES];
    checksum(entry + GW_ENTRY_HEAD_BYTES, length, sum);
    gw_writer w = gw_writer_on(entry, GW_ENTRY_HEAD_BYTES);
    gw_put_u32(&w, length);
    gw_put_bytes(&w, sum, sizeof sum);
}

gw_entry_found gw_entry_read(gw_reader *r, uint32_t most, const uint8_t **body, uint32_t *length) {
    uint8_t right[SUM_BYTES];
    *length = gw_get_u32(r);
    const uint8_t *sum = gw_get_view(r, SUM_BYTES);
    if (sum == NULL) return GW_ENTRY_TORN;
    if (*length > most) return GW_ENTRY_DAMAGED;
    *body = gw_get_view(r, *length);
    if (*body == NULL) return GW_ENTRY_TORN;
    checksum(*body, *length, right);
    return memcmp(sum, right, sizeof right) == 0 ? GW_ENTRY_WHOLE : GW_ENTRY_DAMAGED;
}
