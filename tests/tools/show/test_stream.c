/* The stream of changes: whole at first, then what has changed; for a bounded number of readers that read. */
#include "core/os/clock.h"
#include "scratch.h"
#include "tests/tools/show/rig.h"
#include "tools/godwit/show/http.h"
#include "tools/godwit/show/stream.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static gw_api_sources sources;
static gw_http *http;
static gw_addr bound;
static gw_err err;

static void setup(void) {
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}};
    scratch_open();
    const gw_series_place place = {.io = gw_io_system(), .dir = scratch_folder()};
    sources = (gw_api_sources){
        .board = gw_board_open(&err), .series = gw_series_open(&place, &err), .log = gw_log_tail_open(&err)};
    gw_board_publish(sources.board, rig_busy_snapshot());
    http = gw_http_open(gw_http_bind(&any, &bound, &err), &sources, 0, &err);
    cr_assert_not_null(http, "%s", err.text);
}

static void teardown(void) {
    gw_http_close(http);
    cr_assert(gw_series_close(sources.series, UINT64_C(1000000000000000)));
    gw_log_tail_close(sources.log);
    gw_board_close(sources.board);
    scratch_close();
}

TestSuite(stream, .init = setup, .fini = teardown, .timeout = 120);

static int dial(const char *header) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(bound.port)};
    char request[300];
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int)), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    int length =
        snprintf(request, sizeof request, "GET /api/stream HTTP/1.1\r\nHost: localhost\r\n%s\r\n", header);
    cr_assert_eq(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
    return fd;
}

/* Reads until there is an event of this kind that contains a text, whose bytes *event then has; or, with `kind`
 * NULL, until the answer contains the text. False: the stream ended. */
static bool read_until(int fd, const char *kind, const char *contains, char *event, size_t size) {
    size_t length = 0;
    char line[40];
    snprintf(line, sizeof line, "event: %s\n", kind != NULL ? kind : "");
    for (;;) {
        ssize_t got = recv(fd, event + length, size - 1 - length, 0);
        if (got <= 0) return false;
        length += (size_t)got;
        event[length] = '\0';
        const char *begin = kind != NULL ? strstr(event, line) : event;
        if (begin != NULL && strstr(begin, contains) != NULL &&
            (kind == NULL || strstr(begin, "\n\n") != NULL))
            return true;
        if (length > size / 2) { /* forget what was long ago */
            memmove(event, event + length / 2, length - length / 2);
            length -= length / 2;
        }
    }
}

static char event[400000];

static void publish_step(uint64_t step) {
    gw_node_snapshot *snapshot = rig_busy_snapshot();
    snapshot->step = step;
    gw_board_publish(sources.board, snapshot);
}

static void add_steps(uint64_t from, uint64_t to) {
    for (uint64_t step = from; step <= to; step++)
        gw_series_add(sources.series,
                      &(gw_metrics_row){.step = step, .phase = "train", .ms = 1, .report = "loss=0.25"});
}

Test(stream, begins_whole_and_goes_on_with_what_has_changed) {
    add_steps(1, 10);
    int fd = dial("");
    cr_assert(read_until(fd, "whole", "\"log\":[]", event, sizeof event), "%s", event);
    cr_expect_not_null(strstr(event, "\"job\":\"digits\""));
    cr_expect_not_null(strstr(event, "Content-Type: text/event-stream"));
    cr_expect_not_null(strstr(event, "\"series\":{\"last\":10,\"cuts\":0}"), "%s", event);
    publish_step(313);
    add_steps(11, 12);
    gw_log_tail_add(sources.log, GW_WARN, "room", "a line");
    cr_assert(read_until(fd, "change", "\"step\":313", event, sizeof event));
    const char *change = strstr(event, "event: change");
    cr_expect_null(strstr(change, "\"job\""), "only what has changed: %s", change);
    cr_expect_not_null(strstr(change, "\"train/loss\":{\"begin\":[11,12],\"last\":[0.25,0.25]}"), "%s",
                       change);
    cr_expect_not_null(strstr(change, "\"text\":\"a line\""), "%s", change);
    close(fd);
}

