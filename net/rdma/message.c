#include "net/rdma/message.h"

#include "core/base/assert.h"

#include <string.h>

enum { VERSION = 2, CARD_VERSION = 1, RATE_MBITS = 100 /* the unit of a card's rate */ };

/* Begins a message: its type, and the byte behind it, whose meaning depends on the type. */
static gw_writer begin(uint8_t *bytes, gw_rdma_message type, uint8_t second) {
    gw_writer w = gw_writer_on(bytes, GW_PATH_MESSAGE_BYTES);
    gw_put_u8(&w, (uint8_t)type);
    gw_put_u8(&w, second);
    return w;
}

static uint32_t finish(const gw_writer *w) {
    GW_ASSERT(!w->failed);
    return (uint32_t)w->length;
}

uint32_t gw_rdma_slots_encode(const gw_rdma_slots_message *slots, uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_writer w = begin(bytes, GW_RDMA_MESSAGE_SLOTS, VERSION);
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
    return finish(&w);
}

uint32_t gw_rdma_words_encode(const gw_rdma_words_message *words, uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_writer w = begin(bytes, GW_RDMA_MESSAGE_WORDS, 0);
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
    return finish(&w);
}

uint32_t gw_rdma_want_encode(const gw_rdma_want_message *want, uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_writer w = begin(bytes, GW_RDMA_MESSAGE_WANT, (uint8_t)want->what);
    gw_put_u8(&w, (uint8_t)want->region);
    gw_put_u8(&w, 0);
    gw_put_u64(&w, want->id);
    gw_put_u64(&w, want->bytes);
    if (want->what == GW_RDMA_BY_NAME) {
        gw_put_hash(&w, &want->name);
    } else {
        gw_put_u64(&w, want->fence.epoch);
        gw_put_view_name(&w, &want->fence.view);
        gw_put_u64(&w, want->offset);
    }
    return finish(&w);
}

uint32_t gw_rdma_lent_encode(const gw_rdma_lent_message *lent, uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_writer w = begin(bytes, GW_RDMA_MESSAGE_LENT, (uint8_t)lent->answer);
    gw_put_u16(&w, 0);
    gw_put_u32(&w, lent->rkey);
    gw_put_u64(&w, lent->id);
    gw_put_u64(&w, lent->address);
    gw_put_u64(&w, lent->bytes);
    return finish(&w);
}

uint32_t gw_rdma_back_encode(const gw_rdma_back_message *back, uint8_t bytes[GW_PATH_MESSAGE_BYTES]) {
    gw_writer w = begin(bytes, GW_RDMA_MESSAGE_BACK, 0);
    gw_put_u16(&w, 0);
    gw_put_u64(&w, back->id);
    return finish(&w);
}

static bool read_slots(gw_reader *r, gw_rdma_slots_message *slots) {
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

static bool read_words(gw_reader *r, gw_rdma_words_message *words) {
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

static bool read_want(gw_reader *r, gw_rdma_want_message *want) {
    *want = (gw_rdma_want_message){.what = (gw_rdma_what)gw_get_u8(r)};
    want->region = gw_get_u8(r);
    (void)gw_get_u8(r);
    want->id = gw_get_u64(r);
    want->bytes = gw_get_u64(r);
    if (want->what == GW_RDMA_BY_NAME) {
        gw_get_hash(r, &want->name);
    } else {
        want->fence.epoch = gw_get_u64(r);
        gw_get_view_name(r, &want->fence.view);
        want->offset = gw_get_u64(r);
    }
    return gw_reader_done(r) && want->what >= GW_RDMA_BY_NAME && want->what <= GW_RDMA_OF_REGION;
}

static bool read_lent(gw_reader *r, gw_rdma_lent_message *lent) {
    *lent = (gw_rdma_lent_message){.answer = (gw_rdma_answer)gw_get_u8(r)};
    (void)gw_get_u16(r);
    lent->rkey = gw_get_u32(r);
    lent->id = gw_get_u64(r);
    lent->address = gw_get_u64(r);
    lent->bytes = gw_get_u64(r);
    return gw_reader_done(r) && lent->answer >= GW_RDMA_LENT && lent->answer <= GW_RDMA_BY_RAILS;
}

static bool read_back(gw_reader *r, gw_rdma_back_message *back) {
    (void)gw_get_u8(r);
    (void)gw_get_u16(r);
    back->id = gw_get_u64(r);
    return gw_reader_done(r);
}

gw_rdma_message gw_rdma_message_decode(const uint8_t *bytes, uint32_t count, gw_rdma_message_body *body) {
    gw_reader r = gw_reader_on(bytes, count);
    gw_rdma_message type = (gw_rdma_message)gw_get_u8(&r);
    bool good = false;
    if (type == GW_RDMA_MESSAGE_SLOTS) good = read_slots(&r, &body->slots);
    if (type == GW_RDMA_MESSAGE_WORDS) good = read_words(&r, &body->words);
    if (type == GW_RDMA_MESSAGE_WANT) good = read_want(&r, &body->want);
    if (type == GW_RDMA_MESSAGE_LENT) good = read_lent(&r, &body->lent);
    if (type == GW_RDMA_MESSAGE_BACK) good = read_back(&r, &body->back);
    return good ? type : GW_RDMA_MESSAGE_BAD;
}

uint32_t gw_rdma_card_encode(const gw_rdma_card *card, uint8_t bytes[GW_PATH_CARD_BYTES]) {
    gw_writer w = gw_writer_on(bytes, GW_PATH_CARD_BYTES);
    gw_put_u8(&w, CARD_VERSION);
    uint32_t rate = card->mbits / RATE_MBITS;
    gw_put_u8(&w, card->ethernet ? 1 : 0);
    gw_put_u16(&w, (uint16_t)(rate < UINT16_MAX ? rate : UINT16_MAX));
    gw_put_bytes(&w, card->network, sizeof card->network);
    gw_put_addr(&w, &card->address);
    return finish(&w);
}

bool gw_rdma_card_decode(const uint8_t *bytes, uint32_t count, gw_rdma_card *card) {
    gw_reader r = gw_reader_on(bytes, count);
    bool good = gw_get_u8(&r) == CARD_VERSION;
    card->ethernet = gw_get_u8(&r) == 1;
    card->mbits = gw_get_u16(&r) * (uint32_t)RATE_MBITS;
    gw_get_bytes(&r, card->network, sizeof card->network);
    gw_get_addr(&r, &card->address);
    return gw_reader_done(&r) && good && card->address.family != 0;
}
