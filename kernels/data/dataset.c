#include "kernels/data/dataset.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "kernels/data/idx.h"
#include "kernels/data/strokes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { IMAGE_SIDE_MOST = 1024 };
static const uint64_t file_limit = UINT64_C(1) << 32; /* elements of one file */

/* Finds the path of a file in `directory`: the plain file if it exists, else the one with .gz. */
static bool locate(const char *directory, const char *set, const char *kind, char path[PATH_MAX],
                   gw_err *err) {
    int length = snprintf(path, PATH_MAX - 4, "%s/%s-%s-ubyte", directory, set, kind);
    if (length < 0 || length >= PATH_MAX - 4)
        return gw_fail(err, GW_E_LIMIT, "%s: the path is too long", directory);
    if (access(path, F_OK) == 0) return true;
    if (errno == ENOENT) {
        snprintf(path + length, 4, ".gz");
        if (access(path, F_OK) == 0) return true;
        path[length] = '\0';
    }
    if (errno != ENOENT) return gw_fail_errno(err, errno, "cannot look for %s", path);
    return gw_fail(err, GW_E_NOTFOUND, "%s: no such file, with or without .gz", path);
}

static bool read_images(const char *directory, const char *set, gw_idx *idx, gw_err *err) {
    char path[PATH_MAX];
    if (!locate(directory, set, "images-idx3", path, err)) return false;
    if (!gw_idx_read(path, 3, file_limit, idx, err)) return false;
    for (uint32_t i = 1; i < 3; i++)
        if (idx->dim[i] > IMAGE_SIDE_MOST)
            return gw_fail(err, GW_E_LIMIT,
                           "%s: dimension %u at offset %u is %u: images may have at most %d x %d pixels",
                           path, i, 4 + 4 * i, idx->dim[i], IMAGE_SIDE_MOST, IMAGE_SIDE_MOST);
    return true;
}

static bool read_labels(const char *directory, const char *set, uint32_t images, gw_idx *idx, gw_err *err) {
    char path[PATH_MAX];
    if (!locate(directory, set, "labels-idx1", path, err)) return false;
    if (!gw_idx_read(path, 1, file_limit, idx, err)) return false;
    if (idx->dim[0] != images)
        return gw_fail(err, GW_E_INVALID, "%s: the count at offset 4 is %u, but there are %u images", path,
                       idx->dim[0], images);
    for (uint64_t i = 0; i < idx->count; i++)
        if (idx->bytes[i] >= GW_CLASSES)
            return gw_fail(err, GW_E_INVALID, "%s: the label at offset %llu is %u, expected 0 to %d", path,
                           (unsigned long long)(idx->header_bytes + i), idx->bytes[i], GW_CLASSES - 1);
    return true;
}

/* Reads one of the two sets. *images owns what was read, also after a failure. */
static bool read_set(const char *directory, const char *set, gw_images *images, uint32_t size[2],
                     gw_err *err) {
    gw_idx pixels = {0}, labels = {0};
    bool done =
        read_images(directory, set, &pixels, err) && read_labels(directory, set, pixels.dim[0], &labels, err);
    *images = (gw_images){pixels.dim[0], pixels.bytes, labels.bytes};
    size[0] = pixels.dim[1];
    size[1] = pixels.dim[2];
    return done;
}

bool gw_dataset_read(const char *directory, gw_dataset *set, gw_err *err) {
    *set = (gw_dataset){0};
    uint32_t size[2], test_size[2];
    bool done = read_set(directory, "train", &set->train, size, err) &&
                read_set(directory, "t10k", &set->test, test_size, err);
    if (done && (size[0] != test_size[0] || size[1] != test_size[1]))
        done = gw_fail(err, GW_E_INVALID,
                       "%s: test images of %u x %u pixels at offset 8, but training images of %u x %u",
                       directory, test_size[0], test_size[1], size[0], size[1]);
    if (!done) {
        gw_dataset_free(set);
        return false;
    }
    set->rows = size[0];
    set->columns = size[1];
    return true;
}

uint64_t gw_dataset_drawn_bytes(uint32_t train_count, uint32_t test_count) {
    return ((uint64_t)train_count + test_count) * (GW_STROKES_SIDE * GW_STROKES_SIDE + 1);
}

static bool draw_images(uint64_t seed, uint64_t first, uint32_t count, gw_images *images, gw_err *err) {
    images->count = count;
    images->pixels = malloc((size_t)count * GW_STROKES_SIDE * GW_STROKES_SIDE);
    images->labels = malloc(count);
    if (images->pixels == NULL || images->labels == NULL)
        return gw_fail(err, GW_E_NOMEM, "kernels/dataset: no memory for %u drawn digits", count);
    for (uint32_t i = 0; i < count; i++)
        images->labels[i] =
            gw_strokes_draw(seed, first + i, images->pixels + (size_t)i * GW_STROKES_SIDE * GW_STROKES_SIDE);
    return true;
}

bool gw_dataset_draw(uint64_t seed, uint32_t train_count, uint32_t test_count, gw_dataset *set, gw_err *err) {
    GW_ASSERT(train_count > 0 && test_count > 0);
    *set = (gw_dataset){.rows = GW_STROKES_SIDE, .columns = GW_STROKES_SIDE};
    /* The number of the first test digit; test digits do not depend on the number of training digits. */
    const uint64_t first_test = UINT64_C(1) << 32;
    if (draw_images(seed, 0, train_count, &set->train, err) &&
        draw_images(seed, first_test, test_count, &set->test, err))
        return true;
    gw_dataset_free(set);
    return false;
}

gw_hash gw_dataset_digest(const gw_dataset *set) {
    uint8_t bytes[4 * 4 + 4 * sizeof(gw_hash)];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_u32(&w, set->rows);
    gw_put_u32(&w, set->columns);
    const gw_images *const parts[] = {&set->train, &set->test};
    gw_hash hash;
    for (int i = 0; i < 2; i++) {
        gw_put_u32(&w, parts[i]->count);
        gw_blake2b(parts[i]->pixels, (size_t)parts[i]->count * set->rows * set->columns, &hash, sizeof hash);
        gw_put_hash(&w, &hash);
        gw_blake2b(parts[i]->labels, parts[i]->count, &hash, sizeof hash);
        gw_put_hash(&w, &hash);
    }
    GW_ASSERT(!w.failed && w.length == sizeof bytes);
    gw_blake2b(bytes, sizeof bytes, &hash, sizeof hash);
    return hash;
}

void gw_dataset_free(gw_dataset *set) {
    free(set->train.pixels);
    free(set->train.labels);
    free(set->test.pixels);
    free(set->test.labels);
    *set = (gw_dataset){0};
}
