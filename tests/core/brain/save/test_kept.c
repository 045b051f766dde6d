/* What is known of checkpoints that a peer has recorded: that they are complete, whole, or given up; and what
 * is kept of them. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h" /* what it has recorded */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 100000, LONG = 1000 };

Test(peer_kept, a_member_that_missed_complete_hears_it_again) {
    flock f;
    flock_open(&f, 3, 3, 42, GW_QUORUM_ANY);
    f.checkpoint_steps = 20; /* far apart: the news is in before the next */
    f.breaks = (flock_break){.kind = GW_MSG_COMPLETE, .from = -1, .to = -1, .times = 1};
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.breaks.times, 0);
    for (uint32_t i = 0; i < 3; i++) cr_assert_eq(f.peers[i].checkpoints, 3, "peer %u", i);
    flock_close(&f);
}

/* With float sums a step may be made again: the checkpoint that the leader had of the first time is not what
 * a member has recorded since. */
Test(peer_kept, a_member_that_recorded_another_state_of_that_step_does_not_hear_it) {
    for (int same = 0; same < 2; same++) {
        flock f;
        flock_open(&f, 3, 3, LONG, GW_QUORUM_ANY);
        f.checkpoint_steps = 20;
        for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
        uint32_t leader = flock_leader(&f), member = (leader + 1) % 3;
        gw_message m = gw_peer_about_view(f.peers[member].brain, GW_MSG_RECORDED);
        m.job = f.peers[member].brain->job;
        m.recorded.step = 20;
        m.recorded.root = f.peers[member].saved_root;
        if (!same) m.recorded.root.bytes[0] ^= 1;
        uint8_t *bytes;
        size_t length = gw_message_encode(&m, &bytes);
        f.breaks = (flock_break){
            .kind = GW_MSG_COMPLETE, .from = (int)leader, .to = (int)member, .times = 1, .quiet = true};
        flock_tell(&f, leader,
                   (gw_event){.kind = GW_EV_MESSAGE,
                              .peer = f.peers[member].config.id,
                              .message.bytes = bytes,
                              .message.length = length});
        cr_expect_eq(f.breaks.times, same ? 0 : 1, "same %d", same);
        free(bytes);
        flock_close(&f);
    }
}

/* One of three that keep so many checkpoints has one, has recorded another, and hears only `later_ns` later
 * that it is complete, or never (0); at once a member dies. Returns who it is. The other one has some chunks
 * that it lacks. */
static uint32_t miss_complete(flock *f, bool fast, uint32_t keep, uint64_t later_ns) {
    flock_open(f, 3, 3, LONG, fast ? GW_QUORUM_MAJORITY : GW_QUORUM_ANY);
    f->checkpoint_steps = 4;
    for (uint32_t i = 0; i < 3; i++) {
        f->peers[i].config.fast = fast;
        f->peers[i].config.keep = keep;
        f->peers[i].config.replicas = fast ? 1 : 2;
        f->peers[i].seal_ns = UINT64_C(10000000000);
        f->peers[i].save_ns = fast ? UINT64_C(15000000000) : 0; /* the state is of more steps then */
        f->peers[i].store.room = FLOCK_FILES;
    }
    flock_start_all(f);
    cr_assert(flock_run(f, flock_all_have_a_checkpoint, MOST_EVENTS));
    uint32_t leader = flock_leader(f), odd = (leader + 2) % 3;
    f->breaks = (flock_break){.kind = GW_MSG_COMPLETE,
                              .from = (int)leader,
                              .to = (int)odd,
                              .times = 1,
                              .quiet = true,
                              .later_ns = later_ns};
    while (f->breaks.times > 0) cr_assert(!flock_run(f, NULL, 1));
    f->peers[odd].retained = 0;
    flock_kill(f, (leader + 1) % 3);
    return odd;
}

