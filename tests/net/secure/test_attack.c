/* Attacks on the traffic between two peers, on real sockets. Whatever a man in the middle does, each peer
 * accepts exactly the messages that the other has sent, in order and once, and they go on talking. The same
 * attacks succeed without a key, which shows that they are attacks. */
#include "core/os/clock.h"
#include "net/link/link.h"
#include "net/link/udp.h"
#include "net/secure/packet.h"
#include "tests/net/flock.h"
#include "tests/net/meddler.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 200, MOST_DATAGRAMS = 1 << 16 };
#define SAY_NS UINT64_C(1000000)

/* A peer that sends numbered messages and datagrams to the other one, and checks those that come. */
typedef struct node {
    flock_peer peer;
    gw_loop *loop;
    gw_addr addr;
    gw_listener *listener;
    gw_links *links;
    gw_packets *packets;
    gw_udp *udp;
    gw_timer timer;
    gw_addr other_addr;
    gw_peer_id other;
    uint64_t said, heard, last; /* messages sent and received, and the number of the last one received */
    uint64_t ups, downs, wrong; /* wrong: altered, repeated or out of order */
    bool up, silent;            /* silent: it sends no messages by itself */
    gw_closed why;              /* why the link last went down */
    uint64_t datagrams_said, datagrams_heard, datagrams_wrong;
    bool got[MOST_DATAGRAMS];
} node;

static void compose(uint64_t number, uint64_t words[WORDS]) {
    for (uint64_t i = 0; i < WORDS; i++) words[i] = number * 0x9E3779B97F4A7C15u + i;
    words[0] = number;
}

static bool is_whole(const void *bytes, size_t count, uint64_t *number) {
    uint64_t got[WORDS], right[WORDS];
    if (count != sizeof got && count != 100) return false;
    memcpy(got, bytes, count);
    compose(*number = got[0], right);
    return memcmp(got, right, count) == 0;
}

static void on_up(void *context, const gw_peer_id *peer, const gw_remote *remote) {
    node *n = context;
    cr_expect(gw_peer_id_equal(peer, &n->other) && gw_peer_id_equal(&remote->id, &n->other));
    n->ups++;
    n->up = true;
}

static void on_down(void *context, const gw_peer_id *peer, gw_closed why, gw_fault fault, const char *text) {
    (void)peer, (void)fault, (void)text;
    node *n = context;
    if (n->up) n->downs++;
    n->why = why;
    n->up = false;
}

static void on_message(void *context, const gw_peer_id *peer, const uint8_t *bytes, size_t count) {
    node *n = context;
    uint64_t number;
    cr_expect(gw_peer_id_equal(peer, &n->other));
    n->heard++;
    if (!is_whole(bytes, count, &number) || number <= n->last)
        n->wrong++;
    else
        n->last = number;
}

static void on_datagram(void *context, const gw_addr *from, uint8_t *bytes, size_t count) {
    node *n = context;
    gw_peer_id sender;
    const uint8_t *body;
    size_t body_bytes;
    uint64_t number;
    if (gw_packet_open(n->packets, from, bytes, count, gw_now_ns(), &sender, &body, &body_bytes) !=
        GW_PACKET_GOOD)
        return;
    n->datagrams_heard++;
    bool good = gw_peer_id_equal(&sender, &n->other) && is_whole(body, body_bytes, &number) &&
                number < MOST_DATAGRAMS && !n->got[number];
    if (good)
        n->got[number] = true;
    else
        n->datagrams_wrong++;
}

static void on_accepted(void *context, gw_stream *stream, const gw_remote *remote) {
    node *n = context;
    (void)remote;
    gw_links_adopt(n->links, stream);
}

