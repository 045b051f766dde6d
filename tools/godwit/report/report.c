#include "tools/godwit/report/report.h"

#include "core/base/assert.h"
#include "core/os/durable.h"
#include "tools/godwit/energy/record.h"
#include "tools/godwit/journal/read.h"
#include "tools/godwit/receipt/receipt.h"
#include "tools/godwit/receipt/receipts.h"
#include "tools/godwit/report/html.h"
#include "tools/godwit/report/inside.h"
#include "tools/godwit/show/events.h"
#include "tools/godwit/why/tell.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Findings and peers that are shown at the most, and bytes of a text of the configuration. */
enum { FINDINGS = 400, PEERS = 256, VALUE = 400 };

static const char style[] =
    ":root{color-scheme:light "
    "dark;--fg:#1b1f24;--bg:#fff;--dim:#59636e;--line:#d1d9e0;--c0:#0072b2;--c1:#d55e00;"
    "--c2:#009e73;--c3:#cc79a7;--bad:#d55e00;--warn:#e69f00;--net:#0072b2;--note:#7f7f7f;--life:#9fc5e8}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--dim:#9198a1;--line:#3d444d;--c0:#"
    "56b4e9;"
    "--c1:#e8834a;--c2:#2fc99b;--c3:#dd9cc0;--bad:#ff7b4a;--net:#56b4e9;--life:#2f4a63}}\n"
    "body{font:15px/1.5 "
    "system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:1000px;margin:auto;"
    "padding:16px}h1{font-size:1.5em}h2{margin-top:1.6em;border-bottom:1px solid var(--line)}"
    "table{border-collapse:collapse;font-size:14px}th,td{padding:2px 12px 2px 0;text-align:left;"
    "vertical-align:top}th{font-weight:600}td.n,th.n{text-align:right;white-space:nowrap}"
    "tbody tr{border-top:1px solid var(--line)}.wide{overflow-x:auto}svg{width:100%;height:auto}"
    "svg text{font-size:11px;fill:var(--dim)}figure{margin:12px 0}figcaption{font-weight:600}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:12px}"
    ".grid{stroke:var(--line);stroke-width:1}.line{fill:none;stroke-width:1.5}.band{opacity:.25;stroke:none}"
    ".life{fill:var(--life)}.mark{opacity:.85}.bad{fill:var(--bad)}.warn{fill:var(--warn)}.net{fill:var(--"
    "net)}"
    ".note{fill:var(--note)}.line.c0{stroke:var(--c0)}.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}"
    ".line.c3{stroke:var(--c3)}.band.c0,.dot.c0{fill:var(--c0)}.band.c1,.dot.c1{fill:var(--c1)}"
    ".band.c2,.dot.c2{fill:var(--c2)}.band.c3,.dot.c3{fill:var(--c3)}.key{display:inline-block;width:12px;"
    "height:12px;margin:0 4px 0 12px}.key.c0{background:var(--c0)}.key.c1{background:var(--c1)}"
    ".key.c2{background:var(--c2)}.key.c3{background:var(--c3)}.k-bad{background:var(--bad)}"
    ".k-warn{background:var(--warn)}.k-net{background:var(--net)}.k-note{background:var(--note)}"
    "dl.what dt{font-weight:600;margin-top:12px}dl.what dd{margin:0 0 0 16px}.dim{color:var(--dim)}"
    "code{font-size:13px;overflow-wrap:anywhere}p{overflow-wrap:anywhere}\n";

/* What the journals say of the beginning and the end. */

static void keep(json_t **kept, json_t *event) {
    json_decref(*kept);
    *kept = json_incref(event);
}

/* A journal that is read. A start that is turned away does not take the place of the one before it. */
typedef struct ends {
    gw_report_peer *peer;
    const char *job; /* of the report: starts of others do not count; "": it is not known */
    json_t *start;   /* the last one, before it takes part; NULL: there is none such */
    bool left_out;   /* the last start was of another job */
} ends;

