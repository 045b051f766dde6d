/* Each rule of `godwit why` finds what it is for in journals that are made for it, and nothing where all is well. */
#include "made.h"
#include "tools/godwit/why/tell.h"

#include <stdlib.h>

TestSuite(why, .init = scratch_open, .fini = scratch_close);

static gw_why_record record;
static gw_findings findings;

/* Applies one rule, or all where it is NULL, to the journals of nodes 1 to `nodes`. */
static void look(int nodes, gw_why_rule *rule) {
    setenv("TZ", "UTC", 1);
    made_read(nodes, &record);
    if (rule != NULL)
        rule(&record, &findings);
    else
        gw_why_find(&record, &findings);
}

static void done(void) {
    gw_findings_free(&findings);
    gw_why_free(&record);
}

static bool concerns(const gw_finding *finding, int node) {
    for (int i = 0; i < record.peer_count; i++)
        if (strcmp(record.peers[i].id, made_id(node)) == 0) return gw_why_set_has(&finding->peers, i);
    return false;
}

static const gw_finding *find(const char *kind) {
    for (size_t i = 0; i < findings.count; i++)
        if (strcmp(findings.list[i].kind, kind) == 0) return &findings.list[i];
    return NULL;
}

/* The only finding is of this kind, about this node (0: none), and has these words. */
static const gw_finding *expect_one(const char *kind, int node, const char *words) {
    cr_assert_eq(findings.count, 1, "%zu findings, the first: %s", findings.count,
                 findings.count > 0 ? findings.list[0].text : "none");
    const gw_finding *one = &findings.list[0];
    cr_expect_str_eq(one->kind, kind);
    if (node > 0) cr_expect(concerns(one, node), "%s", one->text);
    cr_expect_not_null(strstr(one->text, words), "%s", one->text);
    return one;
}

static void expect_nothing(void) {
    cr_expect_eq(findings.count, 0, "%s: %s", findings.count > 0 ? findings.list[0].kind : "",
                 findings.count > 0 ? findings.list[0].text : "");
}

/* A flock of three, of which node 3 ends at 100 s and is started again at 104 s. */
static void made_death(const char *end, const char *text) {
    made_flock(3);
    made_progress(3, 60, 10, 1e8, 1e10);
    made_news(1, 100.2, 3, "dead", "refused");
    made_news(2, 100.3, 3, "dead", "refused");
    for (int node = 1; node <= 2; node++) {
        made_event(node, 100.6, "view",
                   "\"number\":4,\"leader\":\"%s\",\"members\":[\"a\",\"b\"],\"cause\":\"peer 3 died\","
                   "\"took_ms\":350,\"step\":90",
                   made_id(1));
        made_event(node, 100.6, "repair", "\"step\":90,\"shards\":12,\"cause\":\"peer 3 died\"");
        made_event(node, 101.5, "recovered", "\"step\":91,\"views\":1,\"gap_ms\":1900,\"usual_ms\":500");
    }
    made_life(3, 104, end, text);
    made_news(1, 104.5, 3, "alive", "");
    made_news(2, 104.5, 3, "alive", "");
    for (int node = 1; node <= 3; node++) made_progress(node, 120, 10, 1e8, 1e10);
}

Test(why, nothing_is_found_where_all_is_well) {
    made_flock(3);
    for (int node = 1; node <= 3; node++) {
        for (int minute = 1; minute < 200; minute++) {
            made_progress(node, 60 * minute, 10, 1e8, 1e10);
            made_event(node, 60 * minute + 1, "checkpoint", "\"step\":%d,\"bytes\":1000,\"took_ms\":20",
                       minute);
        }
        made_event(node, 12001, "done", "\"outcome\":\"done\",\"steps\":200,\"seconds\":12000.0");
    }
    look(3, NULL);
    expect_nothing();
    done();
}

Test(why, a_death_is_told_by_what_both_sides_say) {
    made_death("memory", "was killed for lack of memory");
    look(3, gw_why_deaths);
    const gw_finding *one = expect_one("death", 3, "node3 was killed for lack of memory");
    cr_expect_not_null(strstr(one->text, "started again after 3.8 s"), "%s", one->text);
    cr_expect_not_null(strstr(one->evidence, "node1 and node2: its host refuses connections"), "%s",
                       one->evidence);
    cr_expect_not_null(strstr(one->advice, "memory"), "%s", one->advice);
    cr_expect_eq(one->shards, 12);
    cr_expect_float_eq(one->lost_s, 1.4, 1e-6);
    cr_expect_float_eq(one->view_s, 0.35, 1e-6);
    cr_expect_float_eq(one->from, MADE_START + 100.2, 1e-3);
    done();
}

