#include "kernels/jobs/digits/setup.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "kernels/host/memory_limit.h"
#include "kernels/host/need.h"
#include "kernels/math/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES_DEFAULT = 24000, /* drawn digits for training; a sixth as many are drawn for the test set */
    LOG_FROM = 1000000,      /* drawing this many digits takes long and is logged */
    TEST_SHARDS = 48,
    TEST_ROWS_MOST = 500,
};

/* The drawn digits are the same for every --seed, so that seeds compare trainings on the same data. */
static const uint64_t drawing_seed = 1;

const gw_option digits_options[] = {
    {"data", "DIR", NULL,
     "read the four MNIST or Fashion-MNIST IDX files in DIR (default: digits drawn by the program)", true},
    {"samples", "N", NULL, "draw N training digits, and N/6 for the test (default 24000)", false},
    {"hidden", "N,N,..", "128", "widths of the hidden layers, or 'none'", false},
    {"epochs", "N", "5", "passes over the training set", false},
    {"batch", "N", "480", "samples of a step", false},
    {"micro-batch", "N", "40", "samples of a shard", false},
    {"optimizer", "NAME", "adamw", "adamw or sgd", false},
    {"lr", "X", NULL, "highest learning rate, after a tenth of the steps (default 0.01, sgd 0.2)", false},
    {"momentum", "X", "0.9", "decay of the mean gradient (beta1 of adamw)", false},
    {"weight-decay", "X", NULL, "weight decay; biases have none (default 0.01, sgd 0.0001)", false},
    {"epsilon", "X", "1e-8", "adamw: added to the root of the second moment", false},
    {"seed", "N", "1", "seed of the initial weights and of the order of the samples", false},
    {NULL, NULL, NULL, NULL, false},
};

static bool read_hidden(const gw_params *params, gw_mlp *mlp, gw_err *err) {
    const char *text = gw_param_text(params, "hidden");
    GW_ASSERT(text != NULL);
    mlp->layers = 0;
    if (strcmp(text, "none") != 0) {
        for (const char *next = text;; next++) {
            char *end;
            long width = strtol(next, &end, 10);
            if (end == next || width < 1 || width > GW_MLP_WIDTH || (*end != ',' && *end != '\0'))
                return gw_fail(err, GW_E_USAGE, "--hidden: '%s' is not a list of widths from 1 to %d", text,
                               (int)GW_MLP_WIDTH);
            if (mlp->layers == GW_MLP_LAYERS - 1)
                return gw_fail(err, GW_E_USAGE, "--hidden: at most %d hidden layers", GW_MLP_LAYERS - 1);
            mlp->width[++mlp->layers] = (uint32_t)width;
            if (*end == '\0') break;
            next = end;
        }
    }
    char widths[GW_MLP_LAYERS * 12] = "none";
    for (uint32_t i = 1, used = 0; i <= mlp->layers; i++)
        used +=
            (uint32_t)snprintf(widths + used, sizeof widths - used, "%s%u", i > 1 ? "," : "", mlp->width[i]);
    gw_param_use_text(params, "hidden", widths);
    mlp->width[++mlp->layers] = GW_CLASSES;
    return true;
}

static bool read_numbers(const gw_params *params, digits_job *job, gw_err *err) {
    int64_t epochs, batch, micro_batch, seed;
    if (!gw_param_integer(params, "epochs", 1, 1000000, false, &epochs, err) ||
        !gw_param_integer(params, "batch", 1, INT32_MAX, false, &batch, err) ||
        !gw_param_integer(params, "micro-batch", 1, GW_MLP_ROWS, false, &micro_batch, err) ||
        !gw_param_integer(params, "seed", 0, INT64_MAX, false, &seed, err))
        return false;
    if (micro_batch > batch)
        return gw_fail(err, GW_E_USAGE, "--micro-batch: %lld is more than the batch of %lld",
                       (long long)micro_batch, (long long)batch);
    if ((batch + micro_batch - 1) / micro_batch > GW_MAX_SHARDS)
        return gw_fail(err, GW_E_USAGE, "--batch: %lld in micro-batches of %lld makes more than %d shards",
                       (long long)batch, (long long)micro_batch, GW_MAX_SHARDS);
    job->epochs = (uint32_t)epochs;
    job->batch = (uint32_t)batch;
    job->micro_batch = (uint32_t)micro_batch;
    job->seed = (uint64_t)seed;
    return true;
}

