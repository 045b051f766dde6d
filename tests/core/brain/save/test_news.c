/* News that a checkpoint is complete, from who has died since: whoever it reaches, and whenever, all keep the
 * same checkpoint when their disks are full. Float sums, one checkpoint kept. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/members/contacts.h"
#include "core/brain/outbox.h"
#include "core/brain/state.h" /* votes, loads, what a view has found */
#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 1000000, ALL_CHUNKS = 7 };

#define SECOND UINT64_C(1000000000)

/* A flock of slow steps whose first checkpoint all know to be complete. All have recorded the second: its
 * leader alone knows that it is complete, and has given up the first. */
typedef struct told {
    flock f;
    uint32_t members, leader, others[4]; /* by rank after the leader's */
    gw_hash first, second;
    gw_peer_id leader_id;
    gw_message news;
    uint32_t chunks[5]; /* of the first, and of the second as well, by peer */
} told;

/* `tag`: of their names, by which chunks are placed. */
static void open_flock(flock *f, uint32_t count, uint32_t founders, uint8_t tag, uint32_t replicas) {
    flock_open(f, count, founders, 4000, GW_QUORUM_MAJORITY);
    f->checkpoint_steps = 4;
    for (uint32_t i = 0; i < count; i++) {
        flock_peer *p = &f->peers[i];
        p->config.id.bytes[5] = tag;
        p->config.fast = true;
        p->config.keep = 1;
        p->config.replicas = replicas;
        p->seal_ns = 10 * SECOND;
        p->store.room = FLOCK_FILES;
    }
}

static void note_the_first(told *t, uint32_t founders) {
    flock *f = &t->f;
    t->leader = flock_leader(f);
    t->leader_id = f->peers[t->leader].config.id;
    t->first = f->peers[0].saved_root;
    t->members = founders;
    for (uint32_t i = 1; i < founders; i++) t->others[i - 1] = (t->leader + i) % founders;
    for (uint32_t i = 0; i < founders; i++) t->chunks[i] = flock_chunks_of(&f->peers[i], &t->first);
}

static void open_to_the_first(told *t, uint32_t count, uint8_t tag, uint32_t replicas) {
    open_flock(&t->f, count, count, tag, replicas);
    flock_start_all(&t->f);
    cr_assert(flock_run(&t->f, flock_all_have_a_checkpoint, MOST_EVENTS));
    note_the_first(t, count);
}

static void run_to_the_second(told *t) {
    flock *f = &t->f;
    f->breaks = (flock_break){
        .kind = GW_MSG_COMPLETE, .from = (int)t->leader, .to = -1, .times = t->members - 1, .quiet = true};
    while (f->breaks.times > 0) cr_assert(!flock_run(f, NULL, 1));
    const gw_peer *leader = f->peers[t->leader].brain;
    t->second = f->peers[t->leader].saved_root;
    t->news = gw_peer_about_view(leader, GW_MSG_COMPLETE);
    t->news.job = leader->job;
    t->news.complete.step = f->peers[t->leader].saved_step;
    t->news.complete.root = t->second;
}

/* Five, one copy of a chunk: the leader has some, and so has one of the last three. */
static void open_where_a_chunk_is_the_leaders(told *t) {
    for (uint8_t tag = 1;; tag++) {
        open_to_the_first(t, 5, tag, 1);
        const uint32_t *of = t->chunks;
        if (of[t->leader] != 0 && (of[t->others[1]] | of[t->others[2]] | of[t->others[3]]) != 0) break;
        flock_close(&t->f);
    }
}

static void open_told(told *t, uint32_t replicas) {
    open_to_the_first(t, 3, 3, replicas);
    run_to_the_second(t);
}

/* The link to who left stays until what it said has come; a kill here drops it at once. */
static void tell(told *t, uint32_t to) {
    uint8_t *bytes;
    size_t length = gw_message_encode(&t->news, &bytes);
    const gw_contact *found = gw_peer_contact(t->f.peers[to].brain, &t->leader_id);
    gw_contact *contact = (gw_contact *)(uintptr_t)found;
    contact->linked = true;
    flock_tell(
        &t->f, to,
        (gw_event){
            .kind = GW_EV_MESSAGE, .peer = t->leader_id, .message.bytes = bytes, .message.length = length});
    contact->linked = false;
    free(bytes);
}

