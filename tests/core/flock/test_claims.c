/* The lists that members tell of themselves: what is read is written again with the same bytes, what later builds add is
 * kept, and whatever else is refused. */
#include "core/base/hex.h"
#include "core/flock/claims.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN_BYTES = 131 };

/* A list as builds before version 3 have written it; they read no other. */
static const char plain[] = "02"
                            "0102030405060708090a0b0c0d0e0f10" /* member */
                            "0200000000000000"                 /* boot */
                            "0700000000000000"                 /* number */
                            "05"                               /* drained, past its gate */
                            "40000000"                         /* cores */
                            "00e80300"                         /* memory */
                            "08000000"                         /* GPUs */
                            "03000000"                         /* compute class */
                            "05"                               /* limits */
                            "0a00302e332e312035663063"         /* build */
                            "02"                               /* kept builds */
                            "0500302e332e30"
                            "0500302e322e39"
                            "03006ec3a4" /* name */
                            "0200"       /* claims, each of a job, a state, slots and a port */
                            "0a000000000000000000000000000000"
                            "02"
                            "06000000"
                            "211c"
                            "b0000000000000000000000000000001"
                            "04"
                            "00000000"
                            "0000";

static void plain_bytes(uint8_t bytes[PLAIN_BYTES]) {
    cr_assert_eq(strlen(plain), 2 * PLAIN_BYTES);
    cr_assert(gw_unhex(plain, bytes, PLAIN_BYTES));
}

static gw_claims example(uint8_t allotment, const void *tail, uint32_t tail_bytes) {
    uint8_t bytes[PLAIN_BYTES];
    gw_claims claims;
    gw_err err;
    plain_bytes(bytes);
    cr_assert(gw_claims_get(bytes, sizeof bytes, &claims, &err), "%s", err.text);
    claims.allotment = allotment;
    claims.tail_bytes = tail_bytes;
    claims.tail = tail_bytes > 0 ? malloc(tail_bytes) : NULL;
    if (tail_bytes > 0) memcpy(claims.tail, tail, tail_bytes);
    return claims;
}

/* Reads what may have any length from a block that has no byte more, so that a read behind the end is noticed. */
static gw_code code_of(const uint8_t *bytes, size_t length) {
    uint8_t *exact = malloc(length + (length == 0));
    gw_claims claims;
    gw_err err = {GW_OK, ""};
    if (length > 0) memcpy(exact, bytes, length);
    if (gw_claims_get(exact, length, &claims, &err))
        gw_claims_free(&claims);
    else
        cr_assert(claims.list == NULL && claims.tail == NULL);
    free(exact);
    return err.code;
}

Test(claims, of_builds_before_version_3_are_read_and_written_as_they_were) {
    uint8_t bytes[PLAIN_BYTES], again[GW_CLAIMS_BYTES];
    gw_claims claims;
    gw_err err;
    plain_bytes(bytes);
    cr_assert(gw_claims_get(bytes, sizeof bytes, &claims, &err), "%s", err.text);
    cr_expect_eq(claims.member.bytes[15], 16);
    cr_expect(claims.boot == 2 && claims.number == 7);
    cr_expect(claims.drained && claims.past_gate && !claims.disk_bad && !claims.doubtful);
    cr_expect(claims.has.cores == 64 && claims.has.memory_mib == 256000 && claims.has.gpus == 8);
    cr_expect_eq(claims.compute_class, 3);
    cr_expect_eq(claims.limits, GW_CLAIMS_LIMITS_MEMORY | GW_CLAIMS_LIMITS_CORES);
    cr_expect_str_eq(claims.build, "0.3.1 5f0c");
    cr_expect(claims.kept_count == 2 && strcmp(claims.kept[1], "0.2.9") == 0);
    cr_expect_str_eq(claims.name, "n\xc3\xa4");
    cr_assert_eq(claims.count, 2);
    cr_expect(claims.list[0].state == GW_CLAIM_RUNNING && claims.list[0].slots == 6 &&
              claims.list[0].port == 7201);
    cr_expect(claims.list[1].state == GW_CLAIM_STRUCK && claims.list[1].job.bytes[0] == 0xb0);
    cr_expect(claims.allotment == 1 && claims.tail == NULL && claims.tail_bytes == 0);
    cr_expect_eq(gw_claims_put(&claims, again), PLAIN_BYTES);
    cr_expect_eq(memcmp(again, bytes, PLAIN_BYTES), 0);
    gw_claims_free(&claims);
}

/* What one build tells and another one passes on. */
static void expect_kept(uint8_t allotment, const void *tail, uint32_t tail_bytes) {
    static uint8_t told[GW_CLAIMS_BYTES], passed_on[GW_CLAIMS_BYTES];
    uint8_t plainly[PLAIN_BYTES];
    gw_claims claims = example(allotment, tail, tail_bytes), read;
    gw_err err;
    size_t length = gw_claims_put(&claims, told);
    plain_bytes(plainly);
    cr_expect_eq(length, PLAIN_BYTES + 3 + tail_bytes);
    cr_expect(told[0] == 3 && memcmp(told + 1, plainly + 1, PLAIN_BYTES - 1) == 0);
    cr_assert(gw_claims_get(told, length, &read, &err), "%s", err.text);
    cr_expect(read.allotment == allotment && read.tail_bytes == tail_bytes);
    gw_claims copy = gw_claims_copy(&read);
    gw_claims_free(&read);
    cr_expect(copy.count == 2 && copy.tail_bytes == tail_bytes);
    cr_expect_eq(gw_claims_put(&copy, passed_on), length);
    cr_expect_eq(memcmp(passed_on, told, length), 0);
    gw_claims_free(&copy);
    gw_claims_free(&claims);
}

