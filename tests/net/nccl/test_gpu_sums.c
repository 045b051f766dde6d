/* The thread that drives NCCL, against the NCCL of fake.h: which events it sends, and in which order. */
#include "core/os/clock.h"
#include "tests/net/nccl/fake.h"

#include "net/nccl/gpu_sums.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define PATIENCE_NS UINT64_C(20000000000)

enum { COUNT = 1000 };

/* One peer with one GPU, and the events of its thread. */
typedef struct peer {
    gw_gpu_sums *sums;
    int gpu;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned ids, forms, failures, losses, dones;
    gw_fence formed;
    gw_nccl_id id;
    gw_collective_status status;
    uint64_t token, sent_bytes;
    gw_err err;
    int64_t in[COUNT], out[COUNT];
} peer;

static gw_fence fence_of(uint64_t epoch) {
    gw_fence fence = {.epoch = epoch};
    fence.view.bytes[0] = (uint8_t)(epoch + 1);
    return fence;
}

static void say(peer *p, unsigned *count) {
    (*count)++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_id(void *context, const gw_nccl_id *id) {
    peer *p = context;
    pthread_mutex_lock(&p->lock);
    p->id = *id;
    say(p, &p->ids);
}

static void on_formed(void *context, const gw_fence *fence) {
    peer *p = context;
    pthread_mutex_lock(&p->lock);
    p->formed = *fence;
    say(p, &p->forms);
}

static void on_failed(void *context, const gw_fence *fence, const gw_err *why) {
    peer *p = context;
    (void)fence;
    pthread_mutex_lock(&p->lock);
    p->err = *why;
    say(p, &p->failures);
}

static void on_lost(void *context, const gw_err *why) {
    peer *p = context;
    pthread_mutex_lock(&p->lock);
    p->err = *why;
    say(p, &p->losses);
}

static void on_done(void *context, const gw_collective_result *result) {
    peer *p = context;
    pthread_mutex_lock(&p->lock);
    p->status = result->status;
    p->token = result->token;
    p->sent_bytes = result->sent_bytes;
    if (result->err != NULL) p->err = *result->err;
    say(p, &p->dones);
}

static void await(peer *p, const unsigned *count, unsigned wanted) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&p->lock);
    int late = 0;
    while (*count < wanted && late == 0) late = pthread_cond_timedwait(&p->changed, &p->lock, &until);
    pthread_mutex_unlock(&p->lock);
    cr_assert_eq(late, 0, "what was waited for did not happen");
}

static void peer_open(peer *p, int gpu, uint64_t form_ns, uint64_t progress_ns) {
    *p = (peer){.gpu = gpu};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    gw_nccl_options options = {.nccl = fake_nccl(),
                               .cuda = fake_cuda(),
                               .gpus = &gpu,
                               .gpu_count = 1,
                               .form_ns = form_ns,
                               .progress_ns = progress_ns};
    gw_gpu_sums_events events = {p, on_id, on_formed, on_failed, on_lost, on_done};
    gw_err err;
    p->sums = gw_gpu_sums_open(&options, &events, &err);
    cr_assert(p->sums != NULL, "%s", err.text);
    for (int i = 0; i < COUNT; i++) p->in[i] = (gpu + 1) * 1000 + i;
}

