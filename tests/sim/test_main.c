/* The simulator's command line: what it prints, and its exit codes. */
#include "tests/sim/command.h"
#include "tools/sim/run.h"
#include "tools/sim/trial.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A job that must be done within a millisecond fails. */
Test(main, a_schedule_of_repairs_is_shrunk_as_one) {
    const outcome *o = sim_command("--repairs --seed 3 --fast 0 --core 0 --steps 300 --bound-ms 1 --shrink");
    cr_expect_eq(o->code, 1, "%d", o->code);
    cr_expect_not_null(strstr(o->out, " --steps 1 "), "%s", o->out);
    cr_expect_not_null(strstr(o->out, " --shard-us 4000 "), "%s", o->out);
    cr_expect_not_null(strstr(o->out, " --restart-ms 60 "), "%s", o->out);
}

Test(main, a_seed_that_does_not_fail_is_not_shrunk) {
    const outcome *o = sim_command("--repairs --seed 3 --shrink");
    cr_expect_eq(o->code, 0, "%d", o->code);
    cr_expect_not_null(strstr(o->out, "seed 3 does not fail"), "%s", o->out);
}

/* The run fails because its job must be done within a millisecond. */
Test(main, of_a_long_trace_the_end_is_printed) {
    enum { LINES = 10 };
    gw_sim_options options = gw_sim_unset(3);
    char text[10000];
    options.peers = 3;
    options.steps = 300;
    options.fault_ms = 2000;
    options.shard_us = 20000;
    options.bound_ms = 1;
    options.fast = 0;
    gw_sim_undisturbed(&options);
    gw_sim_draw(&options);
    int out = memfd_create("out", 0), before = dup(STDOUT_FILENO);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    gw_sim_print_trace(&options, LINES);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    ssize_t got = pread(out, text, sizeof text - 1, 0);
    cr_assert_gt(got, 0);
    text[got] = '\0';
    uint32_t lines = 0;
    for (const char *c = text; *c != '\0'; c++) lines += *c == '\n';
    cr_expect_eq(lines, LINES, "%s", text);
    const char *violation = strstr(text, " VIOLATION the job is not done 1 ms ");
    cr_expect(violation != NULL && strchr(violation, '\n') == text + got - 1, "%s", text);
    close(out);
    close(before);
}

/* Returns the printed text with wrapped lines joined. */
static char *unwrapped(const char *text) {
    char *whole = strdup(text), *to = whole;
    cr_assert_not_null(whole);
    for (const char *from = text; *from != '\0'; from++) {
        bool wraps = strncmp(from, "\n  ", 3) == 0;
        *to++ = wraps ? ' ' : *from;
        if (wraps) from += 2;
    }
    *to = '\0';
    return whole;
}

/* The summary lists the faults that occurred with their counts, and the kinds that did not occur. */
Test(main, faults_are_counted_by_kind) {
    const outcome *o =
        sim_command("--seed 1 --peers 2 --drop 100 --drift 50 --tail 50 --damage-ms 0 --haul 0");
    cr_expect_eq(o->code, 0, "%d", o->code);
    char *text = unwrapped(o->out), *none = strstr(text, "\nno: ");
    cr_assert_not_null(none, "%s", o->out);
    static const char *const there[] = {"2 skewed clocks", " datagrams lost", " messages late"};
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        const char *found = strstr(text, there[i]);
        cr_expect(found != NULL && found < none, "%s: %s", there[i], o->out);
    }
    cr_expect_not_null(strstr(none, "misdirected writes"), "%s", o->out);
    free(text);
}

Test(main, what_is_not_heeded_is_refused) {
    static const char *const lines[][2] = {
        {"--seeds 1..9 --shrink", "--shrink works on one seed"},
        {"--seed 3 --seeds 1..3", "--seed cannot be combined with --seeds"},
        {"--minutes 1 --seeds 1..3", "--seeds cannot be combined with --minutes"},
        {"--seed 3 --jobs 2", "--jobs needs --minutes"},
        {"--reduce fast --quorum any", "--reduce fast needs --quorum majority"},
        {"--majority 0 --fast 1", "--reduce fast needs --quorum majority"},
        {"--flip-ms 1000 --verify 0", "--flip-ms needs --verify above 0"},
        {"--flip-ms 1000", "--flip-ms needs --verify above 0"},
        {"--core 0 --stay 500", "--stay and --force cannot be combined with --core 0"},
        {"--core 2 --force 1 --quorum any", "cannot be combined with --quorum any"},
        {"--core 5 --peers 5", "--core 5: it must be less than --peers 5"},
        {"--gossip 10 --wipe 3", "--wipe cannot be combined with --gossip"},
        {"--peers 5 --gossip 10", "--peers cannot be combined with --gossip"},
        {"--gossip 10 --quorum any", "--quorum cannot be combined with --gossip"},
        {"--repairs --gossip 10", "--repairs cannot be combined with --gossip"},
        {"--gossip 10 --flap 100", "give that too"},
        {"--gossip 10 --fault-ms 100", "give one of"},
        {"--gossip 10 --forks 3x3", "--forks cannot be combined with --gossip"},
        {"--forks 3x3 --drop 10", "--drop cannot be combined with --forks"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const outcome *o = sim_command(lines[i][0]);
        cr_expect_neq(o->code, 0, "%s", lines[i][0]);
        cr_expect_not_null(strstr(o->out, lines[i][1]), "%s: %s", lines[i][0], o->out);
    }
}

/* Sends the signal as soon as the process handles it. */
static void *interrupt(void *context) {
    struct sigaction now;
    do {
        sched_yield();
        cr_assert_eq(sigaction(SIGINT, NULL, &now), 0);
    } while (now.sa_handler == SIG_DFL);
    kill(getpid(), SIGINT);
    return context;
}

Test(main, who_interrupts_many_seeds_is_told_what_was_found_so_far) {
    char words[][16] = {"sim", "--seeds", "1..2000000000", "--peers", "3"};
    char *argv[] = {words[0], words[1], words[2], words[3], words[4], NULL};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, interrupt, NULL), 0);
    cr_assert_eq(gw_sim_main(5, argv), 130);
    pthread_join(thread, NULL);
}

Test(main, what_gossip_heeds_is_told) {
    const outcome *o = sim_command(
        "--gossip 20 --seed 4 --drop 20 --duplicate 20 --garble 20 --delay-us 2000 --tail 10 --partition-ms "
        "3000 --flap 500 --blind-ms 2000 --clog-ms 500 --fault-ms 20000 --slow 100");
    cr_expect_eq(o->code, 0, "%d", o->code);
    cr_expect_not_null(strstr(o->out, " garbled, 0 of these accepted"), "%s", o->out);
    cr_expect_not_null(strstr(o->out, "then cut "), "%s", o->out);
    cr_expect_not_null(strstr(o->out, "after that all know all "), "%s", o->out);
    cr_expect_not_null(strstr(o->out, "nothing, with such a network"), "%s", o->out);
}

Test(main, what_is_asked_of_gossip_is_told) {
    const outcome *o = sim_command("--gossip 20 --partition-ms 3000 --fault-ms 5000");
    cr_expect_eq(o->code, 0, "%d", o->code);
    cr_expect_not_null(strstr(o->out, "at most 2000 B/s, and 3 s until all peers know\n"), "%s", o->out);
}
