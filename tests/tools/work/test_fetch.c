/* The bytes that a peer serves to others by name. */
#include "checkpoint/catalog.h"
#include "core/os/durable.h"
#include "net/data/provider.h"
#include "scratch.h"
#include "tests/tools/weights/manifest_rig.h"
#include "tools/godwit/work/fetch.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_state(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err) {
    (void)device, (void)offset, (void)err;
    memset(to, 1, bytes);
    return true;
}

static const gw_layout layout = {.image_bytes = RIG_STATE_BYTES};
static const gw_device_ops ops = {.state_read = read_state};
static gw_device device = {.ops = &ops, .layout = &layout};
static gw_engine engine;
static gw_server server = {.engine = &engine};
static gw_err err;

static void setup(void) {
    scratch_open();
    engine.device = &device;
    server.job_id = (gw_hash){{RIG_JOB}};
    server.history = gw_history_open(&err);
    cr_assert_not_null(server.history);
    cr_assert_eq(pthread_rwlock_init(&engine.state.lock, NULL), 0);
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, NULL, &server.store, &err), "%s", err.text);
}

static void teardown(void) {
    gw_store_close(server.store);
    gw_history_close(server.history);
    pthread_rwlock_destroy(&engine.state.lock);
    scratch_close();
}

TestSuite(fetch, .init = setup, .fini = teardown);

static gw_op_status look_up(const gw_hash *name, const void **bytes, uint64_t *length) {
    gw_fetch_provider provider = gw_server_provider(&server);
    return provider.find(provider.context, NULL, name, bytes, length);
}

/* The step of the manifest that is served by this name; 0: none is served. */
static uint64_t served(uint64_t step, const gw_hash *root) {
    gw_fetch_provider provider = gw_server_provider(&server);
    const gw_hash name = gw_manifest_name(step, root);
    const void *bytes;
    uint64_t length;
    gw_manifest manifest;
    gw_op_status status = look_up(&name, &bytes, &length);
    if (status == GW_OP_NOTFOUND) return 0;
    cr_assert_eq(status, GW_OP_OK);
    cr_assert(gw_manifest_decode(bytes, length, &manifest, &err), "%s", err.text);
    provider.release(provider.context, bytes, length);
    uint64_t got = manifest.step;
    gw_manifest_free(&manifest);
    return got;
}

Test(fetch, of_checkpoints_with_one_root_each_has_its_own_manifest) {
    gw_hash root = rig_save_manifest(10, RIG_JOB), again = rig_save_manifest(20, RIG_JOB);
    rig_save_manifest(30, RIG_JOB + 1);
    cr_assert(gw_hash_equal(&root, &again), "the state did not change");
    cr_assert_eq(served(10, &root), 10);
    cr_assert_eq(served(20, &root), 20);
    cr_assert_eq(served(30, &root), 0, "another job's");
    cr_assert_eq(served(40, &root), 0);
}

/* No file can be read behind a link to itself. */
static void make_unreadable(const char *path) {
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink(path, path), 0);
}

Test(fetch, a_manifest_that_cannot_be_read_just_now_is_not_said_to_be_absent) {
    gw_hash root = rig_save_manifest(10, RIG_JOB), other = {{9}};
    gw_hash name = gw_manifest_name(10, &root);
    char path[GW_PATH_BYTES], file[GW_CATALOG_NAME_BYTES];
    cr_assert(gw_durable_path(path, &err, "%s/manifests/%s", scratch_folder(),
                              gw_catalog_name(&server.job_id, 10, &root, file)));
    make_unreadable(path);
    const void *bytes;
    uint64_t length;
    cr_assert_eq(look_up(&name, &bytes, &length), GW_OP_UNAVAILABLE);
    cr_assert_eq(served(10, &other), 0, "another's is");
}

