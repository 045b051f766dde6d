/* The time of a line: local time, and for lines that are kept also the date and the offset from UTC (RFC
 * 3339), as a log of weeks has many noons, and in autumn one hour twice. Pure, but for the time zone. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_TIMESTAMP_H
#define GODWIT_TOOLS_GODWIT_TEXT_TIMESTAMP_H

#include <stdbool.h>
#include <time.h>

enum { GW_TIMESTAMP_TEXT = 64 };

/* "2026-11-25T14:33:22.045+01:00", or "14:33:22.045". */
char *gw_timestamp(const struct timespec *time, bool dated, char text[GW_TIMESTAMP_TEXT]);

#endif
