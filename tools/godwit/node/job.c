#include "tools/godwit/node/job.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/params.h"
#include "core/rng.h"
#include "kernels/device/class.h"
#include "kernels/host/memory.h"
#include "kernels/jobs/gpt/gpt.h"
#include "tools/godwit/node/identity.h"
#include "tools/godwit/weights/init.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLACE = 200 }; /* the most bytes of what a job records of its place (GW_PLACE) */

static bool open_gpt(gw_node_job *job, gw_err *err) {
    const gw_params *params = &job->params;
    gw_model *model = &job->first_model;
    /* The parameters are checked before the weights are loaded, which may take long. */
    if (!gw_gpt_job_check(params, err) || !gw_init_load(params, job->options->dir, model, err)) return false;
    const gw_gpt_weights first = {model->gpt, (const float *const *)model->parameters};
    return gw_gpt_job_open(params, model->memory != NULL ? &first : NULL, &job->instance, err);
}

/* Opens the job with one of the states from which it may go on. */
static bool open_from(gw_node_job *job, gw_err *err) {
    const gw_job_type *type = job->options->job;
    const gw_node_origin *origin = &job->origin;
    job->params = job->options->params;
    job->params.origin = origin->wanted && origin->known ? &origin->origin : NULL;
    gw_param_record_clear(job->params.record);
    job->open = type == &gw_job_gpt ? open_gpt(job, err) : type->open(&job->params, &job->instance, err);
    if (!job->open) return false;
    if (!type->describe(job->instance, &job->plan, err)) return gw_fail_in(err, "job %s", type->name);
    /* A job in a shared object may have filled these to the last byte. */
    gw_plan *plan = &job->plan;
    plan->data_text[sizeof plan->data_text - 1] = plan->model_text[sizeof plan->model_text - 1] =
        plan->length_text[sizeof plan->length_text - 1] = '\0';
    job->steps = plan->steps != 0 ? plan->steps : UINT64_MAX;
    if (job->options->steps != 0 && job->options->steps < job->steps) job->steps = job->options->steps;
    const char *place = gw_param_value(&job->params, GW_PLACE);
    if (place != NULL && (strlen(place) > MOST_PLACE || strchr(place, '\n') != NULL))
        return gw_fail(err, GW_E_INVALID,
                       "job %s: what it records of its place is no line of at most %d bytes", type->name,
                       MOST_PLACE);
    if (!gw_node_origin_check(origin, plan, err) || !gw_node_best_choose(job->options, plan, &job->best, err))
        return false;
    return !origin->wanted || !origin->known || job->steps > origin->step ||
           gw_fail(err, GW_E_USAGE,
                   "--steps: the job ends after step %" PRIu64 ", and the state that it goes on from "
                   "has %" PRIu64 " behind it: give more",
                   job->steps, origin->step);
}

static void close_instance(gw_node_job *job) {
    if (job->open) job->options->job->close(job->instance);
    gw_model_free(&job->first_model);
    job->open = false;
    job->instance = NULL;
}

static void write_stem(const gw_node_job *job, FILE *out);

/* Whether the job is the one that went on from this state before: its identity begins with the same lines. */
static bool has_begun(const gw_node_job *job) {
    char *stem = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&stem, &length);
    GW_ASSERT_MEMORY(out != NULL);
    write_stem(job, out);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    bool same = strncmp(job->origin.begun, stem, length) == 0;
    free(stem);
    return same;
}

bool gw_node_job_open(gw_node_job *job, const gw_run_options *options, gw_node_origin *origins,
                      uint32_t count, gw_err *err) {
    const gw_job_type *type = options->job;
    job->options = options;
    if (type->api != GW_JOB_API)
        return gw_fail(err, GW_E_UNSUPPORTED, "job %s was built for API %u, this is %u", type->name,
                       type->api, GW_JOB_API);
    for (uint32_t i = 0; i < count; i++) {
        job->origin = origins[i];
        origins[i] = (gw_node_origin){0};
        bool good = open_from(job, err);
        if (job->origin.begun == NULL) return good;
        if (good && has_begun(job)) return true;
        close_instance(job);
        gw_node_origin_close(&job->origin);
        if (i + 1 == count && good)
            gw_fail(err, GW_E_USAGE, "--continue: %s holds no other checkpoint to go on from", options->dir);
    }
    return false;
}

void gw_node_job_close(gw_node_job *job) {
    close_instance(job);
    gw_node_origin_close(&job->origin);
    free(job->identity);
}

