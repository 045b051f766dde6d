/* A directory that holds checkpoints, but of another job than the one that begins: with one option changed a
 * job is another one, and nothing is resumed. Says so, and what differs as far as the manifest tells. */
#include "core/base/log.h"
#include "tools/godwit/node/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMED = 3 };

static const char *value_of(const gw_param *params, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(params[i].name, name) == 0) return params[i].value;
    return NULL;
}

static void name_one(FILE *out, uint32_t *differ, const char *name, const char *theirs, const char *here) {
    if ((*differ)++ >= MOST_NAMED) return;
    fprintf(out, "%s%s=%s, here %s", *differ == 1 ? "" : "; ", name, theirs ? theirs : "not given",
            here ? here : "not given");
}

/* Builds before this one wrote values as they were typed: "1e-2" and "0.01" are one value. */
static bool is_same(const char *theirs, const char *here) {
    char *end_of_theirs, *end_of_here;
    if (strcmp(theirs, here) == 0) return true;
    double one = strtod(theirs, &end_of_theirs), other = strtod(here, &end_of_here);
    return *theirs != '\0' && *end_of_theirs == '\0' && *end_of_here == '\0' && one == other;
}

static void name_differences(FILE *out, const gw_manifest *other, const gw_param *ours, uint32_t count) {
    uint32_t differ = 0;
    for (uint32_t i = 0; i < other->param_count; i++) {
        const gw_param *theirs = &other->params[i];
        const char *here = value_of(ours, count, theirs->name);
        if (here == NULL || !is_same(theirs->value, here))
            name_one(out, &differ, theirs->name, theirs->value, here);
    }
    for (uint32_t i = 0; i < count; i++)
        if (value_of(other->params, other->param_count, ours[i].name) == NULL)
            name_one(out, &differ, ours[i].name, NULL, ours[i].value);
    if (differ > MOST_NAMED) fprintf(out, "; and %u more", differ - MOST_NAMED);
    if (differ == 0)
        fputs("the job's options are alike: --steps, --reduce, the data, the file of a job in a "
              "shared object, what computes, or the bits that it gives differ",
              out);
}

void gw_node_tell_other_job(const gw_node *node, const gw_manifest *other) {
    char *why = NULL;
    size_t length = 0;
    uint32_t count;
    FILE *out = open_memstream(&why, &length);
    if (out == NULL) return;
    gw_param *ours = gw_node_shared_params(node, &count);
    if (strcmp(other->job_name, node->options->job->name) != 0)
        fprintf(out, "%s, here %s", other->job_name, node->options->job->name);
    else
        name_differences(out, other, ours, count);
    free(ours);
    if (fclose(out) == 0)
        gw_log(GW_WARN, "checkpoint", "%s holds step %" PRIu64 " of another job (%s): not resumed",
               node->options->dir, other->step, why);
    free(why);
}
