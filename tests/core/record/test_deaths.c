/* The evidence against a shard. */
#include "core/record/deaths.h"

#include <criterion/criterion.h>

static gw_shard_death loss(uint8_t peer, uint64_t boot, uint64_t step, uint32_t shard) {
    return (gw_shard_death){.id = {{peer}}, .boot = boot, .step = step, .shard = shard};
}

static bool add(gw_shard_deaths *losses, uint8_t peer, uint64_t boot, uint64_t step, uint32_t shard) {
    const gw_shard_death one = loss(peer, boot, step, shard);
    return gw_shard_deaths_add(losses, &one);
}

Test(deaths, a_life_is_lost_once) {
    gw_shard_deaths l = {0};
    gw_poison poison;
    cr_assert(add(&l, 1, 1, 5, 7));
    cr_assert(!add(&l, 1, 1, 5, 7));
    cr_assert(!add(&l, 1, 1, 5, GW_SHARD_ANY), "its end is known better already");
    cr_assert(add(&l, 2, 1, 5, 7));
    cr_assert(!gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert(add(&l, 1, 2, 5, 7), "another life of the same peer");
    cr_assert(gw_shard_deaths_poison(&l, 5, false, &poison));
    cr_assert_eq(poison.step, 5);
    cr_assert_eq(poison.shard, 7);
    cr_assert_eq(poison.lives, 3);
    cr_assert_eq(poison.ties, 0);
    cr_assert(!gw_shard_deaths_poison(&l, 6, false, &poison), "that step is done");
}

Test(deaths, lives_of_a_peer_are_counted_once_whatever_they_computed) {
    gw_shard_deaths l = {0};
    add(&l, 1, 1, 5, 7);
    add(&l, 1, 1, 5, 8);
    add(&l, 2, 1, 5, 7);
    cr_assert_eq(gw_shard_deaths_lives(&l, &l.list[0].id, 5), 1);
    add(&l, 1, 2, 5, GW_SHARD_ANY);
    cr_assert_eq(gw_shard_deaths_lives(&l, &l.list[0].id, 5), 2);
    cr_assert_eq(gw_shard_deaths_lives(&l, &l.list[0].id, 6), 0);
}

Test(deaths, one_at_an_unknown_shard_counts_until_it_is_known) {
    gw_shard_deaths l = {0};
    gw_poison poison;
    add(&l, 1, 1, 5, GW_SHARD_ANY);
    add(&l, 2, 1, 5, GW_SHARD_ANY);
    cr_assert(!gw_shard_deaths_poison(&l, 0, false, &poison));
    add(&l, 3, 1, 5, 7);
    cr_assert(!gw_shard_deaths_poison(&l, 0, false, &poison), "all that is not known counts as one");
    add(&l, 4, 1, 5, 7);
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert(gw_shard_deaths_lacks_shard(&l, &(gw_peer_id){{1}}, 1, 5));
    cr_assert(add(&l, 1, 1, 5, 8));
    cr_assert(!gw_shard_deaths_lacks_shard(&l, &(gw_peer_id){{1}}, 1, 5));
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison), "the second is not known still");
    cr_assert(add(&l, 2, 1, 5, 9));
    cr_assert(!gw_shard_deaths_poison(&l, 0, false, &poison), "both were lost elsewhere");
}

/* Members of one view must agree on whether a step has cost somebody, whatever each has noted. */
Test(deaths, the_latest_step_that_anybody_noted_counts) {
    gw_shard_deaths behind = {0}, ahead = {0};
    add(&behind, 9, 1, 5, GW_SHARD_ANY);
    add(&behind, 8, 1, 5, 2);
    add(&ahead, 9, 1, 6, GW_SHARD_ANY);
    add(&ahead, 8, 1, 6, GW_SHARD_ANY);
    gw_shard_deaths one = behind, other = ahead;
    cr_assert(gw_shard_deaths_unite(&one, &ahead));
    cr_assert(!gw_shard_deaths_unite(&other, &behind));
    for (int i = 0; i < 2; i++) {
        const gw_shard_deaths *both = i == 0 ? &one : &other;
        cr_assert_eq(both->count, 2);
        cr_assert(gw_shard_deaths_lacks_shard(both, &(gw_peer_id){{9}}, 1, 6));
        cr_assert(!gw_shard_deaths_lacks_shard(both, &(gw_peer_id){{9}}, 1, 5));
        cr_assert(gw_shard_deaths_lacks_shard(both, &(gw_peer_id){{8}}, 1, 6),
                  "it had done the shard of step 5");
    }
    cr_assert(!gw_shard_deaths_unite(&one, &behind));
}

