/* The rules about single troubles: a peer that stood still or was slow, wrong bits, disks, devices, limits, clocks,
 * the network, workers, and views that changed for no cause that another finding names. */
#include "tools/godwit/why/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Troubles of one kind at one peer that are closer together than this are one finding. */
#define TOGETHER_S 60.0

/* A row of events that are one finding. */
typedef struct row {
    const gw_why_event *first, *last;
    uint64_t count;
    double sum, most; /* of the values */
} row;

typedef bool row_has(const gw_why_record *record, const gw_why_event *event);
typedef void row_tell(const gw_why_record *record, const row *events, gw_findings *findings);

/* Makes rows of the events that `has` takes, for each peer, and tells of each. */
static void tell_rows(const gw_why_record *record, row_has *has, row_tell *tell, gw_findings *findings) {
    row *rows = calloc((size_t)record->peer_count + 1, sizeof *rows);
    for (size_t i = 0; rows != NULL && i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (!has(record, event)) continue;
        row *one = &rows[event->peer + 1]; /* the first is that of no known peer */
        if (one->count > 0 && event->time > one->last->time + TOGETHER_S) {
            tell(record, one, findings);
            *one = (row){0};
        }
        if (one->count++ == 0) one->first = event;
        one->last = event;
        one->sum += event->value;
        if (event->value > one->most) one->most = event->value;
    }
    for (int peer = 0; rows != NULL && peer <= record->peer_count; peer++)
        if (rows[peer].count > 0) tell(record, &rows[peer], findings);
    free(rows);
}

static gw_finding *add_row(const row *events, const char *kind, gw_findings *findings) {
    gw_finding *finding = gw_findings_add(findings, kind, events->first->time, events->last->time);
    if (finding == NULL) return NULL;
    gw_why_set_add(&finding->peers, events->first->peer);
    finding->step = events->first->step;
    return finding;
}

static bool has_words(const gw_why_event *event, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strstr(event->text, words[i]) != NULL) return true;
    return false;
}

static bool is_log(const gw_why_event *event) {
    return event->kind == GW_WHY_WARNING || event->kind == GW_WHY_ERROR;
}

/* Stalls. */

static bool is_pause(const gw_why_record *record, const gw_why_event *event) {
    (void)record;
    return event->kind == GW_WHY_PAUSE && event->value > 0;
}

static void tell_stall(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], most[GW_WHY_SPAN], count[GW_WHY_OFTEN];
    gw_finding *finding = add_row(events, "stall", findings);
    if (finding == NULL) return;
    finding->times = (uint32_t)events->count;
    finding->from -= events->first->usual * 1e-3; /* the event comes when it is over */
    gw_why_called(record, events->first->peer, name);
    if (events->count == 1)
        snprintf(finding->text, sizeof finding->text,
                 "%s stood still for %s: its process was stopped, or got no processor.", name,
                 gw_why_span(events->sum * 1e-3, span));
    else
        snprintf(finding->text, sizeof finding->text,
                 "%s stood still %s, for %s in all and %s at most: its process was stopped, or got no "
                 "processor.",
                 name, gw_why_times(events->count, count), gw_why_span(events->sum * 1e-3, span),
                 gw_why_span(events->most * 1e-3, most));
    snprintf(finding->evidence, sizeof finding->evidence,
             "Its timers came that late, by its own clock that nobody sets.");
    snprintf(finding->advice, sizeof finding->advice,
             "Look for other programs on that node, for CPU limits (cgroups), and for who stops processes.");
    gw_finding_charge(record, finding);
}

void gw_why_stalls(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_pause, tell_stall, findings);
}

/* Workers. */

/* One that ended while it computed a part of an update has a line in the log alone. */
static bool is_worker(const gw_why_record *record, const gw_why_event *event) {
    (void)record;
    return event->kind == GW_WHY_WORKER ||
           (is_log(event) && strstr(event->text, "of the update of step") != NULL &&
            strstr(event->text, "it is computed again") != NULL);
}

