/* The story of a job: lines of several nodes in the order of time, and what of them is no event. */
#include "tools/godwit/why/story.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static json_t *story_of(const char *a, const char *b) {
    json_t *events = json_array();
    gw_story_add(events, "a", a, strlen(a));
    gw_story_add(events, "b", b, strlen(b));
    gw_story_sort(events);
    return events;
}

Test(story, events_of_nodes_come_in_the_order_of_time_and_torn_lines_are_left_out) {
    json_t *events =
        story_of("{\"event\":\"start\",\"time\":10}\n"
                 "{\"event\":\"end\",\"time\":30,\"outcome\":\"left\",\"text\":\"signal\"}\n"
                 "{\"event\":\"start\",\"time\":50",
                 "no event\n{\"event\":7,\"time\":1}\n{\"event\":\"stop\"}\n[]\n"
                 "{\"event\":\"start\",\"time\":20,\"round\":1,\"waited\":\"room\",\"from\":\"a\"}\n");
    char *text = NULL;
    size_t size;
    cr_assert_eq(json_array_size(events), 3);
    FILE *out = open_memstream(&text, &size);
    cr_assert_not_null(out);
    gw_story_print(events, out);
    fclose(out);
    const char *first = strstr(text, "on a: starts\n"),
               *second = strstr(text, "on b: starts again, after 1 failed, as a is gone, where it ran;"),
               *third = strstr(text, "on a: has left this node: signal\n");
    cr_assert(first != NULL && second != NULL && third != NULL, "%s", text);
    cr_assert(first < second && second < third, "%s", text);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        cr_assert_leq(strcspn(line, "\n"), 79);
    free(text);
    json_decref(events);
}

Test(story, what_another_version_tells_is_no_sentence_and_words_are_printable) {
    char words[GW_STORY_TEXT];
    json_t *unknown = json_pack("{s:s,s:i}", "event", "dance", "time", 1);
    json_t *cause = json_pack("{s:s,s:i,s:s}", "event", "stop", "time", 1, "cause", "mood");
    json_t *delay = json_pack("{s:s,s:i,s:s}", "event", "delay", "time", 1, "text", "a\033[2Jb\n");
    cr_assert_str_eq(gw_story_words(unknown, words), "");
    cr_assert_str_eq(gw_story_words(cause, words), "is asked to end");
    cr_assert_null(strpbrk(gw_story_words(delay, words), "\033\n"));
    json_decref(unknown);
    json_decref(cause);
    json_decref(delay);
}
