#include "tools/godwit/node/sample.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/model/gpt/config.h"
#include "tools/godwit/thread/helper.h"
#include "tools/godwit/weights/continuation.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The time that a sample may take once the run has ended, and the time after which its thread is given up. */
#define FINISH_NS  UINT64_C(5000000000)
#define ABANDON_NS UINT64_C(10000000000)

enum { TEXT_BYTES = 4000, LOWEST_PRIORITY = 19, TOKENS_USUAL = 100, BYTE_VALUES = 256 };

struct gw_sampler {
    gw_engine *engine;
    gw_events *events;
    uint64_t every;
    gw_gpt gpt;
    uint64_t offset[GW_GPT_PARAMETERS], bytes[GW_GPT_PARAMETERS]; /* of each parameter in the state image */
    float *weights; /* the copy of all parameters, one behind the other */
    uint64_t weights_bytes;
    const float *parameters[GW_GPT_PARAMETERS]; /* pointers into it */
    uint64_t step;                              /* of the copy */
    gw_continuation *continuation;
    const char *prompt;
    char text[TEXT_BYTES]; /* the sample so far */
    size_t length;
    gw_helper *copying, *writing; /* at the usual priority, and at the lowest one */
    atomic_bool busy;
    atomic_uint_fast64_t ended_ns; /* when the run has ended; 0: it has not */
};

/* The end of the run gives a sample some more seconds. */
static bool is_late(const gw_sampler *s) {
    uint64_t ended_ns = atomic_load(&s->ended_ns);
    return ended_ns != 0 && gw_now_ns() - ended_ns > FINISH_NS;
}

static bool take(void *context, const char *bytes, size_t length) {
    gw_sampler *s = context;
    if (length >= TEXT_BYTES - s->length) return false;
    memcpy(s->text + s->length, bytes, length);
    s->length += length;
    return !is_late(s);
}

static void write_sample(void *task) {
    gw_sampler *s = task;
    gw_err err;
    /* On Linux this is the priority of the calling thread alone. */
    if (setpriority(PRIO_PROCESS, 0, LOWEST_PRIORITY) != 0)
        gw_log(GW_DEBUG, "sample", "the priority of samples stays as it is: %s", strerror(errno));
    s->length = 0;
    if (!gw_continuation_write(s->continuation, &s->gpt, s->parameters, take, s, &err))
        gw_log(GW_WARN, "sample", "step %llu: %s", (unsigned long long)s->step, err.text);
    else
        gw_events_sample(s->events, s->step, s->prompt, s->text, s->length);
    atomic_store(&s->busy, false);
}

/* Locks the state for reading; gives up when the run has ended. */
static bool lock_state(gw_sampler *s) {
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        if (pthread_rwlock_clockrdlock(&s->engine->state.lock, CLOCK_MONOTONIC, &until) == 0) return true;
        if (atomic_load(&s->ended_ns) != 0) return false;
    }
}

static void copy_weights(void *task) {
    gw_sampler *s = task;
    const gw_device *device = s->engine->device;
    gw_err err = {0};
    bool good = lock_state(s);
    if (good) {
        good = s->engine->state.valid;
        s->step = s->engine->state.step;
        for (uint32_t i = 0; good && i < gw_gpt_parameters(&s->gpt); i++)
            good = device->ops->state_read(s->engine->device, s->offset[i], s->bytes[i],
                                           (void *)(uintptr_t)s->parameters[i], &err);
        pthread_rwlock_unlock(&s->engine->state.lock);
    }
    if (good)
        gw_helper_give(s->writing, write_sample, s);
    else {
        if (err.text[0] != '\0') gw_log(GW_WARN, "sample", "%s", err.text);
        atomic_store(&s->busy, false);
    }
}

