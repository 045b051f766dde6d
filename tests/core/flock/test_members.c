/* Members exchange what they know of jobs, and each decides what it runs. */
#include "tests/core/flock/world.h"

#include <criterion/criterion.h>

static bool agree(const world *w) {
    uint64_t digest = 0;
    bool first = true;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->members[i].alive) continue;
        uint64_t one = gw_job_records_digest(w->members[i].records);
        if (!first && one != digest) return false;
        digest = one;
        first = false;
    }
    return true;
}

/* Nobody knew more than this member before, so that all are past their gates as soon as a majority agrees. */
Test(members, start_a_job_as_soon_as_all_have_heard_of_the_claim) {
    world *w = world_open(3, 4);
    world_run(w, 1.5);
    for (uint32_t i = 0; i < 3; i++) cr_assert(gw_exchange_is_past_gate(w->members[i].exchange), "%u", i);
    gw_job_record_id id = world_submit(w, 0, "a", 1, 1, 2, NULL);
    world_run(w, 0.05);
    cr_expect(agree(w));
    cr_expect_eq(world_running(w, &id), 1);
    cr_expect_geq(w->members[0].held, 1); /* another disk has the submission */
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect(gw_job_records_find(w->members[i].records, &id)->started);
        if (world_runs(w, i, &id)) world_done(w, i, &id);
    }
    world_run(w, 0.05);
    cr_expect(agree(w));
    cr_expect_eq(world_running(w, &id), 0);
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(w->members[i].claims.count, 0);
    world_close(w);
}

Test(members, give_the_work_of_the_dead_to_others) {
    world *w = world_open(3, 4);
    world_run(w, 1.5);
    gw_job_record_id wide = world_submit(w, 0, "wide", 1, 3, 4, NULL);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &wide), 3);
    gw_job_record_id one = world_submit(w, 1, "one", 1, 1, 4, NULL);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &wide), 2);
    cr_expect_eq(world_running(w, &one), 1);
    uint32_t dead = 0;
    while (!world_runs(w, dead, &one)) dead++;
    world_kill(w, dead);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &one), 1);
    cr_expect_eq(world_running(w, &wide), 1);
    world_start(w, dead);
    world_run(w, 2.5);
    cr_expect_eq(world_running(w, &one), 1);
    cr_expect_eq(world_running(w, &wide), 2);
    cr_expect(agree(w));
    world_close(w);
}

/* A member that was away while a job was cancelled does not start it again. */
Test(members, that_come_back_start_nothing_that_is_over) {
    world *w = world_open(3, 4);
    world_run(w, 1.5);
    gw_job_record_id id = world_submit(w, 0, "a", 1, 3, 4, NULL);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &id), 3);
    world_kill(w, 2);
    gw_job_record cancel = gw_job_record_of(&id);
    cancel.cancel = true;
    world_change(w, 1, &cancel);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &id), 0);
    uint32_t starts = w->members[2].starts;
    world_start(w, 2); /* its disk has the job as it was; `act` asserts that nothing that is over starts */
    world_run(w, 5);
    cr_expect(gw_exchange_is_past_gate(w->members[2].exchange));
    cr_expect_eq(w->members[2].starts, starts);
    cr_expect(gw_job_record_is_over(gw_job_records_find(w->members[2].records, &id)));
    world_close(w);
}

/* Alone, and with a majority that it does not reach, a member waits for --gate. */
Test(members, wait_at_the_gate) {
    world *w = world_open(3, 4);
    world_run(w, 1.5);
    gw_job_record_id id = world_submit(w, 0, "a", 1, 1, 1, NULL);
    world_run(w, 0.1);
    for (uint32_t i = 0; i < 3; i++) world_kill(w, i);
    world_start(w, 0);
    world_run(w, 30);
    cr_expect_eq(world_running(w, &id), 0);
    w->now_ns += GW_EXCHANGE_GATE_NS;
    world_run(w, 0.1);
    cr_expect(gw_exchange_gate_is_forced(w->members[0].exchange));
    world_run(w, 2.5);
    cr_expect_eq(world_running(w, &id), 1);
    world_close(w);
}

Test(members, part_and_meet_again) {
    world *w = world_open(4, 4);
    world_run(w, 1.5);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) world_cut(w, a, b, true);
    gw_job_record_id ids[40];
    for (uint32_t i = 0; i < 40; i++) ids[i] = world_submit(w, i % 4, "a", 1, 1, 1, NULL);
    gw_job_record cancel = gw_job_record_of(&ids[0]);
    cancel.cancel = true;
    world_change(w, 0, &cancel);
    world_run(w, 1);
    cr_expect_not(agree(w));
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) world_cut(w, a, b, false);
    world_run(w, 12);
    cr_expect(agree(w));
    for (uint32_t i = 0; i < 4; i++) cr_expect_eq(gw_job_records_count(w->members[i].records), 40);
    uint32_t running = 0;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t one = world_running(w, &ids[i]);
        cr_expect_leq(one, 1, "%u", i);
        running += one;
    }
    cr_expect_eq(running, 16); /* each core has a job */
    cr_expect_eq(world_running(w, &ids[0]), 0);
    world_close(w);
}

Test(members, hold_release_and_order_jobs) {
    world *w = world_open(2, 1);
    world_run(w, 1.5);
    gw_job_record_id first = world_submit(w, 0, "first", 1, 1, 1, NULL);
    gw_job_record_id second = world_submit(w, 0, "second", 1, 1, 1, &first);
    gw_job_record_id third = world_submit(w, 0, "third", 1, 1, 1, &second);
    gw_job_record hold = gw_job_record_of(&first);
    hold.knob = (gw_job_record_knob){.n = 1, .writer = w->members[0].id, .hold = true};
    world_change(w, 0, &hold);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &first) + world_running(w, &second), 0);
    cr_expect_eq(gw_decider_view(w->members[1].decider, &first).reason, GW_WAIT_HELD);
    cr_expect_eq(gw_decider_view(w->members[1].decider, &second).reason, GW_WAIT_AFTER);
    hold.knob = (gw_job_record_knob){.n = 2, .writer = w->members[0].id};
    world_change(w, 1, &hold);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &first), 1);
    world_done(w, world_runs(w, 1, &first), &first);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &second), 1);
    gw_job_record cancel = gw_job_record_of(&second);
    cancel.cancel = true;
    world_change(w, 1, &cancel);
    world_run(w, 0.1);
    cr_expect_eq(world_running(w, &second), 0);
    cr_expect_eq(gw_decider_view(w->members[0].decider, &third).reason, GW_WAIT_BROKEN);
    world_close(w);
}

/* At rest a round costs each member some bytes every five seconds, whatever is known. */
Test(members, are_quiet_when_nothing_changes) {
    world *w = world_open(4, 1);
    world_run(w, 1.5);
    for (uint32_t i = 0; i < 200; i++) world_submit(w, i % 4, "a", 2, 2, 4, NULL);
    world_run(w, 12);
    uint32_t before = w->sent;
    world_run(w, 20);
    cr_expect_leq(w->sent - before, 4 * 4 * 2);
    world_close(w);
}
