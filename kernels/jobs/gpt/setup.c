#include "kernels/jobs/gpt/setup.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/params.h"
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/math/blas.h"
#include "kernels/math/permutation.h"
#include "kernels/model/gpt/config.h"
#include "kernels/model/gpt/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The least length of a decay. Its first update still has the full rate, so that a decay of one update would
 * not lower any rate. */
enum { LEAST_DECAY = 2 };
/* The size of a shard's residual stream, in elements, up to which its kernels are short: they take some 10 us
 * on an H100, and a layer has fifty. The host needs a few us to start each. */
enum { SHORT_KERNELS = 1 << 20 };
enum { DEFAULT_SHARDS = 24, DEFAULT_SHARD_TOKENS = 256, EVAL_BATCHES = 20, BYTE_VALUES = 256 };
static const int64_t UPDATES_MOST = 1000000000000;

const gw_option gpt_options[] = {
    {"data", "FILE,..", NULL,
     "train on these: text or any bytes, or tokens (llm.c's .bin, NumPy's .npy); a folder works too, and in "
     "quotes a pattern: "
     "'a-*.bin'",
     true},
    {"val", "FILE,..", NULL, "evaluate on these, of the same kind", true},
    {"data-dtype", "NAME", "auto",
     "what files without a header hold, such as nanoGPT's .bin: uint16 or uint32; auto: none are expected",
     true},
    {"model", "NAME", GW_GPT_USUAL, "nano, gpt2, gpt2-medium, gpt2-large or gpt2-xl", false},
    {"init", "FILE|DIR,..[@STEP]", NULL,
     "begin with the weights, and no moments or progress of a schedule, of this GPT-2, a folder as "
     "transformers "
     "save one or a safetensors file, or of the newest checkpoint in these directories, which must not "
     "change while the job runs; DIR@STEP or DIR@JOB:STEP takes that checkpoint, DIR@JOB: the newest one of "
     "the job whose id begins so. A config.json gives the shape; a checkpoint's model must have this shape; "
     "a "
     "smaller --context takes the first of its positions",
     true},
    {"layers", "N", NULL, "layers, at most 80 (default: the model's, as for the next five)", false},
    {"heads", "N", NULL,
     "attention heads of a layer; on GPUs a head has at most 128 channels, in bf16 a multiple of 16", false},
    {"channels", "N", NULL, "width of the model; on GPUs at most 4096", false},
    {"context", "N", NULL, "tokens of a window", false},
    {"vocab", "N", NULL, "number of different tokens (default: 256 for bytes, else the model's)", false},
    {"lr", "X", NULL, "highest learning rate", false},
    {"epochs", "X", NULL, "passes over all windows (default: 1)", false},
    {"updates", "N", NULL,
     "number of updates of the training, instead of --epochs; evaluations are further steps", false},
    {"batch-tokens", "N", NULL, "tokens of an update (default 24 shards)", false},
    {"micro-batch", "N", NULL, "windows of a shard (default: about 256 tokens, or the batch)", false},
    {"schedule", "NAME", "cosine", "schedule of the learning rate: cosine, linear, wsd or constant", false},
    {"min-lr", "X", "0.1", "learning rate after the last update, as a fraction of --lr", false},
    {"warmup", "N", NULL, "updates until the learning rate is reached (default: a twentieth, at most 2000)",
     false},
    {"decay-updates", "N", NULL, "wsd: updates in which the rate falls, at least 2 (default: a fifth)",
     false},
    {"weight-decay", "X", "0.1", "weight decay, for matrices only", false},
    {"beta1", "X", "0.9", "decay of the mean gradient", false},
    {"beta2", "X", "0.95", "decay of the mean squared gradient", false},
    {"epsilon", "X", "1e-8", "added to the root of the second moment", false},
    {"clip", "X", "1", "largest norm of the gradient; 0 for no bound", false},
    {"dropout", "X", "0", "fraction of the activations that is dropped in training", false},
    {"eval-every", "N", "250", "updates between evaluations", false},
    {"val-tokens", "N", NULL, "tokens that an evaluation reads (default: all, at most 20 batches)", false},
    {"seed", "N", "1", "seed of initial weights, order and dropout", false},
    {"recompute", NULL, NULL, "compute layers again instead of keeping them: less memory, a third slower",
     true},
    {"graphs", "on|off|auto", "auto",
     "start a shard on a GPU as one CUDA graph, instead of kernel by kernel; auto: if kernels are short",
     true},
    {"sample-every", "N", NULL,
     "every N steps, let the model continue --prompt, beside the training, and print it", true},
    {"prompt", "TEXT", NULL, "samples begin with this text (a line break, or a new text with --tokenizer)",
     true},
    {"sample-tokens", "N", NULL, "tokens of a sample, at most 1000 (default 100)", true},
    {"tokenizer", "DIR", NULL,
     "the tokenizer of samples in DIR: tokenizer.json, or vocab.json and merges.txt (tokens are bytes)",
     true},
    {NULL, NULL, NULL, NULL, false},
};

