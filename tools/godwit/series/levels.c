#include "tools/godwit/series/levels.h"

#include "core/base/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHIFT = 3 /* 8 steps a bin of the first level of bins */ };
static const double most_size = 1e300; /* sums of 8^7 such values are finite */

static uint32_t room_of(uint32_t k) {
    return k == 0 ? GW_LEVEL_SINGLES : GW_LEVEL_BINS;
}

static size_t bytes_of(uint32_t k) {
    return k == 0 ? sizeof(gw_level_single) : sizeof(gw_level_bin);
}

static gw_level_single *single_at(const gw_series_level *level, uint32_t index) {
    return (gw_level_single *)level->ring + (level->first + index) % GW_LEVEL_SINGLES;
}

static gw_level_bin *bin_at(const gw_series_level *level, uint32_t index) {
    return (gw_level_bin *)level->ring + (level->first + index) % GW_LEVEL_BINS;
}

static uint64_t first_step(uint32_t k, uint64_t number) {
    return number << SHIFT * k;
}

static uint64_t last_step(uint32_t k, uint64_t number) {
    return ((number + 1) << SHIFT * k) - 1;
}

/* Reads what is at a place of a level as a bin of that level. */
static gw_level_bin entry_at(const gw_levels *levels, uint32_t k, uint32_t index) {
    const gw_series_level *level = &levels->level[k];
    if (k > 0) return *bin_at(level, index);
    const gw_level_single *one = single_at(level, index);
    return (gw_level_bin){one->step, 1, one->value, one->value, one->value, one->value};
}

static uint64_t begin_at(const gw_levels *levels, uint32_t k, uint32_t index) {
    const gw_series_level *level = &levels->level[k];
    return k == 0 ? single_at(level, index)->step : first_step(k, bin_at(level, index)->number);
}

static void merge(gw_level_bin *bin, const gw_level_bin *more) {
    bin->count += more->count;
    bin->sum += more->sum;
    bin->min = more->min < bin->min ? more->min : bin->min;
    bin->max = more->max > bin->max ? more->max : bin->max;
    bin->last = more->last;
}

/* Puts a bin behind the others of level k, or into the last of them. */
static void put_entry(gw_levels *levels, uint32_t k, gw_level_bin bin) {
    gw_series_level *level = &levels->level[k];
    gw_level_bin *end = level->count > 0 ? bin_at(level, level->count - 1) : NULL;
    if (end != NULL && end->number == bin.number) {
        merge(end, &bin);
        return;
    }
    if (level->count == GW_LEVEL_BINS) {
        level->first = (level->first + 1) % GW_LEVEL_BINS;
        level->count--;
        level->dropped = true;
    }
    *bin_at(level, level->count++) = bin;
    level->kept = 0;
}

static bool make_level(gw_levels *levels, uint32_t k, gw_err *err);

/* Puts a bin of level k into that level and all coarser ones. A level that is full, and about to drop something for
 * the first time, needs the next one. */
static bool put_from(gw_levels *levels, uint32_t k, gw_level_bin bin, uint64_t step, gw_err *err) {
    for (; k < GW_LEVELS && levels->level[k].ring != NULL; k++) {
        bool full = levels->level[k].count == GW_LEVEL_BINS;
        if (full && k + 1 < GW_LEVELS && levels->level[k + 1].ring == NULL && !make_level(levels, k + 1, err))
            return false;
        if (step > levels->level[k].kept) put_entry(levels, k, bin);
        bin.number >>= SHIFT;
    }
    return true;
}

