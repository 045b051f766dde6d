/* --keep-best: which report it names, and which values are better. */
#include "tools/godwit/node/best.h"

#include <criterion/criterion.h>
#include <string.h>

static const gw_job_type job = {.name = "toy"};
static const gw_evaluation reports[] = {
    {.name = "val_loss", .scalar = 2, .better = GW_LESS_IS_BETTER},
    {.name = "test_accuracy", .scalar = 0, .better = GW_MORE_IS_BETTER},
    {.name = "drift", .scalar = 1},
};
static gw_plan plan = {.evaluations = reports, .evaluation_count = 3};
static gw_node_best best;
static gw_err err;

static bool choose(const char *report, gw_direction direction, uint32_t patience) {
    gw_run_options options = {.job = &job, .keep_best_direction = direction, .patience = patience};
    strcpy(options.keep_best, report);
    return gw_node_best_choose(&options, &plan, &best, &err);
}

Test(node_best, the_job_says_what_is_better_unless_the_user_does) {
    cr_assert(choose("val_loss", 0, 0), "%s", err.text);
    cr_expect(best.rule.on && !best.rule.more && best.evaluation == &reports[0]);
    cr_expect_str_eq(best.by, "val_loss:min");
    cr_assert(choose("test_accuracy", 0, 5), "%s", err.text);
    cr_expect(best.rule.more && best.rule.patience == 5);
    cr_expect_str_eq(best.by, "test_accuracy:max");
    cr_assert(choose("val_loss", GW_MORE_IS_BETTER, 0), "%s", err.text);
    cr_expect_str_eq(best.by, "val_loss:max");
    cr_assert(choose("drift", GW_LESS_IS_BETTER, 0), "%s", err.text);
    cr_expect_str_eq(best.by, "drift:min");
    cr_assert(choose("", 0, 0));
    cr_expect(!best.rule.on && best.evaluation == NULL && best.by[0] == '\0');
}

Test(node_best, what_was_compared_before_is_compared_again_unless_it_is_let_go) {
    gw_run_options options = {.job = &job};
    best = (gw_node_best){0};
    gw_node_best_inherit(&options, &plan, "test_accuracy:min", &best);
    cr_expect(best.rule.on && !best.rule.more && best.evaluation == &reports[1]);
    cr_expect_str_eq(best.by, "test_accuracy:min");
    best = (gw_node_best){0};
    gw_node_best_inherit(&options, &plan, "other:min", &best);
    gw_node_best_inherit(&options, &plan, "", &best);
    options.keep_best_off = true;
    gw_node_best_inherit(&options, &plan, "test_accuracy:min", &best);
    cr_expect(!best.rule.on && best.evaluation == NULL && best.by[0] == '\0');
}

static void refused(const char *report, const char *text) {
    cr_assert_not(choose(report, 0, 0));
    cr_expect_eq(err.code, GW_E_USAGE);
    cr_expect_str_eq(err.text, text);
}

Test(node_best, what_there_is_not_is_refused_with_what_there_is) {
    refused("valloss",
            "--keep-best: an evaluation of toy reports no 'valloss', but val_loss, test_accuracy, drift; "
            "did you mean 'val_loss'?");
    refused("loss",
            "--keep-best: an evaluation of toy reports no 'loss', but val_loss, test_accuracy, drift");
    refused("drift",
            "--keep-best: the job toy does not say whether more or less of drift is better: give drift:min "
            "or drift:max");
    plan.evaluation_count = 0;
    refused("val_loss",
            "--keep-best: the job toy makes no evaluation with these options, by which states could be "
            "compared");
    static const gw_option options[] = {{.name = "val"}, {.name = NULL}};
    const gw_job_type other = {.name = "toy", .options = options};
    const gw_run_options given = {.job = &other, .keep_best = "val_loss"};
    cr_assert_not(gw_node_best_choose(&given, &plan, &best, &err));
    cr_expect_not_null(strstr(err.text, "could be compared: give data for it, by --val"));
}

Test(node_best, a_plan_that_cannot_be_is_refused) {
    static const gw_evaluation wrong[] = {{.name = "ok", .scalar = GW_MAX_SCALARS},
                                          {.name = "two words"},
                                          {.name = ""},
                                          {.name = NULL},
                                          {.name = "a-name-that-is-longer-than-any-key-is"},
                                          {.name = "x", .better = 3}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        plan = (gw_plan){.evaluations = &wrong[i], .evaluation_count = 1};
        cr_expect_not(choose("", 0, 0), "%zu", i);
        cr_expect_eq(err.code, GW_E_INVALID);
    }
}
