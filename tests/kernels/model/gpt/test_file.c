/* A model is written as safetensors and read by --init. */
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/model/gpt/config.h"
#include "kernels/model/gpt/file.h"
#include "scratch.h"
#include "tests/kernels/trial.h"
#include "tests/weights_file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(gpt_file, .init = scratch_open, .fini = scratch_close);

static const char *text_file(void) {
    const char *path = scratch_path("text");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 500; i++) fputc(32 + i * i % 60, file);
    fclose(file);
    return path;
}

static const gw_gpt shape = {.layers = 2, .heads = 2, .channels = 12, .context = 10, .vocabulary = 256};

static trial *open_type(const gw_job_type *type, const char *init, const char *context) {
    const char *pairs[] = {"data", text_file(), "layers", "2",    "heads", "2", "channels",
                           "12",   "context",   context,  "init", init,    NULL};
    if (init == NULL) pairs[10] = NULL;
    trial *t = trial_open(type, pairs);
    trial_init(t, 7);
    return t;
}

static trial *open_trial(const char *init, const char *context) {
    return open_type(&gw_job_gpt, init, context);
}

static const float *parameter(const trial *t, uint32_t number) {
    return t->state[trial_tensor(t, gw_gpt_parameter_of(&shape, number).name)];
}

static void write_model(const trial *t, const char *path) {
    const float *parameters[GW_GPT_PARAMETERS];
    gw_err err;
    for (uint32_t i = 0; i < gw_gpt_parameters(&shape); i++) parameters[i] = parameter(t, i);
    cr_assert(write_gpt_weights(&shape, parameters, path, &err), "%s", err.text);
}

Test(gpt_file, init_begins_with_what_was_exported) {
    trial *first = open_trial(NULL, "10");
    trial_sum(first, 0, TRIAL_FORWARD);
    trial_apply(first, 0, UINT64_MAX);
    write_model(first, scratch_path("model.safetensors"));
    trial *second = open_trial(scratch_path("model.safetensors"), "10"),
          *shorter = open_trial(scratch_path("model.safetensors"), "4");
    for (uint32_t i = 0; i < gw_gpt_parameters(&shape); i++) {
        gw_gpt_parameter p = gw_gpt_parameter_of(&shape, i);
        size_t bytes = p.dim[0] * (p.rank == 2 ? p.dim[1] : 1) * sizeof(float);
        cr_assert_arr_eq(parameter(first, i), parameter(second, i), bytes, "%s", p.name);
        /* the file's first positions */
        if (strcmp(p.name, "wpe.weight") == 0) bytes = 4 * 12 * sizeof(float);
        cr_assert_arr_eq(parameter(first, i), parameter(shorter, i), bytes, "%s", p.name);
    }
    /* other weights make another job */
    cr_assert_not(gw_hash_equal(&first->plan.data_digest, &second->plan.data_digest));
    trial_close(first);
    trial_close(second);
    trial_close(shorter);
}

static const gw_gpt_weights *in_memory;

static bool open_in_memory(const gw_params *params, void **job, gw_err *err) {
    return gw_gpt_job_open(params, in_memory, job, err);
}

/* Peers that get the weights in different ways have the same job, and so form one flock. */
Test(gpt_file, weights_in_memory_begin_as_their_file_does) {
    const char *model = scratch_path("model.safetensors");
    trial *first = open_trial(NULL, "10");
    write_model(first, model);
    trial *by_file = open_trial(model, "10");
    const float *parameters[GW_GPT_PARAMETERS];
    for (uint32_t i = 0; i < gw_gpt_parameters(&shape); i++) parameters[i] = parameter(first, i);
    const gw_gpt_weights weights = {shape, parameters};
    gw_job_type type = gw_job_gpt;
    type.open = open_in_memory;
    in_memory = &weights;
    trial *by_memory = open_type(&type, "a directory", "10");
    for (uint32_t i = 0; i < gw_gpt_parameters(&shape); i++) {
        gw_gpt_parameter p = gw_gpt_parameter_of(&shape, i);
        size_t bytes = p.dim[0] * (p.rank == 2 ? p.dim[1] : 1) * sizeof(float);
        cr_assert_arr_eq(parameter(by_file, i), parameter(by_memory, i), bytes, "%s", p.name);
    }
    cr_assert(gw_hash_equal(&by_file->plan.data_digest, &by_memory->plan.data_digest));
    trial_close(by_memory);
    trial_close(by_file);
    trial_close(first);
}

