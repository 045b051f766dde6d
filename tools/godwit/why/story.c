#include "tools/godwit/why/story.h"

#include "core/base/utf8.h"
#include "tools/godwit/journal/read.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/why/tell.h"
#include "tools/godwit/why/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 10, DAY = 10 };

void gw_story_add(json_t *events, const char *node, const char *lines, size_t length) {
    if (length == 0) return; /* `lines` may be NULL */
    for (const char *end = lines + length, *next; lines < end; lines = next) {
        const char *feed = memchr(lines, '\n', (size_t)(end - lines));
        next = feed != NULL ? feed + 1 : end;
        json_t *event =
            feed != NULL ? json_loadb(lines, (size_t)(feed - lines), 0, NULL) : NULL; /* else it is torn */
        if (gw_journal_text(event, "event") != NULL && json_is_number(json_object_get(event, "time"))) {
            gw_json_text(event, "node", node);
            json_array_append(events, event);
        }
        json_decref(event);
    }
}

static int compare(const void *a, const void *b) {
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    double later = gw_journal_number(x, "time", 0) - gw_journal_number(y, "time", 0);
    return (later > 0) - (later < 0);
}

void gw_story_sort(json_t *events) {
    size_t count = json_array_size(events);
    json_t **list = calloc(count + 1, sizeof(json_t *));
    if (list == NULL) return;
    for (size_t i = 0; i < count; i++) list[i] = json_incref(json_array_get(events, i));
    qsort(list, count, sizeof(json_t *), compare);
    json_array_clear(events);
    for (size_t i = 0; i < count; i++) json_array_append_new(events, list[i]);
    free(list);
}

typedef struct phrase {
    const char *word, *text;
} phrase;

/* What a word of an event means; "" for one of another version. */
static const char *phrase_of(const phrase *list, size_t count, const char *word) {
    for (size_t i = 0; word != NULL && i < count; i++)
        if (strcmp(list[i].word, word) == 0) return list[i].text;
    return "";
}

#define PHRASE(list, word) phrase_of(list, sizeof(list) / sizeof *(list), word)

static const phrase causes[] = {{"cancelled", ": the job was cancelled"},
                                {"over", ": the job is over, as another node has told"},
                                {"held", ": the job is held"},
                                {"drained", ": the node is drained"},
                                {"disk", ": the node's disk takes no writes"},
                                {"down", ": the node's member was taken down"},
                                {"elsewhere", ": it goes on on another node, which runs it too"},
                                {"moved", ": other jobs come first on this node, or it goes on elsewhere"}};
static const phrase outcomes[] = {
    {"done", "is done"},           {"stopped", "was stopped"},
    {"failed", "has failed"},      {"fatal", "has failed, as it would everywhere"},
    {"ended", "has ended"},        {"struck", "has ended, and is not tried on this node again"},
    {"left", "has left this node"}};

static void words_of_start(const json_t *event, char text[GW_STORY_TEXT]) {
    const char *from = gw_journal_text(event, "from");
    const char *waited = gw_waits_find(gw_journal_text(event, "waited"))->past;
    size_t at = (size_t)snprintf(text, GW_STORY_TEXT, "starts");
    if (gw_journal_number(event, "round", 0) > 0)
        at += (size_t)snprintf(text + at, GW_STORY_TEXT - at, " again, after %.0f failed",
                               gw_journal_number(event, "round", 0));
    if (from != NULL)
        at += (size_t)snprintf(text + at, GW_STORY_TEXT - at, ", as %.64s is gone, where it ran", from);
    /* That it waited for a node to come back goes without saying where that is gone. */
    bool plain = from != NULL && waited[0] != '\0' && strcmp(gw_journal_text(event, "waited"), "away") == 0;
    if (waited[0] != '\0' && !plain)
        snprintf(text + at, GW_STORY_TEXT - at, "; it had waited, as %s", waited);
}

const char *gw_story_words(const json_t *event, char text[GW_STORY_TEXT]) {
    const char *said = gw_journal_text(event, "text"), *outcome;
    text[0] = '\0';
    if (gw_journal_is(event, "submit")) {
        snprintf(text, GW_STORY_TEXT, "is submitted");
    } else if (gw_journal_is(event, "start")) {
        words_of_start(event, text);
    } else if (gw_journal_is(event, "delay")) {
        snprintf(text, GW_STORY_TEXT, "cannot start yet: %.500s", said != NULL ? said : "");
    } else if (gw_journal_is(event, "unfit")) {
        snprintf(text, GW_STORY_TEXT, "cannot start, and is not tried on this node again: %.500s",
                 said != NULL ? said : "");
    } else if (gw_journal_is(event, "stop")) {
        snprintf(text, GW_STORY_TEXT, "is asked to end%s", PHRASE(causes, gw_journal_text(event, "cause")));
    } else if (gw_journal_is(event, "end")) {
        outcome = PHRASE(outcomes, gw_journal_text(event, "outcome"));
        snprintf(text, GW_STORY_TEXT, "%s: %.500s", outcome[0] != '\0' ? outcome : "has ended",
                 said != NULL ? said : "");
    }
    gw_utf8_make_printable(text);
    return text;
}

void gw_story_print(const json_t *events, FILE *out) {
    char day[GW_WHY_WHEN] = "", when[GW_WHY_WHEN], text[GW_STORY_TEXT], line[GW_STORY_TEXT + 80];
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        double time = gw_journal_number(event, "time", 0);
        const char *node = gw_journal_text(event, "node");
        if (gw_story_words(event, text)[0] == '\0') continue;
        gw_why_when(time, true, when);
        if (strncmp(day, when, DAY) != 0) fprintf(out, "%s%.*s\n\n", day[0] != '\0' ? "\n" : "", DAY, when);
        snprintf(day, sizeof day, "%s", when);
        snprintf(line, sizeof line, "%s%.64s%s%s", node != NULL ? "on " : "", node != NULL ? node : "",
                 node != NULL ? ": " : "", text);
        fprintf(out, "%-*s", INDENT, gw_why_when(time, false, when));
        gw_why_print_words(out, line, INDENT, INDENT);
    }
}
