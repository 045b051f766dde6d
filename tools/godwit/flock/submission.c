#include "tools/godwit/flock/submission.h"

#include "core/base/assert.h"
#include "core/base/hex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_hex(const json_t *object, const char *key, uint8_t *bytes, size_t count, gw_err *err) {
    return gw_unhex(json_string_value(json_object_get(object, key)), bytes, count) ||
           gw_fail(err, GW_E_USAGE, "a submission's '%s' is not %zu hexadecimal digits", key, 2 * count);
}

bool gw_submission_read_id(const char *text, gw_job_record_id *id) {
    return gw_unhex(text, id->bytes, sizeof id->bytes);
}

static bool read_number(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *value,
                        gw_err *err) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL) return true;
    *value = json_integer_value(found);
    return (json_is_integer(found) && *value >= low && *value <= high) ||
           gw_fail(err, GW_E_USAGE, "a submission's '%s' is not from %lld to %lld", key, (long long)low,
                   (long long)high);
}

static bool read_words(const json_t *object, const char *key, const char **words, uint32_t *count,
                       gw_err *err) {
    const json_t *list = json_object_get(object, key);
    *count = 0;
    if (json_array_size(list) > GW_JOB_SPEC_WORDS)
        return gw_fail(err, GW_E_USAGE, "a submission's '%s' has more than %d words", key, GW_JOB_SPEC_WORDS);
    for (size_t i = 0; i < json_array_size(list); i++) {
        words[*count] = json_string_value(json_array_get(list, i));
        if (words[(*count)++] == NULL)
            return gw_fail(err, GW_E_USAGE, "a submission's '%s' has something that is no text", key);
    }
    return true;
}

static bool read_after(const json_t *object, gw_job_record_id *after, uint32_t *count, gw_err *err) {
    const json_t *list = json_object_get(object, "after");
    *count = 0;
    if (json_array_size(list) > GW_JOB_SPEC_AFTER)
        return gw_fail(err, GW_E_USAGE, "a job waits for %d others at most", GW_JOB_SPEC_AFTER);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!gw_submission_read_id(json_string_value(json_array_get(list, i)), &after[(*count)++]))
            return gw_fail(err, GW_E_USAGE, "a submission's 'after' has something that is no job's id");
    return true;
}

static bool read_numbers(const json_t *s, gw_job_spec *spec, gw_err *err) {
    int64_t counter = 0, when = 0, cores = 1, memory = 0, gpus = 0, least = 1, most = 1, shares = 1,
            retries = 0, priority = 0;
    if (!read_number(s, "counter", 0, INT64_MAX, &counter, err) ||
        !read_number(s, "when", 0, INT64_MAX, &when, err) ||
        !read_number(s, "cores", 1, UINT32_MAX, &cores, err) ||
        !read_number(s, "memory_mib", 0, UINT32_MAX, &memory, err) ||
        !read_number(s, "gpus", 0, UINT32_MAX, &gpus, err) ||
        !read_number(s, "least", 1, GW_JOB_SPEC_NODES, &least, err) ||
        !read_number(s, "most", 1, GW_JOB_SPEC_NODES, &most, err) ||
        !read_number(s, "shares", 1, UINT32_MAX, &shares, err) ||
        !read_number(s, "retries", 0, GW_JOB_SPEC_RETRIES, &retries, err) ||
        !read_number(s, "priority", -1000000, 1000000, &priority, err))
        return false;
    spec->counter = (uint64_t)counter;
    spec->when = (uint64_t)when;
    spec->need = (gw_allot_need){(uint32_t)cores, (uint32_t)memory, (uint32_t)gpus};
    spec->least = (uint32_t)least;
    spec->most = (uint32_t)most;
    spec->shares = (uint32_t)shares;
    spec->retries = (uint32_t)retries;
    spec->priority = (int32_t)priority;
    return true;
}

typedef struct lists {
    const char *command[GW_JOB_SPEC_WORDS], *environment[GW_JOB_SPEC_WORDS];
    gw_job_record_id after[GW_JOB_SPEC_AFTER];
} lists;

