#include "core/state/exact.h"

#include "core/base/assert.h"
#include "core/godwit.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

/* Adding 1.5 * 2^52 to |y| <= 2^51 leaves rint(y) in the low bits of the result's mantissa. */
static const double rounder = 6755399441055744.0;
static const double rounder_range = 2251799813685248.0; /* 2^51 */

static double power_of_two(int exponent) {
    GW_ASSERT(exponent > -1023 && exponent < 1024);
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

gw_exact_format gw_exact_format_of(uint32_t frac_bits, uint32_t shards) {
    GW_ASSERT(frac_bits <= 52);
    GW_ASSERT(shards >= 1 && shards <= GW_MAX_SHARDS);
    int bits = 1; /* 2^bits >= shards, and at least 2, so that `most` fits an int64 */
    while (1u << bits < shards) bits++;
    int room = 63 - bits;
    /* A float below 2^room in magnitude is at least 2^(room - 24) below it, so rounding cannot reach it. */
    return (gw_exact_format){.scale = power_of_two((int)frac_bits),
                             .limit = (float)power_of_two(room - (int)frac_bits),
                             .most = (int64_t)1 << room,
                             .frac_bits = frac_bits};
}

bool gw_exact_round(const gw_exact_format *format, float x, int64_t *q) {
    if (!(fabsf(x) < format->limit)) { /* true for NaN as well */
        *q = 0;
        return false;
    }
    double y = (double)x * format->scale;
    if (fabs(y) < rounder_range) {
        double shifted = y + rounder;
        int64_t bits, base;
        memcpy(&bits, &shifted, sizeof bits);
        memcpy(&base, &rounder, sizeof base);
        *q = bits - base;
    } else {
        *q = (int64_t)y; /* a float this large is whole */
    }
    return true;
}

bool gw_exact_round_double(const gw_exact_format *format, double x, int64_t *q) {
    *q = 0;
    if (!(fabs(x) < (double)format->limit)) return false; /* NaN as well */
    int64_t rounded = (int64_t)nearbyint(x * format->scale);
    /* A double, unlike a float, may be so close to the limit that rounding reaches it. */
    if (rounded >= format->most || rounded <= -format->most) return false;
    *q = rounded;
    return true;
}

bool gw_exact_round_integer(const gw_exact_format *format, int64_t x, int64_t *q) {
    int64_t scaled;
    if (__builtin_mul_overflow(x, (int64_t)1 << format->frac_bits, &scaled) || scaled >= format->most ||
        scaled <= -format->most) {
        *q = 0;
        return false;
    }
    *q = scaled;
    return true;
}

static void add_one(uint64_t index, bool good, int64_t q, int64_t *sum, gw_exact_part *part) {
    *sum = (int64_t)((uint64_t)*sum + (uint64_t)q);
    part->fingerprint += (uint64_t)q * gw_exact_key(index);
    part->bad += !good;
}

void gw_exact_add(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                  int64_t *sum, gw_exact_part *part) {
    for (uint64_t i = 0; i < count; i++) {
        int64_t q;
        bool good = gw_exact_round(format, values[i], &q);
        add_one(first + i, good, q, &sum[i], part);
    }
}

void gw_exact_add_integers(const gw_exact_format *format, uint64_t first, uint64_t count,
                           const int64_t *values, int64_t *sum, gw_exact_part *part) {
    for (uint64_t i = 0; i < count; i++) {
        int64_t q;
        bool good = gw_exact_round_integer(format, values[i], &q);
        add_one(first + i, good, q, &sum[i], part);
    }
}

void gw_exact_add_doubles(const gw_exact_format *format, uint64_t first, uint64_t count, const double *values,
                          int64_t *sum, gw_exact_part *part) {
    for (uint64_t i = 0; i < count; i++) {
        int64_t q;
        bool good = gw_exact_round_double(format, values[i], &q);
        add_one(first + i, good, q, &sum[i], part);
    }
}

void gw_exact_to_float(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values) {
    double scale = power_of_two(-(int)frac_bits);
    for (uint64_t i = 0; i < count; i++) values[i] = (float)((double)sum[i] * scale);
}

uint64_t gw_exact_fingerprint(uint64_t first, uint64_t count, const int64_t *data) {
    uint64_t total = 0;
    for (uint64_t i = 0; i < count; i++) total += (uint64_t)data[i] * gw_exact_key(first + i);
    return total;
}

uint64_t gw_exact_state_fingerprint(uint64_t first_word, uint64_t count_bytes, const void *bytes) {
    uint64_t total = 0;
    const uint8_t *next = bytes;
    for (uint64_t i = 0; i < (count_bytes + 7) / 8; i++) {
        uint64_t left = count_bytes - 8 * i, word = 0;
        for (uint64_t k = 0; k < (left < 8 ? left : 8); k++) word |= (uint64_t)next[8 * i + k] << (8 * k);
        total += gw_exact_spread(word) * gw_exact_key(first_word + i);
    }
    return total;
}

uint64_t gw_exact_coverage(uint64_t job_key, uint64_t step, uint32_t shard) {
    return gw_mix64(gw_mix64(gw_mix64(job_key) ^ step) ^ shard);
}

uint64_t gw_exact_coverage_of_all(uint64_t job_key, uint64_t step, uint32_t shards) {
    uint64_t total = 0;
    for (uint32_t shard = 0; shard < shards; shard++) total += gw_exact_coverage(job_key, step, shard);
    return total;
}

gw_verdict gw_verdict_start(void) {
    return (gw_verdict){.coverage_ok = true, .fingerprint_ok = true};
}

void gw_exact_check(uint32_t bucket, const int64_t *header, uint64_t found, uint32_t shards,
                    uint64_t coverage, gw_verdict *verdict) {
    bool covered =
        header[GW_EXACT_COUNT] == (int64_t)shards && (uint64_t)header[GW_EXACT_COVERAGE] == coverage;
    /* Words that nobody writes must still be 0: one that is not tells of memory written over. */
    bool intact = (uint64_t)header[GW_EXACT_FINGERPRINT] == found && header[GW_EXACT_BAD] >= 0;
    for (int i = GW_EXACT_BAD + 1; i < GW_EXACT_HEADER; i++) intact = intact && header[i] == 0;
    if (verdict->coverage_ok && verdict->fingerprint_ok && !(covered && intact)) verdict->bucket = bucket;
    verdict->coverage_ok = verdict->coverage_ok && covered;
    verdict->fingerprint_ok = verdict->fingerprint_ok && intact;
    if (intact) verdict->bad += (uint64_t)header[GW_EXACT_BAD];
    verdict->coverage = (uint64_t)header[GW_EXACT_COVERAGE];
}

int gw_exact_bad_compare(const gw_exact_bad *a, const gw_exact_bad *b) {
    if (a->any != b->any) return a->any ? -1 : 1;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
    if (a->index != b->index) return a->index < b->index ? -1 : 1;
    return 0;
}
