#include "tools/godwit/node/job.h"

#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/identity.h"
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

static bool is_option(const gw_job_type *type, const char *name) {
    for (const gw_option *option = type->options; option->name != NULL; option++)
        if (strcmp(option->name, name) == 0) return true;
    return false;
}

/* Adds to an error about the tensors of the state which of the options that its job had differ here. */
static bool blame_options(const gw_node_job *job, gw_err *err) {
    const gw_manifest *parent = &job->origin.manifest;
    char text[200] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < parent->param_count && used < sizeof text; i++) {
        const gw_param *one = &parent->params[i];
        const char *here =
            is_option(job->options->job, one->name) ? gw_param_value(&job->params, one->name) : NULL;
        if (here == NULL || gw_param_is_same(one->value, here)) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s--%s %s, here %s", used > 0 ? "; " : "",
                                 one->name, one->value, here);
    }
    gw_err why = *err;
    return used > 0 && gw_fail(err, why.code, "%s. Options of that job that differ here: %s", why.text, text);
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
    if (!gw_node_origin_check(origin, plan, err)) return blame_options(job, err);
    if (!gw_node_best_choose(job->options, plan, &job->best, err)) return false;
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

/* Returns the lines of the identity that are known before a device is open, as text that the caller frees. */
static char *stem_of(const gw_node_job *job) {
    char *stem = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&stem, &length);
    GW_ASSERT_MEMORY(out != NULL);
    write_stem(job, out);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return stem;
}

/* The nearest of several other jobs: the one that differs in the fewest things, or among such the one that
 * was saved last. */
typedef struct nearest {
    char *text;      /* what differs; owned; NULL: there is no job yet */
    uint32_t differ; /* in how many things */
    uint64_t saved_ms;
    gw_hash id;
} nearest;

/* The names of the options that the command line gives. */
static const char *const *given_of(const gw_node_job *job) {
    static const char *const none[] = {NULL};
    return job->options->given != NULL ? job->options->given : none;
}

/* Considers another job, whose text it owns from then on. Returns whether it is nearer. */
static bool take_nearer(nearest *n, nearest other) {
    bool nearer = n->text == NULL || other.differ < n->differ ||
                  (other.differ == n->differ && other.saved_ms > n->saved_ms);
    free(nearer ? n->text : other.text);
    if (nearer) *n = other;
    return nearer;
}

/* Whether the job is the one that went on from this state before: its identity begins with the same lines.
 * Otherwise notes what differs. */
static bool has_begun(const gw_node_job *job, nearest *other) {
    const char *begun = job->origin.begun;
    char *stem = stem_of(job), *text = NULL;
    size_t length = 0, bytes = strlen(stem);
    bool same = strncmp(begun, stem, bytes) == 0;
    if (!same) {
        FILE *out = open_memstream(&text, &length);
        char *lines = strdup(begun);
        GW_ASSERT_MEMORY(out != NULL && lines != NULL);
        /* What is known when a device is open is behind the last of these lines. */
        static const char *const tails[] = {"\nclass=", "\nkernels=", "\nprobe="};
        for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
            char *tail = strstr(lines, tails[i]);
            if (tail != NULL) tail[1] = '\0';
        }
        uint32_t differ = gw_identity_text_compare(out, lines, stem, given_of(job), GW_IDENTITY_NAMED);
        free(lines);
        GW_ASSERT_MEMORY(fclose(out) == 0);
        take_nearer(other, (nearest){.text = text, .differ = differ, .id = gw_identity_text_id(begun)});
    }
    free(stem);
    return same;
}

/* Opens the job with the last of the states: it is none of the jobs that went on here before. */
static bool open_last(gw_node_job *job, const nearest *other, gw_err *err) {
    char id[9];
    bool good = job->origin.missing == NULL ? open_from(job, err)
                                            : gw_fail(err, GW_E_USAGE, "%s", job->origin.missing);
    if (good && job->origin.choice != NULL) gw_log(GW_INFO, "node", "%s", job->origin.choice);
    if (good || other->text == NULL || err->code != GW_E_USAGE) return good;
    gw_err why = *err;
    gw_hex(other->id.bytes, 4, id);
    return gw_fail(err, why.code,
                   "%s. If the job %s is meant, which went on in %s before: it is another one: %s", why.text,
                   id, job->options->dir, other->text);
}

