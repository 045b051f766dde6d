#include "tools/godwit/node/job.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/params.h"
#include "core/rng.h"
#include "kernels/device/class.h"
#include "kernels/host/memory.h"
#include "kernels/jobs/gpt/gpt.h"
#include "tools/godwit/weights/init.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMED = 3 }; /* differences from another job that a log line names */

static bool open_gpt(gw_node_job *job, gw_err *err) {
    const gw_params *params = &job->options->params;
    gw_model *model = &job->first_model;
    /* The parameters are checked before the weights are loaded, which may take long. */
    if (!gw_gpt_job_check(params, err) || !gw_init_load(params, job->options->dir, model, err)) return false;
    const gw_gpt_weights first = {model->gpt, (const float *const *)model->parameters};
    return gw_gpt_job_open(params, model->memory != NULL ? &first : NULL, &job->instance, err);
}

bool gw_node_job_open(gw_node_job *job, const gw_run_options *options, gw_err *err) {
    const gw_job_type *type = options->job;
    job->options = options;
    if (type->api != GW_JOB_API)
        return gw_fail(err, GW_E_UNSUPPORTED, "job %s was built for API %u, this is %u", type->name,
                       type->api, GW_JOB_API);
    job->open = type == &gw_job_gpt ? open_gpt(job, err) : type->open(&options->params, &job->instance, err);
    if (!job->open) return false;
    if (!type->describe(job->instance, &job->plan, err)) return gw_fail_in(err, "job %s", type->name);
    /* A job in a shared object may have filled these to the last byte. */
    gw_plan *plan = &job->plan;
    plan->data_text[sizeof plan->data_text - 1] = plan->model_text[sizeof plan->model_text - 1] =
        plan->length_text[sizeof plan->length_text - 1] = '\0';
    job->steps = job->plan.steps != 0 ? job->plan.steps : UINT64_MAX;
    if (options->steps != 0 && options->steps < job->steps) job->steps = options->steps;
    return true;
}

void gw_node_job_close(gw_node_job *job) {
    if (job->open) job->options->job->close(job->instance);
    gw_model_free(&job->first_model);
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
    bool good = gw_workers_probe(workers, 0, 0, payload, &job->probe, err);
    gw_memory_unmap(payload, plan->bytes);
    return good;
}

/* Computes the initial state and one shard of step 0. Their fingerprints show whether this machine computes
 * the same bits as the other peers, and as the machines that began the job. */
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
        const char *value = gw_param_value(&job->options->params, options[i].name);
        if (value) list[(*count)++] = (gw_param){.name = options[i].name, .value = value};
    }
    return list;
}

static void write_identity(const gw_node_job *job, const char *compute_class, FILE *out) {
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
    char digest[GW_HASH_TEXT];
    gw_hex(job->plan.data_digest.bytes, sizeof job->plan.data_digest.bytes, digest);
    fprintf(out, "data=%s\n", digest);
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
    gw_blake2b(job->identity, length, job->id.bytes, sizeof job->id.bytes);
    /* The probe has left nothing in the ledger, so the key of the coverage hash can be set after it. */
    uint64_t key;
    memcpy(&key, job->id.bytes, sizeof key);
    device->ops->set_key(device, key);
    return true;
}

static const char *value_of(const gw_param *params, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(params[i].name, name) == 0) return params[i].value;
    return NULL;
}

/* Lines of an identity whose values are hashes, which mean nothing to people, and the text that stands for
 * them. */
static const struct {
    const char *name, *text;
} hashed[] = {{"data", "the data differ"},
              {"code", "the file of the shared object differs"},
              {"program", "the file of the program differs"}};

/* How the names of lines begin whose values are digests of files (core/godwit.h, gw_plan.identity). */
static const char file_prefix[] = "file:";

/* Whether a difference in this line follows from another one, so that it need not be named: almost any
 * option changes the bits of a first shard, and jobs with float sums name the build where others name a
 * compute class. */
static bool is_consequence(const char *name, const char *other) {
    return strcmp(name, "probe") == 0 ||
           (other == NULL && (strcmp(name, "class") == 0 || strcmp(name, "kernels") == 0));
}

/* Writes one difference, unless MOST_NAMED are written, and counts it. */
static void write_difference(FILE *out, uint32_t *differ, const char *name, const char *theirs,
                             const char *here) {
    if ((*differ)++ >= MOST_NAMED) return;
    const char *separator = *differ == 1 ? "" : "; ";
    for (size_t i = 0; i < sizeof hashed / sizeof hashed[0]; i++) {
        if (strcmp(hashed[i].name, name) != 0) continue;
        fprintf(out, "%s%s", separator, hashed[i].text);
        return;
    }
    if (strncmp(name, file_prefix, sizeof file_prefix - 1) == 0 && theirs != NULL && here != NULL)
        fprintf(out, "%sthe file %s differs", separator, name + sizeof file_prefix - 1);
    else
        fprintf(out, "%s%s=%s, here %s", separator, name, theirs ? theirs : "not given",
                here ? here : "not given");
}

/* Splits the text of an identity into names and values. The caller frees the list, which points into the
 * text. */
