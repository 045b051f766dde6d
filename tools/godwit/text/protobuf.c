#include "tools/godwit/text/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT_MOST = 10, ROOM_LEAST = 256 };

/* Writing. */

/* Makes room for so many more bytes, and returns the first; NULL = the message has failed. */
static uint8_t *room_for(gw_protobuf *m, size_t count) {
    if (m->failed) return NULL;
    if (m->room - m->count < count) {
        size_t room = m->room < ROOM_LEAST ? ROOM_LEAST : 2 * m->room;
        if (room < m->count + count) room = m->count + count;
        uint8_t *bytes = realloc(m->bytes, room);
        if (bytes == NULL) {
            m->failed = true;
            return NULL;
        }
        m->bytes = bytes;
        m->room = room;
    }
    return m->bytes + m->count;
}

/* Writes a varint, and returns the number of its bytes. */
static size_t encode(uint8_t bytes[VARINT_MOST], uint64_t value) {
    size_t count = 0;
    for (; value >= 0x80; value >>= 7) bytes[count++] = (uint8_t)(value | 0x80);
    bytes[count++] = (uint8_t)value;
    return count;
}

static void add_varint(gw_protobuf *m, uint64_t value) {
    uint8_t *at = room_for(m, VARINT_MOST);
    if (at != NULL) m->count += encode(at, value);
}

void gw_protobuf_raw(gw_protobuf *m, const void *bytes, size_t count) {
    uint8_t *at = room_for(m, count);
    if (at == NULL || count == 0) return;
    memcpy(at, bytes, count);
    m->count += count;
}

static void add_little_endian(gw_protobuf *m, uint64_t value, size_t count) {
    uint8_t bytes[8];
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> 8 * i);
    gw_protobuf_raw(m, bytes, count);
}

static void add_tag(gw_protobuf *m, uint32_t field, gw_protobuf_type type) {
    add_varint(m, (uint64_t)field << 3 | type);
}

void gw_protobuf_varint(gw_protobuf *m, uint32_t field, uint64_t value) {
    add_tag(m, field, GW_PROTOBUF_VARINT);
    add_varint(m, value);
}

void gw_protobuf_zigzag(gw_protobuf *m, uint32_t field, int64_t value) {
    gw_protobuf_varint(m, field, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

void gw_protobuf_fixed64(gw_protobuf *m, uint32_t field, uint64_t value) {
    add_tag(m, field, GW_PROTOBUF_64);
    add_little_endian(m, value, sizeof value);
}

void gw_protobuf_double(gw_protobuf *m, uint32_t field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    gw_protobuf_fixed64(m, field, bits);
}

void gw_protobuf_float(gw_protobuf *m, uint32_t field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_tag(m, field, GW_PROTOBUF_32);
    add_little_endian(m, bits, sizeof bits);
}

void gw_protobuf_bytes(gw_protobuf *m, uint32_t field, const void *bytes, size_t count) {
    add_tag(m, field, GW_PROTOBUF_BYTES);
    add_varint(m, count);
    gw_protobuf_raw(m, bytes, count);
}

void gw_protobuf_text(gw_protobuf *m, uint32_t field, const char *text) {
    gw_protobuf_bytes(m, field, text, strlen(text));
}

/* The length of a message is not known before its end. One byte is kept for it; where it takes more, the
 * message moves back. */
size_t gw_protobuf_begin(gw_protobuf *m, uint32_t field) {
    add_tag(m, field, GW_PROTOBUF_BYTES);
    gw_protobuf_raw(m, "", 1);
    return m->count;
}

void gw_protobuf_end(gw_protobuf *m, size_t place) {
    if (m->failed) return;
    uint8_t length[VARINT_MOST];
    size_t count = m->count - place, bytes = encode(length, count);
    if (bytes > 1) {
        if (room_for(m, bytes - 1) == NULL) return;
        memmove(m->bytes + place + bytes - 1, m->bytes + place, count);
        m->count += bytes - 1;
    }
    memcpy(m->bytes + place - 1, length, bytes);
}

void gw_protobuf_clear(gw_protobuf *m) {
    m->count = 0;
    m->failed = false;
}

void gw_protobuf_free(gw_protobuf *m) {
    free(m->bytes);
    *m = (gw_protobuf){.bytes = NULL};
}

/* Reading. */

/* The functions below return false where the bytes end too early, or are no number. */

static bool take_varint(gw_protobuf_reader *r, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < VARINT_MOST && r->position < r->count; i++) {
        uint8_t byte = r->bytes[r->position++];
        if (i == VARINT_MOST - 1 && byte > 1) return false;
        *value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool take_little_endian(gw_protobuf_reader *r, uint64_t *value, size_t count) {
    *value = 0;
    if (r->count - r->position < count) return false;
    for (size_t i = 0; i < count; i++) *value |= (uint64_t)r->bytes[r->position++] << 8 * i;
    return true;
}

static bool take_bytes(gw_protobuf_reader *r, gw_protobuf_field *field) {
    uint64_t count;
    if (!take_varint(r, &count) || count > r->count - r->position) return false;
    field->bytes = r->bytes + r->position;
    field->count = (size_t)count;
    r->position += (size_t)count;
    return true;
}

static bool take_value(gw_protobuf_reader *r, gw_protobuf_field *field) {
    switch (field->type) {
    case GW_PROTOBUF_VARINT:
        return take_varint(r, &field->value);
    case GW_PROTOBUF_64:
        return take_little_endian(r, &field->value, 8);
    case GW_PROTOBUF_32:
        return take_little_endian(r, &field->value, 4);
    case GW_PROTOBUF_BYTES:
        return take_bytes(r, field);
    }
    return false; /* groups, which no schema has had for long */
}

bool gw_protobuf_next(gw_protobuf_reader *r, gw_protobuf_field *field) {
    uint64_t tag;
    if (r->failed || r->position == r->count) return false;
    bool good = take_varint(r, &tag) && tag >> 3 >= 1 && tag >> 3 < 1U << 29;
    if (good) {
        *field = (gw_protobuf_field){.number = (uint32_t)(tag >> 3), .type = (gw_protobuf_type)(tag & 7)};
        good = take_value(r, field);
    }
    r->failed = !good;
    return good;
}

double gw_protobuf_as_double(const gw_protobuf_field *field) {
    double value = 0;
    if (field->type == GW_PROTOBUF_64) memcpy(&value, &field->value, sizeof value);
    return value;
}