/* Makes level k of level k - 1, which is full and has dropped nothing. */
static bool make_level(gw_levels *levels, uint32_t k, gw_err *err) {
    gw_series_level *level = &levels->level[k], *finer = &levels->level[k - 1];
    level->ring = calloc(room_of(k), bytes_of(k));
    if (level->ring == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory for a series");
    for (uint32_t i = 0; i < finer->count; i++) {
        gw_level_bin bin = entry_at(levels, k - 1, i);
        bin.number >>= SHIFT;
        if (put_from(levels, k, bin, UINT64_MAX, err)) continue;
        free(level->ring);
        *level = (gw_series_level){0};
        return false;
    }
    for (uint32_t j = k; j < GW_LEVELS && levels->level[j].ring != NULL; j++)
        levels->level[j].kept = finer->kept;
    return true;
}

/* Adds a value to the finest level. */
static void put_single(gw_levels *levels, uint64_t step, double value) {
    gw_series_level *level = &levels->level[0];
    if (level->count == GW_LEVEL_SINGLES) {
        level->first = (level->first + 1) % GW_LEVEL_SINGLES;
        level->count--;
        level->dropped = true;
    }
    *single_at(level, level->count++) = (gw_level_single){step, value};
}

bool gw_levels_add(gw_levels *levels, uint64_t step, double value, gw_err *err) {
    gw_series_level *finest = &levels->level[0];
    if (step == 0 || step >= UINT64_C(1) << 62 || !(fabs(value) <= most_size)) return true;
    if (step <= levels->last) gw_levels_cut(levels, step);
    if (levels->first.step == 0) {
        levels->first = (gw_level_single){step, value};
        levels->last = step;
        return true;
    }
    if (finest->ring == NULL && (finest->ring = calloc(room_of(0), bytes_of(0))) == NULL)
        return gw_fail(err, GW_E_NOMEM, "out of memory for a series");
    if (finest->count == GW_LEVEL_SINGLES && levels->level[1].ring == NULL && !make_level(levels, 1, err))
        return false;
    put_single(levels, step, value);
    levels->last = step;
    return put_from(levels, 1, (gw_level_bin){step >> SHIFT, 1, value, value, value, value}, step, err);
}

/* Makes the last bin of level k again of those of level k - 1 that have been cut already. Returns false where
 * some of these are gone. */
static bool make_again(gw_levels *levels, uint32_t k) {
    gw_series_level *level = &levels->level[k];
    const gw_series_level *finer = &levels->level[k - 1];
    uint64_t number = bin_at(level, level->count - 1)->number, begin = first_step(k, number);
    if (finer->dropped && (finer->count == 0 || begin_at(levels, k - 1, 0) > begin)) return false;
    uint32_t from = finer->count;
    while (from > 0 && begin_at(levels, k - 1, from - 1) >= begin) from--;
    level->count--;
    for (uint32_t i = from; i < finer->count; i++) {
        gw_level_bin bin = entry_at(levels, k - 1, i);
        bin.number = number;
        put_entry(levels, k, bin);
    }
    level->kept = finer->kept >= begin ? finer->kept : 0;
    return true;
}

static void cut_level(gw_levels *levels, uint32_t k, uint64_t step) {
    gw_series_level *level = &levels->level[k];
    while (level->count > 0 && begin_at(levels, k, level->count - 1) >= step) level->count--;
    if (k == 0) return;
    if (level->kept < step) level->kept = 0;
    if (level->count == 0) {
        /* The first steps of the bin may have been dropped here. They are in the next level. */
        bool broken = level->dropped && k + 1 < GW_LEVELS && first_step(k, step >> SHIFT * k) != step;
        level->kept = broken ? last_step(k, step >> SHIFT * k) : 0;
        return;
    }
    uint64_t end = last_step(k, bin_at(level, level->count - 1)->number);
    if (end < step) level->kept = 0;
    if (end < step || make_again(levels, k)) return;
    uint64_t has = levels->last > level->kept ? levels->last : level->kept;
    level->kept = has < end ? has : end;
}

void gw_levels_cut(gw_levels *levels, uint64_t step) {
    if (step > levels->last) return;
    if (levels->first.step >= step) gw_levels_free(levels);
    for (uint32_t k = 0; k < GW_LEVELS && levels->level[k].ring != NULL; k++) cut_level(levels, k, step);
    levels->last = step > 0 ? step - 1 : 0;
}

/* Reading. */

typedef struct sink {
    gw_series_point *points; /* NULL: points are only counted */
    uint32_t count, most;
    uint32_t join, joined; /* so many entries become one point; that many are in the last one */
    uint64_t least, last;  /* no value of a bin is of an earlier or a later step */
} sink;

static void give(sink *s, uint32_t k, const gw_level_bin *bin) {
    gw_series_point *end = s->points != NULL && s->count > 0 ? &s->points[s->count - 1] : NULL;
    uint64_t first = first_step(k, bin->number), last = last_step(k, bin->number);
    if (first < s->least) first = s->least;
    if (last > s->last) last = s->last;
    if (s->points == NULL) {
        s->count++;
    } else if (end != NULL && s->joined < s->join) {
        s->joined++;
        end->mean += (bin->sum - (double)bin->count * end->mean) / (double)(end->count + bin->count);
        end->count += bin->count;
        end->end = last;
        end->min = bin->min < end->min ? bin->min : end->min;
        end->max = bin->max > end->max ? bin->max : end->max;
        end->last = bin->last;
    } else {
        s->joined = 1;
        GW_ASSERT(s->count < s->most);
        s->points[s->count++] = (gw_series_point){
            first, last, bin->count, bin->min, bin->max, bin->sum / (double)bin->count, bin->last};
    }
}

/* The place of the first entry of a level that ends at `step` or later. */
static uint32_t place_of(const gw_levels *levels, uint32_t k, uint64_t step) {
    uint32_t low = 0, high = levels->level[k].count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (begin_at(levels, k, middle) >> SHIFT * k < step >> SHIFT * k)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Gives the entries of the range: those of level `finest`, and before them those of coarser levels. The first value
 * is a point of its own where there may be more than one point. */
static void collect(const gw_levels *levels, uint32_t finest, uint64_t from, uint64_t to, sink *s) {
    const gw_level_single *first = &levels->first;
    s->least = 1; /* steps count from 1 */
    if (first->step != 0 && first->step >= from && first->step <= to) {
        give(s, 0, &(gw_level_bin){first->step, 1, first->value, first->value, first->value, first->value});
        if (s->most > 1) s->joined = s->join;
    }
    s->least = first->step + 1;
    uint32_t top = 0;
    while (top + 1 < GW_LEVELS && levels->level[top + 1].ring != NULL) top++;
    uint64_t next = from; /* steps before it have been given */
    for (uint32_t k = top + 1; k-- > finest;) {
        const gw_series_level *level = &levels->level[k];
        uint64_t stop = UINT64_MAX; /* from here on the finer levels have all */
        if (k > finest) {
            const gw_series_level *finer = &levels->level[k - 1];
            stop = !finer->dropped ? 0 : finer->count > 0 ? begin_at(levels, k - 1, 0) : UINT64_MAX;
        }
        for (uint32_t i = place_of(levels, k, next); i < level->count; i++) {
            gw_level_bin bin = entry_at(levels, k, i);
            uint64_t begin = first_step(k, bin.number);
            if (begin >= stop || begin > to) break;
            give(s, k, &bin);
            next = last_step(k, bin.number) + 1;
        }
    }
}

uint32_t gw_levels_read(const gw_levels *levels, uint64_t from, uint64_t to, uint32_t most,
                        gw_series_point *points) {
    GW_ASSERT(most >= 1 && most <= GW_LEVELS_POINTS);
    sink s = {.most = most, .join = 1, .last = levels->last};
    uint32_t finest = 0;
    if (levels->last == 0) return 0;
    for (uint32_t k = 1; k < GW_LEVELS; k++)
        if (levels->level[k].count > 0 && levels->level[k].kept > s.last) s.last = levels->level[k].kept;
    for (;; finest++) {
        s.count = 0;
        collect(levels, finest, from, to, &s);
        if (s.count <= (uint64_t)most * (GW_LEVEL_STEPS / 2))
            break; /* neighbours are joined, so that it fits */
        if (finest + 1 == GW_LEVELS || levels->level[finest + 1].ring == NULL) break;
    }
    s.join = most > 1 ? (s.count + most - 2) / (most - 1) : s.count; /* the first value is not joined */
    s.points = points;
    s.count = s.joined = 0;
    collect(levels, finest, from, to, &s);
    return s.count;
}

uint64_t gw_levels_memory(const gw_levels *levels) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < GW_LEVELS; k++)
        if (levels->level[k].ring != NULL) bytes += room_of(k) * bytes_of(k);
    return bytes;
}

