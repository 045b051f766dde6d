/* A flock of peers with GPUs, on one loop: from an installed view to a sum, over links that the test carries
 * and an NCCL in memory (tests/net/nccl/fake.h). */
#include "core/os/clock.h"
#include "tests/net/nccl/fake.h"

#include "core/base/log.h"
#include "tools/godwit/work/gpus.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 3, COUNT = 100 };

#define LONG_NS UINT64_C(60000000000)

typedef struct peer {
    gw_gpus *gpus;
    int index;
    bool dead;
    atomic_uint dones, losses; /* set last, when the thread of the sums has set the rest */
    gw_collective_status status;
    gw_err err;
    int64_t in[COUNT], out[COUNT];
} peer;

typedef struct letter {
    int from, to;
    size_t length;
    uint8_t bytes[];
} letter;

static gw_loop *loop;
static uint64_t retry_ns; /* 0: the pause of a run */
static uint32_t time_scale = 100;
static peer peers[PEERS];
static unsigned letters; /* messages on their way */

static gw_peer_id id_of(int index) {
    gw_peer_id id = {{0}};
    id.bytes[0] = (uint8_t)(10 + index);
    return id;
}

static void arrive(void *context) {
    letter *l = context;
    gw_peer_id from = id_of(l->from);
    if (!peers[l->from].dead && !peers[l->to].dead)
        gw_gpus_hear(peers[l->to].gpus, &from, l->bytes, l->length);
    free(l);
    letters--;
}

static void on_send(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length) {
    letter *l = malloc(sizeof *l + length);
    gw_err err;
    l->from = ((peer *)context)->index;
    l->to = to->bytes[0] - 10;
    l->length = length;
    memcpy(l->bytes, bytes, length);
    cr_assert(gw_loop_post(loop, arrive, l, &err));
    letters++;
}

/* Wakes the loop. */
static void look(void *context) {
    (void)context;
}

static void on_done(void *context, const gw_collective_result *result) {
    peer *p = context;
    gw_err err;
    p->status = result->status;
    if (result->err) p->err = *result->err;
    atomic_fetch_add(&p->dones, 1);
    gw_loop_post(loop, look, NULL, &err);
}

static void on_lost(void *context, const gw_err *why) {
    peer *p = context;
    gw_err err;
    p->err = *why;
    atomic_fetch_add(&p->losses, 1);
    gw_loop_post(loop, look, NULL, &err);
}

static void await(atomic_uint *count, unsigned wanted) {
    uint64_t end = gw_now_ns() + LONG_NS;
    while (atomic_load(count) < wanted) {
        cr_assert_lt(gw_now_ns(), end, "what was waited for did not happen");
        gw_loop_turn(loop, LONG_NS);
    }
}

static void flock_open(void) {
    gw_err err;
    fake_reset(PEERS);
    loop = gw_loop_open(&err);
    for (int i = 0; i < PEERS; i++) {
        peers[i] = (peer){.index = i};
        gw_gpus_options options = {.nccl = fake_nccl(),
                                   .cuda = fake_cuda(),
                                   .ordinals = &i,
                                   .count = 1,
                                   .loop = loop,
                                   .self = id_of(i),
                                   .time_scale_percent = time_scale,
                                   .retry_ns = retry_ns,
                                   .context = &peers[i],
                                   .send = on_send,
                                   .done = on_done,
                                   .lost = on_lost};
        peers[i].gpus = gw_gpus_open(&options, &err);
        cr_assert(peers[i].gpus != NULL, "%s", err.text);
        for (int k = 0; k < COUNT; k++) peers[i].in[k] = (i + 1) * 1000 + k;
    }
}