static void await_views_of(flock *f, uint32_t count) {
    for (uint32_t i = 0; i < f->count; i++)
        while (f->peers[i].brain != NULL && !flock_in_view_of(f, i, count)) cr_assert(!flock_run(f, NULL, 1));
}

static void await_computing(flock *f, uint32_t i) {
    while (strcmp(flock_status(f, i).phase, "computing") != 0) cr_assert(!flock_run(f, NULL, 1));
}

static bool loads(const told *t, uint32_t i) {
    return t->f.peers[i].brain->view.load_token != 0;
}

/* The sum of the next step reaches one alone. */
static void give_the_next_sum_to(told *t, uint32_t one) {
    flock *f = &t->f;
    f->sum_for = one + 1;
    uint64_t step = flock_status(f, one).step;
    while (flock_status(f, one).step == step) cr_assert(!flock_run(f, NULL, 1));
}

static void fill_disks(told *t) {
    flock *f = &t->f;
    for (uint32_t i = 0; i < f->count; i++) f->peers[i].disk_full = true;
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL) flock_await_room_made(f, i);
}

static uint32_t left_of(const told *t, const gw_hash *root) {
    uint32_t chunks = 0;
    for (uint32_t i = 0; i < t->f.count; i++) chunks |= flock_chunks_of(&t->f.peers[i], root);
    return chunks;
}

/* All that run know this one, and when their disks are full there is, with those of the dead, one that is
 * whole. */
static void expect_all_keep(told *t, uint64_t step, const char *when) {
    for (uint32_t i = 0; i < t->f.count; i++)
        if (t->f.peers[i].brain != NULL)
            cr_expect_eq(flock_status(&t->f, i).checkpoint_step, step, "%s: peer %u knows %d", when, i,
                         (int)flock_status(&t->f, i).checkpoint_step);
    fill_disks(t);
    uint32_t first = left_of(t, &t->first), second = left_of(t, &t->second);
    cr_expect(first == ALL_CHUNKS || second == ALL_CHUNKS, "%s: of the first there are %x, of the second %x",
              when, first, second);
    flock_close(&t->f);
}

enum { TO_BOTH, TO_WHO_FETCHES, TO_THE_OTHER };

/* One of two has come to its state by itself, and the other one fetches it. */
Test(peer_news, it_counts_whoever_hears_it_while_one_fetches_or_afterwards) {
    for (uint32_t variant = 0; variant < 12; variant++) {
        told t;
        const uint32_t whom = variant % 3, replicas = 1 + variant / 3 % 2;
        const bool afterwards = variant >= 6;
        open_told(&t, replicas);
        const uint32_t fetches = t.others[0], other = t.others[1];
        t.f.peers[fetches].load_ns = 5 * SECOND;
        give_the_next_sum_to(&t, other);
        flock_kill(&t.f, t.leader);
        t.f.peers[fetches].loads = 0;
        while (t.f.peers[fetches].loads == 0) cr_assert(!flock_run(&t.f, NULL, 1));
        await_views_of(&t.f, 2);
        cr_assert(loads(&t, fetches));
        while (afterwards && loads(&t, fetches)) cr_assert(!flock_run(&t.f, NULL, 1));
        if (whom != TO_THE_OTHER) tell(&t, fetches);
        if (whom != TO_WHO_FETCHES) tell(&t, other);
        while (loads(&t, fetches)) cr_assert(!flock_run(&t.f, NULL, 1));
        flock_run_for(&t.f, SECOND / 10);
        char when[60];
        snprintf(when, sizeof when, "whom %u, %u copies, %s", whom, replicas,
                 afterwards ? "after" : "during");
        expect_all_keep(&t, 8, when);
    }
}

/* It reaches one that has voted for the next view, which its vote could not tell it. */
Test(peer_news, it_counts_when_it_comes_between_a_vote_and_the_next_view) {
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        told t;
        open_told(&t, replicas);
        flock_kill(&t.f, t.leader);
        uint32_t voter = UINT32_MAX;
        while (voter == UINT32_MAX) {
            cr_assert(!flock_run(&t.f, NULL, 1));
            for (uint32_t k = 0; k < 2; k++) {
                const gw_peer *p = t.f.peers[t.others[k]].brain;
                if (p->phase == GW_AT_FROZEN && p->view.vote_sent && !p->view.attempt.active)
                    voter = t.others[k];
            }
        }
        tell(&t, voter);
        await_views_of(&t.f, 2);
        flock_run_for(&t.f, SECOND);
        expect_all_keep(&t, 8, "after the vote");
    }
}

