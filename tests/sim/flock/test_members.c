/* Members exchange what they know of jobs, and each decides what it runs. */
#include "core/flock/links.h"
#include "tools/sim/flock/world.h"

#include <criterion/criterion.h>

/* Members of `cores` cores, which have met before and start now; nothing takes time but messages. */
static sim_flock *open_members_of(uint32_t count, uint32_t cores, uint64_t leave_ns) {
    sim_flock_config config = {.count = count,
                               .message_least_ns = SIM_FLOCK_MS,
                               .message_most_ns = SIM_FLOCK_MS,
                               .leave_least_ns = leave_ns,
                               .leave_most_ns = leave_ns,
                               .gate_ns = GW_EXCHANGE_GATE_NS,
                               .takeover_ns = GW_SIDES_TAKEOVER_NS};
    sim_flock *w = sim_flock_open(&config);
    sim_flock_introduce(w);
    for (uint32_t i = 0; i < count; i++) {
        w->members[i].claims.has = (gw_allot_need){cores, 1000, 0};
        sim_flock_start(w, i);
    }
    return w;
}

static sim_flock *open_members(uint32_t count, uint32_t cores) {
    return open_members_of(count, cores, 0);
}

static void run(sim_flock *w, double seconds) {
    sim_flock_run(w, (uint64_t)(seconds * 1e9));
}

static gw_job_record_id submit(sim_flock *w, uint32_t number, uint32_t least, uint32_t most, uint32_t cores,
                               const gw_job_record_id *after) {
    gw_job_spec spec = {.kind = most > 1 ? GW_JOB_RUN : GW_JOB_COMMAND,
                        .name = "a",
                        .need = {.cores = cores},
                        .least = least,
                        .most = most,
                        .shares = 1,
                        .after = after,
                        .after_count = after != NULL};
    return sim_flock_submit(w, number, &spec);
}

static gw_wait_reason reason_of(const sim_flock *w, uint32_t number, const gw_job_record_id *id) {
    return gw_decider_view(w->members[number].decider, id).reason;
}

static bool runs(const sim_flock *w, uint32_t number, const gw_job_record_id *id) {
    return sim_flock_child(w, number, id) != NULL;
}

static void end_machine(sim_flock *w, uint32_t number) {
    sim_flock_kill(w, number, true);
}

/* Nobody knew more than this member before, so that all are past their gates as soon as a majority agrees. */
Test(members, start_a_job_as_soon_as_all_have_heard_of_the_claim) {
    sim_flock *w = open_members(3, 4);
    run(w, 1.5);
    for (uint32_t i = 0; i < 3; i++) cr_assert(gw_exchange_is_past_gate(w->members[i].exchange), "%u", i);
    gw_job_record_id id = submit(w, 0, 1, 1, 2, NULL);
    run(w, 0.05);
    cr_expect(sim_flock_agree(w));
    cr_expect_eq(sim_flock_running(w, &id), 1);
    cr_expect_geq(w->members[0].held, 1); /* another disk has the submission */
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect(gw_job_records_find(w->members[i].records, &id)->started);
        if (runs(w, i, &id)) sim_flock_done(w, i, &id);
    }
    run(w, 0.05);
    cr_expect(sim_flock_agree(w));
    cr_expect_eq(sim_flock_running(w, &id), 0);
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(w->members[i].claims.count, 0);
    sim_flock_close(w);
}

/* By the time when it is on another disk the job was started, so that its record is another one. */
Test(members, that_are_slow_to_write_tell_who_has_submitted_all_the_same) {
    sim_flock *w = open_members(3, 4);
    run(w, 1.5);
    sim_flock_drain(w, 0, true); /* another one starts it */
    w->config.disk_least_ns = w->config.disk_most_ns = 50 * SIM_FLOCK_MS;
    gw_job_record_id id = submit(w, 0, 1, 1, 2, NULL);
    run(w, 0.04);
    cr_expect(gw_job_records_find(w->members[0].records, &id)->started);
    cr_expect_eq(w->members[0].held, 0);
    run(w, 0.1);
    cr_expect_geq(w->members[0].held, 2);
    sim_flock_close(w);
}

