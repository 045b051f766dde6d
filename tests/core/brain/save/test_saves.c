/* When a checkpoint counts as complete, whatever the disks do, and what a resumed job starts with. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h" /* what it has recorded */

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 100000, LONG = 1000 };

static bool writes_the_end(const flock *f) {
    return strcmp(flock_status(f, 0).phase, "writing the final checkpoint") == 0;
}

static bool view_of(const flock *f, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const gw_view *view = flock_view(f, i);
        if (view == NULL || view->count != count) return false;
    }
    return true;
}

static bool view_of_2(const flock *f) {
    return view_of(f, 2);
}

static bool view_of_3(const flock *f) {
    return view_of(f, 3);
}

/* A newcomer's word that it holds the last state comes to the leader later than to another member, which has
 * stored its chunks by then. */
Test(peer_saves, chunks_of_the_last_state_that_are_stored_before_the_leader_begins_count) {
    enum { COMES_BACK = 2 };
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].save_ns = UINT64_C(20000000000);
    flock_start_all(&f);
    cr_assert(flock_run(&f, writes_the_end, MOST_EVENTS));
    flock_kill(&f, COMES_BACK);
    cr_assert(flock_run(&f, view_of_2, MOST_EVENTS));
    f.longer_ns[COMES_BACK][flock_leader(&f)] = UINT64_C(50000000);
    flock_start(&f, COMES_BACK);
    cr_assert(flock_run(&f, view_of_3, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) f.peers[i].save_ns = 0;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

/* ---- disks ---- */

static void expect_durable(const flock *f, uint32_t copies, uint64_t step) {
    uint32_t holders[FLOCK_CHUNKS] = {0};
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t c = 0; f->peers[i].saved_step == step && c < f->peers[i].saved_chunks.size; c++)
            holders[c] += gw_set_has(&f->peers[i].saved_chunks, c);
    for (uint32_t c = 0; c < FLOCK_CHUNKS; c++)
        cr_assert_geq(holders[c], copies, "chunk %u of step %llu is on %u disks", c, (unsigned long long)step,
                      holders[c]);
}

Test(peer_saves, a_full_disk_does_not_cost_the_final_checkpoint) {
    for (uint32_t full = 0; full < 3; full++) {
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            flock f;
            flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
            for (uint32_t i = 0; i < 3; i++) f.peers[i].config.replicas = replicas;
            f.peers[full].disk_full = true;
            flock_start_all(&f);
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
            flock_expect_done(&f, 3);
            expect_durable(&f, replicas, 20);
            flock_close(&f);
        }
    }
}

/* ---- the last state where no disk has room ---- */

static void flock_on_full_disks(flock *f, uint32_t count) {
    flock_open(f, count, count, 20, GW_QUORUM_ANY);
    f->checkpoint_steps = 1000;
    for (uint32_t i = 0; i < count; i++) f->peers[i].disk_full = true;
    flock_start_all(f);
}

static void expect_unsaved(const flock *f, const char *part) {
    cr_assert_eq(flock_finished(f, GW_FINISH_UNSAVED), f->count);
    for (uint32_t i = 0; i < f->count; i++) {
        cr_assert(strstr(f->peers[i].finish_text, part) != NULL, "%s", f->peers[i].finish_text);
        cr_assert(gw_hash_equal(&f->peers[i].final_root, &f->peers[0].final_root));
        cr_assert_eq(f->peers[i].checkpoints, 0);
    }
}

Test(peer_saves, a_last_state_that_no_disk_has_room_for_is_tried_for_a_while_and_then_called_unsaved) {
    for (uint32_t count = 1; count <= 3; count++) {
        flock f;
        flock_on_full_disks(&f, count);
        cr_assert(flock_run(&f, writes_the_end, MOST_EVENTS));
        uint64_t since_ns = f.now;
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        expect_unsaved(&f, "come to its end, step 20");
        cr_assert_geq(f.now - since_ns, f.peers[0].config.save_timeout_ns);
        uint32_t told = 0;
        for (uint32_t i = 0; i < count; i++) {
            cr_assert_eq(flock_said(&f, i, "others keep its share"), count > 1, "nobody else is there");
            told += flock_said(&f, i, "--save-timeout");
        }
        cr_assert_eq(told, 1);
        flock_close(&f);
    }
}

