/* What disturbs a peer is noticed: standing still, a clock that is set, a slow peer, probes without answers. */
#include "tools/godwit/watch/losses.h"
#include "tools/godwit/watch/pace.h"
#include "tools/godwit/watch/pulse.h"

#include <criterion/criterion.h>

#define MS    UINT64_C(1000000)
#define EVERY (250 * MS)

/* Looks `count` times, each `late_ms` late, and returns how often there was news; the last is in *news. */
static int look_late(gw_pulse *pulse, uint64_t *now_ns, int count, uint64_t late_ms, gw_pulse_news *news) {
    gw_pulse_news one;
    int told = 0;
    for (int i = 0; i < count; i++) {
        *now_ns += EVERY + late_ms * MS;
        if (!gw_pulse_look(pulse, *now_ns, *now_ns + 1000 * MS, EVERY, &one)) continue;
        *news = one;
        told++;
    }
    return told;
}

Test(pulse, a_process_that_stands_still_is_noticed_once) {
    gw_pulse pulse = {0};
    gw_pulse_news news;
    uint64_t now_ns = 5000 * MS;
    cr_expect_eq(look_late(&pulse, &now_ns, 100, 10, &news), 0);
    cr_expect_eq(look_late(&pulse, &now_ns, 1, 4000, &news), 1);
    cr_expect_eq(news.pause_ns, 4000 * MS);
    cr_expect_geq(news.over_ns, 4250 * MS);
    cr_expect_eq(news.jump_ns, 0);
    cr_expect_eq(look_late(&pulse, &now_ns, 100, 10, &news), 0);
}

Test(pulse, many_short_stops_are_noticed_together) {
    gw_pulse pulse = {0};
    gw_pulse_news news;
    uint64_t now_ns = 5000 * MS;
    cr_expect_eq(look_late(&pulse, &now_ns, 10, 150, &news), 1);
    cr_expect_geq(news.pause_ns, 1000 * MS);
    cr_expect_leq(news.over_ns, 5000 * MS);
    now_ns += 100000 * MS;
    pulse = (gw_pulse){0};
    cr_expect_eq(look_late(&pulse, &now_ns, 100, 25, &news), 0, "a tenth is no standing still");
}

Test(pulse, a_clock_that_is_set_is_no_pause) {
    gw_pulse pulse = {0};
    gw_pulse_news news;
    const uint64_t hour_ns = 3600000 * MS;
    uint64_t now_ns = 10 * hour_ns;
    cr_expect_not(gw_pulse_look(&pulse, now_ns, now_ns, EVERY, &news));
    cr_expect(gw_pulse_look(&pulse, now_ns + EVERY, now_ns + EVERY - hour_ns, EVERY, &news));
    cr_expect_eq(news.jump_ns, -(int64_t)hour_ns);
    cr_expect_eq(news.pause_ns, 0);
    cr_expect_not(gw_pulse_look(&pulse, now_ns + 2 * EVERY, now_ns + 2 * EVERY - hour_ns, EVERY, &news));
}

/* The last news of a peer's pace. */
static struct {
    int count;
    bool slow;
    uint8_t peer;
} told;

static void tell(void *context, const gw_pace_peer *peer) {
    (void)context;
    told.count++;
    told.slow = peer->slow;
    told.peer = peer->id.bytes[0];
}

/* Looks `count` times at three peers of these speeds. */
static void look_at(gw_pace *pace, int count, double a, double b, double c) {
    const gw_pace_speed speeds[] = {{{{1}}, a}, {{{2}}, b}, {{{3}}, c}};
    for (int i = 0; i < count; i++)
        gw_pace_look(pace, pace->looked_ns + GW_PACE_LOOK_NS, speeds, 3, tell, NULL);
}

static gw_pace pace;

Test(pace, a_peer_that_becomes_slow_is_told_and_when_it_is_over) {
    look_at(&pace, GW_PACE_KNOWN, 10, 20, 30);
    cr_expect_eq(told.count, 0);
    look_at(&pace, GW_PACE_ROW - 1, 10, 8, 30);
    cr_expect_eq(told.count, 0, "not yet");
    look_at(&pace, 1, 10, 8, 30);
    cr_expect(told.count == 1 && told.slow && told.peer == 2);
    look_at(&pace, 50, 10, 8, 30);
    cr_expect_eq(told.count, 1, "once");
    look_at(&pace, GW_PACE_ROW, 10, 19, 30);
    cr_expect(told.count == 2 && !told.slow && told.peer == 2);
}

Test(pace, where_all_are_slower_the_job_is_another) {
    look_at(&pace, 20, 10, 20, 30);
    look_at(&pace, 20, 3, 6, 9);
    cr_expect_eq(told.count, 0);
}

Test(pace, a_newcomer_and_one_without_a_speed_are_not_judged) {
    look_at(&pace, 20, 10, 20, 0);
    look_at(&pace, GW_PACE_KNOWN - 1, 10, 20, 30);
    look_at(&pace, 20, 10, 20, 0);
    const gw_pace_speed others[] = {{{{1}}, 10}, {{{9}}, 1}};
    for (int i = 0; i < 20; i++) gw_pace_look(&pace, pace.looked_ns + GW_PACE_LOOK_NS, others, 2, tell, NULL);
    cr_expect_eq(told.count, 0);
    cr_expect_eq(pace.count, 2, "who is gone is forgotten");
    cr_expect_not(gw_pace_is_due(&pace, pace.looked_ns + 1));
    cr_expect(gw_pace_is_due(&pace, pace.looked_ns + GW_PACE_LOOK_NS));
}

Test(losses, many_unanswered_probes_are_told_at_once_and_then_rarely) {
    gw_losses losses = {0};
    gw_losses_news news = {0};
    uint64_t now_ns = 1, probes = 0, failed = 0;
    int told_times = 0;
    for (int i = 0; i < 5; i++) { /* a peer died, and made two failures */
        cr_expect_not(gw_losses_look(&losses, now_ns, probes, failed, &news));
        now_ns += GW_LOSSES_LOOK_NS;
        probes += 20;
        failed = 2;
    }
    for (int i = 0; i < 2 * GW_LOSSES_REPEATED; i++) {
        probes += 20;
        failed += 5;
        if (!gw_losses_look(&losses, now_ns, probes, failed, &news)) {
            now_ns += GW_LOSSES_LOOK_NS;
            continue;
        }
        now_ns += GW_LOSSES_LOOK_NS;
        cr_expect_eq(news.failed, told_times == 0 ? 5 : 5 * GW_LOSSES_REPEATED, "%lu", news.failed);
        cr_expect_eq(news.over_ns, (told_times == 0 ? 1 : GW_LOSSES_REPEATED) * GW_LOSSES_LOOK_NS);
        told_times++;
    }
    cr_expect_eq(told_times, 2);
    cr_expect_not(gw_losses_look(&losses, now_ns - 1, probes + 100, failed + 100, &news), "too soon");
}
