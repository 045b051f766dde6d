#include "tools/sim/flock/scenario.h"

#include "core/base/assert.h"
#include "core/base/mix.h"
#include "tools/sim/flock/judge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SNAPSHOTS = 4, MINUTE = 60, HOUR = 3600, DAY = 86400 };

/* How a job's children run. */
typedef struct course {
    gw_job_record_id id;
    uint64_t runs_ns;
    uint32_t fails_permille;
    bool poison, steps;
    uint64_t ran_ns; /* of a job of steps: what no child has to do again */
} course;

typedef struct scenario {
    const sim_flock_options *options;
    sim_flock_result *result;
    sim_flock *w;
    sim_judge judge;
    gw_rng rng;
    course courses[SIM_FLOCK_JOBS];
    uint32_t job_count, jobs_wanted;
    gw_job_records *snapshots[SIM_FLOCK_MEMBERS]; /* of disks, for SIM_RESTORE */
    bool side[SIM_FLOCK_MEMBERS];
    bool healing; /* nothing fails any more */
    uint64_t end_ns;
} scenario;

static uint64_t between(scenario *s, uint64_t least, uint64_t most) {
    return least + gw_rng_below(&s->rng, most - least + 1);
}

static bool chance(scenario *s, double probability) {
    return gw_rng_unit(&s->rng) < probability;
}

static bool may(const scenario *s, sim_happening what) {
    return (s->options->without & 1u << what) == 0;
}

/* Event a is a member, b and c what the event's function says. */
static void later(scenario *s, uint64_t after_ns, void (*run)(void *, const gw_sim_event *), uint64_t a,
                  uint64_t b) {
    gw_sim_schedule(s->w->engine, sim_flock_now(s->w) + after_ns,
                    &(gw_sim_event){.run = run, .context = s, .a = a, .b = b});
}

/* From seconds to days, each as likely. */
static uint64_t some_time(scenario *s) {
    static const uint32_t most_s[] = {3, 20, 90, 10 * MINUTE, 2 * HOUR, 2 * DAY};
    uint32_t kinds = may(s, SIM_CALM) ? 6 : 4;
    return between(s, 1, 1000ull * most_s[between(s, 0, kinds - 1)]) * SIM_FLOCK_MS;
}

static void note(scenario *s, sim_happening what) {
    s->result->happened[what]++;
    sim_judge_disturbed(&s->judge);
}

/* Members. */

static void kill_member(scenario *s, uint32_t number, bool machine) {
    if (!s->w->members[number].alive) return;
    sim_flock_kill(s->w, number, machine);
    sim_judge_forgets(&s->judge, number);
}

static void start_again(void *context, const gw_sim_event *event) {
    scenario *s = context;
    if (s->w->members[event->a].alive) return;
    sim_judge_disturbed(&s->judge);
    sim_flock_start(s->w, (uint32_t)event->a);
}

static bool is_any_alive(const scenario *s) {
    for (uint32_t i = 0; i < s->w->count; i++)
        if (s->w->members[i].alive) return true;
    return false;
}

static void end_process(scenario *s, uint32_t number) {
    note(s, SIM_KILL);
    kill_member(s, number, false);
    later(s, some_time(s), start_again, number, 0);
}

static void end_machine(scenario *s, uint32_t number) {
    bool alive = s->w->members[number].alive;
    s->result->happened[SIM_POWER]++;
    sim_judge_death(&s->judge, number);
    if (!alive) sim_judge_disturbed(&s->judge);
    kill_member(s, number, true);
    later(s, some_time(s), start_again, number, 0);
}

static void end_all_machines(scenario *s, uint32_t number) {
    (void)number;
    note(s, SIM_OUTAGE);
    for (uint32_t i = 0; i < s->w->count; i++) {
        kill_member(s, i, true);
        later(s, some_time(s), start_again, i, 0);
    }
}

static void flap(void *context, const gw_sim_event *event) {
    scenario *s = context;
    uint32_t number = (uint32_t)event->a;
    if (s->healing) return;
    sim_judge_disturbed(&s->judge);
    if (s->w->members[number].alive)
        kill_member(s, number, event->b % 4 == 1);
    else
        sim_flock_start(s->w, number);
    if (event->b > 0)
        later(s, between(s, 100, 20000) * SIM_FLOCK_MS, flap, number, event->b - 1);
    else
        later(s, SIM_FLOCK_SECOND, start_again, number, 0);
}

