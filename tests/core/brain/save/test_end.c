/* The end of the job, for peers that missed it. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/members/contacts.h"
#include "core/brain/state.h" /* what a peer that is through has gossiped last */
#include "core/gossip/codec.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 200000, STEPS = 20, ODD = 3 };

static bool all_but_odd_finished(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (i != ODD && !f->peers[i].finished) return false;
    return true;
}

/* Nothing that these say from now on reaches the odd one. */
static void deafen_odd(flock *f, bool to_all) {
    for (uint32_t i = 0; i < f->count; i++)
        if (i != ODD && (to_all || i == flock_leader(f))) f->parted[i][ODD] = true;
}

/* No link brings it END either. */
static void lose_all_ends(flock *f) {
    f->breaks = (flock_break){.kind = GW_MSG_END, .from = -1, .to = ODD, .times = UINT32_MAX, .quiet = true};
}

static void end_all_but_odd(flock *f) {
    cr_assert(flock_run(f, all_but_odd_finished, MOST_EVENTS));
    for (uint32_t i = 0; i < f->count; i++)
        if (i != ODD) flock_kill(f, i);
}

static void expect_done_too(const flock *f, const gw_hash *root) {
    cr_assert_eq(f->peers[ODD].finish, GW_FINISH_DONE, "%d: %s", f->peers[ODD].finish,
                 f->peers[ODD].finish_text);
    cr_assert(gw_hash_equal(&f->peers[ODD].final_root, root));
    cr_assert_eq(flock_status(f, ODD).step, STEPS);
}

static void lose_the_end(bool deaf_to_all) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        flock_open(&f, 4, 4, STEPS, (gw_quorum)quorum);
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        cr_assert_neq(flock_leader(&f), ODD);
        deafen_odd(&f, deaf_to_all);
        f.breaks = (flock_break){.kind = GW_MSG_END, .from = -1, .to = ODD, .times = 1, .quiet = true};
        end_all_but_odd(&f);
        gw_hash root = f.peers[0].final_root;
        cr_assert(!f.peers[ODD].finished);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        expect_done_too(&f, &root);
        flock_close(&f);
    }
}

Test(peer_end, who_lost_the_leaders_last_words_hears_it_from_the_others) {
    lose_the_end(false);
}
Test(peer_end, who_lost_everybodys_last_words_goes_by_its_own_manifest) {
    lose_the_end(true);
}

Test(peer_end, who_stood_still_across_the_end_ends_and_says_why) {
    flock f;
    flock_open(&f, 4, 4, STEPS, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    cr_assert_neq(flock_leader(&f), ODD);
    deafen_odd(&f, true);
    flock_stop(&f, ODD);
    end_all_but_odd(&f);
    flock_continue(&f, ODD);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[ODD].finish, GW_FINISH_FAILED);
    cr_assert(strstr(f.peers[ODD].finish_text, "the job ended without this peer") != NULL, "%s",
              f.peers[ODD].finish_text);
    flock_close(&f);
}

