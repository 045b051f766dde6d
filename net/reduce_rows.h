/* Whole rows, by one instruction set: net/reduce.c includes this once for each, with ROWS(function), the
 * function's name there, ROWS_TARGET, the compiler's name for the set or nothing, and ROWS_WIDTH, the bytes
 * of its vectors. The compiler keeps the sums of a row in registers. Unsigned: overflow wraps. */

enum { ROWS(VECTORS) = GW_CHECKSUM_ROW / ROWS_WIDTH };

typedef uint64_t ROWS(i64) __attribute__((vector_size(ROWS_WIDTH)));
typedef uint32_t ROWS(u32) __attribute__((vector_size(ROWS_WIDTH)));
typedef float ROWS(f32) __attribute__((vector_size(ROWS_WIDTH)));

ROWS_TARGET static void ROWS(take_i64)(gw_checksum *checksum, const uint8_t *elements, uint64_t rows) {
    ROWS(i64) sum[ROWS(VECTORS)], sums[ROWS(VECTORS)], x;
    memcpy(sum, checksum->sums[0], sizeof sum);
    memcpy(sums, checksum->sums[1], sizeof sums);
    for (uint64_t row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (size_t v = 0; v < ROWS(VECTORS); v++) {
            memcpy(&x, elements + row * sizeof sum + v * sizeof x, sizeof x);
            sum[v] += x;
            sums[v] += sum[v];
        }
    memcpy(checksum->sums[0], sum, sizeof sum);
    memcpy(checksum->sums[1], sums, sizeof sums);
}

ROWS_TARGET static void ROWS(take_f32)(gw_checksum *checksum, const uint8_t *elements, uint64_t rows) {
    ROWS(u32) sum[ROWS(VECTORS)], sums[ROWS(VECTORS)], x;
    memcpy(sum, checksum->sums[0], sizeof sum);
    memcpy(sums, checksum->sums[1], sizeof sums);
    for (uint64_t row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (size_t v = 0; v < ROWS(VECTORS); v++) {
            memcpy(&x, elements + row * sizeof sum + v * sizeof x, sizeof x);
            sum[v] += x;
            sums[v] += sum[v];
        }
    memcpy(checksum->sums[0], sum, sizeof sum);
    memcpy(checksum->sums[1], sums, sizeof sums);
}

ROWS_TARGET static void ROWS(add_i64)(uint8_t *out, const uint8_t *in, const uint8_t *theirs, uint64_t rows,
                                      gw_checksum *before, gw_checksum *after) {
    ROWS(i64) sum[ROWS(VECTORS)], sums[ROWS(VECTORS)], added[ROWS(VECTORS)], addeds[ROWS(VECTORS)], x, y;
    memcpy(sum, before->sums[0], sizeof sum);
    memcpy(sums, before->sums[1], sizeof sums);
    memcpy(added, after->sums[0], sizeof added);
    memcpy(addeds, after->sums[1], sizeof addeds);
    for (uint64_t row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (size_t v = 0; v < ROWS(VECTORS); v++) {
            uint64_t at = row * sizeof sum + v * sizeof x;
            memcpy(&x, theirs + at, sizeof x);
            memcpy(&y, in + at, sizeof y);
            sum[v] += x;
            sums[v] += sum[v];
            x += y;
            added[v] += x;
            addeds[v] += added[v];
            memcpy(out + at, &x, sizeof x);
        }
    memcpy(before->sums[0], sum, sizeof sum);
    memcpy(before->sums[1], sums, sizeof sums);
    memcpy(after->sums[0], added, sizeof added);
    memcpy(after->sums[1], addeds, sizeof addeds);
}

ROWS_TARGET static void ROWS(add_f32)(uint8_t *out, const uint8_t *in, const uint8_t *theirs, uint64_t rows,
                                      gw_checksum *before, gw_checksum *after) {
    ROWS(u32) sum[ROWS(VECTORS)], sums[ROWS(VECTORS)], added[ROWS(VECTORS)], addeds[ROWS(VECTORS)], bits;
    ROWS(f32) x, y;
    memcpy(sum, before->sums[0], sizeof sum);
    memcpy(sums, before->sums[1], sizeof sums);
    memcpy(added, after->sums[0], sizeof added);
    memcpy(addeds, after->sums[1], sizeof addeds);
    for (uint64_t row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (size_t v = 0; v < ROWS(VECTORS); v++) {
            uint64_t at = row * sizeof sum + v * sizeof x;
            memcpy(&x, theirs + at, sizeof x);
            memcpy(&y, in + at, sizeof y);
            memcpy(&bits, &x, sizeof bits);
            sum[v] += bits;
            sums[v] += sum[v];
            x += y;
            memcpy(&bits, &x, sizeof bits);
            added[v] += bits;
            addeds[v] += added[v];
            memcpy(out + at, &x, sizeof x);
        }
    memcpy(before->sums[0], sum, sizeof sum);
    memcpy(before->sums[1], sums, sizeof sums);
    memcpy(after->sums[0], added, sizeof added);
    memcpy(after->sums[1], addeds, sizeof addeds);
}

#undef ROWS
#undef ROWS_TARGET
#undef ROWS_WIDTH
