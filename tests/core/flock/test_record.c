/* Records of jobs are a lattice, with one encoding; what is over stays over. */
#include "core/base/mix.h"
#include "core/flock/records.h"
#include "core/flock/spec.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 400, TRIPLES = 200000 };

static const char spec[] = "gpt --data text";

static gw_job_record_id example_id(void) {
    return gw_job_record_id_of(spec, sizeof spec);
}

static uint64_t state;

static uint64_t random_below(uint64_t bound) {
    state = gw_mix64(state);
    return state % bound;
}

/* A record in which few values occur, so that joins often meet equal ones. */
static gw_job_record random_record(void) {
    const gw_job_record_id id = example_id();
    gw_job_record record = gw_job_record_of(&id);
    if (random_below(2) == 0) {
        record.spec = malloc(sizeof spec);
        memcpy(record.spec, spec, sizeof spec);
        record.spec_bytes = sizeof spec;
    }
    record.cancel = random_below(4) == 0;
    record.started = random_below(2) == 0;
    if (random_below(2) == 0)
        record.knob = (gw_job_record_knob){.n = 1 + random_below(2),
                                           .writer = {{(uint8_t)random_below(2)}},
                                           .priority = (int32_t)random_below(3) - 1,
                                           .hold = random_below(2) == 0};
    for (uint32_t round = 0; round < 3; round++) {
        if (random_below(2) == 0) continue;
        record.rounds[record.round_count++] = (gw_job_record_round){.round = round,
                                                                    .last = random_below(4) == 0,
                                                                    .fatal = random_below(4) == 0,
                                                                    .code = (uint32_t)random_below(2),
                                                                    .member = {{(uint8_t)random_below(2)}},
                                                                    .boot = random_below(2)};
    }
    record.saved = random_below(3);
    for (uint8_t kind = 3; kind > 0 && record.end_count < GW_JOB_RECORD_ENDS; kind--)
        if (random_below(3) == 0)
            record.ends[record.end_count++] = (gw_job_record_end){.kind = kind,
                                                                  .hash = {{(uint8_t)random_below(2)}},
                                                                  .when = random_below(2),
                                                                  .member = {{(uint8_t)random_below(2)}}};
    for (uint8_t tag = 200; tag < 203; tag++) {
        if (random_below(3) != 0) continue;
        uint32_t length = (uint32_t)random_below(3);
        gw_job_record_field *field = &record.unknown[record.unknown_count++];
        *field = (gw_job_record_field){tag, length, malloc(length + 1)};
        for (uint32_t i = 0; i < length; i++) field->bytes[i] = (uint8_t)random_below(2);
    }
    return record;
}

static void *encode(const gw_job_record *record, bool with_spec, size_t *length) {
    *length = gw_job_record_bytes(record, with_spec);
    uint8_t *bytes = malloc(*length);
    gw_writer w = gw_writer_on(bytes, *length);
    gw_job_record_put(&w, record, with_spec);
    cr_assert(!w.failed && w.length == *length);
    return bytes;
}

static bool equal(const gw_job_record *a, const gw_job_record *b) {
    size_t a_length, b_length;
    void *a_bytes = encode(a, true, &a_length), *b_bytes = encode(b, true, &b_length);
    bool same = a_length == b_length && memcmp(a_bytes, b_bytes, a_length) == 0;
    free(a_bytes);
    free(b_bytes);
    return same;
}

static gw_job_record join(const gw_job_record *a, const gw_job_record *b) {
    gw_job_record result = gw_job_record_copy(a);
    gw_job_record_join(&result, b);
    return result;
}

