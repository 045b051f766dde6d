/* The path that a pair of peers takes: the best that both allow and have, TCP if they have nothing better,
 * none if they have nothing in common. */
#include "tests/net/vectors.h"

#include "core/base/log.h"
#include "net/data/request.h"
#include "net/rail/path_message.h"
#include "net/shm/channel.h"
#include "net/shm/door.h"
#include "tests/net/sealed_frame.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 1 };

#define HASTE_NS UINT64_C(100000000) /* how long a try that fails may take */

static const uint32_t both = GW_FABRIC_TCP | GW_FABRIC_SHM;

static void check_pair(uint32_t a, uint32_t b, gw_path_kind expected) {
    const uint32_t kinds[] = {a, b};
    for (uint32_t dialler = 0; dialler < 2; dialler++) {
        rig *r = rig_open_apart(kinds, 2, 1, true);
        rig_link(r, dialler, 1 - dialler);
        for (uint32_t i = 0; i < 2; i++) cr_assert_eq(r->peers[i].kind, expected, "peer %u", i);
        rig_close(r);
    }
}

Test(fabric, a_pair_takes_the_best_that_both_allow) {
    check_pair(both, both, GW_PATH_SHM);
    check_pair(both, GW_FABRIC_SHM, GW_PATH_SHM);
    check_pair(both, GW_FABRIC_TCP, GW_PATH_TCP);
    check_pair(GW_FABRIC_TCP, GW_FABRIC_TCP, GW_PATH_TCP);
    check_pair(both | GW_FABRIC_RDMA, both, GW_PATH_SHM);
}

Test(fabric, a_pair_with_nothing_in_common_has_no_link) {
    const uint32_t kinds[] = {GW_FABRIC_SHM, GW_FABRIC_TCP};
    for (uint32_t dialler = 0; dialler < 2; dialler++) {
        rig *r = rig_open_apart(kinds, 2, 1, false);
        rig_connect(r, dialler, 1 - dialler);
        rig_wait_downs(&r->peers[0], 1);
        rig_wait_downs(&r->peers[1], 1);
        cr_assert_eq(r->peers[0].ups, 0);
        rig_close(r);
    }
}

