/* The target `submission`: the JSON by which a command submits a job to its member, and by which it tries one again. */
#include "tools/godwit/flock/submission.h"

#include "core/flock/spec.h"
#include "tests/fuzz/target.h"

#include <sodium.h>
#include <string.h>

static void examples(fuzz_add *add, void *context) {
    static const char *const texts[] = {
        "{\"nonce\": \"000102030405060708090a0b0c0d0e0f\", \"key\": "
        "\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\", \"counter\": 7, \"when\": "
        "1796000000000, "
        "\"name\": \"a\", \"command\": [\"digits\"]}",
        "{\"nonce\": \"000102030405060708090a0b0c0d0e0f\", \"key\": "
        "\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\", \"counter\": 1, \"when\": 2, "
        "\"kind\": "
        "\"command\", \"name\": \"a.b-c_1\", \"command\": [\"echo\", \"\", \"x y\"], \"environment\": "
        "[\"A=1\"], "
        "\"environment_file\": \"/etc/secrets\", \"directory\": \"/home/a\", \"build\": \"1.0+00\", "
        "\"cores\": 2, "
        "\"memory_mib\": 10, \"gpus\": 1, \"least\": 1, \"most\": 1, \"shares\": 3, \"retries\": 4, "
        "\"priority\": -5, "
        "\"hold\": true, \"rigid\": true, \"after\": [\"0f0e0d0c0b0a09080706050403020100\"], \"token\": "
        "\"000102030405060708090a0b0c0d0e0f\", \"sweep\": \"000102030405060708090a0b0c0d0e0f\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) add(context, texts[i], strlen(texts[i]));
}

/* What was taken is a specification that every member reads, of the submitter, and so is a second try of it. */
static void check(const gw_job_record *record, const uint8_t public_key[32]) {
    gw_job_spec spec;
    gw_err err;
    gw_job_record_id id = gw_job_record_id_of(record->spec, record->spec_bytes);
    GW_ASSERT(gw_job_record_id_equal(&id, &record->id));
    GW_ASSERT(record->spec_bytes <= GW_JOB_RECORD_SPEC_BYTES);
    GW_ASSERT(gw_job_spec_read(record->spec, record->spec_bytes, &spec, &err));
    GW_ASSERT(gw_job_name_is_valid(spec.name) && memcmp(spec.submitter, public_key, 32) == 0);
    gw_job_spec_free(&spec);
}

static bool take(const uint8_t *bytes, size_t count) {
    static const uint8_t seed[32] = {1};
    uint8_t public_key[32], secret_key[64];
    gw_job_record record, again;
    gw_err err;
    json_t *submission = json_loadb((const char *)bytes, count, 0, NULL);
    crypto_sign_seed_keypair(public_key, secret_key, seed);
    bool good = gw_submission_read(submission, public_key, secret_key, &record, &err);
    if (good) {
        check(&record, public_key);
        GW_ASSERT(gw_submission_again(submission, &record, "2.0+11", public_key, secret_key, &again, &err));
        check(&again, public_key);
        GW_ASSERT(!gw_job_record_id_equal(&record.id, &again.id));
        gw_job_record_free(&again);
        gw_job_record_free(&record);
    } else {
        GW_ASSERT(err.text[0] != '\0');
    }
    json_decref(submission);
    return good;
}

const fuzz_target fuzz_submission = {"submission", 5000, 2048, examples, NULL, take};
