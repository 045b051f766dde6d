#include "net/rdma_message.h"

#include "core/check.h"

#include <string.h>

enum { VERSION = 1, CARD_VERSION = 1 };

uint32_t gw_rdma_slots_encode(const gw_rdma_told_slots *slots, uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_writer w = gw_writer_on(bytes, GW_PATH_MESSAGE_BYTES);
    gw_put_u8(&w, GW_RDMA_MESSAGE_SLOTS);
    gw_put_u8(&w, VERSION);
    gw_put_u16(&w, 0);
    gw_put_peer_id(&w, &slots->addressee);
    gw_put_bytes(&w, slots->secret, sizeof slots->secret);
    gw_put_u32(&w, slots->count);
    for (uint32_t i = 0; i < slots->count; i++) {
        gw_put_u64(&w, slots->slots[i].address);
        gw_put_u32(&w, slots->slots[i].rkey);
        gw_put_u32(&w, slots->slots[i].slot_bytes);
        gw_put_u32(&w, slots->slots[i].count);
    }
    GW_CHECK(!w.failed);
    return (uint32_t)w.length;
}

uint32_t gw_rdma_words_encode(const gw_rdma_told_words *words, uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_writer w = gw_writer_on(bytes, GW_PATH_MESSAGE_BYTES);
    gw_put_u8(&w, GW_RDMA_MESSAGE_WORDS);
    gw_put_u8(&w, 0);
    gw_put_u16(&w, 0);
    gw_put_u64(&w, words->fence.epoch);
    gw_put_view_name(&w, &words->fence.view);
    gw_put_u64(&w, words->address);
    gw_put_u32(&w, words->rkey);
    gw_put_u32(&w, words->count);
    for (uint32_t i = 0; i < words->count; i++) {
        gw_put_u32(&w, words->regions[i].region);
        gw_put_u32(&w, words->regions[i].offset);
        gw_put_u32(&w, words->regions[i].bytes);
    }
    GW_CHECK(!w.failed);
    return (uint32_t)w.length;
}

static bool read_slots(gw_reader *r, gw_rdma_told_slots *slots) {
    bool good = gw_get_u8(r) == VERSION;
    (void)gw_get_u16(r);
    gw_get_peer_id(r, &slots->addressee);
    gw_get_bytes(r, slots->secret, sizeof slots->secret);
    slots->count = gw_get_u32(r);
    if (slots->count > GW_PATH_STREAMS) return false;
    for (uint32_t i = 0; i < slots->count; i++) {
        slots->slots[i].address = gw_get_u64(r);
        slots->slots[i].rkey = gw_get_u32(r);
        slots->slots[i].slot_bytes = gw_get_u32(r);
        slots->slots[i].count = gw_get_u32(r);
    }
    return good && gw_reader_done(r);
}

static bool read_words(gw_reader *r, gw_rdma_told_words *words) {
    (void)gw_get_u8(r);
    (void)gw_get_u16(r);
    words->fence.epoch = gw_get_u64(r);
    gw_get_view_name(r, &words->fence.view);
    words->address = gw_get_u64(r);
    words->rkey = gw_get_u32(r);
    words->count = gw_get_u32(r);
    if (words->count > GW_MAX_REGIONS) return false;
    for (uint32_t i = 0; i < words->count; i++) {
        words->regions[i].region = gw_get_u32(r);
        words->regions[i].offset = gw_get_u32(r);
        words->regions[i].bytes = gw_get_u32(r);
    }
    return gw_reader_done(r);
}

gw_rdma_message gw_rdma_message_decode(const uint8_t *bytes, uint32_t count, gw_rdma_told_slots *slots,
                                       gw_rdma_told_words *words) {
    gw_reader r = gw_reader_on(bytes, count);
    uint8_t type = gw_get_u8(&r);
    if (type == GW_RDMA_MESSAGE_SLOTS && read_slots(&r, slots)) return GW_RDMA_MESSAGE_SLOTS;
    if (type == GW_RDMA_MESSAGE_WORDS && read_words(&r, words)) return GW_RDMA_MESSAGE_WORDS;
    return GW_RDMA_MESSAGE_BAD;
}

uint32_t gw_rdma_card_encode(const gw_rdma_card *card, uint8_t bytes[GW_PATH_CARD_BYTES]) {
    gw_writer w = gw_writer_on(bytes, GW_PATH_CARD_BYTES);
    gw_put_u8(&w, CARD_VERSION);
    gw_put_u8(&w, card->ethernet ? 1 : 0);
    gw_put_u16(&w, 0);
    gw_put_bytes(&w, card->network, sizeof card->network);
    gw_put_addr(&w, &card->address);
    GW_CHECK(!w.failed);
    return (uint32_t)w.length;
}

bool gw_rdma_card_decode(const uint8_t *bytes, uint32_t count, gw_rdma_card *card) {
    gw_reader r = gw_reader_on(bytes, count);
    bool good = gw_get_u8(&r) == CARD_VERSION;
    card->ethernet = gw_get_u8(&r) == 1;
    (void)gw_get_u16(&r);
    gw_get_bytes(&r, card->network, sizeof card->network);
    gw_get_addr(&r, &card->address);
    return gw_reader_done(&r) && good && card->address.family != 0;
}
