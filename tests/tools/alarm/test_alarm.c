/* Alarms are raised once, end, and are sent by the leader, at least once whoever leads. */
#include "tools/godwit/alarm/alarm.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };
#define SECOND UINT64_C(1000000000)

static gw_alarm sent[MOST];
static uint32_t count;
static gw_node_snapshot *snapshot;
static uint64_t now;

static void note(void *context, const gw_alarm *alarm) {
    (void)context;
    cr_assert_lt(count, MOST);
    sent[count++] = *alarm;
}

static const gw_peer_id self = {{1}}, other = {{2}}, third = {{3}};

static void add_peer(const gw_peer_id *id, const char *name, const char *state) {
    gw_snapshot_peer *peer = &snapshot->peers[snapshot->peer_count++];
    *peer = (gw_snapshot_peer){.id = *id, .boot = 1, .member = true, .self = gw_peer_id_equal(id, &self)};
    snprintf(peer->name, sizeof peer->name, "%s", name);
    snprintf(peer->state, sizeof peer->state, "%s", state);
}

static void setup(void) {
    count = 0;
    now = 1000 * SECOND;
    snapshot = calloc(1, sizeof *snapshot);
    cr_assert_not_null(snapshot);
    snapshot->self = self;
    snapshot->leader = self;
    snapshot->members = 3;
    snapshot->epoch = 4;
    snapshot->step = 10;
    snapshot->checkpoint_step = 5;
    snapshot->disk_free_bytes = UINT64_MAX;
    snprintf(snapshot->phase, sizeof snapshot->phase, "waiting for godot");
    add_peer(&self, "me", "alive");
    add_peer(&other, "node-b", "alive");
    add_peer(&third, "node-c", "alive");
}

static void teardown(void) {
    free(snapshot);
}

TestSuite(alarm, .init = setup, .fini = teardown);

static gw_alarms *open_alarms(const char *rules_text, uint64_t checkpoint_ns) {
    gw_alarm_rules rules = gw_alarm_rules_default();
    gw_err err;
    if (rules_text != NULL) cr_assert(gw_alarm_rules_parse(rules_text, &rules, &err), "%s", err.text);
    gw_alarms *alarms = gw_alarms_open(&rules, checkpoint_ns, note, NULL, &err);
    cr_assert_not_null(alarms);
    return alarms;
}

static void look(gw_alarms *alarms, double seconds) {
    now += (uint64_t)(seconds * 1e9);
    snapshot->time += seconds;
    gw_alarms_look(alarms, snapshot, 1000, now);
}

static void report(gw_alarms *alarms, uint64_t step, const char *text) {
    gw_alarms_step(alarms, step, text, snapshot->time, now);
}

static void expect(uint32_t index, gw_alarm_kind kind, bool over) {
    cr_assert_lt(index, count, "there are %u alarms", count);
    cr_assert_eq(sent[index].kind, kind, "alarm %u is %s", index, gw_alarm_kind_name(sent[index].kind));
    cr_assert_eq(sent[index].over, over);
}

static void set_state(const gw_peer_id *id, const char *state) {
    for (uint32_t i = 0; i < snapshot->peer_count; i++)
        if (gw_peer_id_equal(&snapshot->peers[i].id, id))
            snprintf(snapshot->peers[i].state, sizeof snapshot->peers[i].state, "%s", state);
}

Test(alarm, a_lost_peer_is_told_once_and_again_when_it_is_back) {
    gw_alarms *alarms = open_alarms(NULL, 0);
    look(alarms, 1);
    cr_assert_eq(count, 0);
    set_state(&other, "dead");
    for (int i = 0; i < 10; i++) look(alarms, 1);
    cr_assert_eq(count, 1);
    expect(0, GW_ALARM_PEER_LOST, false);
    cr_assert_not_null(strstr(sent[0].text, "node-b"));
    set_state(&other, "alive");
    for (int i = 0; i < 10; i++) look(alarms, 1);
    cr_assert_eq(count, 2);
    expect(1, GW_ALARM_PEER_LOST, true);
    cr_assert_str_eq(sent[0].key, sent[1].key);
    snapshot->epoch = 9; /* another loss of the same life is another alarm */
    set_state(&other, "unreachable");
    look(alarms, 1);
    cr_assert_eq(count, 3);
    cr_assert_str_neq(sent[0].key, sent[2].key);
    gw_alarms_close(alarms);
}

