/* A restore gives the same bytes, from this disk or from peers, in spite of damaged chunks. */
#include "checkpoint/restore.h"

#include "tests/checkpoint/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static char folder[256];
static gw_err err;
static gw_store *store;
static fixture_image *image;
static uint8_t *target;
static fixture_io disk;
static atomic_int fetches;
enum { PEERS = 3 };
static uint32_t lying; /* index of a chunk that peers send with wrong bytes; UINT32_MAX: none */
static uint32_t liars; /* the first so many peers that are asked send it wrong */

static void setup(void) {
    fixture_folder(folder);
    fixture_io_init(&disk, CALL_WRITE, -1, ENOSPC);
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, &disk.io, &store, &err), "%s", err.text);
    image = fixture_image_make(7);
    target = calloc(1, FIXTURE_STATE_BYTES);
    atomic_store(&fetches, 0);
    lying = UINT32_MAX;
    liars = PEERS;
}
static void teardown(void) {
    gw_store_close(store);
    fixture_image_free(image);
    free(target);
    fixture_remove(folder);
}
TestSuite(restore, .init = setup, .fini = teardown, .timeout = 120);

static void hold(uint32_t index) {
    gw_store_item item = {.name = image->chunks[index],
                          .bytes = image->bytes + gw_chunk_offset(index),
                          .length = gw_chunk_length(FIXTURE_STATE_BYTES, index)};
    cr_assert(gw_store_put(store, 1, &item, 1, &err), "%s", err.text);
}

static bool fetch(void *context, uint32_t index, uint32_t *asked, const gw_hash *name, void *bytes,
                  uint32_t length, gw_err *why) {
    (void)context;
    cr_assert(gw_hash_equal(name, &image->chunks[index]));
    if (*asked == PEERS) return gw_fail(why, GW_E_NOTFOUND, "nobody is left");
    uint32_t peer = (*asked)++;
    atomic_fetch_add(&fetches, 1);
    memcpy(bytes, image->bytes + gw_chunk_offset(index), length);
    if (index == lying && peer < liars) ((uint8_t *)bytes)[length - 1] ^= 1;
    return true;
}

static bool fetch_nothing(void *context, uint32_t index, uint32_t *asked, const gw_hash *name, void *bytes,
                          uint32_t length, gw_err *why) {
    (void)context, (void)index, (void)asked, (void)name, (void)bytes, (void)length;
    return gw_fail(why, GW_E_PEER, "nobody has it");
}

static bool keep_last(void *context, uint32_t index) {
    (void)context;
    return index == FIXTURE_CHUNKS - 1;
}

static bool write_target(void *context, uint64_t offset, const void *bytes, uint32_t length, gw_err *why) {
    (void)context, (void)why;
    memcpy(target + offset, bytes, length);
    return true;
}

static gw_restore request(void) {
    return (gw_restore){.manifest = &image->manifest,
                        .store = store,
                        .tag = 5,
                        .fetch = fetch,
                        .write = write_target,
                        .threads = 4};
}

static void expect_whole(void) {
    cr_assert_arr_eq(target, image->bytes, FIXTURE_STATE_BYTES);
}

Test(restore, from_this_disk_alone) {
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++) hold(i);
    gw_restore restore = request();
    restore.fetch = NULL;
    gw_restore_stats stats;
    cr_assert(gw_restore_run(&restore, &stats, &err), "%s", err.text);
    cr_assert_eq(stats.local, FIXTURE_CHUNKS);
    expect_whole();
}

Test(restore, missing_chunks_come_from_peers_and_are_kept_where_placed) {
    hold(1);
    gw_set here = gw_set_of(FIXTURE_CHUNKS);
    gw_restore restore = request();
    restore.keep = keep_last;
    restore.here = &here;
    gw_restore_stats stats;
    cr_assert(gw_restore_run(&restore, &stats, &err), "%s", err.text);
    expect_whole();
    cr_assert(!gw_set_has(&here, 0) && gw_set_has(&here, 1) && gw_set_has(&here, 2));
    gw_set_free(&here);
    cr_assert_eq(stats.local, 1);
    cr_assert_eq(stats.fetched, 2);
    cr_assert_eq(stats.stored, 1);
    cr_assert(gw_store_has(store, &image->chunks[2], 1000));
    cr_assert_not(gw_store_has(store, &image->chunks[0], GW_CHUNK_BYTES));
    gw_store_release(store, 1);
    gw_store_swept swept;
    cr_assert(gw_store_sweep(store, NULL, 0, &swept, &err));
    cr_assert_eq(swept.kept, 2, "what was used or stored is pinned");
}

