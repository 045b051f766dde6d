/* Views, and what a voter promises. */
#include "core/record/ballot.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static gw_view view_of_lives(uint64_t epoch, const gw_view *parent, unsigned members, unsigned leader,
                             const uint64_t *boots) {
    gw_view view = {.epoch = epoch};
    if (parent != NULL) view.parent = parent->name;
    for (uint8_t i = 0; i < 8; i++)
        if (members >> i & 1)
            view.members[view.count++] = (gw_member){.id = {{(uint8_t)(i + 1)}}, .boot = boots[i]};
    view.leader = (gw_peer_id){{(uint8_t)(leader + 1)}};
    gw_view_seal(&view);
    return view;
}

static gw_view view_of(uint64_t epoch, const gw_view *parent, unsigned members, unsigned leader) {
    return view_of_lives(epoch, parent, members, leader, (uint64_t[8]){1, 1, 1, 1, 1, 1, 1, 1});
}

Test(view, name_covers_everything_in_it) {
    gw_view a = view_of(3, NULL, 7, 0), b = view_of(4, NULL, 7, 0), c = view_of(3, NULL, 7, 1),
            d = view_of(3, NULL, 3, 0);
    gw_view e = view_of(3, &b, 7, 0);
    cr_assert(!gw_view_name_equal(&a.name, &b.name));
    cr_assert(!gw_view_name_equal(&a.name, &c.name));
    cr_assert(!gw_view_name_equal(&a.name, &d.name));
    cr_assert(!gw_view_name_equal(&a.name, &e.name));
    gw_view again = view_of(3, NULL, 7, 0);
    cr_assert(gw_view_name_equal(&a.name, &again.name));
}

Test(view, a_name_that_does_not_fit_is_refused) {
    gw_view a = view_of(3, NULL, 7, 0), back;
    uint8_t bytes[512];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_view_put(&w, &a);
    gw_reader r = gw_reader_on(bytes, w.length);
    gw_view_get(&r, &back);
    cr_assert(gw_reader_done(&r));
    for (size_t i = 0; i < w.length; i++) {
        bytes[i] ^= 1;
        r = gw_reader_on(bytes, w.length);
        gw_view_get(&r, &back);
        cr_assert(r.failed, "byte %zu", i);
        bytes[i] ^= 1;
    }
}

Test(view, half_is_a_majority_only_with_the_lowest_rank) {
    gw_view four = view_of(1, NULL, 15, 0), low = view_of(2, NULL, 3, 0), high = view_of(2, NULL, 12, 2);
    cr_assert(gw_view_majority(&four, &low));
    cr_assert(!gw_view_majority(&four, &high));
    gw_view three = view_of(1, NULL, 7, 0), one = view_of(2, NULL, 1, 0), two = view_of(2, NULL, 6, 1);
    cr_assert(!gw_view_majority(&three, &one));
    cr_assert(gw_view_majority(&three, &two));
}

Test(view, a_rank_is_that_of_one_life) {
    gw_view a = view_of(3, NULL, 7, 0);
    const gw_peer_id second = {{2}}, fourth = {{4}};
    cr_assert_eq(gw_view_rank_of_life(&a, &second, 1, 0), 1);
    cr_assert_eq(gw_view_rank_of_life(&a, &second, 2, 0), -1);
    cr_assert_eq(gw_view_rank_of_life(&a, &second, 1, 5), -1);
    cr_assert_eq(gw_view_rank_of_life(&a, &fourth, 1, 0), -1);
}

Test(ballot, votes_rise_and_a_promise_must_be_listed) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    gw_view base = view_of(1, NULL, 7, 0), first = view_of(2, &base, 3, 0), second = view_of(3, &base, 6, 1);
    gw_ballot_vote(&ballot, &base, 0);
    gw_ballot_install(&ballot, &base);
    cr_assert_eq(gw_ballot_consider(&ballot, &first, 1, &base.name, NULL, 0), GW_BALLOT_YES);
    gw_ballot_vote(&ballot, &first, 1);
    cr_assert_eq(gw_ballot_consider(&ballot, &first, 1, &base.name, NULL, 0), GW_BALLOT_OLD);
    cr_assert_eq(gw_ballot_consider(&ballot, &second, 1, &base.name, NULL, 0), GW_BALLOT_UNLISTED);
    cr_assert_eq(gw_ballot_consider(&ballot, &second, 1, &base.name, &first, 1), GW_BALLOT_YES);
    gw_ballot_vote(&ballot, &second, 1);
    gw_ballot_install(&ballot, &second);
    cr_assert_eq(ballot.later_count, 0);
    gw_view third = view_of(4, &base, 7, 0);
    cr_assert_eq(gw_ballot_consider(&ballot, &third, 1, &base.name, NULL, 0), GW_BALLOT_UNLISTED);
    cr_assert_eq(gw_ballot_consider(&ballot, &third, 3, &second.name, NULL, 0), GW_BALLOT_YES);
    gw_ballot_close(&ballot);
}