Test(peer_saves, a_stopped_job_that_no_disk_has_room_for_is_called_unsaved) {
    flock f;
    flock_on_full_disks(&f, 3);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_tell(&f, 1, (gw_event){.kind = GW_EV_STOP});
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_unsaved(&f, "stopped at step");
    flock_close(&f);
}

static bool leader_waits_for_room(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (flock_said(f, i, "--save-timeout") > 0) return true;
    return false;
}

Test(peer_saves, a_full_disk_that_gets_room_at_the_end_saves_the_last_state) {
    for (uint32_t room = 0; room < 3; room++) {
        flock f;
        flock_on_full_disks(&f, 3);
        cr_assert(flock_run(&f, leader_waits_for_room, MOST_EVENTS));
        f.peers[room].disk_full = false;
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 3);
        expect_durable(&f, 1, 20);
        for (uint32_t i = 0; i < 3; i++) cr_assert_eq(f.peers[i].checkpoints, 1);
        flock_close(&f);
    }
}

Test(peer_saves, who_misses_the_word_of_an_end_that_is_not_saved_does_not_call_it_done) {
    flock f;
    flock_on_full_disks(&f, 3);
    cr_assert(flock_run(&f, leader_waits_for_room, MOST_EVENTS));
    int odd = (int)(flock_leader(&f) + 1) % 3;
    f.breaks = (flock_break){.kind = GW_MSG_END, .from = -1, .to = odd, .times = UINT32_MAX, .quiet = true};
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_unsaved(&f, "come to its end, step 20");
    flock_close(&f);
}

/* One of three disks takes chunks but no manifest, and only the leader has heard of it. */
Test(peer_saves, who_misses_the_word_of_an_end_without_a_manifest_does_not_call_it_done) {
    flock f;
    flock_on_full_disks(&f, 3);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t leader = flock_leader(&f), odd = (leader + 1) % 3, third = (leader + 2) % 3;
    f.peers[third].disk_full = false;
    f.peers[third].manifests_fail = true;
    f.breaks =
        (flock_break){.kind = GW_MSG_END, .from = -1, .to = (int)odd, .times = UINT32_MAX, .quiet = true};
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_unsaved(&f, "come to its end, step 20");
    flock_close(&f);
}

Test(peer_saves, manifests_that_nobody_can_write_leave_the_last_state_unsaved) {
    flock f;
    flock_open(&f, 2, 2, 20, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].manifests_fail = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_unsaved(&f, "come to its end, step 20");
    flock_close(&f);
}

/* ---- while it runs ---- */

static bool saved_4(const flock *f) {
    return flock_status(f, 0).checkpoint_step != UINT64_MAX;
}

Test(peer_saves, a_checkpoint_is_complete_only_with_all_its_copies) {
    for (uint32_t full = 0; full < 3; full++) {
        flock f;
        flock_open(&f, 3, 3, 1000, GW_QUORUM_ANY);
        f.checkpoint_steps = 4;
        f.peers[full].disk_full = true;
        flock_start_all(&f);
        cr_assert(flock_run(&f, saved_4, MOST_EVENTS));
        expect_durable(&f, 2, flock_status(&f, 0).checkpoint_step);
        flock_close(&f);
    }
}

/* The next sum tells of the full disk before the word of the chunks that it did not take. */
Test(peer_saves, a_disk_that_fills_up_is_known_of_before_its_share_is_missed) {
    for (uint32_t full = 0; full < 3; full++) {
        flock f;
        flock_open(&f, 3, 3, 1000, GW_QUORUM_ANY);
        f.checkpoint_steps = 4;
        for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
        f.peers[full].save_ns = UINT64_C(800000000); /* to be refused, and as long again to hash */
        f.peers[full].disk_full = true;
        flock_start_all(&f);
        uint32_t other = full == 0 ? 1 : 0;
        while (f.peers[other].checkpoints == 0) cr_assert(!flock_run(&f, NULL, 1));
        expect_durable(&f, 2, f.peers[other].saved_step);
        flock_close(&f);
    }
}

/* Its word reaches the leader when the last sum is there, which told all others that it had room, and before
 * the leader has applied it. */
