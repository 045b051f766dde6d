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
