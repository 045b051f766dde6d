/* How members agree on a communicator: state machines whose messages the tests carry, lose, repeat and
 * delay. */
#include "net/nccl/gpu_team.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 4, LETTERS = 64, WIDE = 3 /* the peer that cannot narrow sums */ };

typedef struct letter {
    int from, to;
    uint8_t bytes[1024];
    size_t length;
} letter;

typedef struct peer {
    int index;
    gw_gpu_team *team;
    unsigned asked, formed;
    gw_fence asked_for, formed_for;
    gw_nccl_team of;
    bool cut; /* nothing that it sends arrives */
} peer;

static peer peers[PEERS];
static letter mail[LETTERS];
static unsigned letters;

static gw_peer_id id_of(int index) {
    gw_peer_id id = {{0}};
    id.bytes[0] = (uint8_t)(10 + index);
    return id;
}

static void on_send(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length) {
    peer *p = context;
    cr_assert_lt(letters, LETTERS);
    cr_assert_leq(length, sizeof mail[0].bytes);
    if (p->cut) return;
    letter *l = &mail[letters++];
    *l = (letter){.from = p->index, .to = to->bytes[0] - 10, .length = length};
    memcpy(l->bytes, bytes, length);
}

static void on_make_id(void *context, const gw_fence *fence) {
    peer *p = context;
    p->asked++;
    p->asked_for = *fence;
}

static void on_form(void *context, const gw_fence *fence, const gw_nccl_team *team) {
    peer *p = context;
    p->formed++;
    p->formed_for = *fence;
    p->of = *team;
}

static void flock_open(void) {
    letters = 0;
    for (int i = 0; i < PEERS; i++) {
        gw_err err;
        gw_peer_id self = id_of(i);
        peers[i] = (peer){.index = i};
        gw_gpu_team_world world = {&peers[i], on_send, on_make_id, on_form};
        gw_gpu_team_share share = {.gpus = (uint32_t)i + 1, .narrow = i != WIDE};
        peers[i].team = gw_gpu_team_open(&self, &share, &world, &err);
        cr_assert(peers[i].team != NULL);
    }
}

static void flock_close(void) {
    for (int i = 0; i < PEERS; i++) gw_gpu_team_close(peers[i].team);
}

/* The view of the first `count` peers, led by peer `leader`. */
static gw_view view_of(uint64_t epoch, int count, int leader) {
    gw_view view = {.epoch = epoch, .count = (uint32_t)count, .leader = id_of(leader)};
    for (int i = 0; i < count; i++) view.members[i].id = id_of(i);
    gw_view_seal(&view);
    return view;
}

static void deliver(const letter *l) {
    gw_err err;
    gw_peer_id from = id_of(l->from);
    cr_assert(gw_gpu_team_hear(peers[l->to].team, &from, l->bytes, l->length, &err), "%s", err.text);
}

static void deliver_all(void) {
    for (unsigned i = 0; i < letters; i++) deliver(&mail[i]);
    letters = 0;
}

/* Delivers the messages under way, and those sent in answer, until there are none. */
static void deliver_until_quiet(void) {
    for (int turns = 0; letters > 0; turns++) {
        letter now[LETTERS];
        unsigned count = letters;
        cr_assert_lt(turns, 10, "they go on and on");
        memcpy(now, mail, count * sizeof now[0]);
        letters = 0;
        for (unsigned i = 0; i < count; i++) deliver(&now[i]);
    }
}

static void give_id(int to, char mark) {
    gw_nccl_id id = {{mark}};
    gw_gpu_team_id(peers[to].team, &id);
}

static void expect_formed(int count, const gw_view *view, char mark, unsigned times) {
    uint32_t first = 0, ranks = (uint32_t)(count * (count + 1) / 2);
    for (int i = 0; i < count; i++) {
        cr_assert_eq(peers[i].formed, times, "peer %d formed %u times", i, peers[i].formed);
        cr_assert_eq(peers[i].formed_for.epoch, view->epoch);
        cr_assert_eq(peers[i].of.ranks, ranks);
        cr_assert_eq(peers[i].of.first, first);
        cr_assert_eq(peers[i].of.id.bytes[0], mark);
        first += (uint32_t)i + 1;
    }
}

