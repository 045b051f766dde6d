/* Shards computed twice, and what comes of a difference (core/brain/faults/verify.c). */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 200000, STEPS = 12 };

static void open_all(flock *f, uint32_t count, uint32_t verify) {
    flock_open(f, count, count, STEPS, GW_QUORUM_ANY);
    f->now = UINT64_C(10000000000); /* who wants a view asks its leader twice a second */
    f->verify = verify;
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
}

static void run_out(flock *f) {
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
}

static uint32_t verified(const flock *f) {
    uint32_t total = 0;
    for (uint32_t i = 0; i < f->count; i++) total += f->peers[i].verified;
    return total;
}

Test(peer_verify, every_shard_of_every_step_if_asked_for) {
    for (uint32_t count = 2; count <= 5; count++) {
        flock f;
        open_all(&f, count, GW_VERIFY_WHOLE);
        run_out(&f);
        flock_expect_done(&f, count);
        cr_expect_eq(verified(&f), STEPS * FLOCK_SHARDS, "%u peers: %u", count, verified(&f));
        flock_close(&f);
    }
}

Test(peer_verify, a_share_of_them_and_none_where_there_is_one_peer) {
    flock f;
    open_all(&f, 3, GW_VERIFY_WHOLE / 4);
    run_out(&f);
    cr_expect_gt(verified(&f), STEPS * FLOCK_SHARDS / 10);
    cr_expect_lt(verified(&f), STEPS * FLOCK_SHARDS / 2);
    flock_close(&f);
    open_all(&f, 1, GW_VERIFY_WHOLE);
    /* What it got of them is kept all the same: others may be merged with while it is at the step. */
    cr_expect_eq(f.peers[0].chosen_count, FLOCK_SHARDS);
    run_out(&f);
    flock_expect_done(&f, 1);
    cr_expect_eq(verified(&f), 0);
    flock_close(&f);
}

/* Its contributions and its state are thrown away; it goes on with the others' state. */
static void one_error(uint32_t count, uint32_t who) {
    flock f;
    open_all(&f, count, GW_VERIFY_WHOLE);
    f.peers[who].wrongs = 1;
    run_out(&f);
    flock_expect_done(&f, count);
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_eq(f.peers[i].corruptions, 1, "peer %u", i);
        cr_expect_eq(flock_said(&f, i, "differ about shard"), 1);
        cr_expect_eq(flock_said(&f, i, "asked once more it got"), 1);
    }
    char blamed[60] = "peer ", id[GW_SHORT_TEXT];
    strcat(strcat(blamed, gw_peer_id_short(&f.peers[who].config.id, id)), ": it computed");
    cr_expect_eq(flock_said(&f, 0, blamed), 1, "%s", f.peers[0].said);
    flock_close(&f);
}

/* The disk refuses its chunks at about the time that it is found to have computed wrong: others may need
 * their hashes, but not of a state that it has dropped. */
Test(peer_verify, who_has_dropped_its_state_saves_none) {
    for (uint64_t ms = 1; ms <= 60; ms++) {
        flock f;
        flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
        f.verify = GW_VERIFY_WHOLE;
        f.checkpoint_steps = 1;
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        f.peers[1].disk_full = true;
        f.peers[1].save_ns = ms * 1000000;
        f.peers[1].wrongs = 1;
        run_out(&f);
        flock_expect_done(&f, 3);
        flock_close(&f);
    }
}

Test(peer_verify, one_error_is_found_and_named_and_costs_no_peer) {
    one_error(2, 0);
    one_error(2, 1);
    one_error(3, 0);
    one_error(3, 2);
    one_error(5, 3);
}

Test(peer_verify, a_machine_that_errs_again_ends_and_the_others_go_on) {
    flock f;
    open_all(&f, 4, GW_VERIFY_WHOLE);
    f.peers[1].wrongs = UINT32_MAX;
    run_out(&f);
    cr_expect_eq(f.peers[1].finish, GW_FINISH_FAILED);
    cr_expect_not_null(strstr(f.peers[1].finish_text, "this peer computed other bits of shard"), "%s",
                       f.peers[1].finish_text);
    cr_expect_not_null(strstr(f.peers[1].finish_text, "the machine is faulty"));
    cr_expect_eq(flock_finished(&f, GW_FINISH_DONE), 3);
    flock_close(&f);
}

