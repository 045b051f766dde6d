/* What must be alike on every peer of a job, as text: one "name=value" a line. Its hash is the job's id, and
 * two peers that differ can name the first line that does. */
#include "core/base/assert.h"
#include "core/params.h"
#include "kernels/device/class.h"
#include "tools/godwit/node/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gw_param *gw_node_shared_params(const gw_node *node, uint32_t *count) {
    const gw_option *options = node->options->job->options;
    uint32_t size = 0;
    while (options[size].name) size++;
    gw_param *list = calloc(size ? size : 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    *count = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (options[i].local) continue;
        const char *value = gw_param_value(&node->options->params, options[i].name);
        if (value) list[(*count)++] = (gw_param){.name = options[i].name, .value = value};
    }
    return list;
}

/* Float sums are nobody's bits but all members get the same, and applying them is the same on every device.
 * Shards that two compute and compare have the same bits within one class only. */
bool gw_node_mixes_classes(const gw_node *node) {
    return node->options->fast && node->options->verify == 0;
}

static void write_identity(const gw_node *node, FILE *out) {
    const gw_job_type *type = node->options->job;
    fprintf(out, "job=%s\napi=%u\n", type->name, type->api);
    if (node->options->code[0] != '\0') fprintf(out, "code=%s\n", node->options->code);
    uint32_t count;
    gw_param *params = gw_node_shared_params(node, &count);
    for (uint32_t i = 0; i < count; i++) fprintf(out, "%s=%s\n", params[i].name, params[i].value);
    free(params);
    gw_run_options shared = *node->options;
    shared.steps = node->steps; /* as many as there will be: the job may end before --steps */
    gw_run_options_write_identity(&shared, out);
    char digest[GW_HASH_TEXT], build[GW_BUILD_ID_TEXT];
    gw_hex(node->plan.data_digest.bytes, sizeof node->plan.data_digest.bytes, digest);
    fprintf(out, "data=%s\n", digest);
    gw_build_id(build);
    if (gw_node_mixes_classes(node))
        fprintf(out, "build=%s\n", build);
    else
        fprintf(out, "class=%s\n", node->device->class_text);
    /* Names and versions do not tell all: one library takes other ways on another processor. */
    fprintf(out, "probe=%016" PRIx64 "\n", node->probe);
}

bool gw_node_identify(gw_node *node, gw_err *err) {
    size_t length = 0;
    FILE *out = open_memstream(&node->identity, &length);
    if (!out) return gw_fail(err, GW_E_NOMEM, "identity of the job");
    write_identity(node, out);
    if (fclose(out) != 0) return gw_fail(err, GW_E_NOMEM, "identity of the job");
    gw_blake2b(node->identity, length, node->job_id.bytes, sizeof node->job_id.bytes);
    return true;
}
