/* Times, durations, ends and lists of peers in words, for `godwit why`. Pure, except for the time zone. */
#ifndef GODWIT_TOOLS_GODWIT_WHY_WORDS_H
#define GODWIT_TOOLS_GODWIT_WHY_WORDS_H

#include "tools/godwit/why/record.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_WHY_END = GW_WHY_TEXT + 60 };
enum { GW_WHY_WHEN = 40, GW_WHY_SPAN = 24, GW_WHY_LIST = 200, GW_WHY_SET = GW_WHY_PEERS / 64 };

/* Peers: a bit for each of a record. Starts as zeros. */
typedef struct gw_why_set {
    uint64_t words[GW_WHY_SET];
} gw_why_set;

void gw_why_set_add(gw_why_set *set, int peer); /* GW_WHY_NONE is not added */
bool gw_why_set_has(const gw_why_set *set, int peer);
int gw_why_set_count(const gw_why_set *set);
int gw_why_set_next(const gw_why_set *set, int from); /* the first at `from` or behind; GW_WHY_NONE: none */

/* Writes a time: "14:33:22", or with the day, "Tue 25 Nov 14:33:22". Returns `text`. */
const char *gw_why_when(double time, bool with_day, char text[GW_WHY_WHEN]);
/* Writes a duration: "0.4 s", "3 min 20 s", "2 h 5 min", "3 days 4 h". Returns `text`. */
const char *gw_why_span(double seconds, char text[GW_WHY_SPAN]);
/* Writes how often something happened: "once", "twice", "3 times". Returns `text`. */
enum { GW_WHY_OFTEN = 32 };
const char *gw_why_times(uint64_t count, char text[GW_WHY_OFTEN]);
/* Writes how a life ended, behind the name of its peer: "was killed without a word (SIGKILL)". Returns `text`. */
const char *gw_why_end(const gw_why_life *life, char text[GW_WHY_END]);
/* Writes the names of peers: "node1, node2 and node3", of many "node1, node2 and 5 more". Returns `text`. */
const char *gw_why_list(const gw_why_record *record, const gw_why_set *set, char text[GW_WHY_LIST]);

#endif
