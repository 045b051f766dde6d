/* The output of a run for people. On a terminal, stdout has one live line, redrawn at most ten times a
 * second; in a pipe it has a plain line now and then, with date and time; with --json or --quiet it has
 * neither. Everything that this process prints goes through the display, so that nothing breaks the live
 * line.
 *
 * Only gw_display_close and gw_display_flush wait for a reader (show/async_writer.h). Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_DISPLAY_H
#define GODWIT_TOOLS_GODWIT_SHOW_DISPLAY_H

#include "core/base/err.h"
#include "tools/godwit/show/snapshot.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum gw_display_mode {
    GW_DISPLAY_AUTO = 1, /* a live line on a terminal, plain lines otherwise */
    GW_DISPLAY_SILENT,   /* no progress lines: --quiet, --json */
} gw_display_mode;

typedef struct gw_display gw_display;

gw_display *gw_display_open(gw_display_mode mode, gw_err *err); /* NULL on failure */
/* Erases the live line and waits until everything is written or the readers have gone. False: the last lines
 * could not be written to stdout. Lines that were lost before, because the disk was full or the reader slow,
 * do not count: a message has reported them. NULL is allowed. */
bool gw_display_close(gw_display *display);
/* For a process that is about to end without closing the display: erases the live line for good, and waits
 * until everything is written, at most `patience_ns` for each output. */
void gw_display_flush(gw_display *display, uint64_t patience_ns);

/* Shows the progress if it is time to. Cheap: call it at every step and several times a second. */
void gw_display_update(gw_display *display, const gw_node_snapshot *snapshot);
/* Prints one line (given without newline) to stdout or stderr, in the place of the live line, which the
 * next update draws again. Lines for people, which are all but those of gw_display_out, are broken at
 * spaces where they do not fit on a terminal. */
void gw_display_out(gw_display *display, const char *text);
void gw_display_err(gw_display *display, const char *text);
/* Prints the last line of a run, for people, to stdout, without the time. */
void gw_display_end(gw_display *display, const char *text);
/* Print one line with the time in front: gw_display_say to stdout, for the course of the run (on a
 * terminal without the time, because the reader sees when it comes), gw_display_log to stderr. */
void gw_display_say(gw_display *display, const char *text);
void gw_display_log(gw_display *display, const char *text);

/* Writes the live line for a terminal of `width` columns; it is never longer. Pure. */
void gw_display_format(const gw_node_snapshot *snapshot, size_t width, char *line, size_t size);

#endif
