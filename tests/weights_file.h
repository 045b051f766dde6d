/* Files of weights, as `godwit export` writes them, from memory. */
#ifndef GODWIT_TESTS_WEIGHTS_FILE_H
#define GODWIT_TESTS_WEIGHTS_FILE_H

#include "core/os/output.h"
#include "kernels/model/gpt/file.h"

#include <stdlib.h>
#include <string.h>

/* Writes tensors (with dtype, size and bytes set) in their order, without notes. */
static inline bool write_weights(const char *path, const gw_safetensor *list, uint32_t count, gw_err *err) {
    void *begin;
    size_t length;
    gw_output output;
    if (!gw_safetensors_begin_file(list, count, NULL, 0, &begin, &length, err)) return false;
    bool opened = gw_output_open(path, &output, err), good = opened;
    good = good && gw_output_write(&output, begin, length, err);
    for (uint32_t i = 0; good && i < count; i++)
        good = gw_output_write(&output, list[i].bytes, list[i].size, err);
    free(begin);
    return opened && gw_output_end(&output, good, err);
}

/* Writes a model with the names of GPT-2. */
static inline bool write_gpt_weights(const gw_gpt *gpt, const float *const *parameters, const char *path,
                                     gw_err *err) {
    gw_safetensor *list = gw_gpt_file_list(gpt, parameters, err);
    bool written = list != NULL && write_weights(path, list, gw_gpt_parameters(gpt), err);
    free(list);
    return written;
}

/* Writes the config.json of a model. */
static inline bool write_gpt_config(const gw_gpt *gpt, double dropout, const char *path, gw_err *err) {
    const gw_gpt_about about = {.dropout = dropout, .kind = GW_REAL_F32};
    char *text = gw_gpt_file_make_config(gpt, &about, err);
    gw_output output;
    bool opened = text != NULL && gw_output_open(path, &output, err);
    bool written = opened && gw_output_end(&output, gw_output_write(&output, text, strlen(text), err), err);
    free(text);
    return written;
}

#endif