static bool read_optimizer(const gw_params *params, digits_job *job, gw_err *err) {
    const char *name = gw_param_text(params, "optimizer");
    GW_ASSERT(name != NULL);
    if (strcmp(name, "adamw") == 0)
        job->optimizer = DIGITS_ADAMW;
    else if (strcmp(name, "sgd") == 0)
        job->optimizer = DIGITS_SGD;
    else
        return gw_fail(err, GW_E_USAGE, "--optimizer: '%s' is neither adamw nor sgd", name);
    job->rate = job->optimizer == DIGITS_ADAMW ? 0.01 : 0.2;
    job->decay = job->optimizer == DIGITS_ADAMW ? 0.01 : 0.0001;
    if (gw_param_text(params, "lr") != NULL && !gw_param_real(params, "lr", 0.0, 1e30, &job->rate, err))
        return false;
    if (gw_param_text(params, "weight-decay") != NULL &&
        !gw_param_real(params, "weight-decay", 0.0, 1e6, &job->decay, err))
        return false;
    gw_param_use_real(params, "lr", job->rate);
    gw_param_use_real(params, "weight-decay", job->decay);
    return gw_param_real(params, "momentum", 0.0, 0.999999, &job->momentum, err) &&
           gw_param_real(params, "epsilon", 1e-30, 1.0, &job->epsilon, err);
}

/* Computes the scale and shift that normalise the pixels, from sums of integers, so that the order of
 * addition does not matter. */
static void measure_pixels(digits_job *job) {
    const gw_images *train = &job->data.train;
    size_t pixels = (size_t)train->count * job->data.rows * job->data.columns;
    uint64_t histogram[256] = {0}, sum = 0, squares = 0;
    for (size_t i = 0; i < pixels; i++) histogram[train->pixels[i]]++;
    for (uint64_t value = 0; value < 256; value++) {
        sum += histogram[value] * value;
        squares += histogram[value] * value * value;
    }
    double mean = (double)sum / (double)pixels, variance = (double)squares / (double)pixels - mean * mean;
    /* blank images have no variance */
    double deviation = __builtin_sqrt(variance > 1.0 ? variance : 1.0);
    job->pixel_scale = (float)(1.0 / deviation);
    job->pixel_shift = (float)(-mean / deviation);
}

/* Draws the digits. Memory is checked first, since drawing fills it at once. */
static bool draw_data(uint32_t count, gw_dataset *data, gw_err *err) {
    uint32_t test_count = count / 6;
    const gw_need need = {.workers = 1,
                          .rest_bytes = gw_dataset_drawn_bytes(count, test_count),
                          .most_bytes = gw_memory_limit(),
                          .smaller = "fewer --samples"};
    if (!gw_need_check(&need, "memory here", "the machine, or the container that this is, has", err))
        return false;
    if (count >= LOG_FROM)
        gw_log(GW_INFO, "data", "drawing %u digits, %.2f GB, at some seconds a million", count + test_count,
               (double)need.rest_bytes * 1e-9);
    return gw_dataset_draw(drawing_seed, count, test_count, data, err);
}

