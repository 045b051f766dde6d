#include "tools/godwit/why/tell.h"

#include "tools/godwit/text/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* More findings than this are counted, the oldest of them. */
enum { SHOWN = 100, WIDTH = 79, INDENT = 10 };

/* Sums. */

static void sum_journal(const gw_why_record *record, int journal, gw_why_sums *sums) {
    uint64_t checkpoints = 0, joins = 0, views = 0, repaired = 0;
    double joined_s = 0;
    for (size_t i = 0; i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->journal != journal) continue;
        checkpoints += event->kind == GW_WHY_CHECKPOINT;
        views += event->kind == GW_WHY_VIEW;
        if (event->kind == GW_WHY_REPAIR) repaired += event->number;
        if (event->kind == GW_WHY_JOIN) {
            joins += event->number;
            joined_s += event->value * 1e-3;
        }
        if (event->kind != GW_WHY_PROGRESS) continue;
        sums->computed += event->progress->computed;
        sums->stolen += event->progress->stolen;
    }
    if (checkpoints > sums->checkpoints) sums->checkpoints = checkpoints;
    if (joins > sums->joins) sums->joins = joins;
    if (views > sums->views) sums->views = views;
    if (repaired > sums->repaired) sums->repaired = repaired;
    if (joined_s > sums->joined_s) sums->joined_s = joined_s;
}

static void count_finding(const gw_finding *finding, gw_why_sums *sums) {
    const struct {
        const char *kind;
        uint64_t *sum;
    } table[] = {{"death", &sums->deaths}, {"refused", &sums->refused},  {"stall", &sums->stalls},
                 {"cut", &sums->cuts},     {"unreachable", &sums->cuts}, {"corruption", &sums->corruption},
                 {"disk", &sums->disks},   {"device", &sums->devices},   {"worker", &sums->workers}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(finding->kind, table[i].kind) == 0) *table[i].sum += finding->times;
    if (strcmp(finding->kind, "all-ended") == 0) sums->deaths += (uint64_t)gw_why_set_count(&finding->peers);
}

void gw_why_sum(const gw_why_record *record, const gw_findings *findings, gw_why_sums *sums) {
    *sums = (gw_why_sums){0};
    for (int i = 0; i < record->journal_count; i++) sum_journal(record, i, sums);
    for (size_t i = 0; i < findings->count; i++) {
        sums->lost_s += findings->list[i].lost_s;
        count_finding(&findings->list[i], sums);
    }
}

/* Lines. */

static const char *job_of(const gw_why_record *record) {
    return record->job.name[0] != '\0' ? record->job.name : "unknown";
}

static char *format(const char *words, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *words, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, words);
    int length = vasprintf(&text, words, arguments);
    va_end(arguments);
    return length < 0 ? NULL : text;
}

static bool same_day(double a, double b) {
    char one[GW_WHY_WHEN], other[GW_WHY_WHEN];
    enum { DAY = 10 }; /* "Tue 25 Nov" */
    return strncmp(gw_why_when(a, true, one), gw_why_when(b, true, other), DAY) == 0;
}

char *gw_why_head(const gw_why_record *record) {
    char from[GW_WHY_WHEN], to[GW_WHY_WHEN], span[GW_WHY_SPAN], steps[60];
    if (record->last_step == 0)
        snprintf(steps, sizeof steps, "no step told so far");
    else if (record->first_step == record->last_step)
        snprintf(steps, sizeof steps, "step %" PRIu64, record->last_step);
    else
        snprintf(steps, sizeof steps, "steps %" PRIu64 " to %" PRIu64, record->first_step, record->last_step);
    return format("Job %s (%.8s): the journal%s of %d of %d known peer%s, from %s to %s (%s), %s.",
                  job_of(record), record->job.id[0] != '\0' ? record->job.id : "no id",
                  record->journal_count == 1 ? "" : "s", record->journal_count, record->peer_count,
                  record->peer_count == 1 ? "" : "s", gw_why_when(record->first, true, from),
                  gw_why_when(record->last, !same_day(record->first, record->last), to),
                  gw_why_span(record->last - record->first, span), steps);
}

