/* Saves on a slow disk: how their progress shows, and how they are ended. */
#include "core/state/chunk.h"
#include "scratch.h"
#include "tools/godwit/work/save.h"

#include <criterion/criterion.h>
#include <pthread.h>
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