Test(alarm, the_key_is_the_same_before_and_after_the_next_view) {
    char key[GW_ALARM_KEY_TEXT] = "";
    for (int after = 0; after < 2; after++) {
        gw_alarms *alarms = open_alarms(NULL, 0);
        count = 0;
        snapshot->epoch = 4;
        snapshot->peers[1].member = true;
        set_state(&other, "alive");
        look(alarms, 1);
        set_state(&other, "dead");
        if (after) {
            snapshot->epoch = 5;
            snapshot->peers[1].member = false;
        }
        look(alarms, 1);
        cr_assert_eq(count, 1);
        if (after) cr_assert_str_eq(sent[0].key, key);
        memcpy(key, sent[0].key, sizeof key);
        gw_alarms_close(alarms);
    }
}

Test(alarm, who_leaves_or_was_no_member_is_not_lost) {
    gw_alarms *alarms = open_alarms(NULL, 0);
    snapshot->peers[2].member = false;
    look(alarms, 1);
    set_state(&other, "left");
    set_state(&third, "dead");
    look(alarms, 1);
    snapshot->ending = true; /* the others end with the job */
    set_state(&other, "dead");
    look(alarms, 1);
    cr_assert_eq(count, 0);
    gw_alarms_close(alarms);
}

Test(alarm, the_next_leader_sends_what_the_one_before_may_not_have_sent) {
    gw_alarms *alarms = open_alarms("loss>5", 0);
    snapshot->leader = other;
    look(alarms, 1);
    report(alarms, 10, "loss=9"); /* is on */
    gw_alarms_corrupt(alarms, 10, "node-c holds other bits");
    set_state(&third, "dead");
    look(alarms, 1);
    cr_assert_eq(count, 0, "another peer leads");
    set_state(&other, "dead");
    snapshot->leader = self;
    look(alarms, 1);
    cr_assert_eq(count, 4, "%u were sent", count);
    bool kinds[GW_ALARM_LOSS + 1] = {false};
    for (uint32_t i = 0; i < count; i++) kinds[sent[i].kind] = true;
    cr_assert(kinds[GW_ALARM_LOSS] && kinds[GW_ALARM_CORRUPT] && kinds[GW_ALARM_PEER_LOST]);
    gw_alarms_close(alarms);
    /* What was over long ago is not told any more. */
    count = 0;
    alarms = open_alarms("loss>5", 0);
    set_state(&other, "alive");
    set_state(&third, "alive");
    snapshot->leader = other;
    look(alarms, 1);
    report(alarms, 10, "loss=9");
    report(alarms, 11, "loss=1");
    look(alarms, 61); /* Now it is over. */
    look(alarms, 600);
    snapshot->leader = self;
    look(alarms, 1);
    for (uint32_t i = 0; i < count; i++) cr_assert_neq(sent[i].kind, GW_ALARM_LOSS);
    gw_alarms_close(alarms);
}

Test(alarm, a_job_that_stands_still_is_told) {
    gw_alarms *alarms = open_alarms("progress=60s", 0);
    for (int i = 0; i < 100; i++) {
        snapshot->step++;
        look(alarms, 10);
    }
    cr_assert_eq(count, 0);
    for (int i = 0; i < 100; i++) look(alarms, 10);
    cr_assert_eq(count, 1);
    expect(0, GW_ALARM_NO_PROGRESS, false);
    cr_assert_not_null(strstr(sent[0].text, "waiting for godot"));
    snapshot->step++;
    look(alarms, 1);
    cr_assert_eq(count, 2);
    expect(1, GW_ALARM_NO_PROGRESS, true);
    gw_alarms_close(alarms);
    count = 0;
    alarms = open_alarms("progress=off", 0);
    for (int i = 0; i < 100; i++) look(alarms, 1000);
    cr_assert_eq(count, 0);
    gw_alarms_close(alarms);
}

Test(alarm, a_lack_of_checkpoints_is_told) {
    gw_alarms *alarms = open_alarms("checkpoint=10m,progress=off", 0);
    snapshot->checkpoint_age_s = 599;
    look(alarms, 1);
    cr_assert_eq(count, 0);
    snapshot->checkpoint_age_s = 601;
    for (int i = 0; i < 5; i++) look(alarms, 1);
    cr_assert_eq(count, 1);
    expect(0, GW_ALARM_NO_CHECKPOINT, false);
    snapshot->checkpoint_step = 10;
    snapshot->checkpoint_age_s = 1;
    look(alarms, 1);
    cr_assert_eq(count, 2);
    expect(1, GW_ALARM_NO_CHECKPOINT, true);
    gw_alarms_close(alarms);
    count = 0;
    alarms = open_alarms("progress=off", 30 * SECOND); /* auto: three intervals, an hour at least */
    snapshot->checkpoint_step = 5;
    snapshot->checkpoint_age_s = 3599;
    look(alarms, 1);
    cr_assert_eq(count, 0);
    snapshot->checkpoint_age_s = 3601;
    look(alarms, 1);
    cr_assert_eq(count, 1);
    gw_alarms_close(alarms);
}

