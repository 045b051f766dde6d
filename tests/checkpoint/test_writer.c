/* The writer thread: which bytes it stores, when the state may change again, and how it ends. */
#include "checkpoint/writer.h"

#include "checkpoint/catalog.h"
#include "tests/checkpoint/fixture.h"
#include "tests/checkpoint/mailbox.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static char folder[256];
static gw_err err;
static gw_store *store;
static gw_ckpt_writer *writer;
static fixture_io disk; /* real calls except for flushes; tests make them fail */
static mailbox box;
static const uint32_t all[FIXTURE_CHUNKS] = {0, 1, 2};
static const size_t plenty = 64 << 20;

static void open_writer(size_t staging_bytes) {
    cr_assert(gw_ckpt_open(store, staging_bytes, mailbox_deliver, &box, &writer, &err), "%s", err.text);
}

static void setup(void) {
    fixture_folder(folder);
    fixture_io_init(&disk, CALL_ANY, -1, 0);
    mailbox_init(&box);
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, &disk.io, &store, &err), "%s", err.text);
    open_writer(plenty);
}
static void teardown(void) {
    gw_ckpt_close(writer, false);
    gw_store_close(store);
    fixture_remove(folder);
}
TestSuite(writer, .init = setup, .fini = teardown, .timeout = 120);

static void snapshot_of(uint64_t tag, gw_ckpt_read_fn *read, void *context, bool hash_only) {
    gw_ckpt_request request = {
        .token = tag,
        .tag = tag,
        .state_bytes = FIXTURE_STATE_BYTES,
        .indices = all,
        .count = FIXTURE_CHUNKS,
        .hash_only = hash_only,
        .read = read,
        .read_context = context,
    };
    cr_assert(gw_ckpt_snapshot(writer, &request, &err), "%s", err.text);
}

static void snapshot(uint64_t tag, fixture_image *image) {
    snapshot_of(tag, fixture_image_read, image, false);
}

static unsigned stored_chunks(const fixture_image *image) {
    unsigned count = 0;
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++)
        count += gw_store_has(store, &image->chunks[i], gw_chunk_length(FIXTURE_STATE_BYTES, i));
    return count;
}

static void send_manifest(const fixture_image *image) {
    void *bytes;
    size_t length;
    cr_assert(gw_manifest_encode(&image->manifest, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_ckpt_manifest(writer, image->manifest.step, bytes, length, &err), "%s", err.text);
    free(bytes);
}

Test(writer, stores_the_chunks_and_reports_their_names) {
    fixture_image *image = fixture_image_make(1);
    snapshot(1, image);
    gw_ckpt_finish_staging(writer);
    const mail *letter = mailbox_next(&box);
    cr_assert_null(letter->done.err);
    cr_assert_eq(letter->done.kind, GW_CKPT_SNAPSHOT);
    cr_assert_eq(letter->done.token, 1);
    cr_assert_eq(letter->done.chunk_count, FIXTURE_CHUNKS);
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++) {
        cr_assert_eq(letter->chunks[i].index, i);
        cr_assert(gw_hash_equal(&letter->chunks[i].name, &image->chunks[i]));
    }
    cr_assert_eq(letter->done.bytes, FIXTURE_STATE_BYTES);
    cr_assert_eq(letter->done.written_bytes, FIXTURE_STATE_BYTES);
    cr_assert_eq(stored_chunks(image), FIXTURE_CHUNKS);
    fixture_image_free(image);
}

Test(writer, an_unchanged_chunk_is_not_written_again) {
    for (uint64_t step = 1; step <= 2; step++) {
        fixture_image *image = fixture_image_make(step);
        snapshot(step, image);
        const mail *letter = mailbox_next(&box);
        cr_assert_null(letter->done.err);
        cr_assert_eq(letter->done.written_bytes,
                     step == 1 ? FIXTURE_STATE_BYTES : FIXTURE_STATE_BYTES - GW_CHUNK_BYTES);
        fixture_image_free(image);
    }
}

