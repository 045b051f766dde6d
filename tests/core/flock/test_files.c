/* The list of files that travel with a job: one encoding, and nothing in it that leads out of a folder or is too much. */
#include "core/flock/files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gw_hash chunks[] = {{{1}}, {{2}}, {{3}}};
static const gw_job_file example[] = {
    {"a-b", true, 0, NULL}, {"a/b.py", false, 100, chunks}, {"a/c", false, GW_CHUNK_BYTES + 1, chunks + 1}};

Test(files, are_read_as_they_were_written) {
    gw_err err;
    uint8_t *bytes;
    size_t length;
    gw_job_files read;
    cr_assert(gw_job_files_write(example, 3, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_job_files_read(bytes, length, &read, &err), "%s", err.text);
    cr_assert_eq(read.count, 3);
    cr_expect_eq(read.bytes, 100 + GW_CHUNK_BYTES + 1);
    cr_expect(read.list[0].executable && !read.list[1].executable);
    cr_expect_str_eq(read.list[1].path, "a/b.py");
    cr_expect(gw_hash_equal(&read.list[1].chunks[0], &chunks[0]));
    cr_expect(gw_hash_equal(&read.list[2].chunks[1], &chunks[2]));
    gw_job_files_free(&read);
    for (size_t shorter = 0; shorter < length; shorter++) {
        /* What ends between two files is the list of those before. */
        if (!gw_job_files_read(bytes, shorter, &read, &err)) continue;
        cr_expect_lt(read.count, 3);
        gw_job_files_free(&read);
    }
    bytes[3]++;
    cr_expect_not(gw_job_files_read(bytes, length, &read, &err));
    cr_expect_eq(err.code, GW_E_UNSUPPORTED);
    free(bytes);
}

static void expect_not_allowed(const gw_job_file *list, uint32_t count, gw_code code, const char *part) {
    gw_err err = {GW_OK, ""};
    uint8_t *bytes;
    size_t length;
    cr_assert_not(gw_job_files_write(list, count, &bytes, &length, &err), "%s", part);
    cr_expect(err.code == code && strstr(err.text, part) != NULL, "'%s' is not in: %s", part, err.text);
}

Test(files, lead_out_of_no_folder) {
    static const char *const paths[] = {"", "/a", "a//b", "a/", "./a", "a/../b", "..", "a/..", "a\nb"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        cr_expect_not(gw_job_path_is_valid(paths[i]), "%s", paths[i]);
        expect_not_allowed(&(gw_job_file){.path = paths[i]}, 1, GW_E_USAGE, "relative name");
    }
    cr_expect(gw_job_path_is_valid("a/...") && gw_job_path_is_valid("a b/.c"));
    expect_not_allowed((gw_job_file[]){{.path = "a"}, {.path = "a"}}, 2, GW_E_USAGE, "twice");
    expect_not_allowed((gw_job_file[]){{.path = "b"}, {.path = "a"}}, 2, GW_E_USAGE, "order");
    expect_not_allowed((gw_job_file[]){{.path = "a"}, {.path = "a-b"}, {.path = "a/b"}}, 3, GW_E_USAGE,
                       "folder of another");
}

/* Bytes that no writer makes, as a hostile member may send them. */
Test(files, are_refused_where_somebody_else_has_written_them) {
    static uint8_t bytes[4 << 20];
    static const char *const paths[] = {"../a", "/etc/passwd", "a/./b", "a"};
    gw_job_files read;
    gw_err err;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_put_bytes(&w, "GJF\1", 4);
        gw_put_string(&w, paths[i]);
        gw_put_u8(&w, 0);
        gw_put_u64(&w, 0);
        bool valid = gw_job_path_is_valid(paths[i]);
        cr_expect_eq(gw_job_files_read(bytes, w.length, &read, &err), valid, "%s", paths[i]);
        if (valid) gw_job_files_free(&read);
    }
    gw_writer w = gw_writer_on(bytes, sizeof bytes); /* as many files as fit */
    gw_put_bytes(&w, "GJF\1", 4);
    for (int i = 0; w.length + 20 < GW_JOB_FILES_LIST_BYTES; i++) {
        char path[16];
        snprintf(path, sizeof path, "%08d", i);
        gw_put_string(&w, path);
        gw_put_u8(&w, 0);
        gw_put_u64(&w, 0);
    }
    cr_expect_not(gw_job_files_read(bytes, w.length, &read, &err));
    cr_expect_eq(err.code, GW_E_INVALID);
    w = gw_writer_on(bytes, sizeof bytes); /* a size that no chunks are there for */
    gw_put_bytes(&w, "GJF\1", 4);
    gw_put_string(&w, "a");
    gw_put_u8(&w, 0);
    gw_put_u64(&w, UINT64_MAX);
    cr_expect_not(gw_job_files_read(bytes, w.length, &read, &err));
}

Test(files, are_at_most_4096_and_16_MiB) {
    static gw_job_file list[GW_JOB_FILES_MOST + 1];
    static char paths[GW_JOB_FILES_MOST + 1][GW_JOB_PATH_BYTES + 1];
    gw_err err;
    uint8_t *bytes;
    size_t length;
    gw_job_files read;
    for (int i = 0; i <= GW_JOB_FILES_MOST; i++) {
        memset(paths[i], 'a', GW_JOB_PATH_BYTES);
        paths[i][snprintf(paths[i], 9, "%08d", i)] = 'a';
        list[i] = (gw_job_file){
            .path = paths[i], .bytes = GW_JOB_FILES_BYTES / GW_JOB_FILES_MOST, .chunks = chunks};
    }
    expect_not_allowed(list, GW_JOB_FILES_MOST + 1, GW_E_LIMIT, "4096 are allowed");
    cr_assert(gw_job_files_write(list, GW_JOB_FILES_MOST, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_job_files_read(bytes, length, &read, &err), "%s", err.text);
    cr_expect(read.count == GW_JOB_FILES_MOST && read.bytes == GW_JOB_FILES_BYTES);
    gw_job_files_free(&read);
    free(bytes);
    list[0].bytes++;
    expect_not_allowed(list, GW_JOB_FILES_MOST, GW_E_LIMIT, "more than 16 MiB");
}

Test(files, the_list_of_a_maps_tasks_may_be_longer) {
    static gw_hash many[GW_JOB_FILES_TASKS_BYTES / GW_CHUNK_BYTES + 1];
    gw_job_file list[] = {{.path = GW_JOB_FILES_TASKS, .bytes = GW_JOB_FILES_TASKS_BYTES, .chunks = many},
                          {.path = "a", .bytes = GW_JOB_FILES_BYTES, .chunks = many}};
    gw_err err;
    uint8_t *bytes;
    size_t length;
    gw_job_files read;
    cr_assert(gw_job_files_write(list, 2, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_job_files_read(bytes, length, &read, &err), "%s", err.text);
    cr_expect(read.list[0].bytes == GW_JOB_FILES_TASKS_BYTES && read.list[1].bytes == GW_JOB_FILES_BYTES);
    gw_job_files_free(&read);
    free(bytes);
    list[0].bytes++;
    expect_not_allowed(list, 2, GW_E_LIMIT, "more than 1024 MiB");
}
