/* The state machine over NCCL, against an NCCL that really sums, and fails where it is told to (fake.h). Time
 * is a number that the tests advance. */
#include "tests/net/nccl/fake.h"

#include "net/nccl/nccl.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define FORM_NS     UINT64_C(30000000000)
#define PROGRESS_NS UINT64_C(5000000000)
#define TICK_NS     UINT64_C(1000000)

enum { POLLS = 2000 };

/* One peer, with the GPUs first .. first + count - 1 of the machine. */
typedef struct peer {
    gw_nccl *nccl;
    uint32_t first, count;
    gw_nccl_event seen; /* the last event that was not GW_NCCL_NOTHING */
    gw_err err;
} peer;

static uint64_t now;
static uint64_t narrow_from = UINT64_MAX; /* the bytes from which peers that are opened narrow sums */

static peer peer_open(uint32_t first, uint32_t count, uint64_t bucket_bytes) {
    int gpus[FAKE_GPUS];
    for (uint32_t i = 0; i < count; i++) gpus[i] = (int)(first + i);
    gw_nccl_options options = {.nccl = fake_nccl(),
                               .cuda = fake_cuda(),
                               .gpus = gpus,
                               .gpu_count = count,
                               .bucket_bytes = bucket_bytes,
                               .form_ns = FORM_NS,
                               .progress_ns = PROGRESS_NS,
                               .narrow = fake_narrow(),
                               .narrow_bytes = narrow_from};
    gw_err err;
    peer p = {.nccl = gw_nccl_open(&options, &err), .first = first, .count = count};
    cr_assert(p.nccl != NULL, "%s", err.text);
    return p;
}

static gw_nccl_team team_of(uint32_t ranks, uint32_t first) {
    gw_nccl_team team = {.ranks = ranks, .first = first, .narrow = true};
    team.id.bytes[0] = 77;
    return team;
}

static void peer_form(peer *p, uint32_t ranks) {
    gw_nccl_team team = team_of(ranks, p->first);
    p->seen = GW_NCCL_NOTHING;
    gw_nccl_form(p->nccl, &team, now);
}

static void poll_all(peer *peers, uint32_t count) {
    now += TICK_NS;
    for (uint32_t i = 0; i < count; i++) {
        gw_err err;
        gw_nccl_event event = gw_nccl_poll(peers[i].nccl, now, &err);
        if (event == GW_NCCL_NOTHING) continue;
        peers[i].seen = event;
        if (event == GW_NCCL_ENDED || event == GW_NCCL_LOST) peers[i].err = err;
    }
}

/* Polls until every peer has seen `event`. */
static void expect_all(peer *peers, uint32_t count, gw_nccl_event event) {
    for (uint32_t i = 0; i < POLLS; i++) {
        poll_all(peers, count);
        bool all = true;
        for (uint32_t p = 0; p < count; p++) all = all && peers[p].seen == event;
        if (all) return;
    }
    cr_assert(false, "event %d did not come; the first peer saw %d", event, peers[0].seen);
}

/* Fills GPU g's share of a sum: `count` integers and `count` floats that tell g and the place. */
typedef struct share {
    int64_t *in, *out;
    float *fin, *fout;
    uint64_t count;
} share;

static share share_make(uint32_t g, uint64_t count) {
    share s = {calloc(count, 8), calloc(count, 8), calloc(count, 4), calloc(count, 4), count};
    for (uint64_t i = 0; i < count; i++) {
        s.in[i] = (int64_t)(g + 1) * 1000000 + (int64_t)i;
        s.fin[i] = (float)(g + 1) * 0.5f;
        s.out[i] = -1;
        s.fout[i] = -1;
    }
    return s;
}

static void share_free(share *s) {
    free(s->in);
    free(s->out);
    free(s->fin);
    free(s->fout);
}

static void share_check(const share *s, uint32_t ranks) {
    int64_t base = 0;
    float half = 0;
    for (uint32_t g = 0; g < ranks; g++) {
        base += (int64_t)(g + 1) * 1000000;
        half += (float)(g + 1) * 0.5f;
    }
    for (uint64_t i = 0; i < s->count; i++) {
        cr_assert_eq(s->out[i], base + (int64_t)(ranks * i), "element %llu", (unsigned long long)i);
        cr_assert_eq(s->fout[i], half);
    }
}

