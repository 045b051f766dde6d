#include "kernels/data/safetensors.h"

#include "core/base/log.h"
#include "core/rng.h"
#include "tests/weights_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char path[64];

static void enter(void) {
    snprintf(path, sizeof path, "/tmp/godwit-safetensors-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void leave(void) {
    unlink(path);
}

TestSuite(safetensors, .init = enter, .fini = leave);

static void write_bytes(const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    cr_assert_eq(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

/* Writes a file with this header and `data` bytes of data; `claimed` is the header's length in the file, or 0
 * for the true length. */
static void write_header(const char *header, uint64_t data, uint64_t claimed) {
    size_t length = strlen(header);
    uint8_t *bytes = calloc(8 + length + data, 1);
    uint64_t said = claimed > 0 ? claimed : length;
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(said >> (8 * i));
    memcpy(bytes + 8, header, length);
    write_bytes(bytes, 8 + length + data);
    free(bytes);
}

static void refuse(const char *header, uint64_t data, uint64_t claimed, const char *words) {
    write_header(header, data, claimed);
    gw_safetensors file;
    gw_err err;
    cr_assert_not(gw_safetensors_open(path, &file, &err), "%s", header);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
    cr_assert_not_null(strstr(err.text, path), "%s", err.text);
}

Test(safetensors, what_is_written_is_read) {
    const float values[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
    const uint8_t bytes[] = {7, 8, 9};
    const gw_safetensor list[] = {
        {.name = "b", .dtype = "F32", .rank = 2, .dim = {3, 2}, .bytes = (const uint8_t *)values, .size = 24},
        {.name = "a", .dtype = "U8", .rank = 1, .dim = {3}, .bytes = bytes, .size = 3},
        {.name = "none", .dtype = "F32", .rank = 2, .dim = {0, 7}, .bytes = bytes, .size = 0},
    };
    gw_safetensors file;
    gw_err err;
    cr_assert(write_weights(path, list, 3, &err), "%s", err.text);
    cr_assert(gw_safetensors_open(path, &file, &err), "%s", err.text);
    cr_assert_eq(file.count, 3);
    const gw_safetensor *a = gw_safetensors_find(&file, "a"), *b = gw_safetensors_find(&file, "b");
    cr_assert(a != NULL && b != NULL && gw_safetensors_find(&file, "none") != NULL);
    cr_assert_null(gw_safetensors_find(&file, "c"));
    cr_assert_arr_eq(b->bytes, values, sizeof values);
    cr_assert_arr_eq(a->bytes, bytes, sizeof bytes);
    cr_assert(b->rank == 2 && b->dim[0] == 3 && b->dim[1] == 2 && b->size == 24);
    cr_assert_str_eq(b->dtype, "F32");
    gw_safetensors_close(&file);
}

Test(safetensors, what_is_in_memory_is_as_its_file) {
    const float values[] = {1.0f, 2.0f, 3.0f};
    gw_safetensor *list = calloc(2, sizeof *list);
    cr_assert_not_null(list);
    list[0] = (gw_safetensor){
        .name = "b", .dtype = "F32", .rank = 1, .dim = {2}, .bytes = (const uint8_t *)values, .size = 8};
    list[1] = (gw_safetensor){.name = "a",
                              .dtype = "F32",
                              .rank = 1,
                              .dim = {1},
                              .bytes = (const uint8_t *)(values + 2),
                              .size = 4};
    gw_safetensors file, memory;
    gw_err err;
    cr_assert(write_weights(path, list, 2, &err), "%s", err.text);
    cr_assert(gw_safetensors_open(path, &file, &err), "%s", err.text);
    cr_assert(gw_safetensors_from_memory(list, 2, &memory, &err), "%s", err.text);
    cr_assert(gw_hash_equal(&file.digest, &memory.digest));
    cr_assert(memory.part_count == 0 && memory.count == 2);
    cr_assert_eq(gw_safetensors_find(&memory, "a")->bytes, (const uint8_t *)(values + 2));
    cr_assert_eq(gw_safetensors_find(&memory, "b")->bytes, (const uint8_t *)values);
    gw_safetensors_close(&memory);
    gw_safetensors_close(&file);
}

#define GOOD "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}"

Test(safetensors, damage_is_refused_with_the_reason) {
    gw_safetensors file;
    gw_err err;
    write_header(GOOD, 16, 0);
    cr_assert(gw_safetensors_open(path, &file, &err), "%s", err.text);
    gw_safetensors_close(&file);
    refuse(GOOD, 15, 0, "outside the file's 15 bytes");
    refuse(GOOD, 16, 1000, "should have 1000 bytes");
    refuse(GOOD, 16, UINT64_MAX, "is no safetensors file");
    refuse(GOOD, 16, 1000, "was cut off");
    refuse(GOOD, 16, 20, "damaged: its header");
    refuse("[1]", 16, 0, "no object");
    refuse("{\"a\":3}", 16, 0, "no dtype");
    refuse("{\"a\":{\"dtype\":\"F32_LONG\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16, 0,
           "'a' has no dtype of up to 7 characters");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4,4],\"data_offsets\":[0,16]}}", 16, 0,
           "does not agree with its shape");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", 16, 0, "no shape");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}", 16, 0,
           "no shape");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]}}", 16, 0,
           "no shape");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,2],\"data_offsets\":[0,0]}}", 16, 0,
           "does not agree with its shape");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", 16, 0, "outside");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[-16,0]}}", 16, 0, "outside");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},\"a\":{}}", 16, 0, "duplicate");
    write_bytes("\x01\x02\x03", 3);
    cr_assert_not(gw_safetensors_open(path, &file, &err));
    cr_assert_not(gw_safetensors_open("/nowhere", &file, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert_not(gw_safetensors_open("/tmp", &file, &err));
}

/* Every tensor that is reported lies within the file, whatever the file contains. */
Test(safetensors, random_damage_does_no_harm) {
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                                 "\"bc\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]}}";
    enum { DATA = 22, ROUNDS = 3000 };
    write_header(header, DATA, 0);
    size_t length = 8 + sizeof header - 1 + DATA;
    uint8_t good[8 + sizeof header + DATA], bytes[8 + sizeof header + DATA];
    FILE *in = fopen(path, "rb");
    cr_assert_eq(fread(good, 1, length, in), length);
    fclose(in);
    gw_rng rng = gw_rng_seeded(7);
    uint32_t opened = 0;
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(bytes, good, length);
        for (uint64_t k = gw_rng_below(&rng, 4); k-- > 0;)
            bytes[gw_rng_below(&rng, length)] = (uint8_t)gw_rng_below(&rng, 256);
        uint64_t cut = gw_rng_below(&rng, 8) == 0 ? gw_rng_below(&rng, length) + 1 : length;
        write_bytes(bytes, cut);
        gw_safetensors file;
        gw_err err;
        if (!gw_safetensors_open(path, &file, &err)) continue;
        opened++;
        for (uint32_t i = 0; i < file.count; i++) {
            cr_assert(file.list[i].bytes >= file.parts[0].map &&
                      file.list[i].size <= file.parts[0].file.bytes);
            cr_assert(file.list[i].bytes + file.list[i].size <= file.parts[0].map + file.parts[0].file.bytes);
        }
        gw_safetensors_close(&file);
    }
    cr_assert(opened > 0 && opened < ROUNDS);
}

