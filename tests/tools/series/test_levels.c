/* Every level of a series has what the values of its steps come to, whatever was added and taken back. */
#include "core/rng.h"
#include "tools/godwit/series/levels.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { MOST = 400000 };

/* Whether a step has a value, and the value, depend on the step alone: an exact job makes the same steps again. */
static bool has_value(uint64_t step, uint64_t every) {
    return step % every == 0;
}

static double value_of(uint64_t step) {
    return (double)(step * UINT64_C(2654435761) >> 7 & 1023) - 500;
}

static gw_level_bin bin_of(const gw_levels *levels, uint32_t k, uint32_t i) {
    const gw_series_level *level = &levels->level[k];
    if (k > 0) return ((gw_level_bin *)level->ring)[(level->first + i) % GW_LEVEL_BINS];
    gw_level_single one = ((gw_level_single *)level->ring)[(level->first + i) % GW_LEVEL_SINGLES];
    return (gw_level_bin){one.step, 1, one.value, one.value, one.value, one.value};
}

/* Compares a bin with the values of its steps. */
static void check_bin(const gw_levels *levels, uint32_t k, uint32_t i, uint64_t every) {
    gw_level_bin bin = bin_of(levels, k, i), own = {.min = INFINITY, .max = -INFINITY};
    uint64_t begin = bin.number << 3 * k, end = (bin.number + 1) << 3 * k;
    uint64_t kept = levels->level[k].kept, to = levels->last > kept ? levels->last : kept;
    for (uint64_t step = begin > 0 ? begin : 1; step < end && step <= to; step++) {
        if (!has_value(step, every) || step == levels->first.step) continue;
        double value = value_of(step);
        own.count++;
        own.min = value < own.min ? value : own.min;
        own.max = value > own.max ? value : own.max;
        own.sum += value;
        own.last = value;
    }
    cr_assert(own.count == bin.count && own.min == bin.min && own.max == bin.max && own.sum == bin.sum &&
                  own.last == bin.last,
              "level %u, steps from %llu, last %llu, kept %llu: %llu values, not %llu", k,
              (unsigned long long)begin, (unsigned long long)levels->last, (unsigned long long)kept,
              (unsigned long long)bin.count, (unsigned long long)own.count);
}

/* The points of a range are in order, without overlap, and as many as were asked for at the most. */
static uint64_t check_points(const gw_levels *levels, uint64_t from, uint64_t to, uint32_t most) {
    static gw_series_point points[GW_LEVELS_POINTS];
    uint32_t count = gw_levels_read(levels, from, to, most, points);
    uint64_t values = 0;
    cr_assert(count <= most);
    for (uint32_t i = 0; i < count; i++) {
        const gw_series_point *p = &points[i];
        cr_assert(p->begin <= p->end && p->end >= from && p->begin <= to && p->count >= 1 &&
                  p->count <= p->end - p->begin + 1);
        cr_assert(i == 0 || p->begin > points[i - 1].end);
        cr_assert(p->min <= p->last && p->last <= p->max && p->mean >= p->min && p->mean <= p->max);
        values += p->count;
    }
    return values;
}

static void check(const gw_levels *levels, uint64_t every) {
    uint64_t kept = 0;
    for (uint32_t k = 0; k < GW_LEVELS && levels->level[k].ring != NULL; k++) {
        for (uint32_t i = 0; i < levels->level[k].count; i++) check_bin(levels, k, i, every);
        if (levels->level[k].kept > kept) kept = levels->level[k].kept;
    }
    uint64_t least = levels->last / every, most = (kept > levels->last ? kept : levels->last) / every;
    for (uint32_t points = 1; points <= GW_LEVELS_POINTS; points = points * 7 + 3) {
        uint64_t values = check_points(levels, 0, UINT64_MAX, points);
        cr_assert(levels->last == 0 || (values >= least && values <= most), "%llu values, not %llu",
                  (unsigned long long)values, (unsigned long long)least);
    }
}

/* What is written is read back as it was. */
static void check_bytes(const gw_levels *levels) {
    size_t bytes = gw_levels_bytes(levels);
    uint8_t *first = malloc(bytes), *second = malloc(bytes);
    gw_writer w = gw_writer_on(first, bytes);
    gw_levels_put(&w, levels);
    cr_assert(!w.failed && w.length == bytes);
    gw_reader r = gw_reader_on(first, bytes);
    gw_levels read;
    gw_levels_get(&r, &read);
    cr_assert(gw_reader_done(&r));
    w = gw_writer_on(second, bytes);
    gw_levels_put(&w, &read);
    cr_assert(!w.failed && w.length == bytes && memcmp(first, second, bytes) == 0);
    gw_levels_free(&read);
    free(first);
    free(second);
}

static void run_sequence(uint64_t seed, uint64_t every) {
    gw_levels levels = {0};
    gw_err err;
    for (uint64_t i = 0, step = 0; i < 60; i++) {
        gw_philox dice = gw_philox_at(seed, every, i);
        uint64_t adds = dice.words[0] % (i % 5 == 0 ? 60000 : 700), back = dice.words[1] % 9;
        for (uint64_t n = 0; n < adds && step < MOST; n++)
            if (has_value(++step, every)) cr_assert(gw_levels_add(&levels, step, value_of(step), &err));
        check(&levels, every);
        uint64_t most = back == 0 ? step : back < 3 ? 5000 : 300, by = dice.words[2] % (most + 1);
        by = by < step ? by : step;
        step -= by;
        if (dice.words[3] % 2 == 0) gw_levels_cut(&levels, step + 1); /* otherwise the next value cuts */
        if (dice.words[3] % 2 == 0) check(&levels, every);
    }
    check_bytes(&levels);
    gw_levels_free(&levels);
}