static void peer_sum(peer *p, share *shares) {
    gw_nccl_piece pieces[3 * FAKE_GPUS];
    for (uint32_t g = 0; g < p->count; g++) {
        share *s = &shares[p->first + g];
        pieces[3 * g] = (gw_nccl_piece){s->in, s->out, s->count, GW_SUM_I64};
        pieces[3 * g + 1] = (gw_nccl_piece){s->in, s->out, 0, GW_SUM_I64}; /* empty pieces do no harm */
        pieces[3 * g + 2] = (gw_nccl_piece){s->fin, s->fout, s->count, GW_SUM_F32};
    }
    p->seen = GW_NCCL_NOTHING;
    gw_nccl_sum(p->nccl, pieces, 3, now);
}

static void expect_tidy(void) {
    fake_counts counts = fake_count();
    cr_assert_null(counts.misuse, "%s", counts.misuse);
    cr_assert_eq(counts.comms, 0);
    cr_assert_eq(counts.contexts_held, 0);
    cr_assert_eq(counts.events, 0);
    cr_assert_eq(counts.streams, 0);
}

static void abort_and_close(peer *peers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!gw_nccl_is_idle(peers[i].nccl)) {
            peers[i].seen = GW_NCCL_NOTHING;
            gw_nccl_abort(peers[i].nccl, now);
            expect_all(&peers[i], 1, GW_NCCL_ENDED);
        }
        gw_nccl_close(peers[i].nccl);
    }
    expect_tidy();
}

/* Two peers, one with three GPUs and one with two, formed. */
static void form_two(peer peers[2], uint64_t bucket_bytes) {
    now = 1;
    fake_reset(5);
    peers[0] = peer_open(0, 3, bucket_bytes);
    peers[1] = peer_open(3, 2, bucket_bytes);
    for (int i = 0; i < 2; i++) peer_form(&peers[i], 5);
    expect_all(peers, 2, GW_NCCL_FORMED);
}

Test(nccl, sums_over_the_gpus_of_all_peers_are_exact) {
    peer peers[2];
    form_two(peers, 0);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 1000);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
    expect_all(peers, 2, GW_NCCL_SUMMED);
    for (uint32_t g = 0; g < 5; g++) share_check(&shares[g], 5);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares); /* the communicator serves again */
    expect_all(peers, 2, GW_NCCL_SUMMED);
    fake_counts counts = fake_count();
    cr_assert_eq(counts.inits, 5);
    cr_assert_eq(counts.blocking, 0);
    cr_assert_eq(counts.config_version, GW_NCCL_OLDEST);
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
    cr_assert_eq(fake_count().abort_groups, 2, "one group of aborts a peer");
}

/* Sums of two peers with five GPUs in buckets of 256 bytes, one slice of 32 integers each, of which the widest element of bucket
 * b on GPU g is wide[b] if g is the last, and which hold small ones otherwise. */
static void sum_of_widths(const int64_t *wide, uint32_t buckets, unsigned narrow_sums) {
    enum { EACH = 32, RANKS = 5 };
    peer peers[2];
    gw_nccl_piece pieces[RANKS];
    narrow_from = 8;
    form_two(peers, 256);
    for (uint32_t g = 0; g < RANKS; g++) {
        int64_t *in = calloc(buckets, 256), *out = calloc(buckets, 256);
        for (uint32_t i = 0; i < buckets * EACH; i++) in[i] = (i % 2 == 0 ? 1 : -1) * (int64_t)(g + i % 100);
        for (uint32_t b = 0; g == RANKS - 1 && b < buckets; b++) in[b * EACH + b % EACH] = wide[b];
        pieces[g] = (gw_nccl_piece){in, out, buckets * EACH, GW_SUM_I64};
    }
    for (int p = 0; p < 2; p++) {
        peers[p].seen = GW_NCCL_NOTHING;
        gw_nccl_sum(peers[p].nccl, pieces + peers[p].first, 1, now);
    }
    expect_all(peers, 2, GW_NCCL_SUMMED);
    uint64_t moved = gw_nccl_moved_bytes(peers[0].nccl) / peers[0].count;
    cr_expect_eq(fake_count().narrow_sums, narrow_sums * RANKS);
    cr_expect_eq(moved, (uint64_t)(2 * buckets - narrow_sums) * EACH * 4);
    for (uint32_t i = 0; i < buckets * EACH; i++) {
        uint64_t sum = 0;
        for (uint32_t g = 0; g < RANKS; g++) sum += (uint64_t)((const int64_t *)pieces[g].in)[i];
        for (uint32_t g = 0; g < RANKS; g++)
            cr_assert_eq(((const uint64_t *)pieces[g].out)[i], sum, "element %u", i);
    }
    abort_and_close(peers, 2);
    for (uint32_t g = 0; g < RANKS; g++) {
        free((void *)(uintptr_t)pieces[g].in);
        free(pieces[g].out);
    }
}