static void refuse_type(const gw_job_type *type, const char *words, const char *const *pairs) {
    gw_err err;
    cr_assert_not(trial_opens(type, pairs, &err), "%s", words);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
}

static void refuse_init(const char *words, const char *const *pairs) {
    refuse_type(&gw_job_gpt, words, pairs);
}

Test(gpt_file, init_of_another_shape_is_refused_with_the_reason) {
    trial *t = open_trial(NULL, "10");
    const char *model = scratch_path("model.safetensors"), *text = text_file();
    write_model(t, model);
    trial_close(t);
#define WITH(...) ((const char *const[]){"data", text, "init", model, "heads", "2", __VA_ARGS__, NULL})
    refuse_init("tensor 'transformer.wte.weight' is 256x12, and this model's is 256x8; its weights are of "
                "--layers 2 --channels 12 --context 10",
                WITH("channels", "8"));
    refuse_init("tensor 'transformer.wpe.weight' is 10x12, and this model's is 11x12",
                WITH("channels", "12", "context", "11"));
    refuse_init("has no tensor 'h.2.ln_1.weight'; its weights are of --layers 2 ",
                WITH("channels", "12", "context", "10", "layers", "3"));
    refuse_init("--init: there is no file /nowhere",
                ((const char *const[]){"data", text, "init", "/nowhere", NULL}));
    refuse_init("is 256x12, and this model's is 20x12",
                WITH("channels", "12", "context", "10", "vocab", "20"));
    cr_expect_str_eq(gw_gpt_model_of(12, 768, 1024), "gpt2");
    cr_expect_null(gw_gpt_model_of(2, 12, 10));
}

static void write_config(const gw_gpt *gpt) {
    gw_err err;
    cr_assert(write_gpt_config(gpt, 0.1, scratch_path("config.json"), &err), "%s", err.text);
}

/* The shape of no tensor shows these values. */
Test(gpt_file, init_of_a_model_that_computes_otherwise_is_refused) {
    trial *t = open_trial(NULL, "10");
    char model[200], text[200]; /* the next scratch_path overwrites the name */
    snprintf(model, sizeof model, "%s", scratch_path("model.safetensors"));
    snprintf(text, sizeof text, "%s", text_file());
    write_model(t, model);
    trial_close(t);
    const char *const *pairs = WITH("channels", "12", "context", "10", "layers", "2");
    gw_err err;
    gw_gpt other = shape;
    other.heads = 4;
    write_config(&other);
    refuse_init("config.json beside it says n_head 4, and this model's is 2", pairs);
    static const struct {
        const char *config, *words; /* NULL: it is accepted */
    } cases[] = {
        {"{\"activation_function\":\"relu\"}",
         "activation_function \"relu\", and this model's is \"gelu_new\""},
        {"{\"layer_norm_epsilon\":1e-6}", "layer_norm_epsilon 1e-6"},
        {"{\"scale_attn_by_inverse_layer_idx\":true}", "scale_attn_by_inverse_layer_idx true"},
        {"{\"tie_word_embeddings\":false}", "tie_word_embeddings false"},
        {"{\"n_head\":2,", "config.json is no JSON"},
        {"{\"n_head\":2,\"activation_function\":\"gelu_pytorch_tanh\",\"layer_norm_epsilon\":1e-05}", NULL},
        {"{\"name\":\"of something else\"}", NULL},
        {"{\"add_cross_attention\":true}", "add_cross_attention true"},
        {"{\"n_layer\":\"many\"}", "config.json says no number from 1 to 2147483647 at n_layer"},
        {"{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"]}",
         "its config.json says that it is a llama (LlamaForCausalLM): only GPT-2's architecture"},
        {"{\"architectures\":[\"BertModel\"]}", "its config.json says that it is a BertModel: only"},
        {"{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2ForSequenceClassification\"]}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scratch_write("config.json", cases[i].config, strlen(cases[i].config));
        if (cases[i].words != NULL)
            refuse_init(cases[i].words, pairs);
        else
            cr_assert(trial_opens(&gw_job_gpt, pairs, &err), "%s", err.text);
    }
    write_config(&shape);
    cr_assert(trial_opens(&gw_job_gpt, pairs, &err), "%s", err.text);
}