static void start(node *n, gw_loop *loop, uint8_t number, const char *keys) {
    gw_err err;
    int tcp, udp;
    memset(n, 0, sizeof *n);
    flock_hatch(&n->peer, number, keys);
    n->loop = loop;
    flock_bind(&n->addr, &tcp, &udp);
    n->peer.local.listen = n->addr;
    gw_listener_events accepting = {.context = n, .accepted = on_accepted};
    gw_link_events events = {.context = n, .up = on_up, .down = on_down, .message = on_message};
    n->links = gw_links_open(loop, &n->peer.local, &events, &err);
    n->listener = gw_listener_open(loop, &n->peer.local, tcp, &accepting, &err);
    n->packets = gw_packets_open(&n->peer.identity, &n->peer.keyring, &n->peer.local.cluster, &err);
    n->udp = gw_udp_open(loop, udp, on_datagram, n, &err);
    flock_need(n->links && n->listener && n->packets && n->udp, &err);
}

static void stop(node *n) {
    gw_timer_cancel(&n->timer);
    gw_listener_close(n->listener);
    gw_links_close(n->links);
    gw_udp_close(n->udp);
    gw_packets_close(n->packets);
}

/* Sends a message if there is a link, and a datagram in any case, and sets the timer for the next ones. */
static void say(void *context) {
    node *n = context;
    gw_err err;
    uint64_t words[WORDS];
    uint8_t datagram[GW_DATAGRAM_BYTES];
    if (n->up && !n->silent) {
        compose(++n->said, words);
        (void)gw_links_send(n->links, &n->other, words, sizeof words, &err); /* lost with its link */
    }
    compose(++n->datagrams_said, words);
    gw_udp_send(n->udp, &n->other_addr, datagram, gw_packet_seal(n->packets, words, 100, datagram));
    flock_need(gw_timer_set(n->loop, &n->timer, gw_now_ns() + SAY_NS, say, n, &err), &err);
}

typedef struct scene {
    gw_loop *loop;
    meddler *m;
    node a, b; /* a reaches b through the meddler only; b answers */
    uint64_t a_heard, b_heard, datagrams_heard, struck;
    meddle_place place;
} scene;

static scene s; /* too large for a stack; every test runs in a process of its own */

static bool goes_on(void *context) {
    (void)context;
    bool struck = meddler_struck(s.m, s.place) >= s.struck;
    return struck && s.a.up && s.b.up && s.a.heard >= s.a_heard && s.b.heard >= s.b_heard &&
           s.b.datagrams_heard >= s.datagrams_heard;
}

/* Runs until the meddler has tampered there so often, and both peers have received some more. */
static void wait_struck(meddle_place place, uint64_t struck) {
    s.place = place;
    s.struck = struck;
    uint64_t limit = gw_now_ns() + 60 * UINT64_C(1000000000);
    while (meddler_struck(s.m, place) < struck) {
        gw_loop_turn(s.loop, 1000000);
        cr_assert_lt(gw_now_ns(), limit, "it was not struck");
    }
    s.a_heard = s.a.heard + 20;
    s.b_heard = s.b.heard + 20;
    s.datagrams_heard = s.b.datagrams_heard + 20;
    flock_turn_until(s.loop, goes_on, NULL);
}

static void begin_scene(const char *keys, uint8_t a, uint8_t b) {
    gw_err err;
    s.loop = gw_loop_open(&err);
    flock_need(s.loop != NULL, &err);
    start(&s.a, s.loop, a, keys);
    start(&s.b, s.loop, b, keys);
    s.m = meddler_open(keys[0] != '\0');
    meddler_target(s.m, s.b.addr.port);
    s.a.other = s.b.peer.identity.id;
    s.b.other = s.a.peer.identity.id;
    s.a.other_addr = flock_addr(meddler_port(s.m));
    s.b.other_addr = flock_dead_addr();
}

static void link_scene(void) {
    gw_err err;
    flock_need(gw_links_want(s.a.links, &s.a.other, &s.a.other_addr, 1, &err), &err);
    say(&s.a);
    say(&s.b);
}

static void open_scene(const char *keys) {
    begin_scene(keys, 1, 2);
    link_scene();
    wait_struck(MEDDLE_RECORD, 0);
}

static void close_scene(void) {
    meddler_close(s.m);
    stop(&s.a);
    stop(&s.b);
    gw_loop_close(s.loop);
}

static void expect_nothing_wrong(void) {
    cr_expect_eq(s.a.wrong, 0);
    cr_expect_eq(s.b.wrong, 0);
    cr_expect_eq(s.b.datagrams_wrong, 0);
}