static void take_part(ends *e) {
    if (e->start == NULL) return;
    keep(&e->peer->start, e->start);
    keep(&e->peer->done, NULL);
    keep(&e->start, NULL);
}

static bool take_event(void *context, const char *line, size_t length, json_t *event) {
    (void)line;
    (void)length;
    ends *e = context;
    if (gw_journal_is(event, "start")) {
        const char *job = gw_journal_text(event, "job_id");
        e->left_out = e->job[0] != '\0' && (job == NULL || strcmp(job, e->job) != 0);
        keep(&e->start, e->left_out ? NULL : event);
    }
    if (gw_journal_is(event, "view")) take_part(e);
    const char *outcome = gw_journal_is(event, "done") ? gw_journal_text(event, "outcome") : NULL;
    if (outcome == NULL || strcmp(outcome, "again") == 0 || e->left_out) return true;
    bool turned_away =
        e->start != NULL && (strcmp(outcome, "refused") == 0 || strcmp(outcome, "denied") == 0);
    if (turned_away && e->peer->start != NULL) {
        keep(&e->start, NULL);
        return true;
    }
    take_part(e);
    keep(&e->peer->done, event);
    return true;
}

/* The joules of the job that the directory has counted. */
static void read_energy(const char *dir, gw_report_peer *peer) {
    char path[GW_PATH_BYTES];
    void *bytes = NULL;
    size_t length = 0;
    gw_err ignored;
    gw_energy_record record;
    bool good = gw_durable_path(path, &ignored, "%s/energy", dir) &&
                gw_durable_read(gw_io_system(), path, GW_ENERGY_RECORD_BYTES, &bytes, &length, &ignored) &&
                gw_energy_record_read(bytes, length, &record, &ignored);
    for (uint32_t i = 0; good && i < record.count; i++) {
        gw_energy sum = {0};
        if (!gw_hash_equal(&record.jobs[i].id, &peer->job)) continue;
        memcpy(sum.joules, record.jobs[i].joules, sizeof sum.joules);
        peer->joules = gw_energy_joules(&sum);
        peer->estimate = gw_energy_is_estimate(&sum);
    }
    free(bytes);
}

static bool read_hash(const char *text, gw_hash *hash) {
    static const char digits[] = "0123456789abcdef";
    enum { DIGITS = 2 * sizeof *hash };
    if (strlen(text) != DIGITS || strspn(text, digits) != DIGITS) return false;
    for (size_t i = 0; i < sizeof *hash; i++) {
        long high = strchr(digits, text[2 * i]) - digits, low = strchr(digits, text[2 * i + 1]) - digits;
        hash->bytes[i] = (uint8_t)(16 * high + low);
    }
    return true;
}

gw_report_peer *gw_report_peers(const gw_why_record *record) {
    gw_report_peer *peers = calloc((size_t)record->journal_count + 1, sizeof *peers);
    gw_err ignored; /* each journal was read before */
    for (int i = 0; peers != NULL && i < record->journal_count; i++) {
        const char *dir = record->journals[i].dir;
        ends e = {.peer = &peers[i], .job = record->job.id};
        gw_journal_read(dir, take_event, &e, NULL, &ignored);
        take_part(&e);
        const char *job = peers[i].start != NULL ? gw_journal_text(peers[i].start, "job_id") : NULL;
        peers[i].has_job = job != NULL && read_hash(job, &peers[i].job);
        if (peers[i].has_job) read_energy(dir, &peers[i]);
    }
    return peers;
}

void gw_report_peers_free(gw_report_peer *peers, int count) {
    for (int i = 0; peers != NULL && i < count; i++) {
        json_decref(peers[i].start);
        json_decref(peers[i].done);
    }
    free(peers);
}

/* The head and the summary. */

static void value_text(const json_t *value, char text[VALUE]) {
    if (json_is_string(value))
        snprintf(text, VALUE, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, VALUE, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, VALUE, "%.9g", json_real_value(value));
    else
        snprintf(text, VALUE, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "");
}