/* Five ranks carry three bits, so elements of 29 bits fit and those of 30 do not. */
Test(nccl, buckets_whose_sum_fits_travel_as_int32) {
    const int64_t most = (1 << 28) - 1;
    sum_of_widths((const int64_t[]){most, most + 1, -most - 1, -most - 2, INT64_MIN, INT64_MAX, 0, 7}, 8, 4);
    sum_of_widths((const int64_t[]){1, 1, 1}, 3, 3);
    sum_of_widths((const int64_t[]){INT64_MIN}, 1, 0);
}

Test(nccl, integers_and_floats_of_one_bucket_are_summed_each_in_its_type) {
    peer peers[2];
    share shares[5];
    narrow_from = 8;
    form_two(peers, 500);
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 301);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
    expect_all(peers, 2, GW_NCCL_SUMMED);
    for (uint32_t g = 0; g < 5; g++) share_check(&shares[g], 5);
    cr_expect_gt(fake_count().narrow_sums, 0);
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
}

Test(nccl, a_sum_can_be_aborted_at_each_of_its_stages) {
    peer peers[2];
    share shares[5];
    narrow_from = 8;
    for (uint32_t polls = 0, summed = 0; !summed; polls++) {
        form_two(peers, 1000);
        for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 700);
        for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
        for (uint32_t i = 0; i < polls; i++) poll_all(peers, 2);
        summed = peers[0].seen == GW_NCCL_SUMMED;
        abort_and_close(peers, 2);
        for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    }
}

/* On a slow network the deadline counts for each part. */
Test(nccl, a_part_is_no_larger_than_a_slow_network_moves_in_time) {
    fake_reset(1);
    peer p = peer_open(0, 1, 0);
    peer_form(&p, 1);
    expect_all(&p, 1, GW_NCCL_FORMED);
    share s = share_make(0, (80 << 20) / 8);
    peer_sum(&p, &s);
    expect_all(&p, 1, GW_NCCL_SUMMED);
    cr_assert_leq(fake_count().largest_bytes, (uint64_t)64 << 20);
    share_free(&s);
    abort_and_close(&p, 1);
}

Test(nccl, large_sums_go_in_buckets_that_no_group_exceeds) {
    peer peers[2];
    form_two(peers, 1024);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 1777);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
    expect_all(peers, 2, GW_NCCL_SUMMED);
    for (uint32_t g = 0; g < 5; g++) share_check(&shares[g], 5);
    fake_counts counts = fake_count();
    cr_assert_leq(counts.largest_bytes, 1024);
    cr_assert_geq(counts.groups, 2 * (1777 * 12 / 1024));
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
}

/* A peer that is killed while communicators form leaves the others in progress for ever. */
Test(nccl, forming_that_hangs_ends_by_its_deadline) {
    now = 1;
    fake_reset(2);
    peer one = peer_open(0, 1, 0);
    peer_form(&one, 2);
    uint64_t began = now;
    while (one.seen == GW_NCCL_NOTHING) {
        now += 200 * TICK_NS - TICK_NS;
        poll_all(&one, 1);
        cr_assert_leq(now - began, 2 * FORM_NS);
    }
    cr_assert_eq(one.seen, GW_NCCL_ENDED);
    cr_assert_eq(one.err.code, GW_E_TIMEOUT, "%s", one.err.text);
    cr_assert_geq(now - began, FORM_NS);
    peer other = peer_open(1, 1, 0); /* a new id, a new try */
    peer_form(&one, 2);
    peer_form(&other, 2);
    peer both[2] = {one, other};
    expect_all(both, 2, GW_NCCL_FORMED);
    abort_and_close(both, 2);
}