static bool read_model(const gw_params *params, gpt_job *job, gw_err *err) {
    if (!gw_gpt_configure(params, &job->gpt, &job->schedule.most, err) ||
        (gw_param_text(params, "lr") != NULL &&
         !gw_param_real(params, "lr", 0.0, 1e3, &job->schedule.most, err)))
        return false;
    gw_param_use_real(params, "lr", job->schedule.most);
    return true;
}

/* Options whose defaults or bounds depend on the files. */
typedef struct requests {
    double epochs;
    int64_t vocabulary, updates, val_tokens, warmup, decay; /* NOT_GIVEN: determined from the files */
} requests;
enum { NOT_GIVEN = -1 };

static int64_t given_or(int64_t given, int64_t otherwise) {
    return given != NOT_GIVEN ? given : otherwise;
}

/* Sets the vocabulary. A model with more tokens than bytes normally encodes a text otherwise than by its
 * bytes; plain bytes are then refused unless the user gives the vocabulary. */
static bool fit_vocabulary(const gw_params *params, const requests *r, gpt_job *job, gw_err *err) {
    uint32_t known = gw_gpt_file_vocabulary(&job->init);
    bool shards = job->data.shards;
    if (known > BYTE_VALUES && !shards && r->vocabulary == NOT_GIVEN)
        return gw_fail(
            err, GW_E_USAGE,
            "--init: the model has %u tokens, but --data is plain bytes; it needs token shards (.bin). "
            "If the model's tokens are bytes, give --vocab %u",
            known, known);
    int64_t usual = known > 0 ? known : shards ? job->gpt.vocabulary : BYTE_VALUES;
    job->gpt.vocabulary = (uint32_t)given_or(r->vocabulary, usual);
    gw_param_use_integer(params, "vocab", job->gpt.vocabulary);
    return true;
}

static bool open_init(const gw_params *params, const gw_gpt_weights *first, gpt_job *job, gw_err *err) {
    const char *init = gw_param_text(params, "init");
    gw_gpt shape; /* read first, so that another architecture is refused by its name and not by its tensors */
    if (first != NULL) return gw_gpt_file_from_memory(&first->gpt, first->parameters, &job->init, err);
    if (init == NULL) return true;
    return (gw_gpt_file_shape(init, &shape, err) || gw_fail_in(err, "%s", init)) &&
           gw_safetensors_begin(init, &job->init, err);
}

/* Checks that the weights have this context. A smaller one, which cuts positions off, must be requested. */
static bool check_context(const gw_params *params, const gpt_job *job, gw_err *err) {
    uint32_t known = gw_gpt_file_context(&job->init), own = job->gpt.context;
    return known <= own || gw_param_text(params, "context") != NULL ||
           gw_fail(
               err, GW_E_USAGE,
               "its model has a context of %u, and this job %u: give --context %u, or --context %u to take "
               "its first positions only",
               known, own, known, own);
}

static void tell_others(const gpt_job *job, const char *init) {
    char names[300];
    uint32_t others = gw_gpt_file_others(&job->gpt, &job->init, names, sizeof names);
    if (others > 0)
        gw_log(GW_WARN, "init", "%s: %u tensor%s of no use for a GPT-2 and not read: %s", init, others,
               others == 1 ? " is" : "s are", names);
}

/* Checks that the weights are of a model that computes as this one does. */
static bool check_init(const gw_params *params, const gw_gpt_weights *first, const gpt_job *job,
                       gw_err *err) {
    const char *init = gw_param_text(params, "init");
    if (job->init.list == NULL) return true;
    uint32_t heads = first != NULL ? first->gpt.heads : gw_gpt_file_heads(init);
    bool good = gw_gpt_file_check(&job->gpt, &job->init, heads, err);
    if (good && first == NULL) good = gw_gpt_file_check_config(&job->gpt, init, err);
    if (good && first != NULL && first->gpt.heads != job->gpt.heads)
        good = gw_fail(err, GW_E_USAGE, "its model has %u heads, and this job %u: give --heads",
                       first->gpt.heads, job->gpt.heads);
    good = good && check_context(params, job, err);
    if (good && first == NULL) tell_others(job, init);
    return good || gw_fail_in(err, "--init: %s", init);
}