bool gw_node_job_open(gw_node_job *job, const gw_run_options *options, gw_node_origin *origins,
                      uint32_t count, gw_err *err) {
    const gw_job_type *type = options->job;
    nearest other = {0};
    job->options = options;
    if (type->api != GW_JOB_API)
        return gw_fail(err, GW_E_UNSUPPORTED, "job %s was built for API %u, this is %u", type->name,
                       type->api, GW_JOB_API);
    bool good = false;
    for (uint32_t i = 0; i < count; i++) {
        job->origin = origins[i];
        origins[i] = (gw_node_origin){0};
        bool begun = job->origin.begun != NULL;
        good = begun ? open_from(job, err) && has_begun(job, &other) : open_last(job, &other, err);
        if (good || !begun) break;
        close_instance(job);
        gw_node_origin_close(&job->origin);
    }
    free(other.text);
    return good;
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

/* Has the job keep its best state as it did before, or as the job from which it goes on did. */
static bool inherit_best(gw_node_job *job, gw_err *err) {
    gw_catalog catalog;
    const char *by = NULL;
    if (!gw_catalog_load(gw_io_system(), job->options->dir, &catalog, err)) return false;
    for (uint32_t i = 0; i < catalog.good_count && by == NULL; i++)
        if (gw_hash_equal(&catalog.good[i].job_id, &job->id)) by = catalog.good[i].best_by;
    if (by == NULL && job->origin.has_manifest) by = job->origin.manifest.best_by;
    if (by != NULL) gw_node_best_inherit(job->options, &job->plan, by, &job->best);
    gw_catalog_free(&catalog);
    return true;
}

bool gw_node_job_identify(gw_node_job *job, gw_device *device, gw_workers *workers, gw_err *err) {
    if (!compute_probe(job, workers, err)) return false;
    size_t length = 0;
    FILE *out = open_memstream(&job->identity, &length);
    if (!out) return gw_fail(err, GW_E_NOMEM, "identity of the job");
    write_identity(job, device->class_text, out);
    if (fclose(out) != 0) return gw_fail(err, GW_E_NOMEM, "identity of the job");
    job->id = gw_identity_text_id(job->identity);
    if (!job->options->fresh && !inherit_best(job, err)) return false;
    /* The probe has left nothing in the ledger, so the key of the coverage hash can be set after it. */
    uint64_t key;
    memcpy(&key, job->id.bytes, sizeof key);
    device->ops->set_key(device, key);
    return true;
}

enum { ANOTHER_JOB = 1000, NO_IDENTITY = 100 }; /* things that differ in a comparison that tells little */

/* Names what differs between the other job and this one, as text that the caller frees: by its identity
 * or, if the directory has none, as far as its manifest tells. Counts it. */
static char *name_differences(const gw_node_job *job, gw_directory *directory, const gw_manifest *other,
                              uint32_t *differ) {
    char *why = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&why, &length);
    GW_ASSERT_MEMORY(out != NULL);
    char *theirs = gw_identity_text_read(&directory->io, directory->path, &other->job_id);
    if (strcmp(other->job_name, job->options->job->name) != 0) {
        fprintf(out, "%s, here %s", other->job_name, job->options->job->name);
        *differ = ANOTHER_JOB;
    } else if (theirs != NULL) {
        *differ = gw_identity_text_compare(out, theirs, job->identity, given_of(job), GW_IDENTITY_NAMED);
    } else {
        uint32_t count;
        gw_param *ours = gw_node_job_shared_params(job, &count);
        *differ = NO_IDENTITY + gw_identity_text_compare_old(out, other, ours, count);
        free(ours);
    }
    free(theirs);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return why;
}

/* Whether a job's later checkpoint is `one` and not `other`. */
static bool is_later(const gw_manifest *one, const gw_manifest *other) {
    return one->epoch != other->epoch ? one->epoch > other->epoch : one->step > other->step;
}

/* Compares this job with the one that has the manifest, if that is the job's first in the catalog. Counts the
 * job. Returns the job's latest manifest if it is nearer than those before, and otherwise NULL. */
