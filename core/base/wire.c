#include "core/base/wire.h"

#include "core/base/assert.h"

#include <string.h>

gw_writer gw_writer_on(void *bytes, size_t capacity) {
    GW_ASSERT(bytes != NULL || capacity == 0);
    return (gw_writer){.bytes = bytes, .capacity = capacity};
}

static uint8_t *writer_take(gw_writer *w, size_t count) {
    if (w->failed || w->capacity - w->length < count) {
        w->failed = true;
        return NULL;
    }
    uint8_t *at = w->bytes + w->length;
    w->length += count;
    return at;
}

static void put_little(gw_writer *w, uint64_t value, size_t count) {
    uint8_t *at = writer_take(w, count);
    if (at == NULL) return;
    for (size_t i = 0; i < count; i++) at[i] = (uint8_t)(value >> (8 * i));
}

void gw_put_u8(gw_writer *w, uint8_t value) {
    put_little(w, value, 1);
}
void gw_put_u16(gw_writer *w, uint16_t value) {
    put_little(w, value, 2);
}
void gw_put_u32(gw_writer *w, uint32_t value) {
    put_little(w, value, 4);
}
void gw_put_u64(gw_writer *w, uint64_t value) {
    put_little(w, value, 8);
}

void gw_put_f64(gw_writer *w, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    gw_put_u64(w, bits);
}

void gw_put_bytes(gw_writer *w, const void *bytes, size_t count) {
    uint8_t *at = writer_take(w, count);
    if (at != NULL && count > 0) memcpy(at, bytes, count);
}

void gw_put_string(gw_writer *w, const char *text) {
    size_t length = strlen(text);
    if (length > UINT16_MAX) {
        w->failed = true;
        return;
    }
    gw_put_u16(w, (uint16_t)length);
    gw_put_bytes(w, text, length);
}

gw_reader gw_reader_on(const void *bytes, size_t length) {
    GW_ASSERT(bytes != NULL || length == 0);
    return (gw_reader){.bytes = bytes, .length = length};
}

const uint8_t *gw_get_view(gw_reader *r, size_t count) {
    if (r->failed || r->length - r->position < count) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *at = r->bytes + r->position;
    r->position += count;
    return at;
}

static uint64_t get_little(gw_reader *r, size_t count) {
    const uint8_t *at = gw_get_view(r, count);
    uint64_t value = 0;
    for (size_t i = 0; at != NULL && i < count; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

uint8_t gw_get_u8(gw_reader *r) {
    return (uint8_t)get_little(r, 1);
}
uint16_t gw_get_u16(gw_reader *r) {
    return (uint16_t)get_little(r, 2);
}
uint32_t gw_get_u32(gw_reader *r) {
    return (uint32_t)get_little(r, 4);
}
uint64_t gw_get_u64(gw_reader *r) {
    return get_little(r, 8);
}

double gw_get_f64(gw_reader *r) {
    uint64_t bits = gw_get_u64(r);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void gw_get_bytes(gw_reader *r, void *bytes, size_t count) {
    const uint8_t *at = gw_get_view(r, count);
    if (at == NULL)
        memset(bytes, 0, count);
    else if (count > 0)
        memcpy(bytes, at, count);
}

void gw_get_string(gw_reader *r, char *text, size_t capacity) {
    GW_ASSERT(capacity > 0);
    size_t length = gw_get_u16(r);
    text[0] = '\0';
    if (length >= capacity) {
        r->failed = true;
        return;
    }
    const uint8_t *at = gw_get_view(r, length);
    if (at == NULL) return;
    if (memchr(at, 0, length) != NULL) {
        r->failed = true;
        return;
    }
    memcpy(text, at, length);
    text[length] = '\0';
}

size_t gw_reader_left(const gw_reader *r) {
    return r->failed ? 0 : r->length - r->position;
}
bool gw_reader_done(const gw_reader *r) {
    return !r->failed && r->position == r->length;
}
