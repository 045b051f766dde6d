/* Brains that loop for ever: the seed is named, and whoever looks for others goes on. */
#include "tests/canaries/canary.h"

#include "tests/sim/command.h"
#include "tools/sim/swarm.h"
#include "tools/sim/trial.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_S = 1 };
static const char too_long[] = "it takes more than 1 s of processor time";

static void loop(gw_peer *peer, gw_actions *actions, uint32_t at) {
    for (volatile bool on = actions->list[at].kind == GW_ACT_BEGIN_STEP && canary_step_of(peer) == 7; on;) {
    }
}

/* It takes no processor time. */
static void hang(gw_peer *peer, gw_actions *actions, uint32_t at) {
    while (actions->list[at].kind == GW_ACT_BEGIN_STEP && canary_step_of(peer) == 7) pause();
}

static gw_sim_options endless(canary_deed deed) {
    gw_sim_options options = canary_quiet();
    options.processor_s = LIMIT_S;
    canary_plant(&(canary){.act = deed, .after = GW_SIM_FAULTS});
    return options;
}

Test(canary_endless, a_worker_that_loops_for_ever_is_a_failure_of_its_seed, .init = cr_redirect_stdout) {
    gw_sim_swarm swarm = {.options = endless(loop), .first = 1, .jobs = 2, .seconds = 1};
    gw_sim_findings findings;
    cr_assert(gw_sim_swarm_run(&swarm, &findings));
    cr_assert_geq(findings.failed, 2);
    cr_assert_eq(findings.seeds, findings.failed);
    for (uint64_t i = 0; i < 2; i++) cr_assert_str_eq(findings.why[i], too_long);
}

Test(canary_endless, one_seed_that_loops_for_ever_is_a_failure_and_shrunk_no_further) {
    gw_sim_options options = endless(loop), given;
    gw_sim_result result;
    char before[GW_SIM_COMMAND], after[GW_SIM_COMMAND];
    gw_sim_draw(&options);
    given = options;
    gw_sim_try(&options, &result);
    cr_assert(result.failed && result.endless);
    cr_assert_str_eq(result.why, too_long);
    cr_assert(gw_sim_shrink(&options, &result, 100));
    cr_assert_str_eq(result.why, too_long);
    cr_assert_str_eq(gw_sim_command(&options, after, sizeof after),
                     gw_sim_command(&given, before, sizeof before));
}

/* As what breaks an invariant is: the process ends, and says of which seed. */
Test(canary_endless, a_range_of_seeds_ends_at_one_that_loops_for_ever_and_names_it) {
    endless(loop);
    const outcome *o = sim_command("--seeds 5..9 --peers 3 --steps 20 --crash-ms 0 --processor-time 1");
    cr_assert_eq(o->code, -SIGPROF, "%d: %s", o->code, o->out);
    cr_assert_not_null(strstr(o->out, too_long), "%s", o->out);
    cr_assert_not_null(strstr(o->out, "\n  godwit sim --seed 5 --peers 3 "), "%s", o->out);
}

static void *interrupt(void *context) {
    struct sigaction now;
    do {
        usleep(1000);
        cr_assert_eq(sigaction(SIGINT, NULL, &now), 0);
    } while (now.sa_handler == SIG_DFL);
    for (int i = 0; i < *(int *)context; i++) {
        usleep(300000); /* meanwhile workers come to where they hang */
        kill(getpid(), SIGINT);
    }
    return NULL;
}

static void assert_that_interrupts_end(gw_sim_swarm swarm, int times) {
    gw_sim_findings findings;
    pthread_t thread;
    cr_assert_neq(signal(SIGINT, SIG_DFL), SIG_ERR);
    cr_assert_eq(pthread_create(&thread, NULL, interrupt, &times), 0);
    cr_assert_not(gw_sim_swarm_run(&swarm, &findings));
    pthread_join(thread, NULL);
    cr_assert_eq(findings.failed, 0, "%s", findings.why[0]);
}

static void assert_that_seed_is_told(FILE *told, unsigned seed) {
    char text[4 * GW_SIM_COMMAND] = "", line[100];
    rewind(told);
    cr_assert_gt(fread(text, 1, sizeof text - 1, told), 0);
    snprintf(line, sizeof line, "seed %u was stopped before its end\n  godwit sim --seed %u ", seed, seed);
    cr_assert_not_null(strstr(text, line), "%s", text);
}

static void assert_that_a_hanging_swarm_ends(uint32_t patience_s, int interrupts) {
    gw_sim_swarm swarm = {.options = endless(hang), .first = 1, .jobs = 2, .seconds = 100000};
    FILE *told = tmpfile();
    int before = dup(STDOUT_FILENO);
    swarm.patience_s = patience_s;
    fflush(stdout);
    dup2(fileno(told), STDOUT_FILENO);
    assert_that_interrupts_end(swarm, interrupts);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    for (unsigned seed = 1; seed <= 2; seed++) assert_that_seed_is_told(told, seed);
    fclose(told);
}

Test(canary_endless, who_interrupts_a_swarm_that_hangs_waits_no_longer_than_it_is_patient) {
    assert_that_a_hanging_swarm_ends(1, 1);
}

Test(canary_endless, who_interrupts_it_twice_does_not_wait) {
    assert_that_a_hanging_swarm_ends(100000, 2);
}