/* Staging stores the state of the boundary, although the state changes right after it. */
Test(writer, the_state_may_change_once_staging_is_finished) {
    fixture_image *image = fixture_image_make(1);
    for (uint64_t round = 0; round < 5; round++) {
        fixture_image *next = fixture_image_make(round + 2);
        snapshot(round, image);
        gw_ckpt_finish_staging(writer);
        memcpy(image->bytes, next->bytes, FIXTURE_STATE_BYTES);
        const mail *letter = mailbox_next(&box);
        cr_assert_null(letter->done.err);
        for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++)
            cr_assert(gw_hash_equal(&letter->chunks[i].name, &image->chunks[i]), "round %u chunk %u",
                      (unsigned)round, i);
        memcpy(image->chunks, next->chunks, sizeof image->chunks);
        fixture_image_free(next);
    }
    fixture_image_free(image);
}

Test(writer, one_staging_buffer_is_enough) {
    gw_ckpt_close(writer, true);
    open_writer(1);
    fixture_image *a = fixture_image_make(1), *b = fixture_image_make(2);
    snapshot(1, a);
    snapshot(2, b);
    gw_ckpt_finish_staging(writer);
    for (int i = 0; i < 2; i++) cr_assert_null(mailbox_next(&box)->done.err);
    cr_assert_eq(stored_chunks(a) + stored_chunks(b), 2 * FIXTURE_CHUNKS);
    gw_ckpt_stats stats;
    gw_ckpt_stats_read(writer, &stats);
    cr_assert_eq(stats.staging_bytes, GW_CHUNK_BYTES);
    cr_assert_eq(stats.hashed_bytes, 2 * FIXTURE_STATE_BYTES);
    fixture_image_free(a);
    fixture_image_free(b);
}

Test(writer, hash_only_writes_nothing) {
    fixture_image *image = fixture_image_make(1);
    snapshot_of(1, fixture_image_read, image, true);
    const mail *letter = mailbox_next(&box);
    cr_assert_null(letter->done.err);
    cr_assert(letter->done.hash_only);
    cr_assert_eq(letter->done.written_bytes, 0);
    cr_assert(gw_hash_equal(&letter->chunks[2].name, &image->chunks[2]));
    cr_assert_eq(fixture_count_files(folder, ""), 0);
    fixture_image_free(image);
}

Test(writer, without_a_store_it_still_hashes) {
    gw_ckpt_close(writer, true);
    gw_ckpt_writer *blind;
    cr_assert(gw_ckpt_open(NULL, plenty, mailbox_deliver, &box, &blind, &err), "%s", err.text);
    writer = blind;
    fixture_image *image = fixture_image_make(1);
    snapshot_of(1, fixture_image_read, image, true);
    cr_assert_null(mailbox_next(&box)->done.err);
    snapshot(2, image);
    cr_assert_eq(mailbox_next(&box)->err.code, GW_E_UNSUPPORTED);
    gw_ckpt_abandon(writer, 2);
    fixture_image_free(image);
}

Test(writer, no_chunks_is_an_answer_too) {
    gw_ckpt_request request = {.tag = 5, .state_bytes = FIXTURE_STATE_BYTES, .read = fixture_image_read};
    cr_assert(gw_ckpt_snapshot(writer, &request, &err));
    const mail *letter = mailbox_next(&box);
    cr_assert_null(letter->done.err);
    cr_assert_eq(letter->done.chunk_count, 0);
}

static bool fail_to_read(void *context, uint64_t offset, void *bytes, size_t length, gw_err *why) {
    (void)context, (void)bytes, (void)length;
    if (offset == 0) return true;
    return gw_fail(why, GW_E_IO, "the device is lost");
}

Test(writer, a_state_that_cannot_be_read_is_an_error) {
    snapshot_of(1, fail_to_read, NULL, false);
    gw_ckpt_finish_staging(writer);
    const mail *letter = mailbox_next(&box);
    cr_assert_not_null(letter->done.err);
    cr_assert_not_null(strstr(letter->err.text, "the device is lost"), "%s", letter->err.text);
    cr_assert_eq(letter->done.chunk_count, 0);
}