static void tell_worker(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], count[GW_WHY_OFTEN];
    const gw_why_event *first = events->first;
    gw_finding *finding = add_row(events, "worker", findings);
    if (finding == NULL) return;
    finding->times = (uint32_t)events->count;
    gw_why_called(record, first->peer, name);
    bool killed = strcmp(first->word, "killed") == 0 || strstr(first->text, "signal 9") != NULL;
    bool starved = strcmp(first->word, "starved") == 0;
    if (first->kind == GW_WHY_WORKER)
        snprintf(finding->text, sizeof finding->text,
                 "A worker process of %s ended %s (%s), first at shard %llu of step %llu%s%.200s.", name,
                 gw_why_times(events->count, count), first->word, (unsigned long long)first->number,
                 (unsigned long long)first->step, first->text[0] != '\0' ? ": " : "", first->text);
    else
        snprintf(finding->text, sizeof finding->text,
                 "A worker process of %s ended %s, first at an update: %.300s.", name,
                 gw_why_times(events->count, count), first->text);
    snprintf(finding->evidence, sizeof finding->evidence,
             "The peer computed again what each of them was at, with another process.");
    snprintf(finding->advice, sizeof finding->advice, "%s",
             starved  ? "Give the node more memory, or start the peer there with fewer --workers."
             : killed ? "Ask who kills processes on that node; the job itself has done nothing wrong."
                      : "Look at what the worker wrote to the log; run the same step alone to see it again.");
}

void gw_why_workers(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_worker, tell_worker, findings);
}

/* Slowness. */

/* The end of a peer's slowness as any journal tells; 0: it has none. */
static double slow_until(const gw_why_record *record, const gw_why_event *begin) {
    for (size_t i = (size_t)(begin - record->events); i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind == GW_WHY_SLOW && event->peer == begin->peer && event->number == 0)
            return event->time;
    }
    return 0;
}

static bool is_slow(const gw_why_record *record, const gw_why_event *event) {
    (void)record;
    return event->kind == GW_WHY_SLOW && event->number == 1;
}

static void tell_slow(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], until[60];
    const gw_why_event *first = events->first;
    gw_finding *finding = add_row(events, "slow", findings);
    if (finding == NULL) return;
    double end = slow_until(record, first);
    if (end > finding->to) finding->to = end;
    gw_why_called(record, first->peer, name);
    if (end > 0)
        snprintf(until, sizeof until, "for %s", gw_why_span(end - first->time, span));
    else
        snprintf(until, sizeof until, "from then on");
    snprintf(
        finding->text, sizeof finding->text,
        "%s computed %.3g shards a second instead of the usual %.3g, %s, while the others were as fast as "
        "ever.",
        name, first->value, first->usual, until);
    snprintf(
        finding->advice, sizeof finding->advice,
        "Look for heat, for other programs on that node, and for a lower clock of its processor or GPU.");
}

void gw_why_slow(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_slow, tell_slow, findings);
}

/* Wrong bits. */

static bool is_corruption(const gw_why_record *record, const gw_why_event *event) {
    static const char *const words[] = {"hash differs", "hash of the chunk differs", ".damaged", "is damaged",
                                        "bits changed", "has another hash"};
    (void)record;
    return event->kind == GW_WHY_CORRUPTION ||
           (is_log(event) && has_words(event, words, sizeof words / sizeof *words));
}

static void tell_corruption(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], count[GW_WHY_OFTEN];
    const gw_why_event *first = events->first;
    gw_finding *finding = add_row(events, "corruption", findings);
    if (finding == NULL) return;
    bool disk = strstr(first->text, "chunk") != NULL || strstr(first->text, "damaged") != NULL;
    gw_why_called(record, first->peer, name);
    snprintf(finding->text, sizeof finding->text, "%s had wrong bits (told %s): %.400s", name,
             gw_why_times(events->count, count), first->text);
    snprintf(
        finding->advice, sizeof finding->advice, "%s",
        disk ? "Check that disk (smartctl -a, the kernel's log) and replace it if it happens again."
             : "Test that machine's memory and processor or GPU, and run with --verify until it is known.");
}

void gw_why_corruption(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_corruption, tell_corruption, findings);
}

/* Disks. */

