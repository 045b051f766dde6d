#include "tests/net/vectors.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The first of every four thousand elements are wide, and their sums wrap; the others have 12 to 36 bits. */
int64_t vector_integer(uint32_t member, uint64_t i) {
    uint64_t any = (i * 2654435761u + member * 40503u) ^ (uint64_t)member << 61;
    uint32_t stretch = i / 1000 % 4;
    return stretch == 0 ? (int64_t)any : (int64_t)(any << (i % 7 * 8)) >> (64 - 12 * stretch);
}

static float float_at(uint32_t member, uint64_t i) {
    return 1.0f / (float)(1 + i % 1000 + 7 * member);
}

vector vector_make(uint32_t member, gw_sum_type type, uint64_t count) {
    vector v = {.count = count, .in = malloc(count * 8 + 8), .out = malloc(count * 8 + 8)};
    uint64_t size = type == GW_SUM_I64 ? 8 : 4;
    for (uint64_t i = 0; i < count; i++)
        if (type == GW_SUM_I64)
            ((int64_t *)v.in)[i] = vector_integer(member, i);
        else
            ((float *)v.in)[i] = float_at(member, i);
    memset(v.out, 0xa5, count * size);
    const uint64_t cuts[] = {0, 1, 1, count / 3, count / 2, count / 2 + 1, count};
    uint64_t from = 0;
    for (uint32_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        uint64_t to = cuts[i] > count ? count : cuts[i] < from ? from : cuts[i];
        v.pieces[v.piece_count++] =
            (gw_collective_piece){(uint8_t *)v.in + from * size, (uint8_t *)v.out + from * size, to - from};
        from = to;
    }
    return v;
}

void vector_free(vector *v) {
    free(v->in);
    free(v->out);
}

void vector_start(rig *r, uint32_t rank, uint32_t members, const vector *v, gw_sum_type type, uint64_t epoch,
                  uint32_t bucket) {
    gw_peer_id ids[RIG_PEERS];
    for (uint32_t i = 0; i < members; i++) ids[i] = rig_id(i);
    gw_collective_call call = {.tag = {.fence = rig_fence(epoch), .step = 1, .bucket = bucket},
                               .type = type,
                               .members = ids,
                               .member_count = members,
                               .rank = rank,
                               .pieces = v->pieces,
                               .piece_count = v->piece_count,
                               .progress_ms = 60000,
                               .token = epoch * 1000 + bucket};
    gw_err err;
    cr_assert(gw_collective_start(r->peers[rank].collective, &call, &err), "%s", err.text);
}

gw_collective_result vector_expect(rig *r, uint32_t rank, gw_collective_status status, uint64_t token) {
    gw_code code;
    gw_collective_result result = rig_result(&r->peers[rank], &code);
    cr_assert_eq(result.status, status, "rank %u: status %d, code %d", rank, (int)result.status, (int)code);
    cr_assert_eq(result.token, token);
    cr_assert_eq(code == GW_OK, status != GW_COLLECTIVE_FAILED);
    return result;
}

void vector_check(const vector *v, uint32_t members, gw_sum_type type) {
    for (uint64_t i = 0; i < v->count; i++) {
        if (type == GW_SUM_I64) {
            uint64_t sum = 0;
            for (uint32_t m = 0; m < members; m++) sum += (uint64_t)vector_integer(m, i);
            cr_assert_eq(((uint64_t *)v->out)[i], sum, "element %lu of %lu", i, v->count);
        } else {
            double sum = 0;
            for (uint32_t m = 0; m < members; m++) sum += (double)float_at(m, i);
            double error = (double)((float *)v->out)[i] - sum;
            cr_assert(error < 1e-6 && error > -1e-6, "element %lu of %lu", i, v->count);
        }
    }
}
