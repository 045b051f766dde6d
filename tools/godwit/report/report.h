/* The report of a run: one page of HTML that needs nothing outside of itself, made of what peers keep in their
 * directories: the journals (tools/godwit/why/record.h), the series of what the job reports, energy and receipts.
 *
 * It has at most GW_REPORT_BYTES bytes however long the run was: curves are of some hundreds of points, and the
 * oldest of very many findings are counted. Texts of the files are escaped. Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_REPORT_REPORT_H
#define GODWIT_TOOLS_GODWIT_REPORT_REPORT_H

#include "tools/godwit/why/findings.h"

#include <stdio.h>

enum { GW_REPORT_BYTES = 2000000 };
/* A line in the head of each page, by which a file is known as one. */
#define GW_REPORT_MARK "<meta name=\"generator\" content=\"godwit report\">"

typedef struct gw_report_sources {
    const gw_why_record *record; /* of the directories of the report */
    const gw_findings *findings;
    const char *metrics; /* a file of --metrics, whose curves are drawn instead of the series; NULL: none */
} gw_report_sources;

/* Writes the page. Fails with GW_E_NOMEM, GW_E_IO, and as reading the file of metrics does; files of the
 * directories that are not there or cannot be used are left out, and the page says so. */
bool gw_report_write(const gw_report_sources *sources, FILE *out, gw_err *err);

#endif