static bool is_disk(const gw_why_record *record, const gw_why_event *event) {
    static const char *const words[] = {"No space left", "Input/output error", "Read-only file system",
                                        "Disk quota exceeded", "for want of room"};
    (void)record;
    return event->kind == GW_WHY_DISK ||
           (is_log(event) && has_words(event, words, sizeof words / sizeof *words));
}

/* For how long the disk has failed in all, where the row of events says so. */
static double failed_s(const gw_why_record *record, const row *events) {
    double sum = 0;
    for (const gw_why_event *event = events->first; event <= events->last; event++)
        if (event->kind == GW_WHY_DISK && event->number == 0 && event->peer == events->first->peer)
            sum += event->value * 1e-3;
    (void)record;
    return sum;
}

static const char *said_of_disk(const gw_why_record *record, const row *events) {
    for (const gw_why_event *event = events->first; event <= events->last; event++)
        if (is_log(event) && event->peer == events->first->peer && is_disk(record, event)) return event->text;
    return "";
}

static void tell_disk(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], lasted[40] = "";
    gw_finding *finding = add_row(events, "disk", findings);
    if (finding == NULL) return;
    double seconds = failed_s(record, events);
    const char *said = said_of_disk(record, events);
    bool full =
        strstr(said, "No space") != NULL || strstr(said, "room") != NULL || strstr(said, "quota") != NULL;
    gw_why_called(record, events->first->peer, name);
    if (seconds > 0) snprintf(lasted, sizeof lasted, " for %s", gw_why_span(seconds, span));
    if (events->first->kind == GW_WHY_DISK && events->first->number == 0)
        finding->from -= events->first->value * 1e-3;
    snprintf(finding->text, sizeof finding->text, "The disk of %s %s%s%s%.300s%s", name,
             full ? "was full" : "did not take checkpoints", lasted, said[0] != '\0' ? ": " : "", said,
             said[0] != '\0' ? "" : ".");
    snprintf(finding->advice, sizeof finding->advice, "%s",
             full ? "Make room there, take a smaller --keep, or remove old jobs with 'godwit prune'."
                  : "Look at the kernel's log there (dmesg) for errors of the disk or its controller.");
}

void gw_why_disks(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_disk, tell_disk, findings);
}

/* Devices. */

static bool is_device(const gw_why_record *record, const gw_why_event *event) {
    (void)record;
    return is_log(event) && strcmp(event->word, "node/gpu") == 0 && strstr(event->text, "GPU ") != NULL;
}

static void tell_device(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], count[GW_WHY_OFTEN];
    gw_finding *finding = add_row(events, "device", findings);
    if (finding == NULL) return;
    gw_why_called(record, events->first->peer, name);
    snprintf(finding->text, sizeof finding->text, "A device of %s was in trouble (told %s): %.400s", name,
             gw_why_times(events->count, count), events->first->text);
    snprintf(finding->advice, sizeof finding->advice,
             "Run 'nvidia-smi -q' there: heat wants cooling, an Xid or ECC error a reset or another GPU.");
}

void gw_why_devices(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_device, tell_device, findings);
}

/* Limits of the process. */

static bool is_limit(const gw_why_record *record, const gw_why_event *event) {
    static const char *const words[] = {"Too many open files", "Cannot allocate memory",
                                        "memory has run out",  "memory runs out",
                                        "out of memory",       "Resource temporarily unavailable"};
    (void)record;
    return is_log(event) && has_words(event, words, sizeof words / sizeof *words);
}

static void tell_limit(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], count[GW_WHY_OFTEN];
    gw_finding *finding = add_row(events, "limit", findings);
    if (finding == NULL) return;
    bool files = strstr(events->first->text, "open files") != NULL;
    gw_why_called(record, events->first->peer, name);
    snprintf(finding->text, sizeof finding->text, "%s could not get more %s (told %s): %.400s", name,
             files ? "file descriptors" : "memory or threads", gw_why_times(events->count, count),
             events->first->text);
    snprintf(finding->advice, sizeof finding->advice, "%s",
             files
                 ? "Raise the limit of open files (ulimit -n, LimitNOFILE=) where the peer is started."
                 : "Raise the limits of memory and threads (ulimit, MemoryMax=, TasksMax=), or add memory.");
}

void gw_why_limits(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_limit, tell_limit, findings);
}