Test(peer_end, who_is_started_after_the_end_and_has_its_manifest_is_done) {
    flock f;
    flock_open(&f, 4, 4, STEPS, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    gw_hash root = f.peers[0].final_root;
    uint64_t last = flock_status(&f, 0).committed_fingerprint;
    for (uint32_t i = 0; i < 4; i++) flock_kill(&f, i);
    flock_start(&f, ODD);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_done_too(&f, &root);
    cr_expect_eq(flock_status(&f, ODD).committed_step, STEPS);
    cr_expect_eq(flock_status(&f, ODD).committed_fingerprint, last);
    flock_close(&f);
}

static bool somebody_finished(const flock *f) {
    return flock_finished(f, GW_FINISH_DONE) > 0;
}

/* By majority: two of the three who went on without the fourth have ended the job and are gone, the third
 * dies at that very moment. The fourth, which lives in a view that it cannot leave, can admit nobody. */
Test(peer_end, who_knows_of_the_end_waits_for_no_flock_that_cannot_go_on) {
    flock f;
    flock_open(&f, 4, 4, STEPS, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++)
        if (i != ODD) flock_cut(&f, i, ODD, true);
    f.breaks = (flock_break){.kind = GW_MSG_END, .from = -1, .to = -1, .times = UINT32_MAX, .quiet = true};
    cr_assert(flock_run(&f, somebody_finished, MOST_EVENTS));
    uint32_t knows = f.peers[(ODD + 1) % 4].finished ? (ODD + 2) % 4 : (ODD + 1) % 4;
    cr_assert_not(f.peers[knows].finished);
    const gw_hash root = f.peers[(flock_leader(&f))].final_root;
    flock_kill(&f, knows);
    f.breaks = (flock_break){0};
    while (flock_finished(&f, GW_FINISH_DONE) < 2) cr_assert(!flock_run(&f, NULL, 1));
    for (uint32_t i = 0; i < 4; i++)
        if (i != ODD && i != knows) flock_kill(&f, i);
    flock_mend(&f, knows, ODD);
    flock_start(&f, knows);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS), "they wait for each other");
    cr_expect_eq(f.peers[knows].finish, GW_FINISH_DONE, "%s", f.peers[knows].finish_text);
    cr_expect(gw_hash_equal(&f.peers[knows].final_root, &root));
    cr_expect_eq(f.peers[ODD].finish, GW_FINISH_LEFT, "%s", f.peers[ODD].finish_text);
    flock_close(&f);
}

/* Float sums, one copy of each chunk: one of three ends the job, all are killed before they hear of that, and
 * one that has chunks of the last state does not come back. */
static uint32_t end_and_lose_a_holder(flock *f, gw_hash *root) {
    flock_open(f, 3, 3, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 3; i++) {
        f->peers[i].config.fast = true;
        f->peers[i].config.replicas = 1;
    }
    f->checkpoint_steps = 4;
    flock_start_all(f);
    f->breaks = (flock_break){.kind = GW_MSG_END, .from = -1, .to = -1, .times = UINT32_MAX, .quiet = true};
    cr_assert(flock_run(f, somebody_finished, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++)
        if (f->peers[i].finished) *root = f->peers[i].final_root;
    for (uint32_t i = 0; i < 3; i++) flock_kill(f, i);
    f->breaks = (flock_break){0};
    uint32_t lost = gw_set_count(&f->peers[2].saved_chunks) > 0 ? 2 : 1; /* not 0: all look for that one */
    cr_assert_gt(gw_set_count(&f->peers[lost].saved_chunks), 0);
    return lost;
}

Test(peer_end, with_float_sums_a_majority_that_knows_the_end_does_not_make_another) {
    for (uint32_t forgets = 0; forgets < 3; forgets++) { /* 0 proposes; with 2, both know */
        flock f;
        gw_hash root = {{0}};
        uint32_t absent = end_and_lose_a_holder(&f, &root), computed = 0;
        for (uint32_t i = 0; i < 3; i++) {
            if (i == absent) continue;
            if (i == forgets) f.peers[i].saved_step = 0;
            computed += f.peers[i].computed;
            flock_start(&f, i);
        }
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        for (uint32_t i = 0; i < 3; i++) {
            if (i == absent) continue;
            computed -= f.peers[i].computed;
            cr_expect_eq(f.peers[i].finish, GW_FINISH_DONE, "%d: %s", f.peers[i].finish,
                         f.peers[i].finish_text);
            cr_expect(gw_hash_equal(&f.peers[i].final_root, &root));
            cr_expect_neq(f.peers[i].brain->state.fingerprint, 0, "others go by it");
        }
        cr_expect_eq(computed, 0, "nothing of it is computed again");
        flock_close(&f);
    }
}

static bool all_compute(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (flock_status(f, i).step < 2) return false;
    return true;
}

/* All are there, or the operator says so, and chunks of the last state are lost: another end is made. All are
 * killed as they make it, and those that had the first one on record come back without the one that lost it.
 */
Test(peer_end, with_float_sums_an_end_that_is_given_up_is_not_found_on_record_again) {
    for (int forced = 0; forced < 2; forced++) {
        flock f;
        gw_hash root = {{0}};
        uint32_t lost = end_and_lose_a_holder(&f, &root);
        gw_set_free(&f.peers[lost].saved_chunks);
        f.peers[lost].saved_chunks = gw_set_of(FLOCK_CHUNKS);
        for (uint32_t i = 0; i < 3; i++)
            if (!forced || i != lost) flock_start(&f, i);
        if (forced) {
            cr_assert(!flock_run(&f, NULL, 500), "they wait for it");
            flock_tell(&f, 0, (gw_event){.kind = GW_EV_FORCE_VIEW});
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        } else {
            cr_assert(flock_run(&f, all_compute, MOST_EVENTS));
            for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
            for (uint32_t i = 0; i < 3; i++)
                if (i != lost) flock_start(&f, i);
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        }
        for (uint32_t i = 0; i < 3; i++) {
            if (i == lost) continue;
            cr_expect_eq(f.peers[i].finish, GW_FINISH_DONE, "%s", f.peers[i].finish_text);
            cr_expect_null(strstr(f.peers[i].finish_text, "as recorded"), "%s", f.peers[i].finish_text);
        }
        flock_close(&f);
    }
}

/* As above, and of an earlier checkpoint chunks are lost as well: those that are left may be of use to
 * somebody, and no later one is whole yet. */
Test(peer_end, with_float_sums_an_end_that_is_given_up_takes_no_other_checkpoint_with_it) {
    enum { NEVER = 99 };
    flock f;
    gw_hash root = {{0}};
    uint32_t lost = end_and_lose_a_holder(&f, &root);
    gw_inventory found[2] = {{.epoch = 2, .step = STEPS, .root = root, .ended = true},
                             {.epoch = 2, .step = 4, .root = {{4}}}};
    for (uint32_t k = 0; k < 2; k++) {
        found[k].fingerprint = flock_state_after(found[k].step);
        found[k].chunks = gw_set_of(FLOCK_CHUNKS);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (i == lost) continue;
        f.peers[i].found = found;
        f.peers[i].found_count = 2;
        f.peers[i].retained = NEVER;
        flock_start(&f, i);
    }
    cr_assert(!flock_run(&f, NULL, 500), "they wait for the rest");
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_FORCE_VIEW});
    while (f.peers[0].retained == NEVER) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect_eq(flock_status(&f, 0).step, 0);
    cr_expect_eq(f.peers[0].retained, 1, "%u", f.peers[0].retained);
    cr_expect_eq(f.peers[0].brain->inventory.count, 1);
    cr_expect_eq(f.peers[0].brain->inventory.list[0].step, 4);
    for (uint32_t k = 0; k < 2; k++) gw_set_free(&found[k].chunks);
    flock_close(&f);
}

