#include "tests/kernels/data/idx_files.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

idx_folder idx_folder_make(void) {
    idx_folder folder = {"/tmp/godwit-idx-XXXXXX"};
    cr_assert_not_null(mkdtemp(folder.path));
    return folder;
}

const char *idx_path(const idx_folder *folder, const char *name, char path[IDX_PATH]) {
    snprintf(path, IDX_PATH, "%s/%s", folder->path, name);
    return path;
}

void idx_folder_remove(const idx_folder *folder) {
    DIR *list = opendir(folder->path);
    cr_assert_not_null(list);
    char path[IDX_PATH];
    for (struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list))
        if (entry->d_name[0] != '.') unlink(idx_path(folder, entry->d_name, path));
    closedir(list);
    cr_assert_eq(rmdir(folder->path), 0);
}

void idx_write(const idx_folder *folder, const char *name, const void *bytes, size_t count, bool gzip) {
    char path[IDX_PATH];
    gzFile file =
        /* the mode "T" writes neither compressed data nor a header */
        gzopen(idx_path(folder, name, path), gzip ? "wb" : "wbT");
    cr_assert_not_null(file);
    if (count > 0) cr_assert_eq(gzwrite(file, bytes, (unsigned)count), (int)count);
    cr_assert_eq(gzclose(file), Z_OK);
}

size_t idx_compose(uint8_t *file, uint32_t rank, const uint32_t *dim, const uint8_t *elements) {
    const uint8_t magic[] = {0, 0, 8, (uint8_t)rank};
    memcpy(file, magic, sizeof magic);
    size_t count = 1, header = 4 + 4 * rank;
    for (uint32_t i = 0; i < rank; i++) {
        for (uint32_t k = 0; k < 4; k++) file[4 + 4 * i + k] = (uint8_t)(dim[i] >> (24 - 8 * k));
        count *= dim[i];
    }
    memcpy(file + header, elements, count);
    return header + count;
}

uint8_t idx_pixel(int set, uint64_t i) {
    return (uint8_t)gw_mix64(i * 2 + (uint64_t)set);
}

uint8_t idx_label(int set, uint64_t i) {
    return (uint8_t)(gw_mix64(~(i * 2 + (uint64_t)set)) % 10);
}

void idx_write_set(const idx_folder *folder, uint32_t train, uint32_t test, uint32_t rows, uint32_t columns,
                   bool gzip) {
    static const char *const names[] = {"train", "t10k"};
    const uint32_t counts[] = {train, test};
    for (int set = 0; set < 2; set++) {
        const uint32_t dim[] = {counts[set], rows, columns};
        size_t pixels = (size_t)counts[set] * rows * columns;
        uint8_t *elements = malloc(pixels), *file = malloc(pixels + 16);
        char name[60];
        for (size_t i = 0; i < pixels; i++) elements[i] = idx_pixel(set, i);
        snprintf(name, sizeof name, "%s-images-idx3-ubyte%s", names[set], gzip ? ".gz" : "");
        idx_write(folder, name, file, idx_compose(file, 3, dim, elements), gzip);
        for (size_t i = 0; i < counts[set]; i++) elements[i] = idx_label(set, i);
        snprintf(name, sizeof name, "%s-labels-idx1-ubyte%s", names[set], gzip ? ".gz" : "");
        idx_write(folder, name, file, idx_compose(file, 1, dim, elements), gzip);
        free(elements);
        free(file);
    }
}
