/* The rules about patterns: what is suspicious because it happens again and again, or grows. */
#include "tools/godwit/why/findings.h"

#include "tools/godwit/show/events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static gw_finding *add_pattern(gw_findings *findings, const char *kind, int peer, double from, double to) {
    gw_finding *finding = gw_findings_add_pattern(findings, kind, from, to);
    if (finding != NULL) gw_why_set_add(&finding->peers, peer);
    return finding;
}

/* Hosts. */

static bool is_failure(const gw_finding *finding) {
    static const char *const kinds[] = {"death", "stall", "worker", "slow", "corruption", "disk", "device"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(finding->kind, kinds[i]) == 0) return true;
    return false;
}

/* Whether an address names no host: it is not known, or each machine has it. */
static bool is_local(const char *address) {
    return address[0] == '\0' || strncmp(address, "127.", 4) == 0 || strcmp(address, "[::1]") == 0;
}

/* Where a peer runs: its address, or, where several peers have the same one (on one machine) or none is known, the
 * peer itself. */
static bool same_host(const gw_why_record *record, int a, int b) {
    const gw_why_peer *one = &record->peers[a], *other = &record->peers[b];
    if (a == b) return true;
    return !is_local(one->address) && strcmp(one->address, other->address) == 0;
}

static int failures_of(const gw_why_record *record, const gw_findings *findings, size_t count, int peer) {
    int failures = 0;
    for (size_t i = 0; i < count; i++) {
        const gw_finding *one = &findings->list[i];
        int first = gw_why_set_next(&one->peers, 0);
        failures += is_failure(one) && first != GW_WHY_NONE && same_host(record, first, peer);
    }
    return failures;
}

void gw_why_hosts(const gw_why_record *record, gw_findings *findings) {
    enum { LEAST = 4 };
    char name[GW_WHY_CALLED];
    size_t count = findings->count;
    int all = 0, hosts = 0, most = 0, worst = GW_WHY_NONE;
    for (size_t i = 0; i < count; i++) all += is_failure(&findings->list[i]);
    if (all < LEAST) return;
    for (int peer = 0; peer < record->peer_count; peer++) {
        bool first = true;
        for (int other = 0; other < peer && first; other++) first = !same_host(record, other, peer);
        if (!first) continue;
        hosts++;
        int failures = failures_of(record, findings, count, peer);
        if (failures > most) {
            most = failures;
            worst = peer;
        }
    }
    /* With two hosts, chance puts most failures at one of them. */
    if (hosts < 3 || most < LEAST || most * 5 < all * 3) return;
    gw_finding *finding = add_pattern(findings, "host", worst, record->first, record->last);
    if (finding == NULL) return;
    gw_why_called(record, worst, name);
    const char *address = record->peers[worst].address;
    if (is_local(address))
        snprintf(finding->text, sizeof finding->text, "%d of %d failures were at %s, one of %d peers.", most,
                 all, name, hosts);
    else
        snprintf(finding->text, sizeof finding->text, "%d of %d failures were at %s (%s), one of %d hosts.",
                 most, all, name, address, hosts);
    snprintf(finding->advice, sizeof finding->advice,
             "Take that host out (a peer that gets SIGTERM leaves, and the others go on), and test it.");
}

/* Restarts. */

void gw_why_loops(const gw_why_record *record, gw_findings *findings) {
    enum { LIVES = 3 };
    const double SHORT_S = 120;
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], end[GW_WHY_END];
    for (size_t i = 0; i < record->life_count;) {
        const gw_why_life *first = &record->lives[i], *last = first;
        size_t row = 0, refused = 0;
        while (i + row < record->life_count) {
            const gw_why_life *life = &record->lives[i + row];
            bool ended = life->next != 0 && !gw_why_wanted(life);
            if (life->journal != first->journal || !ended || life->next - life->began > SHORT_S) break;
            last = life;
            refused += gw_why_turned_away(life);
            row++;
        }
        i += row > 0 ? row : 1;
        if (row < LIVES || refused == row) continue; /* gw_why_refusals tells of the latter */
        gw_finding *finding = add_pattern(findings, "restarts", first->peer, first->began, last->next);
        if (finding == NULL) return;
        gw_why_called(record, first->peer, name);
        snprintf(finding->text, sizeof finding->text,
                 "%s was started %zu times within %s and ended again each time; the last time it %s.", name,
                 row + 1, gw_why_span(last->next - first->began, span), gw_why_end(last, end));
        snprintf(finding->advice, sizeof finding->advice,
                 "Stop the supervisor there, start the peer by hand, and mend what its last line says.");
    }
}

