/* This tells which job each life in the journals is of. A directory may have had several: --fresh begins a job beside the one that
 * was there, and --continue another one behind it. A life that was turned away before it took part, or that does not
 * say, counts to the job that ran there before it, or else after it.
 *
 * Thread: the jobs belong to their caller. */
#ifndef GODWIT_TOOLS_GODWIT_WHY_JOBS_H
#define GODWIT_TOOLS_GODWIT_WHY_JOBS_H

#include "tools/godwit/journal/read.h"
#include "tools/godwit/why/record.h"

/* The job of each life of a journal: its place in the list; GW_WHY_NONE: no life there says. */
typedef struct gw_why_job_lives {
    int *jobs;
    size_t count, capacity;
} gw_why_job_lives;

typedef struct gw_why_jobs {
    gw_why_job list[GW_WHY_JOBS];
    int count;
    gw_why_job_lives journals[GW_WHY_JOURNALS];
} gw_why_jobs;

/* Reads the journal of a directory. Fails as gw_journal_read does, naming the directory. */
bool gw_why_read_lines(const char *dir, gw_journal_event *each, void *context, gw_journal_found *found,
                       gw_err *err);
/* Whether an event is the first one of a life; `first`: of the journal. */
bool gw_why_begins_life(const json_t *event, bool first);

/* Adds the jobs of the journal with this number. Fails as gw_why_read_lines does, and with GW_E_NOMEM. */
bool gw_why_jobs_read(gw_why_jobs *jobs, int journal, const char *dir, gw_err *err);
/* Chooses the job whose id begins with these digits, or where it is NULL the one that was started last. *chosen:
 * GW_WHY_NONE where no journal says which job it is of. Fails with GW_E_USAGE where none or several begin so. */
bool gw_why_jobs_choose(const gw_why_jobs *jobs, const char *digits, int *chosen, gw_err *err);
/* Whether the life of this number in a journal is of a job, or of none that is known. */
bool gw_why_jobs_has(const gw_why_jobs *jobs, int journal, size_t life, int job);
void gw_why_jobs_free(gw_why_jobs *jobs);

#endif