static void peer_close(peer *p) {
    cr_assert(gw_gpu_sums_close(p->sums, PATIENCE_NS));
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

static void peer_form(peer *p, uint64_t epoch, uint32_t ranks) {
    gw_nccl_team team = {.ranks = ranks, .first = (uint32_t)p->gpu};
    team.id.bytes[0] = (char)epoch;
    gw_fence fence = fence_of(epoch);
    gw_gpu_sums_form(p->sums, &fence, &team);
}

static void peer_start(peer *p, uint64_t epoch, uint64_t token) {
    gw_nccl_piece piece = {p->in, p->out, COUNT, GW_SUM_I64};
    gw_gpu_call call = {.fence = fence_of(epoch), .pieces = &piece, .piece_count = 1, .token = token};
    gw_gpu_sums_start(p->sums, &call);
}

static void expect_tidy(void) {
    fake_counts counts = fake_count();
    cr_assert_null(counts.misuse, "%s", counts.misuse);
    cr_assert_eq(counts.comms, 0);
    cr_assert_eq(counts.events, 0);
    cr_assert_eq(counts.contexts_held, 0);
}

Test(gpu_sums, peers_sum_and_a_call_waits_for_its_communicator) {
    peer peers[3];
    fake_reset(3);
    for (int i = 0; i < 3; i++) peer_open(&peers[i], i, PATIENCE_NS, PATIENCE_NS);
    for (int i = 0; i < 3; i++) peer_start(&peers[i], 7, 40); /* before there is an id */
    for (int i = 0; i < 3; i++) peer_form(&peers[i], 7, 3);
    for (int i = 0; i < 3; i++) await(&peers[i], &peers[i].dones, 1);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(peers[i].status, GW_COLLECTIVE_OK, "%s", peers[i].err.text);
        cr_assert_eq(peers[i].token, 40);
        cr_assert_eq(peers[i].forms, 1);
        cr_assert_eq(peers[i].formed.epoch, 7);
        cr_assert_eq(peers[i].sent_bytes, COUNT * 8 / 3 * 4);
        for (int k = 0; k < COUNT; k++) cr_assert_eq(peers[i].out[k], 6000 + 3 * k);
    }
    for (int i = 0; i < 3; i++) peer_close(&peers[i]);
    expect_tidy();
}

Test(gpu_sums, an_id_is_made_or_the_view_that_asked_fails) {
    peer p;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, PATIENCE_NS);
    gw_fence fence = fence_of(3);
    gw_gpu_sums_make_id(p.sums, &fence);
    await(&p, &p.ids, 1);
    cr_assert_neq(p.id.bytes[0], 0);
    fake_refuse_id(2);
    fence = fence_of(4);
    peer_start(&p, 4, 9); /* fails for the same reason as the id */
    gw_gpu_sums_make_id(p.sums, &fence);
    await(&p, &p.failures, 1);
    await(&p, &p.dones, 1);
    cr_assert_eq(p.status, GW_COLLECTIVE_FAILED);
    cr_assert(strstr(p.err.text, "ncclGetUniqueId") != NULL, "%s", p.err.text);
    peer_close(&p);
    expect_tidy();
}

/* The view changes while the communicator forms, because a member died: a new one forms without it. */
Test(gpu_sums, forming_with_a_dead_peer_is_aborted_and_the_next_view_sums) {
    peer peers[2];
    fake_reset(3);
    for (int i = 0; i < 2; i++) peer_open(&peers[i], i, PATIENCE_NS, PATIENCE_NS);
    for (int i = 0; i < 2; i++) peer_form(&peers[i], 1, 3); /* the third never comes */
    fake_await_inits(2);
    peer_start(&peers[0], 1, 5);
    for (int i = 0; i < 2; i++) gw_gpu_sums_abort(peers[i].sums);
    await(&peers[0], &peers[0].dones, 1);
    cr_assert_eq(peers[0].status, GW_COLLECTIVE_ABORTED);
    for (int i = 0; i < 2; i++) peer_form(&peers[i], 2, 2);
    for (int i = 0; i < 2; i++) peer_start(&peers[i], 2, 6);
    await(&peers[0], &peers[0].dones, 2);
    await(&peers[1], &peers[1].dones, 1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(peers[i].status, GW_COLLECTIVE_OK, "%s", peers[i].err.text);
        for (int k = 0; k < COUNT; k++) cr_assert_eq(peers[i].out[k], 3000 + 2 * k);
    }
    for (int i = 0; i < 2; i++) peer_close(&peers[i]);
    expect_tidy();
}

