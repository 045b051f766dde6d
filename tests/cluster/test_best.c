/* --keep-best and --patience: whatever dies, the same checkpoint is kept as the best one, and the job ends
 * at the same step. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS  "digits --samples 6000 --hidden 24 --workers 1 --epochs 30 --checkpoint-every 7 --keep 1"
#define PATIENT DIGITS " --keep-best test_accuracy --patience 3"

enum { MOST_BYTES = 1 << 20 };

/* The step of the best evaluation that a peer has shown, and the last step. */
static uint64_t best_step_of(const lab_peer *peer, uint64_t *last) {
    uint64_t best = 0;
    double accuracy = -1;
    size_t i;
    json_t *event;
    json_array_foreach(peer->events, i, event) {
        if (strcmp(lab_text(event, "event"), "step") != 0) continue;
        const json_t *value = json_object_get(json_object_get(event, "report"), "test_accuracy");
        *last = lab_number(event, "step");
        if (value == NULL || json_number_value(value) <= accuracy) continue;
        accuracy = json_number_value(value);
        best = *last;
    }
    return best;
}

static const char *root_at(const lab_peer *peer, uint64_t step) {
    size_t i;
    json_t *event;
    json_array_foreach(peer->events, i, event) if (strcmp(lab_text(event, "event"), "checkpoint") == 0 &&
                                                   lab_number(event, "step") == step) return lab_text(event,
                                                                                                      "root");
    cr_assert_fail("there is no checkpoint of step %llu", (unsigned long long)step);
    return NULL;
}

/* Kills a peer whose job may have ended meanwhile: some ten steps of a millisecond are left of it. */
static void kill_near_the_end(lab *l, lab_peer *peer) {
    lab_signal(peer, SIGKILL);
    int code = lab_end(l, peer);
    cr_assert(code == 128 + SIGKILL || code == 0, "%s: exit code %d", peer->dir, code);
}

/* What export --best writes of a directory; the caller frees it. */
static char *exported(const lab *l, const char *dir, size_t *length) {
    char command[2 * LAB_PATH + 60], path[LAB_PATH + 20];
    snprintf(path, sizeof path, "%s/best.safetensors", l->dir);
    snprintf(command, sizeof command, "export --best --force --to %s %s", path, dir);
    cr_assert_eq(lab_command(command), 0, "%s", command);
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(MOST_BYTES);
    cr_assert(file != NULL && bytes != NULL);
    *length = fread(bytes, 1, MOST_BYTES, file);
    cr_assert_eq(fclose(file), 0);
    cr_assert(*length > 0 && *length < MOST_BYTES);
    return bytes;
}

