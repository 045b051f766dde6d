#include "core/vector/sum.h"

#include "core/base/assert.h"
#include "core/vector/inside.h"

#include <string.h>

uint64_t gw_sum_bytes(gw_sum_type type) {
    return type == GW_SUM_I64 ? 8 : 4;
}

/* Element by element, before and after whole lines. */

static void take_element(gw_checksum *checksum, gw_sum_type type, uint64_t element) {
    gw_checksum_take_value(checksum, (uint32_t)element);
    if (type == GW_SUM_I64) gw_checksum_take_value(checksum, (uint32_t)(element >> 32));
}

/* Reads an element exactly once, because faulty memory may give another value the next time. A float is the
 * lower half of the result. */
static uint64_t read_once(gw_sum_type type, const void *from) {
    uint64_t element = 0;
    if (type == GW_SUM_I64)
        memcpy(&element, from, sizeof(int64_t));
    else
        memcpy(&element, from, sizeof(float));
    __asm__("" : "+r"(element));
    return element;
}

static float as_float(uint64_t element) {
    uint32_t bits = (uint32_t)element;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t added_up(gw_sum_type type, uint64_t a, uint64_t b) {
    if (type == GW_SUM_I64) return a + b;
    float sum = as_float(a) + as_float(b);
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return bits;
}

static void add_one(gw_sum_type type, void *out, const void *in, const void *theirs, gw_checksum *before,
                    gw_checksum *after) {
    uint64_t a = read_once(type, theirs);
    take_element(before, type, a);
    a = added_up(type, a, read_once(type, in));
    take_element(after, type, a);
    memcpy(out, &a, gw_sum_bytes(type)); /* little-endian */
}

void gw_sum_into(gw_sum_type type, void *out, const void *in, const void *theirs, uint64_t count,
                 gw_checksum *before, gw_checksum *after) {
    GW_ASSERT(before->values == after->values);
    uint64_t size = gw_sum_bytes(type), bytes = count * size, head = gw_checksum_before_row(after, bytes);
    uint64_t lines = (bytes - head) / GW_VECTOR_LINE, tail = head + lines * GW_VECTOR_LINE;
    uint8_t *to = out;
    const uint8_t *from = in, *more = theirs;
    for (uint64_t i = 0; i < head; i += size) add_one(type, to + i, from + i, more + i, before, after);
    if (lines > 0)
        gw_vector_path_best()->add(type, to + head, from + head, more + head, lines, before, after);
    before->values += lines * GW_VECTOR_LINE / sizeof(uint32_t);
    after->values = before->values;
    for (uint64_t i = tail; i < bytes; i += size) add_one(type, to + i, from + i, more + i, before, after);
}
