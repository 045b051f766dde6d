#include "kernels/model/gpt/file.h"

#include "core/base/assert.h"
#include "core/os/plain_file.h"
#include "kernels/data/real.h"
#include "kernels/model/gpt/config.h"
#include "kernels/model/gpt/inside.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char prefix[] = "transformer.", layer[] = "h.", heads[] = "n_head", origin_name[] = "godwit";
static const char words_name[] = "wte.weight", head_name[] = "lm_head.weight";

enum { FULL_NAME = 64, GPT2_VOCABULARY = 50257, GPT2_END_OF_TEXT = 50256 };

/* The token embedding is the output layer as well, and some programs store it only under that name. */
static const gw_safetensor *find(const gw_safetensors *file, const char *name) {
    char full[FULL_NAME];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const gw_safetensor *tensor = gw_safetensors_find(file, full);
    if (tensor == NULL) tensor = gw_safetensors_find(file, name);
    return tensor == NULL && strcmp(name, words_name) == 0 ? gw_safetensors_find(file, head_name) : tensor;
}

uint32_t gw_gpt_file_vocabulary(const gw_safetensors *file) {
    const gw_safetensor *words = find(file, words_name);
    return words != NULL && words->rank == 2 && words->dim[0] <= UINT32_MAX ? (uint32_t)words->dim[0] : 0;
}

uint32_t gw_gpt_file_context(const gw_safetensors *file) {
    const gw_safetensor *places = find(file, "wpe.weight");
    return places != NULL && places->rank == 2 && places->dim[0] <= UINT32_MAX ? (uint32_t)places->dim[0] : 0;
}

/* The number of layers, from the highest layer number in the tensors' names. */
static uint32_t layers_in(const gw_safetensors *file) {
    uint32_t layers = 0;
    for (uint32_t i = 0; i < file->count; i++) {
        const char *name = file->list[i].name;
        if (strncmp(name, prefix, strlen(prefix)) == 0) name += strlen(prefix);
        if (strncmp(name, layer, strlen(layer)) != 0 || !isdigit((unsigned char)name[strlen(layer)]))
            continue;
        char *end;
        unsigned long long number = strtoull(name + strlen(layer), &end, 10);
        if (*end != '.') continue;
        if (number >= UINT32_MAX) number = UINT32_MAX - 1;
        if (number >= layers) layers = (uint32_t)number + 1;
    }
    return layers;
}

/* The kind of a tensor's numbers; GW_REALS where it cannot be read. */
static gw_real kind_of(const gw_safetensor *tensor) {
    gw_real kind = gw_real_named(tensor->dtype);
    return kind == GW_REAL_F64 ? GW_REALS : kind;
}

static bool check_parameter(const gw_gpt *gpt, const gw_safetensors *file, uint32_t number, gw_err *err) {
    gw_gpt_parameter parameter = gw_gpt_parameter_of(gpt, number);
    const gw_safetensor *tensor = find(file, parameter.name);
    if (tensor == NULL) return gw_fail(err, GW_E_INVALID, "has no tensor '%s'", parameter.name);
    if (kind_of(tensor) == GW_REALS)
        return gw_fail(err, GW_E_UNSUPPORTED, "tensor '%s' is %s; F32, F16 and BF16 are what can be read",
                       tensor->name, tensor->dtype);
    bool same = tensor->rank == parameter.rank;
    for (uint32_t d = 0; same && d < parameter.rank; d++)
        same = tensor->dim[d] == parameter.dim[d] ||
               (number == GW_GPT_POSITION_EMBEDDING && d == 0 && tensor->dim[0] > parameter.dim[0]);
    if (same) return true;
    char shape[100] = "";
    for (uint32_t d = 0; d < tensor->rank; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%llu", d > 0 ? "x" : "",
                 (unsigned long long)tensor->dim[d]);
    return gw_fail(err, GW_E_INVALID, "tensor '%s' is %s, and this model's is %llux%llu", tensor->name, shape,
                   (unsigned long long)parameter.dim[0],
                   (unsigned long long)(parameter.rank == 2 ? parameter.dim[1] : 1));
}

static bool check_parameters(const gw_gpt *gpt, const gw_safetensors *file, gw_err *err) {
    for (uint32_t i = 0; i < gw_gpt_parameters(gpt); i++)
        if (!check_parameter(gpt, file, i, err)) return false;
    return true;
}

