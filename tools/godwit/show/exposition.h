/* A page of metrics for Prometheus, in its text format 0.0.4 or in OpenMetrics 1.0. The caller names each
 * family, with its samples behind it; what differs between the formats is here. Sources:
 * https://prometheus.io/docs/instrumenting/exposition_formats,
 * https://prometheus.io/docs/specs/om/open_metrics_spec
 *
 * Thread: a page belongs to its caller. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_EXPOSITION_H
#define GODWIT_TOOLS_GODWIT_SHOW_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum gw_exposition_format {
    GW_EXPOSITION_TEXT = 1,
    GW_EXPOSITION_OPENMETRICS,
} gw_exposition_format;

/* The content type of a page. */
const char *gw_exposition_type(gw_exposition_format format);

typedef enum gw_metric_kind {
    GW_METRIC_GAUGE = 1,
    GW_METRIC_COUNTER, /* its samples' name ends with _total */
    GW_METRIC_INFO,    /* its samples' name ends with _info, and their value is 1 */
} gw_metric_kind;

typedef struct gw_exposition {
    gw_exposition_format format;
    FILE *out; /* NULL: out of memory */
    char *text;
    size_t size;
    const char *name; /* of the family's samples */
    bool labelled;    /* the sample that is being written has a label */
} gw_exposition;

void gw_exposition_begin(gw_exposition *page, gw_exposition_format format);
/* Ends the page and returns its text, which the caller frees; NULL = out of memory. */
char *gw_exposition_end(gw_exposition *page);

/* Begins a family. `name` is that of its samples, and lives until the next family begins; where it ends with
 * a base unit, such as _seconds, that is the family's unit. `help` is one sentence without line breaks. */
void gw_exposition_family(gw_exposition *page, const char *name, gw_metric_kind kind, const char *help);

/* A sample is any number of labels and then its value. Values of labels may be any text. */
void gw_exposition_label(gw_exposition *page, const char *key, const char *value);
void gw_exposition_number(gw_exposition *page, double value);
void gw_exposition_count(gw_exposition *page, uint64_t value);

/* A family of one sample without labels. */
void gw_exposition_gauge(gw_exposition *page, const char *name, const char *help, double value);

#endif
