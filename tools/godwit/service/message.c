#include "tools/godwit/service/message.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEY_BYTES = 32 + 8 + 32,
    HOLDER_BYTES = 16 + 19 + 2 + GW_SERVICE_NAME_TEXT + 1,
    LEAST_HOLDER_BYTES = 16 + 19 + 2 + 1, /* without a name and a set */
    SET_BYTES = 64,                       /* of a set beside its words, rounded up */
};

static void put_key(gw_writer *w, const gw_checkpoint_key *key) {
    gw_put_hash(w, &key->job_id);
    gw_put_u64(w, key->step);
    gw_put_hash(w, &key->root);
}

static void get_key(gw_reader *r, gw_checkpoint_key *key) {
    gw_get_hash(r, &key->job_id);
    key->step = gw_get_u64(r);
    gw_get_hash(r, &key->root);
}

static void put_head(gw_writer *w, gw_service_kind kind, uint32_t id) {
    gw_put_u8(w, GW_SERVICE_VERSION);
    gw_put_u8(w, (uint8_t)kind);
    gw_put_u32(w, id);
}

/* Reads the part with which every message begins. */
static bool get_head(gw_reader *r, gw_service_kind *kind, uint32_t *id, gw_err *err) {
    uint8_t version = gw_get_u8(r);
    *kind = (gw_service_kind)gw_get_u8(r);
    *id = gw_get_u32(r);
    if (r->failed) return gw_fail(err, GW_E_INVALID, "a message of %zu bytes", r->length);
    if (version == GW_SERVICE_VERSION) return true;
    return gw_fail(
        err, GW_E_UNSUPPORTED,
        "the other side speaks version %u of the requests of clients, this program version %u: use "
        "the same version of godwit",
        version, GW_SERVICE_VERSION);
}

static bool get_bool(gw_reader *r) {
    uint8_t value = gw_get_u8(r);
    r->failed |= value > 1;
    return value == 1;
}

static void get_length(gw_reader *r, uint32_t *length, uint32_t least) {
    *length = gw_get_u32(r);
    r->failed |= *length < least || *length > GW_SERVICE_PIECE_BYTES;
}

/* Reads a string that is shown to people. */
static void get_text(gw_reader *r, char *text, size_t capacity) {
    size_t length = gw_get_u16(r), wrong;
    bool control;
    const uint8_t *bytes = length < capacity ? gw_get_view(r, length) : NULL;
    r->failed |= bytes == NULL || memchr(bytes, 0, length) != NULL;
    if (r->failed) length = 0;
    if (length > 0) memcpy(text, bytes, length);
    text[length] = '\0';
    r->failed |= !gw_utf8_is_printable(text, &wrong, &control);
}

static bool fail_malformed(gw_err *err, const char *what, gw_service_kind kind) {
    return gw_fail(err, GW_E_INVALID, "a malformed %s (kind %d)", what, (int)kind);
}

size_t gw_service_request_encode(const gw_service_request *request, uint8_t bytes[GW_SERVICE_REQUEST_BYTES]) {
    gw_writer w = gw_writer_on(bytes, GW_SERVICE_REQUEST_BYTES);
    put_head(&w, request->kind, request->id);
    switch (request->kind) {
    case GW_SERVICE_LIST:
    case GW_SERVICE_MEMBERS:
    case GW_SERVICE_TIME:
    case GW_SERVICE_TRACE:
        break;
    case GW_SERVICE_MANIFEST:
        put_key(&w, &request->checkpoint);
        gw_put_u64(&w, request->offset);
        break;
    case GW_SERVICE_HOLDERS:
        put_key(&w, &request->checkpoint);
        gw_put_u8(&w, request->others);
        break;
    case GW_SERVICE_CHUNK:
        gw_put_hash(&w, &request->name);
        gw_put_u32(&w, request->length);
        gw_put_peer_id(&w, &request->peer);
        break;
    case GW_SERVICE_WELCOME:
        GW_ASSERT(false && "WELCOME is no request");
    }
    GW_ASSERT(!w.failed);
    return w.length;
}

