/* --quorum majority: only a majority goes on. */
#include "tests/cluster/lab.h"

#include "tools/godwit/show/control.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALONE    "synthetic --shards 24 --shard-ms 2 --state-bytes 64k --workers 1"
#define MAJORITY ALONE " --quorum majority --peers 3"

static void start_three(lab *l, lab_peer **peers, const char *args) {
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, args);
    }
}

Test(quorum, majority_survives_one) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start_three(l, peers, MAJORITY);
    lab_wait_step(l, peers[0], 5);
    uint32_t leader = lab_leader(peers, 3);
    lab_kill(l, peers[leader]);
    lab_wait_view(l, peers[(leader + 1) % 3], 2);
    lab_stop_alike(l, (lab_peer *[]){peers[(leader + 1) % 3], peers[(leader + 2) % 3]}, 2, ALONE);
    lab_close(l);
}

/* Until it says that it waits. Nobody runs while the others die: a view of two of the three, formed when the
 * first of them is dead, could only go on with both. */
static void leave_first_alone(lab *l, lab_peer **peers) {
    for (int i = 0; i < 3; i++) lab_signal(peers[i], SIGSTOP);
    lab_kill(l, peers[1]);
    lab_kill(l, peers[2]);
    lab_mark(l, peers[0]);
    lab_signal(peers[0], SIGCONT);
    lab_wait_event(l, peers[0], "phase");
}

/* One of three alone is no majority: it waits, and goes on when a second one is back. */
Test(quorum, minority_waits) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start_three(l, peers, MAJORITY);
    lab_wait_step(l, peers[0], 5);
    leave_first_alone(l, peers);
    uint64_t frozen_at = lab_number(lab_last(peers[0], "step"), "step");
    lab_peer *back = lab_start(l, "p2", peers[0], MAJORITY);
    const json_t *view = lab_wait_view(l, peers[0], 2), *event;
    size_t at;
    json_array_foreach(peers[0]->events, at, event) {
        if (event == view) break;
        if (strcmp(lab_text(event, "event"), "step") == 0)
            cr_expect_leq(lab_number(event, "step"), frozen_at);
    }
    lab_stop_alike(l, (lab_peer *[]){peers[0], back}, 2, ALONE);
    lab_close(l);
}

static void force_view(const lab_peer *peer) {
    char command[LAB_PATH + 32];
    snprintf(command, sizeof command, "force-view --dir %s", peer->dir);
    cr_assert_eq(lab_command(command), 0);
}

/* Two of three are lost for good: the last one goes on when its operator says so, in the life that saw them
 * die, or in one that was started after all had been killed. */
Test(quorum, an_operator_goes_on_with_what_is_left) {
    for (int restarted = 0; restarted < 2; restarted++) {
        lab *l = lab_open();
        lab_peer *peers[3], *left;
        start_three(l, peers, MAJORITY " --checkpoint-every 5");
        lab_wait_step(l, peers[0], 12);
        leave_first_alone(l, peers);
        left = peers[0];
        if (restarted) {
            lab_kill(l, left);
            left = lab_start(l, "p0", NULL, MAJORITY " --checkpoint-every 5");
            lab_wait_event(l, left, "phase");
        }
        force_view(left);
        lab_wait_view(l, left, 1);
        lab_mark(l, left);
        lab_wait_event(l, left, "step");
        lab_stop_alike(l, &left, 1, ALONE);
        lab_close(l);
    }
}

static json_t *status_of(const lab_peer *peer) {
    gw_err err;
    char *text = gw_control_ask(peer->dir, "status", &err);
    cr_assert_not_null(text, "%s", err.text);
    json_t *status = json_loads(text, 0, NULL);
    cr_assert_not_null(status, "%s", text);
    free(text);
    return status;
}

static double real(const json_t *status, const char *key) {
    return json_number_value(json_object_get(status, key));
}

