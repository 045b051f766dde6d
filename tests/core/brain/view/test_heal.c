/* Two or more views of one job, after the network has been in parts: they become one, whatever happens
 * meanwhile. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 400000, STEPS = 400, MANY_VIEWS = 48 };

/* Cuts or mends everything between peers of different sides. */
static void part(flock *f, const int *side, bool apart) {
    for (uint32_t a = 0; a < f->count; a++)
        for (uint32_t b = 0; b < a; b++) {
            if (side[a] == side[b]) continue;
            if (apart)
                flock_cut(f, a, b, true);
            else
                flock_mend(f, a, b);
        }
}

static uint32_t views(const flock *f) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        bool new = !f->peers[i].finished &&flock_view(f, i) != NULL;
        for (uint32_t k = 0; k < i && new; k++) {
            if (f->peers[k].finished || flock_view(f, k) == NULL) continue;
            new = !gw_view_name_equal(&flock_view(f, k)->name, &flock_view(f, i)->name);
        }
        count += new;
    }
    return count;
}

static uint32_t sides; /* for the conditions below */

static bool each_side_has_a_view(const flock *f) {
    bool computing = true;
    for (uint32_t i = 0; i < f->count; i++) {
        const gw_view *view = flock_view(f, i);
        computing &= view != NULL && view->count < f->count;
    }
    return computing && views(f) == sides;
}

static bool one_view(const flock *f) {
    return views(f) == 1;
}

/* Opens a flock in parts, each of which has a view, and then joins the parts. */
static void open_parts(flock *f, uint32_t count, const int *side) {
    flock_open(f, count, count, STEPS, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < count; i++) f->peers[i].seal_ns = 20000000 + 3000000 * i;
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    sides = 0;
    for (uint32_t i = 0; i < count; i++)
        sides = (uint32_t)side[i] + 1 > sides ? (uint32_t)side[i] + 1 : sides;
    part(f, side, true);
    cr_assert(flock_run(f, each_side_has_a_view, MOST_EVENTS));
    cr_assert(!flock_run(f, NULL, 3000), "they go on apart");
    part(f, side, false);
}

static void heal(uint32_t count, const int *side) {
    flock f;
    open_parts(&f, count, side);
    cr_assert(flock_run(&f, one_view, MOST_EVENTS));
    uint32_t told = 0;
    for (uint32_t i = 0; i < count; i++)
        told += flock_said(&f, i, "since they parted is computed there as well");
    cr_expect_gt(told, 0, "the part that was behind tells what becomes of its steps");
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, count);
    flock_close(&f);
}

Test(peer_heal, parts_of_any_size_become_one) {
    heal(2, (int[]){0, 1});
    heal(4, (int[]){0, 0, 1, 1});
    heal(5, (int[]){0, 1, 1, 1, 0});
    heal(5, (int[]){0, 0, 0, 0, 1});
    heal(6, (int[]){0, 0, 1, 1, 2, 2});
    heal(6, (int[]){0, 1, 1, 2, 2, 2});
}

static bool all_have_views(const flock *f) {
    return views(f) == f->count;
}

/* More views than one proposal can name; each peer is a flock of its own. */
Test(peer_heal, more_views_than_fit_one_proposal_become_one_in_turns) {
    flock f;
    int side[MANY_VIEWS];
    flock_open(&f, MANY_VIEWS, 1, 100000, GW_QUORUM_ANY);
    for (int i = 0; i < MANY_VIEWS; i++) {
        side[i] = i;
        f.peers[i].seal_ns = 200000000;
    }
    cr_assert_gt((int)MANY_VIEWS, GW_MAX_ABSORBED + 1);
    f.message_ns = 20000000;
    part(&f, side, true);
    flock_start_all(&f);
    cr_assert(flock_run(&f, all_have_views, MOST_EVENTS));
    part(&f, side, false);
    uint64_t began = f.now;
    cr_assert(flock_run(&f, one_view, MOST_EVENTS), "%u views", views(&f));
    cr_assert_lt(f.now - began, UINT64_C(5000000000));
    flock_close(&f);
}

/* ---- deaths while a view offers itself ---- */

/* The leader of the view that `i` lives in. */
static uint32_t leader_of(const flock *f, uint32_t i) {
    for (uint32_t k = 0; k < f->count; k++)
        if (gw_peer_id_equal(&flock_status(f, i).view->leader, &f->peers[k].config.id)) return k;
    cr_assert_fail("a leader that is none of the flock");
    return 0;
}

static void heal_while_one_dies(uint32_t events, bool leader, int of) {
    const int side[] = {0, 0, 0, 1, 1, 1};
    flock f;
    open_parts(&f, 6, side);
    flock_run(&f, one_view, events);
    uint32_t victim = leader_of(&f, of == 0 ? 0 : 3);
    if (!leader) victim = victim < 3 ? (victim + 1) % 3 : 3 + (victim + 1) % 3;
    flock_kill(&f, victim);
    cr_assert(flock_run(&f, one_view, MOST_EVENTS), "%u events, peer %u", events, victim);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 5);
    flock_close(&f);
}