Test(claims, keep_what_later_builds_tell) {
    static const uint8_t most[GW_CLAIMS_TAIL];
    expect_kept(2, NULL, 0);
    expect_kept(255, NULL, 0);
    expect_kept(1, "\0", 1);
    expect_kept(1, "more of each claim", 18);
    expect_kept(3, "more of each claim", 18);
    expect_kept(1, most, sizeof most);
}

Test(claims, of_the_greatest_length_have_room) {
    static uint8_t bytes[GW_CLAIMS_BYTES];
    static const uint8_t most[GW_CLAIMS_TAIL];
    gw_claims claims = example(2, most, sizeof most);
    claims.kept_count = GW_CLAIMS_KEPT;
    memset(claims.name, 'n', sizeof claims.name - 1);
    memset(claims.build, 'b', sizeof claims.build - 1);
    for (uint32_t i = 0; i < GW_CLAIMS_KEPT; i++) memset(claims.kept[i], 'k', sizeof claims.kept[i] - 1);
    for (uint32_t i = 0; i < GW_CLAIMS_MOST; i++)
        gw_claims_set(&claims,
                      &(gw_claim){.job = {{(uint8_t)(i >> 8), (uint8_t)i, 1}}, .state = GW_CLAIM_RUNNING});
    cr_assert_eq(claims.count, GW_CLAIMS_MOST);
    size_t length = gw_claims_put(&claims, bytes);
    cr_expect_eq(code_of(bytes, length), GW_OK);
    gw_claims_free(&claims);
}

/* Puts 16 bits at a place. */
static void put_count(uint8_t *at, uint32_t count) {
    at[0] = (uint8_t)count;
    at[1] = (uint8_t)(count >> 8);
}

Test(claims, of_any_other_length_are_refused) {
    static uint8_t bytes[GW_CLAIMS_BYTES + 1];
    for (int tailed = 0; tailed < 2; tailed++) {
        gw_claims claims = tailed ? example(2, "tail", 4) : example(1, NULL, 0);
        size_t length = gw_claims_put(&claims, bytes);
        bytes[length] = 0;
        for (size_t other = 0; other <= length + 1; other++)
            cr_expect_eq(code_of(bytes, other), other == length ? GW_OK : GW_E_INVALID, "%zu of %zu", other,
                         length);
        gw_claims_free(&claims);
    }
}

Test(claims, have_one_encoding) {
    static uint8_t bytes[GW_CLAIMS_BYTES + 1];
    gw_claims claims = example(2, "tail", 4);
    size_t length = gw_claims_put(&claims, bytes);
    uint8_t *allotment = bytes + PLAIN_BYTES, *count = allotment + 1;
    cr_expect_eq(code_of(bytes, length), GW_OK);
    *allotment = 0;
    cr_expect_eq(code_of(bytes, length), GW_E_INVALID, "there is no version 0 of the allotment");
    *allotment = 1;
    cr_expect_eq(code_of(bytes, length), GW_OK);
    put_count(count, 0);
    cr_expect_eq(code_of(bytes, length - 4), GW_E_INVALID, "that list is one of version 2");
    *allotment = 2;
    cr_expect_eq(code_of(bytes, length - 4), GW_OK);
    cr_expect_eq(code_of(bytes, length), GW_E_INVALID, "bytes behind the tail");
    put_count(count, 5);
    cr_expect_eq(code_of(bytes, length), GW_E_INVALID);
    put_count(count, GW_CLAIMS_TAIL + 1);
    cr_expect_eq(code_of(bytes, length + GW_CLAIMS_TAIL - 3), GW_E_INVALID, "the tail is too long");
    put_count(count, GW_CLAIMS_TAIL);
    cr_expect_eq(code_of(bytes, length + GW_CLAIMS_TAIL - 4), GW_OK);
    bytes[0] = 2;
    cr_expect_eq(code_of(bytes, length + GW_CLAIMS_TAIL - 4), GW_E_INVALID, "version 2 has no tail");
    cr_expect_eq(code_of(bytes, PLAIN_BYTES), GW_OK);
    bytes[0] = 1;
    cr_expect_eq(code_of(bytes, PLAIN_BYTES), GW_E_INVALID);
    gw_claims_free(&claims);
}

Test(claims, of_later_versions_tell_at_least_whose_they_are) {
    uint8_t bytes[PLAIN_BYTES];
    gw_claims claims;
    gw_err err;
    plain_bytes(bytes);
    bytes[0] = 4;
    for (size_t length = 0; length <= sizeof bytes; length++)
        cr_expect_eq(code_of(bytes, length), length < 1 + 16 + 8 + 8 ? GW_E_INVALID : GW_E_UNSUPPORTED);
    cr_assert_not(gw_claims_get(bytes, sizeof bytes, &claims, &err));
    cr_expect(claims.member.bytes[0] == 1 && claims.boot == 2 && claims.number == 7);
    cr_expect(claims.count == 0 && claims.list == NULL);
    memset(bytes + 1, 0, 16);
    cr_expect_eq(code_of(bytes, sizeof bytes), GW_E_INVALID, "it is nobody's");
}
