/* Links of the TCP transport: how streams make, replace and end them; frames that arrive in pieces; records
 * that were tampered with. */
#include "tests/net/data_rig.h"

#include "net/data/request.h"
#include "net/rail/tcp_channel.h"
#include "tests/net/sealed_frame.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORDS = 1, FRAME = GW_FRAME_BYTES };

static gw_detached stream_of(const gw_peer_id *peer, uint64_t stream_label, int *other) {
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    *other = fds[1];
    gw_detached stream = {.fd = fds[0],
                          .remote = {.id = *peer, .kind = GW_STREAM_DATA, .label = stream_label}};
    gw_cipher_start(&stream.seal, GW_ALGORITHM_PLAIN, NULL, GW_RECORD_DATA);
    gw_cipher_start(&stream.open, GW_ALGORITHM_PLAIN, NULL, GW_RECORD_DATA);
    return stream;
}

static void expect_closed(int fd) {
    char byte;
    fcntl(fd, F_SETFL, 0);
    cr_assert_eq(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

Test(tcp, streams_that_make_no_sense_are_closed) {
    rig *r = rig_open(1, 1, false);
    gw_transport *t = r->peers[0].transport;
    gw_peer_id peer = rig_id(4);
    gw_err err;
    int other;
    gw_detached stream =
        stream_of(&peer, gw_fabric_stream_label(1, 0, 4), &other); /* another number of rails */
    cr_assert(!gw_fabric_adopt(t, &stream, &err) && err.code == GW_E_PEER);
    expect_closed(other);
    stream = stream_of(&peer, 1 << 16 | 3 << 8 | 3, &other); /* stream 3 of 3 */
    cr_assert(!gw_fabric_adopt(t, &stream, &err) && err.code == GW_E_PEER);
    expect_closed(other);
    stream = stream_of(&peer, gw_fabric_stream_label(1, 0, 3), &other);
    stream.remote.kind = GW_STREAM_CONTROL;
    cr_assert(!gw_fabric_adopt(t, &stream, &err) && err.code == GW_E_PEER);
    expect_closed(other);
    cr_assert_eq(r->peers[0].ups, 0);
    rig_close(r);
    gw_fabric_options options = {.kinds = GW_FABRIC_TCP, .rails = 0};
    cr_assert(!gw_fabric_open(&options, &t, &err) && err.code == GW_E_USAGE);
    options.rails = GW_FABRIC_RAILS + 1;
    cr_assert(!gw_fabric_open(&options, &t, &err) && err.code == GW_E_USAGE);
}

Test(tcp, a_new_attempt_pushes_out_the_streams_of_an_older_one) {
    rig *r = rig_open(1, 1, false);
    gw_transport *t = r->peers[0].transport;
    gw_peer_id peer = rig_id(4);
    gw_err err;
    int old[2], late, fresh[3], again;
    for (uint32_t i = 0; i < 2; i++) {
        gw_detached stream = stream_of(&peer, gw_fabric_stream_label(1, i, 3), &old[i]);
        cr_assert(gw_fabric_adopt(t, &stream, &err));
    }
    gw_detached stream = stream_of(&peer, gw_fabric_stream_label(2, 2, 3), &fresh[2]);
    cr_assert(gw_fabric_adopt(t, &stream, &err));
    expect_closed(old[0]);
    expect_closed(old[1]);
    stream = stream_of(&peer, gw_fabric_stream_label(1, 2, 3), &late);
    cr_assert(gw_fabric_adopt(t, &stream, &err));
    cr_assert_eq(r->peers[0].ups, 0);
    for (uint32_t i = 0; i < 2; i++) {
        stream = stream_of(&peer, gw_fabric_stream_label(2, i, 3), &fresh[i]);
        cr_assert(gw_fabric_adopt(t, &stream, &err));
    }
    cr_assert_eq(r->peers[0].ups, 1);
    expect_closed(late);
    stream = stream_of(&peer, gw_fabric_stream_label(3, 0, 3), &again); /* waits for the rest of it */
    cr_assert(gw_fabric_adopt(t, &stream, &err));
    gw_transport_unlink(t, &peer);
    expect_closed(again);
    for (uint32_t i = 0; i < 3; i++) expect_closed(fresh[i]);
    rig_close(r);
}

Test(tcp, a_newer_link_ends_the_older_one) {
    gw_err err;
    rig *r = rig_open(2, 1, false);
    cr_assert(gw_transport_share_words(r->peers[1].transport, WORDS, 1, &err));
    rig_fence_all(r, 1);
    gw_peer_id silent = rig_id(6);
    int fds[3];
    rig_link_raw(r, 0, &silent, fds);
    gw_op op = {.kind = GW_OP_CAS, .token = 1, .peer = silent, .fence = rig_fence(1), .region = WORDS};
    gw_transport_post(r->peers[0].transport, &op);
    uint8_t frame[FRAME];
    cr_assert_eq(recv(fds[0], frame, sizeof frame, MSG_WAITALL), sizeof frame);
    int next[3];
    rig_link_raw(r, 0, &silent, next);
    cr_assert_eq(rig_completion(&r->peers[0]).status, GW_OP_UNKNOWN); /* it was requested over the old link */
    for (uint32_t i = 0; i < 3; i++) expect_closed(fds[i]);
    op.token = 2;
    gw_transport_post(r->peers[0].transport, &op);
    cr_assert_eq(recv(next[0], frame, sizeof frame, MSG_WAITALL),
                 sizeof frame); /* this one goes over the new link */
    cr_assert_eq(rig_downs(&r->peers[0]), 0);
    for (uint32_t i = 0; i < 3; i++) close(next[i]);
    rig_wait_downs(&r->peers[0], 1);
    rig_close(r);
}

/* Makes the frame of a FETCH_ADD of 1 on the word. */
static void put_add(uint8_t frame[FRAME], uint64_t id) {
    gw_request request = {
        .kind = GW_OP_FETCH_ADD, .region = WORDS, .id = id, .fence = rig_fence(1), .operand = 1};
    gw_request_encode(&request, frame + 8);
    seal_frame_of(0, frame);
}

static rig *server_and_stranger(bool sealed, int fds[3]) {
    gw_err err;
    gw_peer_id members[] = {rig_id(0), rig_id(6)};
    gw_fence fence = rig_fence(1);
    rig *r = rig_open(1, 1, sealed);
    cr_assert(gw_transport_share_words(r->peers[0].transport, WORDS, 1, &err));
    rig_move_fence(&r->peers[0], &fence, members, 2);
    rig_link_raw(r, 0, &members[1], fds);
    return r;
}

Test(tcp, frames_may_come_in_bits_and_pieces) {
    int fds[3];
    rig *r = server_and_stranger(false, fds);
    for (uint64_t i = 0; i < 50; i++) {
        uint8_t frame[FRAME], answer[FRAME];
        put_add(frame, i);
        for (size_t at = 0; at < FRAME; at += 7) {
            size_t count = FRAME - at < 7 ? FRAME - at : 7;
            cr_assert_eq(send(fds[0], frame + at, count, 0), (ssize_t)count);
        }
        cr_assert_eq(recv(fds[0], answer, sizeof answer, MSG_WAITALL), sizeof answer);
        cr_assert_eq(answer[8 + 16], i); /* the value before */
    }
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    rig_close(r);
}

Test(tcp, too_many_requests_at_once_end_the_link) {
    int fds[3];
    rig *r = server_and_stranger(false, fds);
    uint8_t frame[FRAME], small[4096];
    int bytes = 4096;
    cr_assert_eq(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    put_add(frame, 1);
    /* The answers are not read: they pile up until the server ends the link. */
    while (send(fds[0], frame, sizeof frame, MSG_NOSIGNAL) == sizeof frame) continue;
    rig_wait_downs(&r->peers[0], 1);
    while (recv(fds[0], small, sizeof small, 0) > 0) continue;
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    rig_close(r);
}

enum { EMPTY = GW_RECORD_HEADER + GW_RECORD_TAG };

/* The test's side of a stream that the rig has sealed: the ciphers of the side that dialled. */
static void stranger_ciphers(gw_cipher *seal, gw_cipher *open) {
    static const uint8_t keys[2][32] = {{1}, {2}};
    gw_algorithm algorithm = gw_record_has_aes() ? GW_ALGORITHM_AES256GCM : GW_ALGORITHM_CHACHA20;
    gw_cipher_start(open, algorithm, keys[0], GW_RECORD_DATA);
    gw_cipher_start(seal, algorithm, keys[1], GW_RECORD_DATA);
}

/* Reads the payload of the next record; returns its bytes. */
static size_t receive_record(int fd, gw_cipher *open, uint8_t payload[FRAME]) {
    uint8_t record[FRAME + EMPTY];
    size_t bytes;
    bool more;
    gw_err err;
    cr_assert_eq(recv(fd, record, GW_RECORD_HEADER, MSG_WAITALL), GW_RECORD_HEADER);
    cr_assert(gw_record_measure(open, record, &bytes, &more, &err) && bytes <= sizeof record);
    cr_assert_eq(recv(fd, record + GW_RECORD_HEADER, bytes - GW_RECORD_HEADER, MSG_WAITALL),
                 (ssize_t)(bytes - GW_RECORD_HEADER));
    cr_assert(gw_record_open(open, record, bytes, payload, &err), "%s", err.text);
    return bytes - EMPTY;
}

static void send_record(int fd, gw_cipher *seal, const uint8_t *payload, size_t count) {
    uint8_t record[FRAME + EMPTY];
    gw_err err;
    cr_assert(gw_record_seal(seal, payload, count, false, record, &err));
    if (fd >= 0) cr_assert_eq(send(fd, record, count + EMPTY, MSG_NOSIGNAL), (ssize_t)count + EMPTY);
}

/* A man in the middle discards an answer that is waited for: heartbeats show that a record is missing. */
Test(tcp, heartbeats_show_that_an_answer_was_swallowed) {
    int fds[3];
    rig *r = server_and_stranger(true, fds);
    gw_cipher seal, open;
    uint8_t frame[FRAME];
    stranger_ciphers(&seal, &open);
    gw_op op = {.kind = GW_OP_CAS, .token = 1, .peer = rig_id(6), .fence = rig_fence(1), .region = WORDS};
    gw_transport_post(r->peers[0].transport, &op);
    size_t bytes, heartbeats = 0, requests = 0;
    while (heartbeats == 0 || requests == 0) {
        bytes = receive_record(fds[0], &open, frame);
        cr_assert(bytes == FRAME || bytes == 0);
        *(bytes == 0 ? &heartbeats : &requests) += 1;
    }
    cr_expect_eq(requests, 1);
    send_record(fds[0], &seal, frame, 0); /* does no harm: the next request is answered */
    put_add(frame, 1);
    send_record(fds[0], &seal, frame, FRAME);
    while (receive_record(fds[0], &open, frame) == 0) continue;
    cr_assert_eq(gw_transport_word_load(r->peers[0].transport, WORDS, 0), 1);
    cr_expect_eq(rig_downs(&r->peers[0]), 0);
    send_record(-1, &seal, frame, FRAME); /* the answer */
    send_record(fds[0], &seal, frame, 0);
    cr_expect_eq(rig_completion(&r->peers[0]).status, GW_OP_UNKNOWN);
    rig_wait_downs(&r->peers[0], 1);
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    rig_close(r);
}

/* The streams are up and acknowledge what they are sent, but nothing comes from them. Another link is as old,
 * and carries nothing but heartbeats. */
Test(tcp, who_says_nothing_at_all_loses_the_link_and_who_has_nothing_to_say_does_not) {
    gw_err err;
    int fds[3];
    gw_peer_id members[] = {rig_id(0), rig_id(1), rig_id(6)};
    gw_fence fence = rig_fence(1);
    rig *r = rig_open(2, 1, true);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(gw_transport_share_words(r->peers[i].transport, WORDS, 1, &err), "%s", err.text);
        rig_move_fence(&r->peers[i], &fence, members, 3);
    }
    rig_link_raw(r, 0, &members[2], fds);
    gw_op op = {.kind = GW_OP_FETCH_ADD, .peer = members[2], .fence = fence, .region = WORDS, .operand = 1};
    gw_transport_post(r->peers[0].transport, &op);
    cr_expect_eq(rig_completion(&r->peers[0]).status, GW_OP_UNKNOWN);
    rig_wait_downs(&r->peers[0], 1);
    op.peer = members[1];
    cr_expect_eq(rig_do(&r->peers[0], &op).status, GW_OP_OK);
    cr_expect_eq(rig_downs(&r->peers[0]), 1);
    cr_expect_eq(rig_downs(&r->peers[1]), 0);
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    rig_close(r);
}

static bool parks; /* whether the channel's user parks a message or drops it */

static bool nothing_to_say(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)context, (void)peer, (void)message;
    return false;
}

static gw_arrival park_or_drop(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)context, (void)peer, (void)message;
    return parks ? GW_ARRIVAL_PARK : GW_ARRIVAL_DROP;
}

