/* Digits that the program draws itself, so that a demonstration needs no files. They consist of lines and
 * arcs, which are warped, sheared, scaled, rotated and shifted, with varying thickness and ink, noise, and
 * sometimes a stray mark. A linear classifier classifies far fewer of them right than one with a hidden
 * layer. */
#ifndef GODWIT_KERNELS_DATA_STROKES_H
#define GODWIT_KERNELS_DATA_STROKES_H

#include <stdint.h>

enum { GW_STROKES_SIDE = 28 };

/* Draws digit number `index` of the stream `seed` into pixels[28 * 28], row by row, 0 for blank and 255 for
 * full ink, and returns the digit, 0 to 9, each equally likely. The function is pure, and the bytes are the
 * same on every machine. Any thread. */
uint8_t gw_strokes_draw(uint64_t seed, uint64_t index, uint8_t *pixels);

#endif
