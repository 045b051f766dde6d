#include "tools/godwit/node/configuration.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void put(FILE *out, const char *name, const char *value) {
    if (value != NULL && value[0] != '\0') fprintf(out, "%s=%s\n", name, value);
}

static void put_origin(FILE *out, const gw_node_origin *origin) {
    char parent[GW_HASH_TEXT];
    if (!origin->wanted || !origin->known) return;
    gw_hex(origin->job.bytes, sizeof origin->job.bytes, parent);
    fprintf(out, "goes on from=step %" PRIu64 " of job %.8s\n", origin->step, parent);
}

char *gw_node_configuration(const gw_node_job *job, const gw_peer_id *self, const char *compute_class) {
    const gw_run_options *options = job->options;
    char id[GW_HASH_TEXT], peer[GW_ID_TEXT], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return NULL;
    gw_hex(job->id.bytes, sizeof job->id.bytes, id);
    gw_hex(self->bytes, sizeof self->bytes, peer);
    put(out, "job id", id);
    put(out, "godwit", GODWIT_VERSION);
    put(out, "command", options->typed);
    put(out, "written by peer", options->name);
    put(out, "its id", peer);
    put(out, "its device", options->compute.text);
    put(out, "compute class", compute_class);
    put(out, "cluster", options->cluster);
    put(out, "data", job->plan.data_text);
    put(out, "model", job->plan.model_text);
    put(out, "length", job->plan.length_text);
    put(out, "best by", job->best.by);
    put_origin(out, &job->origin);
    fputs(job->identity, out);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
