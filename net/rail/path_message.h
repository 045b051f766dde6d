/* The messages by which the two sides of a data link agree on its path (net/rail/path.h). They travel on
 * stream 0, that of small operations.
 *
 * Header (GW_RAIL_HEADER bytes, little-endian): 3 | what u8 | kind u8 | 0 | serial u32 | 56 zeros. Payload:
 *    HELLO  kinds allowed u8 (bit of each gw_path_kind) | number of cards u8 | kind u8, length u16, card ...
 *           From each side when the link begins. Later, when a path that failed may be tried again,
 *           from the side that had excluded it; if that is the side that leads, the other side answers with
 *           its own.
 *    TRY    the present card of the side that leads: open an endpoint of this kind for try `serial`, which
 *           rises from try to try on a link
 *    TELL   the path's own bytes, for its endpoint of that try
 *    FAIL   text: that try has failed here (from either side)
 *    USE    text: use this kind (of that try); kind 0: there is none, end the link. The text says why there
 *           is no better one */
#ifndef GODWIT_NET_RAIL_PATH_MESSAGE_H
#define GODWIT_NET_RAIL_PATH_MESSAGE_H

#include "net/rail/path.h"

#define GW_PATH_BIT(kind) (1u << (kind))

enum { GW_PATH_KINDS = GW_PATH_RDMA + 1, GW_HEADER_PATH = 3 /* beside gw_header_type */ };

typedef enum gw_path_what {
    GW_PATH_HELLO = 1,
    GW_PATH_TRY,
    GW_PATH_TELL,
    GW_PATH_FAIL,
    GW_PATH_USE,
} gw_path_what;

typedef struct gw_path_note {
    gw_path_what what;
    gw_path_kind kind; /* 0: none */
    uint32_t serial;
} gw_path_note;

typedef struct gw_path_card {
    uint32_t count; /* 0: none */
    uint8_t bytes[GW_PATH_CARD_BYTES];
} gw_path_card;

typedef struct gw_path_hello {
    uint32_t kinds; /* GW_PATH_BIT of each kind that the sender allows */
    gw_path_card cards[GW_PATH_KINDS];
} gw_path_hello;

enum { GW_PATH_HELLO_BYTES = 2 + GW_PATH_KINDS * (3 + GW_PATH_CARD_BYTES) };

void gw_path_note_encode(const gw_path_note *note, uint8_t header[GW_RAIL_HEADER]);
/* False if it is not a path message, or a malformed one. */
bool gw_path_note_decode(const uint8_t header[GW_RAIL_HEADER], gw_path_note *note);
/* Encodes a HELLO and returns its length in bytes. */
uint32_t gw_path_hello_encode(const gw_path_hello *hello, uint8_t bytes[GW_PATH_HELLO_BYTES]);
bool gw_path_hello_decode(const uint8_t *bytes, uint32_t count, gw_path_hello *hello);

#endif