Test(writer, a_full_disk_is_an_error_and_the_next_checkpoint_works) {
    fixture_image *image = fixture_image_make(1);
    disk.call = CALL_WRITE;
    disk.error = ENOSPC;
    disk.once = true;
    atomic_store(&disk.left, 1);
    snapshot(1, image);
    gw_ckpt_finish_staging(writer);
    const mail *letter = mailbox_next(&box);
    cr_assert_not_null(letter->done.err);
    cr_assert_eq(letter->err.code, GW_E_IO);
    cr_assert_not_null(strstr(letter->err.text, "No space left on device"), "%s", letter->err.text);
    cr_assert_eq(fixture_count_files(folder, "-"), 0);
    snapshot(2, image);
    cr_assert_null(mailbox_next(&box)->done.err);
    cr_assert_eq(stored_chunks(image), FIXTURE_CHUNKS);
    fixture_image_free(image);
}

/* The thread blocks signals, so the SIGXFSZ of the real limit does not end the process. */
Test(writer, a_file_size_limit_is_an_error_not_a_death) {
    struct rlimit limit = {1 << 20, RLIM_INFINITY}, before;
    getrlimit(RLIMIT_FSIZE, &before);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    fixture_image *image = fixture_image_make(1);
    snapshot(1, image);
    const mail *letter = mailbox_next(&box);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_assert_not_null(letter->done.err);
    cr_assert_not_null(strstr(letter->err.text, "File too large"), "%s", letter->err.text);
    fixture_image_free(image);
}

Test(writer, retention_keeps_what_kept_manifests_need) {
    fixture_image *images[3];
    for (uint64_t step = 0; step < 3; step++) {
        images[step] = fixture_image_make(step + 1);
        snapshot(step + 1, images[step]);
        send_manifest(images[step]);
        cr_assert_null(mailbox_next(&box)->done.err);
        cr_assert_null(mailbox_next(&box)->done.err);
    }
    for (uint64_t tag = 1; tag < 3; tag++) gw_store_release(store, tag); /* 3 is still open */
    gw_hash kept = images[1]->manifest.root;
    cr_assert(gw_ckpt_retain(writer, 9, &images[0]->manifest.job_id, &kept, 1, &err));
    cr_assert_null(mailbox_next(&box)->done.err);
    cr_assert_eq(stored_chunks(images[0]), 1, "the chunk that all share");
    cr_assert_eq(stored_chunks(images[1]), FIXTURE_CHUNKS);
    cr_assert_eq(stored_chunks(images[2]), FIXTURE_CHUNKS, "pinned");
    gw_catalog catalog;
    cr_assert(gw_catalog_load(&disk.io, folder, &catalog, &err));
    cr_assert_eq(catalog.good_count, 1);
    gw_catalog_free(&catalog);
    for (int i = 0; i < 3; i++) fixture_image_free(images[i]);
}

static void retain(const fixture_image *image, const gw_hash *kept, uint32_t count) {
    cr_assert(gw_ckpt_retain(writer, 99, &image->manifest.job_id, kept, count, &err), "%s", err.text);
    cr_assert_null(mailbox_next(&box)->done.err);
}

Test(writer, retention_deletes_no_chunk_when_a_kept_manifest_is_damaged) {
    fixture_image *image = fixture_image_make(1);
    snapshot(1, image);
    cr_assert_null(mailbox_next(&box)->done.err);
    send_manifest(image);
    cr_assert_null(mailbox_next(&box)->done.err);
    gw_store_release(store, 1);
    char path[512], name[GW_CATALOG_NAME_BYTES];
    gw_catalog_name(&image->manifest.job_id, 1, &image->manifest.root, name);
    snprintf(path, sizeof path, "%s/manifests/%s", folder, name);
    fixture_damage(path);
    cr_assert(gw_ckpt_retain(writer, 99, &image->manifest.job_id, &image->manifest.root, 1, &err));
    const gw_err *why = &mailbox_next(&box)->err;
    cr_assert_eq(why->code, GW_E_IO, "nobody would hear of it");
    cr_assert_not_null(strstr(why->text, path), "%s", why->text);
    cr_assert_not_null(strstr(why->text, "checksum"), "%s", why->text);
    cr_assert_eq(stored_chunks(image), FIXTURE_CHUNKS);
    retain(image, NULL, 0);
    cr_assert_eq(stored_chunks(image), 0);
    fixture_image_free(image);
}

