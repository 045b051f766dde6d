/* The target `slurm`: what a task of Slurm's makes of its environment, which others have written: lists of hosts,
 * numbers, and a path with percent signs. An input has parts that end at zero bytes: the value of each variable of
 * `names`, in their order, and then the path. A part that is empty is a variable that is not set. */
#include "tests/fuzz/target.h"
#include "tools/godwit/places/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"SLURM_JOB_ID",
                                    "SLURM_JOB_NODELIST",
                                    "SLURM_STEP_ID",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_STEP_TASKS_PER_NODE",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_PROCID",
                                    "SLURM_LOCALID",
                                    "SLURM_NODEID",
                                    "SLURMD_NODENAME",
                                    "SLURM_CPUS_PER_TASK",
                                    "SLURM_CPUS_ON_NODE",
                                    "SLURM_RESTART_COUNT",
                                    "CUDA_VISIBLE_DEVICES",
                                    "SLURM_GPU_BIND",
                                    "SLURM_TRES_PER_TASK"};

enum { NAMES = sizeof names / sizeof *names, SEEDS = 64, PART = 4096 };

typedef struct input {
    char values[NAMES + 1][PART];
} input;

static const char *find(void *context, const char *name) {
    const input *in = context;
    for (int i = 0; i < NAMES; i++)
        if (strcmp(names[i], name) == 0) return in->values[i][0] != '\0' ? in->values[i] : NULL;
    return NULL;
}

static void add_example(fuzz_add *add, void *context, const char *const *values) {
    char bytes[4096];
    size_t count = 0;
    for (int i = 0; i <= NAMES; i++) {
        size_t length = strlen(values[i]) + 1;
        memcpy(bytes + count, values[i], length);
        count += length;
    }
    add(context, bytes, count);
}

static void slurm_examples(fuzz_add *add, void *context) {
    static const char *const step[] = {
        "21", "node[1-2]", "0",    "node[1-2]",  "2(x2)",          "4", "3", "1", "1", "node2", "2", "4",
        "1",  "0,1,2,3",   "none", "gres/gpu:2", "/s/%j.%t/%N%n%%"};
    static const char *const batch[] = {"4000000000", "rack[0-3]n[01-20],login[7,9-12]-ib",
                                        "",           "",
                                        "",           "",
                                        "",           "",
                                        "",           "login7-ib",
                                        "",           "64",
                                        "",           "NoDevFiles",
                                        "",           "",
                                        "data"};
    add_example(add, context, step);
    add_example(add, context, batch);
}

/* What holds of any environment that is understood. */
static void check(const gw_slurm *slurm, const char *pattern) {
    char *seeds[SEEDS], *path;
    gw_err err = {.code = GW_OK};
    GW_ASSERT(slurm->job > 0 && slurm->nodes.count >= 1 && slurm->nodes.count <= GW_SLURM_NODES);
    GW_ASSERT(slurm->local < slurm->local_tasks && slurm->gpu_count <= GW_SLURM_GPUS && slurm->name != NULL);
    for (uint32_t i = 0; i < slurm->gpu_count; i++) GW_ASSERT(slurm->gpus[i] < GW_SLURM_GPUS);
    uint32_t count = gw_slurm_seeds(slurm, gw_slurm_port(slurm->job, NULL), false, seeds, SEEDS);
    GW_ASSERT(count >= 1 && count <= SEEDS && (count == SEEDS || count >= slurm->nodes.count));
    while (count-- > 0) free(seeds[count]);
    if (gw_slurm_path(slurm, pattern, &path, &err))
        free(path);
    else
        GW_ASSERT(err.code == GW_E_USAGE && err.text[0] != '\0');
}

static bool take_slurm(const uint8_t *bytes, size_t count) {
    static input in;
    gw_slurm slurm;
    gw_err err = {.code = GW_OK};
    memset(&in, 0, sizeof in);
    size_t at = 0;
    for (int i = 0; i <= NAMES && at < count; i++) {
        size_t end = fuzz_part(bytes, count, at);
        snprintf(in.values[i], PART, "%.*s", (int)(end - at), (const char *)bytes + at);
        at = end + 1;
    }
    const gw_environment environment = {.get = find, .context = &in};
    if (!gw_slurm_read(&environment, &slurm, &err)) {
        GW_ASSERT(err.code != GW_OK && err.text[0] != '\0');
        return false;
    }
    check(&slurm, in.values[NAMES]);
    gw_slurm_free(&slurm);
    return true;
}

const fuzz_target fuzz_slurm = {
    .name = "slurm", .runs = 20000, .bytes_most = PART, .examples = slurm_examples, .take = take_slurm};
