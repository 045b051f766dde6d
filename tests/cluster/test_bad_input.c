/* What disks and strangers do to a flock: nothing is lost, and whoever is hit says what. */
#include "tests/cluster/lab.h"

#include "net/data/words.h"

#include "core/rng.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDLESS   "synthetic --shards 12 --shard-ms 2 --state-bytes 256k --workers 1"
#define SYNTHETIC ENDLESS " --steps 40"
#define SLOW      SYNTHETIC " --skew 4" /* so that something can be done to it before it ends */

static bool has_text(const json_t *event, const void *part) {
    const char *text = lab_text(event, "text");
    return text && strstr(text, part) != NULL;
}

/* Disks. */

/* Flips a bit of the chunk that was written last. */
static void damage_newest_chunk(const lab_peer *peer) {
    char pattern[LAB_PATH + 20];
    snprintf(pattern, sizeof pattern, "%s/chunks/*/*", peer->dir);
    glob_t found;
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
    const char *newest = NULL;
    struct timespec when = {0};
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat status;
        cr_assert_eq(stat(found.gl_pathv[i], &status), 0);
        const struct timespec *written = &status.st_mtim;
        if (written->tv_sec < when.tv_sec ||
            (written->tv_sec == when.tv_sec && written->tv_nsec < when.tv_nsec))
            continue;
        newest = found.gl_pathv[i];
        when = *written;
    }
    FILE *file = fopen(newest, "r+b");
    cr_assert_not_null(file);
    fseek(file, 1000, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, 1000, SEEK_SET);
    fputc(byte ^ 1, file);
    cr_assert_eq(fclose(file), 0);
    globfree(&found);
}

Test(bad_input, a_damaged_chunk_costs_that_checkpoint_only) {
    lab *l = lab_open();
    const char *args = SYNTHETIC " --checkpoint-every 10 --resume-timeout 100ms";
    lab_peer *peer = lab_start(l, "one", NULL, args);
    char hash[65];
    strcpy(hash, lab_state(l, peer, "done"));
    damage_newest_chunk(peer);
    peer = lab_start(l, "one", NULL, args);
    lab_wait(l, peer, has_text, "hash differs", "the damaged chunk is named");
    lab_wait(l, peer, has_text, "beginning at step 30", "another checkpoint is taken");
    cr_expect_str_eq(lab_state(l, peer, "done"), hash);
    cr_expect_eq(lab_number(lab_last(peer, "resumed"), "step"), 30);
    lab_close(l);
}

/* From now on writing a chunk of a state fails, as on a full disk. The limit holds for shared memory, too,
 * which is on no disk: it stays possible. */
static void fill_disk(const lab_peer *peer) {
    struct rlimit small = {GW_WORDS_BYTES, RLIM_INFINITY};
    cr_assert_eq(prlimit(peer->pid, RLIMIT_FSIZE, &small, NULL), 0);
}

static void empty_disk(const lab_peer *peer) {
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    cr_assert_eq(prlimit(peer->pid, RLIMIT_FSIZE, &none, NULL), 0);
}

/* The root of the state that it computed and could not save. */
static const char *unsaved_state(lab *l, lab_peer *peer) {
    cr_expect_eq(lab_end(l, peer), 1, "scripts and supervisors are told");
    const json_t *done = lab_last(peer, "done");
    cr_assert_not_null(done);
    cr_expect_str_eq(lab_text(done, "outcome"), "unsaved");
    cr_expect_not_null(strstr(lab_text(done, "text"), "could store all of the last state"));
    cr_expect_not_null(peer->stderr_text);
    return lab_text(done, "state");
}

Test(bad_input, a_full_disk_stops_checkpoints_and_not_the_run) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, SLOW " --checkpoint-every off --save-timeout 500ms");
    fill_disk(peer);
    char hash[65];
    strcpy(hash, unsaved_state(l, peer));
    lab_wait(l, peer, has_text, "cannot be written", "a warning");
    lab_wait(l, peer, has_text, "is not saved", "a warning that the end is not saved");
    cr_expect_null(lab_last(peer, "checkpoint"), "nothing was saved");
    cr_expect_str_eq(lab_undisturbed(l, SYNTHETIC), hash);
    lab_close(l);
}

