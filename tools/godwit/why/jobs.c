#include "tools/godwit/why/jobs.h"

#include "core/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool gw_why_read_lines(const char *dir, gw_journal_event *each, void *context, gw_journal_found *found,
                       gw_err *err) {
    if (gw_journal_read(dir, each, context, found, err)) return true;
    if (err->code != GW_E_NOTFOUND) return false;
    return gw_fail(err, GW_E_NOTFOUND,
                   "%s has no journal: give the directory of a peer (--dir of godwit run)", dir);
}

bool gw_why_begins_life(const json_t *event, bool first) {
    return first || gw_journal_is(event, "life");
}

/* The journal that is read, and what its last life has said so far. */
typedef struct reading {
    gw_why_jobs *jobs;
    gw_why_job_lives *lives;
    int job;     /* GW_WHY_NONE: it has not said */
    double time; /* of its start */
    bool took_part, turned_away, memory;
} reading;

static int job_of(gw_why_jobs *jobs, const char *id, const char *name) {
    char printable[GW_WHY_JOB];
    snprintf(printable, sizeof printable, "%s", id);
    gw_utf8_make_printable(printable);
    int i = 0;
    while (i < jobs->count && strcmp(jobs->list[i].id, printable) != 0) i++;
    if (i == GW_WHY_JOBS) return GW_WHY_NONE;
    if (i < jobs->count) return i;
    gw_why_job *job = &jobs->list[jobs->count++];
    *job = (gw_why_job){.last = 0};
    memcpy(job->id, printable, sizeof job->id);
    snprintf(job->name, sizeof job->name, "%s", name != NULL ? name : "unknown");
    gw_utf8_make_printable(job->name);
    return i;
}

/* Ends the life that was read last. */
static void end_life(reading *r) {
    if (r->lives->count == 0 || r->job == GW_WHY_NONE || r->turned_away) return;
    gw_why_job *job = &r->jobs->list[r->job];
    job->starts++;
    if (r->time > job->last) job->last = r->time;
    r->lives->jobs[r->lives->count - 1] = r->job;
}

static bool begin_life(reading *r) {
    gw_why_job_lives *lives = r->lives;
    end_life(r);
    r->job = GW_WHY_NONE;
    r->took_part = r->turned_away = false;
    if (lives->count == lives->capacity) {
        size_t more = lives->capacity == 0 ? 64 : 2 * lives->capacity;
        int *grown = realloc(lives->jobs, more * sizeof *grown);
        if (grown == NULL) return false;
        lives->jobs = grown;
        lives->capacity = more;
    }
    lives->jobs[lives->count++] = GW_WHY_NONE;
    return true;
}

static bool take_line(void *context, const char *line, size_t length, json_t *event) {
    (void)line;
    (void)length;
    reading *r = context;
    if (gw_why_begins_life(event, r->lives->count == 0)) {
        r->memory = begin_life(r);
        if (!r->memory) return false;
    }
    const char *id = gw_journal_is(event, "start") ? gw_journal_text(event, "job_id") : NULL;
    if (id != NULL) {
        r->job = job_of(r->jobs, id, gw_journal_text(event, "job"));
        r->time = gw_journal_number(event, "time", 0);
    }
    r->took_part |= gw_journal_is(event, "view");
    const char *outcome = gw_journal_is(event, "done") ? gw_journal_text(event, "outcome") : NULL;
    if (outcome != NULL && !r->took_part)
        r->turned_away = strcmp(outcome, "refused") == 0 || strcmp(outcome, "denied") == 0;
    return true;
}

/* Gives the lives that do not say their job that of the life before, or else behind them. */
static void fill(gw_why_job_lives *lives) {
    for (size_t i = 1; i < lives->count; i++)
        if (lives->jobs[i] == GW_WHY_NONE) lives->jobs[i] = lives->jobs[i - 1];
    for (size_t i = lives->count; i-- > 1;)
        if (lives->jobs[i - 1] == GW_WHY_NONE) lives->jobs[i - 1] = lives->jobs[i];
}

bool gw_why_jobs_read(gw_why_jobs *jobs, int journal, const char *dir, gw_err *err) {
    reading r = {.jobs = jobs, .lives = &jobs->journals[journal], .job = GW_WHY_NONE, .memory = true};
    if (!gw_why_read_lines(dir, take_line, &r, NULL, err)) return false;
    if (!r.memory) return gw_fail(err, GW_E_NOMEM, "%s: memory runs out", dir);
    end_life(&r);
    fill(r.lives);
    return true;
}

/* Writes the jobs that there are: "gpt 1f3a0b2c and digits 77ab01fe". */
static void write_list(const gw_why_jobs *jobs, char *text, size_t size) {
    text[0] = '\0';
    for (int i = 0; i < jobs->count; i++) {
        size_t length = strlen(text);
        if (jobs->list[i].starts == 0 || length >= size - 1) continue;
        snprintf(text + length, size - length, "%s%.20s %.8s", length == 0 ? "" : ", ", jobs->list[i].name,
                 jobs->list[i].id);
    }
}

bool gw_why_jobs_choose(const gw_why_jobs *jobs, const char *digits, int *chosen, gw_err *err) {
    char list[300];
    int fitting = 0;
    *chosen = GW_WHY_NONE;
    for (int i = 0; i < jobs->count; i++) {
        const gw_why_job *job = &jobs->list[i];
        bool fits = job->starts > 0 && (digits == NULL || strncasecmp(job->id, digits, strlen(digits)) == 0);
        if (!fits) continue;
        fitting++;
        if (*chosen == GW_WHY_NONE || job->last > jobs->list[*chosen].last) *chosen = i;
    }
    if (digits == NULL || fitting == 1) return true;
    write_list(jobs, list, sizeof list);
    return gw_fail(err, GW_E_USAGE, "--job: %s begins with %s; the journals tell of %s",
                   fitting == 0 ? "no id of a job" : "more than one id of a job", digits,
                   list[0] != '\0' ? list : "none that has a name");
}

bool gw_why_jobs_has(const gw_why_jobs *jobs, int journal, size_t life, int job) {
    const gw_why_job_lives *lives = &jobs->journals[journal];
    int of = life < lives->count ? lives->jobs[life] : GW_WHY_NONE;
    return of == GW_WHY_NONE || of == job;
}

void gw_why_jobs_free(gw_why_jobs *jobs) {
    if (jobs == NULL) return;
    for (int i = 0; i < GW_WHY_JOURNALS; i++) free(jobs->journals[i].jobs);
    free(jobs);
}
