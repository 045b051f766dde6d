/* The folder of manifests: they are listed newest first, damaged ones are left out, and those that are not
 * kept are deleted. */
#include "checkpoint/catalog.h"

#include "tests/checkpoint/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[256];
static gw_err err, why; /* why: the reason of a retention that is not complete */
static gw_catalog catalog;

static void setup(void) {
    fixture_folder(folder);
}
static void teardown(void) {
    gw_catalog_free(&catalog);
    fixture_remove(folder);
}
TestSuite(catalog, .init = setup, .fini = teardown);

static gw_hash save_at(uint64_t created_ms, uint64_t state, uint64_t epoch, uint64_t step, uint8_t job) {
    fixture_image *image = fixture_image_make(state);
    image->manifest.created_ms = created_ms;
    image->manifest.step = step;
    image->manifest.job_id.bytes[0] = job;
    image->manifest.epoch = epoch;
    void *bytes;
    size_t length;
    cr_assert(gw_manifest_encode(&image->manifest, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_catalog_save(gw_io_system(), folder, bytes, length, &err), "%s", err.text);
    free(bytes);
    gw_hash root = image->manifest.root;
    fixture_image_free(image);
    return root;
}

static gw_hash save_state(uint64_t state, uint64_t epoch, uint64_t step, uint8_t job) {
    return save_at(1, state, epoch, step, job);
}

static gw_hash save_in(uint64_t epoch, uint64_t step, uint8_t job) {
    return save_state(step, epoch, step, job);
}

static gw_hash save(uint64_t step, uint8_t job) {
    return save_in(0, step, job);
}

static void manifest_path(uint8_t job, uint64_t step, const gw_hash *root, char path[512]) {
    char name[GW_CATALOG_NAME_BYTES];
    snprintf(path, 512, "%s/manifests/%s", folder, gw_catalog_name(&(gw_hash){{job}}, step, root, name));
}

static void load(void) {
    gw_catalog_free(&catalog);
    cr_assert(gw_catalog_load(gw_io_system(), folder, &catalog, &err), "%s", err.text);
}

static bool retain(const gw_hash *kept, uint32_t count, size_t *needed_count, bool *complete) {
    gw_hash *needed;
    if (!gw_catalog_retain(gw_io_system(), folder, &(gw_hash){{7}}, kept, count, &needed, needed_count,
                           complete, &why, &err))
        return false;
    free(needed);
    return true;
}

Test(catalog, names_say_step_root_and_job) {
    char name[GW_CATALOG_NAME_BYTES];
    gw_hash root = {.bytes = {0x1f, 0x3a, 0x5c, 0x7d, 0x9e, 0x0b, 0x2a, 0x46, 0xff}};
    gw_hash job = {.bytes = {0x8c, 0x1d, 0x22, 0xe0, 0xff}};
    cr_assert_str_eq(gw_catalog_name(&job, 400, &root, name), "00000400-1f3a5c7d9e0b2a46-8c1d22e0.manifest");
    cr_assert_str_eq(gw_catalog_name(&job, UINT64_MAX, &root, name),
                     "18446744073709551615-1f3a5c7d9e0b2a46-8c1d22e0.manifest");
}

/* Jobs that differ in their number of steps alone have the same states. */
Test(catalog, jobs_that_come_to_the_same_state_keep_their_own_manifests) {
    gw_hash root = save(40, 7);
    gw_hash same = save(40, 8);
    cr_assert(gw_hash_equal(&root, &same));
    load();
    cr_assert_eq(catalog.good_count, 2);
    size_t needed;
    bool complete;
    gw_hash kept = save(80, 7);
    cr_assert(retain(&kept, 1, &needed, &complete), "%s", err.text);
    load();
    cr_assert_eq(catalog.good_count, 2);
    cr_assert_eq(catalog.good[0].step, 80);
    cr_assert_eq(catalog.good[1].step, 40);
    cr_assert_eq(catalog.good[1].job_id.bytes[0], 8);
}

Test(catalog, retain_quarantines_a_damaged_one_of_another_job_with_a_kept_root) {
    gw_hash kept = save(40, 7);
    save(40, 8);
    char path[512];
    for (uint8_t job = 7; job <= 8; job++) {
        manifest_path(job, 40, &kept, path);
        fixture_damage(path);
    }
    size_t needed;
    bool complete;
    cr_assert(retain(&kept, 1, &needed, &complete), "%s", err.text);
    cr_assert_not(complete, "its own may come back");
    load();
    cr_assert_eq(catalog.bad_count, 1);
    cr_assert_eq(catalog.quarantined_count, 1);
}

Test(catalog, an_absent_folder_is_empty) {
    load();
    cr_assert_eq(catalog.good_count + catalog.bad_count, 0);
    size_t needed;
    bool complete;
    cr_assert(retain(NULL, 0, &needed, &complete), "%s", err.text);
    cr_assert(complete);
    cr_assert_eq(needed, 0);
}

Test(catalog, lists_newest_first) {
    static const uint64_t steps[] = {20, 100, 3, 40, 5};
    for (size_t i = 0; i < 5; i++) save(steps[i], 7);
    save(40, 7);
    load();
    cr_assert_eq(catalog.good_count, 5);
    static const uint64_t expected[] = {100, 40, 20, 5, 3};
    for (size_t i = 0; i < 5; i++) cr_assert_eq(catalog.good[i].step, expected[i]);
}

Test(catalog, of_one_job_those_of_a_later_view_are_to_go_on_from) {
    static const uint64_t saved[][3] = {{0, 60, 6}, {1, 50, 7}, {1, 40, 7}, {2, 20, 7},
                                        {2, 10, 7}, {0, 30, 6}, {3, 25, 8}, {3, 5, 7}};
    for (size_t i = 1; i < 8; i++) save_in(saved[i][0], saved[i][1], (uint8_t)saved[i][2]);
    save_in(4, 40, 7); /* the same state in a later view has the same file */
    load();
    cr_assert_eq(catalog.good_count, 7);
    cr_assert_eq(catalog.good[0].step, 50);
    save_in(saved[0][0], saved[0][1], (uint8_t)saved[0][2]);
    load();
    const gw_manifest *list[8];
    for (uint32_t i = 0; i < 8; i++) list[i] = &catalog.good[7 - i];
    gw_catalog_order(list, 8);
    static const uint64_t expected[] = {60, 40, 5, 20, 10, 50, 30, 25};
    for (size_t i = 0; i < 8; i++) cr_expect_eq(list[i]->step, expected[i], "%zu: %lu", i, list[i]->step);
}

Test(catalog, damaged_manifests_are_reported_and_passed_over) {
    gw_hash a = save(1, 7), b = save(2, 7);
    save(3, 7);
    char path[512];
    manifest_path(7, 1, &a, path);
    fixture_damage(path);
    manifest_path(7, 2, &b, path);
    fixture_truncate(path, 90);
    load();
    cr_assert_eq(catalog.good_count, 1);
    cr_assert_eq(catalog.good[0].step, 3);
    cr_assert_eq(catalog.bad_count, 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_not_null(strstr(catalog.bad[i].err.text, catalog.bad[i].path), "%s",
                           catalog.bad[i].err.text);
        cr_assert_not_null(strstr(catalog.bad[i].err.text, "offset "), "%s", catalog.bad[i].err.text);
    }
    save(2, 7);
    load();
    cr_assert_eq(catalog.good_count, 2, "a good copy replaces a damaged one");
}

Test(catalog, a_manifest_under_another_ones_name_is_bad) {
    gw_hash root = save(1, 7);
    char from[512], to[600];
    manifest_path(7, 1, &root, from);
    snprintf(to, sizeof to, "%s/manifests/copy.manifest", folder);
    cr_assert_eq(rename(from, to), 0);
    load();
    cr_assert_eq(catalog.bad_count, 1);
    cr_assert_not_null(strstr(catalog.bad[0].err.text, "not named after its step, root and job"), "%s",
                       catalog.bad[0].err.text);
}

Test(catalog, garbage_is_not_saved) {
    cr_assert_not(gw_catalog_save(gw_io_system(), folder, "garbage", 7, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    load();
    cr_assert_eq(catalog.good_count + catalog.bad_count, 0);
}

Test(catalog, a_disk_full_is_named_and_leaves_nothing) {
    fixture_image *image = fixture_image_make(1);
    void *bytes;
    size_t length;
    cr_assert(gw_manifest_encode(&image->manifest, &bytes, &length, &err), "%s", err.text);
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_WRITE, 0, ENOSPC);
    cr_assert_not(gw_catalog_save(&faulty.io, folder, bytes, length, &err));
    cr_assert_not_null(strstr(err.text, "No space left"), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "step 1"), "%s", err.text);
    cr_assert_eq(fixture_count_files(folder, ""), 0);
    free(bytes);
    fixture_image_free(image);
}

/* Retains the checkpoints of one root, and expects two manifests to stay, of these steps, with all their
 * chunks. */
static void expect_retained(const gw_hash *kept, uint64_t first, uint64_t second) {
    size_t needed;
    bool complete;
    cr_assert(retain(kept, 1, &needed, &complete), "%s", err.text);
    cr_assert(complete);
    cr_assert_eq(needed, 2 * FIXTURE_CHUNKS);
    load();
    cr_assert_eq(catalog.good_count, 2);
    cr_assert_eq(catalog.good[0].step, first);
    cr_assert_eq(catalog.good[1].step, second);
}

Test(catalog, retain_deletes_what_is_not_kept_of_this_job) {
    save(1, 7);
    gw_hash kept = save(2, 7);
    save(3, 8); /* of another job */
    expect_retained(&kept, 3, 2);
}

Test(catalog, retain_keeps_of_a_state_that_stayed_the_checkpoint_that_is_newest) {
    gw_hash kept = save_state(10, 0, 10, 7);
    save_state(10, 0, 20, 7);
    save_state(10, 0, 30, 7);
    save_state(10, 0, 25, 8); /* of another job */
    expect_retained(&kept, 30, 25);
    save_state(10, 1, 15, 7); /* of a later view, which began at an earlier step */
    expect_retained(&kept, 25, 15);
}

Test(catalog, retain_says_when_a_kept_manifest_is_damaged) {
    gw_hash root = save(2, 7), other = save(3, 7), absent = {{9, 9}};
    size_t needed;
    bool complete;
    gw_hash kept[] = {root, absent};
    cr_assert(retain(kept, 2, &needed, &complete), "%s", err.text);
    cr_assert(complete, "of one that is not here there is nothing to keep");
    save(3, 7);
    char path[512];
    manifest_path(7, 2, &root, path);
    fixture_damage(path);
    manifest_path(7, 3, &other, path);
    fixture_damage(path);
    cr_assert(retain(&root, 1, &needed, &complete), "%s", err.text);
    cr_assert_not(complete);
    manifest_path(7, 2, &root, path);
    cr_assert_not_null(strstr(why.text, path), "%s", why.text);
    cr_assert_eq(why.code, GW_E_CORRUPT, "%s", why.text);
    load();
    cr_assert_eq(catalog.bad_count, 1, "the kept one stays to be replaced");
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1, "the other is quarantined");
}