Test(gpu_sums, an_abort_ends_a_sum_that_waits_for_others) {
    peer peers[2];
    fake_reset(2);
    for (int i = 0; i < 2; i++) peer_open(&peers[i], i, PATIENCE_NS, PATIENCE_NS);
    for (int i = 0; i < 2; i++) peer_form(&peers[i], 1, 2);
    peer_start(&peers[0], 1, 5);
    gw_gpu_sums_abort(peers[0].sums);
    await(&peers[0], &peers[0].dones, 1);
    cr_assert_eq(peers[0].status, GW_COLLECTIVE_ABORTED);
    for (int i = 0; i < 2; i++) peer_close(&peers[i]);
    expect_tidy();
}

/* Waits until the thread has taken the call, which waits for an id. */
Test(gpu_sums, an_abort_ends_a_call_that_waits_for_its_communicator) {
    peer p;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, PATIENCE_NS);
    peer_start(&p, 1, 5);
    gw_fence fence = fence_of(1);
    gw_gpu_sums_make_id(p.sums, &fence);
    await(&p, &p.ids, 1);
    gw_gpu_sums_abort(p.sums);
    await(&p, &p.dones, 1);
    cr_assert_eq(p.status, GW_COLLECTIVE_ABORTED, "%s", p.err.text);
    peer_close(&p);
    expect_tidy();
}

/* The second view's communicator waits for the end of the first's, and is no longer needed when that
 * comes. */
Test(gpu_sums, an_abort_drops_a_communicator_that_has_not_begun) {
    peer p;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, PATIENCE_NS);
    fake_ration(0);
    fake_jam(0, true);
    peer_form(&p, 1, 1);
    peer_start(&p, 1, 5);
    fake_await_sums(1);
    peer_form(&p, 2, 1);
    fake_await_aborts(1);
    gw_gpu_sums_abort(p.sums);
    fake_jam(0, false);
    await(&p, &p.dones, 1);
    cr_assert_eq(p.status, GW_COLLECTIVE_ABORTED);
    gw_fence fence = fence_of(3); /* answered in a turn in which the second view's would have begun */
    gw_gpu_sums_make_id(p.sums, &fence);
    await(&p, &p.ids, 1);
    fake_ration(1);
    peer_form(&p, 3, 1);
    peer_start(&p, 3, 6);
    await(&p, &p.dones, 2);
    cr_assert_eq(p.status, GW_COLLECTIVE_OK, "%s", p.err.text);
    cr_assert_eq(fake_count().inits, 2);
    cr_assert_eq(gw_gpu_sums_cut(p.sums).sums, 1);
    cr_assert_eq(gw_gpu_sums_cut(p.sums).communicators, 0);
    peer_close(&p);
    expect_tidy();
}

/* An abort of what was before does not affect a call that is started after it. */
Test(gpu_sums, an_abort_does_not_touch_what_comes_after_it) {
    peer p;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, PATIENCE_NS);
    for (uint64_t epoch = 1; epoch <= 50; epoch++) {
        gw_gpu_sums_abort(p.sums);
        peer_form(&p, epoch, 1);
        peer_start(&p, epoch, epoch);
        await(&p, &p.dones, (unsigned)epoch);
        cr_assert_eq(p.status, GW_COLLECTIVE_OK, "epoch %u", (unsigned)epoch);
        cr_assert_eq(p.token, epoch);
    }
    peer_close(&p);
    expect_tidy();
}

Test(gpu_sums, a_call_of_another_view_is_fenced) {
    peer p;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, PATIENCE_NS);
    peer_form(&p, 8, 1);
    peer_start(&p, 8, 1);
    await(&p, &p.dones, 1);
    peer_start(&p, 7, 2);
    await(&p, &p.dones, 2);
    cr_assert_eq(p.status, GW_COLLECTIVE_FAILED);
    cr_assert_eq(p.err.code, GW_E_FENCED, "%s", p.err.text);
    peer_start(&p, 8, 3); /* the communicator of the view is still good */
    await(&p, &p.dones, 3);
    cr_assert_eq(p.status, GW_COLLECTIVE_OK);
    peer_close(&p);
    expect_tidy();
}