/* Each insists: neither's word counts for more. */
Test(peer_verify, two_peers_that_both_insist_stop_the_job) {
    flock f;
    open_all(&f, 2, GW_VERIFY_WHOLE);
    f.peers[1].wrongs = UINT32_MAX;
    run_out(&f);
    cr_expect_eq(flock_finished(&f, GW_FINISH_FAILED), 2);
    for (int i = 0; i < 2; i++)
        cr_expect_not_null(strstr(f.peers[i].finish_text, "nobody can tell which are right"), "%s",
                           f.peers[i].finish_text);
    flock_close(&f);
}

static bool two_more_steps(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].step < 7) return false;
    return true;
}

/* That the other has left is heard before its testimony, and before its sum. */
Test(peer_verify, who_hears_first_that_the_other_left_does_not_go_on_alone) {
    enum { LATE_NS = 20000000 };
    for (uint32_t late = 0; late < 2; late++)
        for (int states = 0; states < 2; states++) {
            flock f;
            open_all(&f, 2, GW_VERIFY_WHOLE);
            f.longer_ns[1 - late][late] = LATE_NS;
            if (states) {
                f.peers[1].flip_step = 7;
                cr_assert(flock_run(&f, two_more_steps, MOST_EVENTS));
                f.sum_for = 2 - late;
            } else {
                f.peers[1].wrongs = UINT32_MAX;
            }
            run_out(&f);
            for (int i = 0; i < 2; i++) {
                const char *text = f.peers[i].finish_text;
                cr_expect_eq(f.peers[i].finish, GW_FINISH_FAILED, "%d, late: %u", i, late);
                cr_expect_not_null(strstr(text, "nobody can tell which are right"), "%s", text);
            }
            cr_expect_not_null(strstr(f.peers[late].finish_text, "(told by peer "), "%s",
                               f.peers[late].finish_text);
            flock_close(&f);
        }
}

/* It has proposed to repair the view, and nobody but the other could vote. */
Test(peer_verify, who_has_proposed_as_it_hears_that_the_other_left_does_not_go_on_alone) {
    enum { LATE_NS = 20000000 };
    for (uint32_t late = 0; late < 2; late++) {
        flock f;
        open_all(&f, 2, GW_VERIFY_WHOLE);
        f.peers[1].flip_step = 7;
        cr_assert(flock_run(&f, two_more_steps, MOST_EVENTS));
        f.longer_ns[1 - late][late] = f.longer_ns[late][1 - late] = LATE_NS;
        f.sum_for = 2 - late;
        f.sum_last = true;
        run_out(&f);
        for (int i = 0; i < 2; i++) {
            const char *text = f.peers[i].finish_text;
            cr_expect_eq(f.peers[i].finish, GW_FINISH_FAILED, "%d, late: %u", i, late);
            cr_expect_not_null(strstr(text, "nobody can tell which are right"), "%d: %s", i, text);
        }
        flock_close(&f);
    }
}

Test(peer_verify, who_is_told_to_halt_tells_those_who_were_not) {
    for (uint32_t who = 0; who < 4; who++)
        for (uint32_t untold = 0; untold < 4; untold++) {
            if (who == untold) continue;
            flock f;
            open_all(&f, 4, GW_VERIFY_WHOLE);
            f.peers[0].flip_step = f.peers[1].flip_step = 7;
            cr_assert(flock_run(&f, two_more_steps, MOST_EVENTS));
            f.sum_for = who + 1;
            f.breaks = (flock_break){
                .kind = GW_MSG_HALT, .from = (int)who, .to = (int)untold, .times = 1, .quiet = true};
            run_out(&f);
            cr_expect_eq(f.breaks.times, 0);
            cr_expect_eq(flock_finished(&f, GW_FINISH_FAILED), 4, "%u finds it, %u is not told", who, untold);
            flock_close(&f);
        }
}