/* Straight lines. */

/* Points in time, of one journal. */
typedef struct points {
    double *x, *y;
    size_t count;
} points;

typedef double point_value(const gw_why_progress *progress);

static double room_of(const gw_why_progress *progress) {
    return progress->room_bytes;
}

static double memory_of(const gw_why_progress *progress) {
    return progress->rss_bytes;
}

/* Collects what the progress lines of a journal say between two times. */
static points collect(const gw_why_record *record, int journal, double from, double to, point_value *value) {
    points all = {.x = calloc(record->event_count + 1, sizeof(double)),
                  .y = calloc(record->event_count + 1, sizeof(double))};
    for (size_t i = gw_why_from(record, from); all.x && all.y && i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->time > to) break;
        if (event->kind != GW_WHY_PROGRESS || event->journal != journal || value(event->progress) <= 0)
            continue;
        all.x[all.count] = event->time;
        all.y[all.count++] = value(event->progress);
    }
    return all;
}

static void free_points(points *all) {
    free(all->x);
    free(all->y);
    *all = (points){0};
}

/* The line of least squares: its slope, and the part of the variance that it explains. */
typedef struct line {
    double slope, fit;
} line;

static line line_of(const points *all) {
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, yy = 0;
    for (size_t i = 0; i < all->count; i++) {
        mean_x += (all->x[i] - mean_x) / (double)(i + 1);
        mean_y += (all->y[i] - mean_y) / (double)(i + 1);
    }
    for (size_t i = 0; i < all->count; i++) {
        double x = all->x[i] - mean_x, y = all->y[i] - mean_y;
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    if (xx <= 0 || yy <= 0) return (line){0};
    return (line){.slope = xy / xx, .fit = xy * xy / (xx * yy)};
}

/* Disks that fill. */

static void look_at_room(const gw_why_record *record, int journal, gw_findings *findings) {
    const double DAY_S = 86400, LEAST_S = 1800, FAR_S = 14 * DAY_S;
    enum { LEAST = 10 };
    const gw_why_journal *of = &record->journals[journal];
    points all = collect(record, journal, of->last - DAY_S, of->last, room_of);
    line fall = line_of(&all);
    double newest = all.count > 0 ? all.y[all.count - 1] : 0;
    bool long_enough = all.count >= LEAST && all.x[all.count - 1] - all.x[0] >= LEAST_S;
    free_points(&all);
    if (!long_enough || fall.slope >= 0 || fall.fit < 0.6 || newest / -fall.slope > FAR_S) return;
    double full = of->last + newest / -fall.slope;
    char name[GW_WHY_CALLED], when[GW_WHY_WHEN], room[GW_BYTES_TEXT], rate[GW_BYTES_TEXT];
    gw_finding *finding = add_pattern(findings, "disk-fills", of->peer, of->last, of->last);
    if (finding == NULL) return;
    gw_why_called(record, of->peer, name);
    snprintf(finding->text, sizeof finding->text,
             "The disk of %s fills by %s a day, has %s left, and is full at this rate by %s.", name,
             gw_events_bytes((uint64_t)(-fall.slope * DAY_S), rate), gw_events_bytes((uint64_t)newest, room),
             gw_why_when(full, true, when));
    snprintf(finding->advice, sizeof finding->advice,
             "Look for what grows there (du -x), take a smaller --keep, or 'godwit prune' old jobs.");
}

void gw_why_filling(const gw_why_record *record, gw_findings *findings) {
    for (int i = 0; i < record->journal_count; i++) look_at_room(record, i, findings);
}

/* Memory that grows. */

static void look_at_memory(const gw_why_record *record, const gw_why_life *life, gw_findings *findings) {
    const double LEAST_S = 3600, LEAST_BYTES = 64 << 20;
    enum { LEAST = 30 };
    double from = life->began + (life->last - life->began) / 5; /* a process needs more at first */
    if (life->last - from < LEAST_S) return;
    points all = collect(record, life->journal, from, life->last, memory_of);
    line rise = line_of(&all);
    double first = all.count > 0 ? all.y[0] : 0, last = all.count > 0 ? all.y[all.count - 1] : 0;
    bool enough = all.count >= LEAST;
    free_points(&all);
    if (!enough || rise.fit < 0.8 || last - first < LEAST_BYTES || last < 1.1 * first) return;
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], was[GW_BYTES_TEXT], is[GW_BYTES_TEXT], rate[GW_BYTES_TEXT];
    gw_finding *finding = add_pattern(findings, "memory-grows", life->peer, from, life->last);
    if (finding == NULL) return;
    gw_why_called(record, life->peer, name);
    snprintf(finding->text, sizeof finding->text,
             "The memory of %s grew steadily from %s to %s in %s, by %s an hour.", name,
             gw_events_memory((uint64_t)first, was), gw_events_memory((uint64_t)last, is),
             gw_why_span(life->last - from, span), gw_events_memory((uint64_t)(rise.slope * 3600), rate));
    snprintf(
        finding->advice, sizeof finding->advice,
        "Suspect the job's own code (a program's workers above all); restart that peer before it is full.");
}