Test(gpu_team, everybody_forms_with_the_leaders_id_in_member_order) {
    flock_open();
    gw_view view = view_of(5, 4, 2);
    for (int i = 0; i < 4; i++) gw_gpu_team_install(peers[i].team, &view);
    deliver_all();
    cr_assert_eq(peers[2].asked, 1);
    cr_assert_eq(peers[0].asked + peers[1].asked + peers[3].asked, 0);
    give_id(2, 'x');
    deliver_all();
    expect_formed(4, &view, 'x', 1);
    flock_close();
}

/* Peer 3 cannot, as a build cannot that does not know of it. */
Test(gpu_team, sums_are_narrowed_where_all_members_can) {
    flock_open();
    gw_view view = view_of(5, 4, 2), smaller = view_of(6, 3, 1);
    for (int i = 0; i < 4; i++) gw_gpu_team_install(peers[i].team, &view);
    deliver_all();
    give_id(2, 'x');
    deliver_all();
    expect_formed(4, &view, 'x', 1);
    for (int i = 0; i < 4; i++) cr_assert(!peers[i].of.narrow, "peer %d", i);
    gw_gpu_team_install(peers[0].team, &smaller);
    deliver_until_quiet(); /* the leader has not installed it yet, and keeps what it is told */
    gw_gpu_team_install(peers[2].team, &smaller);
    gw_gpu_team_install(peers[1].team, &smaller);
    deliver_until_quiet();
    give_id(1, 'y');
    deliver_until_quiet();
    expect_formed(3, &smaller, 'y', 2);
    for (int i = 0; i < 3; i++) cr_assert(peers[i].of.narrow, "peer %d", i);
    flock_close();
}

Test(gpu_team, who_cannot_narrow_sums_does_not_join_a_team_that_does) {
    flock_open();
    gw_view view = view_of(5, 4, 2);
    gw_peer_id leader = id_of(2);
    gw_err err;
    gw_gpu_team_install(peers[2].team, &view);
    for (int i = 0; i < 4; i++)
        if (i != 2) gw_gpu_team_install(peers[i].team, &view);
    deliver_all();
    give_id(2, 'x');
    letter *team = &mail[0];
    while (team->to != 3) team++;
    team->bytes[2] = 5; /* NARROW_TEAM */
    cr_assert(!gw_gpu_team_hear(peers[3].team, &leader, team->bytes, team->length, &err));
    cr_assert_not_null(strstr(err.text, "a team that is not the view's"), "%s", err.text);
    flock_close();
}

/* Each id costs the leader's process a thread and a socket until its communicator is formed. */
Test(gpu_team, no_id_is_asked_for_before_all_have_come) {
    flock_open();
    gw_view view = view_of(5, 4, 0);
    for (int i = 0; i < 4; i++) gw_gpu_team_install(peers[i].team, &view);
    cr_assert_eq(letters, 5); /* peers 1 and 2 also tell that they can narrow sums */
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(peers[0].asked, 0);
        deliver(&mail[i]);
    }
    deliver(&mail[4]); /* a second time */
    letters = 0;
    cr_assert_eq(peers[0].asked, 1);
    give_id(0, 'x');
    deliver_all();
    expect_formed(4, &view, 'x', 1);
    gw_gpu_team_install(peers[1].team, &view);
    deliver_until_quiet();
    cr_assert_eq(peers[0].asked, 2, "a new attempt, a new id");
    flock_close();
}

Test(gpu_team, one_peer_with_several_gpus_needs_nobody) {
    flock_open();
    gw_view view = {.epoch = 1, .count = 1, .leader = id_of(3)};
    view.members[0].id = id_of(3);
    gw_view_seal(&view);
    gw_gpu_team_install(peers[3].team, &view);
    give_id(3, 'x');
    cr_assert_eq(peers[3].formed, 1);
    cr_assert_eq(peers[3].of.ranks, 4);
    cr_assert_eq(letters, 0);
    flock_close();
}