Test(peer_saves, a_disk_that_fills_up_as_the_last_step_is_applied_is_known_of_to_all_or_to_none) {
    const uint64_t second_ns = UINT64_C(1000000000);
    for (uint64_t ns = 0; ns <= 3 * second_ns; ns += second_ns / 10) {
        for (uint32_t full = 0; full < 3; full++) {
            flock f;
            flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
            f.checkpoint_steps = 19;
            for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = f.peers[i].apply_ns = second_ns;
            f.peers[full].save_ns = ns; /* to be refused */
            f.peers[full].disk_full = true;
            flock_start_all(&f);
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
            flock_expect_done(&f, 3);
            expect_durable(&f, 2, 20);
            flock_close(&f);
        }
    }
}

Test(peer_saves, without_a_manifest_no_checkpoint_is_complete) {
    flock f;
    flock_open(&f, 1, 1, 100, GW_QUORUM_ANY);
    f.checkpoint_steps = 2;
    f.peers[0].manifests_fail = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, 0).checkpoint_step, UINT64_MAX);
    flock_close(&f);
}

Test(peer_saves, a_disk_too_slow_for_the_interval_completes_checkpoints_all_the_same) {
    flock f;
    flock_open(&f, 3, 3, 100000, GW_QUORUM_ANY);
    f.checkpoint_steps = 2;
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].seal_ns = UINT64_C(5000000000);
        f.peers[i].save_ns = UINT64_C(100000000000);
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, saved_4, MOST_EVENTS));
    flock_close(&f);
}

static bool all_save(const flock *f) {
    return f->peers[0].saves == 1 && f->peers[1].saves == 1;
}

static bool two_are_left(const flock *f) {
    return flock_in_view_of(f, 0, 2) && flock_in_view_of(f, 1, 2);
}

/* Its staging would hold up the next APPLY or LOAD for as long as a slow disk takes. */
Test(peer_saves, the_writing_of_a_checkpoint_that_is_given_up_ends) {
    flock f;
    flock_open(&f, 3, 3, 100000, GW_QUORUM_ANY);
    f.checkpoint_steps = 2;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].save_ns = UINT64_C(100000000000);
    flock_start_all(&f);
    cr_assert(flock_run(&f, all_save, MOST_EVENTS));
    flock_kill(&f, 2);
    cr_assert(flock_run(&f, two_are_left, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) cr_expect_eq(f.peers[i].abandoned, f.peers[i].saves);
    flock_close(&f);
}

static bool at_step_20(const flock *f) {
    return f->peers[0].step >= 20;
}

static bool at_step_40(const flock *f) {
    return f->peers[0].step >= 40;
}

static void expect_said(const flock *f, uint32_t full, uint32_t given_up, uint32_t again) {
    cr_assert_eq(flock_said(f, 0, "cannot be written here"), full);
    cr_assert_eq(flock_said(f, 0, "is given up"), given_up);
    cr_assert_eq(flock_said(f, 0, "can be written here again"), again);
}

/* Full for seven minutes, with room for seven, full again for seven: each change is told, and again after
 * a minute and after two more, as somebody may have looked away. */
Test(peer_saves, a_full_disk_is_told_again_and_again_until_it_has_room) {
    flock f;
    flock_open(&f, 1, 1, 60, GW_QUORUM_ANY);
    f.checkpoint_steps = 1;
    f.peers[0].seal_ns = UINT64_C(20000000000);
    f.peers[0].disk_full = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, at_step_20, MOST_EVENTS));
    expect_said(&f, 3, 3, 0);
    f.peers[0].disk_full = false;
    cr_assert(flock_run(&f, at_step_40, MOST_EVENTS));
    cr_assert_gt(f.peers[0].checkpoints, 10);
    expect_said(&f, 3, 3, 1);
    f.peers[0].disk_full = true;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_said(&f, 6, 6, 1);
    flock_close(&f);
}

Test(peer_saves, a_manifest_that_nobody_can_write_is_told_of_ever_more_rarely) {
    flock f;
    flock_open(&f, 1, 1, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 1;
    f.peers[0].seal_ns = UINT64_C(20000000000);
    f.peers[0].manifests_fail = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, at_step_20, MOST_EVENTS));
    cr_assert_geq(f.peers[0].saves, 5);
    cr_assert_eq(flock_said(&f, 0, "is not saved"), 3, "at once, after 1 and after 3 of the 7 minutes");
    flock_close(&f);
}

static bool at_step_75(const flock *f) {
    return f->peers[0].step >= 75;
}

/* A disk that goes on refusing is tried each minute in the end; what it would only hash meanwhile is not
 * staged either. */
