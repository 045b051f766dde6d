/* IDX files, whole ones and each kind of damage: the message must name the file and the offset. */
#include "kernels/data/dataset.h"
#include "kernels/data/idx.h"
#include "tests/kernels/data/idx_files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint32_t dim[] = {5, 4, 3};
static uint8_t elements[60], file[200];

static size_t compose(void) {
    for (size_t i = 0; i < sizeof elements; i++) elements[i] = (uint8_t)(7 * i);
    return idx_compose(file, 3, dim, elements);
}

/* Writes `count` bytes of `file` and expects reading them to fail with `code`, the path and `words`. */
static void refuse(size_t count, bool gzip, gw_code code, const char *words) {
    idx_folder folder = idx_folder_make();
    char path[IDX_PATH];
    gw_idx idx;
    gw_err err;
    idx_write(&folder, "file", file, count, gzip);
    cr_assert_not(gw_idx_read(idx_path(&folder, "file", path), 3, 1000, &idx, &err), "%s", words);
    cr_assert_eq(err.code, code, "%d: %s", (int)err.code, err.text);
    cr_assert(strstr(err.text, path) == err.text, "%s", err.text);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
    cr_assert_null(idx.bytes);
    idx_folder_remove(&folder);
}

static void accept(size_t count, bool gzip) {
    idx_folder folder = idx_folder_make();
    char path[IDX_PATH];
    gw_idx idx;
    gw_err err;
    idx_write(&folder, "file", file, count, gzip);
    cr_assert(gw_idx_read(idx_path(&folder, "file", path), 3, 60, &idx, &err), "%s", err.text);
    cr_assert_eq(idx.count, 60);
    cr_assert_arr_eq(idx.dim, dim, sizeof dim);
    cr_assert_arr_eq(idx.bytes, elements, 60);
    cr_assert_eq(idx.header_bytes, 16);
    gw_idx_free(&idx);
    idx_folder_remove(&folder);
}

Test(idx, reads_plain_and_gzip) {
    size_t count = compose();
    accept(count, false);
    accept(count, true);
}

/* Writes a gzip file with `zeros` zeros behind it, and then the byte `last` unless that is 0. */
static bool read_padded(size_t zeros, uint8_t last, gw_err *err) {
    idx_folder folder = idx_folder_make();
    char path[IDX_PATH];
    gw_idx idx;
    idx_write(&folder, "file", file, compose(), true);
    FILE *out = fopen(idx_path(&folder, "file", path), "ab");
    cr_assert_not_null(out);
    for (size_t i = 0; i < zeros; i++) fputc(0, out);
    if (last != 0) fputc(last, out);
    fclose(out);
    bool read = gw_idx_read(path, 3, 60, &idx, err);
    if (read) cr_expect_arr_eq(idx.bytes, elements, 60);
    gw_idx_free(&idx);
    idx_folder_remove(&folder);
    return read;
}

/* The program gzip accepts such a file as well. */
Test(idx, takes_zeros_behind_the_end_of_gzip) {
    static const size_t zeros[] = {1, 100, 65536, 200000}; /* in one piece of the input, and in several */
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++) {
        gw_err err = {0};
        cr_expect(read_padded(zeros[i], 0, &err), "%zu: %s", zeros[i], err.text);
        cr_expect_not(read_padded(zeros[i], 0x1f, &err));
        cr_expect(err.code == GW_E_CORRUPT && strstr(err.text, "after zeros at offset 76") != NULL, "%s",
                  err.text);
    }
}

Test(idx, refuses_every_truncation) {
    size_t count = compose();
    for (size_t length = 0; length < count; length++) {
        char words[40];
        snprintf(words, sizeof words, "ends at offset %zu", length);
        if (length > 0) refuse(length, false, GW_E_CORRUPT, words);
        refuse(length, true, GW_E_CORRUPT, words);
    }
    refuse(0, false, GW_E_INVALID, "is empty");
}

