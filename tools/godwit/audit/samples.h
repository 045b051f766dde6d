/* The samples of a shard, as the job tells them (core/godwit.h), kept and fit to be shown to people. One thread. */
#ifndef GODWIT_TOOLS_GODWIT_AUDIT_SAMPLES_H
#define GODWIT_TOOLS_GODWIT_AUDIT_SAMPLES_H

#include "tools/godwit/audit/rerun.h"

#include <jansson.h>
#include <stdio.h>

enum {
    GW_AUDIT_SAMPLES = 8192, /* that are kept */
    GW_AUDIT_SHOWN = 32,     /* that are printed; JSON has all that are kept */
    GW_SAMPLE_TEXT = 124,
};

typedef struct gw_audit_sample {
    char set[GW_SAMPLE_TEXT], unit[16], text[GW_SAMPLE_TEXT]; /* "": there is none */
    uint64_t index, count;
} gw_audit_sample;

typedef struct gw_audit_samples {
    gw_audit_sample *list;
    uint32_t count;    /* that are kept */
    uint64_t all;      /* samples of the shard */
    char unknown[200]; /* why there are none */
} gw_audit_samples;

/* Asks the job for the samples of a shard of the step behind which `step` steps are done. Where the job does not tell
 * them, `unknown` says so: it is no failure. */
void gw_audit_samples_read(gw_rerun *rerun, uint64_t step, uint32_t shard, gw_audit_samples *samples);
void gw_audit_samples_free(gw_audit_samples *samples);

/* Prints them, one a line; adds them to an object of JSON. */
void gw_audit_samples_print(const gw_audit_samples *samples, FILE *out);
void gw_audit_samples_put(const gw_audit_samples *samples, json_t *object);

#endif