static void flock_close(void) {
    for (int i = 0; i < PEERS; i++) peers[i].dead = true; /* no thread reads it any more */
    do {
        gw_loop_turn(loop, 0);
    } while (letters > 0);
    for (int i = 0; i < PEERS; i++)
        cr_assert_eq(gw_gpus_close(peers[i].gpus, LONG_NS), peers[i].losses == 0); /* the loop runs no more */
    gw_loop_close(loop);
    cr_assert_null(fake_count().misuse, "%s", fake_count().misuse);
    cr_assert_eq(fake_count().comms, 0);
}

static gw_view view_of(uint64_t epoch, int first, int count) {
    gw_view view = {.epoch = epoch, .count = (uint32_t)count, .leader = id_of(first)};
    for (int i = 0; i < count; i++) view.members[i].id = id_of(first + i);
    gw_view_seal(&view);
    return view;
}

static void install(const gw_view *view, int first) {
    for (uint32_t i = 0; i < view->count; i++) gw_gpus_install(peers[first + (int)i].gpus, view);
}

static void start(int index, const gw_view *view) {
    peer *p = &peers[index];
    gw_nccl_piece piece = {p->in, p->out, COUNT, GW_SUM_I64};
    gw_gpu_call call = {
        .fence = {.epoch = view->epoch, .view = view->name}, .pieces = &piece, .piece_count = 1};
    gw_gpus_start(p->gpus, &call);
}

static void expect_sum(int first, int count) {
    int64_t base = 0;
    for (int i = first; i < first + count; i++) base += (i + 1) * 1000;
    for (int i = first; i < first + count; i++) {
        cr_assert_eq(peers[i].status, GW_COLLECTIVE_OK, "%s", peers[i].err.text);
        for (int k = 0; k < COUNT; k++) cr_assert_eq(peers[i].out[k], base + count * k);
    }
}

Test(gpus, a_view_becomes_a_communicator_and_sums) {
    flock_open();
    gw_view view = view_of(1, 0, 3);
    install(&view, 0);
    for (unsigned step = 1; step <= 3; step++) {
        for (int i = 0; i < 3; i++) start(i, &view);
        for (int i = 0; i < 3; i++) await(&peers[i].dones, step);
        expect_sum(0, 3);
    }
    cr_assert_eq(fake_count().inits, 3, "one communicator for all sums of a view");
    flock_close();
}

/* A peer is killed in the middle of a reduction: the brains of the others freeze them and install a view
 * without it. */
Test(gpus, a_peer_that_dies_inside_a_sum_costs_the_others_nothing_but_that_sum) {
    flock_open();
    gw_view old = view_of(1, 0, 3), view = view_of(2, 0, 2);
    install(&old, 0);
    for (int i = 0; i < 3; i++) start(i, &old);
    for (int i = 0; i < 3; i++) await(&peers[i].dones, 1);
    peers[2].dead = true;
    for (int i = 0; i < 2; i++) start(i, &old); /* it waits for the dead peer */
    for (int i = 0; i < 2; i++) gw_gpus_leave(peers[i].gpus);
    for (int i = 0; i < 2; i++) await(&peers[i].dones, 2);
    for (int i = 0; i < 2; i++) cr_assert_eq(peers[i].status, GW_COLLECTIVE_ABORTED);
    install(&view, 0);
    for (int i = 0; i < 2; i++) start(i, &view);
    for (int i = 0; i < 2; i++) await(&peers[i].dones, 3);
    expect_sum(0, 2);
    for (int i = 0; i < 2; i++) cr_assert(gw_gpus_ready(peers[i].gpus));
    flock_close();
}

Test(gpus, a_leader_that_dies_before_its_id_is_told_leaves_a_view_that_can_be_left) {
    flock_open();
    gw_view old = view_of(1, 0, 3), view = view_of(2, 1, 2);
    peers[0].dead = true;
    install(&old, 0);
    for (int i = 1; i < 3; i++) start(i, &old);
    for (int i = 1; i < 3; i++) gw_gpus_leave(peers[i].gpus);
    for (int i = 1; i < 3; i++) await(&peers[i].dones, 1);
    install(&view, 1);
    for (int i = 1; i < 3; i++) start(i, &view);
    for (int i = 1; i < 3; i++) await(&peers[i].dones, 2);
    expect_sum(1, 2);
    flock_close();
}

