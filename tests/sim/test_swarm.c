/* Seeds on several cores, for some time. */
#include "tools/sim/swarm.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sends the signal as soon as the process handles it. */
static void *interrupt(void *context) {
    struct sigaction now;
    do {
        sched_yield();
        cr_assert_eq(sigaction(*(int *)context, NULL, &now), 0);
    } while (now.sa_handler == SIG_DFL);
    kill(getpid(), *(int *)context);
    return NULL;
}

Test(swarm, who_interrupts_it_is_told_what_was_found_so_far) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        gw_sim_swarm swarm = {.options = gw_sim_unset(0), .first = 1, .jobs = 2, .seconds = 100000};
        gw_sim_findings findings;
        pthread_t thread;
        int number = signals[i];
        swarm.options.peers = 3;
        cr_assert_neq(signal(number, SIG_DFL), SIG_ERR); /* needed when the tests run under nohup */
        cr_assert_eq(pthread_create(&thread, NULL, interrupt, &number), 0);
        cr_assert_not(gw_sim_swarm_run(&swarm, &findings));
        pthread_join(thread, NULL);
        cr_assert_eq(findings.failed, 0, "%s", findings.why[0]);
    }
}

/* Runs for a second or more, until at least one seed has ended. */
static void run_for_a_while(gw_sim_swarm *swarm, gw_sim_findings *findings) {
    swarm->jobs = 2;
    swarm->seconds = 1;
    do cr_assert(gw_sim_swarm_run(swarm, findings));
    while (findings->seeds == 0);
}

Test(swarm, schedules_of_repairs_are_nothing_else) {
    gw_sim_swarm swarm = {.options = gw_sim_unset(0), .first = 1, .repairs = true};
    gw_sim_findings findings;
    run_for_a_while(&swarm, &findings);
    const uint64_t *faults = findings.all.faults;
    cr_assert_eq(findings.failed, 0, "%s", findings.why[0]);
    cr_assert_eq(faults[GW_SIM_PAUSE] + faults[GW_SIM_PARTITION] + faults[GW_SIM_FULL_DISK], 0);
    cr_assert_leq(findings.all.fire_ns, findings.seeds * UINT64_C(800000000));
}

/* A job that must be done within a millisecond fails. */
Test(swarm, what_fails_is_told_with_all_its_options) {
    gw_sim_swarm swarm = {.options = gw_sim_unset(0), .first = 1, .repairs = true};
    gw_sim_findings findings;
    char seed[100], found[100] = "", command[GW_SIM_COMMAND], told[GW_SIM_COMMAND + 10] = "";
    FILE *out = tmpfile();
    swarm.options.steps = 300;
    swarm.options.fast = swarm.options.core = 0;
    swarm.options.bound_ms = 1;
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    dup2(fileno(out), STDOUT_FILENO);
    do {
        run_for_a_while(&swarm, &findings);
    } while (findings.failed == 0);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    gw_sim_options options = gw_sim_prepare(&swarm.options, findings.failures[0], true);
    snprintf(seed, sizeof seed, "seed %" PRIu64 " FAILED: ", findings.failures[0]);
    rewind(out);
    cr_assert_not_null(fgets(found, sizeof found, out));
    cr_assert_eq(strncmp(found, seed, strlen(seed)), 0, "%s", found);
    while (strchr(found, '\n') == NULL) cr_assert_not_null(fgets(found, sizeof found, out));
    cr_assert_not_null(fgets(told, sizeof told, out));
    told[strcspn(told, "\n")] = '\0';
    cr_assert_str_eq(told + 2, gw_sim_command(&options, command, sizeof command));
    fclose(out);
}

static pid_t swarm_pid;

static void end_badly(void) {
    if (getpid() != swarm_pid) _exit(3);
}

/* The worker ends as one that runs out of memory, or is killed. */
Test(swarm, a_worker_that_ends_between_two_seeds_is_a_failure, .init = cr_redirect_stdout) {
    gw_sim_swarm swarm = {.options = gw_sim_unset(0), .first = 1, .repairs = true};
    gw_sim_findings findings;
    swarm_pid = getpid();
    cr_assert_eq(atexit(end_badly), 0);
    run_for_a_while(&swarm, &findings);
    cr_assert_eq(findings.failed, 2);
    for (int i = 0; i < 2; i++)
        cr_assert_str_eq(findings.why[i], "the seed was not begun: its process ended with exit code 3");
}