Test(idx, refuses_what_goes_on) {
    size_t count = compose();
    file[count] = 1;
    refuse(count + 1, false, GW_E_INVALID, "after its last element at offset 76");
    refuse(count + 1, true, GW_E_INVALID, "after its last element at offset 76");
}

Test(idx, refuses_wrong_headers) {
    size_t count = compose();
    file[2] = 0x0d; /* floats */
    refuse(count, false, GW_E_INVALID, "magic number 0x00000d03 at offset 0");
    compose();
    file[3] = 1;
    refuse(count, true, GW_E_INVALID, "magic number 0x00000801 at offset 0");
    compose();
    memset(file + 8, 0, 4);
    refuse(count, false, GW_E_INVALID, "dimension 1 at offset 8 is 0");
    compose();
    file[4] = 1; /* 16,777,221 images: refused before memory is reserved */
    refuse(count, false, GW_E_LIMIT, "dimension 0 at offset 4 is 16777221");
    compose();
    memset(file + 4, 0xff, 12); /* the product overflows 64 bits */
    refuse(count, false, GW_E_LIMIT, "at offset 4");
}

/* Damages each byte of a gzip file in turn. The result is an error that names the file, or the right elements
 * where a bit carries no data (the time in the header, the rest of the last byte), but never wrong elements.
 */
Test(idx, refuses_damaged_gzip) {
    size_t count = compose();
    idx_folder folder = idx_folder_make();
    char path[IDX_PATH];
    uint8_t packed[300];
    idx_write(&folder, "file", file, count, true);
    FILE *in = fopen(idx_path(&folder, "file", path), "rb");
    size_t length = fread(packed, 1, sizeof packed, in);
    fclose(in);
    size_t refused = 0;
    for (size_t i = 0; i < length; i++) {
        packed[i] ^= 0x10;
        idx_write(&folder, "file", packed, length, false);
        packed[i] ^= 0x10;
        gw_idx idx;
        gw_err err;
        if (gw_idx_read(path, 3, 1000, &idx, &err)) {
            cr_assert_arr_eq(idx.bytes, elements, 60, "byte %zu", i);
            gw_idx_free(&idx);
        } else {
            cr_assert_not_null(strstr(err.text, path), "%s", err.text);
            cr_assert_not_null(strstr(err.text, "offset"), "%s", err.text);
            refused++;
        }
    }
    cr_assert_geq(refused, length - 12);
    for (size_t cut = 1; cut < length; cut++) { /* the file cut off at each length */
        gw_idx idx;
        gw_err err;
        idx_write(&folder, "file", packed, length - cut, false);
        cr_assert_not(gw_idx_read(path, 3, 1000, &idx, &err), "%zu bytes cut", cut);
    }
    idx_folder_remove(&folder);
}