/* Who waits does not show the speed that it had, nor that it is healthy, until it computes again. */
Test(quorum, who_waits_does_not_say_that_it_works) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start_three(l, peers, MAJORITY);
    lab_wait_step(l, peers[0], 20);
    json_t *working = status_of(peers[0]);
    cr_expect(json_is_true(json_object_get(working, "healthy")));
    leave_first_alone(l, peers);
    json_t *waiting = status_of(peers[0]);
    double since_s = real(waiting, "uptime_s");
    while (real(waiting, "uptime_s") < since_s + 1.5) { /* published every quarter of a second */
        json_decref(waiting);
        waiting = status_of(peers[0]);
    }
    cr_expect_geq(real(waiting, "step_ms"), 1000);
    cr_expect_lt(real(waiting, "shards_per_s"), real(working, "shards_per_s") / 2);
    cr_expect(json_is_false(json_object_get(waiting, "healthy")));
    lab_mark(l, peers[0]);
    lab_start(l, "p1", peers[0], MAJORITY);
    lab_wait_view(l, peers[0], 2);
    lab_wait_step(l, peers[0], lab_number(lab_last(peers[0], "step"), "step") + 1);
    json_t *back = status_of(peers[0]);
    cr_expect(json_is_true(json_object_get(back, "healthy")));
    json_decref(working);
    json_decref(waiting);
    json_decref(back);
    lab_close(l);
}

/* The fingerprint that a peer showed of a step; NULL = it showed none. */
static const char *shown(const lab_peer *peer, uint64_t step) {
    const json_t *event;
    size_t at;
    json_array_foreach(peer->events, at, event) {
        bool it = strcmp(lab_text(event, "event"), "step") == 0 && lab_number(event, "step") == step;
        if (it) return lab_text(event, "fingerprint");
    }
    return NULL;
}

/* Float sums depend on who adds; the members of a view still hold the same bytes, and whoever shows a step
 * shows the same. One that misses the end of a sum fetches what came of it, and shows none of that. */
Test(quorum, fast_sums_agree) {
    lab *l = lab_open();
    lab_peer *peers[3];
    char command[LAB_PATH + 32];
    start_three(l, peers, MAJORITY " --reduce fast");
    lab_wait_step(l, peers[0], 5);
    lab_kill(l, peers[2]);
    lab_wait_view(l, peers[0], 2);
    lab_wait_step(l, peers[0], lab_number(lab_last(peers[2], "step"), "step") + 5);
    snprintf(command, sizeof command, "stop --dir %s", peers[0]->dir);
    cr_assert_eq(lab_command(command), 0);
    const char *hash = lab_state(l, peers[0], "stopped");
    cr_expect_str_eq(lab_state(l, peers[1], "stopped"), hash);
    uint64_t steps = lab_number(lab_last(peers[0], "done"), "steps");
    uint32_t of_all = 0;
    for (uint64_t step = 1; step <= steps; step++) {
        const char *one = shown(peers[0], step), *other = shown(peers[1], step),
                   *dead = shown(peers[2], step);
        const char *first = one != NULL ? one : other;
        cr_assert(first != NULL, "nobody who lives has shown step %d", (int)step);
        cr_expect(other == NULL || strcmp(other, first) == 0, "step %d", (int)step);
        cr_expect(dead == NULL || strcmp(dead, first) == 0, "step %d", (int)step);
        of_all += dead != NULL;
    }
    cr_expect_geq(of_all, 1);
    lab_close(l);
}

static bool waits_or_founds(const json_t *event, const void *context) {
    (void)context;
    return strcmp(lab_text(event, "event"), "phase") == 0 || strcmp(lab_text(event, "event"), "view") == 0;
}