/* Who held it may be dead, and the next view finds another. It says nothing of the shard. */
Test(peer_verify, a_shard_that_cannot_be_had_once_more_is_dealt_again) {
    for (uint32_t who = 0; who < 3; who++) {
        flock f;
        open_all(&f, 3, GW_VERIFY_WHOLE);
        f.peers[2].wrongs = 1;
        f.peers[who].probes_lost = 1;
        run_out(&f);
        flock_expect_done(&f, 3);
        cr_expect_eq(f.peers[who].probes_lost, 0);
        for (uint32_t i = 0; i < 3; i++) {
            cr_expect_eq(f.peers[i].brain->members.deaths.count, 0);
            cr_expect_eq(flock_said(&f, i, "differ about shard"), 1, "computed right the next time");
        }
        flock_close(&f);
    }
}

static bool one_has_given_back(const flock *f) {
    return f->peers[1].probes_lost == 0 && f->peers[1].brain->agenda.view_change;
}

/* Its link to the other comes back before there is another view: it has nothing to say to that. */
Test(peer_verify, who_could_not_compute_a_shard_once_more_bears_no_witness) {
    flock f;
    flock_open(&f, 2, 2, STEPS, GW_QUORUM_ANY);
    f.now = 10 * UINT64_C(1000000000);
    f.verify = GW_VERIFY_WHOLE;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[0].wrongs = 1;
    f.peers[1].probes_lost = 1;
    f.breaks = (flock_break){.kind = GW_MSG_REPAIR, .from = 1, .to = 0, .times = 1};
    cr_assert(flock_run(&f, one_has_given_back, MOST_EVENTS));
    run_out(&f);
    cr_expect_eq(f.breaks.times, 0);
    flock_expect_done(&f, 2);
    flock_close(&f);
}

static bool one_has_ended(const flock *f) {
    return f->peers[1].finished;
}

Test(peer_verify, who_can_never_have_a_shard_once_more_ends) {
    flock f;
    open_all(&f, 3, GW_VERIFY_WHOLE);
    f.peers[2].wrongs = f.peers[1].probes_lost = UINT32_MAX;
    cr_assert(flock_run(&f, one_has_ended, MOST_EVENTS));
    cr_expect_eq(f.peers[1].finish, GW_FINISH_FAILED);
    cr_expect_not_null(strstr(f.peers[1].finish_text, "cannot be computed here"), "%s",
                       f.peers[1].finish_text);
    flock_close(&f);
}

static bool one_reduces(const flock *f) {
    return strcmp(flock_status(f, 1).phase, "reducing") == 0;
}

static bool one_applies(const flock *f) {
    return strcmp(flock_status(f, 1).phase, "applying") == 0;
}

static bool one_disputes(const flock *f) {
    return strstr(flock_status(f, 1).phase, "disputed") != NULL;
}

/* A member, other than peer 1, whose word counts in its dispute, if it is in one. */
static uint32_t witness_for_1(const flock *f) {
    const gw_peer *p = f->peers[1].brain;
    uint32_t at = f->count;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        uint32_t i = 0;
        while (!gw_peer_id_equal(&f->peers[i].config.id, &p->view.current.members[rank].id)) i++;
        bool accused = p->phase == GW_AT_DISPUTING &&
                       (p->faults.dispute.ranks[0] == rank || p->faults.dispute.ranks[1] == rank);
        if (!accused && i != 1) at = i;
    }
    cr_assert_lt(at, f->count);
    return at;
}

static void tell_witness(flock *f, uint64_t step, uint32_t shard) {
    const gw_peer *p = f->peers[1].brain;
    uint32_t from = witness_for_1(f);
    gw_message m = {.kind = GW_MSG_WITNESS,
                    .job = p->job,
                    .epoch = p->view.current.epoch,
                    .name = p->view.current.name,
                    .witness.step = step,
                    .witness.shard = shard};
    uint8_t *bytes;
    size_t length = gw_message_encode(&m, &bytes);
    f->breaks =
        (flock_break){.kind = GW_MSG_WITNESS, .from = (int)from, .to = 1, .times = UINT32_MAX, .quiet = true};
    flock_tell(f, 1,
               (gw_event){.kind = GW_EV_MESSAGE,
                          .peer = f->peers[from].config.id,
                          .message.bytes = bytes,
                          .message.length = length});
    free(bytes);
}

