/* What people are to be woken for: conditions of a run that begin and end, each with a key by which the receiver
 * drops repetitions. This part is pure: it is told what is known, and answers what to send. Every peer follows
 * the conditions; the leader sends, and a peer that becomes the leader sends again what is on, and what happened
 * in the last minutes, since the leader before may have died before it could: at least once, with equal keys.
 *
 * One thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_ALARM_ALARM_H
#define GODWIT_TOOLS_GODWIT_ALARM_ALARM_H

#include "tools/godwit/options/alarm_rules.h"
#include "tools/godwit/show/snapshot.h"

enum { GW_ALARM_TEXT = 500, GW_ALARM_KEY_TEXT = 160, GW_ALARMS_ON = 512 };

typedef enum gw_alarm_kind {
    GW_ALARM_DONE = 1,
    GW_ALARM_STOPPED,
    GW_ALARM_FAILED,
    GW_ALARM_PEER_LOST,
    GW_ALARM_NO_PROGRESS,
    GW_ALARM_NO_CHECKPOINT,
    GW_ALARM_CORRUPT,
    GW_ALARM_DISK,       /* of the sending peer */
    GW_ALARM_NOT_FINITE, /* a number of a report */
    GW_ALARM_LOSS,       /* a rule about a report */
    GW_ALARM_KINDS,
} gw_alarm_kind;

/* An alarm to send. */
typedef struct gw_alarm {
    gw_alarm_kind kind;
    bool over;    /* the condition has ended */
    double since; /* when it began, in seconds since 1970 */
    uint64_t step;
    char key
        [GW_ALARM_KEY_TEXT]; /* the same from every peer, for the begin and the end: "8c1d22e0/peer-lost/..." */
    char text[GW_ALARM_TEXT]; /* sentences: what, where, what to do */
} gw_alarm;

/* "peer-lost"; also the text of "kind" in JSON. */
const char *gw_alarm_kind_name(gw_alarm_kind kind);

typedef struct gw_alarms gw_alarms;

/* Called for each alarm to send. */
typedef void gw_alarm_send(void *context, const gw_alarm *alarm);

/* `checkpoint_ns`: the interval of the job's checkpoints, 0 = by steps, or only at the end. NULL when memory runs
 * out. */
gw_alarms *gw_alarms_open(const gw_alarm_rules *rules, uint64_t checkpoint_ns, gw_alarm_send *send,
                          void *context, gw_err *err);
void gw_alarms_close(gw_alarms *alarms); /* NULL is allowed */

/* What is known now; called some times a second. `disk_bytes`: size of this peer's disk, 0 = not known. */
void gw_alarms_look(gw_alarms *alarms, const gw_node_snapshot *snapshot, uint64_t disk_bytes,
                    uint64_t now_ns);
/* A committed step, with the job's report, and the time: in seconds since 1970, and of gw_now_ns. A report that
 * crosses a bound again and again is one alarm: its end is told once it has held for a minute, and then it is not
 * raised again for ten. */
void gw_alarms_step(gw_alarms *alarms, uint64_t step, const char *report, double time_s, uint64_t now_ns);
/* Wrong bits were found. */
void gw_alarms_corrupt(gw_alarms *alarms, uint64_t step, const char *text);
/* This peer's run is over: `outcome` is "done", "stopped", "failed", ... (node/publish.h). */
void gw_alarms_end(gw_alarms *alarms, const char *outcome, uint64_t step, const char *text);

#endif
