/* The rule about starts that came to nothing: a peer that was refused, by its own checks or by the other peers, before
 * it took part. Somebody mistyped a command, as a rule, and a supervisor or a launcher repeats it: what comes close
 * together is one event, whichever peers it is of. */
#include "tools/godwit/why/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A start that is refused so soon after another one was belongs to it. */
#define TOGETHER_S 20.0

static int by_end(const void *a, const void *b) {
    double left = (*(const gw_why_life *const *)a)->last, right = (*(const gw_why_life *const *)b)->last;
    return left < right ? -1 : left > right;
}

static void tell_refusals(const gw_why_record *record, const gw_why_life *const *lives, size_t count,
                          gw_findings *findings) {
    char who[GW_WHY_LIST], span[GW_WHY_SPAN], often[GW_WHY_OFTEN];
    const gw_why_life *last = lives[count - 1];
    const char *text = last->text[0] != '\0' ? last->text : "no reason is given";
    const char *stop = text[strlen(text) - 1] == '.' ? "" : ".";
    gw_finding *finding = gw_findings_add(findings, "refused", lives[0]->last, last->last);
    if (finding == NULL) return;
    finding->times = (uint32_t)count;
    for (size_t i = 0; i < count; i++) gw_why_set_add(&finding->peers, lives[i]->peer);
    gw_why_list(record, &finding->peers, who);
    if (count == 1)
        snprintf(finding->text, sizeof finding->text, "A start of %s was turned away: %s%s", who, text, stop);
    else
        snprintf(finding->text, sizeof finding->text,
                 "Starts of %s were turned away %s within %s. The last one: %s%s", who,
                 gw_why_times(count, often), gw_why_span(last->last - lives[0]->last, span), text, stop);
    snprintf(finding->evidence, sizeof finding->evidence,
             "Nobody had begun to compute: the flock lost nothing.");
    snprintf(finding->advice, sizeof finding->advice,
             "Do what the message says, and start the peer again with the command of the job.");
}

void gw_why_refusals(const gw_why_record *record, gw_findings *findings) {
    const gw_why_life **lives = calloc(record->life_count + 1, sizeof(const gw_why_life *));
    size_t count = 0;
    for (size_t i = 0; lives != NULL && i < record->life_count; i++)
        if (gw_why_turned_away(&record->lives[i])) lives[count++] = &record->lives[i];
    if (count > 0) qsort(lives, count, sizeof(const gw_why_life *), by_end);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && lives[end]->last - lives[end - 1]->last <= TOGETHER_S;) end++;
        tell_refusals(record, lives + i, end - i, findings);
    }
    free(lives);
}
