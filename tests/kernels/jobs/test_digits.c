/* The job digits as a whole, in plain memory (trial.h) and on the CPU device. */
#include "kernels/device/device.h"
#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/digits/setup.h"
#include "tests/kernels/data/idx_files.h"
#include "tests/kernels/trial.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Uneven sizes: an epoch has five steps of 7 shards and a last one of 2, whose last shard has 3 samples. */
#define ODD                                                                                                  \
    "samples", "1016", "batch", "203", "micro-batch", "33", "hidden", "37,19", "epochs", "2", "seed", "11"

Test(digits, any_order_of_the_shards_gives_the_same_sums) {
    trial *t = trial_open(&gw_job_digits, PAIRS(ODD));
    trial_init(t, UINT64_MAX);
    for (uint64_t step = 0; step < t->plan.steps; step++) {
        trial_sum(t, step, TRIAL_FORWARD);
        gw_hash forward = trial_sums_hash(t);
        trial_sum(t, step, TRIAL_BACKWARD);
        gw_hash backward = trial_sums_hash(t);
        trial_sum(t, step, TRIAL_SHUFFLED);
        gw_hash shuffled = trial_sums_hash(t);
        cr_assert(gw_hash_equal(&forward, &backward) && gw_hash_equal(&forward, &shuffled), "step %d",
                  (int)step);
        trial_apply(t, step, UINT64_MAX);
    }
    trial_close(t);
}

/* Runs the whole job, with init and apply divided into ranges of at most `elements`. */
static gw_hash run_in_ranges(const char *const *pairs, uint64_t elements) {
    trial *t = trial_open(&gw_job_digits, pairs);
    trial_init(t, elements);
    for (uint64_t step = 0; step < t->plan.steps; step++) {
        trial_sum(t, step, TRIAL_FORWARD);
        cr_assert_eq(t->bad, 0);
        trial_apply(t, step, elements);
    }
    gw_hash hash = trial_state_hash(t);
    trial_close(t);
    return hash;
}

Test(digits, any_ranges_give_the_same_state) {
    gw_hash whole = run_in_ranges(PAIRS(ODD), UINT64_MAX), odd = run_in_ranges(PAIRS(ODD), 1001),
            tiny = run_in_ranges(PAIRS(ODD), 3);
    cr_assert(gw_hash_equal(&whole, &odd) && gw_hash_equal(&whole, &tiny));
    whole = run_in_ranges(PAIRS(ODD, "optimizer", "sgd"), UINT64_MAX);
    cr_assert_not(gw_hash_equal(&whole, &odd));
    odd = run_in_ranges(PAIRS(ODD, "optimizer", "sgd"), 1001);
    cr_assert(gw_hash_equal(&whole, &odd));
}

Test(digits, seeds_differ_and_the_path_of_the_data_does_not_matter) {
    gw_hash first = run_in_ranges(PAIRS(ODD), UINT64_MAX),
            other = run_in_ranges(PAIRS(ODD, "seed", "12"), UINT64_MAX);
    cr_assert_not(gw_hash_equal(&first, &other));
    idx_folder a = idx_folder_make(), b = idx_folder_make();
    idx_write_set(&a, 100, 50, 6, 7, false);
    idx_write_set(&b, 100, 50, 6, 7, true);
    trial *in_a = trial_open(&gw_job_digits, PAIRS("data", a.path)),
          *in_b = trial_open(&gw_job_digits, PAIRS("data", b.path));
    cr_assert(gw_hash_equal(&in_a->plan.data_digest, &in_b->plan.data_digest));
    trial_run(in_a, in_a->plan.steps);
    trial_run(in_b, in_b->plan.steps);
    first = trial_state_hash(in_a);
    other = trial_state_hash(in_b);
    cr_assert(gw_hash_equal(&first, &other));
    trial_close(in_a);
    trial_close(in_b);
    idx_folder_remove(&a);
    idx_folder_remove(&b);
}

/* In the step that is compared, both jobs take samples 900 to 999 of the same order, one as the last, partial
 * batch of 300 and one as a batch of 100. With plain SGD without momentum, the parameters move by the
 * learning rate times the mean gradient, whatever the nominal count. */
