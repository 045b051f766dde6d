/* A peer that holds the key and answers its client with what it likes: nothing of it is believed. */
#include "scratch.h"
#include "tests/tools/service/rig.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct liar liar;
struct liar {
    gw_identity identity;
    gw_keyring keyring;
    gw_local local;
    gw_loop *loop;
    gw_listener *listener;
    gw_stream *stream;
    pthread_t thread;
    char address[64];
    /* Fills in the answer to a request; kind GW_SERVICE_WELCOME of the request stands for the beginning. */
    void (*answer)(liar *l, const gw_service_request *request, gw_service_answer *answer);
    uint8_t *manifest; /* the encoded manifest of a checkpoint of step 40 */
    size_t manifest_bytes;
    gw_checkpoint_key key;
    uint32_t asked;
};

static gw_err err;

static void send_answer(liar *l, const gw_service_request *request) {
    gw_service_answer answer = {.kind = request->kind, .id = request->id};
    uint8_t *bytes;
    size_t length;
    gw_err why;
    if (l->answer != NULL) l->answer(l, request, &answer);
    cr_assert(gw_service_answer_encode(&answer, &bytes, &length, &why));
    cr_assert(gw_stream_send(l->stream, bytes, length, &why), "%s", why.text);
    free(bytes);
}

static void on_message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    liar *l = context;
    gw_service_request request;
    gw_err why;
    l->stream = stream;
    cr_assert(gw_service_request_decode(bytes, count, &request, &why), "%s", why.text);
    l->asked++;
    send_answer(l, &request);
}

static void on_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    liar *l = context;
    (void)why, (void)fault, (void)text;
    if (l->stream == stream) l->stream = NULL;
}

static void on_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    (void)context, (void)stream, (void)remote;
}

static void on_accepted(void *context, gw_stream *stream, const gw_remote *remote) {
    liar *l = context;
    (void)remote;
    const gw_stream_events events = {
        .context = l, .ready = on_ready, .message = on_message, .closed = on_closed};
    gw_stream_set_events(stream, &events);
    l->stream = stream;
    send_answer(l, &(gw_service_request){.kind = GW_SERVICE_WELCOME});
}

static void *run_loop(void *context) {
    gw_loop_run(((liar *)context)->loop);
    return NULL;
}

static void make_manifest(liar *l) {
    static const gw_tensor tensor = {.name = "w", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {100}};
    static const gw_hash chunk = {{1, 2, 3}};
    gw_manifest manifest = {.job_name = "test",
                            .job_id = {{7}},
                            .step = RIG_STEP,
                            .tensors = &tensor,
                            .tensor_count = 1,
                            .chunks = &chunk,
                            .chunk_count = 1};
    cr_assert(gw_manifest_seal(&manifest, &err) &&
                  gw_manifest_encode(&manifest, (void **)&l->manifest, &l->manifest_bytes, &err),
              "%s", err.text);
    l->key = (gw_checkpoint_key){.job_id = manifest.job_id, .step = manifest.step, .root = manifest.root};
}

static void open_liar(liar *l, void (*answer)(liar *, const gw_service_request *, gw_service_answer *)) {
    uint8_t seed[32] = {5};
    int tcp, udp;
    const gw_listener_events events = {.context = l, .accepted = on_accepted};
    cr_assert_geq(sodium_init(), 0);
    *l = (liar){.answer = answer};
    make_manifest(l);
    gw_identity_from_seed(seed, 1, 5, &l->identity);
    l->local = (gw_local){
        .identity = &l->identity, .keyring = &l->keyring, .listen = {.family = 4, .ip = {127, 0, 0, 1}}};
    gw_cluster_id("godwit", &l->local.cluster);
    cr_assert(gw_endpoint_bind(&l->local.listen, &tcp, &udp, &l->local.listen, &err), "%s", err.text);
    close(udp);
    gw_addr_text(&l->local.listen, l->address);
    l->loop = gw_loop_open(&err);
    l->listener = l->loop != NULL ? gw_listener_open(l->loop, &l->local, tcp, &events, &err) : NULL;
    cr_assert_not_null(l->listener, "%s", err.text);
    cr_assert_eq(pthread_create(&l->thread, NULL, run_loop, l), 0);
}

static void close_liar(liar *l) {
    gw_loop_stop(l->loop);
    pthread_join(l->thread, NULL);
    gw_listener_close(l->listener);
    gw_stream_close(l->stream);
    gw_loop_close(l->loop);
    free(l->manifest);
}

static gw_client *dial_liar(liar *l) {
    const gw_client_place place = {.from = l->address};
    return gw_client_dial(&place, "test", &err);
}

static void tell_one(liar *l, gw_service_answer *answer) {
    answer->listed = &l->key;
    answer->count = 1;
}

static void tell_manifest(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    answer->file_bytes = l->manifest_bytes;
    answer->offset = request->offset;
    answer->bytes = l->manifest + request->offset;
    answer->length = (uint32_t)(l->manifest_bytes - request->offset);
}

TestSuite(liar, .init = scratch_open, .fini = scratch_close, .timeout = 60);