static void put_head(FILE *out, const char *job) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'\">\n" GW_REPORT_MARK "\n<title>godwit: ",
          out);
    gw_html_text(out, job);
    fprintf(out, "</title>\n<style>%s</style></head><body>\n<h1>", style);
    gw_html_text(out, job);
    fputs("</h1>\n", out);
}

static void put_paragraph(FILE *out, char *text) {
    fputs("<p>", out);
    gw_html_text(out, text);
    fputs("</p>\n", out);
    free(text);
}

/* How the run ended, first of all: as the peer says that has come to the end, or else to the furthest step. */
static void put_outcome(const gw_report_peer *peers, int count, FILE *out) {
    static const char *const words[] = {"done", "The job is done", "stopped", "The job was stopped"};
    const json_t *last = NULL;
    for (int i = 0; i < count; i++) {
        if (peers[i].done == NULL) continue;
        bool whole = json_object_get(peers[i].done, "state") != NULL;
        bool further = gw_journal_number(peers[i].done, "steps", 0) > gw_journal_number(last, "steps", -1);
        if (last == NULL || whole > (json_object_get(last, "state") != NULL) || further) last = peers[i].done;
    }
    fputs("<p id=\"outcome\"><strong>", out);
    const char *outcome = last != NULL ? gw_journal_text(last, "outcome") : NULL,
               *text = last != NULL ? gw_journal_text(last, "text") : NULL, *told = NULL;
    if (outcome == NULL) {
        fputs("The job has not ended, as far as these journals tell.</strong></p>\n", out);
        return;
    }
    for (size_t i = 0; i + 1 < sizeof words / sizeof *words; i += 2)
        if (strcmp(outcome, words[i]) == 0) told = words[i + 1];
    if (told != NULL)
        fputs(told, out);
    else
        gw_html_printf(out, "No peer has come to the end of the job; the last one: %.30s (%.300s)", outcome,
                       text != NULL ? text : "no reason is given");
    fprintf(out, ": %.0f steps", gw_journal_number(last, "steps", 0));
    char value[VALUE];
    const char *key, *state = gw_journal_text(last, "state");
    json_t *one;
    json_object_foreach(json_object_get(last, "summary"), key, one) {
        value_text(one, value);
        gw_html_printf(out, ", %.60s %.60s", key, value);
    }
    if (state != NULL) gw_html_printf(out, ", state %.64s", state);
    fputs(".</strong></p>\n", out);
}

static void put_summary(const gw_report_sources *sources, const gw_report_peer *peers, FILE *out) {
    gw_why_sums sums;
    put_outcome(peers, sources->record->journal_count, out);
    gw_why_sum(sources->record, sources->findings, &sums);
    put_paragraph(out, gw_why_head(sources->record));
    if (sources->record->other_count > 0) put_paragraph(out, gw_why_others(sources->record));
    put_paragraph(out, gw_why_total(&sums));
    put_paragraph(out, gw_why_counts(&sums));
}

/* The configuration. */

static void put_object(FILE *out, json_t *object) {
    enum { MOST = 200 };
    const char *key;
    json_t *value;
    char text[VALUE];
    int count = 0;
    json_object_foreach(object, key, value) {
        if (json_is_object(value) || json_is_array(value) || count++ == MOST) continue;
        value_text(value, text);
        gw_html_pair(out, key, text);
    }
}