Test(record, joins_obey_the_laws_of_a_lattice) {
    gw_job_record values[VALUES];
    state = 1;
    for (int i = 0; i < VALUES; i++) values[i] = random_record();
    for (int i = 0; i < TRIPLES; i++) {
        const gw_job_record *a = &values[random_below(VALUES)], *b = &values[random_below(VALUES)],
                            *c = &values[random_below(VALUES)];
        gw_job_record ab = join(a, b), ba = join(b, a), bc = join(b, c), left = join(&ab, c),
                      right = join(a, &bc), again = join(&ab, a);
        cr_assert(equal(&ab, &ba), "a join does not depend on who joins whom");
        cr_assert(equal(&left, &right), "nor on the order of joins");
        cr_assert(equal(&ab, &again), "nor on how often it is made");
        cr_assert_eq(gw_job_record_is_over(&ab), gw_job_record_is_over(a) || gw_job_record_is_over(b),
                     "no merge alone ends a job, and none takes an end back");
        cr_assert_eq(gw_job_record_digest(&ab), gw_job_record_digest(&ba));
        gw_job_record copy = gw_job_record_copy(a);
        cr_assert_eq(gw_job_record_join(&copy, b), !equal(&copy, a), "a change is told");
        gw_job_record_free(&copy);
        gw_job_record_free(&ab);
        gw_job_record_free(&ba);
        gw_job_record_free(&bc);
        gw_job_record_free(&left);
        gw_job_record_free(&right);
        gw_job_record_free(&again);
    }
    for (int i = 0; i < VALUES; i++) gw_job_record_free(&values[i]);
}

Test(record, bytes_are_read_back_and_nothing_else_is_a_record) {
    state = 2;
    for (int i = 0; i < 2000; i++) {
        gw_job_record record = random_record(), back;
        gw_err err;
        size_t length;
        uint8_t *bytes = encode(&record, true, &length);
        cr_assert(gw_job_record_get(bytes, length, &back, &err), "%s", err.text);
        cr_assert(equal(&record, &back));
        gw_job_record_free(&back);
        for (int flip = 0; flip < 20; flip++) { /* a changed byte gives another record, or none */
            size_t at = random_below(length);
            uint8_t was = bytes[at];
            bytes[at] ^= (uint8_t)(1 + random_below(255));
            if (gw_job_record_get(bytes, length, &back, &err)) {
                size_t again;
                void *other = encode(&back, true, &again);
                cr_assert(again == length && memcmp(other, bytes, length) == 0, "there is one encoding");
                free(other);
                gw_job_record_free(&back);
            }
            bytes[at] = was;
        }
        if (length > 17) cr_assert_not(gw_job_record_get(bytes, length - 1, &back, &err));
        bytes[0] = 2;
        cr_assert_not(gw_job_record_get(bytes, length, &back, &err));
        cr_assert_eq(err.code, GW_E_UNSUPPORTED);
        free(bytes);
        gw_job_record_free(&record);
    }
}

