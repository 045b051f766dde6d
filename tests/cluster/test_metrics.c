/* --metrics of real peers that are killed. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 200, TEXT = 400 };

#define ARGS                                                                                                 \
    "synthetic --workers 1 --shards 12 --shard-ms 1 --state-bytes 64k --steps 200 --checkpoint-every 20"

/* The file names the job by which its rows are known. */
static void expect_job(const lab *l, const char *name, const char *job_id) {
    char path[2 * LAB_PATH], line[TEXT], expected[16];
    snprintf(path, sizeof path, "%s/%s", l->dir, name);
    snprintf(expected, sizeof expected, "1,j%.8s,", job_id);
    FILE *in = fopen(path, "r");
    cr_assert(fgets(line, sizeof line, in) != NULL && fgets(line, sizeof line, in) != NULL);
    fclose(in);
    cr_assert_eq(strncmp(line, expected, strlen(expected)), 0, "%s", line);
}

/* What the job reported in each row of a peer's file; checks that there is one for each step from 1 on.
 * Returns the last. */
static uint32_t read_rows(const lab *l, const char *name, char rows[STEPS + 1][TEXT]) {
    char path[2 * LAB_PATH], line[TEXT];
    snprintf(path, sizeof path, "%s/%s", l->dir, name);
    FILE *in = fopen(path, "r");
    cr_assert_not_null(in, "%s", path);
    uint32_t count = 0;
    cr_assert_not_null(fgets(line, sizeof line, in));
    while (fgets(line, sizeof line, in) != NULL && strchr(line, '\n') != NULL) {
        cr_assert_eq(strtoul(line, NULL, 10), ++count, "%s: %s", name, line);
        cr_assert_leq(count, STEPS);
        char *cell = line;
        for (int i = 0; i < 7; i++) cell = strchr(cell, ',') + 1; /* behind what differs from run to run */
        strcpy(rows[count], cell);
    }
    fclose(in);
    return count;
}

static char here[STEPS + 1][TEXT], there[STEPS + 1][TEXT];

Test(metrics, a_peer_that_is_killed_and_resumes_has_every_step_once) {
    lab *l = lab_open();
    char args[2 * LAB_PATH];
    snprintf(args, sizeof args, ARGS " --skew 4 --metrics %s/a.csv", l->dir); /* so that it ends midway */
    lab_peer *peer = lab_start(l, "a", NULL, args);
    lab_wait_event(l, peer, "checkpoint");
    lab_kill(l, peer);
    snprintf(args, sizeof args, ARGS " --metrics %s/a.csv", l->dir);
    peer = lab_start(l, "a", NULL, args);
    lab_state(l, peer, "done");
    expect_job(l, "a.csv", lab_text(lab_last(peer, "start"), "job_id"));
    snprintf(args, sizeof args, ARGS " --metrics %s/b.csv", l->dir);
    lab_undisturbed(l, args);
    cr_assert_eq(read_rows(l, "a.csv", here), STEPS);
    cr_assert_eq(read_rows(l, "b.csv", there), STEPS);
    for (int i = 1; i <= STEPS; i++) cr_assert_str_eq(here[i], there[i]);
    lab_close(l);
}

/* The steps that a peer fetches with the state are in its file and among its events, with the values of those that
 * made them. */
Test(metrics, every_peer_may_write_its_own_and_none_has_a_hole) {
    lab *l = lab_open();
    char args[2 * LAB_PATH];
    lab_peer *peers[2];
    for (int i = 0; i < 2; i++) {
        snprintf(args, sizeof args, ARGS " --peers 2 --skew 2 --metrics %s/%d.csv", l->dir, i);
        peers[i] = lab_start(l, i == 0 ? "p0" : "p1", i == 0 ? NULL : peers[0], args);
    }
    lab_wait_step(l, peers[1], 10);
    lab_kill(l, peers[1]);
    lab_mark(l, peers[0]);
    lab_wait_view(l, peers[0], 1);
    lab_mark(l, peers[0]);
    lab_wait_step(l, peers[0], 20);
    peers[1] = lab_start(l, "p1", peers[0], args);
    lab_state(l, peers[0], "done");
    lab_state(l, peers[1], "done");
    cr_assert_eq(read_rows(l, "0.csv", here), STEPS);
    cr_assert_eq(read_rows(l, "1.csv", there), STEPS);
    for (uint32_t i = 1; i <= STEPS; i++) cr_assert_str_eq(here[i], there[i]);
    size_t i;
    json_t *event;
    uint64_t last = 0;
    json_array_foreach(peers[1]->events, i, event) {
        if (strcmp(lab_text(event, "event"), "step") != 0) continue;
        cr_expect(last == 0 || lab_number(event, "step") == last + 1, "after %lu", last);
        last = lab_number(event, "step");
        cr_expect_str_eq(lab_text(event, "phase"), "train");
    }
    cr_expect_eq(last, STEPS);
    lab_close(l);
}