/* Checks that all files exist and have valid headers. */
static bool open_files(const gw_params *params, const gw_gpt_weights *first, gpt_job *job, gw_err *err) {
    const char *data = gw_param_text(params, "data"), *validation = gw_param_text(params, "val");
    const uint32_t headless = job->headless;
    if (!gw_tokens_begin(data, job->gpt.context, headless, &job->data, err)) return gw_fail_in(err, "--data");
    if (validation != NULL && !gw_tokens_begin(validation, job->gpt.context, headless, &job->validation, err))
        return gw_fail_in(err, "--val");
    const char *both = validation != NULL ? gw_tokens_repeated(&job->data, &job->validation) : NULL;
    if (both != NULL)
        gw_log(GW_WARN, "gpt",
               "--val: %s is among the files of --data: an evaluation on what is trained on does not show "
               "overfitting",
               both);
    bool shards = job->data.shards;
    if (validation != NULL && job->validation.shards != shards)
        return gw_fail(err, GW_E_USAGE, "--val has %s, but --data has %s",
                       shards ? "plain bytes" : "token shards", shards ? "token shards" : "plain bytes");
    if (!open_init(params, first, job, err)) return gw_fail_in(err, "--init");
    snprintf(job->data_text, sizeof job->data_text, "%.100s, %llu %s", data,
             (unsigned long long)job->data.tokens, shards ? "tokens" : "bytes");
    return true;
}

/* Warns where the vocabulary that nobody has given is larger than the data let one expect: the usual one of a
 * model is that of GPT-2's tokenizer. */
static void warn_of_vocabulary(const requests *r, const gpt_job *job) {
    uint32_t largest =
        job->data.largest > job->validation.largest ? job->data.largest : job->validation.largest;
    if (!job->data.shards || r->vocabulary != NOT_GIVEN || job->init.list != NULL ||
        largest >= job->gpt.vocabulary / 10 * 9)
        return;
    gw_log(GW_WARN, "data",
           "no token of the data is above %" PRIu32 ", and the model has %" PRIu32
           ": if their tokenizer has fewer tokens, give their number by --vocab (godwit tokenize shows it)",
           largest, job->gpt.vocabulary);
}

/* Reads all files, which may take minutes. Everything that can be checked without reading them has been
 * checked. */
static bool read_files(const requests *r, gpt_job *job, gw_err *err) {
    bool validation = job->validation.windows > 0, init = job->init.path != NULL;
    if (!gw_tokens_read(&job->data, err)) return gw_fail_in(err, "--data");
    if (validation && !gw_tokens_read(&job->validation, err)) return gw_fail_in(err, "--val");
    if (init && !gw_safetensors_read(&job->init, err)) return gw_fail_in(err, "--init");
    const gw_tokens *sets[] = {&job->data, &job->validation};
    for (int i = 0; i < 2; i++)
        if (sets[i]->largest >= job->gpt.vocabulary)
            return gw_fail(err, GW_E_INVALID, "--vocab: %u is too small: --%s contains token %u",
                           job->gpt.vocabulary, i == 0 ? "data" : "val", sets[i]->largest);
    warn_of_vocabulary(r, job);
    gw_hash digests[] = {job->data.digest, job->validation.digest, job->init.digest};
    gw_blake2b(digests, sizeof digests, &job->data_digest, sizeof job->data_digest);
    return true;
}

static bool read_batch(const gw_params *params, gpt_job *job, gw_err *err) {
    int64_t context = job->gpt.context;
    int64_t micro = context < DEFAULT_SHARD_TOKENS ? DEFAULT_SHARD_TOKENS / context : 1;
    if (!gw_gpt_option(params, "micro-batch", 1, GW_GPT_ROWS / context, &micro, err)) return false;
    int64_t tokens = DEFAULT_SHARDS * micro * context;
    if (!gw_gpt_option(params, "batch-tokens", context, INT32_MAX, &tokens, err)) return false;
    if (tokens % context != 0)
        return gw_fail(err, GW_E_USAGE, "--batch-tokens: %lld is no multiple of the context of %lld; %lld is",
                       (long long)tokens, (long long)context, (long long)(tokens / context * context));
    int64_t batch = tokens / context;
    if (micro > batch && gw_param_text(params, "micro-batch") == NULL) micro = batch;
    if (micro > batch)
        return gw_fail(err, GW_E_USAGE, "--micro-batch: %lld windows are more than the batch of %lld",
                       (long long)micro, (long long)batch);
    if ((batch + micro - 1) / micro > GW_MAX_SHARDS)
        return gw_fail(err, GW_E_USAGE, "--micro-batch: %lld makes more than %d shards of a batch of %lld",
                       (long long)micro, GW_MAX_SHARDS, (long long)batch);
    job->micro_batch = (uint32_t)micro;
    job->batch = (uint32_t)batch;
    gw_param_use_integer(params, "micro-batch", micro);
    gw_param_use_integer(params, "batch-tokens", tokens);
    return true;
}

/* Whether an option has another value than its default. */
static bool is_given(const gw_params *params, const char *name) {
    const gw_option *option = gpt_options;
    while (strcmp(option->name, name) != 0) option++;
    const char *value = gw_param_text(params, name);
    if (value == NULL || option->fallback == NULL) return value != NULL;
    return !gw_param_is_same(value, option->fallback);
}

