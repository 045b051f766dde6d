/* One bit flips: in a weight, a gradient, a sum, a message, a chunk on disk. Each is found and named, and the
 * result is as if nothing had been. */
#include "tests/cluster/lab.h"

#include "core/base/id.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLIPPER GODWIT_FLIPPER_JOB " --workers 1"
#define WIDE    FLIPPER " --wide 100"

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
static void expect_right_of(lab *l, const char *job, lab_peer **peers, int count) {
    const char *hash = lab_undisturbed(l, job);
    for (int i = 0; i < count; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash, "peer %d", i);
}

static void expect_right(lab *l, lab_peer **peers, int count) {
    expect_right_of(l, FLIPPER, peers, count);
}

/* `finder` has told of it, and that it was the third peer. */
static void expect_named(const lab_peer *finder, lab_peer **peers, const char *evidence) {
    const json_t *event = lab_last(finder, "corruption");
    cr_assert_not_null(event, "%s", finder->stderr_text);
    cr_expect_str_eq(lab_text(event, "peer"), id_of(peers[2]));
    cr_expect(says(finder, evidence), "%s", finder->stderr_text);
    cr_expect(says(finder, "corruption at step"), "%s", finder->stderr_text);
}

/* It alone has not found it, but heard of it by the next view. */
static bool was_told(const json_t *event) {
    return strstr(lab_text(event, "evidence"), "others found") != NULL;
}

/* Some of the first `count` have: a new view may come before a slow one has heard all. */
static void expect_found(lab_peer **peers, int count, const char *evidence) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        const json_t *event = lab_last(peers[i], "corruption");
        if (event == NULL || (i == 2 && was_told(event))) continue;
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

/* No contribution has read it: it is found as the sum is applied, before it goes into a weight. */
Test(corruption, a_bit_of_what_only_apply_reads) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER " --verify 1%", "--flip-moment 9");
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

static bool is_http(const json_t *event, const void *context) {
    (void)context;
    return strcmp(lab_text(event, "event"), "listening") == 0 && strcmp(lab_text(event, "what"), "http") == 0;
}

/* What is shown is a moment behind: asks until both are there. */
static void expect_parts(const char *command, const char *one, const char *other) {
    for (int tries = 0; tries < 200; tries++) {
        int code;
        char *text = lab_shell(command, &code);
        cr_assert_eq(code, 0, "%s", command);
        bool there = strstr(text, one) != NULL && strstr(text, other) != NULL;
        free(text);
        if (there) return;
        usleep(20000);
    }
    cr_assert_fail("%s does not have %s and %s", command, one, other);
}

/* In `godwit status` and in the metrics of a peer that runs with SHOWN, as long as that takes. */
#define SHOWN " --http 127.0.0.1:0 --pause-us 40000"
static void expect_shown(lab *l, lab_peer *peer, const char *part, const char *count, const char *metric) {
    char line[LAB_PATH * 3], command[sizeof line + 16];
    unsigned port = (unsigned)lab_number(lab_wait(l, peer, is_http, NULL, "the port"), "port");
    snprintf(line, sizeof line, GODWIT_BINARY " status --json --dir %s", peer->dir);
    expect_parts(line, part, count);
    snprintf(line, sizeof line,
             "exec 3<>/dev/tcp/127.0.0.1/%u; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3", port);
    snprintf(command, sizeof command, "bash -c \"%s\"", line);
    expect_parts(command, part, metric);
}

/* One corruption, of peers[2], of which it has told itself. */
static void expect_own_shown(lab *l, lab_peer **peers, const char *evidence) {
    char part[64 + LAB_PATH];
    lab_wait_event(l, peers[2], "corruption");
    snprintf(part, sizeof part, "(%.8s): %s", id_of(peers[2]), evidence);
    expect_shown(l, peers[2], part, "\"corruptions\":1", "godwit_corruptions_total 1\n");
}

/* While the job still runs; its end is of no interest. */
Test(corruption, who_was_wrong_is_shown_with_the_evidence) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER " --verify 1%" SHOWN, "--flip-weight 2");
    expect_own_shown(l, peers, "its state changed");
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

/* Nothing of the step is applied before all members have computed the shard again, so a member that cannot
 * do so has to go. With two members both have computed it. */
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

/* Where sums depend on who added what there is no state of a peer alone to compare with. */
static void expect_alike(lab *l, lab_peer **peers) {
    const char *hash = lab_state(l, peers[0], "done");
    for (int i = 1; i < 3; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash, "peer %d", i);
}