Test(gpu_team, members_may_be_faster_than_the_leader) {
    flock_open();
    gw_view old = view_of(4, 3, 1), view = view_of(5, 3, 0);
    for (int i = 0; i < 3; i++) gw_gpu_team_install(peers[i].team, &old);
    letters = 0;
    for (int i = 1; i < 3; i++) gw_gpu_team_install(peers[i].team, &view);
    deliver_all(); /* the next leader is still in the old view */
    cr_assert_eq(peers[0].formed, 0);
    gw_gpu_team_install(peers[0].team, &view);
    give_id(0, 'y');
    deliver_all();
    expect_formed(3, &view, 'y', 1);
    flock_close();
}

/* No member has joined it, and a thread of the leader's process listens for those that do. */
Test(gpu_team, an_id_that_comes_too_late_serves_the_next_view) {
    flock_open();
    gw_view old = view_of(4, 2, 0), view = view_of(5, 2, 0), next = view_of(6, 2, 0);
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &old);
    deliver_until_quiet();
    cr_assert_eq(peers[0].asked, 1);
    gw_gpu_team_leave(peers[0].team);
    give_id(0, 'o');
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &view);
    cr_assert_eq(peers[0].formed, 0, "one is missing");
    deliver_until_quiet();
    expect_formed(2, &view, 'o', 1);
    cr_assert_eq(peers[0].asked, 1);
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &next);
    deliver_until_quiet();
    cr_assert_eq(peers[0].asked, 2, "no id serves twice");
    give_id(0, 'n');
    deliver_until_quiet();
    expect_formed(2, &next, 'n', 2);
    flock_close();
}

Test(gpu_team, an_id_too_many_serves_the_next_attempt) {
    flock_open();
    gw_view view = view_of(5, 2, 0);
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &view);
    deliver_until_quiet();
    gw_gpu_team_install(peers[1].team, &view);
    deliver_until_quiet();
    cr_assert_eq(peers[0].asked, 2, "each attempt has asked");
    give_id(0, 'v');
    give_id(0, 'w');
    give_id(0, 'x'); /* more than one is not kept */
    deliver_until_quiet();
    expect_formed(2, &view, 'v', 1);
    gw_gpu_team_install(peers[0].team, &view);
    deliver_until_quiet();
    expect_formed(2, &view, 'w', 2);
    cr_assert_eq(peers[0].asked, 2);
    flock_close();
}

Test(gpu_team, a_team_of_an_older_view_that_is_still_under_way_is_dropped) {
    flock_open();
    gw_view old = view_of(4, 2, 0), view = view_of(5, 2, 0);
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &old);
    deliver_all();
    give_id(0, 'o');
    cr_assert_eq(letters, 1);
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &view);
    deliver_all();
    cr_assert_eq(peers[1].formed, 0);
    give_id(0, 'v');
    deliver_all();
    cr_assert_eq(peers[1].formed, 1);
    cr_assert_eq(peers[1].of.id.bytes[0], 'v');
    flock_close();
}

Test(gpu_team, who_has_left_its_view_forms_nothing) {
    flock_open();
    gw_view view = view_of(5, 2, 0);
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &view);
    gw_gpu_team_leave(peers[0].team);
    deliver_all();
    give_id(0, 'x');
    cr_assert_eq(peers[0].formed + peers[1].formed, 0);
    flock_close();
}

/* A link that breaks loses the messages under way in both directions. */
Test(gpu_team, what_a_broken_link_lost_is_said_again) {
    flock_open();
    gw_view view = view_of(5, 2, 0);
    gw_peer_id leader = id_of(0), member = id_of(1);
    peers[1].cut = true;
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &view);
    give_id(0, 'x');
    cr_assert_eq(letters, 0);
    peers[1].cut = false;
    peers[0].cut = true;
    gw_gpu_team_linked(peers[1].team, &leader);
    deliver_all();
    cr_assert_eq(peers[0].formed, 1);
    cr_assert_eq(peers[1].formed, 0);
    peers[0].cut = false;
    gw_gpu_team_linked(peers[0].team, &member);
    deliver_all();
    gw_gpu_team_linked(peers[0].team, &member); /* a repetition does no harm */
    deliver_all();
    expect_formed(2, &view, 'x', 1);
    flock_close();
}