/* Refuses options that have no meaning beside or without other options. */
static bool check_combinations(const gw_params *params, gw_err *err) {
    static const char *const of_evaluations[] = {"val-tokens", "eval-every"};
    if (is_given(params, "updates") && is_given(params, "epochs"))
        return gw_fail(err, GW_E_USAGE, "--updates %s and --epochs %s: give only one of them",
                       gw_param_text(params, "updates"), gw_param_text(params, "epochs"));
    static const char *const of_samples[] = {"prompt", "sample-tokens", "tokenizer"};
    for (int i = 0; i < 3; i++)
        if (!is_given(params, "sample-every") && is_given(params, of_samples[i]))
            return gw_fail(err, GW_E_USAGE, "--%s: there are no samples without --sample-every",
                           of_samples[i]);
    int64_t number;
    if ((is_given(params, "sample-every") &&
         !gw_param_integer(params, "sample-every", 1, INT64_MAX, false, &number, err)) ||
        (is_given(params, "sample-tokens") &&
         !gw_param_integer(params, "sample-tokens", 1, 1000, false, &number, err)))
        return false;
    for (int i = 0; i < 2; i++)
        if (!is_given(params, "val") && is_given(params, of_evaluations[i]))
            return gw_fail(err, GW_E_USAGE, "--%s: there is no evaluation without --val", of_evaluations[i]);
    return true;
}

/* How many updates were made when a job that goes on begins, how many windows they took, and whether the next
 * step evaluates them. */
typedef struct progress {
    uint64_t updates, windows;
    bool evaluates;
} progress;

/* Describes for people how long the training is, of which `made` updates were made before. */
static void describe_length(gpt_job *job, uint64_t first_step, uint64_t made) {
    unsigned long long updates = job->updates - made, evaluations = job->steps - first_step - updates;
    double pass = (double)job->data.windows / job->batch; /* in updates */
    char evaluating[60] = "", before[60] = "";
    if (made > 0) snprintf(before, sizeof before, " after the %llu made before", (unsigned long long)made);
    if (evaluations > 0)
        snprintf(evaluating, sizeof evaluating, " and %llu evaluation%s", evaluations,
                 evaluations == 1 ? "" : "s");
    snprintf(job->length_text, sizeof job->length_text,
             "%llu tokens an update, %llu update%s%s%s; one pass over the data is %.*f updates",
             (unsigned long long)job->batch * job->gpt.context, updates, updates == 1 ? "" : "s", before,
             evaluating, pass < 10 ? 2 : 0, pass);
}

static bool read_requests(const gw_params *params, gpt_job *job, requests *r, gw_err *err) {
    int64_t eval_every;
    *r = (requests){0.0, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN};
    r->epochs = 1.0;
    if (!check_combinations(params, err) ||
        (gw_param_text(params, "epochs") != NULL &&
         !gw_param_real(params, "epochs", 1e-6, 1e9, &r->epochs, err)) ||
        !gw_gpt_option(params, "vocab", 1, 1 << 24, &r->vocabulary, err) ||
        !gw_gpt_option(params, "updates", 1, UPDATES_MOST, &r->updates, err) ||
        !gw_gpt_option(params, "val-tokens", job->gpt.context, INT64_MAX, &r->val_tokens, err) ||
        !gw_gpt_option(params, "warmup", 0, INT64_MAX, &r->warmup, err) ||
        !gw_gpt_option(params, "decay-updates", LEAST_DECAY, INT64_MAX, &r->decay, err) ||
        !gw_param_integer(params, "eval-every", 1, UPDATES_MOST, false, &eval_every, err))
        return false;
    job->eval_every = (uint64_t)eval_every;
    return true;
}

static bool fit_evaluations(const gw_params *params, const requests *r, gpt_job *job, gw_err *err) {
    int64_t all = (int64_t)job->validation.windows, context = job->gpt.context;
    int64_t usual = all < EVAL_BATCHES * (int64_t)job->batch ? all : EVAL_BATCHES * (int64_t)job->batch;
    int64_t tokens = given_or(r->val_tokens, usual * context);
    job->eval_windows = (uint64_t)(tokens / context < all ? tokens / context : all);
    if ((job->eval_windows + job->micro_batch - 1) / job->micro_batch > GW_MAX_SHARDS)
        return gw_fail(err, GW_E_USAGE, "--val-tokens: %lld make more than %d shards", (long long)tokens,
                       GW_MAX_SHARDS);
    gw_param_use_integer(params, "val-tokens", (int64_t)job->eval_windows * context);
    return true;
}

/* The steps of a training that begins anew, in which an evaluation follows every `every` updates (0: none
 * does) and the last one. */
static uint64_t steps_of(uint64_t updates, uint64_t every) {
    return every > 0 ? updates + (updates + every - 1) / every : updates;
}

/* The number of updates that step `step` of such a training makes or follows, as it is known without the
 * number of all updates, and whether the step is an evaluation. */