/* One hears it in the next view, where another one has yet to arrive. */
Test(peer_news, it_counts_where_the_view_has_not_arrived_yet) {
    told t;
    flock *f = &t.f;
    for (uint8_t tag = 1;; tag++) {
        open_to_the_first(&t, 5, tag, 1);
        if (t.chunks[t.leader] != 0 && t.chunks[t.others[2]] != 0 && t.chunks[t.others[3]] != 0) break;
        flock_close(f);
    }
    run_to_the_second(&t);
    flock_kill(f, t.leader);
    uint32_t proposer = UINT32_MAX;
    while (proposer == UINT32_MAX) {
        cr_assert(!flock_run(f, NULL, 1));
        for (uint32_t i = 0; i < 5; i++)
            if (f->peers[i].brain != NULL && f->peers[i].brain->view.attempt.active) proposer = i;
    }
    uint32_t one = t.others[proposer == t.others[0] ? 1 : 0],
             late = t.others[proposer == t.others[2] ? 3 : 2];
    f->longer_ns[proposer][late] = 500000;
    while (!flock_in_view_of(f, one, 4)) cr_assert(!flock_run(f, NULL, 1));
    cr_assert_not(flock_in_view_of(f, late, 4));
    tell(&t, one);
    await_views_of(f, 4);
    flock_run_for(f, SECOND);
    expect_all_keep(&t, 8, "before the view");
}

Test(peer_news, it_is_told_again_where_a_link_broke) {
    told t;
    open_told(&t, 1);
    const uint32_t fetches = t.others[0], other = t.others[1];
    t.f.peers[fetches].load_ns = 5 * SECOND;
    give_the_next_sum_to(&t, other);
    flock_kill(&t.f, t.leader);
    t.f.peers[fetches].loads = 0;
    while (t.f.peers[fetches].loads == 0) cr_assert(!flock_run(&t.f, NULL, 1));
    await_views_of(&t.f, 2);
    t.f.breaks = (flock_break){.kind = GW_MSG_READY, .from = (int)other, .to = (int)fetches, .times = 1};
    tell(&t, other);
    cr_assert_eq(t.f.breaks.times, 0);
    while (loads(&t, fetches)) cr_assert(!flock_run(&t.f, NULL, 1));
    flock_run_for(&t.f, SECOND);
    expect_all_keep(&t, 8, "the link broke");
}

/* Who knew dies before the others have fetched from it: the states that they keep have come from there, too.
 */
Test(peer_news, it_counts_for_the_state_that_is_kept_when_a_fetch_fails) {
    told t;
    flock *f = &t.f;
    for (uint8_t tag = 1;; tag++) {
        open_to_the_first(&t, 5, tag, 1);
        uint32_t of_leader = t.chunks[t.leader];
        if (of_leader != 0 && of_leader != ALL_CHUNKS && t.chunks[t.others[0]] == 0) break;
        flock_close(f);
    }
    run_to_the_second(&t);
    for (int k = 1; k < 4; k++) {
        f->peers[t.others[k]].load_ns = 5 * SECOND;
        f->peers[t.others[k]].loads_to_fail = 1;
        f->peers[t.others[k]].loads = 0;
    }
    give_the_next_sum_to(&t, t.others[0]);
    flock_kill(f, t.leader);
    for (int k = 1; k < 4; k++)
        while (f->peers[t.others[k]].loads == 0) cr_assert(!flock_run(f, NULL, 1));
    tell(&t, t.others[0]);
    flock_run_for(f, SECOND / 10);
    cr_assert(loads(&t, t.others[1]));
    flock_kill(f, t.others[0]);
    await_views_of(f, 3);
    await_computing(f, t.others[1]);
    expect_all_keep(&t, 8, "the fetch failed");
}

/* The leader and another knew, and have died. A sum has reached one of three, from which the others have
 * fetched; then that other one is back: all of the second is here. */
