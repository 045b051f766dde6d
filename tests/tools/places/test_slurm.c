/* What a task makes of the variables that Slurm sets. */
#include "tools/godwit/places/slurm.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Variables as "NAME=VALUE"; of several with one name the last one counts. */
typedef struct variables {
    const char *list[40];
    uint32_t count;
} variables;

static const char *find(void *context, const char *name) {
    const variables *v = context;
    for (uint32_t i = v->count; i-- > 0;)
        if (strncmp(v->list[i], name, strlen(name)) == 0 && v->list[i][strlen(name)] == '=')
            return v->list[i] + strlen(name) + 1;
    return NULL;
}

/* What Slurm 22.05 sets for task 3 of `srun -N2 -n4 -c2`. */
static variables of_task_3(void) {
    return (variables){.list = {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=node[1-2]", "SLURM_STEP_ID=0",
                                "SLURM_STEP_NODELIST=node[1-2]", "SLURM_STEP_TASKS_PER_NODE=2(x2)",
                                "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=3", "SLURM_LOCALID=1",
                                "SLURM_NODEID=1", "SLURMD_NODENAME=node2", "SLURM_CPUS_PER_TASK=2",
                                "SLURM_CPUS_ON_NODE=4"},
                       .count = 12};
}

static void expect_seeds(const gw_slurm *slurm, uint32_t most, const char *expected) {
    char *seeds[64], all[3000] = "";
    uint32_t count = gw_slurm_seeds(slurm, gw_slurm_port(slurm->job, NULL), false, seeds, most);
    cr_assert_leq(count, most);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? " " : "", seeds[i]);
        free(seeds[i]);
    }
    cr_expect_str_eq(all, expected);
}

Test(slurm, a_task_knows_its_place_and_the_addresses_of_all) {
    variables v = of_task_3();
    gw_environment environment = {.get = find, .context = &v};
    gw_slurm slurm;
    gw_err err;
    cr_assert(gw_slurm_read(&environment, &slurm, &err), "%s", err.text);
    cr_expect(slurm.job == 1 && slurm.in_step && slurm.task == 3 && slurm.tasks == 4 && slurm.local == 1 &&
              slurm.local_tasks == 2 && slurm.node == 1 && slurm.cores == 2 && slurm.restarts == 0 &&
              slurm.gpu_count == 0);
    cr_expect_str_eq(slurm.name, "node2");
    expect_seeds(&slurm, 64, "node1:20008 node2:20008 node1:20009 node2:20009");
    expect_seeds(&slurm, 3, "node1:20008 node2:20008 node1:20009");
    expect_seeds(&slurm, 1, "node1:20008");
    gw_slurm_free(&slurm);
}

/* A step of one node in a job of three, as a script that starts each peer by an srun of its own has it. */
Test(slurm, the_nodes_of_the_job_count_and_not_those_of_the_step_alone) {
    variables v = {.list = {"SLURM_JOB_ID=2000", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_STEP_ID=2",
                            "SLURM_STEP_NODELIST=n3", "SLURM_STEP_TASKS_PER_NODE=2", "SLURM_STEP_NUM_TASKS=2",
                            "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURMD_NODENAME=n3",
                            "SLURM_CPUS_ON_NODE=7", "SLURM_RESTART_COUNT=4"},
                   .count = 12};
    gw_environment environment = {.get = find, .context = &v};
    gw_slurm slurm;
    gw_err err;
    cr_assert(gw_slurm_read(&environment, &slurm, &err), "%s", err.text);
    cr_expect(slurm.cores == 3 && slurm.restarts == 4 && slurm.tasks == 2 && slurm.local_tasks == 2);
    expect_seeds(&slurm, 64, "n1:23232 n2:23232 n3:23232 n3:23233");
    gw_slurm_free(&slurm);
}

/* Each peer of a large job asks the same ones. */
Test(slurm, of_more_nodes_than_seeds_those_at_equal_distances_are_asked) {
    variables v = {.list = {"SLURM_JOB_ID=1596", "SLURM_JOB_NODELIST=n[000-999]"}, .count = 2};
    gw_environment environment = {.get = find, .context = &v};
    gw_slurm slurm;
    gw_err err;
    cr_assert(gw_slurm_read(&environment, &slurm, &err), "%s", err.text);
    cr_expect(!slurm.in_step && slurm.tasks == 1);
    expect_seeds(&slurm, 4, "n000:20000 n250:20000 n500:20000 n750:20000");
    gw_slurm_free(&slurm);
}

Test(slurm, ports_are_below_those_of_outgoing_connections_and_differ_between_jobs) {
    for (uint64_t job = 0; job < 10000; job++) {
        uint16_t port = gw_slurm_port(job, NULL);
        cr_assert(port >= 20000 && port + GW_SLURM_STRIDE <= 32768);
        cr_assert_eq(port, 20000 + 8 * (job % 1596));
    }
    uint16_t named = gw_slurm_port(7, "b");
    cr_expect(named != gw_slurm_port(7, NULL) && named != gw_slurm_port(7, "c") && named >= 20000 &&
              (named - 20000) % 8 == 0);
}

