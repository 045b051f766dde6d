/* The model. A shard's contribution, its *push*, is noise plus a fraction of the present `cells`; each step
 * moves the cells towards the mean of the pushes, so that an error in any step's sum stays in the state.
 * `digest` is a hash chain over every bit of every sum. `unread` moves like `cells`, but no shard reads it;
 * it is two thirds of the state, as AdamW's moments are. With payloads, the key of the noise depends on every
 * byte of the payload, so that a wrong byte changes the state. */
#include "kernels/jobs/synthetic/synthetic.h"

#include "core/base/assert.h"
#include "kernels/jobs/synthetic/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const gw_option options[] = {
    {"shards", "N", "120", "Shards of a step.", false},
    {"shard-ms", "MS", "20", "Time that a shard takes; 0 = no longer than its arithmetic.", false},
    {"spin", NULL, NULL, "Shards use CPU time instead of sleeping.", false},
    {"skew", "F", "1", "This peer's shards take F times as long: a slow node.", true},
    {"state-bytes", "SIZE", "1m", "Size of the state, all of which changes each step (suffixes k, m, g).",
     false},
    {"sum-elements", "N", "16384", "Elements summed over the shards of a step, 8 bytes each.", false},
    {"seed", "N", "1", "Seed of the noise.", false},
    {"payload-bytes", "SIZE", "0",
     "Size of a shard's input, which the peer that it is dealt to first holds in memory (suffixes k, m, g).",
     false},
    {"payload-copies", "R", "1", "Peers that hold each shard's input.", true},
    {"bad-shard", "STEP:SHARD", NULL, "This shard emits a NaN.", false},
    {"crash-shard", "STEP:SHARD", NULL, "This peer crashes when it computes this shard.", true},
    {NULL, NULL, NULL, NULL, false},
};

/* Reads a decimal number of at most `most` that ends before the character `stop`. Returns the text behind
 * `stop`; NULL where there is no such number. */
static const char *read_digits(const char *text, char stop, uint64_t most, uint64_t *value) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return NULL; /* strtoull accepts signs and blanks */
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == stop && *value <= most ? end + 1 : NULL;
}

static bool read_place(const gw_params *params, const char *name, synthetic_place *at, gw_err *err) {
    const char *text = gw_param_text(params, name);
    *at = (synthetic_place){.given = false};
    if (text == NULL) return true;
    uint64_t step, shard;
    const char *rest = read_digits(text, ':', UINT64_MAX, &step);
    if (rest == NULL || read_digits(rest, '\0', GW_MAX_SHARDS, &shard) == NULL)
        return gw_fail(err, GW_E_USAGE, "--%s: '%s' is not STEP:SHARD, such as 3:17", name, text);
    *at = (synthetic_place){.given = true, .step = step, .shard = (uint32_t)shard};
    char numbers[48];
    snprintf(numbers, sizeof numbers, "%" PRIu64 ":%" PRIu64, step, shard);
    gw_param_use_text(params, name, numbers);
    return true;
}

bool synthetic_is_at(const synthetic_place *at, uint64_t step, uint32_t shard) {
    return at->given && at->step == step && at->shard == shard;
}

static bool read_size(const gw_params *params, const char *name, int64_t least, int64_t most, int64_t *bytes,
                      gw_err *err) {
    return gw_param_integer(params, name, least, most, true, bytes, err) ||
           gw_fail(err, GW_E_USAGE,
                   "--%s: '%s' is not a number of bytes from %lld to %lld, or one with k, m or g", name,
                   gw_param_text(params, name), (long long)least, (long long)most);
}

/* A state tensor of cells. */
static gw_tensor cells_tensor(const char *name, uint32_t group, uint64_t count) {
    return (gw_tensor){
        .name = name, .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {count}, .group = group};
}

/* Divides `bytes` of state, without the digest, into `cells` and `unread`. Shards push at the first `pushed`
 * elements of the cells. */