/* Refuses a file with further layers: its first layers alone are another model. */
static bool check_layers(const gw_gpt *gpt, const gw_safetensors *file, gw_err *err) {
    uint32_t layers = layers_in(file);
    if (layers <= gpt->layers) return true;
    if (layers > GW_GPT_LAYERS)
        return gw_fail(err, GW_E_UNSUPPORTED, "has %u layers; %d are the most that a model may have", layers,
                       GW_GPT_LAYERS);
    return gw_fail(err, GW_E_USAGE, "has %u layers, and this model %u", layers, gpt->layers);
}

/* Accepts a classifier only if it is the embedding. A file may hold both, with the same bytes. */
static bool check_head(const gw_safetensors *file, gw_err *err) {
    const gw_safetensor *head = gw_safetensors_find(file, head_name), *words = find(file, words_name);
    if (head == NULL) return true;
    GW_ASSERT(words != NULL);
    bool same = strcmp(head->dtype, words->dtype) == 0 && head->size == words->size;
    if (same && head->bytes != words->bytes) {
        if (!gw_safetensors_unchanged(file, err)) return false;
        same = memcmp(head->bytes, words->bytes, words->size) == 0;
        if (!gw_safetensors_unchanged(file, err)) return false;
    }
    return same ||
           gw_fail(
               err, GW_E_UNSUPPORTED,
               "tensor '%s' differs from '%s': the model's head is not tied to its embedding, as a GPT-2's "
               "is, and such a model cannot be trained here",
               head->name, words->name);
}

/* Writes the options that select the model of the file's weights; "" where the file does not show them, or
 * they are right. No tensor shows the number of heads. */
static void advise(const gw_gpt *gpt, const gw_safetensors *file, uint32_t own_heads, char *text,
                   size_t size) {
    const gw_safetensor *words = find(file, words_name);
    uint32_t layers = layers_in(file), context = gw_gpt_file_context(file);
    text[0] = '\0';
    if (layers == 0 || layers > GW_GPT_LAYERS || context == 0) return;
    if (words == NULL || words->rank != 2 || words->dim[1] > UINT32_MAX) return;
    uint32_t channels = (uint32_t)words->dim[1];
    if (layers == gpt->layers && channels == gpt->channels && context >= gpt->context) return;
    const char *model = gw_gpt_model_of(layers, channels, context);
    char number[40] = " with the --heads it was made with";
    if (own_heads > 0) snprintf(number, sizeof number, " --heads %u", own_heads);
    if (model != NULL)
        snprintf(text, size, "; its weights are of --model %s", model);
    else
        snprintf(text, size, "; its weights are of --layers %u --channels %u --context %u%s", layers,
                 channels, context, number);
}

bool gw_gpt_file_check(const gw_gpt *gpt, const gw_safetensors *file, uint32_t own_heads, gw_err *err) {
    if (check_parameters(gpt, file, err) && check_layers(gpt, file, err)) return check_head(file, err);
    char advice[160];
    gw_err what = *err;
    advise(gpt, file, own_heads, advice, sizeof advice);
    return gw_fail(err, what.code, "%s%s", what.text, advice);
}

/* Whether a tensor is one of the model's, or a mask of its attention, which some files have ("h.0.attn.bias",
 * "h.0.attn.masked_bias"). */
static bool is_known(const gw_gpt *gpt, const char *name) {
    if (strcmp(name, head_name) == 0) return true;
    if (strncmp(name, prefix, strlen(prefix)) == 0) name += strlen(prefix);
    for (uint32_t i = 0; i < gw_gpt_parameters(gpt); i++)
        if (strcmp(name, gw_gpt_parameter_of(gpt, i).name) == 0) return true;
    const char *part = strncmp(name, layer, strlen(layer)) == 0 ? strchr(name + strlen(layer), '.') : NULL;
    return part != NULL && (strcmp(part, ".attn.bias") == 0 || strcmp(part, ".attn.masked_bias") == 0);
}