void gw_levels_free(gw_levels *levels) {
    for (uint32_t k = 0; k < GW_LEVELS; k++) free(levels->level[k].ring);
    memset(levels, 0, sizeof *levels);
}

/* The bytes. */

enum { HEAD_BYTES = 8 + 8 + 8 + 1, LEVEL_BYTES = 1 + 8 + 4 };

size_t gw_levels_bytes(const gw_levels *levels) {
    size_t bytes = HEAD_BYTES;
    for (uint32_t k = 0; k < GW_LEVELS; k++)
        if (levels->level[k].ring != NULL) bytes += LEVEL_BYTES + levels->level[k].count * bytes_of(k);
    return bytes;
}

void gw_levels_put(gw_writer *w, const gw_levels *levels) {
    uint8_t count = 0;
    while (count < GW_LEVELS && levels->level[count].ring != NULL) count++;
    gw_put_u64(w, levels->last);
    gw_put_u64(w, levels->first.step);
    gw_put_f64(w, levels->first.value);
    gw_put_u8(w, count);
    for (uint32_t k = 0; k < count; k++) {
        const gw_series_level *level = &levels->level[k];
        gw_put_u8(w, level->dropped);
        gw_put_u64(w, level->kept);
        gw_put_u32(w, level->count);
        for (uint32_t i = 0; i < level->count; i++) {
            gw_level_bin bin = entry_at(levels, k, i);
            gw_put_u64(w, bin.number);
            if (k > 0) {
                gw_put_u64(w, bin.count);
                gw_put_f64(w, bin.min);
                gw_put_f64(w, bin.max);
                gw_put_f64(w, bin.sum);
            }
            gw_put_f64(w, bin.last);
        }
    }
}