Test(restore, without_a_store_everything_is_fetched) {
    gw_restore restore = request();
    restore.store = NULL;
    restore.threads = 1;
    gw_restore_stats stats;
    cr_assert(gw_restore_run(&restore, &stats, &err), "%s", err.text);
    expect_whole();
    cr_assert_eq(stats.fetched, FIXTURE_CHUNKS);
}

Test(restore, a_damaged_chunk_is_fetched_and_replaced) {
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++) hold(i);
    char path[512];
    fixture_chunk_path(folder, &image->chunks[0], path);
    fixture_damage(path);
    gw_restore restore = request();
    gw_restore_stats stats;
    cr_assert(gw_restore_run(&restore, &stats, &err), "%s", err.text);
    expect_whole();
    cr_assert_eq(stats.damaged, 1);
    cr_assert_eq(stats.stored, 1);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1);
    cr_assert(gw_store_read(store, &image->chunks[0], target, GW_CHUNK_BYTES, &err), "%s", err.text);
}

Test(restore, a_damaged_chunk_that_nobody_has_is_named) {
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++) hold(i);
    char path[512], digits[GW_HASH_TEXT];
    fixture_chunk_path(folder, &image->chunks[2], path);
    fixture_damage(path);
    gw_hex(image->chunks[2].bytes, 8, digits);
    gw_restore restore = request();
    restore.fetch = fetch_nothing;
    gw_restore_stats stats;
    cr_assert_not(gw_restore_run(&restore, &stats, &err));
    cr_assert_eq(stats.damaged, 1);
    cr_assert_not_null(strstr(err.text, "step 7, chunk 2"), "%s", err.text);
    cr_assert_not_null(strstr(err.text, digits), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "hash differs"), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "nobody has it"), "%s", err.text);
}

Test(restore, a_missing_chunk_without_peers_is_named) {
    hold(0);
    gw_restore restore = request();
    restore.fetch = NULL;
    gw_restore_stats stats;
    cr_assert_not(gw_restore_run(&restore, &stats, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert_not_null(strstr(err.text, "chunk "), "%s", err.text);
}

Test(restore, a_peer_that_sends_wrong_bytes_is_found_out) {
    lying = 1;
    gw_restore restore = request();
    gw_restore_stats stats;
    cr_assert_not(gw_restore_run(&restore, &stats, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert_not_null(strstr(err.text, "chunk 1"), "%s", err.text);
}

Test(restore, another_peer_is_asked_after_one_that_sends_wrong_bytes) {
    lying = 1;
    liars = PEERS - 1;
    gw_restore restore = request();
    gw_restore_stats stats;
    cr_assert(gw_restore_run(&restore, &stats, &err), "%s", err.text);
    expect_whole();
    cr_assert_eq(stats.fetched, FIXTURE_CHUNKS);
    cr_assert_eq(atomic_load(&fetches), FIXTURE_CHUNKS + PEERS - 1);
}

Test(restore, a_full_disk_does_not_fail_it) {
    atomic_store(&disk.left, 0);
    gw_set here = gw_set_of(FIXTURE_CHUNKS);
    gw_restore restore = request();
    restore.keep = keep_last;
    restore.here = &here;
    gw_restore_stats stats;
    cr_assert(gw_restore_run(&restore, &stats, &err), "%s", err.text);
    expect_whole();
    cr_assert_eq(stats.unstored, 1);
    cr_assert_eq(stats.stored, 0);
    cr_assert_eq(gw_set_count(&here), 0, "what could not be stored is not here");
    gw_set_free(&here);
    cr_assert_not_null(strstr(stats.unstored_err.text, "No space left"), "%s", stats.unstored_err.text);
}

static bool refuse_to_write(void *context, uint64_t offset, const void *bytes, uint32_t length, gw_err *why) {
    (void)context, (void)offset, (void)bytes, (void)length;
    return gw_fail(why, GW_E_ABORTED, "stopped");
}

Test(restore, the_owner_can_stop_it) {
    gw_restore restore = request();
    restore.write = refuse_to_write;
    gw_restore_stats stats;
    cr_assert_not(gw_restore_run(&restore, &stats, &err));
    cr_assert_eq(err.code, GW_E_ABORTED);
}

Test(restore, an_empty_state_is_restored_at_once) {
    gw_manifest empty = {.job_name = "empty"};
    cr_assert(gw_manifest_seal(&empty, &err));
    gw_restore restore = request();
    restore.manifest = &empty;
    gw_restore_stats stats;
    cr_assert(gw_restore_run(&restore, &stats, &err), "%s", err.text);
    cr_assert_eq(atomic_load(&fetches), 0);
}