static void put_configuration(const gw_report_peer *peers, int count, FILE *out) {
    const json_t *start = NULL;
    for (int i = 0; i < count && start == NULL; i++) start = peers[i].start;
    fputs("<h2 id=\"configuration\">Configuration</h2>\n", out);
    if (start == NULL) {
        fputs("<p>No journal has the start of a run.</p>\n", out);
        return;
    }
    static const char *const keys[] = {"job",    "job_id", "version",       "data",      "model",
                                       "length", "device", "compute_class", "keep_best", "patience"};
    char text[VALUE];
    fputs("<table><tbody>\n", out);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(start, keys[i]);
        if (value == NULL) continue;
        value_text(value, text);
        gw_html_pair(out, keys[i], text);
    }
    fputs("</tbody></table>\n<h3>What makes the job what it is</h3>\n<table><tbody>\n", out);
    put_object(out, json_object_get(start, "identity"));
    fputs("</tbody></table>\n<h3>Options of the job</h3>\n<table><tbody>\n", out);
    put_object(out, json_object_get(start, "params"));
    fputs("</tbody></table>\n", out);
}

/* The peers. */

typedef struct sums {
    uint64_t computed, stolen, lost;
    double ran_s, speed, rss_bytes;
    uint32_t lives, troubles, speeds;
} sums;

static sums sum_peer(const gw_report_sources *sources, int peer) {
    const gw_why_record *record = sources->record;
    sums all = {0};
    for (size_t i = 0; i < record->life_count; i++) {
        if (record->lives[i].peer != peer) continue;
        all.lives++;
        all.ran_s += record->lives[i].last - record->lives[i].began;
    }
    for (size_t i = 0; i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind != GW_WHY_PROGRESS || event->peer != peer) continue;
        all.computed += event->progress->computed;
        all.stolen += event->progress->stolen;
        all.lost += event->progress->lost;
        if (event->progress->rss_bytes > all.rss_bytes) all.rss_bytes = event->progress->rss_bytes;
        if (event->progress->speed <= 0) continue;
        all.speed += event->progress->speed;
        all.speeds++;
    }
    for (size_t i = 0; i < sources->findings->count; i++)
        all.troubles += gw_why_set_has(&sources->findings->list[i].peers, peer);
    return all;
}

static void put_peer(const gw_report_sources *sources, const gw_report_peer *peers, int peer, FILE *out) {
    const gw_why_peer *one = &sources->record->peers[peer];
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], memory[GW_BYTES_TEXT], device[VALUE] = "";
    sums all = sum_peer(sources, peer);
    if (one->journal != GW_WHY_NONE && peers[one->journal].start != NULL)
        value_text(json_object_get(peers[one->journal].start, "device"), device);
    device[strcspn(device, ";")] = '\0'; /* why it is no other one is in the configuration */
    fputs("<tr><td>", out);
    gw_html_text(out, gw_why_called(sources->record, peer, name));
    fputs("</td><td>", out);
    gw_html_text(out, one->address);
    fputs("</td><td>", out);
    gw_html_text(out, device);
    if (one->journal == GW_WHY_NONE) {
        fprintf(
            out,
            "</td><td colspan=\"7\" class=\"dim\">its journal is not here</td><td class=\"n\">%u</td></tr>\n",
            all.troubles);
        return;
    }
    fprintf(out,
            "</td><td class=\"n\">%u</td><td class=\"n\">%s</td><td class=\"n\">%" PRIu64
            "</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64
            "</td><td class=\"n\">%.3g</td><td class=\"n\">%s</td><td "
            "class=\"n\">%u</td></tr>\n",
            all.lives, gw_why_span(all.ran_s, span), all.computed, all.stolen, all.lost,
            all.speeds > 0 ? all.speed / all.speeds : 0, gw_events_memory((uint64_t)all.rss_bytes, memory),
            all.troubles);
}

static void put_peers(const gw_report_sources *sources, const gw_report_peer *peers, FILE *out) {
    int count = sources->record->peer_count;
    fputs("<h2 id=\"peers\">Peers</h2>\n<div class=\"wide\"><table><thead><tr><th>peer</th><th>address</th>"
          "<th>device</th><th class=\"n\">lives</th><th class=\"n\">ran</th><th class=\"n\">shards</th>"
          "<th class=\"n\">stolen</th><th class=\"n\">lost</th><th class=\"n\">shards/s</th>"
          "<th class=\"n\">memory</th><th class=\"n\">troubles</th></tr></thead><tbody>\n",
          out);
    for (int peer = 0; peer < count && peer < PEERS; peer++) put_peer(sources, peers, peer, out);
    fputs("</tbody></table></div>\n", out);
    if (count > PEERS) fprintf(out, "<p>%d more peers are left out.</p>\n", count - PEERS);
}