Test(gpu_sums, a_call_whose_id_never_comes_fails_by_its_deadline) {
    peer p;
    fake_reset(1);
    peer_open(&p, 0, 1000000, PATIENCE_NS);
    peer_start(&p, 2, 1);
    await(&p, &p.dones, 1);
    cr_assert_eq(p.status, GW_COLLECTIVE_FAILED);
    cr_assert_eq(p.err.code, GW_E_TIMEOUT, "%s", p.err.text);
    peer_close(&p);
    expect_tidy();
}

/* A communicator that takes too long is not blamed on the leader: the call has waited for longer than the
 * communicator has been forming. On a busy machine both end at once, or the id comes too late; then the test
 * repeats. */
Test(gpu_sums, an_id_that_came_is_not_called_missing) {
    peer p;
    bool told = false;
    fake_reset(1);
    fake_hold(true);
    peer_open(&p, 0, 100000000, PATIENCE_NS);
    for (unsigned epoch = 1; epoch <= 50 && !told; epoch++) {
        gw_fence fence = fence_of(epoch);
        peer_start(&p, epoch, epoch);
        uint64_t end = gw_now_ns() + 20000000;
        gw_gpu_sums_make_id(p.sums, &fence);
        await(&p, &p.ids, epoch);
        while (gw_now_ns() < end) {
        }
        peer_form(&p, epoch, 1);
        await(&p, &p.dones, epoch);
        pthread_mutex_lock(&p.lock);
        told = p.err.code == GW_E_TIMEOUT && strstr(p.err.text, "still forms") != NULL;
        pthread_mutex_unlock(&p.lock);
        gw_gpu_sums_abort(p.sums);
    }
    cr_assert(told, "%s", p.err.text);
    peer_close(&p);
    expect_tidy();
}

Test(gpu_sums, a_sum_that_breaks_fails_and_so_do_later_ones_of_the_view) {
    peer peers[2];
    fake_reset(2);
    for (int i = 0; i < 2; i++) peer_open(&peers[i], i, PATIENCE_NS, PATIENCE_NS);
    for (int i = 0; i < 2; i++) peer_form(&peers[i], 1, 2);
    peer_start(&peers[0], 1, 5);
    fake_fail_communicator(0, GW_NCCL_REMOTE_ERROR);
    await(&peers[0], &peers[0].dones, 1);
    cr_assert_eq(peers[0].status, GW_COLLECTIVE_FAILED);
    cr_assert_eq(peers[0].err.code, GW_E_PEER);
    peer_start(&peers[0], 1, 6);
    await(&peers[0], &peers[0].dones, 2);
    cr_assert_eq(peers[0].status, GW_COLLECTIVE_FAILED);
    for (int i = 0; i < 2; i++) peer_close(&peers[i]);
    expect_tidy();
}

/* One communicator is ended on purpose, one reports itself that it cannot form. */
Test(gpu_sums, communicators_that_end_while_they_form_are_counted) {
    peer p;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, PATIENCE_NS);
    fake_hold(true);
    peer_form(&p, 1, 1);
    fake_await_inits(1);
    gw_gpu_sums_abort(p.sums);
    fake_await_aborts(1);
    fake_hold(false);
    fake_ail_init(0, GW_NCCL_REMOTE_ERROR);
    peer_form(&p, 2, 1);
    peer_start(&p, 2, 1);
    await(&p, &p.dones, 1);
    cr_assert_eq(gw_gpu_sums_cut(p.sums).communicators, 2);
    cr_assert_eq(gw_gpu_sums_cut(p.sums).sums, 0);
    peer_close(&p);
    expect_tidy();
}

