/* The story of a job of a standing flock, in words: what its members have written down of it, each for itself
 * (tools/godwit/flock/history.h), put together in the order of time. Pure, except for the time zone. */
#ifndef GODWIT_TOOLS_GODWIT_WHY_STORY_H
#define GODWIT_TOOLS_GODWIT_WHY_STORY_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* Adds the lines of one node's history to a list of events, each with the "node" whose it is. A line that is no event, as
 * one that is torn, is left out. */
void gw_story_add(json_t *events, const char *node, const char *lines, size_t length);
/* Orders a list of events by time. */
void gw_story_sort(json_t *events);
/* Writes an event as a sentence without the name of its node: "starts; it had waited, as other jobs had the nodes". */
enum { GW_STORY_TEXT = 600 };
const char *gw_story_words(const json_t *event, char text[GW_STORY_TEXT]);
/* Prints the events in lines of at most 79 characters. */
void gw_story_print(const json_t *events, FILE *out);

#endif