/* The table of the sum has changed at one member: the others do not wait for it, and it does not wait for
 * them. */
Test(peer_verify, who_disputes_what_others_do_not_holds_nobody_up) {
    enum { EARLIER_STEP, THIS_STEP, OTHER_SHARD, WHILE_APPLYING, CASES };
    for (int which = 0; which < CASES; which++) {
        flock f;
        open_all(&f, 4, GW_VERIFY_WHOLE);
        if (which == OTHER_SHARD) f.peers[2].wrongs = 1;
        cr_assert(flock_run(&f,
                            which == OTHER_SHARD      ? one_disputes
                            : which == WHILE_APPLYING ? one_applies
                                                      : one_reduces,
                            MOST_EVENTS));
        const gw_peer *p = f.peers[1].brain;
        uint32_t shard = which == OTHER_SHARD ? (p->faults.dispute.shard + 1) % FLOCK_SHARDS : 3;
        uint64_t epoch = p->view.current.epoch;
        tell_witness(&f, p->state.step - (which == EARLIER_STEP), shard);
        run_out(&f);
        flock_expect_done(&f, 4);
        cr_expect_gt(flock_status(&f, 1).view->epoch, epoch, "case %d", which);
        flock_close(&f);
    }
}

/* HALT comes about another view, about an earlier step, or from a peer that is in neither view. */
Test(peer_verify, only_members_at_the_same_step_are_told_to_halt) {
    flock f;
    open_all(&f, 3, GW_VERIFY_WHOLE);
    const gw_peer *p = f.peers[1].brain;
    char text[] = "nobody can tell";
    gw_message m = {.kind = GW_MSG_HALT, .job = p->job, .epoch = p->view.current.epoch};
    m.halt.reason = text;
    for (int which = 0; which < 3; which++) {
        m.name = which == 0 ? (gw_view_name){{7}} : p->view.current.name;
        m.halt.step = which == 1 ? p->state.step - 1 : p->state.step;
        uint8_t *bytes;
        size_t length = gw_message_encode(&m, &bytes);
        flock_tell(&f, 1,
                   (gw_event){.kind = GW_EV_MESSAGE,
                              .peer = f.peers[2].config.id,
                              .message.bytes = bytes,
                              .message.length = length});
        free(bytes);
        cr_expect_eq(f.peers[1].finished, which == 2, "case %d", which);
    }
    cr_expect_not_null(strstr(f.peers[1].finish_text, "nobody can tell (told by peer"), "%s",
                       f.peers[1].finish_text);
    flock_close(&f);
}

Test(peer_verify, testimony_lost_with_a_link_is_given_again) {
    for (uint32_t times = 1; times <= 3; times++) {
        flock f;
        open_all(&f, 3, GW_VERIFY_WHOLE);
        f.breaks = (flock_break){.kind = GW_MSG_WITNESS, .from = -1, .to = -1, .times = times};
        f.peers[2].wrongs = 1;
        run_out(&f);
        cr_expect_eq(f.breaks.times, 0);
        flock_expect_done(&f, 3);
        cr_expect_eq(f.peers[0].corruptions, 1);
        flock_close(&f);
    }
}

/* Were the next view proposed at once, one that hears another's testimony a little later would be asked to
 * vote before it can tell who is wrong. */
Test(peer_verify, all_reach_the_verdict_before_the_next_view) {
    enum { PEERS = 4, LATE_NS = 15000000 };
    for (uint32_t late = 0; late < PEERS * PEERS; late++) {
        flock f;
        open_all(&f, PEERS, GW_VERIFY_WHOLE);
        f.longer_ns[late / PEERS][late % PEERS] = LATE_NS;
        f.peers[3].wrongs = 1;
        run_out(&f);
        flock_expect_done(&f, PEERS);
        for (uint32_t i = 0; i < PEERS; i++)
            cr_expect_eq(f.peers[i].corruptions, 1, "%u, late from %u to %u", i, late / PEERS, late % PEERS);
        flock_close(&f);
    }
}

