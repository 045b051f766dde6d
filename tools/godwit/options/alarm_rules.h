/* When an alarm is raised: the argument of --alarm. */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_ALARM_RULES_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_ALARM_RULES_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_ALARM_LOSSES = 8, GW_ALARM_KEY = 32 };

/* A rule about a number that the job reports. */
typedef struct gw_alarm_loss {
    char key[GW_ALARM_KEY]; /* "loss" */
    bool spike;             /* it exceeds `limit` times its recent mean; otherwise it exceeds `limit` */
    double limit;
} gw_alarm_loss;

typedef struct gw_alarm_rules {
    uint64_t progress_ns; /* no step for so long; 0 = no alarm */
    uint64_t
        checkpoint_ns; /* no checkpoint for so long; 0 = no alarm; UINT64_MAX = three of the job's intervals,
                               an hour at least */
    double disk;       /* a smaller share of the disk is free; 0 = no alarm */
    gw_alarm_loss losses[GW_ALARM_LOSSES];
    uint32_t loss_count;
} gw_alarm_rules;

/* The rules without --alarm: progress=10m,checkpoint=auto,disk=5%. */
gw_alarm_rules gw_alarm_rules_default(void);
/* Parses "progress=10m,checkpoint=2h,disk=5%,loss>8,val_loss>3x" into *rules, of which what is not named stays.
 * A time may be "off", and so may the share. Fails with GW_E_USAGE and a text that names the part. */
bool gw_alarm_rules_parse(const char *text, gw_alarm_rules *rules, gw_err *err);

#endif
