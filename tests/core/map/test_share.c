/* Peers that share the tasks of a map: each task is run and recorded, whoever dies and whatever gets lost. */
#include "crew.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gw_map_table *table_of(const crew *c, uint32_t place) {
    return gw_map_share_table(c->peers[place].share);
}

/* All live peers have the same whole table. */
static void check_tables(const crew *c) {
    uint32_t first = 0;
    while (c->peers[first].share == NULL) first++;
    gw_hash hash = gw_map_table_hash(table_of(c, first), c->tasks);
    for (uint32_t i = first; i < c->count; i++) {
        if (c->peers[i].share == NULL) continue;
        const gw_map_table *table = table_of(c, i);
        cr_assert_eq(gw_map_table_count(table, GW_MAP_FAILURE), c->tasks / 11);
        cr_assert_eq(gw_map_table_count(table, GW_MAP_SUCCESS), c->tasks - c->tasks / 11);
        gw_hash other = gw_map_table_hash(table, c->tasks);
        cr_assert(gw_hash_equal(&hash, &other), "peers %u and %u", first, i);
    }
}

Test(share, one_peer_runs_all_tasks_once) {
    crew *c = crew_open(1, 2, 1000, 1);
    crew_run_for(c, 60, true);
    cr_assert(crew_is_complete(c));
    check_tables(c);
    cr_assert_eq(c->starts, 1000);
    crew_close(c);
}

Test(share, three_peers_run_each_task_once_and_all_work) {
    crew *c = crew_open(3, 4, 6000, 2);
    crew_run_for(c, 60, true);
    cr_assert(crew_is_complete(c));
    check_tables(c);
    cr_assert_eq(c->starts, 6000);
    double seconds = (double)c->now_ns * 1e-9, best = 6000 * 0.010 / 12; /* 10 ms is the mean */
    cr_assert_lt(seconds, 1.15 * best + 0.3, "%.2f s", seconds);
    crew_close(c);
}

Test(share, no_tasks_are_complete_at_once) {
    crew *c = crew_open(2, 1, 0, 3);
    crew_run_for(c, 1, true);
    cr_assert(crew_is_complete(c));
    crew_close(c);
}

Test(share, a_slow_peer_gives_its_waiting_tasks_to_others) {
    crew *c = crew_open(2, 2, 200, 4);
    c->peers[0].speed = 0.02; /* the leader is the slow one */
    crew_run_for(c, 60, true);
    cr_assert(crew_is_complete(c));
    cr_assert_lt((double)c->now_ns * 1e-9, 3.0, "the last tasks waited behind slow ones");
    cr_assert_eq(c->starts, 200, "a task that waits is moved, and not doubled");
    crew_close(c);
}

Test(share, what_a_dead_peer_held_is_run_by_others) {
    for (uint32_t victim = 0; victim < 3; victim++) { /* peer 0 leads */
        crew *c = crew_open(3, 4, 3000, 5);
        crew_run_for(c, 0.5, false);
        crew_kill(c, victim);
        crew_run_for(c, 60, true);
        cr_assert(crew_is_complete(c));
        check_tables(c);
        cr_assert_lt(c->starts, 3000 + 250, "%lu starts", (unsigned long)c->starts);
        crew_close(c);
    }
}

Test(share, rows_survive_when_all_peers_die) {
    crew *c = crew_open(3, 4, 3000, 6);
    crew_run_for(c, 1, false);
    bool committed[3000];
    uint32_t count = 0;
    crew_committed(c, committed);
    for (uint32_t i = 0; i < 3000; i++) count += committed[i];
    cr_assert_gt(count, 300);
    for (uint32_t i = 0; i < 3; i++) crew_kill(c, i);
    memset(c->started, 0, 3000 * sizeof *c->started);
    for (uint32_t i = 0; i < 3; i++) crew_start(c, i);
    crew_run_for(c, 60, true);
    cr_assert(crew_is_complete(c));
    check_tables(c);
    for (uint32_t i = 0; i < 3000; i++)
        cr_assert(!committed[i] || c->started[i] == 0, "task %u ran again", i);
    crew_close(c);
}