static void divide_state(synthetic *job, uint64_t bytes, uint64_t pushed) {
    uint64_t all = (bytes - DIGEST_WORDS * sizeof(int64_t) + 3) / 4;
    job->pushed = pushed < all ? pushed : all - 1;
    uint64_t cells = job->pushed > all / 3 ? job->pushed : all / 3;
    job->tensors[CELLS] = cells_tensor("cells", CELLS, cells);
    job->tensors[UNREAD] = cells_tensor("unread", UNREAD, all - cells);
    job->tensors[UNREAD].apply_only = true;
}

static bool read_options(const gw_params *params, synthetic *job, gw_err *err) {
    int64_t shards, bytes, pushed, seed, payload, copies;
    double shard_ms, skew;
    if (!gw_param_integer(params, "shards", 1, GW_MAX_SHARDS, false, &shards, err)) return false;
    if (!gw_param_real(params, "shard-ms", 0, 3600e3, &shard_ms, err)) return false;
    if (!gw_param_real(params, "skew", 0.001, 1000, &skew, err)) return false;
    if (!read_size(params, "state-bytes", 4096, (int64_t)1 << 40, &bytes, err)) return false;
    if (!gw_param_integer(params, "sum-elements", 1, 1 << 28, true, &pushed, err)) return false;
    if (!gw_param_integer(params, "seed", 0, INT64_MAX, false, &seed, err)) return false;
    if (!read_size(params, "payload-bytes", 0, (int64_t)1 << 40, &payload, err)) return false;
    if (!gw_param_integer(params, "payload-copies", 1, 16, false, &copies, err)) return false;
    if (!read_place(params, "crash-shard", &job->crash, err)) return false;
    if (!read_place(params, "bad-shard", &job->bad, err)) return false;
    job->shards = (uint32_t)shards;
    divide_state(job, (uint64_t)bytes, (uint64_t)pushed);
    job->seed = (uint64_t)seed;
    job->payload_bytes = (uint64_t)payload;
    job->payload_copies = (uint32_t)copies;
    job->shard_ns = (int64_t)(shard_ms * skew * 1e6);
    job->spin = gw_param_text(params, "spin") != NULL;
    return true;
}

