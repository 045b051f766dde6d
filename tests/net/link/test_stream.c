/* Streams and listeners over real sockets of loopback: messages whole and in order, every end with its
 * reason, and strangers that send garbage, half frames or nothing. */
#include "net/link/stream.h"
#include "net/loop/address.h"
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One side of a stream, as its owner sees it. */
typedef struct end {
    gw_stream *stream; /* NULL: the stream has ended */
    gw_remote remote;
    bool ready;
    gw_closed why;
    gw_fault fault;
    char text[300];
    size_t messages, bytes, last_bytes;
    uint8_t last[64];
    uint64_t sum; /* the sum of all bytes that came */
    bool close_on_message, close_on_ready;
} end;

typedef struct world {
    gw_loop *loop;
    flock_peer server, client;
    gw_addr addr;
    gw_listener *listener;
    int udp;
    end accepted, dialled;
    size_t accepts, failures;
    gw_closed failed_why;
    gw_fault failed_fault;
    char failed_text[300];
} world;

static void on_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    end *e = context;
    cr_assert_eq(e->stream, stream);
    e->ready = true;
    e->remote = *remote;
    if (!e->close_on_ready) return;
    gw_stream_close(stream);
    e->stream = NULL;
}

static void on_message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    end *e = context;
    cr_assert_eq(e->stream, stream);
    e->messages++;
    e->bytes += count;
    e->last_bytes = count;
    memcpy(e->last, bytes, count < sizeof e->last ? count : sizeof e->last);
    for (size_t i = 0; i < count; i++) e->sum += bytes[i];
    if (!e->close_on_message) return;
    gw_stream_close(stream);
    e->stream = NULL;
}

static void on_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    end *e = context;
    cr_assert_eq(e->stream, stream);
    e->stream = NULL;
    e->why = why;
    e->fault = fault;
    snprintf(e->text, sizeof e->text, "%s", text);
}

static gw_stream_events events_of(end *e) {
    return (gw_stream_events){.context = e, .ready = on_ready, .message = on_message, .closed = on_closed};
}

static void on_accepted(void *context, gw_stream *stream, const gw_remote *remote) {
    world *w = context;
    w->accepts++;
    if (w->accepted.stream != NULL) {
        gw_stream_close(stream);
        return;
    }
    gw_stream_events events = events_of(&w->accepted);
    w->accepted.stream = stream;
    gw_stream_set_events(stream, &events);
    on_ready(&w->accepted, stream, remote);
}

static void on_failed(void *context, const gw_addr *from, gw_closed why, gw_fault fault, const char *text) {
    world *w = context;
    (void)from;
    w->failures++;
    w->failed_why = why;
    w->failed_fault = fault;
    snprintf(w->failed_text, sizeof w->failed_text, "%s", text);
}

static void open_world(world *w, const char *server_keys, const char *client_keys) {
    gw_err err;
    int tcp;
    memset(w, 0, sizeof *w);
    flock_hatch(&w->server, 1, server_keys);
    flock_hatch(&w->client, 2, client_keys);
    w->loop = gw_loop_open(&err);
    flock_need(w->loop != NULL, &err);
    flock_bind(&w->addr, &tcp, &w->udp);
    gw_listener_events events = {.context = w, .accepted = on_accepted, .failed = on_failed};
    w->server.local.listen = w->addr;
    w->client.local.listen = (gw_addr){.family = 4, .port = 4242};
    w->listener = gw_listener_open(w->loop, &w->server.local, tcp, &events, &err);
    flock_need(w->listener != NULL, &err);
}

static void close_world(world *w) {
    gw_stream_close(w->accepted.stream);
    gw_stream_close(w->dialled.stream);
    gw_listener_close(w->listener);
    close(w->udp);
    gw_loop_close(w->loop);
}

static void dial(world *w, gw_stream_kind kind) {
    gw_err err;
    gw_stream_events events = events_of(&w->dialled);
    w->dialled.stream = gw_stream_dial(w->loop, &w->client.local, &w->addr, kind, 7, &events, &err);
    flock_need(w->dialled.stream != NULL, &err);
}

static bool both_ready(void *context) {
    world *w = context;
    cr_assert_eq(w->failures, 0, "%s", w->failed_text);
    return w->accepted.ready && w->dialled.ready;
}

