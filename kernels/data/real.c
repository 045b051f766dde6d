#include "kernels/data/real.h"

#include "core/base/assert.h"
#include "kernels/math/half.h"

static const struct {
    const char *name;
    size_t bytes;
    double largest;
} kinds[GW_REALS] = {
    [GW_REAL_F64] = {"F64", 8, __DBL_MAX__},
    [GW_REAL_F32] = {"F32", 4, 0x1.fffffep127},
    [GW_REAL_F16] = {"F16", 2, 65504.0},
    [GW_REAL_BF16] = {"BF16", 2, 0x1.fep127},
};

gw_real gw_real_named(const char *name) {
    gw_real kind = 0;
    while (kind < GW_REALS && strcmp(kinds[kind].name, name) != 0) kind++;
    return kind;
}

const char *gw_real_name(gw_real kind) {
    return kinds[kind].name;
}

size_t gw_real_bytes(gw_real kind) {
    return kinds[kind].bytes;
}

double gw_real_largest(gw_real kind) {
    return kinds[kind].largest;
}

static double load(gw_real kind, const uint8_t *at) {
    double wide;
    float single;
    uint16_t half;
    switch (kind) {
    case GW_REAL_F64:
        memcpy(&wide, at, sizeof wide);
        return wide;
    case GW_REAL_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    case GW_REAL_F16:
    case GW_REAL_BF16:
        memcpy(&half, at, sizeof half);
        return (double)(kind == GW_REAL_F16 ? gw_half_value(half) : gw_bfloat_value(half));
    case GW_REALS:
        break;
    }
    return NAN;
}

static void store(gw_real kind, double value, uint8_t *at) {
    float single = (float)value;
    uint16_t half = kind == GW_REAL_F16 ? gw_half_of(value) : gw_bfloat_of(value);
    const void *from = kind == GW_REAL_F64   ? (const void *)&value
                       : kind == GW_REAL_F32 ? (const void *)&single
                                             : &half;
    memcpy(at, from, kinds[kind].bytes);
}

uint64_t gw_real_convert(gw_real from, const void *in, gw_real to, void *out, uint64_t count) {
    GW_ASSERT(from < GW_REALS && to < GW_REALS);
    size_t step = kinds[from].bytes, width = kinds[to].bytes;
    const uint8_t *source = in;
    uint8_t *target = out;
    uint64_t overflows = 0;
    if (from == to) {
        memcpy(out, in, count * width);
        return 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        double value = load(from, source + i * step);
        store(to, value, target + i * width);
        overflows += isfinite(value) && isinf(load(to, target + i * width));
    }
    return overflows;
}