Test(alarm, each_peer_tells_of_its_own_disk) {
    gw_alarms *alarms = open_alarms("disk=10%", 0);
    snapshot->leader = other;
    snapshot->disk_free_bytes = 101;
    look(alarms, 1);
    cr_assert_eq(count, 0);
    snapshot->disk_free_bytes = 99;
    look(alarms, 1);
    snapshot->disk_free_bytes = 110; /* not enough to be over */
    look(alarms, 1);
    snapshot->disk_free_bytes = 99;
    look(alarms, 1);
    cr_assert_eq(count, 1);
    expect(0, GW_ALARM_DISK, false);
    snapshot->disk_free_bytes = 200;
    look(alarms, 1);
    cr_assert_eq(count, 2);
    expect(1, GW_ALARM_DISK, true);
    gw_alarms_close(alarms);
}

Test(alarm, reports_are_watched) {
    gw_alarms *alarms = open_alarms("loss>8,loss>3x,acc>-1", 0);
    look(alarms, 1);
    for (uint64_t step = 1; step <= 50; step++) report(alarms, step, "loss=2 acc=-2 note=x");
    cr_assert_eq(count, 0);
    report(alarms, 51, "loss=7"); /* a spike */
    cr_assert_eq(count, 1);
    report(alarms, 52, "loss=9"); /* Now the value is above the bound as well. */
    cr_assert_eq(count, 2);
    report(alarms, 53, "loss=2");
    cr_assert_eq(count, 2, "a minute has to pass");
    look(alarms, 61);
    cr_assert_eq(count, 4);
    expect(2, GW_ALARM_LOSS, true);
    expect(3, GW_ALARM_LOSS, true);
    report(alarms, 54, "loss=nan acc=-2");
    report(alarms, 55, "loss=inf");
    cr_assert_eq(count, 5);
    expect(4, GW_ALARM_NOT_FINITE, false);
    report(alarms, 56, "loss=2");
    look(alarms, 61);
    expect(5, GW_ALARM_NOT_FINITE, true);
    look(alarms, 600);
    report(alarms, 60, "loss=9");
    cr_assert_str_neq(sent[1].key, sent[count - 1].key, "another spike is another alarm");
    gw_alarms_close(alarms);
}

Test(alarm, a_report_that_flaps_is_one_alarm) {
    gw_alarms *alarms = open_alarms("loss>3,progress=off", 0);
    look(alarms, 1);
    for (uint64_t step = 1; step <= 1000; step++) { /* over 100 s */
        now += SECOND / 10;
        report(alarms, step, step % 2 ? "loss=5000000" : "loss=1");
    }
    cr_assert_eq(count, 1, "%u were sent", count);
    cr_assert_not_null(strstr(sent[0].text, "loss is 5000000 in step 1,"), "%s", sent[0].text);
    report(alarms, 1001, "loss=1");
    look(alarms, 59);
    cr_assert_eq(count, 1);
    look(alarms, 2);
    cr_assert_eq(count, 2);
    expect(1, GW_ALARM_LOSS, true);
    look(alarms, 590); /* It is not raised again within ten minutes after that. */
    report(alarms, 1002, "loss=9");
    cr_assert_eq(count, 2);
    look(alarms, 20);
    report(alarms, 1003, "loss=9");
    cr_assert_eq(count, 3);
    expect(2, GW_ALARM_LOSS, false);
    gw_alarms_close(alarms);
}

Test(alarm, the_beginning_is_the_time_of_the_step) {
    gw_alarms *alarms = open_alarms("loss>3", 0);
    look(alarms, 1);
    gw_alarms_step(alarms, 11, "loss=9", 77.5, now);
    cr_assert_eq(count, 1);
    cr_assert_eq(sent[0].since, 77.5);
    gw_alarms_close(alarms);
}

