/* What a peer counts, compared with what the other side counts and with what the job is. */
#include "tests/cluster/lab.h"

#include "tools/godwit/show/control.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 30, SHARDS = 24, STATE_BYTES = 1 << 20 };
#define JOB                                                                                                  \
    "synthetic --shards 24 --shard-ms 1 --state-bytes 1m --workers 1 --checkpoint-every 10 --replicas 2"

static uint64_t count(const json_t *status, const char *name) {
    const json_t *value = json_object_get(json_object_get(status, "counters"), name);
    cr_assert(json_is_integer(value), "no counter %s", name);
    return (uint64_t)json_integer_value(value);
}

/* What `godwit status --json` says once so many steps and checkpoints are counted: it is published a little
 * after the events. */
static json_t *status_after(lab *l, const lab_peer *peer, uint64_t steps, uint64_t checkpoints) {
    for (;;) {
        gw_err err;
        char *text = gw_control_ask(peer->dir, "status", &err);
        cr_assert_not_null(text, "%s", err.text);
        json_t *object = json_loads(text, 0, NULL);
        cr_assert_not_null(object, "%s", text);
        free(text);
        if (count(object, "steps") >= steps && count(object, "checkpoints") >= checkpoints) return object;
        json_decref(object);
        lab_pump(l);
    }
}

/* What one peer counts at two moments, and the other, between them, under another name: the same, but for
 * what was on its way or not published yet. */
static void expect_agree(const json_t *before, const json_t *other, const json_t *after, const char *name,
                         const char *others_name) {
    uint64_t least = count(before, name), most = count(after, name), is = count(other, others_name);
    cr_expect_gt(least, 0, "%s", name);
    cr_expect(is > least / 2 && is < most + most / 2, "%s: %lu to %lu, but the other's %s: %lu", name, least,
              most, others_name, is);
}

/* No counter falls. */
static void expect_rising(const json_t *before, const json_t *after) {
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(before, "counters"), name, value) {
        const json_t *later = json_object_get(json_object_get(after, "counters"), name);
        cr_expect_geq(json_number_value(later), json_number_value(value), "%s", name);
    }
}

static void check_job(const json_t *own) {
    uint64_t steps = count(own, "steps");
    uint64_t sent = count(own, "reduce_sent_bytes") + count(own, "reduce_saved_bytes");
    /* The sum of a step, an eighth of the state, crosses once or twice, with what peers decide with. */
    cr_expect(sent >= STATE_BYTES / 8 * steps && sent < STATE_BYTES * steps, "%lu bytes in %lu steps", sent,
              steps);
    double seconds = json_real_value(json_object_get(json_object_get(own, "counters"), "reduce_seconds"));
    cr_expect(seconds > 0 && seconds < json_number_value(json_object_get(own, "uptime_s")));
    cr_expect_geq(count(own, "checkpoint_bytes"), STATE_BYTES);
    cr_expect_geq(count(own, "checkpoints"), 1);
    cr_expect_eq(count(own, "views"), 1);
    cr_expect_gt(count(own, "probes"), 0);
    cr_expect_eq(count(own, "fetched_bytes"), 0);
    cr_expect_eq(count(own, "bad_elements"), 0);
}

Test(counters, agree_with_the_other_peers_and_with_the_job) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, JOB, peers);
    for (int i = 0; i < 2; i++) lab_wait_event(l, peers[i], "checkpoint");
    json_t *before = status_after(l, peers[0], STEPS, 1), *other = status_after(l, peers[1], STEPS, 1),
           *after = status_after(l, peers[0], count(other, "steps") + 1, 1);
    expect_rising(before, after);
    expect_agree(before, other, after, "reduce_sent_bytes", "reduce_received_bytes");
    expect_agree(before, other, after, "reduce_received_bytes", "reduce_sent_bytes");
    expect_agree(before, other, after, "control_sent_bytes", "control_received_bytes");
    expect_agree(before, other, after, "control_received_bytes", "control_sent_bytes");
    check_job(after);
    check_job(other);
    json_decref(before);
    json_decref(other);
    json_decref(after);
    for (int i = 0; i < 2; i++) lab_kill(l, peers[i]);
    lab_close(l);
}

/* Who comes later fetches the state from the others, and these count what they gave. */
Test(counters, a_state_that_is_fetched_is_counted_on_both_sides) {
    lab *l = lab_open();
    lab_peer *peers[3];
    lab_flock(l, 2, JOB, peers);
    lab_wait_step(l, peers[0], 3);
    peers[2] = lab_start(l, "late", peers[0], JOB);
    lab_wait_event(l, peers[2], "step");
    json_t *late = status_after(l, peers[2], 2, 0);
    cr_expect_geq(count(late, "fetched_bytes"), STATE_BYTES);
    json_decref(late);
    uint64_t served = 0;
    for (int i = 0; i < 2; i++) {
        json_t *donor = status_after(l, peers[i], lab_number(lab_last(peers[2], "step"), "step"), 0);
        served += count(donor, "served_bytes");
        json_decref(donor);
    }
    cr_expect_geq(served, STATE_BYTES);
    for (int i = 0; i < 3; i++) lab_kill(l, peers[i]);
    lab_close(l);
}

/* Every peer shows the speeds of all peers, its own among them. */
Test(counters, every_peers_speed_is_shown) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, JOB, peers);
    lab_wait_step(l, peers[0], STEPS);
    json_t *status = status_after(l, peers[0], STEPS, 0), *list = json_object_get(status, "peers"), *peer;
    size_t i;
    cr_assert_eq(json_array_size(list), 2);
    json_array_foreach(list, i, peer)
        cr_expect_gt(json_number_value(json_object_get(peer, "shards_per_s")), 0);
    json_decref(status);
    for (int k = 0; k < 2; k++) lab_kill(l, peers[k]);
    lab_close(l);
}

