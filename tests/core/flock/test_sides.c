/* The side of a flock that a member is on, and the jobs that may run on the other one. */
#include "core/flock/sides.h"

#include <criterion/criterion.h>

enum { MEMBERS = 8 };

#define MINUTE UINT64_C(60000000000)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

static gw_peer_id member(uint32_t number) {
    return (gw_peer_id){{(uint8_t)(number + 1)}};
}

static gw_job_record_id job(uint8_t number) {
    return (gw_job_record_id){{number}};
}

/* What a member has seen of the others, and the claims of those that live. */
typedef struct flock {
    gw_sides *sides;
    gw_claims claims[MEMBERS];
    bool live[MEMBERS];
    uint64_t boots[MEMBERS]; /* of their lives */
} flock;

static void come(flock *f, uint32_t number) {
    gw_peer_id id = member(number);
    f->claims[number].member = id;
    f->live[number] = true;
    gw_sides_live(f->sides, &id, &(gw_incarnation){.boot = 1 + f->boots[number]});
}

static flock open_flock(uint32_t self, uint32_t count) {
    gw_peer_id id = member(self);
    flock f = {.sides = gw_sides_open(&id)};
    for (uint32_t i = 0; i < count; i++) come(&f, i);
    return f;
}

static void lose(flock *f, uint32_t number, uint64_t now) {
    gw_peer_id id = member(number);
    f->live[number] = false;
    gw_sides_lost(f->sides, &id, &f->claims[number], now);
}