static size_t records(const lab_peer *peer) {
    char pattern[LAB_PATH + 16];
    snprintf(pattern, sizeof pattern, "%s/record-*", peer->dir);
    glob_t found = {0};
    int status = glob(pattern, 0, NULL, &found);
    size_t count = status == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* A directory may be used again, for a job that is to be founded by others as well; and then for the first.
 */
Test(quorum, promises_for_one_job_found_no_other) {
    const char
        *first = "synthetic --steps 5 --shards 24 --state-bytes 64k --workers 1 --quorum majority --peers 1",
        *second = "synthetic --steps 6 --shards 24 --state-bytes 64k --workers 1 --quorum majority --peers 2",
        *begins = "synthetic --steps 6 --shards 24 --state-bytes 64k --workers 1 --quorum majority --peers 2 "
                  "--fresh";
    lab *l = lab_open();
    lab_peer *one = lab_start(l, "one", NULL, first);
    char hash[80];
    snprintf(hash, sizeof hash, "%s", lab_state(l, one, "done"));
    one = lab_start(l, "one", NULL, begins);
    const json_t *event = lab_wait(l, one, waits_or_founds, NULL, "a phase or a view");
    cr_assert_str_eq(lab_text(event, "event"), "phase", "it must not found alone what is for two");
    lab_peer *other = lab_start(l, "other", one, second);
    lab_state(l, one, "done");
    lab_state(l, other, "done");
    one = lab_start(l, "one", NULL, first);
    cr_expect_str_eq(lab_state(l, one, "done"), hash);
    cr_expect_eq(records(one), 2);
    lab_close(l);
}

static void flip_a_bit(const lab_peer *peer, long at) {
    char pattern[LAB_PATH + 16];
    snprintf(pattern, sizeof pattern, "%s/record-*", peer->dir);
    glob_t found = {0};
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
    FILE *file = fopen(found.gl_pathv[0], "r+");
    cr_assert_not_null(file);
    globfree(&found);
    cr_assert_eq(fseek(file, at, SEEK_SET), 0);
    int byte = fgetc(file);
    cr_assert_neq(byte, EOF);
    cr_assert_eq(fseek(file, at, SEEK_SET), 0);
    cr_assert_eq(fputc(byte ^ 1, file), byte ^ 1);
    cr_assert_eq(fclose(file), 0);
}

/* A bit of the epoch that the peer voted for last changes in its record. */
Test(quorum, who_remembers_other_votes_than_it_gave_does_not_start) {
    enum { VOTED = 1 + 8 + 7 };
    const char *args =
        "synthetic --steps 5 --shards 24 --state-bytes 64k --workers 1 --quorum majority --peers 1";
    lab *l = lab_open();
    lab_peer *one = lab_start(l, "one", NULL, args);
    lab_state(l, one, "done");
    flip_a_bit(one, VOTED);
    one = lab_launch(l, "one", NULL, NULL, args);
    cr_expect_eq(lab_end(l, one), 1);
    cr_expect_not_null(strstr(one->stderr_text, "is damaged; a peer that forgot its votes must not vote"),
                       "%s", one->stderr_text);
    lab_close(l);
}

/* How often it has said that its record is not on disk. */
static int complaints(const lab_peer *peer) {
    int count = 0;
    for (const char *at = peer->stderr_text;
         at != NULL && (at = strstr(at, "the record of this peer's votes is not on disk")); at++)
        count++;
    return count;
}

/* A vote waits for its record; while it cannot be written that is told, and again when it fails anew. */
Test(quorum, a_record_that_cannot_be_written_is_told_each_time_it_begins) {
    lab *l = lab_open();
    lab_peer *peers[3];
    char blocker[LAB_PATH + 16];
    start_three(l, peers, MAJORITY);
    snprintf(blocker, sizeof blocker, "%s/record.new", peers[0]->dir);
    for (int round = 1; round <= 2; round++) {
        lab_wait_view(l, peers[0], 3);
        lab_wait_step(l, peers[0], 5);
        while (mkdir(blocker, 0700) != 0) { /* a record is being written just now */
            cr_assert_eq(errno, EEXIST);
            lab_pump(l);
        }
        lab_mark(l, peers[0]);
        lab_kill(l, peers[2]);
        while (complaints(peers[0]) < round) lab_pump(l);
        cr_assert_eq(rmdir(blocker), 0);
        lab_wait_view(l, peers[0], 2);
        cr_expect_eq(complaints(peers[0]), round);
        lab_mark(l, peers[0]);
        if (round == 1) peers[2] = lab_start(l, "p2", peers[0], MAJORITY);
    }
    lab_close(l);
}