/* Its state is thrown away all the same, and its errors count. */
Test(peer_verify, who_does_not_hear_the_verdict_is_bound_by_it) {
    for (uint32_t who = 0; who < 3; who++)
        for (int again = 0; again < 2; again++) {
            flock f;
            open_all(&f, 3, GW_VERIFY_WHOLE);
            f.breaks = (flock_break){
                .kind = GW_MSG_WITNESS, .from = -1, .to = (int)who, .times = UINT32_MAX, .quiet = true};
            f.peers[who].wrongs = again ? UINT32_MAX : 1;
            uint32_t before = f.peers[who].loads;
            run_out(&f);
            cr_expect_eq(f.peers[who].loads, before + 1);
            cr_expect_eq(f.peers[who].corruptions, again ? 2 : 1);
            cr_expect_eq(flock_finished(&f, GW_FINISH_DONE), again ? 2 : 3);
            cr_expect_eq(f.peers[who].finish, again ? GW_FINISH_FAILED : GW_FINISH_DONE, "%s",
                         f.peers[who].finish_text);
            flock_close(&f);
        }
}

static uint32_t views_of_2(const flock *f) {
    gw_peer_status status = flock_status(f, 2);
    return status.view == NULL ? 0 : status.view->count;
}

static bool all_know_the_verdict(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].corruptions == 0) return false;
    return true;
}

static bool three_compute(const flock *f) {
    return views_of_2(f) == 3 && strcmp(flock_status(f, 2).phase, "computing") == 0 &&
           strcmp(flock_status(f, 3).phase, "computing") == 0;
}

/* Who was away when the verdict was carried out tells of it once more. */
Test(peer_verify, nobody_is_punished_twice_for_one_error) {
    flock f;
    open_all(&f, 4, GW_VERIFY_WHOLE);
    f.peers[3].wrongs = 1;
    cr_assert(flock_run(&f, all_know_the_verdict, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) f.peers[i].seal_ns = UINT64_C(60000000000);
    uint64_t step = f.peers[3].step;
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1) flock_cut(&f, 1, i, true);
    cr_assert(flock_run(&f, three_compute, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1) flock_mend(&f, 1, i);
    cr_assert(!flock_run(&f, NULL, 2000), "it asks to be admitted");
    cr_assert_eq(f.peers[3].step, step);
    flock_kill(&f, 2);
    for (uint32_t i = 0; i < 4; i++) f.peers[i].seal_ns = 0;
    run_out(&f);
    flock_expect_done(&f, 3);
    flock_close(&f);
}

static bool somebody_disputes(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && strstr(flock_status(f, i).phase, "disputed") != NULL) return true;
    return false;
}

static bool leader_loads(const flock *f) {
    return strcmp(flock_status(f, flock_leader(f)).phase, "fetching the state") == 0;
}

static bool one_knows_of_a_loss_alone(const flock *f) {
    const gw_peer *leader = f->peers[flock_leader(f)].brain;
    uint64_t step = leader->state.step + 1;
    uint32_t others = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const gw_peer *p = f->peers[i].brain;
        others += p != NULL && p->view.frozen && p->state.step == step &&
                  gw_shard_deaths_in_step(&p->members.deaths, step);
    }
    return others == 1 && !gw_shard_deaths_in_step(&leader->members.deaths, step);
}

/* The leader has yet to fetch the state of the step that another is at, who hears of a death in that step
 * after its vote: it alone knows of that when the next view begins. */
Test(peer_verify, all_choose_the_same_shards_whoever_has_heard_of_a_loss) {
    flock f;
    open_all(&f, 3, GW_VERIFY_WHOLE);
    uint32_t leader = flock_leader(&f), ahead = (leader + 1) % 3, victim = (leader + 2) % 3;
    f.peers[leader].load_ns = 50000000;
    f.sum_for = ahead + 1;
    cr_assert(flock_run(&f, leader_loads, MOST_EVENTS));
    flock_cut(&f, ahead, victim, false); /* so that it hears of the death by gossip, after the proposal */
    flock_kill(&f, victim);
    cr_assert(flock_run(&f, one_knows_of_a_loss_alone, MOST_EVENTS));
    run_out(&f);
    flock_expect_done(&f, 2);
    for (uint32_t i = 0; i < 2; i++)
        cr_expect_eq(flock_said(&f, i == 0 ? leader : ahead, "differ about shard"), 0);
    flock_close(&f);
}