static bool all_but_odd_at_step_11(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (i != ODD && flock_status(f, i).step < 11) return false;
    return true;
}

/* Float sums: the odd one alone has it on record how the job ended, when the power fails. The others find
 * nothing of that, go on without it, and save what they come to; then the power fails again. One of them is
 * away when it is back. */
Test(peer_end, with_float_sums_an_end_that_others_have_gone_on_without_is_not_the_jobs) {
    flock f;
    flock_open(&f, 4, 4, STEPS, GW_QUORUM_MAJORITY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 4; i++) f.peers[i].config.fast = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    while (f.peers[ODD].saved_step == 0) cr_assert(!flock_run(&f, NULL, 1));
    flock_kill(&f, ODD);
    f.peers[ODD].saved_step = STEPS;
    f.peers[ODD].saved_ended = true;
    f.peers[ODD].saved_root.bytes[0] ^= 1;
    gw_set_free(&f.peers[ODD].saved_chunks);
    f.peers[ODD].saved_chunks = gw_set_of(FLOCK_CHUNKS);
    cr_assert(flock_run(&f, all_but_odd_at_step_11, MOST_EVENTS));
    uint32_t computed = 0, before = 0;
    for (uint32_t i = 0; i < ODD; i++) {
        flock_kill(&f, i);
        cr_assert_eq(f.peers[i].saved_step, 8);
        cr_assert_gt(f.peers[i].saved_epoch, f.peers[ODD].saved_epoch);
    }
    for (uint32_t i = 0; i < 4; i++) before += f.peers[i].computed;
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1) flock_start(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) {
        computed += f.peers[i].computed;
        if (i == 1) continue;
        cr_expect_eq(f.peers[i].finish, GW_FINISH_DONE, "%s", f.peers[i].finish_text);
        cr_expect_null(strstr(f.peers[i].finish_text, "as recorded"), "%s", f.peers[i].finish_text);
    }
    cr_expect_gt(computed, before, "they compute the rest");
    flock_close(&f);
}