/* Digits of the first value of `key`; 0: there is none. */
static size_t digits_of(const char *text, const char *key) {
    const char *value = strstr(text, key);
    size_t digits = 0;
    if (value == NULL) return 0;
    for (value += strlen(key); strchr("0123456789.", *value) != NULL && *value != '\0'; value++)
        digits += *value != '.';
    return digits;
}

#define GPT                                                                                                  \
    "gpt --data " GODWIT_BINARY " --layers 1 --heads 1 --channels 8 --context 8 --batch-tokens 64 "          \
    "--micro-batch 8 --workers 1"

/* The number of digits of the loss in the command's output; 0 if the output has no loss. */
static size_t digits_shown(const char *command) {
    char text[2000];
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    cr_assert_eq(pclose(pipe), 0, "%s", command);
    return digits_of(text, " loss=");
}

/* A loss is 5.5 or so; of some the last digit may be 0. */
Test(metrics, files_have_the_digits_that_people_are_not_shown) {
    lab *l = lab_open();
    char args[3 * LAB_PATH], path[2 * LAB_PATH], text[2000];
    snprintf(path, sizeof path, "%s/a.jsonl", l->dir);
    snprintf(args, sizeof args, GPT " --updates 100000000 --metrics %s", path);
    lab_peer *peer = lab_start(l, "a", NULL, args);
    lab_wait_step(l, peer, 20);
    snprintf(args, sizeof args, GODWIT_BINARY " status --dir %s", peer->dir);
    size_t shown;
    while ((shown = digits_shown(args)) == 0) { /* a step is a moment after its event */
    }
    cr_expect_leq(shown, 5);
    lab_kill(l, peer);
    FILE *in = fopen(path, "r");
    size_t most = 0;
    while (fgets(text, sizeof text, in) != NULL)
        if (digits_of(text, "\"loss\":") > most) most = digits_of(text, "\"loss\":");
    fclose(in);
    cr_expect_eq(most, 7, "%zu", most);
    snprintf(args, sizeof args, GODWIT_BINARY " run " GPT " --updates 3 --listen 127.0.0.1:0 --dir %s/b",
             l->dir);
    shown = digits_shown(args);
    cr_expect(shown >= 1 && shown <= 5, "%zu", shown);
    lab_close(l);
}

Test(metrics, names_that_make_no_sense_are_refused) {
    lab *l = lab_open();
    char args[2 * LAB_PATH];
    snprintf(args, sizeof args, "run " ARGS " --dir %s/a --metrics %s/a.txt", l->dir, l->dir);
    cr_assert_eq(lab_command(args), 2);
    snprintf(args, sizeof args, "run " ARGS " --listen 127.0.0.1:0 --dir %s/a --metrics %s/none/a.csv",
             l->dir, l->dir);
    cr_assert_eq(lab_command(args), 2);
    lab_close(l);
}

/* Its row has nothing of the step before. */
Test(metrics, a_step_that_was_skipped_reports_nothing) {
    lab *l = lab_open();
    char args[2 * LAB_PATH];
    snprintf(args, sizeof args, ARGS " --bad-shard 100:1 --on-bad skip --metrics %s/a.csv", l->dir);
    lab_undisturbed(l, args);
    cr_assert_eq(read_rows(l, "a.csv", here), STEPS);
    cr_assert_eq(strspn(here[101], "\n"), strlen(here[101]), "%s", here[101]);
    cr_assert_neq(here[100][0], '\n');
    cr_assert_neq(here[102][0], '\n');
    lab_close(l);
}
