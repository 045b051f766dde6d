/* Bounds-checked codec for everything that crosses the network or goes to disk. Little-endian, no padding.
 *
 * A writer or reader that runs out of room turns `failed` on and stays failed: write or read a whole message,
 * then look once. A failed reader returns zeros. Every message starts with a version byte of its own. */
#ifndef GODWIT_CORE_BASE_WIRE_H
#define GODWIT_CORE_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_writer {
    uint8_t *bytes;
    size_t capacity, length;
    bool failed;
} gw_writer;

typedef struct gw_reader {
    const uint8_t *bytes;
    size_t length, position;
    bool failed;
} gw_reader;

gw_writer gw_writer_on(void *bytes, size_t capacity);
void gw_put_u8(gw_writer *w, uint8_t value);
void gw_put_u16(gw_writer *w, uint16_t value);
void gw_put_u32(gw_writer *w, uint32_t value);
void gw_put_u64(gw_writer *w, uint64_t value);
void gw_put_f64(gw_writer *w, double value); /* all bits, those of NaN too */
void gw_put_bytes(gw_writer *w, const void *bytes, size_t count);
/* u16 length and the bytes, no terminator; strings over 65,535 bytes fail the writer. */
void gw_put_string(gw_writer *w, const char *text);

gw_reader gw_reader_on(const void *bytes, size_t length);
uint8_t gw_get_u8(gw_reader *r);
uint16_t gw_get_u16(gw_reader *r);
uint32_t gw_get_u32(gw_reader *r);
uint64_t gw_get_u64(gw_reader *r);
double gw_get_f64(gw_reader *r);
void gw_get_bytes(gw_reader *r, void *bytes, size_t count); /* zeros *bytes when it fails */
/* A view into the reader's bytes, or NULL when fewer than `count` are left. */
const uint8_t *gw_get_view(gw_reader *r, size_t count);
/* Copies a string and terminates it; one that does not fit `capacity` (with its NUL) fails the reader. */
void gw_get_string(gw_reader *r, char *text, size_t capacity);
size_t gw_reader_left(const gw_reader *r);
/* True when nothing failed and nothing is left over: what every parser of a whole message ends with. */
bool gw_reader_done(const gw_reader *r);

#endif