Test(nccl, forming_is_aborted_as_a_group) {
    now = 1;
    fake_reset(4);
    peer one = peer_open(0, 3, 0);
    peer_form(&one, 4);
    poll_all(&one, 1);
    cr_assert_eq(one.seen, GW_NCCL_NOTHING);
    gw_nccl_abort(one.nccl, now);
    expect_all(&one, 1, GW_NCCL_ENDED);
    cr_assert_eq(one.err.code, GW_E_ABORTED);
    fake_counts counts = fake_count();
    cr_assert_eq(counts.aborts, 3);
    cr_assert_eq(counts.abort_groups, 1);
    gw_nccl_close(one.nccl);
    expect_tidy();
}

Test(nccl, an_error_while_forming_ends_all_gpus_of_the_peer) {
    now = 1;
    fake_reset(3);
    peer one = peer_open(0, 2, 0);
    peer_form(&one, 3);
    fake_fail_communicator(1, GW_NCCL_REMOTE_ERROR);
    expect_all(&one, 1, GW_NCCL_ENDED);
    cr_assert_eq(one.err.code, GW_E_PEER);
    cr_assert(strstr(one.err.text, "GPU 1") && strstr(one.err.text, "remote process exited"), "%s",
              one.err.text);
    cr_assert_eq(fake_count().aborts, 2);
    gw_nccl_close(one.nccl);
    expect_tidy();
}

Test(nccl, a_communicator_that_cannot_be_begun_leaves_nothing) {
    now = 1;
    fake_reset(3);
    peer one = peer_open(0, 3, 0);
    fake_refuse_init(1, 2);
    peer_form(&one, 3);
    expect_all(&one, 1, GW_NCCL_ENDED);
    cr_assert(strstr(one.err.text, "GPU 1: ncclCommInitRankConfig") != NULL, "%s", one.err.text);
    cr_assert_eq(fake_count().aborts, 1, "GPU 0's had begun");
    peer_form(&one, 3);
    expect_all(&one, 1, GW_NCCL_FORMED);
    abort_and_close(&one, 1);
}

/* The other peer is dead: its GPUs never launch, and NCCL on this side sees the connection break. */
Test(nccl, a_peer_that_dies_in_a_sum_is_an_error_and_the_memory_is_quiet) {
    peer peers[2];
    form_two(peers, 4096);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 3000);
    peer_sum(&peers[0], shares);
    for (int i = 0; i < 50; i++) poll_all(peers, 1);
    cr_assert_eq(peers[0].seen, GW_NCCL_NOTHING);
    fake_jam(1, true); /* a kernel takes its time to leave */
    fake_fail_communicator(2, GW_NCCL_REMOTE_ERROR);
    for (int i = 0; i < 50; i++) poll_all(peers, 1);
    cr_assert_eq(peers[0].seen, GW_NCCL_NOTHING, "its memory is still being used");
    cr_assert_eq(fake_count().abort_groups, 1);
    gw_nccl_abort(peers[0].nccl, now); /* ending already: one abort is enough */
    cr_assert_eq(fake_count().abort_groups, 1);
    fake_jam(1, false);
    expect_all(peers, 1, GW_NCCL_ENDED);
    cr_assert_eq(peers[0].err.code, GW_E_PEER, "%s", peers[0].err.text);
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
}

Test(nccl, a_sum_can_be_aborted_and_another_team_formed) {
    peer peers[2];
    form_two(peers, 4096);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 3000);
    peer_sum(&peers[0], shares); /* peer 1 does not enter */
    for (int i = 0; i < 20; i++) poll_all(peers, 1);
    for (int i = 0; i < 2; i++) {
        peers[i].seen = GW_NCCL_NOTHING;
        gw_nccl_abort(peers[i].nccl, now);
    }
    expect_all(peers, 2, GW_NCCL_ENDED);
    cr_assert_eq(peers[0].err.code, GW_E_ABORTED);
    for (int i = 0; i < 2; i++) peer_form(&peers[i], 5);
    expect_all(peers, 2, GW_NCCL_FORMED);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
    expect_all(peers, 2, GW_NCCL_SUMMED);
    for (uint32_t g = 0; g < 5; g++) share_check(&shares[g], 5);
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
}