static void find(const char *way, const char *flip, const char *evidence, bool fast) {
    char args[LAB_PATH];
    snprintf(args, sizeof args, FLIPPER " --quorum majority%s", way);
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, args, flip);
    if (fast)
        expect_alike(l, peers);
    else
        expect_right(l, peers, 3);
    expect_found(peers, 3, evidence);
    lab_close(l);
}

Test(corruption, whoever_rules_and_however_it_is_added_up) {
    for (int fast = 0; fast < 2; fast++) {
        const char *some = fast ? " --verify 1% --reduce fast" : " --verify 1%",
                   *all = fast ? " --verify 100% --reduce fast" : " --verify 100%";
        find(some, "--flip-weight 9", "its state changed in memory", fast);
        find(some, "--flip-moment 9", "its state changed in memory", fast);
        find(all, "--flip-gradient 9", "asked once more", fast);
        find(some, "--flip-sum 9", "it holds other bits of the state than most", fast);
    }
}

/* Where bits flip in the memory of sums these are sent from there, and not packed, as floats never are. */
static const char *job_of(const char *args, const char *flip) {
    bool any = strncmp(flip, "wire", 4) == 0 || strstr(args, "--reduce fast") != NULL;
    return any ? FLIPPER : WIDE;
}

/* Three peers, in the third of which a bit flips as tests/jobs/flip_send.c says. */
static lab *start_sending(lab_peer **peers, const char *args, const char *flip) {
    LAB_PRELOADS;
    lab *l = lab_open();
    char line[LAB_PATH * 2], key[LAB_PATH], name[8];
    lab_key(l, "key", key);
    snprintf(line, sizeof line, "%s --transport tcp --peers 3%s%s", job_of(args, flip), args,
             strstr(args, "--key") ? key : "");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "p%d", i);
        if (i == 2)
            cr_assert(setenv("FLIP_SEND", flip, 1) == 0 && setenv("LD_PRELOAD", GODWIT_FLIP_SEND, 1) == 0);
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, line);
    }
    unsetenv("LD_PRELOAD");
    return l;
}

static bool says_refused(const lab_peer *peer) {
    return says(peer, "is not applied: its fingerprint is wrong");
}

static void expect_nobody_named(lab_peer **peers) {
    for (int i = 0; i < 3; i++) cr_expect_null(lab_last(peers[i], "corruption"), "peer %d", i);
}

/* One of the others has seen that bits of what the third sent had changed; nobody has had that sum. */
static void expect_changed(lab_peer **peers) {
    expect_found(peers, 2, "bits of what it sent of a sum changed");
    for (int i = 0; i < 3; i++) cr_expect_not(says_refused(peers[i]), "peer %d", i);
}

/* The same state as without a flip where sums are exact; where they are not, the same at all. */
static const char *const kinds_of_sums[] = {"", " --quorum majority --reduce fast"};

static void expect_state(lab *l, const char *job, lab_peer **peers, int kind, int count) {
    const char *hash = kind == 0 ? lab_undisturbed(l, job) : lab_state(l, peers[0], "done");
    for (int i = 0; i < count; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash, "peer %d", i);
}

/* Before the sum is checked, in what its peer has added up itself and sends: its peer, who alone can know,
 * says so, and who was sent it sees it. */
Test(corruption, a_bit_of_what_a_peer_has_added_up) {
    lab_peer *peers[3];
    lab *l = start_sending(peers, "", "own 5");
    expect_right_of(l, WIDE, peers, 3);
    expect_named(peers[2], peers, "its part of the sum changed in memory");
    expect_found(peers, 2, "bits of what it sent of a sum changed");
    lab_close(l);
}

/* In each sum: the others go on without it. */
Test(corruption, a_machine_whose_memory_is_bad_has_to_leave) {
    lab_peer *peers[3];
    lab *l = start_sending(peers, "", "own 5 again");
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect(says(peers[2], "the machine is faulty"), "%s", peers[2]->stderr_text);
    expect_right_of(l, WIDE, peers, 2);
    expect_named(peers[2], peers, "its part of the sum changed in memory");
    lab_close(l);
}

Test(corruption, who_has_added_up_what_is_wrong_is_shown) {
    lab_peer *peers[3];
    lab *l = start_sending(peers, SHOWN, "own 2");
    expect_own_shown(l, peers, "its part of the sum changed");
    lab_close(l);
}

