#include "kernels/jobs/jobs.h"

#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/jobs/program/program.h"
#include "kernels/jobs/synthetic/synthetic.h"

#include <string.h>

static const gw_job_type *const jobs[] = {&gw_job_digits, &gw_job_gpt, &gw_job_program, &gw_job_synthetic,
                                          NULL};

const gw_job_type *gw_job_find(const char *name) {
    for (size_t i = 0; jobs[i] != NULL; i++)
        if (strcmp(jobs[i]->name, name) == 0) return jobs[i];
    return NULL;
}

const gw_job_type *const *gw_job_list(void) {
    return jobs;
}
