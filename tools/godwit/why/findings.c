#include "tools/godwit/why/findings.h"

#include <stdlib.h>
#include <string.h>

static gw_finding *add(gw_findings *findings, size_t most, const char *kind, double from, double to) {
    if (findings->count >= most) return NULL;
    if (findings->count == findings->capacity) {
        size_t more = findings->capacity == 0 ? 32 : 2 * findings->capacity;
        gw_finding *grown = realloc(findings->list, more * sizeof *grown);
        if (grown == NULL) return NULL;
        findings->list = grown;
        findings->capacity = more;
    }
    gw_finding *finding = &findings->list[findings->count++];
    memset(finding, 0, sizeof *finding);
    finding->kind = kind;
    finding->times = 1;
    finding->from = from;
    finding->to = to > from ? to : from;
    return finding;
}

gw_finding *gw_findings_add(gw_findings *findings, const char *kind, double from, double to) {
    return add(findings, GW_FINDINGS_EVENTS, kind, from, to);
}

gw_finding *gw_findings_add_pattern(gw_findings *findings, const char *kind, double from, double to) {
    gw_finding *finding = add(findings, GW_FINDINGS_MOST, kind, from, to);
    if (finding != NULL) finding->pattern = true;
    return finding;
}

void gw_findings_free(gw_findings *findings) {
    free(findings->list);
    *findings = (gw_findings){0};
}

void gw_findings_since(gw_findings *findings, double since) {
    size_t kept = 0;
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].to >= since) findings->list[kept++] = findings->list[i];
    findings->count = kept;
}

/* The flock is charged with a pause whose begin and end enclose the finding, but for this much: clocks of machines
 * differ, and a death is noticed a moment later. */
#define NEAR_S 2.0
/* A pause that ends later is another finding's. */
#define LONGEST_S 1200.0

/* Notes whose journals are not asked; none where only they are here. */
static void pick_witnesses(const gw_why_record *record, const gw_finding *finding,
                           bool skipped[GW_WHY_JOURNALS]) {
    int count = 0;
    for (int i = 0; i < record->journal_count; i++) {
        int peer = record->journals[i].peer;
        skipped[i] = peer != GW_WHY_NONE && gw_why_set_has(&finding->peers, peer);
        count += skipped[i];
    }
    if (count == record->journal_count) memset(skipped, 0, GW_WHY_JOURNALS * sizeof *skipped);
}

/* The first pause of each journal that the finding may have caused; of several journals, the longest counts. */
static const gw_why_event *find_pause(const gw_why_record *record, const gw_finding *finding,
                                      const bool skipped[GW_WHY_JOURNALS]) {
    const gw_why_event *pause = NULL;
    bool seen[GW_WHY_JOURNALS];
    memcpy(seen, skipped, sizeof seen);
    for (size_t i = gw_why_from(record, finding->from); i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->time > finding->to + LONGEST_S) break;
        bool follows =
            event->kind == GW_WHY_RECOVERED && event->time - event->value * 1e-3 <= finding->to + NEAR_S;
        if (!follows || seen[event->journal]) continue;
        seen[event->journal] = true;
        if (pause == NULL || event->value - event->usual > pause->value - pause->usual) pause = event;
    }
    return pause;
}

void gw_finding_charge(const gw_why_record *record, gw_finding *finding) {
    bool skipped[GW_WHY_JOURNALS] = {false};
    pick_witnesses(record, finding, skipped);
    const gw_why_event *pause = find_pause(record, finding, skipped);
    double until = pause != NULL ? pause->time : finding->to + 2 * NEAR_S;
    uint64_t shards[GW_WHY_JOURNALS] = {0};
    for (size_t i = gw_why_from(record, finding->from - NEAR_S / 2); i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->time > until) break;
        if (skipped[event->journal]) continue;
        double took_s = event->value * 1e-3;
        if (event->kind == GW_WHY_VIEW && took_s > finding->view_s && took_s < LONGEST_S)
            finding->view_s = took_s;
        if (event->kind != GW_WHY_REPAIR) continue;
        shards[event->journal] += event->number;
        if (shards[event->journal] > finding->shards) finding->shards = shards[event->journal];
    }
    if (pause == NULL) return;
    finding->pause = pause;
    finding->lost_s = pause->value > pause->usual ? (pause->value - pause->usual) * 1e-3 : 0;
}