Test(nccl, a_sum_that_cannot_be_begun_ends_and_leaves_its_group) {
    peer peers[2];
    form_two(peers, 0);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 10);
    fake_refuse_sum(1, 3);
    peer_sum(&peers[0], shares);
    expect_all(peers, 1, GW_NCCL_ENDED);
    cr_assert(strstr(peers[0].err.text, "GPU 1: ncclAllReduce") != NULL, "%s", peers[0].err.text);
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
}

static void pass(peer *peers, uint32_t count, uint64_t ns) {
    for (uint64_t waited = 0; waited < ns; waited += 100 * TICK_NS) {
        now += 99 * TICK_NS;
        poll_all(peers, count);
    }
}

/* One part of a sum ends at a time, each just in time; together they take several times the deadline. The
 * last ones have all been handed to the GPU by then. */
Test(nccl, the_deadline_of_a_sum_counts_from_its_last_progress) {
    peer peers[2];
    form_two(peers, 1024);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 1000);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares); /* the first sum, which may take longer */
    expect_all(peers, 2, GW_NCCL_SUMMED);
    fake_ration(0);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
    for (int part = 0; part < 14 && peers[0].seen == GW_NCCL_NOTHING; part++) {
        pass(peers, 2, PROGRESS_NS * 8 / 10);
        fake_ration(2); /* a bucket may hold the end of one piece and the beginning of the next */
        pass(peers, 2, 100 * TICK_NS);
    }
    expect_all(peers, 2, GW_NCCL_SUMMED);
    for (uint32_t g = 0; g < 5; g++) share_check(&shares[g], 5);
    fake_ration(0);
    peer_sum(&peers[0], shares);
    pass(peers, 1, PROGRESS_NS * 8 / 10);
    cr_assert_eq(peers[0].seen, GW_NCCL_NOTHING, "%s", peers[0].err.text);
    pass(peers, 1, PROGRESS_NS * 5 / 10);
    cr_assert_eq(peers[0].seen, GW_NCCL_ENDED);
    cr_assert_eq(peers[0].err.code, GW_E_TIMEOUT, "%s", peers[0].err.text);
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
}

/* NCCL connects the ranks during the first sum, which may take as long as forming, once. */
Test(nccl, the_first_sum_of_a_communicator_may_take_as_long_as_forming) {
    peer peers[2];
    form_two(peers, 1024);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 1000);
    for (int again = 0; again < 2; again++) {
        fake_ration(0);
        for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
        pass(peers, 2, FORM_NS * 9 / 10);
        for (int i = 0; i < 2; i++) cr_assert_eq(peers[i].seen, GW_NCCL_NOTHING, "%s", peers[i].err.text);
        fake_ration(2); /* one part ends: from here on the rest must move */
        pass(peers, 2, PROGRESS_NS * 8 / 10);
        for (int i = 0; i < 2; i++) cr_assert_eq(peers[i].seen, GW_NCCL_NOTHING, "%s", peers[i].err.text);
        pass(peers, 2, PROGRESS_NS * 5 / 10);
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(peers[i].seen, GW_NCCL_ENDED);
            cr_assert(strstr(peers[i].err.text, "no progress in a sum for 5000 ms"), "%s", peers[i].err.text);
            peer_form(&peers[i], 5); /* a new communicator connects anew */
        }
        expect_all(peers, 2, GW_NCCL_FORMED);
    }
    fake_ration(0);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
    pass(peers, 2, FORM_NS + PROGRESS_NS);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(peers[i].seen, GW_NCCL_ENDED);
        cr_assert(strstr(peers[i].err.text, "first sum for 30000 ms"), "%s", peers[i].err.text);
    }
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
}

