#include "core/base/log.h"

#include "core/base/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static gw_log_sink *current_sink;
static void *current_context;

void gw_log_set_sink(gw_log_sink *sink, void *context) {
    current_sink = sink;
    current_context = context;
}

void gw_log(gw_level level, const char *room, const char *format, ...) {
    if (current_sink == NULL) return;
    char text[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gw_utf8_make_printable(text); /* parts of it may come from another peer */
    size_t length = strlen(room);
    bool repeats = strncmp(text, room, length) == 0 && strncmp(text + length, ": ", 2) == 0;
    current_sink(current_context, level, room, repeats ? text + length + 2 : text);
}

const char *gw_level_name(gw_level level) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    return names[level];
}
