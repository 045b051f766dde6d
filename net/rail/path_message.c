#include "net/rail/path_message.h"

#include "core/base/assert.h"
#include "core/base/wire.h"

#include <string.h>

void gw_path_note_encode(const gw_path_note *note, uint8_t header[GW_RAIL_HEADER]) {
    memset(header, 0, GW_RAIL_HEADER);
    gw_writer w = gw_writer_on(header, GW_RAIL_HEADER);
    gw_put_u8(&w, GW_HEADER_PATH);
    gw_put_u8(&w, (uint8_t)note->what);
    gw_put_u8(&w, (uint8_t)note->kind);
    gw_put_u8(&w, 0);
    gw_put_u32(&w, note->serial);
    GW_ASSERT(!w.failed);
}

bool gw_path_note_decode(const uint8_t header[GW_RAIL_HEADER], gw_path_note *note) {
    gw_reader r = gw_reader_on(header, GW_RAIL_HEADER);
    uint8_t type = gw_get_u8(&r);
    note->what = (gw_path_what)gw_get_u8(&r);
    note->kind = (gw_path_kind)gw_get_u8(&r);
    gw_get_u8(&r);
    note->serial = gw_get_u32(&r);
    return type == GW_HEADER_PATH && note->what >= GW_PATH_HELLO && note->what <= GW_PATH_USE &&
           (uint32_t)note->kind < GW_PATH_KINDS;
}

uint32_t gw_path_hello_encode(const gw_path_hello *hello, uint8_t bytes[GW_PATH_HELLO_BYTES]) {
    gw_writer w = gw_writer_on(bytes, GW_PATH_HELLO_BYTES);
    uint32_t cards = 0;
    for (uint32_t kind = 0; kind < GW_PATH_KINDS; kind++) cards += hello->cards[kind].count > 0;
    gw_put_u8(&w, (uint8_t)hello->kinds);
    gw_put_u8(&w, (uint8_t)cards);
    for (uint32_t kind = 0; kind < GW_PATH_KINDS; kind++) {
        const gw_path_card *card = &hello->cards[kind];
        if (card->count == 0) continue;
        gw_put_u8(&w, (uint8_t)kind);
        gw_put_u16(&w, (uint16_t)card->count);
        gw_put_bytes(&w, card->bytes, card->count);
    }
    GW_ASSERT(!w.failed);
    return (uint32_t)w.length;
}

bool gw_path_hello_decode(const uint8_t *bytes, uint32_t count, gw_path_hello *hello) {
    *hello = (gw_path_hello){0};
    gw_reader r = gw_reader_on(bytes, count);
    hello->kinds = gw_get_u8(&r);
    uint8_t cards = gw_get_u8(&r);
    for (uint32_t i = 0; i < cards; i++) {
        uint8_t kind = gw_get_u8(&r);
        uint16_t length = gw_get_u16(&r);
        /* A later version may know more kinds: theirs are of no use here. */
        const uint8_t *card = gw_get_view(&r, length);
        if (card == NULL || length > GW_PATH_CARD_BYTES || length == 0) return false;
        if (kind >= GW_PATH_KINDS) continue;
        hello->cards[kind].count = length;
        memcpy(hello->cards[kind].bytes, card, length);
    }
    return gw_reader_done(&r);
}