Test(peer_saves, a_state_that_no_disk_takes_is_not_hashed_at_every_step) {
    for (uint32_t every = 0; every <= 1; every++) {
        flock f;
        flock_open(&f, 1, 1, 100, GW_QUORUM_ANY);
        f.checkpoint_steps = every;
        f.peers[0].config.checkpoint_ns = every == 0 ? UINT64_C(30000000000) : 0;
        f.peers[0].seal_ns = UINT64_C(1000000000);
        f.peers[0].disk_full = true;
        flock_start_all(&f);
        cr_assert(flock_run(&f, at_step_75, MOST_EVENTS));
        cr_assert_leq(f.peers[0].saves, 10, "five times to write it, then to hash it");
        cr_assert_geq(f.peers[0].saves, 2);
        f.peers[0].disk_full = false;
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 1);
        flock_close(&f);
    }
}

/* Full for minutes just when the one checkpoint of the hour is due. */
Test(peer_saves, a_checkpoint_that_no_disk_took_follows_when_disks_are_tried_again) {
    enum { HOUR_STEPS = 360 };
    const uint64_t second_ns = UINT64_C(1000000000), step_ns = 10 * second_ns;
    for (uint32_t by_time = 0; by_time <= 1; by_time++) {
        flock f;
        flock_open(&f, 1, 1, LONG, GW_QUORUM_ANY);
        f.checkpoint_steps = by_time ? 0 : HOUR_STEPS;
        f.peers[0].config.checkpoint_ns = by_time ? HOUR_STEPS * step_ns : 0;
        f.peers[0].seal_ns = step_ns;
        f.peers[0].disk_full = true;
        flock_start_all(&f);
        while (f.peers[0].saves == 0) cr_assert(!flock_run(&f, NULL, 1));
        cr_assert_geq(f.now, (HOUR_STEPS - 1) * step_ns);
        flock_run_for(&f, 600 * second_ns);
        cr_assert_geq(f.peers[0].saves, 2 * 10);
        cr_assert_leq(f.peers[0].saves, 2 * 13, "each time to write it, then to hash it");
        f.peers[0].disk_full = false;
        uint64_t room_ns = f.now;
        while (f.peers[0].checkpoints == 0) cr_assert(!flock_run(&f, NULL, 1));
        cr_assert_leq(f.now - room_ns, 60 * second_ns + 2 * step_ns);
        uint32_t saves = f.peers[0].saves;
        flock_run_for(&f, HOUR_STEPS / 2 * step_ns);
        cr_assert_eq(f.peers[0].saves, saves, "then it is an hour again");
        flock_close(&f);
    }
}

/* Alone it could store none for minutes, and does not try at every step. Then somebody comes whose disk takes
 * them. */
Test(peer_saves, who_waits_for_its_own_disk_does_not_keep_others_from_saving) {
    const uint64_t step_ns = UINT64_C(1000000000);
    flock f;
    flock_open(&f, 2, 1, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 1;
    for (uint32_t i = 0; i < 2; i++) f.peers[i].seal_ns = step_ns;
    f.peers[0].disk_full = true;
    flock_start(&f, 0);
    flock_run_for(&f, 130 * step_ns);
    cr_assert_eq(f.peers[0].checkpoints, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, view_of_2, MOST_EVENTS));
    cr_assert_eq(flock_leader(&f), 0, "who leads has its own disk to wait for");
    cr_assert_gt(f.peers[0].brain->save.save_again_ns, f.now + 10 * step_ns);
    flock_run_for(&f, 5 * step_ns);
    cr_expect_geq(f.peers[0].checkpoints, 2);
    cr_expect_geq(f.peers[1].checkpoints, 2);
    flock_close(&f);
}