Test(peer_heal, a_death_on_either_side_does_not_keep_them_apart) {
    for (uint32_t events = 1; events < 1000; events += 199)
        for (int of = 0; of < 2; of++) {
            heal_while_one_dies(events, true, of);
            heal_while_one_dies(events, false, of);
        }
}

/* ---- offers that cross ---- */

static gw_hash job_of(const flock *f) {
    gw_hash job;
    gw_blake2b(f->peers[0].config.identity, strlen(f->peers[0].config.identity), job.bytes, 32);
    return job;
}

/* The other leader offers its view, too, under a name that is higher than any or lower. */
static void offer_back(flock *f, uint32_t to, uint32_t from, bool higher) {
    if (!f->peers[to].linked[from] || flock_status(f, from).view == NULL) return;
    gw_view view = *flock_status(f, from).view;
    gw_message m = {.kind = GW_MSG_JOIN,
                    .job = job_of(f),
                    .epoch = view.epoch,
                    .join.newcomers = &view,
                    .join.whole_view = true};
    memset(m.name.bytes, higher ? 0xFF : 0, sizeof m.name.bytes);
    m.name.bytes[15] = 1;
    uint8_t *bytes;
    size_t length = gw_message_encode(&m, &bytes);
    flock_tell(f, to,
               (gw_event){.kind = GW_EV_MESSAGE,
                          .peer = f->peers[from].config.id,
                          .message.bytes = bytes,
                          .message.length = length});
    free(bytes);
}

static bool one_offers(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].offers > 0) return true;
    return false;
}

static void cross(bool higher) {
    const int side[] = {0, 0, 1, 1};
    flock f;
    open_parts(&f, 4, side);
    cr_assert(flock_run(&f, one_offers, MOST_EVENTS));
    uint32_t from = leader_of(&f, 0), to = leader_of(&f, 2);
    if (f.peers[from].offers == 0) from = to, to = leader_of(&f, 0);
    cr_assert_neq(from, to);
    offer_back(&f, from, to, higher);
    cr_assert(flock_run(&f, one_view, MOST_EVENTS));
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}

Test(peer_heal, offers_that_cross_end_in_one_view) {
    cross(true);
    cross(false);
}

/* ---- one side stops ---- */

/* From the third on, in a view of so many. */
static bool end_in_view_of(const flock *f, uint32_t count) {
    for (uint32_t i = 2; i < 2 + count; i++) {
        gw_peer_status status = flock_status(f, i);
        if (strcmp(status.phase, "writing the final checkpoint") != 0 || status.view->count != count)
            return false;
    }
    return true;
}

static bool four_end(const flock *f) {
    return end_in_view_of(f, 4);
}

static bool three_end(const flock *f) {
    return end_in_view_of(f, 3);
}

static bool two_are_as_far(const flock *f) {
    return f->peers[0].step == f->peers[2].step && f->peers[1].step == f->peers[2].step;
}

static void set_seal_ns(flock *f, uint32_t from, uint32_t to, uint64_t seal_ns) {
    for (uint32_t i = from; i < to; i++) f->peers[i].seal_ns = seal_ns;
}

/* Four have stopped, and three of them store the last state; the other two hold the same, and know of no
 * stop. */
Test(peer_heal, what_some_took_for_the_last_state_goes_on_with_those_who_did_not) {
    const int side[] = {0, 0, 1, 1, 1, 1};
    flock f;
    flock_open(&f, 6, 6, STEPS, GW_QUORUM_ANY);
    set_seal_ns(&f, 0, 6, 20000000);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    set_seal_ns(&f, 0, 2, 1000000000);
    part(&f, side, true);
    sides = 2;
    cr_assert(flock_run(&f, each_side_has_a_view, MOST_EVENTS));
    for (uint32_t i = 2; i < 6; i++) f.peers[i].save_ns = UINT64_C(30000000000);
    flock_tell(&f, leader_of(&f, 2), (gw_event){.kind = GW_EV_STOP});
    cr_assert(flock_run(&f, four_end, MOST_EVENTS));
    flock_kill(&f, 5);
    cr_assert(flock_run(&f, three_end, MOST_EVENTS));
    set_seal_ns(&f, 0, 2, 20000000);
    cr_assert(flock_run(&f, two_are_as_far, MOST_EVENTS));
    set_seal_ns(&f, 0, 2, UINT64_C(30000000000));
    uint64_t step = f.peers[0].step;
    part(&f, side, false);
    cr_assert(flock_run(&f, one_view, MOST_EVENTS));
    cr_assert_eq(f.peers[0].step, step);
    cr_assert_str_eq(flock_status(&f, 2).phase, "computing");
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(flock_finished(&f, GW_FINISH_STOPPED), 5);
    cr_assert_eq(f.peers[0].step, step + 1);
    cr_assert_eq(f.peers[0].state, flock_state_after(step + 1));
    flock_close(&f);
}
