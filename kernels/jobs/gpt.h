/* The job `gpt`: trains a language model of GPT-2's kind (kernels/gpt.h) on text or token shards.
 * core/godwit.h says what the table's functions mean. */
#ifndef GODWIT_KERNELS_JOBS_GPT_H
#define GODWIT_KERNELS_JOBS_GPT_H

#include "core/godwit.h"

extern const gw_job_type gw_job_gpt;

#endif
