/* The time of a line of output, in local time. Lines that are kept also have the date and the offset from
 * UTC (RFC 3339), because a log of weeks has many noons, and one hour twice in autumn. Pure, except for
 * the time zone. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_TIMESTAMP_H
#define GODWIT_TOOLS_GODWIT_TEXT_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { GW_TIMESTAMP_TEXT = 64, GW_TIMESTAMP_UTC_TEXT = 24 };

/* Writes "2026-11-25T14:33:22.045+01:00", or "14:33:22.045" when not `dated`. Returns `text`. */
char *gw_timestamp(const struct timespec *time, bool dated, char text[GW_TIMESTAMP_TEXT]);

/* Writes a wall clock time in milliseconds since 1970 in UTC, "2026-11-25 13:33:22Z", or "-" for a time
 * that has no such text. Returns `text`. */
const char *gw_timestamp_utc(uint64_t wall_ms, char text[GW_TIMESTAMP_UTC_TEXT]);

#endif