/* Finds the parameters in the state image. */
static bool find_parameters(gw_sampler *s, const gw_run_options *options, gw_err *err) {
    const gw_layout *layout = s->engine->device->layout;
    uint32_t tensor[GW_GPT_PARAMETERS];
    double rate;
    if (!gw_gpt_configure(&options->params, &s->gpt, &rate, err)) return false;
    for (uint32_t i = 0; i < gw_gpt_parameters(&s->gpt); i++) {
        gw_gpt_parameter parameter = gw_gpt_parameter_of(&s->gpt, i);
        uint32_t t = 0;
        while (t < layout->tensor_count && strcmp(layout->tensors[t].name, parameter.name) != 0) t++;
        GW_ASSERT(t < layout->tensor_count);
        tensor[i] = t;
        s->offset[i] = layout->of[t].image_offset;
        s->bytes[i] = layout->of[t].elements * sizeof(float);
        s->weights_bytes += s->bytes[i];
        if (strcmp(parameter.name, "wte.weight") == 0)
            s->gpt.vocabulary = (uint32_t)layout->tensors[t].dim[0];
    }
    if (s->weights_bytes != gw_gpt_size(&s->gpt) * sizeof(float))
        return gw_fail(err, GW_E_INVALID, "--sample-every: the model's shape is not that of its options");
    s->weights = malloc(s->weights_bytes);
    if (s->weights == NULL) return gw_fail(err, GW_E_NOMEM, "--sample-every: out of memory");
    const float *next = s->weights;
    for (uint32_t i = 0; i < gw_gpt_parameters(&s->gpt); i++) {
        s->parameters[i] = next;
        next += layout->of[tensor[i]].elements;
    }
    return true;
}

bool gw_sampler_open(const gw_run_options *options, gw_engine *engine, gw_events *events,
                     gw_sampler **sampler, gw_err *err) {
    const gw_params *params = &options->params;
    const char *tokenizer = gw_param_text(params, "tokenizer");
    int64_t every, tokens = TOKENS_USUAL;
    *sampler = NULL;
    if (options->job != &gw_job_gpt || gw_param_text(params, "sample-every") == NULL) return true;
    if (!gw_param_integer(params, "sample-every", 1, INT64_MAX, false, &every, err) ||
        (gw_param_text(params, "sample-tokens") != NULL &&
         !gw_param_integer(params, "sample-tokens", 1, 1000, false, &tokens, err)))
        return false;
    gw_sampler *s = calloc(1, sizeof *s);
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "--sample-every: out of memory");
    *sampler = s;
    s->engine = engine;
    s->events = events;
    s->every = (uint64_t)every;
    s->prompt = gw_param_text(params, "prompt");
    if (!find_parameters(s, options, err)) return false;
    if (tokenizer == NULL && s->gpt.vocabulary > BYTE_VALUES)
        return gw_fail(err, GW_E_USAGE,
                       "--sample-every: the model has %u tokens, more than there are bytes: give --tokenizer",
                       s->gpt.vocabulary);
    const gw_continuation_options text = {.prompt = s->prompt,
                                          .tokenizer = tokenizer,
                                          .tokens = (uint64_t)tokens,
                                          .sampling = {.temperature = 0.8, .seed = 1}};
    s->continuation = gw_continuation_open(&text, s->gpt.vocabulary, err);
    if (s->continuation == NULL) return false;
    s->copying = gw_helper_open("gw-sample-copy", err);
    if (s->copying == NULL) return false;
    s->writing = gw_helper_open("gw-sample", err);
    return s->writing != NULL;
}

uint64_t gw_sampler_bytes(const gw_sampler *s) {
    return s != NULL ? s->weights_bytes : 0;
}

void gw_sampler_step(gw_sampler *s, uint64_t steps_done) {
    if (s == NULL || steps_done % s->every != 0 || atomic_exchange(&s->busy, true)) return;
    gw_helper_give(s->copying, copy_weights, s);
}

bool gw_sampler_close(gw_sampler *s) {
    if (s == NULL) return true;
    uint64_t began_ns = gw_now_ns();
    atomic_store(&s->ended_ns, began_ns);
    while (atomic_load(&s->busy)) {
        if (gw_now_ns() - began_ns > ABANDON_NS) return false;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    gw_helper_close(s->copying);
    gw_helper_close(s->writing);
    gw_continuation_close(s->continuation);
    free(s->weights);
    free(s);
    return true;
}