/* One member has heard of a step that the job has yet to reach. */
Test(peer_verify, all_see_what_was_computed_wrong_whatever_one_has_heard_of_later_steps) {
    flock f;
    open_all(&f, 3, GW_VERIFY_WHOLE);
    const gw_shard_death loss = {.id = {{9}}, .boot = 1, .step = 7, .shard = 3};
    cr_assert(gw_shard_deaths_add(&f.peers[1].brain->members.deaths, &loss));
    cr_assert(flock_run(&f, two_more_steps, MOST_EVENTS));
    f.peers[2].wrongs = 1;
    run_out(&f);
    flock_expect_done(&f, 3);
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(f.peers[i].corruptions, 1, "peer %u", i);
    flock_close(&f);
}

/* No verdict then: what both have added to the step is computed again. */
Test(peer_verify, a_witness_that_dies_leaves_both_in_doubt) {
    flock f;
    open_all(&f, 4, GW_VERIFY_WHOLE);
    f.peers[3].wrongs = 1;
    cr_assert(flock_run(&f, somebody_disputes, MOST_EVENTS));
    uint32_t before = f.peers[0].computed + f.peers[1].computed + f.peers[2].computed + f.peers[3].computed;
    uint64_t step = f.peers[0].step;
    flock_kill(&f, 1);
    run_out(&f);
    flock_expect_done(&f, 3);
    uint32_t after = f.peers[0].computed + f.peers[1].computed + f.peers[2].computed + f.peers[3].computed;
    uint64_t rest = (STEPS - step - 1) * FLOCK_SHARDS; /* of the steps after it */
    cr_expect_gt(after - before, rest + FLOCK_SHARDS / 4, "not only the dead one's shards");
    flock_close(&f);
}

Test(peer_verify, a_state_that_changed_in_memory_is_fetched_anew) {
    flock f;
    open_all(&f, 3, GW_VERIFY_WHOLE / 100);
    f.peers[1].damaged_state = true;
    run_out(&f);
    flock_expect_done(&f, 3);
    cr_expect_eq(f.peers[1].corruptions, 1);
    cr_expect_eq(flock_said(&f, 1, "its state changed in memory"), 1);
    flock_close(&f);
}

/* Found before the sum, or as it is applied. */
Test(peer_verify, a_state_that_changed_where_nobody_else_holds_it_ends_the_run) {
    for (int later = 0; later < 2; later++) {
        flock f;
        open_all(&f, 1, GW_VERIFY_WHOLE / 100);
        f.peers[0].damaged_state = !later;
        f.peers[0].damaged_later = later;
        run_out(&f);
        cr_expect_eq(f.peers[0].finish, GW_FINISH_FAILED);
        cr_expect_not_null(strstr(f.peers[0].finish_text, "start again to resume"), "%s",
                           f.peers[0].finish_text);
        flock_close(&f);
    }
}

/* After it was looked at before the sum: whoever votes with the state that came of it has made the most
 * steps, and of two nobody could tell which is right. */
Test(peer_verify, a_state_that_changed_before_it_was_applied_is_fetched_anew) {
    for (uint32_t count = 2; count <= 4; count++) {
        flock f;
        open_all(&f, count, GW_VERIFY_WHOLE / 100);
        f.peers[count - 1].damaged_later = true;
        run_out(&f);
        flock_expect_done(&f, count);
        cr_expect_eq(f.peers[count - 1].corruptions, 1);
        cr_expect_eq(flock_said(&f, count - 1, "its state changed in memory"), 1);
        flock_close(&f);
    }
}

/* It would be the one that gave up, after five views in which nobody had what it was to fetch. */
Test(peer_verify, who_cannot_fetch_a_state_has_its_donors_look_at_theirs) {
    flock f;
    open_all(&f, 3, 0);
    uint32_t donor = 0, newcomer = 2;
    flock_kill(&f, newcomer);
    f.peers[donor].flip_lent = true;
    flock_start(&f, newcomer);
    run_out(&f);
    flock_expect_done(&f, 3);
    cr_expect_eq(f.peers[donor].corruptions, 1, "%s", f.peers[donor].said);
    cr_expect_eq(flock_said(&f, donor, "its state changed in memory"), 1);
    cr_expect_eq(f.peers[1].corruptions, 0);
    flock_close(&f);
}

