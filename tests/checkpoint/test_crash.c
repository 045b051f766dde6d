/* Crash points: a process that writes a second checkpoint after a first one ends before its k-th system call,
 * for every k: it is killed, or a power failure undoes everything that was not flushed. For every k the
 * newest checkpoint must be whole afterwards, the first one must be whole until the second is complete, and
 * no wrong byte may be read. */
#include "checkpoint/catalog.h"
#include "checkpoint/restore.h"
#include "checkpoint/writer.h"
#include "tests/checkpoint/fixture.h"
#include "tests/checkpoint/mailbox.h"
#include "tests/checkpoint/powerloss.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256], shadows[256], first[256]; /* first: a folder with a whole first checkpoint */
static gw_err err;
static fixture_image *old_image, *new_image;
static uint8_t *target;

static void setup(void) {
    fixture_folder(folder);
    fixture_folder(shadows);
    fixture_folder(first);
    old_image = fixture_image_make(10);
    new_image = fixture_image_make(20);
    target = malloc(FIXTURE_STATE_BYTES);
}
static void teardown(void) {
    fixture_image_free(old_image);
    fixture_image_free(new_image);
    free(target);
    fixture_remove(folder);
    fixture_remove(shadows);
    fixture_remove(first);
}
TestSuite(crash, .init = setup, .fini = teardown, .timeout = 300);

/* Takes one whole checkpoint, as a lone peer does: chunks, manifest, retention of this one only. Returns
 * whether all of it succeeded. */
static bool take_checkpoint(gw_io *io, fixture_image *image) {
    static const uint32_t all[FIXTURE_CHUNKS] = {0, 1, 2};
    static mailbox box;
    mailbox_init(&box);
    gw_store *store;
    gw_ckpt_writer *writer;
    gw_err why;
    if (!gw_store_open(folder, GW_STORE_WRITE, io, &store, &why)) return false;
    if (!gw_ckpt_open(store, 64 << 20, mailbox_deliver, &box, &writer, &why)) abort();
    gw_ckpt_request request = {.tag = image->manifest.step,
                               .state_bytes = FIXTURE_STATE_BYTES,
                               .indices = all,
                               .count = FIXTURE_CHUNKS,
                               .read = fixture_image_read,
                               .read_context = image};
    if (!gw_ckpt_snapshot(writer, &request, &why)) abort();
    gw_ckpt_finish_staging(writer);
    bool done = mailbox_next(&box)->done.err == NULL;
    if (done) {
        void *bytes;
        size_t length;
        if (!gw_manifest_encode(&image->manifest, &bytes, &length, &why)) abort();
        if (!gw_ckpt_manifest(writer, image->manifest.step, bytes, length, &why)) abort();
        free(bytes);
        done = mailbox_next(&box)->done.err == NULL;
    }
    if (done) {
        gw_store_release(store, image->manifest.step);
        if (!gw_ckpt_retain(writer, 1, &image->manifest.job_id, &image->manifest.root, 1, &why)) abort();
        done = mailbox_next(&box)->done.err == NULL;
    }
    gw_ckpt_close(writer, true);
    gw_store_close(store);
    return done;
}

static bool write_target(void *context, uint64_t offset, const void *bytes, uint32_t length, gw_err *why) {
    (void)context, (void)why;
    memcpy(target + offset, bytes, length);
    return true;
}

/* The same holds for an older checkpoint: the chunks that a manifest names exist as long as the manifest. */
static void expect_chunks(gw_store *store, const gw_manifest *manifest, const char *when, int k) {
    for (uint32_t i = 0; i < manifest->chunk_count; i++)
        cr_assert(gw_store_has(store, &manifest->chunks[i], gw_chunk_length(FIXTURE_STATE_BYTES, i)),
                  "%s %d: step %lu without chunk %u", when, k, manifest->step, i);
}