char *gw_why_others(const gw_why_record *record) {
    char when[GW_WHY_WHEN], list[300] = "";
    for (int i = 0; i < record->other_count; i++) {
        const gw_why_job *one = &record->others[i];
        size_t length = strlen(list);
        if (length < sizeof list - 1)
            snprintf(list + length, sizeof list - length, "%s%.20s (--job %.8s, last started %s)",
                     length > 0 ? ", " : "", one->name, one->id, gw_why_when(one->last, true, when));
    }
    return format("%s that ran there as well %s left out: %s.", record->other_count == 1 ? "A job" : "Jobs",
                  record->other_count == 1 ? "is" : "are", list);
}

char *gw_why_total(const gw_why_sums *sums) {
    char lost[GW_WHY_SPAN], joined[GW_WHY_SPAN];
    double part = sums->computed > 0 ? 100.0 * (double)sums->stolen / (double)sums->computed : 0;
    return format("Views: %" PRIu64 ". Checkpoints: %" PRIu64 ". Newcomers: %" PRIu64
                  ", for whom the flock paused %s. Of the shards, %.1f %% were stolen, and %" PRIu64
                  " dealt again. What happened below cost %s without steps.",
                  sums->views, sums->checkpoints, sums->joins, gw_why_span(sums->joined_s, joined), part,
                  sums->repaired, gw_why_span(sums->lost_s, lost));
}

/* Adds words to a list: with a comma, or with "or" before the last ones. */
static void add_words(char *text, size_t size, const char *before, const char *words) {
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", before, words);
}

char *gw_why_counts(const gw_why_sums *sums) {
    const struct {
        const char *word, *many;
        uint64_t count;
    } table[] = {{"death", "deaths", sums->deaths},
                 {"stall", "stalls", sums->stalls},
                 {"loss of contact", "losses of contact", sums->cuts},
                 {"corruption", "corruptions", sums->corruption},
                 {"disk fault", "disk faults", sums->disks},
                 {"device fault", "device faults", sums->devices},
                 {"worker fault", "worker faults", sums->workers}};
    enum { KINDS = sizeof table / sizeof *table };
    char some[200] = "", none[200] = "", words[60];
    size_t last = 0; /* of those that there are none of */
    for (size_t i = 0; i < KINDS; i++)
        if (table[i].count == 0) last = i;
    for (size_t i = 0; i < KINDS; i++) {
        if (table[i].count == 0) {
            const char *before = none[0] == '\0' ? "no " : i == last ? " or " : ", ";
            add_words(none, sizeof none, before, table[i].word);
            continue;
        }
        snprintf(words, sizeof words, "%" PRIu64 " %s", table[i].count,
                 table[i].count == 1 ? table[i].word : table[i].many);
        add_words(some, sizeof some, some[0] == '\0' ? "" : ", ", words);
    }
    words[0] = '\0';
    if (sums->refused > 0)
        snprintf(words, sizeof words, " %" PRIu64 " start%s turned away.", sums->refused,
                 sums->refused == 1 ? " was" : "s were");
    return format("In all: %s%s%s.%s", some, some[0] != '\0' && none[0] != '\0' ? "; " : "", none, words);
}

const char *gw_why_cost(const gw_finding *finding, char text[GW_WHY_COST]) {
    char span[GW_WHY_SPAN];
    size_t at = 0;
    text[0] = '\0';
    if (finding->lost_s >= 0.05)
        at = (size_t)snprintf(text, GW_WHY_COST, "%s without steps", gw_why_span(finding->lost_s, span));
    if (finding->view_s >= 0.05)
        at += (size_t)snprintf(text + at, GW_WHY_COST - at, "%s%s to change the view", at > 0 ? ", " : "",
                               gw_why_span(finding->view_s, span));
    if (finding->shards > 0)
        snprintf(text + at, GW_WHY_COST - at, "%s%" PRIu64 " shard%s dealt again", at > 0 ? ", " : "",
                 finding->shards, finding->shards == 1 ? "" : "s");
    return text;
}