static bool read_data(const gw_params *params, digits_job *job, gw_err *err) {
    const char *directory = gw_param_text(params, "data"), *samples = gw_param_text(params, "samples");
    gw_dataset *data = &job->data;
    if (directory != NULL && samples != NULL)
        return gw_fail(err, GW_E_USAGE, "--samples is for drawn digits and cannot be given with --data");
    if (directory != NULL) {
        if (!gw_dataset_read(directory, data, err)) return false;
    } else {
        int64_t count = SAMPLES_DEFAULT;
        if (samples != NULL && !gw_param_integer(params, "samples", 6, 100000000, false, &count, err))
            return false;
        gw_param_use_integer(params, "samples", count);
        if (!draw_data((uint32_t)count, data, err)) return false;
    }
    gw_param_use_integer(params, "images", data->train.count);
    job->data_digest = gw_dataset_digest(data);
    measure_pixels(job);
    snprintf(job->data_text, sizeof job->data_text, "%u+%u %s of %ux%u%s%.100s", data->train.count,
             data->test.count, directory != NULL ? "images" : "drawn digits", data->rows, data->columns,
             directory != NULL ? " in " : "", directory != NULL ? directory : "");
    uint64_t inputs = (uint64_t)data->rows * data->columns;
    if (inputs > GW_MLP_WIDTH)
        return gw_fail(err, GW_E_LIMIT, "%s: images have %llu pixels, more than %d", directory,
                       (unsigned long long)inputs, GW_MLP_WIDTH);
    job->mlp.width[0] = (uint32_t)inputs;
    return true;
}

static uint64_t steps_for(uint64_t images, uint64_t batch) {
    GW_ASSERT(batch > 0);
    return (images + batch - 1) / batch;
}

/* Where a training that began at `first` is before step `step`, if every epoch has `count` images. */
static digits_progress progress_at(const digits_progress *first, uint64_t count, uint64_t batch,
                                   uint64_t step) {
    digits_progress at = *first;
    uint64_t first_steps = steps_for(count - first->images, batch), every = steps_for(count, batch),
             within = step - first->step;
    at.step = step;
    if (within > first_steps) {
        uint64_t later = within - first_steps - 1; /* an epoch's last step is an evaluation and no update */
        within = later % (every + 1);
        at.epoch += 1 + later / (every + 1);
        at.updates += first_steps + later / (every + 1) * every;
        at.images = 0;
    }
    at.updates += within;
    at.images = within * batch < count - at.images ? at.images + within * batch : count;
    return at;
}

static bool read_place(const char *text, digits_progress *at) {
    unsigned long long epoch, images, updates;
    int length = 0;
    if (sscanf(text, "epoch=%llu images=%llu updates=%llu%n", &epoch, &images, &updates, &length) != 3 ||
        text[length] != '\0' || epoch > UINT32_MAX || images > UINT32_MAX || updates > INT64_MAX)
        return false;
    at->epoch = epoch;
    at->images = images;
    at->updates = updates;
    return true;
}

/* Finds out where the parent was after the steps of its state. Manifests of early builds lack the number of
 * images, which is then that of this job's data. */
static bool find_place(const gw_origin *origin, digits_job *job, gw_err *err) {
    const gw_params parent = {.list = origin->parent, .count = origin->parent_count};
    const char *place = gw_origin_text(origin, GW_PLACE);
    digits_progress began = {0};
    int64_t batch, images = job->data.train.count, step = 0;
    if (!gw_param_integer(&parent, "batch", 1, INT32_MAX, false, &batch, err) ||
        (gw_origin_text(origin, "images") != NULL &&
         !gw_param_integer(&parent, "images", 1, UINT32_MAX, false, &images, err)) ||
        (gw_origin_text(origin, "parent-step") != NULL &&
         !gw_param_integer(&parent, "parent-step", 0, INT64_MAX, false, &step, err)))
        return false;
    if (place != NULL && (!read_place(place, &began) || began.images > (uint64_t)images))
        return gw_fail(err, GW_E_CORRUPT,
                       "the manifest's " GW_PLACE " is '%s', which is no place of a digits job", place);
    began.step = (uint64_t)step;
    job->first = progress_at(&began, (uint64_t)images, (uint64_t)batch, origin->step);
    /* In other data as many images count as taken, and all of them where the parent had taken all of its
     * own. */
    bool all = job->first.images == (uint64_t)images;
    if (all || job->first.images > job->data.train.count) job->first.images = job->data.train.count;
    return true;
}

