/* The file of known peers while a node runs, by a clock of the test's. */
#include "scratch.h"
#include "tools/godwit/node/inside.h"

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

bool __wrap_gw_peer_contact_at(const gw_peer *peer, uint32_t index, gw_peer_contact_info *info);
bool __wrap_gw_peer_contact_at(const gw_peer *peer, uint32_t index, gw_peer_contact_info *info) {
    (void)peer;
    *info = (gw_peer_contact_info){.id = other, .addr = {.family = 4, .ip = {10, 0, 0, 2}, .port = 7117}};
    return index == 0;
}

TestSuite(remember, .init = scratch_open, .fini = scratch_close);

/* A life of a node whose view has one other member. */
typedef struct life {
    gw_run_options options;
    gw_node node;
    gw_peer_config config;
} life;

static void begin(life *l) {
    gw_err err;
    memset(l, 0, sizeof *l);
    l->options.dir = scratch_folder();
    l->node.options = &l->options;
    l->node.self.id = (gw_peer_id){{1}};
    l->node.view = (gw_view){.epoch = 1, .count = 2};
    l->node.view.members[0].id = l->node.self.id;
    l->node.view.members[1].id = other;
    l->node.loop = gw_loop_open(&err);
    cr_assert_not_null(l->node.loop, "%s", err.text);
    gw_node_recall(&l->node, &l->config);
    gw_node_remember_loop(&l->node);
}

static void open_disk(life *l) {
    gw_err err;
    l->node.disk = gw_helper_open("gw-disk", &err);
    cr_assert_not_null(l->node.disk, "%s", err.text);
}

/* Whether a file was written until now; it is gone then. */
static bool written(life *l) {
    gw_helper_close(l->node.disk);
    open_disk(l);
    return unlink(scratch_path("known-peers")) == 0;
}

static void pass(life *l, uint32_t hours) {
    for (uint32_t i = 0; i < hours; i++) {
        now_s += HOUR_S;
        gw_loop_turn(l->node.loop, 0);
    }
}

static void end(life *l) {
    gw_helper_close(l->node.disk);
    gw_timer_cancel(&l->node.remembering.timer);
    gw_loop_close(l->node.loop);
}

static life one;

Test(remember, a_view_that_nothing_disturbs_is_noted_each_day) {
    begin(&one);
    open_disk(&one);
    gw_node_remember(&one.node, &one.node.view);
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

/* As after a cut of power to all; how long that took, and what the clocks say then, does not count. */
Test(remember, the_next_life_knows_those_of_a_long_and_quiet_one) {
    begin(&one);
    open_disk(&one);
    gw_node_remember(&one.node, &one.node.view);
    pass(&one, 40 * 24);
    cr_assert_eq(one.node.remembering.known.peers[0].seen_s, (uint64_t)40 * DAY_S);
    end(&one);
    now_s = 5;
    begin(&one);
    cr_assert_eq(one.config.known_count, 1);
    cr_assert_eq(one.config.known[0].port, 7117);
    open_disk(&one);
    pass(&one, 24);
    cr_assert(written(&one), "the file's clock goes on");
    cr_assert_eq(one.node.remembering.known.peers[0].seen_s, (uint64_t)41 * DAY_S);
    end(&one);
}

Test(remember, what_could_not_be_written_is_tried_again) {
    begin(&one);
    open_disk(&one);
    one.options.dir = "/nonexistent";
    gw_node_remember(&one.node, &one.node.view);
    cr_assert_not(written(&one));
    one.options.dir = scratch_folder();
    pass(&one, 1);
    cr_assert(written(&one));
    pass(&one, 1);
    cr_assert_not(written(&one));
    end(&one);
}
