/* Loads: the progress of a large one shows, and one from a checkpoint that fails reports which chunks here
 * are sound. */
#include "address_space.h"
#include "core/state/chunk.h"
#include "core/state/exact.h"
#include "scratch.h"
#include "tests/tools/weights/manifest_rig.h"
#include "tools/godwit/work/load.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 3 };

static gw_layout layout;
static gw_device device = {.layout = &layout};
static gw_fetcher fetcher = {.time_scale_percent = 100};
static gw_engine engine = {.device = &device};
static gw_loader loader = {.engine = &engine, .fetcher = &fetcher, .replicas = 1, .best_by = "loss:min"};
static gw_err err;
static bool away[PEERS];     /* the peer cannot be reached; otherwise it has no manifest */
static const uint8_t *state; /* the state that all peers serve, under `fingerprint`; NULL: none has one */
static uint64_t fingerprint;
static gw_mail *mail;      /* the mail for the brain that was posted last */
static gw_hash wrong;      /* the chunk for which all peers send wrong bytes */
static gw_peer_id told[8]; /* the peers that were reported for wrong bits */
static uint32_t told_count;
static uint32_t gives_after
    [PEERS]; /* by peer: it serves zeros, but fails to answer so many requests first; 0: it is not so */
static _Atomic uint32_t asked_of[PEERS];

bool __wrap_gw_fetch(gw_fetcher *of, const gw_peer_id *peer, const gw_hash *name, void *bytes,
                     uint64_t capacity, uint64_t *length, gw_err *why);
bool __wrap_gw_data_links_wait(gw_data_links *data_links, const gw_peer_id *members, uint32_t count,
                               const gw_peer_id *self, const atomic_bool *stop, uint64_t patience_ns,
                               gw_peer_id *missing);

bool __wrap_gw_fetch(gw_fetcher *of, const gw_peer_id *peer, const gw_hash *name, void *bytes,
                     uint64_t capacity, uint64_t *length, gw_err *why) {
    (void)of;
    *length = 0;
    if (gives_after[peer->bytes[0]] != 0) {
        if (atomic_fetch_add(&asked_of[peer->bytes[0]], 1) + 1 < gives_after[peer->bytes[0]])
            return gw_fail(why, GW_E_PEER, "silent");
        memset(bytes, 0, capacity);
        *length = capacity;
        return true;
    }
    if (gw_hash_equal(name, &wrong)) {
        memset(bytes, 0, capacity);
        *length = capacity;
        return true;
    }
    for (uint32_t i = 0; state != NULL && i < gw_chunk_count(layout.image_bytes); i++) {
        gw_hash own = gw_state_chunk_name(5, fingerprint, i);
        if (!gw_hash_equal(&own, name)) continue;
        memcpy(bytes, state + gw_chunk_offset(i), capacity);
        *length = capacity;
        return true;
    }
    return gw_fail(why, away[peer->bytes[0]] ? GW_E_PEER : GW_E_NOTFOUND, "nothing");
}

bool __wrap_gw_data_links_wait(gw_data_links *data_links, const gw_peer_id *members, uint32_t count,
                               const gw_peer_id *self, const atomic_bool *stop, uint64_t patience_ns,
                               gw_peer_id *missing) {
    (void)data_links, (void)members, (void)count, (void)self, (void)stop, (void)patience_ns, (void)missing;
    return true;
}

/* The compute helper carries out a task at once. */
void __wrap_gw_helper_give(gw_helper *helper, gw_helper_task *run, void *task);
void __wrap_gw_helper_give(gw_helper *helper, gw_helper_task *run, void *task) {
    (void)helper;
    run(task);
}

void __wrap_gw_mailbox_post(gw_mailbox *box, gw_mail *posted);
void __wrap_gw_mailbox_post(gw_mailbox *box, gw_mail *posted) {
    (void)box;
    if (posted->event.kind != 0) {
        mail = posted;
        return;
    }
    cr_assert_str_eq(posted->text, "it sent other bytes than those of chunk 0 of the checkpoint of step 5");
    cr_assert_lt(told_count, 8);
    told[told_count++] = posted->event.peer;
    gw_mail_free(posted);
}