static size_t characters(const char *text, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

void gw_why_print_words(FILE *out, const char *text, size_t before, size_t indent) {
    size_t column = before;
    bool first = true;
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        size_t bytes = strcspn(text, " "), word = characters(text, bytes);
        if (!first && column + 1 + word > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, bytes, out);
        column += word;
        text += bytes;
        first = false;
    }
    fputc('\n', out);
}

static void print_line(FILE *out, char *text) {
    if (text != NULL) gw_why_print_words(out, text, 0, 0);
    free(text);
}

static void print_more(FILE *out, const char *what, const char *text) {
    if (text[0] == '\0') return;
    fprintf(out, "%*s%s", INDENT, "", what);
    gw_why_print_words(out, text, INDENT + strlen(what), INDENT);
}

static void print_finding(FILE *out, const gw_finding *finding) {
    char when[GW_WHY_WHEN], cost[GW_WHY_COST], sentence[GW_WHY_COST + 2] = "";
    if (finding->pattern)
        fprintf(out, "%-*s", INDENT, "-");
    else
        fprintf(out, "%-*s", INDENT, gw_why_when(finding->from, false, when));
    gw_why_print_words(out, finding->text, INDENT, INDENT);
    print_more(out, "", finding->evidence);
    if (gw_why_cost(finding, cost)[0] != '\0') snprintf(sentence, sizeof sentence, "%s.", cost);
    print_more(out, "Cost: ", sentence);
    print_more(out, "To do: ", finding->advice);
}

/* Prints the findings that are patterns, or that are none. */
static void print_kind(const gw_findings *findings, bool pattern, FILE *out) {
    size_t count = 0, skipped = 0;
    double before = 0;
    char day[GW_WHY_WHEN];
    for (size_t i = 0; i < findings->count; i++) count += findings->list[i].pattern == pattern;
    if (count > SHOWN) skipped = count - SHOWN;
    if (count > 0) fprintf(out, "\n%s\n", pattern ? "What is suspicious" : "What happened");
    if (skipped > 0)
        fprintf(out, "\n%zu earlier ones are left out: --json has all, and --since chooses.\n", skipped);
    for (size_t i = 0; i < findings->count; i++) {
        const gw_finding *one = &findings->list[i];
        if (one->pattern != pattern) continue;
        if (skipped > 0) {
            skipped--;
            continue;
        }
        if (!pattern && !same_day(before, one->from)) {
            gw_why_when(one->from, true, day);
            fprintf(out, "\n%.10s\n", day);
        }
        before = one->from;
        fputc('\n', out);
        print_finding(out, one);
    }
}

void gw_why_print(const gw_why_record *record, const gw_findings *findings, double since, FILE *out) {
    gw_why_sums sums;
    char when[GW_WHY_WHEN];
    gw_why_sum(record, findings, &sums);
    print_line(out, gw_why_head(record));
    if (record->other_count > 0) print_line(out, gw_why_others(record));
    print_line(out, gw_why_total(&sums));
    if (since > 0)
        print_line(out, format("What was over before %s is left out.", gw_why_when(since, true, when)));
    if (findings->count == 0) fputs("\nNothing went wrong, as far as these journals tell.\n", out);
    print_kind(findings, false, out);
    print_kind(findings, true, out);
    if (findings->count > 0) {
        fputc('\n', out);
        print_line(out, gw_why_counts(&sums));
    }
}

/* JSON. */

static json_t *peer_object(const gw_why_record *record, int peer) {
    json_t *object = json_object();
    char name[GW_WHY_CALLED];
    gw_json_text(object, "peer", record->peers[peer].id);
    gw_json_text(object, "name", gw_why_called(record, peer, name));
    if (record->peers[peer].address[0] != '\0') gw_json_text(object, "address", record->peers[peer].address);
    return object;
}