/* GPT-2's token of a byte is not the byte's value. */
Test(gpt_file, plain_bytes_are_no_tokens_of_a_larger_vocabulary) {
    static const uint32_t header[256] = {20240520, 1, 100};
    uint8_t shard[sizeof header + 100 * sizeof(uint16_t)] = {0};
    memcpy(shard, header, sizeof header);
    const gw_gpt words = {.layers = 1, .heads = 1, .channels = 2, .context = 3, .vocabulary = 300};
    static const float zeros[600];
    const float *parameters[GW_GPT_PARAMETERS];
    for (uint32_t i = 0; i < gw_gpt_parameters(&words); i++) parameters[i] = zeros;
    const char *model = scratch_path("model.safetensors"), *text = text_file(),
               *tokens = scratch_write("a.bin", shard, sizeof shard);
    gw_err err;
    cr_assert(write_gpt_weights(&words, parameters, model, &err), "%s", err.text);
#define BEGIN(...)                                                                                           \
    ((const char *const[]){"init", model, "layers", "1", "heads", "1", "channels", "2", "context", "3",      \
                           __VA_ARGS__, NULL})
    cr_assert_not(trial_opens(&gw_job_gpt, BEGIN("data", text), &err));
    cr_assert_eq(err.code, GW_E_USAGE);
    cr_assert_not_null(strstr(err.text, "--init: the model has 300 tokens, but --data is plain bytes"), "%s",
                       err.text);
    cr_assert(trial_opens(&gw_job_gpt, BEGIN("data", tokens), &err), "%s", err.text);
    cr_assert(trial_opens(&gw_job_gpt, BEGIN("data", text, "vocab", "300"), &err), "%s", err.text);
}

static const gw_gpt tiny = {.layers = 1, .heads = 1, .channels = 2, .context = 3, .vocabulary = 5};
enum { PLAIN_TENSORS = 64, PLAIN_NAME = 64 };

/* Writes a model's parameters without a prefix, as in the files that OpenAI published. */
typedef struct plain {
    gw_safetensor list[PLAIN_TENSORS];
    char names[PLAIN_TENSORS][PLAIN_NAME];
    uint32_t count;
} plain;

static void plain_open(plain *file, const gw_gpt *gpt) {
    static const float zeros[4096];
    file->count = gw_gpt_parameters(gpt);
    cr_assert_lt(file->count, PLAIN_TENSORS);
    for (uint32_t i = 0; i < file->count; i++) {
        gw_gpt_parameter p = gw_gpt_parameter_of(gpt, i);
        uint64_t elements = p.dim[0] * (p.rank == 2 ? p.dim[1] : 1);
        cr_assert_leq(elements, sizeof zeros / sizeof zeros[0]);
        strcpy(file->names[i], p.name);
        file->list[i] = (gw_safetensor){.name = file->names[i],
                                        .dtype = "F32",
                                        .rank = p.rank,
                                        .dim = {p.dim[0], p.dim[1]},
                                        .bytes = (const uint8_t *)zeros,
                                        .size = elements * sizeof(float)};
    }
}

static void plain_add(plain *file, gw_safetensor tensor) {
    cr_assert_lt(file->count, PLAIN_TENSORS);
    file->list[file->count++] = tensor;
}

static const char *plain_write(const plain *file, const char *name) {
    const char *path = scratch_path(name);
    gw_err err;
    cr_assert(write_weights(path, file->list, file->count, &err), "%s", err.text);
    return path;
}

