/* Jobs by name: those compiled in (kernels/jobs/jobs.h), and shared objects that export godwit_job
 * (core/godwit.h). */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_JOBS_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_JOBS_H

#include "core/base/id.h"
#include "core/godwit.h"

/* The job called `name`, or the one in the shared object at path `name` when that has a '/'. The object stays
 * loaded until the process ends; `code` is the hash of its file (BLAKE2b, hexadecimal), or "" for a job that
 * is compiled in. NULL and *err (naming the jobs there are) otherwise. */
const gw_job_type *gw_jobs_find(const char *name, char code[GW_HASH_TEXT], gw_err *err);

#endif
