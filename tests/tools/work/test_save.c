/* Saves on a slow disk: how their progress shows, and how they are ended. */
#include "checkpoint/catalog.h"
#include "core/state/chunk.h"
#include "scratch.h"
#include "tools/godwit/work/save.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 65 /* one chunk more than can be staged */ };

/* A disk on which one call waits. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int writes_left, unlinks_left; /* calls that pass before one waits; < 0: all pass */
static bool waits, opened;

static void pass(int *left) {
    pthread_mutex_lock(&lock);
    if (*left >= 0 && (*left)-- == 0) {
        waits = true;
        pthread_cond_broadcast(&changed);
        while (!opened) pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void wait_until(const bool *what) {
    pthread_mutex_lock(&lock);
    while (!*what) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void set(bool *what) {
    pthread_mutex_lock(&lock);
    *what = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static ssize_t slow_write(gw_io *io, int fd, const void *bytes, size_t count) {
    pass(&writes_left);
    return gw_io_system()->write(io, fd, bytes, count);
}

static int slow_unlink(gw_io *io, const char *path) {
    pass(&unlinks_left);
    return gw_io_system()->unlink(io, path);
}

/* The saver. */

static bool stored; /* a SAVE has ended */
static gw_outcome outcome;
static gw_token ended[8]; /* tokens of the SAVEs that have ended, in the order of their ends */
static uint32_t ended_count;

void __wrap_gw_mailbox_post(gw_mailbox *box, gw_mail *mail);
void __wrap_gw_mailbox_post(gw_mailbox *box, gw_mail *mail) {
    (void)box;
    outcome = mail->event.outcome;
    ended[ended_count++ % 8] = mail->event.token;
    gw_mail_free(mail);
    set(&stored);
}

static bool read_state(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err) {
    (void)device, (void)err;
    memset(to, (int)(offset / GW_CHUNK_BYTES), bytes);
    return true;
}

static gw_io io;
static gw_err err;
static gw_store *store;
static gw_saver *saver;

static void setup(void) {
    static const gw_layout layout = {.image_bytes = CHUNKS * (uint64_t)GW_CHUNK_BYTES};
    static const gw_device_ops ops = {.state_read = read_state};
    static gw_device device = {.ops = &ops, .layout = &layout};
    static const gw_param param = {"lr", "0.1"};
    scratch_open();
    io = *gw_io_system();
    io.write = slow_write;
    io.unlink = slow_unlink;
    writes_left = unlinks_left = -1;
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, &io, &store, &err), "%s", err.text);
    gw_saver_options options = {
        .store = store, .device = &device, .job_name = "test", .params = &param, .param_count = 1};
    saver = gw_saver_open(&options, &err);
    cr_assert_not_null(saver, "%s", err.text);
}

static void teardown(void) {
    set(&opened);
    gw_saver_close(saver);
    gw_store_close(store);
    scratch_close();
}

TestSuite(save, .init = setup, .fini = teardown, .timeout = 60);

static void save(uint64_t step, uint32_t count, bool hash_only) {
    uint32_t chunks[CHUNKS];
    for (uint32_t i = 0; i < count; i++) chunks[i] = i;
    gw_saver_save(saver, &(gw_action){.kind = GW_ACT_SAVE,
                                      .token = step,
                                      .step = step,
                                      .save.hash_only = hash_only,
                                      .save.chunks = chunks,
                                      .save.count = count});
}

/* A disk that takes half a minute for some chunks is slow, and does not hang. */
Test(save, gets_on_with_every_chunk_that_is_written) {
    writes_left = 1;
    const uint64_t before = gw_saver_moved(saver);
    save(1, 2, false);
    wait_until(&waits);
    cr_assert_neq(gw_saver_moved(saver), before);
    set(&opened);
    wait_until(&stored);
    cr_assert_eq(outcome, GW_DONE);
}

/* A save that is queued behind it waits for it. */
Test(save, gets_on_with_every_chunk_that_a_retention_deletes) {
    save(1, 2, false);
    wait_until(&stored);
    unlinks_left = 1;
    const uint64_t before = gw_saver_moved(saver);
    gw_saver_retain(saver, &(gw_action){.kind = GW_ACT_RETAIN});
    wait_until(&waits);
    cr_assert_neq(gw_saver_moved(saver), before);
}

/* A hash-only save waits as well: its last chunk waits for room behind a disk that hangs, and an APPLY waits
 * for the chunk. */
Test(save, that_is_abandoned_holds_up_no_apply) {
    save(1, 1, false);
    wait_until(&stored);
    unlinks_left = 0;
    gw_saver_retain(saver, &(gw_action){.kind = GW_ACT_RETAIN});
    save(2, CHUNKS, true);
    wait_until(&waits);
    gw_saver_abandon(saver);
    gw_saver_staged(saver);
    stored = false;
    set(&opened);
    wait_until(&stored);
    cr_assert_eq(outcome, GW_ABORTED);
}

/* The brain may repeat a SAVE of the same step and kind before the first one has ended. */
Test(save, that_is_given_twice_ends_by_the_token_of_each) {
    uint32_t chunk = 0;
    for (gw_token token = 11; token <= 13; token++)
        gw_saver_save(
            saver,
            &(gw_action){
                .kind = GW_ACT_SAVE, .token = token, .step = 3, .save.chunks = &chunk, .save.count = 1});
    gw_saver_close(saver);
    saver = NULL;
    cr_assert_eq(ended_count, 3);
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(ended[i], 11 + i);
}

/* What a directory has of a job. */

enum { SHORT = 16, STATE_BYTES = GW_CHUNK_BYTES + SHORT };

static const gw_hash this_job = {{1}}, other_job = {{2}};

/* Puts a checkpoint of two chunks on the disk: of two checkpoints that have one `first` the first chunk is
 * the same, and so is the second with one `second`. `best`: the step of the best state, whose first chunk is
 * of that number, too. */
static void put_checkpoint(gw_hash job, uint64_t step, int first, int second, const gw_manifest *best) {
    static uint8_t bytes[2][GW_CHUNK_BYTES];
    const gw_tensor tensor = {.name = "a", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {STATE_BYTES}};
    gw_hash names[2];
    gw_store_item items[2];
    memset(bytes[0], first, GW_CHUNK_BYTES);
    memset(bytes[1], second, SHORT);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t length = i == 0 ? GW_CHUNK_BYTES : SHORT;
        gw_blake2b(bytes[i], length, &names[i], sizeof names[i]);
        items[i] = (gw_store_item){.name = names[i], .bytes = bytes[i], .length = length};
    }
    cr_assert(gw_store_put(store, 1, items, 2, &err), "%s", err.text);
    gw_manifest manifest = {.job_name = "test",
                            .job_id = job,
                            .step = step,
                            .tensors = &tensor,
                            .tensor_count = 1,
                            .chunks = names,
                            .chunk_count = 2};
    if (best != NULL) {
        snprintf(manifest.best_by, sizeof manifest.best_by, "loss:min");
        manifest.best = (gw_best){.any = true,
                                  .value = 0.5,
                                  .step = best->step,
                                  .kept_value = 0.5,
                                  .kept = {.step = best->step, .root = best->root}};
    }
    void *encoded;
    size_t length;
    cr_assert(gw_manifest_seal(&manifest, &err) && gw_manifest_encode(&manifest, &encoded, &length, &err),
              "%s", err.text);
    cr_assert(gw_catalog_save(&io, scratch_folder(), encoded, length, &err), "%s", err.text);
    free(encoded);
}

static gw_found look(void) {
    gw_found found;
    cr_assert(gw_found_load(store, &this_job, STATE_BYTES, &found, &err), "%s", err.text);
    return found;
}

/* Room that a last state takes is that of older checkpoints of its job alone: not that of what a newer one or
 * another job needs, nor that of the best state. */
Test(save, what_is_found_tells_how_much_room_older_checkpoints_take) {
    put_checkpoint(other_job, 90, 4, 4, NULL);
    gw_found found = look();
    cr_expect(found.count == 0 && found.whole == NULL && found.older_bytes == 0);
    cr_expect_eq(found.newest.step, 90, "of another job, as there is none of this one");
    gw_found_free(&found);
    put_checkpoint(this_job, 10, 1, 1, NULL);
    found = look();
    cr_expect(found.count == 1 && found.whole == &found.list[0] && found.older_bytes == 0);
    cr_expect_eq(found.newest.step, 10);
    gw_found_free(&found);
    put_checkpoint(this_job, 20, 2, 1, NULL);
    found = look();
    cr_expect_eq(found.older_bytes, GW_CHUNK_BYTES, "%" PRIu64 ": the second chunk is needed",
                 found.older_bytes);
    const gw_manifest best = {.step = 10, .root = found.list[1].root};
    gw_found_free(&found);
    put_checkpoint(this_job, 30, 4, 3, &best);
    found = look();
    cr_expect_eq(found.older_bytes, GW_CHUNK_BYTES, "%" PRIu64 ": that of step 20", found.older_bytes);
    cr_expect(found.newest.best.any && found.newest.best.step == 10);
    cr_expect_str_empty(found.lack);
    gw_found_free(&found);
}

Test(save, what_is_found_tells_which_file_is_missing) {
    put_checkpoint(this_job, 10, 1, 1, NULL);
    put_checkpoint(this_job, 20, 2, 2, NULL);
    gw_found found = look();
    char name[2 * sizeof(gw_hash) + 1], path[200];
    gw_hex(found.newest.chunks[1].bytes, sizeof(gw_hash), name);
    snprintf(path, sizeof path, "%s/chunks/%.2s/%s", scratch_folder(), name, name);
    gw_found_free(&found);
    cr_assert_eq(remove(path), 0, "%s", path);
    found = look();
    cr_expect_eq(found.count, 2);
    cr_assert_not_null(found.whole);
    cr_expect_eq(found.whole->step, 10);
    cr_expect_not_null(strstr(found.lack, "step 20 lacks 1 of 2 chunks here"), "%s", found.lack);
    cr_expect_not_null(strstr(found.lack, path), "%s", found.lack);
    gw_found_free(&found);
}