static void make_step(uint64_t step) {
    gw_past_step one = {.step = step,
                        .evaluates = step % 2 == 0,
                        .time = 1e9,
                        .ms = 0.5,
                        .members = 3,
                        .fingerprint = step,
                        .receipt = {step, 2 * step, 5, 3 * step}};
    snprintf(one.report, sizeof one.report, "loss=%lu", step);
    gw_history_add(server.history, &one);
}

/* Asks for the steps after `after` up to `last`, and expects those from `first` on. `older`: as a build does that
 * knows no receipts. */
static void expect_steps_of(bool older, uint64_t after, uint64_t last, uint64_t first) {
    gw_fetch_provider provider = gw_server_provider(&server);
    gw_hash name = gw_history_name(after, last);
    if (older) memset(name.bytes + 24, 0, sizeof name.bytes - 24);
    const void *bytes;
    uint64_t length;
    gw_reader reader;
    gw_past_step one;
    uint8_t version;
    char report[32];
    cr_assert(provider.in_memory(provider.context, &name));
    gw_op_status status = look_up(&name, &bytes, &length);
    if (first > last) {
        cr_assert_eq(status, GW_OP_NOTFOUND);
        return;
    }
    cr_assert_eq(status, GW_OP_OK);
    cr_assert(gw_history_read_begin(&reader, bytes, length, &version));
    cr_assert_eq(version, older ? 1 : 2);
    while (gw_history_read(&reader, version, &one)) {
        snprintf(report, sizeof report, "loss=%lu", first);
        cr_assert_eq(one.step, first, "%lu instead of %lu", one.step, first);
        cr_assert_str_eq(one.report, report);
        cr_assert_eq(one.evaluates, first % 2 == 0);
        cr_assert(one.members == 3 && one.ms == 0.5);
        cr_assert(one.receipt.state == first && one.receipt.sum == (older ? 0 : 2 * first));
        cr_assert_eq(one.receipt.chain, older ? 0 : 3 * first);
        first++;
    }
    cr_assert(gw_reader_done(&reader));
    cr_assert_eq(first, last + 1);
    for (uint64_t cut = 1; cut < 60 && cut < length;
         cut++) { /* bytes that were cut off make no step of their own */
        cr_assert(gw_history_read_begin(&reader, bytes, length - cut, &version));
        uint64_t read = 0;
        while (gw_history_read(&reader, version, &one)) read = one.step;
        cr_assert_lt(read, last + (cut == 0));
    }
    provider.release(provider.context, bytes, length);
}

static void expect_steps(uint64_t after, uint64_t last, uint64_t first) {
    expect_steps_of(false, after, last, first);
    expect_steps_of(true, after, last, first);
}

Test(fetch, the_last_steps_are_told_to_peers_that_did_not_make_them) {
    expect_steps(0, 10, 11);
    for (uint64_t step = 1; step <= 10; step++) make_step(step);
    expect_steps(0, 10, 1);
    expect_steps(7, 9, 8);
    expect_steps(10, 12, 13);
    make_step(5); /* the state went back */
    expect_steps(0, 5, 1);
    expect_steps(5, 10, 11);
    make_step(9); /* steps between are missing */
    expect_steps(0, 9, 9);
    for (uint64_t step = 10; step <= 2 * GW_HISTORY_STEPS; step++) make_step(step);
    expect_steps(0, 2 * GW_HISTORY_STEPS, GW_HISTORY_STEPS + 1);
}

Test(fetch, a_damaged_manifest_is_none) {
    gw_hash root = rig_save_manifest(10, RIG_JOB);
    char path[GW_PATH_BYTES], file[GW_CATALOG_NAME_BYTES];
    cr_assert(gw_durable_path(path, &err, "%s/manifests/%s", scratch_folder(),
                              gw_catalog_name(&server.job_id, 10, &root, file)));
    cr_assert_eq(truncate(path, 40), 0);
    cr_assert_eq(served(10, &root), 0);
}