Test(gpt_file, names_without_prefix_and_other_tensors_do_not_matter) {
    static const uint8_t mask[9];
    plain model;
    plain_open(&model, &tiny);
    plain_add(&model, (gw_safetensor){.name = "h.0.attn.bias",
                                      .dtype = "U8",
                                      .rank = 4,
                                      .dim = {1, 1, 3, 3},
                                      .bytes = mask,
                                      .size = sizeof mask});
    gw_safetensors file;
    gw_err err;
    cr_assert(gw_safetensors_open(plain_write(&model, "plain"), &file, &err), "%s", err.text);
    cr_assert_eq(gw_gpt_file_vocabulary(&file), 5);
    cr_assert_eq(gw_gpt_file_context(&file), 3);
    cr_assert(gw_gpt_file_check(&tiny, &file, 0, &err), "%s", err.text);
    gw_safetensors_close(&file);

    strcpy(model.list[4].dtype, "I16");
    model.list[4].size /= 2;
    cr_assert(gw_safetensors_open(plain_write(&model, "half"), &file, &err), "%s", err.text);
    cr_assert_not(gw_gpt_file_check(&tiny, &file, 0, &err));
    cr_assert_not_null(strstr(err.text, "is I16; F32, F16 and BF16 are what can be read"), "%s", err.text);
    gw_safetensors_close(&file);
}

/* An lm_head.weight with the embedding's bytes: safetensors.torch.save_model keeps one of both names. */
Test(gpt_file, an_embedding_may_be_called_by_its_other_name) {
    plain model;
    plain_open(&model, &tiny);
    strcpy(model.names[0], "lm_head.weight");
    gw_safetensors file;
    gw_err err;
    cr_assert(gw_safetensors_open(plain_write(&model, "head"), &file, &err), "%s", err.text);
    cr_assert(gw_gpt_file_check(&tiny, &file, 0, &err), "%s", err.text);
    cr_expect_eq(gw_gpt_file_vocabulary(&file), 5);
    gw_safetensors_close(&file);
}

Test(gpt_file, tensors_that_are_not_read_are_named) {
    static const uint8_t byte[1];
    static const char *const others[] = {"score.weight", "h.0.attn.bias", "transformer.h.0.attn.masked_bias",
                                         "h.0.crossattention.c_attn.weight"};
    char text[100];
    plain model;
    gw_safetensors file;
    gw_err err;
    plain_open(&model, &tiny);
    for (int i = 0; i < 4; i++)
        plain_add(&model, (gw_safetensor){.name = others[i], .dtype = "U8", .bytes = byte, .size = 1});
    cr_assert(gw_safetensors_open(plain_write(&model, "more"), &file, &err), "%s", err.text);
    cr_expect_eq(gw_gpt_file_others(&tiny, &file, text, sizeof text), 2);
    cr_expect_str_eq(text, "h.0.crossattention.c_attn.weight, score.weight");
    cr_expect_eq(gw_gpt_file_others(&tiny, &file, text, 45), 2);
    cr_expect_str_eq(text, "h.0.crossattention.c_attn.weight, ...");
    gw_safetensors_close(&file);
}

/* The first layers alone are another model, although their shapes fit this one. */
Test(gpt_file, init_of_a_model_of_more_layers_is_refused) {
    static const char words[] =
        "has 2 layers, and this model 1; its weights are of --layers 2 --channels 12 ";
    char model[200], text[200]; /* the next scratch_path overwrites the name */
    snprintf(model, sizeof model, "%s", scratch_path("model.safetensors"));
    snprintf(text, sizeof text, "%s", text_file());
    const char *const *first = WITH("channels", "12", "context", "10", "layers", "1");
    const char *const *all = WITH("channels", "12", "context", "10", "layers", "2");
    trial *t = open_trial(NULL, "10");
    write_model(t, model);
    refuse_init(words, first);
    refuse_init("--context 10 with the --heads it was made with", first);
    write_config(&shape);
    refuse_init(words, first);
    refuse_init("--context 10 --heads 2", first);
    const float *parameters[GW_GPT_PARAMETERS];
    for (uint32_t i = 0; i < gw_gpt_parameters(&shape); i++) parameters[i] = parameter(t, i);
    const gw_gpt_weights weights = {shape, parameters};
    gw_job_type checkpoint = gw_job_gpt;
    checkpoint.open = open_in_memory;
    in_memory = &weights;
    refuse_type(&checkpoint, words, first);
    refuse_type(&checkpoint, "--context 10 --heads 2", first);
    trial_close(t);

    gw_gpt deeper = shape;
    gw_err err;
    plain other;
    plain_open(&other, &shape);
    plain_write(&other, "model.safetensors");
    refuse_init(words, first);
    cr_assert(trial_opens(&gw_job_gpt, all, &err), "%s", err.text);
    deeper.layers = 3;
    write_config(&deeper);
    refuse_init("config.json beside it says n_layer 3, and this model's is 2", all);
    plain_add(&other, (gw_safetensor){.name = "h.80.ln_1.bias",
                                      .dtype = "F32",
                                      .rank = 1,
                                      .dim = {12},
                                      .bytes = other.list[0].bytes,
                                      .size = 12 * sizeof(float)});
    plain_write(&other, "model.safetensors");
    refuse_init("has 81 layers; 80 are the most that a model may have", all);
}

