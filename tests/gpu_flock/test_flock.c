/* Flocks of real peers whose devices are "GPUs": the program with the stand-in for CUDA (tests/gpu_fake) and
 * an NCCL that adds between processes (nccl/fake_nccl.c). Everything above these is what runs on a GPU:
 * rendezvous over control links, sums from device to device, aborts, new communicators. */
#include "core/base/id.h"
#include "scratch.h"
#include "tests/cluster/lab.h"

#include "tools/godwit/show/control.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZES  " --samples 2400 --batch 240 --micro-batch 20 --hidden 32"
#define DIGITS "digits --epochs 2" SIZES " --device cuda"
#define LONGER "digits --epochs 4" SIZES " --device cuda"

enum {
    HANG_MS = 60000, /* only ends a test that hangs */
    ECC = 214,       /* cudaErrorECCUncorrectable */
};

static char folder[LAB_PATH];
static int stalled = -1; /* the pipe in which sums that stall are told */

static const char *file(const char *name) {
    static char path[LAB_PATH + 20];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name) {
    int fd = open(file(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void take(const char *name) {
    cr_assert_eq(unlink(file(name)), 0);
}

/* A lab whose peers find the stand-ins. */
static lab *open_lab(void) {
    char libraries[LAB_PATH];
    lab *l = lab_open();
    snprintf(folder, sizeof folder, "%s/nccl", l->dir);
    cr_assert_eq(mkdir(folder, 0700), 0);
    cr_assert_eq(mkfifo(file("stalled"), 0600), 0);
    stalled = open(file("stalled"), O_RDWR | O_CLOEXEC);
    cr_assert_geq(stalled, 0);
    snprintf(libraries, sizeof libraries, "%s", GODWIT_FAKE_NCCL);
    *strrchr(libraries, '/') = '\0';
    setenv("FAKE_NCCL", folder, 1);
    setenv("FAKE_CUDA", folder, 1);
    setenv("GODWIT_NCCL", GODWIT_FAKE_NCCL, 1);
    setenv("LD_LIBRARY_PATH", libraries, 1);
    return l;
}

static void close_lab(lab *l) {
    close(stalled);
    lab_close(l);
}

/* How many lines of NCCL's log begin with this. */
static unsigned logged(const char *line) {
    char text[200];
    unsigned count = 0;
    FILE *log = fopen(file("log"), "r");
    while (log != NULL && fgets(text, sizeof text, log) != NULL)
        count += strncmp(text, line, strlen(line)) == 0;
    if (log != NULL) fclose(log);
    return count;
}

/* Sums that begin from now on stall; returns when so many ranks have told. */
static void stall(unsigned ranks) {
    char byte;
    put("stall");
    for (unsigned i = 0; i < ranks; i++) {
        struct pollfd told = {.fd = stalled, .events = POLLIN};
        cr_assert_eq(poll(&told, 1, HANG_MS), 1, "%u of %u stall", i, ranks);
        cr_assert_eq(read(stalled, &byte, 1), 1);
    }
}

/* Returns when the peer's status shows so much of a counter. */
static void await_counter(const lab_peer *peer, const char *name, uint64_t least) {
    for (uint64_t shown = 0; shown < least;) {
        gw_err err;
        char *text = gw_control_ask(peer->dir, "status", &err);
        cr_assert_not_null(text, "%s", err.text);
        json_t *status = json_loads(text, 0, NULL);
        shown = lab_number(json_object_get(status, "counters"), name);
        json_decref(status);
        free(text);
    }
}

/* Most tests have the same few jobs. What one peer makes of them is kept in a folder of this run of the suite. */
#define KNOWN "GODWIT_TEST_KNOWN"

ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    scratch_open();
    setenv(KNOWN, scratch_folder(), 1); /* tests are processes that inherit it */
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
    (void)stats;
    scratch_close();
}

/* The state of a peer that runs the job by itself, by its hash. Valid until the next. */
static const char *alone(lab *l, const char *job) {
    static char hash[GW_HASH_TEXT];
    const char *kept = getenv(KNOWN);
    if (kept == NULL) return lab_undisturbed(l, job); /* another runner has no such hooks */
    gw_hash name;
    char path[LAB_PATH], new[LAB_PATH + 16], digits[GW_HASH_TEXT];
    gw_blake2b(job, strlen(job), name.bytes, sizeof name.bytes);
    gw_hex(name.bytes, sizeof name.bytes, digits);
    snprintf(path, sizeof path, "%.200s/%s", kept, digits);
    FILE *known = fopen(path, "r");
    if (known == NULL) {
        snprintf(hash, sizeof hash, "%s", lab_undisturbed(l, job));
        snprintf(new, sizeof new, "%s.%d", path, (int)getpid());
        known = fopen(new, "w");
        cr_assert(known != NULL && fputs(hash, known) >= 0 && fclose(known) == 0 && rename(new, path) == 0,
                  "%s", path);
        return hash;
    }
    cr_assert_not_null(fgets(hash, sizeof hash, known), "%s", path);
    fclose(known);
    return hash;
}

static void expect_same(lab *l, lab_peer **peers, uint32_t count, const char *job) {
    const char *hash = alone(l, job);
    for (uint32_t i = 0; i < count; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash);
}

Test(gpu_flock, three_peers_sum_by_nccl_to_the_bytes_of_one) {
    lab *l = open_lab();
    lab_peer *peers[3];
    lab_flock(l, 3, DIGITS, peers);
    expect_same(l, peers, 3, DIGITS);
    cr_assert_geq(logged("formed 3"), 3);
    cr_assert_geq(logged("sum 3"), 3 * 20);
    close_lab(l);
}

/* The sums of this job are too wide to travel as int32, which the peers find out together. */
Test(gpu_flock, peers_that_measure_their_sums_have_the_bytes_of_one) {
    lab *l = open_lab();
    lab_peer *peers[3];
    setenv("GODWIT_NCCL_NARROW", "1", 1);
    lab_flock(l, 3, DIGITS, peers);
    expect_same(l, peers, 3, DIGITS);
    cr_assert_geq(logged("most 3"), 3 * 20);
    cr_assert_geq(logged("sum 3"), 3 * 20);
    close_lab(l);
}

/* NCCL would take it before what it is told: its calls would wait for peers, also for dead ones. */
Test(gpu_flock, an_environment_that_has_nccl_wait_is_not_used) {
    lab *l = open_lab();
    lab_peer *peers[2];
    setenv("NCCL_COMM_BLOCKING", "1", 1);
    lab_flock(l, 2, DIGITS, peers);
    expect_same(l, peers, 2, DIGITS);
    cr_assert_geq(logged("formed 2"), 2);
    cr_assert_not_null(strstr(peers[0]->stderr_text, "NCCL_COMM_BLOCKING=1 in the environment is not used"),
                       "%s", peers[0]->stderr_text);
    close_lab(l);
}

/* Kills one while all are inside the same sum, which goes on for nobody. */
static void killed_in_a_sum(bool leader) {
    lab *l = open_lab();
    lab_peer *peers[3], *living[2];
    lab_flock(l, 3, DIGITS, peers);
    lab_wait_step(l, peers[0], 3);
    uint32_t leads = lab_leader(peers, 3), victim = leader ? leads : (leads + 1) % 3;
    stall(3);
    lab_kill(l, peers[victim]);
    for (uint32_t i = 0, k = 0; i < 3; i++)
        if (i != victim) living[k++] = peers[i];
    lab_wait_view(l, living[0], 2);
    for (int i = 0; i < 2; i++) await_counter(living[i], "nccl_sums_cut", 1);
    take("stall");
    expect_same(l, living, 2, DIGITS);
    cr_assert_geq(logged("abort 3"), 2);
    cr_assert_geq(logged("formed 2"), 2);
    close_lab(l);
}

Test(gpu_flock, a_follower_killed_inside_a_sum) {
    killed_in_a_sum(false);
}

Test(gpu_flock, the_leader_killed_inside_a_sum) {
    killed_in_a_sum(true);
}

Test(gpu_flock, one_joins_and_all_sum_in_a_new_communicator) {
    lab *l = open_lab();
    lab_peer *peers[3];
    lab_flock(l, 2, LONGER, peers);
    lab_wait_step(l, peers[0], 2);
    stall(2); /* until it is known */
    lab_mark(l, peers[0]);
    peers[2] = lab_start(l, "late", peers[0], LONGER);
    lab_wait_event(l, peers[0], "peer");
    take("stall");
    lab_wait_view(l, peers[0], 3);
    expect_same(l, peers, 3, LONGER);
    cr_assert_geq(logged("formed 3"), 3);
    close_lab(l);
}

Test(gpu_flock, without_nccl_on_one_peer_sums_go_through_host_memory) {
    lab *l = open_lab();
    lab_peer *peers[2];
    peers[0] = lab_start(l, "with", NULL, DIGITS " --peers 2");
    setenv("GODWIT_NCCL", "/nonexistent/libnccl.so.2", 1);
    peers[1] = lab_start(l, "without", peers[0], DIGITS " --peers 2");
    expect_same(l, peers, 2, DIGITS);
    cr_assert_not_null(strstr(peers[1]->stderr_text, "sums go through host memory"), "%s",
                       peers[1]->stderr_text);
    cr_assert_eq(logged("sum"), 0);
    close_lab(l);
}

/* A GPU that computes, with a driver that does not let it sum: as without NCCL. */
Test(gpu_flock, without_the_driver_or_its_streams_sums_go_through_host_memory) {
    static const char *const missing[] = {"driverless", "streamless"};
    for (int i = 0; i < 2; i++) {
        lab *l = open_lab();
        lab_peer *peers[2];
        put(missing[i]);
        lab_flock(l, 2, DIGITS, peers);
        expect_same(l, peers, 2, DIGITS);
        cr_assert_not_null(strstr(peers[1]->stderr_text, "sums go through host memory: "), "%s",
                           peers[1]->stderr_text);
        cr_assert_eq(logged("sum"), 0);
        close_lab(l);
    }
}

Test(gpu_flock, nccl_that_never_works_is_given_up) {
    lab *l = open_lab();
    lab_peer *peers[2];
    put("broken");
    lab_flock(l, 2, DIGITS, peers);
    expect_same(l, peers, 2, DIGITS);
    bool said = false; /* one that gives up is enough */
    for (int i = 0; i < 2; i++) said = said || strstr(peers[i]->stderr_text, "times in a row") != NULL;
    cr_assert(said, "%s\n%s", peers[0]->stderr_text, peers[1]->stderr_text);
    close_lab(l);
}

/* Through host memory it would show between whom bits change; here they do not. */
static void sum_wrong(const char *how) {
    lab *l = open_lab();
    lab_peer *peers[2];
    put(how);
    lab_flock(l, 2, DIGITS, peers);
    expect_same(l, peers, 2, DIGITS);
    bool said = false; /* who sees it first may end the other's */
    for (int i = 0; i < 2; i++)
        said = said || strstr(peers[i]->stderr_text, "a sum by NCCL is wrong") != NULL;
    cr_assert(said, "%s\n%s", peers[0]->stderr_text, peers[1]->stderr_text);
    close_lab(l);
}

Test(gpu_flock, nccl_that_sums_wrong_is_left_alone) {
    sum_wrong("wrong");
}

/* Then it looks as if there were shards that nobody has computed. */
Test(gpu_flock, nccl_that_sums_what_tells_of_coverage_wrong_is_left_alone) {
    sum_wrong("header");
}

/* From now on calls on this GPU of the peer's fail with this status of CUDA's. */

static void break_gpu(const lab_peer *peer, int gpu, int status) {
    char name[40], number[16];
    snprintf(name, sizeof name, "gpu.%d", (int)peer->pid);
    int length = snprintf(number, sizeof number, "%d %d", status, gpu);
    int fd = open(file("new"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, number, (size_t)length), length);
    close(fd);
    char made[LAB_PATH + 20];
    snprintf(made, sizeof made, "%s", file("new"));
    cr_assert_eq(rename(made, file(name)), 0);
}

static void expect_left(lab *l, lab_peer *peer, const char *gpu) {
    cr_assert_eq(lab_end(l, peer), 1);
    cr_assert_not_null(strstr(peer->stderr_text, "memory is damaged"), "%s", peer->stderr_text);
    cr_assert_not_null(strstr(peer->stderr_text, gpu), "%s", peer->stderr_text);
    cr_assert_not_null(strstr(peer->stderr_text, "; this peer leaves"), "%s", peer->stderr_text);
}

/* Whether a GPU's memory fails between two sums or under one: its peer leaves at once, names GPU and cure,
 * and the others finish. */
Test(gpu_flock, a_gpu_that_breaks_down_costs_its_peer_alone) {
    lab *l = open_lab();
    lab_peer *peers[3], *living[1];
    lab_flock(l, 3, LONGER, peers);
    lab_wait_step(l, peers[0], 3);
    stall(3);
    break_gpu(peers[1], 0, ECC);
    take("stall"); /* the sum is there, and the GPU cannot look at it */
    expect_left(l, peers[1], "GPU 0: ");
    lab_wait_view(l, peers[0], 2);
    break_gpu(peers[2], 0, ECC);
    expect_left(l, peers[2], "GPU 0: ");
    living[0] = peers[0];
    expect_same(l, living, 1, LONGER);
    close_lab(l);
}

/* One peer's GPU reports an error when a sum is aborted: that peer leaves and names it, the others go on. */
Test(gpu_flock, a_lost_gpu_costs_its_peer_alone) {
    lab *l = open_lab();
    lab_peer *peers[3], *living[1];
    lab_flock(l, 3, DIGITS, peers);
    lab_wait_step(l, peers[0], 3);
    stall(3);
    lab_signal(peers[1], SIGSTOP); /* hears of nothing until the test wants it to */
    put("lost");
    lab_kill(l, peers[2]);
    lab_wait_event(l, peers[0], "done");
    cr_assert_eq(lab_end(l, peers[0]), 1);
    cr_assert_not_null(strstr(peers[0]->stderr_text, "GPU 0"), "%s", peers[0]->stderr_text);
    cr_assert_not_null(strstr(peers[0]->stderr_text, "ECC"), "%s", peers[0]->stderr_text);
    take("lost");
    take("stall");
    lab_signal(peers[1], SIGCONT);
    living[0] = peers[1];
    expect_same(l, living, 1, DIGITS);
    close_lab(l);
}

#define WATCHED LONGER " --hang-timeout 2s"

/* NCCL does not return from a call: its peer leaves, and does not wait for the thread that is in it. */
Test(gpu_flock, a_gpu_whose_nccl_hangs_costs_its_peer_alone) {
    lab *l = open_lab();
    lab_peer *peers[3], *living[2];
    char name[40];
    lab_flock(l, 3, WATCHED, peers);
    lab_wait_step(l, peers[0], 3);
    snprintf(name, sizeof name, "wedge.%d", (int)peers[1]->pid);
    put(name);
    cr_assert_eq(lab_end(l, peers[1]), 1);
    cr_assert_not_null(strstr(peers[1]->stderr_text, "NCCL does not return from a call"), "%s",
                       peers[1]->stderr_text);
    cr_assert_null(strstr(peers[1]->stderr_text, "closing takes more than"), "%s", peers[1]->stderr_text);
    living[0] = peers[0];
    living[1] = peers[2];
    expect_same(l, living, 2, WATCHED);
    close_lab(l);
}

/* The options of a job that trains a language model on `device`. */
static const char *gpt_job(const char *device) {
    static char job[2][LAB_PATH + 300];
    static unsigned turn;
    char text[700], *to = job[turn++ % 2];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    FILE *data = fopen(file("text"), "w");
    cr_assert_not_null(data);
    cr_assert_eq(fwrite(text, sizeof text, 1, data), 1);
    fclose(data);
    snprintf(
        to, sizeof job[0],
        "gpt --data %s --layers 1 --heads 1 --channels 16 --context 16 --batch-tokens 192 --micro-batch 1 "
        "--updates 10 --clip 0.1 --device %s",
        file("text"), device);
    return to;
}

/* A language model, whose norm of the gradient comes from the GPUs as well. */
Test(gpu_flock, a_language_model_and_a_follower_killed) {
    lab *l = open_lab();
    lab_peer *peers[3], *living[2];
    const char *job = gpt_job("cuda --precision bf16");
    lab_flock(l, 3, job, peers);
    lab_wait_step(l, peers[0], 2);
    uint32_t victim = (lab_leader(peers, 3) + 1) % 3;
    lab_kill(l, peers[victim]);
    for (uint32_t i = 0, k = 0; i < 3; i++)
        if (i != victim) living[k++] = peers[i];
    expect_same(l, living, 2, job);
    cr_assert_geq(logged("formed 2"), 2);
    close_lab(l);
}

static bool names_both_classes(const lab_peer *peer) {
    for (const char *at = peer->stderr_text; at != NULL && (at = strstr(at, "class=")) != NULL; at++) {
        const char *end = strchr(at, '\n'), *cpu = strstr(at, "class=cpu "),
                   *cuda = strstr(at, "class=cuda ");
        if (end != NULL && cpu != NULL && cuda != NULL && cpu < end && cuda < end) return true;
    }
    return false;
}

/* A processor's bits are not a GPU's: an exact job does not let them compute together. */
static void expect_refused(lab *l, const char *on_gpu, const char *on_processor) {
    char jobs[2][LAB_PATH + 320];
    snprintf(jobs[0], sizeof jobs[0], "%s --peers 2", on_gpu);
    snprintf(jobs[1], sizeof jobs[1], "%s --peers 2", on_processor);
    lab_peer *gpu = lab_start(l, "gpu", NULL, jobs[0]), *cpu = lab_start(l, "cpu", gpu, jobs[1]);
    while (!names_both_classes(gpu) && !names_both_classes(cpu)) lab_pump(l);
    cr_assert_null(lab_last(gpu, "step"));
    cr_assert_null(lab_last(cpu, "step"));
}

Test(gpu_flock, digits_on_a_processor_and_a_gpu_is_refused_and_both_are_named) {
    lab *l = open_lab();
    expect_refused(l, DIGITS, "digits --epochs 2" SIZES " --device cpu");
    close_lab(l);
}

Test(gpu_flock, a_language_model_on_a_processor_and_a_gpu_is_refused_and_both_are_named) {
    lab *l = open_lab();
    const char *on_gpu = gpt_job("cuda"), *on_processor = gpt_job("cpu");
    expect_refused(l, on_gpu, on_processor);
    close_lab(l);
}

/* ---- float sums ---- */

#define FLOATS " --reduce fast --quorum majority"

/* How `status` says that sums go, once it knows. */
static char *sums_of(const lab_peer *peer) {
    for (;;) {
        gw_err err;
        char *text = gw_control_ask(peer->dir, "status", &err);
        cr_assert_not_null(text, "%s", err.text);
        json_t *status = json_loads(text, 0, NULL);
        char *sums = strdup(lab_text(status, "sums"));
        json_decref(status);
        free(text);
        if (sums[0] != '\0') return sums;
        free(sums);
    }
}

static void expect_sums(const lab_peer *peer, const char *expected) {
    char *sums = sums_of(peer);
    cr_expect_str_eq(sums, expected);
    free(sums);
}

static double loss_of(const lab_peer *peer) {
    const json_t *summary = json_object_get(lab_last(peer, "done"), "summary");
    return json_number_value(json_object_get(summary, "loss"));
}

/* All end with one state, which has learned what one peer learns by exact sums. */
static void expect_learned(lab *l, lab_peer **peers, uint32_t count, const char *job) {
    char hash[80];
    snprintf(hash, sizeof hash, "%s", lab_state(l, peers[0], "done"));
    for (uint32_t i = 1; i < count; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash);
    lab_peer *alone = lab_launch(l, "undisturbed", NULL, NULL, job);
    lab_state(l, alone, "done");
    cr_assert_gt(loss_of(alone), 0);
    cr_expect_float_eq(loss_of(peers[0]), loss_of(alone), 0.01 * loss_of(alone), "%f, alone %f",
                       loss_of(peers[0]), loss_of(alone));
}

Test(gpu_flock, float_sums_by_nccl_and_one_killed_inside_one) {
    lab *l = open_lab();
    lab_peer *peers[3];
    lab_flock(l, 3, DIGITS FLOATS, peers);
    lab_wait_step(l, peers[0], 3);
    stall(3);
    expect_sums(peers[0], "nccl");
    cr_assert_geq(logged("floats 3"), 3 * 3);
    lab_kill(l, peers[2]);
    lab_wait_view(l, peers[0], 2);
    take("stall");
    expect_learned(l, peers, 2, DIGITS);
    cr_assert_geq(logged("floats 2"), 2);
    close_lab(l);
}

/* Two on GPUs and one on processors, which has arguments of its own. */
static void start_mixed(lab *l, const char *job, const char *on_processors, lab_peer **peers) {
    char text[400];
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        snprintf(text, sizeof text, "%s" FLOATS " --peers 3 --device %s%s", job, i < 2 ? "cuda" : "cpu",
                 i < 2 ? "" : on_processors);
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, text);
    }
}

