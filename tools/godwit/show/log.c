#include "tools/godwit/show/log.h"

#include <stdatomic.h>
#include <stdio.h>

enum { LINE = 2000 };

static _Atomic uint64_t warnings;

static void sink(void *context, gw_level level, const char *room, const char *text) {
    const gw_log_target *target = context;
    if (level >= GW_WARN) atomic_fetch_add_explicit(&warnings, 1, memory_order_relaxed);
    bool shown = level >= target->least;
    if (!shown && level < GW_INFO) return;
    char marked[LINE], line[LINE + 100];
    gw_names_mark(target->names, text, marked, sizeof marked);
    if (target->tail != NULL) gw_log_tail_add(target->tail, level, room, marked);
    if (target->events != NULL) gw_events_log(target->events, level, room, marked, shown);
    if (!shown) return;     /* the journal alone has it */
    if (level == GW_INFO) { /* the course of the run; with --json an event alone */
        if (!target->json) gw_display_say(target->display, marked);
        return;
    }
    snprintf(line, sizeof line, "%-5s %s: %s", gw_level_name(level), room, marked);
    gw_display_log(target->display, line);
}

void gw_log_direct(const gw_log_target *target) {
    /* The const is cast away for the sink, which only reads its context. */
    gw_log_set_sink(target != NULL ? sink : NULL, (void *)(uintptr_t)target);
}

uint64_t gw_log_warnings(void) {
    return atomic_load_explicit(&warnings, memory_order_relaxed);
}