Test(why, a_process_that_ends_itself_says_why) {
    made_flock(2);
    made_event(2, 50, "done", "\"outcome\":\"failed\",\"text\":\"the disk is gone\",\"steps\":40");
    made_news(1, 50.1, 2, "left", "gave-up");
    made_progress(1, 120, 10, 1e8, 1e10);
    look(2, gw_why_deaths);
    const gw_finding *one = expect_one("death", 2, "ended itself (failed): the disk is gone");
    cr_expect_not_null(strstr(one->text, "has not been started again"), "%s", one->text);
    done();
}

Test(why, an_end_that_was_asked_for_is_no_death) {
    made_flock(2);
    made_event(2, 50, "done", "\"outcome\":\"left\",\"text\":\"left at step 40\",\"steps\":40");
    made_news(1, 50.1, 2, "left", "left");
    made_life(2, 70, "ended", "");
    made_progress(1, 120, 10, 1e8, 1e10);
    look(2, NULL);
    expect_nothing();
    done();
}

Test(why, a_crash_is_told_though_nobody_started_it_again) {
    made_flock(2);
    made_event(2, 50, "crash", "\"signal\":11");
    made_news(1, 50.1, 2, "dead", "refused");
    look(2, gw_why_deaths);
    expect_one("death", 2, "crashed with signal 11");
    done();
}

Test(why, all_peers_that_end_at_once_are_one_event) {
    made_flock(3);
    for (int node = 1; node <= 3; node++) made_progress(node, 60, 10, 1e8, 1e10);
    for (int node = 1; node <= 3; node++) made_life(node, 300 + node, "machine", "ended with its machine");
    look(3, gw_why_deaths);
    const gw_finding *one = expect_one("all-ended", 2, "went down with their machines");
    cr_expect(concerns(one, 1) && concerns(one, 3));
    done();
}

Test(why, of_a_peer_without_a_journal_the_others_tell) {
    made_flock(3);
    made_news(1, 100.2, 3, "dead", "refused");
    made_news(2, 100.3, 3, "dead", "refused");
    made_news(1, 103, 3, "alive", "");
    look(2, gw_why_deaths);
    const gw_finding *one =
        expect_one("death", 3, "node3 ended: its process is gone. It was back after 2.8 s");
    cr_expect_not_null(strstr(one->advice, "Give its directory"));
    done();
}

Test(why, peers_that_lived_were_cut_off) {
    made_flock(3);
    for (int second = 0; second < 100; second++)
        for (int node = 1; node <= 3; node++) made_event(node, 10 + second, "log", "\"text\":\"x\"");
    made_news(1, 110, 3, "unreachable", "silent");
    made_news(2, 110.2, 3, "unreachable", "silent");
    made_news(3, 110.1, 1, "unreachable", "silent");
    made_news(3, 110.1, 2, "unreachable", "silent");
    for (int node = 1; node <= 2; node++) made_news(node, 114, 3, "alive", "");
    made_news(3, 114, 1, "alive", "");
    made_news(3, 114, 2, "alive", "");
    for (int node = 1; node <= 3; node++) made_progress(node, 120, 10, 1e8, 1e10);
    look(3, NULL);
    const gw_finding *one =
        expect_one("cut", 3, "node3 and node1 and node2 did not reach each other for 4.0 s");
    cr_expect_not_null(strstr(one->evidence, "the network between"));
    done();
}

Test(why, who_was_stopped_was_not_cut_off) {
    made_flock(2);
    made_progress(1, 60, 10, 1e8, 1e10);
    made_news(1, 110, 2, "unreachable", "silent");
    made_event(2, 115, "pause", "\"ms\":6000,\"over_ms\":6100");
    made_news(2, 115.1, 1, "unreachable", "silent");
    made_news(1, 115.2, 2, "alive", "");
    made_news(2, 115.3, 1, "alive", "");
    for (int node = 1; node <= 2; node++) made_progress(node, 120, 10, 1e8, 1e10);
    look(2, NULL);
    const gw_finding *one = expect_one("stall", 2, "node2 stood still for 6.0 s");
    cr_expect_float_eq(one->from, MADE_START + 108.9, 1e-3);
    done();
}