static void connect_world(world *w, const char *keys, gw_stream_kind kind) {
    open_world(w, keys, keys);
    dial(w, kind);
    flock_turn_until(w->loop, both_ready, w);
}

static bool dialled_over(void *context) {
    return ((world *)context)->dialled.stream == NULL;
}
static bool accepted_over(void *context) {
    return ((world *)context)->accepted.stream == NULL;
}
static bool both_over(void *context) {
    return dialled_over(context) && accepted_over(context);
}
static bool some_failure(void *context) {
    return ((world *)context)->failures > 0;
}

static void send_to(gw_stream *stream, const void *bytes, size_t count) {
    gw_err err;
    flock_need(gw_stream_send(stream, bytes, count, &err), &err);
}

Test(stream, both_ends_learn_who_is_there_and_where) {
    world w;
    connect_world(&w, "1", GW_STREAM_CONTROL);
    cr_assert(gw_peer_id_equal(&w.accepted.remote.id, &w.client.identity.id));
    cr_assert(gw_peer_id_equal(&w.dialled.remote.id, &w.server.identity.id));
    cr_assert(gw_addr_equal(&w.dialled.remote.listen, &w.addr));
    cr_assert(gw_addr_equal(&w.dialled.remote.from, &w.addr));
    gw_addr seen = flock_addr(4242); /* 0.0.0.0:4242, seen from here */
    cr_assert(gw_addr_equal(&w.accepted.remote.listen, &seen));
    cr_assert(w.dialled.remote.dialled && !w.accepted.remote.dialled);
    cr_assert_eq(w.accepted.remote.label, 7);
    close_world(&w);
}

enum { ROUND = 300 };

static bool all_came(void *context) {
    world *w = context;
    return w->accepted.messages == ROUND && w->dialled.messages == ROUND;
}

static void talks(const char *keys) {
    world w;
    connect_world(&w, keys, GW_STREAM_CONTROL);
    static uint8_t bytes[ROUND * 700];
    uint64_t sum = 0;
    size_t total = 0;
    randombytes_buf(bytes, sizeof bytes);
    for (size_t i = 0; i < ROUND; i++) {
        size_t count = i * i % (sizeof bytes);
        send_to(w.dialled.stream, bytes, count);
        send_to(w.accepted.stream, bytes, count);
        total += count;
        for (size_t k = 0; k < count; k++) sum += bytes[k];
    }
    flock_turn_until(w.loop, all_came, &w);
    cr_assert(w.accepted.bytes == total && w.dialled.bytes == total);
    cr_assert(w.accepted.sum == sum && w.dialled.sum == sum);
    close_world(&w);
}

Test(stream, messages_of_many_sizes_arrive_whole_both_ways_at_once) {
    talks("1");
    talks("");
}

static bool one_came(void *context) {
    return ((world *)context)->accepted.messages == 1;
}

Test(stream, the_longest_message_arrives_and_the_queue_has_a_limit) {
    world w;
    gw_err err;
    connect_world(&w, "1", GW_STREAM_DATA);
    uint8_t *bytes = calloc(1, GW_MESSAGE_BYTES);
    bytes[GW_MESSAGE_BYTES - 1] = 9;
    send_to(w.dialled.stream, bytes, GW_MESSAGE_BYTES);
    flock_turn_until(w.loop, one_came, &w);
    cr_assert_eq(w.accepted.last_bytes, GW_MESSAGE_BYTES);
    cr_assert_eq(w.accepted.sum, 9);
    cr_assert_eq(gw_stream_queued(w.dialled.stream), 0);
    bool full = false;
    for (int i = 0; i < 10 && !full; i++) {
        size_t queued = gw_stream_queued(w.dialled.stream);
        full = !gw_stream_send(w.dialled.stream, bytes, GW_MESSAGE_BYTES, &err);
        if (full) cr_assert_eq(gw_stream_queued(w.dialled.stream), queued, "nothing was queued");
    }
    cr_assert(full);
    cr_assert_eq(err.code, GW_E_LIMIT);
    cr_assert_leq(gw_stream_queued(w.dialled.stream), GW_STREAM_QUEUE_BYTES);
    free(bytes);
    close_world(&w);
}