/* The odd one waits to be admitted to a flock of three, and it never is before they have ended. The last ones
 * of them, so many, are never found to have ended: their hosts go with them. */
static void miss_flock(flock *f, gw_quorum quorum, uint32_t silent) {
    flock_open(f, 4, 3, STEPS, quorum);
    f->peers[ODD].config.peers = quorum == GW_QUORUM_ANY ? 2 : 3;
    for (uint32_t i = 0; i < 3; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    f->breaks = (flock_break){.kind = GW_MSG_JOIN, .from = ODD, .to = -1, .times = UINT32_MAX, .quiet = true};
    flock_start(f, ODD);
    while (f->breaks.times == UINT32_MAX && !all_but_odd_finished(f)) flock_run(f, NULL, 1);
    deafen_odd(f, true);
    lose_all_ends(f);
    for (uint32_t i = 3 - silent; i < 3; i++) flock_cut(f, i, ODD, true);
    end_all_but_odd(f);
}

Test(peer_end, who_waited_to_be_admitted_to_a_flock_that_is_gone_says_so) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        for (uint32_t silent = 0; silent < 3; silent++) {
            flock f;
            miss_flock(&f, (gw_quorum)quorum, silent);
            cr_assert(flock_run(&f, NULL, MOST_EVENTS), "%u silent", silent);
            cr_assert_eq(f.peers[ODD].finish, GW_FINISH_FAILED, "%s", f.peers[ODD].finish_text);
            cr_assert(strstr(f.peers[ODD].finish_text, "the job ended without this peer") != NULL, "%s",
                      f.peers[ODD].finish_text);
            flock_close(&f);
        }
    }
}

/* It may be the one that is cut off. */
Test(peer_end, who_waits_to_be_admitted_to_a_flock_that_only_fell_silent_goes_on_waiting) {
    flock f;
    miss_flock(&f, GW_QUORUM_ANY, 3);
    uint64_t silent_ns = f.now;
    while (f.now < silent_ns + UINT64_C(600000000000)) cr_assert(!flock_run(&f, NULL, 1000));
    cr_assert(!f.peers[ODD].finished, "%s", f.peers[ODD].finish_text);
    flock_close(&f);
}

static void add_seed(flock *f, uint32_t i, uint32_t seed) {
    gw_peer_config *c = &f->peers[i].config;
    c->seeds[c->seed_count++] = f->peers[seed].config.addrs[0];
}

/* Two wait to be admitted, and never are: each of them lives, and is no member of what the other waits for.
 */
Test(peer_end, two_who_missed_the_same_flock_do_not_wait_for_each_other) {
    flock f;
    flock_open(&f, 5, 3, 1000000, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.breaks = (flock_break){.kind = GW_MSG_JOIN, .from = -1, .to = -1, .times = UINT32_MAX, .quiet = true};
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(100000000);
    for (uint32_t i = 3; i < 5; i++) {
        f.peers[i].config.peers = 3;
        flock_start(&f, i);
    }
    flock_run_for(&f, UINT64_C(3000000000));
    for (uint32_t i = 0; i < 3; i++) cr_assert(f.peers[3].linked[i] && f.peers[4].linked[i]);
    cr_assert(f.peers[3].linked[4]);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 3; i < 5; i++)
        cr_expect(strstr(f.peers[i].finish_text, "the job ended without this peer") != NULL, "%s",
                  f.peers[i].finish_text);
    flock_close(&f);
}