static void begin_with_list(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    (void)l;
    if (request->kind == GW_SERVICE_WELCOME) answer->kind = GW_SERVICE_LIST;
}

Test(liar, who_does_not_begin_with_a_welcome_is_no_peer) {
    liar l;
    open_liar(&l, begin_with_list);
    cr_assert_null(dial_liar(&l));
    cr_assert_eq(err.code, GW_E_PEER, "%s", err.text);
    close_liar(&l);
}

static void answer_another(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    (void)l;
    if (request->kind != GW_SERVICE_WELCOME) answer->id++;
}

/* Lists one checkpoint and leaves the connection as it is after `answer`. */
static bool read_catalog(void (*answer)(liar *, const gw_service_request *, gw_service_answer *),
                         gw_catalog *catalog) {
    liar l;
    open_liar(&l, answer);
    gw_client *client = dial_liar(&l);
    cr_assert_not_null(client, "%s", err.text);
    bool read = gw_client_catalog(client, catalog, &err);
    gw_client_close(client);
    close_liar(&l);
    return read;
}

Test(liar, an_answer_to_another_request_ends_the_connection) {
    gw_catalog catalog;
    cr_assert_not(read_catalog(answer_another, &catalog));
    cr_assert_not_null(strstr(err.text, "another request"), "%s", err.text);
    gw_catalog_free(&catalog);
}

static void answer_honestly(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    if (request->kind == GW_SERVICE_LIST) tell_one(l, answer);
    if (request->kind == GW_SERVICE_MANIFEST) tell_manifest(l, request, answer);
}

Test(liar, of_an_honest_one_the_checkpoint_is_listed) {
    gw_catalog catalog;
    cr_assert(read_catalog(answer_honestly, &catalog), "%s", err.text);
    cr_assert(catalog.good_count == 1 && catalog.bad_count == 0);
    gw_catalog_free(&catalog);
}

/* The number of bytes of the manifest's file changes on the way. */
static void change_size(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    answer_honestly(l, request, answer);
    if (request->kind != GW_SERVICE_MANIFEST) return;
    answer->length = request->offset == 0 ? 10 : answer->length;
    answer->file_bytes += request->offset > 0;
}
/* No byte of the manifest comes. */
static void tell_nothing(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    answer_honestly(l, request, answer);
    if (request->kind == GW_SERVICE_MANIFEST) answer->length = 0;
}
/* The manifest would not fit into memory. */
static void tell_of_too_much(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    answer_honestly(l, request, answer);
    if (request->kind == GW_SERVICE_MANIFEST) answer->file_bytes = UINT64_MAX;
}
/* A bit of the manifest is wrong. */
static void flip_bit(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    answer_honestly(l, request, answer);
    if (request->kind == GW_SERVICE_MANIFEST) l->manifest[l->manifest_bytes / 2] ^= 1;
}
/* The manifest is that of another checkpoint than the list has. */
static void tell_another(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    if (request->kind == GW_SERVICE_LIST) l->key.root.bytes[0] ^= 1;
    answer_honestly(l, request, answer);
}

Test(liar, a_manifest_that_is_not_the_one_that_was_asked_for_does_not_count) {
    static void (*const lies[])(liar *, const gw_service_request *, gw_service_answer *) = {
        change_size, tell_nothing, tell_of_too_much, flip_bit, tell_another};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        gw_catalog catalog;
        cr_assert(read_catalog(lies[i], &catalog), "%zu: %s", i, err.text);
        cr_assert(catalog.good_count == 0 && catalog.bad_count == 1, "%zu", i);
        gw_catalog_free(&catalog);
    }
}

static void tell_set_of_another_size(liar *l, const gw_service_request *request, gw_service_answer *answer) {
    static gw_service_holder holder;
    (void)l;
    if (request->kind == GW_SERVICE_HOLDERS) {
        holder.chunks = gw_set_of(1000);
        gw_set_fill(&holder.chunks);
        answer->holders = &holder;
        answer->count = 1;
    } else if (request->kind == GW_SERVICE_CHUNK) { /* fewer bytes than were asked for */
        answer->bytes = l->manifest;
        answer->length = 1;
    }
}

Test(liar, chunks_of_another_length_and_sets_of_another_size_are_not_believed) {
    liar l;
    uint8_t chunk[100];
    gw_manifest manifest;
    gw_chunk_holders holders;
    cr_redirect_stderr();
    open_liar(&l, tell_set_of_another_size);
    cr_assert(gw_manifest_decode(l.manifest, l.manifest_bytes, &manifest, &err), "%s", err.text);
    gw_client *client = dial_liar(&l);
    cr_assert_not_null(client, "%s", err.text);
    cr_assert(gw_client_holders(client, &manifest, true, &holders, &err), "%s", err.text);
    cr_assert_eq(holders.list[0].knowledge, GW_HOLDER_UNKNOWN);
    cr_assert_not(gw_client_chunk(client, &manifest, 0, &holders, chunk, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
    gw_chunk_holders_free(&holders);
    gw_client_close(client);
    gw_manifest_free(&manifest);
    close_liar(&l);
}
