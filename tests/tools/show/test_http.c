/* The pages for monitoring. */
#include "net/secure/secure.h"
#include "scratch.h"
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
    const gw_api_sources sources = {.board = board};
    gw_http *http = gw_http_open(fd, &sources, 0, &err);
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

Test(http, serves_its_paths_and_refuses_the_rest) {
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
        {"GET / HTTP/1.0\r\n\r\n", " 200 ", "text/html"},
        {"GET /page.html HTTP/1.0\r\n\r\n", " 404 ", ""},
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

/* What a client that gave a name in the header Host gets. */
static void ask_by_name(const gw_addr *addr, const char *path, const char *host, char *answer, size_t size) {
    char request[300];
    snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host);
    exchange(addr, request, answer, size);
}

Test(http, another_site_whose_name_leads_here_reads_nothing) {
    static const char *const hidden[] = {"/",           "/page.js",    "/api/state",  "/api/peers",
                                         "/api/series", "/api/events", "/api/stream", "/api/log"};
    static char answer[65536];
    gw_err err;
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    gw_board_publish(board, rig_busy_snapshot());
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        ask_by_name(&bound, hidden[i], "rebound.example.com:8080", answer, sizeof answer);
        cr_expect_not_null(strstr(answer, " 403 "), "%s: %s", hidden[i], answer);
        cr_expect_null(strstr(answer, "digits"), "%s: %s", hidden[i], answer);
    }
    ask_by_name(&bound, "/api/state", "127.0.0.1:8080", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 200 "), "%s", answer);
    ask_by_name(&bound, "/metrics", "node1.example.com", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 200 "), "%s", answer);
    gw_http_close(http);
    gw_board_close(board);
}

Test(http, no_page_of_another_site_shows_it_and_it_loads_nothing_from_there) {
    static char answer[200000];
    gw_err err;
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    exchange(&bound, "GET / HTTP/1.0\r\n\r\n", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, "Content-Security-Policy: default-src 'none'; script-src 'self'"), "%s",
                       answer);
    cr_expect_not_null(strstr(answer, "frame-ancestors 'none'"));
    cr_expect_not_null(strstr(answer, "X-Content-Type-Options: nosniff"));
    gw_http_close(http);
    gw_board_close(board);
}