/* All others are gone when both are started: one of them has the last manifest, the other one nothing. */
Test(peer_end, who_ends_by_its_own_manifest_says_so_to_who_has_met_nobody_else) {
    flock f;
    flock_open(&f, 5, 4, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 4; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    while (flock_finished(&f, GW_FINISH_DONE) < 4) cr_assert(!flock_run(&f, NULL, 1));
    gw_hash root = f.peers[0].final_root;
    for (uint32_t i = 0; i < 4; i++) flock_kill(&f, i);
    f.peers[4].config.peers = 4;
    add_seed(&f, 4, ODD);
    flock_start(&f, ODD);
    flock_start(&f, 4);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_done_too(&f, &root);
    cr_expect_eq(f.peers[4].finish, GW_FINISH_LEFT, "%s", f.peers[4].finish_text);
    flock_close(&f);
}

/* As `from` sees it. */
static bool is_linked(const flock *f, uint32_t from, uint32_t to) {
    gw_peer_contact_info info;
    bool linked = false;
    for (uint32_t i = 0; gw_peer_contact_at(f->peers[from].brain, i, &info); i++)
        linked |= info.linked && gw_peer_id_equal(&info.id, &f->peers[to].config.id);
    return linked;
}

static bool first_is_linked_to_odd(const flock *f) {
    return is_linked(f, ODD, 0);
}

static bool odd_is_linked_to_first(const flock *f) {
    return is_linked(f, 0, ODD);
}

/* Float sums: three come to their end while the odd one waits to be admitted, with an end on record: of
 * another lineage, or of theirs. */
static void end_beside_a_record(flock *f, bool stale, bool by_gossip) {
    flock_open(f, 4, 3, STEPS, GW_QUORUM_MAJORITY);
    flock_peer *odd = &f->peers[ODD];
    for (uint32_t i = 0; i < 4; i++) f->peers[i].config.fast = true;
    odd->config.peers = 3;
    for (uint32_t i = 0; i < 3; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    odd->saved_step = STEPS;
    odd->saved_epoch = 1;
    odd->saved_ended = true;
    odd->saved_chunks = gw_set_of(FLOCK_CHUNKS);
    if (stale) {
        odd->saved_root.bytes[0] = 0xEE;
        odd->saved_fingerprint = ~flock_state_after(STEPS);
    } else {
        flock other;
        flock_open(&other, 1, 1, STEPS, GW_QUORUM_ANY);
        flock_start(&other, 0);
        cr_assert(flock_run(&other, NULL, MOST_EVENTS));
        odd->saved_root = other.peers[0].final_root;
        flock_close(&other);
    }
    f->breaks = (flock_break){.kind = GW_MSG_JOIN, .from = ODD, .to = -1, .times = UINT32_MAX, .quiet = true};
    flock_start(f, ODD);
    cr_assert(flock_run(f, first_is_linked_to_odd, MOST_EVENTS));
    while (f->breaks.times == UINT32_MAX) cr_assert(!flock_run(f, NULL, 1));
    if (by_gossip) lose_all_ends(f);
    end_all_but_odd(f);
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
}

Test(peer_end, with_float_sums_a_record_of_another_end_than_the_others_came_to_does_not_count) {
    for (uint32_t k = 0; k < 4; k++) {
        flock f;
        bool stale = k & 1;
        end_beside_a_record(&f, stale, k & 2);
        cr_expect_eq(f.peers[0].finish, GW_FINISH_DONE);
        cr_expect_eq(f.peers[ODD].finish, stale ? GW_FINISH_LEFT : GW_FINISH_DONE, "%u: %s", k,
                     f.peers[ODD].finish_text);
        if (!stale) cr_expect(gw_hash_equal(&f.peers[ODD].final_root, &f.peers[0].final_root));
        flock_close(&f);
    }
}

/* It never heard of a view: all it knows is that those it waited with have ended. */
Test(peer_end, who_stood_still_while_others_founded_and_ended_the_job_says_so) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        flock_open(&f, 4, 3, STEPS, (gw_quorum)quorum);
        flock_start(&f, 0);
        flock_start(&f, ODD);
        cr_assert(flock_run(&f, first_is_linked_to_odd, MOST_EVENTS));
        deafen_odd(&f, true);
        lose_all_ends(&f);
        flock_stop(&f, ODD);
        flock_start(&f, 1);
        flock_start(&f, 2);
        end_all_but_odd(&f);
        cr_assert_eq(f.peers[0].finish, GW_FINISH_DONE);
        flock_continue(&f, ODD);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        cr_assert_eq(f.peers[ODD].finish, GW_FINISH_FAILED, "%s", f.peers[ODD].finish_text);
        cr_assert(strstr(f.peers[ODD].finish_text, "the job ended without this peer") != NULL, "%s",
                  f.peers[ODD].finish_text);
        flock_close(&f);
    }
}