Test(digits, a_partial_batch_is_scaled_by_its_true_count) {
#define PLAIN                                                                                                \
    "samples", "1000", "hidden", "16", "epochs", "1", "optimizer", "sgd", "momentum", "0", "weight-decay", "0"
    trial *partial =
              trial_open(&gw_job_digits, PAIRS(PLAIN, "batch", "300", "micro-batch", "40", "lr", "0.4")),
          *exact = trial_open(&gw_job_digits, PAIRS(PLAIN, "batch", "100", "micro-batch", "40", "lr", "1"));
    const uint64_t steps[] = {3, 9};
    trial *both[] = {partial, exact};
    uint32_t weight = trial_tensor(exact, "layer1.weight"), count = trial_tensor(exact, "count");
    float *start = malloc(784 * 16 * sizeof *start);
    for (int k = 0; k < 2; k++) {
        trial_init(both[k], UINT64_MAX);
        memcpy(start, both[k]->state[weight], 784 * 16 * sizeof *start);
        trial_sum(both[k], steps[k], TRIAL_FORWARD);
        cr_assert_eq(both[k]->sums[count][0], 100);
        trial_apply(both[k], steps[k], UINT64_MAX);
    }
    /* rates by the schedule: 0.4 * (1 - 3/4) and 1 * (1 - 9/10) are equal */
    const float *a = partial->state[weight], *b = exact->state[weight];
    double moved = 0.0;
    for (int i = 0; i < 784 * 16; i++) {
        cr_assert_float_eq((double)a[i], (double)b[i], 1e-6, "element %d", i);
        moved = fmax(moved, fabs((double)(b[i] - start[i])));
    }
    cr_assert_gt(moved, 1e-3);
    free(start);
    trial_close(partial);
    trial_close(exact);
}

/* Loss and accuracy of the state's network on the test images, computed in double from the files' contents.
 */
static void evaluate(const trial *t, uint32_t inputs, uint32_t hidden, uint32_t train, uint32_t test,
                     double *loss, double *accuracy) {
    double mean = 0.0, squares = 0.0, pixels = (double)train * inputs;
    for (uint64_t i = 0; i < (uint64_t)train * inputs; i++) {
        mean += idx_pixel(0, i) / pixels;
        squares += (double)idx_pixel(0, i) * idx_pixel(0, i) / pixels;
    }
    double deviation = sqrt(squares - mean * mean);
    const float *w1 = t->state[trial_tensor(t, "layer1.weight")],
                *b1 = t->state[trial_tensor(t, "layer1.bias")];
    const float *w2 = t->state[trial_tensor(t, "layer2.weight")],
                *b2 = t->state[trial_tensor(t, "layer2.bias")];
    *loss = *accuracy = 0.0;
    for (uint64_t s = 0; s < test; s++) {
        double logit[10], total = 0.0;
        for (int c = 0; c < 10; c++) logit[c] = (double)b2[c];
        for (uint32_t h = 0; h < hidden; h++) {
            double y = (double)b1[h];
            for (uint32_t i = 0; i < inputs; i++)
                y += (idx_pixel(1, s * inputs + i) - mean) / deviation * (double)w1[i * hidden + h];
            for (int c = 0; c < 10 && y > 0.0; c++) logit[c] += y * (double)w2[h * 10 + (uint32_t)c];
        }
        int best = 0;
        for (int c = 0; c < 10; c++) {
            total += exp(logit[c]);
            if (logit[c] > logit[best]) best = c;
        }
        *loss += (log(total) - logit[idx_label(1, s)]) / test;
        *accuracy += (best == idx_label(1, s)) / (double)test;
    }
}