/* A man in the middle. */

Test(attack, of_records_nothing_is_taken_but_what_was_said_next) {
    open_scene("1");
    uint64_t struck = 0;
    for (meddling kind = MEDDLE_FLIP; kind < MEDDLINGS; kind++) {
        uint64_t downs = s.a.downs + s.b.downs;
        meddler_strike(s.m, MEDDLE_RECORD, kind);
        wait_struck(MEDDLE_RECORD, ++struck);
        cr_expect_gt(s.a.downs + s.b.downs, downs, "meddling %d was not noticed", kind);
    }
    expect_nothing_wrong();
    close_scene();
}

static bool is_down(void *context) {
    (void)context;
    return !s.a.up || !s.b.up;
}

/* No record follows that would show the loss: a peer that waits for an answer to the lost record would wait
 * for ever. */
Test(attack, a_record_that_was_swallowed_is_noticed_though_nobody_says_more) {
    open_scene("1");
    gw_err err;
    uint64_t words[WORDS], limit = gw_now_ns() + 60 * UINT64_C(1000000000);
    s.a.silent = s.b.silent = true;
    meddler_strike(s.m, MEDDLE_RECORD, MEDDLE_DROP);
    compose(++s.a.said, words);
    flock_need(gw_links_send(s.a.links, &s.a.other, words, sizeof words, &err), &err);
    while (meddler_struck(s.m, MEDDLE_RECORD) == 0) {
        gw_loop_turn(s.loop, 1000000);
        cr_assert_lt(gw_now_ns(), limit, "it was not struck");
    }
    flock_turn_until(s.loop, is_down, NULL);
    s.a.silent = s.b.silent = false;
    wait_struck(MEDDLE_RECORD, 1);
    expect_nothing_wrong();
    close_scene();
}

static bool both_were_down(void *context) {
    (void)context;
    return s.a.downs > 0 && s.b.downs > 0;
}

/* Everything is acknowledged, and the other side's traffic arrives, so TCP and gossip notice nothing. */
static void swallow_all(meddle_deaf to, const node *unheard) {
    open_scene("1");
    s.a.silent = s.b.silent = true;
    meddler_swallow(s.m, to);
    flock_turn_until(s.loop, both_were_down, NULL);
    cr_expect_eq(unheard->why, GW_CLOSED_TIMEOUT);
    meddler_swallow(s.m, MEDDLE_HEARS);
    s.a.silent = s.b.silent = false;
    wait_struck(MEDDLE_RECORD, 0);
    expect_nothing_wrong();
    close_scene();
}

Test(attack, who_swallows_all_that_the_dialler_says_from_now_on_is_noticed) {
    swallow_all(MEDDLE_DEAF_TO_DIALLER, &s.b);
}

Test(attack, who_swallows_all_that_the_other_side_says_from_now_on_is_noticed) {
    swallow_all(MEDDLE_DEAF_TO_TARGET, &s.a);
}

static bool a_was_let_down(void *context) {
    (void)context;
    return s.a.why == GW_CLOSED_TIMEOUT;
}

/* The dialled peer offers a connection and gives it up at last; only the dialler wants a link. */
Test(attack, an_offer_that_is_swallowed_with_all_that_follows_is_not_waited_for) {
    begin_scene("1", 1, 2);
    if (gw_peer_id_compare(&s.a.peer.identity.id, &s.b.peer.identity.id) > 0) {
        close_scene();
        begin_scene("1", 2, 1);
    }
    meddler_swallow(s.m, MEDDLE_DEAF_TO_TARGET);
    link_scene();
    flock_turn_until(s.loop, a_was_let_down, NULL);
    meddler_swallow(s.m, MEDDLE_HEARS);
    wait_struck(MEDDLE_RECORD, 0);
    close_scene();
}

/* Takes longer than with a connection on which nothing comes at all. */
Test(attack, a_link_on_which_nobody_has_anything_to_say_stays) {
    open_scene("1");
    s.a.silent = s.b.silent = true;
    uint64_t end = gw_now_ns() + GW_SILENCE_NS + 2 * (uint64_t)GW_HEARTBEAT_NS;
    while (gw_now_ns() < end) gw_loop_turn(s.loop, 1000000);
    cr_expect(s.a.up && s.b.up && s.a.downs == 0 && s.b.downs == 0);
    close_scene();
}