/* Gossip never told it of those that it is linked to, nor that they are done. */
Test(peer_end, who_hears_no_gossip_hears_of_the_end_by_its_links) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        flock_open(&f, 4, 3, 2 * STEPS, (gw_quorum)quorum);
        f.peers[ODD].config.peers = 3;
        for (uint32_t i = 0; i < 3; i++) {
            f.unheard[i][ODD] = true;
            flock_start(&f, i);
        }
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        f.breaks =
            (flock_break){.kind = GW_MSG_PROPOSE, .from = -1, .to = ODD, .times = UINT32_MAX, .quiet = true};
        flock_start(&f, ODD);
        cr_assert(flock_run(&f, odd_is_linked_to_first, MOST_EVENTS));
        end_all_but_odd(&f);
        uint64_t ended_ns = f.now;
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        cr_assert_eq(f.peers[ODD].finish, GW_FINISH_LEFT, "%s", f.peers[ODD].finish_text);
        cr_assert(f.now < ended_ns + UINT64_C(10000000000), "it waited for them all the same");
        flock_close(&f);
    }
}

/* ---- the end told by gossip alone ---- */

/* The first peer waits, alone, and hears this of another one. */
static void hear_of(flock *f, uint32_t other, gw_gossip_state state, uint64_t boot, const uint8_t *blob,
                    size_t blob_bytes) {
    const gw_gossip_packet packet = {.version = GW_GOSSIP_VERSION,
                                     .type = GW_GOSSIP_RUMOURS,
                                     .sender = {{0xFF}},
                                     .incarnation = {.boot = 1, .nonce = 1}};
    const gw_gossip_record record = {.state = (uint8_t)state,
                                     .id = f->peers[other].config.id,
                                     .incarnation = {.boot = boot, .nonce = 7},
                                     .has_meta = blob != NULL,
                                     .meta_version = 1,
                                     .meta = blob,
                                     .meta_bytes = (uint8_t)blob_bytes};
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_gossip_packet_put(&w, &packet);
    gw_put_u8(&w, 1);
    gw_gossip_record_put(&w, &record, packet.version);
    cr_assert(!w.failed);
    flock_tell(f, 0,
               (gw_event){.kind = GW_EV_DATAGRAM,
                          .datagram.from = f->peers[other].config.addrs[0],
                          .datagram.bytes = bytes,
                          .datagram.length = w.length});
}

/* The first peer hears this of the second one. */
static void hear(flock *f, gw_gossip_state state, uint64_t boot, const uint8_t *blob, size_t blob_bytes) {
    hear_of(f, 1, state, boot, blob, blob_bytes);
}

/* It has a link to such a life of the second one, for a moment. */
static void be_linked(flock *f, uint64_t boot) {
    const gw_incarnation life = {.boot = boot, .nonce = 7};
    gw_event event = {.kind = GW_EV_LINK_UP, .peer = f->peers[1].config.id, .link.incarnation = life};
    flock_tell(f, 0, event);
    event.kind = GW_EV_LINK_DOWN;
    event.link.end = GW_LINK_CLOSED;
    flock_tell(f, 0, event);
}

static void wait_alone(flock *f) {
    flock_open(f, 2, 2, STEPS, GW_QUORUM_ANY);
    flock_start(f, 0);
    cr_assert(!flock_run(f, NULL, 50));
    cr_assert(!f->peers[0].finished);
}

/* What a peer gossips when it has ended the job, or left it before it had a view. */
static size_t last_blob(bool ends, uint8_t *blob) {
    flock f;
    flock_open(&f, 1, ends ? 1 : 2, STEPS, GW_QUORUM_ANY);
    flock_start(&f, 0);
    cr_assert(!ends || flock_run(&f, flock_at_step_5, MOST_EVENTS));
    if (!ends) flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    size_t length = f.peers[0].brain->members.meta_length;
    memcpy(blob, f.peers[0].brain->members.meta, length);
    flock_close(&f);
    return length;
}

