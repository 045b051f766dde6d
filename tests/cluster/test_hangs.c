/* Shards that hang or fail: who has one gives up, and the others go on without it. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define FAULTY GODWIT_FAULTY_JOB " --workers 1 --hang-timeout 4s"

static bool says(const lab_peer *peer, const char *part) {
    return peer->stderr_text != NULL && strstr(peer->stderr_text, part) != NULL;
}

/* The place of the first event of this kind (and, unless 0, with so many members) from `from` on. */
static size_t find(const lab_peer *peer, size_t from, const char *kind, size_t members) {
    for (size_t i = from; i < json_array_size(peer->events); i++) {
        const json_t *event = json_array_get(peer->events, i);
        if (strcmp(lab_text(event, "event"), kind) != 0) continue;
        if (members == 0 || json_array_size(json_object_get(event, "members")) == members) return i;
    }
    cr_assert(false, "%s: no event %s", peer->dir, kind);
    return 0;
}

#if defined(__SANITIZE_THREAD__) /* which holds signals back */
enum { HAS_STACKS = 0 };
#else
enum { HAS_STACKS = 1 };
#endif

/* The log says where the thread is. */
static void expect_stack(const lab_peer *peer, const char *thread, const char *function) {
    const char *text = peer->stderr_text == NULL ? NULL : strstr(peer->stderr_text, thread);
    cr_expect(!HAS_STACKS || (text != NULL && strstr(text, function) != NULL), "%s", peer->stderr_text);
}

/* Its view is gone before the shard is dealt again, and the result is as if nothing had been. */
Test(hangs, a_peer_with_a_hanging_shard_is_expelled_and_its_shards_are_dealt_again) {
    lab *l = lab_open();
    lab_peer *peers[3];
    peers[0] = lab_start(l, "p0", NULL, FAULTY " --peers 3");
    peers[1] = lab_start(l, "p1", peers[0], FAULTY " --peers 3");
    peers[2] = lab_start(l, "p2", peers[0], FAULTY " --peers 3 --hang-step 5");
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect_str_eq(lab_text(lab_last(peers[2], "done"), "outcome"), "failed");
    cr_expect(says(peers[2], "worker 0 has been busy with it for") && says(peers[2], "seems to hang"), "%s",
              peers[2]->stderr_text);
    expect_stack(peers[2], "(gw-worker-0), state", "faulty_contribute+0x");
    const char *hash = lab_state(l, peers[0], "done");
    cr_expect_str_eq(lab_state(l, peers[1], "done"), hash);
    for (int i = 0; i < 2; i++) {
        size_t all = find(peers[i], 0, "view", 3), left = find(peers[i], all, "view", 2);
        cr_expect_gt(find(peers[i], all, "repair", 0), left, "dealt again before it was expelled");
    }
    cr_expect_str_eq(lab_undisturbed(l, FAULTY), hash);
    lab_close(l);
}

/* Nobody is left to compute it: the job fails, and says why. */
Test(hangs, alone_it_ends) {
    lab *l = lab_open();
    lab_peer *peer = lab_launch(l, "one", NULL, NULL, FAULTY " --hang-step 5");
    cr_expect_eq(lab_end(l, peer), 1);
    cr_expect(says(peer, "of step 5 cannot be computed here: worker 0"), "%s", peer->stderr_text);
    lab_close(l);
}

/* Closing does not wait for what never ends. */
Test(hangs, a_peer_whose_apply_hangs_ends_and_the_others_go_on) {
    lab *l = lab_open();
    lab_peer *peers[3];
    peers[0] = lab_start(l, "p0", NULL, FAULTY " --peers 3");
    peers[1] = lab_start(l, "p1", peers[0], FAULTY " --peers 3");
    peers[2] = lab_start(l, "p2", peers[0], FAULTY " --peers 3 --hang-apply 5");
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect(says(peers[2], "step 5 could not be applied: it makes no progress"), "%s",
              peers[2]->stderr_text);
    expect_stack(peers[2], "(gw-worker-0), state", "faulty_apply+0x");
    const char *hash = lab_state(l, peers[0], "done");
    cr_expect_str_eq(lab_state(l, peers[1], "done"), hash);
    lab_close(l);
}

/* It is brought by a thread that is not the one that waits for it. */
Test(hangs, a_peer_whose_payload_never_comes_ends_and_says_where_it_is) {
    lab *l = lab_open();
    lab_peer *peers[3];
    peers[0] = lab_start(l, "p0", NULL, FAULTY " --payload --peers 3");
    peers[1] = lab_start(l, "p1", peers[0], FAULTY " --payload --peers 3");
    peers[2] = lab_start(l, "p2", peers[0], FAULTY " --payload --peers 3 --hang-payloads");
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect(says(peers[2], "worker 0 has been busy with it for"), "%s", peers[2]->stderr_text);
    expect_stack(peers[2], "(gw-payload), state", "faulty_payload+0x");
    cr_expect_not(says(peers[2], "closing takes more than"), "%s", peers[2]->stderr_text);
    const char *hash = lab_state(l, peers[0], "done");
    cr_expect_str_eq(lab_state(l, peers[1], "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, FAULTY " --payload"), hash);
    lab_close(l);
}

static bool says_that_it_leaves(const json_t *event, const void *unused) {
    (void)unused;
    const char *text = lab_text(event, "text");
    return text != NULL && strstr(text, "this peer leaves (a second signal") != NULL;
}

Test(hangs, a_second_signal_ends_a_peer_whose_apply_hangs) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, GODWIT_FAULTY_JOB " --workers 1 --hang-apply 5");
    lab_wait_step(l, peer, 5);
    lab_signal(peer, SIGTERM);
    lab_wait(l, peer, says_that_it_leaves, NULL, "that it is asked to leave");
    cr_expect_eq(lab_insist(l, peer, SIGINT), 128 + SIGINT);
    lab_close(l);
}

/* Three peers are lost to a shard that spares nobody; the others name it and stop. */
static void everywhere(const char *option, const char *why) {
    lab *l = lab_open();
    lab_peer *peers[5];
    lab_flock(l, 5, option, peers);
    int lost = 0, named = 0;
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(lab_end(l, peers[i]), 1);
        lost += says(peers[i], why);
        named += says(peers[i], "shard 7 of step 3 is poison");
    }
    cr_expect_eq(lost, 3);
    cr_expect_eq(named, 2);
    lab_close(l);
}

Test(hangs, a_shard_that_hangs_everywhere_is_named) {
    everywhere(FAULTY " --hang-shard 7",
               "shard 7 of step 3 cannot be computed here: worker 0 has been busy with it");
}

Test(hangs, a_shard_that_fails_everywhere_is_named) {
    everywhere(FAULTY " --fail-shard 7", "step 3, shard 7: its disk is gone");
}
