/* A silence counter: how long the other side of a stream has sent nothing. Each side of a stream sends a
 * heartbeat every GW_HEARTBEAT_NS (net/link/stream.h), so a side that is not heard for several beats is
 * stuck, or an attacker on the way discards its records.
 *
 * Silence is counted in the reader's own beats. A reader that was stopped, starved or asleep has not beaten
 * meanwhile, and reads what has arrived before its next beat; so it does not blame the other side. Bytes of
 * an incomplete record count as progress if there are GW_SILENCE_LEAST of them between two beats: a long
 * record may take its time on a slow link, but a forged record length cannot keep the reader waiting for more
 * than minutes.
 *
 * Thread: the one that reads the stream. All zeros is the initial state. */
#ifndef GODWIT_NET_LOOP_SILENCE_H
#define GODWIT_NET_LOOP_SILENCE_H

#include <stddef.h>
#include <stdint.h>

enum { GW_SILENCE_LEAST = 4096 /* fewer bytes than this between two beats count as silence */ };

typedef struct gw_silence {
    uint32_t beats; /* silent beats in a row */
    size_t bytes;   /* bytes received since the last beat */
} gw_silence;

/* Notes that bytes have arrived. */
static inline void gw_silence_bytes(gw_silence *silence, size_t count) {
    silence->bytes += count;
}

/* Notes that a whole, authentic record has arrived. */
static inline void gw_silence_record(gw_silence *silence) {
    silence->beats = 0;
}

/* Called every GW_HEARTBEAT_NS: returns how many beats in a row were silent. */
static inline uint32_t gw_silence_beat(gw_silence *silence) {
    silence->beats = silence->bytes >= GW_SILENCE_LEAST ? 0 : silence->beats + 1;
    silence->bytes = 0;
    return silence->beats;
}

#endif