Test(digits, evaluation_is_summed_over_the_whole_test_set) {
    enum { TRAIN = 90, TESTS = 131, ROWS = 6, COLUMNS = 7, HIDDEN = 9 };
    idx_folder folder = idx_folder_make();
    idx_write_set(&folder, TRAIN, TESTS, ROWS, COLUMNS, true);
    trial *t = trial_open(&gw_job_digits, PAIRS("data", folder.path, "hidden", "9", "epochs", "1", "batch",
                                                "30", "micro-batch", "10"));
    cr_assert_eq(t->plan.steps, 4);
    gw_phase phase;
    cr_assert_eq(gw_job_digits.shards(t->job, 2, &phase), 3);
    cr_assert_eq(phase, GW_TRAIN);
    cr_assert_eq(gw_job_digits.shards(t->job, 3, &phase), 44); /* of 3 samples, the last of 2 */
    cr_assert_eq(phase, GW_EVALUATE);

    char text[200];
    gw_state state = {t->state};
    trial_run(t, 3);
    gw_job_digits.summary(t->job, 3, &state, text, sizeof text);
    cr_assert_str_eq(text, ""); /* no evaluation has run yet */
    double loss, accuracy;
    evaluate(t, ROWS * COLUMNS, HIDDEN, TRAIN, TESTS, &loss, &accuracy);
    float before = *(float *)t->state[trial_tensor(t, "layer1.weight")];
    trial_sum(t, 3, TRIAL_SHUFFLED);
    trial_apply(t, 3, 1);
    cr_assert_eq(*(float *)t->state[trial_tensor(t, "layer1.weight")],
                 before); /* an evaluation changes no parameter */
    cr_assert_eq(t->sums[trial_tensor(t, "count")][0], TESTS);
    double stored_loss = *(double *)t->state[trial_tensor(t, "test.loss")];
    double stored_accuracy = *(double *)t->state[trial_tensor(t, "test.accuracy")];
    cr_assert_float_eq(stored_loss, loss, 1e-5, "%g, not %g", stored_loss, loss);
    cr_assert_float_eq(stored_accuracy, accuracy, 1e-12, "%g, not %g", stored_accuracy, accuracy);

    char expected[200];
    snprintf(expected, sizeof expected, "loss=%.7g accuracy=%.7g", stored_loss, stored_accuracy);
    gw_job_digits.summary(t->job, 4, &state, text, sizeof text);
    cr_assert_str_eq(text, expected);
    gw_sums sums = trial_sums(t);
    gw_scalars scalars = {0};
    gw_job_digits.report(t->job, 3, &sums, &scalars, text, sizeof text);
    snprintf(expected, sizeof expected, "epoch=1 test_loss=%.7g test_accuracy=%.7g", stored_loss,
             stored_accuracy);
    cr_assert_str_eq(text, expected);
    trial_close(t);
    idx_folder_remove(&folder);
}

static void expect_bad(const char *const *pairs) {
    trial *t = trial_open(&gw_job_digits, pairs);
    trial_init(t, UINT64_MAX);
    uint64_t step = 0;
    for (; step < 5; step++) {
        trial_sum(t, step, TRIAL_FORWARD);
        if (t->bad > 0) break;
        trial_apply(t, step, UINT64_MAX);
    }
    cr_assert_gt(t->bad, 0, "a learning rate of a million must show");
    trial_close(t);
}

Test(digits, what_diverges_becomes_bad_elements) {
    expect_bad(PAIRS("samples", "2400", "lr", "1e6"));
    expect_bad(PAIRS("samples", "2400", "lr", "1e6", "optimizer", "sgd"));
}

static void refuse(const char *option, const char *value, const char *words) {
    gw_err err;
    cr_assert_not(trial_opens(&gw_job_digits, PAIRS("samples", "60", option, value), &err), "--%s %s", option,
                  value);
    cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
}

Test(digits, refuses_options_that_make_no_sense) {
    refuse("hidden", "", "--hidden");
    refuse("hidden", "12,", "--hidden");
    refuse("hidden", "12,x", "--hidden");
    refuse("hidden", "0", "--hidden");
    refuse("hidden", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "--hidden");
    refuse("epochs", "0", "--epochs");
    refuse("batch", "-5", "--batch");
    refuse("batch", "20", "--micro-batch: 40 is more than the batch of 20");
    refuse("micro-batch", "0", "--micro-batch");
    refuse("optimizer", "adam", "--optimizer: 'adam'");
    refuse("lr", "nan", "--lr");
    refuse("momentum", "1", "--momentum");
    refuse("samples", "5", "--samples");
    refuse("seed", "-1", "--seed");
    refuse("data", "/tmp", "--samples");
    refuse("epsilon", "1e-12", "--epsilon: 1e-12 is too small");
}

Test(digits, an_epsilon_below_the_sums_resolution_is_refused_for_adamw_only) {
    gw_err err;
    /* 12 shards of 2^-40 in a batch of 480 */
    cr_assert(trial_opens(&gw_job_digits, PAIRS("samples", "4800", "epsilon", "1.2e-11"), &err), "%s",
              err.text);
    cr_assert_not(trial_opens(&gw_job_digits, PAIRS("samples", "4800", "epsilon", "1e-11"), &err));
    /* a last batch of one sample is scaled up by 480 */
    cr_assert_not(trial_opens(&gw_job_digits, PAIRS("samples", "4801", "epsilon", "1.2e-11"), &err));
    cr_assert(
        trial_opens(&gw_job_digits, PAIRS("samples", "4801", "epsilon", "1e-11", "optimizer", "sgd"), &err),
        "%s", err.text);
}

/* On the device with several threads, each worker gets other shards from run to run. */
typedef struct crew {
    gw_device *device;
    uint64_t step;
    uint32_t shards;
    atomic_uint next;
} crew;

