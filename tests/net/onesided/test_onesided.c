/* One-sided operations: registering regions, and what a peer may send that breaks the protocol.
 * tests/net/conformance/words.c tests what every kind of path must do. */
#include "tests/net/data_rig.h"

#include "net/onesided/requester.h"
#include "tests/net/sealed_frame.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORDS = 1, DATA = 2, WORD_COUNT = 64, WORD_BYTES = WORD_COUNT * 8 };

/* Two peers; peer 1 has the regions, peer 0 requests. */
static rig *two_peers(bool sealed, void *data, uint64_t bytes) {
    gw_err err;
    rig *r = rig_open(2, 1, sealed);
    cr_assert(gw_transport_share_words(r->peers[1].transport, WORDS, WORD_COUNT, &err));
    if (data != NULL) cr_assert(gw_transport_register(r->peers[1].transport, DATA, data, bytes, &err));
    rig_fence_all(r, 1);
    return r;
}

static gw_op op_on(uint32_t peer, gw_op_kind kind, uint64_t offset) {
    static uint64_t token;
    return (gw_op){.kind = kind,
                   .token = ++token,
                   .peer = rig_id(peer),
                   .fence = rig_fence(1),
                   .region = WORDS,
                   .offset = offset};
}

Test(onesided, registering_refuses_what_makes_no_sense) {
    rig *r = rig_open(1, 1, false);
    gw_transport *t = r->peers[0].transport;
    gw_err err;
    static const uint8_t data[8];
    cr_assert(!gw_transport_register(t, GW_MAX_REGIONS, data, sizeof data, &err));
    cr_assert_eq(err.code, GW_E_LIMIT);
    cr_assert(!gw_transport_register(t, 1, NULL, 8, &err));
    cr_assert(!gw_transport_register(t, 1, data, 0, &err));
    cr_assert(gw_transport_register(t, 1, data, 8, &err));
    cr_assert(!gw_transport_register(t, 1, data, 8, &err));
    gw_transport_withdraw(t, 1);
    cr_assert(gw_transport_register(t, 1, data, 8, &err));
    cr_assert(!gw_transport_share_words(t, 1, 8, &err) && err.code == GW_E_INVALID);
    cr_assert(!gw_transport_share_words(t, GW_MAX_REGIONS, 8, &err) && err.code == GW_E_LIMIT);
    cr_assert(!gw_transport_share_words(t, 2, 0, &err) && err.code == GW_E_LIMIT);
    cr_assert(!gw_transport_share_words(t, 2, UINT64_MAX / 8, &err) && err.code == GW_E_LIMIT);
    cr_assert(gw_transport_share_words(t, 2, 8, &err));
    cr_assert(!gw_transport_share_words(t, 2, 8, &err) && err.code == GW_E_INVALID);
    cr_assert(!gw_transport_register(t, 2, data, 8, &err) && err.code == GW_E_INVALID);
    gw_transport_withdraw(t, 2); /* words regions remain */
    cr_assert_eq(gw_transport_word_load(t, 2, 7), 0);
    rig_close(r);
}

Test(onesided, a_broken_link_leaves_the_outcome_unknown) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id silent = rig_id(3);
    int fds[3];
    uint8_t frame[GW_FRAME_BYTES];
    rig_link_raw(r, 0, &silent, fds);
    gw_op op = op_on(3, GW_OP_CAS, 0);
    gw_transport_post(r->peers[0].transport, &op);
    cr_assert_eq(recv(fds[0], frame, sizeof frame, MSG_WAITALL), sizeof frame); /* it was sent */
    close(fds[0]);
    gw_completion c = rig_completion(&r->peers[0]);
    cr_assert(c.status == GW_OP_UNKNOWN && c.token == op.token);
    rig_wait_downs(&r->peers[0], 1);
    rig_close(r);
    close(fds[1]);
    close(fds[2]);
}