/* As happens to descriptors, or to memory. */
Test(peer_saves, a_disk_that_refused_once_is_used_again_soon) {
    const uint64_t step_ns = UINT64_C(1000000000);
    flock f;
    flock_open(&f, 2, 2, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 1;
    for (uint32_t i = 0; i < 2; i++) f.peers[i].seal_ns = step_ns;
    f.peers[0].disk_full = f.peers[1].disk_full = true;
    flock_start_all(&f);
    flock_run_for(&f, 3 * step_ns);
    cr_assert_eq(flock_said(&f, 0, "cannot be written here"), 1);
    f.peers[0].disk_full = f.peers[1].disk_full = false;
    flock_run_for(&f, 6 * step_ns);
    cr_expect_geq(f.peers[0].checkpoints, 1);
    cr_expect_not(f.peers[0].brain->save.unwritable || f.peers[1].brain->save.unwritable);
    flock_close(&f);
}

/* ---- too little room for a while ---- */

static bool has_2_checkpoints(const flock *f) {
    return f->peers[0].checkpoints >= 2;
}

static bool cannot_write_here(const flock *f) {
    return flock_said(f, 0, "cannot be written here") > 0;
}

static bool has_3_checkpoints(const flock *f) {
    return f->peers[0].checkpoints >= 3;
}

/* A lone peer that keeps one checkpoint, and has met a disk with room for two thirds of another. */
static void run_out_of_room(flock *f) {
    flock_open(f, 1, 1, LONG, GW_QUORUM_ANY);
    f->checkpoint_steps = 4;
    f->peers[0].config.keep = 1;
    f->peers[0].seal_ns = UINT64_C(10000000000);
    f->peers[0].store.room = 2 * FLOCK_CHUNKS;
    flock_start_all(f);
    cr_assert(flock_run(f, has_2_checkpoints, MOST_EVENTS));
    f->peers[0].store.room = 2 * FLOCK_CHUNKS - 1;
    cr_assert(flock_run(f, cannot_write_here, MOST_EVENTS));
    cr_assert_eq(f->peers[0].store.count, f->peers[0].store.room);
    f->peers[0].store.room = 2 * FLOCK_CHUNKS;
}

Test(peer_saves, chunks_of_a_checkpoint_that_failed_do_not_take_the_room_of_the_next) {
    flock f;
    run_out_of_room(&f);
    cr_assert(flock_run(&f, has_3_checkpoints, MOST_EVENTS));
    cr_assert_eq(flock_said(&f, 0, "can be written here again"), 0, "it may be full again at once");
    cr_assert(flock_status(&f, 0).disk_writable);
    while (flock_said(&f, 0, "can be written here again") == 0) cr_assert(!flock_run(&f, NULL, 10));
    cr_assert_gt(f.peers[0].checkpoints, 3);
    cr_assert_eq(f.peers[0].store.count, FLOCK_CHUNKS);
    flock_close(&f);
}

/* Each second checkpoint finds room for a part of its chunks only. */
Test(peer_saves, a_disk_that_takes_some_and_refuses_others_is_not_told_of_each_time) {
    flock f;
    flock_open(&f, 2, 2, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 1;
    for (uint32_t i = 0; i < 2; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
    flock_start_all(&f);
    cr_assert(flock_run(&f, has_2_checkpoints, MOST_EVENTS));
    for (uint64_t end_ns = f.now + UINT64_C(50000000000); f.now < end_ns;) {
        uint32_t before = f.peers[1].saves;
        f.peers[1].disk_full = !f.peers[1].disk_full;
        while (f.peers[1].saves < before + 2) cr_assert(!flock_run(&f, NULL, 10));
    }
    cr_expect_eq(flock_said(&f, 1, "cannot be written here"), 1);
    cr_expect_eq(flock_said(&f, 1, "can be written here again"), 0);
    f.peers[1].disk_full = false;
    while (flock_said(&f, 1, "can be written here again") == 0) cr_assert(!flock_run(&f, NULL, 10));
    flock_close(&f);
}

Test(peer_saves, a_lone_peer_with_a_full_disk_tells_how_much_is_unsaved) {
    flock f;
    flock_open(&f, 1, 1, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 5;
    f.peers[0].disk_full = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, cannot_write_here, MOST_EVENTS));
    cr_expect_eq(flock_said(&f, 0, "5 steps are unsaved: no complete checkpoint is here"), 2);
    flock_close(&f);
}

Test(peer_saves, a_disk_left_full_by_an_earlier_life_gets_room) {
    flock f;
    run_out_of_room(&f);
    flock_kill(&f, 0);
    f.checkpoint_steps = 5; /* another state, with other chunks */
    flock_start(&f, 0);
    cr_assert(flock_has_orphans(&f.peers[0]));
    cr_assert(flock_run(&f, has_3_checkpoints, MOST_EVENTS));
    cr_assert_not(flock_has_orphans(&f.peers[0]));
    flock_close(&f);
}

Test(peer_saves, chunks_of_a_checkpoint_that_took_too_long_do_not_take_the_room_of_the_next) {
    flock f;
    flock_open(&f, 1, 1, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    f.peers[0].config.keep = 1;
    f.peers[0].seal_ns = UINT64_C(10000000000);
    f.peers[0].store.room = 2 * FLOCK_CHUNKS;
    flock_start_all(&f);
    cr_assert(flock_run(&f, has_2_checkpoints, MOST_EVENTS));
    f.peers[0].save_ns = UINT64_C(70000000000);
    while (flock_said(&f, 0, "takes too long") == 0) cr_assert(!flock_run(&f, NULL, 10));
    f.peers[0].save_ns = 0;
    cr_assert(flock_run(&f, has_3_checkpoints, MOST_EVENTS));
    cr_assert_eq(flock_said(&f, 0, "cannot be written here"), 0);
    flock_close(&f);
}

/* It is tried again and again: what is stored of it stays, once everything else has gone. */
Test(peer_saves, what_there_is_room_for_of_the_last_state_is_not_written_at_each_try) {
    enum { ROOM = FLOCK_CHUNKS - 1 };
    flock f;
    flock_open(&f, 1, 1, 5, GW_QUORUM_ANY);
    f.peers[0].store.room = ROOM;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_unsaved(&f, "come to its end, step 5");
    cr_assert_gt(f.peers[0].saves, 2 * 3, "written, then hashed, some times");
    cr_assert_leq(f.peers[0].store.written, 2 * ROOM);
    flock_close(&f);
}

/* Its news was lost: it counts for nothing, and keeps the disks full. */
Test(peer_saves, a_checkpoint_that_was_written_and_never_called_complete_makes_room) {
    flock f;
    flock_open(&f, 2, 2, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 2; i++) {
        f.peers[i].config.keep = 1;
        f.peers[i].seal_ns = UINT64_C(10000000000);
        f.peers[i].store.room = 2 * FLOCK_CHUNKS;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, has_2_checkpoints, MOST_EVENTS));
    f.breaks = (flock_break){.kind = GW_MSG_RECORDED, .from = -1, .to = -1, .times = 1, .quiet = true};
    while (f.breaks.times > 0) cr_assert(!flock_run(&f, NULL, 10));
    for (uint32_t i = 0; i < 2; i++) cr_assert_eq(f.peers[i].store.count, f.peers[i].store.room);
    cr_assert(flock_run(&f, has_3_checkpoints, MOST_EVENTS));
    flock_close(&f);
}

/* Those with room complete the checkpoint; then the small disk needs nothing of what it has of it. */
Test(peer_saves, a_disk_that_was_too_small_for_its_share_gets_room_when_others_have_kept_it) {
    enum { SHARE = 2 };
    flock f;
    flock_open(&f, 3, 3, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].seal_ns = UINT64_C(10000000000);
        f.peers[i].store.room = FLOCK_FILES;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, has_2_checkpoints, MOST_EVENTS));
    uint32_t who = 0;
    while (gw_set_count(&f.peers[who].saved_chunks) < SHARE) who++;
    flock_peer *small = &f.peers[who];
    small->store.room = 3 * SHARE - 1; /* two checkpoints are kept while the third is written */
    while (flock_said(&f, who, "cannot be written here") == 0) cr_assert(!flock_run(&f, NULL, 10));
    uint32_t before = small->checkpoints;
    while (small->checkpoints == before) cr_assert(!flock_run(&f, NULL, 10));
    cr_assert_not(flock_has_orphans(small), "of the one that it could not store");
    cr_assert_lt(small->store.count, small->store.room);
    uint64_t failed = small->step;
    while (small->saved_step <= failed || gw_set_count(&small->saved_chunks) < SHARE)
        cr_assert(!flock_run(&f, NULL, 10));
    flock_close(&f);
}

