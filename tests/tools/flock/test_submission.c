/* Submissions: JSON that commands send, which is not trusted. */
#include "tools/godwit/flock/submission.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static uint8_t public_key[32], secret_key[64];

static void make_keys(void) {
    crypto_sign_seed_keypair(public_key, secret_key, (const uint8_t *)"0123456789abcdef0123456789abcdef");
}

TestSuite(submission, .init = make_keys);

static json_t *example(void) {
    json_error_t error;
    json_t *read = json_loads(
        "{\"nonce\": \"000102030405060708090a0b0c0d0e0f\","
        " \"key\": \"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\","
        " \"counter\": 7, \"when\": 1796000000000, \"kind\": \"command\", \"name\": \"a.b-c_1\","
        " \"command\": [\"echo\", \"\", \"x y\"], \"environment\": [\"A=1\"],"
        " \"environment_file\": \"/etc/secrets\", \"directory\": \"/home/a\", \"cores\": 2,"
        " \"memory_mib\": 10, \"gpus\": 1, \"least\": 1, \"most\": 1, \"shares\": 3, \"retries\": 4,"
        " \"priority\": -5, \"hold\": true, \"after\": [\"0f0e0d0c0b0a09080706050403020100\"]}",
        0, &error);
    cr_assert_not_null(read, "%s", error.text);
    return read;
}

/* Reads the example with a member in another form: a JSON text, or NULL for none. */
static bool takes(const char *key, const char *value, gw_err *err) {
    json_t *changed = example();
    gw_job_record record;
    if (value == NULL)
        json_object_del(changed, key);
    else
        json_object_set_new(changed, key, json_loads(value, JSON_DECODE_ANY, NULL));
    bool good = gw_submission_read(changed, public_key, secret_key, &record, err);
    if (good) gw_job_record_free(&record);
    json_decref(changed);
    return good;
}

Test(submission, becomes_a_signed_specification) {
    json_t *whole = example();
    gw_job_record record, again;
    gw_job_spec spec;
    gw_err err;
    cr_assert(gw_submission_read(whole, public_key, secret_key, &record, &err), "%s", err.text);
    cr_assert(gw_job_spec_read(record.spec, record.spec_bytes, &spec, &err), "%s", err.text);
    cr_expect(memcmp(spec.submitter, public_key, sizeof spec.submitter) == 0);
    cr_expect_eq(spec.nonce[15], 15);
    cr_expect_eq(spec.key[31], 31);
    cr_expect(spec.kind == GW_JOB_COMMAND && spec.counter == 7 && spec.when == 1796000000000);
    cr_expect_str_eq(spec.name, "a.b-c_1");
    cr_expect_eq(spec.command_count, 3);
    cr_expect_str_eq(spec.command[2], "x y");
    cr_expect_str_eq(spec.environment[0], "A=1");
    cr_expect_str_eq(spec.environment_file, "/etc/secrets");
    cr_expect_str_eq(spec.directory, "/home/a");
    cr_expect(spec.need.cores == 2 && spec.need.memory_mib == 10 && spec.need.gpus == 1);
    cr_expect(spec.shares == 3 && spec.retries == 4 && spec.priority == -5 && spec.hold && !spec.rigid);
    cr_expect(spec.after_count == 1 && spec.after[0].bytes[0] == 15);
    gw_job_spec_free(&spec);
    /* Sent twice it is the same job. */
    cr_assert(gw_submission_read(whole, public_key, secret_key, &again, &err), "%s", err.text);
    cr_expect(gw_job_record_id_equal(&record.id, &again.id));
    gw_job_record_free(&record);
    gw_job_record_free(&again);
    json_decref(whole);
}