/* What a hostile or broken peer may send on any of a link's streams. */
static void send_garbage(uint32_t stream, const uint8_t *bytes, size_t count) {
    rig *r = two_peers(false, NULL, 0);
    gw_peer_id mad = rig_id(5);
    int fds[3];
    rig_link_raw(r, 0, &mad, fds);
    cr_assert_eq(send(fds[stream], bytes, count, MSG_NOSIGNAL), (ssize_t)count);
    rig_wait_downs(&r->peers[0], 1);
    gw_op op = op_on(1, GW_OP_FETCH_ADD, 0); /* other peers are still served */
    cr_assert_eq(rig_do(&r->peers[0], &op).status, GW_OP_OK);
    rig_close(r);
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
}

Test(onesided, garbage_ends_the_link) {
    uint8_t frame[GW_FRAME_BYTES];
    memset(frame, 0xee, sizeof frame);
    for (uint32_t stream = 0; stream < 3; stream++) send_garbage(stream, frame, sizeof frame);
    memset(frame, 0, sizeof frame);
    seal_frame(frame); /* a frame, but of no type */
    for (uint32_t stream = 0; stream < 3; stream++) send_garbage(stream, frame, sizeof frame);
    frame[8] = 2; /* a reply to nothing */
    frame[9] = GW_OP_READ;
    frame[10] = GW_OP_OK;
    frame[11] = 1;
    seal_frame(frame);
    for (uint32_t stream = 0; stream < 2; stream++) send_garbage(stream, frame, sizeof frame);
    seal_frame_of(0xff000000, frame); /* an oversized payload */
    send_garbage(0, frame, sizeof frame);
    memset(frame, 0, sizeof frame);
    frame[8] = 1;
    frame[9] = GW_OP_CAS;
    seal_frame_of(8, frame); /* a CAS with a payload */
    send_garbage(0, frame, sizeof frame);
    frame[9] = GW_OP_WRITE; /* a WRITE whose payload is not as long as its header says */
    seal_frame(frame);
    send_garbage(0, frame, sizeof frame);
}

