/* Compares training steps of a tiny model with PyTorch's: losses, norms, gradients and the parameters
 * afterwards. pytorch/gpt_step.inc contains PyTorch's numbers, which the script beside it has made. */
#include "kernels/jobs/gpt/gpt.h"
#include "tests/kernels/pytorch/gpt_step.inc"
#include "tests/kernels/trial.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAM = 31, VOCABULARY = 19, STEPS = 3, EVERY = 7 };

static void set_parameters(trial *t) {
    uint64_t number = 0;
    for (uint32_t i = 0; i < t->plan.tensor_count; i++) {
        const gw_tensor *tensor = &t->plan.tensors[i];
        bool weight = trial_named(tensor, ".weight");
        if (!weight && !trial_named(tensor, ".bias")) continue;
        float *values = t->state[i];
        for (uint64_t k = 0; k < gw_tensor_elements(tensor); k++) {
            uint64_t mixed = (number * 7919 + k * 104729 + 12345) * 48271 % 2147483647;
            double one = weight && strstr(tensor->name, "ln_") != NULL ? 1.0 : 0.0;
            values[k] = (float)(((double)mixed / 2147483647.0 - 0.5) * 0.8 + one);
        }
        number++;
    }
}

/* Compares every EVERY-th element of the parameters' gradients, or of their values. */
static void compare(const trial *t, const char *suffix, const double *expected, double tolerance) {
    size_t at = 0;
    for (uint32_t i = 0; i < t->plan.tensor_count; i++) {
        const gw_tensor *tensor = &t->plan.tensors[i];
        bool sum = strcmp(suffix, ".grad") == 0;
        bool wanted = sum ? trial_named(tensor, ".grad")
                          : trial_named(tensor, ".bias") || trial_named(tensor, ".weight");
        if (!wanted) continue;
        for (uint64_t k = 0; k < gw_tensor_elements(tensor); k += EVERY) {
            double value = sum ? (double)t->sums[i][k] * 0x1p-40 : (double)((const float *)t->state[i])[k];
            cr_assert_float_eq(value, expected[at], tolerance, "%s[%d]: %.9g, not %.9g", tensor->name, (int)k,
                               value, expected[at]);
            at++;
        }
    }
    cr_assert_eq(at, sizeof torch_values / sizeof torch_values[0]);
}

Test(gpt_torch, steps_agree) {
    char path[] = "/tmp/godwit-torch-XXXXXX";
    int fd = mkstemp(path);
    uint8_t stream[STREAM];
    for (unsigned i = 0; i < STREAM; i++) stream[i] = (uint8_t)((i * i * 7 + 3 * i) % VOCABULARY);
    cr_assert_eq(write(fd, stream, sizeof stream), STREAM);
    close(fd);
    trial *t = trial_open(
        &gw_job_gpt,
        (const char *const[]){
            "data",     path,   "vocab",    "19",       "layers",       "2",   "heads",       "2",
            "channels", "8",    "context",  "6",        "batch-tokens", "30",  "micro-batch", "2",
            "updates",  "3",    "schedule", "constant", "warmup",       "0",   "lr",          "0.01",
            "epsilon",  "1e-4", "clip",     "0.5",      "weight-decay", "0.1", NULL});
    unlink(path);
    trial_init(t, UINT64_MAX);
    set_parameters(t);
    for (uint64_t step = 0; step < STEPS; step++) {
        gw_sums sums = trial_sums(t);
        gw_state state = {t->state};
        gw_scalars scalars = {0};
        gw_err err;
        char text[200];
        trial_sum(t, step, TRIAL_SHUFFLED);
        cr_assert_eq(t->bad, 0);
        if (step == 0) compare(t, ".grad", torch_gradients, 1e-6);
        cr_assert(gw_job_gpt.scalars(t->job, step, &sums, &state, &scalars, &err), "%s", err.text);
        gw_job_gpt.report(t->job, step, &sums, &scalars, text, sizeof text);
        double norm = strtod(strstr(text, "norm=") + 5, NULL);
        cr_assert_float_eq(norm, torch_norms[step], 5e-6 * torch_norms[step], "%s", text);
        trial_apply(t, step, 11);
        double loss = *(double *)t->state[trial_tensor(t, "loss")];
        cr_assert_float_eq(loss, torch_losses[step], 2e-6, "step %d: %.9g, not %.9g", (int)step, loss,
                           torch_losses[step]);
    }
    compare(t, "", torch_values, 5e-6);
    trial_close(t);
}
