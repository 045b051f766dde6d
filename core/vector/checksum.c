#include "core/vector/checksum.h"

#include "core/base/assert.h"
#include "core/base/mix.h"
#include "core/vector/inside.h"

#include <string.h>

uint64_t gw_checksum_end(const gw_checksum *checksum) {
    uint64_t sums[(sizeof checksum->plain + sizeof checksum->partial) / sizeof(uint64_t)];
    memcpy(sums, &checksum->plain, sizeof checksum->plain);
    memcpy(sums + sizeof checksum->plain / sizeof *sums, &checksum->partial, sizeof checksum->partial);
    uint64_t end = gw_mix64(checksum->values);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) end = gw_mix64(end ^ sums[i]);
    return end;
}

void gw_checksum_take_value(gw_checksum *checksum, uint32_t value) {
    uint64_t place = checksum->values++ % (GW_CHECKSUM_ROW / sizeof value), pair = place / 2;
    if (place % 2 == 0) {
        checksum->plain.pairs[pair] += value;
        checksum->partial.pairs[pair] += checksum->plain.pairs[pair];
    } else {
        checksum->plain.pairs[pair] += (uint64_t)value << 32;
        checksum->plain.upper[pair] += value;
        checksum->partial.pairs[pair] += (uint64_t)value << 32; /* the rest of it was added with the pair */
        checksum->partial.upper[pair] += checksum->plain.upper[pair];
    }
}

uint64_t gw_checksum_before_row(const gw_checksum *checksum, uint64_t bytes) {
    uint64_t over = checksum->values * sizeof(uint32_t) % GW_CHECKSUM_ROW;
    uint64_t head = over == 0 ? 0 : GW_CHECKSUM_ROW - over;
    return head < bytes ? head : bytes;
}

static void take_values(gw_checksum *checksum, const uint8_t *at, uint64_t bytes) {
    uint32_t value;
    for (uint64_t i = 0; i < bytes; i += sizeof value) {
        memcpy(&value, at + i, sizeof value);
        gw_checksum_take_value(checksum, value);
    }
}

void gw_checksum_add(gw_checksum *checksum, const void *values, uint64_t bytes) {
    GW_ASSERT(bytes % sizeof(uint32_t) == 0);
    uint64_t head = gw_checksum_before_row(checksum, bytes), lines = (bytes - head) / GW_VECTOR_LINE;
    uint64_t tail = head + lines * GW_VECTOR_LINE;
    const uint8_t *at = values;
    take_values(checksum, at, head);
    if (lines > 0) gw_vector_path_best()->take(checksum, at + head, lines);
    checksum->values += lines * GW_VECTOR_LINE / sizeof(uint32_t);
    take_values(checksum, at + tail, bytes - tail);
}