/* FETCHes are refused on the stream of small operations. */
Test(onesided, a_fetch_on_the_stream_of_small_operations_finds_nothing) {
    rig *r = two_peers(false, NULL, 0);
    gw_peer_id mad = rig_id(5);
    gw_request fetch = {.kind = GW_OP_FETCH, .id = 1, .name.bytes = {7}, .capacity = 1 << 20}, request;
    gw_reply reply = {0};
    uint8_t frame[GW_FRAME_BYTES];
    int fds[3];
    rig_link_raw(r, 0, &mad, fds);
    gw_request_encode(&fetch, frame + 8);
    seal_frame_of(0, frame);
    cr_assert_eq(send(fds[0], frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    cr_assert_eq(recv(fds[0], frame, sizeof frame, MSG_WAITALL), sizeof frame);
    cr_assert_eq(gw_header_decode(frame + 8, &request, &reply), GW_HEADER_REPLY);
    cr_assert_eq(reply.status, GW_OP_NOTFOUND);
    gw_op op = op_on(1, GW_OP_FETCH_ADD, 0); /* other peers are still served */
    cr_assert_eq(rig_do(&r->peers[0], &op).status, GW_OP_OK);
    rig_close(r);
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
}

static void send_piece(int fd, const gw_reply *reply, uint32_t bytes) {
    static const uint8_t payload[64 << 10] = {0};
    uint8_t frame[GW_FRAME_BYTES];
    gw_reply_encode(reply, frame + 8);
    seal_frame_of(bytes, frame);
    cr_assert_eq(send(fd, frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    (void)send(fd, payload, bytes, MSG_NOSIGNAL); /* the header may already end the link */
}

enum { ASKED = 1000, BEHIND = 64 << 10 };

typedef struct piece {
    gw_op_status status;
    uint64_t value, offset;
    uint32_t bytes;
} piece;

/* Answers a FETCH of so many bytes by these pieces, of which one would write behind its buffer. */
static void expect_refused(const piece *pieces, uint32_t count) {
    static uint8_t buffer[ASKED + BEHIND], canary[BEHIND];
    memset(buffer, 0xcc, sizeof buffer);
    memset(canary, 0xcc, sizeof canary);
    rig *r = rig_open(1, 1, false);
    gw_peer_id mad = rig_id(5);
    gw_request request;
    gw_reply reply;
    uint8_t frame[GW_FRAME_BYTES];
    int fds[3];
    rig_link_raw(r, 0, &mad, fds);
    gw_op op = op_on(5, GW_OP_FETCH, 0);
    op.buffer = buffer;
    op.bytes = ASKED;
    gw_transport_post(r->peers[0].transport, &op);
    cr_assert_eq(recv(fds[1], frame, sizeof frame, MSG_WAITALL), sizeof frame);
    cr_assert_eq(gw_header_decode(frame + 8, &request, &reply), GW_HEADER_REQUEST);
    for (uint32_t i = 0; i < count; i++) {
        reply = (gw_reply){.kind = GW_OP_FETCH,
                           .status = pieces[i].status,
                           .id = request.id,
                           .value = pieces[i].value,
                           .offset = pieces[i].offset};
        send_piece(fds[1], &reply, pieces[i].bytes);
    }
    shutdown(fds[1], SHUT_WR); /* a peer that accepted everything finds the end of the link behind it */
    gw_completion c = rig_completion(&r->peers[0]);
    cr_assert(c.status == GW_OP_UNKNOWN && c.token == op.token);
    rig_wait_downs(&r->peers[0], 1);
    cr_assert_arr_eq(buffer + ASKED, canary, sizeof canary);
    rig_close(r);
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
}

/* Every piece states the whole length. Memory behind the buffer must be safe if that length changes. */
Test(onesided, a_fetch_whose_length_changes_on_the_way_ends_the_link) {
    const piece pieces[] = {{GW_OP_OK, ASKED, 0, ASKED - 1}, {GW_OP_OK, 0, ASKED - 1, BEHIND}};
    expect_refused(pieces, 2);
}

/* The memory behind the buffer must be safe, too, if a piece in the middle reports a failure and brings
 * nothing. */
Test(onesided, a_fetch_that_goes_on_after_it_has_failed_ends_the_link) {
    const piece pieces[] = {
        {GW_OP_OK, ASKED, 0, ASKED - 1}, {GW_OP_UNAVAILABLE, 10, 0, 0}, {GW_OP_OK, 10, ASKED - 1, BEHIND}};
    expect_refused(pieces, 3);
}

enum { WINDOW = 8 /* requests of large transfers in flight */, FETCHED = 1000, READ_BYTES = 10000 };

/* A peer that answers when the test makes it. */
typedef struct patient {
    rig *r;
    int fds[3];
    uint8_t fetched[FETCHED], read[READ_BYTES];
} patient;

static void open_patient(patient *p) {
    gw_peer_id peer = rig_id(5);
    *p = (patient){.r = rig_open(1, 1, false)};
    rig_link_raw(p->r, 0, &peer, p->fds);
}

static void close_patient(patient *p) {
    rig_close(p->r);
    for (uint32_t i = 0; i < 3; i++) close(p->fds[i]);
}

static gw_op post(patient *p, gw_op_kind kind) {
    gw_op op = op_on(5, kind, 0);
    op.region = DATA;
    op.buffer = kind == GW_OP_FETCH ? p->fetched : p->read;
    op.bytes = kind == GW_OP_FETCH ? FETCHED : READ_BYTES;
    gw_transport_post(p->r->peers[0].transport, &op);
    return op;
}

/* Reads the peer's next request, which must be of this kind; returns its id. */
static uint64_t asked(const patient *p, gw_op_kind kind) {
    uint8_t frame[GW_FRAME_BYTES];
    gw_request request;
    gw_reply reply;
    cr_assert_eq(recv(p->fds[1], frame, sizeof frame, MSG_WAITALL), sizeof frame, "it is asked for nothing");
    cr_assert_eq(gw_header_decode(frame + 8, &request, &reply), GW_HEADER_REQUEST);
    cr_assert_eq(request.kind, kind);
    return request.id;
}

/* Requests a window of names, and abandons them when the peer has received the requests. */
static void fetch_in_vain(patient *p, uint64_t ids[WINDOW]) {
    rig_peer *peer = &p->r->peers[0];
    for (uint32_t i = 0; i < WINDOW; i++) post(p, GW_OP_FETCH);
    for (uint32_t i = 0; i < WINDOW; i++) ids[i] = asked(p, GW_OP_FETCH);
    gw_transport_abandon(peer->transport, NULL);
    for (uint32_t i = 0; i < WINDOW; i++) cr_assert_eq(rig_completion(peer).status, GW_OP_UNKNOWN);
}

static void read_well(patient *p) {
    gw_op op = post(p, GW_OP_READ);
    uint64_t id = asked(p, GW_OP_READ);
    send_piece(p->fds[1], &(gw_reply){GW_OP_READ, GW_OP_OK, true, id, 0, 0}, READ_BYTES);
    gw_completion c = rig_completion(&p->r->peers[0]);
    cr_assert(c.status == GW_OP_OK && c.token == op.token);
}

Test(onesided, fetches_that_were_given_up_leave_room_for_reads) {
    static uint8_t canary[FETCHED];
    uint64_t ids[WINDOW];
    patient p;
    open_patient(&p);
    memset(canary, 0xcc, sizeof canary);
    memset(p.fetched, 0xcc, sizeof p.fetched);
    fetch_in_vain(&p, ids);
    read_well(&p);
    for (uint32_t i = 0; i < WINDOW; i++) /* late answers are dropped and end no link */
        send_piece(p.fds[1], &(gw_reply){GW_OP_FETCH, GW_OP_OK, true, ids[i], FETCHED, 0}, FETCHED);
    read_well(&p);
    cr_expect_arr_eq(p.fetched, canary, sizeof canary);
    cr_expect_eq(rig_downs(&p.r->peers[0]), 0);
    close_patient(&p);
}

Test(onesided, when_a_peer_has_answered_none_of_many_fetches_the_link_ends) {
    uint64_t ids[WINDOW];
    patient p;
    open_patient(&p);
    for (uint32_t round = 1; round < GW_REQUESTER_WINDOW / WINDOW; round++) {
        fetch_in_vain(&p, ids);
        read_well(&p);
    }
    cr_expect_eq(rig_downs(&p.r->peers[0]), 0);
    fetch_in_vain(&p, ids);
    rig_wait_downs(&p.r->peers[0], 1);
    close_patient(&p);
}

/* The serving side: as many FETCHes as it may be sent wait for its disk, and it serves everything else. */
Test(onesided, a_provider_that_does_not_return_holds_up_nothing_but_fetches) {
    static uint8_t data[READ_BYTES], fetched[1 << 20], copy[READ_BYTES];
    rig *r = two_peers(false, data, sizeof data);
    rig_peer *p = &r->peers[0];
    gw_op fetch = op_on(1, GW_OP_FETCH, 0), read = op_on(1, GW_OP_READ, 0);
    fetch.name.bytes[0] = RIG_HELD;
    fetch.buffer = fetched;
    fetch.bytes = sizeof fetched;
    read.region = DATA;
    read.buffer = copy;
    read.bytes = sizeof copy;
    memset(data, 6, sizeof data);
    for (uint32_t given_up = 0; given_up + 1 < GW_REQUESTER_WINDOW; given_up += WINDOW - 1) {
        for (uint32_t i = 1; i < WINDOW; i++) gw_transport_post(p->transport, &fetch);
        cr_assert_eq(rig_do(p, &read).status,
                     GW_OP_OK); /* behind them, so that they have been requested by then */
        gw_transport_abandon(p->transport, NULL);
        for (uint32_t i = 1; i < WINDOW; i++) cr_assert_eq(rig_completion(p).status, GW_OP_UNKNOWN);
    }
    cr_assert_eq(rig_do(p, &read).status, GW_OP_OK);
    cr_expect_arr_eq(copy, data, sizeof data);
    rig_let_find(&r->peers[1]);
    fetch.name.bytes[0] = 7;
    gw_completion c = rig_do(p, &fetch);
    cr_expect(c.status == GW_OP_OK && c.value == sizeof fetched - 1 && fetched[c.value - 1] == 7);
    cr_expect_eq(rig_downs(p) + rig_downs(&r->peers[1]), 0);
    rig_close(r);
}
