#include "net/collective/reduce.h"

#include "core/base/assert.h"
#include "core/rng.h"

#include <string.h>

uint64_t gw_sum_bytes(gw_sum_type type) {
    return type == GW_SUM_I64 ? 8 : 4;
}

uint64_t gw_checksum_end(const gw_checksum *checksum) {
    uint64_t sums[(sizeof checksum->plain + sizeof checksum->partial) / sizeof(uint64_t)];
    memcpy(sums, &checksum->plain, sizeof checksum->plain);
    memcpy(sums + sizeof checksum->plain / sizeof *sums, &checksum->partial, sizeof checksum->partial);
    uint64_t end = gw_mix64(checksum->values);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) end = gw_mix64(end ^ sums[i]);
    return end;
}

/* Element by element, before and after whole rows. */

static void take_value(gw_checksum *checksum, uint32_t value) {
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

static void take_element(gw_checksum *checksum, gw_sum_type type, uint64_t element) {
    take_value(checksum, (uint32_t)element);
    if (type == GW_SUM_I64) take_value(checksum, (uint32_t)(element >> 32));
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

/* Row by row. */

/* Makes the compiler take the vector from its register from here on, and not read it from memory again. */
#if defined(__x86_64__)
#define IN_REGISTER(vector) __asm__("" : "+x"(vector))
#else
#define IN_REGISTER(vector) __asm__("" : "+w"(vector))
#endif

#define ROWS(function) function##_plain
#define ROWS_TARGET
#define ROWS_WIDTH 16
#include "net/collective/reduce_rows.inc"

#if defined(__x86_64__)
#define ROWS(function) function##_avx2
#define ROWS_TARGET    __attribute__((target("avx2")))
#define ROWS_WIDTH     32
#include "net/collective/reduce_rows.inc"

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2");
}
#define CHOSEN(function) (has_avx2() ? function##_avx2 : function##_plain)
#else
#define CHOSEN(function) function##_plain
#endif

/* Any number of elements. */

/* How many bytes come before the next whole row begins. */
static uint64_t before_row(const gw_checksum *checksum, uint64_t bytes) {
    uint64_t over = checksum->values * sizeof(uint32_t) % GW_CHECKSUM_ROW;
    uint64_t head = over == 0 ? 0 : GW_CHECKSUM_ROW - over;
    return head < bytes ? head : bytes;
}

static void take_values(gw_checksum *checksum, const uint8_t *at, uint64_t bytes) {
    uint32_t value;
    for (uint64_t i = 0; i < bytes; i += sizeof value) {
        memcpy(&value, at + i, sizeof value);
        take_value(checksum, value);
    }
}

void gw_checksum_add(gw_checksum *checksum, const void *values, uint64_t bytes) {
    GW_ASSERT(bytes % sizeof(uint32_t) == 0);
    uint64_t head = before_row(checksum, bytes), rows = (bytes - head) / GW_CHECKSUM_ROW;
    uint64_t tail = head + rows * GW_CHECKSUM_ROW;
    const uint8_t *at = values;
    take_values(checksum, at, head);
    if (rows > 0) CHOSEN(take)(checksum, at + head, rows);
    checksum->values += rows * GW_CHECKSUM_ROW / sizeof(uint32_t);
    take_values(checksum, at + tail, bytes - tail);
}

void gw_sum_into(gw_sum_type type, void *out, const void *in, const void *theirs, uint64_t count,
                 gw_checksum *before, gw_checksum *after) {
    GW_ASSERT(before->values == after->values);
    uint64_t size = gw_sum_bytes(type), bytes = count * size, head = before_row(after, bytes);
    uint64_t rows = (bytes - head) / GW_CHECKSUM_ROW, tail = head + rows * GW_CHECKSUM_ROW;
    uint8_t *to = out;
    const uint8_t *from = in, *more = theirs;
    for (uint64_t i = 0; i < head; i += size) add_one(type, to + i, from + i, more + i, before, after);
    if (rows > 0) CHOSEN(add)(type, to + head, from + head, more + head, rows, before, after);
    before->values += rows * GW_CHECKSUM_ROW / sizeof(uint32_t);
    after->values = before->values;
    for (uint64_t i = tail; i < bytes; i += size) add_one(type, to + i, from + i, more + i, before, after);
}