/* Each id may have left a thread and a socket, unless its communicator was formed. */
Test(gpu_sums, ids_that_were_made_in_vain_are_limited) {
    enum { FORMED = 3 };
    peer p;
    gw_fence fence;
    unsigned made = 0;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, PATIENCE_NS);
    for (uint64_t epoch = 1; epoch <= FORMED; epoch++) {
        fence = fence_of(epoch);
        gw_gpu_sums_make_id(p.sums, &fence);
        await(&p, &p.ids, ++made);
        const gw_nccl_team team = {.id = p.id, .ranks = 1};
        gw_gpu_sums_form(p.sums, &fence, &team);
        await(&p, &p.forms, made);
    }
    for (unsigned i = 0; i < GW_GPU_SUMS_ORPHANS; i++) {
        gw_gpu_sums_make_id(p.sums, &fence);
        await(&p, &p.ids, ++made);
    }
    fence = fence_of(FORMED + 1);
    gw_gpu_sums_make_id(p.sums, &fence);
    await(&p, &p.failures, 1);
    cr_assert_eq(p.ids, made);
    cr_assert_not_null(strstr(p.err.text, "started again"), "%s", p.err.text);
    peer_start(&p, FORMED + 1, 1);
    await(&p, &p.dones, 1);
    cr_assert_eq(p.status, GW_COLLECTIVE_FAILED, "and sums go another way");
    peer_close(&p);
    expect_tidy();
}

Test(gpu_sums, a_lost_gpu_is_told_once_and_sums_fail) {
    static peer peers[2]; /* one peer is not freed */
    fake_reset(2);
    for (int i = 0; i < 2; i++) peer_open(&peers[i], i, PATIENCE_NS, 1000000);
    for (int i = 0; i < 2; i++) peer_form(&peers[i], 1, 2);
    fake_lose(0, 214);
    for (int i = 0; i < 2; i++) peer_start(&peers[i], 1, 5);
    await(&peers[0], &peers[0].losses, 1);
    await(&peers[0], &peers[0].dones, 1);
    cr_assert_eq(peers[0].status, GW_COLLECTIVE_FAILED);
    peer_form(&peers[0], 2, 1);
    peer_start(&peers[0], 2, 6);
    await(&peers[0], &peers[0].dones, 2);
    cr_assert_eq(peers[0].status, GW_COLLECTIVE_FAILED);
    cr_assert(strstr(peers[0].err.text, "ECC") != NULL, "%s", peers[0].err.text);
    cr_assert_eq(peers[0].losses, 1);
    cr_assert(!gw_gpu_sums_close(peers[0].sums, PATIENCE_NS));
    peer_close(&peers[1]);
}

/* A thread that frees the GPU's memory next would wait for the stream. */
Test(gpu_sums, a_gpu_that_does_not_let_go_is_left_as_it_is) {
    static peer p;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, 1000000);
    peer_form(&p, 1, 1);
    fake_jam(0, true);
    peer_start(&p, 1, 5);
    fake_await_sums(1);
    gw_gpu_sums_abort(p.sums);
    await(&p, &p.losses, 1);
    await(&p, &p.dones, 1);
    cr_assert(strstr(p.err.text, "does not end") != NULL, "%s", p.err.text);
    cr_assert(!gw_gpu_sums_close(p.sums, PATIENCE_NS));
}

/* NCCL's abort itself does not return: no thread may wait for it for ever. */
Test(gpu_sums, closing_gives_up_when_nccl_does_not_return) {
    peer p;
    fake_reset(1);
    peer_open(&p, 0, PATIENCE_NS, PATIENCE_NS);
    peer_form(&p, 1, 2);
    fake_await_inits(1);
    fake_block_aborts(true);
    gw_gpu_sums_abort(p.sums);
    fake_await_blocked();
    cr_assert(!gw_gpu_sums_close(p.sums, 1000000));
    cr_assert_gt(gw_gpu_sums_inside_since(p.sums), 0);
    fake_block_aborts(false);
    peer_close(&p);
    cr_assert_null(fake_count().misuse);
}
