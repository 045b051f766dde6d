/* Frames (net/rail/frame.h) made by hand. */
#ifndef GODWIT_TESTS_NET_SEALED_FRAME_H
#define GODWIT_TESTS_NET_SEALED_FRAME_H

#include "core/base/wire.h"
#include "net/rail/frame.h"

/* Completes a frame whose length and header are filled in with its checksum. */
static inline void seal_frame(uint8_t frame[GW_FRAME_BYTES]) {
    gw_rail_message message;
    (void)gw_frame_decode(frame, UINT32_MAX, &message);
    gw_frame_encode(&message, frame);
}

static inline void seal_frame_of(uint32_t payload_bytes, uint8_t frame[GW_FRAME_BYTES]) {
    gw_writer w = gw_writer_on(frame, sizeof(uint32_t));
    gw_put_u32(&w, payload_bytes);
    seal_frame(frame);
}

#endif