Test(gpu_flock, processors_and_gpus_learn_together_by_float_sums) {
    lab *l = open_lab();
    lab_peer *peers[3];
    start_mixed(l, "digits --epochs 2" SIZES, "", peers);
    expect_learned(l, peers, 3, DIGITS);
    cr_expect_eq(logged("sum"), 0);
    close_lab(l);
}

/* Shards that a peer has computed in the steps that it has shown. */
static uint64_t computed_by(const lab_peer *peer) {
    const json_t *event;
    size_t at;
    uint64_t count = 0;
    json_array_foreach(peer->events, at, event) {
        if (strcmp(lab_text(event, "event"), "step") == 0) count += lab_number(event, "computed");
    }
    return count;
}

/* Whether the last of three peers has computed less than each of the others. */
static bool last_computes_less(lab_peer **peers) {
    uint64_t last = computed_by(peers[2]);
    return last < computed_by(peers[0]) && last < computed_by(peers[1]);
}

/* Shards are dealt by speed, whatever computes them. On the stand-ins they take a while longer than they are told to, and a
 * long while with a sanitizer or on a busy machine, where it takes more steps until the speeds show. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHARD_MS "400"
#else
#define SHARD_MS "60"
#endif
Test(gpu_flock, slow_processors_among_gpus_compute_less) {
    enum { STEPS_MOST = 200 };
    lab *l = open_lab();
    lab_peer *peers[3];
    char stop[LAB_PATH + 16], hash[80];
    start_mixed(l,
                "synthetic --steps 100000 --shards 12 --shard-ms " SHARD_MS
                " --state-bytes 64k --sum-elements 2000 --workers 1",
                " --skew 10", peers);
    lab_wait_step(l, peers[0], 6);
    for (uint64_t step = 7; step < STEPS_MOST && !last_computes_less(peers); step++)
        lab_wait_step(l, peers[0], step);
    for (int i = 0; i < 2; i++) expect_sums(peers[i], "host memory");
    cr_expect(last_computes_less(peers), "%lu and %lu, the slow one %lu", computed_by(peers[0]),
              computed_by(peers[1]), computed_by(peers[2]));
    cr_expect_gt(computed_by(peers[2]), 0);
    snprintf(stop, sizeof stop, "stop --dir %s", peers[0]->dir);
    cr_assert_eq(lab_command(stop), 0);
    snprintf(hash, sizeof hash, "%s", lab_state(l, peers[0], "stopped"));
    for (int i = 1; i < 3; i++) cr_expect_str_eq(lab_state(l, peers[i], "stopped"), hash);
    cr_expect_eq(logged("sum"), 0);
    close_lab(l);
}

/* ---- peers of two GPUs, whose bytes are those of one peer with one ---- */