uint32_t gw_gpt_file_others(const gw_gpt *gpt, const gw_safetensors *file, char *text, size_t size) {
    uint32_t others = 0;
    size_t used = 0;
    bool full = false;
    text[0] = '\0';
    for (uint32_t i = 0; i < file->count; i++) {
        const char *name = file->list[i].name;
        if (is_known(gpt, name)) continue;
        others++;
        if (full) continue;
        full = used + strlen(", ") + strlen(name) + sizeof ", ..." > size;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", full ? "..." : name);
    }
    return others;
}

bool gw_gpt_file_read(const gw_gpt *gpt, const gw_safetensors *file, uint32_t number, uint64_t first,
                      uint64_t count, float *values, gw_err *err) {
    const gw_safetensor *tensor = find(file, gw_gpt_parameter_of(gpt, number).name);
    GW_ASSERT(tensor != NULL);
    if (!gw_safetensors_unchanged(file, err)) return false;
    gw_real kind = kind_of(tensor);
    size_t width = gw_real_bytes(kind);
    GW_ASSERT((first + count) * width <= tensor->size);
    gw_real_convert(kind, tensor->bytes + first * width, GW_REAL_F32, values, count);
    return gw_safetensors_unchanged(file, err);
}

gw_safetensor *gw_gpt_file_list(const gw_gpt *gpt, const float *const *parameters, gw_err *err) {
    uint32_t count = gw_gpt_parameters(gpt);
    gw_safetensor *list = calloc(count, sizeof *list + FULL_NAME);
    if (list == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", count);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        gw_gpt_parameter parameter = gw_gpt_parameter_of(gpt, i);
        uint64_t elements = parameter.dim[0] * (parameter.rank == 2 ? parameter.dim[1] : 1);
        char *name = (char *)(list + count) + (size_t)i * FULL_NAME;
        snprintf(name, FULL_NAME, "%s%s", prefix, parameter.name);
        list[i] = (gw_safetensor){.name = name,
                                  .dtype = "F32",
                                  .rank = parameter.rank,
                                  .dim = {parameter.dim[0], parameter.dim[1]},
                                  .bytes = parameters != NULL ? (const uint8_t *)parameters[i] : NULL,
                                  .size = elements * sizeof(float)};
    }
    return list;
}

bool gw_gpt_file_from_memory(const gw_gpt *gpt, const float *const *parameters, gw_safetensors *file,
                             gw_err *err) {
    gw_safetensor *list = gw_gpt_file_list(gpt, parameters, err);
    return list != NULL && gw_safetensors_from_memory(list, gw_gpt_parameters(gpt), file, err);
}

char *gw_gpt_file_config(const char *weights, gw_err *err) {
    char *path;
    int folder = (int)(basename(weights) - weights);
    if (asprintf(&path, "%.*s%s", folder, weights, GW_GPT_CONFIG) >= 0) return path;
    gw_fail(err, GW_E_NOMEM, "out of memory");
    return NULL;
}

/* The path of the config.json of the model at `init`, a folder or a file of weights. */
static char *config_of(const char *init, gw_err *err) {
    struct stat about;
    char *path;
    if (stat(init, &about) != 0 || !S_ISDIR(about.st_mode)) return gw_gpt_file_config(init, err);
    if (asprintf(&path, "%s/%s", init, GW_GPT_CONFIG) >= 0) return path;
    gw_fail(err, GW_E_NOMEM, "out of memory");
    return NULL;
}

/* The name of a kind of numbers in a configuration. */
static const char *torch_name(gw_real kind) {
    static const char *const names[GW_REALS] = {"float64", "float32", "float16", "bfloat16"};
    return names[kind];
}

/* Makes a configuration without the tokens that begin and end a text. */
static json_t *make_config(const gw_gpt *gpt, double dropout, gw_real kind) {
    json_t *config =
        json_pack("{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:s}",
                  "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "vocab_size",
                  (int)gpt->vocabulary, "n_positions", (int)gpt->context, "n_embd", (int)gpt->channels,
                  "n_layer", (int)gpt->layers, heads, (int)gpt->heads, "activation_function", "gelu_new",
                  "layer_norm_epsilon", 1e-5, "initializer_range", 0.02, "attn_pdrop", dropout, "embd_pdrop",
                  dropout, "resid_pdrop", dropout, "tie_word_embeddings", 1, "torch_dtype", torch_name(kind));
    GW_ASSERT(config != NULL);
    return config;
}

