/* The numbers of GPT-2's parameters and of the places where dropout acts. They are the same on processors and
 * GPUs. */
#ifndef GODWIT_KERNELS_MODEL_GPT_PARAMETERS_H
#define GODWIT_KERNELS_MODEL_GPT_PARAMETERS_H

#include "kernels/math/dropout.h"
#include "kernels/model/gpt/gpt.h"

/* The parameters of a layer, counted from its first. */
enum {
    GW_GPT_NORM1_WEIGHT,
    GW_GPT_NORM1_BIAS,
    GW_GPT_QKV_WEIGHT,
    GW_GPT_QKV_BIAS,
    GW_GPT_ATTENDED_WEIGHT,
    GW_GPT_ATTENDED_BIAS,
    GW_GPT_NORM2_WEIGHT,
    GW_GPT_NORM2_BIAS,
    GW_GPT_HIDDEN_WEIGHT,
    GW_GPT_HIDDEN_BIAS,
    GW_GPT_OUT_WEIGHT,
    GW_GPT_OUT_BIAS,
};
/* The parameters before the layers: the embeddings of tokens and of positions. */
enum { GW_GPT_TOKEN_EMBEDDING, GW_GPT_POSITION_EMBEDDING, GW_GPT_FIRST_LAYER };

/* The number of parameter `part` of a layer. */
static inline uint32_t gw_gpt_part(uint32_t layer, uint32_t part) {
    return GW_GPT_FIRST_LAYER + layer * GW_GPT_PARTS + part;
}

/* The numbers of the last layer norm's weight and bias. */
static inline uint32_t gw_gpt_final_weight(const gw_gpt *gpt) {
    return gw_gpt_part(gpt->layers, 0);
}

static inline uint32_t gw_gpt_final_bias(const gw_gpt *gpt) {
    return gw_gpt_part(gpt->layers, 1);
}

/* Where a layer drops values. The sites of all layers are numbered consecutively, lowest layer first. */
typedef enum gw_gpt_site {
    GW_GPT_SITE_EMBEDDING,
    GW_GPT_SITE_WEIGHTS,
    GW_GPT_SITE_ATTENDED,
    GW_GPT_SITE_OUT
} gw_gpt_site;

/* The dropout of one site of a layer. `key` and `shard` are those of gw_gpt_pass. */
static inline gw_dropout gw_gpt_dropout_at(float rate, uint64_t key, uint32_t shard, uint32_t layer,
                                           gw_gpt_site site) {
    return (gw_dropout){.rate = rate, .key = key, .stream = (uint64_t)shard << 32 | (layer * 4 + site)};
}

#endif