Test(why, troubles_close_together_are_one) {
    made_flock(2);
    for (int i = 0; i < 5; i++) {
        made_event(1, 20 + i, "worker", "\"end\":\"killed\",\"step\":7,\"shard\":3,\"text\":\"by signal 9\"");
        made_event(2, 20 + i + (i % 2 == 0 ? 3600 : 0), "clock", "\"jump_s\":%d", i % 2 == 0 ? 3600 : -3600);
    }
    look(2, NULL);
    const gw_finding *worker = find("worker"), *clock = find("clock");
    cr_assert_eq(findings.count, 2);
    cr_assert(worker != NULL && clock != NULL);
    cr_expect_not_null(strstr(worker->text, "5 times (killed), first at shard 3 of step 7: by signal 9"),
                       "%s", worker->text);
    cr_expect_not_null(strstr(clock->text, "set forward by 1 h"), "%s", clock->text);
    done();
}

Test(why, a_worker_that_ends_at_an_update_is_told_by_the_log) {
    made_flock(1);
    made_event(
        1, 20, "warning",
        "\"room\":\"kernels\",\"text\":\"part 0 of the update of step 21: worker 1 (process 7) has ended: "
        "signal 9 (Killed); it is computed again\"");
    look(1, gw_why_workers);
    const gw_finding *one = expect_one("worker", 1, "ended once, first at an update: part 0");
    cr_expect_not_null(strstr(one->advice, "Ask who kills"), "%s", one->advice);
    done();
}

/* News that come late name the life that they are of. */
Test(why, news_of_a_life_are_of_that_life) {
    made_flock(2);
    made_event(2, 3, "start", "\"peer\":\"%s\",\"boot\":4", made_id(2));
    made_progress(2, 100, 10, 1e8, 1e10);
    made_event(1, 107, "peer", "\"peer\":\"%s\",\"state\":\"unreachable\",\"evidence\":\"silent\",\"boot\":5",
               made_id(2));
    made_life(2, 105, "killed", "was killed");
    made_event(2, 105.2, "start", "\"peer\":\"%s\",\"boot\":5", made_id(2));
    made_event(1, 109, "peer", "\"peer\":\"%s\",\"state\":\"alive\",\"boot\":5", made_id(2));
    for (int node = 1; node <= 2; node++) made_progress(node, 160, 10, 1e8, 1e10);
    look(2, gw_why_deaths);
    const gw_finding *one = expect_one("death", 2, "was killed");
    cr_expect_str_eq(one->evidence, "No other peer has seen it end.");
    done();
}

Test(why, a_clock_that_is_set_moves_no_event) {
    made_flock(1);
    made_event(1, 3620, "clock", "\"jump_s\":3600.0");
    made_event(1, 3630, "pause", "\"ms\":2000,\"over_ms\":2000");
    made_life(1, 45, "killed", "was killed"); /* the clock is right again */
    look(1, NULL);
    const gw_finding *stall = find("stall"), *clock = find("clock");
    cr_assert(stall != NULL && clock != NULL);
    cr_expect_float_eq(clock->from, MADE_START + 20, 1e-3);
    cr_expect_float_eq(stall->to, MADE_START + 30, 1e-3);
    cr_expect_float_eq(record.lives[1].began, MADE_START + 45, 1e-3);
    done();
}

Test(why, single_troubles_have_their_kinds) {
    made_flock(2);
    made_event(1, 10, "slow", "\"peer\":\"%s\",\"slow\":true,\"speed\":2.5,\"usual\":10.0", made_id(2));
    made_event(1, 50, "slow", "\"peer\":\"%s\",\"slow\":false,\"speed\":9.0,\"usual\":10.0", made_id(2));
    made_event(1, 200, "corruption", "\"step\":5,\"peer\":\"%s\",\"evidence\":\"its sum differs\"",
               made_id(2));
    made_event(1, 400, "disk", "\"failing\":true");
    made_event(1, 401, "warning",
               "\"room\":\"checkpoint\",\"text\":\"cannot write x: No space left on device\"");
    made_event(1, 420, "disk", "\"failing\":false,\"failed_ms\":20000");
    made_event(1, 600, "error", "\"room\":\"node/gpu\",\"text\":\"GPU 0 (H200) is hot: 91 C\"");
    made_event(1, 800, "warning", "\"room\":\"net\",\"text\":\"cannot open: Too many open files\"");
    made_event(1, 1000, "probes", "\"probes\":100,\"failed\":40,\"seconds\":10.0");
    look(2, NULL);
    static const struct {
        const char *kind, *words;
    } expected[] = {{"slow", "2.5 shards a second instead of the usual 10, for 40 s"},
                    {"corruption", "node2 had wrong bits (told once): its sum differs"},
                    {"disk", "The disk of node1 was full for 20 s: cannot write x"},
                    {"device", "A device of node1 was in trouble (told once): GPU 0 (H200) is hot"},
                    {"limit", "node1 could not get more file descriptors"},
                    {"network", "node1 got no answer in time to 40 of 100 probes in 10 s"}};
    cr_assert_eq(findings.count, sizeof expected / sizeof *expected, "%zu", findings.count);
    for (size_t i = 0; i < findings.count; i++) {
        cr_expect_str_eq(findings.list[i].kind, expected[i].kind);
        cr_expect_not_null(strstr(findings.list[i].text, expected[i].words), "%s", findings.list[i].text);
        cr_expect(findings.list[i].advice[0] != '\0');
    }
    done();
}