bool gw_node_job_mixes_classes(const gw_node_job *job) {
    return job->options->fast && job->options->verify == 0;
}

static bool probe_shard(gw_node_job *job, gw_workers *workers, gw_err *err) {
    const gw_payload_plan *plan = &job->plan.payload;
    void *payload = NULL;
    if (plan->shards > 0 && (!gw_memory_map(plan->bytes, &payload, err) ||
                             !job->options->job->payload(job->instance, 0, payload, err))) {
        gw_memory_unmap(payload, plan->bytes);
        return gw_fail_in(err, "payload of shard 0, %llu bytes", (unsigned long long)plan->bytes);
    }
    bool good = gw_workers_probe(workers, job->params.origin != NULL ? job->origin.step : 0, 0, payload,
                                 &job->probe, err);
    gw_memory_unmap(payload, plan->bytes);
    return good;
}

/* Computes the initial state and one shard of the first step from it. Their fingerprints show whether this
 * machine computes the same bits as the other peers, and as the machines that began the job. */
static bool compute_probe(gw_node_job *job, gw_workers *workers, gw_err *err) {
    gw_state_print state;
    if (!gw_workers_units(workers, GW_UNIT_INIT, &state, err)) return gw_fail_in(err, "initial state");
    if (!probe_shard(job, workers, err)) return gw_fail_in(err, "probe");
    if (gw_node_job_mixes_classes(job)) job->probe = 0; /* shards differ between classes; states do not */
    job->probe = gw_mix64(job->probe ^ gw_mix64(gw_state_print_whole(state)));
    return true;
}

gw_param *gw_node_job_shared_params(const gw_node_job *job, uint32_t *count) {
    const gw_option *options = job->options->job->options;
    uint32_t size = 0;
    while (options[size].name) size++;
    gw_param *list = calloc(size ? size : 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    *count = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (options[i].local) continue;
        const char *value = gw_param_value(&job->params, options[i].name);
        if (value) list[(*count)++] = (gw_param){.name = options[i].name, .value = value};
    }
    return list;
}

static bool is_option(const gw_job_type *type, const char *name) {
    for (const gw_option *option = type->options; option->name != NULL; option++)
        if (strcmp(option->name, name) == 0) return true;
    return false;
}

