/* Views, and what a voter promises. */
#include "core/ballot.h"

#include <criterion/criterion.h>
#include <string.h>

static gw_view view_of(uint64_t epoch, const gw_view *parent, unsigned members, unsigned leader) {
    gw_view view = {.epoch = epoch};
    if (parent != NULL) view.parent = parent->name;
    for (uint8_t i = 0; i < 8; i++)
        if (members >> i & 1) view.members[view.count++] = (gw_member){.id = {{(uint8_t)(i + 1)}}, .boot = 1};
    view.leader = (gw_peer_id){{(uint8_t)(leader + 1)}};
    gw_view_seal(&view);
    return view;
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

/* Each stands on the one before it, so that none is taken back. */
Test(ballot, who_has_promised_too_much_promises_no_more) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    gw_view last = view_of(1, NULL, 7, 0);
    for (uint64_t epoch = 2; epoch < 2 + GW_BALLOT_LATER; epoch++) {
        gw_view next = view_of(epoch, &last, 7, (unsigned)(epoch % 3));
        cr_assert_eq(gw_ballot_consider(&ballot, &next, last.epoch, &last.name, NULL, 0), GW_BALLOT_YES);
        gw_ballot_vote(&ballot, &next, last.epoch);
        last = next;
    }
    gw_view next = view_of(last.epoch + 1, &last, 7, 0);
    cr_assert_eq(ballot.later_count, GW_BALLOT_LATER);
    cr_assert_eq(gw_ballot_consider(&ballot, &next, last.epoch, &last.name, NULL, 0), GW_BALLOT_FULL);
    gw_ballot_install(&ballot, &last);
    cr_assert_eq(gw_ballot_consider(&ballot, &next, last.epoch, &last.name, NULL, 0), GW_BALLOT_YES);
    gw_ballot_close(&ballot);
}
