/* The jobs that are compiled in. */
#ifndef GODWIT_KERNELS_JOBS_JOBS_H
#define GODWIT_KERNELS_JOBS_JOBS_H

#include "core/godwit.h"

/* The job of that name, or NULL. Any thread. */
const gw_job_type *gw_job_find(const char *name);
/* All of them, in alphabetical order; ends with NULL. */
const gw_job_type *const *gw_job_list(void);

#endif