Test(deaths, what_died_together_is_suspected_together) {
    gw_shard_deaths l = {0};
    gw_poison poison;
    for (uint8_t peer = 1; peer <= 3; peer++) {
        add(&l, peer, 1, 5, 9);
        add(&l, peer, 1, 5, 4);
        add(&l, peer, 1, 5, 20u + peer);
    }
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert_eq(poison.shard, 4);
    cr_assert_eq(poison.ties, 1);
    cr_assert_eq(poison.tied[0], 9);
    add(&l, 4, 1, 5, 9);
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert_eq(poison.shard, 9);
    cr_assert_eq(poison.ties, 0);
}

/* The lowest of them, whatever order they come in. */
Test(deaths, of_many_that_died_together_a_few_are_named) {
    static const uint32_t shards[] = {8, 3, 11, 5, 2, 7};
    gw_shard_deaths l = {0};
    gw_poison poison;
    for (uint8_t peer = 1; peer <= 3; peer++)
        for (int i = 0; i < 6; i++) add(&l, peer, 1, 5, shards[i]);
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert_eq(poison.shard, 2);
    cr_assert_eq(poison.ties, 5);
    cr_assert(poison.tied[0] == 3 && poison.tied[1] == 5 && poison.tied[2] == 7);
}

Test(deaths, the_earliest_step_counts_and_others_are_no_ties) {
    gw_shard_deaths l = {0};
    gw_poison poison;
    for (uint8_t peer = 1; peer <= 3; peer++) {
        add(&l, peer, 1, 6, 2);
        add(&l, peer, 2, 5, 9);
        add(&l, peer, 1, 6, 9);
    }
    add(&l, 4, 1, 5, GW_SHARD_ANY);
    add(&l, 5, 1, 6, GW_SHARD_ANY);
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert_eq(poison.step, 5);
    cr_assert_eq(poison.shard, 9);
    cr_assert_eq(poison.lives, 4);
    cr_assert_eq(poison.ties, 0);
    cr_assert(gw_shard_deaths_poison(&l, 6, false, &poison));
    cr_assert_eq(poison.shard, 2, "of those alike the lowest");
    cr_assert_eq(poison.ties, 1);
    cr_assert(!gw_shard_deaths_lacks_shard(&l, &(gw_peer_id){{6}}, 1, 5));
    cr_assert(!gw_shard_deaths_lacks_shard(&l, &(gw_peer_id){{4}}, 2, 5), "another life");
}

Test(deaths, united_in_any_order_they_say_the_same) {
    gw_shard_deaths a = {0}, b = {0}, c = {0};
    gw_poison poison[2];
    add(&a, 1, 1, 5, GW_SHARD_ANY);
    add(&a, 2, 1, 5, 7);
    add(&b, 1, 1, 5, 7);
    add(&c, 3, 4, 5, 7);
    add(&c, 2, 1, 5, 7);
    gw_shard_deaths one = a, other = c;
    cr_assert(gw_shard_deaths_unite(&one, &b) && gw_shard_deaths_unite(&one, &c));
    cr_assert(gw_shard_deaths_unite(&other, &b));
    gw_shard_deaths_unite(&other, &a);
    cr_assert(!gw_shard_deaths_unite(&one, &other) && !gw_shard_deaths_unite(&other, &one));
    cr_assert(gw_shard_deaths_poison(&one, 0, false, &poison[0]) &&
              gw_shard_deaths_poison(&other, 0, false, &poison[1]));
    cr_assert_eq(poison[0].lives, 3);
    cr_assert_eq(poison[1].lives, 3);
}

Test(deaths, no_more_than_fit_are_remembered_and_done_steps_are_forgotten) {
    gw_shard_deaths l = {0};
    for (uint32_t i = 0; i < GW_MAX_SHARD_DEATHS; i++)
        cr_assert(add(&l, 1, i < 10 ? 1 : 2, i < 10 ? 5 : 6, i));
    cr_assert(!add(&l, 2, 1, 6, 1));
    cr_assert(gw_shard_deaths_in_step(&l, 5));
    cr_assert(gw_shard_deaths_forget_before(&l, 6));
    cr_assert(!gw_shard_deaths_forget_before(&l, 6));
    cr_assert(!gw_shard_deaths_in_step(&l, 5));
    cr_assert_eq(l.count, GW_MAX_SHARD_DEATHS - 10);
    cr_assert(add(&l, 2, 1, 6, 1));
}

static bool add_process(gw_shard_deaths *losses, uint8_t peer, uint32_t serial, uint32_t shard) {
    const gw_shard_death one = {.id = {{peer}}, .boot = 1, .serial = serial, .step = 5, .shard = shard};
    return gw_shard_deaths_add(losses, &one);
}

