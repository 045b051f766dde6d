#include "tools/godwit/why/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void gw_why_set_add(gw_why_set *set, int peer) {
    if (peer >= 0) set->words[peer / 64] |= UINT64_C(1) << (peer % 64);
}

bool gw_why_set_has(const gw_why_set *set, int peer) {
    return peer >= 0 && (set->words[peer / 64] >> (peer % 64) & 1) != 0;
}

int gw_why_set_count(const gw_why_set *set) {
    int count = 0;
    for (int i = 0; i < GW_WHY_SET; i++) count += __builtin_popcountll(set->words[i]);
    return count;
}

int gw_why_set_next(const gw_why_set *set, int from) {
    for (int i = from; i < GW_WHY_PEERS; i++)
        if (gw_why_set_has(set, i)) return i;
    return GW_WHY_NONE;
}

const char *gw_why_when(double time, bool with_day, char text[GW_WHY_WHEN]) {
    struct tm local;
    time_t seconds = fabs(time) < 1e12 ? (time_t)floor(time) : 0;
    if (localtime_r(&seconds, &local) == NULL ||
        strftime(text, GW_WHY_WHEN, with_day ? "%a %d %b %H:%M:%S" : "%H:%M:%S", &local) == 0)
        snprintf(text, GW_WHY_WHEN, "-");
    return text;
}

/* Writes a duration in two units, the smaller one of which is left out where there are none of it. */
static void write_units(long long large, const char *large_unit, long long small, const char *small_unit,
                        char text[GW_WHY_SPAN]) {
    if (small > 0)
        snprintf(text, GW_WHY_SPAN, "%lld %s %lld %s", large, large_unit, small, small_unit);
    else
        snprintf(text, GW_WHY_SPAN, "%lld %s", large, large_unit);
}

const char *gw_why_span(double seconds, char text[GW_WHY_SPAN]) {
    if (!(seconds > 0)) seconds = 0;
    if (seconds > 1e12) seconds = 1e12;
    long long whole = llround(seconds);
    if (seconds < 9.95)
        snprintf(text, GW_WHY_SPAN, "%.1f s", seconds);
    else if (whole < 60)
        snprintf(text, GW_WHY_SPAN, "%lld s", whole);
    else if (whole < 3600)
        write_units(whole / 60, "min", whole % 60, "s", text);
    else if (whole < 86400)
        write_units(whole / 3600, "h", whole / 60 % 60, "min", text);
    else
        write_units(whole / 86400, whole < 172800 ? "day" : "days", whole / 3600 % 24, "h", text);
    return text;
}

const char *gw_why_times(uint64_t count, char text[GW_WHY_OFTEN]) {
    if (count == 1 || count == 2)
        snprintf(text, GW_WHY_OFTEN, "%s", count == 1 ? "once" : "twice");
    else
        snprintf(text, GW_WHY_OFTEN, "%" PRIu64 " times", count);
    return text;
}

const char *gw_why_end(const gw_why_life *life, char text[GW_WHY_END]) {
    if (strcmp(life->end, "done") == 0)
        snprintf(text, GW_WHY_END, "ended itself (%s)%s%s", life->outcome, life->text[0] != '\0' ? ": " : "",
                 life->text);
    else if (life->end[0] == '\0')
        snprintf(text, GW_WHY_END, "ended, and its journal does not say how");
    else
        snprintf(text, GW_WHY_END, "%s", life->text[0] != '\0' ? life->text : "ended");
    return text;
}

const char *gw_why_list(const gw_why_record *record, const gw_why_set *set, char text[GW_WHY_LIST]) {
    enum { NAMED = 4, LONGEST = 40 };
    char name[GW_WHY_CALLED];
    int count = gw_why_set_count(set), named = count <= NAMED ? count : NAMED - 1, done = 0;
    size_t at = 0;
    text[0] = '\0';
    for (int peer = gw_why_set_next(set, 0); peer != GW_WHY_NONE && done < named;
         peer = gw_why_set_next(set, peer + 1), done++) {
        const char *before = done == 0 ? "" : done + 1 == count ? " and " : ", ";
        int written = snprintf(text + at, GW_WHY_LIST - at, "%s%.*s", before, LONGEST,
                               gw_why_called(record, peer, name));
        at += written > 0 ? (size_t)written : 0;
    }
    if (count > named) snprintf(text + at, GW_WHY_LIST - at, " and %d more", count - named);
    return text;
}