Test(gpus, nccl_that_fails_again_and_again_is_left_alone) {
    flock_open();
    for (uint64_t epoch = 1; epoch <= GW_GPUS_FAILURES; epoch++) {
        gw_view view = view_of(epoch, 0, 3);
        cr_assert(gw_gpus_ready(peers[0].gpus), "epoch %u", (unsigned)epoch);
        fake_fail_communicator(0, GW_NCCL_REMOTE_ERROR);
        install(&view, 0);
        start(0, &view);
        await(&peers[0].dones, (unsigned)epoch);
        cr_assert_eq(peers[0].status, GW_COLLECTIVE_FAILED);
    }
    cr_assert_not(gw_gpus_ready(peers[0].gpus));
    cr_assert(gw_gpus_ready(peers[1].gpus));
    flock_close();
}

Test(gpus, a_sum_that_succeeds_forgives_those_that_failed) {
    flock_open();
    for (uint64_t epoch = 1; epoch <= 2 * GW_GPUS_FAILURES; epoch++) {
        gw_view view = view_of(epoch, 0, 3);
        fake_fail_communicator(0, epoch % 2 == 0 ? 0 : GW_NCCL_REMOTE_ERROR);
        install(&view, 0);
        for (int i = 0; i < 3; i++) start(i, &view);
        await(&peers[0].dones, (unsigned)epoch);
        for (int i = 1; i < 3; i++) gw_gpus_abort(peers[i].gpus);
        for (int i = 1; i < 3; i++) await(&peers[i].dones, (unsigned)epoch);
    }
    cr_assert(gw_gpus_ready(peers[0].gpus));
    flock_close();
}

static void fail_once(uint64_t epoch) {
    gw_view view = view_of(epoch, 0, 3);
    unsigned before = atomic_load(&peers[0].dones);
    fake_fail_communicator(0, GW_NCCL_REMOTE_ERROR);
    install(&view, 0);
    start(0, &view);
    await(&peers[0].dones, before + 1);
    cr_assert_eq(peers[0].status, GW_COLLECTIVE_FAILED);
}

static void await_ready(int index) {
    uint64_t end = gw_now_ns() + LONG_NS;
    while (!gw_gpus_ready(peers[index].gpus)) {
        cr_assert_lt(gw_now_ns(), end, "NCCL was not tried again");
        gw_loop_turn(loop, LONG_NS);
    }
}

/* NCCL pauses at the leader; the others, where it does not, wait for it in the views that follow. */
/* A view of all three, after others. */
static void sum_again(const gw_view *view) {
    unsigned before[3];
    for (int i = 0; i < 3; i++) before[i] = atomic_load(&peers[i].dones);
    for (int i = 0; i < 3; i++) start(i, view);
    for (int i = 0; i < 3; i++) await(&peers[i].dones, before[i] + 1);
    expect_sum(0, 3);
}

Test(gpus, nccl_that_was_given_up_is_tried_again) {
    retry_ns = 1000000;
    flock_open();
    for (uint64_t epoch = 1; epoch <= GW_GPUS_FAILURES; epoch++) fail_once(epoch);
    cr_assert_not(gw_gpus_ready(peers[0].gpus));
    gw_view view = view_of(GW_GPUS_FAILURES + 1, 0, 3);
    install(&view, 0);
    fake_fail_communicator(0, 0);
    await_ready(0);
    sum_again(&view);
    flock_close();
}

/* NCCL pauses at peer 0. In the next view forming fails once more there, but at none of the others. */
static void fail_a_try(int leader) {
    retry_ns = 1000000;
    flock_open();
    for (uint64_t epoch = 1; epoch <= GW_GPUS_FAILURES; epoch++) fail_once(epoch);
    gw_view view = view_of(GW_GPUS_FAILURES + 1, 0, 3);
    view.leader = id_of(leader);
    gw_view_seal(&view);
    fake_fail_communicator(0, 0);
    fake_ail_init(0, GW_NCCL_REMOTE_ERROR);
    install(&view, 0);
    await_ready(0);
    sum_again(&view);
    flock_close();
}