Test(record, a_spec_must_hash_to_the_id) {
    gw_err err;
    size_t length;
    const gw_job_record_id id = example_id();
    gw_job_record record = gw_job_record_of(&id), back;
    record.spec = (uint8_t *)strdup(spec);
    record.spec_bytes = sizeof spec;
    uint8_t *bytes = encode(&record, true, &length);
    cr_assert(gw_job_record_get(bytes, length, &back, &err));
    gw_job_record_free(&back);
    bytes[length - 3] ^= 1;
    cr_assert_not(gw_job_record_get(bytes, length, &back, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    free(bytes);
    gw_job_record_free(&record);
}

Test(record, rounds_follow_each_other) {
    const gw_job_record_id id = example_id();
    gw_job_record record = gw_job_record_of(&id), other = gw_job_record_of(&id);
    cr_assert_eq(gw_job_record_next_round(&record), 0);
    other.rounds[0] = (gw_job_record_round){.round = 0, .code = 1};
    other.round_count = 1;
    cr_assert(gw_job_record_join(&record, &other));
    cr_assert_eq(gw_job_record_next_round(&record), 1);
    cr_assert_not(gw_job_record_is_over(&record));
    other.rounds[0] =
        (gw_job_record_round){.round = 0, .code = 2}; /* the other half of the flock failed it as well */
    cr_assert(gw_job_record_join(&record, &other));
    cr_assert_eq(gw_job_record_next_round(&record), 1, "two failures of one round count one");
    other.rounds[0] = (gw_job_record_round){.round = 1, .last = true};
    cr_assert(gw_job_record_join(&record, &other));
    cr_assert(gw_job_record_is_over(&record));
    gw_job_record_free(&record);
}

Test(record, ends_that_differ_are_kept_and_seen) {
    const gw_job_record_id id = example_id();
    gw_job_record record = gw_job_record_of(&id), other = gw_job_record_of(&id);
    other.ends[0] = (gw_job_record_end){.kind = 1, .hash = {{7}}, .when = 50};
    other.end_count = 1;
    cr_assert(gw_job_record_join(&record, &other));
    cr_assert(gw_job_record_is_over(&record) && !gw_job_record_ends_differ(&record));
    other.ends[0].when = 40; /* told earlier by another member */
    cr_assert(gw_job_record_join(&record, &other));
    cr_assert(record.end_count == 1 && record.ends[0].when == 40);
    other.ends[0].hash.bytes[0] = 8;
    cr_assert(gw_job_record_join(&record, &other));
    cr_assert(gw_job_record_ends_differ(&record));
}

/* Records. */

static gw_job_record record_of(uint32_t number, bool cancel) {
    uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16), 1};
    gw_job_record_id id = gw_job_record_id_of(bytes, sizeof bytes);
    gw_job_record record = gw_job_record_of(&id);
    record.spec = malloc(sizeof bytes);
    memcpy(record.spec, bytes, sizeof bytes);
    record.spec_bytes = sizeof bytes;
    record.cancel = cancel;
    return record;
}

Test(record, digests_tell_whether_two_members_know_the_same) {
    enum { COUNT = 5000 };
    gw_err err;
    gw_job_records *a = gw_job_records_open(&err), *b = gw_job_records_open(&err);
    for (uint32_t i = 0; i < COUNT; i++) {
        gw_job_record record = record_of(i, i % 3 == 0),
                      reversed = record_of(COUNT - 1 - i, (COUNT - 1 - i) % 3 == 0);
        cr_assert_eq(gw_job_records_join(a, &record), GW_JOB_RECORDS_NEW);
        cr_assert_eq(gw_job_records_join(a, &record), GW_JOB_RECORDS_SAME);
        cr_assert_eq(gw_job_records_join(b, &reversed), GW_JOB_RECORDS_NEW);
        gw_job_record_free(&record);
        gw_job_record_free(&reversed);
    }
    cr_assert_eq(gw_job_records_count(a), COUNT);
    cr_assert_eq(gw_job_records_digest(a), gw_job_records_digest(b));
    gw_job_record one = record_of(77, true), stub = record_of(3, true);
    uint32_t bucket = gw_job_records_bucket_of(&one.id), differing = 0;
    cr_assert_eq(gw_job_records_join(a, &one), GW_JOB_RECORDS_CHANGED);
    cr_assert_neq(gw_job_records_digest(a), gw_job_records_digest(b));
    for (uint32_t i = 0; i < GW_JOB_RECORDS_BUCKETS; i++)
        if (gw_job_records_bucket_digest(a, i) != gw_job_records_bucket_digest(b, i)) {
            cr_assert_eq(i, bucket);
            differing++;
        }
    cr_assert_eq(differing, 1);
    cr_assert_eq(gw_job_records_join(b, &one), GW_JOB_RECORDS_CHANGED);
    cr_assert_eq(gw_job_records_digest(a), gw_job_records_digest(b));
    gw_job_records_make_stub(a, &stub.id); /* who dropped a spec and who kept it agree */
    cr_assert_null(gw_job_records_find(a, &stub.id)->spec);
    cr_assert_eq(gw_job_records_digest(a), gw_job_records_digest(b));
    for (uint32_t i = 0; i < COUNT; i += 2) {
        gw_job_record record = record_of(i, false);
        gw_job_records_forget(a, &record.id);
        cr_assert_null(gw_job_records_find(a, &record.id));
        gw_job_records_forget(b, &record.id);
        gw_job_record_free(&record);
    }
    cr_assert_eq(gw_job_records_count(a), COUNT / 2);
    cr_assert_eq(gw_job_records_digest(a), gw_job_records_digest(b));
    for (uint32_t i = 1; i < COUNT; i += 2) {
        gw_job_record record = record_of(i, false);
        cr_assert_not_null(gw_job_records_find(a, &record.id));
        gw_job_records_forget(a, &record.id);
        gw_job_record_free(&record);
    }
    cr_assert_eq(gw_job_records_digest(a), 0);
    gw_job_record_free(&one);
    gw_job_record_free(&stub);
    gw_job_records_close(a);
    gw_job_records_close(b);
}

