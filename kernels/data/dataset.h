/* Labelled images in memory: a training set and a test set, as bytes. */
#ifndef GODWIT_KERNELS_DATA_DATASET_H
#define GODWIT_KERNELS_DATA_DATASET_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdint.h>

enum { GW_CLASSES = 10 }; /* number of classes of MNIST, Fashion-MNIST and the drawn digits */

typedef struct gw_images {
    uint32_t count;
    uint8_t *pixels; /* [count, rows * columns]; owned */
    uint8_t *labels; /* [count], each below GW_CLASSES; owned */
} gw_images;

typedef struct gw_dataset {
    uint32_t rows, columns; /* size of every image */
    gw_images train, test;
} gw_dataset;

/* Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte from `directory`. Each file may be plain or, with the
 * extension .gz, compressed; a plain one is preferred. Different counts of images and labels, labels out of
 * range, and images of different sizes are errors that name file and offset. On failure *set is empty. Blocks
 * on the disk. */
bool gw_dataset_read(const char *directory, gw_dataset *set, gw_err *err);

/* Draws train_count and test_count digits of 28 x 28 pixels (kernels/data/strokes.h). They need no file and
 * have the same bytes on every machine. Fails only for lack of memory; *set is empty then. */
bool gw_dataset_draw(uint64_t seed, uint32_t train_count, uint32_t test_count, gw_dataset *set, gw_err *err);
/* The bytes of memory that gw_dataset_draw allocates. */
uint64_t gw_dataset_drawn_bytes(uint32_t train_count, uint32_t test_count);

/* Returns the BLAKE2b-256 of the sizes, pixels and labels. Equal data have equal digests, from whatever files
 * they were read. */
gw_hash gw_dataset_digest(const gw_dataset *set);

void gw_dataset_free(gw_dataset *set);

#endif
