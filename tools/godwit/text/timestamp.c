#include "tools/godwit/text/timestamp.h"

#include <stdio.h>
#include <stdlib.h>

char *gw_timestamp(const struct timespec *time, bool dated, char text[GW_TIMESTAMP_TEXT]) {
    struct tm local;
    char date[16] = "", offset[16] = "";
    localtime_r(&time->tv_sec, &local);
    if (dated) {
        long minutes = labs(local.tm_gmtoff) / 60;
        strftime(date, sizeof date, "%Y-%m-%dT", &local);
        snprintf(offset, sizeof offset, "%c%02ld:%02ld", local.tm_gmtoff < 0 ? '-' : '+', minutes / 60,
                 minutes % 60);
    }
    snprintf(text, GW_TIMESTAMP_TEXT, "%s%02d:%02d:%02d.%03ld%s", date, local.tm_hour, local.tm_min,
             local.tm_sec, time->tv_nsec / 1000000, offset);
    return text;
}

const char *gw_timestamp_utc(uint64_t wall_ms, char text[GW_TIMESTAMP_UTC_TEXT]) {
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL ||
        strftime(text, GW_TIMESTAMP_UTC_TEXT, "%Y-%m-%d %H:%M:%SZ", &utc) == 0)
        snprintf(text, GW_TIMESTAMP_UTC_TEXT, "-");
    return text;
}
