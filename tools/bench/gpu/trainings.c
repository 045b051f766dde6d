#ifdef GODWIT_CUDA
#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/gpt/gpt.h"
#include "tools/bench/gpu/train.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SAMPLES = 8192,
    SHARDS = 4,
    TOKENS = 8 * 16 * 1024,
    VOCABULARY = 50257,
    DATA_TOKENS = 1 << 21,
    HEADER = 256
};
enum { SMALL_TOKENS = 16 * 16 * 64, SMALL_VOCABULARY = 256 };

/* Operations for a token of GPT-2, which has N = 124439808 parameters and L = 12 layers of C = 768
 * channels, over T = 1024 tokens: 6 N + 12 L T C. */
static const double gpt2_operations = 6.0 * 124439808 + 12.0 * 12 * 1024 * 768;

static void put(json_t *figures, const char *name, double value) {
    json_object_set_new(figures, name, json_real(value));
}

/* Returns the share of exact addition in a lone peer's step, computed from its speed alone: 12 bytes an
 * element for the first shard, 20 for each of the others. No other way of summing can save more. */
static double adding_share(const gw_bench_trained *t, const json_t *figures) {
    double first = json_number_value(json_object_get(figures, "first_piece_bytes_per_s"));
    double others = json_number_value(json_object_get(figures, "accumulate_bytes_per_s"));
    return (double)t->elements * (12 / first + 20.0 * (t->shards - 1) / others) / t->alone;
}

static bool train_digits(int gpu, json_t *figures, gw_err *err) {
    static const gw_bench_setting settings[] = {{"hidden", "8192,8192"},
                                                {"batch", "8192"},
                                                {"micro-batch", "2048"},
                                                {"samples", "65536"},
                                                {"epochs", "1000"},
                                                {"lr", "0.001"},
                                                {NULL, NULL}};
    const gw_bench_training training = {&gw_job_digits, settings, 24, .repeated = SHARDS};
    gw_bench_trained got;
    if (!gw_bench_gpu_train(&(gw_gpu){gpu, GW_PRECISION_TF32}, &training, &got, err)) return false;
    put(figures, "digits_other_fingerprints", got.others);
    put(figures, "digits_samples_per_s", SAMPLES / got.alone);
    put(figures, "digits_exact_samples_per_s", SAMPLES / got.exact);
    put(figures, "digits_fast_samples_per_s", SAMPLES / got.fast);
    put(figures, "digits_adding_share", adding_share(&got, figures));
    return true;
}

/* Writes tokens without meaning in llm.c's format. */
static bool write_tokens(char *path, uint64_t vocabulary, gw_err *err) {
    size_t bytes = HEADER * sizeof(int32_t) + DATA_TOKENS * sizeof(uint16_t);
    int fd = mkstemp(path);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot make %s", path);
    int32_t *file = calloc(1, bytes);
    if (file == NULL) {
        close(fd);
        return gw_fail(err, GW_E_NOMEM, "out of memory: %zu bytes of tokens", bytes);
    }
    file[0] = 20240520;
    file[1] = 1;
    file[2] = DATA_TOKENS;
    uint16_t *tokens = (uint16_t *)(void *)(file + HEADER);
    for (uint64_t i = 0; i < DATA_TOKENS; i++) tokens[i] = (uint16_t)(i * i % vocabulary);
    bool written = write(fd, file, bytes) == (ssize_t)bytes;
    int reason = errno;
    free(file);
    close(fd);
    return written || gw_fail_errno(err, reason, "cannot write %s", path);
}

/* Returns the memory beyond the idle use. It includes what this process has loaded for earlier
 * measurements. */
static double more(uint64_t bytes, uint64_t idle_bytes) {
    return bytes > idle_bytes ? (double)(bytes - idle_bytes) : 0;
}

static bool train_gpt2_on(const char *data, int gpu, uint64_t idle_bytes, json_t *figures, gw_err *err) {
    const gw_bench_setting settings[] = {
        {"data", data},        {"model", "gpt2"},   {"batch-tokens", "131072"},
        {"micro-batch", "16"}, {"updates", "1000"}, {NULL, NULL}};
    const gw_bench_training training = {&gw_job_gpt, settings, 8, .repeated = 1};
    gw_bench_trained got;
    if (!gw_bench_gpu_train(&(gw_gpu){gpu, GW_PRECISION_BF16}, &training, &got, err)) return false;
    put(figures, "gpt2_other_fingerprints", got.others);
    put(figures, "gpt2_tokens_per_s", TOKENS / got.alone);
    put(figures, "gpt2_flops", TOKENS / got.alone * gpt2_operations);
    put(figures, "gpt2_exact_tokens_per_s", TOKENS / got.exact);
    put(figures, "gpt2_fast_tokens_per_s", TOKENS / got.fast);
    put(figures, "gpt2_adding_share", adding_share(&got, figures));
    put(figures, "gpt2_memory_bytes", more(got.bytes, idle_bytes));
    return true;
}

static bool train_gpt2(int gpu, uint64_t idle_bytes, json_t *figures, gw_err *err) {
    char data[] = "/tmp/godwit-bench-XXXXXX";
    bool done = write_tokens(data, VOCABULARY, err) && train_gpt2_on(data, gpu, idle_bytes, figures, err);
    unlink(data);
    return done;
}

/* Trains a model whose kernels take less time than starting them. */
static bool train_small_on(const char *data, const char *graphs, int gpu, const char *figure, json_t *figures,
                           gw_err *err) {
    const gw_bench_setting settings[] = {{"data", data},
                                         {"layers", "4"},
                                         {"heads", "4"},
                                         {"channels", "128"},
                                         {"context", "64"},
                                         {"vocab", "256"},
                                         {"batch-tokens", "16384"},
                                         {"micro-batch", "16"},
                                         {"updates", "1000"},
                                         {"graphs", graphs},
                                         {NULL, NULL}};
    const gw_bench_training training = {.type = &gw_job_gpt, .settings = settings, .steps = 40};
    gw_bench_trained got;
    if (!gw_bench_gpu_train(&(gw_gpu){gpu, GW_PRECISION_BF16}, &training, &got, err)) return false;
    put(figures, figure, SMALL_TOKENS / got.alone);
    return true;
}

static bool train_small(int gpu, json_t *figures, gw_err *err) {
    char data[] = "/tmp/godwit-bench-XXXXXX";
    bool done = write_tokens(data, SMALL_VOCABULARY, err) &&
                train_small_on(data, "on", gpu, "small_gpt_tokens_per_s", figures, err) &&
                train_small_on(data, "off", gpu, "small_gpt_single_tokens_per_s", figures, err);
    unlink(data);
    return done;
}

bool gw_bench_gpu_trainings(int gpu, uint64_t idle_bytes, json_t *figures, gw_err *err) {
    return train_digits(gpu, figures, err) && train_gpt2(gpu, idle_bytes, figures, err) &&
           train_small(gpu, figures, err);
}
#endif
