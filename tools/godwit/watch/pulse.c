#include "tools/godwit/watch/pulse.h"

static void begin_window(gw_pulse *pulse, uint64_t now_ns) {
    pulse->since_ns = now_ns;
    pulse->late_ns = 0;
}

bool gw_pulse_look(gw_pulse *pulse, uint64_t now_ns, uint64_t wall_ns, uint64_t every_ns,
                   gw_pulse_news *news) {
    const gw_pulse last = *pulse;
    pulse->at_ns = now_ns;
    pulse->ahead_ns = (int64_t)(wall_ns - now_ns);
    *news = (gw_pulse_news){0};
    if (last.at_ns == 0 || now_ns < last.at_ns) {
        begin_window(pulse, now_ns);
        return false;
    }
    uint64_t passed_ns = now_ns - last.at_ns;
    if (passed_ns >= every_ns + GW_PULSE_LEAST_NS) pulse->late_ns += passed_ns - every_ns;
    if (pulse->late_ns >= GW_PULSE_PAUSE_NS) {
        news->pause_ns = pulse->late_ns;
        news->over_ns = now_ns - pulse->since_ns;
        begin_window(pulse, now_ns);
    } else if (now_ns - pulse->since_ns >= GW_PULSE_WINDOW_NS)
        begin_window(pulse, now_ns);
    int64_t jump_ns = (int64_t)((uint64_t)pulse->ahead_ns - (uint64_t)last.ahead_ns);
    if (jump_ns >= GW_PULSE_JUMP_NS || jump_ns <= -GW_PULSE_JUMP_NS) news->jump_ns = jump_ns;
    return news->pause_ns != 0 || news->jump_ns != 0;
}