static gw_param *split_identity(char *text, uint32_t *count) {
    *count = 0;
    for (const char *at = text; *at != '\0'; at++) *count += *at == '\n';
    gw_param *list = calloc(*count + 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    *count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (value == NULL) continue;
        *value++ = '\0';
        list[(*count)++] = (gw_param){.name = line, .value = value};
    }
    return list;
}

static void write_differences(FILE *out, const gw_param *theirs, uint32_t their_count, const gw_param *ours,
                              uint32_t count) {
    uint32_t differ = 0;
    for (uint32_t i = 0; i < their_count; i++) {
        const char *here = value_of(ours, count, theirs[i].name);
        if (is_consequence(theirs[i].name, here)) continue;
        if (here == NULL || !gw_param_is_same(theirs[i].value, here))
            write_difference(out, &differ, theirs[i].name, theirs[i].value, here);
    }
    for (uint32_t i = 0; i < count; i++)
        if (value_of(theirs, their_count, ours[i].name) == NULL && !is_consequence(ours[i].name, NULL))
            write_difference(out, &differ, ours[i].name, NULL, ours[i].value);
    if (differ > MOST_NAMED) fprintf(out, "; and %u more", differ - MOST_NAMED);
    const char *probe = value_of(ours, count, "probe"), *their_probe = value_of(theirs, their_count, "probe");
    if (differ == 0 && probe != NULL && their_probe != NULL && strcmp(probe, their_probe) != 0)
        fprintf(out, "the bits of a first shard differ, as another processor or library may give them");
    else if (differ == 0)
        fputs("nothing differs that can be named", out);
}

/* An earlier build has left a manifest, with the options as they were typed, and no identity. It named the
 * build in what a job is, so that no job of this build is the same. */
static void write_old_differences(FILE *out, const gw_manifest *other, const gw_param *ours, uint32_t count) {
    uint32_t differ = 0;
    fputs("begun by an earlier build", out);
    for (uint32_t i = 0; i < other->param_count; i++) {
        const gw_param *theirs = &other->params[i];
        const char *here = value_of(ours, count, theirs->name);
        if (here == NULL || gw_param_is_same(theirs->value, here) || ++differ > MOST_NAMED) continue;
        fprintf(out, "; %s=%s, here %s", theirs->name, theirs->value, here);
    }
}

static bool identity_path(const gw_directory *directory, const gw_hash *id, char path[GW_PATH_BYTES],
                          gw_err *err) {
    char digits[9];
    gw_hex(id->bytes, 4, digits);
    return gw_durable_path(path, err, "%s/job-%s", directory->path, digits);
}

/* Reads the identity of a job that was begun in the directory, as text that the caller frees; NULL if
 * there is none. */
static char *read_identity(gw_directory *directory, const gw_hash *id) {
    enum { IDENTITY_MOST = 1 << 20 };
    char path[GW_PATH_BYTES];
    void *bytes;
    size_t length;
    gw_err ignored;
    if (!identity_path(directory, id, path, &ignored) ||
        !gw_durable_read(&directory->io, path, IDENTITY_MOST, &bytes, &length, &ignored))
        return NULL;
    char *text = strndup(bytes, length);
    GW_ASSERT_MEMORY(text != NULL);
    free(bytes);
    return text;
}

/* Names what differs between the other job and this one, as text that the caller frees: by its identity
 * or, if the directory has none, as far as its manifest tells. */
static char *name_differences(const gw_node_job *job, gw_directory *directory, const gw_manifest *other) {
    char *why = NULL;
    size_t length = 0;
    uint32_t count, their_count;
    FILE *out = open_memstream(&why, &length);
    GW_ASSERT_MEMORY(out != NULL);
    char *theirs = read_identity(directory, &other->job_id);
    if (strcmp(other->job_name, job->options->job->name) != 0) {
        fprintf(out, "%s, here %s", other->job_name, job->options->job->name);
    } else if (theirs != NULL) {
        char *own = strdup(job->identity);
        GW_ASSERT_MEMORY(own != NULL);
        gw_param *ours = split_identity(own, &count), *list = split_identity(theirs, &their_count);
        write_differences(out, list, their_count, ours, count);
        free(ours);
        free(list);
        free(own);
    } else {
        gw_param *ours = gw_node_job_shared_params(job, &count);
        write_old_differences(out, other, ours, count);
        free(ours);
    }
    free(theirs);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return why;
}

bool gw_node_job_begin(const gw_node_job *job, gw_directory *directory, const gw_manifest *other,
                       gw_err *err) {
    char path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    char *known = read_identity(directory, &job->id);
    free(known);
    if (known != NULL) return true;
    if (other != NULL && !job->options->fresh) {
        char *why = name_differences(job, directory, other);
        gw_fail(err, GW_E_USAGE,
                "%s holds step %" PRIu64
                " of another job (%s). Run the command of that job, name another --dir, or "
                "begin this job beside it by --fresh",
                directory->path, other->step, why);
        free(why);
        return false;
    }
    return identity_path(directory, &job->id, path, err) &&
           gw_durable_path(temporary, err, "%s/job.new", directory->path) &&
           gw_durable_replace(&directory->io, temporary, directory->path, path, job->identity,
                              strlen(job->identity), err);
}