Test(members, give_the_work_of_the_dead_to_others) {
    sim_flock *w = open_members(3, 4);
    run(w, 1.5);
    gw_job_record_id wide = submit(w, 0, 1, 3, 4, NULL);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &wide), 3);
    gw_job_record_id one = submit(w, 1, 1, 1, 4, NULL);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &wide), 2);
    cr_expect_eq(sim_flock_running(w, &one), 1);
    uint32_t dead = 0;
    while (!runs(w, dead, &one)) dead++;
    end_machine(w, dead);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &one), 1);
    cr_expect_eq(sim_flock_running(w, &wide), 1);
    sim_flock_start(w, dead);
    run(w, 2.5);
    cr_expect_eq(sim_flock_running(w, &one), 1);
    cr_expect_eq(sim_flock_running(w, &wide), 2);
    cr_expect(sim_flock_agree(w));
    sim_flock_close(w);
}

/* A member that was away while a job was cancelled does not start it again. */
Test(members, that_come_back_start_nothing_that_is_over) {
    sim_flock *w = open_members(3, 4);
    run(w, 1.5);
    gw_job_record_id id = submit(w, 0, 1, 3, 4, NULL);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &id), 3);
    end_machine(w, 2);
    gw_job_record cancel = gw_job_record_of(&id);
    cancel.cancel = true;
    sim_flock_change(w, 1, &cancel);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &id), 0);
    uint32_t starts = w->members[2].starts;
    sim_flock_start(
        w, 2); /* its disk has the job as it was; the world asserts that nothing that is over starts */
    run(w, 5);
    cr_expect(gw_exchange_is_past_gate(w->members[2].exchange));
    cr_expect_eq(w->members[2].starts, starts);
    cr_expect(gw_job_record_is_over(gw_job_records_find(w->members[2].records, &id)));
    sim_flock_close(w);
}

/* Alone, and with a majority that it does not reach, a member waits for --gate. */
Test(members, wait_at_the_gate) {
    sim_flock *w = open_members(3, 4);
    run(w, 1.5);
    gw_job_record_id id = submit(w, 0, 1, 1, 1, NULL);
    run(w, 0.1);
    for (uint32_t i = 0; i < 3; i++) end_machine(w, i);
    sim_flock_start(w, 0);
    run(w, 30);
    cr_expect_eq(sim_flock_running(w, &id), 0);
    run(w, GW_EXCHANGE_GATE_NS / 1e9 - 30 + 0.1);
    cr_expect(gw_exchange_gate_is_forced(w->members[0].exchange));
    run(w, 2.5);
    cr_expect_eq(sim_flock_running(w, &id), 1);
    sim_flock_close(w);
}

/* All have started anew. The first one knows what a majority knew when it has met two of four, though never both at once. */
Test(members, pass_the_gate_by_agreements_that_outlast_their_links) {
    sim_flock *w = open_members(5, 4);
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = 0; b < a; b++) sim_flock_cut(w, a, b, a != 1 || b != 0);
    run(w, 3);
    cr_expect_not(gw_exchange_is_past_gate(w->members[0].exchange));
    sim_flock_cut(w, 0, 1, true);
    run(w, 3);
    sim_flock_cut(w, 0, 2, false);
    run(w, 0.0005);
    cr_expect_not(gw_exchange_is_past_gate(w->members[0].exchange));
    run(w, 3);
    cr_expect(gw_exchange_is_past_gate(w->members[0].exchange));
    cr_expect_not(gw_exchange_is_past_gate(w->members[1].exchange));
    cr_expect_not(gw_exchange_is_past_gate(w->members[3].exchange));
    sim_flock_close(w);
}

/* With few links each, members know the same, and pass their gates by links that they ask for. */
Test(members, of_a_large_flock_keep_few_links) {
    enum { COUNT = 80 };
    sim_flock *w = open_members(COUNT, 1);
    run(w, 8);
    for (uint32_t i = 0; i < COUNT; i++) cr_assert(gw_exchange_is_past_gate(w->members[i].exchange), "%u", i);
    run(w, 2 * (double)GW_FLOCK_LINKS_IDLE_NS / 1e9);
    uint32_t links = 0;
    for (uint32_t a = 0; a < COUNT; a++)
        for (uint32_t b = 0; b < COUNT; b++) links += sim_flock_link(w, a, b)->up;
    cr_expect_geq(links, COUNT * GW_FLOCK_LINKS);
    cr_expect_leq(links, COUNT * 2 * GW_FLOCK_LINKS);
    gw_job_record_id ids[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) ids[i] = submit(w, i, 1, 1, 1, NULL);
    run(w, 0.2);
    cr_expect(sim_flock_agree(w));
    run(w, 3);
    for (uint32_t i = 0; i < COUNT; i++) cr_expect_eq(sim_flock_running(w, &ids[i]), 1, "%u", i);
    for (uint32_t i = 0; i < COUNT / 4; i++) end_machine(w, i * 4);
    run(w, 3);
    for (uint32_t i = 0; i < COUNT / 4; i++) sim_flock_start(w, i * 4);
    run(w, 30);
    for (uint32_t i = 0; i < COUNT; i++) {
        cr_expect(gw_exchange_is_past_gate(w->members[i].exchange), "%u", i);
        cr_expect_eq(sim_flock_running(w, &ids[i]), 1, "%u", i);
    }
    cr_expect(sim_flock_agree(w));
    sim_flock_close(w);
}

