/* One bit flips: in a weight, a gradient, a sum, a message, a chunk on disk. Each is found and named, and the
 * result is as if nothing had been. */
#include "lab.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLIPPER GODWIT_FLIPPER_JOB " --workers 1"

static bool says(const lab_peer *peer, const char *part) {
    return peer->stderr_text != NULL && strstr(peer->stderr_text, part) != NULL;
}

/* Three peers, of which the third runs with `option` besides. */
static void start(lab *l, lab_peer **peers, const char *args, const char *option) {
    char line[LAB_PATH * 2];
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        snprintf(line, sizeof line, "%s --peers 3%s%s", args, i == 2 ? " " : "", i == 2 ? option : "");
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, line);
    }
}

static const char *id_of(const lab_peer *peer) {
    return lab_text(lab_last(peer, "start"), "peer");
}

/* The same state as that of a peer that nobody disturbed. */
static void expect_right(lab *l, lab_peer **peers, int count) {
    const char *hash = lab_undisturbed(l, FLIPPER);
    for (int i = 0; i < count; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash, "peer %d", i);
}

/* `finder` has told of it, and that it was the third peer. */
static void expect_named(const lab_peer *finder, lab_peer **peers, const char *evidence) {
    const json_t *event = lab_last(finder, "corruption");
    cr_assert_not_null(event, "%s", finder->stderr_text);
    cr_expect_str_eq(lab_text(event, "peer"), id_of(peers[2]));
    cr_expect_not_null(strstr(lab_text(event, "evidence"), evidence), "%s", lab_text(event, "evidence"));
    cr_expect(says(finder, "corruption at step"), "%s", finder->stderr_text);
}

/* Some of the first `count` have: a new view may come before a slow one has heard all. */
static void expect_found(lab_peer **peers, int count, const char *evidence) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        if (lab_last(peers[i], "corruption") == NULL) continue;
        expect_named(peers[i], peers, evidence);
        found++;
    }
    cr_expect_gt(found, 0);
}

Test(corruption, a_bit_of_a_weight) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER " --verify 1%", "--flip-weight 9");
    expect_right(l, peers, 3);
    expect_named(peers[2], peers, "its state changed in memory");
    lab_close(l);
}

/* After the look that comes before a sum, and before the sum is applied: its peer alone gets to another
 * state, and nobody else could tell which of two is right. */
Test(corruption, a_bit_of_a_weight_between_the_sum_and_the_next_state) {
    lab *l = lab_open();
    lab_peer *peers[3] = {lab_start(l, "p0", NULL, FLIPPER " --verify 1% --peers 2")};
    peers[2] = lab_start(l, "p2", peers[0], FLIPPER " --verify 1% --peers 2 --flip-between 9");
    const char *hash = lab_undisturbed(l, FLIPPER);
    cr_expect_str_eq(lab_state(l, peers[0], "done"), hash);
    cr_expect_str_eq(lab_state(l, peers[2], "done"), hash);
    expect_named(peers[2], peers, "its state changed in memory");
    lab_close(l);
}

/* What `command` prints, or nothing when it fails. */
static char *output_of(const char *command) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size), *pipe = popen(command, "r");
    cr_assert(out != NULL && pipe != NULL);
    for (int c; (c = fgetc(pipe)) != EOF;) fputc(c, out);
    fclose(out);
    cr_assert_eq(pclose(pipe), 0, "%s", command);
    return text;
}

static bool is_http(const json_t *event, const void *context) {
    (void)context;
    return strcmp(lab_text(event, "event"), "listening") == 0 && strcmp(lab_text(event, "what"), "http") == 0;
}

/* What is shown is a moment behind: asks until it is there. */
static void expect_parts(const char *command, const char *id, const char *count) {
    char peer[32];
    snprintf(peer, sizeof peer, "peer %.8s: its state changed", id);
    for (int tries = 0; tries < 200; tries++) {
        char *text = output_of(command);
        bool there = strstr(text, peer) != NULL && strstr(text, count) != NULL;
        free(text);
        if (there) return;
        usleep(20000);
    }
    cr_assert_fail("%s does not name %s", command, peer);
}

/* While the job still runs; its end is of no interest. */
Test(corruption, who_was_wrong_is_shown_with_the_evidence) {
    lab *l = lab_open();
    lab_peer *peers[3];
    char line[LAB_PATH * 3];
    start(l, peers, FLIPPER " --verify 1% --http 127.0.0.1:0 --pause-us 40000", "--flip-weight 2");
    unsigned port = (unsigned)lab_number(lab_wait(l, peers[2], is_http, NULL, "the port"), "port");
    lab_wait_event(l, peers[2], "corruption");
    snprintf(line, sizeof line, GODWIT_BINARY " status --json --dir %s", peers[2]->dir);
    expect_parts(line, id_of(peers[2]), "\"corruptions\":1");
    snprintf(line, sizeof line,
             "exec 3<>/dev/tcp/127.0.0.1/%u; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3", port);
    char command[sizeof line + 16];
    snprintf(command, sizeof command, "bash -c \"%s\"", line);
    expect_parts(command, id_of(peers[2]), "godwit_corruptions_total 1\n");
    lab_close(l);
}

Test(corruption, a_bit_of_a_gradient) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER " --verify 100%", "--flip-gradient 9");
    expect_right(l, peers, 3);
    expect_found(peers, 3, "asked once more");
    lab_close(l);
}