/* Restores from the newest manifest and compares every byte; returns its step. */
static uint64_t expect_a_whole_checkpoint(const char *when, int k) {
    gw_store *store;
    gw_catalog catalog;
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, NULL, &store, &err), "%s %d: %s", when, k, err.text);
    char temporaries[300];
    snprintf(temporaries, sizeof temporaries, "%s/tmp", folder);
    cr_assert_eq(fixture_count_files(temporaries, ""), 0, "%s %d: leftovers", when, k);
    cr_assert(gw_catalog_load(gw_io_system(), folder, &catalog, &err), "%s %d: %s", when, k, err.text);
    cr_assert_eq(catalog.bad_count, 0, "%s %d: a half-written manifest", when, k);
    cr_assert_gt(catalog.good_count, 0, "%s %d: no checkpoint left", when, k);
    for (uint32_t i = 0; i < catalog.good_count; i++) expect_chunks(store, &catalog.good[i], when, k);
    gw_restore restore = {.manifest = &catalog.good[0], .store = store, .write = write_target, .threads = 1};
    gw_restore_stats stats;
    memset(target, 0, FIXTURE_STATE_BYTES);
    cr_assert(gw_restore_run(&restore, &stats, &err), "%s %d: %s", when, k, err.text);
    uint64_t step = catalog.good[0].step;
    cr_assert(step == 10 || step == 20);
    const fixture_image *image = step == 10 ? old_image : new_image;
    cr_assert_eq(memcmp(target, image->bytes, FIXTURE_STATE_BYTES), 0, "%s %d: wrong bytes", when, k);
    gw_catalog_free(&catalog);
    gw_store_close(store);
    return step;
}

/* Starts from the first checkpoint, and takes the second in a child that ends before call k. Returns
 * whether the child ended by itself. The files of the first checkpoint are links to those in `first`,
 * where it is taken once: no file changes once it has its name, and a change would show at the next k. */
static bool crash_at(powerloss_kind kind, int k) {
    fixture_remove(folder); /* folders that exist already would not have to be made */
    fixture_remove(shadows);
    cr_assert_eq(mkdir(shadows, 0700), 0);
    fixture_link_all(first, folder);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) _exit(take_checkpoint(powerloss_io(kind, k, shadows), new_image) ? 0 : 1);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) cr_assert_eq(WEXITSTATUS(status), 0);
    if (WIFSIGNALED(status)) cr_assert_eq(WTERMSIG(status), SIGKILL);
    return WIFEXITED(status);
}

static void crash_everywhere(powerloss_kind kind) {
    bool ended = false;
    unsigned old_found = 0, new_found = 0;
    cr_assert(take_checkpoint(powerloss_io(LOSE_NOTHING, -1, shadows), old_image));
    fixture_remove(first);
    cr_assert_eq(rename(folder, first), 0);
    for (int k = 0; !ended; k++) {
        ended = crash_at(kind, k);
        uint64_t step = expect_a_whole_checkpoint("call", k);
        cr_assert(step == 20 || new_found == 0, "call %d: the new checkpoint was complete and is gone", k);
        if (step == 10) old_found++;
        if (step == 20) new_found++;
        cr_assert(!ended || step == 20);
        /* The next checkpoint works on the files that the crash left. It costs as much as the crash, so each way to crash tries
         * it behind every second call, and two ways at once behind each. */
        if (k % 2 != (int)kind % 2 && !ended) continue;
        cr_assert(take_checkpoint(powerloss_io(LOSE_NOTHING, -1, shadows), new_image), "after call %d", k);
        cr_assert_eq(expect_a_whole_checkpoint("after call", k), 20);
        cr_assert_eq(fixture_count_files(folder, ""), FIXTURE_CHUNKS + 1, "call %d: garbage stays", k);
    }
    cr_assert_gt(old_found, 20);
    cr_assert_gt(new_found, 5);
}

Test(crash, killed) {
    crash_everywhere(LOSE_NOTHING);
}
Test(crash, power_lost_with_unflushed_contents) {
    crash_everywhere(LOSE_CONTENTS);
}
Test(crash, power_lost_with_unflushed_names) {
    crash_everywhere(LOSE_NAMES);
}
Test(crash, power_lost_with_an_unflushed_deletion) {
    crash_everywhere(LOSE_DELETION);
}

/* Everything that was reported as durable is durable, beginning with the first folder, which did not exist
 * before. */
static void lose_power_after_the_first(powerloss_kind kind) {
    fixture_remove(folder);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        if (!take_checkpoint(powerloss_io(kind, -1, shadows), old_image)) _exit(1);
        powerloss_now();
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cr_assert_eq(expect_a_whole_checkpoint("after the end", 0), 10);
}

Test(crash, power_lost_after_the_end_costs_no_contents) {
    lose_power_after_the_first(LOSE_CONTENTS);
}
Test(crash, power_lost_after_the_end_costs_no_names) {
    lose_power_after_the_first(LOSE_NAMES);
}

/* One flush of a folder fails, and the checkpoint is taken once more. */
static gw_io *lossy;
static const char *unflushed; /* the flush of the folder of that name fails; NULL: none fails */

static int fail_one_fsync(gw_io *io, int fd) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) abort();
    path[length] = '\0';
    if (unflushed == NULL || strcmp(strrchr(path, '/') + 1, unflushed) != 0) return lossy->fsync(io, fd);
    unflushed = NULL;
    errno = EIO;
    return -1;
}