static void begin_flapping(scenario *s, uint32_t number) {
    note(s, SIM_FLAP);
    later(s, 0, flap, number, between(s, 2, 20));
}

/* Networks. */

static void follow_sides(scenario *s) {
    for (uint32_t a = 0; a < s->w->count; a++)
        for (uint32_t b = 0; b < a; b++) sim_flock_cut(s->w, a, b, s->side[a] != s->side[b]);
}

static void heal_cut(void *context, const gw_sim_event *event) {
    scenario *s = context;
    sim_judge_disturbed(&s->judge);
    sim_flock_cut(s->w, (uint32_t)event->a, (uint32_t)event->b, false);
}

static void heal_sides(void *context, const gw_sim_event *event) {
    scenario *s = context;
    (void)event;
    sim_judge_disturbed(&s->judge);
    memset(s->side, 0, sizeof s->side);
    follow_sides(s);
}

static void cut_pair(scenario *s, uint32_t number) {
    uint32_t other = (uint32_t)between(s, 0, s->w->count - 1);
    if (other == number) return;
    note(s, SIM_CUT);
    sim_flock_cut(s->w, number, other, true);
    later(s, some_time(s), heal_cut, number, other);
}

static void part(scenario *s, uint32_t number) {
    (void)number;
    note(s, SIM_PART);
    sim_flock_say(s->w, "the flock falls apart");
    for (uint32_t i = 0; i < s->w->count; i++) s->side[i] = chance(s, 0.5);
    follow_sides(s);
    later(s, some_time(s), heal_sides, 0, 0);
}

/* Disks. */

static void empty_disk(void *context, const gw_sim_event *event) {
    scenario *s = context;
    sim_judge_disturbed(&s->judge);
    sim_flock_fill(s->w, (uint32_t)event->a, false);
}

static void fill_disk(scenario *s, uint32_t number) {
    note(s, SIM_FILL);
    sim_flock_fill(s->w, number, true);
    later(s, some_time(s), empty_disk, number, 0);
}

static gw_job_records *copy_of(const gw_job_records *records) {
    gw_err err;
    gw_job_records *copy = gw_job_records_open(&err);
    GW_ASSERT_MEMORY(copy != NULL);
    for (uint32_t i = 0; i < gw_job_records_count(records); i++)
        gw_job_records_join(copy, gw_job_records_at(records, i));
    return copy;
}

/* The first time it is remembered, and the second time restored. */
static void restore_disk(scenario *s, uint32_t number) {
    if (s->snapshots[number] == NULL) {
        s->snapshots[number] = copy_of(s->w->members[number].disk);
        return;
    }
    note(s, SIM_RESTORE);
    kill_member(s, number, true);
    sim_flock_restore(s->w, number, s->snapshots[number]);
    sim_judge_disk(&s->judge, number, s->snapshots[number]);
    gw_job_records_close(s->snapshots[number]);
    s->snapshots[number] = NULL;
    later(s, some_time(s), start_again, number, 0);
}

static void lose_disk(scenario *s, uint32_t number) {
    note(s, SIM_LOSE);
    kill_member(s, number, true);
    sim_flock_restore(s->w, number, NULL);
    sim_judge_disk(&s->judge, number, NULL);
    later(s, some_time(s), start_again, number, 0);
}

/* Nodes and time. */

static void undrain(void *context, const gw_sim_event *event) {
    scenario *s = context;
    sim_judge_disturbed(&s->judge);
    sim_flock_drain(s->w, (uint32_t)event->a, false);
}

static void drain(scenario *s, uint32_t number) {
    note(s, SIM_DRAIN);
    sim_flock_drain(s->w, number, true);
    later(s, some_time(s), undrain, number, 0);
}

static void wake(void *context, const gw_sim_event *event) {
    scenario *s = context;
    (void)event;
    s->w->slow_ns = 0;
    s->judge.slow_ns = sim_flock_now(s->w);
    sim_judge_disturbed(&s->judge);
    for (uint32_t i = 0; i < s->w->count; i++) { /* their timers are due */
        if (!s->w->members[i].alive) continue;
        sim_member_follow_exchange(&s->w->members[i]);
        sim_member_decide_soon(&s->w->members[i]);
    }
}