Test(stream, closing_one_end_is_an_orderly_end_for_the_other) {
    world w;
    connect_world(&w, "1", GW_STREAM_CONTROL);
    gw_stream_close(w.dialled.stream);
    w.dialled.stream = NULL;
    flock_turn_until(w.loop, accepted_over, &w);
    cr_assert_eq(w.accepted.why, GW_CLOSED_END);
    close_world(&w);
}

Test(stream, a_stream_may_be_closed_in_its_own_callbacks) {
    world w;
    connect_world(&w, "1", GW_STREAM_CONTROL);
    w.accepted.close_on_message = true;
    for (int i = 0; i < 5; i++) send_to(w.dialled.stream, "x", 1);
    flock_turn_until(w.loop, both_over, &w);
    cr_assert_eq(w.accepted.messages, 1);
    cr_assert_eq(w.accepted.why, GW_CLOSED_NOT);
    w.dialled = (end){.close_on_ready = true};
    w.accepted = (end){0};
    dial(&w, GW_STREAM_CONTROL);
    flock_turn_until(w.loop, dialled_over, &w);
    cr_assert(w.dialled.ready);
    close_world(&w);
}

Test(stream, nobody_listening_is_refused_and_not_from_inside_the_call) {
    world w;
    open_world(&w, "1", "1");
    w.addr = flock_dead_addr();
    dial(&w, GW_STREAM_CONTROL);
    flock_turn_until(w.loop, dialled_over, &w);
    cr_assert_eq(w.dialled.why, GW_CLOSED_REFUSED);
    close_world(&w);
}

static bool dialled_is_ready(void *context) {
    const world *w = context;
    return w->dialled.ready;
}

static bool accepting_has_failed(void *context) {
    const world *w = context;
    return w->failures > 0;
}

/* The acceptor never has a stream that would have to be taken for a link of this peer. */
Test(stream, one_that_only_asks_learns_who_answers_and_is_no_connection) {
    world w;
    gw_err err;
    open_world(&w, "1", "1");
    w.dialled.close_on_ready = true;
    gw_stream_events events = events_of(&w.dialled);
    w.dialled.stream = gw_stream_ask(w.loop, &w.client.local, &w.addr, &events, &err);
    flock_need(w.dialled.stream != NULL, &err);
    flock_turn_until(w.loop, dialled_is_ready, &w);
    cr_expect(gw_peer_id_equal(&w.dialled.remote.id, &w.server.identity.id));
    flock_turn_until(w.loop, accepting_has_failed, &w);
    cr_expect_eq(w.failed_why, GW_CLOSED_END);
    cr_expect_eq(w.accepts, 0);
    close_world(&w);
}

Test(stream, a_dial_can_be_given_up) {
    world w;
    open_world(&w, "1", "1");
    dial(&w, GW_STREAM_CONTROL);
    gw_stream_close(w.dialled.stream);
    w.dialled.stream = NULL;
    flock_turn(w.loop, 5);
    close_world(&w);
}

Test(stream, the_wrong_key_is_named_at_both_ends) {
    world w;
    open_world(&w, "1", "2");
    dial(&w, GW_STREAM_CONTROL);
    flock_turn_until(w.loop, dialled_over, &w);
    flock_turn_until(w.loop, some_failure, &w);
    cr_assert_eq(w.dialled.why, GW_CLOSED_PROTOCOL);
    cr_assert_eq(w.dialled.fault, GW_FAULT_KEY);
    cr_assert_eq(w.failed_fault, GW_FAULT_KEY);
    cr_assert_not_null(strstr(w.failed_text, "wrong key"));
    cr_assert_eq(w.accepts, 0);
    close_world(&w);
}

/* A stranger that does not speak the protocol. */