Test(submission, what_makes_no_sense_is_refused_and_the_member_that_is_meant_is_named) {
    static const struct {
        const char *key, *value, *said;
    } bad[] = {
        {"nonce", NULL, "nonce"},
        {"nonce", "\"000102030405060708090a0b0c0d0e0g\"", "nonce"},
        {"nonce", "\"00\"", "nonce"},
        {"nonce", "12", "nonce"},
        {"key", "\"000102030405060708090A0B0C0D0E0F\"", "key"},
        {"key", "[]", "key"},
        {"name", NULL, "name"},
        {"name", "\"\"", "name"},
        {"name", "\"../../etc/passwd\"", "name"},
        {"name", "\"a/b\"", "name"},
        {"name", "\"a b\"", "name"},
        {"name", "\"0123456789012345678901234567890123456789012345678901234567890123\"", "name"},
        {"command", NULL, "command"},
        {"command", "[]", "command"},
        {"command", "[1]", "command"},
        {"command", "[\"a\", null]", "command"},
        {"environment", "[{}]", "environment"},
        {"environment", "[\"no sign\"]", "environment"},
        {"counter", "-1", "counter"},
        {"counter", "1.5", "counter"},
        {"counter", "\"7\"", "counter"},
        {"when", "-1", "when"},
        {"cores", "0", "cores"},
        {"cores", "4294967296", "cores"},
        {"memory_mib", "-1", "memory_mib"},
        {"gpus", "true", "gpus"},
        {"least", "0", "least"},
        {"least", "2", "most"},
        {"most", "70000", "most"},
        {"shares", "0", "shares"},
        {"retries", "32", "retries"},
        {"retries", "-1", "retries"},
        {"priority", "1000001", "priority"},
        {"priority", "9223372036854775807", "priority"},
        {"after", "[\"0f0e\"]", "after"},
        {"after", "[7]", "after"},
        {"files", "\"no digits\"", "files"},
    };
    gw_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_not(takes(bad[i].key, bad[i].value, &err), "%s: %s", bad[i].key, bad[i].value);
        cr_expect_eq(err.code, GW_E_USAGE, "%s: %s", bad[i].key, bad[i].value);
        cr_expect_not_null(strstr(err.text, bad[i].said), "%s: %s: %s", bad[i].key, bad[i].value, err.text);
    }
}

Test(submission, what_is_none_at_all_is_refused) {
    static const char *const bad[] = {"null", "[]", "\"text\"", "17", "{}"};
    gw_job_record record;
    gw_err err;
    cr_expect_not(gw_submission_read(NULL, public_key, secret_key, &record, &err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *one = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        cr_expect_not(gw_submission_read(one, public_key, secret_key, &record, &err), "%s", bad[i]);
        json_decref(one);
    }
}

/* Lists that are longer than a specification takes. */
Test(submission, what_is_too_much_is_refused) {
    static const struct {
        const char *key, *word;
        size_t count;
    } large[] = {{"command", "x", GW_JOB_SPEC_WORDS + 1},
                 {"environment", "A=", GW_JOB_SPEC_WORDS + 1},
                 {"after", "0f0e0d0c0b0a09080706050403020100", GW_JOB_SPEC_AFTER + 1}};
    gw_job_record record;
    gw_err err;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        json_t *changed = example(), *list = json_array();
        for (size_t k = 0; k < large[i].count; k++) json_array_append_new(list, json_string(large[i].word));
        json_object_set_new(changed, large[i].key, list);
        cr_expect_not(gw_submission_read(changed, public_key, secret_key, &record, &err), "%s", large[i].key);
        json_decref(changed);
    }
    char *word = malloc(70000);
    memset(word, 'x', 69999);
    word[69999] = '\0';
    json_t *changed = example();
    json_object_set_new(changed, "command", json_pack("[s]", word));
    cr_expect_not(gw_submission_read(changed, public_key, secret_key, &record, &err));
    cr_expect_not_null(strstr(err.text, "too long"), "%s", err.text);
    json_decref(changed);
    free(word);
}

Test(submission, an_id_is_32_digits_and_nothing_else) {
    gw_job_record_id id;
    cr_expect(gw_submission_read_id("000102030405060708090a0b0c0d0eff", &id) && id.bytes[15] == 255);
    static const char *const bad[] = {"",
                                      "00",
                                      "000102030405060708090a0b0c0d0efff",
                                      "000102030405060708090A0B0C0D0EFF",
                                      " 00102030405060708090a0b0c0d0eff",
                                      "-00102030405060708090a0b0c0d0eff"};
    cr_expect_not(gw_submission_read_id(NULL, &id));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_not(gw_submission_read_id(bad[i], &id), "%s", bad[i]);
}