Test(slurm, what_slurm_never_sets_is_refused_by_its_name) {
    static const char *const wrong[] = {"SLURM_JOB_ID=0",
                                        "SLURM_JOB_ID=x",
                                        "SLURM_JOB_ID=99999999999999999999",
                                        "SLURM_JOB_NODELIST=n[1-",
                                        "SLURM_JOB_NODELIST=n[0-9999]",
                                        "SLURM_PROCID=-1",
                                        "SLURM_LOCALID=65536",
                                        "SLURM_NODEID=1.5",
                                        "SLURM_STEP_NUM_TASKS=0",
                                        "SLURM_STEP_NODELIST=n 1",
                                        "SLURM_STEP_TASKS_PER_NODE=2(x3)",
                                        "SLURM_STEP_TASKS_PER_NODE=2(x2),",
                                        "SLURM_STEP_TASKS_PER_NODE=2(y2)",
                                        "SLURM_STEP_TASKS_PER_NODE=0(x2)",
                                        "SLURM_STEP_TASKS_PER_NODE=2",
                                        "SLURM_STEP_TASKS_PER_NODE=2(x2)3",
                                        "SLURM_STEP_TASKS_PER_NODE=2(x2",
                                        "SLURM_STEP_TASKS_PER_NODE=2(x4294967298)",
                                        "SLURM_CPUS_PER_TASK=0",
                                        "SLURM_CPUS_ON_NODE=many",
                                        "SLURM_RESTART_COUNT=once"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        variables v = of_task_3();
        gw_environment environment = {.get = find, .context = &v};
        gw_slurm slurm;
        gw_err err;
        char name[40];
        v.list[v.count++] = wrong[i];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(wrong[i], "="), wrong[i]);
        cr_assert_not(gw_slurm_read(&environment, &slurm, &err), "%s", wrong[i]);
        cr_expect(err.code == GW_E_USAGE && strstr(err.text, name) != NULL, "%s: %s", wrong[i], err.text);
    }
    variables none = {.count = 0};
    gw_environment environment = {.get = find, .context = &none};
    gw_slurm slurm;
    gw_err err;
    cr_assert_not(gw_slurm_read(&environment, &slurm, &err));
    cr_expect_not_null(strstr(err.text, "no job of Slurm"), "%s", err.text);
}

/* The GPUs of task 3, the second on its node. */
static const char *gpus(const char *a, const char *b) {
    static char text[200];
    variables v = of_task_3();
    gw_environment environment = {.get = find, .context = &v};
    gw_slurm slurm;
    gw_err err;
    v.list[v.count++] = a;
    v.list[v.count++] = b;
    cr_assert(gw_slurm_read(&environment, &slurm, &err), "%s", err.text);
    text[0] = '\0';
    for (uint32_t i = 0; i < slurm.gpu_count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%u ", slurm.gpus[i]);
    gw_slurm_free(&slurm);
    return text;
}

Test(slurm, the_gpus_of_a_node_are_shared_out_unless_slurm_has_done_so) {
    cr_expect_str_eq(gpus("A=", "B="), "");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=NoDevFiles", "B="), "");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=", "B="), "");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=0,1,2,3", "B="), "2 3 ");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=4,5,6", "B="), "1 2 ");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=GPU-8a3b", "B="), "0 ");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=2,3", "SLURM_GPUS_PER_TASK=2"), "0 1 ");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=2,3", "SLURM_TRES_PER_TASK=cpu:2,gres/gpu:2"), "0 1 ");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=2,3", "SLURM_GPU_BIND=none"), "1 ");
    cr_expect_str_eq(gpus("CUDA_VISIBLE_DEVICES=2", "SLURM_GPU_BIND=single:1"), "0 ");
}

Test(slurm, paths_hold_what_tells_tasks_apart) {
    variables v = of_task_3();
    gw_environment environment = {.get = find, .context = &v};
    gw_slurm slurm;
    gw_err err;
    char *path;
    cr_assert(gw_slurm_read(&environment, &slurm, &err), "%s", err.text);
    cr_assert(gw_slurm_path(&slurm, "/s/%j/%N-%n.%t%%", &path, &err), "%s", err.text);
    cr_expect_str_eq(path, "/s/1/node2-1.3%");
    free(path);
    cr_expect_not(gw_slurm_path(&slurm, "/s/%x", &path, &err));
    cr_expect_not_null(strstr(err.text, "'/s/%x'"), "%s", err.text);
    cr_expect_not(gw_slurm_path(&slurm, "/s/%", &path, &err));
    gw_slurm_free(&slurm);
}
