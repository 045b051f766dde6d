/* The pages for monitoring. */
#include "net/secure/secure.h"
#include "tests/tools/show/rig.h"
#include "tools/godwit/show/http.h"
#include "tools/godwit/show/snapshot.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* The time at which the clock stands; 0 = it runs. */
static _Atomic uint64_t standing_ns;

uint64_t __real_gw_now_ns(void);
uint64_t __wrap_gw_now_ns(void);
uint64_t __wrap_gw_now_ns(void) {
    uint64_t at_ns = atomic_load(&standing_ns);
    return at_ns != 0 ? at_ns : __real_gw_now_ns();
}

/* Sends `request` as it is and reads until the server closes. */
static void exchange(const gw_addr *addr, const char *request, char *answer, size_t size) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(addr->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    cr_assert_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    shutdown(fd, SHUT_WR);
    size_t length = 0;
    ssize_t got;
    while (length < size - 1 && (got = recv(fd, answer + length, size - 1 - length, 0)) > 0)
        length += (size_t)got;
    answer[length] = '\0';
    close(fd);
}

/* The clock stands, so that the snapshot does not get old. */
static gw_http *open_http(const gw_addr *addr, gw_board *board, gw_addr *bound) {
    gw_err err;
    atomic_store(&standing_ns, UINT64_C(1000000000000));
    int fd = gw_http_bind(addr, bound, &err);
    cr_assert_geq(fd, 0, "%s", err.text);
    gw_http *http = gw_http_open(fd, board, &err);
    cr_assert_not_null(http, "%s", err.text);
    return http;
}

/* Opens as many descriptors as a peer of a large flock has. */
Test(http, answers_beyond_the_descriptors_that_select_can_wait_for) {
    struct rlimit limit;
    gw_err err;
    char answer[500];
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 4096;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    gw_board_publish(board, rig_busy_snapshot());
    for (int i = 0; i < 1100; i++) cr_assert_geq(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    exchange(&bound, "GET /healthz HTTP/1.0\r\n\r\n", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 200 "), "'%s'", answer);
    gw_http_close(http);
    gw_board_close(board);
}

/* The server does not try to accept the connection all the time, and answers when it can. */
Test(http, waits_for_a_descriptor_without_spinning) {
    gw_err err;
    char answer[500];
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    gw_board_publish(board, rig_busy_snapshot());
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(bound.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rig_ask_without_descriptors((struct sockaddr *)&to, sizeof to, "GET /healthz HTTP/1.0\r\n\r\n", answer,
                                sizeof answer);
    cr_expect_not_null(strstr(answer, " 200 "), "'%s'", answer);
    gw_http_close(http);
    gw_board_close(board);
}

Test(http, says_all_that_a_peer_waits_for) {
    gw_err err;
    char answer[2000], reason[GW_TEXT_BYTES];
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    gw_node_snapshot waiting = *rig_busy_snapshot();
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    waiting.healthy = false;
    snprintf(waiting.phase, sizeof waiting.phase, "%s", reason);
    gw_board_publish(board, &waiting);
    exchange(&bound, "GET /healthz HTTP/1.0\r\n\r\n", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 503 "), "'%s'", answer);
    cr_expect_not_null(strstr(answer, reason), "'%s'", answer);
    gw_http_close(http);
    gw_board_close(board);
}

/* A peer that is told to join this port would wait in vain otherwise. */
Test(http, a_peer_that_joins_this_port_is_turned_away) {
    gw_err err;
    char answer[500];
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    exchange(&bound, GW_HANDSHAKE_MAGIC " and the rest of a message", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, "--http port of a Godwit peer"), "'%s'", answer);
    exchange(&bound, "GET /healthz HTTP/1.0\r\n\r\n", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 503 "), "'%s'", answer);
    gw_http_close(http);
    gw_board_close(board);
}

Test(http, serves_three_paths_and_refuses_the_rest) {
    static const struct {
        const char *request, *status, *contains;
    } cases[] = {
        {"GET /healthz HTTP/1.0\r\n\r\n", " 503 ", "starting"},
        {"GET /healthz HTTP/1.0\r\n\r\n", " 200 ", "ok"},
        {"GET /api/state HTTP/1.0\r\n\r\n", " 200 ", "\"step\":312"},
        {"GET /metrics HTTP/1.0\r\n\r\n", " 200 ", "godwit_step 312"},
        {"HEAD /metrics HTTP/1.0\r\n\r\n", " 200 ", "text/plain; version=0.0.4;"},
        {"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n",
         " 200 ", "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"},
        {"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n", " 200 ", "\n# EOF\n"},
        {"GET /api/../etc/passwd HTTP/1.0\r\n\r\n", " 404 ", "/metrics"},
        {"GET / HTTP/1.0\r\n\r\n", " 404 ", ""},
        {"POST /api/state HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", " 405 ", "Allow: GET, HEAD"},
        {"DELETE /metrics HTTP/1.0\r\n\r\n", " 405 ", ""},
        {"\x16\x03\x01 this is no HTTP\r\n\r\n", " 400 ", ""},
    };
    gw_err err;
    static char answer[65536];
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    cr_assert_neq(bound.port, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        exchange(&bound, cases[i].request, answer, sizeof answer);
        char *line_end = strchr(answer, '\r');
        const char *status = strstr(answer, cases[i].status);
        cr_expect(status != NULL && status < line_end, "%s -> %.60s", cases[i].request, answer);
        cr_expect_not_null(strstr(answer, cases[i].contains), "%s -> %s", cases[i].request, answer);
        gw_board_publish(board, rig_busy_snapshot());
    }
    gw_addr again;
    cr_assert_eq(gw_http_bind(&bound, &again, &err), -1, "the port is in use");
    cr_assert_not_null(strstr(err.text, "is in use: another process listens there. Stop that process, or"),
                       "%s", err.text);
    gw_http_close(http);
    gw_board_close(board);
}

#define STUCK_FOR_7_S "the event loop has not turned for 7 s"

/* Only the loop publishes anything new. */
Test(http, a_loop_that_is_stuck_is_not_well) {
    static const struct {
        const char *request, *well, *stuck;
    } cases[] = {
        {"GET /healthz HTTP/1.0\r\n\r\n", " 200 ", " 503 "},
        {"GET /healthz HTTP/1.0\r\n\r\n", "ok", STUCK_FOR_7_S},
        {"GET /metrics HTTP/1.0\r\n\r\n", "\ngodwit_healthy 1\n", "\ngodwit_healthy 0\n"},
        {"GET /api/state HTTP/1.0\r\n\r\n", "\"phase\":\"computing\"", "\"phase\":\"" STUCK_FOR_7_S},
    };
    static char answer[65536];
    gw_err err;
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_board_publish(board, rig_busy_snapshot());
        atomic_fetch_add(&standing_ns, UINT64_C(4000000000));
        exchange(&bound, cases[i].request, answer, sizeof answer);
        cr_expect_not_null(strstr(answer, cases[i].well), "%s", answer);
        atomic_fetch_add(&standing_ns, UINT64_C(3900000000));
        exchange(&bound, cases[i].request, answer, sizeof answer);
        cr_expect_not_null(strstr(answer, cases[i].stuck), "%s", answer);
    }
    gw_board_publish(board, rig_busy_snapshot());
    exchange(&bound, cases[0].request, answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 200 "), "as soon as it turns: %s", answer);
    gw_http_close(http);
    gw_board_close(board);
}