Test(members, part_and_meet_again) {
    sim_flock *w = open_members(4, 4);
    run(w, 1.5);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) sim_flock_cut(w, a, b, true);
    gw_job_record_id ids[40];
    for (uint32_t i = 0; i < 40; i++) ids[i] = submit(w, i % 4, 1, 1, 1, NULL);
    gw_job_record cancel = gw_job_record_of(&ids[0]);
    cancel.cancel = true;
    sim_flock_change(w, 0, &cancel);
    run(w, 1);
    cr_expect_not(sim_flock_agree(w));
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) sim_flock_cut(w, a, b, false);
    run(w, 12);
    cr_expect(sim_flock_agree(w));
    for (uint32_t i = 0; i < 4; i++) cr_expect_eq(gw_job_records_count(w->members[i].records), 40);
    uint32_t running = 0;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t one = sim_flock_running(w, &ids[i]);
        cr_expect_leq(one, 1, "%u", i);
        running += one;
    }
    cr_expect_eq(running, 16); /* each core has a job */
    cr_expect_eq(sim_flock_running(w, &ids[0]), 0);
    sim_flock_close(w);
}

/* Each way between two sides. */
static void part(sim_flock *w, uint32_t first, bool cut) {
    for (uint32_t a = 0; a < first; a++)
        for (uint32_t b = first; b < w->count; b++) sim_flock_cut(w, a, b, cut);
}

static uint32_t runs_among(const sim_flock *w, uint32_t first, uint32_t after, const gw_job_record_id *id) {
    uint32_t count = 0;
    for (uint32_t i = first; i < after; i++) count += runs(w, i, id);
    return count;
}

/* Commands run on one side, waiting ones among them; jobs of steps and new commands on both. */
Test(members, on_the_lesser_side_leave_commands_to_the_other_one) {
    sim_flock *w = open_members(4, 1);
    run(w, 1.5);
    gw_job_record_id commands[8], later;
    for (uint32_t i = 0; i < 8; i++) commands[i] = submit(w, i % 4, 1, 1, 1, NULL);
    run(w, 1);
    gw_job_record_id steps = submit(w, 0, 1, 2, 1, NULL);
    run(w, 1);
    uint32_t ran[8];
    for (uint32_t i = 0; i < 8; i++) ran[i] = runs_among(w, 2, 4, &commands[i]);
    part(w, 2, true);
    run(w, 1);
    later = submit(w, 3, 1, 1, 1, NULL);
    for (uint32_t at = 0; at < 590; at++) {
        run(w, 1);
        for (uint32_t i = 0; i < 8; i++) {
            cr_assert(ran[i] || runs_among(w, 2, 4, &commands[i]) == 0, "command %u at %u s", i, at);
            if (at % 50 != 49) continue; /* those that run end now and then */
            for (uint32_t k = 0; k < 4; k++)
                if (runs(w, k, &commands[i])) sim_flock_done(w, k, &commands[i]);
        }
    }
    cr_expect_eq(runs_among(w, 2, 4, &steps), 1);
    cr_expect_eq(runs_among(w, 2, 4, &later), 1);
    for (uint32_t i = 0; i < 8; i++)
        cr_expect(gw_job_record_is_over(gw_job_records_find(w->members[0].records, &commands[i])));
    sim_flock_close(w);
}

/* A job that the lesser side has kept back may run on those that come back. They tell that within a while, in which it is said
 * that they are back, and not that they are away. */
