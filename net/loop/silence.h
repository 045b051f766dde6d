/* How long the other side of a stream has been silent, for who reads the stream and beats: what says
 * something every GW_HEARTBEAT_NS (net/link/stream.h) and is heard no more is swallowed on its way, or stuck.
 *
 * Counted in this side's own beats: a process that was stopped, a starved thread and a machine that slept did
 * not beat, and what came meanwhile is read between two beats. What is not whole yet counts if there is
 * enough of it: a long record may take its time on a slow link, but what somebody puts in a record's place to
 * be waited for is over within minutes.
 *
 * Thread: the one that reads the stream. Zeros are a good beginning. */
#ifndef GODWIT_NET_LOOP_SILENCE_H
#define GODWIT_NET_LOOP_SILENCE_H

#include <stddef.h>
#include <stdint.h>

enum { GW_SILENCE_LEAST = 4096 /* bytes between two beats that are no silence */ };

typedef struct gw_silence {
    uint32_t beats; /* in a row */
    size_t bytes;   /* since the last one */
} gw_silence;

/* Some bytes have come. */
static inline void gw_silence_bytes(gw_silence *silence, size_t count) {
    silence->bytes += count;
}

/* A whole record has come, and is what was sent. */
static inline void gw_silence_record(gw_silence *silence) {
    silence->beats = 0;
}

/* Every GW_HEARTBEAT_NS: how many times in a row there was nothing. */
static inline uint32_t gw_silence_beat(gw_silence *silence) {
    silence->beats = silence->bytes >= GW_SILENCE_LEAST ? 0 : silence->beats + 1;
    silence->bytes = 0;
    return silence->beats;
}

#endif