/* A peer that never sends anything, and one that sends garbage. */
Test(fabric, a_silent_or_mad_peer_gets_no_path) {
    rig *r = rig_open_over(both, 1, 1, false);
    gw_peer_id other = rig_id(6);
    for (int mad = 0; mad < 2; mad++) {
        int fds[3];
        uint8_t frame[GW_FRAME_BYTES];
        rig_link_raw(r, 0, &other, fds);
        cr_assert_eq(recv(fds[0], frame, sizeof frame, MSG_WAITALL), sizeof frame); /* its HELLO */
        cr_assert(frame[8] == 3 && frame[9] == 1);
        memset(frame, 0, sizeof frame);
        frame[8] = 3;
        frame[9] = 5; /* USE of a path that was never tried */
        frame[10] = GW_PATH_SHM;
        seal_frame(frame);
        if (mad) cr_assert_eq(send(fds[0], frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
        if (!mad) close(fds[0]);
        rig_wait_downs(&r->peers[0], (uint32_t)mad + 1);
        for (int i = mad ? 0 : 1; i < 3; i++) close(fds[i]);
    }
    cr_assert_eq(r->peers[0].ups, 0);
    rig_close(r);
}

/* Leaves room for one more descriptor. */
static void leave_a_descriptor(void) {
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 0;
    while (fcntl((int)limit.rlim_cur++, F_GETFD) >= 0) {
    }
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(fabric, a_path_that_fails_leaves_tcp_and_is_tried_again) {
    const uint32_t kinds[] = {both, both};
    struct rlimit before;
    gw_err err;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    rig *r = rig_open_apart(kinds, 2, 1, true);
    cr_assert(gw_transport_share_words(r->peers[1].transport, WORDS, 1, &err));
    rig_fence_all(r, 1);
    r->connected = leave_a_descriptor; /* fewer than shared memory needs */
    rig_link(r, 0, 1);
    for (uint32_t i = 0; i < 2; i++) cr_assert_eq(r->peers[i].kind, GW_PATH_TCP);
    gw_op add = {
        .kind = GW_OP_FETCH_ADD, .peer = rig_id(1), .fence = rig_fence(1), .region = WORDS, .operand = 1};
    cr_assert_eq(rig_do(&r->peers[0], &add).value, 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (uint32_t i = 0; i < 2; i++) {
        rig_wait_ups(&r->peers[i], 2);
        cr_assert_eq(r->peers[i].kind, GW_PATH_SHM);
        cr_assert_eq(rig_downs(&r->peers[i]), 0);
    }
    cr_assert_eq(rig_do(&r->peers[0], &add).value, 1);
    vector v[2];
    for (uint32_t m = 0; m < 2; m++) {
        v[m] = vector_make(m, GW_SUM_I64, 100003);
        vector_start(r, m, 2, &v[m], GW_SUM_I64, 1, 0);
    }
    for (uint32_t m = 0; m < 2; m++) {
        vector_expect(r, m, GW_COLLECTIVE_OK, 1000);
        vector_check(&v[m], 2, GW_SUM_I64);
        vector_free(&v[m]);
    }
    rig_close(r);
}

/* The link is made anew while the path is excluded: the sides do not offer it then, and try it later. */
Test(fabric, a_path_is_tried_again_on_a_later_link) {
    const uint32_t kinds[] = {both, both};
    struct rlimit before;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (uint32_t leader = 0; leader < 2; leader++) {
        rig *r = rig_open_apart(kinds, 2, 1, true);
        r->connected = leave_a_descriptor;
        for (int links = 0; links < 2; links++) {
            rig_link(r, leader, 1 - leader);
            cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        }
        for (uint32_t i = 0; i < 2; i++) rig_wait_kind(&r->peers[i], GW_PATH_SHM);
        rig_close(r);
    }
}

/* One side excludes the path, and the other does not know that. */

enum { FRAME = GW_FRAME_BYTES };

static void send_note(int fd, const gw_path_note *note, const uint8_t *payload, uint32_t count) {
    uint8_t frame[FRAME];
    gw_path_note_encode(note, frame + 8);
    seal_frame_of(count, frame);
    cr_assert_eq(send(fd, frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    cr_assert_eq(send(fd, payload, count, MSG_NOSIGNAL), count);
}

/* Takes the next path message, which must be of this kind; returns the bytes of its payload. */
static uint32_t expect_note(int fd, gw_path_what what, uint8_t payload[GW_SMALL_BYTES]) {
    gw_path_note note;
    uint8_t frame[FRAME];
    cr_assert_eq(recv(fd, frame, sizeof frame, MSG_WAITALL), sizeof frame);
    uint32_t count = (uint32_t)(frame[0] | frame[1] << 8);
    cr_assert(gw_path_note_decode(frame + 8, &note) && count <= GW_SMALL_BYTES);
    if (count > 0)
        cr_assert_eq(recv(fd, payload, count, MSG_WAITALL), count); /* a read of 0 bytes would wait */
    cr_assert_eq(note.what, what);
    return count;
}

/* Makes peer 0 exclude shared memory with peer 1 for a while, after a failed try; the test plays peer 1. */
static void let_it_fail(rig *r) {
    int fds[3];
    uint8_t hello[GW_PATH_HELLO_BYTES], payload[GW_SMALL_BYTES];
    gw_path_hello ours = {.kinds = both, .cards[GW_PATH_SHM] = {.count = 1, .bytes = {0xee}}};
    gw_peer_id other = rig_id(1);
    rig_link_raw(r, 0, &other, fds);
    (void)expect_note(fds[0], GW_PATH_HELLO, payload);
    send_note(fds[0], &(gw_path_note){.what = GW_PATH_HELLO}, hello, gw_path_hello_encode(&ours, hello));
    send_note(fds[0], &(gw_path_note){.what = GW_PATH_TRY, .kind = GW_PATH_SHM, .serial = 1},
              (const uint8_t *)"nonsense", 8);
    (void)expect_note(fds[0], GW_PATH_FAIL, payload);
    send_note(fds[0], &(gw_path_note){.what = GW_PATH_USE, .kind = GW_PATH_TCP}, NULL, 0);
    rig_wait_ups(&r->peers[0], 1);
    for (int i = 0; i < 3; i++) close(fds[i]);
}

Test(fabric, who_leads_says_that_it_is_tcp_where_the_other_leaves_all_paths_alone) {
    const uint32_t kinds[] = {both, both};
    for (uint32_t leader = 0; leader < 2; leader++) {
        rig *r = rig_open_apart(kinds, 2, 1, false);
        let_it_fail(r);
        rig_connect(r, leader, 1 - leader);
        rig_wait_ups(&r->peers[1], 1);
        rig_wait_ups(&r->peers[0], 2);
        for (uint32_t i = 0; i < 2; i++) rig_wait_kind(&r->peers[i], GW_PATH_SHM);
        rig_close(r);
    }
}

/* A leading peer, which the test plays. */

/* The place on a card of shared memory of the network namespace and of the socket's name. */
enum { CARD_NETWORK = 1 + 36, CARD_NAME = CARD_NETWORK + 8 + 4, TOKEN = 16 };

static const gw_path_note use_shm = {.what = GW_PATH_USE, .kind = GW_PATH_SHM, .serial = 1};

/* Makes peer 0 open its endpoint of shared memory. */
static void try_shm(rig *r, const gw_peer_id *leader, int fds[3], gw_path_card *theirs) {
    static uint8_t payload[GW_SMALL_BYTES];
    gw_path_hello hello;
    rig_link_raw(r, 0, leader, fds);
    uint32_t count = expect_note(fds[0], GW_PATH_HELLO, payload);
    cr_assert(gw_path_hello_decode(payload, count, &hello));
    *theirs = hello.cards[GW_PATH_SHM];
    send_note(fds[0], &(gw_path_note){.what = GW_PATH_HELLO}, payload, count); /* we are alike */
    send_note(fds[0], &(gw_path_note){.what = GW_PATH_TRY, .kind = GW_PATH_SHM, .serial = 1}, theirs->bytes,
              theirs->count);
}

/* Does what the endpoint of the leading side does (net/shm/shm.c). */
static void join_shm(int fd, const gw_path_card *theirs) {
    static uint8_t token[GW_SMALL_BYTES];
    static gw_door_packet packet = {.count = 6 + TOKEN, .fd_count = 3, .bytes = {2, 1, 3}};
    gw_err err;
    cr_assert_eq(expect_note(fd, GW_PATH_TELL, token), TOKEN);
    memcpy(packet.bytes + 6, token, TOKEN);
    packet.fds[0] = memfd_create("rings", MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(packet.fds[0], (off_t)gw_shm_rings_bytes(2)), 0);
    cr_assert_eq(fcntl(packet.fds[0], F_ADD_SEALS, F_SEAL_SHRINK), 0);
    packet.fds[1] = eventfd(0, 0);
    packet.fds[2] = eventfd(0, 0);
    int door = gw_door_connect((const char *)theirs->bytes + CARD_NAME, &err), got;
    cr_assert(door >= 0 && gw_door_send(door, &packet, &err), "%s", err.text);
    gw_door_drop(&packet);
    while ((got = gw_door_receive(door, &packet, &err)) == 0) sched_yield();
    cr_assert(got == 1 && packet.bytes[1] == 2 && packet.fd_count == 2); /* JOINED, with its bells */
    gw_door_drop(&packet);
    close(door);
}

Test(fabric, who_uses_a_path_too_early_or_twice_loses_the_link) {
    rig *r = rig_open_over(both, 1, 1, false);
    gw_peer_id other = rig_id(6);
    gw_path_card theirs;
    int fds[3];
    for (uint32_t twice = 0; twice < 2; twice++) {
        try_shm(r, &other, fds, &theirs);
        if (twice) join_shm(fds[0], &theirs);
        for (uint32_t i = 0; i <= twice; i++) send_note(fds[0], &use_shm, NULL, 0);
        rig_wait_downs(&r->peers[0], twice + 1);
        cr_assert_eq(r->peers[0].ups, twice);
        for (int i = 0; i < 3; i++) close(fds[i]);
    }
    rig_close(r);
}

/* What was requested by the first try's endpoint would be given to the second's. */
Test(fabric, who_tries_twice_under_one_number_loses_the_link) {
    static uint8_t payload[GW_SMALL_BYTES];
    rig *r = rig_open_over(both, 1, 1, false);
    gw_peer_id other = rig_id(6);
    gw_path_card theirs;
    int fds[3];
    for (uint32_t links = 1; links <= 2; links++) { /* serial numbers begin anew with each link */
        try_shm(r, &other, fds, &theirs);
        (void)expect_note(fds[0], GW_PATH_TELL, payload);
        send_note(fds[0], &(gw_path_note){.what = GW_PATH_TRY, .kind = GW_PATH_SHM, .serial = 1},
                  theirs.bytes, theirs.count);
        cr_assert_leq(recv(fds[0], payload, sizeof payload, 0), 0);
        rig_wait_downs(&r->peers[0], links);
        for (int i = 0; i < 3; i++) close(fds[i]);
    }
    rig_close(r);
}

static uint64_t cpu_ns(void) {
    struct timespec used;
    cr_assert_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

Test(fabric, who_knocks_while_descriptors_are_used_up_keeps_no_processor_busy) {
    const struct timespec while_ns = {.tv_nsec = 400000000};
    struct rlimit before;
    rig *r = rig_open_over(both, 1, 1, false);
    gw_peer_id other = rig_id(6);
    gw_path_card theirs;
    gw_door_packet packet = {.count = 2, .bytes = {2, 1}};
    gw_err err;
    int fds[3], got;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    try_shm(r, &other, fds, &theirs);
    leave_a_descriptor();
    int door = gw_door_connect((const char *)theirs.bytes + CARD_NAME, &err);
    cr_assert_geq(door, 0, "%s", err.text);
    uint64_t used_ns = cpu_ns();
    clock_nanosleep(CLOCK_MONOTONIC, 0, &while_ns, NULL);
    cr_assert_lt(cpu_ns() - used_ns, (uint64_t)while_ns.tv_nsec / 40);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_assert(gw_door_send(door, &packet, &err), "%s", err.text); /* garbage: the visitor is dropped */
    while ((got = gw_door_receive(door, &packet, &err)) == 0) sched_yield();
    cr_assert(got < 0 && err.code == GW_E_PEER, "%s", err.text);
    rig_close(r);
    close(door);
    for (int i = 0; i < 3; i++) close(fds[i]);
}

/* A link that stood was ended by one that did not come up. */
Test(fabric, the_number_of_a_link_that_replaced_another_in_vain_is_higher) {
    static uint8_t payload[GW_PATH_HELLO_BYTES];
    rig *r = rig_open_over(both, 1, 1, false);
    gw_peer_id other = rig_id(6);
    gw_path_hello hello = {.kinds = GW_FABRIC_TCP};
    int fds[2][3];
    rig_link_raw(r, 0, &other, fds[0]);
    send_note(fds[0][0], &(gw_path_note){.what = GW_PATH_HELLO}, payload,
              gw_path_hello_encode(&hello, payload));
    rig_wait_ups(&r->peers[0], 1);
    rig_link_raw(r, 0, &other, fds[1]);
    for (int i = 0; i < 3; i++) close(fds[1][i]);
    rig_wait_downs(&r->peers[0], 1);
    cr_assert_gt(r->peers[0].down_link, r->peers[0].up_link);
    rig_close(r);
    for (int i = 0; i < 3; i++) close(fds[0][i]);
}

/* The socket's name is not known in the other namespace, so a try would fail. */
Test(fabric, shared_memory_is_not_tried_with_another_network_namespace) {
    static uint8_t payload[GW_SMALL_BYTES];
    rig *r = rig_open_over(both, 1, 1, false);
    gw_peer_id other = rig_id(6);
    gw_path_hello hello;
    int fds[3];
    rig_link_raw_dialled(r, 0, &other, fds);
    cr_assert(gw_path_hello_decode(payload, expect_note(fds[0], GW_PATH_HELLO, payload), &hello));
    hello.cards[GW_PATH_SHM].bytes[CARD_NETWORK] ^= 1;
    send_note(fds[0], &(gw_path_note){.what = GW_PATH_HELLO}, payload, gw_path_hello_encode(&hello, payload));
    (void)expect_note(fds[0], GW_PATH_USE, payload);
    rig_wait_ups(&r->peers[0], 1);
    cr_assert_eq(r->peers[0].kind, GW_PATH_TCP);
    rig_close(r);
    for (int i = 0; i < 3; i++) close(fds[i]);
}

static atomic_uint told_once,
    told_again; /* how often the log says that shared memory was tried again and failed */

static void hear(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)room;
    if (strstr(text, "was tried again") != NULL)
        atomic_fetch_add(level == GW_INFO ? &told_once : &told_again, 1);
}

/* The other endpoint would wait. What is logged at first only does not help if it does not get better. */
Test(fabric, who_leads_says_when_a_try_comes_to_nothing) {
    static uint8_t payload[GW_SMALL_BYTES];
    int fds[3];
    gw_peer_id other = rig_id(6);
    gw_log_set_sink(hear, NULL);
    rig *r = rig_open_hasty(&both, 1, 1, false, HASTE_NS);
    rig_link_raw_dialled(r, 0, &other, fds);
    leave_a_descriptor();
    for (int tries = 0; tries < 4; tries++) {
        uint32_t count = expect_note(fds[0], GW_PATH_HELLO, payload);
        send_note(fds[0], &(gw_path_note){.what = GW_PATH_HELLO}, payload, count); /* we are alike */
        (void)expect_note(fds[0], GW_PATH_TRY, payload);
        (void)expect_note(fds[0], GW_PATH_FAIL, payload);
        if (tries == 0) (void)expect_note(fds[0], GW_PATH_USE, payload);
        cr_expect_eq(atomic_load(&told_once), tries > 0 ? 1 : 0);
    }
    cr_expect_eq(atomic_load(&told_again), 2);
    rig_close(r);
    for (int i = 0; i < 3; i++) close(fds[i]);
}

/* The streams are open, and nothing ever comes on them. */
Test(fabric, a_link_that_the_other_side_does_not_settle_is_given_up) {
    rig *r = rig_open_hasty(&both, 1, 1, false, HASTE_NS);
    gw_peer_id leader = rig_id(6), follower = rig_id(7);
    int fds[2][3];
    rig_link_raw(r, 0, &leader, fds[0]);
    rig_link_raw_dialled(r, 0, &follower, fds[1]);
    rig_wait_downs(&r->peers[0], 2);
    cr_assert_eq(r->peers[0].ups, 0);
    rig_close(r);
    for (int i = 0; i < 6; i++) close(fds[i / 3][i % 3]);
}

static void expect_one_line(void *context, gw_level level, const char *room, const char *text) {
    (void)level, (void)room;
    if (strstr(text, "because") == NULL) return;
    atomic_fetch_add((atomic_uint *)context, 1);
    cr_expect_str_eq(strstr(text, "because"), "because??[2J");
}

/* Whether paths are settled here, or only TCP is allowed. */
Test(fabric, what_the_other_side_says_forges_no_lines_and_no_escapes) {
    static const char says[] = "because\n\033[2J";
    atomic_uint lines = 0;
    gw_log_set_sink(expect_one_line, &lines);
    const uint32_t kinds[] = {both, GW_FABRIC_TCP};
    for (unsigned i = 0; i < 2; i++) {
        uint8_t payload[GW_SMALL_BYTES];
        gw_peer_id other = rig_id(6);
        int fds[3];
        rig *r = rig_open_over(kinds[i], 1, 1, false);
        rig_link_raw(r, 0, &other, fds);
        if (kinds[i] == both) (void)expect_note(fds[0], GW_PATH_HELLO, payload);
        send_note(fds[0], &(gw_path_note){.what = GW_PATH_USE}, (const uint8_t *)says, sizeof says - 1);
        rig_wait_downs(&r->peers[0], 1);
        cr_expect_eq(atomic_load(&lines), i + 1);
        rig_close(r);
        for (int k = 0; k < 3; k++) close(fds[k]);
    }
    gw_log_set_sink(NULL, NULL);
}

/* The try has failed and nothing may be tried again: the other side no longer uses TCP. */
Test(fabric, a_try_that_is_over_is_not_waited_for) {
    static uint8_t card[GW_SMALL_BYTES], payload[GW_SMALL_BYTES];
    int fds[3];
    gw_peer_id other = rig_id(6);
    gw_path_hello ours;
    rig *r = rig_open_hasty(&both, 1, 1, false, HASTE_NS);
    rig_link_raw_dialled(r, 0, &other, fds);
    for (uint32_t tries = 1; tries <= 2; tries++) {
        uint32_t count = expect_note(fds[0], GW_PATH_HELLO, card);
        cr_assert(gw_path_hello_decode(card, count, &ours)); /* we are alike */
        if (tries == 2) ours.kinds = GW_FABRIC_SHM;
        send_note(fds[0], &(gw_path_note){.what = GW_PATH_HELLO}, payload,
                  gw_path_hello_encode(&ours, payload));
        (void)expect_note(fds[0], GW_PATH_TRY, payload);
        send_note(fds[0], &(gw_path_note){.what = GW_PATH_FAIL, .kind = GW_PATH_SHM, .serial = tries}, NULL,
                  0);
        (void)expect_note(fds[0], GW_PATH_FAIL, payload);
        if (tries == 1) (void)expect_note(fds[0], GW_PATH_USE, payload);
    }
    struct timeval longer = {.tv_usec = 3 * HASTE_NS / 1000};
    cr_assert_eq(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &longer, sizeof longer), 0);
    cr_assert_lt(recv(fds[0], payload, 1, 0), 0);
    rig_close(r);
    for (int i = 0; i < 3; i++) close(fds[i]);
}

/* Closes while the two sides are still settling. */
Test(fabric, links_may_end_at_any_moment_of_settling) {
    const uint32_t kinds[] = {both, both};
    for (uint32_t i = 0; i < 60; i++) {
        rig *r = rig_open_apart(kinds, 2, 1, false);
        rig_connect(r, i % 2, 1 - i % 2);
        gw_peer_id other = rig_id(1);
        for (uint32_t spin = 0; spin < i * 2000; spin++) __asm__ volatile("");
        if (i % 3 == 0) gw_transport_unlink(r->peers[0].transport, &other);
        if (i % 3 == 1) rig_connect(r, i % 2, 1 - i % 2);
        rig_close(r);
    }
}

/* The loop of a thread. */
typedef struct meddling {
    gw_transport *transport;
    atomic_bool over;
} meddling;

static void *abandon_again_and_again(void *context) {
    meddling *m = context;
    gw_peer_id nobody = rig_id(9);
    while (!atomic_load(&m->over)) gw_transport_abandon(m->transport, &nobody);
    return NULL;
}

Test(fabric, links_settle_while_operations_on_others_are_abandoned) {
    const uint32_t kinds[] = {both, both};
    pthread_t thread;
    rig *r = rig_open_apart(kinds, 2, 1, false);
    meddling m = {.transport = r->peers[0].transport};
    cr_assert_eq(pthread_create(&thread, NULL, abandon_again_and_again, &m), 0);
    for (uint32_t i = 0; i < 200; i++) rig_link(r, i % 2, 1 - i % 2);
    atomic_store(&m.over, true);
    pthread_join(thread, NULL);
    rig_close(r);
}

/* A fence hands out words, which must not arrive before the descriptors with which a path begins. */
Test(fabric, a_path_is_established_while_the_fence_moves) {
    const uint32_t kinds[] = {both, both};
    rig *r = rig_open_apart(kinds, 2, 1, false);
    for (uint32_t i = 1; i <= 50; i++) {
        rig_connect(r, 1, 0);
        for (uint32_t k = 0; k < 20; k++) rig_fence_all(r, i * 20 + k);
        for (uint32_t p = 0; p < 2; p++) {
            rig_wait_ups(&r->peers[p], i);
            cr_assert_eq(r->peers[p].kind, GW_PATH_SHM, "link %u", i);
        }
    }
    rig_close(r);
}

/* Waits until all threads have done what they were told before. */
static void catch_up(rig *r, uint32_t epoch) {
    gw_op add = {.kind = GW_OP_FETCH_ADD, .peer = rig_id(1), .fence = rig_fence(1), .region = WORDS},
          fetch = {.kind = GW_OP_FETCH, .peer = rig_id(1), .name.bytes = {1}};
    cr_assert_eq(rig_do(&r->peers[0], &add).status, GW_OP_OK);
    cr_assert_eq(rig_do(&r->peers[0], &fetch).status, GW_OP_NOTFOUND);
    vector v[2];
    for (uint32_t m = 0; m < 2; m++) {
        v[m] = vector_make(m, GW_SUM_I64, 10);
        vector_start(r, m, 2, &v[m], GW_SUM_I64, epoch, 0);
    }
    for (uint32_t m = 0; m < 2; m++) {
        vector_expect(r, m, GW_COLLECTIVE_OK, epoch * 1000);
        vector_free(&v[m]);
    }
}

static void meet_and_forget(rig *r, uint32_t identities) {
    for (uint32_t i = 0; i < identities; i++) {
        gw_peer_id other = rig_id(5);
        int fds[3];
        memcpy(other.bytes, &i, sizeof i);
        rig_link_raw(r, 0, &other, fds);
        gw_transport_unlink(r->peers[0].transport, &other);
        for (int k = 0; k < 3; k++) close(fds[k]);
    }
    rig_link(r, 0, 1); /* the control thread has come this far */
}

Test(fabric, who_was_unlinked_is_not_remembered) {
    enum { MET = 500, MOST_BYTES = MET * 2000 };
    for (int path = 0; path < 2; path++) {
        rig *r = rig_open_over(path ? both : GW_FABRIC_TCP, 2, 1, false);
        gw_err err;
        cr_assert(gw_transport_share_words(r->peers[1].transport, WORDS, 1, &err));
        rig_fence_all(r, 1);
        meet_and_forget(r, 50);
        catch_up(r, 1);
        size_t before = mallinfo2().uordblks;
        meet_and_forget(r, MET);
        catch_up(r, 2);
        size_t after = mallinfo2().uordblks;
        cr_assert_lt(after, before + MOST_BYTES, "%zu bytes for each", (after - before) / MET);
        rig_close(r);
    }
}