Test(why, a_view_that_nothing_explains_is_told_once) {
    made_flock(3);
    for (int node = 1; node <= 3; node++)
        made_event(
            node, 100 + node * 0.1, "view",
            "\"number\":9,\"leader\":\"%s\",\"members\":[\"a\",\"b\",\"c\"],\"cause\":\"the sum failed\","
            "\"took_ms\":400,\"step\":90",
            made_id(1));
    made_event(1, 300, "view",
               "\"number\":10,\"leader\":\"%s\",\"members\":[],\"cause\":\"a peer joins\",\"took_ms\":3",
               made_id(1));
    look(3, gw_why_views);
    expect_one("view", 0, "to 3 peers, which took 0.4 s: the sum failed");
    done();
}

Test(why, a_pause_is_charged_to_one_finding) {
    made_death("killed", "was killed");
    made_event(1, 100.4, "worker", "\"end\":\"crashed\",\"step\":7,\"shard\":3");
    look(3, NULL);
    double lost_s = 0;
    for (size_t i = 0; i < findings.count; i++) lost_s += findings.list[i].lost_s;
    cr_expect_float_eq(lost_s, 1.4, 1e-6, "%f", lost_s);
    done();
}

/* While one of three peers stands still for 20 s, the two others wait for a second and a half: that is the cost. */
Test(why, what_a_peer_says_of_itself_is_not_what_it_cost_the_flock) {
    made_flock(3);
    made_event(2, 120, "pause", "\"ms\":20000,\"over_ms\":20000");
    made_event(1, 101.6, "recovered", "\"step\":91,\"views\":1,\"gap_ms\":1600,\"usual_ms\":100");
    made_event(2, 120.3, "recovered", "\"step\":191,\"views\":1,\"gap_ms\":20300,\"usual_ms\":100");
    look(3, NULL);
    cr_expect_float_eq(expect_one("stall", 2, "20 s")->lost_s, 1.5, 1e-6);
    done();
    look(3, gw_why_stalls);
    done();
    const char *own[] = {made_dir(2)};
    gw_err err;
    cr_assert(gw_why_read(own, 1, NULL, &record, &err), "%s", err.text);
    gw_why_stalls(&record, &findings);
    cr_expect_float_eq(expect_one("stall", 2, "20 s")->lost_s, 20.2, 1e-6, "nobody else tells");
    done();
}

/* A start with another command, which the directory or the other peers turn away. */
static void made_turned_away(int node, double at, const char *outcome) {
    made_life(node, at, "ended", "");
    made_event(node, at + 0.3, "done", "\"outcome\":\"%s\",\"text\":\"it runs another job\"", outcome);
}