static const gw_manifest *consider_other(const gw_node_job *job, gw_directory *directory,
                                         const gw_catalog *catalog, uint32_t index, uint32_t *jobs,
                                         nearest *best) {
    const gw_manifest *last = &catalog->good[index];
    nearest one = {.id = last->job_id};
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *other = &catalog->good[i];
        if (!gw_hash_equal(&other->job_id, &one.id)) continue;
        if (i < index) return NULL;
        if (is_later(other, last)) last = other;
        if (other->created_ms > one.saved_ms) one.saved_ms = other->created_ms;
    }
    ++*jobs;
    one.text = name_differences(job, directory, last, &one.differ);
    return take_nearer(best, one) ? last : NULL;
}

/* Logs all that differs between another job and this one, of which an error names the first. */
static void log_differences(const gw_node_job *job, const gw_hash *id, const char *theirs) {
    char *text = NULL, short_id[9];
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    gw_identity_text_compare(out, theirs, job->identity, given_of(job), UINT32_MAX);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    gw_hex(id->bytes, 4, short_id);
    gw_log(GW_INFO, "node", "all that differs between job %s and this one: %s", short_id, text);
    free(text);
}

/* The length of the word of a shell's command line with which `text` begins; it may be quoted, in part or
 * as a whole (gw_command_line_text). */
static size_t word_length(const char *text) {
    size_t length = 0;
    bool quoted = false;
    for (; text[length] != '\0' && (quoted || text[length] != ' '); length++) {
        if (!quoted && text[length] == '\\' && text[length + 1] != '\0')
            length++;
        else if (text[length] == '\'')
            quoted = !quoted;
    }
    return length;
}

/* Writes with which files of data the command of another job was given, "; its command has --data a.txt
 * --val b.txt", as of digests that differ nobody can tell which file is meant. Writes nothing where that
 * is not known. */
static void name_files(gw_directory *directory, const gw_hash *id, char *text, size_t size) {
    static const char *const options[] = {"--data", "--val", "--init"};
    char *command = gw_identity_command_read(&directory->io, directory->path, id);
    size_t used = 0;
    text[0] = '\0';
    for (const char *at = command; at != NULL && *at != '\0'; at += strspn(at, " ")) {
        const char *word = at + (*at == '\'');
        size_t length = word_length(at), name = 0;
        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
            if (strncmp(word, options[i], strlen(options[i])) == 0 && word[strlen(options[i])] != '\0' &&
                strchr(" =", word[strlen(options[i])]) != NULL)
                name = strlen(options[i]);
        if (name == length && at[length] == ' ') length += 1 + word_length(at + length + 1);
        if (name > 0 && used + 24 + length < size)
            used += (size_t)snprintf(text + used, size - used, "%s%.*s",
                                     used == 0 ? "; its command has " : " ", (int)length, at);
        at += length;
    }
    free(command);
}

/* Fails because the directory holds other jobs, and tells how the nearest of them can be meant. */
static bool refuse_directory(const gw_node_job *job, gw_directory *directory, const gw_catalog *catalog,
                             gw_err *err) {
    nearest best = {0};
    const gw_manifest *newest = NULL;
    uint32_t jobs = 0;
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *one = consider_other(job, directory, catalog, i, &jobs, &best);
        if (one != NULL) newest = one;
    }
    GW_ASSERT(newest != NULL);
    char *identity = gw_identity_text_read(&directory->io, directory->path, &best.id),
         origin[GW_IDENTITY_ORIGIN];
    if (identity != NULL && best.differ > GW_IDENTITY_NAMED && best.differ < NO_IDENTITY)
        log_differences(job, &best.id, identity);
    char id[9], which[80], command[GW_PATH_BYTES + 60] = "", go_on[60] = "", files[400] = "";
    const char *other_jobs = jobs > 1 ? "them" : "it";
    gw_hex(best.id.bytes, 4, id);
    snprintf(which, sizeof which, "step %" PRIu64 " of another job", newest->step);
    if (jobs > 1) {
        snprintf(which, sizeof which, "%u other jobs; the nearest is %s, at step %" PRIu64, jobs, id,
                 newest->step);
        snprintf(command, sizeof command, " (`godwit inspect --job %s %s` shows it)", id, directory->path);
    }
    /* A job of another type has other tensors: --continue refuses its state. */
    if (strcmp(newest->job_name, job->options->job->name) == 0)
        snprintf(go_on, sizeof go_on, "go on from its state by --continue%s%s%s, ", jobs > 1 ? "=@" : "",
                 jobs > 1 ? id : "", jobs > 1 ? ":" : "");
    const char *steps =
        best.differ == 1 && strncmp(best.text, "steps=", strlen("steps=")) == 0
            ? ". --steps is the end of a job, and a part of what it is; to stop for a while there "
              "is godwit stop"
            : "";
    if (strstr(best.text, gw_identity_digest_text("data")) != NULL)
        name_files(directory, &best.id, files, sizeof files);
    bool only_origin = best.differ == 1 && strstr(best.text, "; ") == NULL && identity != NULL &&
                       gw_identity_origin(identity, origin);
    if (only_origin)
        gw_fail(err, GW_E_USAGE,
                "%s holds %s, which was begun by --continue, from %s, and differs in nothing else: give "
                "--continue here too to go on with it, name another --dir, or begin this job beside %s by "
                "--fresh",
                directory->path, which, origin, other_jobs);
    else
        gw_fail(err, GW_E_USAGE,
                "%s holds %s (%s%s). Run the command of that job%s, %sname another --dir, or begin this job "
                "beside %s by --fresh%s",
                directory->path, which, best.text, files, command, go_on, other_jobs, steps);
    free(identity);
    free(best.text);
    return false;
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

