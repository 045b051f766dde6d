/* What the files of this room share: the parts of the forward pass that the backward pass may repeat. */
#ifndef GODWIT_KERNELS_MODEL_GPT_INSIDE_H
#define GODWIT_KERNELS_MODEL_GPT_INSIDE_H

#include "kernels/math/attention.h"
#include "kernels/model/gpt/parameters.h"

gw_dropout gpt_dropout(const gw_gpt_pass *pass, uint32_t layer, gw_gpt_site site);
gw_attention gpt_attention(const gw_gpt_pass *pass, uint32_t layer);
gw_gpt_slot *gpt_slot(const gw_gpt_pass *pass, uint32_t layer);
size_t gpt_rows(const gw_gpt_pass *pass);

/* Computes a layer: reads residual[layer], writes the layer's slot and residual[layer + 1]. */
void gpt_forward_layer(const gw_gpt_pass *pass, uint32_t layer);

#endif
