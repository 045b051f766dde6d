/* The parts of the page. */
#ifndef GODWIT_TOOLS_GODWIT_REPORT_INSIDE_H
#define GODWIT_TOOLS_GODWIT_REPORT_INSIDE_H

#include "core/base/id.h"
#include "tools/godwit/report/report.h"

#include <jansson.h>

/* What the last start in a journal, and its end, say of the run. */
typedef struct gw_report_peer {
    json_t *start, *done; /* the events; NULL: there are none */
    gw_hash job;
    bool has_job;
    double joules; /* 0: not known */
    bool estimate; /* a part of the joules is */
} gw_report_peer;

/* Reads that of each journal of the record, one entry a journal. The caller frees it. NULL: memory runs out. */
gw_report_peer *gw_report_peers(const gw_why_record *record);
void gw_report_peers_free(gw_report_peer *peers, int count);

/* curves.c: the charts. */
bool gw_report_curves(const gw_report_sources *sources, const gw_report_peer *peers, FILE *out, gw_err *err);
/* timeline.c: the lives of the peers, with what happened. */
void gw_report_timeline(const gw_report_sources *sources, FILE *out);

#endif