Test(levels, each_level_has_what_its_steps_come_to) {
    for (uint64_t seed = 1; seed <= 6; seed++)
        for (uint64_t every = 1; every <= 100; every = every * 4 + 3) run_sequence(seed, every);
}

Test(levels, steps_that_are_missing_and_values_that_change_leave_levels_whole) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        gw_levels levels = {0};
        gw_err err;
        uint64_t step = 0;
        for (uint64_t i = 0; i < 30000; i++) {
            gw_philox dice = gw_philox_at(seed, 1, i);
            step += 1 + (dice.words[0] % 50 == 0 ? dice.words[1] % 3000 : 0);
            if (dice.words[2] % 500 == 0) step -= dice.words[3] % step;
            cr_assert(gw_levels_add(&levels, step, dice.words[1] * 0x1p-32, &err));
        }
        check_points(&levels, 0, UINT64_MAX, 1000);
        check_points(&levels, step / 3, step / 2, 100);
        check_bytes(&levels);
        gw_levels_free(&levels);
    }
}

Test(levels, recent_steps_are_single_and_none_is_lost) {
    static gw_series_point points[GW_LEVELS_POINTS];
    gw_levels levels = {0};
    gw_err err;
    const uint64_t steps = 1000000;
    for (uint64_t step = 1; step <= steps; step++) gw_levels_add(&levels, step, value_of(step), &err);
    cr_assert_eq(gw_levels_read(&levels, steps - 999, steps, GW_LEVELS_POINTS, points), 1000);
    for (uint32_t i = 0; i < 1000; i++) cr_assert_eq(points[i].mean, value_of(steps - 999 + i));
    cr_assert_eq(check_points(&levels, 0, UINT64_MAX, GW_LEVELS_POINTS), steps);
    uint32_t count = gw_levels_read(&levels, 0, UINT64_MAX, GW_LEVELS_POINTS, points);
    cr_assert(count >= 500, "%u points", count);
    cr_assert_eq(points[count - 1].end, steps);
    /* 32 such series take less than 8 MiB, in memory and on disk. */
    cr_assert(gw_levels_memory(&levels) * 32 < 8 << 20 && gw_levels_bytes(&levels) * 32 < 8 << 20);
    cr_log_info("a million steps: %llu bytes of memory, %zu in the file, %u points of the whole",
                (unsigned long long)gw_levels_memory(&levels), gw_levels_bytes(&levels), count);
    gw_levels_free(&levels);
}

/* Where a loss begins is seen, though the steps behind it are in one bin. */
Test(levels, the_first_value_is_a_point_of_its_own) {
    static gw_series_point points[GW_LEVELS_POINTS];
    gw_levels levels = {0};
    gw_err err;
    for (uint64_t step = 7; step <= 300000; step++)
        cr_assert(gw_levels_add(&levels, step, step == 7 ? 99 : 1, &err));
    for (uint32_t most = 2; most <= GW_LEVELS_POINTS; most *= 10) {
        uint32_t count = gw_levels_read(&levels, 0, UINT64_MAX, most, points);
        cr_assert(points[0].begin == 7 && points[0].end == 7 && points[0].mean == 99);
        cr_assert(count <= most && points[1].begin == 8 && points[1].max == 1);
    }
    cr_assert_eq(gw_levels_read(&levels, 0, UINT64_MAX, 1, points), 1);
    cr_assert(points[0].begin == 7 && points[0].end == 300000 && points[0].max == 99);
    cr_assert_neq(gw_levels_read(&levels, 1000, 300000, 100, points), 0);
    cr_assert_eq(points[0].max, 1, "it is no part of a range behind it");
    gw_levels_cut(&levels, 7);
    cr_assert_eq(gw_levels_read(&levels, 0, UINT64_MAX, 100, points), 0);
    cr_assert(gw_levels_add(&levels, 7, 98, &err));
    cr_assert_eq(gw_levels_read(&levels, 0, UINT64_MAX, 100, points), 1);
    cr_assert_eq(points[0].mean, 98);
    check_bytes(&levels);
    gw_levels_free(&levels);
}

Test(levels, what_is_no_number_is_left_out) {
    gw_levels levels = {0};
    gw_err err;
    const double wrong[] = {NAN, INFINITY, -INFINITY, 1e301};
    for (uint32_t i = 0; i < 4; i++) cr_assert(gw_levels_add(&levels, i + 1, wrong[i], &err));
    cr_assert(gw_levels_add(&levels, 0, 1, &err));
    cr_assert_eq(levels.last, 0);
    gw_levels_free(&levels);
}

/* All levels are full, and the coarsest has dropped its oldest bins: then they still take less than an 32nd of
 * 8 MiB. */
Test(levels, the_bound_holds_for_any_number_of_steps) {
    gw_levels levels = {0};
    gw_err err;
    const uint64_t stride = 1 << 15; /* values so far apart fill the coarse levels fast */
    for (uint64_t i = 1; i <= 100000; i++) cr_assert(gw_levels_add(&levels, i * stride, 1, &err));
    cr_assert(levels.level[GW_LEVELS - 1].dropped);
    cr_assert(gw_levels_memory(&levels) * 32 <= 8 << 20 && gw_levels_bytes(&levels) * 32 < 8 << 20);
    check_points(&levels, 0, UINT64_MAX, GW_LEVELS_POINTS);
    check_bytes(&levels);
    gw_levels_free(&levels);
}
