/* Journals that are made for tests of `godwit why` and `godwit report`: peers called node1, node2 and so on, with
 * directories of the same names in the scratch folder. Times are seconds after MADE_START. */
#ifndef GODWIT_TESTS_TOOLS_WHY_MADE_H
#define GODWIT_TESTS_TOOLS_WHY_MADE_H

#include "scratch.h"
#include "tools/godwit/why/findings.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MADE_START 1796000000.0

enum { MADE_PEERS = 6, MADE_JOB_ID = 0xa };

static inline const char *made_id(int node) {
    static char ids[MADE_PEERS + 1][GW_WHY_ID];
    snprintf(ids[node], sizeof ids[node], "%032x", 0xab000000U + (unsigned)node);
    return ids[node];
}

static inline const char *made_dir(int node) {
    static char dirs[MADE_PEERS + 1][4096];
    char name[16];
    snprintf(name, sizeof name, "node%d", node);
    snprintf(dirs[node], sizeof dirs[node], "%s", scratch_path(name));
    return dirs[node];
}

/* Appends an event: the format is what follows the time, "\"step\":%d". */
static inline void made_event(int node, double at, const char *event, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static inline void made_event(int node, double at, const char *event, const char *format, ...) {
    char path[4200];
    va_list arguments;
    mkdir(made_dir(node), 0700);
    snprintf(path, sizeof path, "%s/journal.jsonl", made_dir(node));
    FILE *file = fopen(path, "a");
    cr_assert_not_null(file);
    fprintf(file, "{\"event\":\"%s\",\"time\":%.6f%s", event, MADE_START + at, format[0] != '\0' ? "," : "");
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fputs("}\n", file);
    cr_assert_eq(fclose(file), 0);
}

/* A process of a node begins. `last_end`: how the one before it ended; NULL: there was none. */
static inline void made_life(int node, double at, const char *last_end, const char *last_text) {
    if (last_end != NULL)
        made_event(node, at, "life", "\"pid\":7,\"last_end\":\"%s\",\"last_text\":\"%s\"", last_end,
                   last_text);
    else
        made_event(node, at, "life", "\"pid\":7");
    made_event(node, at + 0.1, "start",
               "\"job\":\"gpt\",\"job_id\":\"%064x\",\"peer\":\"%s\",\"peer_name\":\"node%d\",\"device\":"
               "\"processors\","
               "\"params\":{\"lr\":\"0.1\"},\"identity\":{\"job\":\"gpt\"}",
               MADE_JOB_ID, made_id(node), node);
}

/* A node learns that another one is alive, dead or unreachable. */
static inline void made_news(int node, double at, int of, const char *state, const char *evidence) {
    made_event(node, at, "peer",
               "\"peer\":\"%s\",\"peer_name\":\"node%d\",\"address\":\"10.0.0.%d:7117\",\"state\":\"%s\","
               "\"evidence\":\"%s\",\"silent_ms\":400",
               made_id(of), of, of, state, evidence);
}

static inline void made_progress(int node, double at, double speed, double rss, double room) {
    made_event(
        node, at, "progress",
        "\"step\":%d,\"members\":3,\"ms\":100.5,\"made\":600,\"computed\":1000,\"stolen\":10,\"lost\":20,"
        "\"speed\":%f,\"rss_bytes\":%.0f,\"room_bytes\":%.0f",
        (int)at + 1, speed, rss, room);
}

/* Nodes 1 to `nodes` begin, and meet. */
static inline void made_flock(int nodes) {
    for (int node = 1; node <= nodes; node++) made_life(node, node * 0.01, NULL, NULL);
    for (int node = 1; node <= nodes; node++)
        for (int other = 1; other <= nodes; other++)
            if (other != node) made_news(node, 1, other, "alive", "");
}

/* Reads the journals of nodes 1 to `nodes`. */
static inline void made_read(int nodes, gw_why_record *record) {
    const char *dirs[MADE_PEERS];
    gw_err err;
    for (int node = 1; node <= nodes; node++) dirs[node - 1] = made_dir(node);
    cr_assert(gw_why_read(dirs, nodes, NULL, record, &err), "%s", err.text);
}

#endif