/* Clocks. */

static bool is_clock(const gw_why_record *record, const gw_why_event *event) {
    (void)record;
    return event->kind == GW_WHY_CLOCK && event->value != 0;
}

static void tell_clock(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], count[GW_WHY_OFTEN], more[60] = "";
    gw_finding *finding = add_row(events, "clock", findings);
    if (finding == NULL) return;
    gw_why_called(record, events->first->peer, name);
    if (events->count > 1)
        snprintf(more, sizeof more, ", and %s more", gw_why_times(events->count - 1, count));
    snprintf(
        finding->text, sizeof finding->text,
        "The clock of %s was set %s by %s%s. No peer trusts a clock; times here are by the clock before.",
        name, events->first->value > 0 ? "forward" : "back", gw_why_span(fabs(events->first->value), span),
        more);
    snprintf(finding->advice, sizeof finding->advice,
             "Let chrony or ntpd keep the clocks, and see that no two programs set one.");
}

void gw_why_clocks(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_clock, tell_clock, findings);
}

/* The network. */

static bool is_loss(const gw_why_record *record, const gw_why_event *event) {
    static const char *const words[] = {"are lost on the way", "no UDP datagram",
                                        "received bytes were not those"};
    (void)record;
    return event->kind == GW_WHY_PROBES ||
           (is_log(event) && has_words(event, words, sizeof words / sizeof *words));
}

static void tell_loss(const gw_why_record *record, const row *events, gw_findings *findings) {
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN];
    const gw_why_event *first = events->first;
    gw_finding *finding = add_row(events, "network", findings);
    if (finding == NULL) return;
    gw_why_called(record, first->peer, name);
    if (first->kind == GW_WHY_PROBES)
        snprintf(
            finding->text, sizeof finding->text,
            "%s got no answer in time to %llu of %.0f probes in %s: packets to or from it are lost or late.",
            name, (unsigned long long)first->number, first->value, gw_why_span(first->usual, span));
    else
        snprintf(finding->text, sizeof finding->text, "%s has trouble with the network: %.400s", name,
                 first->text);
    if (first->kind == GW_WHY_PROBES) finding->from -= first->usual;
    snprintf(finding->advice, sizeof finding->advice,
             "Look at errors and drops there (ip -s link, ethtool -S), and at the load of the links.");
}

void gw_why_losses(const gw_why_record *record, gw_findings *findings) {
    tell_rows(record, is_loss, tell_loss, findings);
}

/* Views that no other finding explains. It is the last of the rules that look at single events. */

static bool is_explained(const gw_findings *findings, size_t count, double time) {
    enum { BEFORE_S = 15, BEHIND_S = 20 };
    for (size_t i = 0; i < count; i++) {
        const gw_finding *one = &findings->list[i];
        if (!one->pattern && time >= one->from - BEFORE_S && time <= one->to + BEHIND_S) return true;
    }
    return false;
}

/* Views that came of peers that joined, or begin a run, are none that anything went wrong with. */
static bool is_usual(const gw_why_event *view) {
    static const char *const words[] = {"join",     "found", "begin",    "admit",
                                        "newcomer", "start", "no cause", "heal"};
    return view->text[0] == '\0' || has_words(view, words, sizeof words / sizeof *words);
}

void gw_why_views(const gw_why_record *record, gw_findings *findings) {
    size_t before = findings->count;
    double told = 0;
    char span[GW_WHY_SPAN];
    for (size_t i = 0; i < record->event_count; i++) {
        const gw_why_event *view = &record->events[i];
        if (view->kind != GW_WHY_VIEW || view->time < told || is_usual(view) ||
            is_explained(findings, before, view->time))
            continue;
        gw_finding *finding = gw_findings_add(findings, "view", view->time, view->time);
        if (finding == NULL) return;
        told = view->time + 5; /* each journal tells of the same view */
        finding->step = view->step;
        snprintf(finding->text, sizeof finding->text,
                 "The view was changed, to %llu peer%s, which took %s: %.400s.",
                 (unsigned long long)view->number, view->number == 1 ? "" : "s",
                 gw_why_span(view->value * 1e-3, span), view->text);
        gw_finding_charge(record, finding);
    }
}
