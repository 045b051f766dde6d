/* A job's commit hook under kills: each step's effect takes place at least once, and none of a step that was
 * computed otherwise in the end. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 60, MOST_LINES = 4096 };

typedef struct ledger {
    char path[LAB_PATH + 16], args[2 * LAB_PATH];
    uint32_t lines[STEPS]; /* by step */
    uint32_t bits[STEPS];
} ledger;

static void open_ledger(const lab *l, const char *args, ledger *w) {
    memset(w, 0, sizeof *w);
    snprintf(w->path, sizeof w->path, "%s/ledger", l->dir);
    snprintf(w->args, sizeof w->args, GODWIT_LEDGER_JOB " --workers 1 --ledger %s %s", w->path, args);
}

/* All lines of a step tell of the same state. */
static void read_ledger(ledger *w) {
    FILE *file = fopen(w->path, "r");
    unsigned step, bits;
    memset(w->lines, 0, sizeof w->lines);
    cr_assert_not_null(file);
    while (fscanf(file, "%u %x", &step, &bits) == 2) {
        cr_assert_lt(step, STEPS);
        if (w->lines[step]++ > 0) cr_expect_eq(bits, w->bits[step], "two effects of step %u differ", step);
        w->bits[step] = bits;
    }
    cr_assert(feof(file));
    fclose(file);
}

static void expect_every_step(ledger *w) {
    read_ledger(w);
    for (int step = 0; step < STEPS; step++) cr_expect_gt(w->lines[step], 0, "no effect of step %d", step);
}

static void start_three(lab *l, lab_peer **peers, const ledger *w) {
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, w->args);
    }
}

static void kill_the_leader_and_come_back(const char *args) {
    ledger w;
    lab *l = lab_open();
    lab_peer *peers[3];
    open_ledger(l, args, &w);
    start_three(l, peers, &w);
    lab_wait_step(l, peers[0], 8);
    uint32_t leader = lab_leader(peers, 3);
    char name[8];
    snprintf(name, sizeof name, "p%u", leader);
    lab_kill(l, peers[leader]);
    lab_peer *back = lab_start(l, name, peers[(leader + 1) % 3], w.args);
    const char *hash = lab_state(l, peers[(leader + 1) % 3], "done");
    cr_expect_str_eq(lab_state(l, peers[(leader + 2) % 3], "done"), hash);
    cr_expect_str_eq(lab_state(l, back, "done"), hash);
    expect_every_step(&w);
    lab_close(l);
}

Test(effects, every_step_has_its_effect_although_the_leader_is_killed) {
    kill_the_leader_and_come_back("--peers 3");
}

/* Float sums depend on who adds: the effect of a step that was made twice would show. */
Test(effects, with_float_sums_they_are_of_what_the_majority_holds) {
    kill_the_leader_and_come_back("--peers 3 --quorum majority --reduce fast");
}

Test(effects, every_step_has_its_effect_although_all_are_killed_at_once) {
    ledger w;
    lab *l = lab_open();
    lab_peer *peers[3];
    open_ledger(l, "--peers 3 --checkpoint-every 5", &w);
    start_three(l, peers, &w);
    lab_wait_step(l, peers[0], 12);
    for (int i = 0; i < 3; i++) lab_signal(peers[i], SIGSTOP);
    for (int i = 0; i < 3; i++) lab_kill(l, peers[i]);
    start_three(l, peers, &w);
    const char *hash = lab_state(l, peers[0], "done");
    cr_expect_str_eq(lab_state(l, peers[1], "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, GODWIT_LEDGER_JOB " --workers 1"), hash);
    expect_every_step(&w);
    lab_close(l);
}

static bool says(const lab_peer *peer, const char *part) {
    return peer->stderr_text != NULL && strstr(peer->stderr_text, part) != NULL;
}

static void one_cannot(const char *option, const char *why) {
    ledger w;
    lab *l = lab_open();
    lab_peer *peers[3];
    open_ledger(l, "--peers 3 --hang-timeout 4s", &w);
    char args[3 * LAB_PATH];
    snprintf(args, sizeof args, "%s %s", w.args, option);
    peers[0] = lab_start(l, "p0", NULL, w.args);
    peers[1] = lab_start(l, "p1", peers[0], w.args);
    peers[2] = lab_start(l, "p2", peers[0], args);
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect(says(peers[2], why), "%s", peers[2]->stderr_text);
    const char *hash = lab_state(l, peers[0], "done");
    cr_expect_str_eq(lab_state(l, peers[1], "done"), hash);
    expect_every_step(&w);
    lab_close(l);
}

Test(effects, whose_commit_fails_ends_and_the_others_go_on) {
    one_cannot("--fail-commit 7", "job ledger: step 7: commit: the ledger is shut");
}

Test(effects, whose_commit_hangs_ends_and_the_others_go_on) {
    one_cannot("--hang-commit 7", "they take too long");
}

/* Nobody waits for it any more, but this process does. */
Test(effects, the_last_steps_effect_takes_place_before_the_end) {
    ledger w;
    lab *l = lab_open();
    open_ledger(l, "--fail-commit 59", &w);
    lab_peer *peer = lab_start(l, "one", NULL, w.args);
    cr_expect_eq(lab_end(l, peer), 1);
    cr_expect(says(peer, "step 59: commit: the ledger is shut"), "%s", peer->stderr_text);
    lab_close(l);
}

/* In majority mode it begins when all else is done: the final state is saved. */
Test(effects, a_last_effect_that_hangs_is_no_success) {
    ledger w;
    lab *l = lab_open();
    open_ledger(l, "--peers 1 --quorum majority --steps 8 --hang-commit 7 --hang-timeout 2s", &w);
    lab_peer *peer = lab_start(l, "one", NULL, w.args);
    cr_expect_eq(lab_end(l, peer), 1);
    cr_expect_str_eq(lab_text(lab_last(peer, "done"), "outcome"), "failed");
    cr_expect(says(peer, "they take too long"), "%s", peer->stderr_text);
    lab_close(l);
}