/* A job that tries another one again, or comes after it, where these are not NULL. */
static gw_job_record job_that(uint8_t number, const gw_job_record_id *tries, const gw_job_record_id *after) {
    uint8_t public_key[32], secret_key[64];
    gw_err err;
    cr_assert(sodium_init() >= 0);
    crypto_sign_keypair(public_key, secret_key);
    gw_job_spec one = {.nonce = {number},
                       .kind = GW_JOB_COMMAND,
                       .name = "a",
                       .command = (const char *[]){"true"},
                       .command_count = 1,
                       .least = 1,
                       .most = 1,
                       .shares = 1,
                       .after = after,
                       .after_count = after != NULL};
    memcpy(one.submitter, public_key, sizeof public_key);
    if (tries != NULL) one.adopts = *tries;
    uint8_t *bytes;
    uint32_t length;
    cr_assert(gw_job_spec_write(&one, secret_key, &bytes, &length, &err), "%s", err.text);
    gw_job_record_id id = gw_job_record_id_of(bytes, length);
    gw_job_record record = gw_job_record_of(&id);
    record.spec = bytes;
    record.spec_bytes = length;
    return record;
}

static void expect_fate(const gw_job_records *records, const gw_job_record *of, gw_job_fate fate,
                        const gw_job_record *which) {
    gw_job_record_id found;
    cr_expect_eq(gw_job_records_fate(records, &of->id, &found), fate);
    cr_expect(gw_job_record_id_equal(&found, &which->id));
}

static void set_failed(gw_job_records *records, const gw_job_record *of) {
    gw_job_record news = gw_job_record_of(&of->id);
    news.rounds[news.round_count++] = (gw_job_record_round){.last = true, .code = 1};
    cr_assert_eq(gw_job_records_join(records, &news), GW_JOB_RECORDS_CHANGED);
}

static void set_done(gw_job_records *records, const gw_job_record *of) {
    gw_job_record news = gw_job_record_of(&of->id);
    news.ends[news.end_count++] = (gw_job_record_end){.kind = GW_JOB_END_DONE, .when = 1};
    cr_assert_eq(gw_job_records_join(records, &news), GW_JOB_RECORDS_CHANGED);
}

static void add(gw_job_records *records, const gw_job_record *record) {
    cr_assert_eq(gw_job_records_join(records, record), GW_JOB_RECORDS_NEW);
}

