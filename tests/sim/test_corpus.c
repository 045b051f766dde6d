/* Runs that once failed (corpus.txt, tests/found.md) pass now, and the text form of the options holds all
 * of them. */
#include "tests/sim/corpus.h"
#include "tools/sim/run.h"
#include "tools/sim/trial.h"

#include <criterion/criterion.h>

enum { RUNS = 135 }; /* at least so many runs are in the corpus */

Test(corpus, runs_that_once_failed_pass) {
    cr_assert_geq(corpus_pass("corpus.txt"), RUNS);
}

Test(corpus, a_command_line_holds_every_option) {
    for (uint64_t seed = 1; seed <= 300; seed++) {
        gw_sim_options options = gw_sim_unset(seed), back;
        char text[GW_SIM_COMMAND], again[GW_SIM_COMMAND];
        const char *wrong;
        gw_sim_draw(&options);
        gw_sim_command(&options, text, sizeof text);
        cr_assert(gw_sim_command_read(text, &back, &wrong), "%s", wrong);
        cr_assert_str_eq(gw_sim_command(&back, again, sizeof again), text);
        gw_sim_draw(&back); /* nothing is left to be drawn */
        cr_assert_str_eq(gw_sim_command(&back, again, sizeof again), text);
    }
}

Test(corpus, nonsense_is_not_understood) {
    static const char *const lines[] = {"",
                                        "godwit",
                                        "godwit run",
                                        "godwit sim --fly 3",
                                        "godwit sim --peers",
                                        "godwit sim --peers 0",
                                        "godwit sim --peers 3x",
                                        "godwit sim 3"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        gw_sim_options options;
        const char *wrong;
        cr_assert(!gw_sim_command_read(lines[i], &options, &wrong), "'%s'", lines[i]);
    }
}

/* A job that cannot be done in time fails without any of its faults, so all of them are removed. */
Test(corpus, a_failing_run_is_shrunk_to_what_makes_it_fail) {
    gw_sim_options options = gw_sim_unset(5);
    gw_sim_result result;
    options.peers = 5;
    options.shard_us = 2000000;
    options.steps = 200;
    options.fault_ms = 3000;
    options.bound_ms = 1000;
    options.crash_ms = 500;
    options.drop_permille = 50;
    gw_sim_draw(&options);
    cr_assert(gw_sim_shrink(&options, &result, 300));
    cr_assert(result.failed);
    cr_assert_eq(options.crash_ms, 0);
    cr_assert_eq(options.drop_permille, 0);
    cr_assert_leq(options.peers, 2);
    gw_sim_run(&options, &result);
    cr_assert(result.failed, "what it was shrunk to replays");
}

Test(corpus, a_sound_run_is_not_shrunk) {
    gw_sim_options options = gw_sim_unset(1);
    gw_sim_result result;
    options.peers = 2;
    options.steps = 5;
    options.fault_ms = 0;
    gw_sim_undisturbed(&options);
    gw_sim_draw(&options);
    cr_assert(!gw_sim_shrink(&options, &result, 10));
}