/* A file that cannot be opened once costs no job its chunks. */
Test(catalog, retain_leaves_alone_what_it_cannot_read) {
    gw_hash other = save(3, 8), *needed;
    size_t needed_count;
    bool complete;
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_OPEN, 0, EMFILE);
    faulty.once = true;
    cr_assert(gw_catalog_retain(&faulty.io, folder, &(gw_hash){{7}}, NULL, 0, &needed, &needed_count,
                                &complete, &why, &err),
              "%s", err.text);
    free(needed);
    cr_assert_not(complete);
    cr_assert(retain(NULL, 0, &needed_count, &complete), "%s", err.text);
    cr_assert(complete);
    cr_assert_eq(needed_count, FIXTURE_CHUNKS);
    load();
    cr_assert_eq(catalog.good_count, 1);
    cr_assert(gw_hash_equal(&catalog.good[0].root, &other));
}

/* No manifest is so long. The file can never be read, and must not keep all chunks for ever. */
Test(catalog, retain_quarantines_what_is_too_long) {
    gw_hash root = save(3, 8);
    char path[512];
    manifest_path(8, 3, &root, path);
    cr_assert_eq(truncate(path, GW_MANIFEST_MAX_BYTES + 1), 0);
    size_t needed;
    bool complete;
    cr_assert(retain(NULL, 0, &needed, &complete), "%s", err.text);
    cr_assert(complete);
    cr_assert_neq(access(path, F_OK), 0);
}

