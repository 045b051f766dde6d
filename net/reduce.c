#include "net/reduce.h"

#include "core/check.h"

uint64_t gw_sum_bytes(gw_sum_type type) {
    return type == GW_SUM_I64 ? 8 : 4;
}

/* One body for each instruction set; the compiler vectorises it. Unsigned: overflow wraps. */
#define ADD_BODY(type)                                                                                       \
    type *restrict to = out;                                                                                 \
    const type *restrict from = in;                                                                          \
    for (uint64_t i = 0; i < count; i++) to[i] += from[i];

#define INTO_BODY(type)                                                                                      \
    type *restrict to = out;                                                                                 \
    const type *restrict from = in, *restrict more = theirs;                                                 \
    for (uint64_t i = 0; i < count; i++) to[i] = more[i] + from[i];

static void add_i64(void *out, const void *in, uint64_t count) {
    ADD_BODY(uint64_t)
}
static void add_f32(void *out, const void *in, uint64_t count) {
    ADD_BODY(float)
}
static void into_i64(void *out, const void *in, const void *theirs, uint64_t count) {
    INTO_BODY(uint64_t)
}
static void into_f32(void *out, const void *in, const void *theirs, uint64_t count) {
    INTO_BODY(float)
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void add_i64_avx2(void *out, const void *in, uint64_t count) {
    ADD_BODY(uint64_t)
}
__attribute__((target("avx2"))) static void add_f32_avx2(void *out, const void *in, uint64_t count) {
    ADD_BODY(float)
}
__attribute__((target("avx2"))) static void into_i64_avx2(void *out, const void *in, const void *theirs,
                                                          uint64_t count) {
    INTO_BODY(uint64_t)
}
__attribute__((target("avx2"))) static void into_f32_avx2(void *out, const void *in, const void *theirs,
                                                          uint64_t count) {
    INTO_BODY(float)
}
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2");
}
#else
#define add_i64_avx2  add_i64
#define add_f32_avx2  add_f32
#define into_i64_avx2 into_i64
#define into_f32_avx2 into_f32
static bool has_avx2(void) {
    return false;
}
#endif

void gw_sum_add(gw_sum_type type, void *out, const void *in, uint64_t count) {
    GW_CHECK(type == GW_SUM_I64 || type == GW_SUM_F32);
    if (type == GW_SUM_I64)
        (has_avx2() ? add_i64_avx2 : add_i64)(out, in, count);
    else
        (has_avx2() ? add_f32_avx2 : add_f32)(out, in, count);
}

void gw_sum_into(gw_sum_type type, void *out, const void *in, const void *theirs, uint64_t count) {
    GW_CHECK(type == GW_SUM_I64 || type == GW_SUM_F32);
    if (type == GW_SUM_I64)
        (has_avx2() ? into_i64_avx2 : into_i64)(out, in, theirs, count);
    else
        (has_avx2() ? into_f32_avx2 : into_f32)(out, in, theirs, count);
}
