/* Jobs that go on from the whole state of another job (--continue). */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TEXT = 400 };

static void write_text(const char *path, size_t count, unsigned step) {
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    for (size_t i = 0; i < count; i++) fputc('a' + (int)(i * i * step % 17), file);
    cr_assert_eq(fclose(file), 0);
}

/* A tiny training with a decay in its last twelve updates, of so many updates. Evaluations follow every
 * eighth. */
static const char *gpt(const lab *l, unsigned updates, char text[TEXT]) {
    char data[LAB_PATH + 8], val[LAB_PATH + 8];
    struct stat about;
    snprintf(data, sizeof data, "%s/data", l->dir);
    snprintf(val, sizeof val, "%s/val", l->dir);
    if (stat(data, &about) != 0) {
        write_text(data, 6000, 1);
        write_text(val, 800, 3);
    }
    snprintf(text, TEXT,
             "gpt --data %s --val %s --layers 1 --heads 1 --channels 8 --context 16 --batch-tokens 256 "
             "--eval-every 8 "
             "--schedule wsd --warmup 4 --decay-updates 12 --workers 1 --checkpoint-every 9 --updates %u",
             data, val, updates);
    return text;
}

static const char *with(const char *args, const char *more, char text[TEXT + 100]) {
    snprintf(text, TEXT + 100, "%s %s", args, more);
    return text;
}

static void expect_refused(lab *l, const char *name, const char *args, const char *part) {
    lab_peer *peer = lab_launch(l, name, NULL, NULL, args);
    cr_expect_eq(lab_end(l, peer), 2);
    cr_expect(peer->stderr_text != NULL && strstr(peer->stderr_text, part) != NULL, "'%s' is not in: %s",
              part, peer->stderr_text != NULL ? peer->stderr_text : "");
}

/* Runs a command about a directory, and expects its exit code and a part of what it prints. */
static void expect_shown(const char *command, const char *dir, const char *options, int expected,
                         const char *part) {
    char line[2 * LAB_PATH + 100];
    int code;
    snprintf(line, sizeof line, GODWIT_BINARY " %s %s %s 2>&1", command, dir, options);
    char *text = lab_shell(line, &code);
    cr_expect_eq(code, expected, "%s: exit code %d: %s", line, code, text);
    cr_expect_not_null(strstr(text, part), "'%s' is not in: %s", part, text);
    free(text);
}

/* When the checkpoints in a directory were saved; the caller frees the text. */
static char *times_in(const char *dir) {
    char command[2 * LAB_PATH];
    int code;
    snprintf(command, sizeof command, GODWIT_BINARY " inspect %s --json | grep created_ms", dir);
    char *times = lab_shell(command, &code);
    cr_assert_eq(code, 0, "%s", times);
    return times;
}

/* A directory with two jobs tells of both, and the older one can be removed. */
static void check_prune(const lab_peer *branch) {
    const char *dir = branch->dir;
    char id[24];
    expect_shown("inspect", dir, "", 0, "went on from step 27 of job ");
    expect_shown("inspect", dir, "", 0, " && godwit run gpt --data ");
    expect_shown("inspect", dir, "| grep -c parent-", 1, "0\n"); /* it is told once */
    expect_shown("inspect", dir, "| grep -v ^command | grep -c '.\\{81\\}'", 1, "0\n");
    snprintf(id, sizeof id, "--job j%.8s", lab_text(lab_last(branch, "start"), "job_id"));
    expect_shown("inspect", dir, id, 0, "went on from step 27 of job ");
    expect_shown("inspect", dir, id, 0, "step         45, after 40 updates\n");
    /* The other job is the one from which it goes on: nobody can mean that without naming it. */
    expect_shown("inspect", dir, "2>&1 | grep -c 'took job'", 1, "0\n");
    expect_shown("prune", dir, "", 0, ": 2 jobs");
    expect_shown("prune", dir, "| grep -c '.\\{80\\}'", 1, "0\n");
    expect_shown("prune", dir, "--yes", 2, "say what to remove");
    expect_shown("prune", dir, "--job 0123456789", 2, "holds no job whose id begins with 0123456789");
    expect_shown("prune", dir, "--others", 0, "Nothing is removed yet: give --yes");
    expect_shown("prune", dir, "", 0, ": 2 jobs");
    expect_shown("prune", dir, "--others --yes", 0, " are free now");
    expect_shown("prune", dir, "--others", 0, "There is nothing to remove");
    expect_shown("inspect", dir, "", 0, "went on from step 27 of job ");
}

