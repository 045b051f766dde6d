#include "core/record/best.h"

#include <math.h>
#include <string.h>

bool gw_best_take(gw_best *best, const gw_best_rule *rule, double value, uint64_t step) {
    bool better = !isnan(value) && (!best->any || (rule->more ? value > best->value : value < best->value));
    if (!better) {
        if (best->waited < UINT32_MAX) best->waited++;
        return false;
    }
    best->any = true;
    best->value = value;
    best->step = step;
    best->waited = 0;
    return true;
}

bool gw_best_is_over(const gw_best *best, const gw_best_rule *rule) {
    return rule->on && rule->patience > 0 && best->waited >= rule->patience;
}

bool gw_best_lacks_checkpoint(const gw_best *best, uint64_t step) {
    return best->any && step > 0 && best->step == step && best->kept.step != step;
}

void gw_best_note_checkpoint(gw_best *best, const gw_checkpoint_ref *whole) {
    if (!best->any || whole->step == 0 || best->step != whole->step) return;
    best->kept = *whole;
    best->kept_value = best->value;
}

void gw_best_unite(gw_best *best, const gw_best *other) {
    gw_best first = best->any || !other->any ? *best : *other;
    const gw_best *newest = best->kept.step >= other->kept.step ? best : other;
    const gw_checkpoint_ref kept = newest->kept;
    const double kept_value = newest->kept_value;
    if (!best->any && !other->any && other->waited > first.waited) first.waited = other->waited;
    *best = first;
    best->kept = kept;
    best->kept_value = kept_value;
}

bool gw_best_is_known(const gw_best *best) {
    return best->any || best->waited > 0;
}

/* NaN, which is never the best, stands for none. */
static double value_or_nan(const gw_best *best) {
    return best->any ? best->value : NAN;
}

int64_t gw_best_word(const gw_best *best) {
    double value = value_or_nan(best);
    int64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

void gw_best_adopt(gw_best *best, int64_t word) {
    if (word == gw_best_word(best)) return;
    memcpy(&best->value, &word, sizeof best->value);
    best->any = !isnan(best->value);
    best->step = 0;
    if (!best->any) best->value = 0;
}

/* Reads a number; NaN fails the reader. */
static double get_double(gw_reader *r) {
    double value = gw_get_f64(r);
    if (isnan(value)) r->failed = true;
    return value;
}

void gw_best_put(gw_writer *w, const gw_best *best) {
    gw_put_u8(w, best->any);
    gw_put_f64(w, best->value);
    gw_put_u64(w, best->step);
    gw_put_u32(w, best->waited);
    gw_put_u64(w, best->kept.step);
    gw_put_hash(w, &best->kept.root);
    gw_put_f64(w, best->kept_value);
}

gw_best gw_best_get(gw_reader *r, uint64_t step) {
    gw_best best = {0};
    uint8_t any = gw_get_u8(r);
    best.any = any == 1;
    best.value = get_double(r);
    best.step = gw_get_u64(r);
    best.waited = gw_get_u32(r);
    best.kept.step = gw_get_u64(r);
    gw_get_hash(r, &best.kept.root);
    best.kept_value = get_double(r);
    bool possible = any <= 1 && best.step <= step && best.kept.step <= step && (best.any || best.step == 0);
    if (!possible) r->failed = true;
    return r->failed ? (gw_best){0} : best;
}