void gw_why_memory(const gw_why_record *record, gw_findings *findings) {
    for (size_t i = 0; i < record->life_count; i++) look_at_memory(record, &record->lives[i], findings);
}

/* Hours of the day at which a peer is slow. */

enum { HOURS = 24, DAYS = 400, DAYS_LEAST = 3 };

/* Speeds by day and hour of local time. */
typedef struct calendar {
    int first_day; /* days since 1970, by local time */
    int days;
    double sum[DAYS][HOURS];
    uint32_t count[DAYS][HOURS];
} calendar;

static bool place_of(double time, int *day, int *hour) {
    struct tm local;
    time_t seconds = (time_t)time;
    if (localtime_r(&seconds, &local) == NULL) return false;
    *day = (int)((time + (double)local.tm_gmtoff) / 86400);
    *hour = local.tm_hour;
    return true;
}

static void fill_calendar(const gw_why_record *record, int journal, calendar *c) {
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        int day, hour;
        if (event->kind != GW_WHY_PROGRESS || event->journal != journal || event->progress->speed <= 0)
            continue;
        if (!place_of(event->time, &day, &hour)) continue;
        if (c->days == 0) c->first_day = day;
        day -= c->first_day;
        if (day < 0 || day >= DAYS) continue;
        if (day >= c->days) c->days = day + 1;
        c->sum[day][hour] += event->progress->speed;
        c->count[day][hour]++;
    }
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* The median of a day's hours; 0 where few are known. */
static double median_of_day(const calendar *c, int day) {
    double hours[HOURS];
    int known = 0;
    for (int hour = 0; hour < HOURS; hour++)
        if (c->count[day][hour] > 0) hours[known++] = c->sum[day][hour] / c->count[day][hour];
    if (known < HOURS / 4) return 0;
    qsort(hours, (size_t)known, sizeof *hours, by_size);
    return hours[known / 2];
}

/* Notes the hours that are slow on three days of four, and at least on three. */
static int slow_hours(const calendar *c, bool slow[HOURS], double *part) {
    int days[HOURS] = {0}, slow_days[HOURS] = {0}, found = 0;
    double sum = 0;
    int parts = 0;
    for (int day = 0; day < c->days; day++) {
        double usual = median_of_day(c, day);
        for (int hour = 0; hour < HOURS && usual > 0; hour++) {
            if (c->count[day][hour] == 0) continue;
            double share = c->sum[day][hour] / c->count[day][hour] / usual;
            days[hour]++;
            if (share >= 0.7) continue;
            slow_days[hour]++;
            sum += share;
            parts++;
        }
    }
    for (int hour = 0; hour < HOURS; hour++) {
        slow[hour] = slow_days[hour] >= DAYS_LEAST && slow_days[hour] * 4 >= days[hour] * 3;
        found += slow[hour];
    }
    *part = parts > 0 ? sum / parts : 1;
    return found;
}

static void look_at_hours(const gw_why_record *record, int journal, calendar *c, gw_findings *findings) {
    bool slow[HOURS];
    double part;
    const gw_why_journal *of = &record->journals[journal];
    if (of->last - of->first < 2 * 86400.0) return;
    fill_calendar(record, journal, c);
    int found = slow_hours(c, slow, &part), begin = 0;
    if (found == 0 || found > HOURS / 2) return;
    while (begin < HOURS - 1 && !(slow[begin] && !slow[(begin + HOURS - 1) % HOURS])) begin++;
    int end = begin;
    for (int i = 0; i < HOURS && slow[end % HOURS]; i++) end++;
    char name[GW_WHY_CALLED];
    gw_finding *finding = add_pattern(findings, "hours", of->peer, of->first, of->last);
    if (finding == NULL) return;
    gw_why_called(record, of->peer, name);
    snprintf(finding->text, sizeof finding->text,
             "%s slows down each day from %02d:00 to %02d:00, to %.0f %% of its usual speed.", name, begin,
             end % HOURS, part * 100);
    snprintf(
        finding->advice, sizeof finding->advice,
        "Look for what is started there by the clock at that hour: backups, updates, other users' jobs.");
}

