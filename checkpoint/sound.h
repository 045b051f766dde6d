/* A cache of the chunks on disk that were read and found sound, which some saves may rely on without
 * reading them again. It has one entry for each value of the first two bytes of a name and keeps the chunk
 * noted last, so that it never grows. It has no lock of its own: its owner, the store, guards it. */
#ifndef GODWIT_CHECKPOINT_SOUND_H
#define GODWIT_CHECKPOINT_SOUND_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

/* An unchanged chunk is read at the first save of this process that finds it on disk, and then at every
 * 16th save. Reading takes as long as writing the chunk again would, and this way costs a sixteenth of
 * that; damage on the disk stays unnoticed for 16 saves at most. */
enum { GW_SOUND_FINDS = 15 };

typedef struct gw_sound_chunk {
    gw_hash name;
    uint8_t finds_left;
} gw_sound_chunk;

typedef struct gw_sound {
    gw_sound_chunk *chunks;
} gw_sound;

/* Allocates the cache (2 MiB, touched as it is used); gw_sound_free frees it. Returns false when out of
 * memory. */
bool gw_sound_init(gw_sound *sound);
void gw_sound_free(gw_sound *sound);
/* Notes that a chunk was read and is sound: the next GW_SOUND_FINDS calls of gw_sound_counts return true
 * for it. */
void gw_sound_note(gw_sound *sound, const gw_hash *name);
/* Notes that a chunk is not sound. */
void gw_sound_forget(gw_sound *sound, const gw_hash *name);
/* Whether a save may rely on the chunk without reading it; each call that returns true uses up one of its
 * finds. */
bool gw_sound_counts(gw_sound *sound, const gw_hash *name);

#endif
