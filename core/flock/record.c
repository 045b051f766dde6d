#include "core/flock/record.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 1 };

/* Tags of the fields; those from FIRST_UNKNOWN on are of later versions. */
enum { TAG_SPEC = 1, TAG_FLAGS, TAG_KNOB, TAG_ROUNDS, TAG_ENDS, TAG_SAVED, FIRST_UNKNOWN };
enum { CANCELLED = 1, STARTED = 2 };
enum { KNOB_BYTES = 8 + 16 + 4 + 1, ROUND_BYTES = 4 + 1 + 4 + 16 + 8, END_BYTES = 1 + 32 + 8 + 16 };
enum { LAST = 1, FATAL = 2 };

gw_job_record_id gw_job_record_id_of(const void *spec, size_t length) {
    gw_job_record_id id;
    gw_blake2b(spec, length, id.bytes, sizeof id.bytes);
    return id;
}

bool gw_job_record_id_equal(const gw_job_record_id *a, const gw_job_record_id *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

gw_job_record gw_job_record_of(const gw_job_record_id *id) {
    return (gw_job_record){.id = *id};
}

void gw_job_record_free(gw_job_record *record) {
    free(record->spec);
    for (uint32_t i = 0; i < record->unknown_count; i++) free(record->unknown[i].bytes);
    *record = (gw_job_record){.id = record->id};
}

static uint8_t *copy_bytes(const uint8_t *bytes, size_t length) {
    uint8_t *copy = malloc(length + 1);
    GW_ASSERT_MEMORY(copy != NULL);
    memcpy(copy, bytes, length);
    return copy;
}

gw_job_record gw_job_record_copy(const gw_job_record *record) {
    gw_job_record copy = *record;
    if (record->spec != NULL) copy.spec = copy_bytes(record->spec, record->spec_bytes);
    for (uint32_t i = 0; i < record->unknown_count; i++)
        copy.unknown[i].bytes = copy_bytes(record->unknown[i].bytes, record->unknown[i].length);
    return copy;
}

/* Orders. */

static int compare_numbers(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_knobs(const gw_job_record_knob *a, const gw_job_record_knob *b) {
    int order = compare_numbers(a->n, b->n);
    if (order == 0) order = gw_peer_id_compare(&a->writer, &b->writer);
    if (order == 0) order = a->priority < b->priority ? -1 : a->priority > b->priority;
    return order != 0 ? order : compare_numbers(a->hold, b->hold);
}

/* The order of two failures of one round. */
static int compare_rounds(const gw_job_record_round *a, const gw_job_record_round *b) {
    int order = compare_numbers(a->last, b->last);
    if (order == 0) order = compare_numbers(a->fatal, b->fatal);
    if (order == 0) order = compare_numbers(a->code, b->code);
    if (order == 0) order = gw_peer_id_compare(&a->member, &b->member);
    return order != 0 ? order : compare_numbers(a->boot, b->boot);
}

static int compare_ends(const gw_job_record_end *a, const gw_job_record_end *b) {
    int order = compare_numbers(a->kind, b->kind);
    return order != 0 ? order : memcmp(a->hash.bytes, b->hash.bytes, sizeof a->hash.bytes);
}

/* The order of two members that tell one end: the first comes first. */
static int compare_tellers(const gw_job_record_end *a, const gw_job_record_end *b) {
    int order = compare_numbers(a->when, b->when);
    return order != 0 ? order : gw_peer_id_compare(&a->member, &b->member);
}

/* Bytes: as numbers of any size, the longer higher. */
static int compare_bytes(const uint8_t *a, uint32_t a_length, const uint8_t *b, uint32_t b_length) {
    if (a_length != b_length) return a_length < b_length ? -1 : 1;
    return memcmp(a, b, a_length);
}

/* The join. */

static bool join_round(gw_job_record *record, const gw_job_record_round *round) {
    uint32_t at = 0;
    while (at < record->round_count && record->rounds[at].round < round->round) at++;
    if (at < record->round_count && record->rounds[at].round == round->round) {
        if (compare_rounds(round, &record->rounds[at]) <= 0) return false;
        record->rounds[at] = *round;
        return true;
    }
    GW_ASSERT(record->round_count < GW_JOB_RECORD_ROUNDS); /* rounds are below it */
    memmove(record->rounds + at + 1, record->rounds + at,
            (record->round_count - at) * sizeof record->rounds[0]);
    record->rounds[at] = *round;
    record->round_count++;
    return true;
}

static bool join_end(gw_job_record *record, const gw_job_record_end *end) {
    uint32_t at = 0;
    while (at < record->end_count && compare_ends(&record->ends[at], end) > 0) at++;
    if (at < record->end_count && compare_ends(&record->ends[at], end) == 0) {
        if (compare_tellers(end, &record->ends[at]) >= 0) return false;
        record->ends[at] = *end;
        return true;
    }
    if (at == GW_JOB_RECORD_ENDS) return false; /* two higher ones are known */
    uint32_t kept = record->end_count < GW_JOB_RECORD_ENDS ? record->end_count : GW_JOB_RECORD_ENDS - 1;
    memmove(record->ends + at + 1, record->ends + at, (kept - at) * sizeof record->ends[0]);
    record->ends[at] = *end;
    record->end_count = kept + 1;
    return true;
}

/* A field of a later version. Where there is no room for all, those with the lowest tags are kept, as they are
 * whatever the order in which they came. */
static bool join_unknown(gw_job_record *record, const gw_job_record_field *field) {
    uint32_t at = 0;
    while (at < record->unknown_count && record->unknown[at].tag < field->tag) at++;
    gw_job_record_field *here = &record->unknown[at];
    if (at < record->unknown_count && here->tag == field->tag) {
        if (compare_bytes(field->bytes, field->length, here->bytes, here->length) <= 0) return false;
        free(here->bytes);
    } else {
        if (at == GW_JOB_RECORD_UNKNOWN) return false;
        if (record->unknown_count == GW_JOB_RECORD_UNKNOWN)
            free(record->unknown[--record->unknown_count].bytes);
        memmove(here + 1, here, (record->unknown_count - at) * sizeof *here);
        record->unknown_count++;
    }
    *here = (gw_job_record_field){field->tag, field->length, copy_bytes(field->bytes, field->length)};
    return true;
}

bool gw_job_record_join(gw_job_record *record, const gw_job_record *other) {
    GW_ASSERT(gw_job_record_id_equal(&record->id, &other->id));
    bool changed = false;
    if (record->spec == NULL && other->spec != NULL) {
        record->spec = copy_bytes(other->spec, other->spec_bytes);
        record->spec_bytes = other->spec_bytes;
        changed = true;
    }
    changed |= other->cancel && !record->cancel;
    changed |= other->started && !record->started;
    record->cancel |= other->cancel;
    record->started |= other->started;
    if (compare_knobs(&other->knob, &record->knob) > 0) {
        record->knob = other->knob;
        changed = true;
    }
    if (other->saved > record->saved) {
        record->saved = other->saved;
        changed = true;
    }
    for (uint32_t i = 0; i < other->round_count; i++) changed |= join_round(record, &other->rounds[i]);
    for (uint32_t i = 0; i < other->end_count; i++) changed |= join_end(record, &other->ends[i]);
    for (uint32_t i = 0; i < other->unknown_count; i++) changed |= join_unknown(record, &other->unknown[i]);
    return changed;
}

/* What follows. */

bool gw_job_record_is_done(const gw_job_record *record) {
    bool done = false;
    for (uint32_t i = 0; i < record->end_count; i++) done |= record->ends[i].kind == GW_JOB_END_DONE;
    return done && !record->cancel;
}

bool gw_job_record_is_over(const gw_job_record *record) {
    bool over = record->cancel || record->end_count > 0;
    for (uint32_t i = 0; i < record->round_count; i++)
        over |= record->rounds[i].last || record->rounds[i].fatal;
    return over;
}

uint32_t gw_job_record_next_round(const gw_job_record *record) {
    return record->round_count == 0 ? 0 : record->rounds[record->round_count - 1].round + 1;
}

bool gw_job_record_ends_differ(const gw_job_record *record) {
    return record->end_count > 1;
}

bool gw_job_record_make_stub(gw_job_record *record) {
    GW_ASSERT(gw_job_record_is_over(record));
    bool had = record->spec != NULL;
    free(record->spec);
    record->spec = NULL;
    record->spec_bytes = 0;
    return had;
}

/* The encoding. */

static void put_head(gw_writer *w, uint8_t tag, size_t length) {
    gw_put_u8(w, tag);
    gw_put_u32(w, (uint32_t)length);
}

void gw_job_record_put(gw_writer *w, const gw_job_record *record, bool with_spec) {
    gw_put_u8(w, VERSION);
    gw_put_bytes(w, record->id.bytes, sizeof record->id.bytes);
    if (with_spec && record->spec != NULL) {
        put_head(w, TAG_SPEC, record->spec_bytes);
        gw_put_bytes(w, record->spec, record->spec_bytes);
    }
    if (record->cancel || record->started) {
        put_head(w, TAG_FLAGS, 1);
        gw_put_u8(w, (uint8_t)((record->cancel ? CANCELLED : 0) | (record->started ? STARTED : 0)));
    }
    if (record->knob.n != 0) {
        put_head(w, TAG_KNOB, KNOB_BYTES);
        gw_put_u64(w, record->knob.n);
        gw_put_peer_id(w, &record->knob.writer);
        gw_put_u32(w, (uint32_t)record->knob.priority);
        gw_put_u8(w, record->knob.hold);
    }
    if (record->round_count > 0) put_head(w, TAG_ROUNDS, (size_t)record->round_count * ROUND_BYTES);
    for (uint32_t i = 0; i < record->round_count; i++) {
        const gw_job_record_round *round = &record->rounds[i];
        gw_put_u32(w, round->round);
        gw_put_u8(w, (uint8_t)((round->last ? LAST : 0) | (round->fatal ? FATAL : 0)));
        gw_put_u32(w, round->code);
        gw_put_peer_id(w, &round->member);
        gw_put_u64(w, round->boot);
    }
    if (record->end_count > 0) put_head(w, TAG_ENDS, (size_t)record->end_count * END_BYTES);
    for (uint32_t i = 0; i < record->end_count; i++) {
        const gw_job_record_end *end = &record->ends[i];
        gw_put_u8(w, end->kind);
        gw_put_hash(w, &end->hash);
        gw_put_u64(w, end->when);
        gw_put_peer_id(w, &end->member);
    }
    if (record->saved != 0) {
        put_head(w, TAG_SAVED, sizeof record->saved);
        gw_put_u64(w, record->saved);
    }
    for (uint32_t i = 0; i < record->unknown_count; i++) {
        put_head(w, record->unknown[i].tag, record->unknown[i].length);
        gw_put_bytes(w, record->unknown[i].bytes, record->unknown[i].length);
    }
}

size_t gw_job_record_bytes(const gw_job_record *record, bool with_spec) {
    enum { HEAD = 1 + 4 };
    size_t bytes = 1 + sizeof record->id;
    if (with_spec && record->spec != NULL) bytes += HEAD + record->spec_bytes;
    if (record->cancel || record->started) bytes += HEAD + 1;
    if (record->knob.n != 0) bytes += HEAD + KNOB_BYTES;
    if (record->round_count > 0) bytes += HEAD + (size_t)record->round_count * ROUND_BYTES;
    if (record->end_count > 0) bytes += HEAD + (size_t)record->end_count * END_BYTES;
    if (record->saved != 0) bytes += HEAD + sizeof record->saved;
    for (uint32_t i = 0; i < record->unknown_count; i++) bytes += HEAD + record->unknown[i].length;
    return bytes;
}

/* Each of these reads one field of `length` bytes into the record. False: it is not as it is written. */

static bool get_spec(gw_reader *r, uint32_t length, gw_job_record *record) {
    const uint8_t *bytes = gw_get_view(r, length);
    if (bytes == NULL || length == 0 || length > GW_JOB_RECORD_SPEC_BYTES) return false;
    gw_job_record_id id = gw_job_record_id_of(bytes, length);
    if (!gw_job_record_id_equal(&id, &record->id)) return false;
    record->spec = copy_bytes(bytes, length);
    record->spec_bytes = length;
    return true;
}

static bool get_flags(gw_reader *r, uint32_t length, gw_job_record *record) {
    uint8_t flags = gw_get_u8(r);
    record->cancel = flags & CANCELLED;
    record->started = (flags & STARTED) != 0;
    return length == 1 && flags != 0 && (flags & ~(CANCELLED | STARTED)) == 0;
}

static bool get_knob(gw_reader *r, uint32_t length, gw_job_record *record) {
    record->knob.n = gw_get_u64(r);
    gw_get_peer_id(r, &record->knob.writer);
    record->knob.priority = (int32_t)gw_get_u32(r);
    uint8_t hold = gw_get_u8(r);
    record->knob.hold = hold != 0;
    return length == KNOB_BYTES && record->knob.n != 0 && hold <= 1;
}

static bool get_rounds(gw_reader *r, uint32_t length, gw_job_record *record) {
    uint32_t count = length / ROUND_BYTES;
    if (length % ROUND_BYTES != 0 || count == 0 || count > GW_JOB_RECORD_ROUNDS) return false;
    for (uint32_t i = 0; i < count; i++) {
        gw_job_record_round *round = &record->rounds[i];
        round->round = gw_get_u32(r);
        uint8_t flags = gw_get_u8(r);
        round->last = flags & LAST;
        round->fatal = (flags & FATAL) != 0;
        round->code = gw_get_u32(r);
        gw_get_peer_id(r, &round->member);
        round->boot = gw_get_u64(r);
        if (round->round >= GW_JOB_RECORD_ROUNDS || (flags & ~(LAST | FATAL)) != 0) return false;
        if (i > 0 && round->round <= record->rounds[i - 1].round) return false;
    }
    record->round_count = count;
    return true;
}

static bool get_ends(gw_reader *r, uint32_t length, gw_job_record *record) {
    uint32_t count = length / END_BYTES;
    if (length % END_BYTES != 0 || count == 0 || count > GW_JOB_RECORD_ENDS) return false;
    for (uint32_t i = 0; i < count; i++) {
        gw_job_record_end *end = &record->ends[i];
        end->kind = gw_get_u8(r);
        gw_get_hash(r, &end->hash);
        end->when = gw_get_u64(r);
        gw_get_peer_id(r, &end->member);
        if (end->kind == 0 || (i > 0 && compare_ends(end, &record->ends[i - 1]) >= 0)) return false;
    }
    record->end_count = count;
    return true;
}

static bool get_saved(gw_reader *r, uint32_t length, gw_job_record *record) {
    record->saved = gw_get_u64(r);
    return length == sizeof record->saved && record->saved != 0;
}

static bool get_unknown(gw_reader *r, uint8_t tag, uint32_t length, gw_job_record *record) {
    const uint8_t *bytes = gw_get_view(r, length);
    if (bytes == NULL || length > GW_JOB_RECORD_UNKNOWN_BYTES ||
        record->unknown_count == GW_JOB_RECORD_UNKNOWN)
        return false;
    record->unknown[record->unknown_count++] = (gw_job_record_field){tag, length, copy_bytes(bytes, length)};
    return true;
}

static bool get_field(gw_reader *r, uint8_t tag, uint32_t length, gw_job_record *record) {
    switch (tag) {
    case TAG_SPEC:
        return get_spec(r, length, record);
    case TAG_FLAGS:
        return get_flags(r, length, record);
    case TAG_KNOB:
        return get_knob(r, length, record);
    case TAG_ROUNDS:
        return get_rounds(r, length, record);
    case TAG_ENDS:
        return get_ends(r, length, record);
    case TAG_SAVED:
        return get_saved(r, length, record);
    default:
        return tag >= FIRST_UNKNOWN && get_unknown(r, tag, length, record);
    }
}

bool gw_job_record_get(const void *bytes, size_t length, gw_job_record *record, gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t version = gw_get_u8(&r), last = 0;
    *record = (gw_job_record){.cancel = false};
    gw_get_bytes(&r, record->id.bytes, sizeof record->id.bytes);
    if (!r.failed && version > VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED, "the record of a job is of version %u; this build reads %d",
                       version, VERSION);
    if (length > GW_JOB_RECORD_BYTES) return gw_fail(err, GW_E_LIMIT, "the record of a job is too long");
    bool good = !r.failed && version == VERSION;
    while (good && gw_reader_left(&r) > 0) {
        uint8_t tag = gw_get_u8(&r);
        uint32_t field = gw_get_u32(&r);
        size_t before = r.position;
        good = !r.failed && tag > last && field <= gw_reader_left(&r) && get_field(&r, tag, field, record) &&
               !r.failed && r.position - before == field;
        last = tag;
    }
    if (good) return true;
    gw_job_record_free(record);
    return gw_fail(err, GW_E_INVALID, "the record of a job is malformed at byte %zu", r.position);
}

uint64_t gw_job_record_digest(const gw_job_record *record) {
    size_t length = gw_job_record_bytes(record, false);
    uint8_t *bytes = malloc(length), hash[16];
    GW_ASSERT_MEMORY(bytes != NULL);
    gw_writer w = gw_writer_on(bytes, length);
    gw_job_record_put(&w, record, false);
    GW_ASSERT(!w.failed && w.length == length);
    gw_blake2b(bytes, length, hash, sizeof hash);
    free(bytes);
    gw_reader r = gw_reader_on(hash, sizeof hash);
    return gw_get_u64(&r);
}