/* A checkpoint that other peers keep may have no manifest here, because this disk was full then. It holds
 * nothing up. */
Test(writer, what_a_failed_snapshot_has_stored_goes) {
    fixture_image *old = fixture_image_make(1), *failed = fixture_image_make(2);
    snapshot(1, old);
    cr_assert_null(mailbox_next(&box)->done.err);
    send_manifest(old);
    cr_assert_null(mailbox_next(&box)->done.err);
    gw_store_release(store, 1);
    disk.call = CALL_RENAME; /* the second chunk that is new; the first one has its name by then */
    disk.error = ENOSPC;
    disk.once = true;
    atomic_store(&disk.left, 1);
    snapshot(2, failed);
    cr_assert_eq(mailbox_next(&box)->err.code, GW_E_IO);
    cr_assert_eq(stored_chunks(failed), 2, "the one that did not change, and one more");
    const gw_hash kept[] = {old->manifest.root, failed->manifest.root};
    retain(old, kept, 2);
    cr_assert_eq(stored_chunks(failed), 2, "pinned");
    gw_ckpt_abandon(writer, 2);
    retain(old, kept, 2);
    cr_assert_eq(stored_chunks(failed), 1);
    cr_assert_eq(stored_chunks(old), FIXTURE_CHUNKS);
    cr_assert_eq(fixture_count_files(folder, ""), FIXTURE_CHUNKS + 1);
    fixture_image_free(old);
    fixture_image_free(failed);
}

Test(writer, a_manifest_that_is_none_is_refused) {
    cr_assert(gw_ckpt_manifest(writer, 1, "garbage", 7, &err));
    cr_assert_eq(mailbox_next(&box)->err.code, GW_E_INVALID);
}