/* The second and the third job try the first one again, and the fourth one the second. */
Test(record, a_job_that_failed_has_the_fate_of_those_that_try_it_again) {
    static const gw_job_record_id none;
    gw_err err;
    gw_job_records *records = gw_job_records_open(&err);
    gw_job_record first = job_that(1, NULL, NULL), second = job_that(2, &first.id, NULL),
                  third = job_that(3, &first.id, NULL), fourth = job_that(4, &second.id, NULL);
    expect_fate(records, &first, GW_JOB_FATE_OPEN, &first); /* nothing is known of it */
    add(records, &second);
    expect_fate(records, &first, GW_JOB_FATE_OPEN, &first);
    add(records, &first);
    expect_fate(records, &first, GW_JOB_FATE_OPEN, &first);
    set_failed(records, &first);
    expect_fate(records, &first, GW_JOB_FATE_OPEN, &second);
    set_failed(records, &second);
    expect_fate(records, &first, GW_JOB_FATE_FAILED, &first);
    add(records, &third);
    expect_fate(records, &first, GW_JOB_FATE_OPEN, &third);
    expect_fate(records, &second, GW_JOB_FATE_FAILED, &second);
    set_failed(records, &third);
    expect_fate(records, &first, GW_JOB_FATE_FAILED, &first);
    gw_job_record stub = gw_job_record_of(&fourth.id);
    add(records, &stub); /* its specification comes later */
    expect_fate(records, &first, GW_JOB_FATE_FAILED, &first);
    cr_expect_eq(gw_job_records_join(records, &fourth), GW_JOB_RECORDS_CHANGED);
    expect_fate(records, &first, GW_JOB_FATE_OPEN, &fourth);
    for (uint32_t i = 0; i < 1000; i++) { /* the tables grow */
        gw_job_record other = record_of(i, false);
        add(records, &other);
        gw_job_record_free(&other);
    }
    set_done(records, &fourth);
    expect_fate(records, &first, GW_JOB_FATE_DONE, &fourth);
    expect_fate(records, &second, GW_JOB_FATE_DONE, &fourth);
    expect_fate(records, &third, GW_JOB_FATE_FAILED, &third);
    gw_job_record_id tried = gw_job_records_tries_again(records, &fourth.id);
    cr_expect(gw_job_record_id_equal(&tried, &second.id));
    tried = gw_job_records_tries_again(records, &first.id);
    cr_expect(gw_job_record_id_equal(&tried, &none));
    gw_job_records_forget(records, &third.id); /* others take its place */
    expect_fate(records, &first, GW_JOB_FATE_DONE, &fourth);
    gw_job_records_forget(records, &fourth.id);
    expect_fate(records, &first, GW_JOB_FATE_FAILED, &first);
    gw_job_records_close(records);
    gw_job_record *all[] = {&first, &second, &third, &fourth};
    for (uint32_t i = 0; i < 4; i++) gw_job_record_free(all[i]);
}

Test(record, what_a_job_that_waits_needs_is_not_dropped) {
    gw_err err;
    gw_job_records *records = gw_job_records_open(&err);
    gw_job_record first = job_that(1, NULL, NULL), second = job_that(2, &first.id, NULL),
                  third = job_that(3, &second.id, NULL), waits = job_that(4, NULL, &first.id);
    gw_job_record *all[] = {&first, &second, &third, &waits};
    for (uint32_t i = 0; i < 4; i++) add(records, all[i]);
    set_failed(records, &first);
    set_failed(records, &second);
    set_done(records, &third);
    cr_expect_eq(gw_job_records_drop_old_specs(records, 1000, 100), 0);
    cr_expect_eq(gw_job_records_drop_old_specs(records, 1100, 100), 1); /* that of the first one */
    expect_fate(records, &first, GW_JOB_FATE_DONE, &third);
    set_failed(records, &waits);
    cr_expect_eq(gw_job_records_drop_old_specs(records, 1200, 100), 2);
    cr_expect_eq(gw_job_records_drop_old_specs(records, 1300, 100), 1);
    expect_fate(records, &first, GW_JOB_FATE_FAILED, &first);
    gw_job_records_close(records);
    for (uint32_t i = 0; i < 4; i++) gw_job_record_free(all[i]);
}

Test(record, what_was_cancelled_is_not_done_whenever_its_end_becomes_known) {
    const gw_job_record_id id = example_id();
    gw_job_record record = gw_job_record_of(&id);
    cr_expect_not(gw_job_record_is_done(&record));
    record.ends[record.end_count++] = (gw_job_record_end){.kind = GW_JOB_END_STOPPED};
    cr_expect_not(gw_job_record_is_done(&record));
    record.ends[record.end_count++] = (gw_job_record_end){.kind = GW_JOB_END_DONE};
    cr_expect(gw_job_record_is_done(&record));
    record.cancel = true;
    cr_expect(gw_job_record_is_over(&record));
    cr_expect_not(gw_job_record_is_done(&record));
}