Test(why, starts_that_were_turned_away_are_one_event_and_no_deaths) {
    made_flock(4);
    for (int i = 0; i < 3; i++) made_turned_away(2, 100 + 15 * i, "refused");
    made_turned_away(3, 145, "denied");
    made_news(1, 145.4, 3, "left", "gave-up");
    for (int i = 0; i < 2; i++) { /* the journal of node 4 is not here */
        made_news(1, 152 + 10 * i, 4, "alive", "");
        made_news(1, 152.1 + 10 * i, 4, "left", "gave-up");
    }
    made_turned_away(3, 900, "refused");
    made_progress(1, 1000, 10, 1e8, 1e10);
    look(3, NULL);
    cr_assert_eq(findings.count, 3, "%zu, the last: %s", findings.count,
                 findings.list[findings.count - 1].text);
    const gw_finding *one = &findings.list[0];
    cr_expect_str_eq(one->kind, "refused");
    cr_expect(one->times == 4 && concerns(one, 2) && concerns(one, 3));
    cr_expect_not_null(strstr(one->text,
                              "Starts of node2 and node3 were turned away 4 times within 45 s. The last "
                              "one: it runs another job."),
                       "%s", one->text);
    one = &findings.list[1];
    cr_expect_str_eq(one->kind, "refused");
    cr_expect(one->times == 2 && concerns(one, 4));
    cr_expect_not_null(strstr(one->text, "node4 came and left again at once"), "%s", one->text);
    cr_expect_not_null(strstr(one->text, "It did so twice."), "%s", one->text);
    one = &findings.list[2];
    cr_expect_not_null(strstr(one->text, "A start of node3 was turned away: it runs another job."), "%s",
                       one->text);
    gw_why_sums sums;
    gw_why_sum(&record, &findings, &sums);
    cr_expect(sums.refused == 7 && sums.deaths == 0);
    done();
}

/* A peer that computed, and was turned away by a majority later on, is one that the flock has lost. */
Test(why, who_took_part_and_was_denied_is_lost) {
    made_flock(2);
    made_event(2, 10, "view", "\"number\":1,\"leader\":\"%s\",\"members\":[\"%s\",\"%s\"],\"step\":0",
               made_id(1), made_id(1), made_id(2));
    made_event(2, 50, "done", "\"outcome\":\"denied\",\"text\":\"it has other bits\"");
    look(2, NULL);
    expect_one("death", 2, "ended itself (denied): it has other bits");
    done();
}

Test(why, the_sums_count_what_went_wrong) {
    made_death("killed", "was killed");
    made_event(2, 500, "pause", "\"ms\":2000,\"over_ms\":2000");
    made_event(2, 520, "pause", "\"ms\":2000,\"over_ms\":2000");
    made_event(1, 900, "worker", "\"end\":\"crashed\",\"step\":7,\"shard\":3");
    made_event(1, 1200, "corruption", "\"step\":5,\"peer\":\"%s\",\"evidence\":\"x\"", made_id(2));
    made_turned_away(2, 1500, "refused");
    look(3, NULL);
    gw_why_sums sums;
    gw_why_sum(&record, &findings, &sums);
    char *text = gw_why_counts(&sums);
    cr_expect_str_eq(
        text, "In all: 1 death, 2 stalls, 1 corruption, 1 worker fault; no loss of contact, disk fault or "
              "device fault. 1 start was turned away.");
    free(text);
    json_t *object = gw_why_json(&record, &findings);
    cr_expect_eq(json_integer_value(json_object_get(object, "stalls")), 2);
    cr_expect_eq(json_integer_value(json_object_get(object, "starts_turned_away")), 1);
    json_decref(object);
    gw_why_sums none = {0};
    text = gw_why_counts(&none);
    cr_expect_str_eq(
        text, "In all: no death, stall, loss of contact, corruption, disk fault, device fault or worker "
              "fault.");
    free(text);
    done();
}

/* Patterns. */

Test(why, one_host_in_most_failures_is_suspicious) {
    made_flock(4);
    for (int i = 0; i < 4; i++) made_event(3, 1000 * i + 100, "pause", "\"ms\":2000,\"over_ms\":2000");
    made_event(2, 5000, "pause", "\"ms\":2000,\"over_ms\":2000");
    look(4, NULL);
    const gw_finding *host = find("host");
    cr_assert_not_null(host);
    cr_expect_not_null(strstr(host->text, "4 of 5 failures were at node3 (10.0.0.3), one of 4 hosts"), "%s",
                       host->text);
    done();
}

Test(why, three_failures_are_no_pattern) {
    made_flock(4);
    for (int i = 0; i < 3; i++) made_event(3, 1000 * i + 100, "pause", "\"ms\":2000,\"over_ms\":2000");
    look(4, NULL);
    cr_expect_null(find("host"));
    done();
}

Test(why, failures_all_over_are_no_hosts) {
    made_flock(4);
    for (int node = 1; node <= 4; node++)
        for (int i = 0; i < 3; i++)
            made_event(node, 1000 * i + 100 * node, "pause", "\"ms\":2000,\"over_ms\":2000");
    look(4, NULL);
    cr_expect_null(find("host"));
    done();
}