static uint64_t updates_before(uint64_t step, uint64_t every, bool *evaluates) {
    *evaluates = every > 0 && step % (every + 1) == every;
    return every > 0 ? step - step / (every + 1) : step;
}

/* The step of such a training that follows this progress. An evaluation that the parent still had to make is
 * left out where this training makes none after as many updates. */
static uint64_t step_after(const progress *made, uint64_t every) {
    if (every == 0) return made->updates;
    uint64_t step = made->updates + made->updates / every;
    return made->evaluates && made->updates > 0 && made->updates % every == 0 ? step - 1 : step;
}

static bool read_place(const char *text, progress *made) {
    unsigned evaluates;
    int length = 0;
    unsigned long long updates, windows;
    if (sscanf(text, "updates=%llu windows=%llu evaluates=%u%n", &updates, &windows, &evaluates, &length) !=
            3 ||
        text[length] != '\0' || updates > (unsigned long long)UPDATES_MOST || windows > INT64_MAX ||
        evaluates > 1)
        return false;
    *made = (progress){updates, windows, evaluates != 0};
    return true;
}

/* The number of updates of a training on this job's data. */
static uint64_t updates_of(double epochs, uint32_t batch, const gpt_job *job) {
    const double most = (double)UPDATES_MOST;
    double updates = __builtin_ceil(epochs * (double)job->data.windows / batch);
    return updates < most ? (uint64_t)updates : (uint64_t)UPDATES_MOST;
}

/* Finds out what the parent had done after the steps of its state. Manifests of early builds lack values that
 * were not typed. They are then the defaults, the data were as many, and an evaluation took place if this job
 * makes one. */
static bool find_progress(const gw_origin *origin, const gpt_job *job, progress *made, gw_err *err) {
    const gw_params parent = {.list = origin->parent, .count = origin->parent_count};
    const char *place = gw_origin_text(origin, GW_PLACE);
    int64_t context = job->gpt.context, updates = NOT_GIVEN, every = 250, began = 0;
    double epochs = 1.0;
    int64_t micro = context < DEFAULT_SHARD_TOKENS ? DEFAULT_SHARD_TOKENS / context : 1;
    if (!gw_gpt_option(&parent, "micro-batch", 1, INT32_MAX, &micro, err)) return false;
    int64_t tokens = DEFAULT_SHARDS * micro * context;
    if (!gw_gpt_option(&parent, "batch-tokens", 1, INT32_MAX, &tokens, err) ||
        !gw_gpt_option(&parent, "updates", 1, UPDATES_MOST, &updates, err) ||
        !gw_gpt_option(&parent, "eval-every", 1, UPDATES_MOST, &every, err) ||
        !gw_gpt_option(&parent, "parent-step", 0, INT64_MAX, &began, err) ||
        (updates == NOT_GIVEN && gw_origin_text(origin, "epochs") != NULL &&
         !gw_param_real(&parent, "epochs", 1e-6, 1e9, &epochs, err)))
        return false;
    uint64_t batch = (uint64_t)(tokens / context);
    uint64_t most = updates != NOT_GIVEN ? (uint64_t)updates : updates_of(epochs, (uint32_t)batch, job);
    bool early = gw_origin_text(origin, "eval-every") != NULL && gw_origin_text(origin, "val-tokens") == NULL;
    bool evaluated = gw_origin_text(origin, "val-tokens") != NULL || (early && job->eval_windows > 0);
    if (!evaluated) every = 0;
    progress before = {0};
    if (place != NULL && !read_place(place, &before))
        return gw_fail(err, GW_E_CORRUPT,
                       "the manifest's " GW_PLACE " is '%s', which is no place of a gpt job", place);
    uint64_t step = origin->step - (uint64_t)began + step_after(&before, (uint64_t)every);
    made->updates = updates_before(step, (uint64_t)every, &made->evaluates);
    if (made->updates >= most) { /* the last evaluation follows fewer updates than the others */
        made->updates = most;
        made->evaluates = step < steps_of(most, (uint64_t)every);
    }
    made->windows = before.windows + (made->updates - before.updates) * batch;
    return true;
}

bool gw_gpt_job_updates(const gw_param *params, uint32_t count, uint64_t step, uint64_t *updates) {
    const gw_params of_job = {.list = params, .count = count};
    const gw_origin after = {.step = step, .parent = params, .parent_count = count};
    gpt_job job = {.steps = 0};
    progress made;
    double rate;
    gw_err ignored;
    bool known = gw_origin_text(&after, "updates") != NULL &&
                 gw_gpt_configure(&of_job, &job.gpt, &rate, &ignored) &&
                 find_progress(&after, &job, &made, &ignored);
    if (known) *updates = made.updates;
    return known;
}