Test(ballot, any_quorum_only_wants_rising_epochs) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, false);
    gw_view a = view_of(5, NULL, 7, 0), b = view_of(5, NULL, 6, 1), c = view_of(6, NULL, 6, 1);
    gw_ballot_vote(&ballot, &a, 0);
    cr_assert_eq(gw_ballot_consider(&ballot, &b, 0, &a.parent, NULL, 0), GW_BALLOT_OLD);
    cr_assert_eq(gw_ballot_consider(&ballot, &c, 0, &a.parent, NULL, 0), GW_BALLOT_YES);
    gw_ballot_close(&ballot);
}

Test(ballot, record_survives_and_damage_is_refused) {
    gw_ballot ballot, back;
    gw_ballot_open(&ballot, true);
    gw_ballot_open(&back, true);
    gw_view base = view_of(1, NULL, 7, 0), first = view_of(2, &base, 3, 0);
    gw_ballot_vote(&ballot, &base, 0);
    gw_ballot_install(&ballot, &base);
    gw_ballot_vote(&ballot, &first, 1);
    uint8_t bytes[4096];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_ballot_put(&w, &ballot);
    cr_assert_leq(w.length, gw_ballot_bytes(&ballot));
    gw_reader r = gw_reader_on(bytes, w.length);
    gw_ballot_get(&r, &back);
    cr_assert(gw_reader_done(&r));
    cr_assert_eq(back.voted, 2);
    cr_assert_eq(back.later_count, 1);
    cr_assert(gw_view_name_equal(&back.installed.name, &base.name));
    for (size_t length = 0; length < w.length; length++) {
        r = gw_reader_on(bytes, length);
        gw_ballot_get(&r, &back);
        cr_assert(!gw_reader_done(&r), "%zu bytes", length);
    }
    gw_ballot_close(&ballot);
    gw_ballot_close(&back);
}

Test(ballot, a_record_of_epochs_that_no_job_gets_to_is_refused) {
    for (int what = 0; what < 3; what++) {
        gw_ballot ballot, back;
        gw_ballot_open(&ballot, true);
        gw_ballot_open(&back, true);
        ballot.installed = view_of(what == 0 ? UINT64_MAX : 1, NULL, 7, 0);
        ballot.voted = what == 1 ? UINT64_MAX : 1;
        ballot.highest = what == 2 ? UINT64_MAX : 1;
        uint8_t bytes[4096];
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_ballot_put(&w, &ballot);
        gw_reader r = gw_reader_on(bytes, w.length);
        gw_ballot_get(&r, &back);
        cr_assert(r.failed, "%d", what);
        gw_ballot_close(&ballot);
        gw_ballot_close(&back);
    }
}

/* Its leader is to vote for the proposal, too, and says itself what became of the view. */
Test(ballot, a_promise_need_not_be_listed_where_its_leader_votes) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    gw_view base = view_of(1, NULL, 7, 0), led_by_2 = view_of(2, &base, 6, 2);
    gw_view with_2 = view_of(3, &base, 7, 1), without_2 = view_of(3, &base, 3, 1), former = led_by_2;
    gw_ballot_vote(&ballot, &base, 0);
    gw_ballot_install(&ballot, &base);
    gw_ballot_vote(&ballot, &led_by_2, 1);
    cr_assert_eq(gw_ballot_consider(&ballot, &with_2, 1, &base.name, NULL, 0), GW_BALLOT_YES);
    cr_assert_eq(gw_ballot_consider(&ballot, &without_2, 1, &base.name, NULL, 0), GW_BALLOT_UNLISTED);
    cr_assert(!gw_ballot_must_list(&led_by_2, &with_2));
    former.members[1].boot = 7; /* led by another life than the one that is to vote */
    gw_view_seal(&former);
    cr_assert(gw_ballot_must_list(&former, &with_2));
    gw_ballot_close(&ballot);
}