Test(fetch, a_chunk_that_cannot_be_read_just_now_is_not_said_to_be_absent) {
    gw_store_item item = {.bytes = "sound", .length = 5};
    gw_blake2b(item.bytes, item.length, item.name.bytes, sizeof item.name.bytes);
    const void *bytes;
    uint64_t length;
    cr_assert_eq(look_up(&item.name, &bytes, &length), GW_OP_NOTFOUND);
    cr_assert(gw_store_put(server.store, 1, &item, 1, &err), "%s", err.text);
    char digits[GW_HASH_TEXT], path[GW_PATH_BYTES];
    gw_hex(item.name.bytes, sizeof item.name.bytes, digits);
    cr_assert(gw_durable_path(path, &err, "%s/chunks/%.2s/%s", scratch_folder(), digits, digits));
    make_unreadable(path);
    cr_assert_eq(look_up(&item.name, &bytes, &length), GW_OP_UNAVAILABLE);
}

/* Stores a chunk; returns its name and its file. */
static gw_hash store_chunk(const char *bytes, char path[GW_PATH_BYTES]) {
    gw_store_item item = {.bytes = bytes, .length = (uint32_t)strlen(bytes)};
    gw_blake2b(item.bytes, item.length, item.name.bytes, sizeof item.name.bytes);
    cr_assert(gw_store_put(server.store, 1, &item, 1, &err), "%s", err.text);
    char digits[GW_HASH_TEXT];
    gw_hex(item.name.bytes, sizeof item.name.bytes, digits);
    cr_assert(gw_durable_path(path, &err, "%s/chunks/%.2s/%s", scratch_folder(), digits, digits));
    return item.name;
}

/* The disk failed once to read the chunk, which is sound. */
Test(fetch, what_was_quarantined_for_nothing_is_served) {
    char path[GW_PATH_BYTES], quarantined[GW_PATH_BYTES + 8];
    gw_hash name = store_chunk("sound", path);
    snprintf(quarantined, sizeof quarantined, "%s.damaged", path);
    cr_assert_eq(rename(path, quarantined), 0);
    gw_fetch_provider provider = gw_server_provider(&server);
    const void *bytes;
    uint64_t length;
    cr_assert_eq(look_up(&name, &bytes, &length), GW_OP_OK);
    cr_assert_eq(length, 5);
    cr_assert_arr_eq(bytes, "sound", 5);
    provider.release(provider.context, bytes, length);
}

/* The number of chunks that are said to be here; UINT32_MAX: nothing is said. */
static uint32_t told_held(uint64_t step, const gw_hash *root, uint32_t chunk_count) {
    const gw_hash name = gw_held_name(step, root);
    gw_fetch_provider provider = gw_server_provider(&server);
    const void *bytes;
    uint64_t length;
    gw_set held;
    if (look_up(&name, &bytes, &length) != GW_OP_OK) return UINT32_MAX;
    cr_assert_leq(length, GW_HELD_BYTES(chunk_count));
    cr_assert(gw_held_decode(bytes, length, &held, &err), "%s", err.text);
    cr_assert_not(gw_held_decode(bytes, length - 1, &(gw_set){0}, &err));
    provider.release(provider.context, bytes, length);
    cr_assert_eq(held.size, chunk_count);
    uint32_t count = gw_set_count(&held);
    gw_set_free(&held);
    return count;
}

Test(fetch, a_peer_tells_which_chunks_of_a_checkpoint_it_has) {
    gw_hash zeros = rig_save_zeros(10, RIG_JOB, 3), other = rig_save_zeros(20, RIG_JOB + 1, 3);
    cr_assert_eq(told_held(10, &zeros, 3), 0);
    gw_store_item item = {.bytes = calloc(1, GW_CHUNK_BYTES), .length = GW_CHUNK_BYTES};
    gw_blake2b(item.bytes, item.length, item.name.bytes, sizeof item.name.bytes);
    cr_assert(gw_store_put(server.store, 1, &item, 1, &err), "%s", err.text);
    cr_assert_eq(told_held(10, &zeros, 3), 3, "all three are zeros");
    cr_assert_eq(told_held(11, &zeros, 3), UINT32_MAX, "there is no such checkpoint");
    cr_assert_eq(told_held(20, &other, 3), UINT32_MAX, "another job's");
    free((void *)(uintptr_t)item.bytes);
}

