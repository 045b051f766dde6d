/* A node's data connections: what it takes to stand. */
#include "net/fabric.h"
#include "net/path_message.h"
#include "tools/godwit/node_wires.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAMS = 3, FRAME = 8 + GW_LANE_HEADER, PATIENCE_S = 60 };

static void on_done(void *context, const gw_collective_result *result) {
    (void)context, (void)result;
}

/* The streams of a link that the other peer has dialled; the test holds its ends. */
static void adopt_streams(gw_wires *wires, const gw_peer_id *other, uint64_t attempt, int fds[STREAMS]) {
    static const uint8_t key[32];
    for (uint32_t i = 0; i < STREAMS; i++) {
        int pair[2];
        gw_err err;
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        cr_assert_eq(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
        fds[i] = pair[0];
        gw_detached stream = {.fd = pair[1],
                              .remote = {.id = *other,
                                         .kind = GW_STREAM_DATA,
                                         .word = gw_fabric_stream_word(attempt, i, STREAMS)}};
        gw_cipher_start(&stream.seal, GW_ALGORITHM_PLAIN, key, GW_RECORD_DATA);
        gw_cipher_start(&stream.open, GW_ALGORITHM_PLAIN, key, GW_RECORD_DATA);
        cr_assert(gw_fabric_adopt(gw_wires_transport(wires), &stream, &err), "%s", err.text);
    }
}

static void say_tcp_alone(int fd) {
    uint8_t frame[FRAME + GW_PATH_HELLO_BYTES] = {1};
    gw_path_hello hello = {.kinds = GW_FABRIC_TCP};
    uint32_t count = gw_path_hello_encode(&hello, frame + FRAME);
    frame[4] = (uint8_t)count;
    gw_path_note_encode(&(gw_path_note){.what = GW_PATH_HELLO}, frame + 8);
    cr_assert_eq(send(fd, frame, FRAME + count, 0), (ssize_t)(FRAME + count));
}

/* Turns the loop until the connection goes so (0: it does not stand). */
static void turn_until(gw_loop *loop, gw_wires *wires, const gw_peer_id *other, gw_path_kind kind) {
    uint64_t end = gw_now_ns() + PATIENCE_S * UINT64_C(1000000000);
    while (gw_wires_path(wires, other) != kind) {
        cr_assert_lt(gw_now_ns(), end, "the connection goes by %d", (int)gw_wires_path(wires, other));
        gw_loop_turn(loop, 1000000);
    }
}

Test(node_wires, nothing_stands_when_a_newer_link_did_not_come_up) {
    static const uint8_t seed[32] = {1};
    static const gw_keyring no_keys;
    gw_identity identity;
    gw_err err;
    int fds[2][STREAMS];
    cr_assert_geq(sodium_init(), 0);
    gw_identity_from_seed(seed, 1, 1, &identity);
    gw_local local = {.identity = &identity, .keyring = &no_keys};
    gw_remote remote = {.id = {{0}}, .incarnation = {.boot = 1, .nonce = 1}}; /* the lower one: it dials */
    gw_wires_options how = {.kinds = GW_FABRIC_TCP | GW_FABRIC_SHM, .time_scale_percent = 100};
    gw_fetch_provider provider = {0};
    gw_loop *loop = gw_loop_open(&err);
    gw_wires *wires = gw_wires_open(loop, &local, &how, &provider, on_done, NULL, &err);
    cr_assert_not_null(wires, "%s", err.text);
    gw_wires_follow(wires, &remote);
    adopt_streams(wires, &remote.id, 1, fds[0]);
    say_tcp_alone(fds[0][0]);
    turn_until(loop, wires, &remote.id, GW_PATH_TCP);
    adopt_streams(wires, &remote.id, 2, fds[1]);
    for (uint32_t i = 0; i < STREAMS; i++) close(fds[1][i]);
    turn_until(loop, wires, &remote.id, 0);
    gw_wires_stop(wires);
    gw_wires_close(wires);
    gw_loop_close(loop);
    for (uint32_t i = 0; i < STREAMS; i++) close(fds[0][i]);
}
