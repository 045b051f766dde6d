/* The table of the rules, in the order in which they are applied: later ones look at the findings of earlier ones. */
#include "tools/godwit/why/findings.h"

#include <stdlib.h>

static gw_why_rule *const rules[] = {
    /* What happened. */
    gw_why_deaths,
    gw_why_refusals,
    gw_why_cuts,
    gw_why_stalls,
    gw_why_workers,
    gw_why_slow,
    gw_why_corruption,
    gw_why_disks,
    gw_why_devices,
    gw_why_limits,
    gw_why_clocks,
    gw_why_losses,
    gw_why_views,
    /* What is suspicious. */
    gw_why_hosts,
    gw_why_loops,
    gw_why_hours,
    gw_why_filling,
    gw_why_memory,
    gw_why_saving,
    gw_why_unsaved,
    gw_why_uneven,
    gw_why_journals,
    gw_why_log,
};

static int in_order(const void *a, const void *b) {
    const gw_finding *left = a, *right = b;
    if (left->pattern != right->pattern) return left->pattern ? 1 : -1;
    return left->from < right->from ? -1 : left->from > right->from;
}

/* A pause is charged to the first finding that it followed. */
static void charge_once(gw_findings *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        gw_finding *one = &findings->list[i];
        for (size_t k = i; one->pause != NULL && k > 0; k--) {
            if (findings->list[k - 1].pause != one->pause) continue;
            one->lost_s = 0;
            one->shards = 0;
            break;
        }
    }
}

void gw_why_find(const gw_why_record *record, gw_findings *findings) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) rules[i](record, findings);
    if (findings->count > 1) qsort(findings->list, findings->count, sizeof *findings->list, in_order);
    charge_once(findings);
}