void gw_why_hours(const gw_why_record *record, gw_findings *findings) {
    calendar *c = calloc(1, sizeof *c);
    for (int i = 0; c != NULL && i < record->journal_count; i++) look_at_hours(record, i, c, findings);
    free(c);
}

/* Checkpoints. */

typedef struct saves {
    double times[2]; /* of the first and the last quarter: means */
    double bytes[2];
    int count;
    double first, last;
} saves;

static saves look_at_saves(const gw_why_record *record, int journal) {
    saves all = {0};
    int number = 0, quarter;
    for (size_t i = 0; i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        all.count += event->kind == GW_WHY_CHECKPOINT && event->journal == journal && event->value > 0;
    }
    quarter = all.count / 4;
    for (size_t i = 0; quarter > 0 && i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind != GW_WHY_CHECKPOINT || event->journal != journal || event->value <= 0) continue;
        if (number == 0) all.first = event->time;
        all.last = event->time;
        int place = number < quarter ? 0 : number >= all.count - quarter ? 1 : -1;
        number++;
        if (place < 0) continue;
        all.times[place] += event->value * 1e-3 / quarter;
        all.bytes[place] += (double)event->number / quarter;
    }
    return all;
}

void gw_why_saving(const gw_why_record *record, gw_findings *findings) {
    enum { LEAST = 8 };
    char name[GW_WHY_CALLED], was[GW_WHY_SPAN], is[GW_WHY_SPAN];
    for (int i = 0; i < record->journal_count; i++) {
        saves all = look_at_saves(record, i);
        bool longer = all.times[1] >= 2 * all.times[0] && all.times[1] - all.times[0] >= 1;
        if (all.count < LEAST || !longer || all.bytes[1] > 1.5 * all.bytes[0]) continue;
        gw_finding *finding =
            add_pattern(findings, "checkpoints-slow", record->journals[i].peer, all.first, all.last);
        if (finding == NULL) return;
        gw_why_called(record, record->journals[i].peer, name);
        snprintf(finding->text, sizeof finding->text,
                 "Checkpoints take longer and longer at %s: %s at first, %s at last, for no more bytes.",
                 name, gw_why_span(all.times[0], was), gw_why_span(all.times[1], is));
        snprintf(
            finding->advice, sizeof finding->advice,
            "Look at the load and the health of that disk (iostat -x, smartctl -a), and at its file system.");
    }
}

/* How long no checkpoint has become complete at the end of the record, though the run goes on. */
void gw_why_unsaved(const gw_why_record *record, gw_findings *findings) {
    const double LEAST_S = 600;
    double first = 0, last = 0, stepped = 0, ended = 0;
    int count = 0;
    char span[GW_WHY_SPAN], usual[GW_WHY_SPAN];
    for (size_t i = 0; i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind == GW_WHY_DONE) ended = event->time;
        if (event->kind == GW_WHY_PROGRESS && event->progress->made > 0) stepped = event->time;
        if (event->kind != GW_WHY_CHECKPOINT || event->time < last + 0.5)
            continue; /* each peer tells of it */
        if (count++ == 0) first = event->time;
        last = event->time;
    }
    if (count < 3 || ended > last) return;
    double every = (last - first) / (count - 1), since = stepped - last;
    if (since < LEAST_S || since < 5 * every) return;
    gw_finding *finding = add_pattern(findings, "no-checkpoint", GW_WHY_NONE, last, stepped);
    if (finding == NULL) return;
    snprintf(finding->text, sizeof finding->text,
             "Steps are made, and for %s no checkpoint has become complete; before, one did every %s.",
             gw_why_span(since, span), gw_why_span(every, usual));
    snprintf(
        finding->advice, sizeof finding->advice,
        "Look at 'disk_writable' in 'godwit status --json' on each node, and make room where it is false.");
}

/* Stealing. */

typedef struct dealt {
    uint64_t computed, stolen, lost;
} dealt;

static dealt count_dealt(const gw_why_record *record, int journal) {
    dealt all = {0};
    for (size_t i = 0; i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind != GW_WHY_PROGRESS || event->journal != journal) continue;
        all.computed += event->progress->computed;
        all.stolen += event->progress->stolen;
        all.lost += event->progress->lost;
    }
    return all;
}