static void set_non_blocking(int fd) {
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

Test(stream, garbage_is_turned_away) {
    world w;
    open_world(&w, "1", "1");
    int fd = flock_connect(&w.addr);
    cr_assert_eq(send(fd, "GET /metrics HTTP/1.1\r\n\r\n", 25, MSG_NOSIGNAL), 25);
    flock_turn_until(w.loop, some_failure, &w);
    cr_assert_eq(w.failed_why, GW_CLOSED_PROTOCOL);
    cr_assert_eq(w.failed_fault, GW_FAULT_GARBAGE);
    close(fd);
    close_world(&w);
}

Test(stream, silent_connections_are_bounded_and_do_not_keep_others_out) {
    world w;
    int fds[GW_HALF_OPEN + 20];
    open_world(&w, "1", "1");
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        fds[i] = flock_connect(&w.addr);
        flock_turn(w.loop, 2);
        cr_assert_leq(gw_listener_half_open(w.listener), GW_HALF_OPEN);
    }
    cr_assert_eq(w.failures, 20);
    w.failures = 0;
    dial(&w, GW_STREAM_CONTROL);
    while (!w.accepted.ready) gw_loop_turn(w.loop, 100000000);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) close(fds[i]);
    close_world(&w);
}

/* A blocking connection from one of this host's many addresses. */
static int connect_from(const world *w, uint8_t last_byte) {
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7F000000u | last_byte)};
    struct sockaddr_storage to;
    socklen_t bytes = gw_address_to_sockaddr(&w->addr, &to);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, bytes), 0);
    return fd;
}

/* A connection that has begun a handshake as a member does: its hello is on the way. */
static int say_hello(const world *w, uint8_t last_byte) {
    gw_err err;
    size_t count;
    uint8_t randomness[32] = {last_byte};
    int fd = connect_from(w, last_byte);
    gw_handshake *h = gw_handshake_dial(&w->client.local, GW_STREAM_CONTROL, 0, randomness, &err);
    flock_need(h != NULL, &err);
    const uint8_t *hello = gw_handshake_output(h, &count);
    cr_assert_eq(send(fd, hello, count, MSG_NOSIGNAL), (ssize_t)count);
    gw_handshake_close(h);
    return fd;
}

/* A connection whose hello was answered, so that its next message is expected. */
static void expect_waited_for(int fd) {
    uint8_t answer[GW_HANDSHAKE_MESSAGE];
    cr_assert_gt(recv(fd, answer, sizeof answer, MSG_DONTWAIT), GW_HANDSHAKE_HEADER);
    cr_expect(recv(fd, answer, sizeof answer, MSG_DONTWAIT) < 0 && errno == EAGAIN, "it was ended");
    close(fd);
}

enum { FLOOD = 3 * GW_HALF_OPEN };

/* Silent connections from `sources` addresses in turn; the listener accepts them where `turn`. */
static void flood(const world *w, int fds[FLOOD], int sources, bool turn) {
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = connect_from(w, (uint8_t)(1 + i % sources));
        if (turn) flock_turn(w->loop, 1);
    }
    flock_turn(w->loop, 20);
    cr_assert_eq(gw_listener_half_open(w->listener), GW_HALF_OPEN);
}

Test(stream, who_says_a_good_hello_is_not_pushed_out_by_who_does_not) {
    for (int sources = 1; sources <= 64; sources += 63) {
        world w;
        int fds[FLOOD];
        open_world(&w, "1", "1");
        int member = say_hello(&w, 1);
        flock_turn(w.loop, 3);
        flood(&w, fds, sources, true);
        expect_waited_for(member);
        for (int i = 0; i < FLOOD; i++) close(fds[i]);
        close_world(&w);
    }
}

/* More connections wait to be accepted than there may be handshakes, so they evict each other before any of
 * them is read. */
Test(stream, a_good_hello_counts_however_many_connections_wait_behind_it) {
    world w;
    int fds[FLOOD];
    open_world(&w, "1", "1");
    int member = say_hello(&w, 1);
    flood(&w, fds, 64, false);
    expect_waited_for(member);
    for (int i = 0; i < FLOOD; i++) close(fds[i]);
    close_world(&w);
}

/* The same with recorded hellos. */
Test(stream, who_takes_all_places_loses_its_own) {
    world w;
    int fds[FLOOD];
    open_world(&w, "1", "1");
    int member = say_hello(&w, 2);
    flock_turn(w.loop, 3);
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = say_hello(&w, 1);
        flock_turn(w.loop, 2);
    }
    cr_assert_eq(gw_listener_half_open(w.listener), GW_HALF_OPEN);
    expect_waited_for(member);
    for (int i = 0; i < FLOOD; i++) close(fds[i]);
    close_world(&w);
}

