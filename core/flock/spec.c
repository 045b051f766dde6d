#include "core/flock/spec.h"

#include "core/base/assert.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, HEAD_BYTES = 4, SIGNATURE_BYTES = crypto_sign_BYTES };
enum { LEAST_BYTES = HEAD_BYTES + SIGNATURE_BYTES, MUST_KNOW_BELOW = 128 };
enum { HOLD = 1, RIGID = 2, ALL_FLAGS = 3 };

static const uint8_t MAGIC[] = {'G', 'J', 'S'};

/* The fields in the order of their tags. */
enum {
    TAG_NONCE = 1,
    TAG_SUBMITTER,
    TAG_KEY,
    TAG_COUNTER,
    TAG_WHEN,
    TAG_KIND,
    TAG_NAME,
    TAG_COMMAND,
    TAG_ENVIRONMENT,
    TAG_ENVIRONMENT_FILE,
    TAG_DIRECTORY,
    TAG_BUILD,
    TAG_CLASS,
    TAG_NEED,
    TAG_NODES,
    TAG_SHARES,
    TAG_RETRIES,
    TAG_PRIORITY,
    TAG_FLAGS,
    TAG_TOKEN,
    TAG_AFTER,
    TAG_FILES,
    TAG_ADOPTS,
    TAG_SWEEP,
    TAG_END,
};

/* What is allowed. */