/* Runs a function in a child whose power fails after it has returned. */
static bool in_a_child_that_loses_power(powerloss_kind kind, gw_io *io) {
    fixture_remove(folder);
    fixture_remove(shadows);
    cr_assert_eq(mkdir(folder, 0700) | mkdir(shadows, 0700), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        lossy = powerloss_io(kind, -1, shadows);
        *io = *lossy;
        io->fsync = fail_one_fsync;
        return true;
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return false;
}

Test(crash, a_folder_whose_flush_failed_is_flushed_before_what_lies_in_it_counts) {
    gw_io io;
    gw_store *store;
    gw_store_item item = {.bytes = "some bytes", .length = 10};
    gw_blake2b(item.bytes, item.length, item.name.bytes, sizeof item.name.bytes);
    if (in_a_child_that_loses_power(LOSE_NAMES, &io)) {
        if (!gw_store_open(folder, GW_STORE_WRITE, &io, &store, &err)) _exit(1);
        unflushed = "chunks";
        if (gw_store_put(store, 1, &item, 1, &err) || unflushed != NULL) _exit(2);
        if (!gw_store_put(store, 1, &item, 1, &err)) _exit(3);
        powerloss_now();
    }
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
    cr_assert(gw_store_has(store, &item.name, item.length));
    gw_store_close(store);
}

/* Deletes all checkpoints but that one, and the chunks that only they need. */
static bool retain_only(gw_io *io, const fixture_image *image) {
    gw_store *store;
    gw_store_swept swept;
    gw_hash *needed;
    size_t count;
    bool complete;
    gw_err why;
    if (!gw_store_open(folder, GW_STORE_WRITE, io, &store, &err)) return false;
    bool done = gw_catalog_retain(io, folder, &image->manifest.job_id, &image->manifest.root, 1, &needed,
                                  &count, &complete, &why, &err);
    if (done) {
        done = complete && gw_store_sweep(store, needed, count, &swept, &err);
        free(needed);
    }
    gw_store_close(store);
    return done;
}

/* Takes a second checkpoint beside the first. */
static bool add_checkpoint(gw_io *io, const fixture_image *image) {
    gw_store *store;
    gw_store_item items[FIXTURE_CHUNKS];
    void *bytes;
    size_t length;
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++)
        items[i] = (gw_store_item){.name = image->chunks[i],
                                   .bytes = image->bytes + gw_chunk_offset(i),
                                   .length = gw_chunk_length(FIXTURE_STATE_BYTES, i)};
    if (!gw_store_open(folder, GW_STORE_WRITE, io, &store, &err)) return false;
    bool done = gw_store_put(store, 1, items, FIXTURE_CHUNKS, &err);
    gw_store_close(store);
    if (!done || !gw_manifest_encode(&image->manifest, &bytes, &length, &err)) return false;
    done = gw_catalog_save(io, folder, bytes, length, &err);
    free(bytes);
    return done;
}

/* Without a flush in between, the manifest could come back without its chunks. */
Test(crash, a_deletion_whose_flush_failed_is_flushed_before_its_chunks_go) {
    gw_io io;
    if (in_a_child_that_loses_power(LOSE_DELETION, &io)) {
        if (!take_checkpoint(&io, old_image) || !add_checkpoint(&io, new_image)) _exit(1);
        unflushed = "manifests";
        if (retain_only(&io, new_image) || unflushed != NULL) _exit(2);
        if (!retain_only(&io, new_image)) _exit(3);
        powerloss_now();
    }
    cr_assert_eq(expect_a_whole_checkpoint("after the deletion", 0), 20);
}

/* The same with calls that fail: all calls from the k-th on fail, as on a disk that has become read-only, or
 * only that call does. */
static void fail_at_every_call(int error, bool once) {
    for (int k = 0;; k++) {
        fixture_io faulty;
        cr_assert(take_checkpoint(powerloss_io(LOSE_NOTHING, -1, shadows), old_image));
        fixture_io_init(&faulty, CALL_ANY, k, error);
        faulty.once = once;
        bool done = take_checkpoint(&faulty.io, new_image);
        uint64_t step = expect_a_whole_checkpoint("failed call", k);
        cr_assert(!done || step == 20, "call %d: said to be done and is not", k);
        if (atomic_load(&faulty.left) > 0) break; /* k is past the last call */
    }
}

Test(crash, a_disk_that_becomes_read_only) {
    fail_at_every_call(EROFS, false);
}
Test(crash, a_disk_that_fills_up) {
    fail_at_every_call(ENOSPC, false);
}
Test(crash, a_single_input_output_error) {
    fail_at_every_call(EIO, true);
}