static void calm(scenario *s, uint32_t number) {
    (void)number;
    if (s->w->slow_ns != 0) return;
    note(s, SIM_CALM);
    uint64_t lasts_s = chance(s, 0.8) ? between(s, HOUR, 8 * HOUR) : between(s, DAY, 9 * DAY);
    s->w->slow_ns = lasts_s * SIM_FLOCK_SECOND / 24;
    s->judge.slow_ns = SIM_FLOCK_NEVER - DAY * SIM_FLOCK_SECOND;
    s->end_ns += lasts_s * SIM_FLOCK_SECOND;
    later(s, lasts_s * SIM_FLOCK_SECOND, wake, 0, 0);
}

/* Jobs. */

static course *course_of(scenario *s, const gw_job_record_id *id) {
    uint32_t at = 0;
    while (at < s->job_count && !gw_job_record_id_equal(&s->courses[at].id, id)) at++;
    GW_ASSERT(at < s->job_count);
    return &s->courses[at];
}

static sim_fate fate(void *context, const sim_member *m, const gw_job_record_id *id, uint32_t round) {
    sim_judge *judge = context;
    scenario *s = (scenario *)(void *)((char *)judge - offsetof(scenario, judge));
    const course *c = course_of(s, id);
    uint64_t drawn =
        gw_mix64(s->options->seed ^ gw_mix64((uint64_t)id->bytes[0] << 32 | (uint64_t)id->bytes[1] << 24 |
                                             round << 16 | m->number));
    uint64_t runs = c->steps ? c->runs_ns - c->ran_ns / 2 : c->runs_ns;
    sim_fate result = {runs, SIM_CHILD_DONE};
    if (c->poison) return (sim_fate){c->runs_ns / 10 + 1, SIM_CHILD_FATAL};
    if (!may(s, SIM_FAIL)) return result;
    if (drawn % 1000 < c->fails_permille) result = (sim_fate){drawn / 1000 % (runs + 1), SIM_CHILD_FAILED};
    if (drawn / 7 % 1000 < 15) result = (sim_fate){drawn / 7000 % SIM_FLOCK_SECOND, SIM_CHILD_STRUCK};
    if (drawn / 11 % 1000 < 20 && !s->healing)
        result = (sim_fate){drawn / 11000 % (runs + 1), SIM_CHILD_LEFT};
    return result;
}

static gw_allot_need draw_need(scenario *s) {
    gw_allot_need need = {.cores = (uint32_t)between(s, 1, 4)};
    if (chance(s, 0.3)) need.memory_mib = (uint32_t)between(s, 1, 2000);
    if (chance(s, 0.2)) need.gpus = (uint32_t)between(s, 1, 2);
    return need;
}

static void submit_at(scenario *s, uint32_t number) {
    const sim_member *m = &s->w->members[number];
    if (!m->alive || m->claims.disk_bad || s->job_count == s->jobs_wanted) return;
    bool steps = chance(s, 0.5);
    uint32_t least = steps ? (uint32_t)between(s, 1, 1 + s->w->count / 3) : 1;
    gw_job_record_id after[1];
    gw_job_spec spec = {.kind = steps ? GW_JOB_RUN : GW_JOB_COMMAND,
                        .name = "a",
                        .need = draw_need(s),
                        .least = least,
                        .most = steps ? least + (uint32_t)between(s, 0, 3) : 1,
                        .shares = (uint32_t)between(s, 1, 3),
                        .retries = (uint32_t)between(s, 0, 3),
                        .priority = chance(s, 0.2) ? (int32_t)between(s, 0, 4) - 2 : 0,
                        .rigid = steps && chance(s, 0.3),
                        .hold = may(s, SIM_HOLD) && chance(s, 0.05),
                        .after = after};
    if (may(s, SIM_MIXED) && chance(s, 0.3)) spec.build = chance(s, 0.5) ? "1" : "2";
    if (may(s, SIM_MIXED) && chance(s, 0.3)) spec.compute_class = (uint32_t)between(s, 1, 2);
    if (s->job_count > 0 && chance(s, 0.15)) {
        after[spec.after_count++] = s->courses[between(s, 0, s->job_count - 1)].id;
    }
    gw_job_record_id id = sim_flock_submit(s->w, number, &spec);
    spec.after = NULL;
    spec.name = spec.build = NULL;
    spec.command = NULL;
    s->courses[s->job_count++] =
        (course){.id = id,
                 .runs_ns = between(s, 100, 60000) * SIM_FLOCK_MS,
                 .fails_permille = may(s, SIM_FAIL) && chance(s, 0.3) ? (uint32_t)between(s, 50, 700) : 0,
                 .poison = may(s, SIM_FAIL) && chance(s, 0.05),
                 .steps = steps};
    if (chance(s, 0.05)) s->courses[s->job_count - 1].runs_ns *= 60;
    sim_judge_submitted(&s->judge, &id, &spec);
}