Test(stream, a_handshake_that_dribbles_ends_at_its_deadline) {
    world w;
    open_world(&w, "1", "1");
    int fd = flock_connect(&w.addr);
    cr_assert_eq(send(fd, "gdwt", 4, MSG_NOSIGNAL), 4);
    flock_turn_until(w.loop, some_failure, &w);
    cr_assert_eq(w.failed_why, GW_CLOSED_TIMEOUT);
    cr_assert_eq(gw_listener_half_open(w.listener), 0);
    close(fd);
    close_world(&w);
}

/* A client driven by hand: it does the handshake on a raw socket, so that tests can send any bytes after
 * it. */
typedef struct raw {
    int fd;
    gw_cipher seal, open;
} raw;

static raw *raw_connect(world *w, gw_stream_kind kind) {
    gw_err err;
    raw *r = calloc(1, sizeof *r);
    uint8_t randomness[32] = {5}, bytes[GW_HANDSHAKE_MESSAGE];
    r->fd = flock_connect(&w->addr);
    set_non_blocking(r->fd);
    gw_handshake *h = gw_handshake_dial(&w->client.local, kind, 0, randomness, &err);
    gw_handshake_state state = GW_HANDSHAKE_GOING;
    for (size_t count, used;;) {
        const uint8_t *output = gw_handshake_output(h, &count);
        /* byte by byte: half messages are nothing special */
        for (size_t i = 0; i < count; i++) {
            cr_assert_eq(send(r->fd, output + i, 1, MSG_NOSIGNAL), 1);
            flock_turn(w->loop, 1);
        }
        gw_handshake_sent(h, count);
        if (state == GW_HANDSHAKE_DONE) break;
        gw_loop_turn(w->loop, 1000000);
        ssize_t got = recv(r->fd, bytes, sizeof bytes, 0);
        if (got <= 0) continue;
        state = gw_handshake_feed(h, bytes, (size_t)got, &used, &err);
        cr_assert_neq(state, GW_HANDSHAKE_FAILED, "%s", err.text);
    }
    gw_remote remote;
    gw_handshake_finish(h, &remote, &r->seal, &r->open);
    gw_handshake_close(h);
    while (!w->accepted.ready) gw_loop_turn(w->loop, 1000000);
    return r;
}

static void raw_close(raw *r) {
    close(r->fd);
    gw_cipher_wipe(&r->seal);
    gw_cipher_wipe(&r->open);
    free(r);
}

Test(stream, records_may_come_byte_by_byte) {
    world w;
    gw_err err;
    uint8_t record[64];
    open_world(&w, "1", "1");
    raw *r = raw_connect(&w, GW_STREAM_CONTROL);
    const char *parts[] = {"half ", "and ", "half"};
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(parts[i]);
        flock_need(gw_record_seal(&r->seal, parts[i], length, i < 2, record, &err), &err);
        for (size_t k = 0; k < gw_record_bytes(&r->seal, length); k++) {
            cr_assert_eq(w.accepted.messages, 0);
            cr_assert_eq(send(r->fd, record + k, 1, MSG_NOSIGNAL), 1);
            flock_turn(w.loop, 1);
        }
    }
    flock_turn_until(w.loop, one_came, &w);
    cr_assert_eq(w.accepted.last_bytes, 13);
    cr_assert_arr_eq(w.accepted.last, "half and half", 13);
    raw_close(r);
    close_world(&w);
}