static const gw_rail_user listener = {.next = nothing_to_say, .arrive = park_or_drop};

/* Does what the rail's thread does: receives what has come, and then calls heartbeat. */
static uint32_t silence_of(gw_channel *channel) {
    gw_err err;
    gw_flow flow;
    while ((flow = channel->ops->receive(channel, &listener, &err)) == GW_FLOW_MORE) continue;
    cr_assert_neq(flow, GW_FLOW_BROKEN, "%s", err.text);
    return channel->ops->heartbeat(channel);
}

/* Silence does not count while nothing is read, and a long record may take its time. */
Test(tcp, silence_is_what_does_not_come_where_it_would_be_read) {
    enum { LONG = 100000 };
    static uint8_t record[LONG + EMPTY];
    gw_peer_id peer = rig_id(4);
    gw_cipher seal, open;
    gw_err err;
    int other;
    uint8_t frame[FRAME] = {0};
    stranger_ciphers(&seal, &open);
    gw_detached stream = stream_of(&peer, 0, &other);
    stream.open = seal;
    stream.seal = open;
    gw_channel *channel = gw_tcp_channel_open(&stream, 0, GW_RAIL_PAYLOAD, &err);
    cr_assert_not_null(channel, "%s", err.text);
    for (uint32_t i = 1; i <= 3; i++) cr_expect_eq(silence_of(channel), i);
    send_record(other, &seal, frame, 0);
    cr_expect_eq(silence_of(channel), 1);
    seal_frame_of(LONG, frame);
    send_record(other, &seal, frame, FRAME);
    cr_expect_eq(silence_of(channel), 1);
    cr_assert(gw_record_seal(&seal, record + GW_RECORD_HEADER, LONG, false, record, &err));
    cr_assert_eq(send(other, record, 50000, 0), 50000);
    cr_expect_eq(silence_of(channel), 0, "half of a record");
    cr_assert_eq(send(other, record + 50000, 100, 0), 100);
    cr_expect_eq(silence_of(channel), 1, "some bytes of it are not enough");
    cr_assert_eq(send(other, record + 50100, sizeof record - 50100, 0), (ssize_t)sizeof record - 50100);
    cr_expect_eq(silence_of(channel), 0);
    parks = true;
    seal_frame_of(0, frame);
    send_record(other, &seal, frame, FRAME);
    for (int i = 0; i < 3; i++) cr_expect_eq(silence_of(channel), 0, "it is not read");
    parks = channel->in.parked = false;
    for (uint32_t i = 1; i <= 2; i++) cr_expect_eq(silence_of(channel), i);
    channel->ops->close(channel);
    close(other);
    gw_cipher_wipe(&seal);
    stream = stream_of(&peer, 0, &other);
    channel = gw_tcp_channel_open(&stream, 0, GW_RAIL_PAYLOAD, &err);
    cr_assert_not_null(channel, "%s", err.text);
    for (uint32_t i = 0; i < 9; i++)
        cr_expect_eq(silence_of(channel), 0, "without a key there are no heartbeats");
    channel->ops->close(channel);
    close(other);
}