Test(share, lost_messages_are_made_good) {
    crew *c = crew_open(4, 3, 2000, 7);
    c->loss = 0.2;
    crew_run_for(c, 120, true);
    cr_assert(crew_is_complete(c));
    check_tables(c);
    crew_close(c);
}

Test(share, two_halves_both_go_on_and_agree_afterwards) {
    crew *c = crew_open(4, 3, 4000, 8);
    crew_run_for(c, 0.5, false);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) crew_cut(c, a, b, true);
    crew_run_for(c, 1.5, false);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) crew_cut(c, a, b, false);
    crew_run_for(c, 60, true);
    cr_assert(crew_is_complete(c));
    check_tables(c);
    crew_close(c);
}

/* It stands still, is gone for the others for a while, and knows nothing of that. */
Test(share, a_leader_that_others_took_for_gone_has_them_work_again) {
    for (uint32_t count = 2; count <= 4; count++) {
        crew *c = crew_open(count, 3, 1000 * count, 12);
        crew_run_for(c, 0.5, false);
        for (uint32_t i = 1; i < count; i++) c->cut[0][i] = true;
        for (uint32_t i = 0; i < 400; i++) crew_step(c); /* what it deals is lost */
        for (uint32_t i = 1; i < count; i++) {
            c->cut[0][i] = false;
            c->cut[i][0] = true;
        }
        crew_run_for(c, 0.4, false);
        for (uint32_t i = 1; i < count; i++) c->cut[i][0] = false;
        crew_run_for(c, 60, true);
        cr_assert(crew_is_complete(c), "%u peers", count);
        check_tables(c);
        crew_close(c);
    }
}

Test(share, a_peer_without_slots_gives_back_what_waits) {
    crew *c = crew_open(2, 2, 400, 9);
    crew_run_for(c, 0.2, false);
    gw_map_share_set_slots(c->peers[1].share, 0, c->now_ns);
    crew_run_for(c, 0.3, false);
    cr_assert_eq(c->peers[1].run_count, 0);
    cr_assert_eq(gw_map_share_waiting(c->peers[1].share), 0);
    crew_run_for(c, 60, true);
    cr_assert(crew_is_complete(c));
    cr_assert_eq(c->starts, 400);
    crew_close(c);
}

Test(share, who_is_cut_off_runs_what_it_has_and_deals_nothing) {
    crew *c = crew_open(1, 2, 400, 11);
    crew_run_for(c, 0.1, false);
    uint32_t waiting = gw_map_share_waiting(c->peers[0].share);
    uint64_t starts = c->starts;
    cr_assert_gt(waiting, 0);
    gw_map_share_cut_off(c->peers[0].share);
    for (uint32_t i = 0; i < 4000; i++) crew_step(c);
    cr_assert_eq(c->starts, starts + waiting);
    crew_run_for(c, 60, true); /* its peers are told */
    cr_assert(crew_is_complete(c));
    cr_assert_eq(c->starts, 400);
    crew_close(c);
}

/* Random schedules: peers die and come back, links are cut, messages are lost, slots change. */
static void run_schedule(uint64_t seed) {
    gw_rng rng = gw_rng_seeded(seed);
    uint32_t count = 2 + (uint32_t)gw_rng_below(&rng, CREW_PEERS - 1),
             tasks = 1 + (uint32_t)gw_rng_below(&rng, 3000);
    crew *c = crew_open(count, 1 + (uint32_t)gw_rng_below(&rng, 6), tasks, seed);
    c->loss = gw_rng_unit(&rng) < 0.5 ? 0.1 * gw_rng_unit(&rng) : 0;
    for (uint32_t k = 0; k < 30; k++) {
        uint32_t a = (uint32_t)gw_rng_below(&rng, count), b = (uint32_t)gw_rng_below(&rng, count);
        switch (gw_rng_below(&rng, 7)) {
        case 0:
        case 1:
            if (c->peers[a].share != NULL) crew_kill(c, a);
            break;
        case 2:
        case 3:
            if (c->peers[a].share == NULL) crew_start(c, a);
            break;
        case 4:
            if (a != b) crew_cut(c, a, b, !c->cut[a][b]);
            break;
        case 5:
            if (c->peers[a].share != NULL)
                gw_map_share_set_slots(c->peers[a].share, (uint32_t)gw_rng_below(&rng, 5), c->now_ns);
            break;
        case 6:
            if (a != b) c->cut[a][b] = !c->cut[a][b]; /* that one does not know of it */
            break;
        default:
            break;
        }
        crew_run_for(c, 0.3 * gw_rng_unit(&rng), false);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count; k++) c->cut[i][k] = false;
        if (c->peers[i].share == NULL) crew_start(c, i);
        gw_map_share_set_slots(c->peers[i].share, 2, c->now_ns);
    }
    c->loss = 0;
    crew_run_for(c, 200, true);
    cr_assert(crew_is_complete(c), "seed %lu: %u peers, %u tasks: no end", (unsigned long)seed, count, tasks);
    check_tables(c);
    crew_close(c);
}