Test(best, is_the_same_bytes_whatever_dies_and_the_job_ends_at_one_step) {
    lab *l = lab_open();
    uint64_t last = 0, flock_last;
    size_t length, other_length;
    lab_peer *alone = lab_start(l, "alone", NULL, PATIENT), *peers[3];
    const char *right = lab_state(l, alone, "done");
    uint64_t best = best_step_of(alone, &last);
    cr_assert(best > 14 && last > best && last < 400, "best %llu, last %llu", (unsigned long long)best,
              (unsigned long long)last);
    char *bytes = exported(l, alone->dir, &length);
    alone = lab_start(l, "alone", NULL, PATIENT);
    cr_expect_str_eq(lab_state(l, alone, "done"), right);
    cr_expect_not_null(lab_logged(alone, "nothing was left to compute. --patience 3 has ended it"));

    /* Before it has a state, it shows what its directory has. */
    char shown[80];
    alone = lab_start(l, "alone", NULL, PATIENT " --join 127.0.0.1:1 --join-timeout 10m");
    while (lab_logged(alone, "no seed answers yet") == NULL) lab_pump(l);
    snprintf(shown, sizeof shown, "at step %llu, kept", (unsigned long long)best);
    free(lab_wait_shown(l, alone, "", shown));
    lab_signal(alone, SIGTERM);
    cr_expect_eq(lab_end(l, alone), 0);
    snprintf(shown, sizeof shown, " steps=0 state=- saved=%llu ", (unsigned long long)last);
    const char *line = lab_text(lab_last(alone, "done"), "line");
    cr_expect_not_null(strstr(line, shown), "%s", line);

    /* Without its chunks it makes the steps again, having told which file is missing. */
    int code;
    char command[LAB_PATH + 40];
    snprintf(command, sizeof command, "rm -r %s/chunks/*", alone->dir);
    free(lab_shell(command, &code));
    cr_assert_eq(code, 0);
    alone = lab_start(l, "alone", NULL, PATIENT " --resume-timeout 100ms");
    cr_expect_str_eq(lab_state(l, alone, "done"), right);
    const char *lack = lab_logged(alone, "and no other peer of this job has been met from");
    snprintf(shown, sizeof shown, "step %llu lacks 1 of 1 chunks here", (unsigned long long)last);
    cr_assert_not_null(lack);
    cr_expect(strstr(lack, shown) != NULL && strstr(lack, "/chunks/") != NULL, "%s", lack);
    alone = &l->peers[0];

    /* The state is that of a run that ends there. */
    char args[sizeof DIGITS + 40];
    snprintf(args, sizeof args, DIGITS " --steps %llu", (unsigned long long)best);
    cr_expect_str_eq(lab_undisturbed(l, args), root_at(alone, best));

    /* The leader dies, then all do, after the best evaluation too. */
    lab_flock(l, 3, PATIENT, peers);
    lab_wait_step(l, peers[0], 20);
    uint32_t leader = lab_leader(peers, 3), rest = leader == 0 ? 1 : 0;
    lab_kill(l, peers[leader]);
    lab_wait_step(l, peers[rest], best > 40 ? best - 20 : 30);
    for (uint32_t i = 0; i < 3; i++)
        if (i != leader) kill_near_the_end(l, peers[i]);
    lab_flock(l, 3, PATIENT, peers);
    lab_wait_step(l, peers[0], best + 3);
    for (uint32_t i = 0; i < 3; i++) kill_near_the_end(l, peers[i]);
    lab_flock(l, 3, PATIENT, peers);
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_str_eq(lab_state(l, peers[i], "done"), right, "peer %u", i);
        flock_last = last; /* it shows no step if the job was over before the peers were killed */
        best_step_of(peers[i], &flock_last);
        cr_expect_eq(flock_last, last, "peer %u", i);
        char *other = exported(l, peers[i]->dir, &other_length);
        cr_expect(other_length == length && memcmp(other, bytes, length) == 0, "peer %u", i);
        free(other);
    }
    free(bytes);
    lab_close(l);
}

static void expect_refused(lab *l, const char *args, const char *part) {
    lab_peer *peer = lab_launch(l, "refused", NULL, NULL, args);
    cr_expect_eq(lab_end(l, peer), 2);
    cr_expect(peer->stderr_text != NULL && strstr(peer->stderr_text, part) != NULL, "'%s' is not in: %s",
              part, peer->stderr_text != NULL ? peer->stderr_text : "");
}

/* --keep-best changes no byte and no job; --patience makes another job. */
Test(best, is_a_rule_of_the_run_and_patience_is_of_the_job) {
    lab *l = lab_open();
    lab_peer *plain = lab_start(l, "one", NULL, DIGITS " --steps 30");
    char right[80];
    snprintf(right, sizeof right, "%s", lab_state(l, plain, "done"));
    lab_peer *keeps = lab_start(l, "two", NULL, DIGITS " --steps 30 --keep-best test_loss");
    cr_expect_str_eq(lab_state(l, keeps, "done"), right);
    cr_expect_str_eq(lab_text(lab_last(keeps, "start"), "job_id"),
                     lab_text(lab_last(plain, "start"), "job_id"));
    cr_expect_str_eq(lab_text(lab_last(keeps, "start"), "keep_best"), "test_loss:min");
    expect_refused(l, DIGITS " --keep-best test_los", "did you mean 'test_loss'?");
    expect_refused(l, DIGITS " --keep-best test_loss:most", "is followed by ':min'");
    expect_refused(l, DIGITS " --patience 3", "needs --keep-best");
    expect_refused(l, "synthetic --keep-best loss", "makes no evaluation");
    char command[2 * LAB_PATH];
    snprintf(command, sizeof command, "export --best --to %s/none.safetensors %s", l->dir, plain->dir);
    cr_expect_eq(lab_command(command), 1);
    lab_peer *impatient =
        lab_launch(l, "two", NULL, NULL, DIGITS " --steps 30 --keep-best test_loss --patience 2");
    cr_expect_eq(lab_end(l, impatient), 2);
    cr_expect(strstr(impatient->stderr_text, "patience=not given, here 2 test_loss:min") != NULL, "%s",
              impatient->stderr_text);
    lab_close(l);
}