static void submit_due(void *context, const gw_sim_event *event) {
    scenario *s = context;
    (void)event;
    if (s->healing) return;
    uint32_t number = (uint32_t)between(s, 0, s->w->count - 1);
    uint32_t burst = chance(s, 0.2) ? (uint32_t)between(s, 2, 8) : 1;
    for (uint32_t i = 0; i < burst; i++) submit_at(s, number);
    if (s->job_count < s->jobs_wanted) later(s, between(s, 1, 30000) * SIM_FLOCK_MS, submit_due, 0, 0);
}

/* A member that runs, and a job that it knows and that is not over; NULL: none is drawn. */
static const gw_job_record *draw_job(scenario *s, uint32_t number) {
    const sim_member *m = &s->w->members[number];
    if (s->job_count == 0 || !m->alive) return NULL;
    const gw_job_record *record =
        gw_job_records_find(m->records, &s->courses[between(s, 0, s->job_count - 1)].id);
    return record == NULL || gw_job_record_is_over(record) ? NULL : record;
}

static void cancel(scenario *s, uint32_t number) {
    const gw_job_record *record = draw_job(s, number);
    if (record == NULL) return;
    gw_job_record change = gw_job_record_of(&record->id);
    change.cancel = true;
    note(s, SIM_CANCEL);
    sim_flock_say(s->w, "%u cancels %02x%02x", number, change.id.bytes[0], change.id.bytes[1]);
    sim_flock_put(s->w, number, &change);
}

static void turn_knob(scenario *s, uint32_t number, const gw_job_record *record, int32_t priority,
                      bool hold) {
    gw_job_record change = gw_job_record_of(&record->id);
    change.knob = (gw_job_record_knob){
        .n = record->knob.n + 1, .writer = s->w->members[number].id, .priority = priority, .hold = hold};
    sim_flock_say(s->w, "%u: %02x%02x has priority %d, hold %d", number, change.id.bytes[0],
                  change.id.bytes[1], priority, hold);
    sim_flock_change(s->w, number, &change);
}

static void set_priority(scenario *s, uint32_t number) {
    const gw_job_record *record = draw_job(s, number);
    if (record == NULL) return;
    note(s, SIM_PRIORITY);
    turn_knob(s, number, record, (int32_t)between(s, 0, 6) - 3, record->knob.hold);
}

static void hold(scenario *s, uint32_t number) {
    const gw_job_record *record = draw_job(s, number);
    if (record == NULL) return;
    note(s, SIM_HOLD);
    turn_knob(s, number, record, record->knob.priority, !record->knob.hold);
}

/* The course of events. */

typedef struct happening {
    const char *name;
    void (*strike)(scenario *s, uint32_t number); /* NULL: it does not strike at a time */
} happening;

static const happening happenings[SIM_HAPPENINGS] = {
    [SIM_KILL] = {"kill", end_process},
    [SIM_POWER] = {"power", end_machine},
    [SIM_OUTAGE] = {"outage", end_all_machines},
    [SIM_CUT] = {"cut", cut_pair},
    [SIM_PART] = {"part", part},
    [SIM_FLAP] = {"flap", begin_flapping},
    [SIM_FILL] = {"fill", fill_disk},
    [SIM_RESTORE] = {"restore", restore_disk},
    [SIM_LOSE] = {"lose", lose_disk},
    [SIM_DRAIN] = {"drain", drain},
    [SIM_CALM] = {"calm", calm},
    [SIM_CANCEL] = {"cancel", cancel},
    [SIM_HOLD] = {"hold", hold},
    [SIM_PRIORITY] = {"priority", set_priority},
    [SIM_FAIL] = {"fail", NULL},
    [SIM_MIXED] = {"mixed", NULL},
};

