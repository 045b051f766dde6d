/* Peers that run something else, or data cannot travel to: who is turned away, and what it is told. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 100000 };

static const char other_job[] = "job=test\nlr=0.2\n";

static void expect_denied(const flock *f, uint32_t i, const char *part) {
    cr_assert(f->peers[i].finished, "peer %u", i);
    cr_assert_eq(f->peers[i].finish, GW_FINISH_DENIED, "peer %u: %s", i, f->peers[i].finish_text);
    cr_assert(strstr(f->peers[i].finish_text, part) != NULL, "'%s' does not say '%s'",
              f->peers[i].finish_text, part);
}

/* Three are started, the last one after the others run; all but that one end well. */
static void late_stranger(void (*change)(gw_peer_config *c), const char *part, const char *said) {
    flock f;
    flock_open(&f, 3, 2, 60, GW_QUORUM_ANY);
    change(&f.peers[2].config);
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_start(&f, 2);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_denied(&f, 2, part);
    cr_assert_eq(flock_finished(&f, GW_FINISH_DONE), 2);
    cr_assert_gt(flock_said(&f, 0, said) + flock_said(&f, 1, said), 0, "%s", f.peers[0].said);
    flock_close(&f);
}

static void run_another_job(gw_peer_config *c) {
    c->identity = other_job;
}

static void have_another_probe(gw_peer_config *c) {
    c->probe = 0xABC;
}

Test(peer_strangers, another_job_is_named_by_the_first_line_that_differs) {
    late_stranger(run_another_job, "theirs: lr=0.1, here: lr=0.2", "not admitted");
    late_stranger(run_another_job, "another --cluster", "not admitted");
}

Test(peer_strangers, other_bits_of_the_probe_are_named) {
    late_stranger(have_another_probe, "here (0000000000000abc)", "different hardware or libraries");
}

/* ---- ways that data travel ---- */