/* Has the training go on from the state of its parent. */
static bool go_on(const gw_params *params, gpt_job *job, gw_err *err) {
    const gw_origin *origin = params->origin;
    progress made = {0};
    char place[96];
    if (origin->place == NULL) {
        if (!find_progress(origin, job, &made, err)) return false;
    } else if (!read_place(origin->place, &made)) {
        return gw_fail(err, GW_E_INVALID, "'%s' is no place of a gpt job", origin->place);
    }
    if (made.updates >= job->updates)
        return gw_fail(err, GW_E_USAGE,
                       "--updates: the training has %" PRIu64
                       ", and the state that it goes on from has %" PRIu64 " behind it: give more",
                       job->updates, made.updates);
    snprintf(place, sizeof place, "updates=%" PRIu64 " windows=%" PRIu64 " evaluates=%d", made.updates,
             made.windows, made.evaluates);
    gw_param_use_text(params, GW_PLACE, place);
    job->shift = step_after(&made, job->eval_windows > 0 ? job->eval_every : 0) - origin->step;
    job->start = made.windows - made.updates * job->batch;
    job->steps -= job->shift;
    describe_length(job, origin->step, made.updates);
    return true;
}

static bool fit_length(const gw_params *params, const requests *r, gpt_job *job, gw_err *err) {
    job->updates = (uint64_t)given_or(r->updates, (int64_t)updates_of(r->epochs, job->batch, job));
    gw_param_use_integer(params, "updates", (int64_t)job->updates);
    gw_param_use_text(params, "epochs", NULL); /* --updates determines the length */
    if (job->validation.windows > 0) {
        if (!fit_evaluations(params, r, job, err)) return false;
    } else
        gw_param_use_text(params, "eval-every", NULL);
    job->steps = steps_of(job->updates, job->eval_windows > 0 ? job->eval_every : 0);
    if (params->origin != NULL) return go_on(params, job, err);
    describe_length(job, 0, 0);
    return true;
}

static bool read_schedule(const gw_params *params, gpt_job *job, gw_err *err) {
    gw_schedule *schedule = &job->schedule;
    const char *name = gw_param_text(params, "schedule");
    double least;
    GW_ASSERT(name != NULL);
    if (!gw_schedule_named(name, &schedule->kind))
        return gw_fail(err, GW_E_USAGE, "--schedule: '%s' is not one of cosine, linear, wsd, constant", name);
    if (!gw_param_real(params, "min-lr", 0.0, 1.0, &least, err)) return false;
    schedule->least = least * schedule->most;
    if (schedule->kind == GW_SCHEDULE_CONSTANT && is_given(params, "min-lr"))
        return gw_fail(err, GW_E_USAGE,
                       "--min-lr: the rate of --schedule constant does not fall: choose another schedule");
    return schedule->kind == GW_SCHEDULE_WSD || !is_given(params, "decay-updates") ||
           gw_fail(err, GW_E_USAGE, "--decay-updates is for --schedule wsd and not for %s", name);
}

/* Adds to the text about the length where a job that goes on is in its schedule, which counts the updates of
 * its parent as well: nobody should find out from a curve that a decay went on. */
static void describe_rate(gpt_job *job, uint64_t first_step) {
    char rate[100], *pass = strstr(job->length_text, "; one pass");
    gw_schedule_describe(&job->schedule, gpt_place_of(job, first_step).update, rate, sizeof rate);
    size_t used = strlen(job->length_text), room = sizeof job->length_text;
    if (pass != NULL && used + strlen(rate) + 3 > room) used = (size_t)(pass - job->length_text);
    snprintf(job->length_text + used, room - used, "; %s", rate);
}

static bool fit_schedule(const gw_params *params, const requests *r, gpt_job *job, gw_err *err) {
    gw_schedule *schedule = &job->schedule;
    int64_t updates = (int64_t)job->updates;
    int64_t warmup = given_or(r->warmup, updates / 20 < 2000 ? updates / 20 : 2000);
    int64_t decay = given_or(r->decay, updates / 5);
    bool wsd = schedule->kind == GW_SCHEDULE_WSD;
    if (wsd && decay < LEAST_DECAY)
        return gw_fail(
            err, GW_E_USAGE,
            "--schedule wsd: a fifth of %lld updates is too short a decay: give --decay-updates, or choose "
            "another schedule",
            (long long)updates);
    if (warmup > updates)
        return gw_fail(err, GW_E_USAGE, "--warmup: %lld updates are more than the training has, %lld",
                       (long long)warmup, (long long)updates);
    if (wsd && decay > updates)
        return gw_fail(err, GW_E_USAGE, "--decay-updates: %lld updates are more than the training has, %lld",
                       (long long)decay, (long long)updates);
    schedule->updates = job->updates;
    schedule->warmup = (uint64_t)warmup;
    schedule->decay = (uint64_t)decay;
    gw_param_use_integer(params, "warmup", warmup);
    if (wsd) gw_param_use_integer(params, "decay-updates", decay);
    if (schedule->kind == GW_SCHEDULE_CONSTANT) gw_param_use_text(params, "min-lr", NULL);
    if (params->origin != NULL) describe_rate(job, params->origin->step);
    return true;
}

