#include "kernels/model/gpt/config.h"

#include "core/base/assert.h"

#include <stdio.h>
#include <string.h>

typedef struct preset {
    const char *name;
    gw_gpt gpt;
    double rate;
} preset;

static const preset presets[] = {
    {GW_GPT_USUAL, {.layers = 4, .heads = 4, .channels = 128, .context = 64, .vocabulary = 50257}, 1e-3},
    {"gpt2", {.layers = 12, .heads = 12, .channels = 768, .context = 1024, .vocabulary = 50257}, 6e-4},
    {"gpt2-medium",
     {.layers = 24, .heads = 16, .channels = 1024, .context = 1024, .vocabulary = 50257},
     3e-4},
    {"gpt2-large",
     {.layers = 36, .heads = 20, .channels = 1280, .context = 1024, .vocabulary = 50257},
     2.5e-4},
    {"gpt2-xl", {.layers = 48, .heads = 25, .channels = 1600, .context = 1024, .vocabulary = 50257}, 2e-4},
};

static const preset *find_preset(const char *name, gw_err *err) {
    char known[120] = "";
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].name, name) == 0) return &presets[i];
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", presets[i].name);
    }
    gw_fail(err, GW_E_USAGE, "--model: '%s' is not one of %s", name, known);
    return NULL;
}

bool gw_gpt_option(const gw_params *params, const char *name, int64_t least, int64_t most, int64_t *value,
                   gw_err *err) {
    return gw_param_text(params, name) == NULL ||
           gw_param_integer(params, name, least, most, false, value, err);
}

bool gw_gpt_configure(const gw_params *params, gw_gpt *gpt, double *rate, gw_err *err) {
    const char *name = gw_param_text(params, "model");
    GW_ASSERT(name != NULL);
    const preset *model = find_preset(name, err);
    if (model == NULL) return false;
    int64_t layers = model->gpt.layers, heads = model->gpt.heads, channels = model->gpt.channels,
            context = model->gpt.context;
    if (!gw_gpt_option(params, "layers", 1, GW_GPT_LAYERS, &layers, err) ||
        !gw_gpt_option(params, "heads", 1, 1 << 16, &heads, err) ||
        !gw_gpt_option(params, "channels", 1, 1 << 16, &channels, err) ||
        !gw_gpt_option(params, "context", 1, 1 << 17, &context, err))
        return false;
    if (channels % heads != 0)
        return gw_fail(err, GW_E_USAGE, "--heads: %lld heads do not divide %lld channels", (long long)heads,
                       (long long)channels);
    gw_param_use_integer(params, "layers", layers);
    gw_param_use_integer(params, "heads", heads);
    gw_param_use_integer(params, "channels", channels);
    gw_param_use_integer(params, "context", context);
    *gpt = (gw_gpt){.layers = (uint32_t)layers,
                    .heads = (uint32_t)heads,
                    .channels = (uint32_t)channels,
                    .context = (uint32_t)context,
                    .vocabulary = model->gpt.vocabulary};
    *rate = model->rate;
    return true;
}

const char *gw_gpt_model_of(uint32_t layers, uint32_t channels, uint32_t context) {
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        const gw_gpt *gpt = &presets[i].gpt;
        if (gpt->layers == layers && gpt->channels == channels && gpt->context == context)
            return presets[i].name;
    }
    return NULL;
}