#define TWO "digits --epochs 2" SIZES " --device cuda:0,1"

Test(gpu_flock, two_peers_of_two_gpus) {
    lab *l = open_lab();
    lab_peer *peers[2];
    lab_flock(l, 2, TWO, peers);
    expect_same(l, peers, 2, DIGITS);
    cr_assert_geq(logged("formed 4"), 4);
    cr_assert_geq(logged("sum 4"), 4 * 20);
    close_lab(l);
}

Test(gpu_flock, peers_of_two_gpus_and_of_one) {
    lab *l = open_lab();
    lab_peer *peers[2];
    peers[0] = lab_start(l, "two", NULL, TWO " --peers 2");
    peers[1] = lab_start(l, "one", peers[0], DIGITS " --peers 2");
    expect_same(l, peers, 2, DIGITS);
    cr_assert_geq(logged("formed 3"), 3);
    close_lab(l);
}

Test(gpu_flock, a_peer_of_two_gpus_killed_inside_a_sum) {
    lab *l = open_lab();
    lab_peer *peers[3], *living[2];
    lab_flock(l, 3, TWO, peers);
    lab_wait_step(l, peers[0], 3);
    stall(6);
    lab_kill(l, peers[1]);
    living[0] = peers[0];
    living[1] = peers[2];
    lab_wait_view(l, living[0], 2);
    take("stall");
    expect_same(l, living, 2, DIGITS);
    cr_assert_geq(logged("formed 4"), 4);
    close_lab(l);
}