static bool read_graphs(const gw_params *params, gpt_job *job, gw_err *err) {
    const char *graphs = gw_param_text(params, "graphs");
    GW_ASSERT(graphs != NULL);
    bool on = strcmp(graphs, "on") == 0, choose = strcmp(graphs, "auto") == 0;
    if (!on && !choose && strcmp(graphs, "off") != 0)
        return gw_fail(err, GW_E_USAGE, "--graphs: '%s' is not one of on, off, auto", graphs);
    uint64_t elements = (uint64_t)job->micro_batch * job->gpt.context * job->gpt.channels;
    job->graphs = on || (choose && elements <= SHORT_KERNELS);
    return true;
}

/* Reads the optimizer's options, and checks epsilon against the error of the exact sum of a batch's shards
 * (gw_adamw_check_epsilon). */
static bool read_optimizer(const gw_params *params, gpt_job *job, gw_err *err) {
    int64_t seed;
    if (!gw_param_real(params, "weight-decay", 0.0, 1e6, &job->decay, err) ||
        !gw_param_real(params, "beta1", 0.0, 0.999999, &job->beta1, err) ||
        !gw_param_real(params, "beta2", 0.0, 0.999999, &job->beta2, err) ||
        !gw_param_real(params, "epsilon", 1e-30, 1.0, &job->epsilon, err) ||
        !gw_param_real(params, "clip", 0.0, 1e9, &job->clip, err) ||
        !gw_param_real(params, "dropout", 0.0, 0.99, &job->dropout, err) ||
        !gw_param_integer(params, "seed", 0, INT64_MAX, false, &seed, err))
        return false;
    job->seed = (uint64_t)seed;
    job->recompute = gw_param_text(params, "recompute") != NULL;
    if (!read_graphs(params, job, err)) return false;
    uint32_t shards = (job->batch + job->micro_batch - 1) / job->micro_batch;
    double error = GPT_GRADIENT_UNIT * shards;
    /* An epsilon that nobody has chosen is not to blame for a batch that somebody has. */
    if (job->epsilon < error && !is_given(params, "epsilon"))
        return gw_fail(
            err, GW_E_USAGE,
            "--batch-tokens: %" PRIu64 " tokens are %" PRIu32
            " shards, whose mean gradient is summed in units of %.2g, and AdamW's --epsilon of %g must "
            "not be smaller than that: give fewer tokens, a larger --micro-batch, or a larger --epsilon",
            (uint64_t)job->batch * job->gpt.context, shards, error, job->epsilon);
    return gw_adamw_check_epsilon(job->epsilon, error, err);
}

static void lay_out_parameter(gpt_job *job, uint32_t number) {
    static const char *const suffixes[GPT_KINDS] = {"", ".m", ".v", ".grad"};
    gw_gpt_parameter parameter = gw_gpt_parameter_of(&job->gpt, number);
    for (uint32_t kind = 0; kind < GPT_KINDS; kind++) {
        uint32_t t = GPT_KINDS * number + kind;
        snprintf(job->names[t], sizeof job->names[t], "%s%s", parameter.name, suffixes[kind]);
        job->tensors[t] = (gw_tensor){.name = job->names[t],
                                      .dtype = GW_F32,
                                      .role = kind == GPT_GRADIENT ? GW_SUMMED : GW_STATE,
                                      .rank = parameter.rank,
                                      .dim = {parameter.dim[0], parameter.dim[1]},
                                      .group = number,
                                      .bucket = parameter.bucket,
                                      .frac_bits = GPT_GRADIENT_BITS,
                                      .apply_only = kind == GPT_FIRST_MOMENT || kind == GPT_SECOND_MOMENT};
    }
    job->gradients[number] = GPT_KINDS * number + GPT_GRADIENT;
}

static void lay_out(gpt_job *job) {
    job->parameters = gw_gpt_parameters(&job->gpt);
    for (uint32_t i = 0; i < job->parameters; i++) lay_out_parameter(job, i);
    job->results = GPT_KINDS * job->parameters;
    gw_tensor one = {.dtype = GW_F64, .role = GW_STATE, .rank = 1, .dim = {1}, .group = job->parameters};
    gw_tensor *results = &job->tensors[job->results];
    results[GPT_RESULT_LOSS] = results[GPT_RESULT_VALIDATION] = one;
    one.role = GW_SUMMED;
    results[GPT_SUM_COUNT] = results[GPT_SUM_LOSS] = one;
    results[GPT_SUM_LOSS].frac_bits = GPT_LOSS_BITS;
    results[GPT_RESULT_LOSS].name = "loss";
    results[GPT_RESULT_VALIDATION].name = "loss.validation";
    results[GPT_SUM_COUNT].name = "sum.count";
    results[GPT_SUM_LOSS].name = "sum.loss";
}

