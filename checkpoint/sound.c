#include "checkpoint/sound.h"

#include <stdlib.h>

enum { PLACES = 1 << 16 };

bool gw_sound_init(gw_sound *sound) {
    sound->chunks = calloc(PLACES, sizeof *sound->chunks);
    return sound->chunks != NULL;
}

void gw_sound_free(gw_sound *sound) {
    free(sound->chunks);
    *sound = (gw_sound){0};
}

static gw_sound_chunk *place_of(gw_sound *sound, const gw_hash *name) {
    return &sound->chunks[name->bytes[0] << 8 | name->bytes[1]];
}

void gw_sound_note(gw_sound *sound, const gw_hash *name) {
    *place_of(sound, name) = (gw_sound_chunk){*name, GW_SOUND_FINDS};
}

void gw_sound_forget(gw_sound *sound, const gw_hash *name) {
    gw_sound_chunk *chunk = place_of(sound, name);
    if (gw_hash_equal(&chunk->name, name)) chunk->finds_left = 0;
}

bool gw_sound_counts(gw_sound *sound, const gw_hash *name) {
    gw_sound_chunk *chunk = place_of(sound, name);
    if (chunk->finds_left == 0 || !gw_hash_equal(&chunk->name, name)) return false;
    chunk->finds_left--;
    return true;
}