Test(ballot, a_leaders_next_proposal_takes_back_its_last_unless_it_stands_on_it) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    gw_view base = view_of(1, NULL, 7, 0);
    gw_ballot_vote(&ballot, &base, 0);
    gw_ballot_install(&ballot, &base);
    for (uint64_t epoch = 2; epoch < 2 + 2 * GW_BALLOT_LATER; epoch++) { /* other members each time */
        gw_view again = view_of(epoch, &base, epoch % 2 == 0 ? 6 : 7, 1);
        cr_assert_eq(gw_ballot_consider(&ballot, &again, 1, &base.name, NULL, 0), GW_BALLOT_YES);
        gw_ballot_vote(&ballot, &again, 1);
        cr_assert_eq(ballot.later_count, 1);
    }
    gw_view kept = ballot.later[0], next = view_of(kept.epoch + 1, &kept, 6, 1);
    gw_ballot_vote(&ballot, &next, kept.epoch); /* its leader lives in the view that this one follows */
    cr_assert_eq(ballot.later_count, 2);
    gw_ballot_close(&ballot);
}

static const gw_peer_id third = {{3}};
static const gw_incarnation first_life = {.boot = 1}, second_life = {.boot = 2};

/* What the third peer has proposed, past 3 and not past 5, it will never install: it says so. */
Test(ballot, the_word_of_a_leader_takes_back_what_it_speaks_of) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    gw_view base = view_of(1, NULL, 7, 0);
    gw_ballot_vote(&ballot, &base, 0);
    gw_ballot_install(&ballot, &base);
    for (uint64_t epoch = 2; epoch <= 7; epoch++) { /* each stands on the one before it */
        gw_view next = view_of(epoch, &base, 7, epoch == 4 ? 1 : 2);
        gw_ballot_vote(&ballot, &next, epoch - 1);
    }
    gw_ballot_take_back(&ballot, &third, &second_life, 0, 9);
    gw_ballot_take_back(&ballot, &third, &(gw_incarnation){.boot = 1, .nonce = 1}, 0, 9);
    gw_ballot_take_back(&ballot, &third, &first_life, 5, 5);
    cr_assert_eq(ballot.later_count, 6, "it was another life that spoke, or it said nothing");
    gw_ballot_take_back(&ballot, &third, &first_life, 3, 5);
    const uint64_t left[] = {2, 3, 4, 6, 7};
    cr_assert_eq(ballot.later_count, 5);
    for (int i = 0; i < 5; i++) cr_expect_eq(ballot.later[i].epoch, left[i]);
    cr_expect_eq(ballot.voted, 7);
    gw_ballot_close(&ballot);
}

/* It may stand for one that an earlier life was promised, and has perhaps installed. */
Test(ballot, a_promise_of_the_past_is_not_taken_back_by_its_leaders_word) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    for (uint64_t life = 1; life <= 2; life++) {
        gw_view next = view_of_lives(1 + life, NULL, 7, 2, (uint64_t[8]){1, 1, life});
        gw_ballot_vote(&ballot, &next, 0);
    }
    gw_ballot_take_back(&ballot, &third, &first_life, 0, 9);
    cr_assert_eq(ballot.later_count, 2);
    gw_ballot_take_back(&ballot, &third, &second_life, 0, 9);
    cr_assert_eq(ballot.later_count, 1);
    cr_assert_eq(ballot.later[0].epoch, 2);
    gw_ballot_close(&ballot);
}

/* Each stands on the one before it, so that none is taken back. */
static gw_view fill(gw_ballot *ballot, gw_view last) {
    while (ballot->later_count < GW_BALLOT_LATER) {
        gw_view next = view_of(last.epoch + 1, &last, 7, (unsigned)(last.epoch % 3));
        cr_assert_eq(gw_ballot_consider(ballot, &next, last.epoch, &last.name, NULL, 0), GW_BALLOT_YES);
        gw_ballot_vote(ballot, &next, last.epoch);
        last = next;
    }
    return last;
}