Test(peer_news, what_all_have_saved_is_found_whole_though_some_have_fetched_since) {
    for (int fetches = 0; fetches < 2; fetches++) {
        told t;
        flock *f = &t.f;
        for (uint8_t tag = 1;; tag++) {
            open_to_the_first(&t, 5, tag, 1);
            const uint32_t *of = t.chunks;
            if (of[t.leader] == 0 && of[t.others[3]] != 0 && (of[t.others[1]] | of[t.others[2]]) != 0) break;
            flock_close(f);
        }
        const uint32_t one = t.others[0], two = t.others[1], three = t.others[2], back = t.others[3];
        run_to_the_second(&t);
        tell(&t, back);
        if (fetches) give_the_next_sum_to(&t, one);
        flock_kill(f, t.leader);
        flock_kill(f, back);
        await_views_of(f, 3);
        await_computing(f, two);
        f->peers[back].config.seed_count = 1;
        f->peers[back].config.seeds[0] = f->peers[one].config.addrs[0];
        flock_start(f, back);
        await_views_of(f, 4);
        await_computing(f, three);
        cr_expect_eq(f->peers[two].brain->save.found.step, 8, "fetches %d", fetches);
        fill_disks(&t);
        uint32_t first = left_of(&t, &t.first), second = left_of(&t, &t.second);
        cr_expect(first == ALL_CHUNKS || second == ALL_CHUNKS,
                  "fetches %d: of the first there are %x, of the second %x", fetches, first, second);
        flock_close(f);
    }
}

/* It reaches one that has voted, while who has the sum is in the next view, from which that one fetches it.
 */
Test(peer_news, it_counts_when_it_comes_between_a_vote_and_a_view_whose_state_is_fetched) {
    told t;
    open_told(&t, 1);
    flock *f = &t.f;
    const uint32_t holder = t.others[0], fetches = t.others[1];
    give_the_next_sum_to(&t, holder);
    flock_kill(f, t.leader);
    const gw_peer *p = f->peers[fetches].brain;
    while (!(p->phase == GW_AT_FROZEN && p->view.vote_sent && !p->view.attempt.active))
        cr_assert(!flock_run(f, NULL, 1));
    while (!flock_in_view_of(f, holder, 2)) cr_assert(!flock_run(f, NULL, 1));
    cr_assert_not(flock_in_view_of(f, fetches, 2));
    tell(&t, fetches);
    cr_assert_eq(f->peers[fetches].checkpoints, 2, "it has told its user so");
    await_views_of(f, 2);
    flock_run_for(f, 5 * SECOND);
    expect_all_keep(&t, 8, "voted, then fetches");
}

/* Who has come to the state by itself dies when three have fetched it; the news reaches one of them before it
 * has all of it, or afterwards. */
Test(peer_news, it_counts_where_all_have_fetched) {
    for (int afterwards = 0; afterwards < 2; afterwards++) {
        told t;
        flock *f = &t.f;
        open_where_a_chunk_is_the_leaders(&t);
        run_to_the_second(&t);
        for (int k = 0; k < 4; k++) {
            f->peers[t.others[k]].loads = 0;
            f->peers[t.others[k]].load_ns = SECOND;
        }
        give_the_next_sum_to(&t, t.others[0]);
        flock_kill(f, t.leader);
        for (int k = 1; k < 4; k++)
            while (f->peers[t.others[k]].loads == 0) cr_assert(!flock_run(f, NULL, 1));
        flock_kill(f, t.others[0]);
        if (!afterwards) tell(&t, t.others[1]);
        await_views_of(f, 3);
        if (afterwards) tell(&t, t.others[1]);
        for (int k = 1; k < 4; k++) await_computing(f, t.others[k]);
        flock_run_for(f, SECOND);
        for (int k = 1; k < 4; k++) cr_assert_eq(flock_status(f, t.others[k]).step, 9);
        expect_all_keep(&t, 8, afterwards ? "afterwards" : "while they fetch");
    }
}

/* One has heard it in time, and is cut off, or hears it when it has been, out of its view; the leader dies,
 * and the others go on for a while. */