/* ---- resuming ---- */

Test(peer_saves, a_job_that_stopped_itself_is_not_resumed_past_its_end) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    f.stop_step = 7;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(flock_finished(&f, GW_FINISH_DONE), 3);
    gw_hash root = f.peers[0].final_root;
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    uint32_t before = f.peers[0].computed;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(flock_finished(&f, GW_FINISH_DONE), 3);
    cr_assert_eq(f.peers[0].step, 7);
    cr_assert_eq(f.peers[0].computed, before);
    cr_assert(gw_hash_equal(&f.peers[0].final_root, &root));
    flock_close(&f);
}

Test(peer_saves, the_checkpoint_resumed_from_is_kept_beside_the_next) {
    flock f;
    flock_open(&f, 3, 3, 1000, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    flock_start_all(&f);
    cr_assert(flock_run(&f, saved_4, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) {
        flock_run(&f, NULL, 200);
        flock_kill(&f, i);
        f.peers[i].retained = 0;
    }
    flock_start_all(&f);
    while (f.peers[0].retained == 0) cr_assert(!flock_run(&f, NULL, 10));
    cr_assert_eq(f.peers[0].retained, 2);
    flock_close(&f);
}

/* It has the state from the others, and has seen no checkpoint complete. */
Test(peer_saves, the_checkpoints_of_an_earlier_life_are_kept_beside_the_next) {
    flock f;
    flock_open(&f, 3, 3, 1000, GW_QUORUM_ANY);
    f.checkpoint_steps = 20;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) {
        flock_kill(&f, i);
        flock_start(&f, i);
        cr_assert(flock_run(&f, view_of_3, MOST_EVENTS));
        cr_assert_eq(f.peers[i].saved_step, 20, "no other one has come meanwhile");
        f.peers[i].checkpoints = 0;
    }
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) cr_assert_eq(f.peers[i].retained, f.peers[i].config.keep);
    flock_close(&f);
}