Test(continue_run, a_decay_branched_off_is_the_run_that_had_it_from_the_start) {
    char whole[TEXT], longer[TEXT], more[TEXT + 100];
    lab *l = lab_open();
    const char *right = lab_undisturbed(l, gpt(l, 40, whole));
    lab_state(l, lab_start(l, "one", NULL, with(gpt(l, 60, longer), "--steps 27", more)), "done");
    expect_refused(l, "one", whole, "(updates=60, here 40)");
    expect_refused(l, "one", whole, "--continue");
    /* What the command gives comes first, also what would follow from it; and the log has all. */
    expect_refused(l, "one", with(whole, "--decay-updates 11", more),
                   "(updates=60, here 40; decay-updates=12, here 11)");
    expect_refused(l, "one", with(whole, "--seed 3 --lr 0.5 --beta2 0.9 --clip 2", more), "; and 2 more)");
    const char *all = lab_logged(&l->peers[l->count - 1], "all that differs between job ");
    cr_expect(all != NULL && strstr(all, "beta2=0.95, here 0.9") != NULL &&
                  strstr(all, "seed=1, here 3") != NULL,
              "%s", all != NULL ? all : "");
    lab_peer *branch = lab_start(l, "one", NULL, with(whole, "--continue", more));
    cr_expect_str_eq(lab_state(l, branch, "done"), right);
    cr_expect_eq(lab_number(lab_last(branch, "continue"), "step"), 27);
    /* The same command resumes, although its own checkpoint is the newest by now. It makes nothing new:
     * the times by which people and commands take the job that was saved last stay. */
    char *saved = times_in(branch->dir);
    branch = lab_start(l, "one", NULL, with(whole, "--continue", more));
    cr_expect_str_eq(lab_state(l, branch, "done"), right);
    char *saved_again = times_in(branch->dir);
    cr_expect_str_eq(saved_again, saved);
    free(saved_again);
    free(saved);
    cr_expect_eq(lab_number(lab_last(branch, "resumed"), "step"), 45);
    /* From another directory, at a step that is not the newest. */
    expect_refused(l, "two", with(whole, "--continue ../nowhere", more), "there is no directory ../nowhere");
    snprintf(more, sizeof more, "%s --continue %s@27", whole, branch->dir);
    lab_peer *other = lab_start(l, "two", NULL, more);
    cr_expect_str_eq(lab_state(l, other, "done"), right);
    cr_expect_not_null(lab_logged(other, "; what differs: updates=60, here 40"));
    /* What the directory tells of the job: where it went on from, and the command to type again. */
    expect_refused(l, "two", with(whole, "--continue --seed 2", more), "--updates: the training has 40");
    expect_refused(l, "two", with(whole, "--continue @5", more),
                   "no checkpoint of the job gpt at step 5; there ");
    expect_refused(
        l, "two", with(gpt(l, 60, longer), "--continue --channels 16", more),
        "the tensor wte.weight is f32 [256, 8] in the state of step 45, and f32 [256, 16] in this job");
    expect_refused(l, "two", "digits --continue", "holds checkpoints of the job gpt, and this is digits");
    expect_refused(l, "three", with(whole, "--continue", more), "holds no checkpoint to go on from");
    check_prune(branch);
    branch = lab_start(l, "one", NULL, with(whole, "--continue", more));
    cr_expect_str_eq(lab_state(l, branch, "done"), right);
    lab_close(l);
}

Test(continue_run, beside_a_running_peer_only_other_jobs_are_removed) {
    char id[16], options[90];
    lab *l = lab_open();
    lab_state(l, lab_start(l, "one", NULL, "synthetic --state-bytes 4096 --steps 3"), "done");
    expect_refused(l, "one", "synthetic --state-bytes 4096 --steps 9",
                   "to stop for a while there is godwit stop");
    lab_peer *peer =
        lab_start(l, "one", NULL, "synthetic --state-bytes 4096 --checkpoint-every 1 --continue");
    lab_wait_event(l, peer, "checkpoint");
    free(lab_wait_shown(l, peer, "", "went on from step 3 of job "));
    snprintf(id, sizeof id, "%.8s", lab_text(lab_last(peer, "start"), "job_id"));
    snprintf(options, sizeof options, "--job %s --yes | grep -c removing", id);
    expect_shown("prune", peer->dir, options, 1, "0\n");
    snprintf(options, sizeof options, "--job %s --yes", id);
    expect_shown("prune", peer->dir, options, 1, "is the one that the peer in ");
    snprintf(options, sizeof options, "--job %s", id);
    expect_shown("prune", peer->dir, options, 1, "is the one that the peer in ");
    snprintf(options, sizeof options, ", and the peer that runs there runs job %s (synthetic)", id);
    expect_shown("generate", peer->dir, "", 2, options);
    expect_shown("prune", peer->dir, "--others --yes", 0, "frees the space at its next checkpoint");
    expect_shown("prune", peer->dir, "", 0, ": 1 job\n");
    lab_mark(l, peer);
    lab_wait_event(l, peer, "checkpoint");
    lab_close(l);
}

Test(continue_run, peers_agree_where_they_go_on) {
    char whole[TEXT], longer[TEXT], more[TEXT + 100];
    lab *l = lab_open();
    const char *right = lab_undisturbed(l, gpt(l, 40, whole));
    gpt(l, 60, longer);
    /* One has made more steps than the other, and the third was not there. */
    lab_state(l, lab_start(l, "p0", NULL, with(longer, "--steps 18", more)), "done");
    lab_state(l, lab_start(l, "p1", NULL, with(longer, "--steps 27", more)), "done");
    lab_peer *peers[3];
    lab_flock(l, 3, with(whole, "--continue", more), peers);
    for (int i = 0; i < 3; i++) {
        cr_expect_str_eq(lab_state(l, peers[i], "done"), right, "peer %d", i);
        cr_expect_eq(lab_number(lab_last(peers[i], "continue"), "step"), 27);
    }
    lab_flock(l, 3, with(whole, "--continue", more), peers);
    for (int i = 0; i < 3; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), right, "peer %d", i);
    lab_close(l);
}