static void expect_told(const flock *f, bool unsaved) {
    cr_assert(f->peers[0].finished, "it waits for them");
    cr_assert_eq(f->peers[0].finish, unsaved ? GW_FINISH_UNSAVED : GW_FINISH_LEFT, "%s",
                 f->peers[0].finish_text);
}

Test(peer_end, the_last_words_of_a_life_that_was_never_heard_alive_tell_of_the_end) {
    uint8_t ends[GW_GOSSIP_META_BYTES];
    size_t length = last_blob(true, ends);
    for (int known = 0; known < 2; known++) {  /* in an earlier life */
        for (int late = 0; late < 2; late++) { /* the news that it left comes first */
            for (int unsaved = 0; unsaved < 2; unsaved++) {
                flock f;
                wait_alone(&f);
                ends[1] = (uint8_t)((ends[1] & ~16) | unsaved << 4); /* its flags */
                if (known) hear(&f, GW_GOSSIP_IS_ALIVE, 1, NULL, 0);
                be_linked(&f, known ? 1 : 2);
                if (late) {
                    hear(&f, GW_GOSSIP_IS_LEFT, 2, NULL, 0);
                    cr_assert(!f.peers[0].finished, "%s", f.peers[0].finish_text);
                }
                hear(&f, GW_GOSSIP_IS_LEFT, 2, ends, length);
                expect_told(&f, unsaved);
                flock_close(&f);
            }
        }
    }
}

/* The last words of a peer that this process has never met, or has met in a later life, may be a recording
 * from when the job was stopped long ago; also if they say that it is leaving, and it then falls silent. All
 * peers come in the end and go on with the job. */
Test(peer_end, last_words_that_may_be_a_recording_end_nothing) {
    uint8_t ends[GW_GOSSIP_META_BYTES];
    size_t length = last_blob(true, ends);
    for (int met = 0; met < 2; met++) { /* in a later life */
        for (gw_gossip_state state = GW_GOSSIP_IS_ALIVE; state <= GW_GOSSIP_IS_LEFT; state++) {
            flock f;
            wait_alone(&f);
            if (met) be_linked(&f, 2);
            hear(&f, state, 1, ends, length);
            flock_run_for(&f, UINT64_C(4000000000)); /* it is buried if it was silent */
            cr_assert(!f.peers[0].finished, "%d, %d: %s", met, state, f.peers[0].finish_text);
            if (!met) flock_run_for(&f, UINT64_C(1000000000000));
            cr_assert(!f.peers[0].finished, "%d, %d: %s", met, state, f.peers[0].finish_text);
            f.peers[1].config.incarnation.boot = 2;
            flock_start(&f, 1);
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
            flock_expect_done(&f, 2);
            flock_close(&f);
        }
    }
}

