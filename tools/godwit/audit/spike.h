/* Where a report leaves its recent course, by the series that peers keep, and which shards of a step stand out from
 * the others of that step.
 *
 * One thread. */
#ifndef GODWIT_TOOLS_GODWIT_AUDIT_SPIKE_H
#define GODWIT_TOOLS_GODWIT_AUDIT_SPIKE_H

#include "tools/godwit/alarm/course.h"
#include "tools/godwit/audit/rerun.h"
#include "tools/godwit/audit/samples.h"
#include "tools/godwit/series/series.h"

enum {
    GW_SPIKES = 64,      /* that are told apart */
    GW_EXTREMES = 8,     /* shards of a step that are named */
    GW_SPIKE_BEHIND = 8, /* steps before the spike that are looked at where no shard of it stands out */
};

/* Steps in which a report exceeds what a rule allows, and did not in the step before. */
typedef struct gw_spike {
    uint64_t begin,
        end;      /* the step in which it begins; the series of a long run may know only a range of steps */
    double value; /* the report in it; of a range, the highest */
    gw_course before; /* the report's course up to `begin` */
} gw_spike;

typedef struct gw_spikes {
    char series[GW_SERIES_NAME]; /* "train/loss" */
    uint64_t last;               /* the last step that the series knows */
    uint32_t count;              /* of all; the list has the last GW_SPIKES at most */
    uint32_t listed;
    gw_spike list[GW_SPIKES]; /* in the order of steps */
} gw_spikes;

/* Looks through the series of the job in the directories: in the one that has come the furthest. A report that only
 * evaluations give is found among theirs. Fails with GW_E_NOTFOUND where no directory has series, and with GW_E_USAGE
 * where the job reports no number of that name; the message has the names that there are. */
bool gw_spikes_find(char *const *dirs, uint32_t dir_count, const gw_hash *job, const gw_alarm_loss *rule,
                    gw_spikes *spikes, gw_err *err);
/* Does the same for one series. */
void gw_spikes_of(const gw_levels *levels, const gw_alarm_loss *rule, gw_spikes *spikes);

/* A shard that stands out. */
typedef struct gw_extreme {
    uint32_t shard;
    bool by_norm; /* by the norm of what it adds to sums of several elements; otherwise by the report's sum */
    double value, usual; /* its own, and that of the middle shard of the step */
    uint64_t bad;        /* of its elements, so many are not finite or too large */
    gw_audit_samples samples;
} gw_extreme;

typedef struct gw_extremes {
    uint64_t step; /* steps done behind it */
    uint32_t shards;
    uint32_t count; /* those named; the most extreme first */
    gw_extreme list[GW_EXTREMES];
    /* where none stands out: the highest of the step, by the norm where the report has no sum of its own */
    gw_extreme highest;
} gw_extremes;

/* Computes each shard of the rerun's next step by itself, which changes nothing, and finds those whose part in the
 * report `key`, or whose norm, is far above that of the others, with their samples. Shards
 * that have less than a quarter of the highest one's are not named. */
bool gw_extremes_find(gw_rerun *rerun, const char *key, gw_extremes *extremes, gw_err *err);
void gw_extremes_free(gw_extremes *extremes);

/* Whether a value stands out among others, of which `usual` is the median and `spread` the median of the
 * distances from it: it is twice the former, and more than six standard deviations above it, where values are
 * distributed normally. */
bool gw_extreme_stands_out(double value, double usual, double spread);

#endif