Test(ballot, who_has_promised_too_much_promises_no_more) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    gw_view last = fill(&ballot, view_of(1, NULL, 7, 0)), next = view_of(last.epoch + 1, &last, 7, 0);
    cr_assert_eq(gw_ballot_consider(&ballot, &next, last.epoch, &last.name, NULL, 0), GW_BALLOT_FULL);
    gw_ballot_install(&ballot, &last);
    cr_assert_eq(gw_ballot_consider(&ballot, &next, last.epoch, &last.name, NULL, 0), GW_BALLOT_YES);
    gw_ballot_close(&ballot);
}

Test(ballot, a_full_one_takes_the_next_proposal_of_who_takes_back) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    gw_view base = view_of(1, NULL, 7, 0), last = fill(&ballot, base);
    gw_view next = view_of(last.epoch + 1, &base, 7, 0);
    cr_assert_eq(gw_ballot_consider(&ballot, &next, 1, &base.name, NULL, 0), GW_BALLOT_YES);
    gw_ballot_vote(&ballot, &next, 1);
    cr_assert_lt(ballot.later_count, GW_BALLOT_LATER);
    gw_ballot_close(&ballot);
}

/* ---- a leader that is started again and again ---- */

static void found_three(gw_ballot *ballot, gw_view *base) {
    gw_ballot_open(ballot, true);
    *base = view_of(1, NULL, 7, 0);
    gw_ballot_vote(ballot, base, 0);
    gw_ballot_install(ballot, base);
}

Test(ballot, lives_of_one_leader_that_end_one_after_another_fill_nothing) {
    gw_ballot ballot;
    gw_view base;
    found_three(&ballot, &base);
    for (uint64_t life = 2; life < 202; life++) { /* the same two peers each time */
        gw_view next = view_of_lives(life, &base, 3, 0, (uint64_t[8]){life, 1, 1});
        cr_assert_eq(gw_ballot_consider(&ballot, &next, 1, &base.name, ballot.later, ballot.later_count),
                     GW_BALLOT_YES, "life %lu", life);
        gw_ballot_vote(&ballot, &next, 1);
        cr_assert_leq(ballot.later_count, 2);
    }
    gw_view without = view_of(300, &base, 6, 1),
            with = view_of_lives(300, &base, 7, 1, (uint64_t[8]){201, 1, 1});
    gw_view listed = view_of(2, &base, 3, 0);
    const gw_view *asks[] = {&without, &with}; /* of all but the present life it is not known what they did */
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(gw_ballot_consider(&ballot, asks[i], 1, &base.name, NULL, 0), GW_BALLOT_UNLISTED);
        cr_assert_eq(gw_ballot_consider(&ballot, asks[i], 1, &base.name, &listed, 1), GW_BALLOT_YES);
    }
    gw_ballot_close(&ballot);
}

/* It may have been installed by the life before, whose promise the one of the past now stands for. */
Test(ballot, a_late_word_of_an_ended_life_takes_nothing_back) {
    gw_ballot ballot;
    gw_view base;
    found_three(&ballot, &base);
    for (uint64_t life = 1; life <= 3; life++) {
        gw_view next = view_of_lives(1 + life, &base, 3, 0, (uint64_t[8]){life, 1, 1});
        gw_ballot_vote(&ballot, &next, 1);
    }
    cr_assert_eq(ballot.later_count, 2);
    gw_view late = view_of_lives(7, &base, 7, 0, (uint64_t[8]){2, 1, 1}), next = view_of(8, &base, 6, 1);
    gw_ballot_vote(&ballot, &late, 1);
    const gw_view listed[] = {late, view_of(2, &base, 3, 0)};
    cr_assert_eq(gw_ballot_consider(&ballot, &next, 1, &base.name, listed, 1), GW_BALLOT_UNLISTED);
    cr_assert_eq(gw_ballot_consider(&ballot, &next, 1, &base.name, listed, 2), GW_BALLOT_YES);
    gw_ballot_close(&ballot);
}

/* Two lives led the same peers; a third, with others, shows that the second has ended: it stands for the
 * first, in whose place the new promise comes. A fourth one that has nothing to take the place of is refused.
 */
