/* The messages between the endpoints of an RDMA path, and the hello of a dialler: the bytes, and what is not
 * accepted. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "net/rdma/message.h"

#include <sodium.h>
#include <string.h>

static gw_rdma_slots_message slots;
static gw_rdma_words_message words;
static gw_rdma_message_body told;

static uint32_t sample_slots(uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    slots = (gw_rdma_slots_message){.count = 2, .slots[1] = {0x0807060504030201, 0x11223344, 0x5566, 8}};
    memset(slots.addressee.bytes, 0xab, sizeof slots.addressee.bytes);
    memset(slots.secret, 0xcd, sizeof slots.secret);
    return gw_rdma_slots_encode(&slots, bytes);
}

static uint32_t sample_want(uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_rdma_want_message want = {.what = GW_RDMA_OF_REGION,
                                 .id = 0x0807060504030201,
                                 .bytes = 0x100000,
                                 .fence = {.epoch = 9},
                                 .region = 5,
                                 .offset = 0x42};
    memset(want.fence.view.bytes, 0xef, sizeof want.fence.view.bytes);
    return gw_rdma_want_encode(&want, bytes);
}

static uint32_t sample_want_by_name(uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_rdma_want_message want = {.what = GW_RDMA_BY_NAME, .id = 3, .bytes = 4};
    memset(want.name.bytes, 0xab, sizeof want.name.bytes);
    return gw_rdma_want_encode(&want, bytes);
}

static uint32_t sample_lent(uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    const gw_rdma_lent_message lent = {
        .answer = GW_RDMA_LENT, .id = 7, .address = 0x0807060504030201, .bytes = 9, .rkey = 0x11223344};
    return gw_rdma_lent_encode(&lent, bytes);
}

static uint32_t sample_back(uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    return gw_rdma_back_encode(&(gw_rdma_back_message){0x0807060504030201}, bytes);
}

static uint32_t sample_words(uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    words = (gw_rdma_words_message){.fence = {.epoch = 9},
                                    .address = 0x0807060504030201,
                                    .rkey = 0x11223344,
                                    .count = 1,
                                    .regions[0] = {1, 64, 128}};
    memset(words.fence.view.bytes, 0xef, sizeof words.fence.view.bytes);
    return gw_rdma_words_encode(&words, bytes);
}

Test(rdma_message, the_bytes_of_slots) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES], expected[4 + 16 + 32 + 4 + 2 * 20] = {1, 2};
    memset(expected + 4, 0xab, 16);
    memset(expected + 20, 0xcd, 32);
    expected[52] = 2;
    const uint8_t second[] = {1, 2, 3, 4, 5, 6, 7, 8, 0x44, 0x33, 0x22, 0x11, 0x66, 0x55, 0, 0, 8};
    memcpy(expected + 76, second, sizeof second);
    cr_assert_eq(sample_slots(bytes), sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
    cr_assert_eq(gw_rdma_message_decode(bytes, sizeof expected, &told), GW_RDMA_MESSAGE_SLOTS);
    cr_assert(gw_peer_id_equal(&told.slots.addressee, &slots.addressee) && told.slots.count == 2);
    cr_assert_arr_eq(told.slots.secret, slots.secret, sizeof slots.secret);
    cr_assert(told.slots.slots[1].address == slots.slots[1].address &&
              told.slots.slots[1].rkey == 0x11223344 && told.slots.slots[1].slot_bytes == 0x5566 &&
              told.slots.slots[1].count == 8);
}

Test(rdma_message, the_bytes_of_words) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES], expected[4 + 8 + 16 + 8 + 8 + 12] = {2, 0, 0, 0, 9};
    memset(expected + 12, 0xef, 16);
    const uint8_t rest[] = {1, 2, 3, 4, 5, 6, 7, 8,  0x44, 0x33, 0x22, 0x11, 1,
                            0, 0, 0, 1, 0, 0, 0, 64, 0,    0,    0,    128};
    memcpy(expected + 28, rest, sizeof rest);
    cr_assert_eq(sample_words(bytes), sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
    cr_assert_eq(gw_rdma_message_decode(bytes, sizeof expected, &told), GW_RDMA_MESSAGE_WORDS);
    cr_assert(told.words.fence.epoch == 9 && told.words.address == words.address &&
              told.words.rkey == words.rkey && told.words.count == 1 && told.words.regions[0].offset == 64 &&
              told.words.regions[0].bytes == 128 && told.words.regions[0].region == 1);
}

Test(rdma_message, the_bytes_of_what_is_wanted) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES], expected[52] = {3, 2, 5, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 16};
    expected[20] = 9;
    memset(expected + 28, 0xef, 16);
    expected[44] = 0x42;
    cr_assert_eq(sample_want(bytes), sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
    cr_assert_eq(gw_rdma_message_decode(bytes, sizeof expected, &told), GW_RDMA_MESSAGE_WANT);
    cr_assert(told.want.what == GW_RDMA_OF_REGION && told.want.id == 0x0807060504030201 &&
              told.want.bytes == 0x100000 && told.want.region == 5 && told.want.offset == 0x42 &&
              told.want.fence.epoch == 9 && told.want.fence.view.bytes[15] == 0xef);
    uint8_t named[52] = {3, 1, 0, 0, 3};
    named[12] = 4;
    memset(named + 20, 0xab, 32);
    cr_assert_eq(sample_want_by_name(bytes), sizeof named);
    cr_assert_arr_eq(bytes, named, sizeof named);
    cr_assert_eq(gw_rdma_message_decode(bytes, sizeof named, &told), GW_RDMA_MESSAGE_WANT);
    cr_assert(told.want.what == GW_RDMA_BY_NAME && told.want.id == 3 && told.want.bytes == 4 &&
              told.want.name.bytes[31] == 0xab);
    bytes[1] = 3;
    cr_assert_eq(gw_rdma_message_decode(bytes, sizeof named, &told), GW_RDMA_MESSAGE_BAD);
}

Test(rdma_message, the_bytes_of_a_loan) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    const uint8_t expected[32] = {4, 1, 0, 0, 0x44, 0x33, 0x22, 0x11, 7, 0, 0, 0, 0,
                                  0, 0, 0, 1, 2,    3,    4,    5,    6, 7, 8, 9};
    cr_assert_eq(sample_lent(bytes), sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
    cr_assert_eq(gw_rdma_message_decode(bytes, sizeof expected, &told), GW_RDMA_MESSAGE_LENT);
    cr_assert(told.lent.answer == GW_RDMA_LENT && told.lent.id == 7 && told.lent.bytes == 9 &&
              told.lent.address == 0x0807060504030201 && told.lent.rkey == 0x11223344);
    bytes[1] = 0;
    cr_assert_eq(gw_rdma_message_decode(bytes, sizeof expected, &told), GW_RDMA_MESSAGE_BAD);
    const uint8_t back[12] = {5, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    cr_assert_eq(sample_back(bytes), sizeof back);
    cr_assert_arr_eq(bytes, back, sizeof back);
    cr_assert_eq(gw_rdma_message_decode(bytes, sizeof back, &told), GW_RDMA_MESSAGE_BACK);
    cr_assert_eq(told.back.id, 0x0807060504030201);
}

Test(rdma_message, what_makes_no_sense_is_not_accepted) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    uint32_t (*const samples[])(uint8_t *) = {sample_slots, sample_words,        sample_want,
                                              sample_lent,  sample_want_by_name, sample_back};
    for (size_t kind = 0; kind < sizeof samples / sizeof samples[0]; kind++) {
        uint32_t count = samples[kind](bytes);
        for (uint32_t shorter = 0; shorter < count; shorter++)
            cr_assert_eq(gw_rdma_message_decode(bytes, shorter, &told), GW_RDMA_MESSAGE_BAD);
        bytes[count] = 0;
        cr_assert_eq(gw_rdma_message_decode(bytes, count + 1, &told), GW_RDMA_MESSAGE_BAD);
        bytes[0] = 6;
        cr_assert_eq(gw_rdma_message_decode(bytes, count, &told), GW_RDMA_MESSAGE_BAD);
    }
    uint32_t count = sample_slots(bytes);
    bytes[52] = GW_PATH_STREAMS + 1;
    cr_assert_eq(gw_rdma_message_decode(bytes, count, &told), GW_RDMA_MESSAGE_BAD);
    count = sample_slots(bytes);
    bytes[1] = 9; /* version */
    cr_assert_eq(gw_rdma_message_decode(bytes, count, &told), GW_RDMA_MESSAGE_BAD);
    count = sample_words(bytes);
    bytes[40] = GW_MAX_REGIONS + 1;
    cr_assert_eq(gw_rdma_message_decode(bytes, count, &told), GW_RDMA_MESSAGE_BAD);
}