const char *sim_happening_name(sim_happening what) {
    return happenings[what].name;
}

/* Event a is what happens, b the mean time until it does again. */
static void strike(void *context, const gw_sim_event *event) {
    scenario *s = context;
    if (s->healing) return;
    if (is_any_alive(s)) happenings[event->a].strike(s, (uint32_t)between(s, 0, s->w->count - 1));
    later(s, between(s, 1, 2 * event->b) + between(s, 0, 2) * s->w->slow_ns, strike, event->a, event->b);
}

static void compare_now(void *context, const gw_sim_event *event) {
    (void)event;
    sim_judge_compare(&((scenario *)context)->judge);
}

/* All decide by what they know now, and are compared after that. */
static void look(void *context, const gw_sim_event *event) {
    scenario *s = context;
    (void)event;
    for (uint32_t i = 0; i < s->w->count; i++)
        if (s->w->members[i].alive) sim_member_decide_soon(&s->w->members[i]);
    gw_sim_schedule(s->w->engine, sim_flock_now(s->w),
                    &(gw_sim_event){.run = compare_now, .context = s, .order = 2});
    later(s, between(s, 5, 40) * SIM_FLOCK_SECOND + s->w->slow_ns, look, 0, 0);
}

static uint32_t draw_members(scenario *s) {
    double drawn = gw_rng_unit(&s->rng);
    if (drawn < 0.8) return (uint32_t)between(s, 3, 8);
    return drawn < 0.98 ? (uint32_t)between(s, 9, 20) : (uint32_t)between(s, 21, SIM_FLOCK_MEMBERS);
}

static void draw_nodes(scenario *s) {
    for (uint32_t i = 0; i < s->w->count; i++) {
        gw_claims *claims = &s->w->members[i].claims;
        claims->has = (gw_allot_need){4, 4096, 2};
        snprintf(claims->build, sizeof claims->build, "1");
        claims->compute_class = 1;
        if (!may(s, SIM_MIXED)) continue;
        claims->has = (gw_allot_need){1u << between(s, 1, 4), (uint32_t)between(s, 1000, 5000),
                                      (uint32_t)between(s, 0, 3)};
        snprintf(claims->build, sizeof claims->build, "%d", chance(s, 0.7) ? 1 : 2);
        claims->compute_class = (uint32_t)between(s, 1, 2);
    }
}

static void open_scenario(scenario *s, const sim_flock_options *options, sim_flock_result *result) {
    *s = (scenario){.options = options, .result = result, .rng = gw_rng_seeded(gw_mix64(options->seed))};
    uint32_t members = draw_members(s), jobs = (uint32_t)between(s, 3, 40);
    result->members = options->members != 0 ? options->members : members;
    result->jobs = s->jobs_wanted = options->jobs != 0 ? options->jobs : jobs;
    sim_flock_config config = {.count = result->members,
                               .seed = options->seed,
                               .message_least_ns = 50000,
                               .message_most_ns = between(s, 1, 50) * SIM_FLOCK_MS,
                               .notice_least_ns = 50 * SIM_FLOCK_MS,
                               .notice_most_ns = between(s, 100, 4000) * SIM_FLOCK_MS,
                               .disk_least_ns = SIM_FLOCK_MS / 10,
                               .disk_most_ns = between(s, 1, 200) * SIM_FLOCK_MS,
                               .leave_most_ns = between(s, 1, 20000) * SIM_FLOCK_MS,
                               .gate_ns = chance(s, 0.5) ? GW_EXCHANGE_GATE_NS : 60 * SIM_FLOCK_SECOND,
                               .takeover_ns = GW_SIDES_TAKEOVER_NS,
                               .mixed = may(s, SIM_MIXED)};
    sim_judge_open(&s->judge, &config.events, result);
    config.events.fate = fate;
    s->w = sim_flock_open(&config);
    s->w->trace = options->trace;
    s->judge.world = s->w;
    s->end_ns = sim_flock_now(s->w) + between(s, 60, 600) * SIM_FLOCK_SECOND;
    draw_nodes(s);
    for (uint32_t i = 0; i < s->w->count; i++)
        later(s, chance(s, 0.8) ? between(s, 0, 500) * SIM_FLOCK_MS : some_time(s), start_again, i, 0);
    later(s, between(s, 0, 10000) * SIM_FLOCK_MS, submit_due, 0, 0);
    later(s, SIM_FLOCK_SECOND, look, 0, 0);
    for (uint32_t i = 0; i < SIM_HAPPENINGS; i++) {
        bool happens = chance(s, 0.35);
        uint64_t mean_ns = between(s, 5, i == SIM_CALM || i == SIM_OUTAGE ? 600 : 200) * SIM_FLOCK_SECOND;
        if (happens && may(s, (sim_happening)i) && happenings[i].strike != NULL)
            later(s, between(s, 1, 2 * mean_ns), strike, i, mean_ns);
    }
}

