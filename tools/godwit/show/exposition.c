#include "tools/godwit/show/exposition.h"

#include "core/params.h"
#include "tools/godwit/text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *gw_exposition_type(gw_exposition_format format) {
    return format == GW_EXPOSITION_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                               : "text/plain; version=0.0.4; charset=utf-8";
}

void gw_exposition_begin(gw_exposition *page, gw_exposition_format format) {
    *page = (gw_exposition){.format = format};
    page->out = open_memstream(&page->text, &page->size);
}

char *gw_exposition_end(gw_exposition *page) {
    if (page->out == NULL) return NULL;
    if (page->format == GW_EXPOSITION_OPENMETRICS) fputs("# EOF\n", page->out);
    if (fclose(page->out) == 0) return page->text;
    free(page->text);
    return NULL;
}

static size_t without(const char *name, size_t length, const char *suffix) {
    size_t end = strlen(suffix);
    return length > end && memcmp(name + length - end, suffix, end) == 0 ? length - end : length;
}

/* The base unit with which a name ends; NULL: none. */
static const char *unit_of(const char *name, size_t length) {
    static const char *const units[] = {"_seconds", "_bytes",  "_ratio", "_celsius",
                                        "_watts",   "_joules", "_grams", "_hertz"};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (without(name, length, units[i]) != length) return units[i] + 1;
    return NULL;
}

/* In the text format the family has the name of its samples, and there is no kind "info". In OpenMetrics
 * the suffix that the kind demands is no part of the family's name, and the unit has a line of its own. */
void gw_exposition_family(gw_exposition *page, const char *name, gw_metric_kind kind, const char *help) {
    static const char *const kinds[] = {
        [GW_METRIC_GAUGE] = "gauge", [GW_METRIC_COUNTER] = "counter", [GW_METRIC_INFO] = "info"};
    page->name = name;
    if (page->out == NULL) return;
    if (page->format == GW_EXPOSITION_TEXT) {
        const char *type = kinds[kind == GW_METRIC_INFO ? GW_METRIC_GAUGE : kind];
        fprintf(page->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
        return;
    }
    size_t length = strlen(name);
    if (kind == GW_METRIC_COUNTER) length = without(name, length, "_total");
    if (kind == GW_METRIC_INFO) length = without(name, length, "_info");
    const char *unit = unit_of(name, length);
    fprintf(page->out, "# TYPE %.*s %s\n", (int)length, name, kinds[kind]);
    if (unit != NULL) fprintf(page->out, "# UNIT %.*s %s\n", (int)length, name, unit);
    fprintf(page->out, "# HELP %.*s %s\n", (int)length, name, help);
}

void gw_exposition_label(gw_exposition *page, const char *key, const char *value) {
    if (page->out == NULL) return;
    fprintf(page->out, "%s%s%s=\"", page->labelled ? "" : page->name, page->labelled ? "," : "{", key);
    page->labelled = true;
    char *clean = gw_utf8(value, strlen(value));
    for (const char *at = clean; at != NULL && *at != '\0'; at++) {
        if (*at == '\n') {
            fputs("\\n", page->out);
            continue;
        }
        if (*at == '\\' || *at == '"') fputc('\\', page->out);
        fputc(*at, page->out);
    }
    free(clean);
    fputc('"', page->out);
}

/* Writes what stands before the value. */
static void end_labels(gw_exposition *page) {
    fputs(page->labelled ? "} " : page->name, page->out);
    if (!page->labelled) fputc(' ', page->out);
    page->labelled = false;
}

/* The number has the fewest digits that are read back as the same one. Not-a-number is always "NaN": printf
 * writes "-nan" for some, and Prometheus refuses the whole page for it. */
void gw_exposition_number(gw_exposition *page, double value) {
    char text[GW_PARAM_REAL_TEXT];
    if (page->out == NULL) return;
    end_labels(page);
    if (isfinite(value))
        gw_param_real_text(value, text);
    else
        snprintf(text, sizeof text, "%s", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    fprintf(page->out, "%s\n", text);
}

void gw_exposition_count(gw_exposition *page, uint64_t value) {
    if (page->out == NULL) return;
    end_labels(page);
    fprintf(page->out, "%" PRIu64 "\n", value);
}

void gw_exposition_gauge(gw_exposition *page, const char *name, const char *help, double value) {
    gw_exposition_family(page, name, GW_METRIC_GAUGE, help);
    gw_exposition_number(page, value);
}
