/* Clients of a peer: what they read, whom they are told of, and what they cannot do to it. */
#include "core/os/clock.h"
#include "core/os/trace.h"
#include "scratch.h"
#include "tests/tools/service/rig.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static service_rig rig;
static uint8_t bytes[GW_CHUNK_BYTES];
static gw_err err;

TestSuite(service, .init = scratch_open, .fini = scratch_close, .timeout = 120);

static gw_client *dial(const char *from, const char *key_file, const char *cluster) {
    const gw_client_place place = {.from = from, .key_file = key_file, .cluster = cluster};
    return gw_client_dial(&place, "test", &err);
}

static gw_client *dial_rig(void) {
    gw_client *client = dial(rig.address, NULL, NULL);
    cr_assert_not_null(client, "%s", err.text);
    return client;
}

static void check_chunk(gw_client *client, gw_chunk_holders *holders, uint32_t chunk) {
    cr_assert(gw_client_chunk(client, &rig.manifest, chunk, holders, bytes, &err), "%s", err.text);
    cr_assert_arr_eq(bytes, service_rig_chunk(&rig, chunk), gw_chunk_length(RIG_STATE_BYTES, chunk));
}

static void check_all(gw_client *client) {
    gw_catalog catalog;
    gw_chunk_holders holders;
    cr_assert(gw_client_catalog(client, &catalog, &err), "%s", err.text);
    cr_assert_eq(catalog.good_count, 1);
    cr_assert_eq(catalog.bad_count, 0);
    cr_assert(gw_hash_equal(&catalog.good[0].root, &rig.manifest.root));
    cr_assert(gw_client_holders(client, &catalog.good[0], true, &holders, &err), "%s", err.text);
    cr_assert_eq(holders.count, 1 + RIG_OTHERS);
    cr_assert_str_eq(holders.list[0].name, "asked");
    for (uint32_t c = 0; c < RIG_CHUNKS; c++) {
        check_chunk(client, &holders, c);
        cr_assert_eq(gw_holder_has(&holders.list[0], c), c == 0);
        cr_assert_eq(gw_holder_has(&holders.list[1], c), c == 1);
        cr_assert_eq(gw_holder_has(&holders.list[2], c), c == 2);
    }
    gw_chunk_holders_free(&holders);
    gw_catalog_free(&catalog);
}

/* Chunk 0 is at the asked peer, 1 and 2 are at one other peer each. */
static void open_spread(uint8_t key) {
    service_rig_open(&rig, 1, key);
    rig.others[0].has = 2;
    rig.others[1].has = 4;
}

Test(service, a_client_with_the_key_reads_what_the_peer_and_the_others_have) {
    open_spread(1);
    gw_client *client = dial(rig.address, service_rig_key_file(1), NULL);
    cr_assert_not_null(client, "%s", err.text);
    cr_assert_str_eq(gw_client_name(client), rig.address);
    check_all(client);
    gw_client_close(client);
    service_rig_close(&rig);
}

Test(service, a_client_in_the_directory_needs_no_key) {
    open_spread(1);
    gw_client *client = gw_client_open(scratch_folder(), "test", &err);
    cr_assert_not_null(client, "%s", err.text);
    check_all(client);
    gw_client_close(client);
    service_rig_close(&rig);
}

Test(service, a_client_without_the_key_is_told_so_and_learns_nothing) {
    open_spread(1);
    cr_assert_null(dial(rig.address, service_rig_key_file(2), NULL));
    cr_assert_eq(err.code, GW_E_DENIED, "%s", err.text);
    cr_assert_not_null(strstr(err.text, "--key"), "%s", err.text);
    cr_assert_null(dial(rig.address, NULL, NULL));
    cr_assert_eq(err.code, GW_E_DENIED, "%s", err.text);
    cr_assert_null(dial(rig.address, service_rig_key_file(1), "another"));
    cr_assert_eq(err.code, GW_E_DENIED, "%s", err.text);
    cr_assert_not_null(strstr(err.text, "--cluster"), "%s", err.text);
    service_rig_close(&rig);
}