Test(corruption, a_machine_that_goes_on_computing_wrong_has_to_leave) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER " --verify 100%", "--flip-gradients 9");
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect(says(peers[2], "the machine is faulty"), "%s", peers[2]->stderr_text);
    expect_right(l, peers, 2);
    expect_found(peers, 2, "it computed");
    lab_close(l);
}

/* Nothing of the step is applied before all have computed the shard again, so who cannot has to go. Of two
 * both have computed it. */
Test(corruption, who_hangs_when_asked_once_more_ends_and_the_other_goes_on) {
    lab *l = lab_open();
    lab_peer *one = lab_start(l, "one", NULL, FLIPPER " --verify 100% --peers 2 --flip-gradient 9");
    lab_peer *other =
        lab_start(l, "other", one, FLIPPER " --verify 100% --peers 2 --hang-timeout 2s --hang-again 9");
    cr_expect_eq(lab_end(l, other), 1);
    cr_expect(says(other, "seems to hang"), "%s", other->stderr_text);
    const char *hash = lab_undisturbed(l, FLIPPER);
    cr_expect_str_eq(lab_state(l, one, "done"), hash);
    lab_close(l);
}

/* No sum comes any more that would show it. */
Test(corruption, a_bit_of_the_last_state) {
    static const char *const ways[] = {FLIPPER, FLIPPER " --checkpoint-every 7 --verify 1%"};
    for (int way = 0; way < 2; way++) {
        lab *l = lab_open();
        lab_peer *peers[3];
        start(l, peers, ways[way], "--flip-after 39");
        expect_right(l, peers, 3);
        expect_named(peers[2], peers, "its state changed in memory");
        lab_close(l);
    }
}

/* After it was checked; its peer alone applies another one. */
Test(corruption, a_bit_of_a_sum) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER, "--flip-sum 9");
    expect_right(l, peers, 3);
    expect_found(peers, 3, "it holds other bits of the state than most");
    lab_close(l);
}

/* Without a key, so that nothing below the sums finds it. */
Test(corruption, a_bit_of_a_message_on_its_way) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip_test("a sanitizer's library must come before all others");
#endif
    lab *l = lab_open();
    lab_peer *peers[3];
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        if (i == 2)
            cr_assert(setenv("FLIP_SEND", "20", 1) == 0 && setenv("LD_PRELOAD", GODWIT_FLIP_SEND, 1) == 0);
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, FLIPPER " --transport tcp --peers 3");
    }
    unsetenv("LD_PRELOAD");
    expect_right(l, peers, 3);
    int refused = 0;
    for (int i = 0; i < 3; i++) refused += says(peers[i], "is not applied: its fingerprint is wrong");
    cr_expect_gt(refused, 0);
    lab_close(l);
}

static char a_chunk[LAB_PATH * 2];

static int note_chunk(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)at;
    if (type == FTW_F && strstr(path, "/chunks/") != NULL && status->st_size > 1000)
        snprintf(a_chunk, sizeof a_chunk, "%s", path);
    return 0;
}

static void flip_a_chunk(const char *dir) {
    unsigned char byte;
    a_chunk[0] = '\0';
    cr_assert_eq(nftw(dir, note_chunk, 16, FTW_PHYS), 0);
    cr_assert_neq(a_chunk[0], '\0', "no chunk in %s", dir);
    int fd = open(a_chunk, O_RDWR);
    cr_assert_eq(pread(fd, &byte, 1, 500), 1, "%s", a_chunk);
    byte ^= 4;
    cr_assert_eq(pwrite(fd, &byte, 1, 500), 1);
    close(fd);
}

static int remove_manifest(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)status, (void)at;
    return type == FTW_F && strstr(path, "/manifests/") != NULL ? unlink(path) : 0;
}

/* Of the only peer that has a chunk: it knows no more what it is of. */
Test(corruption, a_manifest_that_is_lost) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER " --checkpoint-every 5 --replicas 1", "");
    lab_wait_event(l, peers[0], "checkpoint");
    for (int i = 0; i < 3; i++) lab_signal(peers[i], SIGSTOP);
    for (int i = 0; i < 3; i++) lab_kill(l, peers[i]);
    for (int i = 0; i < 3; i++) {
        a_chunk[0] = '\0';
        cr_assert_eq(nftw(peers[i]->dir, note_chunk, 16, FTW_PHYS), 0);
        if (a_chunk[0] != '\0') cr_assert_eq(nftw(peers[i]->dir, remove_manifest, 16, FTW_PHYS), 0);
    }
    start(l, peers, FLIPPER " --checkpoint-every 5 --replicas 1", "");
    cr_expect_geq(lab_number(lab_wait_event(l, peers[0], "resumed"), "step"), 5);
    expect_right(l, peers, 3);
    lab_close(l);
}

Test(corruption, a_bit_of_a_chunk_on_disk) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER " --checkpoint-every 5 --replicas 3", "");
    lab_wait_event(l, peers[0], "checkpoint");
    for (int i = 0; i < 3; i++) lab_signal(peers[i], SIGSTOP);
    for (int i = 0; i < 3; i++) lab_kill(l, peers[i]);
    flip_a_chunk(peers[0]->dir);
    start(l, peers, FLIPPER " --checkpoint-every 5 --replicas 3", "");
    expect_right(l, peers, 3);
    cr_expect(says(peers[0], "hash differs") || says(peers[0], "damaged"), "%s", peers[0]->stderr_text);
    lab_close(l);
}