Test(stream, a_reader_that_was_away_gets_what_it_has_missed) {
    int first = dial(""), second;
    char header[100], id[40];
    cr_assert(read_until(first, "whole", "\"log\":[]", event, sizeof event));
    cr_assert_eq(sscanf(strstr(event, "id: "), "id: %39s", id), 1);
    publish_step(314);
    cr_assert(read_until(first, "change", "\"step\":314", event, sizeof event));
    snprintf(header, sizeof header, "Last-Event-ID: %s\r\n", id);
    second = dial(header);
    cr_assert(read_until(second, "change", "\"step\":314", event, sizeof event));
    cr_expect_null(strstr(event, "event: whole"), "%s", event);
    close(second);
    second = dial("Last-Event-ID: 0123456789abcdef-7\r\n"); /* of another process */
    cr_assert(read_until(second, "whole", "\"step\":314", event, sizeof event));
    close(first);
    close(second);
}

Test(stream, a_bounded_number_is_served) {
    int fds[GW_STREAMS];
    for (uint32_t i = 0; i < GW_STREAMS; i++) {
        fds[i] = dial("");
        cr_assert(read_until(fds[i], "whole", "\"log\"", event, sizeof event));
    }
    int more = dial("Connection: close\r\n");
    cr_assert(read_until(more, NULL, "as many read", event, sizeof event));
    cr_expect_not_null(strstr(event, " 503 "), "%s", event);
    close(more);
    close(fds[0]);
    for (bool served = false; !served;) { /* it is missed when the next event is sent */
        more = dial("");
        cr_assert(read_until(more, NULL, "\r\n\r\n", event, sizeof event));
        served = strstr(event, " 200 ") != NULL;
        close(more);
        usleep(100000);
    }
    for (uint32_t i = 1; i < GW_STREAMS; i++) close(fds[i]);
}

static void fill_log(void) {
    char text[500];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 100; i++) gw_log_tail_add(sources.log, GW_INFO, "room", text);
}

/* One reads, and the other does not: the one that does not is dropped, and the other misses nothing. */
Test(stream, a_reader_that_does_not_read_is_dropped) {
    int slow = dial(""), good = dial("");
    cr_assert(read_until(slow, "whole", "\"log\":[]", event, sizeof event));
    cr_assert(read_until(good, "whole", "\"log\":[]", event, sizeof event));
    uint64_t end_ns = gw_now_ns() + UINT64_C(60000000000), step = 400;
    for (bool dropped = false; !dropped;) {
        cr_assert_lt(gw_now_ns(), end_ns, "it is still there");
        fill_log();
        publish_step(++step);
        char expected[40];
        snprintf(expected, sizeof expected, "\"step\":%llu", (unsigned long long)step);
        cr_assert(read_until(good, "change", expected, event, sizeof event));
        dropped = send(slow, "x", 1, MSG_NOSIGNAL) < 0; /* its end has come as a reset */
    }
    close(slow);
    close(good);
}

/* What happened last is told before the server ends: how the peer has ended, and its last steps. */
Test(stream, the_last_event_reaches_its_readers) {
    int fd = dial("");
    cr_assert(read_until(fd, "whole", "\"log\":[]", event, sizeof event));
    gw_node_snapshot *snapshot = rig_busy_snapshot();
    snapshot->ended = true;
    strcpy(snapshot->outcome, "done");
    gw_board_publish(sources.board, snapshot);
    add_steps(1, 3);
    gw_http_close(http);
    http = NULL;
    cr_assert(read_until(fd, "change", "\"outcome\":\"done\"", event, sizeof event));
    cr_expect_not_null(strstr(event, "\"train/loss\":{\"begin\":[1,2,3]"), "%s", event);
    close(fd);
}

/* The end of the peer ends its streams, and waits for no reader. */
Test(stream, the_end_of_the_server_ends_them) {
    int fd = dial(""), silent = dial("");
    cr_assert(read_until(fd, "whole", "\"log\":[]", event, sizeof event));
    uint64_t begin = gw_now_ns();
    gw_http_close(http);
    http = NULL;
    cr_expect_lt(gw_now_ns() - begin, UINT64_C(20000000000), "it waits for who reads nothing");
    while (recv(fd, event, sizeof event, 0) > 0) {
    }
    close(fd);
    close(silent);
}
