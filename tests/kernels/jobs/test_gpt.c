/* The job gpt as a whole, in plain memory (trial.h) and on the CPU device. */
#include "kernels/data/tokens/hash.h"
#include "kernels/data/tokens/tokens.h"
#include "kernels/jobs/gpt/gpt.h"
#include "tests/kernels/rig.h"
#include "tests/kernels/trial.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 64 };

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Uneven sizes: an update has 5 windows in shards of 2, 2 and 1; 16 updates cross the end of an epoch of 61
 * windows, and the third evaluation follows the last update. */
#define TINY                                                                                                 \
    "data", text_path, "val", val_path, "layers", "2", "heads", "3", "channels", "12", "context", "7",       \
        "batch-tokens", "35", "micro-batch", "2", "updates", "16", "eval-every", "6", "lr", "0.01"

static char text_path[PATH], val_path[PATH];

static void write_text(char *path, size_t count, unsigned step) {
    snprintf(path, PATH, "/tmp/godwit-gpt-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    char text[1000];
    cr_assert_leq(count, sizeof text);
    for (size_t i = 0; i < count; i++) text[i] = (char)('a' + i * i * step % 17);
    cr_assert_eq(write(fd, text, count), (ssize_t)count);
    close(fd);
}

static void enter(void) {
    write_text(text_path, 61 * 7 + 3, 1);
    write_text(val_path, 100, 3);
}

static void leave(void) {
    unlink(text_path);
    unlink(val_path);
}

TestSuite(gpt_job, .init = enter, .fini = leave);

static gw_hash run_in_ranges(const char *const *pairs, uint64_t elements, trial_order order) {
    trial *t = trial_open(&gw_job_gpt, pairs);
    trial_init(t, elements);
    for (uint64_t step = 0; step < t->plan.steps; step++) {
        trial_sum(t, step, order);
        cr_assert_eq(t->bad, 0);
        trial_apply(t, step, elements);
    }
    gw_hash hash = trial_state_hash(t);
    trial_close(t);
    return hash;
}

Test(gpt_job, any_order_of_shards_and_any_ranges_give_the_same_state) {
    gw_hash whole = run_in_ranges(PAIRS(TINY), UINT64_MAX, TRIAL_FORWARD);
    gw_hash shuffled = run_in_ranges(PAIRS(TINY), 13, TRIAL_SHUFFLED);
    gw_hash backward = run_in_ranges(PAIRS(TINY, "recompute", "1"), 101, TRIAL_BACKWARD);
    cr_assert(gw_hash_equal(&whole, &shuffled) && gw_hash_equal(&whole, &backward));
    gw_hash seed = run_in_ranges(PAIRS(TINY, "seed", "2"), UINT64_MAX, TRIAL_FORWARD);
    cr_assert_not(gw_hash_equal(&whole, &seed));
}

Test(gpt_job, dropout_repeats_and_differs) {
    gw_hash without = run_in_ranges(PAIRS(TINY), UINT64_MAX, TRIAL_FORWARD);
    gw_hash once = run_in_ranges(PAIRS(TINY, "dropout", "0.2"), UINT64_MAX, TRIAL_FORWARD);
    gw_hash again = run_in_ranges(PAIRS(TINY, "dropout", "0.2", "recompute", "1"), 50, TRIAL_SHUFFLED);
    cr_assert(gw_hash_equal(&once, &again));
    cr_assert_not(gw_hash_equal(&once, &without));
}

static void open_small(rig *r, uint32_t devices, uint32_t workers) {
    char data[PATH + 8], val[PATH + 8];
    snprintf(data, sizeof data, "data=%s", text_path);
    snprintf(val, sizeof val, "val=%s", val_path);
    const char *const settings[] = {data,
                                    val,
                                    "layers=2",
                                    "heads=2",
                                    "channels=32",
                                    "context=16",
                                    "updates=12",
                                    "batch-tokens=128",
                                    "micro-batch=1",
                                    "eval-every=5",
                                    "lr=0.01",
                                    "dropout=0.1",
                                    NULL};
    rig_open(r, &gw_job_gpt, settings, devices, workers);
    rig_init(r);
}

static uint64_t fingerprint_with(uint32_t devices, uint32_t workers) {
    rig r;
    uint64_t fingerprint = 0;
    open_small(&r, devices, workers);
    for (uint64_t step = 0; step < r.plan.steps; step++) fingerprint = rig_step(&r, step, GW_REDUCE_EXACT);
    rig_close(&r);
    return fingerprint;
}

Test(gpt_job, the_state_does_not_depend_on_devices_and_workers) {
    uint64_t one = fingerprint_with(1, 1);
    cr_assert_eq(fingerprint_with(1, 5), one);
    cr_assert_eq(fingerprint_with(3, 2), one);
}

/* Checks an update and an evaluation. */
Test(gpt_job, contributions_do_not_depend_on_moments) {
    rig r;
    open_small(&r, 1, 2);
    for (uint64_t step = 0; step < 5; step++) rig_step(&r, step, GW_REDUCE_ALONE);
    rig_expect_two_prints(&r, 5);
    rig_step(&r, 5, GW_REDUCE_ALONE);
    rig_expect_two_prints(&r, 6);
    rig_close(&r);
}

/* The number behind `key` in a report. */
static double value_in(const char *text, const char *key) {
    const char *found = strstr(text, key);
    cr_assert_not_null(found, "%s", text);
    return strtod(found + strlen(key), NULL);
}

/* The report of step `step`, whose sums have been computed. */
static void report(trial *t, uint64_t step, char text[200]) {
    gw_sums sums = trial_sums(t);
    gw_state state = {t->state};
    gw_scalars scalars = {0};
    gw_err err;
    cr_assert(gw_job_gpt.scalars(t->job, step, &sums, &state, &scalars, &err), "%s", err.text);
    gw_job_gpt.report(t->job, step, &sums, &scalars, text, 200);
}

/* Checks the values against their definitions: nats a token, perplexity, bits a token. */
static void expect_validation(const char *text, double loss, bool bytes) {
    cr_expect_float_eq(value_in(text, "val_loss="), loss, 1e-6 * loss, "%s", text);
    cr_expect_float_eq(log(value_in(text, "perplexity=")), loss, 1e-6 * loss, "%s", text);
    if (bytes)
        cr_expect_float_eq(exp2(value_in(text, " bits_per_byte=")), exp(loss), 1e-5 * exp(loss), "%s", text);
    else
        cr_expect_null(strstr(text, "bits"), "%s", text);
}

static void expect_training(const char *text, double loss) {
    cr_expect_float_eq(value_in(text, "loss="), loss, 1e-6 * loss, "%s", text);
    cr_expect_float_eq(exp2(value_in(text, " train_bits_per_byte=")), exp(loss), 1e-5 * exp(loss), "%s",
                       text);
}

/* Evaluations after updates 6, 12 and 16: steps 6, 13 and 18. */
Test(gpt_job, evaluations_follow_updates_and_train_nothing) {
    trial *t = trial_open(&gw_job_gpt, PAIRS(TINY));
    cr_assert_eq(t->plan.steps, 19);
    cr_expect_not_null(
        strstr(t->plan.length_text, " tokens an update, 16 updates and 3 evaluations; one pass over"), "%s",
        t->plan.length_text);
    cr_expect_not_null(strstr(t->plan.model_text, " parameters"), "%s", t->plan.model_text);
    trial_init(t, UINT64_MAX);
    uint32_t training = trial_tensor(t, "loss"), validation = trial_tensor(t, "loss.validation"),
             words = trial_tensor(t, "wte.weight"), count = trial_tensor(t, "sum.count");
    for (uint64_t step = 0; step < t->plan.steps; step++) {
        gw_phase phase;
        uint32_t shards = gw_job_gpt.shards(t->job, step, &phase);
        bool evaluate = step == 6 || step == 13 || step == 18;
        cr_assert_eq(phase, evaluate ? GW_EVALUATE : GW_TRAIN, "step %d", (int)step);
        cr_assert_eq(shards, evaluate ? 7 : 3); /* of 14 windows, and of 5 */
        double before = *(double *)t->state[validation];
        float word = *(float *)t->state[words];
        trial_sum(t, step, TRIAL_FORWARD);
        cr_assert_eq(t->sums[count][0], evaluate ? 98 : 35);
        trial_apply(t, step, UINT64_MAX);
        cr_assert_eq(evaluate, *(double *)t->state[validation] != before);
        cr_assert_eq(evaluate, *(float *)t->state[words] == word);
        char text[200];
        report(t, step, text);
        if (evaluate)
            expect_validation(text, *(double *)t->state[validation], true);
        else
            expect_training(text, *(double *)t->state[training]);
        cr_expect_eq(strstr(text, " bits") != NULL, evaluate, "%s", text);
        cr_expect_eq(strstr(text, "val") != NULL, evaluate, "%s", text);
        gw_state state = {t->state};
        gw_job_gpt.summary(t->job, step + 1, &state, text, sizeof text);
        cr_assert_eq(strstr(text, "val_loss=") != NULL, step >= 6, "after step %d: %s", (int)step, text);
        expect_training(text, *(double *)t->state[training]);
        if (step >= 6) expect_validation(text, *(double *)t->state[validation], true);
    }
    trial_close(t);
}

/* Tokens of shards have no bits per byte, since a token stands for any number of bytes. */
Test(gpt_job, a_model_of_tokens_has_no_bits_per_byte) {
    enum { TOKENS = 200 };
    uint32_t header[GW_TOKENS_HEADER / 4] = {GW_TOKENS_MAGIC, GW_TOKENS_VERSION, TOKENS};
    uint16_t tokens[TOKENS];
    for (uint16_t i = 0; i < TOKENS; i++) tokens[i] = (uint16_t)(i * i % 400);
    FILE *file = fopen(val_path, "w"); /* the machine's byte order is the format's */
    cr_assert(fwrite(header, sizeof header, 1, file) == 1 && fwrite(tokens, sizeof tokens, 1, file) == 1);
    cr_assert_eq(fclose(file), 0);
    trial *t = trial_open(&gw_job_gpt, PAIRS("data", val_path, "val", val_path, "vocab", "400", "layers", "1",
                                             "heads", "1", "channels", "8", "context", "7", "batch-tokens",
                                             "35", "micro-batch", "2", "updates", "1"));
    trial_init(t, UINT64_MAX);
    trial_run(t, t->plan.steps);
    char text[200];
    double loss = *(double *)t->state[trial_tensor(t, "loss.validation")];
    trial_sum(t, 0, TRIAL_FORWARD);
    report(t, 0, text);
    cr_expect_null(strstr(text, "bits"), "%s", text);
    trial_sum(t, 1, TRIAL_FORWARD);
    report(t, 1, text);
    expect_validation(text, loss, false);
    gw_state state = {t->state};
    gw_job_gpt.summary(t->job, 2, &state, text, sizeof text);
    expect_validation(text, loss, false);
    trial_close(t);
}

/* Adam's first update moves every element by the learning rate, whatever the gradient's size. Decay comes on
 * top: matrices shrink by rate * decay, vectors do not. */
Test(gpt_job, only_matrices_decay) {
    trial *plain = trial_open(&gw_job_gpt, PAIRS(TINY, "weight-decay", "0", "warmup", "0")),
          *decayed = trial_open(&gw_job_gpt, PAIRS(TINY, "weight-decay", "0.5", "warmup", "0"));
    trial *both[] = {plain, decayed};
    for (int k = 0; k < 2; k++) {
        trial_init(both[k], UINT64_MAX);
        trial_sum(both[k], 0, TRIAL_FORWARD);
        trial_apply(both[k], 0, UINT64_MAX);
    }
    trial *start = trial_open(&gw_job_gpt, PAIRS(TINY));
    trial_init(start, UINT64_MAX);
    for (uint32_t t = 0; t < plain->plan.tensor_count; t++) {
        const gw_tensor *tensor = &plain->plan.tensors[t];
        if (!trial_named(tensor, ".weight") && !trial_named(tensor, ".bias")) continue;
        const float *a = plain->state[t], *b = decayed->state[t], *from = start->state[t];
        for (uint64_t i = 0; i < gw_tensor_elements(tensor); i++)
            cr_assert_float_eq((double)(a[i] - b[i]), tensor->rank == 2 ? 0.01 * 0.5 * (double)from[i] : 0.0,
                               1e-7, "%s[%d]", tensor->name, (int)i);
    }
    trial_close(plain);
    trial_close(decayed);
    trial_close(start);
}

static double report_value(trial *t, const char *key) {
    char text[200];
    report(t, 0, text);
    return value_in(text, key);
}

/* The first moment after one update is a tenth of the clipped gradient, so its norm is a tenth of the bound.
 */
Test(gpt_job, the_gradient_is_clipped_by_its_norm) {
    trial *t = trial_open(&gw_job_gpt, PAIRS(TINY, "clip", "0.25"));
    trial_init(t, UINT64_MAX);
    trial_sum(t, 0, TRIAL_FORWARD);
    double norm = report_value(t, "norm="), squares = 0.0, unclipped = 0.0;
    trial_apply(t, 0, UINT64_MAX);
    for (uint32_t i = 0; i < t->plan.tensor_count; i++) {
        const gw_tensor *tensor = &t->plan.tensors[i];
        uint64_t elements = gw_tensor_elements(tensor);
        for (uint64_t k = 0; k < elements; k++) {
            if (trial_named(tensor, ".m")) squares += pow((double)((float *)t->state[i])[k], 2.0);
            if (trial_named(tensor, ".grad")) unclipped += pow((double)t->sums[i][k] * 0x1p-40, 2.0);
        }
    }
    cr_assert_float_eq(norm, sqrt(unclipped), 1e-6 * norm);
    cr_assert_gt(norm, 0.3);
    cr_assert_float_eq(sqrt(squares), 0.1 * 0.25, 1e-6);
    trial_close(t);
}

/* The model has the right size, and its first loss is that of 256 equally likely tokens. */
Test(gpt_job, the_first_model_is_gpt2s) {
    trial *t = trial_open(&gw_job_gpt, PAIRS("data", text_path, "context", "32"));
    trial_init(t, UINT64_MAX);
    const struct {
        const char *name;
        double mean, deviation;
    } expected[] = {{"wte.weight", 0.0, 0.02},
                    {"wpe.weight", 0.0, 0.02},
                    {"h.1.attn.c_attn.weight", 0.0, 0.02},
                    {"h.0.attn.c_proj.weight", 0.0, 0.02 / sqrt(8.0)},
                    {"h.3.mlp.c_proj.weight", 0.0, 0.02 / sqrt(8.0)},
                    {"h.2.mlp.c_fc.weight", 0.0, 0.02},
                    {"h.2.mlp.c_fc.bias", 0.0, 0.0},
                    {"ln_f.weight", 1.0, 0.0},
                    {"h.0.ln_1.bias", 0.0, 0.0}};
    for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++) {
        uint32_t number = trial_tensor(t, expected[k].name);
        uint64_t elements = gw_tensor_elements(&t->plan.tensors[number]);
        const float *values = t->state[number];
        double mean = 0.0, squares = 0.0, root = sqrt((double)elements);
        for (uint64_t i = 0; i < elements; i++) mean += (double)values[i] / (double)elements;
        for (uint64_t i = 0; i < elements; i++)
            squares += ((double)values[i] - mean) * ((double)values[i] - mean) / (double)elements;
        double deviation = expected[k].deviation;
        cr_assert_float_eq(mean, expected[k].mean, 5.0 * deviation / root + 1e-9, "%s", expected[k].name);
        cr_assert_float_eq(sqrt(squares), deviation, 5.0 * deviation / root + 1e-9, "%s", expected[k].name);
    }
    trial_sum(t, 0, TRIAL_FORWARD);
    cr_assert_float_eq(report_value(t, "loss="), log(256.0), 0.1);
    trial_close(t);
}