/* Energy. */

static void put_energy(const gw_report_sources *sources, const gw_report_peer *peers, FILE *out) {
    double sum = 0;
    bool estimate = false;
    char name[GW_WHY_CALLED], text[80];
    for (int i = 0; i < sources->record->journal_count; i++) {
        sum += peers[i].joules;
        estimate |= peers[i].joules > 0 && peers[i].estimate;
    }
    fputs("<h2 id=\"energy\">Energy</h2>\n", out);
    if (!(sum > 0)) {
        fputs("<p>No counter told it, or it was not asked for.</p>\n", out);
        return;
    }
    fputs("<table><tbody>\n", out);
    for (int i = 0; i < sources->record->journal_count; i++) {
        if (!(peers[i].joules > 0)) continue;
        snprintf(text, sizeof text, "%.4g kJ%s", peers[i].joules * 1e-3,
                 peers[i].estimate ? ", estimated" : "");
        gw_html_pair(out, gw_why_called(sources->record, sources->record->journals[i].peer, name), text);
    }
    snprintf(text, sizeof text, "%.4g kJ, %.4g kWh%s", sum * 1e-3, sum / 3.6e6,
             estimate ? ", of which a part is estimated" : "");
    gw_html_pair(out, "all", text);
    fputs("</tbody></table>\n", out);
}

/* What happened. */

static void put_finding(const gw_finding *finding, FILE *out) {
    char when[GW_WHY_WHEN], cost[GW_WHY_COST];
    fputs("<dt>", out);
    if (!finding->pattern) fprintf(out, "%s ", gw_why_when(finding->from, true, when));
    gw_html_text(out, finding->kind);
    fputs("</dt><dd>", out);
    gw_html_text(out, finding->text);
    fputs("</dd>", out);
    if (finding->evidence[0] != '\0') {
        fputs("<dd class=\"dim\">", out);
        gw_html_text(out, finding->evidence);
        fputs("</dd>", out);
    }
    if (gw_why_cost(finding, cost)[0] != '\0') {
        fputs("<dd>Cost: ", out);
        gw_html_text(out, cost);
        fputs("</dd>", out);
    }
    if (finding->advice[0] != '\0') {
        fputs("<dd>To do: ", out);
        gw_html_text(out, finding->advice);
        fputs("</dd>", out);
    }
    fputc('\n', out);
}

static void put_findings(const gw_findings *findings, bool pattern, FILE *out) {
    size_t count = 0, skipped = 0;
    for (size_t i = 0; i < findings->count; i++) count += findings->list[i].pattern == pattern;
    if (count > FINDINGS) skipped = count - FINDINGS;
    fprintf(out, "<h2 id=\"%s\">%s</h2>\n", pattern ? "suspicious" : "happened",
            pattern ? "What is suspicious" : "What happened");
    if (count == 0) fputs("<p>Nothing, as far as these journals tell.</p>\n", out);
    if (skipped > 0)
        fprintf(out, "<p>%zu earlier ones are left out: 'godwit why --json' has all.</p>\n", skipped);
    if (count > 0) fputs("<dl class=\"what\">\n", out);
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->list[i].pattern != pattern) continue;
        if (skipped > 0)
            skipped--;
        else
            put_finding(&findings->list[i], out);
    }
    if (count > 0) fputs("</dl>\n", out);
}

/* The end. */

/* The last receipt in a directory. */
typedef struct last_receipt {
    uint64_t step, count;
    gw_receipt receipt;
} last_receipt;

static bool take_receipt(void *context, uint64_t step, const gw_receipt *receipt) {
    last_receipt *last = context;
    last->step = step;
    last->receipt = *receipt;
    last->count++;
    return true;
}