/* Answers the first bytes of one connection as a web server does. */
static void *serve_web(void *context) {
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    char heard[64];
    int fd = accept(*(const int *)context, NULL, NULL);
    if (fd >= 0 && recv(fd, heard, sizeof heard, 0) > 0)
        (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    while (recv(fd, heard, sizeof heard, 0) > 0) {
    }
    close(fd);
    return NULL;
}

Test(service, a_wrong_port_is_told_as_such) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    char text[64];
    pthread_t thread;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(bind(fd, (struct sockaddr *)&address, length) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(address.sin_port));
    cr_assert_null(dial(text, NULL, NULL));
    cr_assert_not_null(strstr(err.text, "nobody listens there"), "%s", err.text);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(pthread_create(&thread, NULL, serve_web, &fd), 0);
    cr_assert_null(dial(text, NULL, NULL));
    cr_assert_not_null(strstr(err.text, "no peer"), "%s", err.text);
    pthread_join(thread, NULL);
    close(fd);
    cr_assert_null(dial("127.0.0.1", NULL, NULL));
    cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
}

Test(service, where_no_peer_runs_there_is_nobody_to_ask) {
    cr_assert_null(gw_client_open(scratch_folder(), "test", &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
}

static void ask_holders(gw_client *client, gw_chunk_holders *holders) {
    cr_assert(gw_client_holders(client, &rig.manifest, true, holders, &err), "%s", err.text);
}

Test(service, a_holder_that_lies_or_dies_is_told_of_and_another_one_asked) {
    gw_chunk_holders holders;
    cr_redirect_stderr();
    service_rig_open(&rig, 0, 0);
    rig.others[0].has = rig.others[1].has = 7;
    gw_client *client = dial_rig();
    ask_holders(client, &holders);
    atomic_store(&rig.others[0].manner, RIG_LIES);
    for (uint32_t c = 0; c < RIG_CHUNKS; c++) check_chunk(client, &holders, c);
    cr_assert_gt(atomic_load(&rig.others[0].asked), 0);
    atomic_store(&rig.others[0].manner, RIG_IS_SILENT);
    atomic_store(&rig.others[0].asked, 0);
    for (uint32_t c = 0; c < RIG_CHUNKS; c++) check_chunk(client, &holders, c);
    cr_assert_eq(atomic_load(&rig.others[0].asked), 1, "it is not asked again");
    atomic_store(&rig.others[1].manner, RIG_IS_SILENT);
    cr_assert_not(gw_client_chunk(client, &rig.manifest, 0, &holders, bytes, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
    cr_assert_not_null(strstr(err.text, "do not answer"), "%s", err.text);
    gw_chunk_holders_free(&holders);
    gw_client_close(client);
    service_rig_close(&rig);
}

Test(service, a_peer_that_does_not_tell_what_it_has_is_asked_last) {
    gw_chunk_holders holders;
    service_rig_open(&rig, 1, 0);
    rig.others[0].has = 7;
    rig.others[1].has = 2;
    atomic_store(&rig.others[0].manner, RIG_TELLS_NOTHING);
    gw_client *client = dial_rig();
    ask_holders(client, &holders);
    cr_assert_eq(holders.list[1].knowledge, GW_HOLDER_UNKNOWN);
    check_chunk(client, &holders, 0);
    check_chunk(client, &holders, 1);
    cr_assert_eq(atomic_load(&rig.others[0].asked), 0);
    check_chunk(client, &holders, 2);
    cr_assert_eq(atomic_load(&rig.others[0].asked), 1);
    gw_chunk_holders_free(&holders);
    gw_client_close(client);
    service_rig_close(&rig);
}

Test(service, a_peer_that_was_started_again_is_asked_again) {
    gw_chunk_holders holders;
    cr_redirect_stderr();
    service_rig_open(&rig, 7, 0);
    gw_client *client = dial_rig();
    ask_holders(client, &holders);
    service_rig_stop(&rig);
    service_rig_start(&rig);
    check_chunk(client, &holders, 1);
    service_rig_stop(&rig);
    cr_assert_not(gw_client_chunk(client, &rig.manifest, 1, &holders, bytes, &err));
    cr_assert_eq(err.code, GW_E_PEER, "%s", err.text);
    service_rig_start(&rig);
    gw_chunk_holders_free(&holders);
    gw_client_close(client);
    service_rig_close(&rig);
}

/* The first chunks come through one peer, the others through another one of the flock, of which the first
 * has told. */
Test(service, when_the_named_peer_ends_another_one_is_asked) {
    static service_rig second;
    gw_chunk_holders holders;
    service_rig_open(&rig, 7, 1);
    service_rig_open_in(&second, "second", 7, 1);
    rig.others[0].id = second.identity.id;
    rig.others[0].addr = second.local.listen;
    rig.others[0].has = 7;
    gw_client *client = dial(rig.address, service_rig_key_file(1), NULL);
    cr_assert_not_null(client, "%s", err.text);
    cr_redirect_stderr();
    ask_holders(client, &holders);
    check_chunk(client, &holders, 0);
    service_rig_stop(&rig);
    for (uint32_t c = 0; c < RIG_CHUNKS; c++) check_chunk(client, &holders, c);
    gw_client_close(client);
    gw_chunk_holders_free(&holders);
    service_rig_start(&rig);
    service_rig_close(&rig);
    service_rig_close(&second);
}

typedef struct asker {
    gw_client *client;
    gw_chunk_holders holders;
    pthread_t thread;
} asker;

static bool is_released(void) {
    pthread_mutex_lock(&rig.lock);
    bool released = rig.released;
    pthread_mutex_unlock(&rig.lock);
    return released;
}

/* Asks until the peer that hangs is let go: the connection may have been idle when a newcomer came. */
static void *ask_for_chunk(void *context) {
    asker *a = context;
    gw_err why;
    uint8_t *own = malloc(GW_CHUNK_BYTES);
    while (!is_released()) gw_client_chunk(a->client, &rig.manifest, 0, &a->holders, own, &why);
    free(own);
    return NULL;
}

/* A client as a stream, without the code of clients. */
typedef struct raw {
    uint32_t answers;
    bool ended;
} raw;

static void raw_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    (void)context, (void)stream, (void)remote;
}

/* After the welcome it asks twice at once. */
static void raw_message(void *context, gw_stream *stream, const uint8_t *message, size_t count) {
    raw *r = context;
    (void)message;
    if (count == 0 || r->answers++ > 0) return;
    uint8_t request[GW_SERVICE_REQUEST_BYTES];
    const gw_service_request list = {.kind = GW_SERVICE_LIST};
    size_t length = gw_service_request_encode(&list, request);
    for (int i = 0; i < 2; i++) cr_assert(gw_stream_send(stream, request, length, &err), "%s", err.text);
}

static void raw_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    (void)stream, (void)why, (void)fault, (void)text;
    ((raw *)context)->ended = true;
}

Test(service, a_client_that_asks_again_before_it_is_answered_is_parted_from) {
    raw r = {0};
    uint8_t seed[32] = {9};
    gw_identity identity;
    const gw_stream_events events = {
        .context = &r, .ready = raw_ready, .message = raw_message, .closed = raw_closed};
    service_rig_open(&rig, 0, 0);
    rig.others[0].has = 7;
    atomic_store(&rig.others[0].manner, RIG_HANGS);
    asker other = {.client =
                       dial_rig()}; /* its request is carried out meanwhile, so that none of the two is */
    ask_holders(other.client, &other.holders);
    cr_assert_eq(pthread_create(&other.thread, NULL, ask_for_chunk, &other), 0);
    while (atomic_load(&rig.hanging) == 0) sched_yield();
    gw_identity_from_seed(seed, 1, 9, &identity);
    gw_local local = rig.local;
    local.identity = &identity;
    gw_loop *loop = gw_loop_open(&err);
    gw_stream *stream = gw_stream_dial(loop, &local, &rig.local.listen, GW_STREAM_CLIENT, 0, &events, &err);
    cr_assert(loop != NULL && stream != NULL, "%s", err.text);
    while (!r.ended) gw_loop_turn(loop, UINT64_MAX);
    cr_assert_eq(r.answers, 1, "the welcome alone");
    gw_loop_close(loop);
    cr_redirect_stderr();
    service_rig_release(&rig);
    cr_assert_eq(pthread_join(other.thread, NULL), 0);
    gw_chunk_holders_free(&other.holders);
    gw_client_close(other.client);
    service_rig_close(&rig);
}

Test(service, a_peer_in_the_directory_that_ends_is_not_taken_for_a_chunk_that_is_nowhere) {
    gw_chunk_holders holders;
    cr_redirect_stderr();
    service_rig_open(&rig, 7, 0);
    gw_client *client = gw_client_open(scratch_folder(), "test", &err);
    cr_assert_not_null(client, "%s", err.text);
    ask_holders(client, &holders);
    service_rig_stop(&rig);
    cr_assert_not(gw_client_chunk(client, &rig.manifest, 1, &holders, bytes, &err));
    cr_assert_eq(err.code, GW_E_PEER, "%s", err.text);
    service_rig_start(&rig);
    gw_chunk_holders_free(&holders);
    gw_client_close(client);
    service_rig_close(&rig);
}

Test(service, a_damaged_chunk_is_quarantined_and_not_handed_out) {
    gw_chunk_holders holders;
    char digits[GW_HASH_TEXT], path[512];
    service_rig_open(&rig, 7, 0);
    gw_hex(rig.manifest.chunks[2].bytes, sizeof(gw_hash), digits);
    snprintf(path, sizeof path, "%s/chunks/%.2s/%s", scratch_folder(), digits, digits);
    FILE *file = fopen(path, "r+");
    cr_assert(file != NULL && fseek(file, 100, SEEK_SET) == 0 && fputc('x', file) == 'x' &&
              fclose(file) == 0);
    gw_client *client = dial_rig();
    ask_holders(client, &holders);
    cr_assert_not(gw_client_chunk(client, &rig.manifest, 2, &holders, bytes, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
    cr_assert_neq(access(path, F_OK), 0);
    gw_chunk_holders_free(&holders);
    gw_client_close(client);
    service_rig_close(&rig);
}

Test(service, chunks_are_handed_out_at_a_limited_pace) {
    gw_chunk_holders holders;
    service_rig_open(&rig, 7, 0);
    gw_client *client = dial_rig();
    ask_holders(client, &holders);
    uint64_t began_ns = gw_now_ns();
    for (uint32_t i = 0; i < 3; i++) check_chunk(client, &holders, 0);
    cr_assert_geq(gw_now_ns() - began_ns, 2 * (uint64_t)GW_CHUNK_BYTES * 1000000000 / GW_SERVICE_BYTES_PER_S);
    gw_chunk_holders_free(&holders);
    gw_client_close(client);
    service_rig_close(&rig);
}

Test(service, one_client_more_ends_the_connection_that_was_idle_for_longest) {
    gw_client *clients[GW_SERVICE_CLIENTS + 1];
    gw_catalog catalog;
    cr_redirect_stderr();
    service_rig_open(&rig, 7, 0);
    for (uint32_t i = 0; i <= GW_SERVICE_CLIENTS; i++) clients[i] = dial_rig();
    for (uint32_t i = 0; i <= GW_SERVICE_CLIENTS;
         i++) { /* the first one connects again, in place of the second */
        cr_assert(gw_client_catalog(clients[i], &catalog, &err), "%s", err.text);
        gw_catalog_free(&catalog);
    }
    for (uint32_t i = 0; i <= GW_SERVICE_CLIENTS; i++) gw_client_close(clients[i]);
    service_rig_close(&rig);
}

/* As many clients as are served wait for a peer that hangs: one more is told so; the service ends all the
 * same. */
Test(service, clients_that_wait_for_a_silent_peer_hold_up_neither_newcomers_nor_the_end) {
    asker askers[GW_SERVICE_CLIENTS];
    cr_redirect_stderr();
    service_rig_open(&rig, 0, 0);
    rig.others[0].has = 7;
    atomic_store(&rig.others[0].manner, RIG_HANGS);
    for (uint32_t i = 0; i < GW_SERVICE_CLIENTS; i++) {
        askers[i].client = dial_rig();
        ask_holders(askers[i].client, &askers[i].holders);
    }
    for (uint32_t i = 0; i < GW_SERVICE_CLIENTS; i++)
        cr_assert_eq(pthread_create(&askers[i].thread, NULL, ask_for_chunk, &askers[i]), 0);
    gw_client *more;
    do { /* until all requests have arrived, it takes the place of a client that is idle still */
        more = dial(rig.address, NULL, NULL);
        gw_client_close(more);
    } while (more != NULL);
    cr_assert_not_null(strstr(err.text, "serving"), "%s", err.text);
    service_rig_release(&rig);
    service_rig_stop(&rig);
    for (uint32_t i = 0; i < GW_SERVICE_CLIENTS; i++) {
        cr_assert_eq(pthread_join(askers[i].thread, NULL), 0);
        gw_chunk_holders_free(&askers[i].holders);
        gw_client_close(askers[i].client);
    }
    service_rig_start(&rig);
    service_rig_close(&rig);
}

/* Tracing. */

static void await_trace(bool on) {
    while (gw_trace_is_on() != on) usleep(1000);
}

/* Counts what this thread has recorded, as the peer tells it. */
static uint32_t fetch_spans(gw_client *client) {
    gw_trace_batch batch;
    cr_assert(gw_client_trace(client, &batch, &err), "%s", err.text);
    uint32_t count = batch.span_count;
    cr_assert_eq(batch.lost, 0);
    gw_trace_batch_free(&batch);
    return count;
}

Test(service, peers_record_while_clients_trace_and_no_longer) {
    open_spread(0);
    gw_client *one = dial_rig(), *other = dial_rig();
    cr_assert_not(gw_trace_is_on());
    cr_assert_eq(fetch_spans(one), 0);
    cr_assert(gw_trace_is_on());
    gw_trace_mark(GW_TRACE_STEP, 1, 1);
    cr_assert_eq(fetch_spans(other), 0);
    gw_trace_mark(GW_TRACE_STEP, 1, 2);
    cr_assert_eq(fetch_spans(one), 2);
    cr_assert_eq(fetch_spans(other), 1);
    gw_client_close(one);
    gw_trace_mark(GW_TRACE_STEP, 1, 3);
    cr_assert_eq(fetch_spans(other), 1, "the other one still traces");
    gw_client_close(other);
    await_trace(false);
    service_rig_close(&rig);
}

Test(service, a_client_that_begins_a_trace_and_does_not_fetch_it_is_let_go) {
    open_spread(0);
    gw_client *client = dial_rig();
    gw_trace_batch batch;
    fetch_spans(client);
    await_trace(false);
    cr_assert_not(gw_client_trace(client, &batch, &err));
    gw_client_close(client);
    service_rig_close(&rig);
}

Test(service, an_end_of_the_peer_ends_the_trace_and_is_told) {
    open_spread(0);
    gw_client *client = dial_rig();
    gw_trace_batch batch;
    fetch_spans(client);
    service_rig_stop(&rig);
    cr_assert_not(gw_trace_is_on());
    cr_assert_not(gw_client_trace(client, &batch, &err));
    cr_assert_null(strstr(err.text, "a peer of an earlier build"));
    gw_client_close(client);
    service_rig_start(&rig);
    service_rig_close(&rig);
}

Test(service, a_client_learns_the_members_and_the_clock) {
    open_spread(5);
    const char *key = service_rig_key_file(5);
    gw_client *client = dial(rig.address, key, NULL);
    gw_members members;
    gw_trace_round round;
    cr_assert_not_null(client, "%s", err.text);
    cr_assert(gw_client_members(client, &members, &err), "%s", err.text);
    cr_assert_eq(members.count, 1 + RIG_OTHERS);
    cr_assert(members.keyed);
    cr_assert(gw_peer_id_equal(&members.list[0].id, &rig.identity.id));
    cr_assert(gw_peer_id_equal(&members.list[2].id, &rig.others[1].id));
    uint64_t before_ns = gw_now_ns();
    cr_assert(gw_client_time(client, &round, &err), "%s", err.text);
    cr_assert(before_ns <= round.sent_ns && round.sent_ns <= round.peer_received_ns &&
              round.peer_received_ns <= round.peer_sent_ns && round.peer_sent_ns <= round.received_ns);
    gw_client *again = gw_client_dial_member(&members.list[0], &members.cluster, key, "test", &err);
    cr_assert_not_null(again, "%s", err.text);
    gw_client_close(again);
    cr_assert_null(gw_client_dial_member(&members.list[0], &members.cluster, NULL, "test", &err));
    gw_members_free(&members);
    gw_client_close(client);
    service_rig_close(&rig);
}