Test(members, of_the_lesser_side_say_that_the_others_are_back) {
    sim_flock *w = open_members(2, 1);
    run(w, 1.5);
    gw_job_record_id wide = submit(w, 0, 2, 2, 1, NULL);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &wide), 2);
    gw_job_record_id waits = submit(w, 0, 1, 1, 1, NULL);
    run(w, 0.1);
    cr_expect_eq(reason_of(w, 1, &waits), GW_WAIT_ROOM);
    sim_flock_cut(w, 0, 1, true);
    run(w, 20);
    cr_expect_eq(reason_of(w, 1, &waits), GW_WAIT_AWAY);
    sim_flock_cut(w, 0, 1, false);
    for (uint32_t at = 0; at < 300 && reason_of(w, 1, &waits) == GW_WAIT_AWAY; at++) run(w, 0.1);
    cr_expect_eq(reason_of(w, 1, &waits), GW_WAIT_BACK);
    run(w, 11);
    cr_expect_eq(reason_of(w, 1, &waits), GW_WAIT_ROOM);
    gw_job_record_id three = submit(w, 0, 3, 3, 1, NULL);
    run(w, 0.1);
    cr_expect_eq(reason_of(w, 1, &three), GW_WAIT_FEW);
    sim_flock_close(w);
}

/* With two, nobody can tell whether the other one is dead: the one of the lower id goes on soon, the other after a while. */
Test(members, of_a_pair_take_over_soon_or_after_takeover) {
    for (uint32_t dead = 0; dead < 2; dead++) {
        uint32_t left = 1 - dead;
        sim_flock *w = open_members(2, 1);
        run(w, 1.5);
        sim_flock_drain(w, left, true);
        run(w, 0.1);
        gw_job_record_id id = submit(w, 0, 1, 1, 1, NULL);
        run(w, 0.5);
        cr_expect(runs(w, dead, &id));
        sim_flock_drain(w, left, false);
        run(w, 0.1);
        end_machine(w, dead);
        run(w, dead == 1 ? 9 : 3); /* it might only be starting again */
        cr_expect_eq(runs(w, left, &id), dead == 1);
        gw_job_view view = gw_decider_view(w->members[left].decider, &id);
        cr_expect_eq(view.reason, dead == 1 ? GW_WAIT_NOT : GW_WAIT_AWAY);
        gw_job_record_id fresh = submit(w, left, 1, 1, 1, NULL);
        run(w, 2.5);
        cr_expect_eq(runs(w, left, &fresh), dead == 0);
        if (dead == 0) {
            cr_expect_leq(view.until_ns, sim_flock_now(w) + GW_SIDES_TAKEOVER_NS);
            sim_flock_done(w, left, &fresh);
            run(w, 590);
            cr_expect_not(runs(w, left, &id));
            run(w, 10);
            cr_expect(runs(w, left, &id));
        }
        sim_flock_close(w);
    }
}

/* Whoever has been lost twice within the hour takes nothing for a while: jobs wait for nodes that stay. */
Test(members, that_come_and_go_take_jobs_a_few_times_alone) {
    for (uint32_t cut = 0; cut < 2; cut++) {
        sim_flock *w = open_members(4, 1);
        run(w, 1.5);
        for (uint32_t i = 0; i < 10; i++) submit(w, 0, 1, 1, 1, NULL); /* more than there is room for */
        run(w, 3);
        for (uint32_t i = 0; i < 30; i++) { /* half an hour */
            if (cut)
                part(w, 3, true);
            else
                end_machine(w, 3);
            run(w, 20);
            uint32_t starts = w->members[3].starts;
            if (cut)
                part(w, 3, false);
            else
                sim_flock_start(w, 3);
            run(w, 40);
            if (i > 4) cr_expect_eq(w->members[3].starts, starts, "flap %u", i);
        }
        cr_expect_leq(w->members[3].starts, 4);
        cr_expect(w->members[3].claims.doubtful);
        run(w, GW_LOSSES_LONGEST_S);
        cr_expect_not(w->members[3].claims.doubtful);
        cr_expect_eq(w->members[3].child_count, 1);
        sim_flock_close(w);
    }
}