static bool read_lists(const json_t *s, lists *l, gw_job_spec *spec, gw_err *err) {
    spec->command = l->command;
    spec->environment = l->environment;
    spec->after = l->after;
    return read_words(s, "command", l->command, &spec->command_count, err) &&
           read_words(s, "environment", l->environment, &spec->environment_count, err) &&
           read_after(s, l->after, &spec->after_count, err);
}

/* Hexadecimal digits that may be missing: then *bytes stay as they are. */
static bool read_hex_if(const json_t *object, const char *key, uint8_t *bytes, size_t count, gw_err *err) {
    return json_object_get(object, key) == NULL || read_hex(object, key, bytes, count, err);
}

/* Signs a specification, and makes a record of it. */
static bool make_record(gw_job_spec *spec, const uint8_t public_key[32], const uint8_t secret_key[64],
                        gw_job_record *record, gw_err *err) {
    uint8_t *bytes;
    uint32_t length;
    memcpy(spec->submitter, public_key, sizeof spec->submitter);
    if (!gw_job_spec_write(spec, secret_key, &bytes, &length, err)) return false;
    gw_job_record_id id = gw_job_record_id_of(bytes, length);
    *record = gw_job_record_of(&id);
    record->spec = bytes;
    record->spec_bytes = length;
    return true;
}

bool gw_submission_read(const json_t *s, const uint8_t public_key[32], const uint8_t secret_key[64],
                        gw_job_record *record, gw_err *err) {
    const char *kind = json_string_value(json_object_get(s, "kind"));
    gw_job_spec spec = {.kind = kind != NULL && strcmp(kind, "command") == 0 ? GW_JOB_COMMAND
                                : kind != NULL && strcmp(kind, "map") == 0   ? GW_JOB_MAP
                                                                             : GW_JOB_RUN,
                        .name = json_string_value(json_object_get(s, "name")),
                        .environment_file = json_string_value(json_object_get(s, "environment_file")),
                        .directory = json_string_value(json_object_get(s, "directory")),
                        .build = json_string_value(json_object_get(s, "build")),
                        .hold = json_is_true(json_object_get(s, "hold")),
                        .rigid = json_is_true(json_object_get(s, "rigid"))};
    lists *l = calloc(1, sizeof *l);
    GW_ASSERT_MEMORY(l != NULL);
    bool good = read_hex(s, "nonce", spec.nonce, sizeof spec.nonce, err) &&
                read_hex(s, "key", spec.key, sizeof spec.key, err) &&
                read_hex_if(s, "token", spec.token, sizeof spec.token, err) &&
                read_hex_if(s, "files", spec.files.bytes, sizeof spec.files.bytes, err) &&
                read_hex_if(s, "sweep", spec.sweep, sizeof spec.sweep, err) && read_numbers(s, &spec, err) &&
                read_lists(s, l, &spec, err) && make_record(&spec, public_key, secret_key, record, err);
    free(l);
    return good;
}

bool gw_submission_again(const json_t *again, const gw_job_record *old, const char *build,
                         const uint8_t public_key[32], const uint8_t secret_key[64], gw_job_record *record,
                         gw_err *err) {
    gw_job_spec spec;
    int64_t counter = 0, when = 0;
    if (old->spec == NULL)
        return gw_fail(err, GW_E_USAGE,
                       "what the job was to do is not known any more: it was over too long ago");
    if (!gw_job_spec_read(old->spec, old->spec_bytes, &spec, err)) return false;
    bool good = read_hex(again, "nonce", spec.nonce, sizeof spec.nonce, err) &&
                read_hex(again, "key", spec.key, sizeof spec.key, err) &&
                read_number(again, "counter", 0, INT64_MAX, &counter, err) &&
                read_number(again, "when", 0, INT64_MAX, &when, err);
    spec.counter = (uint64_t)counter;
    spec.when = (uint64_t)when;
    spec.adopts = old->id;
    if (spec.build != NULL) spec.build = build;
    spec.hold = false;
    good = good && make_record(&spec, public_key, secret_key, record, err);
    gw_job_spec_free(&spec);
    return good;
}