/* ---- a later checkpoint than the flock has come to ---- */

static bool saved_12(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].saved_step < 12) return false;
    return true;
}

static bool first_at_step_2(const flock *f) {
    return f->peers[0].step >= 2;
}

static bool all_past_12(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].step <= 12) return false;
    return true;
}

/* One of three comes back, with a third of the checkpoint of step 12. */
static void come_back_with_a_third(flock *f, uint32_t least) {
    flock_open(f, 3, 3, LONG, GW_QUORUM_ANY);
    f->checkpoint_steps = 4;
    for (uint32_t i = 0; i < 3; i++) f->peers[i].config.replicas = 1;
    flock_start_all(f);
    cr_assert(flock_run(f, saved_12, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_kill(f, i);
    for (uint32_t i = 0; i < 3; i++) f->peers[i].seal_ns = UINT64_C(1000000000);
    f->peers[0].config.peers = least;
    flock_start(f, 0);
}

/* It begins anew, as nobody else is there; then come those who have the rest of the checkpoint. */
static void begin_anew(flock *f) {
    come_back_with_a_third(f, 1);
    cr_assert(flock_run(f, first_at_step_2, MOST_EVENTS));
    cr_assert_lt(f->peers[0].step, 12);
}

static bool waited_long(const flock *f) {
    return f->now > 5 * f->peers[0].config.resume_timeout_ns;
}

Test(peer_saves, who_cannot_resume_waits_for_all_peers_before_step_0) {
    flock f;
    come_back_with_a_third(&f, 3);
    uint32_t before = f.peers[0].computed;
    cr_assert(flock_run(&f, waited_long, MOST_EVENTS));
    cr_assert_null(flock_status(&f, 0).view);
    cr_assert_eq(f.peers[0].computed, before);
    flock_start(&f, 1);
    flock_start(&f, 2);
    cr_assert(flock_run(&f, all_past_12, MOST_EVENTS));
    cr_assert_lt(f.peers[0].computed - before, 8 * FLOCK_SHARDS, "it resumes");
    flock_close(&f);
}

Test(peer_saves, who_waits_for_all_peers_with_a_part_of_the_last_state_knows_of_the_end) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].config.replicas = 1;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    gw_hash root = f.peers[0].final_root;
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    uint32_t before = f.peers[0].computed;
    f.peers[0].finished = false;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[0].finish, GW_FINISH_DONE, "%s", f.peers[0].finish_text);
    cr_assert(gw_hash_equal(&f.peers[0].final_root, &root));
    cr_assert_eq(f.peers[0].computed, before);
    flock_close(&f);
}