/* While it is frozen, when the next view is installed, and any time later. */
static void hear_late(bool fast, uint32_t *frozen, uint32_t *installed) {
    for (uint64_t later_ns = 100000; later_ns <= 3000000; later_ns += 50000) {
        flock f;
        uint32_t odd = miss_complete(&f, fast, 1, later_ns);
        uint64_t step = f.peers[odd].saved_step;
        cr_assert_lt(flock_status(&f, odd).checkpoint_step, step);
        while (flock_status(&f, odd).checkpoint_step < step)
            cr_assert(f.now < UINT64_C(1000000000000) && !flock_run(&f, NULL, 1));
        bool is_frozen = strcmp(flock_status(&f, odd).phase, "changing the view") == 0;
        *frozen += is_frozen;
        *installed += flock_status(&f, odd).view->count == 2;
        cr_assert_eq(flock_status(&f, odd).checkpoint_step, step);
        cr_assert(!is_frozen || f.peers[odd].retained == 0, "a vote may have told what is there");
        while (flock_status(&f, odd).view->count == 3) cr_assert(!flock_run(&f, NULL, 1));
        flock_close(&f);
    }
}

Test(peer_kept, news_of_a_checkpoint_that_comes_after_its_view_counts) {
    for (int fast = 0; fast < 2; fast++) {
        uint32_t frozen = 0, installed = 0;
        hear_late(fast, &frozen, &installed);
        cr_assert(frozen > 0 && installed > 0, "fast %d", fast);
    }
}

/* It is what the others go back to. */
Test(peer_kept, a_checkpoint_known_complete_by_late_news_is_not_what_a_full_disk_gives_up) {
    for (int fast = 0; fast < 2; fast++) {
        flock f;
        uint32_t odd = miss_complete(&f, fast, 1, 20000000);
        flock_peer *p = &f.peers[odd];
        const gw_hash root = p->saved_root;
        f.peers[flock_leader(&f)].disk_full = true;
        p->store.room = p->store.count;
        flock_await_room_made(&f, odd);
        cr_assert_eq(p->store.manifest_count, 1, "it was refused, and what can go has gone");
        cr_assert_gt(flock_chunks_of(p, &root), 0, "fast %d", fast);
        flock_close(&f);
    }
}

/* Its view, in which it was to be told, is over. With float sums, too, what is saved is behind the run. */
Test(peer_kept, who_missed_that_a_checkpoint_is_complete_learns_it_with_the_next_view) {
    for (int fast = 0; fast < 2; fast++) {
        flock f;
        uint32_t odd = miss_complete(&f, fast, 1, 0);
        uint64_t step = f.peers[odd].saved_step;
        cr_assert_lt(flock_status(&f, odd).checkpoint_step, step);
        cr_assert(!fast || f.peers[odd].step > step);
        while (flock_status(&f, odd).view->count == 3) cr_assert(!flock_run(&f, NULL, 1));
        gw_peer_status status = flock_status(&f, odd);
        cr_assert_eq(status.checkpoint_step, step, "fast %d", fast);
        cr_assert(gw_hash_equal(&status.checkpoint_root, &f.peers[odd].saved_root));
        cr_assert_eq(f.peers[odd].retained, 0, "nothing goes before another is complete");
        flock_close(&f);
    }
}

/* Word of it from a view whose lineage was given up: there it was whole, and the job has begun again without
 * it. */
Test(peer_kept, with_float_sums_news_of_a_checkpoint_that_was_given_up_does_not_count) {
    flock f;
    flock_open(&f, 3, 3, LONG, GW_QUORUM_MAJORITY);
    f.checkpoint_steps = 8;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].config.fast = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) {
        flock_kill(&f, i);
        f.peers[i].saved_step = i == 0 ? 8 : 0;
    }
    flock_peer *p = &f.peers[0];
    p->saved_root.bytes[0] ^= 1;
    gw_set_free(&p->saved_chunks);
    p->saved_chunks = gw_set_of(FLOCK_CHUNKS); /* nobody has them any more */
    f.checkpoint_steps = 100;
    flock_start_all(&f);
    while (p->step < 10) cr_assert(!flock_run(&f, NULL, 1));
    gw_message news = {.kind = GW_MSG_COMPLETE,
                       .job = p->brain->job,
                       .epoch = p->saved_epoch,
                       .name = {{1}},
                       .complete.step = 8,
                       .complete.root = p->saved_root};
    uint8_t *bytes;
    size_t length = gw_message_encode(&news, &bytes);
    cr_assert(gw_peer_inventory_has(&p->brain->inventory, news.complete.step, &news.complete.root));
    flock_tell(&f, 0,
               (gw_event){.kind = GW_EV_MESSAGE,
                          .peer = f.peers[1].config.id,
                          .message.bytes = bytes,
                          .message.length = length});
    cr_expect_eq(flock_status(&f, 0).checkpoint_step, UINT64_MAX);
    free(bytes);
    flock_close(&f);
}

