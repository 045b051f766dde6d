#include "tools/bench/gpu/table.h"

#include <stdbool.h>
#include <stdio.h>

typedef enum unit { MOVED, COMPUTED, SAMPLES, TOKENS, SHARE, MEMORY, TIMES } unit;

static const struct {
    const char *text;
    double scale;
} units[] = {[MOVED] = {"GB/s", 1e-9},     [COMPUTED] = {"TFLOP/s", 1e-12}, [SAMPLES] = {"samples/s", 1},
             [TOKENS] = {"tokens/s", 1},   [SHARE] = {"% of a step", 100},  [MEMORY] = {"GB", 1e-9},
             [TIMES] = {"of 100 times", 1}};

static const struct {
    const char *name, *title;
    unit unit;
} rows[] = {{"copy_bytes_per_s", "copy on the GPU", MOVED},
            {"accumulate_bytes_per_s", "exact accumulate", MOVED},
            {"first_piece_bytes_per_s", "exact accumulate, first piece", MOVED},
            {"fingerprint_bytes_per_s", "fingerprint of a sum", MOVED},
            {"optimizer_bytes_per_s", "AdamW", MOVED},
            {"sgd_bytes_per_s", "SGD with momentum", MOVED},
            {"layernorm_bytes_per_s", "residual and layer norm, bf16", MOVED},
            {"layernorm_back_bytes_per_s", "  its gradient", MOVED},
            {"gelu_bytes_per_s", "GELU, bf16", MOVED},
            {"gelu_back_bytes_per_s", "  its gradient", MOVED},
            {"crossent_bytes_per_s", "cross-entropy, bf16", MOVED},
            {"norm_bytes_per_s", "norm of a sum", MOVED},
            {"gemm_bf16_flops", "4096^3 product, bf16", COMPUTED},
            {"gemm_tf32_flops", "4096^3 product, tf32", COMPUTED},
            {"gemm_fp32_flops", "4096^3 product, fp32", COMPUTED},
            {"attention_64_flops", "attention, 64 wide, bf16", COMPUTED},
            {"attention_64_back_flops", "  its gradient", COMPUTED},
            {"attention_128_flops", "attention, 128 wide, bf16", COMPUTED},
            {"attention_128_back_flops", "  its gradient", COMPUTED},
            {"digits_samples_per_s", "digits 8192,8192, tf32", SAMPLES},
            {"digits_exact_samples_per_s", "  with an exact sum to send", SAMPLES},
            {"digits_fast_samples_per_s", "  with a float sum to send", SAMPLES},
            {"digits_adding_share", "  exact adding", SHARE},
            {"digits_other_fingerprints", "  the batch, other bits", TIMES},
            {"gpt2_tokens_per_s", "GPT-2 124M, T 1024, bf16", TOKENS},
            {"gpt2_flops", "  6 N + 12 L T C a token", COMPUTED},
            {"gpt2_exact_tokens_per_s", "  with an exact sum to send", TOKENS},
            {"gpt2_fast_tokens_per_s", "  with a float sum to send", TOKENS},
            {"gpt2_adding_share", "  exact adding", SHARE},
            {"gpt2_memory_bytes", "  memory", MEMORY},
            {"gpt2_other_fingerprints", "  a shard, other bits", TIMES},
            {"small_gpt_tokens_per_s", "gpt 4 x 128, T 64, as graphs", TOKENS},
            {"small_gpt_single_tokens_per_s", "  kernel by kernel", TOKENS}};

void gw_bench_gpu_table(const json_t *figures) {
    double copied = json_number_value(json_object_get(figures, rows[0].name));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = json_number_value(json_object_get(figures, rows[i].name));
        printf("  %-30s %10.1f %s", rows[i].title, value * units[rows[i].unit].scale,
               units[rows[i].unit].text);
        if (i > 0 && rows[i].unit == MOVED) printf("  %3.0f %% of a copy", 100 * value / copied);
        putchar('\n');
    }
}
