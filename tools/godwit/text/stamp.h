/* When a line was said: local time, and where lines are kept also the date and the offset from UTC (RFC
 * 3339), as a log of weeks has many noons and two hours of one name in autumn. Pure, but for the time zone.
 */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_STAMP_H
#define GODWIT_TOOLS_GODWIT_TEXT_STAMP_H

#include <stdbool.h>
#include <time.h>

enum { GW_STAMP_TEXT = 64 };

/* "2026-11-25T14:33:22.045+01:00", or "14:33:22.045". */
char *gw_stamp(const struct timespec *time, bool dated, char text[GW_STAMP_TEXT]);

#endif