/* All who were told are dead. */
Test(peer_kept, a_full_disk_gives_up_older_checkpoints_before_one_that_may_be_complete) {
    flock f;
    uint32_t odd = miss_complete(&f, false, 2, 0);
    flock_peer *p = &f.peers[odd];
    const gw_hash root = p->saved_root;
    uint32_t chunks = flock_chunks_of(p, &root);
    flock_kill(&f, flock_leader(&f));
    p->store.room = p->store.count;
    flock_await_room_made(&f, odd);
    cr_assert_eq(p->retained, 2);
    cr_assert_gt(chunks, 0);
    cr_assert_eq(flock_chunks_of(p, &root), chunks);
    flock_close(&f);
}

/* The leader has called it complete, has deleted the one before, and is dead. The third died, too, and is
 * back: with what is here its disk has the rest. */
Test(peer_kept, a_full_disk_keeps_what_is_whole_though_all_who_were_told_so_are_dead) {
    flock f;
    uint32_t odd = miss_complete(&f, false, 1, 0), leader = flock_leader(&f), third = 3 - odd - leader;
    flock_peer *p = &f.peers[odd];
    const gw_hash root = p->saved_root;
    uint64_t step = p->saved_step;
    uint32_t chunks = flock_chunks_of(p, &root);
    cr_assert_gt(chunks, 0);
    cr_assert_eq(f.peers[leader].checkpoints, 2);
    flock_kill(&f, leader);
    while (flock_status(&f, odd).view->count != 1) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_lt(flock_status(&f, odd).checkpoint_step, step);
    f.peers[third].config.seed_count = 1;
    f.peers[third].config.seeds[0] = p->config.addrs[0];
    f.peers[third].disk_full = true;
    p->store.room = p->store.count;
    flock_start(&f, third);
    while (flock_status(&f, odd).view->count != 2) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_lt(flock_status(&f, odd).checkpoint_step, step, "nobody here was told");
    flock_await_room_made(&f, odd);
    cr_assert_eq(flock_chunks_of(p, &root), chunks);
    flock_close(&f);
}

/* A life that begins beside one whose disk took nothing hears of none of what its own disk has from before.
 * The first that it knows to be complete is written elsewhere, for want of room here. */