/* The leader was cut off when it sent; the member's link is the first to come back. */
Test(gpu_team, a_member_that_asks_again_is_told_again) {
    flock_open();
    gw_view view = view_of(5, 2, 0);
    gw_peer_id leader = id_of(0);
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &view);
    peers[0].cut = true;
    deliver_all();
    give_id(0, 'x');
    cr_assert_eq(letters, 0);
    peers[0].cut = false;
    gw_gpu_team_linked(peers[1].team, &leader);
    deliver_all();
    deliver_all();
    expect_formed(2, &view, 'x', 1);
    flock_close();
}

static void form_first(const gw_view *view) {
    flock_open();
    for (uint32_t i = 0; i < view->count; i++) gw_gpu_team_install(peers[i].team, view);
    deliver_until_quiet();
    give_id(0, 'x');
    deliver_until_quiet();
    expect_formed((int)view->count, view, 'x', 1);
}

/* A communicator that failed for one member has not failed for all. Whichever it is, all begin a new attempt,
 * with an id of its own. */
Test(gpu_team, who_installs_a_view_again_begins_another_attempt) {
    gw_view view = view_of(5, 3, 0);
    form_first(&view);
    gw_gpu_team_leave(peers[2].team);
    gw_gpu_team_install(peers[2].team, &view);
    deliver_until_quiet();
    cr_assert_eq(peers[1].formed, 1, "there is no other id yet");
    give_id(0, 'y');
    deliver_until_quiet();
    expect_formed(3, &view, 'y', 2);
    gw_gpu_team_leave(peers[0].team);
    gw_gpu_team_install(peers[0].team, &view);
    deliver_until_quiet();
    give_id(0, 'z');
    deliver_until_quiet();
    expect_formed(3, &view, 'z', 3);
    flock_close();
}

/* A member that has given up enters with an attempt number of its own, which may be behind the others'. */
Test(gpu_team, an_attempt_waits_for_those_who_have_left) {
    gw_view view = view_of(5, 3, 0);
    form_first(&view);
    for (int i = 0; i < 2; i++) gw_gpu_team_leave(peers[i].team);
    for (int i = 0; i < 3; i++) gw_gpu_team_install(peers[2].team, &view); /* attempt 4, while nobody leads */
    deliver_until_quiet();
    gw_gpu_team_install(peers[0].team, &view);
    give_id(0, 'y');
    deliver_until_quiet();
    cr_assert_eq(peers[0].formed + peers[2].formed, 2, "one is missing");
    gw_gpu_team_install(peers[1].team, &view);
    deliver_until_quiet();
    give_id(0, 'z'); /* dropped: the other id has not been used */
    deliver_until_quiet();
    expect_formed(3, &view, 'y', 2);
    flock_close();
}

Test(gpu_team, a_call_that_a_broken_link_lost_is_said_again) {
    gw_view view = view_of(5, 3, 0);
    gw_peer_id member = id_of(2);
    form_first(&view);
    peers[0].cut = true;
    gw_gpu_team_install(peers[0].team, &view);
    peers[0].cut = false;
    for (int i = 1; i < 3; i++) {
        member = id_of(i);
        gw_gpu_team_linked(peers[0].team, &member);
    }
    deliver_until_quiet();
    give_id(0, 'y');
    deliver_until_quiet();
    expect_formed(3, &view, 'y', 2);
    flock_close();
}

Test(gpu_team, a_team_of_an_earlier_attempt_is_dropped) {
    flock_open();
    gw_view view = view_of(5, 2, 0);
    for (int i = 0; i < 2; i++) gw_gpu_team_install(peers[i].team, &view);
    deliver_until_quiet();
    give_id(0, 'x');
    gw_gpu_team_install(peers[1].team, &view); /* while it is on its way */
    deliver_until_quiet();
    cr_assert_eq(peers[1].formed, 0);
    give_id(0, 'y');
    deliver_until_quiet();
    cr_assert_eq(peers[1].formed, 1);
    cr_assert_eq(peers[1].of.id.bytes[0], 'y');
    flock_close();
}

