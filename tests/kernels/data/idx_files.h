/* A folder of IDX files for tests: made new, damaged on request, removed at the end. */
#ifndef GODWIT_TESTS_KERNELS_DATA_IDX_FILES_H
#define GODWIT_TESTS_KERNELS_DATA_IDX_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IDX_PATH = 300 };

typedef struct idx_folder {
    char path[100];
} idx_folder;

idx_folder idx_folder_make(void);
void idx_folder_remove(const idx_folder *folder);

/* Writes bytes as they are, or as a gzip stream. */
void idx_write(const idx_folder *folder, const char *name, const void *bytes, size_t count, bool gzip);
/* folder/name */
const char *idx_path(const idx_folder *folder, const char *name, char path[IDX_PATH]);

/* Writes an IDX file of unsigned bytes to memory; returns its length (4 + 4 rank + elements), for which
 * `file` has room. */
size_t idx_compose(uint8_t *file, uint32_t rank, const uint32_t *dim, const uint8_t *elements);

/* Writes a data set of `train` and `test` images of rows x columns with made-up pixels and labels. */
void idx_write_set(const idx_folder *folder, uint32_t train, uint32_t test, uint32_t rows, uint32_t columns,
                   bool gzip);
/* The made-up pixels and labels; `set` is 0 for train, 1 for test. */
uint8_t idx_pixel(int set, uint64_t i);
uint8_t idx_label(int set, uint64_t i);

#endif
