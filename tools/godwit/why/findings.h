/* What `godwit why` finds: events of the journals put together, and patterns among them. Each rule (rules.c) looks
 * at the record and adds its findings; a rule changes nothing else, and has no memory of its own. */
#ifndef GODWIT_TOOLS_GODWIT_WHY_FINDINGS_H
#define GODWIT_TOOLS_GODWIT_WHY_FINDINGS_H

#include "tools/godwit/why/record.h"
#include "tools/godwit/why/words.h"

#include <jansson.h>

enum { GW_FINDING_TEXT = 700, GW_FINDING_EVIDENCE = 500, GW_FINDING_ADVICE = 300 };

/* Something that happened, or a pattern. */
typedef struct gw_finding {
    const char *kind;  /* a word: "death", "cut", "stall", ... */
    bool pattern;      /* it is a pattern among many events, and has no moment */
    double from, to;   /* seconds since 1970; `to` is not before `from` */
    gw_why_set peers;  /* whom it concerns */
    uint32_t times;    /* that it happened, where close ones are told together; at least 1 */
    uint64_t step;     /* 0: not known */
    double lost_s;     /* for so long no step was made that would have been; 0: none was lost, or not known */
    double view_s;     /* the change of the view took so long */
    uint64_t shards;   /* that were dealt again */
    const void *pause; /* the event of the pause that it is charged with, to tell it once; NULL: none */
    char text[GW_FINDING_TEXT];         /* what: one or two sentences */
    char evidence[GW_FINDING_EVIDENCE]; /* how it is known; may be empty */
    char advice[GW_FINDING_ADVICE];     /* what to do, one sentence; may be empty */
} gw_finding;

typedef struct gw_findings {
    gw_finding *list;
    size_t count, capacity;
} gw_findings;

/* The most findings, and how many of them there may be before the first pattern: of journals that have more, the rules
 * stop adding. */
enum { GW_FINDINGS_MOST = 20000, GW_FINDINGS_EVENTS = 19000 };

/* Adds a finding of a kind, whose text is still empty. NULL: there are too many, or memory runs out. */
gw_finding *gw_findings_add(gw_findings *findings, const char *kind, double from, double to);
/* The same for a pattern. */
gw_finding *gw_findings_add_pattern(gw_findings *findings, const char *kind, double from, double to);
void gw_findings_free(gw_findings *findings);

/* Applies all rules to a record: what happened in the order of time, and then the patterns. */
void gw_why_find(const gw_why_record *record, gw_findings *findings);
/* Removes what was over before a moment. */
void gw_findings_since(gw_findings *findings, double since);

/* Charges a finding with the pause of the flock that followed it, if there was one: the change of the view, the
 * shards that were dealt again, and the time without a step. What the peers that it concerns say of themselves does
 * not count where another one tells: the flock goes on while one of its peers stands still. */
void gw_finding_charge(const gw_why_record *record, gw_finding *finding);

/* The rules; each may be called by itself. They add findings of these kinds. */
typedef void gw_why_rule(const gw_why_record *record, gw_findings *findings);
gw_why_rule gw_why_deaths;     /* "death", "all-ended", "left", "refused", "unreachable" */
gw_why_rule gw_why_refusals;   /* "refused" */
gw_why_rule gw_why_cuts;       /* "cut" */
gw_why_rule gw_why_stalls;     /* "stall" */
gw_why_rule gw_why_workers;    /* "worker" */
gw_why_rule gw_why_slow;       /* "slow" */
gw_why_rule gw_why_corruption; /* "corruption" */
gw_why_rule gw_why_disks;      /* "disk" */
gw_why_rule gw_why_devices;    /* "device" */
gw_why_rule gw_why_limits;     /* "limit" */
gw_why_rule gw_why_clocks;     /* "clock" */
gw_why_rule gw_why_losses;     /* "network" */
gw_why_rule gw_why_views;      /* "view": changes of the view that no finding before explains */
gw_why_rule gw_why_hosts;      /* patterns: "host" */
gw_why_rule gw_why_loops;      /* "restarts" */
gw_why_rule gw_why_hours;      /* "hours" */
gw_why_rule gw_why_filling;    /* "disk-fills" */
gw_why_rule gw_why_memory;     /* "memory-grows" */
gw_why_rule gw_why_saving;     /* "checkpoints-slow" */
gw_why_rule gw_why_unsaved;    /* "no-checkpoint" */
gw_why_rule gw_why_uneven;     /* "stolen-from" */
gw_why_rule gw_why_journals;   /* "journal" */
gw_why_rule gw_why_log;        /* "log" */

#endif
