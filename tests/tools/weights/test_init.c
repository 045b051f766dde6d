/* The options that --init adds to those of a job: the shape of the model that it names. */
#include "tools/godwit/weights/init.h"

#include "kernels/data/safetensors.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(init, .init = scratch_open, .fini = scratch_close);

static void write_shape(int layers, int heads, int channels, int context) {
    char text[300];
    int length = snprintf(text, sizeof text,
                          "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_head\": %d, \"n_embd\": %d, "
                          "\"n_positions\": %d, \"vocab_size\": 7}",
                          layers, heads, channels, context);
    scratch_write("config.json", text, (size_t)length);
}

static gw_err err;

/* Returns the options "name=value" behind --init, after the shape was taken, in one text; "!" where that
 * failed. */
static const char *taken(const char *path, const char *const pairs[]) {
    static char text[300];
    gw_params params = {.list = calloc(20, sizeof(gw_param))};
    gw_param *list = (gw_param *)(uintptr_t)params.list;
    list[params.count++] = (gw_param){"init", path};
    for (int i = 0; pairs[i] != NULL; i += 2) list[params.count++] = (gw_param){pairs[i], pairs[i + 1]};
    snprintf(text, sizeof text, "!");
    if (gw_init_take_shape(&params, &err)) {
        text[0] = '\0';
        for (uint32_t i = 1; i < params.count; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%s", i > 1 ? " " : "",
                     params.list[i].name, params.list[i].value);
    }
    free((void *)(uintptr_t)params.list);
    return text;
}

#define TAKEN(...) taken(scratch_folder(), (const char *const[]){__VA_ARGS__, NULL})

Test(init, the_shape_comes_from_the_config) {
    write_shape(2, 4, 64, 32);
    cr_expect_str_eq(TAKEN("model", "nano"), "model=nano layers=2 heads=4 channels=64 context=32");
    cr_expect_str_eq(taken(scratch_path("model.safetensors"), (const char *const[]){"model", "nano", NULL}),
                     "model=nano"); /* there is no such file, which is reported when it is opened */
    /* The config.json beside a file that holds no weights is not that file's. */
    scratch_write("model.safetensors", "x", 1);
    cr_expect_str_eq(taken(scratch_path("model.safetensors"), (const char *const[]){"model", "nano", NULL}),
                     "model=nano");
    static const char tensor[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    char weights[8 + sizeof tensor + 4] = {sizeof tensor - 1};
    memcpy(weights + 8, tensor, sizeof tensor - 1);
    scratch_write("model.safetensors", weights, 8 + sizeof tensor - 1 + 4);
    cr_expect_str_eq(taken(scratch_path("model.safetensors"), (const char *const[]){"model", "nano", NULL}),
                     "model=nano layers=2 heads=4 channels=64 context=32");
    /* a smaller context stays; to what will be refused nothing is added */
    cr_expect_str_eq(TAKEN("model", "nano", "context", "16"),
                     "model=nano context=16 layers=2 heads=4 channels=64");
    cr_expect_str_eq(TAKEN("model", "nano", "context", "16", "heads", "8"), "model=nano context=16 heads=8");
    cr_expect_str_eq(TAKEN("model", "gpt2"), "model=gpt2");
    write_shape(12, 12, 768, 1024);
    cr_expect_str_eq(TAKEN("model", "nano"), "model=gpt2");
    cr_expect_str_eq(TAKEN("model", "nano", "context", "512"),
                     "model=nano context=512 layers=12 heads=12 channels=768");
    write_shape(12, 6, 768, 1024); /* as many parameters as gpt2, but another model */
    cr_expect_str_eq(TAKEN("model", "nano"), "model=nano layers=12 heads=6 channels=768 context=1024");
}

/* The options are part of the job's identity: a command line that worked before is the same job. */
Test(init, nothing_is_added_where_the_options_say_the_same) {
    write_shape(4, 4, 128, 64);
    cr_expect_str_eq(TAKEN("model", "nano"), "model=nano");
    write_shape(2, 4, 64, 64);
    cr_expect_str_eq(TAKEN("model", "nano", "layers", "2", "channels", "64"),
                     "model=nano layers=2 channels=64");
    scratch_write("config.json", "{}", 2);
    cr_expect_str_eq(TAKEN("model", "nano"), "model=nano");
    gw_params none = {0};
    cr_expect(gw_init_take_shape(&none, &err));
}

Test(init, what_is_no_gpt2_is_refused) {
    scratch_write_text("config.json", "{\"model_type\": \"mamba\"}");
    cr_expect_str_eq(TAKEN("model", "nano"), "!");
    cr_expect_not_null(strstr(err.text, "says that it is a mamba"), "%s", err.text);
    cr_expect_not_null(strstr(err.text, "--init: "), "%s", err.text);
}

/* Models may have been exported to the directories of peers. */
Test(init, a_folder_with_checkpoints_is_no_model) {
    gw_model model;
    char list[500];
    write_shape(2, 4, 64, 32);
    const gw_param param = {"init", scratch_folder()};
    const gw_params params = {.list = &param, .count = 1};
    cr_expect(gw_init_load(&params, "/nowhere", &model, &err), "%s", err.text);
    cr_expect_null(model.memory);
    snprintf(list, sizeof list, "%s,%s", scratch_folder(), scratch_folder());
    const gw_param two = {"init", list};
    cr_expect_not(gw_init_load(&(gw_params){.list = &two, .count = 1}, "/nowhere", &model, &err));
    cr_expect(err.code == GW_E_USAGE && strstr(err.text, "holds a model, not checkpoints") != NULL, "%s",
              err.text);
    /* A directory may have a comma in its name, with a checkpoint behind it, too. */
    scratch_make_folder("a,b");
    for (int i = 0; i < 2; i++) {
        snprintf(list, sizeof list, "%s%s", scratch_path("a,b"), i == 0 ? "" : "@5");
        cr_expect_not(gw_init_load(&(gw_params){.list = &two, .count = 1}, "/nowhere", &model, &err));
        cr_expect_not_null(strstr(err.text, "/a,b holds no checkpoint of a gpt job"), "%s", err.text);
    }
    snprintf(list, sizeof list, "%s@5", scratch_folder());
    cr_expect_not(gw_init_load(&(gw_params){.list = &two, .count = 1}, "/nowhere", &model, &err));
    cr_expect_not_null(strstr(err.text, "without @STEP"), "%s", err.text);
    scratch_make_folder("manifests");
    cr_expect_str_eq(TAKEN("model", "nano"), "model=nano");
    cr_expect_not(gw_init_load(&params, "/nowhere", &model, &err));
    cr_expect_not_null(strstr(err.text, "holds no checkpoint of a gpt job"), "%s", err.text);
}
