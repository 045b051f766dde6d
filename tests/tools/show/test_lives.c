/* A peer whose next life is refused stays dead, and one that leaves has left. */
#include "tools/godwit/show/lives.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static gw_lives lives;

static gw_snapshot_peer look(const char *state, uint64_t boot, bool member, uint64_t view) {
    gw_snapshot_peer peer = {.id = {{7}}, .boot = boot, .member = member, .gone = (double)boot * 100};
    snprintf(peer.state, sizeof peer.state, "%s", state);
    gw_lives_look(&lives, &peer, view);
    return peer;
}

Test(lives, a_lost_peer_whose_next_life_is_refused_stays_dead) {
    look("alive", 1, true, 3);
    cr_expect_not(look("dead", 1, true, 3).in_vain);
    cr_expect_str_eq(look("alive", 2, true, 3).state, "alive"); /* The old view is in force. */
    cr_expect_str_eq(look("alive", 2, false, 4).state, "alive");
    gw_lives_left(&lives, &(gw_peer_id){{7}}, 2);
    gw_snapshot_peer peer = look("left", 2, false, 4);
    cr_expect_str_eq(peer.state, "dead");
    cr_expect(peer.in_vain);
    cr_expect_eq(peer.gone, 100.0, "since the loss");
    cr_expect_str_eq(look("alive", 3, false, 4).state, "alive");
    look("alive", 3, true, 5);
    cr_expect_str_eq(look("left", 3, false, 6).state, "left", "that life took part");
}

Test(lives, a_peer_that_leaves_has_left) {
    look("alive", 1, true, 3);
    cr_expect_str_eq(look("left", 1, false, 4).state, "left");
    gw_snapshot_peer peer = look("left", 2, false, 4); /* A refused life after that changes nothing. */
    cr_expect_str_eq(peer.state, "left");
    cr_expect_not(peer.in_vain);
}

Test(lives, a_farewell_that_no_look_has_seen_counts) {
    look("alive", 1, true, 3);
    gw_lives_left(&lives, &(gw_peer_id){{7}}, 1);
    cr_expect_str_eq(look("left", 2, false, 4).state, "left");
}

Test(lives, a_peer_that_never_took_part_is_shown_as_it_is) {
    cr_expect_str_eq(look("left", 1, false, 3).state, "left");
    cr_expect_str_eq(look("unreachable", 1, false, 3).state, "unreachable");
}