/* The digits that a number needs to be read back as the same double. */
static int digits_of(double value) {
    char text[40];
    int digits = 0;
    do snprintf(text, sizeof text, "%.*g", ++digits, value);
    while (digits < 17 && strtod(text, NULL) != value);
    return digits;
}

char *gw_gpt_file_make_config(const gw_gpt *gpt, const gw_gpt_about *about, gw_err *err) {
    json_t *config = make_config(gpt, about->dropout, about->kind), *origin = json_object();
    uint32_t end = GPT2_END_OF_TEXT;
    bool ends = gpt->vocabulary == GPT2_VOCABULARY; /* other vocabularies have no token known to end a text */
    if (about->end != NULL) {
        end = *about->end;
        ends = true;
    }
    json_object_set_new(config, "bos_token_id", ends ? json_integer(end) : json_null());
    json_object_set_new(config, "eos_token_id", ends ? json_integer(end) : json_null());
    /* the name that GPT-2's own configuration has for n_positions, which converters to GGUF read */
    json_object_set_new(config, "n_ctx", json_integer(gpt->context));
    for (uint32_t i = 0; i < about->note_count; i++)
        json_object_set_new(origin, about->notes[i].name, json_string(about->notes[i].text));
    json_object_set_new(config, origin_name, origin);
    const size_t digits = (size_t)digits_of(about->dropout);
    char *json = json_dumps(config, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits)),
         *text;
    json_decref(config);
    bool made = json != NULL && asprintf(&text, "%s\n", json) >= 0;
    free(json);
    if (made) return text;
    gw_fail(err, GW_E_NOMEM, "no memory for " GW_GPT_CONFIG);
    return NULL;
}

enum { CONFIG_MOST = 1 << 20 };

/* Reads a config.json, which the caller releases. Returns NULL also where there is none; *err is then
 * GW_E_NOTFOUND. */
static json_t *read_config(const char *path, gw_err *err) {
    gw_plain_file file;
    if (!gw_plain_open(path, &file, err)) return NULL;
    bool small = file.bytes <= CONFIG_MOST;
    char *text = small ? malloc(file.bytes) : NULL;
    json_error_t why;
    json_t *config = NULL;
    if (!small) {
        gw_fail(err, GW_E_LIMIT, "%s: %llu bytes are too many", path, (unsigned long long)file.bytes);
    } else if (text == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for %s", path);
    } else if (gw_plain_read(&file, 0, text, file.bytes, err)) {
        config = json_loadb(text, file.bytes, 0, &why);
        if (config == NULL) gw_fail(err, GW_E_INVALID, "%s is no JSON: %.100s", path, why.text);
    }
    free(text);
    gw_plain_close(&file);
    return config;
}