/* The progress of reading. */

static time_t second, pace; /* time by which each look at the clock advances it */
static off_t cut;           /* the length to which the file is cut then; 0: it is not cut */

int __wrap_clock_gettime(clockid_t clock, struct timespec *at);
int __wrap_clock_gettime(clockid_t clock, struct timespec *at) {
    (void)clock;
    if (cut > 0) cr_assert_eq(truncate(path, cut), 0);
    *at = (struct timespec){.tv_sec = second += pace};
    return 0;
}

static char lines[8][200];
static uint32_t line_count;

static void keep_line(void *context, gw_level level, const char *room, const char *text) {
    (void)context;
    cr_assert(level == GW_INFO && strcmp(room, "data") == 0);
    cr_assert_lt(line_count, 8);
    snprintf(lines[line_count++], sizeof lines[0], "%s", text);
}

Test(safetensors, all_of_a_file_is_hashed_and_where_it_takes_long_it_is_told) {
    enum { BYTES = (5 << 20) + 17 };
    uint8_t *bytes = calloc(1, BYTES);
    cr_assert_not_null(bytes);
    const gw_safetensor one = {
        .name = "a", .dtype = "U8", .rank = 1, .dim = {BYTES}, .bytes = bytes, .size = BYTES};
    gw_safetensors file;
    gw_hash digest;
    gw_err err;
    cr_assert(write_weights(path, &one, 1, &err), "%s", err.text);
    gw_log_set_sink(keep_line, NULL);
    cr_assert(gw_safetensors_open(path, &file, &err), "%s", err.text);
    cr_expect_eq(line_count, 0);
    gw_blake2b(file.parts[0].map, file.parts[0].file.bytes, &digest, sizeof digest);
    cr_expect(gw_hash_equal(&file.digest, &digest));
    gw_safetensors_close(&file);
    pace = 2;
    cr_assert(gw_safetensors_open(path, &file, &err), "%s", err.text);
    cr_assert_eq(line_count, 4, "%u", line_count); /* every second one of six pieces, and the end */
    char words[200];
    snprintf(words, sizeof words, "reading %s; 0.00 of 0.01 GB of data, 1 MB/s", path);
    cr_expect_str_eq(lines[0], words);
    cr_expect_str_eq(lines[3], "read 0.01 GB of data in 14 s");
    gw_log_set_sink(NULL, NULL);
    gw_safetensors_close(&file);
    free(bytes);
}

/* Cuts the file behind its header, which has been read by then. */
Test(safetensors, a_file_that_is_cut_while_it_is_hashed_kills_nobody) {
    enum { BYTES = 5 << 20, LEFT = 2 << 20 };
    uint8_t *bytes = calloc(1, BYTES);
    cr_assert_not_null(bytes);
    const gw_safetensor one = {
        .name = "a", .dtype = "U8", .rank = 1, .dim = {BYTES}, .bytes = bytes, .size = BYTES};
    gw_safetensors file;
    gw_err err;
    char words[200];
    cr_assert(write_weights(path, &one, 1, &err), "%s", err.text);
    cut = LEFT;
    cr_assert_not(gw_safetensors_open(path, &file, &err));
    cr_expect_eq(err.code, GW_E_CORRUPT);
    snprintf(words, sizeof words, "and ends at %d", LEFT);
    cr_expect_not_null(strstr(err.text, words), "%s", err.text);
    cr_expect_not_null(strstr(err.text, path), "%s", err.text);
    cr_expect(file.parts == NULL && file.list == NULL && file.path == NULL);
    free(bytes);
}