Test(fetch, only_a_hash_is_the_name_of_a_chunk) {
    const gw_hash root = {{1}}, state = gw_state_chunk_name(1, 2, 3), manifest = gw_manifest_name(1, &root),
                  held = gw_held_name(1, &root);
    cr_assert(gw_name_is_chunk(&root));
    cr_assert(!gw_name_is_chunk(&state) && !gw_name_is_chunk(&manifest) && !gw_name_is_chunk(&held));
}

enum { STEP = 10, FINGERPRINT = 5 };

/* A file that a reader cannot open before a writer opens it. */
static gw_hash store_in_pipe(char path[GW_PATH_BYTES]) {
    gw_hash name = store_chunk("held", path);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    return name;
}

static sem_t answers;

static void answered(void *context, gw_lookup *lookup) {
    (void)context, (void)lookup;
    sem_post(&answers);
}

static gw_lookup *ask(gw_provider *provider, const gw_hash *name) {
    gw_lookup *lookup = calloc(1, sizeof *lookup);
    cr_assert_not_null(lookup);
    lookup->name = *name;
    lookup->capacity = GW_CHUNK_BYTES;
    gw_provider_ask(provider, lookup);
    return lookup;
}

static void hold_state(uint64_t fingerprint) {
    engine.state.valid = true;
    engine.state.step = STEP;
    engine.state.print = (gw_state_print){.read = fingerprint};
}

Test(fetch, a_disk_that_does_not_answer_keeps_no_state_from_others, .timeout = 60) {
    char path[GW_PATH_BYTES];
    hold_state(FINGERPRINT);
    gw_hash held = store_in_pipe(path), here = gw_state_chunk_name(STEP, FINGERPRINT, 0);
    gw_fetch_provider source = gw_server_provider(&server);
    cr_assert_eq(sem_init(&answers, 0, 0), 0);
    gw_provider *provider = gw_provider_open(&source, answered, NULL, &err);
    cr_assert_not_null(provider, "%s", err.text);
    gw_lookup *of_chunk = ask(provider, &held);
    int end = open(path, O_WRONLY); /* once the reader waits; the file is empty */
    cr_assert_geq(end, 0);
    gw_lookup *of_state = ask(provider, &here);
    cr_assert_eq(sem_wait(&answers), 0);
    cr_expect_eq(of_state->status, GW_OP_OK);
    cr_expect_eq(of_state->length, RIG_STATE_BYTES);
    cr_expect_neq(gw_provider_files_since(provider), 0, "that of the chunk is under way");
    close(end);
    cr_assert_eq(sem_wait(&answers), 0);
    cr_expect_eq(of_chunk->status, GW_OP_NOTFOUND, "nothing was in it");
    cr_expect_eq(gw_provider_files_since(provider), 0);
    gw_provider_close(provider);
    gw_lookup_free(of_state);
    gw_lookup_free(of_chunk);
}

/* Fingerprint 0 is that of a state of zeros, and does not stand for any state. */
Test(fetch, a_state_is_served_to_who_asks_for_that_one_only) {
    static const uint64_t fingerprints[] = {0, FINGERPRINT};
    const void *bytes;
    uint64_t length;
    for (int own = 0; own < 2; own++) {
        hold_state(fingerprints[own]);
        for (int asked = 0; asked < 2; asked++) {
            const gw_hash name = gw_state_chunk_name(STEP, fingerprints[asked], 0);
            gw_op_status status = look_up(&name, &bytes, &length);
            cr_expect_eq(status, own == asked ? GW_OP_OK : GW_OP_NOTFOUND);
            gw_fetch_provider provider = gw_server_provider(&server);
            if (status == GW_OP_OK) provider.release(provider.context, bytes, length);
        }
    }
}