static void *work(void *argument) {
    crew *c = argument;
    gw_lane *lane;
    gw_err err;
    cr_assert(c->device->ops->lane_open(c->device, &lane, &err), "%s", err.text);
    for (uint32_t shard = atomic_fetch_add(&c->next, 1); shard < c->shards;
         shard = atomic_fetch_add(&c->next, 1))
        cr_assert_eq(c->device->ops->contribute(c->device, lane, c->step, shard, &err), GW_SHARD_HELD, "%s",
                     err.text);
    c->device->ops->lane_close(c->device, lane);
    return NULL;
}

static uint64_t all_units(gw_device *device, gw_unit_work kind) {
    gw_lane *lane;
    gw_err err;
    uint64_t fingerprint = 0;
    gw_state_print part;
    cr_assert(device->ops->lane_open(device, &lane, &err), "%s", err.text);
    for (uint64_t unit = 0; unit < device->unit_count; unit++) {
        cr_assert(device->ops->unit(device, kind, unit, &part, &err), "%s", err.text);
        fingerprint += gw_state_print_whole(part);
    }
    device->ops->lane_close(device, lane);
    return fingerprint;
}

static uint64_t run_with_workers(uint32_t workers) {
    trial *t = trial_open(&gw_job_digits, PAIRS(ODD));
    gw_device_options options = {.type = &gw_job_digits, .job = t->job, .plan = &t->plan, .workers = workers};
    gw_device *device;
    gw_err err;
    cr_assert(gw_device_cpu_open(&options, &device, &err), "%s", err.text);
    uint64_t fingerprint = all_units(device, GW_UNIT_INIT);
    for (uint64_t step = 0; step < t->plan.steps; step++) {
        gw_phase phase;
        crew c = {.device = device, .step = step, .shards = gw_job_digits.shards(t->job, step, &phase)};
        device->ops->step_begin(device, step);
        pthread_t threads[16];
        for (uint32_t i = 0; i < workers; i++) cr_assert_eq(pthread_create(&threads[i], NULL, work, &c), 0);
        for (uint32_t i = 0; i < workers; i++) pthread_join(threads[i], NULL);
        gw_segments send, receive;
        gw_verdict verdict;
        gw_scalars scalars;
        cr_assert(device->ops->reduce_begin(device, GW_REDUCE_ALONE, GW_PLACE_HOST, &send, &receive, &err),
                  "%s", err.text);
        cr_assert(device->ops->reduce_end(device, &verdict, &err), "%s", err.text);
        cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0);
        cr_assert(device->ops->scalars(device, &scalars, &err), "%s", err.text);
        fingerprint = all_units(device, GW_UNIT_APPLY);
    }
    device->ops->close(device);
    trial_close(t);
    return fingerprint;
}

Test(digits, the_state_does_not_depend_on_the_number_of_workers) {
    uint64_t one = run_with_workers(1);
    cr_assert_eq(run_with_workers(2), one);
    cr_assert_eq(run_with_workers(7), one);
}

static double train_to_accuracy(const char *const *pairs) {
    trial *t = trial_open(&gw_job_digits, pairs);
    trial_run(t, t->plan.steps);
    double accuracy = *(double *)t->state[trial_tensor(t, "test.accuracy")];
    trial_close(t);
    return accuracy;
}

Test(digits, drawn_digits_want_a_hidden_layer) {
    double linear = train_to_accuracy(PAIRS("samples", "12000", "hidden", "none"));
    double deep = train_to_accuracy(PAIRS("samples", "12000"));
    cr_assert(linear > 0.5 && linear < 0.82, "%g", linear);
    cr_assert_gt(deep, 0.92, "%g", deep);
}

Test(digits, learns_mnist) {
    const char *data = getenv("GODWIT_TEST_DATA");
    if (data == NULL) cr_skip_test("GODWIT_TEST_DATA names no folder with mnist/ in it");
    char path[IDX_PATH];
    snprintf(path, sizeof path, "%s/mnist", data);
    double accuracy = train_to_accuracy(PAIRS("data", path));
    cr_assert_geq(accuracy, 0.975, "%g", accuracy);
}

/* A number of images near 2^32, at which rounding up would overflow 32 bits. */
Test(digits, a_test_set_that_is_too_large_is_refused) {
    digits_job job = {
        .epochs = 1,
        .batch = 10,
        .data = {.rows = 1, .columns = 1, .train = {.count = 100}, .test = {.count = 4294967249}},
        .data_text = "these"};
    gw_err err;
    cr_assert_not(digits_plan_steps(&job, &err));
    cr_assert_eq(err.code, GW_E_LIMIT);
    cr_assert_str_eq(err.text, "these: the test set of 4294967249 makes more than 1048575 shards");
}