Test(http, a_page_that_did_not_change_is_not_sent_again) {
    static char answer[400000];
    char request[300];
    gw_err err;
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    gw_http *http = open_http(&any, board, &bound);
    exchange(&bound, "GET /page.js HTTP/1.0\r\n\r\n", answer, sizeof answer);
    char *etag = strstr(answer, "ETag: \"");
    cr_assert_not_null(etag, "%s", answer);
    snprintf(request, sizeof request, "GET /page.js HTTP/1.0\r\nIf-None-Match: %.18s\r\n\r\n", etag + 6);
    exchange(&bound, request, answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 304 "), "%s", answer);
    exchange(&bound, "GET /page.js HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, "Content-Encoding: gzip"), "%s", answer);
    const char *body = strstr(answer, "\r\n\r\n") + 4;
    cr_expect(body[0] == '\x1f' && body[1] == '\x8b');
    gw_http_close(http);
    gw_board_close(board);
}

Test(http, a_flood_gets_short_answers) {
    char answer[65536];
    gw_err err;
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    gw_board *board = gw_board_open(&err);
    const gw_api_sources sources = {.board = board};
    atomic_store(&standing_ns, UINT64_C(1000000000000));
    gw_http *http = gw_http_open(gw_http_bind(&any, &bound, &err), &sources, 5, &err);
    gw_board_publish(board, rig_busy_snapshot());
    uint32_t good = 0;
    for (uint32_t i = 0; i < 30; i++) {
        exchange(&bound, "GET /api/state HTTP/1.0\r\n\r\n", answer, sizeof answer);
        bool refused = strstr(answer, " 429 ") != NULL && strstr(answer, "Retry-After: 1") != NULL;
        cr_expect(refused || strstr(answer, " 200 ") != NULL, "%s", answer);
        good += !refused;
    }
    cr_expect_eq(good, 10, "%u", good);
    exchange(&bound, "GET /healthz HTTP/1.0\r\n\r\n", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 200 "), "a probe is always answered: %s", answer);
    atomic_fetch_add(&standing_ns, UINT64_C(1000000000));
    gw_board_publish(board, rig_busy_snapshot());
    exchange(&bound, "GET /api/state HTTP/1.0\r\n\r\n", answer, sizeof answer);
    cr_expect_not_null(strstr(answer, " 200 "), "%s", answer);
    gw_http_close(http);
    gw_board_close(board);
}

/* The API, with series and lines. */

static gw_series *open_series(void) {
    static const gw_series_place place = {.job = {{1}}};
    gw_series_place here = place;
    gw_err err;
    here.io = gw_io_system();
    here.dir = scratch_folder();
    gw_series *series = gw_series_open(&here, &err);
    cr_assert_not_null(series, "%s", err.text);
    for (uint64_t step = 1; step <= 3000; step++)
        gw_series_add(series, &(gw_metrics_row){.step = step,
                                                .phase = "train",
                                                .ms = 1,
                                                .members = 2,
                                                .shards = 8,
                                                .report = step % 2 ? "loss=0.5" : "loss=1.5 odd\"key=2"});
    return series;
}

Test(http, the_api_tells_series_and_lines, .init = scratch_open, .fini = scratch_close) {
    static const struct {
        const char *path, *status, *contains;
    } cases[] = {
        {"/api/series?keys=train/loss&from=2999", "200",
         "\"series\":{\"train/loss\":{\"begin\":[2999,3000],\"last\":[0.5,1.5]}}"},
        {"/api/series?keys=train%2Floss,run/ms&from=1&to=7&points=4", "200",
         "\"train/loss\":{\"begin\":[1,2],\"end\":[1,7],\"count\":[1,6],\"min\":[0.5,0.5],\"max\":[0.5,1.5]"},
        {"/api/series?points=1", "200", "\"count\":[3000]"},
        {"/api/series", "200", "odd\\\"key"},
        {"/api/series?keys=none", "200", "\"series\":{}"},
        {"/api/series?from=-1", "400", "whole numbers"},
        {"/api/series?points=0", "400", ""},
        {"/api/series?points=99999", "400", ""},
        {"/api/log", "200", "\"lines\":[{\"line\":1,\"time\":"},
        {"/api/log?since=1", "200", "\"last\":2,\"lines\":[{\"line\":2,"},
        {"/api/log?since=2", "200", "\"lines\":[]"},
        {"/api/log?since=x", "400", ""},
        {"/api/events", "200", "\"events\":[]"},
        {"/api/peers", "200", "\"card\":{"},
    };
    static char answer[400000];
    char request[300];
    gw_err err;
    gw_addr any = {.family = 4, .ip = {127, 0, 0, 1}}, bound;
    const gw_api_sources sources = {
        .board = gw_board_open(&err), .series = open_series(), .log = gw_log_tail_open(&err)};
    gw_http *http = gw_http_open(gw_http_bind(&any, &bound, &err), &sources, 0, &err);
    gw_board_publish(sources.board, rig_busy_snapshot());
    gw_log_tail_add(sources.log, GW_INFO, "room", "a \"text\"");
    gw_log_tail_add(sources.log, GW_WARN, "room", "<b>another</b>");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", cases[i].path);
        exchange(&bound, request, answer, sizeof answer);
        cr_expect(strncmp(answer + 9, cases[i].status, 3) == 0, "%s -> %.60s", cases[i].path, answer);
        cr_expect_not_null(strstr(answer, cases[i].contains), "%s -> %s", cases[i].path, answer);
    }
    gw_http_close(http);
    cr_assert(gw_series_close(sources.series, UINT64_C(1000000000000000)));
    gw_log_tail_close(sources.log);
    gw_board_close(sources.board);
}
