/* Sends alarms: to a command (--notify) and to an address of the web (--webhook), from a thread of its own. A delivery
 * that fails is tried again, after 5 s, then 15 s, 1 min and 5 min; then the log says so. At most GW_ALARM_BURST
 * alarms of a kind are sent in ten minutes: of the others the next one that is sent tells how many were left out. What is
 * left out is not logged. */
#ifndef GODWIT_TOOLS_GODWIT_ALARM_SENDER_H
#define GODWIT_TOOLS_GODWIT_ALARM_SENDER_H

#include "tools/godwit/alarm/alarm.h"

enum { GW_ALARM_BURST = 30, GW_ALARM_WAITING = 1024 };

/* Where alarms go, and what each tells of its sender. The texts must outlive the sender. */
typedef struct gw_alarm_outlets {
    /* A command line, split into words as a shell splits them, but without a shell: nothing is expanded. The
     * alarm's JSON comes on standard input; GODWIT_ALARM (kind), GODWIT_ALARM_KEY, GODWIT_ALARM_OVER (0 or 1) and
     * GODWIT_ALARM_TEXT are in its environment. It has 30 s. NULL: none. */
    const char *command;
    const char *url; /* http:// or https://, which gets the JSON by POST; NULL: none */
    const char *job, *cluster, *name;
    gw_hash job_id;
    gw_peer_id self;
} gw_alarm_outlets;

typedef struct gw_alarm_sender gw_alarm_sender;

/* Checks the outlets: the command's first word must be a program, and libcurl must be there for a URL. Fails with
 * GW_E_USAGE or GW_E_UNSUPPORTED. Any thread. */
bool gw_alarm_outlets_check(const char *command, const char *url, gw_err *err);

/* Starts the thread. NULL on failure. */
gw_alarm_sender *gw_alarm_sender_open(const gw_alarm_outlets *outlets, gw_err *err);
/* Sends what waits, each once, for `patience_ns` at the most, and ends the thread. NULL is allowed. */
void gw_alarm_sender_close(gw_alarm_sender *sender, uint64_t patience_ns);

/* A gw_alarm_send: queues the alarm; never waits. The context is the sender. Any thread. */
gw_alarm_send gw_alarm_sender_put;

/* The JSON of an alarm, one line, which the caller frees. */
char *gw_alarm_json(const gw_alarm_outlets *outlets, const gw_alarm *alarm, uint64_t left_out);

#endif
