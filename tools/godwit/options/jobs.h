/* Jobs by name: those compiled in (kernels/jobs/jobs.h), and shared objects that export godwit_job
 * (core/godwit.h). */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_JOBS_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_JOBS_H

#include "core/base/id.h"
#include "core/godwit.h"

/* Returns the job called `name`, or the job in the shared object at the path `name` if that contains a
 * '/'. The object stays loaded until the process ends. `code` becomes the hash of its file (BLAKE2b,
 * hexadecimal), or "" for a job that is compiled in. Returns NULL and sets *err, which lists the known
 * jobs, where there is no such job. */
const gw_job_type *gw_jobs_find(const char *name, char code[GW_HASH_TEXT], gw_err *err);

#endif