/* Shards that are computed twice, and a look at every copy of the state before each sum. */
Test(gpu_flock, peers_of_two_gpus_verify_each_other) {
    lab *l = open_lab();
    lab_peer *peers[2];
    lab_flock(l, 2, TWO " --verify 20%", peers);
    expect_same(l, peers, 2, DIGITS);
    close_lab(l);
}

#define FLIPPER GODWIT_FLIPPER_JOB " --peers 2 --verify 1% --device cuda:0,1"

static void flip_in_one_gpu(const char *flip) {
    char line[LAB_PATH];
    lab *l = open_lab();
    lab_peer *peers[2];
    snprintf(line, sizeof line, "%s %s", FLIPPER, flip);
    peers[0] = lab_start(l, "sound", NULL, FLIPPER);
    peers[1] = lab_start(l, "flips", peers[0], line);
    expect_same(l, peers, 2, GODWIT_FLIPPER_JOB " --device cuda");
    cr_assert_not_null(strstr(peers[1]->stderr_text, "copies of the state differ: GPU 0 "), "%s",
                       peers[1]->stderr_text);
    close_lab(l);
}

/* A bit flips in the memory of one GPU of a peer's two: it is found before the next sum, its peer takes the
 * others' state, and nothing of what it computed is left. */
Test(gpu_flock, a_bit_that_flips_in_one_gpu_of_two) {
    flip_in_one_gpu("--flip-weight 9");
}

