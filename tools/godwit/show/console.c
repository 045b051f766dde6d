#include "tools/godwit/show/console.h"

#include <string.h>

static gw_events_mode events_mode(const gw_run_options *options) {
    if (options->json) return GW_EVENTS_JSON;
    return options->quiet ? GW_EVENTS_QUIET : GW_EVENTS_PLAIN;
}

bool gw_console_open(const gw_run_options *options, gw_console *console, gw_err *err) {
    memset(console, 0, sizeof *console);
    bool silent = options->json || options->quiet;
    if (!gw_supervisor_open(&console->supervisor, GW_SUPERVISOR_READY_NS, err)) return false;
    console->names = gw_names_open(err);
    if (console->names != NULL) console->board = gw_board_open(err);
    if (console->board != NULL)
        console->display = gw_display_open(silent ? GW_DISPLAY_SILENT : GW_DISPLAY_AUTO, err);
    if (console->display != NULL)
        console->events = gw_events_open(events_mode(options), console->display, console->names, err);
    if (console->events != NULL) console->tail = gw_log_tail_open(err);
    if (console->tail == NULL) {
        gw_console_close(console);
        return gw_fail_in(err, "console");
    }
    gw_level least = options->verbose ? GW_DEBUG : options->quiet ? GW_WARN : GW_INFO;
    console->log = (gw_log_target){.display = console->display,
                                   .events = console->events,
                                   .names = console->names,
                                   .tail = console->tail,
                                   .json = options->json,
                                   .least = least};
    gw_log_direct(&console->log);
    return true;
}

bool gw_console_close(gw_console *console) {
    gw_log_direct(NULL);
    gw_log_tail_close(console->tail);
    gw_events_close(console->events);
    bool whole = gw_display_close(console->display);
    gw_board_close(console->board);
    gw_names_close(console->names);
    gw_supervisor_close(console->supervisor);
    memset(console, 0, sizeof *console);
    return whole;
}