static void put_end(const gw_report_sources *sources, const gw_report_peer *peers, int journal, FILE *out) {
    static const char *const keys[] = {"outcome", "text", "steps", "state"};
    char name[GW_WHY_CALLED], text[VALUE];
    last_receipt last = {0};
    gw_err ignored;
    const gw_why_journal *of = &sources->record->journals[journal];
    fputs("<tr><td>", out);
    gw_html_text(out, gw_why_called(sources->record, of->peer, name));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        value_text(json_object_get(peers[journal].done, keys[i]), text);
        fputs(i == 3 ? "</td><td><code>" : "</td><td>", out);
        gw_html_text(out, peers[journal].done == NULL && i == 0 ? "none yet" : text);
    }
    if (peers[journal].has_job)
        gw_receipts_read(of->dir, &peers[journal].job, 0, UINT64_MAX, take_receipt, &last, &ignored);
    fputs("</code></td><td>", out);
    if (last.count > 0)
        fprintf(out, "%" PRIu64 ", chain <code>%016" PRIx64 "</code> after step %" PRIu64, last.count,
                last.receipt.chain, last.step);
    fputs("</td></tr>\n", out);
}

static void put_ends(const gw_report_sources *sources, const gw_report_peer *peers, FILE *out) {
    fputs("<h2 id=\"end\">The end, and receipts</h2>\n<div class=\"wide\"><table><thead><tr><th>peer</th>"
          "<th>outcome</th><th>reason</th><th>steps</th><th>hash of the "
          "state</th><th>receipts</th></tr></thead>"
          "<tbody>\n",
          out);
    for (int i = 0; i < sources->record->journal_count; i++) put_end(sources, peers, i, out);
    fputs("</tbody></table></div>\n<p class=\"dim\">Runs of one job end in the same state and, after the "
          "same step, "
          "have the same chain, whatever died on the way ('godwit audit' computes a step again).</p>\n",
          out);
}

static void put_journals(const gw_why_record *record, FILE *out) {
    char from[GW_WHY_WHEN], to[GW_WHY_WHEN];
    fputs("<h2 id=\"sources\">Sources</h2>\n<ul>\n", out);
    for (int i = 0; i < record->journal_count; i++) {
        const gw_why_journal *one = &record->journals[i];
        fputs("<li>", out);
        gw_html_printf(out, "%.1000s: %" PRIu64 " events, %" PRIu64 " damaged lines, from %s to %s", one->dir,
                       one->lines, one->damaged, gw_why_when(one->first, true, from),
                       gw_why_when(one->last, true, to));
        fputs("</li>\n", out);
    }
    fprintf(out, "</ul>\n<p class=\"dim\">Made by godwit %s; times are local.</p>\n</body></html>\n",
            GODWIT_VERSION);
}

bool gw_report_write(const gw_report_sources *sources, FILE *out, gw_err *err) {
    const gw_why_record *record = sources->record;
    gw_report_peer *peers = gw_report_peers(record);
    if (peers == NULL) return gw_fail(err, GW_E_NOMEM, "report: memory runs out");
    char job[VALUE] = "unknown job";
    for (int i = record->journal_count; i > 0; i--)
        if (peers[i - 1].start != NULL) value_text(json_object_get(peers[i - 1].start, "job"), job);
    put_head(out, job);
    put_summary(sources, peers, out);
    bool good = gw_report_curves(sources, peers, out, err);
    gw_report_timeline(sources, out);
    put_findings(sources->findings, false, out);
    put_findings(sources->findings, true, out);
    put_peers(sources, peers, out);
    put_energy(sources, peers, out);
    put_ends(sources, peers, out);
    put_configuration(peers, record->journal_count, out);
    put_journals(record, out);
    gw_report_peers_free(peers, record->journal_count);
    return good && (!ferror(out) || gw_fail(err, GW_E_IO, "the page cannot be written"));
}
