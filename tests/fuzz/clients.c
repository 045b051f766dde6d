/* Targets for what a peer and its clients (tools/godwit/service) send each other: requests, answers, and
 * the lists of chunks by which peers tell each other what they have. What is understood is written again,
 * to the same bytes. */
#include "tests/fuzz/target.h"
#include "tools/godwit/service/message.h"
#include "tools/godwit/work/fetch.h"

#include <stdlib.h>
#include <string.h>

static void request_examples(fuzz_add *add, void *context) {
    for (gw_service_kind kind = GW_SERVICE_LIST; kind <= GW_SERVICE_TRACE; kind++) {
        if (kind == GW_SERVICE_WELCOME) continue;
        uint8_t bytes[GW_SERVICE_REQUEST_BYTES];
        const gw_service_request request = {.kind = kind,
                                            .id = 3,
                                            .checkpoint = {{{1}}, 40, {{2}}},
                                            .offset = 4096,
                                            .others = true,
                                            .name = {{5}},
                                            .length = 1000,
                                            .peer = {{6}}};
        add(context, bytes, gw_service_request_encode(&request, bytes));
    }
}

static bool take_request(const uint8_t *bytes, size_t count) {
    gw_service_request request;
    gw_err err;
    uint8_t again[GW_SERVICE_REQUEST_BYTES];
    if (!gw_service_request_decode(bytes, count, &request, &err)) return false;
    GW_ASSERT(request.length <= GW_SERVICE_PIECE_BYTES);
    GW_ASSERT(gw_service_request_encode(&request, again) == count && memcmp(again, bytes, count) == 0);
    return true;
}

const fuzz_target fuzz_service_request = {"service_request", 500000, 160,
                                          request_examples,  NULL,   take_request};

static void add_answer(fuzz_add *add, void *context, const gw_service_answer *answer) {
    uint8_t *bytes;
    size_t length;
    gw_err err;
    GW_ASSERT_MEMORY(gw_service_answer_encode(answer, &bytes, &length, &err));
    add(context, bytes, length);
    free(bytes);
}

static void answer_examples(fuzz_add *add, void *context) {
    static const uint8_t piece[] = {1, 2, 3};
    gw_checkpoint_key keys[2] = {{{{1}}, 2, {{3}}}, {{{4}}, 5, {{6}}}};
    gw_service_holder holders[3] = {
        {.id = {{1}}, .addr = {.family = 4, .port = 7}, .name = "Knoten-\xc3\xa4", .chunks = gw_set_of(70)},
        {.id = {{2}}, .addr = {.family = 6, .port = 8}, .knowledge = GW_HOLDER_SILENT},
        {.id = {{3}}, .knowledge = GW_HOLDER_UNKNOWN}};
    gw_set_add(&holders[0].chunks, 69);
    add_answer(add, context, &(gw_service_answer){.kind = GW_SERVICE_WELCOME, .self = {{8}}});
    add_answer(add, context, &(gw_service_answer){.kind = GW_SERVICE_LIST, .listed = keys, .count = 2});
    add_answer(add, context,
               &(gw_service_answer){.kind = GW_SERVICE_HOLDERS, .holders = holders, .count = 3});
    add_answer(add, context, &(gw_service_answer){.kind = GW_SERVICE_CHUNK, .bytes = piece, .length = 3});
    add_answer(add, context, &(gw_service_answer){.kind = GW_SERVICE_TRACE, .bytes = piece, .length = 3});
    add_answer(add, context,
               &(gw_service_answer){.kind = GW_SERVICE_TIME, .received_ns = 1, .sent_ns = UINT64_MAX});
    add_answer(
        add, context,
        &(gw_service_answer){
            .kind = GW_SERVICE_MEMBERS, .cluster = {{7}}, .keyed = true, .holders = holders + 1, .count = 2});
    add_answer(add, context,
               &(gw_service_answer){
                   .kind = GW_SERVICE_MANIFEST, .file_bytes = 10, .offset = 7, .bytes = piece, .length = 3});
    add_answer(add, context,
               &(gw_service_answer){.kind = GW_SERVICE_LIST, .outcome = GW_SERVICE_BUSY, .why = "8 clients"});
    gw_set_free(&holders[0].chunks);
}

static bool take_answer(const uint8_t *bytes, size_t count) {
    gw_service_answer answer;
    gw_err err;
    uint8_t *again;
    size_t length;
    if (!gw_service_answer_decode(bytes, count, &answer, &err)) return false;
    GW_ASSERT_MEMORY(gw_service_answer_encode(&answer, &again, &length, &err));
    GW_ASSERT(length == count && memcmp(again, bytes, count) == 0);
    free(again);
    gw_service_answer_free(&answer);
    return true;
}

const fuzz_target fuzz_service_answer = {"service_answer", 200000, 400, answer_examples, NULL, take_answer};

static void held_examples(fuzz_add *add, void *context) {
    gw_set chunks = gw_set_of(100);
    for (uint32_t i = 0; i < 3; i++) {
        uint8_t bytes[GW_HELD_BYTES(100)];
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_set_put(&w, &chunks);
        add(context, bytes, w.length);
        for (uint32_t c = i; c < 100; c += 2 + 5 * i) gw_set_add(&chunks, c);
    }
    gw_set_free(&chunks);
}

static bool take_held(const uint8_t *bytes, size_t count) {
    gw_set chunks;
    gw_err err;
    if (!gw_held_decode(bytes, count, &chunks, &err)) return false;
    GW_ASSERT(gw_set_count(&chunks) <= chunks.size);
    gw_set_free(&chunks);
    return true;
}

const fuzz_target fuzz_held = {"held", 200000, 200, held_examples, NULL, take_held};
