/* `godwit report` writes the report of a run, one page of HTML. */
#include "tools/godwit/report/report.h"
#include "core/os/output.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/weights/checkpoint.h"
#include "tools/godwit/why/findings.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_METRICS = 256, KEY_FORCE, KEY_JOB };

typedef struct arguments {
    const char *dirs[GW_WHY_JOURNALS];
    int count;
    const char *output, *metrics;
    const char *job; /* digits; NULL: the job that was started last */
    bool force, json;
} arguments;

static const struct argp_option report_options[] = {
    {"output", 'o', "FILE", 0, "The page to write (run.html)", 0},
    {"metrics", KEY_METRICS, "FILE", 0, "Draw the curves of a file of 'godwit run --metrics' instead", 0},
    {"job", KEY_JOB, "HEX", 0, "Take the job whose id begins with HEX (the one that was started last)", 0},
    {"json", 'j', 0, 0, "Print what was written as one JSON object", 0},
    {"force", KEY_FORCE, 0, 0, "Replace a file that this command did not write", 0},
    {0},
};

static const char report_doc[] =
    "Writes a page about a run that needs nothing outside of itself: what the job was, its curves, a "
    "timeline, "
    "the peers, energy, what happened, and the hash of the state.\v"
    "Each DIR is the directory of a peer of one job, or a copy of it. The page says as much as they do: with "
    "all directories it has every peer's own account. Peers may run meanwhile.";

static error_t parse_report(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'o':
        a->output = arg;
        return 0;
    case KEY_METRICS:
        a->metrics = arg;
        return 0;
    case KEY_JOB:
        a->job = gw_checkpoint_job_of_option(state, arg);
        return 0;
    case 'j':
        a->json = true;
        return 0;
    case KEY_FORCE:
        a->force = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->count == GW_WHY_JOURNALS) gw_argp_error(state, "give at most %d directories", GW_WHY_JOURNALS);
        a->dirs[a->count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (a->count == 0) gw_argp_error(state, "give the directory of a peer, or of several");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Writes the page into memory. The caller frees it. */
static bool make_page(const gw_report_sources *sources, char **page, size_t *length, gw_err *err) {
    FILE *out = open_memstream(page, length);
    if (out == NULL) return gw_fail_errno(err, errno, "cannot make the page");
    bool good = gw_report_write(sources, out, err);
    bool closed = fclose(out) == 0;
    return good && (closed || gw_fail(err, GW_E_NOMEM, "the page: memory runs out"));
}

static bool write_page(const char *path, const char *page, size_t length, gw_err *err) {
    gw_output output;
    return gw_output_open(path, &output, err) &&
           gw_output_end(&output, gw_output_write(&output, page, length, err), err);
}

/* What a program wants to know of the page. */
static json_t *describe(const gw_why_record *record, const char *output, size_t length) {
    json_t *root = json_object();
    gw_json_text(root, "page", output);
    gw_json_count(root, "bytes", length);
    gw_json_text(root, "job", record->job.name);
    gw_json_text(root, "job_id", record->job.id);
    gw_json_count(root, "first_step", record->first_step);
    gw_json_count(root, "last_step", record->last_step);
    gw_json_real(root, "from", record->first);
    gw_json_real(root, "to", record->last);
    return root;
}

static bool report(arguments *a, gw_err *err) {
    char(*paths)[GW_PATH_BYTES] = calloc((size_t)a->count, sizeof *paths);
    gw_why_record record = {0};
    gw_findings findings = {0};
    char *page = NULL;
    size_t length = 0;
    const char *output = a->output != NULL ? a->output : "run.html";
    bool good = paths != NULL || gw_fail(err, GW_E_NOMEM, "memory runs out");
    good = good && (a->force || gw_output_is_own(output, GW_REPORT_MARK, strlen(GW_REPORT_MARK), err));
    for (int i = 0; good && i < a->count; i++) {
        good = gw_checkpoint_dir_find(a->dirs[i], NULL, paths[i], err);
        a->dirs[i] = paths[i];
    }
    good = good && gw_why_read(a->dirs, a->count, a->job, &record, err);
    if (good) gw_why_find(&record, &findings);
    const gw_report_sources sources = {.record = &record, .findings = &findings, .metrics = a->metrics};
    good = good && make_page(&sources, &page, &length, err) && write_page(output, page, length, err);
    if (good && a->json)
        gw_json_print(describe(&record, output, length));
    else if (good)
        printf("%s: %zu kB\n", output, length / 1000 + 1);
    free(page);
    gw_findings_free(&findings);
    gw_why_free(&record);
    free(paths);
    return good;
}

int gw_report_main(int argc, char **argv) {
    arguments *a = calloc(1, sizeof *a);
    struct argp argp = {
        .options = report_options, .parser = parse_report, .args_doc = "DIR...", .doc = report_doc};
    gw_err err;
    if (a == NULL) return 1;
    gw_argp_parse(&argp, argc, argv, a);
    gw_output_clean_on_signals();
    bool good = report(a, &err);
    free(a);
    return good ? 0 : gw_command_fail(argv[0], &err);
}