Test(share, random_schedules_end_with_the_same_table) {
    const char *given = getenv("GODWIT_SEEDS"); /* more than those of every run */
    uint64_t seeds = given != NULL ? strtoull(given, NULL, 10) : 40;
    for (uint64_t seed = 1; seed <= seeds; seed++) run_schedule(seed);
}

static uint64_t lognormal(void *context, uint32_t task) {
    (void)context;
    gw_philox bits = gw_philox_at(5, 0, task);
    double u = (bits.words[0] + 0.5) / 4294967296.0, v = (bits.words[1] + 0.5) / 4294967296.0;
    double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
    return (uint64_t)(1e9 * exp(normal - 0.5)); /* sigma 1, mean 1 s */
}

Test(share, workers_are_busy_with_tasks_of_very_different_length) {
    enum { TASKS = 64 * 100, SLOTS = 8 };
    crew *c = crew_open(8, SLOTS, TASKS, 10);
    c->duration = lognormal;
    c->step_ns = 5000000;
    double work = 0;
    for (uint32_t i = 0; i < TASKS; i++) work += (double)lognormal(NULL, i) * 1e-9;
    crew_run_for(c, 1000, true);
    double efficiency = work / (64.0 * (double)c->now_ns * 1e-9);
    cr_assert(crew_is_complete(c));
    cr_assert_gt(efficiency, 0.90, "%.3f", efficiency); /* the longest tasks may come last */
    crew_close(c);
}

Test(share, a_task_that_kills_two_processes_has_failed_and_others_have_not) {
    for (uint32_t peers = 1; peers <= 3; peers++)
        for (int lossy = 0; lossy < 2; lossy++) {
            crew *c = crew_open(peers, 4, 400, 5 + peers);
            gw_map_row row;
            c->loss = lossy ? 0.05 : 0;
            c->killer = 101;
            crew_run_for(c, 60, true);
            cr_assert(crew_is_complete(c), "%u peers", peers);
            for (uint32_t i = 0; i < peers; i++) {
                cr_assert_eq(gw_map_table_find(table_of(c, i), 100, &row), GW_MAP_FAILURE);
                cr_assert_eq(row.signal, 9);
                cr_assert_eq(gw_map_table_count(table_of(c, i), GW_MAP_FAILURE), 400 / 11 + 1,
                             "what ran beside it has not failed");
            }
            cr_assert(lossy ? c->started[100] <= 4 : c->started[100] == 2, "%u peers: %u times", peers,
                      c->started[100]);
            crew_close(c);
        }
}

Test(share, halves_that_do_not_hear_each_other_for_a_while_run_other_tasks) {
    for (uint32_t alone = 0; alone < 4; alone += 3) { /* who leads, and the last one */
        crew *c = crew_open(4, 4, 20000, 9);
        crew_run_for(c, 2, false);
        for (uint32_t i = 0; i < 4; i++)
            if (i != alone) crew_cut(c, alone, i, true);
        crew_run_for(c, 4, false);
        for (uint32_t i = 0; i < 4; i++)
            if (i != alone) crew_cut(c, alone, i, false);
        crew_run_for(c, 60, true);
        cr_assert(crew_is_complete(c));
        check_tables(c);
        cr_assert_lt(
            c->starts - 20000, 200, "%u: %llu tasks more than once", alone,
            (unsigned long long)(c->starts - 20000)); /* the one alone has run some 1,600 meanwhile */
        crew_close(c);
    }
}
