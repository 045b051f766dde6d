#include "tools/godwit/weights/model.h"

#include "checkpoint/catalog.h"
#include "checkpoint/store.h"
#include "scratch.h"
#include "tests/tools/weights/manifest_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 16 };

static const gw_gpt shape = {.layers = 1, .heads = 1, .channels = 8, .context = 8, .vocabulary = 256};
static const gw_param params[] = {
    {"channels", "8"}, {"context", "8"}, {"heads", "1"}, {"layers", "1"}, {"model", "nano"}};

/* Saves a checkpoint in which every number is its step. */
static void save(uint64_t step) {
    gw_tensor tensors[PARAMETERS] = {0};
    gw_gpt_parameter parameters[PARAMETERS];
    cr_assert_eq(gw_gpt_parameters(&shape), PARAMETERS);
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        parameters[i] = gw_gpt_parameter_of(&shape, i);
        tensors[i] = (gw_tensor){.name = parameters[i].name,
                                 .dtype = GW_F32,
                                 .role = GW_STATE,
                                 .rank = parameters[i].rank,
                                 .dim = {parameters[i].dim[0], parameters[i].dim[1]}};
    }
    uint32_t bytes = (uint32_t)(gw_gpt_size(&shape) * sizeof(float));
    float *state = malloc(bytes);
    cr_assert(state != NULL && bytes <= GW_CHUNK_BYTES);
    for (uint32_t i = 0; i < bytes / sizeof(float); i++) state[i] = (float)step;
    rig_save_state((gw_manifest){.job_name = "gpt",
                                 .job_id = {{7}},
                                 .step = step,
                                 .params = params,
                                 .param_count = sizeof params / sizeof params[0],
                                 .tensors = tensors,
                                 .tensor_count = PARAMETERS},
                   state);
    free(state);
}

/* Deletes all checkpoints of the job except these two steps, as a run's retention does. */
static void keep(uint64_t one, uint64_t other) {
    const gw_hash job = {{7}};
    gw_catalog catalog;
    gw_hash kept[2], *needed;
    size_t needed_count;
    uint32_t kept_count = 0;
    bool complete;
    gw_store *store;
    gw_store_swept swept;
    gw_err err, why;
    cr_assert(gw_catalog_load(gw_io_system(), scratch_folder(), &catalog, &err), "%s", err.text);
    for (uint32_t i = 0; i < catalog.good_count; i++)
        if (catalog.good[i].step == one || catalog.good[i].step == other)
            kept[kept_count++] = catalog.good[i].root;
    gw_catalog_free(&catalog);
    cr_assert(gw_catalog_retain(gw_io_system(), scratch_folder(), &job, kept, kept_count, &needed,
                                &needed_count, &complete, &why, &err),
              "%s", err.text);
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
    cr_assert(gw_store_sweep(store, needed, needed_count, &swept, &err), "%s", err.text);
    gw_store_close(store);
    free(needed);
}

/* The run goes on by two checkpoints each time one of its chunks is about to be read. */
static uint64_t newest;
static uint32_t advances;

bool __real_gw_store_read(gw_store *store, const gw_hash *name, void *bytes, uint32_t length, gw_err *err);
bool __wrap_gw_store_read(gw_store *store, const gw_hash *name, void *bytes, uint32_t length, gw_err *err);
bool __wrap_gw_store_read(gw_store *store, const gw_hash *name, void *bytes, uint32_t length, gw_err *err) {
    if (advances > 0) {
        advances--;
        save(newest + 10);
        save(newest + 20);
        newest += 20;
        keep(newest - 10, newest);
    }
    return __real_gw_store_read(store, name, bytes, length, err);
}

static void enter(void) {
    scratch_open();
    save(10);
    save(20);
    newest = 20;
}

TestSuite(model, .init = enter, .fini = scratch_close);

static bool read_model(uint64_t step, const char *program, gw_model *model, gw_err *err) {
    char *dirs[] = {strdup(scratch_folder())};
    const gw_checkpoint_choice choice = {.step = step};
    bool done = gw_model_load(dirs, 1, &choice, program, model, err);
    free(dirs[0]);
    return done;
}

Test(model, of_a_run_that_goes_on_is_the_newest_that_is_left) {
    gw_model model;
    gw_err err;
    advances = 2;
    cr_assert(read_model(GW_CHECKPOINT_NEWEST, "test", &model, &err), "%s", err.text);
    cr_assert(model.step == 60 && model.parameters[PARAMETERS - 1][0] == 60.0f);
    gw_model_free(&model);
}

Test(model, that_was_deleted_is_not_blamed_on_peers_that_are_missing) {
    gw_model model;
    gw_err err;
    advances = 1;
    cr_assert_not(read_model(20, "test", &model, &err));
    cr_assert(err.code == GW_E_USAGE &&
                  strstr(err.text, "no checkpoint of step 20; there are those of the steps 40, 30") != NULL,
              "%s", err.text);
    advances = UINT32_MAX;
    cr_assert_not(read_model(GW_CHECKPOINT_NEWEST, "test", &model, &err));
    cr_assert(err.code == GW_E_NOTFOUND && strstr(err.text, "was deleted while it was read") != NULL, "%s",
              err.text);
}

/* The others may have read the checkpoint, and another one would not be the same. */
Test(model, of_which_all_must_read_the_same_is_no_other_one) {
    gw_model model;
    gw_err err;
    advances = 1;
    cr_assert_not(read_model(GW_CHECKPOINT_NEWEST, NULL, &model, &err));
    cr_assert(err.code == GW_E_NOTFOUND &&
                  strstr(err.text, "step 20: it was deleted while it was read") != NULL,
              "%s", err.text);
}
