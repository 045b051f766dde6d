/* The part of `godwit devices` about GPUs: which there are, how they reach each other, and the libraries
 * that a run on GPUs needs. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_DEVICES_GPUS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_DEVICES_GPUS_H

#include <jansson.h>
#include <stdbool.h>

typedef struct gw_gpu_survey gw_gpu_survey;

/* Collects the facts. It does not fail: reasons why something is unknown are part of the survey. The
 * caller frees. */
gw_gpu_survey *gw_gpu_survey_take(void);
void gw_gpu_survey_free(gw_gpu_survey *survey);
/* Whether this program can compute on one of the GPUs. */
bool gw_gpu_survey_usable(const gw_gpu_survey *survey);
void gw_gpu_survey_print(const gw_gpu_survey *survey);
/* Adds "gpus", "gpu_usable", "nccl" and so on to the object. */
void gw_gpu_survey_json(const gw_gpu_survey *survey, json_t *object);

#endif