/* A checkpoint of an earlier life is not new. */
/* The job counts its tokens: 64 a step, in four shards. */
Test(counters, tokens_are_told_as_shards_are) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL,
                               "gpt --data " GODWIT_BINARY " --layers 1 --heads 1 --channels 8 --context 8 "
                               "--batch-tokens 64 --micro-batch 2 --updates 100000000 --workers 1");
    lab_wait_step(l, peer, 5);
    json_t *status = status_after(l, peer, 5, 0);
    double shards = json_number_value(json_object_get(status, "shards_per_s")),
           tokens = json_number_value(json_object_get(status, "tokens_per_s"));
    cr_expect(shards > 0 && tokens > 15.99 * shards && tokens < 16.01 * shards, "%g, %g", tokens, shards);
    json_decref(status);
    lab_kill(l, peer);
    peer = lab_start(l, "two", NULL, JOB " --steps 100000");
    lab_wait_step(l, peer, 5);
    status = status_after(l, peer, 5, 0);
    cr_expect_null(json_object_get(status, "tokens_per_s"));
    json_decref(status);
    lab_kill(l, peer);
    lab_close(l);
}

static double real(const json_t *status, const char *key) {
    return json_number_value(json_object_get(status, key));
}

/* It was made before this process started; of another job there is none, which is as old as that. */
Test(counters, the_age_of_a_checkpoint_outlives_its_peer) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "p", NULL, JOB " --steps 100000");
    lab_wait_event(l, peer, "checkpoint");
    lab_kill(l, peer);
    peer = lab_start(l, "p", NULL, JOB " --steps 100000 --checkpoint-every off");
    lab_wait_event(l, peer, "resumed");
    json_t *status = status_after(l, peer, 1, 0);
    cr_expect_gt(json_integer_value(json_object_get(status, "checkpoint_step")), 0);
    cr_expect_gt(real(status, "checkpoint_age_s"), real(status, "uptime_s"));
    json_decref(status);
    lab_kill(l, peer);
    peer = lab_start(l, "p", NULL, JOB " --steps 100000 --checkpoint-every off --seed 5 --fresh");
    lab_wait_step(l, peer, 1);
    status = status_after(l, peer, 1, 0);
    cr_expect(json_is_null(json_object_get(status, "checkpoint_step")));
    cr_expect_float_eq(real(status, "checkpoint_age_s"), real(status, "uptime_s"), 1e-6);
    json_decref(status);
    lab_close(l);
}

/* The time of a step is not that of waiting for peers before the first. */
Test(counters, waiting_for_peers_is_no_steps_time) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, JOB, peers);
    const json_t *step = lab_wait_event(l, peers[0], "step"), *view = lab_last(peers[0], "view");
    double since_view =
        json_number_value(json_object_get(step, "time")) - json_number_value(json_object_get(view, "time"));
    cr_expect_leq(json_number_value(json_object_get(step, "ms")) * 1e-3, since_view + 0.001);
    for (int i = 0; i < 2; i++) lab_kill(l, peers[i]);
    lab_close(l);
}

/* In shared memory bytes cost nothing; over TCP fewer are sent. */
Test(counters, sums_are_packed_over_tcp_alone) {
    for (int tcp = 0; tcp < 2; tcp++) {
        lab *l = lab_open();
        lab_peer *peers[2];
        lab_flock(l, 2, tcp == 1 ? JOB " --transport tcp" : JOB " --transport shm", peers);
        json_t *status = status_after(l, peers[0], STEPS, 0);
        uint64_t sent = count(status, "reduce_sent_bytes"), saved = count(status, "reduce_saved_bytes");
        cr_expect(tcp == 1 ? saved > sent / 8 : saved == 0, "%lu bytes sent, %lu saved", sent, saved);
        json_decref(status);
        if (tcp == 1) free(lab_wait_shown(l, peers[0], "", "\n  sums are sent in "));
        for (int i = 0; i < 2; i++) lab_kill(l, peers[i]);
        lab_close(l);
    }
}

/* There may be 256 members, each with a row of integers in the sum: two send two. */
Test(counters, a_small_flock_with_small_sums_sends_little) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, JOB " --sum-elements 16", peers);
    lab_wait_step(l, peers[0], STEPS);
    json_t *status = status_after(l, peers[0], STEPS, 0);
    uint64_t steps = count(status, "steps"), sent = count(status, "reduce_sent_bytes");
    cr_expect(sent > 0 && sent < 4096 * steps, "%lu bytes in %lu steps", sent, steps);
    json_decref(status);
    for (int i = 0; i < 2; i++) lab_kill(l, peers[i]);
    lab_close(l);
}

/* When the peer gathered what it shows now. */
static double shown_at(const lab_peer *peer) {
    gw_err err;
    char *text = gw_control_ask(peer->dir, "status", &err);
    cr_assert_not_null(text, "%s", err.text);
    json_t *object = json_loads(text, 0, NULL);
    cr_assert_not_null(object, "%s", text);
    double at = json_real_value(json_object_get(object, "time"));
    json_decref(object);
    free(text);
    return at;
}

/* To gather it takes as long as a short step or longer: it is not done for each. */
Test(counters, short_steps_share_a_snapshot) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "p0", NULL, "synthetic --shards 1 --workers 1 --state-bytes 4k");
    lab_wait_step(l, peer, 100);
    double at = shown_at(peer);
    for (int shown = 0; shown < 10;) {
        double next = shown_at(peer);
        lab_pump(l);
        if (next == at) continue;
        cr_expect_geq(next - at, 0.045);
        at = next;
        shown++;
    }
    lab_close(l);
}