/* They are lives of their own, and no lives of their peer. */
Test(deaths, worker_processes_count_where_their_peer_is_alone) {
    gw_shard_deaths l = {0};
    gw_poison poison;
    for (uint32_t serial = 1; serial <= 3; serial++) {
        cr_assert(!gw_shard_deaths_poison(&l, 0, true, &poison));
        cr_assert(add_process(&l, 1, serial, 7));
        cr_assert(!add_process(&l, 1, serial, 7));
    }
    cr_assert(gw_shard_deaths_poison(&l, 0, true, &poison));
    cr_assert(poison.shard == 7 && poison.lives == 3);
    cr_assert(!gw_shard_deaths_poison(&l, 0, false, &poison), "another peer might compute it");
    cr_assert(!gw_shard_deaths_in_step(&l, 5), "no peer has died");
    cr_assert_eq(gw_shard_deaths_lives(&l, &l.list[0].id, 5), 0);
    cr_assert(add(&l, 1, 1, 5, 7));
    cr_assert(!gw_shard_deaths_poison(&l, 0, false, &poison), "its own end has the same cause");
    cr_assert(add_process(&l, 2, 1, 7));
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert(poison.shard == 7 && poison.lives == 3);
    cr_assert(gw_shard_deaths_poison(&l, 0, true, &poison));
    cr_assert_eq(poison.lives, 5);
}

/* A peer may die of anything while a shard has cost another one two processes. */
Test(deaths, one_at_an_unknown_shard_does_not_count_where_worker_processes_end) {
    gw_shard_deaths l = {0};
    gw_poison poison;
    add_process(&l, 1, 1, 7);
    add_process(&l, 1, 2, 7);
    add(&l, 2, 1, 5, GW_SHARD_ANY);
    cr_assert(!gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert(!gw_shard_deaths_poison(&l, 0, true, &poison));
    cr_assert(add(&l, 2, 1, 5, 7));
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison), "it has died at that shard");
}

/* As before there were worker processes. */
Test(deaths, lives_of_one_peer_count_fully) {
    gw_shard_deaths l = {0};
    gw_poison poison;
    for (uint64_t boot = 1; boot <= 3; boot++) add(&l, 1, boot, 5, 7);
    cr_assert(gw_shard_deaths_poison(&l, 0, false, &poison));
    cr_assert_eq(poison.lives, 3);
    cr_assert(!add(&l, 1, UINT64_C(1) << 32, 5, 7),
              "no peer starts so often, and the serial is written there");
}

Test(deaths, survive_the_wire) {
    gw_shard_deaths l = {0}, back;
    add(&l, 1, 2, 3, 4);
    const gw_shard_death process = {.id = {{5}}, .boot = 6, .serial = 9, .step = 7, .shard = 8};
    cr_assert(gw_shard_deaths_add(&l, &process));
    uint8_t bytes[4 + 2 * GW_SHARD_DEATH_BYTES];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_shard_deaths_put(&w, &l);
    cr_assert(!w.failed);
    cr_assert_eq(w.length, sizeof bytes);
    for (size_t cut = 0; cut <= w.length; cut++) {
        gw_reader r = gw_reader_on(bytes, cut);
        gw_shard_deaths_get(&r, &back);
        cr_assert_eq(gw_reader_done(&r), cut == w.length);
    }
    cr_assert_eq(back.count, 2);
    cr_assert(!gw_shard_deaths_unite(&back, &l));
    cr_assert(back.list[1].boot == 6 && back.list[1].serial == 9);
    const uint8_t life[8] = {6, 0, 0, 0, 9}; /* of the second; earlier builds read one number */
    cr_assert_arr_eq(bytes + 4 + GW_SHARD_DEATH_BYTES + sizeof(gw_peer_id), life, sizeof life);
    bytes[0] = bytes[1] = bytes[2] = bytes[3] = 0xFF;
    gw_reader r = gw_reader_on(bytes, sizeof bytes);
    gw_shard_deaths_get(&r, &back);
    cr_assert(r.failed);
}

/* Each of these would be read as a set of one, which says something else on the wire. */
Test(deaths, what_is_no_set_is_not_read) {
    static const uint32_t shards[][2] = {{4, 4}, {GW_SHARD_ANY, 4}, {4, GW_SHARD_ANY}};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        gw_shard_deaths l = {.count = 2}, back;
        for (int k = 0; k < 2; k++)
            l.list[k] = (gw_shard_death){.id = {{1}}, .boot = 2, .step = 3, .shard = shards[i][k]};
        uint8_t bytes[4 + 2 * GW_SHARD_DEATH_BYTES];
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_shard_deaths_put(&w, &l);
        gw_reader r = gw_reader_on(bytes, sizeof bytes);
        gw_shard_deaths_get(&r, &back);
        cr_assert(r.failed, "%zu", i);
    }
}