/* Has the training go on from the state of its parent. */
static bool go_on(const gw_params *params, digits_job *job, gw_err *err) {
    const gw_origin *origin = params->origin;
    char place[96];
    if (origin->place == NULL) {
        if (!find_place(origin, job, err)) return false;
    } else if (!read_place(origin->place, &job->first) || job->first.images > job->data.train.count) {
        return gw_fail(err, GW_E_INVALID, "'%s' is no place of this digits job", origin->place);
    }
    job->first.step = origin->step;
    snprintf(place, sizeof place, "epoch=%llu images=%llu updates=%llu", (unsigned long long)job->first.epoch,
             (unsigned long long)job->first.images, (unsigned long long)job->first.updates);
    gw_param_use_text(params, GW_PLACE, place);
    return true;
}

bool digits_plan_steps(digits_job *job, gw_err *err) {
    uint64_t train = job->data.train.count, test = job->data.test.count;
    if (job->first.epoch >= job->epochs)
        return gw_fail(
            err, GW_E_USAGE,
            "--epochs: the training has %u, and the state that it goes on from has %llu behind it: "
            "give more",
            job->epochs, (unsigned long long)job->first.epoch);
    job->train_steps = steps_for(train, job->batch);
    job->first_steps = steps_for(train - job->first.images, job->batch);
    uint64_t whole = job->epochs - job->first.epoch - 1;
    job->steps = job->first.step + job->first_steps + 1 + whole * (job->train_steps + 1);
    job->updates = job->first.updates + job->first_steps + whole * job->train_steps;
    uint64_t rows = (test + TEST_SHARDS - 1) / TEST_SHARDS;
    job->test_rows = rows < TEST_ROWS_MOST ? (uint32_t)rows : TEST_ROWS_MOST;
    if ((test + job->test_rows - 1) / job->test_rows > GW_MAX_SHARDS)
        return gw_fail(err, GW_E_LIMIT, "%s: the test set of %u makes more than %d shards", job->data_text,
                       job->data.test.count, GW_MAX_SHARDS);
    return true;
}

static bool check_epsilon(const digits_job *job, gw_err *err) {
    if (job->optimizer != DIGITS_ADAMW) return true;
    uint64_t steps[DIGITS_STEPS];
    double worst = 0.0;
    for (uint32_t i = 0, count = digits_steps(job, steps); i < count; i++) {
        digits_place place = digits_place_of(job, steps[i]);
        if (place.phase == GW_EVALUATE) continue;
        double error = 0x1p-40 * place.shards * job->batch / (double)place.count;
        if (error > worst) worst = error;
    }
    return gw_adamw_check_epsilon(job->epsilon, worst, err);
}

static uint32_t add_tensor(digits_job *job, const char *name, gw_tensor tensor) {
    GW_ASSERT(job->tensor_count < sizeof job->tensors / sizeof job->tensors[0]);
    tensor.name = name;
    job->tensors[job->tensor_count] = tensor;
    return job->tensor_count++;
}

static uint32_t add_layer_tensor(digits_job *job, uint32_t layer, const char *kind, const char *part,
                                 gw_tensor tensor) {
    char *name = job->names[job->tensor_count];
    snprintf(name, sizeof job->names[0], "layer%u.%s%s", layer + 1, kind, part);
    return add_tensor(job, name, tensor);
}

/* Adds the weights or the bias of a layer: parameter, moments and gradient. `shape` has rank and dimensions.
 */
static void add_group(digits_job *job, uint32_t group, const char *kind, gw_tensor shape) {
    digits_group *g = &job->groups[group];
    g->layer = group / 2;
    shape.dtype = GW_F32;
    shape.role = GW_STATE;
    shape.group = group;
    g->parameter = add_layer_tensor(job, g->layer, kind, "", shape);
    shape.apply_only = true;
    g->first = add_layer_tensor(job, g->layer, kind, ".m", shape);
    if (job->optimizer == DIGITS_ADAMW) g->second = add_layer_tensor(job, g->layer, kind, ".v", shape);
    shape.role = GW_SUMMED;
    shape.apply_only = false;
    shape.frac_bits = DIGITS_GRADIENT_BITS;
    shape.bucket = job->mlp.layers - 1 - g->layer;
    g->gradient = add_layer_tensor(job, g->layer, kind, ".grad", shape);
}