/* What `export --best` says of a directory; the caller frees it. */
static char *best_of(const char *dir, int *code) {
    char line[2 * LAB_PATH + 60];
    snprintf(line, sizeof line, GODWIT_BINARY " export --best --to - %s 2>&1 >/dev/null", dir);
    return lab_shell(line, code);
}

static void expect_best(const char *dir, int expected, const char *part) {
    int code;
    char *text = best_of(dir, &code);
    cr_expect(code == expected && strstr(text, part) != NULL, "exit code %d, and '%s' is not in: %s", code,
              part, text);
    free(text);
}

/* By the loss as a maximum, the first evaluation of each job is its best one. */
Test(best, is_kept_until_it_is_let_go) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, DIGITS " --steps 1000 --keep-best test_loss:max");
    lab_wait_step(l, peer, 20);
    lab_signal(peer, SIGTERM);
    lab_state(l, peer, "left");
    peer = lab_start(l, "one", NULL, DIGITS " --steps 1000");
    lab_state(l, peer, "done");
    cr_expect_str_eq(lab_text(lab_last(peer, "start"), "keep_best"), "test_loss:max");
    expect_best(peer->dir, 0, "the best state by test_loss:max is that of step 14:");
    /* A job that goes on compares its own evaluations. */
    uint64_t end = lab_number(lab_last(peer, "done"), "steps");
    peer = lab_start(l, "one", NULL, DIGITS " --epochs 31 --continue");
    lab_state(l, peer, "done");
    char part[80];
    snprintf(part, sizeof part,
             "the best state by test_loss:max is that of step %llu:", (unsigned long long)end + 14);
    expect_best(peer->dir, 0, part);
    peer = lab_start(l, "one", NULL, DIGITS " --epochs 32 --continue --keep-best off");
    lab_state(l, peer, "done");
    expect_best(peer->dir, 1, "does not tell which state is the best");
    expect_best(peer->dir, 1, "; that of job ");
    lab_close(l);
}

static bool is_copied(const json_t *event, const void *context) {
    (void)context;
    const char *text = json_string_value(json_object_get(event, "text"));
    return text != NULL && strstr(text, "the best state, of step") != NULL &&
           strstr(text, "has been copied here") != NULL;
}

/* The first evaluation is the best one in this run, so that its checkpoint is older than the second peer. */
Test(best, a_peer_that_joins_later_gets_its_copy) {
    lab *l = lab_open();
    size_t length, other_length;
    const char *args =
        "digits --samples 6000 --hidden 24 --workers 1 --epochs 100000 --checkpoint-every 50 --keep 1 "
        "--keep-best test_loss:max --replicas 2";
    lab_peer *first = lab_start(l, "first", NULL, args);
    lab_wait_step(l, first, 60);
    lab_peer *second = lab_start(l, "second", first, args);
    lab_wait(l, second, is_copied, NULL, "the copy of the best state");
    char *bytes = exported(l, first->dir, &length);
    lab_kill(l, first);
    lab_wait_view(l, second, 1);
    lab_mark(l, second);
    lab_wait_event(l, second, "checkpoint"); /* what is not retained has been deleted */
    lab_wait_event(l, second, "step");
    lab_kill(l, second);
    char *other = exported(l, second->dir, &other_length);
    cr_expect(other_length == length && memcmp(other, bytes, length) == 0);
    free(other);
    free(bytes);
    lab_close(l);
}