/* People write `godwit stop && poweroff`. */
Test(bad_input, a_stop_whose_last_state_is_lost_has_failed) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, SLOW " --checkpoint-every off --save-timeout 500ms");
    lab_wait_event(l, peer, "step");
    fill_disk(peer);
    char command[2 * LAB_PATH];
    int code;
    snprintf(command, sizeof command, "%s stop --dir %s 2>&1", GODWIT_BINARY, peer->dir);
    char *said = lab_shell(command, &code);
    cr_expect_eq(code, 1, "%s", said);
    cr_expect_not_null(strstr(said, "has not ended well (unsaved): "), "%s", said);
    cr_expect_not_null(strstr(said, "could store all of the last state"), "%s", said);
    free(said);
    unsaved_state(l, peer);
    lab_close(l);
}

Test(bad_input, a_full_disk_that_is_emptied_at_the_end_saves_the_last_state) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, SLOW " --checkpoint-every off --save-timeout 5m");
    fill_disk(peer);
    lab_wait(l, peer, has_text, "--save-timeout", "that it tries again");
    char *text = lab_wait_shown(l, peer, "", "waiting for a disk with room");
    cr_expect_not_null(strstr(text, "disk: checkpoints cannot be written"), "%s", text);
    cr_expect_null(strstr(text, "goes on without"), "it waits: %s", text);
    free(text);
    empty_disk(peer);
    lab_state(l, peer, "done");
    cr_expect_eq(lab_number(lab_last(peer, "checkpoint"), "step"), 40);
    lab_close(l);
}

static uint32_t warnings_with(const lab_peer *peer, const char *part) {
    uint32_t count = 0;
    for (size_t i = 0; i < json_array_size(peer->events); i++) {
        const json_t *event = json_array_get(peer->events, i);
        count +=
            strcmp(lab_text(event, "event"), "warning") == 0 && strstr(lab_text(event, "text"), part) != NULL;
    }
    return count;
}

Test(bad_input, a_full_disk_is_told_once) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, SLOW " --checkpoint-every 2 --save-timeout 0s");
    lab_wait_event(l, peer, "checkpoint");
    fill_disk(peer);
    unsaved_state(l, peer);
    cr_expect_eq(warnings_with(peer, strerror(EFBIG)), 1, "why, once");
    cr_expect_eq(warnings_with(peer, "is given up"), 1);
    lab_close(l);
}

Test(bad_input, one_full_disk_costs_no_checkpoint) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, SYNTHETIC " --checkpoint-every 10", peers);
    fill_disk(peers[1]);
    lab_state(l, peers[1], "done");
    lab_state(l, peers[0], "done");
    cr_expect_eq(lab_number(lab_last(peers[0], "checkpoint"), "step"), 40);
    lab_close(l);
}

/* The time that is shown for a checkpoint is its own, not the sum of all checkpoints before it. */
Test(bad_input, a_checkpoint_beside_a_full_disk_took_its_own_time) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, SYNTHETIC " --checkpoint-every 2", peers);
    fill_disk(peers[1]);
    lab_state(l, peers[1], "done");
    double before = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < json_array_size(peers[1]->events); i++) {
        const json_t *event = json_array_get(peers[1]->events, i);
        if (strcmp(lab_text(event, "event"), "checkpoint") != 0) continue;
        double now = json_real_value(json_object_get(event, "time"));
        double took_ms = json_number_value(json_object_get(event, "took_ms"));
        if (count++ > 0) cr_expect_lt(took_ms, (now - before) * 1e3, "%u: %g ms", count, took_ms);
        before = now;
    }
    cr_expect_gt(count, 3);
    lab_close(l);
}

/* The lock and all open files are as they were: only what is to be written shows it. */
Test(bad_input, a_directory_that_is_removed_is_told) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, SLOW " --checkpoint-every 2 --save-timeout 0s");
    lab_wait_event(l, peer, "checkpoint");
    char command
        [4 *
         LAB_PATH]; /* it is written to meanwhile, over which rm stumbles: it is called until all is gone */
    snprintf(command, sizeof command, "mv %s %s.gone && until rm -rf %s.gone 2>%s.rm; do :; done", peer->dir,
             peer->dir, peer->dir, peer->dir);
    cr_assert_eq(system(command), 0);
    lab_wait(l, peer, has_text, "is gone: it was removed while", "a warning");
    unsaved_state(l, peer);
    cr_expect_not_null(strstr(lab_text(lab_last(peer, "done"), "text"), "is gone: it was removed"));
    lab_close(l);
}

