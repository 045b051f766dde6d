/* How `godwit audit --spike` shows what it has found. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_AUDIT_SPIKE_H
#define GODWIT_TOOLS_GODWIT_COMMAND_AUDIT_SPIKE_H

#include "tools/godwit/audit/spike.h"

typedef struct gw_audit_spike {
    gw_alarm_loss rule;
    gw_spikes spikes;
    uint64_t step;    /* that was looked at; 0: none was */
    double value;     /* the report in it, as it was computed again; NAN: it was not, or has no such report */
    gw_course before; /* the report's course before; count 0: it is not known */
    gw_extremes own;  /* its shards; step 0: they were not computed, as an earlier step differs */
    uint32_t behind;  /* steps before it that were looked at, as no shard of it stands out */
    gw_extremes earlier; /* the latest of these in which a shard stands out; step 0: there is none */
} gw_audit_spike;

/* What the report does, as the rest of a line, and lines that explain it. */
void gw_audit_spike_print(const gw_audit_spike *spike);
/* The shards that stand out, and their samples. */
void gw_audit_spike_print_shards(const gw_audit_spike *spike);
/* All of it, as keys of an object. */
void gw_audit_spike_put(const gw_audit_spike *spike, json_t *object);

#endif
