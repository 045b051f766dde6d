/* The peers that a snapshot lists when more are known than it has room for, the age of a snapshot, and the
 * metrics that alarms use. */
#include "tools/godwit/show/snapshot.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t now_ns = 1000000000000;

uint64_t __wrap_gw_now_ns(void);
uint64_t __wrap_gw_now_ns(void) {
    return now_ns;
}

static gw_node_snapshot *snapshot;

static void open_snapshot(void) {
    snapshot = calloc(1, sizeof *snapshot);
    cr_assert_not_null(snapshot);
}

static void close_snapshot(void) {
    free(snapshot);
}

TestSuite(snapshot, .init = open_snapshot, .fini = close_snapshot);

static void add(uint32_t number, const char *state, bool self, bool member) {
    gw_snapshot_peer peer = {.self = self, .member = member};
    memcpy(peer.id.bytes, &number, sizeof number);
    snprintf(peer.state, sizeof peer.state, "%s", state);
    gw_snapshot_add(snapshot, &peer);
}

static uint32_t count(const char *state, bool members) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < snapshot->peer_count; i++)
        found += strcmp(snapshot->peers[i].state, state) == 0 && snapshot->peers[i].member == members;
    return found;
}

Test(snapshot, the_dead_take_no_place_of_the_living) {
    add(0, "alive", true, true);
    for (uint32_t i = 1; i <= 300; i++) add(i, i % 2 == 0 ? "dead" : "left", false, false);
    for (uint32_t i = 301; i <= 310; i++) add(i, "alive", false, true);
    for (uint32_t i = 311; i <= 315; i++) add(i, "suspect", false, false);
    cr_expect_eq(snapshot->peer_count, GW_SNAPSHOT_PEERS);
    cr_expect_eq(count("alive", true), 11, "this peer and ten members");
    cr_expect_eq(count("suspect", false), 5);
    cr_expect_eq(count("dead", false) + count("left", false), GW_SNAPSHOT_PEERS - 16);
}

Test(snapshot, members_come_before_others_that_live) {
    for (uint32_t i = 1; i <= GW_SNAPSHOT_PEERS; i++) add(i, "alive", false, false);
    for (uint32_t i = 1; i < GW_SNAPSHOT_PEERS; i++) add(1000 + i, i == 1 ? "dead" : "alive", false, true);
    add(0, "alive", true, false);
    add(2000, "alive", false, false); /* no peer is of less interest */
    cr_expect_eq(count("alive", true), GW_SNAPSHOT_PEERS - 2);
    cr_expect_eq(count("dead", true), 1, "a member until there is a view without it");
    cr_expect_eq(count("alive", false), 1);
    bool self = false;
    for (uint32_t i = 0; i < snapshot->peer_count; i++) self |= snapshot->peers[i].self;
    cr_expect(self);
}

/* An alarm for checkpoints that are too old must work without any checkpoint, too. */
Test(snapshot, the_age_of_a_checkpoint_is_told_though_there_is_none) {
    snapshot->checkpoint_step = UINT64_MAX;
    snapshot->checkpoint_age_s = 4000.5;
    char *text = gw_snapshot_metrics(snapshot, GW_EXPOSITION_TEXT);
    cr_expect_not_null(strstr(text, "\ngodwit_checkpoint_age_seconds 4000.5\n"), "%s", text);
    cr_expect_null(strstr(text, "godwit_checkpoint_step"), "%s", text);
    free(text);
}

/* The last snapshot of a peer that has ended does not get old. */
Test(snapshot, who_has_ended_is_not_stuck) {
    gw_err err;
    gw_board *board = gw_board_open(&err);
    cr_assert_not_null(board, "%s", err.text);
    cr_expect_not(gw_board_copy(board, snapshot));
    cr_expect_str_eq(snapshot->phase, "", "nor is who has yet to begin");
    snapshot->ended = true;
    strcpy(snapshot->phase, "finished");
    gw_board_publish(board, snapshot);
    now_ns += UINT64_C(60000000000);
    cr_expect(gw_board_copy(board, snapshot));
    cr_expect_str_eq(snapshot->phase, "finished");
    gw_board_close(board);
}