Test(peer_strangers, peers_without_a_way_in_common_part_and_others_do_not) {
    static const struct {
        uint32_t first, second;
        const char *part; /* of what the second is told; NULL: they work together */
    } cases[] = {
        {GW_WAY_TCP, GW_WAY_SHM, "theirs: --transport tcp, here: --transport shm"},
        {GW_WAY_TCP, GW_WAY_SHM, "one way in common"},
        {GW_WAY_RDMA, GW_WAY_TCP, "theirs: --transport rdma, here: --transport tcp"},
        {1 << 9, GW_WAY_TCP, "theirs: --transport another, here: --transport tcp"},
        {GW_WAY_TCP | GW_WAY_SHM, GW_WAY_SHM, NULL},
        {0, GW_WAY_RDMA, NULL},
        {GW_WAY_RDMA, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flock f;
        flock_open(&f, 2, 1, 60, GW_QUORUM_ANY);
        f.peers[0].config.ways = cases[i].first;
        f.peers[1].config.ways = cases[i].second;
        flock_start(&f, 0);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        flock_start(&f, 1);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        cr_assert_eq(f.peers[0].finish, GW_FINISH_DONE, "line %zu: %s", i, f.peers[0].finish_text);
        if (cases[i].part != NULL)
            expect_denied(&f, 1, cases[i].part);
        else
            cr_assert_eq(f.peers[1].finish, GW_FINISH_DONE, "line %zu: %s", i, f.peers[1].finish_text);
        flock_close(&f);
    }
}

/* ---- before anybody runs ---- */

static uint32_t expected_denied; /* for the condition below */

static bool are_denied(const flock *f) {
    return flock_finished(f, GW_FINISH_DENIED) == expected_denied;
}

/* Four wait for four, and the last ones run the other job: some are turned away, and the others go on
 * waiting. */
static void found_with_strangers(uint32_t strangers, bool apart, uint32_t first_denied, uint32_t denied) {
    flock f;
    flock_open(&f, 4, strangers == 2 ? 3 : 4, 40, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 4; i++) {
        gw_peer_config *c = &f.peers[i].config;
        if (apart) c->ways = i >= 4 - strangers ? GW_WAY_SHM : GW_WAY_TCP;
        if (!apart && i >= 4 - strangers) c->identity = other_job;
    }
    flock_start_all(&f);
    expected_denied = denied;
    cr_assert(flock_run(&f, are_denied, MOST_EVENTS));
    cr_assert(!flock_run(&f, NULL, 2000));
    for (uint32_t i = 0; i < 4; i++) {
        if (i >= first_denied && i < first_denied + denied)
            expect_denied(&f, i, apart ? "exchanges data in other ways" : "runs another job");
        else
            cr_assert(!f.peers[i].finished, "peer %u: %s", i, f.peers[i].finish_text);
    }
    flock_close(&f);
}

Test(peer_strangers, before_a_flock_runs_those_who_are_fewer_go) {
    found_with_strangers(1, false, 3, 1);
    found_with_strangers(1, true, 3, 1);
    found_with_strangers(3, false, 0, 1);
    found_with_strangers(3, true, 0, 1);
}

Test(peer_strangers, of_as_many_those_without_the_lowest_id_go) {
    found_with_strangers(2, false, 2, 2);
    found_with_strangers(2, true, 2, 2);
}

/* ---- addresses that an earlier life met ---- */

/* Where peers of this job once were another job runs now: it is left alone, unless it was named as a seed. */
static void come_across(bool as_seed) {
    flock f;
    flock_open(&f, 2, 1, 3000, GW_QUORUM_ANY);
    f.peers[0].config.identity = other_job;
    gw_peer_config *c = &f.peers[1].config;
    c->known[0] = f.peers[0].config.addrs[0];
    c->known_count = 1;
    c->seed_count = 2;
    c->seeds[0] = (gw_addr){.family = 4, .ip = {10, 0, 0, 99}, .port = 1};
    c->seeds[1] = as_seed ? f.peers[0].config.addrs[0] : c->seeds[0];
    c->steps = 20;
    c->join_timeout_ns = UINT64_C(3000000000);
    flock_start(&f, 0);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_start(&f, 1);
    for (int n = 0; !f.peers[1].finished && n < MOST_EVENTS; n++) cr_assert(!flock_run(&f, NULL, 1));
    if (as_seed)
        expect_denied(&f, 1, "runs another job");
    else
        cr_assert_eq(f.peers[1].finish, GW_FINISH_DONE, "%s", f.peers[1].finish_text);
    flock_close(&f);
}

Test(peer_strangers, who_is_found_at_an_old_address_is_left_alone_and_a_seed_is_not) {
    come_across(false);
    come_across(true);
}

/* ---- what differs ---- */

static bool one_has_said(const flock *f) {
    return flock_said(f, 1, "verify=") > 0;
}

/* They would choose other shards to compute twice. */
Test(peer_strangers, rates_of_verification_that_differ_in_their_last_digit_are_not_the_same) {
    flock f;
    flock_open(&f, 2, 2, 50, GW_QUORUM_ANY);
    f.verify = 123456;
    flock_start(&f, 0);
    f.verify = 123457;
    flock_start(&f, 1);
    cr_assert(flock_run(&f, one_has_said, MOST_EVENTS));
    cr_assert_eq(flock_said(&f, 1, "(theirs: verify=12.3456%, here: verify=12.3457%)"), 1, "%s",
                 f.peers[1].said);
    flock_close(&f);
}

static bool one_has_said_deal(const flock *f) {
    return flock_said(f, 1, "deal=") > 0;
}

/* They would deal the same step differently. */
Test(peer_strangers, who_deals_by_another_rule_is_another) {
    flock f;
    flock_open(&f, 2, 2, 50, GW_QUORUM_ANY);
    f.peers[1].config.deal_energy = true;
    f.peers[1].config.deal_slack = 25;
    flock_start_all(&f);
    cr_assert(flock_run(&f, one_has_said_deal, MOST_EVENTS));
    cr_assert_eq(flock_said(&f, 1, "(theirs: not given, here: deal=energy:2.5%)"), 1, "%s", f.peers[1].said);
    flock_close(&f);
}

static bool one_has_said_lanes(const flock *f) {
    return flock_said(f, 1, "lanes=") > 0;
}

/* Their data links would have other streams. */
Test(peer_strangers, who_has_other_lanes_is_another) {
    flock f;
    flock_open(&f, 2, 2, 50, GW_QUORUM_ANY);
    f.peers[0].config.lanes = 1;
    f.peers[1].config.lanes = 4;
    flock_start_all(&f);
    cr_assert(flock_run(&f, one_has_said_lanes, MOST_EVENTS));
    cr_assert_eq(flock_said(&f, 1, "(theirs: not given, here: lanes=4)"), 1, "%s", f.peers[1].said);
    flock_close(&f);
}

/* Peer 0 says hello to peer 1 once more, as one whose identity is this. */
static void say_hello(flock *f, const char *identity) {
    gw_message hello = {.kind = GW_MSG_HELLO, .hello.has_view = true};
    char text[500];
    snprintf(text, sizeof text, "%s", identity);
    hello.hello.identity = text;
    uint8_t *bytes;
    size_t length = gw_message_encode(&hello, &bytes);
    flock_tell(f, 1,
               (gw_event){.kind = GW_EV_MESSAGE,
                          .peer = f->peers[0].config.id,
                          .message.bytes = bytes,
                          .message.length = length});
    free(bytes);
}

#define JOB "job=test\nlr=0.1\n"
#define DIGITS                                                                                               \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

Test(peer_strangers, a_line_that_one_side_lacks_is_absent_there) {
    static const struct {
        const char *identity, *part;
    } cases[] = {
        {JOB "quorum=any\nverify=5%\non-bad=stop\n", "(theirs: verify=5%, here: verify=off)"},
        {JOB "verify=off\non-bad=stop\n", "(theirs: not given, here: quorum=any)"},
        {JOB "quorum=any\nverify=off\non-bad=stop\nmore=1\n", "(theirs: more=1, here: not given)"},
        {JOB "quorum=any\nverify=off\non-bad=skip\n", "(theirs: on-bad=skip, here: on-bad=stop)"},
        {"job=test\nlr=0.2\nquorum=any\nverify=1%\non-bad=stop\n",
         "(theirs: lr=0.2, here: lr=0.1; theirs: verify=1%, here: verify=off)"},
        {JOB "quorum=any\nverify=off\non-bad=stop\nkeep-best=loss:min\n",
         "(theirs: keep-best=loss:min, here: not given)"},
        {"", "here: quorum=any; theirs: not given, here: verify=off; theirs: not given, here: on-bad=stop)"},
        {"quorum=any\nl=" DIGITS "\nm=" DIGITS "\nn=" DIGITS "\n", "here: not given; and 5 more)"},
        {JOB "quorum=any\nverify=off\non-bad=stop\ndata=0123\n", "(the data differ)"},
        {JOB "quorum=any\nverify=off\non-bad=stop\nprobe=0123\n", "(the bits of a first shard differ, as "},
        {JOB "quorum=any\nverify=off\non-bad=stop\nupdates=5\nwarmup=1\nsteps=5\nprobe=0123\n",
         "(theirs: updates=5, here: not given)"},
        {JOB "quorum=any\nverify=off\non-bad=stop\nwarmup=1\n", "(theirs: warmup=1, here: not given)"},
        {JOB "quorum=any\nverify=off\non-bad=stop\nval-tokens=9\neval-every=4\nsteps=6\ndata=01\n",
         "(it has --val, here it is not given)"},
        {JOB "quorum=any\nverify=off\non-bad=stop\nsteps=6\nparent=0123456789\nparent-step=20\n"
             "parent-root=ab\nparent-place=updates=20\n",
         "(it goes on from step 20 of job 01234567 by --continue, which is not given here)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flock f;
        flock_open(&f, 2, 2, 50, GW_QUORUM_ANY);
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        say_hello(&f, cases[i].identity);
        cr_assert_eq(flock_said(&f, 1, cases[i].part), 1, "line %zu: %s", i, f.peers[1].said);
        flock_close(&f);
    }
}

/* ---- peers that go on from states of another job ---- */

#define BRANCH(parent, step, root)                                                                           \
    "job=test\nlr=0.1\nparent=" parent "\nparent-step=" step "\nparent-root=" root                           \
    "\nparent-place=updates=" step "\n"

static const char early[] = BRANCH("aa", "3", "bb"), late[] = BRANCH("cc", "5", "dd"),
                  unknown[] = "job=test\nlr=0.1\nparent=unknown\n";

static bool some_finished(const flock *f) {
    return f->peers[0].finished || f->peers[1].finished;
}

/* Two peers meet. `finished`: the one that ends with GW_FINISH_REBASE, and the lines that it takes; -1:
 * none does. */
static void meet(const char *first, const char *second, bool first_runs, bool rebases, int finished,
                 const char *lines) {
    flock f;
    flock_open(&f, 2, first_runs ? 1 : 2, 60, GW_QUORUM_ANY);
    const char *const identities[] = {first, second};
    for (int i = 0; i < 2; i++) {
        f.peers[i].config.identity = identities[i];
        f.peers[i].config.rebases = rebases;
    }
    flock_start(&f, 0);
    if (first_runs) cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_start(&f, 1);
    if (finished < 0) {
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        for (int i = 0; i < 2; i++) cr_assert_neq(f.peers[i].finish, GW_FINISH_REBASE);
    } else {
        cr_assert(flock_run(&f, some_finished, MOST_EVENTS));
        cr_assert(f.peers[finished].finished);
        cr_assert_eq(f.peers[finished].finish, GW_FINISH_REBASE, "%s", f.peers[finished].finish_text);
        cr_assert_str_eq(f.peers[finished].finish_text, lines);
    }
    flock_close(&f);
}

Test(peer_strangers, a_peer_takes_the_later_state_that_others_go_on_from) {
    const char *lines = strstr(late, "parent=");
    meet(early, late, false, true, 0, lines);
    meet(late, early, false, true, 1, lines);
    meet(unknown, late, false, true, 0, lines);
    meet(late, unknown, false, true, 1, lines);
}

Test(peer_strangers, a_peer_takes_the_state_of_a_flock_that_runs) {
    meet(early, late, true, true, 1, strstr(early, "parent="));
    meet(early, unknown, true, true, 1, strstr(early, "parent="));
}

/* Another state would not make them one job. */
Test(peer_strangers, a_peer_with_other_options_takes_no_state_and_is_told_of_them) {
    static const char mistyped[] = "job=test\nlr=0.2\nparent=cc\nparent-step=5\nparent-root=dd\n"
                                   "parent-place=updates=5\n";
    meet(early, mistyped, true, true, -1, NULL);
    flock f;
    flock_open(&f, 2, 1, 60, GW_QUORUM_ANY);
    f.peers[0].config.identity = early;
    f.peers[1].config.identity = mistyped;
    for (int i = 0; i < 2; i++) f.peers[i].config.rebases = true;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_start(&f, 1);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_denied(&f, 1, "theirs: lr=0.1, here: lr=0.2");
    cr_expect_eq(flock_said(&f, 0, "takes the state of this one"), 0, "%s", f.peers[0].said);
    flock_close(&f);
}

Test(peer_strangers, a_peer_that_was_told_its_step_keeps_it) {
    meet(early, late, true, false, -1, NULL);
    meet(late, other_job, true, true, -1, NULL); /* which goes on from nothing */
}