Test(alarm, a_lost_peer_whose_next_life_takes_no_part_is_not_back) {
    gw_alarms *alarms = open_alarms(NULL, 0);
    look(alarms, 1);
    set_state(&other, "dead");
    look(alarms, 1);
    cr_assert_eq(count, 1);
    snapshot->epoch = 5;
    snapshot->peers[1].member = false;
    snapshot->peers[1].boot = 2; /* it is started again, and refused */
    set_state(&other, "alive");
    look(alarms, 1);
    cr_assert_eq(count, 1);
    set_state(&other, "dead");
    snapshot->peers[1].in_vain = true;
    for (int i = 0; i < 5; i++) look(alarms, 1);
    cr_assert_eq(count, 2);
    expect(1, GW_ALARM_PEER_LOST, false);
    cr_assert_str_eq(sent[1].key, sent[0].key);
    cr_assert_not_null(strstr(sent[1].text, "not back"), "%s", sent[1].text);
    snapshot->peers[1].boot = 3; /* The third life takes part. */
    snapshot->peers[1].in_vain = false;
    snapshot->peers[1].member = true;
    snapshot->epoch = 6;
    set_state(&other, "alive");
    look(alarms, 1);
    cr_assert_eq(count, 3);
    expect(2, GW_ALARM_PEER_LOST, true);
    cr_assert_not_null(strstr(sent[2].text, "is back"));
    gw_alarms_close(alarms);
}

Test(alarm, the_end_is_told_by_the_leader_and_a_failure_by_each) {
    gw_alarms *alarms = open_alarms(NULL, 0);
    look(alarms, 1);
    gw_alarms_end(alarms, "left", 10, NULL);
    cr_assert_eq(count, 0);
    gw_alarms_end(alarms, "done", 10, "loss=1");
    expect(0, GW_ALARM_DONE, false);
    snapshot->leader = other;
    look(alarms, 1);
    gw_alarms_end(alarms, "stopped", 10, NULL);
    cr_assert_eq(count, 1);
    gw_alarms_end(alarms, "failed", 10, "shard 3 crashes");
    cr_assert_eq(count, 2);
    expect(1, GW_ALARM_FAILED, false);
    cr_assert_not_null(strstr(sent[1].text, "shard 3 crashes"));
    gw_alarms_close(alarms);
}

Test(alarm, a_storm_of_conditions_is_bounded) {
    gw_alarms *alarms = open_alarms(NULL, 0);
    look(alarms, 1);
    for (uint64_t step = 0; step < 3 * GW_ALARMS_ON; step++) {
        count = 0;
        gw_alarms_corrupt(alarms, step, "other bits");
        cr_assert_eq(count, 1);
        look(alarms, 1);
    }
    gw_alarms_close(alarms);
}

Test(alarm, rules_are_parsed) {
    static const char *const good[] = {"progress=10m",    "progress=off,checkpoint=off,disk=off",
                                       "checkpoint=auto", "disk=0.5%",
                                       "loss>8",          "val_loss>1.5x,loss>-3",
                                       "progress=2d"};
    static const char *const bad[] = {"",
                                      "progress",
                                      "progress=",
                                      "progress=10",
                                      "progress=-1m",
                                      "disk=5",
                                      "disk=200%",
                                      "disk=0%",
                                      "loss>",
                                      ">5",
                                      "loss>1x",
                                      "loss>nan",
                                      "loss>3y",
                                      "speed=3",
                                      "progress=10m,",
                                      "loss>1e999",
                                      "progress=0.1s",
                                      "a_key_that_is_much_longer_than_a_key_may_be_in_a_report>5"};
    gw_err err;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        gw_alarm_rules rules = gw_alarm_rules_default();
        cr_assert(gw_alarm_rules_parse(good[i], &rules, &err), "%s: %s", good[i], err.text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gw_alarm_rules rules = gw_alarm_rules_default();
        cr_assert_not(gw_alarm_rules_parse(bad[i], &rules, &err), "%s", bad[i]);
        cr_assert_eq(err.code, GW_E_USAGE);
        cr_assert(rules.progress_ns == gw_alarm_rules_default().progress_ns && rules.loss_count == 0);
    }
    gw_alarm_rules rules = gw_alarm_rules_default();
    cr_assert(gw_alarm_rules_parse("a>1,b>1,c>1,d>1,e>1,f>1,g>1,h>1", &rules, &err));
    cr_assert_not(gw_alarm_rules_parse("i>1", &rules, &err));
}