#define DIGITS "digits --hidden 8 --samples 600 --workers 1 --checkpoint-every 1 --keep 20"

/* The first digits of the id of the job that a peer has run, with `before` and `behind` around them. */
static const char *named(const lab_peer *peer, const char *before, const char *behind, char text[TEXT]) {
    snprintf(text, TEXT, "%s%.8s%s", before, lab_text(lab_last(peer, "start"), "job_id"), behind);
    return text;
}

/* A directory with several jobs is refused by the nearest of them, in the words that --continue takes. The
 * value of --continue is looked at when its job exists, too, and what it may mean is asked. */
Test(continue_run, the_value_names_what_it_means_and_is_looked_at) {
    char part[TEXT], value[TEXT], moved[2 * LAB_PATH];
    lab *l = lab_open();
    snprintf(value, sizeof value, DIGITS " --epochs 6 --metrics %.200s/m.csv", l->dir);
    lab_peer *parent = lab_start(l, "one", NULL, value);
    lab_state(l, parent, "done");
    lab_state(l, lab_start(l, "one", NULL, DIGITS " --epochs 6 --seed 7 --fresh"), "done");
    /* A start that is refused after all leaves no job behind. */
    snprintf(value, sizeof value, DIGITS " --epochs 6 --seed 9 --metrics %.200s/m.csv", l->dir);
    expect_refused(l, "three", value, "rows of another job");
    int none;
    snprintf(moved, sizeof moved, "ls %.200s/three | grep job-", l->dir);
    free(lab_shell(moved, &none));
    cr_expect_eq(none, 1, "no file of the job is there");
    expect_refused(l, "one", DIGITS " --epochs 6 --lr 0.02",
                   named(parent, "2 other jobs; the nearest is ", ", at step 18 (lr=0.01, here 0.02)", part));
    expect_refused(l, "one", DIGITS " --epochs 6 --lr 0.02",
                   named(parent, "go on from its state by --continue=@", ":,", part));
    expect_refused(l, "one", DIGITS " --epochs 8 --lr 0.02 --continue=@18", "2 jobs in ");
    named(parent, DIGITS " --epochs 8 --lr 0.02 --continue=@", ":", value);
    lab_peer *branch = lab_start(l, "one", NULL, value);
    lab_state(l, branch, "done");
    cr_expect_eq(lab_number(lab_last(branch, "continue"), "step"), 18);
    expect_refused(l, "one", DIGITS " --epochs 8 --lr 0.02 --continue=nodir", "there is no directory nodir");
    expect_refused(l, "one", DIGITS " --epochs 8 --lr 0.02 --continue=@zz:18", "'@zz:18' is none of @STEP");
    expect_refused(
        l, "one", DIGITS " --epochs 8 --lr 0.02",
        named(parent, "was begun by --continue, from step 18 of job ", ", and differs in nothing", part));
    expect_refused(l, "one", DIGITS " --epochs 8 --lr 0.02 --samples 606 --continue",
                   "is another one: samples=600, here 606");
    expect_refused(
        l, "one", DIGITS " --epochs 9 --optimizer sgd --continue",
        "layer2.weight.v f32 [8, 10], which this job has not. Options of that job that differ here: ");
    /* The very command resumes although the parent's directory is gone, and another one does not. */
    snprintf(value, sizeof value, DIGITS " --epochs 9 --lr 0.05 --continue %.200s@24", parent->dir);
    lab_state(l, lab_start(l, "two", NULL, value), "done");
    snprintf(moved, sizeof moved, "%s.moved", parent->dir);
    cr_assert_eq(rename(parent->dir, moved), 0);
    lab_state(l, lab_start(l, "two", NULL, value), "done");
    expect_refused(l, "two", DIGITS " --epochs 9 --lr 0.05 --continue nodir@24",
                   "there is no directory nodir");
    lab_close(l);
}

#define SYNTHETIC "synthetic --shards 24 --shard-ms 2 --state-bytes 64k --workers 1 --checkpoint-every 5"

Test(continue_run, a_newcomer_with_an_empty_directory_joins_a_branch_and_takes_it_over) {
    lab *l = lab_open();
    lab_state(l, lab_start(l, "first", NULL, SYNTHETIC " --steps 10"), "done");
    lab_peer *first = lab_start(l, "first", NULL, SYNTHETIC " --continue");
    lab_wait_step(l, first, 12);
    lab_peer *second = lab_start(l, "second", first, SYNTHETIC " --continue");
    lab_wait_step(l, second, 14);
    lab_kill(l, first);
    lab_mark(l, second);
    lab_wait_view(l, second, 1);
    lab_stop_alike(l, &second, 1, SYNTHETIC);
    lab_close(l);
}