/* Between two additions: in what it has received of others, from where it goes on to the next, or on its way,
 * without a key, so that nothing below the sums finds it. Whoever receives it sees it, and everybody has
 * still what it had added up: none of that is computed again. */
static void change_once(const char *flip) {
    for (int kind = 0; kind < 2; kind++) {
        lab_peer *peers[3];
        lab *l = start_sending(peers, kinds_of_sums[kind], flip);
        expect_state(l, job_of(kinds_of_sums[kind], flip), peers, kind, 3);
        expect_changed(peers);
        lab_close(l);
    }
}

Test(corruption, a_bit_of_what_a_peer_has_received) {
    change_once("received 13");
}

Test(corruption, a_bit_of_a_message_on_its_way) {
    change_once("wire 20");
}

/* In each sum, and the others go on without it. */
static void change_again(const char *flip) {
    for (int kind = 0; kind < 2; kind++) {
        lab_peer *peers[3];
        lab *l = start_sending(peers, kinds_of_sums[kind], flip);
        cr_expect_eq(lab_end(l, peers[2]), 1);
        cr_expect(says(peers[2], "the machine is faulty"), "%s", peers[2]->stderr_text);
        expect_state(l, job_of(kinds_of_sums[kind], flip), peers, kind, 2);
        expect_found(peers, 2, "bits of");
        lab_close(l);
    }
}

Test(corruption, a_machine_that_changes_what_it_has_received_has_to_leave) {
    change_again("received 13 again");
}

Test(corruption, a_machine_that_changes_what_it_sends_has_to_leave) {
    change_again("wire 20 again");
}

/* In what it has added up, once it lies where it is sent from. */
Test(corruption, a_bit_of_what_a_peer_has_rounded) {
    lab_peer *peers[3];
    lab *l = start_sending(peers, kinds_of_sums[1], "own 5");
    expect_alike(l, peers);
    expect_found(peers, 3, "changed");
    lab_close(l);
}

/* Whoever of the others has told that a record from the third does not verify; NULL: nobody (yet). */
static lab_peer *finder_of_link(lab_peer **peers) {
    char text[128];
    snprintf(text, sizeof text,
             "(%.8s) ended because bits changed on the way (number 1 since the start): record ",
             id_of(peers[2]));
    for (int i = 0; i < 2; i++)
        if (says(peers[i], text) && says(peers[i], "does not verify: it was changed")) return peers[i];
    return NULL;
}

/* With one the link finds it: it ends, with nothing of that taken, and another is made. */
Test(corruption, a_bit_of_an_encrypted_message_on_its_way) {
    lab_peer *peers[3];
    lab *l = start_sending(peers, " --key ", "wire 20");
    expect_right(l, peers, 3);
    cr_expect_not_null(finder_of_link(peers), "%s\n%s", peers[0]->stderr_text, peers[1]->stderr_text);
    cr_expect_not(says_refused(peers[0]) || says_refused(peers[1]) || says_refused(peers[2]));
    expect_nobody_named(peers);
    lab_close(l);
}

Test(corruption, a_link_by_which_changed_bytes_came_is_shown) {
    lab_peer *peers[3];
    lab *l = start_sending(peers, SHOWN " --key ", "wire 5");
    while (finder_of_link(peers) == NULL) lab_pump(l);
    expect_shown(l, finder_of_link(peers), "links_corrupt", "\"links_corrupt\":1",
                 "godwit_links_corrupt_total 1\n");
    lab_close(l);
}

static char a_chunk[LAB_PATH * 2];

static int note_chunk(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)at;
    if (type == FTW_F && strstr(path, "/chunks/") != NULL && status->st_size > 1000)
        snprintf(a_chunk, sizeof a_chunk, "%s", path);
    return 0;
}

static int remove_manifest(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)status, (void)at;
    return type == FTW_F && strstr(path, "/manifests/") != NULL ? unlink(path) : 0;
}

/* For a life that is to end in the midst of the job, however late its end comes. */
#define SLOW " --pause-us 20000"

/* The only peer that has a chunk loses its manifest, so that it no longer knows which state the chunk
 * belongs to. */
Test(corruption, a_manifest_that_is_lost) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, FLIPPER " --checkpoint-every 5 --replicas 1" SLOW, "");
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

