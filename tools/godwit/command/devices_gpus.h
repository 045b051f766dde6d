/* What `godwit devices` knows of GPUs: which there are, how they reach each other, and the libraries that a
 * run on them needs. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_DEVICES_GPUS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_DEVICES_GPUS_H

#include <jansson.h>
#include <stdbool.h>

typedef struct gw_gpu_survey gw_gpu_survey;

/* Looks. What cannot be known is part of the answer. */
gw_gpu_survey *gw_gpu_survey_take(void);
void gw_gpu_survey_free(gw_gpu_survey *survey);
/* A GPU is there that this program can compute on. */
bool gw_gpu_survey_usable(const gw_gpu_survey *survey);
void gw_gpu_survey_print(const gw_gpu_survey *survey);
/* Adds "gpus", "gpu_usable", "nccl" and so on. */
void gw_gpu_survey_json(const gw_gpu_survey *survey, json_t *object);

#endif
