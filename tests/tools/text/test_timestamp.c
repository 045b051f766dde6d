/* Timestamps in time zones on both sides of UTC. */
#include "tools/godwit/text/timestamp.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void expect(const char *zone, time_t seconds, const char *dated, const char *brief) {
    const struct timespec time = {.tv_sec = seconds, .tv_nsec = 45999999};
    char text[GW_TIMESTAMP_TEXT];
    setenv("TZ", zone, 1);
    tzset();
    cr_expect_str_eq(gw_timestamp(&time, true, text), dated);
    cr_expect_str_eq(gw_timestamp(&time, false, text), brief);
}

Test(stamp, says_the_offset_of_local_time) {
    expect("UTC0", 0, "1970-01-01T00:00:00.045+00:00", "00:00:00.045");
    expect("IST-5:30", 1764081202, "2025-11-25T20:03:22.045+05:30", "20:03:22.045");
    expect("NST3:30", 1764081202, "2025-11-25T11:03:22.045-03:30", "11:03:22.045");
}

/* The hour that occurs twice in autumn. */
Test(stamp, tells_summer_from_winter) {
    static const char zone[] = "CET-1CEST,M3.5.0,M10.5.0/3";
    expect(zone, 1761438600, "2025-10-26T02:30:00.045+02:00", "02:30:00.045");
    expect(zone, 1761442200, "2025-10-26T02:30:00.045+01:00", "02:30:00.045");
}

Test(stamp, a_saved_time_is_told_in_utc) {
    char text[GW_TIMESTAMP_UTC_TEXT];
    setenv("TZ", "IST-5:30", 1);
    tzset();
    cr_expect_str_eq(gw_timestamp_utc(1764081202045, text), "2025-11-25 14:33:22Z");
    cr_expect_str_eq(gw_timestamp_utc(UINT64_MAX, text), "-");
}