static int flip_chunk(const char *path, const struct stat *status, int type, struct FTW *at) {
    unsigned char byte;
    note_chunk(path, status, type, at);
    if (strcmp(path, a_chunk) != 0) return 0;
    int fd = open(path, O_RDWR);
    cr_assert_eq(pread(fd, &byte, 1, 500), 1, "%s", path);
    byte ^= 4;
    cr_assert_eq(pwrite(fd, &byte, 1, 500), 1);
    return close(fd);
}

#define SAVING FLIPPER " --checkpoint-every 5 --replicas 3"

/* Three peers, who all have every chunk, and whose processes have all died; and a bit of each of the first
 * one's has flipped. */
static void leave_damaged(lab *l, lab_peer **peers) {
    start(l, peers, SAVING SLOW, "");
    lab_wait_event(l, peers[0], "checkpoint");
    for (int i = 0; i < 3; i++) lab_signal(peers[i], SIGSTOP);
    for (int i = 0; i < 3; i++) lab_kill(l, peers[i]);
    a_chunk[0] = '\0';
    cr_assert_eq(nftw(peers[0]->dir, flip_chunk, 16, FTW_PHYS), 0);
    cr_assert_neq(a_chunk[0], '\0', "no chunk in %s", peers[0]->dir);
}

/* From the checkpoint, not anew. */
static void expect_resumed(lab *l, lab_peer **peers) {
    for (int i = 0; i < 3; i++) {
        uint64_t from = lab_number(lab_wait_event(l, peers[i], "resumed"), "step");
        cr_expect_geq(from, 5, "peer %d", i);
        cr_expect_gt(lab_number(lab_wait_event(l, peers[i], "step"), "step"), from, "peer %d", i);
    }
}

/* Whether the chunk that the evidence names has the hash that is its name. */
static bool is_sound(const char *evidence) {
    unsigned char bytes[200000];
    char path[LAB_PATH * 2] = "", digits[GW_HASH_TEXT];
    gw_hash hash;
    cr_assert_eq(sscanf(evidence, "%*[^/]/store: chunk %*[0-9a-f]: hash differs in %1023s", path), 1, "%s",
                 evidence);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file, "%s", path);
    gw_blake2b(bytes, fread(bytes, 1, sizeof bytes, file), hash.bytes, sizeof hash.bytes);
    fclose(file);
    gw_hex(hash.bytes, sizeof hash.bytes, digits);
    return strcmp(strrchr(path, '/') + 1, digits) == 0;
}

/* Whoever has it damaged says which, and has a good one from the others. */
Test(corruption, a_bit_of_a_chunk_on_disk) {
    lab *l = lab_open();
    lab_peer *peers[3];
    leave_damaged(l, peers);
    start(l, peers, SAVING, "");
    expect_resumed(l, peers);
    expect_right(l, peers, 3);
    const json_t *event = lab_last(peers[0], "corruption");
    cr_assert_not_null(event, "%s", peers[0]->stderr_text);
    cr_expect_str_eq(lab_text(event, "peer"), id_of(peers[0]));
    const char *evidence = lab_text(event, "evidence");
    cr_expect_eq(strncmp(evidence, "a chunk on its disk is damaged: ", 32), 0, "%s", evidence);
    cr_expect_not_null(strstr(evidence, peers[0]->dir), "%s", evidence);
    cr_expect_eq(lab_number(event, "step"), lab_number(lab_last(peers[0], "resumed"), "step"));
    cr_expect(says(peers[0], evidence), "%s", peers[0]->stderr_text);
    for (int i = 1; i < 3; i++) cr_expect_null(lab_last(peers[i], "corruption"), "peer %d", i);
    lab_close(l);
}

/* The damaged chunk is also replaced: it is good once the job goes on. */
Test(corruption, whose_disk_has_damaged_a_chunk_is_shown) {
    lab *l = lab_open();
    lab_peer *peers[3];
    char part[64];
    leave_damaged(l, peers);
    start(l, peers, SAVING SHOWN " --keep 8", ""); /* so that the chunk is there until it is looked at */
    const json_t *event = lab_wait_event(l, peers[0], "corruption");
    snprintf(part, sizeof part, "(%.8s): a chunk on its disk is damaged", id_of(peers[0]));
    expect_shown(l, peers[0], part, "\"corruptions\":1", "godwit_corruptions_total 1\n");
    expect_resumed(l, peers);
    cr_expect(is_sound(lab_text(event, "evidence")), "%s", lab_text(event, "evidence"));
    lab_close(l);
}