Test(peer_saves, who_holds_a_whole_checkpoint_resumes_alone) {
    flock f;
    flock_open(&f, 3, 3, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].config.replicas = 3;
    flock_start_all(&f);
    cr_assert(flock_run(&f, saved_12, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    flock_start(&f, 0);
    uint64_t step = f.peers[0].saved_step;
    while (f.peers[0].step <= step + 1) cr_assert(!flock_run(&f, NULL, 10));
    flock_close(&f);
}

Test(peer_saves, a_flock_jumps_to_a_later_checkpoint_that_newcomers_complete) {
    flock f;
    begin_anew(&f);
    uint32_t before = f.peers[0].computed;
    flock_start(&f, 1);
    flock_start(&f, 2);
    cr_assert(flock_run(&f, all_past_12, MOST_EVENTS));
    cr_assert_lt(f.peers[0].computed - before, 8 * FLOCK_SHARDS, "steps up to 12 were computed again");
    flock_close(&f);
}

/* Who holds the state may hear of it after the others, when they have asked for another view. */
Test(peer_saves, a_later_checkpoint_that_cannot_be_loaded_does_not_hold_up_the_flock) {
    for (int late = 0; late < 2; late++) {
        flock f;
        begin_anew(&f);
        for (uint32_t i = 0; i < 3; i++) f.peers[i].manifests_unloadable = true;
        if (late) f.peers[0].load_ns = UINT64_C(1000000000);
        flock_start(&f, 1);
        flock_start(&f, 2);
        cr_assert(flock_run(&f, all_past_12, MOST_EVENTS));
        for (uint32_t i = 0; i < 3; i++) cr_assert(!f.peers[i].finished, "%s", f.peers[i].finish_text);
        flock_close(&f);
    }
}

static bool all_compute(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(flock_status(f, i).phase, "computing") != 0) return false;
    return view_of_3(f);
}

/* Else a full disk would keep it rather than one that is whole, and who leaves would not save first. */
Test(peer_saves, a_later_checkpoint_that_cannot_be_loaded_is_not_known_to_be_whole) {
    for (int loads = 0; loads < 2; loads++) {
        flock f;
        begin_anew(&f);
        for (uint32_t i = 0; i < 3; i++) f.peers[i].manifests_unloadable = !loads;
        uint32_t before = f.peers[0].loads;
        flock_start(&f, 1);
        flock_start(&f, 2);
        cr_assert(flock_run(&f, all_compute, MOST_EVENTS));
        cr_assert_gt(f.peers[0].loads, before);
        for (uint32_t i = 0; i < 3; i++)
            cr_assert_eq(flock_status(&f, i).checkpoint_step, loads ? 12 : UINT64_MAX, "peer %u", i);
        flock_close(&f);
    }
}

Test(peer_saves, a_later_checkpoint_whose_rest_is_away_is_kept) {
    flock f;
    begin_anew(&f);
    f.peers[0].retained = 0;
    while (f.peers[0].retained == 0) cr_assert(!flock_run(&f, NULL, 10));
    cr_assert_eq(f.peers[0].retained, 2, "the new one, and the later one of the life before");
    flock_close(&f);
}

/* Nothing of the earlier run is waited for or kept. */
Test(peer_saves, who_began_anew_keeps_no_checkpoint_of_an_earlier_run) {
    for (int fresh = 0; fresh < 2; fresh++) {
        flock f;
        begin_anew(&f);
        flock_kill(&f, 0);
        f.peers[0].config.fresh = fresh;
        f.peers[0].retained = 0;
        flock_start(&f, 0);
        while (f.peers[0].retained == 0) cr_assert(!flock_run(&f, NULL, 10));
        cr_assert_eq(f.peers[0].retained, fresh ? 1 : 2);
        flock_close(&f);
    }
}

/* A disk with room for two checkpoints, which are kept; then comes the last one. */
Test(peer_saves, a_last_state_takes_the_room_of_what_is_older_than_a_whole_checkpoint) {
    for (int leaves = 0; leaves < 2; leaves++) {
        flock f;
        flock_open(&f, 1, 1, leaves ? LONG : 18, GW_QUORUM_ANY);
        f.checkpoint_steps = 5;
        f.peers[0].config.keep = 2;
        f.peers[0].store.room = 2 * FLOCK_CHUNKS;
        flock_start_all(&f);
        cr_assert(flock_run(&f, cannot_write_here, MOST_EVENTS));
        cr_assert_eq(f.peers[0].checkpoints, 2);
        if (leaves) flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        cr_expect_eq(flock_finished(&f, leaves ? GW_FINISH_LEFT : GW_FINISH_DONE), 1);
        cr_expect_eq(f.peers[0].checkpoints, 3);
        cr_expect_eq(
            flock_said(&f, 0, "checkpoints before that of step 10, which is whole, are deleted here"), 1);
        cr_expect_eq(f.peers[0].retained, 2, "the newest before it, and it");
        flock_close(&f);
    }
}