/* It has been in no contribution: the sum is made, and it is found as that is applied. */
Test(gpu_flock, a_bit_of_what_only_apply_reads_in_one_gpu_of_two) {
    flip_in_one_gpu("--flip-moment 9");
}

/* Its GPUs sum with each other: by NCCL, or where that is missing or does not work in host memory. */
static void one_peer_of_two_gpus(const char *nccl, bool works) {
    lab *l = open_lab();
    if (nccl != NULL) setenv("GODWIT_NCCL", nccl, 1);
    if (!works) put("broken");
    lab_peer *peer = lab_start(l, "alone", NULL, "digits --epochs 2" SIZES " --device cuda:all");
    cr_expect_str_eq(lab_state(l, peer, "done"), alone(l, DIGITS));
    if (nccl == NULL && works) cr_assert_geq(logged("sum 2"), 2 * 20);
    if (nccl != NULL || !works)
        cr_assert_not_null(strstr(peer->stderr_text, "sums go through host memory"), "%s", peer->stderr_text);
    close_lab(l);
}

Test(gpu_flock, one_peer_of_two_gpus_sums_by_nccl) {
    one_peer_of_two_gpus(NULL, true);
}

Test(gpu_flock, one_peer_of_two_gpus_without_nccl) {
    one_peer_of_two_gpus("/nonexistent/libnccl.so.2", true);
}