Test(idx, missing_and_unreadable_files) {
    gw_idx idx;
    gw_err err;
    cr_assert_not(gw_idx_read("/nonexistent/file", 3, 1000, &idx, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert_not(gw_idx_read("/tmp", 3, 1000, &idx, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_str_eq(err.text, "/tmp is not a plain file");
}

/* A pipe without a writer. */
Test(idx, a_fifo_is_refused) {
    idx_folder folder = idx_folder_make();
    char path[IDX_PATH];
    gw_idx idx;
    gw_err err;
    cr_assert_eq(mkfifo(idx_path(&folder, "file", path), 0600), 0);
    cr_assert_not(gw_idx_read(path, 3, 1000, &idx, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_not_null(strstr(err.text, "is not a plain file"), "%s", err.text);
    idx_folder_remove(&folder);
}

Test(dataset, plain_and_gzip_are_the_same_data) {
    idx_folder folder = idx_folder_make();
    gw_dataset set;
    gw_err err;
    gw_hash digest[2];
    for (int gzip = 1; gzip >= 0; gzip--) { /* plain files are preferred to the existing ones with .gz */
        idx_write_set(&folder, 30, 20, 5, 4, gzip);
        cr_assert(gw_dataset_read(folder.path, &set, &err), "%s", err.text);
        cr_assert_eq(set.train.count, 30);
        cr_assert_eq(set.test.count, 20);
        cr_assert_eq(set.rows, 5);
        cr_assert_eq(set.columns, 4);
        cr_assert_eq(set.test.pixels[399], idx_pixel(1, 399));
        cr_assert_eq(set.train.labels[29], idx_label(0, 29));
        digest[gzip] = gw_dataset_digest(&set);
        set.test.labels[19] = (uint8_t)((set.test.labels[19] + 1) % 10);
        gw_hash changed = gw_dataset_digest(&set);
        cr_assert_not(gw_hash_equal(&changed, &digest[gzip]));
        gw_dataset_free(&set);
    }
    cr_assert(gw_hash_equal(&digest[0], &digest[1]));
    idx_folder_remove(&folder);
}

/* Checks that a good folder with one file replaced is refused, with the file's name and `words`. */
static void refuse_set(const char *name, const uint8_t *bytes, size_t count, const char *words) {
    idx_folder folder = idx_folder_make();
    gw_dataset set;
    gw_err err;
    idx_write_set(&folder, 5, 5, 4, 3, false);
    idx_write(&folder, name, bytes, count, false);
    cr_assert_not(gw_dataset_read(folder.path, &set, &err), "%s", words);
    cr_assert_not_null(strstr(err.text, folder.path), "%s", err.text);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
    cr_assert_null(set.train.pixels);
    idx_folder_remove(&folder);
}

Test(dataset, refuses_what_does_not_fit_together) {
    uint8_t labels[] = {1, 2, 3, 10, 4, 5}, bytes[100];
    uint32_t five = 5, six = 6;
    size_t count = idx_compose(bytes, 1, &five, labels);
    refuse_set("train-labels-idx1-ubyte", bytes, count,
               "train-labels-idx1-ubyte: the label at offset 11 is 10");
    labels[3] = 9;
    count = idx_compose(bytes, 1, &six, labels);
    refuse_set("t10k-labels-idx1-ubyte", bytes, count,
               "t10k-labels-idx1-ubyte: the count at offset 4 is 6, but there are 5");
    const uint32_t other[] = {5, 3, 4};
    compose();
    count = idx_compose(bytes, 3, other, elements);
    refuse_set("t10k-images-idx3-ubyte", bytes, count, "at offset 8");
    const uint32_t wide[] = {1, 1, 1025};
    uint8_t *row = calloc(1, 1100), *image = calloc(1, 1100);
    refuse_set("train-images-idx3-ubyte", image, idx_compose(image, 3, wide, row),
               "dimension 2 at offset 12 is 1025");
    free(row);
    free(image);
}

Test(dataset, a_file_that_cannot_be_looked_for_is_not_missing) {
    idx_folder folder = idx_folder_make();
    char path[IDX_PATH];
    gw_dataset set;
    gw_err err;
    idx_write(&folder, "file", "x", 1, false);
    cr_assert_not(gw_dataset_read(idx_path(&folder, "file", path), &set, &err));
    cr_assert_eq(err.code, GW_E_IO);
    cr_assert_not_null(strstr(err.text, "file/train-images-idx3-ubyte: Not a directory"), "%s", err.text);
    idx_folder_remove(&folder);
}

Test(dataset, names_the_file_that_is_missing) {
    idx_folder folder = idx_folder_make();
    gw_dataset set;
    gw_err err;
    cr_assert_not(gw_dataset_read(folder.path, &set, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert_not_null(strstr(err.text, "train-images-idx3-ubyte"));
    idx_folder_remove(&folder);
}

Test(dataset, drawn_test_digits_do_not_depend_on_the_training_set) {
    gw_dataset small, large;
    gw_err err;
    cr_assert(gw_dataset_draw(3, 10, 7, &small, &err));
    cr_assert(gw_dataset_draw(3, 50, 7, &large, &err));
    cr_assert_arr_eq(small.test.pixels, large.test.pixels, (size_t)7 * 28 * 28);
    cr_assert_arr_eq(small.train.pixels, large.train.pixels, (size_t)10 * 28 * 28);
    gw_dataset_free(&small);
    gw_dataset_free(&large);
}
