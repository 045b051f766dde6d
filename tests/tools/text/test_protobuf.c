/* Protobuf's wire format: the bytes of the format's own description, and damaged messages. */
#include "tools/godwit/text/protobuf.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect(gw_protobuf *message, const void *bytes, size_t count) {
    cr_assert_not(message->failed);
    cr_expect_eq(message->count, count, "%zu bytes", message->count);
    cr_expect_arr_eq(message->bytes, bytes, count);
    gw_protobuf_clear(message);
}
#define EXPECT(message, text) expect(message, text, sizeof(text) - 1)

Test(protobuf, writes_the_bytes_of_the_description) {
    gw_protobuf m = {.bytes = NULL};
    gw_protobuf_varint(&m, 1, 150);
    EXPECT(&m, "\x08\x96\x01");
    gw_protobuf_text(&m, 2, "testing");
    EXPECT(&m, "\x12\x07testing");
    size_t inner = gw_protobuf_begin(&m, 3);
    gw_protobuf_varint(&m, 1, 150);
    gw_protobuf_end(&m, inner);
    EXPECT(&m, "\x1a\x03\x08\x96\x01");
    gw_protobuf_varint(&m, 1, UINT64_MAX - 1); /* -2 as int64 */
    EXPECT(&m, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    gw_protobuf_zigzag(&m, 1, 0);
    gw_protobuf_zigzag(&m, 1, -1);
    gw_protobuf_zigzag(&m, 1, 1);
    gw_protobuf_zigzag(&m, 1, INT64_MIN);
    EXPECT(&m, "\x08\x00\x08\x01\x08\x02\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    gw_protobuf_double(&m, 1, 1);
    gw_protobuf_float(&m, 2, 1);
    EXPECT(&m, "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x15\x00\x00\x80\x3f");
    gw_protobuf_bytes(&m, 16, NULL, 0);
    EXPECT(&m, "\x82\x01\x00");
    gw_protobuf_free(&m);
}

/* Lengths of 0, 127, 128, 16383, 16384 and more bytes have one to four bytes themselves. */
Test(protobuf, a_message_inside_of_another_may_have_any_length) {
    static const size_t lengths[] = {0, 1, 125, 126, 127, 128, 129, 16380, 16384, 16390, 2097152, 2100000};
    char *text = malloc(2100000);
    memset(text, 'x', 2100000);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        gw_protobuf m = {.bytes = NULL};
        gw_protobuf_field f;
        size_t outer = gw_protobuf_begin(&m, 1), inner = gw_protobuf_begin(&m, 2);
        gw_protobuf_bytes(&m, 3, text, lengths[i]);
        gw_protobuf_end(&m, inner);
        gw_protobuf_varint(&m, 4, 5);
        gw_protobuf_end(&m, outer);
        gw_protobuf_varint(&m, 6, 7);

        gw_protobuf_reader whole = {.bytes = m.bytes, .count = m.count};
        cr_assert(gw_protobuf_next(&whole, &f) && f.number == 1 && f.type == GW_PROTOBUF_BYTES);
        gw_protobuf_reader first = {.bytes = f.bytes, .count = f.count};
        cr_assert(gw_protobuf_next(&first, &f) && f.number == 2);
        gw_protobuf_reader second = {.bytes = f.bytes, .count = f.count};
        cr_assert(gw_protobuf_next(&second, &f) && f.number == 3);
        cr_expect_eq(f.count, lengths[i]);
        cr_expect_eq(memcmp(f.bytes, text, f.count), 0);
        cr_expect_not(gw_protobuf_next(&second, &f) || second.failed);
        cr_assert(gw_protobuf_next(&first, &f) && f.number == 4 && f.value == 5);
        cr_expect_not(gw_protobuf_next(&first, &f) || first.failed);
        cr_assert(gw_protobuf_next(&whole, &f) && f.number == 6 && f.value == 7);
        cr_expect_not(gw_protobuf_next(&whole, &f) || whole.failed);
        gw_protobuf_free(&m);
    }
    free(text);
}

Test(protobuf, numbers_are_read_as_they_were_written) {
    static const double numbers[] = {0, -0.0, 1, -1.5, 5e-324, 1.7976931348623157e308, INFINITY};
    gw_protobuf m = {.bytes = NULL};
    gw_protobuf_field f;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) gw_protobuf_double(&m, 1, numbers[i]);
    gw_protobuf_double(&m, 1, NAN);
    gw_protobuf_varint(&m, (1U << 29) - 1, UINT64_MAX);
    gw_protobuf_float(&m, 2, 0.5F);
    gw_protobuf_reader r = {.bytes = m.bytes, .count = m.count};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        cr_assert(gw_protobuf_next(&r, &f));
        double value = gw_protobuf_as_double(&f);
        cr_expect_eq(memcmp(&value, &numbers[i], sizeof value), 0);
    }
    cr_assert(gw_protobuf_next(&r, &f) && isnan(gw_protobuf_as_double(&f)));
    cr_assert(gw_protobuf_next(&r, &f) && f.number == (1U << 29) - 1 && f.value == UINT64_MAX);
    cr_expect_eq(gw_protobuf_as_double(&f), 0);
    cr_assert(gw_protobuf_next(&r, &f) && f.type == GW_PROTOBUF_32 && f.value == 0x3f000000);
    cr_expect_not(gw_protobuf_next(&r, &f));
    gw_protobuf_free(&m);
}

static void expect_no_message(const void *bytes, size_t count) {
    gw_protobuf_reader r = {.bytes = bytes, .count = count};
    gw_protobuf_field f;
    while (gw_protobuf_next(&r, &f)) {
        /* Fields before the damage are read. */
    }
    cr_expect(r.failed);
    cr_expect_not(gw_protobuf_next(&r, &f), "a reader that has failed stays so");
}
#define EXPECT_NO_MESSAGE(text) expect_no_message(text, sizeof(text) - 1)

Test(protobuf, what_is_no_message_is_not_read) {
    EXPECT_NO_MESSAGE("\x08");                                             /* no value */
    EXPECT_NO_MESSAGE("\x08\x96");                                         /* a varint that goes on */
    EXPECT_NO_MESSAGE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");     /* of 65 bits */
    EXPECT_NO_MESSAGE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); /* of 11 bytes */
    EXPECT_NO_MESSAGE("\x09\x00\x00\x00\x00\x00\x00\x00");                 /* seven bytes of eight */
    EXPECT_NO_MESSAGE("\x0d\x00\x00\x00");                                 /* three of four */
    EXPECT_NO_MESSAGE("\x12\x08testing");                                  /* seven of eight */
    EXPECT_NO_MESSAGE("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");     /* a length without end */
    EXPECT_NO_MESSAGE("\x00\x01");                                         /* field 0 */
    EXPECT_NO_MESSAGE("\x0b\x0c");                                         /* a group */
    EXPECT_NO_MESSAGE("\x08\x01\x0e\x00");                                 /* wire type 6 */
    EXPECT_NO_MESSAGE("\x80\x80\x80\x80\x10\x00");                         /* field 2^29 */
}