Test(rdma_message, the_bytes_of_a_card) {
    uint8_t bytes[GW_PATH_CARD_BYTES], expected[4 + 8 + 19] = {1, 1, 0x10, 0x27, 5, 0, 0, 0, 0, 0, 0, 6};
    gw_rdma_card card = {.ethernet = true,
                         .network = {5, 0, 0, 0, 0, 0, 0, 6},
                         .address = {4, {10, 0, 0, 1}, 7},
                         .mbits = 1000099};
    gw_rdma_card got;
    gw_writer w = gw_writer_on(expected + 12, 19);
    gw_put_addr(&w, &card.address);
    cr_assert_eq(gw_rdma_card_encode(&card, bytes), sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
    cr_assert(gw_rdma_card_decode(bytes, sizeof expected, &got));
    cr_assert(got.ethernet && gw_addr_equal(&got.address, &card.address) && got.network[7] == 6);
    cr_assert_eq(got.mbits, 1000000);
    bytes[2] = bytes[3] = 0; /* a build that does not tell its rate */
    cr_assert(gw_rdma_card_decode(bytes, sizeof expected, &got));
    cr_assert_eq(got.mbits, 0);
    cr_assert(!gw_rdma_card_decode(bytes, sizeof expected - 1, &got));
    bytes[0] = 2;
    cr_assert(!gw_rdma_card_decode(bytes, sizeof expected, &got));
}

/* A tag is good for one secret, queue, try, dialler and acceptor. */
Test(rdma_message, the_tag_of_a_dialler) {
    cr_assert(sodium_init() >= 0);
    const uint8_t secret[GW_RDMA_SECRET] = {1}, other[GW_RDMA_SECRET] = {2};
    gw_rdma_hello hello = {.queue = 2, .serial = 3, .dialler = {{4}}, .acceptor = {{5}}}, got;
    uint8_t bytes[GW_RDMA_HELLO];
    gw_rdma_hello_encode(&hello, secret, bytes);
    cr_assert(gw_rdma_hello_decode(bytes, sizeof bytes, &got));
    cr_assert(got.queue == 2 && got.serial == 3 && gw_peer_id_equal(&got.dialler, &hello.dialler));
    cr_assert(gw_peer_id_is_none(&got.acceptor));
    cr_assert(!gw_rdma_hello_verify(&got, secret, bytes));
    got.acceptor = hello.acceptor;
    cr_assert(gw_rdma_hello_verify(&got, secret, bytes));
    cr_assert(!gw_rdma_hello_verify(&got, other, bytes));
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        cr_assert(!gw_rdma_hello_verify(&got, secret, bytes), "byte %zu", i);
        bytes[i] ^= 1;
    }
    cr_assert(!gw_rdma_hello_decode(bytes, sizeof bytes - 1, &got));
    bytes[0] = 2;
    cr_assert(!gw_rdma_hello_decode(bytes, sizeof bytes, &got));
}

/* A dialler that may have 3 requests outstanding here and serves 5, to an acceptor that serves 7 and may have
 * 11. */
Test(rdma_message, an_answer_grants_no_more_than_the_dialler_has) {
    const struct rdma_conn_param asked = {.responder_resources = 3, .initiator_depth = 5};
    struct rdma_conn_param own = {.responder_resources = 7, .initiator_depth = 11};
    gw_rdma_cm_bound(&own, &asked);
    cr_assert_eq(own.responder_resources, 3);
    cr_assert_eq(own.initiator_depth, 5);
    const struct rdma_conn_param more = {.responder_resources = 100, .initiator_depth = 101};
    gw_rdma_cm_bound(&own, &more);
    cr_assert_eq(own.responder_resources, 3);
    cr_assert_eq(own.initiator_depth, 5);
}
#endif