Test(catalog, retain_leaves_alone_what_another_version_has_written) {
    gw_hash root = save(3, 8);
    char path[512];
    manifest_path(8, 3, &root, path);
    FILE *stream = fopen(path, "r+");
    cr_assert_not_null(stream);
    cr_assert_eq(fseek(stream, 7, SEEK_SET), 0); /* behind the magic */
    cr_assert_neq(fputc(200, stream), EOF);
    fclose(stream);
    size_t needed;
    bool complete;
    cr_assert(retain(NULL, 0, &needed, &complete), "%s", err.text);
    cr_assert_not(complete);
    load();
    cr_assert_eq(catalog.bad_count, 1);
    cr_assert_eq(catalog.bad[0].err.code, GW_E_UNSUPPORTED, "%s", catalog.bad[0].err.text);
}

Test(catalog, damaged_manifests_do_not_pile_up) {
    size_t needed;
    bool complete;
    for (uint64_t step = 1; step <= 20; step++) {
        gw_hash root = save(step, 7);
        char path[512];
        manifest_path(7, step, &root, path);
        fixture_damage(path);
        cr_assert(retain(NULL, 0, &needed, &complete), "%s", err.text);
        cr_assert(complete);
    }
    cr_assert_eq(fixture_count_files(folder, ".manifest"), 8, "for people to look at");
    load();
    cr_assert_eq(catalog.bad_count, 0);
}

Test(catalog, retain_that_cannot_delete_is_an_error) {
    save(1, 7);
    save(2, 7);
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_UNLINK, 0, EROFS);
    gw_hash *needed;
    size_t needed_count;
    bool complete;
    cr_assert_not(gw_catalog_retain(&faulty.io, folder, &(gw_hash){{7}}, NULL, 0, &needed, &needed_count,
                                    &complete, &why, &err));
    cr_assert_not_null(strstr(err.text, "Read-only file system"), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "00000002-"), "%s", err.text);
    cr_assert_null(needed);
}

Test(catalog, what_is_no_file_is_refused) {
    gw_manifest manifest;
    cr_assert_not(gw_catalog_read(gw_io_system(), folder, &manifest, &err));
    cr_assert_not_null(strstr(err.text, "not a regular file"), "%s", err.text);
    cr_assert_not(gw_catalog_read(gw_io_system(), "/nowhere/at.manifest", &manifest, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
}