void __wrap_gw_saver_staged(gw_saver *saver);
void __wrap_gw_saver_staged(gw_saver *saver) {
    (void)saver;
}

void __wrap_gw_workers_wait_idle(gw_workers *pool);
void __wrap_gw_workers_wait_idle(gw_workers *pool) {
    (void)pool;
}

static void setup(void) {
    scratch_open();
    layout = (gw_layout){.image_bytes = RIG_STATE_BYTES};
    loader.job_id = (gw_hash){{RIG_JOB}};
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, NULL, &loader.store, &err), "%s", err.text);
}

static void teardown(void) {
    gw_store_close(loader.store);
    scratch_close();
}

TestSuite(load, .init = setup, .fini = teardown);

/* A peer that cannot be reached may have the manifest, which may name chunks that are here: these are not
 * given up. */
Test(load, only_a_manifest_that_nobody_has_makes_chunks_here_useless) {
    gw_peer_id peers[PEERS] = {{{0}}, {{1}}, {{2}}};
    loader.self = peers[0];
    for (uint32_t k = 0; k < 4; k++) {
        uint8_t image[RIG_STATE_BYTES];
        gw_load load = {
            .loader = &loader, .kind = GW_LOAD_MANIFEST, .step = 5, .peers = peers, .count = PEERS};
        away[1] = k & 1;
        away[2] = k & 2;
        cr_assert_not(gw_load_from_checkpoint(&load, image, &err));
        cr_assert_eq(load.sound.size, k == 0 ? 1 : 0, "%u: told of %u chunks", k, load.sound.size);
        cr_assert_eq(gw_set_count(&load.sound), 0);
        gw_set_free(&load.sound);
    }
}

/* A disk that fails to read the manifest. */

static uint32_t refused; /* files that cannot be opened */

static int open_or_not(gw_io *io, const char *path, int flags, mode_t mode) {
    if (refused == 0) return gw_io_system()->open(io, path, flags, mode);
    refused--;
    errno = EMFILE;
    return -1;
}

/* A manifest that cannot be opened now may exist all the same. */
Test(load, a_manifest_that_cannot_be_read_just_now_may_name_chunks_here) {
    gw_io io = *gw_io_system();
    io.open = open_or_not;
    gw_store_close(loader.store);
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, &io, &loader.store, &err), "%s", err.text);
    const gw_hash root = rig_save_manifest(5, RIG_JOB);
    refused = 1;
    gw_load load = {.loader = &loader, .kind = GW_LOAD_MANIFEST, .step = 5, .root = root};
    cr_assert_not(gw_load_from_checkpoint(&load, NULL, &err));
    cr_assert_eq(refused, 0);
    cr_assert_eq(load.sound.size, 0, "told of %u chunks", load.sound.size);
}

/* Little memory. */

/* There is no memory for a whole chunk; the only chunk is shorter, and nobody has it. */
Test(load, a_small_state_needs_no_room_for_a_large_one) {
    uint8_t image[RIG_STATE_BYTES];
    gw_load load = {
        .loader = &loader, .kind = GW_LOAD_MANIFEST, .step = 5, .root = rig_save_manifest(5, RIG_JOB)};
    leave_address_space(GW_CHUNK_BYTES / 2);
    cr_assert_not(gw_load_from_checkpoint(&load, image, &err));
    cr_expect_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
    cr_expect_eq(load.sound.size, 1);
    cr_expect_eq(gw_set_count(&load.sound), 0);
    gw_set_free(&load.sound);
}

/* Holders that send other bytes. */