/* No config.json is needed, whatever one might contain. */
Test(gpt_file, init_of_a_model_with_a_head_of_its_own_is_refused) {
    static const float words[3072] = {1.0f}, zeros[3072];
    float head[3072] = {[0] = 1.0f, [3071] = 1.0f};
    char model[200], text[200];
    gw_err err;
    plain file;
    plain_open(&file, &shape);
    file.list[0].bytes = (const uint8_t *)words;
    gw_safetensor *added = &file.list[file.count], tensor = {.name = "lm_head.weight",
                                                             .dtype = "F32",
                                                             .rank = 2,
                                                             .dim = {256, 12},
                                                             .bytes = (const uint8_t *)head,
                                                             .size = sizeof head};
    plain_add(&file, tensor);
    tensor.name = "more"; /* where the head is too short, zeros follow, as in the embedding */
    tensor.bytes = (const uint8_t *)zeros;
    plain_add(&file, tensor);
    snprintf(model, sizeof model, "%s", plain_write(&file, "model.safetensors"));
    snprintf(text, sizeof text, "%s", text_file());
    const char *const *pairs = WITH("channels", "12", "context", "10", "layers", "2");
    static const char refusal[] = "tensor 'lm_head.weight' differs from 'wte.weight'";
    refuse_init(refusal, pairs);
    head[3071] = 0.0f;
    plain_write(&file, "model.safetensors");
    cr_assert(trial_opens(&gw_job_gpt, pairs, &err), "%s", err.text);
    strcpy(added->dtype, "I32"); /* other values with the same bytes */
    plain_write(&file, "model.safetensors");
    refuse_init(refusal, pairs);
    strcpy(added->dtype, "F32");
    added->dim[0] = 200;
    added->size = 200 * 12 * sizeof(float);
    plain_write(&file, "model.safetensors");
    refuse_init(refusal, pairs);
}

/* The context of a preset counts as not given by the user. */
Test(gpt_file, positions_are_cut_off_for_who_asks_for_that) {
    const gw_gpt longer = {.layers = 1, .heads = 1, .channels = 2, .context = 65, .vocabulary = 256};
    char model[200], text[200];
    gw_err err;
    plain file;
    plain_open(&file, &longer);
    snprintf(model, sizeof model, "%s", plain_write(&file, "model.safetensors"));
    snprintf(text, sizeof text, "%s", text_file());
#define LONGER(...)                                                                                          \
    ((const char *const[]){"data", text, "init", model, "layers", "1", "heads", "1", "channels", "2",        \
                           __VA_ARGS__, NULL})
    refuse_init(
        "its model has a context of 65, and this job 64: give --context 65, or --context 64 to take its "
        "first positions only",
        LONGER("model", "nano"));
    static const char *const given[] = {"64", "65"};
    for (int i = 0; i < 2; i++)
        cr_assert(trial_opens(&gw_job_gpt, LONGER("context", given[i]), &err), "%s", err.text);
}

/* Writes a tiny model, with one tensor as given and zeros for the others. */
static void read_halves(const char *dtype, const uint16_t *bits, float *values, uint32_t count) {
    plain model;
    gw_safetensors file;
    gw_err err;
    plain_open(&model, &tiny);
    strcpy(model.list[0].dtype, dtype); /* wte.weight: 5 x 2 */
    model.list[0].bytes = (const uint8_t *)bits;
    model.list[0].size = 20;
    cr_assert(gw_safetensors_open(plain_write(&model, "half"), &file, &err), "%s", err.text);
    cr_assert(gw_gpt_file_check(&tiny, &file, 0, &err), "%s", err.text);
    cr_assert(gw_gpt_file_read(&tiny, &file, 0, 10 - count, count, values, &err), "%s", err.text);
    gw_safetensors_close(&file);
}