/* By majority: their hosts are off, and nobody but that recording says that they have ended for good. */
Test(peer_end, goodbyes_that_may_be_a_recording_do_not_cost_the_majority) {
    flock f;
    flock_open_at_step_5(&f, 3, 2 * STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    for (uint32_t i = 1; i < 3; i++) flock_cut(&f, 0, i, true);
    flock_start(&f, 0);
    for (uint32_t i = 1; i < 3; i++) hear_of(&f, i, GW_GOSSIP_IS_LEFT, 1, NULL, 0);
    flock_run_for(&f, UINT64_C(1000000000000));
    cr_assert(!f.peers[0].finished, "%s", f.peers[0].finish_text);
    for (uint32_t i = 1; i < 3; i++) flock_mend(&f, 0, i);
    for (uint32_t i = 1; i < 3; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

/* A life that a link has told of is not ended by late news of the one before it. */
Test(peer_end, the_end_of_an_earlier_life_is_not_that_of_the_one_a_link_told_of) {
    for (int known = 0; known < 2; known++) { /* the earlier one */
        flock f;
        wait_alone(&f);
        const gw_peer_id *other = &f.peers[1].config.id;
        if (known) hear(&f, GW_GOSSIP_IS_ALIVE, 1, NULL, 0);
        flock_tell(
            &f, 0,
            (gw_event){.kind = GW_EV_LINK_UP, .peer = *other, .link.incarnation = {.boot = 2, .nonce = 7}});
        hear(&f, GW_GOSSIP_IS_LEFT, 1, NULL, 0);
        cr_assert(!gw_peer_contact(f.peers[0].brain, other)->ended);
        hear(&f, GW_GOSSIP_IS_LEFT, 2, NULL, 0);
        cr_assert(gw_peer_contact(f.peers[0].brain, other)->ended);
        flock_close(&f);
    }
}

/* One key may serve for several jobs, and gossip tells all of all. */
Test(peer_end, the_end_of_another_job_is_not_the_end_of_this_one) {
    uint8_t ends[GW_GOSSIP_META_BYTES];
    size_t length = last_blob(true, ends);
    for (int own = 0; own < 2; own++) {
        flock f;
        wait_alone(&f);
        be_linked(&f, 1);
        ends[2] ^= own ? 0 : 1; /* the first byte of its job */
        hear(&f, GW_GOSSIP_IS_LEFT, 1, ends, length);
        cr_assert(!flock_run(&f, NULL, 500) || own);
        cr_assert_eq(f.peers[0].finished, own, "%s", f.peers[0].finish_text);
        ends[2] ^= own ? 0 : 1;
        flock_close(&f);
    }
}

/* One that was in no view has nothing to say, but lived after the one that was; that one's words count. */
Test(peer_end, who_only_waited_and_left_neither_tells_of_an_end_nor_hides_one) {
    uint8_t ends[GW_GOSSIP_META_BYTES], leaves[GW_GOSSIP_META_BYTES];
    size_t length = last_blob(true, ends), leaves_length = last_blob(false, leaves);
    flock f;
    wait_alone(&f);
    be_linked(&f, 1);
    hear(&f, GW_GOSSIP_IS_LEFT, 1, leaves, leaves_length);
    cr_assert(!flock_run(&f, NULL, 500));
    cr_assert(!f.peers[0].finished, "%s", f.peers[0].finish_text);
    hear(&f, GW_GOSSIP_IS_ALIVE, 2, ends, length); /* about to go */
    cr_assert(!f.peers[0].finished, "%s", f.peers[0].finish_text);
    hear(&f, GW_GOSSIP_IS_LEFT, 3, leaves, leaves_length);
    expect_told(&f, false);
    flock_close(&f);
}

/* Without any word of an end others may come back: the minority waits for them for long. */
Test(peer_end, a_minority_whose_others_only_fell_silent_goes_on_waiting) {
    flock f;
    flock_open(&f, 4, 4, 1000000, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_cut(&f, i, ODD, true);
    for (uint32_t i = 0; i < 4; i++) f.peers[i].seal_ns = UINT64_C(10000000000);
    uint64_t cut_ns = f.now;
    while (f.now < cut_ns + UINT64_C(600000000000)) cr_assert(!flock_run(&f, NULL, 1000));
    cr_assert(!f.peers[ODD].finished, "%s", f.peers[ODD].finish_text);
    flock_close(&f);
}

static bool newcomer_was_greeted(const flock *f) {
    const gw_peer *p = f->peers[1].brain;
    return p != NULL && p->members.contact_count > 0 && p->members.contacts[0].greeted;
}

/* By the link to one of the job, whose process ends at once, and of whom gossip tells no more than that it
 * lived. */
Test(peer_end, who_came_as_the_last_one_left_does_not_wait_for_ever) {
    flock f;
    flock_open(&f, 2, 1, 50, GW_QUORUM_ANY);
    f.peers[1].config.peers = 2;
    f.blobs_lost = &f.peers[0].config.id;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_start(&f, 1);
    cr_assert(flock_run(&f, newcomer_was_greeted, MOST_EVENTS));
    flock_kill(&f, 0);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_expect_eq(f.peers[1].finish, GW_FINISH_FAILED);
    cr_expect_not_null(strstr(f.peers[1].finish_text, "the job ended without this peer"), "%s",
                       f.peers[1].finish_text);
    flock_close(&f);
}