Test(load, who_sends_other_bytes_of_a_chunk_is_told) {
    gw_peer_id peers[PEERS] = {{{0}}, {{1}}, {{2}}};
    gw_set inventories[PEERS];
    uint8_t image[RIG_STATE_BYTES];
    for (uint32_t i = 0; i < PEERS; i++) {
        inventories[i] = gw_set_of(1);
        gw_set_add(&inventories[i], 0);
    }
    wrong = (gw_hash){{1, 2, 3}};
    loader.self = peers[0];
    gw_load load = {.loader = &loader,
                    .kind = GW_LOAD_MANIFEST,
                    .step = 5,
                    .root = rig_save_manifest(5, RIG_JOB),
                    .peers = peers,
                    .count = PEERS,
                    .inventories = inventories};
    cr_assert_not(gw_load_from_checkpoint(&load, image, &err));
    cr_assert_not_null(strstr(err.text, "hash differs"), "%s", err.text);
    cr_assert_eq(told_count, 2);
    cr_assert(gw_peer_id_equal(&told[0], &peers[1]) && gw_peer_id_equal(&told[1], &peers[2]));
    gw_set_free(&load.sound);
    for (uint32_t i = 0; i < PEERS; i++) gw_set_free(&inventories[i]);
}

/* Holders that do not answer. */

enum { CHUNKS = 24, AT_ONCE = 8 };

static bool keeps;               /* 1: all chunks are to be kept here; 0: none */
static uint32_t said_to_be_here; /* chunks that are sound here after a load that succeeded */

/* Loads a checkpoint whose chunks are all held by the second and the third peer, or by those of them that
 * answer. */
static bool load_zeros(void) {
    gw_peer_id peers[PEERS] = {{{0}}, {{1}}, {{2}}};
    gw_set inventories[PEERS] = {gw_set_of(CHUNKS), gw_set_of(CHUNKS), gw_set_of(CHUNKS)};
    for (uint32_t i = 1; i < PEERS; i++)
        if (gives_after[i] != 0) gw_set_fill(&inventories[i]);
    layout.image_bytes = (uint64_t)CHUNKS * GW_CHUNK_BYTES;
    uint8_t *image = malloc(layout.image_bytes);
    cr_assert_not_null(image);
    loader.self = peers[0];
    gw_load load = {.loader = &loader,
                    .kind = GW_LOAD_MANIFEST,
                    .step = 5,
                    .root = rig_save_zeros(5, RIG_JOB, CHUNKS),
                    .peers = peers,
                    .count = PEERS,
                    .inventories = inventories,
                    .members = keeps ? peers : peers + 1,
                    .member_count = keeps ? 1 : PEERS - 1};
    bool good = gw_load_from_checkpoint(&load, image, &err);
    cr_assert_eq(load.sound.size, CHUNKS);
    said_to_be_here = gw_set_count(&load.sound);
    gw_set_free(&load.sound);
    for (uint32_t i = 0; i < PEERS; i++) gw_set_free(&inventories[i]);
    free(image);
    return good;
}

/* A holder whose disk hangs: each chunk that is asked of it takes ten seconds. */
Test(load, who_does_not_answer_is_asked_after_those_who_do) {
    gives_after[1] = UINT32_MAX;
    gives_after[2] = 1;
    cr_assert(load_zeros(), "%s", err.text);
    cr_expect_leq(atomic_load(&asked_of[1]), AT_ONCE);
    cr_expect_eq(atomic_load(&asked_of[2]), CHUNKS);
}

Test(load, who_alone_holds_a_chunk_is_asked_for_it_once_more) {
    gives_after[1] = 2;
    cr_assert(load_zeros(), "%s", err.text);
    cr_expect_geq(atomic_load(&asked_of[1]), CHUNKS + 1);
}

/* If the state in memory is lost, the peer goes on from these chunks. */
Test(load, what_was_kept_of_it_is_told_to_be_here) {
    gives_after[1] = gives_after[2] = 1;
    cr_assert(load_zeros(), "%s", err.text);
    cr_expect_eq(said_to_be_here, 0);
    keeps = true;
    cr_assert(load_zeros(), "%s", err.text);
    cr_expect_eq(said_to_be_here, CHUNKS);
}

/* A large state. */

static uint8_t *written; /* the state of the device */

static bool write_state(gw_device *of, uint64_t offset, uint64_t bytes, const void *from, gw_err *why) {
    (void)of, (void)why;
    memcpy(written + offset, from, bytes);
    return true;
}