static bool is_value(double value) {
    return fabs(value) <= most_size;
}

static bool is_bin(const gw_level_bin *bin, uint32_t k) {
    double mean = bin->sum / (double)bin->count, slack = 1e-9 * (fabs(bin->min) + fabs(bin->max));
    return bin->count >= 1 && bin->count <= first_step(k, 1) && is_value(bin->min) && is_value(bin->max) &&
           is_value(bin->last) && isfinite(bin->sum) && bin->min <= bin->last && bin->last <= bin->max &&
           mean >= bin->min - slack && mean <= bin->max + slack;
}

/* Reads the next entry of level k, whose number is `least` or more. */
static gw_level_bin get_entry(gw_reader *r, uint32_t k, uint64_t least) {
    gw_level_bin bin = {.number = gw_get_u64(r), .count = 1};
    if (k > 0) {
        bin.count = gw_get_u64(r);
        bin.min = gw_get_f64(r);
        bin.max = gw_get_f64(r);
        bin.sum = gw_get_f64(r);
    }
    bin.last = gw_get_f64(r);
    if (k == 0) bin.min = bin.max = bin.sum = bin.last;
    if (bin.number < least || bin.number >= UINT64_C(1) << 62 >> SHIFT * k || !is_bin(&bin, k))
        r->failed = true;
    return bin;
}

static void get_level(gw_reader *r, uint32_t k, gw_levels *levels) {
    gw_series_level *level = &levels->level[k];
    level->dropped = gw_get_u8(r) & 1;
    level->kept = gw_get_u64(r);
    uint32_t count = gw_get_u32(r);
    if (count > room_of(k) || level->kept >= UINT64_C(1) << 62) r->failed = true;
    if (r->failed) return;
    level->ring = calloc(room_of(k), bytes_of(k));
    if (level->ring == NULL) r->failed = true;
    uint64_t least = k == 0; /* steps count from 1 */
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_level_bin bin = get_entry(r, k, least);
        least = bin.number + 1;
        if (k > 0)
            *bin_at(level, level->count++) = bin;
        else
            *single_at(level, level->count++) = (gw_level_single){bin.number, bin.last};
        if (first_step(k, bin.number) > levels->last || levels->first.step == 0) r->failed = true;
    }
    bool in_last = count > 0 && !r->failed && k > 0 && level->kept >> SHIFT * k == least - 1;
    if (level->kept != 0 && level->count > 0 && !in_last) r->failed = true;
}

void gw_levels_get(gw_reader *r, gw_levels *levels) {
    memset(levels, 0, sizeof *levels);
    levels->last = gw_get_u64(r);
    levels->first.step = gw_get_u64(r);
    levels->first.value = gw_get_f64(r);
    uint8_t count = gw_get_u8(r);
    bool bad = levels->last >= UINT64_C(1) << 62 || levels->first.step > levels->last ||
               !is_value(levels->first.value);
    if (count > GW_LEVELS || bad) r->failed = true;
    for (uint32_t k = 0; k < count && !r->failed; k++) get_level(r, k, levels);
    /* What a level has dropped is in the next one. */
    if (count > 0 && count < GW_LEVELS && levels->level[count - 1].dropped) r->failed = true;
}
