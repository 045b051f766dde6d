#include "tools/godwit/top/ending.h"

#include "core/os/directory.h"
#include "core/os/durable.h"
#include "tools/godwit/journal/read.h"

#include <stdio.h>
#include <string.h>

enum { READ_BYTES = 1 << 16 };

/* The end of the last life in a journal. */
typedef struct ending {
    char outcome[16], text[300]; /* outcome "": it goes on, or was killed */
    double steps, peers;
} ending;

static bool take_line(void *context, const char *line, size_t length, json_t *event) {
    (void)line;
    (void)length;
    ending *e = context;
    if (gw_journal_is(event, "life")) *e = (ending){.steps = 0};
    if (!gw_journal_is(event, "done")) return true;
    const char *outcome = gw_journal_text(event, "outcome"), *text = gw_journal_text(event, "text");
    snprintf(e->outcome, sizeof e->outcome, "%s", outcome != NULL ? outcome : "");
    snprintf(e->text, sizeof e->text, "%s", text != NULL ? text : "");
    e->steps = gw_journal_number(event, "steps", 0);
    e->peers = gw_journal_number(event, "peers", 0);
    return true;
}

bool gw_top_ending(const char *dir, char *text, size_t size, bool *good) {
    char path[GW_PATH_BYTES];
    ending e = {.steps = 0};
    gw_err ignored;
    if (!gw_directory_find(dir, path, &ignored) ||
        !gw_journal_read_last(path, READ_BYTES, take_line, &e, &ignored) || e.outcome[0] == '\0' ||
        strcmp(e.outcome, "again") == 0)
        return false;
    *good = strcmp(e.outcome, "done") == 0;
    if (*good)
        snprintf(text, size, "the job is done: %.0f steps", e.steps);
    else if (strcmp(e.outcome, "stopped") == 0)
        snprintf(text, size, "the job was stopped at step %.0f; the same command goes on", e.steps);
    else if (strcmp(e.outcome, "left") == 0)
        snprintf(text, size, "this peer has left at step %.0f; %s", e.steps,
                 e.peers > 1 ? "the others go on" : "the same command goes on");
    else
        snprintf(text, size, "this peer has ended (%s): %s", e.outcome, e.text);
    return true;
}
