#include "kernels/math/schedule.h"

#include "core/base/assert.h"
#include "kernels/math/vmath.h"

#include <stdio.h>
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

/* The update from which on the rate descends. */
static uint64_t descent(const gw_schedule *s) {
    if (s->kind != GW_SCHEDULE_WSD) return s->warmup;
    return s->decay < s->updates ? s->updates - s->decay : 0;
}

/* The progress of the rate's descent from `most` to `least`, 0 to 1. */
static double done(const gw_schedule *s, uint64_t update) {
    uint64_t begin = descent(s);
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

void gw_schedule_describe(const gw_schedule *s, uint64_t update, char *text, size_t size) {
    unsigned long long begin = descent(s);
    int used = snprintf(text, size, "learning rate %.4g, ", gw_schedule_rate(s, update));
    GW_ASSERT(used > 0);
    if ((size_t)used >= size) return;
    text += used;
    size -= (size_t)used;
    if (update < s->warmup && gw_schedule_rate(s, update + 1) > gw_schedule_rate(s, update))
        snprintf(text, size, "rising until update %llu", (unsigned long long)s->warmup);
    else if (s->kind == GW_SCHEDULE_CONSTANT)
        snprintf(text, size, "constant");
    else if (update >= begin)
        snprintf(text, size, "falling since update %llu", begin);
    else
        snprintf(text, size, "falling from update %llu on", begin);
}