/* Fetches from a peer whose answers are the test's: each operation ends with the next of these, or waits. */
enum { POSTS = 8 };
static struct {
    const gw_op_status *ends; /* GW_OP_FENCED stands for no answer */
    uint32_t posted, waiting;
    gw_data_op *ops[POSTS];
    void *buffers[POSTS];
} peer;

void __wrap_gw_data_links_post(gw_data_links *links, gw_op *request, gw_data_op *op);
void __wrap_gw_data_links_post(gw_data_links *links, gw_op *request, gw_data_op *op) {
    (void)links;
    gw_op_status status = peer.ends[peer.posted++];
    cr_assert_eq(request->kind, GW_OP_FETCH);
    if (status == GW_OP_FENCED) {
        peer.ops[peer.waiting] = op;
        peer.buffers[peer.waiting++] = request->buffer;
        return;
    }
    if (status == GW_OP_OK) memcpy(request->buffer, "come", 4);
    op->done(op, &(gw_completion){.status = status, .value = 4});
}

static bool fetch_aside(gw_fetcher *fetcher, char bytes[4]) {
    const gw_peer_id id = {{1}};
    const gw_hash name = {{2}};
    uint64_t length = 0;
    return gw_fetch_aside(fetcher, &id, &name, bytes, 4, &length, &err) && length == 4;
}

Test(fetch, what_a_change_of_view_has_abandoned_is_fetched_again) {
    static const gw_op_status ends[] = {GW_OP_UNKNOWN, GW_OP_OK,       GW_OP_UNKNOWN,    GW_OP_UNKNOWN,
                                        GW_OP_UNKNOWN, GW_OP_NOTFOUND, GW_OP_UNREACHABLE};
    gw_fetcher fetcher = {.time_scale_percent = 100};
    char bytes[4];
    peer.ends = ends;
    cr_assert(fetch_aside(&fetcher, bytes), "%s", err.text);
    cr_assert_arr_eq(bytes, "come", 4);
    cr_assert_not(fetch_aside(&fetcher, bytes), "three times in a row");
    cr_assert_eq(err.code, GW_E_PEER);
    cr_assert_not(fetch_aside(&fetcher, bytes));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert_not(fetch_aside(&fetcher, bytes));
    cr_assert_eq(err.code, GW_E_PEER);
    cr_assert_eq(peer.posted, 7);
    cr_assert_eq(atomic_load(&fetcher.aside), 0);
}

/* The patience is a hundredth of the usual. */
Test(fetch, a_silent_peer_is_left_with_memory_of_its_own_and_not_with_much) {
    static const gw_op_status ends[] = {GW_OP_FENCED, GW_OP_FENCED, GW_OP_FENCED, GW_OP_FENCED, GW_OP_OK};
    gw_fetcher fetcher = {.time_scale_percent = 1};
    char bytes[4];
    peer.ends = ends;
    for (uint32_t i = 1; i <= 4; i++) {
        cr_assert_not(fetch_aside(&fetcher, bytes));
        cr_assert_eq(err.code, GW_E_PEER);
        cr_assert_eq(atomic_load(&fetcher.aside), i);
    }
    cr_assert_not(fetch_aside(&fetcher, bytes));
    cr_assert_eq(peer.posted, 4, "the fifth was not begun");
    for (uint32_t i = 0; i < 4; i++) { /* its answers come late */
        memcpy(peer.buffers[i], "late", 4);
        peer.ops[i]->done(peer.ops[i], &(gw_completion){.status = GW_OP_OK, .value = 4});
    }
    cr_assert_eq(atomic_load(&fetcher.aside), 0);
    cr_assert(fetch_aside(&fetcher, bytes), "%s", err.text);
    cr_assert_arr_eq(bytes, "come", 4);
}