bool gw_service_request_decode(const void *bytes, size_t length, gw_service_request *request, gw_err *err) {
    *request = (gw_service_request){0};
    gw_reader r = gw_reader_on(bytes, length);
    if (!get_head(&r, &request->kind, &request->id, err)) return false;
    switch (request->kind) {
    case GW_SERVICE_LIST:
    case GW_SERVICE_MEMBERS:
    case GW_SERVICE_TIME:
    case GW_SERVICE_TRACE:
        break;
    case GW_SERVICE_MANIFEST:
        get_key(&r, &request->checkpoint);
        request->offset = gw_get_u64(&r);
        break;
    case GW_SERVICE_HOLDERS:
        get_key(&r, &request->checkpoint);
        request->others = get_bool(&r);
        break;
    case GW_SERVICE_CHUNK:
        gw_get_hash(&r, &request->name);
        get_length(&r, &request->length, 1);
        gw_get_peer_id(&r, &request->peer);
        break;
    case GW_SERVICE_WELCOME:
    default:
        return fail_malformed(err, "request", request->kind);
    }
    return gw_reader_done(&r) || fail_malformed(err, "request", request->kind);
}

static size_t room_of(const gw_service_answer *answer) {
    size_t room = 64 + GW_SERVICE_WHY_TEXT + answer->length;
    if (answer->listed != NULL) room += (size_t)answer->count * KEY_BYTES;
    for (uint32_t i = 0; answer->holders != NULL && i < answer->count; i++)
        room += HOLDER_BYTES + SET_BYTES + answer->holders[i].chunks.size / 8;
    return room;
}

static void put_holder(gw_writer *w, const gw_service_holder *holder) {
    gw_put_peer_id(w, &holder->id);
    gw_put_addr(w, &holder->addr);
    gw_put_string(w, holder->name);
    gw_put_u8(w, (uint8_t)holder->knowledge);
    if (holder->knowledge == GW_HOLDER_KNOWN) gw_set_put(w, &holder->chunks);
}

static void put_holders(gw_writer *w, const gw_service_answer *answer) {
    gw_put_u16(w, (uint16_t)answer->count);
    for (uint32_t i = 0; i < answer->count; i++) put_holder(w, &answer->holders[i]);
}

static void put_body(gw_writer *w, const gw_service_answer *answer) {
    switch (answer->kind) {
    case GW_SERVICE_LIST:
        gw_put_u32(w, answer->count);
        for (uint32_t i = 0; i < answer->count; i++) put_key(w, &answer->listed[i]);
        break;
    case GW_SERVICE_MANIFEST:
        gw_put_u64(w, answer->file_bytes);
        gw_put_u64(w, answer->offset);
        gw_put_u32(w, answer->length);
        gw_put_bytes(w, answer->bytes, answer->length);
        break;
    case GW_SERVICE_HOLDERS:
        put_holders(w, answer);
        break;
    case GW_SERVICE_MEMBERS:
        gw_put_hash(w, &answer->cluster);
        gw_put_u8(w, answer->keyed);
        put_holders(w, answer);
        break;
    case GW_SERVICE_TIME:
        gw_put_u64(w, answer->received_ns);
        gw_put_u64(w, answer->sent_ns);
        break;
    case GW_SERVICE_TRACE:
    case GW_SERVICE_CHUNK:
        gw_put_u32(w, answer->length);
        gw_put_bytes(w, answer->bytes, answer->length);
        break;
    case GW_SERVICE_WELCOME:
        gw_put_peer_id(w, &answer->self);
        break;
    }
}

