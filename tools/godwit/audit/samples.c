#include "tools/godwit/audit/samples.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "tools/godwit/text/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The sink must be first: take casts it to its taker. */
typedef struct taker {
    gw_sample_sink sink;
    gw_audit_samples *to;
} taker;

static void copy(const char *text, char *to, size_t size) {
    snprintf(to, size, "%s", text != NULL ? text : "");
    gw_utf8_make_printable(to);
}

static void take(gw_sample_sink *sink, const gw_sample *sample) {
    gw_audit_samples *to = ((taker *)(void *)sink)->to;
    to->all++;
    if (to->count == GW_AUDIT_SAMPLES) return;
    if ((to->count & (to->count - 1)) == 0) { /* a power of two */
        size_t room = to->count > 0 ? 2 * (size_t)to->count : 1;
        gw_audit_sample *list = realloc(to->list, room * sizeof *list);
        GW_ASSERT_MEMORY(list != NULL);
        to->list = list;
    }
    gw_audit_sample *one = &to->list[to->count++];
    *one = (gw_audit_sample){.index = sample->index, .count = sample->count};
    copy(sample->set, one->set, sizeof one->set);
    copy(sample->unit, one->unit, sizeof one->unit);
    copy(sample->text, one->text, sizeof one->text);
}

void gw_audit_samples_read(gw_rerun *rerun, uint64_t step, uint32_t shard, gw_audit_samples *samples) {
    taker t = {.sink.take = take, .to = samples};
    gw_err err;
    *samples = (gw_audit_samples){0};
    if (!gw_rerun_samples(rerun, step, shard, &t.sink, &err))
        snprintf(samples->unknown, sizeof samples->unknown, "%.190s", err.text);
    else if (samples->all == 0)
        snprintf(samples->unknown, sizeof samples->unknown, "the job names no samples of this shard");
}

void gw_audit_samples_free(gw_audit_samples *samples) {
    free(samples->list);
    *samples = (gw_audit_samples){0};
}

static void print_sample(const gw_audit_sample *one, FILE *out) {
    const char *unit = one->unit[0] != '\0' ? one->unit : "sample";
    fprintf(out, "    %s", unit);
    if (one->count > 1)
        fprintf(out, "s %" PRIu64 " to %" PRIu64, one->index, one->index + one->count - 1);
    else
        fprintf(out, " %" PRIu64, one->index);
    if (one->set[0] != '\0') fprintf(out, " of %s", one->set);
    if (one->text[0] != '\0') fprintf(out, ": %s", one->text);
    fputc('\n', out);
}

void gw_audit_samples_print(const gw_audit_samples *samples, FILE *out) {
    if (samples->count == 0) {
        fprintf(out, "  its samples are not known: %s\n", samples->unknown);
        return;
    }
    fprintf(out, "  its %" PRIu64 " sample%s:\n", samples->all, samples->all == 1 ? "" : "s");
    for (uint32_t i = 0; i < samples->count && i < GW_AUDIT_SHOWN; i++) print_sample(&samples->list[i], out);
    if (samples->all > GW_AUDIT_SHOWN)
        fprintf(out, "    and %" PRIu64 " more, which --json names\n", samples->all - GW_AUDIT_SHOWN);
}

void gw_audit_samples_put(const gw_audit_samples *samples, json_t *object) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < samples->count; i++) {
        const gw_audit_sample *one = &samples->list[i];
        json_t *entry = json_object();
        gw_json_count(entry, "index", one->index);
        gw_json_count(entry, "count", one->count);
        gw_json_text(entry, "unit", one->unit[0] != '\0' ? one->unit : "sample");
        gw_json_text(entry, "set", one->set[0] != '\0' ? one->set : NULL);
        gw_json_text(entry, "text", one->text[0] != '\0' ? one->text : NULL);
        json_array_append_new(list, entry);
    }
    json_object_set_new(object, "samples", list);
    gw_json_count(object, "sample_count", samples->all);
    gw_json_text(object, "samples_unknown", samples->unknown[0] != '\0' ? samples->unknown : NULL);
}