Test(gpt_file, halves_are_read_as_floats) {
    float values[10];
    const uint16_t half[] = {0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff, 0x0400, 0x3555, 0x7c00};
    const float halves[] = {0.0f,     -0.0f,        1.0f,     -2.0f,       65504.0f,
                            0x1p-24f, 0x3ff.0p-24f, 0x1p-14f, 0x1.554p-2f, __builtin_inff()};
    read_halves("F16", half, values, 10);
    cr_assert_arr_eq(values, halves, sizeof halves);
    const uint16_t brain[] = {0x0000, 0x8000, 0x3f80, 0xc000, 0x7f7f, 0x0001, 0x4049, 0x0080, 0x3eab, 0xff80};
    read_halves("BF16", brain, values, 3);
    const float last[] = {0x1p-126f, 0x1.56p-2f, -__builtin_inff()};
    cr_assert_arr_eq(values, last, sizeof last);
    read_halves("BF16", brain, values, 10);
    cr_assert(values[2] == 1.0f && values[3] == -2.0f && values[6] == 3.140625f && values[5] == 0x1p-133f);
}

/* First weights may be read long after the file was opened, when a flock begins. */
Test(gpt_file, weights_of_a_file_that_was_written_to_are_not_taken) {
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};
    const char *path = scratch_path("model.safetensors");
    float values[12];
    gw_safetensors file;
    gw_err err;
    trial *t = open_trial(NULL, "10");
    write_model(t, path);
    cr_assert(gw_safetensors_open(path, &file, &err), "%s", err.text);
    cr_assert(gw_gpt_file_read(&shape, &file, 0, 0, 12, values, &err), "%s", err.text);
    cr_assert_arr_eq(values, parameter(t, 0), sizeof values);
    trial_close(t);
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    cr_assert_not(gw_gpt_file_read(&shape, &file, 0, 0, 12, values, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert_not_null(strstr(err.text, "model.safetensors was written to"), "%s", err.text);
    cr_assert_eq(truncate(path, 0), 0);
    cr_assert_not(gw_gpt_file_read(&shape, &file, 0, 0, 12, values, &err));
    gw_safetensors_close(&file);
}

/* A folder gives the config.json of a file in it. */
Test(gpt_file, the_shape_is_what_the_config_says) {
    gw_gpt read;
    gw_err err;
    write_config(&shape);
    cr_assert(gw_gpt_file_shape(scratch_folder(), &read, &err), "%s", err.text);
    cr_expect_eq(memcmp(&read, &shape, sizeof read), 0);
    cr_assert(gw_gpt_file_shape(scratch_path("any"), &read, &err), "%s", err.text);
    cr_expect_eq(memcmp(&read, &shape, sizeof read), 0);
    scratch_write_text("config.json", "{\"n_layer\": 3, \"n_head\": null}");
    cr_assert(gw_gpt_file_shape(scratch_folder(), &read, &err), "%s", err.text);
    cr_expect(read.layers == 3 && read.heads == 0 && read.channels == 0 && read.vocabulary == 0);
    cr_assert_eq(unlink(scratch_path("config.json")), 0);
    cr_assert(gw_gpt_file_shape(scratch_folder(), &read, &err), "%s", err.text);
    cr_expect_eq(read.layers, 0);
}

Test(gpt_file, config_says_what_the_model_is) {
    write_config(&shape);
    json_t *config = json_load_file(scratch_path("config.json"), 0, NULL);
    cr_assert_not_null(config);
    cr_assert_str_eq(json_string_value(json_object_get(config, "model_type")), "gpt2");
    cr_assert_eq(json_integer_value(json_object_get(config, "n_layer")), 2);
    cr_assert_eq(json_integer_value(json_object_get(config, "n_positions")), 10);
    cr_assert_eq(json_integer_value(json_object_get(config, "vocab_size")), 256);
    cr_assert_float_eq(json_real_value(json_object_get(config, "resid_pdrop")), 0.1, 1e-12);
    cr_assert(json_is_null(json_object_get(config, "eos_token_id")));
    json_decref(config);
}