bool gw_job_name_is_valid(const char *name) {
    size_t length = strlen(name);
    return length >= 1 && length <= GW_JOB_SPEC_NAME_BYTES && name[0] != '.' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static bool check_words(const char *const *words, uint32_t count, const char *what, gw_err *err) {
    if (count > GW_JOB_SPEC_WORDS)
        return gw_fail(err, GW_E_USAGE, "%s has %u words; %d are allowed", what, count, GW_JOB_SPEC_WORDS);
    for (uint32_t i = 0; i < count; i++)
        if (words[i] == NULL || strlen(words[i]) > UINT16_MAX)
            return gw_fail(err, GW_E_USAGE, "word %u of %s is too long; %d bytes are allowed", i + 1, what,
                           UINT16_MAX);
    return true;
}

static bool check_environment(const gw_job_spec *spec, gw_err *err) {
    if (!check_words(spec->environment, spec->environment_count, "the environment", err)) return false;
    for (uint32_t i = 0; i < spec->environment_count; i++) {
        const char *equals = strchr(spec->environment[i], '=');
        if (equals == NULL || equals == spec->environment[i])
            return gw_fail(err, GW_E_USAGE, "a variable of the environment is not NAME=VALUE: %.40s",
                           spec->environment[i]);
    }
    return true;
}

static bool check_numbers(const gw_job_spec *spec, gw_err *err) {
    if (spec->kind < GW_JOB_RUN || spec->kind >= GW_JOB_KINDS)
        return gw_fail(err, GW_E_USAGE, "a job cannot be of kind %d", (int)spec->kind);
    if (spec->least < 1 || spec->least > spec->most || spec->most > GW_JOB_SPEC_NODES)
        return gw_fail(err, GW_E_USAGE, "a job runs on 1 to %d nodes, and the least is not above the most",
                       GW_JOB_SPEC_NODES);
    if (spec->kind == GW_JOB_COMMAND && spec->most != 1)
        return gw_fail(err, GW_E_USAGE, "a command runs on one node");
    if (spec->shares < 1) return gw_fail(err, GW_E_USAGE, "a job has at least one share");
    if (spec->retries > GW_JOB_SPEC_RETRIES)
        return gw_fail(err, GW_E_USAGE, "a job is tried again %d times at most", GW_JOB_SPEC_RETRIES);
    if (spec->after_count > GW_JOB_SPEC_AFTER)
        return gw_fail(err, GW_E_USAGE, "a job waits for %d others at most", GW_JOB_SPEC_AFTER);
    return true;
}

static bool check(const gw_job_spec *spec, gw_err *err) {
    if (spec->name == NULL || !gw_job_name_is_valid(spec->name))
        return gw_fail(
            err, GW_E_USAGE,
            "a job's name is 1 to %d letters, digits, dots, dashes and underscores, and does not begin "
            "with a dot",
            GW_JOB_SPEC_NAME_BYTES);
    if (spec->command_count == 0) return gw_fail(err, GW_E_USAGE, "a job needs a command");
    if (spec->directory != NULL && spec->directory[0] != '/')
        return gw_fail(err, GW_E_USAGE, "the working directory is not an absolute path: %s", spec->directory);
    return check_numbers(spec, err) && check_words(spec->command, spec->command_count, "the command", err) &&
           check_environment(spec, err);
}

/* Writing. A field is put with a length of 0, which is written when its end is known; an empty one is taken back. */

static size_t begin(gw_writer *w, uint8_t tag) {
    gw_put_u8(w, tag);
    gw_put_u32(w, 0);
    return w->length;
}

static void end(gw_writer *w, size_t start) {
    if (w->failed) return;
    if (w->length == start) {
        w->length = start - 5;
        return;
    }
    gw_writer length = gw_writer_on(w->bytes + start - 4, 4);
    gw_put_u32(&length, (uint32_t)(w->length - start));
}

static void put_number(gw_writer *w, uint8_t tag, uint64_t value) {
    size_t start = begin(w, tag);
    if (value != 0) gw_put_u64(w, value);
    end(w, start);
}

static void put_blob(gw_writer *w, uint8_t tag, const void *bytes, size_t count) {
    size_t start = begin(w, tag);
    if (!sodium_is_zero(bytes, count)) gw_put_bytes(w, bytes, count);
    end(w, start);
}

static void put_text(gw_writer *w, uint8_t tag, const char *text) {
    size_t start = begin(w, tag);
    if (text != NULL) gw_put_string(w, text);
    end(w, start);
}

static void put_words(gw_writer *w, uint8_t tag, const char *const *words, uint32_t count) {
    size_t start = begin(w, tag);
    for (uint32_t i = 0; i < count; i++) gw_put_string(w, words[i]);
    end(w, start);
}

static void put_need(gw_writer *w, const gw_allot_need *need) {
    size_t start = begin(w, TAG_NEED);
    if (need->cores != 0 || need->memory_mib != 0 || need->gpus != 0) {
        gw_put_u32(w, need->cores);
        gw_put_u32(w, need->memory_mib);
        gw_put_u32(w, need->gpus);
    }
    end(w, start);
}

static void put_nodes(gw_writer *w, const gw_job_spec *spec) {
    size_t start = begin(w, TAG_NODES);
    gw_put_u32(w, spec->least);
    gw_put_u32(w, spec->most);
    end(w, start);
}

static void put_after(gw_writer *w, const gw_job_spec *spec) {
    size_t start = begin(w, TAG_AFTER);
    for (uint32_t i = 0; i < spec->after_count; i++)
        gw_put_bytes(w, spec->after[i].bytes, sizeof spec->after[i].bytes);
    end(w, start);
}

/* Writes everything but what later versions add and the signature. */
static void put_body(gw_writer *w, const gw_job_spec *spec) {
    gw_put_bytes(w, MAGIC, sizeof MAGIC);
    gw_put_u8(w, VERSION);
    put_blob(w, TAG_NONCE, spec->nonce, sizeof spec->nonce);
    put_blob(w, TAG_SUBMITTER, spec->submitter, sizeof spec->submitter);
    put_blob(w, TAG_KEY, spec->key, sizeof spec->key);
    put_number(w, TAG_COUNTER, spec->counter);
    put_number(w, TAG_WHEN, spec->when);
    put_number(w, TAG_KIND, (uint64_t)spec->kind);
    put_text(w, TAG_NAME, spec->name);
    put_words(w, TAG_COMMAND, spec->command, spec->command_count);
    put_words(w, TAG_ENVIRONMENT, spec->environment, spec->environment_count);
    put_text(w, TAG_ENVIRONMENT_FILE, spec->environment_file);
    put_text(w, TAG_DIRECTORY, spec->directory);
    put_text(w, TAG_BUILD, spec->build);
    put_number(w, TAG_CLASS, spec->compute_class);
    put_need(w, &spec->need);
    put_nodes(w, spec);
    put_number(w, TAG_SHARES, spec->shares);
    put_number(w, TAG_RETRIES, spec->retries);
    put_number(w, TAG_PRIORITY, (uint32_t)spec->priority);
    put_number(w, TAG_FLAGS, (spec->hold ? HOLD : 0U) | (spec->rigid ? RIGID : 0U));
    put_blob(w, TAG_TOKEN, spec->token, sizeof spec->token);
    put_after(w, spec);
    put_blob(w, TAG_FILES, spec->files.bytes, sizeof spec->files.bytes);
    put_blob(w, TAG_ADOPTS, spec->adopts.bytes, sizeof spec->adopts.bytes);
    put_blob(w, TAG_SWEEP, spec->sweep, sizeof spec->sweep);
}

bool gw_job_spec_write(const gw_job_spec *spec, const uint8_t secret_key[64], uint8_t **bytes,
                       uint32_t *length, gw_err *err) {
    if (!check(spec, err)) return false;
    uint8_t *memory = malloc(GW_JOB_RECORD_SPEC_BYTES);
    GW_ASSERT_MEMORY(memory != NULL);
    gw_writer w = gw_writer_on(memory, GW_JOB_RECORD_SPEC_BYTES - SIGNATURE_BYTES);
    put_body(&w, spec);
    if (w.failed) {
        free(memory);
        return gw_fail(err, GW_E_LIMIT, "the job's command and environment are more than %d bytes",
                       GW_JOB_RECORD_SPEC_BYTES);
    }
    crypto_sign_detached(memory + w.length, NULL, memory, w.length, secret_key);
    *bytes = memory;
    *length = (uint32_t)w.length + SIGNATURE_BYTES;
    return true;
}

/* Reading. The pointers of what was read are into blocks that one list holds. */

typedef struct memory {
    char *texts; /* all strings; a string's length on the wire takes more bytes than its terminator */
    size_t used;
    void *command, *environment, *after;
} memory;

static void *take(size_t count, size_t size) {
    void *block = calloc(count, size);
    GW_ASSERT_MEMORY(block != NULL);
    return block;
}

/* Reads a string; fails the reader where it holds a NUL. */
static const char *get_text(gw_reader *r, memory *m) {
    uint16_t length = gw_get_u16(r);
    const uint8_t *bytes = gw_get_view(r, length);
    if (bytes == NULL || memchr(bytes, '\0', length) != NULL) {
        r->failed = true;
        return NULL;
    }
    char *text = m->texts + m->used;
    memcpy(text, bytes, length);
    text[length] = '\0';
    m->used += (size_t)length + 1;
    return text;
}

static const char **get_words(gw_reader *r, memory *m, void **block, uint32_t *count) {
    const char **words = *block = take(GW_JOB_SPEC_WORDS, sizeof *words);
    while (!r->failed && gw_reader_left(r) > 0) {
        if (*count == GW_JOB_SPEC_WORDS) {
            r->failed = true;
            break;
        }
        words[(*count)++] = get_text(r, m);
    }
    const char **shorter = realloc(words, (*count + 1) * sizeof *words);
    if (shorter != NULL) *block = words = shorter;
    return words;
}

static void get_after(gw_reader *r, memory *m, gw_job_spec *spec) {
    gw_job_record_id *after = m->after = take(GW_JOB_SPEC_AFTER, sizeof *after);
    while (!r->failed && gw_reader_left(r) > 0) {
        if (spec->after_count == GW_JOB_SPEC_AFTER) {
            r->failed = true;
            break;
        }
        gw_get_bytes(r, after[spec->after_count].bytes, sizeof after[0].bytes);
        spec->after_count++;
    }
    spec->after = after;
}

static void get_flags(gw_reader *r, gw_job_spec *spec) {
    uint64_t flags = gw_get_u64(r);
    spec->hold = (flags & HOLD) != 0;
    spec->rigid = (flags & RIGID) != 0;
    r->failed |= flags > ALL_FLAGS;
}

/* A number that fits 32 bits. */
static uint32_t get_small(gw_reader *r) {
    uint64_t value = gw_get_u64(r);
    r->failed |= value > UINT32_MAX;
    return (uint32_t)value;
}

static void get_numbers(gw_reader *r, uint8_t tag, gw_job_spec *spec) {
    switch (tag) {
    case TAG_COUNTER:
        spec->counter = gw_get_u64(r);
        break;
    case TAG_WHEN:
        spec->when = gw_get_u64(r);
        break;
    case TAG_KIND:
        spec->kind = (gw_job_kind)get_small(r);
        break;
    case TAG_CLASS:
        spec->compute_class = get_small(r);
        break;
    case TAG_NEED:
        spec->need.cores = gw_get_u32(r);
        spec->need.memory_mib = gw_get_u32(r);
        spec->need.gpus = gw_get_u32(r);
        break;
    case TAG_NODES:
        spec->least = gw_get_u32(r);
        spec->most = gw_get_u32(r);
        break;
    case TAG_SHARES:
        spec->shares = get_small(r);
        break;
    case TAG_RETRIES:
        spec->retries = get_small(r);
        break;
    case TAG_PRIORITY:
        spec->priority = (int32_t)get_small(r);
        break;
    default:
        get_flags(r, spec);
    }
}

static void get_field(gw_reader *r, uint8_t tag, memory *m, gw_job_spec *spec) {
    switch (tag) {
    case TAG_NONCE:
        gw_get_bytes(r, spec->nonce, sizeof spec->nonce);
        break;
    case TAG_SUBMITTER:
        gw_get_bytes(r, spec->submitter, sizeof spec->submitter);
        break;
    case TAG_KEY:
        gw_get_bytes(r, spec->key, sizeof spec->key);
        break;
    case TAG_TOKEN:
        gw_get_bytes(r, spec->token, sizeof spec->token);
        break;
    case TAG_NAME:
        spec->name = get_text(r, m);
        break;
    case TAG_COMMAND:
        spec->command = get_words(r, m, &m->command, &spec->command_count);
        break;
    case TAG_ENVIRONMENT:
        spec->environment = get_words(r, m, &m->environment, &spec->environment_count);
        break;
    case TAG_ENVIRONMENT_FILE:
        spec->environment_file = get_text(r, m);
        break;
    case TAG_DIRECTORY:
        spec->directory = get_text(r, m);
        break;
    case TAG_BUILD:
        spec->build = get_text(r, m);
        break;
    case TAG_AFTER:
        get_after(r, m, spec);
        break;
    case TAG_FILES:
        gw_get_hash(r, &spec->files);
        break;
    case TAG_ADOPTS:
        gw_get_bytes(r, spec->adopts.bytes, sizeof spec->adopts.bytes);
        break;
    case TAG_SWEEP:
        gw_get_bytes(r, spec->sweep, sizeof spec->sweep);
        break;
    default:
        get_numbers(r, tag, spec);
    }
}

/* Reads the fields. *known becomes the bytes up to the first field of a later version. Returns false where they are
 * malformed, or, with *later set, where a field must be known and is not. */
static bool get_fields(gw_reader *r, memory *m, gw_job_spec *spec, size_t *known, bool *later) {
    uint8_t last = 0;
    *known = r->position;
    while (gw_reader_left(r) > 0) {
        uint8_t tag = gw_get_u8(r);
        uint32_t length = gw_get_u32(r);
        const uint8_t *bytes = gw_get_view(r, length);
        if (bytes == NULL || length == 0 || tag <= last) return false;
        last = tag;
        if (tag >= TAG_END) {
            *later |= tag < MUST_KNOW_BELOW;
            continue;
        }
        gw_reader field = gw_reader_on(bytes, length);
        get_field(&field, tag, m, spec);
        if (!gw_reader_done(&field)) return false;
        *known = r->position;
    }
    return !r->failed;
}

/* Whether the values are allowed, and are written as gw_job_spec_write writes them. */
static bool is_written_so(const gw_job_spec *spec, const uint8_t *bytes, size_t known) {
    gw_err err;
    if (!check(spec, &err)) return false;
    uint8_t *again = take(1, GW_JOB_RECORD_SPEC_BYTES);
    gw_writer w = gw_writer_on(again, GW_JOB_RECORD_SPEC_BYTES);
    put_body(&w, spec);
    bool same = !w.failed && w.length == known && memcmp(again, bytes, known) == 0;
    free(again);
    return same;
}

bool gw_job_spec_read(const void *bytes, size_t length, gw_job_spec *spec, gw_err *err) {
    *spec = (gw_job_spec){.kind = GW_JOB_RUN};
    if (length > GW_JOB_RECORD_SPEC_BYTES || length < LEAST_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return gw_fail(err, GW_E_INVALID, "what was submitted as a job is no specification of one");
    gw_reader r = gw_reader_on(bytes, length - SIGNATURE_BYTES);
    gw_get_view(&r, sizeof MAGIC);
    uint8_t version = gw_get_u8(&r);
    if (version > VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED, "the job's specification is of version %u; this build reads %d",
                       version, VERSION);
    memory *m = take(1, sizeof *m);
    m->texts = take(length, 1);
    spec->memory = m;
    size_t known = 0;
    bool later = false, good = version == VERSION && get_fields(&r, m, spec, &known, &later);
    later |= spec->kind >= GW_JOB_KINDS;
    if (good && later)
        gw_fail(err, GW_E_UNSUPPORTED, "the job's specification is of a later version of this program");
    else if (!good || !is_written_so(spec, bytes, known))
        good = gw_fail(err, GW_E_INVALID, "the job's specification is malformed");
    else if (crypto_sign_verify_detached((const uint8_t *)bytes + length - SIGNATURE_BYTES, bytes,
                                         length - SIGNATURE_BYTES, spec->submitter) != 0)
        good = gw_fail(err, GW_E_DENIED, "the job's specification is not signed by its submitter");
    if (good && !later) return true;
    gw_job_spec_free(spec);
    return false;
}

static void get_links(uint8_t tag, gw_reader *field, gw_job_links *links) {
    if (tag == TAG_ADOPTS) gw_get_bytes(field, links->adopts.bytes, sizeof links->adopts.bytes);
    if (tag != TAG_AFTER) return;
    while (links->after_count < GW_JOB_SPEC_AFTER && gw_reader_left(field) >= sizeof links->after[0].bytes) {
        gw_get_bytes(field, links->after[links->after_count].bytes, sizeof links->after[0].bytes);
        links->after_count++;
    }
}

gw_job_links gw_job_spec_links(const void *bytes, size_t length) {
    gw_job_links links = {.after_count = 0};
    if (length < LEAST_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC) != 0) return links;
    gw_reader r = gw_reader_on(bytes, length - SIGNATURE_BYTES);
    gw_get_view(&r, sizeof MAGIC);
    if (gw_get_u8(&r) != VERSION) return links;
    while (gw_reader_left(&r) > 0) {
        uint8_t tag = gw_get_u8(&r);
        uint32_t count = gw_get_u32(&r);
        const uint8_t *field_bytes = gw_get_view(&r, count);
        if (field_bytes == NULL) break;
        gw_reader field = gw_reader_on(field_bytes, count);
        get_links(tag, &field, &links);
    }
    return links;
}

void gw_job_spec_free(gw_job_spec *spec) {
    memory *m = spec->memory;
    if (m != NULL) {
        free(m->texts);
        free(m->command);
        free(m->environment);
        free(m->after);
        free(m);
    }
    *spec = (gw_job_spec){.kind = GW_JOB_RUN};
}