Test(peer_kept, a_full_disk_keeps_as_many_as_it_should_though_this_life_knows_of_fewer) {
    flock f;
    flock_open(&f, 2, 1, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 8; /* of ten seconds: so that a disk that has refused one is tried for the next */
    for (uint32_t i = 0; i < 2; i++) {
        f.peers[i].config.keep = 2;
        f.peers[i].config.replicas = 1;
        f.peers[i].seal_ns = UINT64_C(10000000000);
        f.peers[i].store.room = FLOCK_FILES;
    }
    flock_peer *p = &f.peers[0];
    flock_start(&f, 0);
    while (p->checkpoints < 2) cr_assert(!flock_run(&f, NULL, 1));
    const gw_hash before = p->saved_root;
    f.peers[1].disk_full = true;
    flock_start(&f, 1);
    while (!flock_in_view_of(&f, 1, 2)) cr_assert(!flock_run(&f, NULL, 1));
    flock_kill(&f, 0);
    while (!flock_in_view_of(&f, 1, 1)) cr_assert(!flock_run(&f, NULL, 1));
    p->config.seed_count = 1;
    p->config.seeds[0] = f.peers[1].config.addrs[0];
    flock_start(&f, 0);
    while (!flock_in_view_of(&f, 0, 2)) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_eq(flock_status(&f, 0).checkpoint_step, UINT64_MAX, "it knows of none");
    p->disk_full = true;
    f.peers[1].disk_full = false;
    uint32_t told = p->checkpoints;
    while (p->checkpoints == told) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_gt(flock_said(&f, 0, "cannot be written here"), 0);
    flock_await_room_made(&f, 0);
    cr_assert_eq(p->checkpoints, told + 1, "room was made before the next was complete");
    cr_expect_eq(p->retained, 2);
    cr_expect_gt(flock_chunks_of(p, &before), 0);
    flock_close(&f);
}

static bool all_resume_from_4(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (flock_status(f, i).checkpoint_step != 4 || flock_status(f, i).step != 5) return false;
    return true;
}

/* One has recorded a later checkpoint than the others, who go on without it, as nobody has its chunks. With
 * exact sums the job comes there again. */
Test(peer_kept, with_float_sums_a_checkpoint_that_was_given_up_does_not_fill_a_disk) {
    for (int fast = 0; fast < 2; fast++) {
        flock f;
        flock_open(&f, 3, 3, LONG, fast ? GW_QUORUM_MAJORITY : GW_QUORUM_ANY);
        f.checkpoint_steps = 4;
        for (uint32_t i = 0; i < 3; i++) {
            f.peers[i].config.fast = fast;
            f.peers[i].config.replicas = 3;
            f.peers[i].seal_ns = UINT64_C(10000000000);
        }
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
        for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
        flock_peer *p = &f.peers[0];
        p->saved_step = 900;
        p->saved_root.bytes[0] ^= 1;
        gw_set_free(&p->saved_chunks);
        p->saved_chunks = gw_set_of(FLOCK_CHUNKS);
        flock_start_all(&f);
        cr_assert(flock_run(&f, all_resume_from_4, MOST_EVENTS));
        for (uint32_t i = 0; i < 3; i++) f.peers[i].disk_full = true;
        flock_await_room_made(&f, 0);
        cr_expect_eq(p->saved_step, fast ? 0 : 900, "fast %d: it has gone", fast);
        flock_close(&f);
    }
}

/* Others may have heard that it is complete. */
Test(peer_kept, a_recorded_checkpoint_stays_when_what_a_view_change_left_goes) {
    flock f;
    uint32_t odd = miss_complete(&f, false, 1, 0);
    flock_peer *p = &f.peers[odd];
    const gw_hash root = p->saved_root;
    uint32_t chunks = flock_chunks_of(p, &root);
    cr_assert_gt(chunks, 0);
    while (p->retained == 0) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_eq(flock_chunks_of(p, &root), chunks);
    cr_assert_eq(flock_status(&f, odd).view->count, 2);
    flock_close(&f);
}

/* They keep it instead of an earlier one, and need what is here of it. */
Test(peer_kept, a_checkpoint_that_others_were_told_of_is_kept_among_those_that_this_peer_was) {
    flock f;
    uint32_t odd = miss_complete(&f, false, 2, 0);
    flock_peer *p = &f.peers[odd];
    const gw_hash root = p->saved_root;
    uint32_t chunks = flock_chunks_of(p, &root);
    cr_assert_gt(chunks, 0);
    flock_kill(&f, flock_leader(&f));
    for (uint32_t before = 1; before < 3; before++) {
        while (p->checkpoints == before) cr_assert(!flock_run(&f, NULL, 1));
        while (p->retained == 0) cr_assert(!flock_run(&f, NULL, 1));
        cr_assert_eq(p->retained, before == 1 ? 3 : 2);
        cr_assert_eq(flock_chunks_of(p, &root), before == 1 ? chunks : 0);
        p->retained = 0;
    }
    flock_close(&f);
}

/* Others have the rest of two later checkpoints, of which only the earlier one may be whole. */
Test(peer_kept, all_later_checkpoints_stay_until_the_job_comes_there_again) {
    flock f;
    flock_open(&f, 1, 1, LONG, GW_QUORUM_ANY);
    gw_inventory found[2] = {{.step = 18, .root = {{18}}}, {.step = 14, .root = {{14}}}};
    for (uint32_t k = 0; k < 2; k++) {
        found[k].chunks = gw_set_of(FLOCK_CHUNKS);
        gw_set_add(&found[k].chunks, k);
    }
    flock_peer *p = &f.peers[0];
    f.checkpoint_steps = 5;
    p->config.keep = 1;
    p->found = found;
    p->found_count = 2;
    flock_start(&f, 0);
    for (uint32_t saved = 1; saved <= 4; saved++) {
        while (p->checkpoints < saved) cr_assert(!flock_run(&f, NULL, 1));
        const gw_peer_inventory *here = &p->brain->inventory;
        uint32_t later = saved <= 2 ? 2 : saved == 3 ? 1 : 0; /* 5, 10, 15, 20 */
        cr_assert_eq(p->saved_step, 5 * (uint64_t)saved);
        cr_assert_eq(p->retained, 1 + later, "step %u: %u", 5 * saved, p->retained);
        for (uint32_t k = 0; k < later; k++) cr_expect_eq(here->list[k].step, found[k].step);
    }
    for (uint32_t k = 0; k < 2; k++) gw_set_free(&found[k].chunks);
    flock_close(&f);
}

static bool one_is_alone(const flock *f) {
    return flock_in_view_of(f, 0, 1) || flock_in_view_of(f, 1, 1);
}

static bool one_begins_anew(const flock *f) {
    return flock_said(f, 0, "beginning at step 0") + flock_said(f, 1, "beginning at step 0") > 0;
}

/* Two have a complete checkpoint, each a part of it. One goes on alone, dies, and begins at step 0, as the
 * other is not there. That one joins it with what it has of those steps, in the same life or a later one. */
static void begin_anew_without_the_other(flock *f, gw_hash *root, bool lives) {
    flock_open(f, 2, 2, LONG, GW_QUORUM_MAJORITY);
    f->checkpoint_steps = 4;
    for (uint32_t i = 0; i < 2; i++) {
        f->peers[i].config.fast = true;
        f->peers[i].config.keep = 2;
        f->peers[i].config.replicas = 1;
        f->peers[i].seal_ns = UINT64_C(10000000000);
        f->peers[i].store.room = FLOCK_FILES;
    }
    flock_start_all(f);
    cr_assert(flock_run(f, flock_all_have_a_checkpoint, MOST_EVENTS));
    *root = f->peers[0].saved_root;
    flock_cut(f, 0, 1, true);
    cr_assert(flock_run(f, one_is_alone, MOST_EVENTS));
    uint32_t alone = flock_in_view_of(f, 0, 1) ? 0 : 1;
    cr_assert_neq(flock_chunks_of(&f->peers[alone], root), 7);
    flock_kill(f, alone);
    f->checkpoint_steps = 3; /* the same steps again would be the same states here */
    flock_start(f, alone);
    cr_assert(flock_run(f, one_begins_anew, MOST_EVENTS));
    if (!lives) {
        flock_kill(f, 1 - alone);
        flock_start(f, 1 - alone);
    }
    flock_mend(f, 0, 1);
    for (uint32_t i = 0; i < 2; i++) {
        f->peers[i].checkpoints = 0;
        f->peers[i].shown_step = 0;
    }
}

Test(peer_kept, with_float_sums_what_was_complete_outlasts_the_first_checkpoint_of_who_began_anew) {
    for (int lives = 0; lives < 2; lives++) {
        flock f;
        gw_hash root;
        begin_anew_without_the_other(&f, &root, lives);
        for (uint32_t later = 1; later <= 2; later++) {
            while (f.peers[0].checkpoints < later || f.peers[1].checkpoints < later)
                cr_assert(!flock_run(&f, NULL, 1));
            uint32_t left = flock_chunks_of(&f.peers[0], &root) | flock_chunks_of(&f.peers[1], &root);
            cr_expect_eq(left, later == 1 ? 7 : 0, "lives %d, after %u: %x", lives, later, left);
        }
        flock_close(&f);
    }
}

/* The same holds if the protocol record, which says what views there were, is lost: what is saved next must
 * come after what the flock has gone on from. */
Test(peer_kept, with_float_sums_a_checkpoint_carries_the_epoch_of_its_view) {
    for (int fast = 0; fast < 2; fast++) {
        flock f;
        flock_open(&f, 2, 2, LONG, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 4;
        f.peers[0].config.fast = f.peers[1].config.fast = fast;
        flock_start_all(&f);
        for (uint64_t views = 1; views <= 3; views++) {
            for (uint32_t i = 0; i < 2; i++) f.peers[i].checkpoints = 0;
            while (f.peers[0].checkpoints == 0 || f.peers[1].checkpoints == 0)
                cr_assert(!flock_run(&f, NULL, 1));
            uint64_t epoch = flock_status(&f, 0).view->epoch;
            if (fast) cr_assert_geq(epoch, views);
            for (uint32_t i = 0; i < 2; i++) {
                cr_expect_eq(f.peers[i].saved_epoch, fast ? epoch : 0);
                flock_kill(&f, i);
                f.peers[i].record_length = 0;
            }
            flock_start_all(&f);
        }
        flock_close(&f);
    }
}
