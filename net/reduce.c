#include "net/reduce.h"

#include "core/check.h"
#include "core/rng.h"

#include <string.h>

uint64_t gw_sum_bytes(gw_sum_type type) {
    return type == GW_SUM_I64 ? 8 : 4;
}

gw_checksum gw_checksum_start(gw_sum_type type) {
    GW_CHECK(type == GW_SUM_I64 || type == GW_SUM_F32);
    return (gw_checksum){.type = type};
}

uint64_t gw_checksum_end(const gw_checksum *checksum) {
    uint64_t words[sizeof checksum->sums / sizeof(uint64_t)], end = gw_mix64(checksum->elements);
    memcpy(words, checksum->sums, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) end = gw_mix64(end ^ words[i]);
    return end;
}

/* ---- element by element: before and after whole rows ---- */

/* Of floats the front halves of the words: little-endian. */
static void take_one(gw_checksum *checksum, const void *element) {
    uint64_t size = gw_sum_bytes(checksum->type), at = checksum->elements++ % (GW_CHECKSUM_ROW / size) * size;
    uint8_t *plain = checksum->sums[0] + at, *partial = checksum->sums[1] + at;
    uint64_t x = 0, sum = 0, sums = 0;
    memcpy(&x, element, size);
    memcpy(&sum, plain, size);
    memcpy(&sums, partial, size);
    sum += x;
    sums += sum;
    memcpy(plain, &sum, size);
    memcpy(partial, &sums, size);
}

static void add_one(void *out, const void *in, const void *theirs, gw_checksum *before, gw_checksum *after) {
    uint64_t sum = 0;
    take_one(before, theirs);
    if (after->type == GW_SUM_I64) {
        uint64_t a, b;
        memcpy(&a, theirs, sizeof a);
        memcpy(&b, in, sizeof b);
        sum = a + b;
    } else {
        float a, b;
        memcpy(&a, theirs, sizeof a);
        memcpy(&b, in, sizeof b);
        a += b;
        memcpy(&sum, &a, sizeof a); /* the front of it: little-endian */
    }
    take_one(after, &sum);
    memcpy(out, &sum, gw_sum_bytes(after->type));
}

/* ---- row by row ---- */

#define ROWS(function) function##_plain
#define ROWS_TARGET
#define ROWS_WIDTH 16
#include "net/reduce_rows.inc"

#if defined(__x86_64__)
#define ROWS(function) function##_avx2
#define ROWS_TARGET    __attribute__((target("avx2")))
#define ROWS_WIDTH     32
#include "net/reduce_rows.inc"

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2");
}
#define CHOSEN(function) (has_avx2() ? function##_avx2 : function##_plain)
#else
#define CHOSEN(function) function##_plain
#endif

static void take_rows(gw_checksum *checksum, const uint8_t *elements, uint64_t rows) {
    if (checksum->type == GW_SUM_I64)
        CHOSEN(take_i64)(checksum, elements, rows);
    else
        CHOSEN(take_f32)(checksum, elements, rows);
    checksum->elements += rows * GW_CHECKSUM_ROW / gw_sum_bytes(checksum->type);
}

static void add_rows(uint8_t *out, const uint8_t *in, const uint8_t *theirs, uint64_t rows,
                     gw_checksum *before, gw_checksum *after) {
    if (after->type == GW_SUM_I64)
        CHOSEN(add_i64)(out, in, theirs, rows, before, after);
    else
        CHOSEN(add_f32)(out, in, theirs, rows, before, after);
    before->elements += rows * GW_CHECKSUM_ROW / gw_sum_bytes(after->type);
    after->elements = before->elements;
}

/* ---- any number of elements ---- */

/* How many come before the next whole row begins. */
static uint64_t before_row(const gw_checksum *checksum, uint64_t count) {
    uint64_t row = GW_CHECKSUM_ROW / gw_sum_bytes(checksum->type), over = checksum->elements % row;
    uint64_t head = over == 0 ? 0 : row - over;
    return head < count ? head : count;
}

void gw_checksum_add(gw_checksum *checksum, const void *elements, uint64_t count) {
    uint64_t size = gw_sum_bytes(checksum->type), head = before_row(checksum, count);
    uint64_t rows = (count - head) * size / GW_CHECKSUM_ROW, tail = head + rows * GW_CHECKSUM_ROW / size;
    const uint8_t *at = elements;
    for (uint64_t i = 0; i < head; i++) take_one(checksum, at + i * size);
    if (rows > 0) take_rows(checksum, at + head * size, rows);
    for (uint64_t i = tail; i < count; i++) take_one(checksum, at + i * size);
}

void gw_sum_into(void *out, const void *in, const void *theirs, uint64_t count, gw_checksum *before,
                 gw_checksum *after) {
    GW_CHECK(before->type == after->type && before->elements == after->elements);
    uint64_t size = gw_sum_bytes(after->type), head = before_row(after, count);
    uint64_t rows = (count - head) * size / GW_CHECKSUM_ROW, tail = head + rows * GW_CHECKSUM_ROW / size;
    uint8_t *to = out;
    const uint8_t *from = in, *more = theirs;
    for (uint64_t i = 0; i < head; i++)
        add_one(to + i * size, from + i * size, more + i * size, before, after);
    if (rows > 0) add_rows(to + head * size, from + head * size, more + head * size, rows, before, after);
    for (uint64_t i = tail; i < count; i++)
        add_one(to + i * size, from + i * size, more + i * size, before, after);
}
