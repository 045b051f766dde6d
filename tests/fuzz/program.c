/* Targets for requests of people and programs to a running peer: HTTP, and the control socket. */
#include "net/loop/address.h"
#include "tests/fuzz/target.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/show/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static gw_board *filled_board(void) {
    static gw_board *board;
    gw_err err;
    if (board != NULL) return board;
    board = gw_board_open(&err);
    gw_node_snapshot *snapshot = calloc(1, sizeof *snapshot);
    GW_ASSERT_MEMORY(board != NULL && snapshot != NULL);
    snprintf(snapshot->job, sizeof snapshot->job, "toy");
    snapshot->peer_count = 2;
    gw_board_publish(board, snapshot);
    free(snapshot);
    return board;
}

/* The alarm of a search may interrupt every wait; connect may be called again. */
static bool was_interrupted(ssize_t outcome) {
    return outcome < 0 && errno == EINTR;
}

static void dial(int fd, const void *to, socklen_t length) {
    int outcome;
    do outcome = connect(fd, to, length);
    while (was_interrupted(outcome));
    GW_ASSERT(outcome == 0);
}

/* Sends all of the bytes, and reads the whole answer; returns its first bytes. */
static size_t converse(int fd, const uint8_t *bytes, size_t count, char *first, size_t room) {
    size_t kept = 0;
    for (size_t sent = 0; sent < count;) {
        ssize_t wrote = send(fd, bytes + sent, count - sent, MSG_NOSIGNAL);
        if (was_interrupted(wrote)) continue;
        if (wrote <= 0) break; /* the peer has read enough */
        sent += (size_t)wrote;
    }
    shutdown(fd, SHUT_WR);
    char heard[4096];
    for (ssize_t got; (got = recv(fd, heard, sizeof heard, 0)) > 0 || was_interrupted(got);) {
        if (got < 0) continue;
        size_t more = kept + (size_t)got <= room ? (size_t)got : room - kept;
        memcpy(first + kept, heard, more);
        kept += more;
    }
    close(fd);
    return kept;
}

static void http_examples(fuzz_add *add, void *context) {
    static const char *const requests[] = {
        "GET /api/state HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /metrics HTTP/1.0\r\n\r\n",
        "GET /api/series?keys=train/loss,run/ms&from=1&to=99&points=50 HTTP/1.0\r\n\r\n",
        "GET /api/events?since=3 HTTP/1.0\r\nHost: [::1]:80\r\n\r\n",
        "GET / HTTP/1.0\r\nAccept-Encoding: gzip\r\nIf-None-Match: \"0\"\r\n\r\n",
        "GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text;version=\"1.0.0\";q=0.3, "
        "text/*\r\n\r\n",
        "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /x?a=%41&b HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        add(context, requests[i], strlen(requests[i]));
}

/* Returns a local address for a connection. Closed connections keep their ports for a minute, and there
 * are thousands a second, so each comes from another of the 16 million loopback addresses. */
static int dial_from_another_address(const struct sockaddr_storage *to, socklen_t length) {
    static uint32_t dialled;
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr = {htonl(INADDR_LOOPBACK + ++dialled % 0xfffffd)}};
    const int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    GW_ASSERT(fd >= 0 && setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes) == 0);
    GW_ASSERT(bind(fd, (const struct sockaddr *)&from, sizeof from) == 0);
    dial(fd, to, length);
    return fd;
}

static bool take_http(const uint8_t *bytes, size_t count) {
    static gw_http *http;
    static gw_addr bound;
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}};
    gw_err err;
    if (http == NULL) {
        const gw_api_sources sources = {.board = filled_board()};
        http = gw_http_open(gw_http_bind(&any, &bound, &err), &sources, 0, &err);
    }
    GW_ASSERT(http != NULL);
    struct sockaddr_storage address;
    socklen_t length = gw_address_to_sockaddr(&bound, &address);
    int fd = dial_from_another_address(&address, length);
    char first[5];
    size_t kept = converse(fd, bytes, count, first, sizeof first);
    GW_ASSERT(kept == 0 || (kept == sizeof first && memcmp(first, "HTTP/", sizeof first) == 0));
    return kept > 0;
}

const fuzz_target fuzz_http = {"http", 1500, 1024, http_examples, NULL, take_http};

static void control_examples(fuzz_add *add, void *context) {
    add(context, "status\n", 7);
    add(context, "stop\n", 5);
    add(context, "force-view\n", 11);
    add(context, "read\n", 5);
    add(context, "peers\n", 6);
    add(context, "events 3\n", 9);
    add(context, "log 0\n", 6);
    add(context, "series 100 train/loss,run/ms\n", 29);
}

static void obey(void *context, gw_control_request request) {
    (void)context;
    GW_ASSERT(request == GW_CONTROL_STOP || request == GW_CONTROL_FORCE_VIEW);
}

static void take_reader(void *context, int fd) {
    (void)context;
    close(fd);
}

static bool take_control(const uint8_t *bytes, size_t count) {
    static gw_control *control;
    gw_err err;
    if (memchr(bytes, '\n', count) == NULL && count < 512) return false; /* the peer would wait for more */
    if (count >= 4 && memcmp(bytes, "end\n", 4) == 0) return false;      /* it would answer at its end */
    if (control == NULL)
        control = gw_control_open(fuzz_folder(), &(gw_api_sources){.board = filled_board()}, obey,
                                  take_reader, NULL, &err);
    GW_ASSERT(control != NULL);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/control.sock", fuzz_folder());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    GW_ASSERT(fd >= 0);
    dial(fd, &address, sizeof address);
    char first[1];
    size_t kept = converse(fd, bytes, count, first, sizeof first);
    GW_ASSERT(kept == 0 || first[0] == '{');
    return kept > 0;
}

const fuzz_target fuzz_control = {"control", 3000, 256, control_examples, NULL, take_control};