/* Over the updates of one epoch, every window is taken once. With a learning rate of 0, the losses of all
 * epochs therefore have the same total, in another order. */
Test(gpt_job, every_window_is_seen_once_an_epoch) {
    trial *t = trial_open(&gw_job_gpt,
                          PAIRS("data", text_path, "layers", "1", "heads", "1", "channels", "8", "context",
                                "7", "batch-tokens", "7", "micro-batch", "1", "epochs", "3", "lr", "0"));
    cr_assert_eq(t->plan.steps, 183);
    trial_init(t, UINT64_MAX);
    uint32_t loss = trial_tensor(t, "sum.loss");
    int64_t total[3] = {0}, first[3];
    for (uint64_t step = 0; step < 183; step++) {
        trial_sum(t, step, TRIAL_FORWARD);
        total[step / 61] += t->sums[loss][0];
        if (step % 61 == 0) first[step / 61] = t->sums[loss][0];
    }
    cr_assert(total[0] == total[1] && total[1] == total[2]);
    cr_assert(first[0] != first[1] || first[1] != first[2]);
    trial_close(t);
}

/* The token count of a step of 2^25 + 999 tokens that --reduce fast has summed. */
Test(gpt_job, a_count_that_was_rounded_on_the_way_is_taken_and_a_wrong_one_is_not) {
    trial *t = trial_open(&gw_job_gpt, PAIRS("data", text_path, "layers", "1", "heads", "1", "channels", "8",
                                             "context", "7", "batch-tokens", "33555431", "micro-batch",
                                             "4096", "updates", "1", "epsilon", "1e-6"));
    trial_init(t, UINT64_MAX);
    int64_t *count = t->sums[trial_tensor(t, "sum.count")];
    t->sums[trial_tensor(t, "sum.loss")][0] = INT64_C(33555431) << 20;
    gw_sums sums = trial_sums(t);
    gw_state state = {t->state};
    gw_scalars scalars = {0};
    gw_err err;
    *count = (int64_t)(float)33555431;
    cr_assert_neq(*count, 33555431);
    cr_assert(gw_job_gpt.scalars(t->job, 0, &sums, &state, &scalars, &err), "%s", err.text);
    char text[200];
    gw_job_gpt.report(t->job, 0, &sums, &scalars, text, sizeof text);
    cr_assert_eq(strncmp(text, "loss=1 ", 7), 0, "%s", text);
    *count -= 4096;
    cr_assert_not(gw_job_gpt.scalars(t->job, 0, &sums, &state, &scalars, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    trial_close(t);
}

Test(gpt_job, learns_shakespeare_and_repeats_to_the_bit) {
    const char *data = getenv("GODWIT_TEST_DATA");
    if (data == NULL) cr_skip_test("GODWIT_TEST_DATA names no folder with text/shakespeare.txt in it");
    char path[300];
    snprintf(path, sizeof path, "%s/text/shakespeare.txt", data);
    const char *const *pairs = PAIRS("data", path, "layers", "2", "heads", "2", "channels", "32", "context",
                                     "32", "batch-tokens", "1024", "updates", "60", "lr", "0.01");
    double losses[3];
    gw_hash hash[2];
    for (int k = 0; k < 2; k++) {
        trial *t = trial_open(&gw_job_gpt, pairs);
        trial_init(t, UINT64_MAX);
        for (uint64_t step = 0; step < 60; step++) {
            trial_sum(t, step, k == 0 ? TRIAL_FORWARD : TRIAL_SHUFFLED);
            trial_apply(t, step, k == 0 ? UINT64_MAX : 5000);
            if (step % 29 == 0) losses[step / 29] = *(double *)t->state[trial_tensor(t, "loss")];
        }
        hash[k] = trial_state_hash(t);
        trial_close(t);
    }
    cr_assert(gw_hash_equal(&hash[0], &hash[1]));
    cr_assert_float_eq(losses[0], log(256.0), 0.1);
    cr_assert(losses[1] < 3.4 && losses[2] < 3.2, "%g %g %g", losses[0], losses[1], losses[2]);
}

Test(gpt_job, tells_what_takes_less_memory) {
    static const struct {
        const char *windows, *option, *lighter;
    } cases[] = {{"2", "seed", "--recompute or a smaller --micro-batch"},
                 {"1", "seed", "--recompute"},
                 {"2", "recompute", "a smaller --micro-batch"},
                 {"1", "recompute", NULL},
                 /* with one layer, the only slot is kept or computed again */
                 {"2", "layers", "a smaller --micro-batch"},
                 {"1", "layers", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        trial *t = trial_open(&gw_job_gpt, PAIRS("data", text_path, "context", "7", "micro-batch",
                                                 cases[i].windows, cases[i].option, "1"));
        const char *said = t->plan.lighter;
        cr_expect(cases[i].lighter == NULL ? said == NULL
                                           : said != NULL && strcmp(said, cases[i].lighter) == 0,
                  "%s", said);
        cr_expect_str_eq(t->plan.smaller, "a smaller --model, or fewer --layers or --channels");
        trial_close(t);
    }
}

/* A default shard has 36 windows of 7. */
Test(gpt_job, a_batch_below_a_default_shard_is_one_shard) {
    trial *t = trial_open(&gw_job_gpt, PAIRS("data", text_path, "context", "7", "batch-tokens", "14"));
    gw_phase phase;
    cr_assert_eq(gw_job_gpt.shards(t->job, 0, &phase), 1);
    trial_init(t, UINT64_MAX);
    trial_sum(t, 0, TRIAL_FORWARD);
    cr_assert_eq(t->sums[trial_tensor(t, "sum.count")][0], 14);
    trial_close(t);
    gw_err err;
    cr_assert_not(trial_opens(
        &gw_job_gpt, PAIRS("data", text_path, "context", "7", "batch-tokens", "14", "micro-batch", "3"),
        &err));
    cr_assert_not_null(strstr(err.text, "--micro-batch: 3 windows are more than the batch of 2"), "%s",
                       err.text);
}

static void refuse(const char *option, const char *value, const char *words) {
    gw_err err;
    cr_assert_not(trial_opens(&gw_job_gpt,
                              PAIRS("data", text_path, "val", val_path, "context", "7", option, value), &err),
                  "--%s %s", option, value);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
}

Test(gpt_job, refuses_options_that_make_no_sense) {
    gw_err err;
    cr_assert_not(trial_opens(&gw_job_gpt, PAIRS("model", "nano"), &err));
    cr_assert_eq(err.code, GW_E_USAGE);
    cr_assert_not_null(strstr(err.text, "--data FILE"), "%s", err.text);
    refuse("model", "gpt3", "nano, gpt2, gpt2-medium, gpt2-large, gpt2-xl");
    refuse("heads", "5", "5 heads do not divide 128 channels");
    refuse("layers", "81", "--layers");
    /* Nobody has chosen the epsilon that does not suit such a batch. */
    refuse("batch-tokens", "35000000", "--batch-tokens: 35000000 tokens are");
    static const char *const no_counts[] = {"abc", "-1", "nan", "0"};
    for (size_t i = 0; i < 4; i++) { /* with --val and without it */
        refuse("val-tokens", no_counts[i], "--val-tokens");
        cr_assert_not(trial_opens(
            &gw_job_gpt, PAIRS("data", text_path, "context", "7", "val-tokens", no_counts[i]), &err));
        cr_assert_not_null(strstr(err.text, "--val-tokens"), "%s", err.text);
    }
    refuse("batch-tokens", "100", "--batch-tokens: 100 is no multiple of the context of 7; 98 is");
    refuse("micro-batch", "200000", "--micro-batch");
    refuse("vocab", "100", "--vocab: 100 is too small: --data contains token 113");
    refuse("schedule", "step", "--schedule: 'step'");
    refuse("epsilon", "1e-12", "--epsilon: 1e-12 is too small");
    refuse("dropout", "1", "--dropout");
    refuse("data", "/nowhere", "--data: there is no file /nowhere");
    refuse("data-dtype", "int16", "--data-dtype: 'int16' is not one of auto, uint16, uint32");
    refuse("val", "/nowhere", "--val: there is no file /nowhere");
    refuse("val-tokens", "6", "--val-tokens");
    cr_assert_not(trial_opens(&gw_job_gpt,
                              PAIRS("data", text_path, "context", "7", "updates", "9", "epochs", "2"), &err));
    cr_assert_not_null(strstr(err.text, "--updates 9 and --epochs 2: give only one"), "%s", err.text);
    refuse("warmup", "1000000", "--warmup: 1000000 updates are more than the training has, ");
    refuse("decay-updates", "5", "--decay-updates is for --schedule wsd and not for cosine");
#define WSD "data", text_path, "context", "7", "schedule", "wsd", "updates"
    static const char *const no_ways[] = {"0", "1"};
    for (size_t i = 0; i < 2; i++) {
        cr_assert_not(trial_opens(&gw_job_gpt, PAIRS(WSD, "9", "decay-updates", no_ways[i]), &err));
        cr_assert_not_null(strstr(err.text, "--decay-updates"), "%s", err.text);
    }
    cr_assert_not(trial_opens(&gw_job_gpt, PAIRS(WSD, "9"), &err));
    cr_assert_not_null(strstr(err.text, "--schedule wsd: a fifth of 9 updates is too short a decay"), "%s",
                       err.text);
    cr_assert(trial_opens(&gw_job_gpt, PAIRS(WSD, "9", "decay-updates", "2"), &err), "%s", err.text);
    cr_assert_not(trial_opens(&gw_job_gpt, PAIRS(WSD, "9", "decay-updates", "10"), &err));
    cr_assert_not_null(strstr(err.text, "--decay-updates: 10 updates are more than the training has, 9"),
                       "%s", err.text);
    cr_assert(trial_opens(&gw_job_gpt, PAIRS(WSD, "10"), &err), "%s", err.text);
#define PLAIN "data", text_path, "context", "7"
    cr_assert_not(trial_opens(&gw_job_gpt, PAIRS(PLAIN, "val-tokens", "70"), &err));
    cr_assert_eq(err.code, GW_E_USAGE);
    cr_assert_not_null(strstr(err.text, "--val-tokens: there is no evaluation without --val"), "%s",
                       err.text);
    cr_assert_not(trial_opens(&gw_job_gpt, PAIRS(PLAIN, "eval-every", "10"), &err));
    cr_assert_not_null(strstr(err.text, "--eval-every: there is no evaluation without --val"), "%s",
                       err.text);
    cr_assert_not(trial_opens(&gw_job_gpt, PAIRS(PLAIN, "schedule", "constant", "min-lr", "0.2"), &err));
    cr_assert_not_null(strstr(err.text, "--min-lr: the rate of --schedule constant does not fall"), "%s",
                       err.text);
    cr_assert(trial_opens(&gw_job_gpt, PAIRS(PLAIN, "schedule", "constant"), &err), "%s", err.text);
    cr_assert(trial_opens(&gw_job_gpt, PAIRS(PLAIN, "schedule", "linear", "min-lr", "0.2"), &err), "%s",
              err.text);
}

/* Errors that are found before data are read. */

static uint32_t reads; /* bytes of all files of a set */

bool __real_gw_token_hash(const gw_plain_file *files, const gw_token_form *forms, uint32_t count,
                          uint32_t threads, gw_token_content *contents, gw_err *err);
bool __wrap_gw_token_hash(const gw_plain_file *files, const gw_token_form *forms, uint32_t count,
                          uint32_t threads, gw_token_content *contents, gw_err *err);
bool __wrap_gw_token_hash(const gw_plain_file *files, const gw_token_form *forms, uint32_t count,
                          uint32_t threads, gw_token_content *contents, gw_err *err) {
    reads++;
    return __real_gw_token_hash(files, forms, count, threads, contents, err);
}

/* Errors in options are found before reading the data, which takes minutes for a hundred GB. */
Test(gpt_job, what_no_data_tell_is_told_before_they_are_read) {
    static const char *const cases[][2] = {
        {"schedule", "cosin"}, {"batch-tokens", "100"}, {"micro-batch", "200000"}, {"epochs", "x"},
        {"updates", "0"},      {"eval-every", "0"},     {"val-tokens", "6"},       {"warmup", "x"},
        {"warmup", "1000000"}, {"decay-updates", "5"},  {"min-lr", "2"},           {"beta1", "1"},
        {"epsilon", "1e-12"},  {"dropout", "1"},        {"graphs", "yes"},         {"vocab", "0"},
        {"val", "/nowhere"},   {"init", "/nowhere"},    {"init", text_path},       {"seed", "-1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char option[40];
        snprintf(option, sizeof option, "--%s", cases[i][0]);
        refuse(cases[i][0], cases[i][1], option);
        cr_expect_eq(reads, 0, "%s %s", option, cases[i][1]);
    }
    refuse("vocab", "100", "--vocab: 100 is too small");
    cr_expect_eq(reads, 2);
}

/* Errors in options are found before the weights are loaded, which may take as long. */
Test(gpt_job, what_no_file_tells_is_told_without_any) {
    const gw_param good[] = {
        {"data", "/nowhere"}, {"init", "/nowhere"},  {"model", "nano"},      {"epochs", "1"},
        {"min-lr", "0"},      {"weight-decay", "0"}, {"beta1", "0.9"},       {"beta2", "0.95"},
        {"epsilon", "1e-8"},  {"clip", "1"},         {"dropout", "0"},       {"eval-every", "250"},
        {"seed", "1"},        {"graphs", "auto"},    {"schedule", "cosine"},
    };
    enum { COUNT = sizeof good / sizeof good[0] };
    gw_param bad[COUNT];
    gw_err err;
    memcpy(bad, good, sizeof bad);
    bad[COUNT - 1].value = "cosin";
    const gw_params taken = {.list = good, .count = COUNT}, refused = {.list = bad, .count = COUNT};
    cr_expect(gw_gpt_job_check(&taken, &err), "%s", err.text);
    cr_assert_not(gw_gpt_job_check(&refused, &err));
    cr_expect_eq(err.code, GW_E_USAGE);
    cr_expect_not_null(strstr(err.text, "--schedule: 'cosin'"), "%s", err.text);
}