/* A handshake that was tampered with ends, and the next one makes the link. */
Test(attack, of_a_handshake_nothing_makes_another_peer_or_stops_the_next) {
    open_scene("1");
    uint64_t struck = 0, records = 0;
    for (meddling kind = MEDDLE_FLIP; kind < MEDDLINGS; kind++) {
        /* A handshake with a message missing ends by its deadline, tested elsewhere. */
        if (kind == MEDDLE_REORDER || kind == MEDDLE_DROP) continue;
        meddler_strike(s.m, MEDDLE_HANDSHAKE, kind);
        meddler_strike(s.m, MEDDLE_RECORD, MEDDLE_TRUNCATE); /* so that there is a handshake */
        wait_struck(MEDDLE_RECORD, ++records);
        wait_struck(MEDDLE_HANDSHAKE, ++struck);
    }
    expect_nothing_wrong();
    close_scene();
}

Test(attack, of_datagrams_none_is_taken_twice_or_altered) {
    open_scene("1");
    uint64_t struck = 0;
    for (meddling kind = MEDDLE_FLIP; kind < MEDDLINGS; kind++)
        for (int i = 0; i < 5; i++) {
            meddler_strike(s.m, MEDDLE_DATAGRAM, kind);
            wait_struck(MEDDLE_DATAGRAM, ++struck);
        }
    const uint64_t *counts = gw_packet_counts(s.b.packets);
    cr_expect_eq(counts[GW_PACKET_WRONG_KEY], 10, "5 changed, 5 cut");
    cr_expect_eq(counts[GW_PACKET_REPLAYED], 10, "5 repeated, 5 old ones");
    cr_expect_eq(gw_packet_counts(s.a.packets)[GW_PACKET_OWN], 5, "reflected");
    expect_nothing_wrong();
    close_scene();
}

/* Shows that the tests above would notice: without a key records are accepted as they come. */
Test(attack, without_a_key_records_can_be_changed_and_repeated) {
    open_scene("");
    meddler_strike(s.m, MEDDLE_RECORD, MEDDLE_FLIP);
    wait_struck(MEDDLE_RECORD, 1);
    cr_expect_eq(s.a.wrong + s.b.wrong, 1);
    meddler_strike(s.m, MEDDLE_RECORD, MEDDLE_REPLAY);
    wait_struck(MEDDLE_RECORD, 2);
    cr_expect_eq(s.a.wrong + s.b.wrong, 2);
    close_scene();
}

/* Floods. */

static size_t resident_bytes(void) {
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "re");
    cr_assert(file != NULL && fscanf(file, "%ld %ld", &ignored, &pages) == 2);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t open_files(void) {
    size_t count = 0;
    DIR *files = opendir("/proc/self/fd");
    cr_assert_not_null(files);
    while (readdir(files) != NULL) count++;
    closedir(files);
    return count;
}

static void flood_to(uint64_t datagrams, uint64_t connections) {
    uint64_t sent = 0, dialled = 0, limit = gw_now_ns() + 60 * UINT64_C(1000000000);
    while (sent < datagrams || dialled < connections) {
        gw_loop_turn(s.loop, 1000000);
        cr_assert_leq(gw_listener_half_open(s.b.listener), GW_HALF_OPEN);
        meddler_flooded(s.m, &sent, &dialled);
        cr_assert_lt(gw_now_ns(), limit, "%zu datagrams, %zu connections", (size_t)sent, (size_t)dialled);
    }
}

/* Replayed datagrams and hellos, garbage, and silent connections: new links are made all the while, and no
 * memory grows with what was sent. */
