/* The checkpoints that a peer shows, and what it costs to show that a peer died. */
#include "tools/godwit/node/publish.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { CHUNKS = 5 };

static const gw_layout layout = {.image_bytes = CHUNKS * (uint64_t)GW_CHUNK_BYTES};
static gw_device device = {.layout = &layout};
static gw_console console;
static gw_engine engine = {.device = &device};
static gw_network network;
static gw_publisher *publisher;

static void setup(void) {
    gw_err err;
    const gw_run_options quiet = {.quiet = true};
    const gw_saver_options options = {.device = &device, .job_name = "test"};
    publisher = calloc(1, sizeof *publisher);
    cr_assert_not_null(publisher);
    publisher->of = (gw_published){.console = &console, .engine = &engine, .network = &network};
    cr_assert(gw_console_open(&quiet, &console, &err), "%s", err.text);
    engine.saver = gw_saver_open(&options, &err);
    cr_assert_not_null(engine.saver, "%s", err.text);
}

static void teardown(void) {
    gw_saver_close(engine.saver);
    gw_console_close(&console);
    free(publisher);
}

TestSuite(publish, .init = setup, .fini = teardown);

enum { CONTACTS = 100 };
static uint32_t visited;

bool __wrap_gw_peer_contact_at(const gw_peer *peer, uint32_t index, gw_peer_contact_info *info);
bool __wrap_gw_peer_contact_at(const gw_peer *peer, uint32_t index, gw_peer_contact_info *info) {
    (void)peer;
    visited++;
    *info = (gw_peer_contact_info){
        .id = {{(uint8_t)index}}, .addr = {.family = 4, .ip = {10, 0, 0, 1}, .port = 7117}, .state = "alive"};
    return index < CONTACTS;
}

bool __wrap_gw_peer_contact_find(const gw_peer *peer, const gw_peer_id *id, gw_peer_contact_info *info);
bool __wrap_gw_peer_contact_find(const gw_peer *peer, const gw_peer_id *id, gw_peer_contact_info *info) {
    uint32_t before = visited;
    bool found = __wrap_gw_peer_contact_at(peer, id->bytes[0], info);
    visited = before;
    return found;
}

/* Each peer has a notice of its own: a search among all peers for each would be quadratic when many die. */
Test(publish, a_peer_that_died_is_not_searched_among_all) {
    for (uint8_t i = 0; i < CONTACTS; i++)
        gw_publish_notice(
            publisher,
            &(gw_action){.kind = GW_ACT_NOTICE, .notice.kind = GW_NOTICE_PEER_DEAD, .peer = {{i}}});
    cr_expect_eq(visited, 0, "%u contacts were looked at", visited);
}

static void save(uint64_t step, uint32_t chunks, bool hash_only) {
    gw_publish_save(
        publisher,
        &(gw_action){.kind = GW_ACT_SAVE, .step = step, .save.count = chunks, .save.hash_only = hash_only});
}

static void complete(uint64_t step) {
    gw_publish_notice(publisher, &(gw_action){.kind = GW_ACT_NOTICE,
                                              .notice.kind = GW_NOTICE_CHECKPOINT,
                                              .step = step,
                                              .notice.checkpoint.root = {{(uint8_t)step}}});
}

static void expect_shown(uint32_t at, uint64_t step, uint32_t held) {
    cr_assert_gt(publisher->checkpoints.count, at);
    const gw_snapshot_checkpoint *one = &publisher->checkpoints.list[at];
    cr_expect_eq(one->step, step);
    cr_expect_eq(one->held, held, "step %lu: %u", step, one->held);
    cr_expect_eq(one->chunks, CHUNKS);
}

static bool is_complete(uint32_t at) {
    return publisher->checkpoints.list[at].complete;
}

Test(publish, of_a_checkpoint_its_own_chunks_are_shown_though_the_next_has_begun) {
    save(10, 3, false);
    save(20, 5, false);
    complete(10);
    expect_shown(0, 10, 3);
    save(20, 5, true); /* the disk of this peer is full */
    complete(20);
    expect_shown(0, 20, 0);
    expect_shown(1, 10, 3);
    for (uint64_t step = 30; step <= 100; step += 10) save(step, (uint32_t)step / 20, false);
    complete(90);
    expect_shown(0, 90, 4);
}

/* The notice that the checkpoint is complete comes late, to a peer that was started again meanwhile. */
Test(publish, of_a_checkpoint_of_an_earlier_life_is_shown_what_was_found) {
    gw_inventory found[] = {{.step = 10, .root = {{10}}, .chunks = gw_set_of(CHUNKS)},
                            {.step = 5, .root = {{5}}, .chunks = gw_set_of(CHUNKS)}};
    gw_set_add(&found[0].chunks, 1);
    gw_set_add(&found[0].chunks, 4);
    gw_publish_inventory(publisher, found, 2);
    save(20, 5, false);
    complete(10);
    expect_shown(0, 10, 2);
    expect_shown(1, 5, 0);
    cr_expect_eq(publisher->checkpoints.count, 2, "once");
    cr_expect(is_complete(0));
    cr_expect_not(is_complete(1), "nobody has said so");
    for (int i = 0; i < 2; i++) gw_set_free(&found[i].chunks);
}

Test(publish, what_was_found_whole_is_complete_whoever_says_so) {
    gw_inventory found = {.step = 10, .root = {{10}}, .chunks = gw_set_of(CHUNKS)};
    for (uint32_t i = 0; i < CHUNKS; i++) gw_set_add(&found.chunks, i);
    gw_publish_inventory(publisher, &found, 1);
    expect_shown(0, 10, CHUNKS);
    cr_expect(is_complete(0));
    gw_set_free(&found.chunks);
}
