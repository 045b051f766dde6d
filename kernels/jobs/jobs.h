/* The jobs that are compiled into the program. */
#ifndef GODWIT_KERNELS_JOBS_JOBS_H
#define GODWIT_KERNELS_JOBS_JOBS_H

#include "core/godwit.h"

/* The job with that name; NULL where there is none. Any thread. */
const gw_job_type *gw_job_find(const char *name);
/* All jobs in alphabetical order; the list ends with NULL. */
const gw_job_type *const *gw_job_list(void);

#endif