/* Where nobody else takes jobs, those take them that come and go: a flock of which all nodes were lost is not idle. */
Test(members, that_have_all_been_lost_take_jobs_at_once) {
    sim_flock *w = open_members(3, 1);
    run(w, 1.5);
    for (uint32_t at = 0; at < 4; at++) {
        for (uint32_t i = 0; i < 3; i++) end_machine(w, i);
        for (uint32_t i = 0; i < 3; i++) sim_flock_start(w, i);
        run(w, 5);
    }
    gw_job_record_id id = submit(w, 0, 1, 1, 1, NULL);
    run(w, 0.2);
    for (uint32_t i = 0; i < 3; i++) cr_expect(w->members[i].claims.doubtful);
    cr_expect_eq(sim_flock_running(w, &id), 1);
    sim_flock_close(w);
}

Test(members, hold_release_and_order_jobs) {
    sim_flock *w = open_members(2, 1);
    run(w, 1.5);
    gw_job_record_id first = submit(w, 0, 1, 1, 1, NULL);
    gw_job_record_id second = submit(w, 0, 1, 1, 1, &first);
    gw_job_record_id third = submit(w, 0, 1, 1, 1, &second);
    gw_job_record hold = gw_job_record_of(&first);
    hold.knob = (gw_job_record_knob){.n = 1, .writer = w->members[0].id, .hold = true};
    sim_flock_change(w, 0, &hold);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &first) + sim_flock_running(w, &second), 0);
    cr_expect_eq(gw_decider_view(w->members[1].decider, &first).reason, GW_WAIT_HELD);
    cr_expect_eq(gw_decider_view(w->members[1].decider, &second).reason, GW_WAIT_AFTER);
    hold.knob = (gw_job_record_knob){.n = 2, .writer = w->members[0].id};
    sim_flock_change(w, 1, &hold);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &first), 1);
    sim_flock_done(w, runs(w, 1, &first), &first);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &second), 1);
    gw_job_record cancel = gw_job_record_of(&second);
    cancel.cancel = true;
    sim_flock_change(w, 1, &cancel);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &second), 0);
    cr_expect_eq(gw_decider_view(w->members[0].decider, &third).reason, GW_WAIT_BROKEN);
    sim_flock_close(w);
}

static void cancel(sim_flock *w, uint32_t number, const gw_job_record_id *id) {
    gw_job_record news = gw_job_record_of(id);
    news.cancel = true;
    sim_flock_change(w, number, &news);
}

static gw_job_record_id try_again(sim_flock *w, uint32_t number, const gw_job_record_id *old) {
    gw_job_spec spec = {.kind = GW_JOB_COMMAND,
                        .name = "a",
                        .need = {.cores = 1},
                        .least = 1,
                        .most = 1,
                        .shares = 1,
                        .adopts = *old};
    return sim_flock_submit(w, number, &spec);
}

static void finish(sim_flock *w, const gw_job_record_id *id) {
    uint32_t at = 0;
    while (!runs(w, at, id)) at++;
    sim_flock_done(w, at, id);
}

Test(members, start_what_comes_after_a_job_that_was_tried_again_with_success) {
    sim_flock *w = open_members(2, 1);
    run(w, 1.5);
    gw_job_record_id first = submit(w, 0, 1, 1, 1, NULL), then = submit(w, 0, 1, 1, 1, &first);
    cancel(w, 1, &first);
    run(w, 0.1);
    cr_expect_eq(reason_of(w, 0, &then), GW_WAIT_BROKEN);
    gw_job_record_id second = try_again(w, 1, &first);
    run(w, 0.1);
    for (uint32_t i = 0; i < 2; i++) {
        gw_job_view view = gw_decider_view(w->members[i].decider, &then);
        cr_expect_eq(view.reason, GW_WAIT_AFTER);
        cr_expect(gw_job_record_id_equal(&view.after, &second));
    }
    cancel(w, 0, &second);
    run(w, 0.1);
    cr_expect_eq(reason_of(w, 1, &then), GW_WAIT_BROKEN);
    gw_job_record_id third = try_again(w, 1, &second);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &third), 1);
    cr_expect_eq(reason_of(w, 1, &then), GW_WAIT_AFTER);
    finish(w, &third);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &then), 1);
    cr_expect(sim_flock_agree(w));
    sim_flock_close(w);
}

/* An earlier build does not place a job that comes after one that was tried again. While such a build is there, nobody does, so
 * that all place the same ones; a child that runs goes on. */