/* A read callback that holds the writer until the test lets it go. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered, opened;
} gate;

static bool read_at_gate(void *context, uint64_t offset, void *bytes, size_t length, gw_err *why) {
    (void)offset, (void)why;
    gate *g = context;
    pthread_mutex_lock(&g->lock);
    g->entered = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->opened) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    memset(bytes, 1, length);
    return true;
}

static void wait_at_gate(gate *g) {
    pthread_mutex_lock(&g->lock);
    while (!g->entered) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void open_gate(gate *g) {
    pthread_mutex_lock(&g->lock);
    g->opened = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

Test(writer, an_abandoned_snapshot_ends_and_pins_nothing) {
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    snapshot_of(1, read_at_gate, &g, false);
    fixture_image *image = fixture_image_make(1);
    snapshot(2, image);
    wait_at_gate(&g);
    gw_ckpt_abandon(writer, 1);
    gw_ckpt_abandon(writer, 77);
    open_gate(&g);
    gw_ckpt_finish_staging(writer);
    const mail *letter = mailbox_next(&box);
    cr_assert_eq(letter->done.token, 1);
    cr_assert_eq(letter->err.code, GW_E_ABORTED);
    letter = mailbox_next(&box);
    cr_assert_eq(letter->done.token, 2);
    cr_assert_null(letter->done.err);
    gw_ckpt_abandon(writer, 2);
    gw_store_swept swept;
    cr_assert(gw_store_sweep(store, NULL, 0, &swept, &err));
    cr_assert_eq(swept.kept, 0);
    fixture_image_free(image);
}

static gate at_disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int unlink_at_gate(gw_io *io, const char *path) {
    uint8_t byte;
    read_at_gate(&at_disk, 0, &byte, 1, &err);
    return gw_io_system()->unlink(io, path);
}

static void *abandon_2(void *context) {
    gw_ckpt_abandon(writer, 2);
    return context;
}

/* The event loop abandons checkpoints: it must not wait for a disk that hangs. */
Test(writer, a_disk_that_hangs_in_a_retention_does_not_hold_up_who_abandons) {
    fixture_image *image = fixture_image_make(1), *next = fixture_image_make(2);
    snapshot(1, image);
    snapshot(2, next);
    for (int i = 0; i < 2; i++) cr_assert_null(mailbox_next(&box)->done.err);
    gw_store_release(store, 1);
    disk.io.unlink = unlink_at_gate;
    cr_assert(gw_ckpt_retain(writer, 3, &image->manifest.job_id, NULL, 0, &err), "%s", err.text);
    wait_at_gate(&at_disk);
    pthread_t other;
    cr_assert_eq(pthread_create(&other, NULL, abandon_2, NULL), 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    bool at_once = pthread_timedjoin_np(other, NULL, &until) == 0;
    open_gate(&at_disk);
    if (!at_once) pthread_join(other, NULL);
    cr_assert(at_once, "it waited for the disk");
    cr_assert_null(mailbox_next(&box)->done.err);
    fixture_image_free(image);
    fixture_image_free(next);
}

static void *open_gate_later(void *context) {
    open_gate(context);
    return NULL;
}

Test(writer, closing_answers_for_everything_that_was_queued) {
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    snapshot_of(1, read_at_gate, &g, false);
    fixture_image *image = fixture_image_make(1);
    send_manifest(image);
    fixture_image_free(image);
    wait_at_gate(&g);
    pthread_t opener;
    pthread_create(&opener, NULL, open_gate_later, &g);
    gw_ckpt_close(writer, false);
    writer = NULL;
    pthread_join(opener, NULL);
    cr_assert_eq(box.count, 2, "one answer each");
    for (int i = 0; i < 2; i++) { /* requests may have been carried out before */
        const mail *letter = mailbox_next(&box);
        cr_assert(letter->done.err == NULL || letter->err.code == GW_E_ABORTED);
    }
}

Test(writer, draining_carries_everything_out) {
    fixture_image *image = fixture_image_make(1);
    for (uint64_t tag = 1; tag <= 3; tag++) snapshot(tag, image);
    send_manifest(image);
    gw_ckpt_close(writer, true);
    writer = NULL;
    cr_assert_eq(box.count, 4);
    for (int i = 0; i < 4; i++) cr_assert_null(mailbox_next(&box)->done.err);
    fixture_image_free(image);
}

/* Another thread submits, stages and pins while the writer stores and sweeps. */
static void *pin_from_outside(void *context) {
    const fixture_image *image = context;
    uintptr_t broken = 0;
    uint8_t *bytes = malloc(GW_CHUNK_BYTES);
    for (uint64_t tag = 1000; tag < 1040; tag++) {
        uint32_t length = gw_chunk_length(FIXTURE_STATE_BYTES, 2);
        gw_err why;
        if (!gw_store_pin(store, tag, &image->chunks[2], length)) continue;
        if (!gw_store_read(store, &image->chunks[2], bytes, length, &why)) broken++;
        gw_store_release(store, tag);
    }
    free(bytes);
    return (void *)broken;
}

Test(writer, pins_hold_against_retention_meanwhile) {
    fixture_image *image = fixture_image_make(1);
    pthread_t outside;
    pthread_create(&outside, NULL, pin_from_outside, image);
    for (uint64_t tag = 1; tag <= 20; tag++) {
        snapshot(tag, image);
        gw_ckpt_finish_staging(writer);
        cr_assert(gw_ckpt_retain(writer, 500, &image->manifest.job_id, NULL, 0, &err));
        cr_assert_null(mailbox_next(&box)->done.err);
        cr_assert_null(mailbox_next(&box)->done.err);
        cr_assert_eq(stored_chunks(image), FIXTURE_CHUNKS, "the open checkpoint's own chunks are pinned");
        gw_store_release(store, tag);
    }
    void *broken;
    pthread_join(outside, &broken);
    cr_assert_eq((uintptr_t)broken, 0);
    fixture_image_free(image);
}
