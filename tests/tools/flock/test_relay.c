/* A member and the children of maps: messages in both directions, peers, a member that goes and comes back, and what is no
 * packet. */
#include "core/os/clock.h"
#include "tools/godwit/flock/relay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_NS UINT64_C(120000000000)

static const gw_job_record_id job = {{7, 7}};
static const gw_peer_id own = {{1}}, other = {{2}};

typedef struct world {
    char folder[64];
    gw_loop *loop;
    gw_relay *relay;
    gw_relay_child *child;
    uint32_t joined, cut, slots, peers, sent, heard;
} world;

static void sent(void *context, const gw_job_record_id *of, const gw_peer_id *to, const void *bytes,
                 size_t length) {
    world *w = context;
    cr_assert(gw_job_record_id_equal(of, &job) && gw_peer_id_equal(to, &other));
    cr_assert(length == 5 && memcmp(bytes, "hello", 5) == 0);
    w->sent++;
}

static void joined(void *context, const gw_job_record_id *of) {
    world *w = context;
    cr_assert(gw_job_record_id_equal(of, &job));
    w->joined++;
}

static void told(void *context, const gw_peer_id *self, uint32_t slots, const gw_peer_id *peers,
                 uint32_t count) {
    world *w = context;
    cr_assert(gw_peer_id_equal(self, &own));
    w->slots = slots;
    w->peers = count;
    if (count > 0) cr_assert(gw_peer_id_equal(&peers[0], &other));
}

static void heard(void *context, const gw_peer_id *from, const void *bytes, size_t length) {
    world *w = context;
    cr_assert(gw_peer_id_equal(from, &other) && length == 6 && memcmp(bytes, "answer", 6) == 0);
    w->heard++;
}

static void was_cut(void *context) {
    ((world *)context)->cut++;
}

static void open_relay(world *w) {
    gw_relay_events events = {w, sent, joined};
    gw_err err;
    w->relay = gw_relay_open(w->loop, w->folder, &events, &err);
    cr_assert_not_null(w->relay, "%s", err.text);
}

static world *open_world(void) {
    world *w = calloc(1, sizeof *w);
    gw_err err;
    strcpy(w->folder, "/tmp/godwit-relay-XXXXXX");
    cr_assert_not_null(mkdtemp(w->folder));
    w->loop = gw_loop_open(&err);
    return w;
}

static void close_world(world *w) {
    char path[100];
    gw_relay_child_close(w->child);
    gw_relay_close(w->relay);
    gw_loop_close(w->loop);
    snprintf(path, sizeof path, "%s/%s", w->folder, GW_RELAY_NAME);
    unlink(path);
    rmdir(w->folder);
    free(w);
}

static void open_child(world *w) {
    gw_relay_child_events events = {w, told, heard, was_cut};
    gw_err err;
    w->child = gw_relay_child_open(w->loop, w->folder, &job, &events, &err);
    cr_assert_not_null(w->child, "%s", err.text);
}

/* Runs the loop until a count is reached. */
static void wait_for(world *w, const uint32_t *count, uint32_t wanted) {
    uint64_t end_ns = gw_now_ns() + PATIENCE_NS;
    while (*count < wanted) {
        cr_assert_lt(gw_now_ns(), end_ns);
        gw_loop_turn(w->loop, 10000000);
    }
}

Test(relay, messages_go_both_ways) {
    world *w = open_world();
    open_relay(w);
    open_child(w);
    wait_for(w, &w->joined, 1);
    gw_relay_tell(w->relay, &job, &own, 4, &other, 1);
    wait_for(w, &w->slots, 4);
    cr_assert_eq(w->peers, 1);
    gw_relay_child_send(w->child, &other, "hello", 5);
    wait_for(w, &w->sent, 1);
    gw_relay_deliver(w->relay, &job, &other, "answer", 6);
    wait_for(w, &w->heard, 1);
    gw_relay_deliver(w->relay, &(gw_job_record_id){{9}}, &other, "answer", 6); /* nobody has it */
    gw_relay_child_tell(w->child, &(gw_relay_progress){3, 1, 10});
    gw_relay_child_send(w->child, &other, "hello", 5);
    wait_for(w, &w->sent, 2);
    gw_relay_progress progress = gw_relay_progress_of(w->relay, &job);
    cr_assert(progress.done == 3 && progress.failed == 1 && progress.tasks == 10);
    cr_assert_eq(w->heard, 1);
    close_world(w);
}

Test(relay, a_child_finds_the_next_member) {
    world *w = open_world();
    open_child(w); /* before there is one */
    open_relay(w);
    wait_for(w, &w->joined, 1);
    gw_relay_close(w->relay);
    wait_for(w, &w->cut, 1);
    gw_relay_child_send(w->child, &other, "hello", 5); /* it is lost */
    open_relay(w);
    wait_for(w, &w->joined, 2);
    gw_relay_child_send(w->child, &other, "hello", 5);
    wait_for(w, &w->sent, 1);
    close_world(w);
}

Test(relay, what_is_no_packet_ends_the_connection) {
    static const uint8_t packets[][20] = {{0}, {9, 1}, {1, 1, 2}, {2}, {3, 0}};
    world *w = open_world();
    open_relay(w);
    for (size_t i = 0; i < sizeof packets / sizeof packets[0]; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        char byte;
        snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", w->folder, GW_RELAY_NAME);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
        cr_assert_eq(send(fd, packets[i], 5, 0), 5);
        uint64_t end_ns = gw_now_ns() + PATIENCE_NS;
        while (recv(fd, &byte, 1, MSG_DONTWAIT) != 0) {
            cr_assert_lt(gw_now_ns(), end_ns, "packet %zu", i);
            gw_loop_turn(w->loop, 10000000);
        }
        close(fd);
    }
    cr_assert_eq(w->joined, 0);
    close_world(w);
}
