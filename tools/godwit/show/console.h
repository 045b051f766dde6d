/* The outputs of a run: board, display, events and log, and what the service manager is told. They are opened before the node and closed after
 * it. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_CONSOLE_H
#define GODWIT_TOOLS_GODWIT_SHOW_CONSOLE_H

#include "tools/godwit/options/options.h"
#include "tools/godwit/show/display.h"
#include "tools/godwit/show/events.h"
#include "tools/godwit/show/log.h"
#include "tools/godwit/show/names.h"
#include "tools/godwit/show/snapshot.h"
#include "tools/godwit/show/supervisor.h"

typedef struct gw_console {
    gw_names *names;
    gw_board *board;
    gw_display *display;
    gw_events *events;
    gw_log_tail *tail;
    gw_log_target log;
    gw_supervisor *supervisor; /* NULL = no service manager has started this process */
} gw_console;

bool gw_console_open(const gw_run_options *options, gw_console *console, gw_err *err);
/* Closes the outputs. Returns false where some output could not be written. */
bool gw_console_close(gw_console *console);

#endif