Test(ballot, a_full_one_takes_what_has_one_promise_stand_for_another) {
    gw_ballot ballot;
    gw_view base;
    found_three(&ballot, &base);
    for (uint64_t life = 1; life <= 2; life++) {
        gw_view same = view_of_lives(1 + life, &base, 9, 3, (uint64_t[8]){1, 1, 1, life});
        gw_ballot_vote(&ballot, &same, 1);
    }
    fill(&ballot, ballot.later[1]);
    cr_assert_eq(ballot.later_count, GW_BALLOT_LATER);
    for (uint64_t life = 3; life <= 4; life++) {
        gw_view next = view_of_lives(100 + life, &base, 10, 3, (uint64_t[8]){1, 1, 1, life});
        cr_assert_eq(gw_ballot_consider(&ballot, &next, 1, &base.name, ballot.later, ballot.later_count),
                     life == 3 ? GW_BALLOT_YES : GW_BALLOT_FULL);
        if (life == 3) gw_ballot_vote(&ballot, &next, 1);
        cr_assert_eq(ballot.later_count, GW_BALLOT_LATER);
    }
    gw_ballot_close(&ballot);
}

/* Whatever is promised: a ballot that says yes has room for it (gw_ballot_vote checks that). */
Test(ballot, what_is_considered_fits) {
    uint32_t full = 0, again = 0;
    gw_rng rng = gw_rng_seeded(1);
    gw_ballot ballot;
    gw_view base;
    uint64_t boots[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    found_three(&ballot, &base);
    for (uint64_t epoch = 2; epoch < 2000; epoch++) {
        if (gw_rng_below(&rng, 2) == 0) boots[gw_rng_below(&rng, 8)]++;
        unsigned leader = (unsigned)gw_rng_below(&rng, 8),
                 members = (unsigned)gw_rng_below(&rng, 256) | 1U << leader;
        gw_view next = view_of_lives(epoch, &base, members, leader, boots);
        gw_ballot_answer answer =
            gw_ballot_consider(&ballot, &next, 1, &base.name, ballot.later, ballot.later_count);
        full += answer == GW_BALLOT_FULL;
        if (answer != GW_BALLOT_YES) continue;
        again += ballot.later_count == GW_BALLOT_LATER;
        gw_ballot_vote(&ballot, &next, 1);
    }
    cr_assert(full > 0 && again > 0, "full %u times, and had room all the same %u times", full, again);
    gw_ballot_close(&ballot);
}

Test(ballot, a_proposer_is_told_of_which_view_it_has_no_majority) {
    gw_view none = {0}, base = view_of(1, NULL, 7, 0);
    const gw_view listed[] = {view_of(2, &base, 6, 1), view_of(3, &base, 0x18, 3),
                              view_of(4, &base, 0xF0, 4)};
    gw_view alone = view_of(5, &base, 1, 0), half = view_of(5, &base, 6, 1), most = view_of(5, &base, 15, 1);
    cr_assert_eq(gw_ballot_no_majority_of(&base, listed, 3, &alone), &base);
    cr_assert_eq(gw_ballot_no_majority_of(&none, listed, 3, &alone), &listed[0], "founding has no base");
    cr_assert_eq(gw_ballot_no_majority_of(&base, listed, 3, &half), &listed[1]);
    cr_assert_eq(gw_ballot_no_majority_of(&base, listed, 3, &most), &listed[2]);
    cr_assert_null(gw_ballot_no_majority_of(&base, listed, 2, &most));
}

enum { HISTORY = 400 };

/* Every promise that was made and not taken back: nothing stands for another. */
typedef struct memory {
    gw_view promises[HISTORY];
    uint32_t count;
} memory;

static void remember(memory *m, const gw_view *view, uint64_t base_epoch) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        bool back = gw_peer_id_equal(&m->promises[i].leader, &view->leader) &&
                    !gw_ballot_must_list(&m->promises[i], view) && base_epoch < m->promises[i].epoch;
        if (!back) m->promises[kept++] = m->promises[i];
    }
    m->count = kept;
    m->promises[m->count++] = *view;
}