Test(tcp, tampered_and_repeated_records_end_the_link) {
    for (int how = 0; how < 4; how++) {
        int fds[3];
        rig *r = server_and_stranger(true, fds);
        gw_cipher seal, open;
        gw_err err;
        uint8_t frame[FRAME], record[FRAME + EMPTY], answer[sizeof record];
        stranger_ciphers(&seal, &open);
        put_add(frame, 1);
        cr_assert(gw_record_seal(&seal, frame, FRAME, how == 3, record, &err));
        if (how == 1) record[20] ^= 1;
        cr_assert_eq(send(fds[0], record, sizeof record, 0), sizeof record);
        if (how == 0 || how == 2) {
            cr_assert_eq(recv(fds[0], answer, sizeof answer, MSG_WAITALL), sizeof answer);
            cr_assert_eq(gw_transport_word_load(r->peers[0].transport, WORDS, 0), 1);
            if (how == 0) { /* well sealed, but not a frame */
                cr_assert(gw_record_seal(&seal, frame, FRAME - 1, false, record, &err));
                cr_assert_eq(send(fds[0], record, sizeof record - 1, 0), sizeof record - 1);
            } else {
                cr_assert_eq(send(fds[0], record, sizeof record, 0), sizeof record);
            }
        }
        rig_wait_downs(&r->peers[0], 1);
        cr_assert_eq(gw_transport_word_load(r->peers[0].transport, WORDS, 0), how == 0 || how == 2 ? 1 : 0);
        for (uint32_t i = 0; i < 3; i++) close(fds[i]);
        rig_close(r);
    }
}