void gw_why_uneven(const gw_why_record *record, gw_findings *findings) {
    enum { LEAST = 1000 };
    char name[GW_WHY_CALLED];
    for (int i = 0; i < record->journal_count; i++) {
        dealt all = count_dealt(record, i);
        uint64_t own = all.computed > all.stolen ? all.computed - all.stolen : 0, had = own + all.lost;
        if (had < LEAST || all.lost * 10 < had * 3) continue;
        const gw_why_journal *of = &record->journals[i];
        gw_finding *finding = add_pattern(findings, "stolen-from", of->peer, of->first, of->last);
        if (finding == NULL) return;
        gw_why_called(record, of->peer, name);
        snprintf(
            finding->text, sizeof finding->text,
            "Others took %.0f %% of the shards that were dealt to %s: its speed is uneven, and lower than "
            "it was when they were dealt.",
            100.0 * (double)all.lost / (double)had, name);
        snprintf(finding->advice, sizeof finding->advice,
                 "No step waits for it, but see what else runs on that node.");
    }
}

/* The journals themselves. */

void gw_why_journals(const gw_why_record *record, gw_findings *findings) {
    for (int i = 0; i < record->journal_count; i++) {
        const gw_why_journal *one = &record->journals[i];
        uint64_t lost = 0;
        for (size_t k = 0; k < record->event_count; k++) {
            const gw_why_event *event = &record->events[k];
            if (event->kind == GW_WHY_LEFT_OUT && event->journal == i) lost += event->number;
        }
        if (one->damaged <= one->life_count && lost == 0) continue; /* a kill may tear one line */
        gw_finding *finding = add_pattern(findings, "journal", one->peer, one->first, one->last);
        if (finding == NULL) return;
        snprintf(
            finding->text, sizeof finding->text,
            "The journal in %.200s has %llu damaged lines and lacks %llu that its disk did not take: what it "
            "says is incomplete.",
            one->dir, (unsigned long long)one->damaged, (unsigned long long)lost);
        snprintf(finding->advice, sizeof finding->advice, "See to that disk.");
    }
}

/* The log. */

enum { TEXTS = 512, SHOWN = 5, OFTEN = 20 };

/* A text of log lines, without its numbers. */
typedef struct said {
    const gw_why_event *first, *last;
    uint64_t count;
} said;

static bool is_name(char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f') || letter == '.' ||
           letter == ':';
}

/* Whether two texts differ in their numbers and ids only. */
static bool alike(const char *a, const char *b) {
    while (*a != '\0' && *b != '\0') {
        if (*a == *b) {
            a++;
            b++;
        } else if (is_name(*a) || is_name(*b)) {
            a += strspn(a, "0123456789abcdef.:");
            b += strspn(b, "0123456789abcdef.:");
            if (*a != *b) return false;
        } else
            return false;
    }
    return *a == *b;
}

static int by_count(const void *a, const void *b) {
    uint64_t left = ((const said *)a)->count, right = ((const said *)b)->count;
    return left > right ? -1 : left < right;
}

static void tell_said(const gw_why_record *record, const said *one, gw_findings *findings) {
    char name[GW_WHY_CALLED];
    gw_finding *finding = add_pattern(findings, "log", one->first->peer, one->first->time, one->last->time);
    if (finding == NULL) return;
    gw_why_called(record, one->last->peer, name);
    snprintf(finding->text, sizeof finding->text, "The log says %llu times, last at %s: %.*s",
             (unsigned long long)one->count, name, GW_WHY_TEXT, one->last->text);
}

void gw_why_log(const gw_why_record *record, gw_findings *findings) {
    said *all = calloc(TEXTS, sizeof *all);
    size_t count = 0;
    for (size_t i = 0; all != NULL && i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if ((event->kind != GW_WHY_WARNING && event->kind != GW_WHY_ERROR) || event->text[0] == '\0')
            continue;
        size_t k = 0;
        while (k < count && !alike(all[k].first->text, event->text)) k++;
        if (k == TEXTS) continue;
        if (k == count) all[count++].first = event;
        all[k].last = event;
        all[k].count++;
    }
    if (count > 0) qsort(all, count, sizeof *all, by_count);
    for (size_t i = 0; i < count && i < SHOWN && all[i].count >= OFTEN; i++)
        tell_said(record, &all[i], findings);
    free(all);
}