static bool job_open(const gw_params *params, void **job, gw_err *err) {
    synthetic *j = calloc(1, sizeof *j);
    *job = NULL;
    if (j == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the job");
    if (!read_options(params, j, err)) {
        free(j);
        return false;
    }
    j->tensors[DIGEST] = (gw_tensor){.name = "digest",
                                     .dtype = GW_I64,
                                     .role = GW_STATE,
                                     .rank = 1,
                                     .dim = {DIGEST_WORDS},
                                     .group = DIGEST,
                                     .apply_only = true};
    j->tensors[PUSH] = (gw_tensor){.name = "push",
                                   .role = GW_SUMMED,
                                   .rank = 1,
                                   .dim = {j->pushed},
                                   .group = PUSH,
                                   .frac_bits = PUSH_FRAC};
    j->tensors[COUNT] =
        (gw_tensor){.name = "count", .role = GW_SUMMED, .rank = 1, .dim = {1}, .group = COUNT, .bucket = 1};
    j->tensors[ENERGY] = (gw_tensor){.name = "energy",
                                     .role = GW_METRIC,
                                     .rank = 1,
                                     .dim = {1},
                                     .group = ENERGY,
                                     .bucket = 1,
                                     .frac_bits = ENERGY_FRAC};
    *job = j;
    return true;
}

static bool job_describe(void *job, gw_plan *plan, gw_err *err) {
    const synthetic *j = job;
    (void)err; /* describing cannot fail */
    *plan =
        (gw_plan){.tensors = j->tensors, .tensor_count = TENSORS, .lane_bytes = j->pushed * sizeof(float)};
    if (j->payload_bytes > 0)
        plan->payload =
            (gw_payload_plan){.shards = j->shards, .bytes = j->payload_bytes, .copies = j->payload_copies};
    snprintf(plan->data_text, sizeof plan->data_text, "none: noise of seed %" PRIu64, j->seed);
    return true;
}

static bool lane_open(void *job, void **lane, gw_err *err) {
    const synthetic *j = job;
    *lane = malloc(j->pushed * sizeof(float));
    if (*lane == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %" PRIu64 " floats", j->pushed);
    return true;
}

static void lane_close(void *job, void *lane) {
    (void)job;
    free(lane);
}

uint64_t synthetic_noise_key(const synthetic *job, uint64_t step, uint64_t shard) {
    gw_philox bits = gw_philox_at(job->seed, step, shard);
    return (uint64_t)bits.words[1] << 32 | bits.words[0];
}

/* Word i of a payload, whose last word may be cut off. */
static uint64_t payload_word(uint64_t key, uint64_t i) {
    return gw_mix64(key ^ gw_mix64(i));
}

static bool job_payload(void *job, uint32_t shard, void *bytes, gw_err *err) {
    const synthetic *j = job;
    (void)err; /* arithmetic cannot fail */
    /* UINT64_MAX - 1 is no step's number */
    uint64_t key = synthetic_noise_key(j, UINT64_MAX - 1, shard), words = j->payload_bytes / 8;
    uint8_t *to = bytes;
    for (uint64_t i = 0; i < words; i++) {
        uint64_t word = payload_word(key, i);
        memcpy(to + i * 8, &word, 8);
    }
    uint64_t last = payload_word(key, words);
    memcpy(to + words * 8, &last, j->payload_bytes % 8);
    return true;
}

uint64_t synthetic_digest_of(const uint8_t *bytes, uint64_t count) {
    uint64_t digest = count;
    for (uint64_t i = 0; i < count; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, count - i < 8 ? count - i : 8);
        digest = (digest ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        digest ^= digest >> 29;
    }
    return digest;
}

static bool job_init(void *job, const gw_range *range, const gw_state *state, gw_err *err) {
    const synthetic *j = job;
    (void)err; /* arithmetic cannot fail */
    if (range->group != DIGEST) {
        float *cells = state->data[range->group];
        uint64_t key = synthetic_noise_key(j, SYNTHETIC_INIT, range->group);
        for (uint64_t i = range->first; i < range->first + range->count; i++)
            cells[i] = synthetic_noise(key, i);
    } else {
        int64_t *digest = state->data[DIGEST];
        for (uint64_t i = range->first; i < range->first + range->count; i++) digest[i] = (int64_t)i;
    }
    return true;
}

static uint32_t job_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)step;
    *phase = GW_TRAIN;
    return ((const synthetic *)job)->shards;
}

static struct timespec after(struct timespec from, int64_t ns) {
    int64_t nanoseconds = from.tv_nsec + ns % 1000000000;
    return (struct timespec){.tv_sec = from.tv_sec + ns / 1000000000 + nanoseconds / 1000000000,
                             .tv_nsec = nanoseconds % 1000000000};
}

static bool is_before(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* The clock that a shard's time is measured on. */
static clockid_t shard_clock(const synthetic *job) {
    return job->spin ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
}

struct timespec synthetic_start(const synthetic *job) {
    struct timespec now;
    clock_gettime(shard_clock(job), &now);
    return now;
}

void synthetic_wait(const synthetic *job, struct timespec start) {
    if (job->shard_ns <= 0) return;
    struct timespec now, end = after(start, job->shard_ns);
    if (!job->spin)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) continue;
    else
        do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        while (is_before(&now, &end));
}