gw_param *gw_node_job_manifest_params(gw_node_job *job, uint32_t *count) {
    gw_param *shared = gw_node_job_shared_params(job, count), one;
    uint32_t recorded = 0;
    while (gw_param_recorded(&job->params, recorded, &one)) recorded++;
    gw_param *list = calloc(*count + recorded + 3, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    memcpy(list, shared, *count * sizeof *list);
    free(shared);
    for (uint32_t i = 0; i < recorded && gw_param_recorded(&job->params, i, &one); i++)
        if (!is_option(job->options->job, one.name)) list[(*count)++] = one;
    if (!job->origin.wanted || !job->origin.known) return list;
    gw_hex(job->origin.job.bytes, sizeof job->origin.job.bytes, job->parent_text);
    gw_hex(job->origin.root.bytes, sizeof job->origin.root.bytes, job->root_text);
    snprintf(job->step_text, sizeof job->step_text, "%" PRIu64, job->origin.step);
    list[(*count)++] = (gw_param){"parent", job->parent_text};
    list[(*count)++] = (gw_param){"parent-step", job->step_text};
    list[(*count)++] = (gw_param){"parent-root", job->root_text};
    return list;
}

/* Writes the lines of the identity that are known before a device is open. */
static void write_stem(const gw_node_job *job, FILE *out) {
    const gw_job_type *type = job->options->job;
    fprintf(out, "job=%s\n", type->name);
    if (job->options->code[0] != '\0') fprintf(out, "code=%s\n", job->options->code);
    uint32_t count;
    gw_param *params = gw_node_job_shared_params(job, &count);
    for (uint32_t i = 0; i < count; i++) fprintf(out, "%s=%s\n", params[i].name, params[i].value);
    free(params);
    gw_run_options shared = *job->options;
    shared.steps = job->steps; /* the number of steps that there will be: the job may end before --steps */
    gw_run_options_write_identity(&shared, out);
    if (job->plan.identity != NULL) fputs(job->plan.identity, out);
    /* What --keep-best keeps does not change the job; where the job ends does. */
    if (job->best.rule.patience > 0) fprintf(out, "patience=%u %s\n", job->best.rule.patience, job->best.by);
    char digest[GW_HASH_TEXT];
    gw_hex(job->plan.data_digest.bytes, sizeof job->plan.data_digest.bytes, digest);
    fprintf(out, "data=%s\n", digest);
    gw_node_origin_write(&job->origin, gw_param_value(&job->params, GW_PLACE), out);
}

static void write_identity(const gw_node_job *job, const char *compute_class, FILE *out) {
    write_stem(job, out);
    if (gw_node_job_mixes_classes(job))
        fprintf(out, "kernels=%d\n", gw_kernel_class());
    else
        fprintf(out, "class=%s\n", compute_class);
    /* Names and versions do not tell everything: a library may compute otherwise on another processor. */
    fprintf(out, "probe=%016" PRIx64 "\n", job->probe);
}

bool gw_node_job_identify(gw_node_job *job, gw_device *device, gw_workers *workers, gw_err *err) {
    if (!compute_probe(job, workers, err)) return false;
    size_t length = 0;
    FILE *out = open_memstream(&job->identity, &length);
    if (!out) return gw_fail(err, GW_E_NOMEM, "identity of the job");
    write_identity(job, device->class_text, out);
    if (fclose(out) != 0) return gw_fail(err, GW_E_NOMEM, "identity of the job");
    job->id = gw_identity_text_id(job->identity);
    /* The probe has left nothing in the ledger, so the key of the coverage hash can be set after it. */
    uint64_t key;
    memcpy(&key, job->id.bytes, sizeof key);
    device->ops->set_key(device, key);
    return true;
}

/* Names what differs between the other job and this one, as text that the caller frees: by its identity
 * or, if the directory has none, as far as its manifest tells. */
static char *name_differences(const gw_node_job *job, gw_directory *directory, const gw_manifest *other) {
    char *why = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&why, &length);
    GW_ASSERT_MEMORY(out != NULL);
    char *theirs = gw_identity_text_read(directory, &other->job_id);
    if (strcmp(other->job_name, job->options->job->name) != 0) {
        fprintf(out, "%s, here %s", other->job_name, job->options->job->name);
    } else if (theirs != NULL) {
        gw_identity_text_compare(out, theirs, job->identity);
    } else {
        uint32_t count;
        gw_param *ours = gw_node_job_shared_params(job, &count);
        gw_identity_text_compare_old(out, other, ours, count);
        free(ours);
    }
    free(theirs);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return why;
}

bool gw_node_job_import(gw_node_job *job, gw_store *store, gw_err *err) {
    if (!job->origin.wanted) return true;
    uint32_t count;
    gw_param *params = gw_node_job_manifest_params(job, &count);
    const gw_node_branch branch = {job->options->job->name, job->id, params, count};
    bool good = gw_node_origin_import(&job->origin, &branch, store, err);
    free(params);
    return good;
}

/* Only people need the command: a job goes on without the record. */
static void record_command(const gw_node_job *job, gw_directory *directory) {
    gw_err err;
    const char *typed = job->options->typed;
    if (typed != NULL && !gw_identity_command_write(directory, &job->id, typed, &err))
        gw_log(GW_WARN, "node",
               "the command of this job is not recorded, and `godwit inspect` cannot show it: %s", err.text);
}

bool gw_node_job_begin(const gw_node_job *job, gw_directory *directory, const gw_manifest *other,
                       gw_err *err) {
    if (job->origin.wanted && !job->origin.known) return true; /* this life of the peer computes nothing */
    char *known = gw_identity_text_read(directory, &job->id);
    free(known);
    if (known != NULL) {
        record_command(job, directory);
        return true;
    }
    if (other != NULL && !job->options->fresh && !job->origin.wanted) {
        char *why = name_differences(job, directory, other);
        /* A job of another type has other tensors: --continue refuses its state. */
        bool continues = strcmp(other->job_name, job->options->job->name) == 0;
        gw_fail(err, GW_E_USAGE,
                "%s holds step %" PRIu64 " of another job (%s). Run the command of that job, %sname another "
                "--dir, or begin this job beside it by --fresh",
                directory->path, other->step, why, continues ? "go on from its state by --continue, " : "");
        free(why);
        return false;
    }
    if (!gw_identity_text_write(directory, &job->id, job->identity, err)) return false;
    record_command(job, directory);
    return true;
}

uint64_t gw_node_job_first_step(const gw_node_job *job) {
    if (!job->origin.wanted) return 0;
    return job->origin.known ? job->origin.step : GW_STEP_UNKNOWN;
}
