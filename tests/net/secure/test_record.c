/* Records: sealed, opened, and refused when anything about them changed. */
#include "net/secure/record.h"
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t key[32] = {1, 2, 3};

typedef struct pipe_ends {
    gw_cipher seal, open;
} pipe_ends;

static pipe_ends *open_pipe(gw_algorithm algorithm) {
    cr_assert(sodium_init() >= 0);
    pipe_ends *p = malloc(sizeof *p);
    gw_cipher_start(&p->seal, algorithm, key, GW_RECORD_CONTROL);
    gw_cipher_start(&p->open, algorithm, key, GW_RECORD_CONTROL);
    return p;
}

static void close_pipe(pipe_ends *p) {
    gw_cipher_wipe(&p->seal);
    gw_cipher_wipe(&p->open);
    free(p);
}

static size_t algorithms(gw_algorithm out[3]) {
    cr_assert(sodium_init() >= 0);
    size_t count = 0;
    out[count++] = GW_ALGORITHM_PLAIN;
    out[count++] = GW_ALGORITHM_CHACHA20;
    if (gw_record_has_aes()) out[count++] = GW_ALGORITHM_AES256GCM;
    return count;
}

Test(record, carries_every_length_in_and_out_of_place) {
    gw_algorithm all[3];
    static uint8_t payload[GW_RECORD_CONTROL], record[GW_RECORD_CONTROL + 20], opened[GW_RECORD_CONTROL];
    const size_t lengths[] = {0, 1, 15, 16, 17, 4096, 65535, 65536};
    randombytes_buf(payload, sizeof payload);
    for (size_t a = 0, count = algorithms(all); a < count; a++) {
        pipe_ends *p = open_pipe(all[a]);
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            gw_err err;
            size_t bytes, length = lengths[i];
            bool more, in_place = i % 2 == 0;
            if (in_place) memcpy(record + GW_RECORD_HEADER, payload, length);
            flock_need(gw_record_seal(&p->seal, in_place ? record + GW_RECORD_HEADER : payload, length,
                                      in_place, record, &err),
                       &err);
            flock_need(gw_record_measure(&p->open, record, &bytes, &more, &err), &err);
            cr_assert_eq(bytes, gw_record_bytes(&p->seal, length));
            cr_assert_eq(more, in_place);
            uint8_t *to = in_place ? record + GW_RECORD_HEADER : opened;
            flock_need(gw_record_open(&p->open, record, bytes, to, &err), &err);
            cr_assert_eq(memcmp(to, payload, length), 0);
        }
        close_pipe(p);
    }
}

Test(record, changed_or_cut_anywhere_it_does_not_open) {
    gw_algorithm all[3];
    for (size_t a = 1, count = algorithms(all); a < count; a++) {
        uint8_t record[64], opened[64];
        gw_err err;
        pipe_ends *p = open_pipe(all[a]);
        flock_need(gw_record_seal(&p->seal, "a message", 9, false, record, &err), &err);
        size_t bytes = gw_record_bytes(&p->seal, 9);
        for (size_t i = 0; i < bytes; i++) {
            gw_cipher fresh = p->open;
            record[i] ^= 1;
            cr_assert(!gw_record_open(&fresh, record, bytes, opened, &err), "byte %zu", i);
            cr_assert_eq(err.code, GW_E_CORRUPT);
            record[i] ^= 1;
        }
        for (size_t cut = gw_record_bytes(&p->open, 0); cut < bytes; cut++) {
            gw_cipher fresh = p->open;
            cr_assert(!gw_record_open(&fresh, record, cut, opened, &err), "cut at %zu", cut);
        }
        flock_need(gw_record_open(&p->open, record, bytes, opened, &err), &err);
        close_pipe(p);
    }
}

Test(record, repeated_reordered_and_dropped_records_do_not_open) {
    gw_algorithm all[3];
    for (size_t a = 1, count = algorithms(all); a < count; a++) {
        uint8_t first[32], second[32], third[32], opened[32];
        gw_err err;
        pipe_ends *p = open_pipe(all[a]);
        size_t bytes = gw_record_bytes(&p->seal, 1);
        flock_need(gw_record_seal(&p->seal, "1", 1, false, first, &err), &err);
        flock_need(gw_record_seal(&p->seal, "2", 1, false, second, &err), &err);
        flock_need(gw_record_seal(&p->seal, "3", 1, false, third, &err), &err);
        gw_cipher start = p->open;
        cr_assert(!gw_record_open(&start, second, bytes, opened, &err), "reordered");
        flock_need(gw_record_open(&p->open, first, bytes, opened, &err), &err);
        gw_cipher after = p->open;
        cr_assert(!gw_record_open(&after, first, bytes, opened, &err), "repeated");
        after = p->open;
        cr_assert(!gw_record_open(&after, third, bytes, opened, &err), "dropped");
        flock_need(gw_record_open(&p->open, second, bytes, opened, &err), &err);
        flock_need(gw_record_open(&p->open, third, bytes, opened, &err), &err);
        close_pipe(p);
    }
}

Test(record, headers_out_of_bounds_are_refused) {
    const uint8_t longer[] = {1, 0, 1, 0}, reserved[] = {1, 0, 0, 1}, most[] = {0, 0, 1, 0x80};
    gw_err err;
    size_t bytes;
    bool more;
    pipe_ends *p = open_pipe(GW_ALGORITHM_CHACHA20);
    cr_assert(!gw_record_measure(&p->open, longer, &bytes, &more, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert(!gw_record_measure(&p->open, reserved, &bytes, &more, &err));
    flock_need(gw_record_measure(&p->open, most, &bytes, &more, &err), &err);
    cr_assert_eq(bytes, GW_RECORD_CONTROL + 20);
    cr_assert(more);
    close_pipe(p);
}

Test(record, a_cipher_ends_before_its_counter_could_repeat) {
    uint8_t record[32], opened[32];
    gw_err err;
    pipe_ends *p = open_pipe(GW_ALGORITHM_CHACHA20);
    p->seal.records = p->open.records = (UINT64_C(1) << 48) - 1;
    flock_need(gw_record_seal(&p->seal, "x", 1, false, record, &err), &err);
    flock_need(gw_record_open(&p->open, record, gw_record_bytes(&p->open, 1), opened, &err), &err);
    cr_assert(!gw_record_seal(&p->seal, "x", 1, false, record, &err));
    cr_assert_eq(err.code, GW_E_LIMIT);
    cr_assert(!gw_record_open(&p->open, record, gw_record_bytes(&p->open, 1), opened, &err));
    close_pipe(p);
}

Test(record, the_bytes_are_pinned) {
    const char *pins[] = {"02000080"
                          "6869",
                          "020000807a57ba5a1a606dfab5025061f236755e7ce8",
                          "0200008071988d0b4db2f93eb109ca67a231e41bebac"};
    gw_algorithm all[3];
    for (size_t a = 0, count = algorithms(all); a < count; a++) {
        uint8_t record[32];
        char text[65];
        gw_err err;
        pipe_ends *p = open_pipe(all[a]);
        p->seal.records = 258;
        flock_need(gw_record_seal(&p->seal, "hi", 2, true, record, &err), &err);
        gw_hex(record, gw_record_bytes(&p->seal, 2), text);
        cr_assert_str_eq(text, pins[a]);
        close_pipe(p);
    }
}