Test(why, restarts_in_a_row_are_a_loop) {
    made_flock(1);
    for (int i = 1; i <= 5; i++) made_life(1, 1000 + 20 * i, "gave-up", "ended itself: no room");
    look(1, gw_why_loops);
    expect_one("restarts", 1, "node1 was started 5 times within 1 min 20 s");
    done();
}

Test(why, starts_that_were_turned_away_in_a_row_are_told_once) {
    made_flock(1);
    for (int i = 1; i <= 5; i++) made_turned_away(1, 1000 + 10 * i, "refused");
    made_life(1, 1070, "ended", "");
    look(1, NULL);
    expect_one("refused", 1, "5 times");
    done();
}

Test(why, patterns_are_told_however_much_has_happened) {
    made_flock(2);
    for (int i = 0; i < 6000; i++) {
        made_news(1, 100 + 30 * i, 2, "dead", "refused");
        made_news(1, 110 + 30 * i, 2, "alive", "");
    }
    for (int i = 0; i < 15000; i++) made_event(1, 200000 + 100 * i, "pause", "\"ms\":2000,\"over_ms\":2000");
    for (int i = 1; i <= 5; i++) made_life(1, 2000000 + 20 * i, "gave-up", "ended itself: no room");
    look(1, NULL);
    cr_expect_not_null(find("restarts"), "%zu findings", findings.count);
    done();
}

Test(why, rare_restarts_are_no_loop) {
    made_flock(1);
    for (int i = 1; i <= 5; i++) made_life(1, 4000 * i, "killed", "was killed");
    look(1, gw_why_loops);
    expect_nothing();
    done();
}

/* Four days, a line every ten minutes; `slow_from`: an hour from which on the speed is halved for three hours. */
static void made_days(int slow_from) {
    made_flock(1);
    for (int i = 1; i < 4 * 144; i++) {
        double at = 600.0 * i;
        int hour = (int)(MADE_START + at) / 3600 % 24;
        bool slow = slow_from >= 0 && hour >= slow_from && hour < slow_from + 3;
        made_progress(1, at, slow ? 5 : 10 + i % 3, 1e8, 1e12);
    }
}

Test(why, a_peer_that_slows_down_each_night_is_told_with_the_hours) {
    made_days(2);
    look(1, gw_why_hours);
    expect_one("hours", 1, "slows down each day from 02:00 to 05:00, to 45 %");
    done();
}

Test(why, an_even_peer_has_no_slow_hours) {
    made_days(-1);
    look(1, gw_why_hours);
    expect_nothing();
    done();
}

/* Ten hours, a line a minute. */
static void made_hours(double room_an_hour, double memory_an_hour) {
    made_flock(1);
    for (int minute = 1; minute < 600; minute++)
        made_progress(1, 60 * minute, 10, 1e9 + memory_an_hour * minute / 60 + minute % 7 * 1e5,
                      2e10 - room_an_hour * minute / 60 + minute % 7 * 1e6);
}

Test(why, a_disk_that_fills_is_told_with_the_day) {
    made_hours(2e8, 0);
    look(1, gw_why_filling);
    const gw_finding *one = expect_one("disk-fills", 1, "fills by 4.8 GB a day");
    /* 18 GB are left, for 90 hours from 2026-11-30 10:52 UTC on. */
    cr_expect_not_null(strstr(one->text, "Fri 04 Dec"), "%s", one->text);
    done();
}

Test(why, a_disk_that_fills_in_a_year_or_goes_up_and_down_is_none) {
    made_hours(1e6, 0);
    look(1, gw_why_filling);
    expect_nothing();
    done();
}

Test(why, memory_that_grows_steadily_is_told) {
    made_hours(0, 1e8);
    look(1, gw_why_memory);
    expect_one("memory-grows", 1, "by 95.4 MiB an hour");
    done();
}

Test(why, memory_that_stays_is_not) {
    made_hours(0, 1e4);
    look(1, gw_why_memory);
    expect_nothing();
    done();
}

static void made_checkpoints(double ms_more, double bytes_more) {
    made_flock(1);
    for (int i = 1; i <= 20; i++)
        made_event(1, 60 * i, "checkpoint", "\"step\":%d,\"bytes\":%.0f,\"took_ms\":%f", i,
                   1e6 + bytes_more * i, 500 + ms_more * i);
}

Test(why, checkpoints_that_take_longer_and_longer_are_told) {
    made_checkpoints(300, 0);
    look(1, gw_why_saving);
    expect_one("checkpoints-slow", 1, "1.4 s at first, 5.9 s at last");
    done();
}