Test(peer_news, who_comes_back_brings_it) {
    for (int late = 0; late < 2; late++) {
        told t;
        flock *f = &t.f;
        open_where_a_chunk_is_the_leaders(&t);
        run_to_the_second(&t);
        const uint32_t knows = t.others[0];
        if (!late) tell(&t, knows);
        for (int k = 0; k < 4; k++) f->peers[t.others[k]].disk_full = true;
        for (int k = 1; k < 4; k++) flock_cut(f, knows, t.others[k], true);
        flock_kill(f, t.leader);
        for (int k = 1; k < 4; k++)
            while (!flock_in_view_of(f, t.others[k], 3)) cr_assert(!flock_run(f, NULL, 1));
        flock_run_for(f, (late ? 5 : 15) * SECOND);
        for (int k = 1; k < 4; k++) flock_mend(f, knows, t.others[k]);
        while (late && flock_status(f, knows).view != NULL) cr_assert(!flock_run(f, NULL, 1));
        if (late) tell(&t, knows);
        cr_assert_eq(flock_status(f, knows).checkpoint_step, 8);
        await_views_of(f, 4);
        for (int k = 0; k < 4; k++) await_computing(f, t.others[k]);
        flock_run_for(f, SECOND);
        expect_all_keep(&t, 8, late ? "heard out of its view" : "heard in time");
    }
}

/* What two have found whole stays so where a newcomer, with nothing of it, has the next sum alone. */
Test(peer_news, a_newcomer_tells_where_its_state_has_come_from) {
    told t;
    flock *f = &t.f;
    open_flock(f, 4, 3, 1, 2);
    for (uint32_t i = 0; i < 3; i++) flock_start(f, i);
    for (uint32_t i = 0; i < 3; i++)
        while (f->peers[i].checkpoints == 0) cr_assert(!flock_run(f, NULL, 1));
    note_the_first(&t, 3);
    run_to_the_second(&t);
    flock_kill(f, t.leader);
    await_views_of(f, 2);
    f->peers[3].config.seed_count = 1;
    f->peers[3].config.seeds[0] = f->peers[t.others[0]].config.addrs[0];
    flock_start(f, 3);
    await_views_of(f, 3);
    await_computing(f, 3);
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(f->peers[t.others[k]].brain->save.found.step, 8);
        f->peers[t.others[k]].loads = 0;
    }
    give_the_next_sum_to(&t, 3);
    for (int k = 0; k < 2; k++)
        while (f->peers[t.others[k]].loads == 0) cr_assert(!flock_run(f, NULL, 1));
    for (int k = 0; k < 2; k++) await_computing(f, t.others[k]);
    for (int k = 0; k < 2; k++) cr_expect_eq(f->peers[t.others[k]].brain->save.found.step, 8);
    for (uint32_t i = 0; i < 4; i++) f->peers[i].disk_full = true;
    flock_run_for(f, 200 * SECOND);
    cr_expect_eq(left_of(&t, &t.second), ALL_CHUNKS, "%x", left_of(&t, &t.second));
    flock_close(f);
}

/* ---- where a disk has refused it
 * -------------------------------------------------------------------------------------------- */

enum { WHILE_FETCHING, AFTERWARDS, AFTER_THE_VOTE, TO_THE_FULL_ONE, TIMES };

/* One whose disk has refused the second has come from there all the same: others who fetch from it know, and
 * those who have recorded it hear of it from who has not. */
Test(peer_news, it_counts_where_the_disk_of_one_was_full) {
    for (int when = 0; when < TIMES; when++) {
        told t;
        flock *f = &t.f;
        open_where_a_chunk_is_the_leaders(&t);
        const uint32_t full = t.others[0], hears = t.others[1];
        f->peers[full].disk_full = true;
        run_to_the_second(&t);
        for (int k = 0; k < 4; k++) {
            f->peers[t.others[k]].loads = 0;
            f->peers[t.others[k]].load_ns = SECOND;
        }
        if (when != TO_THE_FULL_ONE) give_the_next_sum_to(&t, full);
        flock_kill(f, t.leader);
        const gw_peer *p = f->peers[hears].brain;
        while (when == AFTER_THE_VOTE &&
               !(p->phase == GW_AT_FROZEN && p->view.vote_sent && !p->view.attempt.active))
            cr_assert(!flock_run(f, NULL, 1));
        while (when == WHILE_FETCHING && f->peers[hears].loads == 0) cr_assert(!flock_run(f, NULL, 1));
        if (when == WHILE_FETCHING || when == AFTER_THE_VOTE) tell(&t, hears);
        await_views_of(f, 4);
        for (int k = 0; k < 4; k++) await_computing(f, t.others[k]);
        if (when == AFTERWARDS) tell(&t, hears);
        if (when == TO_THE_FULL_ONE) tell(&t, full);
        flock_run_for(f, 3 * SECOND);
        for (int k = 1; k < 4; k++)
            cr_expect_eq(flock_status(f, t.others[k]).checkpoint_step, t.news.complete.step,
                         "when %d: peer %u", when, t.others[k]);
        for (uint32_t i = 0; i < 5; i++) f->peers[i].disk_full = true;
        flock_run_for(f, 200 * SECOND);
        uint32_t first = left_of(&t, &t.first), second = left_of(&t, &t.second);
        cr_expect(first == ALL_CHUNKS || second == ALL_CHUNKS,
                  "when %d: of the first there are %x, of the second %x", when, first, second);
        flock_close(f);
    }
}