/* Whether the value is a name of GELU in its tanh form. */
static bool is_tanh_gelu(const json_t *value) {
    static const char *const names[] = {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"};
    const char *name = json_string_value(value);
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Checks a value that no tensor's shape depends on: where it is stated, it must be this model's. */
static bool check_value(const json_t *config, const json_t *own, const char *name, gw_err *err) {
    const json_t *value = json_object_get(config, name), *ours = json_object_get(own, name);
    if (value == NULL || json_equal(value, ours) || (is_tanh_gelu(value) && is_tanh_gelu(ours))) return true;
    const size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(12);
    char *stated = json_dumps(value, flags), *expected = json_dumps(ours, flags);
    GW_ASSERT_MEMORY(stated != NULL && expected != NULL);
    gw_fail(err, strcmp(name, heads) == 0 ? GW_E_USAGE : GW_E_UNSUPPORTED,
            "%s beside it says %s %.40s, and this model's is %s", GW_GPT_CONFIG, name, stated, expected);
    free(stated);
    free(expected);
    return false;
}

/* Reads the config.json of the model at `init`, which the caller releases; *config is NULL where there is
 * none. */
static bool open_config(const char *init, json_t **config, gw_err *err) {
    char *path = config_of(init, err);
    *config = path != NULL ? read_config(path, err) : NULL;
    bool read = *config != NULL || (path != NULL && err->code == GW_E_NOTFOUND);
    free(path);
    return read;
}

/* Checks that a configuration is that of a GPT-2, if it names any architecture. */
static bool check_architecture(const json_t *config, gw_err *err) {
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    if (type != NULL ? strcmp(type, "gpt2") == 0 : class == NULL || strncmp(class, "GPT2", 4) == 0)
        return true;
    return gw_fail(err, GW_E_UNSUPPORTED,
                   "its " GW_GPT_CONFIG " says that it is a %.60s%s%.60s%s: only GPT-2's architecture "
                   "(model_type gpt2) can be trained here",
                   type != NULL ? type : class, type != NULL && class != NULL ? " (" : "",
                   type != NULL && class != NULL ? class : "", type != NULL && class != NULL ? ")" : "");
}

/* Reads a count from a configuration; *value is left alone where the configuration has none. */
static bool read_count(const json_t *config, const char *name, uint32_t *value, gw_err *err) {
    const json_t *stated = json_object_get(config, name);
    json_int_t count = json_integer_value(stated);
    if (stated == NULL || json_is_null(stated)) return true;
    if (!json_is_integer(stated) || count < 1 || count > INT32_MAX)
        return gw_fail(err, GW_E_INVALID, "its " GW_GPT_CONFIG " says no number from 1 to %d at %s",
                       INT32_MAX, name);
    *value = (uint32_t)count;
    return true;
}

bool gw_gpt_file_shape(const char *init, gw_gpt *shape, gw_err *err) {
    json_t *config;
    *shape = (gw_gpt){0};
    bool good = open_config(init, &config, err) && check_architecture(config, err) &&
                read_count(config, "n_layer", &shape->layers, err) &&
                read_count(config, heads, &shape->heads, err) &&
                read_count(config, "n_embd", &shape->channels, err) &&
                read_count(config, "n_positions", &shape->context, err) &&
                read_count(config, "vocab_size", &shape->vocabulary, err);
    json_decref(config);
    return good;
}

uint32_t gw_gpt_file_heads(const char *weights) {
    gw_gpt shape;
    gw_err ignored;
    return gw_gpt_file_shape(weights, &shape, &ignored) ? shape.heads : 0;
}

bool gw_gpt_file_check_config(const gw_gpt *gpt, const char *weights, gw_err *err) {
    static const char *const names[] = {heads,
                                        "n_layer",
                                        "activation_function",
                                        "layer_norm_epsilon",
                                        "tie_word_embeddings",
                                        "scale_attn_weights",
                                        "scale_attn_by_inverse_layer_idx",
                                        "add_cross_attention"};
    json_t *config, *own = make_config(gpt, 0.0, GW_REAL_F32);
    json_object_set_new(own, "scale_attn_weights", json_true());
    json_object_set_new(own, "scale_attn_by_inverse_layer_idx", json_false());
    json_object_set_new(own, "add_cross_attention", json_false());
    bool good = open_config(weights, &config, err) && check_architecture(config, err);
    for (size_t i = 0; good && i < sizeof names / sizeof names[0]; i++)
        good = check_value(config, own, names[i], err);
    json_decref(own);
    json_decref(config);
    return good;
}

/* Whether the object has the keys of a configuration that this program writes, in their order. Builds
 * before the origin was noted wrote no further ones. */
static bool has_own_keys(const json_t *config) {
    const gw_gpt any = {.layers = 1, .heads = 1, .channels = 1, .context = 1, .vocabulary = 1};
    json_t *own = make_config(&any, 0.0, GW_REAL_F32);
    void *theirs = json_object_iter((json_t *)(uintptr_t)config), *ours = json_object_iter(own);
    bool same = true;
    for (; same && ours != NULL; ours = json_object_iter_next(own, ours)) {
        same = theirs != NULL && strcmp(json_object_iter_key(theirs), json_object_iter_key(ours)) == 0;
        if (same) theirs = json_object_iter_next((json_t *)(uintptr_t)config, theirs);
    }
    size_t keys = json_object_size(own) + 2; /* two more are the tokens that begin and end a text */
    json_decref(own);
    return same && json_object_size(config) == keys;
}

bool gw_gpt_file_is_own_config(const char *path) {
    gw_err ignored;
    json_t *config = read_config(path, &ignored);
    bool own = json_is_object(json_object_get(config, origin_name)) || has_own_keys(config);
    json_decref(config);
    return own;
}