Test(attack, a_flood_keeps_nobody_out_and_takes_no_memory) {
    open_scene("1");
    meddler_flood(s.m, true);
    flood_to(10000, 200); /* buffers are as large as they get */
    size_t bytes = resident_bytes(), files = open_files();
    uint64_t ups = s.a.ups;
    for (uint64_t i = 1; i <= 10; i++) {
        meddler_strike(s.m, MEDDLE_RECORD, MEDDLE_FLIP);
        wait_struck(MEDDLE_RECORD, i);
        cr_assert_leq(gw_listener_half_open(s.b.listener), GW_HALF_OPEN);
    }
    flood_to(40000, 800);
    cr_expect_geq(s.a.ups, ups + 10);
    size_t now_bytes = resident_bytes(), now_files = open_files();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* the sanitizers keep what was freed */
    cr_expect_lt(now_bytes, bytes + (2 << 20), "from %zu to %zu", bytes, now_bytes);
#else
    (void)bytes, (void)now_bytes;
#endif
    cr_expect_lt(now_files, files + 100, "from %zu to %zu", files, now_files);
    expect_nothing_wrong();
    close_scene();
}

/* Keys. */

/* A listener, and what it made of a dialler. */
typedef struct visit {
    uint64_t accepted, turned_away[GW_FAULT_CLONE + 1];
    bool judged, over; /* judged by the listener; over for the dialler */
    gw_stream *caller; /* NULL: it was closed */
} visit;

static void take(void *context, gw_stream *stream, const gw_remote *remote) {
    (void)remote;
    visit *v = context;
    v->accepted++;
    v->judged = true;
    gw_stream_close(stream);
}

static void turn_away(void *context, const gw_addr *from, gw_closed why, gw_fault fault, const char *text) {
    (void)from, (void)why, (void)text;
    visit *v = context;
    v->turned_away[fault]++;
    v->judged = true;
}

static void caller_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    (void)stream, (void)remote;
    ((visit *)context)->over = true;
}

static void caller_message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    (void)context, (void)stream, (void)bytes, (void)count;
    cr_assert_fail("nothing is said here");
}

static void caller_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    (void)stream, (void)why, (void)fault, (void)text;
    visit *v = context;
    v->over = true;
    v->caller = NULL;
}

static bool visit_over(void *context) {
    const visit *v = context;
    return v->judged && v->over;
}

/* The result of a dialler with `keys` at a listener with `listener_keys`. */
static visit call(const char *listener_keys, const char *keys) {
    gw_err err;
    gw_addr addr;
    int tcp, udp;
    flock_peer at, from;
    visit v = {0};
    gw_loop *loop = gw_loop_open(&err);
    flock_need(loop != NULL, &err);
    flock_hatch(&at, 2, listener_keys);
    flock_hatch(&from, 3, keys);
    flock_bind(&addr, &tcp, &udp);
    close(udp);
    gw_listener_events accepting = {.context = &v, .accepted = take, .failed = turn_away};
    gw_stream_events events = {
        .context = &v, .ready = caller_ready, .message = caller_message, .closed = caller_closed};
    gw_listener *listener = gw_listener_open(loop, &at.local, tcp, &accepting, &err);
    flock_need(listener != NULL, &err);
    v.caller = gw_stream_dial(loop, &from.local, &addr, GW_STREAM_CONTROL, 0, &events, &err);
    flock_need(v.caller != NULL, &err);
    flock_turn_until(loop, visit_over, &v);
    gw_stream_close(v.caller);
    gw_listener_close(listener);
    gw_loop_close(loop);
    return v;
}

static void expect_turned_away(const char *listener_keys, const char *keys, gw_fault fault) {
    visit v = call(listener_keys, keys);
    cr_expect_eq(v.accepted, 0);
    cr_expect_eq(v.turned_away[fault], 1);
}

/* Rotation of keys as in the README: while the old key is in the ring its holders are let in, afterwards they
 * are not. */
Test(attack, an_old_key_opens_nothing_once_it_is_removed) {
    cr_expect_eq(call("21", "1").accepted, 1);
    expect_turned_away("2", "1", GW_FAULT_KEY);
    expect_turned_away("2", "12",
                       GW_FAULT_KEY); /* the peer has the new key too, but seals with the old one */
}

Test(attack, a_stranger_with_the_protocol_and_no_key_is_turned_away) {
    expect_turned_away("2", "", GW_FAULT_NO_KEY);
    expect_turned_away("", "2", GW_FAULT_NO_KEY);
}