Test(why, larger_checkpoints_may_take_longer) {
    made_checkpoints(300, 1e6);
    look(1, gw_why_saving);
    expect_nothing();
    done();
}

Test(why, steps_without_checkpoints_are_told) {
    made_checkpoints(0, 0);
    for (int minute = 21; minute < 60; minute++) made_progress(1, 60 * minute, 10, 1e8, 1e10);
    look(1, gw_why_unsaved);
    expect_one("no-checkpoint", 0, "for 39 min no checkpoint");
    done();
}

Test(why, a_run_that_has_ended_lacks_no_checkpoint) {
    made_checkpoints(0, 0);
    for (int minute = 21; minute < 60; minute++) made_progress(1, 60 * minute, 10, 1e8, 1e10);
    made_event(1, 3600, "done", "\"outcome\":\"done\",\"steps\":9");
    look(1, gw_why_unsaved);
    expect_nothing();
    done();
}

Test(why, a_peer_that_loses_many_shards_is_told) {
    made_flock(2);
    for (int i = 1; i < 10; i++)
        made_event(2, 60 * i, "progress",
                   "\"step\":%d,\"made\":60,\"computed\":500,\"stolen\":0,\"lost\":400", i);
    look(2, gw_why_uneven);
    expect_one("stolen-from", 2, "Others took 44 % of the shards");
    done();
}

Test(why, a_journal_with_damage_is_told) {
    char path[4200];
    made_flock(1);
    snprintf(path, sizeof path, "%s/journal.jsonl", made_dir(1));
    FILE *file = fopen(path, "a");
    cr_assert_not_null(file);
    for (int i = 0; i < 7; i++) fputs("{\"event\":\n", file);
    fclose(file);
    made_event(1, 50, "left-out", "\"lines\":31");
    look(1, gw_why_journals);
    expect_one("journal", 1, "has 7 damaged lines and lacks 31");
    done();
}

Test(why, what_the_log_says_often_is_told_with_its_number) {
    made_flock(1);
    for (int i = 0; i < 30; i++) {
        made_event(1, 50 + i, "warning",
                   "\"room\":\"net\",\"text\":\"peer 1138b3%02x at 10.0.0.%d: strange\"", i, i);
        if (i < 5) made_event(1, 50 + i, "warning", "\"room\":\"net\",\"text\":\"something rare\"");
    }
    look(1, gw_why_log);
    expect_one("log", 1, "The log says 30 times");
    done();
}

/* Output. */

Test(why, what_is_printed_fits_a_terminal_and_says_what_to_do) {
    made_death("killed", "was killed");
    look(3, NULL);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    gw_why_print(&record, &findings, 0, out);
    fclose(out);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        cr_expect_leq(strcspn(line, "\n"), 79u, "%s", line);
    cr_expect_not_null(strstr(text, "\n00:55:"), "%s", text);
    cr_expect_not_null(
        strstr(text, "\n          Cost: 1.4 s without steps, 0.4 s to change the view, 12 shards"), "%s",
        text);
    cr_expect_not_null(strstr(text, "\n          To do: "), "%s", text);
    free(text);
    done();
}

Test(why, what_was_over_before_is_left_out) {
    made_flock(1);
    made_event(1, 100, "pause", "\"ms\":2000,\"over_ms\":2000");
    made_event(1, 9000, "pause", "\"ms\":3000,\"over_ms\":3000");
    look(1, NULL);
    gw_findings_since(&findings, MADE_START + 5000);
    expect_one("stall", 1, "3.0 s");
    done();
}

Test(why, journals_of_different_jobs_are_refused) {
    gw_err err;
    made_flock(1);
    made_event(2, 1, "start", "\"job\":\"gpt\",\"job_id\":\"%064x\",\"peer\":\"%s\"", 0xb, made_id(2));
    const char *dirs[] = {made_dir(1), made_dir(2)};
    cr_assert_not(gw_why_read(dirs, 2, NULL, &record, &err));
    cr_expect_eq(err.code, GW_E_INVALID);
    cr_expect_not_null(strstr(err.text, "of different jobs"), "%s", err.text);
    gw_why_free(&record);
    mkdir(made_dir(3), 0700);
    const char *empty[] = {made_dir(3)};
    cr_assert_not(gw_why_read(empty, 1, NULL, &record, &err));
    cr_expect_eq(err.code, GW_E_NOTFOUND);
    gw_why_free(&record);
}

