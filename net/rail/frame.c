#include "net/rail/frame.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "core/rng.h"

#include <string.h>

enum { FORMAT = 2 };

static uint32_t checksum_of(const gw_rail_message *message) {
    uint64_t words[GW_RAIL_HEADER / sizeof(uint64_t)];
    memcpy(words, message->header, sizeof words);
    uint64_t checksum = gw_mix64((uint64_t)FORMAT << 32 | message->bytes);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) checksum = gw_mix64(checksum ^ words[i]);
    return (uint32_t)(checksum >> 32);
}

void gw_frame_encode(const gw_rail_message *message, uint8_t frame[GW_FRAME_BYTES]) {
    gw_writer w = gw_writer_on(frame, GW_FRAME_BYTES);
    gw_put_u32(&w, message->bytes);
    gw_put_u32(&w, checksum_of(message));
    gw_put_bytes(&w, message->header, GW_RAIL_HEADER);
    GW_ASSERT(!w.failed && w.length == GW_FRAME_BYTES);
}

bool gw_frame_decode(const uint8_t frame[GW_FRAME_BYTES], uint32_t payload_most, gw_rail_message *message) {
    gw_reader r = gw_reader_on(frame, GW_FRAME_BYTES);
    message->bytes = gw_get_u32(&r);
    uint32_t checksum = gw_get_u32(&r);
    gw_get_bytes(&r, message->header, GW_RAIL_HEADER);
    return gw_reader_done(&r) && checksum == checksum_of(message) && message->bytes <= payload_most;
}