static void run_until(scenario *s, uint64_t until_ns) {
    while (!s->result->failed && gw_sim_step(s->w->engine, until_ns)) {
    }
}

static void release_all(scenario *s) {
    for (uint32_t i = 0; i < s->job_count; i++) {
        const gw_job_record *record = gw_job_records_find(s->w->members[0].records, &s->courses[i].id);
        if (record != NULL && !gw_job_record_is_over(record))
            turn_knob(s, 0, record, record->knob.priority, false);
    }
}

/* Ends all that is wrong. */
static void heal(scenario *s) {
    gw_sim_event none = {0};
    sim_flock_say(s->w, "all is healed");
    s->healing = true;
    if (s->w->slow_ns != 0) wake(s, &none);
    memset(s->side, 0, sizeof s->side);
    follow_sides(s);
    for (uint32_t i = 0; i < s->w->count; i++) {
        none.a = i;
        empty_disk(s, &none);
        undrain(s, &none);
        start_again(s, &none);
    }
}

/* The time that no job waits longer than, however few nodes may have it: all run one after another. */
static uint64_t patience(const scenario *s) {
    uint64_t sum =
        s->w->config.gate_ns + s->w->config.takeover_ns + (GW_LOSSES_LONGEST_S + 600) * SIM_FLOCK_SECOND;
    for (uint32_t i = 0; i < s->job_count; i++)
        sum += 4 * (s->courses[i].runs_ns + s->w->config.leave_most_ns + 10 * SIM_FLOCK_SECOND);
    return sum;
}

static void finish(scenario *s) {
    char why[SIM_FLOCK_WHY];
    heal(s);
    uint64_t end_ns = sim_flock_now(s->w) + patience(s);
    run_until(s, sim_flock_now(s->w) + 150 * SIM_FLOCK_SECOND);
    if (!s->result->failed) release_all(s);
    for (;;) {
        run_until(s, sim_flock_now(s->w) + 60 * SIM_FLOCK_SECOND);
        if (s->result->failed || sim_judge_finished(&s->judge, why)) break;
        if (sim_flock_now(s->w) >= end_ns) sim_judge_fail(&s->judge, "%s", why);
    }
    run_until(s, sim_flock_now(s->w) + 120 * SIM_FLOCK_SECOND);
    if (!s->result->failed) sim_judge_end(&s->judge);
}

void sim_flock_play(const sim_flock_options *options, sim_flock_result *result) {
    scenario *s = malloc(sizeof *s);
    GW_ASSERT_MEMORY(s != NULL);
    *result = (sim_flock_result){.failed = false};
    open_scenario(s, options, result);
    while (!result->failed && sim_flock_now(s->w) < s->end_ns) run_until(s, s->end_ns);
    if (!result->failed) finish(s);
    if (!result->failed) result->at_ns = sim_flock_now(s->w);
    result->messages = s->w->sent;
    result->bytes = s->w->sent_bytes;
    result->decisions = s->w->decisions;
    sim_flock_close(s->w);
    for (uint32_t i = 0; i < SIM_FLOCK_MEMBERS; i++) gw_job_records_close(s->snapshots[i]);
    free(s);
}