/* SIGSTOP, a debugger or a starved machine: time passes for all peers, and none has hung. */
Test(nccl, time_in_which_the_process_did_not_run_blames_nobody) {
    peer peers[2];
    form_two(peers, 0);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 100);
    peer_sum(&peers[0], shares);
    poll_all(peers, 1);
    now += 100 * PROGRESS_NS;
    poll_all(peers, 1);
    cr_assert_eq(peers[0].seen, GW_NCCL_NOTHING);
    peer_sum(&peers[1], shares);
    expect_all(peers, 2, GW_NCCL_SUMMED);
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    abort_and_close(peers, 2);
}

Test(nccl, a_gpu_that_does_not_let_go_is_lost_and_named) {
    peer peers[2];
    form_two(peers, 0);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 100);
    peer_sum(&peers[0], shares);
    for (int i = 0; i < 10; i++) poll_all(peers, 1);
    fake_jam(2, true);
    gw_nccl_abort(peers[0].nccl, now);
    for (uint64_t waited = 0; waited < 2 * PROGRESS_NS && peers[0].seen == GW_NCCL_NOTHING;
         waited += 100 * TICK_NS) {
        now += 99 * TICK_NS;
        poll_all(peers, 1);
    }
    cr_assert_eq(peers[0].seen, GW_NCCL_LOST);
    cr_assert(strstr(peers[0].err.text, "GPU 2") != NULL, "%s", peers[0].err.text);
    unsigned held = fake_count().contexts_held;
    gw_nccl_close(peers[0].nccl);
    cr_assert_eq(fake_count().contexts_held, held, "a lost GPU is not touched");
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    gw_nccl_abort(peers[1].nccl, now);
    expect_all(&peers[1], 1, GW_NCCL_ENDED);
    gw_nccl_close(peers[1].nccl);
}

Test(nccl, a_broken_gpu_is_lost_and_the_error_is_the_drivers) {
    peer peers[2];
    form_two(peers, 0);
    share shares[5];
    for (uint32_t g = 0; g < 5; g++) shares[g] = share_make(g, 100);
    for (int i = 0; i < 2; i++) peer_sum(&peers[i], shares);
    fake_lose(1, 214);
    expect_all(peers, 1, GW_NCCL_LOST);
    cr_assert(strstr(peers[0].err.text, "GPU 1: after NCCL has aborted") && strstr(peers[0].err.text, "ECC"),
              "%s", peers[0].err.text);
    cr_assert(strstr(peers[0].err.text, "it began with: GPU 1: "), "%s", peers[0].err.text);
    cr_assert_eq(fake_count().abort_groups, 1);
    for (uint32_t g = 0; g < 5; g++) share_free(&shares[g]);
    gw_nccl_close(peers[0].nccl);
    gw_nccl_abort(peers[1].nccl, now);
    expect_all(&peers[1], 1, GW_NCCL_ENDED);
    gw_nccl_close(peers[1].nccl);
}

Test(nccl, gpus_that_are_not_there_are_an_error_that_leaves_nothing) {
    now = 1;
    fake_reset(1);
    const int gpus[2] = {0, 1};
    gw_nccl_options options = {.nccl = fake_nccl(),
                               .cuda = fake_cuda(),
                               .gpus = gpus,
                               .gpu_count = 2,
                               .form_ns = FORM_NS,
                               .progress_ns = PROGRESS_NS};
    gw_err err;
    cr_assert_null(gw_nccl_open(&options, &err));
    cr_assert(strstr(err.text, "GPU 1") != NULL, "%s", err.text);
    expect_tidy();
}

Test(nccl, an_id_that_cannot_be_made_is_an_error) {
    fake_reset(1);
    gw_nccl_id one, other;
    gw_err err;
    cr_assert(gw_nccl_make_id(fake_nccl(), &one, &err));
    fake_refuse_id(2);
    cr_assert(!gw_nccl_make_id(fake_nccl(), &other, &err));
    cr_assert(strstr(err.text, "ncclGetUniqueId") != NULL, "%s", err.text);
    cr_assert(gw_nccl_make_id(fake_nccl(), &other, &err));
    cr_assert_neq(memcmp(&one, &other, sizeof one), 0);
}