static json_t *finding_object(const gw_why_record *record, const gw_finding *finding) {
    json_t *object = json_object(), *peers = json_array();
    gw_json_text(object, "kind", finding->kind);
    gw_json_flag(object, "pattern", finding->pattern);
    gw_json_real(object, "from", finding->from);
    gw_json_real(object, "to", finding->to);
    for (int peer = gw_why_set_next(&finding->peers, 0); peer != GW_WHY_NONE;
         peer = gw_why_set_next(&finding->peers, peer + 1))
        json_array_append_new(peers, peer_object(record, peer));
    json_object_set_new(object, "peers", peers);
    if (finding->step > 0) gw_json_count(object, "step", finding->step);
    gw_json_count(object, "times", finding->times);
    gw_json_text(object, "text", finding->text);
    if (finding->evidence[0] != '\0') gw_json_text(object, "evidence", finding->evidence);
    if (finding->advice[0] != '\0') gw_json_text(object, "advice", finding->advice);
    gw_json_real(object, "lost_s", finding->lost_s);
    gw_json_real(object, "view_s", finding->view_s);
    gw_json_count(object, "shards", finding->shards);
    return object;
}

static json_t *journal_object(const gw_why_record *record, const gw_why_journal *one) {
    json_t *object = one->peer != GW_WHY_NONE ? peer_object(record, one->peer) : json_object();
    gw_json_text(object, "dir", one->dir);
    gw_json_real(object, "from", one->first);
    gw_json_real(object, "to", one->last);
    gw_json_count(object, "lines", one->lines);
    gw_json_count(object, "damaged", one->damaged);
    gw_json_count(object, "lives", one->life_count);
    return object;
}

json_t *gw_why_json(const gw_why_record *record, const gw_findings *findings) {
    gw_why_sums sums;
    json_t *root = json_object(), *journals = json_array(), *list = json_array(), *others = json_array();
    gw_why_sum(record, findings, &sums);
    gw_json_text(root, "job", job_of(record));
    if (record->job.id[0] != '\0') gw_json_text(root, "job_id", record->job.id);
    gw_json_real(root, "from", record->first);
    gw_json_real(root, "to", record->last);
    gw_json_count(root, "first_step", record->first_step);
    gw_json_count(root, "last_step", record->last_step);
    gw_json_count(root, "views", sums.views);
    gw_json_count(root, "checkpoints", sums.checkpoints);
    gw_json_count(root, "newcomers", sums.joins);
    gw_json_real(root, "joined_s", sums.joined_s);
    gw_json_real(root, "lost_s", sums.lost_s);
    gw_json_count(root, "shards_computed", sums.computed);
    gw_json_count(root, "shards_stolen", sums.stolen);
    gw_json_count(root, "shards_repaired", sums.repaired);
    gw_json_count(root, "deaths", sums.deaths);
    gw_json_count(root, "starts_turned_away", sums.refused);
    gw_json_count(root, "stalls", sums.stalls);
    gw_json_count(root, "losses_of_contact", sums.cuts);
    gw_json_count(root, "corruptions", sums.corruption);
    gw_json_count(root, "disk_faults", sums.disks);
    gw_json_count(root, "device_faults", sums.devices);
    gw_json_count(root, "worker_faults", sums.workers);
    for (int i = 0; i < record->journal_count; i++)
        json_array_append_new(journals, journal_object(record, &record->journals[i]));
    for (size_t i = 0; i < findings->count; i++)
        json_array_append_new(list, finding_object(record, &findings->list[i]));
    for (int i = 0; i < record->other_count; i++)
        json_array_append_new(others, json_string(record->others[i].id));
    json_object_set_new(root, "other_jobs", others);
    json_object_set_new(root, "journals", journals);
    json_object_set_new(root, "findings", list);
    return root;
}
