/* What kernels/gpt*.c share: the numbers of parameters, and the parts of the forward pass that the backward
 * pass may have to repeat. */
#ifndef GODWIT_KERNELS_MODEL_GPT_PARTS_H
#define GODWIT_KERNELS_MODEL_GPT_PARTS_H

#include "kernels/math/attention.h"
#include "kernels/model/gpt/gpt.h"

/* Within a layer. */
enum {
    GPT_NORM1_WEIGHT,
    GPT_NORM1_BIAS,
    GPT_QKV_WEIGHT,
    GPT_QKV_BIAS,
    GPT_ATTENDED_WEIGHT,
    GPT_ATTENDED_BIAS,
    GPT_NORM2_WEIGHT,
    GPT_NORM2_BIAS,
    GPT_HIDDEN_WEIGHT,
    GPT_HIDDEN_BIAS,
    GPT_OUT_WEIGHT,
    GPT_OUT_BIAS,
};
enum { GPT_WORDS, GPT_PLACES, GPT_FIRST_LAYER };

static inline uint32_t gpt_part(uint32_t layer, uint32_t part) {
    return GPT_FIRST_LAYER + layer * GW_GPT_PARTS + part;
}

static inline uint32_t gpt_final_weight(const gw_gpt *gpt) {
    return gpt_part(gpt->layers, 0);
}

static inline uint32_t gpt_final_bias(const gw_gpt *gpt) {
    return gpt_part(gpt->layers, 1);
}

/* Where values are dropped; a layer's sites follow those of the layer below. */
typedef enum gpt_site { GPT_SITE_EMBEDDING, GPT_SITE_WEIGHTS, GPT_SITE_ATTENDED, GPT_SITE_OUT } gpt_site;

/* `key` and `shard` as in gw_gpt_pass. */
static inline gw_dropout gpt_dropout_at(float rate, uint64_t key, uint32_t shard, uint32_t layer,
                                        gpt_site site) {
    return (gw_dropout){.rate = rate, .key = key, .stream = (uint64_t)shard << 32 | (layer * 4 + site)};
}

gw_dropout gpt_dropout(const gw_gpt_pass *pass, uint32_t layer, gpt_site site);
gw_attention gpt_attention(const gw_gpt_pass *pass, uint32_t layer);
gw_gpt_slot *gpt_slot(const gw_gpt_pass *pass, uint32_t layer);
size_t gpt_rows(const gw_gpt_pass *pass);

/* From residual[layer] to the layer's slot and residual[layer + 1]. */
void gpt_forward_layer(const gw_gpt_pass *pass, uint32_t layer);

#endif
