#include "kernels/math/schedule.h"

#include "core/base/assert.h"
#include "kernels/math/vmath.h"

#include <string.h>

bool gw_schedule_named(const char *name, gw_schedule_kind *kind) {
    static const char *const names[] = {"cosine", "linear", "wsd", "constant"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *kind = (gw_schedule_kind)(GW_SCHEDULE_COSINE + i);
        return true;
    }
    return false;
}

/* The progress of the rate's descent from `most` to `least`, 0 to 1. */
static double done(const gw_schedule *s, uint64_t update) {
    uint64_t begin = s->kind == GW_SCHEDULE_WSD && s->decay < s->updates ? s->updates - s->decay : 0;
    if (s->kind != GW_SCHEDULE_WSD) begin = s->warmup;
    if (update < begin || s->kind == GW_SCHEDULE_CONSTANT) return 0.0;
    if (update >= s->updates) return 1.0;
    return (double)(update - begin) / (double)(s->updates - begin);
}

double gw_schedule_rate(const gw_schedule *s, uint64_t update) {
    GW_ASSERT(s->updates >= 1);
    double part = done(s, update);
    if (s->kind == GW_SCHEDULE_COSINE) {
        double sine, cosine;
        gw_sincos(part * 0x1.921fb54442d18p1, &sine, &cosine);
        part = 0.5 * (1.0 - cosine);
    }
    double rate = s->most + (s->least - s->most) * part;
    if (update >= s->warmup) return rate;
    double up = s->most * (double)(update + 1) / (double)s->warmup;
    return up < rate ? up : rate;
}