Test(members, of_an_earlier_build_and_others_place_the_same_jobs) {
    sim_flock *w = open_members(2, 2);
    run(w, 1.5);
    gw_job_record_id first = submit(w, 0, 1, 1, 1, NULL), runs_on = submit(w, 0, 1, 1, 1, &first);
    cancel(w, 1, &first);
    gw_job_record_id second = try_again(w, 1, &first);
    run(w, 0.1);
    finish(w, &second);
    run(w, 0.1);
    uint32_t keeps = runs(w, 0, &runs_on) ? 0 : 1, earlier = 1 - keeps;
    cr_assert(runs(w, keeps, &runs_on));
    w->members[earlier].claims.allotment = 1;
    w->members[earlier].claims.number++;
    sim_member_decide_soon(&w->members[earlier]);
    gw_job_record_id waits = submit(w, 0, 1, 1, 1, &first), other = submit(w, 0, 1, 1, 1, NULL);
    run(w, 5);
    cr_expect(runs(w, keeps, &runs_on));
    for (uint32_t i = 0; i < 2; i++) cr_expect_eq(reason_of(w, i, &waits), GW_WAIT_OLDER);
    cr_expect_eq(sim_flock_running(w, &waits), 0);
    cr_expect_eq(sim_flock_running(w, &other), 1);
    w->members[earlier].claims.allotment = GW_ALLOT_VERSION;
    w->members[earlier].claims.number++;
    sim_member_decide_soon(&w->members[earlier]);
    run(w, 5);
    cr_expect(runs(w, keeps, &runs_on));
    cr_expect_eq(sim_flock_running(w, &waits), 1);
    cr_expect(sim_flock_agree(w));
    sim_flock_close(w);
}

/* A child that was asked to end needs what it has until it has ended. */
Test(members, start_nothing_in_the_place_of_a_child_before_it_has_ended) {
    sim_flock *w = open_members_of(2, 2, 5 * SIM_FLOCK_SECOND);
    run(w, 1.5);
    gw_job_record_id first = submit(w, 0, 1, 2, 2, NULL);
    run(w, 1);
    cr_expect_eq(sim_flock_running(w, &first), 2);
    gw_job_record_id second = submit(w, 0, 1, 1, 2, NULL);
    run(w, 1);
    cr_expect_eq(sim_flock_running(w, &first), 1);
    cr_expect_eq(sim_flock_running(w, &second), 0); /* the node's last child leaves */
    run(w, 5);
    cr_expect_eq(sim_flock_running(w, &second), 1);
    uint32_t number = runs(w, 1, &second);
    gw_job_record cancel = gw_job_record_of(&second);
    cancel.cancel = true;
    sim_flock_change(w, 0, &cancel);
    run(w, 4.5);
    cr_expect_not_null(sim_flock_child(w, number, &second)); /* it is over, and leaves */
    cr_expect_eq(sim_flock_running(w, &first), 1);
    run(w, 1);
    cr_expect_eq(sim_flock_running(w, &first), 2);
    sim_flock_close(w);
}

/* Makes a member doubtful, or trusts it again, and lets it tell that. */
static void doubt(sim_flock *w, uint32_t number, bool doubtful) {
    w->members[number].doubtful_until = doubtful ? SIM_FLOCK_NEVER : 0;
    sim_member_decide_soon(&w->members[number]);
    run(w, 0.1);
}

Test(members, that_are_doubtful_keep_what_they_run_and_take_more_only_where_nobody_else_does) {
    sim_flock *w = open_members(3, 4);
    run(w, 1.5);
    sim_flock_drain(w, 1, true);
    sim_flock_drain(w, 2, true);
    gw_job_record_id first = submit(w, 0, 1, 1, 1, NULL);
    run(w, 1.5);
    cr_expect(runs(w, 0, &first));
    doubt(w, 0, true);
    gw_job_record_id second = submit(w, 0, 1, 1, 1, NULL);
    run(w, 1.5);
    cr_expect(runs(w, 0, &second)); /* the others are drained */
    sim_flock_drain(w, 1, false);
    run(w, 1.5);
    cr_expect(runs(w, 0, &first) && runs(w, 0, &second));
    gw_job_record_id wide = submit(w, 0, 1, 3, 1, NULL), large = submit(w, 0, 1, 1, 4, NULL);
    run(w, 1.5);
    cr_expect(!runs(w, 0, &wide) && runs(w, 1, &wide));
    cr_expect_eq(sim_flock_running(w, &large), 0); /* there is room for it on neither */
    doubt(w, 1, true);
    run(w, 1.5);
    cr_expect(runs(w, 0, &wide) && runs(w, 1, &wide));
    doubt(w, 0, false);
    run(w, 1.5);
    cr_expect(runs(w, 0, &wide) && runs(w, 1, &wide)); /* the latter keeps it */
    cr_expect(sim_flock_agree(w));
    sim_flock_close(w);
}