/* A node begins another job than the others of these tests. */
static void made_other_job(int node, double at, const char *last_end) {
    made_event(node, at, "life", "\"pid\":9,\"last_end\":\"%s\",\"last_text\":\"was killed\"", last_end);
    made_event(node, at + 0.1, "start",
               "\"job\":\"digits\",\"job_id\":\"%064x\",\"peer\":\"%s\",\"peer_name\":\"node%d\"", 0xb,
               made_id(node), node);
    made_event(node, at + 0.2, "view", "\"number\":1,\"leader\":\"%s\",\"members\":[],\"step\":0",
               made_id(1));
    made_event(node, at + 5, "checkpoint", "\"step\":7,\"bytes\":9,\"took_ms\":5");
}

/* --fresh has begun another job beside the one that was there. */
Test(why, a_directory_with_two_jobs_tells_of_the_last_one_or_of_the_one_that_is_chosen) {
    const char *dirs[] = {made_dir(1), made_dir(2)};
    char gpt[GW_WHY_JOB];
    gw_err err;
    made_flock(2);
    made_event(1, 30, "view", "\"number\":1,\"leader\":\"%s\",\"members\":[],\"step\":40", made_id(1));
    for (int node = 1; node <= 2; node++) made_progress(node, 60, 10, 1e8, 1e10);
    made_other_job(1, 5000, "ended");
    made_other_job(2, 5000, "killed");
    look(2, NULL);
    expect_nothing();
    cr_expect_str_eq(record.job.name, "digits");
    cr_expect(record.first == MADE_START + 5000 && record.first_step == 1 && record.last_step == 7);
    cr_assert_eq(record.other_count, 1);
    cr_expect_str_eq(record.others[0].name, "gpt");
    char *others = gw_why_others(&record);
    cr_expect_not_null(
        strstr(others, "A job that ran there as well is left out: gpt (--job 00000000, last started Mon "),
        "%s", others);
    free(others);
    done();
    snprintf(gpt, sizeof gpt, "%064x", MADE_JOB_ID);
    cr_assert(gw_why_read(dirs, 2, gpt, &record, &err), "%s", err.text);
    gw_why_find(&record, &findings);
    cr_expect_str_eq(record.job.name, "gpt");
    cr_expect(record.last < MADE_START + 100 && record.first_step == 41);
    expect_one("death", 2, "node2 was killed"); /* as the begin of the other job says */
    json_t *object = gw_why_json(&record, &findings);
    cr_expect_eq(json_integer_value(json_object_get(object, "first_step")), 41);
    json_decref(object);
    done();
    static const struct {
        const char *digits, *words;
    } wrong[] = {{"0", "more than one id of a job begins with 0"}, {"F", "no id of a job begins with F"}};
    for (int i = 0; i < 2; i++) {
        cr_assert_not(gw_why_read(dirs, 2, wrong[i].digits, &record, &err));
        cr_expect_eq(err.code, GW_E_USAGE);
        cr_expect(strstr(err.text, wrong[i].words) != NULL &&
                      strstr(err.text, "gpt 00000000, digits 00000000") != NULL,
                  "%s", err.text);
        gw_why_free(&record);
    }
}

/* A start that the directory or the other peers turned away names another job, and another name of the peer. */
Test(why, a_start_that_was_turned_away_does_not_say_which_job_it_is) {
    static const char *const outcomes[] = {"refused", "denied"};
    made_flock(2);
    for (int i = 0; i < 2; i++) {
        made_event(1, 100 + i, "life", "\"pid\":8,\"last_end\":\"ended\"");
        made_event(1, 100.1 + i, "start",
                   "\"job\":\"gpt\",\"job_id\":\"%064x\",\"peer\":\"%s\",\"peer_name\":\"vm\"", 0xb,
                   made_id(1));
        made_event(1, 100.2 + i, "done", "\"outcome\":\"%s\",\"text\":\"it runs another job\"", outcomes[i]);
    }
    char name[GW_WHY_CALLED];
    made_read(2, &record);
    cr_expect_str_eq(record.job.id + 56, "0000000a");
    cr_expect_str_eq(gw_why_called(&record, record.journals[0].peer, name), "node1");
    gw_why_free(&record);
    made_read(1, &record);
    cr_expect_str_eq(gw_why_called(&record, record.journals[0].peer, name), "node1");
    gw_why_free(&record);
}