/* Tells once what is other in a job that goes on than in the one that it goes on from: an option that was
 * mistyped, or data that changed, show here. */
static void log_changes(const gw_node_job *job, gw_directory *directory) {
    const gw_node_origin *origin = &job->origin;
    char *theirs = gw_identity_text_read(&directory->io, directory->path, &origin->job), *text = NULL, id[9];
    size_t length = 0;
    if (theirs == NULL && origin->has_manifest)
        theirs = gw_identity_text_read(gw_io_system(), origin->dir, &origin->job);
    if (theirs == NULL) return; /* another peer has named the parent, or an early build has made it */
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    gw_identity_text_changes(out, theirs, job->identity, given_of(job));
    GW_ASSERT_MEMORY(fclose(out) == 0);
    gw_hex(job->origin.job.bytes, 4, id);
    gw_log(GW_INFO, "node", "a new job, that goes on from job %s; what differs: %s", id, text);
    free(text);
    free(theirs);
}

/* Only people need the command: a job goes on without the record. */
static void record_command(const gw_node_job *job, gw_directory *directory) {
    gw_err err;
    const char *typed = job->options->typed;
    if (typed != NULL && !gw_identity_command_write(directory, &job->id, typed, &err))
        gw_log(GW_WARN, "node",
               "the command of this job is not recorded, and `godwit inspect` cannot show it: %s", err.text);
}

bool gw_node_job_begin(gw_node_job *job, gw_directory *directory, const gw_manifest *other, gw_err *err) {
    if (job->origin.wanted && !job->origin.known) return true; /* this life of the peer computes nothing */
    char *known = gw_identity_text_read(&directory->io, directory->path, &job->id);
    free(known);
    if (known != NULL) {
        record_command(job, directory);
        return true;
    }
    if (other != NULL && !job->options->fresh && !job->origin.wanted) {
        gw_catalog catalog;
        if (!gw_catalog_load(&directory->io, directory->path, &catalog, err)) return false;
        bool refused = catalog.good_count > 0 && !refuse_directory(job, directory, &catalog, err);
        gw_catalog_free(&catalog);
        if (refused) return false;
    }
    if (job->origin.wanted) log_changes(job, directory);
    if (!gw_identity_text_write(directory, &job->id, job->identity, err)) return false;
    job->begun_now = true;
    record_command(job, directory);
    return true;
}

void gw_node_job_take_back(const gw_node_job *job, gw_directory *directory) {
    char file[GW_CATALOG_NAME_BYTES], path[GW_PATH_BYTES];
    gw_err err;
    if (!job->begun_now) return;
    if (!gw_identity_forget(directory, &job->id, &err)) gw_log(GW_INFO, "node", "%s", err.text);
    const gw_node_origin *origin = &job->origin;
    if (origin->wanted && origin->known &&
        gw_durable_path(path, &err, "%s/manifests/%s", directory->path,
                        gw_catalog_name(&job->id, origin->step, &origin->root, file)))
        directory->io.unlink(&directory->io, path);
}

uint64_t gw_node_job_first_step(const gw_node_job *job) {
    if (!job->origin.wanted) return 0;
    return job->origin.known ? job->origin.step : GW_STEP_UNKNOWN;
}