/* Two tensors; the second does not begin at a word of the image, and only apply reads it. */
static uint64_t lay_out(gw_layout_tensor of[2], uint64_t first_bytes, uint64_t bytes) {
    static const gw_tensor tensors[2] = {{.role = GW_STATE}, {.role = GW_STATE, .apply_only = true}};
    of[0] = (gw_layout_tensor){.bytes = first_bytes};
    of[1] = (gw_layout_tensor){
        .bytes = bytes - first_bytes, .image_offset = first_bytes, .first_word = (first_bytes + 7) / 8};
    layout = (gw_layout){.tensors = tensors, .tensor_count = 2, .of = of, .image_bytes = bytes};
    return gw_exact_state_fingerprint(0, first_bytes, state) +
           gw_exact_state_fingerprint(of[1].first_word, of[1].bytes, state + first_bytes);
}

/* Runs a load; the caller frees its mail. */
static void load_from_donors(void) {
    loader.history = gw_history_open(&err);
    cr_assert_not_null(loader.history);
    static const gw_device_ops ops = {.state_write = write_state};
    gw_peer_id donors[PEERS] = {{{0}}, {{1}}, {{2}}};
    device.ops = &ops;
    gw_action action = {.kind = GW_ACT_LOAD,
                        .load.kind = GW_LOAD_PEERS,
                        .step = 5,
                        .load.fingerprint = fingerprint,
                        .load.source_count = PEERS,
                        .load.sources = donors};
    pthread_rwlock_init(&engine.state.lock, NULL);
    gw_loader_begin(&loader, &(gw_view){0}, &action);
    pthread_rwlock_destroy(&engine.state.lock);
    gw_history_close(loader.history);
}

/* After the last chunk of a large state there is still much to do, and the flock waits for it. */
Test(load, of_a_large_state_is_seen_to_get_on_behind_its_last_chunk) {
    const uint64_t bytes = (UINT64_C(128) << 20) + 100;
    uint8_t *image = malloc(bytes);
    written = calloc(1, bytes);
    cr_assert(image != NULL && written != NULL);
    for (uint64_t i = 0; i < bytes; i++) image[i] = (uint8_t)(i * i >> 7);
    state = image;
    gw_layout_tensor of[2];
    fingerprint = lay_out(of, 13, bytes);
    load_from_donors();
    cr_assert_eq(mail->event.outcome, GW_DONE, "%s", mail->event.text);
    cr_assert_eq(mail->event.loaded.fingerprint, fingerprint);
    cr_assert_eq(engine.state.print.read, gw_exact_state_fingerprint(0, 13, image));
    cr_assert_eq(engine.state.print.rest, fingerprint - engine.state.print.read);
    cr_assert_eq(memcmp(written, image, bytes), 0);
    const uint32_t chunks = gw_chunk_count(bytes);
    cr_assert_gt(atomic_load(&engine.pieces), chunks + 2, "of %u chunks", chunks);
    gw_mail_free(mail);
    free(written);
    free(image);
}

/* A fingerprint of 0 is one like any other. A bit of the state flipped in the memory of its donor. */
Test(load, a_state_of_zeros_is_checked_as_others_are) {
    enum { BYTES = 100 };
    uint8_t image[BYTES] = {0};
    gw_layout_tensor of[2];
    written = calloc(1, BYTES);
    cr_assert_not_null(written);
    state = image;
    fingerprint = lay_out(of, 13, BYTES);
    cr_assert_eq(fingerprint, 0);
    load_from_donors();
    cr_assert_eq(mail->event.outcome, GW_DONE, "%s", mail->event.text);
    gw_mail_free(mail);
    image[50] = 1;
    load_from_donors();
    cr_assert_eq(mail->event.outcome, GW_FAILED);
    cr_assert_not_null(strstr(mail->event.text, "instead of 0000000000000000"), "%s", mail->event.text);
    cr_assert_eq(written[50], 0);
    gw_mail_free(mail);
    free(written);
}
