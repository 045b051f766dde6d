/* The file of known peers while a node runs, by a clock that the test sets. */
#include "scratch.h"
#include "tools/godwit/node/remember.h"

#include <criterion/criterion.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S };

static const gw_peer_id other = {{2}};
static time_t now_s = 1000;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    *now = (struct timespec){.tv_sec = now_s};
    return 0;
}

static uint32_t asked; /* how often the brain was asked for a peer */

bool __wrap_gw_peer_contact_find(const gw_peer *peer, const gw_peer_id *id, gw_peer_contact_info *info);
bool __wrap_gw_peer_contact_find(const gw_peer *peer, const gw_peer_id *id, gw_peer_contact_info *info) {
    (void)peer;
    asked++;
    *info = (gw_peer_contact_info){.id = other, .addr = {.family = 4, .ip = {10, 0, 0, 2}, .port = 7117}};
    return gw_peer_id_equal(id, &other);
}

TestSuite(remember, .init = scratch_open, .fini = scratch_close);

/* A life of a node whose view has one other member. */
typedef struct life {
    gw_directory directory;
    gw_remembering remembering;
    gw_view view;
} life;

static void begin(life *l) {
    gw_err err;
    memset(l, 0, sizeof *l);
    l->view = (gw_view){.epoch = 1, .count = 2};
    l->view.members[0].id = (gw_peer_id){{1}};
    l->view.members[1].id = other;
    cr_assert(gw_directory_open(scratch_path("d"), &l->directory, &err), "%s", err.text);
    l->remembering.directory = &l->directory;
    l->remembering.self = l->view.members[0].id;
    l->remembering.view = &l->view;
    l->remembering.loop = gw_loop_open(&err);
    cr_assert_not_null(l->remembering.loop, "%s", err.text);
    gw_remember_open(&l->remembering, &(gw_hash){{0}}, &(gw_hash){{0}});
    gw_remember_loop(&l->remembering);
}

static void open_disk(life *l) {
    gw_err err;
    l->remembering.disk = gw_helper_open("gw-disk", &err);
    cr_assert_not_null(l->remembering.disk, "%s", err.text);
}

/* Whether a file was written until now. Deletes the file. */
static bool written(life *l) {
    gw_helper_close(l->remembering.disk);
    open_disk(l);
    return unlink(scratch_path("d/known-peers")) == 0;
}

static void pass(life *l, uint32_t hours) {
    for (uint32_t i = 0; i < hours; i++) {
        now_s += HOUR_S;
        gw_loop_turn(l->remembering.loop, 0);
    }
}

static void end(life *l) {
    gw_helper_close(l->remembering.disk);
    gw_timer_cancel(&l->remembering.timer);
    gw_loop_close(l->remembering.loop);
    gw_directory_close(&l->directory);
}

static life one;

Test(remember, a_view_that_nothing_disturbs_is_noted_each_day) {
    begin(&one);
    open_disk(&one);
    gw_remember_note(&one.remembering);
    cr_assert(written(&one));
    pass(&one, 23);
    cr_assert_not(written(&one), "nothing is new");
    pass(&one, 1);
    cr_assert(written(&one));
    for (int day = 0; day < 40; day++) {
        pass(&one, 24);
        cr_assert(written(&one), "day %d", day);
    }
    end(&one);
}

/* The next life may begin after a cut of power to all peers: how long it took, and what the clocks say
 * then, does not count. */
Test(remember, the_next_life_knows_those_of_a_long_and_quiet_one) {
    begin(&one);
    open_disk(&one);
    gw_remember_note(&one.remembering);
    pass(&one, 40 * 24);
    cr_assert_eq(one.remembering.known.peers[0].seen_s, (uint64_t)40 * DAY_S);
    end(&one);
    now_s = 5;
    begin(&one);
    cr_assert_eq(one.remembering.known.count, 1);
    cr_assert_eq(one.remembering.known.peers[0].addr.port, 7117);
    open_disk(&one);
    pass(&one, 24);
    cr_assert(written(&one), "the file's clock goes on");
    cr_assert_eq(one.remembering.known.peers[0].seen_s, (uint64_t)41 * DAY_S);
    end(&one);
}

Test(remember, what_could_not_be_written_is_tried_again) {
    begin(&one);
    open_disk(&one);
    scratch_make_folder("d/known-peers.new"); /* in the way of the file */
    gw_remember_note(&one.remembering);
    cr_assert_not(written(&one));
    cr_assert_eq(rmdir(scratch_path("d/known-peers.new")), 0);
    pass(&one, 1);
    cr_assert(written(&one));
    pass(&one, 1);
    cr_assert_not(written(&one));
    end(&one);
}

/* Many peers may come up within a moment: they are noted together. */
Test(remember, peers_that_come_up_at_once_are_noted_once) {
    begin(&one);
    open_disk(&one);
    asked = 0;
    for (int i = 0; i < 1000; i++) gw_remember_note_soon(&one.remembering);
    cr_expect_eq(asked, 0);
    now_s++;
    gw_loop_turn(one.remembering.loop, 0);
    cr_expect_eq(asked, 1, "%u", asked);
    cr_assert(written(&one));
    pass(&one, 1);
    cr_expect_eq(asked, 2, "the look of each hour goes on");
    end(&one);
}