bool gw_service_answer_encode(const gw_service_answer *answer, uint8_t **bytes, size_t *length, gw_err *err) {
    size_t room = room_of(answer);
    uint8_t *memory = malloc(room);
    if (memory == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory for an answer");
    gw_writer w = gw_writer_on(memory, room);
    put_head(&w, answer->kind, answer->id);
    gw_put_u8(&w, (uint8_t)answer->outcome);
    if (answer->outcome == GW_SERVICE_DONE)
        put_body(&w, answer);
    else
        gw_put_string(&w, answer->why);
    GW_ASSERT(!w.failed);
    *bytes = memory;
    *length = w.length;
    return true;
}

static bool get_list(gw_reader *r, gw_service_answer *answer) {
    answer->count = gw_get_u32(r);
    if (answer->count > GW_SERVICE_LISTED || (uint64_t)answer->count * KEY_BYTES != gw_reader_left(r)) {
        r->failed = true;
        return true;
    }
    answer->listed = calloc(answer->count + 1u, sizeof *answer->listed);
    if (answer->listed == NULL) return false;
    for (uint32_t i = 0; i < answer->count; i++) get_key(r, &answer->listed[i]);
    return true;
}

static void get_holder(gw_reader *r, gw_service_holder *holder) {
    gw_get_peer_id(r, &holder->id);
    gw_get_addr(r, &holder->addr);
    get_text(r, holder->name, sizeof holder->name);
    uint8_t knowledge = gw_get_u8(r);
    r->failed |= knowledge > GW_HOLDER_SILENT;
    holder->knowledge = (gw_holder_knowledge)knowledge;
    if (!r->failed && holder->knowledge == GW_HOLDER_KNOWN) holder->chunks = gw_set_get(r);
}

static bool get_holders(gw_reader *r, gw_service_answer *answer) {
    uint32_t count = gw_get_u16(r);
    if (count > GW_SERVICE_PEERS || (uint64_t)count * LEAST_HOLDER_BYTES > gw_reader_left(r)) {
        r->failed = true;
        return true;
    }
    answer->holders = calloc(count + 1u, sizeof *answer->holders);
    if (answer->holders == NULL) return false;
    for (; answer->count < count && !r->failed; answer->count++)
        get_holder(r, &answer->holders[answer->count]);
    return true;
}

static void get_piece(gw_reader *r, gw_service_answer *answer, uint32_t least) {
    get_length(r, &answer->length, least);
    if (!r->failed) answer->bytes = gw_get_view(r, answer->length);
}

/* False: out of memory. */
static bool get_body(gw_reader *r, gw_service_answer *answer) {
    switch (answer->kind) {
    case GW_SERVICE_LIST:
        return get_list(r, answer);
    case GW_SERVICE_HOLDERS:
        return get_holders(r, answer);
    case GW_SERVICE_MANIFEST:
        answer->file_bytes = gw_get_u64(r);
        answer->offset = gw_get_u64(r);
        get_piece(r, answer, 0);
        r->failed |=
            answer->offset > answer->file_bytes || answer->length > answer->file_bytes - answer->offset;
        return true;
    case GW_SERVICE_MEMBERS:
        gw_get_hash(r, &answer->cluster);
        answer->keyed = get_bool(r);
        return get_holders(r, answer);
    case GW_SERVICE_TIME:
        answer->received_ns = gw_get_u64(r);
        answer->sent_ns = gw_get_u64(r);
        return true;
    case GW_SERVICE_TRACE:
    case GW_SERVICE_CHUNK:
        get_piece(r, answer, 1);
        return true;
    case GW_SERVICE_WELCOME:
        gw_get_peer_id(r, &answer->self);
        return true;
    }
    r->failed = true;
    return true;
}

bool gw_service_answer_decode(const void *bytes, size_t length, gw_service_answer *answer, gw_err *err) {
    *answer = (gw_service_answer){0};
    gw_reader r = gw_reader_on(bytes, length);
    if (!get_head(&r, &answer->kind, &answer->id, err)) return false;
    uint8_t outcome = gw_get_u8(&r);
    r.failed |= outcome > GW_SERVICE_BUSY;
    answer->outcome = (gw_service_outcome)outcome;
    if (!r.failed && outcome != GW_SERVICE_DONE) get_text(&r, answer->why, sizeof answer->why);
    bool enough = r.failed || outcome != GW_SERVICE_DONE || get_body(&r, answer);
    bool known = answer->kind >= GW_SERVICE_LIST && answer->kind <= GW_SERVICE_TRACE;
    if (enough && known && gw_reader_done(&r)) return true;
    gw_service_kind kind = answer->kind;
    gw_service_answer_free(answer);
    return enough ? fail_malformed(err, "answer", kind)
                  : gw_fail(err, GW_E_NOMEM, "out of memory for an answer");
}

void gw_service_answer_free(gw_service_answer *answer) {
    for (uint32_t i = 0; answer->holders != NULL && i < answer->count; i++)
        gw_set_free(&answer->holders[i].chunks);
    free(answer->holders);
    free(answer->listed);
    *answer = (gw_service_answer){0};
}
