/* Which chunks on disk were read and found sound, and may be counted on for some saves without another look:
 * of each first two bytes of a name the one that was noted last, so that it never grows. A plain data
 * structure: its owner (the store) guards it.
 */
#ifndef GODWIT_CHECKPOINT_SOUND_H
#define GODWIT_CHECKPOINT_SOUND_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

/* A chunk that stays the same is read at the first save of a process's life that finds it there, and then at
 * each 16th: that costs a sixteenth of reading it always, which takes as long as writing it would have, and
 * what the disk has damaged stands for 16 saves at most. */
enum { GW_SOUND_FINDS = 15 };

typedef struct gw_sound_chunk {
    gw_hash name;
    uint8_t finds_left;
} gw_sound_chunk;

typedef struct gw_sound {
    gw_sound_chunk *chunks;
} gw_sound;

/* False when out of memory (2 MiB at most, touched as it is used). The owner frees. */
bool gw_sound_init(gw_sound *sound);
void gw_sound_free(gw_sound *sound);
/* It was read, and is sound: true for the next GW_SOUND_FINDS calls of gw_sound_counts. */
void gw_sound_note(gw_sound *sound, const gw_hash *name);
/* It is not, after all. */
void gw_sound_forget(gw_sound *sound, const gw_hash *name);
/* Whether it may be counted on once more. */
bool gw_sound_counts(gw_sound *sound, const gw_hash *name);

#endif