Test(gpus, a_leader_whose_try_failed_tries_again) {
    fail_a_try(0);
}

Test(gpus, a_member_whose_try_failed_tries_again) {
    fail_a_try(1);
}

/* The communicator on which its sums failed existed at the others as well. */
Test(gpus, nccl_that_was_given_up_is_tried_again_in_the_same_view) {
    retry_ns = 1000000;
    flock_open();
    for (uint64_t epoch = 1; epoch <= GW_GPUS_FAILURES; epoch++) fail_once(epoch);
    fake_fail_communicator(0, 0);
    await_ready(0);
    flock_close();
}

/* A member does not hear that its leader got no id. */
Test(gpus, a_try_of_which_nothing_is_heard_is_made_anew) {
    retry_ns = 1000000;
    time_scale = 1;
    flock_open();
    for (uint64_t epoch = 1; epoch <= GW_GPUS_FAILURES; epoch++) fail_once(epoch);
    gw_view view = view_of(GW_GPUS_FAILURES + 1, 0, 3);
    view.leader = id_of(1);
    gw_view_seal(&view);
    fake_fail_communicator(0, 0);
    fake_refuse_id(5);
    install(&view, 0);
    await_ready(0);
    flock_close();
}

/* After so many failures NCCL is not trusted with three more steps. */
Test(gpus, after_a_try_one_failure_is_enough) {
    retry_ns = 1000000;
    flock_open();
    for (uint64_t epoch = 1; epoch <= GW_GPUS_FAILURES; epoch++) fail_once(epoch);
    gw_view view = view_of(GW_GPUS_FAILURES + 1, 0, 3);
    install(&view, 0);
    fake_fail_communicator(0, 0);
    await_ready(0);
    fail_once(GW_GPUS_FAILURES + 2);
    cr_assert_not(gw_gpus_ready(peers[0].gpus));
    flock_close();
}

static char told[200];

static void keep_pause(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)level, (void)room;
    if (strstr(text, "is tried again in") != NULL) snprintf(told, sizeof told, "%s", text);
}

/* Peer 0 finds a sum wrong. Returns the pause that the log tells. */
static void distrust(const char *pause) {
    told[0] = '\0';
    gw_gpus_distrust(peers[0].gpus);
    while (told[0] == '\0') gw_loop_turn(loop, LONG_NS);
    cr_assert(strstr(told, pause) != NULL, "not %s: %s", pause, told);
    cr_assert_not(gw_gpus_ready(peers[0].gpus));
}

/* NCCL may report a sum as done that is not right. */
Test(gpus, nccl_that_sums_wrong_again_is_left_alone_for_longer) {
    retry_ns = 1000000000;
    gw_log_set_sink(keep_pause, NULL);
    flock_open();
    gw_view view = view_of(1, 0, 3);
    install(&view, 0);
    sum_again(&view);
    distrust("in 1 s");
    await_ready(0);
    sum_again(&view);
    distrust("in 2 s");
    gw_gpus_trust(peers[0].gpus);
    await_ready(0);
    distrust("in 1 s");
    flock_close();
}

Test(gpus, a_gpu_that_is_lost_is_told_and_not_used) {
    flock_open();
    gw_view view = view_of(1, 0, 3);
    install(&view, 0);
    fake_lose(1, 214);
    for (int i = 0; i < 3; i++) start(i, &view);
    await(&peers[1].losses, 1);
    await(&peers[1].dones, 1);
    cr_assert(strstr(peers[1].err.text, "GPU 1") != NULL, "%s", peers[1].err.text);
    cr_assert_not(gw_gpus_ready(peers[1].gpus));
    flock_close();
}