static bool hears(int to, int from, const uint8_t *bytes, size_t length) {
    gw_err err = {0};
    gw_peer_id id = id_of(from);
    bool good = gw_gpu_team_hear(peers[to].team, &id, bytes, length, &err);
    cr_assert(good || err.code == GW_E_INVALID);
    return good;
}

Test(gpu_team, messages_that_make_no_sense_are_refused) {
    flock_open();
    gw_view view = view_of(5, 3, 0);
    for (int i = 0; i < 3; i++) gw_gpu_team_install(peers[i].team, &view);
    letter narrows = mail[0], enter = mail[1];
    cr_assert_eq(enter.to, 0);
    for (size_t cut = 1; cut < narrows.length; cut++)
        cr_assert(!hears(0, 1, narrows.bytes, cut), "cut to %zu bytes", cut);
    cr_assert(!hears(0, 1, narrows.bytes, narrows.length + 1), "more after what can be narrowed");
    for (size_t cut = 1; cut < enter.length; cut++)
        cr_assert(!hears(0, 1, enter.bytes, cut), "cut to %zu bytes", cut);
    cr_assert(!hears(2, 1, enter.bytes, enter.length), "a number of GPUs for who does not lead");
    letter odd = enter;
    odd.bytes[odd.length - 1] = 0;
    cr_assert(!hears(0, 1, odd.bytes, odd.length), "no GPUs");
    odd.bytes[odd.length - 1] = GW_NCCL_GPUS + 1;
    cr_assert(!hears(0, 1, odd.bytes, odd.length), "too many");
    odd = enter;
    odd.bytes[1]++;
    cr_assert(!hears(0, 1, odd.bytes, odd.length), "another version");
    odd = enter;
    odd.bytes[2] = 9;
    cr_assert(!hears(0, 1, odd.bytes, odd.length), "another kind");
    odd.bytes[2] = 3;
    cr_assert(!hears(2, 0, odd.bytes, odd.length), "a call with more after it");
    cr_assert(!hears(2, 1, odd.bytes, odd.length - 1), "a call by who does not lead");
    cr_assert(!hears(0, 3, enter.bytes, enter.length), "who is no member");
    deliver_all();
    give_id(0, 'x');
    letter team = mail[0];
    cr_assert_eq(team.to, 1);
    for (size_t cut = 1; cut < team.length; cut++) cr_assert(!hears(1, 0, team.bytes, cut));
    cr_assert(!hears(1, 2, team.bytes, team.length), "a team from who does not lead");
    odd = team;
    odd.bytes[odd.length - 1] = 0;
    cr_assert(!hears(1, 0, odd.bytes, odd.length), "a member without GPUs");
    odd = team;
    odd.bytes[odd.length - 2] = 7;
    cr_assert(!hears(1, 0, odd.bytes, odd.length), "another number of GPUs than this peer's");
    cr_assert_eq(peers[1].formed, 0);
    cr_assert(hears(1, 0, team.bytes, team.length));
    cr_assert_eq(peers[1].formed, 1);
    flock_close();
}

Test(gpu_team, strangers_cannot_crowd_out_a_view) {
    flock_open();
    uint8_t bytes[64];
    gw_view view = view_of(5, 2, 0);
    gw_gpu_team_install(peers[1].team, &view);
    memcpy(bytes, mail[0].bytes, mail[0].length);
    for (int i = 0; i < 1000; i++) { /* before the view, from many peers */
        gw_err err;
        gw_peer_id id = {{(uint8_t)i, (uint8_t)(i >> 8), 1}};
        cr_assert(gw_gpu_team_hear(peers[0].team, &id, bytes, mail[0].length, &err));
    }
    deliver_all();
    gw_gpu_team_install(peers[0].team, &view);
    give_id(0, 'x');
    cr_assert_eq(peers[0].formed, 1);
    flock_close();
}