/* Between checkpoints nothing else would look at a state, where no shard is computed twice. */
Test(peer_verify, holders_of_a_chunk_that_differ_look_at_their_states) {
    for (uint32_t count = 2; count <= 3; count++) {
        flock f;
        flock_open(&f, count, count, STEPS, GW_QUORUM_ANY);
        f.checkpoint_steps = 6;
        for (uint32_t i = 0; i < count; i++) {
            f.peers[i].config.replicas = count;
            f.peers[i].seal_ns = 50000000;
        }
        f.peers[1].flip_save = 6;
        flock_start_all(&f);
        run_out(&f);
        flock_expect_done(&f, count);
        cr_expect_eq(f.peers[1].corruptions, 1);
        cr_expect_eq(flock_said(&f, 1, "its state changed in memory"), 1);
        cr_expect_eq(f.peers[0].corruptions, 0);
        flock_close(&f);
    }
}

static bool somebody_was_named(const flock *f) {
    return f->peers[0].corruptions > 0;
}

/* Once it is forgiven, as any fault of a machine is. */
Test(peer_verify, who_holds_other_bits_than_most_twice_has_to_leave) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_MAJORITY);
    f.peers[2].flip_step = 4;
    flock_start_all(&f);
    cr_assert(flock_run(&f, somebody_was_named, MOST_EVENTS));
    f.peers[2].flip_step = STEPS - 2;
    run_out(&f);
    cr_expect_eq(f.peers[2].finish, GW_FINISH_FAILED);
    cr_expect_not_null(strstr(f.peers[2].finish_text, "the machine is faulty"), "%s", f.peers[2].finish_text);
    cr_expect_eq(flock_finished(&f, GW_FINISH_DONE), 2);
    flock_close(&f);
}

/* ---- after the last step ---- */

static void open_last(flock *f, uint32_t count, uint32_t replicas) {
    flock_open(f, count, count, STEPS, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < count; i++) f->peers[i].config.replicas = replicas;
}

/* Whoever it is, with checkpoints that several or one hold a chunk of, and also where most are damaged. */
Test(peer_verify, a_last_state_that_changed_in_memory_is_fetched_anew) {
    for (uint32_t damaged = 1; damaged < 7; damaged++) {
        for (uint32_t replicas = 1; replicas <= 3; replicas++) {
            flock f;
            open_last(&f, 3, replicas);
            for (uint32_t i = 0; i < 3; i++) f.peers[i].flip_save = (damaged >> i & 1) * STEPS;
            flock_start_all(&f);
            run_out(&f);
            flock_expect_done(&f, 3);
            for (uint32_t i = 0; i < 3; i++) {
                cr_expect_eq(f.peers[i].corruptions, damaged >> i & 1, "%u of %u", i, damaged);
                cr_expect_eq(f.peers[i].state, flock_state_after(STEPS));
            }
            flock_close(&f);
        }
    }
}

Test(peer_verify, a_last_state_that_changed_and_nobody_else_holds_is_no_result) {
    flock f;
    open_last(&f, 1, 1);
    f.peers[0].flip_save = STEPS;
    flock_start_all(&f);
    run_out(&f);
    cr_expect_eq(f.peers[0].finish, GW_FINISH_FAILED);
    cr_expect_not_null(strstr(f.peers[0].finish_text, "no other peer holds it"), "%s",
                       f.peers[0].finish_text);
    flock_close(&f);
}

Test(peer_verify, a_last_state_that_cannot_be_looked_at_ends_its_peer) {
    flock f;
    open_last(&f, 3, 2);
    f.reason = "the device fails";
    f.peers[1].look_fails = true;
    flock_start_all(&f);
    run_out(&f);
    cr_expect_eq(f.peers[1].finish, GW_FINISH_FAILED);
    cr_expect_not_null(strstr(f.peers[1].finish_text, "could not be checked: the device fails"), "%s",
                       f.peers[1].finish_text);
    cr_expect_eq(flock_finished(&f, GW_FINISH_DONE), 2);
    flock_close(&f);
}