/* Strangers. */

enum { NOISES = 400, CALLERS = 40, NOISE_BYTES = 1500 };

static struct sockaddr_in address_of(const lab_peer *peer) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(peer->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return to;
}

static void fill(uint8_t *bytes, size_t count, uint64_t *seed) {
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)gw_mix64(++*seed);
}

static void send_noise(const lab_peer *peer, uint64_t *seed) {
    struct sockaddr_in to = address_of(peer);
    uint8_t bytes[NOISE_BYTES];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    for (uint32_t i = 0; i < NOISES; i++) {
        size_t count = gw_mix64(++*seed) % (NOISE_BYTES + 1);
        fill(bytes, count, seed);
        sendto(fd, bytes, count, 0, (struct sockaddr *)&to, sizeof to);
    }
    close(fd);
}

/* Callers that say nothing, half a frame, the length of an endless one, or something else entirely; all stay.
 */
static void call_and_stay(const lab_peer *peer, int *fds, uint64_t *seed) {
    struct sockaddr_in to = address_of(peer);
    for (uint32_t i = 0; i < CALLERS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_eq(connect(fds[i], (struct sockaddr *)&to, sizeof to), 0);
        uint8_t bytes[NOISE_BYTES] = {0xff, 0xff, 0xff, 0xff};
        size_t count = (size_t[]){0, 1, 4, NOISE_BYTES}[i % 4];
        if (count == NOISE_BYTES) fill(bytes, count, seed);
        if (count > 0) cr_assert_eq(send(fds[i], bytes, count, MSG_NOSIGNAL), (ssize_t)count);
    }
}

Test(bad_input, strangers_disturb_nobody) {
    lab *l = lab_open();
    lab_peer *peers[3];
    int callers[CALLERS];
    uint64_t seed = 1;
    lab_flock(l, 2, ENDLESS, peers);
    send_noise(peers[0], &seed);
    call_and_stay(peers[0], callers, &seed);
    lab_wait(l, peers[0], has_text, "dropped", "a warning about the packets");
    lab_wait(l, peers[0], has_text, "turned away", "a warning about the connections");
    peers[2] = lab_start(l, "late", peers[0], ENDLESS);
    lab_wait_view(l, peers[2], 3);
    lab_stop_alike(l, peers, 3, ENDLESS);
    for (int i = 0; i < CALLERS; i++) close(callers[i]);
    lab_close(l);
}

/* A peer whose seed is there, and turns it away for its cluster's name, does not compute alone what others may compute,
 * whatever other seeds are down; one whose seeds may all be down begins. */
Test(bad_input, who_is_turned_away_ends_and_who_is_answered_by_nobody_begins_alone) {
    lab *l = lab_open();
    char args[300];
    lab_peer *other = lab_start(l, "other", NULL, ENDLESS " --cluster theirs");
    lab_peer nobody = {.port = lab_keep_port(l)};
    snprintf(args, sizeof args, SYNTHETIC " --cluster ours --join-timeout 3s --join 127.0.0.1:%u",
             nobody.port);
    lab_peer *peer = lab_launch(l, "one", other, NULL, args);
    lab_wait(l, other, has_text, "of another cluster", "a warning there");
    cr_expect_eq(lab_end(l, peer), 1);
    cr_expect_str_eq(lab_text(lab_last(peer, "done"), "outcome"), "denied");
    cr_expect(strstr(lab_text(lab_last(peer, "done"), "text"), "turns this peer away") != NULL);
    cr_expect_null(lab_last(peer, "step"));
    peer = lab_start(l, "two", &nobody, SYNTHETIC " --cluster ours --join-timeout 200ms");
    lab_wait(l, peer, has_text, "beginning alone", "a warning");
    char hash[65];
    strcpy(hash, lab_state(l, peer, "done"));
    cr_expect_str_eq(lab_undisturbed(l, SYNTHETIC), hash);
    lab_kill(l, other);
    lab_close(l);
}
