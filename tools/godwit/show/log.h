/* Writes log lines (core/base/log.h) to stderr with time and level, and with --json also as events to
 * stdout. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_LOG_H
#define GODWIT_TOOLS_GODWIT_SHOW_LOG_H

#include "core/base/log.h"
#include "tools/godwit/show/display.h"
#include "tools/godwit/show/events.h"
#include "tools/godwit/show/log_tail.h"
#include "tools/godwit/show/names.h"

#include <stdint.h>

typedef struct gw_log_target {
    gw_display *display;
    gw_events *events; /* may be NULL, as may `names` and `tail` */
    const gw_names *names;
    gw_log_tail *tail;
    bool json; /* lines of level info are events alone; without, they go to stdout, and others to stderr */
    gw_level least; /* lines below this level are dropped */
} gw_log_target;

/* Sets the target of log lines; NULL drops them. *target must outlive its use. Call it before threads
 * start and after they have ended. */
void gw_log_direct(const gw_log_target *target);
/* Returns the number of lines of level warn and error since the process started. Thread: any. */
uint64_t gw_log_warnings(void);

#endif