/* A member comes back with a build whose messages the others do not read. They keep what they run, and start nothing that may
 * run there, until it is gone, or has a build that they read. */
Test(members, start_nothing_while_they_cannot_read_what_another_one_runs) {
    sim_flock *w = open_members(3, 4);
    run(w, 1.5);
    end_machine(w, 2);
    run(w, 1);
    gw_job_record_id wide = submit(w, 0, 1, 3, 1, NULL), one = submit(w, 0, 1, 1, 1, NULL);
    run(w, 1);
    cr_expect_eq(sim_flock_running(w, &wide), 2);
    cr_expect_eq(sim_flock_running(w, &one), 1);
    w->members[2].ahead = true;
    sim_flock_start(w, 2);
    run(w, 2);
    gw_job_record_id command = submit(w, 0, 1, 1, 1, NULL), steps = submit(w, 0, 1, 2, 1, NULL);
    run(w, 60);
    cr_expect_eq(sim_flock_running(w, &one), 1);
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect(runs(w, i, &wide));
        cr_expect(!runs(w, i, &command) && !runs(w, i, &steps));
        cr_expect_eq(gw_decider_view(w->members[i].decider, &command).reason, GW_WAIT_NEWER);
        cr_expect(gw_exchange_is_unreadable(w->members[i].exchange, &w->members[2].id));
    }
    end_machine(w, 2);
    run(w, 0.1);
    cr_expect_eq(sim_flock_running(w, &command), 1);
    cr_expect_eq(sim_flock_running(w, &steps), 2);
    w->members[2].ahead = false;
    sim_flock_start(w, 2);
    run(w, 2);
    gw_job_record_id last = submit(w, 0, 1, 1, 1, NULL);
    run(w, 2);
    cr_expect_eq(sim_flock_running(w, &last), 1);
    cr_expect_not(gw_exchange_is_unreadable(w->members[0].exchange, &w->members[2].id));
    cr_expect(sim_flock_agree(w));
    sim_flock_close(w);
}

/* Its stub is kept, and those who have dropped the specification agree with those who have not. */
Test(members, drop_what_a_job_was_to_do_a_week_after_it_is_over) {
    sim_flock *w = open_members(3, 4);
    run(w, 1.5);
    gw_job_record_id id = submit(w, 0, 1, 1, 2, NULL), waits = submit(w, 0, 1, 1, 64, NULL);
    run(w, 1);
    for (uint32_t i = 0; i < 3; i++)
        if (runs(w, i, &id)) sim_flock_done(w, i, &id);
    w->slow_ns = 1000 * SIM_FLOCK_SECOND;
    run(w, 6.9 * 86400);
    cr_expect_not_null(gw_job_records_find(w->members[1].records, &id)->spec);
    end_machine(w, 2);
    sim_flock_start(w, 2); /* it does not know for how long the job is over */
    run(w, 86400);
    for (uint32_t i = 0; i < 3; i++) {
        const gw_job_record *record = gw_job_records_find(w->members[i].records, &id);
        cr_expect_eq(record->spec == NULL, i < 2, "%u", i);
        cr_expect(gw_job_record_is_over(record));
        cr_expect_eq(w->members[i].dropped, i < 2);
        cr_expect_not_null(gw_job_records_find(w->members[i].records, &waits)->spec);
    }
    cr_expect(sim_flock_agree(w));
    sim_flock_close(w);
}

/* At rest a round costs each member some bytes every five seconds, whatever is known. */
Test(members, are_quiet_when_nothing_changes) {
    sim_flock *w = open_members(4, 1);
    run(w, 1.5);
    for (uint32_t i = 0; i < 200; i++) submit(w, i % 4, 2, 2, 4, NULL);
    run(w, 12);
    uint64_t before = w->sent;
    run(w, 20);
    cr_expect_leq(w->sent - before, 4 * 4 * 2);
    sim_flock_close(w);
}
