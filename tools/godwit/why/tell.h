/* Shows what `godwit why` has found, to people and to programs. */
#ifndef GODWIT_TOOLS_GODWIT_WHY_TELL_H
#define GODWIT_TOOLS_GODWIT_WHY_TELL_H

#include "tools/godwit/why/findings.h"

#include <jansson.h>
#include <stdio.h>

/* What the journals count, for the first lines. */
typedef struct gw_why_sums {
    uint64_t computed, stolen, repaired; /* shards; the last two are those of the journals that are here */
    uint64_t checkpoints, joins, views;  /* as the peer tells that tells of most */
    double lost_s;                       /* without steps, for what the findings tell */
    double joined_s;                     /* for which the flock paused for newcomers */
    /* What the findings tell of, each as often as it happened. */
    uint64_t deaths, refused, stalls, cuts, corruption, disks, devices, workers;
} gw_why_sums;

void gw_why_sum(const gw_why_record *record, const gw_findings *findings, gw_why_sums *sums);

/* Writes one line of text about the record, one about the sums, and one that counts what went wrong; the caller frees
 * them. NULL: memory runs out. */
char *gw_why_head(const gw_why_record *record);
char *gw_why_total(const gw_why_sums *sums);
/* The same about the jobs that are left out, of which there must be some. */
char *gw_why_others(const gw_why_record *record);
char *gw_why_counts(const gw_why_sums *sums);
/* Writes what a finding cost: "no step for 1.3 s; 12 shards dealt again". It may be empty. */
enum { GW_WHY_COST = 200 };
const char *gw_why_cost(const gw_finding *finding, char text[GW_WHY_COST]);

/* Prints all in lines of at most 79 characters. `since`: what was over before is left out, as that line says; 0:
 * nothing is. */
void gw_why_print(const gw_why_record *record, const gw_findings *findings, double since, FILE *out);
/* Returns the same as an object; the caller releases it. */
json_t *gw_why_json(const gw_why_record *record, const gw_findings *findings);

/* Prints a text in lines of at most 79 characters, the first of which begins behind `before` characters, and the others
 * behind `indent`. */
void gw_why_print_words(FILE *out, const char *text, size_t before, size_t indent);

#endif