/* This life has installed none of them past `since`. */
static void take_back(memory *m, const gw_peer_id *leader, uint64_t boot, uint64_t since) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const gw_view *one = &m->promises[i];
        bool back = gw_peer_id_equal(&one->leader, leader) && one->epoch > since &&
                    gw_view_rank_of_life(one, leader, boot, 0) >= 0;
        if (!back) m->promises[kept++] = *one;
    }
    m->count = kept;
}

static void fulfil(memory *m, const gw_view *view) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (gw_view_compare(&m->promises[i], view) > 0) m->promises[kept++] = m->promises[i];
    m->count = kept;
}

static bool omits(const memory *m, const gw_view *view, uint64_t base_epoch, const gw_view *listed,
                  uint32_t count) {
    for (uint32_t i = 0; i < m->count; i++) {
        bool there = m->promises[i].epoch <= base_epoch || !gw_ballot_must_list(&m->promises[i], view);
        for (uint32_t k = 0; k < count; k++) there |= gw_view_same_peers(&m->promises[i], &listed[k]);
        if (!there) return true;
    }
    return false;
}

/* Some peer says now and then what it has given up. */
static void hear_word(gw_rng *rng, gw_ballot *ballot, memory *all, const uint64_t *boots) {
    if (gw_rng_below(rng, 8) != 0) return;
    unsigned speaker = (unsigned)gw_rng_below(rng, 4);
    const gw_peer_id leader = {{(uint8_t)(speaker + 1)}};
    const gw_incarnation life = {.boot = boots[speaker]};
    uint64_t since = ballot->voted > 16 ? ballot->voted - gw_rng_below(rng, 16) : 0;
    gw_ballot_take_back(ballot, &leader, &life, since, ballot->voted);
    take_back(all, &leader, life.boot, since);
}

/* One history: peers start again, propose, list and take back what they like. The ballot and a memory of
 * everything answer alike to each proposal of lives that have not ended. */
static void answer_alike(uint64_t seed, uint32_t *most) {
    gw_rng rng = gw_rng_seeded(seed);
    gw_ballot ballot;
    gw_view base, *listed = calloc(HISTORY, sizeof *listed);
    memory *all = calloc(1, sizeof *all);
    uint64_t boots[8] = {1, 1, 1, 1};
    cr_assert(listed != NULL && all != NULL);
    found_three(&ballot, &base);
    for (uint64_t epoch = 2; epoch < HISTORY; epoch++) {
        if (gw_rng_below(&rng, 2) == 0) boots[gw_rng_below(&rng, 4)]++;
        hear_word(&rng, &ballot, all, boots);
        unsigned leader = (unsigned)gw_rng_below(&rng, 4),
                 members = (unsigned)gw_rng_below(&rng, 16) | 1U << leader;
        gw_view next = view_of_lives(epoch, &base, members, leader, boots);
        uint32_t count = 0;
        for (uint32_t i = 0; i < all->count; i++)
            if (gw_rng_below(&rng, 16) != 0) listed[count++] = all->promises[i];
        bool stands = all->count > 0 && gw_rng_below(&rng, 8) == 0;
        const gw_view *on = stands ? &all->promises[gw_rng_below(&rng, all->count)] : &base;
        gw_ballot_answer answer = gw_ballot_consider(&ballot, &next, on->epoch, &on->name, listed, count);
        cr_assert_neq(answer, GW_BALLOT_FULL);
        cr_assert_eq(answer == GW_BALLOT_UNLISTED, omits(all, &next, on->epoch, listed, count),
                     "seed %lu, %lu", seed, epoch);
        if (answer != GW_BALLOT_YES) continue;
        uint64_t on_epoch = on->epoch; /* what it points to may move */
        gw_ballot_vote(&ballot, &next, on_epoch);
        remember(all, &next, on_epoch);
        if (all->count > *most) *most = all->count;
        if (gw_rng_below(&rng, 64) != 0) continue;
        base = all->promises[gw_rng_below(&rng, all->count)];
        gw_ballot_install(&ballot, &base);
        fulfil(all, &base);
    }
    gw_ballot_close(&ballot);
    free(listed);
    free(all);
}

Test(ballot, what_stands_for_another_asks_for_the_same) {
    uint32_t most = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) answer_alike(seed, &most);
    cr_assert_gt(most, GW_BALLOT_LATER, "the most that would have been kept: %u", most);
}