static void lay_out(digits_job *job) {
    uint32_t layers = job->mlp.layers;
    for (uint32_t l = layers; l-- > 0;) {
        uint32_t in = job->mlp.width[l], out = job->mlp.width[l + 1];
        add_group(job, 2 * l, "weight", (gw_tensor){.rank = 2, .dim = {in, out}});
        add_group(job, 2 * l + 1, "bias", (gw_tensor){.rank = 1, .dim = {out}});
        job->gradients.weights[l] = job->groups[2 * l].gradient;
        job->gradients.bias[l] = job->groups[2 * l + 1].gradient;
    }
    job->result_group = 2 * layers;
    gw_tensor one = {.dtype = GW_F64, .role = GW_STATE, .rank = 1, .dim = {1}, .group = job->result_group};
    job->result_loss = add_tensor(job, "test.loss", one);
    job->result_accuracy = add_tensor(job, "test.accuracy", one);
    one.role = GW_SUMMED;
    job->correct = add_tensor(job, "correct", one);
    job->count = add_tensor(job, "count", one);
    one.frac_bits = DIGITS_LOSS_BITS;
    job->loss = add_tensor(job, "loss", one);
}

digits_place digits_place_of(const digits_job *job, uint64_t step) {
    const digits_progress at = progress_at(&job->first, job->data.train.count, job->batch, step);
    digits_place place = {.epoch = at.epoch, .update = at.updates};
    if (at.images == job->data.train.count) {
        place.phase = GW_EVALUATE;
        place.count = job->data.test.count;
        place.shard_rows = job->test_rows;
    } else {
        uint64_t left = job->data.train.count - at.images;
        place.phase = GW_TRAIN;
        place.first = at.images;
        place.count = left < job->batch ? left : job->batch;
        place.shard_rows = job->micro_batch;
    }
    place.shards = (uint32_t)((place.count + place.shard_rows - 1) / place.shard_rows);
    GW_ASSERT(place.shards >= 1 && place.shards <= GW_MAX_SHARDS);
    return place;
}

uint32_t digits_steps(const digits_job *job, uint64_t steps[DIGITS_STEPS]) {
    uint64_t evaluation = job->first.step + job->first_steps;
    uint32_t count = 0;
    if (job->first_steps > 0) {
        steps[count++] = job->first.step;
        steps[count++] = evaluation - 1;
    }
    steps[count++] = evaluation;
    if (job->first.epoch + 1 < job->epochs) {
        steps[count++] = evaluation + 1;
        steps[count++] = evaluation + job->train_steps;
    }
    return count;
}

digits_samples digits_samples_of(const digits_job *job, const digits_place *place, uint32_t shard) {
    GW_ASSERT(shard < place->shards);
    uint64_t before = (uint64_t)shard * place->shard_rows, left = place->count - before;
    bool train = place->phase == GW_TRAIN;
    const gw_images *images = train ? &job->data.train : &job->data.test;
    return (digits_samples){.images = images,
                            .rows = left < place->shard_rows ? (uint32_t)left : place->shard_rows,
                            .first = place->first + before,
                            .ordered = !train,
                            .order = gw_permutation_of(job->seed, place->epoch, images->count)};
}

uint64_t digits_sample_at(const digits_samples *samples, uint32_t row) {
    GW_ASSERT(row < samples->rows);
    uint64_t position = samples->first + row;
    return samples->ordered ? position : gw_permutation_at(&samples->order, position);
}

bool digits_open(const gw_params *params, void **job_out, gw_err *err) {
    digits_job *job = calloc(1, sizeof *job);
    if (job == NULL) return gw_fail(err, GW_E_NOMEM, "digits: out of memory");
    if (!read_hidden(params, &job->mlp, err) || !read_numbers(params, job, err) ||
        !read_optimizer(params, job, err) || !gw_blas_check(err) || !read_data(params, job, err) ||
        (params->origin != NULL && !go_on(params, job, err)) || !digits_plan_steps(job, err) ||
        !check_epsilon(job, err)) {
        digits_close(job);
        return false;
    }
    lay_out(job);
    *job_out = job;
    return true;
}

void digits_close(void *job_pointer) {
    digits_job *job = job_pointer;
    gw_dataset_free(&job->data);
    free(job);
}
