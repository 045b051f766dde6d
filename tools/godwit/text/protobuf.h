/* Messages in protobuf's wire format, for files of other programs: TensorBoard's events, Perfetto's traces.
 * The caller knows the schema and gives the numbers of the fields. Source:
 * https://protobuf.dev/programming-guides/encoding
 *
 * Thread: a message and a reader belong to their caller. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_PROTOBUF_H
#define GODWIT_TOOLS_GODWIT_TEXT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message that grows as it is written; all zero, it is empty. Without memory `failed` turns true and stays
 * so, and what follows is left out: write a whole message, then look once. */
typedef struct gw_protobuf {
    uint8_t *bytes;
    size_t count, room;
    bool failed;
} gw_protobuf;

/* Each function writes one field, also where the value is 0. Behind it stand the schema's types that it is
 * for. */
void gw_protobuf_varint(gw_protobuf *message, uint32_t field, uint64_t value);  /* [u]int32/64, bool, enum */
void gw_protobuf_zigzag(gw_protobuf *message, uint32_t field, int64_t value);   /* sint32, sint64 */
void gw_protobuf_fixed64(gw_protobuf *message, uint32_t field, uint64_t value); /* fixed64, sfixed64 */
void gw_protobuf_double(gw_protobuf *message, uint32_t field, double value);    /* double */
void gw_protobuf_float(gw_protobuf *message, uint32_t field, float value);      /* float */
void gw_protobuf_bytes(gw_protobuf *message, uint32_t field, const void *bytes, size_t count); /* bytes */
void gw_protobuf_text(gw_protobuf *message, uint32_t field, const char *text); /* string; UTF-8 */

/* Adds bytes as they are: whole fields that were written elsewhere, or what a file has between messages. */
void gw_protobuf_raw(gw_protobuf *message, const void *bytes, size_t count);

/* Begins a field that is a message; what is written until gw_protobuf_end belongs to it. Returns the place
 * that gw_protobuf_end takes. Such fields may be inside of each other. */
size_t gw_protobuf_begin(gw_protobuf *message, uint32_t field);
void gw_protobuf_end(gw_protobuf *message, size_t place);

/* Makes the message empty, and keeps its memory for the next one. */
void gw_protobuf_clear(gw_protobuf *message);
void gw_protobuf_free(gw_protobuf *message);

typedef enum gw_protobuf_type {
    GW_PROTOBUF_VARINT = 0,
    GW_PROTOBUF_64 = 1,
    GW_PROTOBUF_BYTES = 2, /* bytes, string, message, packed numbers */
    GW_PROTOBUF_32 = 5,
} gw_protobuf_type;

/* A field that was read. */
typedef struct gw_protobuf_field {
    uint32_t number;
    gw_protobuf_type type;
    uint64_t value;       /* the varint, or the bits of a 64- or 32-bit number */
    const uint8_t *bytes; /* GW_PROTOBUF_BYTES: `count` bytes in the message that is read */
    size_t count;
} gw_protobuf_field;

/* A message that is read. The caller sets `bytes`, which are borrowed, and `count`; the rest is 0. */
typedef struct gw_protobuf_reader {
    const uint8_t *bytes;
    size_t count, position;
    bool failed; /* the bytes are no message */
} gw_protobuf_reader;

/* Reads the next field; false at the end of the message, and where the bytes are none (`failed`). */
bool gw_protobuf_next(gw_protobuf_reader *reader, gw_protobuf_field *field);
/* The number of a field of the type double; 0 where it has another wire type. */
double gw_protobuf_as_double(const gw_protobuf_field *field);

#endif