static bool is_lesser(const flock *f, uint64_t now) {
    const gw_claims *lists[MEMBERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (f->live[i]) lists[count++] = &f->claims[i];
    return gw_sides_is_lesser(f->sides, lists, count, now);
}

static void come_in_another_life(flock *f, uint32_t number) {
    f->boots[number]++;
    come(f, number);
}

static void close_flock(flock *f) {
    for (uint32_t i = 0; i < MEMBERS; i++) gw_claims_free(&f->claims[i]);
    gw_sides_close(f->sides);
}

Test(sides, the_lesser_side_is_the_one_without_most_of_the_members) {
    for (uint32_t count = 1; count <= 5; count++)
        for (uint32_t here = 1; here <= count; here++) {
            flock f = open_flock(0, count);
            for (uint32_t i = here; i < count; i++) lose(&f, i, HOUR);
            cr_expect_eq(is_lesser(&f, HOUR), 2 * here < count, "%u of %u", here, count);
            close_flock(&f);
        }
}

Test(sides, of_two_halves_the_lesser_one_is_that_without_the_lowest_id) {
    flock low = open_flock(1, 4), high = open_flock(3, 4);
    lose(&low, 2, 1);
    lose(&low, 3, 1);
    lose(&high, 0, 1);
    lose(&high, 1, 1);
    cr_expect_not(is_lesser(&low, 2));
    cr_expect(is_lesser(&high, 2));
    close_flock(&low);
    close_flock(&high);
    flock pair = open_flock(1, 2);
    lose(&pair, 0, 1);
    cr_expect(is_lesser(&pair, 2));
    come(&pair, 0);
    cr_expect_not(is_lesser(&pair, 2));
    close_flock(&pair);
}

Test(sides, those_that_are_away_for_a_day_or_have_left_do_not_count) {
    flock f = open_flock(4, 5);
    for (uint32_t i = 0; i < 3; i++) lose(&f, i, HOUR);
    cr_expect(is_lesser(&f, HOUR));
    cr_expect(is_lesser(&f, HOUR + DAY - 1));
    cr_expect_not(is_lesser(&f, HOUR + DAY));
    gw_peer_id one = member(1);
    gw_sides_left(f.sides, &one);
    cr_expect(is_lesser(&f, HOUR), "two of four, without the lowest");
    one = member(0);
    gw_sides_left(f.sides, &one);
    cr_expect_not(is_lesser(&f, HOUR));
    close_flock(&f);
}

Test(sides, those_that_are_drained_do_not_count_on_either_side) {
    flock f = open_flock(2, 3);
    f.claims[0].drained = true;
    lose(&f, 0, 1);
    lose(&f, 1, 1);
    cr_expect(is_lesser(&f, 1), "one of two, without the lowest");
    close_flock(&f);
    f = open_flock(0, 3);
    f.claims[0].drained = true;
    lose(&f, 2, 1);
    cr_expect_not(is_lesser(&f, 1), "one of two, with the lowest");
    lose(&f, 1, 1);
    cr_expect(is_lesser(&f, 1), "none of two");
    close_flock(&f);
}

Test(sides, those_that_were_known_before_count_until_they_come) {
    flock f = open_flock(1, 0);
    gw_peer_id zero = member(0), two = member(2), self = member(1);
    come(&f, 1);
    gw_sides_known(f.sides, &self, 0, HOUR);
    gw_sides_known(f.sides, &two, DAY, HOUR);
    cr_expect_not(is_lesser(&f, HOUR));
    gw_sides_known(f.sides, &zero, DAY - HOUR, HOUR);
    cr_expect(is_lesser(&f, HOUR));
    cr_expect_not(is_lesser(&f, 2 * HOUR), "it was seen a day ago");
    come(&f, 0);
    gw_sides_known(f.sides, &zero, 0, HOUR);
    cr_expect_not(is_lesser(&f, HOUR), "it is live");
    close_flock(&f);
}

Test(sides, jobs_may_run_elsewhere_that_were_known_or_claimed_there) {
    flock f = open_flock(3, 4);
    gw_job_record_id claimed = job(1), struck = job(2), other = job(3);
    gw_claims_set(&f.claims[0], &(gw_claim){.job = claimed, .state = GW_CLAIM_CLAIMED});
    gw_claims_set(&f.claims[0], &(gw_claim){.job = struck, .state = GW_CLAIM_STRUCK});
    const uint64_t takeover = 10 * MINUTE, since = 2 * HOUR;
    cr_expect_eq(gw_sides_taken_until(f.sides, &other, 0, takeover, HOUR), 0);
    lose(&f, 0, HOUR);
    lose(&f, 1, HOUR + MINUTE);
    cr_expect_eq(gw_sides_taken_until(f.sides, &claimed, since, takeover, since), 0, "too long ago");
    uint64_t now = HOUR + 2 * MINUTE;
    cr_expect_eq(gw_sides_taken_until(f.sides, &other, HOUR, takeover, now), HOUR + 11 * MINUTE);
    cr_expect_eq(gw_sides_taken_until(f.sides, &other, HOUR + MINUTE + 1, takeover, now), 0);
    cr_expect_eq(gw_sides_taken_until(f.sides, &struck, HOUR + MINUTE + 1, takeover, now), 0);
    cr_expect_eq(gw_sides_taken_until(f.sides, &claimed, HOUR + MINUTE + 1, takeover, now),
                 HOUR + 10 * MINUTE);
    come(&f, 1);
    cr_expect_eq(gw_sides_taken_until(f.sides, &other, HOUR, takeover, now), HOUR + 10 * MINUTE);
    cr_expect_eq(gw_sides_taken_until(f.sides, &other, HOUR, takeover, HOUR + 10 * MINUTE), 0);
    close_flock(&f);
}

Test(sides, who_comes_back_in_the_same_life_had_been_cut_off) {
    flock f = open_flock(1, 3);
    cr_expect_eq(gw_sides_met_again(f.sides), 0);
    lose(&f, 0, 1);
    come_in_another_life(&f, 0);
    cr_expect_eq(gw_sides_met_again(f.sides), 0, "its process had ended");
    lose(&f, 0, 2);
    lose(&f, 2, 2);
    come(&f, 0);
    come(&f, 2);
    come(&f, 2);
    cr_expect_eq(gw_sides_met_again(f.sides), 2);
    come_in_another_life(&f, 0); /* which was told of before its loss */
    lose(&f, 0, 3);
    come(&f, 0);
    cr_expect_eq(gw_sides_met_again(f.sides), 3);
    close_flock(&f);
}

Test(sides, who_ran_a_job_when_it_was_lost_may_come_back_to_it_at_once) {
    flock f = open_flock(1, 3);
    gw_job_record_id runs = job(1), claimed = job(2);
    gw_claims_set(&f.claims[0], &(gw_claim){.job = runs, .state = GW_CLAIM_RUNNING});
    gw_claims_set(&f.claims[0], &(gw_claim){.job = claimed, .state = GW_CLAIM_CLAIMED});
    cr_expect_eq(gw_sides_run_until(f.sides, &runs, HOUR), 0);
    lose(&f, 0, HOUR);
    cr_expect_eq(gw_sides_run_until(f.sides, &runs, HOUR), HOUR + GW_SIDES_BRIEF_NS);
    cr_expect_eq(gw_sides_run_until(f.sides, &claimed, HOUR), 0);
    cr_expect_eq(gw_sides_run_until(f.sides, &runs, HOUR + GW_SIDES_BRIEF_NS), 0, "it is not starting again");
    come_in_another_life(&f, 0);
    cr_expect_eq(gw_sides_run_until(f.sides, &runs, HOUR + 1), 0, "it says itself what it runs");
    close_flock(&f);
}