Test(gpu_flock, one_peer_of_two_gpus_whose_nccl_never_works) {
    one_peer_of_two_gpus(NULL, false);
}

Test(gpu_flock, one_gpu_of_two_that_breaks_down_costs_its_peer_alone) {
    lab *l = open_lab();
    lab_peer *peers[2], *living[1];
    lab_flock(l, 2, TWO, peers);
    lab_wait_step(l, peers[0], 3);
    break_gpu(peers[1], 1, ECC);
    expect_left(l, peers[1], "GPU 1: ");
    living[0] = peers[0];
    expect_same(l, living, 1, DIGITS);
    close_lab(l);
}

Test(gpu_flock, a_language_model_on_two_gpus_and_one_joins) {
    lab *l = open_lab();
    lab_peer *peers[2];
    const char *job = gpt_job("cuda:0,1 --precision bf16"), *on_one = gpt_job("cuda --precision bf16");
    peers[0] = lab_start(l, "first", NULL, job);
    lab_wait_step(l, peers[0], 1);
    stall(2);
    lab_mark(l, peers[0]);
    peers[1] = lab_start(l, "late", peers[0], job);
    lab_wait_event(l, peers[0], "peer");
    take("stall");
    expect_same(l, peers, 2, on_one);
    close_lab(l);
}
