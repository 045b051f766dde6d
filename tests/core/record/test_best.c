/* The record of the best evaluated state. */
#include "core/record/best.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const gw_best_rule less = {.on = true}, more = {.on = true, .more = true};

static gw_best after(const gw_best_rule *rule, uint32_t count, const double *values) {
    gw_best best = {0};
    for (uint32_t i = 0; i < count; i++) gw_best_take(&best, rule, values[i], 10 * (i + 1));
    return best;
}

Test(best, the_least_or_the_largest_value_counts) {
    const double values[] = {3, 1, 4, 1.5};
    const gw_best low = after(&less, 4, values), high = after(&more, 4, values);
    cr_expect(low.any && low.value == 1 && low.step == 20 && low.waited == 2);
    cr_expect(high.any && high.value == 4 && high.step == 30 && high.waited == 1);
}

/* Values are compared with all their bits, not as people see them. */
Test(best, the_last_bit_decides_and_a_tie_keeps_the_earlier_state) {
    const double nearly = nextafter(1, 0), values[] = {1, 1, nearly, nearly};
    const gw_best best = after(&less, 4, values);
    cr_expect(best.value < 1 && best.step == 30 && best.waited == 1);
    const double zeros[] = {0.0, -0.0};
    cr_expect_eq(after(&less, 2, zeros).step, 10);
}

Test(best, nan_is_never_the_best) {
    const double values[] = {(double)NAN, (double)INFINITY, (double)NAN, 5, (double)NAN};
    for (uint32_t count = 0; count <= 5; count++) {
        const gw_best best = after(&less, count, values);
        cr_expect_eq(best.any, count >= 2);
        cr_expect_eq(best.step, count >= 4 ? 40 : count >= 2 ? 20 : 0);
        cr_expect_eq(best.waited, count == 0 || count == 2 || count == 4 ? 0 : 1);
    }
}

Test(best, the_job_ends_after_so_many_evaluations_in_vain) {
    const gw_best_rule rule = {.on = true, .patience = 2}, patient = {.on = true}, off = {.patience = 2};
    const double values[] = {3, 4, 2, (double)NAN, 2};
    for (uint32_t count = 0; count <= 5; count++) {
        const gw_best best = after(&rule, count, values);
        cr_expect_eq(gw_best_is_over(&best, &rule), count == 5, "%u", count);
        cr_expect_not(gw_best_is_over(&best, &patient));
        cr_expect_not(gw_best_is_over(&best, &off));
    }
}

Test(best, a_state_of_which_no_disk_took_a_checkpoint_leaves_an_earlier_one) {
    gw_best best = {0};
    cr_expect_not(gw_best_lacks_checkpoint(&best, 0));
    gw_best_take(&best, &less, 3, 10);
    cr_expect(gw_best_lacks_checkpoint(&best, 10));
    cr_expect_not(gw_best_lacks_checkpoint(&best, 11));
    gw_best_note_checkpoint(&best, &(gw_checkpoint_ref){9, {{1}}});
    cr_expect_eq(best.kept.step, 0);
    gw_best_note_checkpoint(&best, &(gw_checkpoint_ref){10, {{2}}});
    cr_expect(best.kept.step == 10 && best.kept.root.bytes[0] == 2 && best.kept_value == 3);
    cr_expect_not(gw_best_lacks_checkpoint(&best, 10));
    gw_best_take(&best, &less, 1, 20);
    gw_best_take(&best, &less, 2, 30);
    cr_expect(best.step == 20 && best.kept.step == 10 && best.kept_value == 3);
}

Test(best, of_two_holders_the_one_counts_that_has_heard_of_the_checkpoint) {
    gw_best heard = after(&less, 2, (const double[]){5, 4}), not_heard = heard, nothing = {.waited = 2};
    gw_best_note_checkpoint(&heard, &(gw_checkpoint_ref){20, {{7}}});
    gw_best united = not_heard;
    gw_best_unite(&united, &heard);
    cr_expect(united.step == 20 && united.kept.step == 20 && united.kept_value == 4);
    united = heard;
    gw_best_unite(&united, &not_heard);
    cr_expect(united.kept.step == 20 && united.kept.root.bytes[0] == 7);
    gw_best_unite(&nothing, &heard);
    cr_expect(nothing.any && nothing.step == 20 && nothing.waited == 0);
    gw_best none = {0};
    gw_best_unite(&none, &(gw_best){.waited = 3});
    cr_expect(!none.any && none.waited == 3);
}

Test(best, the_value_of_another_peer_is_taken_over) {
    gw_best own = after(&less, 1, (const double[]){5}), other = after(&less, 1, (const double[]){4}),
            none = {0};
    gw_best_adopt(&own, gw_best_word(&own));
    cr_expect_eq(own.step, 10);
    gw_best_adopt(&own, gw_best_word(&other));
    cr_expect(own.any && own.value == 4 && own.step == 0);
    gw_best_adopt(&own, gw_best_word(&none));
    cr_expect_not(own.any);
    cr_expect_eq(gw_best_word(&own), gw_best_word(&none));
}

Test(best, what_is_written_is_read) {
    gw_best best = after(&more, 3, (const double[]){-1, 0.1, 0.05});
    gw_best_note_checkpoint(&best, &(gw_checkpoint_ref){20, {{9}}});
    uint8_t bytes[100];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_best_put(&w, &best);
    cr_assert_not(w.failed);
    gw_reader r = gw_reader_on(bytes, w.length);
    const gw_best back = gw_best_get(&r, 30);
    cr_assert(gw_reader_done(&r));
    cr_expect(back.any && back.value == 0.1 && back.step == 20 && back.waited == 1);
    cr_expect(back.kept.step == 20 && back.kept.root.bytes[0] == 9 && back.kept_value == 0.1);
    gw_reader early = gw_reader_on(bytes, w.length);
    gw_best_get(&early, 19); /* it is of a later state */
    cr_expect(early.failed);
}