static bool job_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                           gw_emitter *emitter, gw_err *err) {
    const synthetic *j = job;
    const float *cells = state->data[CELLS];
    float *push = lane;
    (void)err; /* arithmetic cannot fail */
    struct timespec start = synthetic_start(j);
    uint64_t key = synthetic_noise_key(j, step, shard);
    if (j->payload_bytes > 0) key ^= synthetic_digest_of(gw_payload(emitter), j->payload_bytes);
    float energy = 0;
    for (uint64_t i = 0; i < j->pushed; i++) {
        push[i] = synthetic_push(key, i, cells[i]);
        energy += push[i] * push[i];
    }
    if (synthetic_is_at(&j->bad, step, shard)) push[j->pushed / 2] = NAN;
    /* One half is emitted before the wait and one after it, as a backward pass emits layer by layer. */
    uint64_t half = j->pushed / 2;
    gw_emit(emitter, PUSH, 0, half, push);
    if (synthetic_is_at(&j->crash, step, shard)) raise(SIGSEGV);
    synthetic_wait(j, start);
    gw_emit(emitter, PUSH, half, j->pushed - half, push + half);
    float mean = energy / (float)j->pushed;
    int64_t one = 1;
    gw_emit_integers(emitter, COUNT, 0, 1, &one);
    gw_emit(emitter, ENERGY, 0, 1, &mean);
    return true;
}

static bool job_scalars(void *job, uint64_t step, const gw_sums *sums, const gw_state *state,
                        gw_scalars *scalars, gw_err *err) {
    (void)job, (void)step, (void)state, (void)err; /* arithmetic cannot fail */
    GW_ASSERT(sums->data[COUNT][0] > 0);           /* every shard emits 1 */
    /* the factor that makes the fixed-point sum of the pushes their mean */
    scalars->value[0] = 0x1p-40 / (double)sums->data[COUNT][0];
    return true;
}

static bool job_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                      const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    const synthetic *j = job;
    (void)step, (void)err; /* arithmetic cannot fail */
    const int64_t *push = sums->data[PUSH];
    uint64_t last = range->first + range->count;
    if (range->group != DIGEST) {
        float *cells = state->data[range->group];
        uint64_t from = range->first % j->pushed;
        for (uint64_t i = range->first; i < last; i++) {
            cells[i] = synthetic_follow(cells[i], push[from], scalars->value[0]);
            from = from + 1 == j->pushed ? 0 : from + 1;
        }
        return true;
    }
    int64_t *digest = state->data[DIGEST];
    for (uint64_t k = range->first; k < last; k++) {
        uint64_t chain = (uint64_t)digest[k];
        for (uint64_t i = k; i < j->pushed; i += DIGEST_WORDS) chain = synthetic_chain(chain, push[i]);
        digest[k] = (int64_t)synthetic_chain(chain, sums->data[COUNT][0]);
    }
    return true;
}

static void job_report(void *job, uint64_t step, const gw_sums *sums, const gw_scalars *scalars, char *text,
                       size_t size) {
    (void)job, (void)step, (void)scalars;
    snprintf(text, size, "energy=%.7g", gw_sum_value(sums, ENERGY, 0) / (double)sums->data[COUNT][0]);
}

static void job_summary(void *job, uint64_t steps_done, const gw_state *state, char *text, size_t size) {
    (void)job, (void)steps_done;
    const int64_t *digest = state->data[DIGEST];
    snprintf(text, size, "digest=%016" PRIx64, (uint64_t)(digest[0] ^ digest[1] ^ digest[2] ^ digest[3]));
}

const gw_job_type gw_job_synthetic = {
    .api = GW_JOB_API,
    .name = "synthetic",
    .about = "burn-in: shards of a given duration and a state that changes each step",
    .options = options,
    .open = job_open,
    .close = free,
    .describe = job_describe,
    .lane_open = lane_open,
    .lane_close = lane_close,
    .init = job_init,
    .shards = job_shards,
    .contribute = job_contribute,
    .scalars = job_scalars,
    .apply = job_apply,
    .report = job_report,
    .summary = job_summary,
    .payload = job_payload,
#ifdef GODWIT_CUDA
    .gpu = &synthetic_gpu,
#endif
};
