/* Labelled images in memory: a training set and a test set, as bytes. */
#ifndef GODWIT_KERNELS_DATA_DATASET_H
#define GODWIT_KERNELS_DATA_DATASET_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdint.h>

enum { GW_CLASSES = 10 }; /* of MNIST, Fashion-MNIST and the drawn digits */

typedef struct gw_images {
    uint32_t count;
    uint8_t *pixels; /* [count, rows * columns]; owned */
    uint8_t *labels; /* [count], each < GW_CLASSES; owned */
} gw_images;

typedef struct gw_dataset {
    uint32_t rows, columns; /* of every image */
    gw_images train, test;
} gw_dataset;

/* Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte from `directory`, each of them plain or, with .gz behind
 * its name, compressed; plain wins. Counts of images and labels that differ, labels out of range and images
 * of different sizes are errors that name file and offset. On failure *set holds nothing. Blocks on the disk.
 */
bool gw_dataset_read(const char *directory, gw_dataset *set, gw_err *err);

/* Draws train_count and test_count digits of 28 x 28 (kernels/data/strokes.h): no file needed, the same bytes
 * on every machine. Fails only for lack of memory, and then *set holds nothing. */
bool gw_dataset_draw(uint64_t seed, uint32_t train_count, uint32_t test_count, gw_dataset *set, gw_err *err);
/* The memory that it takes. */
uint64_t gw_dataset_drawn_bytes(uint32_t train_count, uint32_t test_count);

/* BLAKE2b-256 of the sizes and of all pixels and labels: equal for equal data, whatever the files were. */
gw_hash gw_dataset_digest(const gw_dataset *set);

void gw_dataset_free(gw_dataset *set);

#endif
