#include "kernels/jobs/program/inside.h"
#include "kernels/math/half.h"

#include <math.h>

gw_program_place program_place_now(const program *job, uint64_t step) {
    gw_program_place place = gw_program_place_of(&job->description.options, step);
    place.generation = atomic_load(&job->generation);
    return place;
}

double program_scale(const gw_program_array *sum, const gw_program_totals *totals) {
    double scale = ldexp(1.0, -(int)sum->is.frac_bits);
    if ((sum->is.flags & GW_PROGRAM_NORM) != 0) scale *= totals->factor;
    if ((sum->is.flags & GW_PROGRAM_BY_WEIGHT) != 0) scale /= totals->weight;
    if ((sum->is.flags & GW_PROGRAM_BY_SHARDS) != 0) scale /= (double)totals->shards;
    return scale;
}

void program_write_total(const gw_program_array *sum, const int64_t *from, double scale, void *to) {
    float *floats = to;
    double *doubles = to;
    uint16_t *halves = to;
    uint64_t count = sum->elements;
    switch ((int)sum->is.dtype) {
    case GW_PROGRAM_F32:
        for (uint64_t i = 0; i < count; i++) floats[i] = (float)((double)from[i] * scale);
        break;
    case GW_PROGRAM_F64:
        for (uint64_t i = 0; i < count; i++) doubles[i] = (double)from[i] * scale;
        break;
    case GW_PROGRAM_BF16:
        for (uint64_t i = 0; i < count; i++) halves[i] = gw_bfloat_of((double)from[i] * scale);
        break;
    case GW_PROGRAM_F16:
        for (uint64_t i = 0; i < count; i++) halves[i] = gw_half_of((double)from[i] * scale);
        break;
    case GW_PROGRAM_I64:
        memcpy(to, from, count * sizeof *from);
        break;
    }
}
