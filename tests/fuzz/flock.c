/* The targets `job_record`, `job_spec` and `job_files`: the record of a job on a standing flock, as a member sends it to
 * others, what was submitted, which is in it, and the list of the files that travel with it. */
#include "core/flock/files.h"
#include "core/flock/record.h"
#include "core/flock/spec.h"
#include "tests/fuzz/target.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static void record_examples(fuzz_add *add, void *context) {
    static const char spec[] = "digits --epochs 3";
    gw_job_record_id id = gw_job_record_id_of(spec, sizeof spec);
    for (int kind = 0; kind < 3; kind++) {
        uint8_t bytes[1000], more[] = {1, 2, 3};
        gw_job_record record = gw_job_record_of(&id);
        if (kind > 0) {
            record.cancel = record.started = true;
            record.knob = (gw_job_record_knob){.n = 3, .writer = {{1}}, .priority = -2, .hold = true};
            record.rounds[0] = (gw_job_record_round){.round = 0, .code = 137, .member = {{2}}, .boot = 9};
            record.rounds[1] = (gw_job_record_round){.round = 4, .last = true, .fatal = true};
            record.round_count = 2;
            record.saved = 400;
            record.ends[0] = (gw_job_record_end){.kind = 2, .hash = {{5}}, .when = 77, .member = {{3}}};
            record.ends[1] = (gw_job_record_end){.kind = 1, .hash = {{5}}, .when = 78, .member = {{4}}};
            record.end_count = 2;
        }
        if (kind == 2) {
            record.unknown[0] = (gw_job_record_field){.tag = 200, .length = sizeof more, .bytes = more};
            record.unknown_count = 1;
        } else {
            record.spec = (uint8_t *)(uintptr_t)spec;
            record.spec_bytes = sizeof spec;
        }
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_job_record_put(&w, &record, true);
        GW_ASSERT(!w.failed);
        add(context, bytes, w.length);
    }
}

/* What is read is written as the same bytes, and joins with itself to itself. */
static bool take_record(const uint8_t *bytes, size_t count) {
    gw_job_record record, copy;
    gw_err err;
    if (!gw_job_record_get(bytes, count, &record, &err)) {
        GW_ASSERT(err.text[0] != '\0');
        return false;
    }
    GW_ASSERT(gw_job_record_bytes(&record, true) == count);
    uint8_t *again = malloc(count);
    GW_ASSERT_MEMORY(again != NULL);
    gw_writer w = gw_writer_on(again, count);
    gw_job_record_put(&w, &record, true);
    GW_ASSERT(!w.failed && memcmp(again, bytes, count) == 0);
    free(again);
    copy = gw_job_record_copy(&record);
    GW_ASSERT(!gw_job_record_join(&copy, &record));
    GW_ASSERT(gw_job_record_digest(&copy) == gw_job_record_digest(&record));
    bool over = gw_job_record_is_over(&record);
    if (over) gw_job_record_make_stub(&copy);
    GW_ASSERT(gw_job_record_is_over(&copy) == over);
    GW_ASSERT(gw_job_record_digest(&copy) == gw_job_record_digest(&record));
    gw_job_record_free(&copy);
    gw_job_record_free(&record);
    return true;
}

const fuzz_target fuzz_job_record = {"job_record", 20000, 1024, record_examples, NULL, take_record};

/* A key that everybody knows: what is changed is signed again, so that the search gets past the signature. */
static void signing_key(uint8_t public_key[32], uint8_t secret_key[64]) {
    static const uint8_t seed[32] = {1};
    crypto_sign_seed_keypair(public_key, secret_key, seed);
}

static void spec_examples(fuzz_add *add, void *context) {
    static const char *words[] = {"digits", "--epochs", "3"}, *variables[] = {"A=1"};
    static const gw_job_record_id after = {{1, 2}};
    gw_job_spec spec = {.kind = GW_JOB_RUN,
                        .name = "base",
                        .command = words,
                        .command_count = 3,
                        .least = 1,
                        .most = 2,
                        .shares = 1};
    uint8_t secret_key[64], *bytes;
    uint32_t length;
    gw_err err;
    signing_key(spec.submitter, secret_key);
    for (int kind = 0; kind < 2; kind++) {
        GW_ASSERT(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err));
        add(context, bytes, length);
        free(bytes);
        spec.environment = variables;
        spec.environment_count = 1;
        spec.after = &after;
        spec.after_count = 1;
        spec.files = (gw_hash){{7}};
        spec.adopts = (gw_job_record_id){{8}};
        spec.directory = "/home";
        spec.need.cores = 2;
        spec.priority = -1;
        spec.hold = true;
    }
}

/* What is read is written as the same bytes, unless it has fields of later versions. */
static bool take_spec(const uint8_t *bytes, size_t count) {
    enum { SIGNATURE = crypto_sign_BYTES };
    gw_job_spec spec;
    gw_err err;
    if (count < SIGNATURE) return gw_job_spec_read(bytes, count, &spec, &err);
    uint8_t public_key[32], secret_key[64], *again = malloc(count), *written;
    GW_ASSERT_MEMORY(again != NULL);
    signing_key(public_key, secret_key);
    memcpy(again, bytes, count);
    crypto_sign_detached(again + count - SIGNATURE, NULL, again, count - SIGNATURE, secret_key);
    bool good = gw_job_spec_read(again, count, &spec, &err);
    if (good) {
        uint32_t length;
        GW_ASSERT(gw_job_spec_write(&spec, secret_key, &written, &length, &err));
        GW_ASSERT(length == count ? memcmp(written, again, count) == 0 : length < count);
        free(written);
        gw_job_spec_free(&spec);
    } else {
        GW_ASSERT(err.text[0] != '\0');
    }
    free(again);
    return good;
}

const fuzz_target fuzz_job_spec = {"job_spec", 20000, 1024, spec_examples, NULL, take_spec};

static void files_examples(fuzz_add *add, void *context) {
    static const gw_hash chunks[] = {{{1}}, {{2}}};
    static const gw_job_file list[] = {{"a-b", false, 0, NULL},
                                       {"a.py", false, 10, chunks},
                                       {"a/b", true, GW_CHUNK_BYTES + 1, chunks},
                                       {"a/c", false, GW_CHUNK_BYTES, chunks}};
    uint8_t *bytes;
    size_t length;
    gw_err err;
    for (uint32_t count = 1; count <= 4; count++) {
        GW_ASSERT(gw_job_files_write(list, count, &bytes, &length, &err));
        add(context, bytes, length);
        free(bytes);
    }
}

/* What is read is written as the same bytes, within the limits. */
static bool take_files(const uint8_t *bytes, size_t count) {
    gw_job_files files;
    gw_err err;
    uint8_t *again;
    size_t length;
    if (!gw_job_files_read(bytes, count, &files, &err)) {
        GW_ASSERT(err.text[0] != '\0');
        return false;
    }
    GW_ASSERT(files.count >= 1 && files.count <= GW_JOB_FILES_MOST &&
              files.bytes <= (uint64_t)GW_JOB_FILES_BYTES + GW_JOB_FILES_TASKS_BYTES);
    for (uint32_t i = 0; i < files.count; i++) GW_ASSERT(gw_job_path_is_valid(files.list[i].path));
    GW_ASSERT(gw_job_files_write(files.list, files.count, &again, &length, &err));
    GW_ASSERT(length == count && memcmp(again, bytes, count) == 0);
    free(again);
    gw_job_files_free(&files);
    return true;
}

const fuzz_target fuzz_job_files = {"job_files", 20000, 1024, files_examples, NULL, take_files};