gpt_place gpt_place_of(const gpt_job *job, uint64_t step_of_job) {
    uint64_t step = step_of_job + job->shift;
    uint64_t cycle = job->eval_windows > 0 ? step / (job->eval_every + 1) : 0;
    uint64_t update = step - cycle,
             end = job->eval_windows > 0 ? (cycle + 1) * job->eval_every : job->updates;
    if (end > job->updates) end = job->updates;
    gpt_place place = {.phase = GW_TRAIN, .update = update, .windows = job->batch};
    if (job->eval_windows > 0 && update == end) {
        place.phase = GW_EVALUATE;
        place.windows = job->eval_windows;
    }
    place.shards = (uint32_t)((place.windows + job->micro_batch - 1) / job->micro_batch);
    return place;
}

uint32_t gpt_sequences(const gpt_job *job, const gpt_place *place, uint32_t shard) {
    GW_ASSERT(shard < place->shards);
    uint64_t left = place->windows - (uint64_t)shard * job->micro_batch;
    return left < job->micro_batch ? (uint32_t)left : job->micro_batch;
}

uint64_t gpt_window(const gpt_job *job, const gpt_place *place, uint32_t shard, uint32_t i) {
    uint64_t window = (uint64_t)shard * job->micro_batch + i, windows = job->data.windows;
    if (place->phase != GW_TRAIN) return window;
    uint64_t position = job->start + place->update * job->batch + window;
    gw_permutation order = gw_permutation_of(job->seed, position / windows, windows);
    return gw_permutation_at(&order, position % windows);
}

bool gpt_gather(const gpt_job *job, const gpt_place *place, uint32_t shard, uint32_t *tokens,
                uint32_t *targets, gw_err *err) {
    const gw_tokens *set = place->phase == GW_TRAIN ? &job->data : &job->validation;
    for (uint32_t i = 0; i < gpt_sequences(job, place, shard); i++) {
        size_t row = (size_t)i * job->gpt.context;
        if (!gw_tokens_window(set, gpt_window(job, place, shard, i), tokens + row, targets + row, err))
            return false;
    }
    return true;
}

static bool read_dtype(const gw_params *params, gpt_job *job, gw_err *err) {
    const char *name = gw_param_text(params, "data-dtype");
    if (name == NULL || strcmp(name, "auto") == 0) return true;
    job->headless = strcmp(name, "uint16") == 0 ? 2 : strcmp(name, "uint32") == 0 ? 4 : 0;
    return job->headless > 0 ||
           gw_fail(err, GW_E_USAGE, "--data-dtype: '%s' is not one of auto, uint16, uint32", name);
}

static bool read_options(const gw_params *params, gpt_job *job, requests *r, gw_err *err) {
    if (gw_param_text(params, "data") == NULL)
        return gw_fail(err, GW_E_USAGE,
                       "gpt needs --data FILE: text, any bytes, or token shards to train on");
    return read_model(params, job, err) && read_dtype(params, job, err) && read_batch(params, job, err) &&
           read_requests(params, job, r, err) && read_schedule(params, job, err) &&
           read_optimizer(params, job, err);
}

/* Reads options and files. Slow checks come last, since quick ones find most mistakes. */
static bool set_up(const gw_params *params, const gw_gpt_weights *first, gpt_job *job, gw_err *err) {
    requests requested = {0};
    return read_options(params, job, &requested, err) && gw_blas_check(err) &&
           open_files(params, first, job, err) && fit_vocabulary(params, &requested, job, err) &&
           check_init(params, first, job, err) && fit_length(params, &requested, job, err) &&
           fit_schedule(params, &requested, job, err) && read_files(&requested, job, err);
}

bool gw_gpt_job_check(const gw_params *params, gw_err *err) {
    gpt_job *job = calloc(1, sizeof *job);
    requests requested = {0};
    if (job == NULL) return gw_fail(err, GW_E_NOMEM, "gpt: out of memory");
    bool good = read_options(params, job, &requested, err);
    gpt_close(job);
    return good;
}

bool gw_gpt_job_open(const gw_params *params, const gw_gpt_weights *first, void **job_out, gw_err *err) {
    gpt_job *job = calloc(1, sizeof *job);
    if (job == NULL) return gw_fail(err, GW_E_NOMEM, "gpt: out of memory");
    if (!set_up(params, first, job, err)) {
        gpt_close(job);
        return false;
    }
    lay_out(job);
    *job_out = job;
    return true;
}

void gpt_close(void *job_pointer) {
    gpt_job *job = job_pointer;
    gw_tokens_close(&job->data);
    gw_tokens_close(&job->validation);
    gw_safetensors_close(&job->init);
    free(job);
}