/* ---- at any time
 * ------------------------------------------------------------------------------------------------------ */

static bool is_settled(const flock *f) {
    uint32_t alive = 0;
    for (uint32_t i = 0; i < f->count; i++) alive += f->peers[i].brain != NULL;
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL &&
            (!flock_in_view_of(f, i, alive) || strcmp(flock_status(f, i).phase, "computing") != 0))
            return false;
    return true;
}

/* Five with full disks, whose leader dies; one or two hear it some events later, amid fetches, slow ways, a
 * link that breaks, and the death of another one. False: nobody who lives has heard it. */
static bool hear_at_random(told *t, gw_rng *rng) {
    flock *f = &t->f;
    for (uint32_t i = 0; i < 5; i++) {
        for (uint32_t k = 0; k < 5; k++)
            f->longer_ns[i][k] = gw_rng_below(rng, 3) == 0 ? gw_rng_below(rng, 3000000) : 0;
        f->peers[i].load_ns = gw_rng_below(rng, 2) * 2 * SECOND + gw_rng_below(rng, 3000000);
        f->peers[i].disk_full = true;
    }
    if (gw_rng_below(rng, 3) != 0) give_the_next_sum_to(t, t->others[gw_rng_below(rng, 4)]);
    flock_kill(f, t->leader);
    const uint32_t victim = t->others[gw_rng_below(rng, 4)],
                   to[2] = {t->others[gw_rng_below(rng, 4)], t->others[gw_rng_below(rng, 4)]};
    const uint64_t dies_at = gw_rng_below(rng, 800),
                   at[2] = {gw_rng_below(rng, 260), gw_rng_below(rng, 1000)};
    bool heard[5] = {false};
    if (gw_rng_below(rng, 4) == 0)
        f->breaks = (flock_break){.kind = GW_MSG_READY, .from = -1, .to = -1, .times = 1};
    for (uint64_t event = 0; event < 420 || !is_settled(f); event++) {
        cr_assert(event < MOST_EVENTS && !flock_run(f, NULL, 1));
        for (int k = 0; k < 2; k++) {
            if (event != at[k] || f->peers[to[k]].brain == NULL) continue;
            tell(t, to[k]);
            heard[to[k]] |= f->peers[to[k]].checkpoints == 2;
        }
        if (event == dies_at) flock_kill(f, victim);
    }
    bool any = false;
    for (uint32_t i = 0; i < 5; i++) any |= heard[i] && f->peers[i].brain != NULL;
    return any;
}

Test(peer_news, it_counts_whenever_it_comes) {
    uint32_t counted = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        told t;
        gw_rng rng = gw_rng_seeded(seed);
        open_to_the_first(&t, 5, (uint8_t)gw_rng_below(&rng, 250), 1 + (uint32_t)gw_rng_below(&rng, 2));
        run_to_the_second(&t);
        const bool any = hear_at_random(&t, &rng);
        counted += any;
        flock_run_for(&t.f, 200 * SECOND);
        uint32_t first = left_of(&t, &t.first), second = left_of(&t, &t.second), knows = 0, alive = 0;
        for (uint32_t i = 0; i < 5; i++) {
            if (t.f.peers[i].brain == NULL) continue;
            knows += flock_status(&t.f, i).checkpoint_step == 8;
            alive++;
        }
        cr_expect(knows == alive || !any, "seed %lu: %u of %u know it", seed, knows, alive);
        cr_expect(first == ALL_CHUNKS || second == ALL_CHUNKS || !any,
                  "seed %lu: of the first there are %x, of the second %x", seed, first, second);
        flock_close(&t.f);
    }
    cr_assert_gt(counted, 50);
}