static void ends_it(gw_closed why, const char *keys, const uint8_t *bytes, size_t count, bool seal_them,
                    bool more) {
    world w;
    gw_err err;
    uint8_t record[64];
    open_world(&w, keys, keys);
    raw *r = raw_connect(&w, GW_STREAM_CONTROL);
    if (seal_them) {
        flock_need(gw_record_seal(&r->seal, bytes, count, more, record, &err), &err);
        count = gw_record_bytes(&r->seal, count);
        bytes = record;
    }
    cr_assert_eq(send(r->fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
    flock_turn_until(w.loop, accepted_over, &w);
    cr_assert_eq(w.accepted.why, why);
    cr_assert_eq(w.accepted.messages, 0);
    raw_close(r);
    close_world(&w);
}

Test(stream, records_that_are_oversized_or_forged_end_it) {
    const uint8_t oversized[] = {0xff, 0xff, 0xff, 0x00},
                  forged[] = {1, 0, 0, 0, 'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    ends_it(GW_CLOSED_CORRUPT, "1", oversized, sizeof oversized, false, false);
    ends_it(GW_CLOSED_CORRUPT, "", oversized, sizeof oversized, false, false);
    ends_it(GW_CLOSED_CORRUPT, "1", forged, sizeof forged, false, false);
    ends_it(GW_CLOSED_PROTOCOL, "1", NULL, 0, true, true); /* empty records without an end */
    ends_it(GW_CLOSED_PROTOCOL, "", NULL, 0, true, true);
}

Test(stream, a_message_without_an_end_is_bounded) {
    world w;
    gw_err err;
    open_world(&w, "", "");
    raw *r = raw_connect(&w, GW_STREAM_CONTROL);
    uint8_t *record = calloc(1, GW_RECORD_CONTROL + 32);
    for (size_t sent = 0; sent <= GW_MESSAGE_BYTES && w.accepted.stream != NULL; sent += GW_RECORD_CONTROL) {
        flock_need(gw_record_seal(&r->seal, record + GW_RECORD_HEADER, GW_RECORD_CONTROL, true, record, &err),
                   &err);
        for (size_t at = 0, bytes = gw_record_bytes(&r->seal, GW_RECORD_CONTROL);
             at < bytes && w.accepted.stream != NULL;) {
            ssize_t put = send(r->fd, record + at, bytes - at, MSG_NOSIGNAL);
            if (put > 0) at += (size_t)put;
            gw_loop_turn(w.loop, 0);
        }
    }
    flock_turn_until(w.loop, accepted_over, &w);
    cr_assert_eq(w.accepted.why, GW_CLOSED_PROTOCOL);
    free(record);
    raw_close(r);
    close_world(&w);
}

Test(stream, a_reset_connection_says_so) {
    world w;
    open_world(&w, "1", "1");
    raw *r = raw_connect(&w, GW_STREAM_CONTROL);
    struct linger hard = {.l_onoff = 1};
    cr_assert_eq(setsockopt(r->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
    raw_close(r);
    flock_turn_until(w.loop, accepted_over, &w);
    cr_assert_eq(w.accepted.why, GW_CLOSED_RESET);
    close_world(&w);
}

static bool data_arrived(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 60000) == 1;
}

Test(stream, a_detached_stream_goes_on_where_it_was) {
    world w;
    gw_err err;
    uint8_t two[128];
    open_world(&w, "1", "1");
    raw *r = raw_connect(&w, GW_STREAM_DATA);
    static gw_detached d;
    /* One read brings a whole message and the beginning of the next record. */
    flock_need(gw_record_seal(&r->seal, "one", 3, false, two, &err), &err);
    size_t first = gw_record_bytes(&r->seal, 3);
    flock_need(gw_record_seal(&r->seal, "two", 3, false, two + first, &err), &err);
    cr_assert_eq(send(r->fd, two, first + 6, MSG_NOSIGNAL), (ssize_t)first + 6);
    flock_turn_until(w.loop, one_came, &w);
    flock_need(gw_stream_detach(w.accepted.stream, &d, &err), &err);
    w.accepted.stream = NULL;
    cr_assert_eq(d.ahead_bytes, 6);
    cr_assert_eq(d.remote.kind, GW_STREAM_DATA);
    cr_assert_eq(send(r->fd, two + first + 6, first - 6, MSG_NOSIGNAL), (ssize_t)first - 6);
    cr_assert(data_arrived(d.fd));
    uint8_t record[64], payload[8];
    memcpy(record, d.ahead, d.ahead_bytes);
    cr_assert_eq(recv(d.fd, record + 6, sizeof record - 6, 0), (ssize_t)first - 6);
    flock_need(gw_record_open(&d.open, record, first, payload, &err), &err);
    cr_assert_arr_eq(payload, "two", 3);
    flock_need(gw_record_seal(&d.seal, "back", 4, false, record, &err), &err);
    cr_assert_eq(send(d.fd, record, gw_record_bytes(&d.seal, 4), MSG_NOSIGNAL), 24);
    cr_assert(data_arrived(r->fd));
    cr_assert_eq(recv(r->fd, record, sizeof record, 0), 24);
    flock_need(gw_record_open(&r->open, record, 24, payload, &err), &err);
    cr_assert_arr_eq(payload, "back", 4);
    free(d.ahead);
    close(d.fd);
    raw_close(r);
    close_world(&w);
}

static bool one_came_back(void *context) {
    return ((world *)context)->dialled.messages == 1;
}

/* The accepted end of a sealed stream moves to another loop, as to a loop of another thread. */
Test(stream, a_detached_stream_goes_on_on_another_loop) {
    world w;
    gw_err err;
    static gw_detached d;
    connect_world(&w, "1", GW_STREAM_CLIENT);
    gw_stream_events events = events_of(&w.accepted);
    gw_loop *other = gw_loop_open(&err);
    flock_need(gw_stream_detach(w.accepted.stream, &d, &err), &err);
    w.accepted.stream = gw_stream_attach(other, &d, &events, &err);
    flock_need(w.accepted.stream != NULL, &err);
    cr_assert(gw_peer_id_equal(&gw_stream_remote(w.accepted.stream)->id, &w.client.identity.id));
    send_to(w.dialled.stream, "there", 5);
    flock_turn_until(other, one_came, &w);
    cr_assert_arr_eq(w.accepted.last, "there", 5);
    send_to(w.accepted.stream, "back", 4);
    flock_turn_until(w.loop, one_came_back, &w);
    cr_assert_arr_eq(w.dialled.last, "back", 4);
    gw_stream_close(w.accepted.stream);
    w.accepted.stream = NULL;
    flock_turn_until(w.loop, dialled_over, &w);
    gw_loop_close(other);
    close_world(&w);
}

/* A record has begun to arrive before the stream moves: the other side was to wait. */
Test(stream, a_stream_with_bytes_read_ahead_moves_to_no_other_loop) {
    world w;
    gw_err err;
    uint8_t two[128];
    static gw_detached d;
    open_world(&w, "1", "1");
    raw *r = raw_connect(&w, GW_STREAM_DATA);
    flock_need(gw_record_seal(&r->seal, "one", 3, false, two, &err), &err);
    size_t first = gw_record_bytes(&r->seal, 3);
    flock_need(gw_record_seal(&r->seal, "two", 3, false, two + first, &err), &err);
    cr_assert_eq(send(r->fd, two, first + 6, MSG_NOSIGNAL), (ssize_t)first + 6);
    flock_turn_until(w.loop, one_came, &w);
    gw_stream_events events = events_of(&w.accepted);
    flock_need(gw_stream_detach(w.accepted.stream, &d, &err), &err);
    w.accepted.stream = NULL;
    cr_assert_null(gw_stream_attach(w.loop, &d, &events, &err));
    cr_assert_eq(err.code, GW_E_PEER);
    cr_assert_eq(d.fd, -1);
    raw_close(r);
    close_world(&w);
}

/* Two ends of a pair of Unix sockets, which have no addresses. */
Test(stream, a_socket_that_is_connected_already_may_be_dialled_on) {
    world w;
    gw_err err;
    int ends[2];
    const gw_addr nowhere = {0};
    open_world(&w, "", "");
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    gw_stream_events dials = events_of(&w.dialled), answers = events_of(&w.accepted);
    w.accepted.stream = gw_stream_answer(w.loop, &w.server.local, ends[0], &nowhere, &answers, &err);
    w.dialled.stream = gw_stream_dial_on(w.loop, &w.client.local, ends[1], GW_STREAM_CLIENT, &dials, &err);
    flock_need(w.accepted.stream != NULL && w.dialled.stream != NULL, &err);
    flock_turn_until(w.loop, both_ready, &w);
    cr_assert_eq(w.accepted.remote.kind, GW_STREAM_CLIENT);
    send_to(w.dialled.stream, "one", 3);
    flock_turn_until(w.loop, one_came, &w);
    close_world(&w);
}

/* Whether this system lets a socket choose when lost packets are sent again. */
static bool repeats_can_be_set(int fd) {
    enum { RTO_MIN_US = 45 }; /* TCP_RTO_MIN_US */
    int us;
    socklen_t bytes = sizeof us;
    return getsockopt(fd, IPPROTO_TCP, RTO_MIN_US, &us, &bytes) == 0;
}

Test(stream, what_is_lost_is_sent_again_soon) {
    world w;
    gw_err err;
    static gw_detached d;
    open_world(&w, "1", "1");
    raw *r = raw_connect(&w, GW_STREAM_DATA);
    uint8_t record[64];
    flock_need(gw_record_seal(&r->seal, "one", 3, false, record, &err), &err);
    size_t length = gw_record_bytes(&r->seal, 3);
    cr_assert_eq(send(r->fd, record, length, MSG_NOSIGNAL), (ssize_t)length);
    flock_turn_until(w.loop, one_came, &w);
    flock_need(gw_stream_detach(w.accepted.stream, &d, &err), &err);
    w.accepted.stream = NULL;
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    int linear = 0;
    cr_assert_eq(getsockopt(d.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
    if (repeats_can_be_set(d.fd))
        cr_assert_lt(info.tcpi_rto, 20000 + 4 * info.tcpi_rtt + 4 * info.tcpi_rttvar + 20000, "%u us",
                     info.tcpi_rto);
    bytes = sizeof linear;
    cr_assert_eq(getsockopt(d.fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &linear, &bytes), 0);
    cr_assert(linear);
    free(d.ahead);
    close(d.fd);
    raw_close(r);
    close_world(&w);
}

/* A peer has its port before it has its state: a dial to it is refused meanwhile, so that the dialler tries
 * another peer and does not wait for a handshake. */
Test(listener, whoever_dials_a_port_that_is_bound_only_is_refused) {
    world w;
    gw_err err;
    gw_addr addr;
    int tcp, udp;
    struct sockaddr_storage address;
    flock_bind(&addr, &tcp, &udp);
    socklen_t bytes = gw_address_to_sockaddr(&addr, &address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, bytes), -1);
    cr_assert_eq(errno, ECONNREFUSED);
    close(fd);
    connect_world(&w, "1", GW_STREAM_CONTROL);
    gw_listener_events events = {.context = &w, .accepted = on_accepted};
    gw_listener *listener = gw_listener_open(w.loop, &w.server.local, tcp, &events, &err);
    cr_assert_not_null(listener, "%s", err.text);
    close(flock_connect(&addr));
    gw_listener_close(listener);
    close(udp);
    close_world(&w);
}

Test(listener, a_port_in_use_is_named_with_what_to_do) {
    gw_err err;
    gw_addr addr, again;
    int tcp, udp, tcp2, udp2;
    char text[GW_ADDR_TEXT];
    flock_bind(&addr, &tcp, &udp);
    cr_assert(!gw_endpoint_bind(&addr, &tcp2, &udp2, &again, &err));
    cr_assert_not_null(strstr(err.text, "UDP"), "%s", err.text);
    cr_assert_eq(listen(tcp, 1), 0);
    cr_assert(!gw_endpoint_bind(&addr, &tcp2, &udp2, &again, &err));
    cr_assert_not_null(strstr(err.text, gw_addr_text(&addr, text)), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "in use"));
    cr_assert_not_null(strstr(err.text, "TCP"));
    close(tcp);
    cr_assert(!gw_endpoint_bind(&addr, &tcp2, &udp2, &again, &err));
    cr_assert_not_null(strstr(err.text, "UDP"));
    close(udp);
    flock_need(gw_endpoint_bind(&addr, &tcp2, &udp2, &again, &err), &err);
    cr_assert(gw_addr_equal(&addr, &again));
    close(tcp2);
    close(udp2);
    gw_addr foreign = {.family = 4, .ip = {192, 0, 2, 1}, .port = 1};
    cr_assert(!gw_endpoint_bind(&foreign, &tcp2, &udp2, &again, &err));
    cr_assert_not_null(strstr(err.text, "cannot listen on 192.0.2.1:1"));
}

Test(listener, closing_it_drops_half_open_connections_only) {
    world w;
    connect_world(&w, "1", GW_STREAM_CONTROL);
    int fd = flock_connect(&w.addr);
    flock_turn(w.loop, 3);
    cr_assert_eq(gw_listener_half_open(w.listener), 1);
    gw_listener_close(w.listener);
    w.listener = NULL;
    cr_assert(data_arrived(fd), "closed");
    send_to(w.dialled.stream, "on", 2);
    flock_turn_until(w.loop, one_came, &w);
    close(fd);
    close_world(&w);
}
