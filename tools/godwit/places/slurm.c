#include "tools/godwit/places/slurm.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SQUEUE_NS UINT64_C(30000000000) /* squeue waits for a controller that does not answer for longer */

enum {
    ANSWER_MOST = 65536, /* bytes of what squeue says */
    PORTS = GW_SLURM_STRIDE * GW_SLURM_SLOTS,
};

_Static_assert(GW_SLURM_PORT + PORTS <= 32768, "Linux takes no port of a peer for an outgoing connection");

/* Reading variables. */

static const char *get_own(void *context, const char *name) {
    (void)context;
    return getenv(name);
}

gw_environment gw_environment_own(void) {
    return (gw_environment){.get = get_own};
}

static const char *get(const gw_environment *environment, const char *name) {
    const char *value = environment->get(environment->context, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Reads a whole number of a text up to one of the characters of `ends`, or its end. Sets *at there. */
static bool read_number(const char **at, const char *ends, uint64_t most, uint64_t *number) {
    const char *begin = *at;
    *number = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (digit > most || *number > (most - digit) / 10) return false;
        *number = *number * 10 + digit;
    }
    return *at > begin && (**at == '\0' || strchr(ends, **at) != NULL);
}

/* Reads a variable that holds a number; `otherwise` where it is not set. */
static bool read_variable(const gw_environment *environment, const char *name, uint64_t least, uint64_t most,
                          uint64_t otherwise, uint64_t *number, gw_err *err) {
    const char *value = get(environment, name), *at = value;
    *number = otherwise;
    if (value == NULL) return true;
    if (read_number(&at, "", most, number) && *number >= least) return true;
    return gw_fail(err, GW_E_USAGE, "%s=%.40s is no number from %" PRIu64 " to %" PRIu64, name, value, least,
                   most);
}

static bool read_u32(const gw_environment *environment, const char *name, uint32_t least, uint32_t most,
                     uint32_t otherwise, uint32_t *number, gw_err *err) {
    uint64_t wide;
    if (!read_variable(environment, name, least, most, otherwise, &wide, err)) return false;
    *number = (uint32_t)wide;
    return true;
}

static bool read_nodes(const char *name, const char *value, gw_hostlist *nodes, gw_err *err) {
    if (gw_hostlist_parse(value, GW_SLURM_NODES, nodes, err)) return true;
    if (err->code != GW_E_NOMEM) err->code = GW_E_USAGE;
    return gw_fail_in(err, "%s", name);
}

/* Reads how many tasks each node has, "2(x3),1": 2, 2, 2, 1. */
static bool read_tasks(const char *text, uint32_t *tasks, uint32_t nodes) {
    uint32_t count = 0;
    for (const char *at = text;; at++) {
        uint64_t number, times = 1;
        if (!read_number(&at, ",(", GW_SLURM_TASKS, &number) || number == 0) return false;
        if (*at == '(') {
            if (at[1] != 'x') return false;
            at += 2;
            if (!read_number(&at, ")", GW_SLURM_NODES, &times) || *at != ')') return false;
            at++;
        }
        if (times > nodes - count) return false;
        while (times-- > 0) tasks[count++] = (uint32_t)number;
        if (*at == '\0') return count == nodes;
        if (*at != ',') return false;
    }
}

/* Notes how many tasks of the step the nodes of the job have. */
static bool count_tasks(gw_slurm *slurm, const gw_hostlist *nodes, const char *tasks, gw_err *err) {
    uint32_t *counts = calloc(nodes->count, sizeof *counts), place = 0;
    if (counts == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool good = read_tasks(tasks, counts, nodes->count);
    for (uint32_t i = 0; good && i < nodes->count; i++)
        for (uint32_t k = 0; k < slurm->nodes.count; k++) {
            uint32_t at = (place + k) % slurm->nodes.count; /* the step's nodes have mostly the same order */
            if (strcmp(slurm->nodes.names[at], nodes->names[i]) != 0) continue;
            slurm->tasks_of[at] = counts[i];
            if (i == slurm->node) slurm->local_tasks = counts[i];
            place = at + 1;
            break;
        }
    free(counts);
    return good || gw_fail(err, GW_E_USAGE,
                           "SLURM_STEP_TASKS_PER_NODE=%.60s does not tell the tasks of each node of "
                           "SLURM_STEP_NODELIST, as 2(x3),1 does",
                           tasks);
}

static bool read_step(const gw_environment *environment, gw_slurm *slurm, gw_err *err) {
    const char *list = get(environment, "SLURM_STEP_NODELIST");
    const char *tasks = get(environment, "SLURM_STEP_TASKS_PER_NODE");
    slurm->tasks = slurm->local_tasks = 1;
    slurm->in_step = get(environment, "SLURM_STEP_ID") != NULL && list != NULL;
    if (!slurm->in_step) return true;
    gw_hostlist nodes;
    if (!read_u32(environment, "SLURM_PROCID", 0, GW_SLURM_TASKS - 1, 0, &slurm->task, err) ||
        !read_u32(environment, "SLURM_LOCALID", 0, GW_SLURM_TASKS - 1, 0, &slurm->local, err) ||
        !read_u32(environment, "SLURM_NODEID", 0, GW_SLURM_NODES - 1, 0, &slurm->node, err) ||
        !read_u32(environment, "SLURM_STEP_NUM_TASKS", 1, GW_SLURM_TASKS, 1, &slurm->tasks, err) ||
        !read_nodes("SLURM_STEP_NODELIST", list, &nodes, err))
        return false;
    bool good = tasks == NULL || count_tasks(slurm, &nodes, tasks, err);
    if (good && slurm->local >= slurm->local_tasks) slurm->local_tasks = slurm->local + 1;
    gw_hostlist_free(&nodes);
    return good;
}

/* The name by which the job's list has this node. */
static const char *own_name(const gw_environment *environment, const gw_slurm *slurm) {
    const char *name = get(environment, "SLURMD_NODENAME");
    for (uint32_t i = 0; name != NULL && i < slurm->nodes.count; i++)
        if (strcmp(slurm->nodes.names[i], name) == 0) return slurm->nodes.names[i];
    return slurm->nodes.count == 1 ? slurm->nodes.names[0] : "";
}

/* Whether each task sees its own GPUs only; otherwise those of a node's tasks are common to them. */
static bool has_own_gpus(const gw_environment *environment) {
    static const char *const bound[] = {"SLURM_TRES_PER_TASK", "SLURM_TRES_BIND"};
    const char *bind = get(environment, "SLURM_GPU_BIND");
    if (get(environment, "SLURM_GPUS_PER_TASK") != NULL) return true;
    if (bind != NULL && strcmp(bind, "none") != 0) return true;
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
        const char *value = get(environment, bound[i]);
        if (value != NULL && strstr(value, "gpu") != NULL && strstr(value, "gpu:none") == NULL) return true;
    }
    return false;
}

/* Slurm shows a task its GPUs by CUDA_VISIBLE_DEVICES, which CUDA heeds: they are 0, 1, ... to this program. Where
 * several tasks see the same ones, each takes its part of them, or one that it shares. */
static void take_gpus(const gw_environment *environment, gw_slurm *slurm) {
    const char *visible = get(environment, "CUDA_VISIBLE_DEVICES");
    uint32_t count = 0, first = 0, end;
    if (visible == NULL || strcmp(visible, "NoDevFiles") == 0 || strcmp(visible, "-1") == 0) return;
    for (const char *at = visible; at != NULL && count < GW_SLURM_GPUS; count++) {
        at = strchr(at, ',');
        if (at != NULL) at++;
    }
    end = count;
    if (slurm->local_tasks > 1 && !has_own_gpus(environment)) {
        first = count < slurm->local_tasks ? slurm->local % count : slurm->local * count / slurm->local_tasks;
        end = count < slurm->local_tasks ? first + 1 : (slurm->local + 1) * count / slurm->local_tasks;
    }
    for (uint32_t i = first; i < end; i++) slurm->gpus[slurm->gpu_count++] = i;
}

static bool read_cores(const gw_environment *environment, gw_slurm *slurm, gw_err *err) {
    uint32_t on_node;
    if (!read_u32(environment, "SLURM_CPUS_PER_TASK", 1, 1 << 20, 0, &slurm->cores, err) ||
        !read_u32(environment, "SLURM_CPUS_ON_NODE", 1, 1 << 20, 0, &on_node, err))
        return false;
    if (slurm->cores == 0 && on_node > 0)
        slurm->cores = on_node > slurm->local_tasks ? on_node / slurm->local_tasks : 1;
    return true;
}

bool gw_slurm_read(const gw_environment *environment, gw_slurm *slurm, gw_err *err) {
    const char *nodes = get(environment, "SLURM_JOB_NODELIST");
    *slurm = (gw_slurm){.name = ""};
    if (nodes == NULL || get(environment, "SLURM_JOB_ID") == NULL)
        return gw_fail(
            err, GW_E_USAGE,
            "this is no job of Slurm, as SLURM_JOB_ID and SLURM_JOB_NODELIST are not set: start the peers "
            "by srun, in a batch script or in an allocation of salloc");
    bool good = read_variable(environment, "SLURM_JOB_ID", 1, UINT32_MAX, 0, &slurm->job, err) &&
                read_u32(environment, "SLURM_RESTART_COUNT", 0, UINT32_MAX, 0, &slurm->restarts, err) &&
                read_nodes("SLURM_JOB_NODELIST", nodes, &slurm->nodes, err);
    if (!good) return false;
    slurm->tasks_of = malloc(slurm->nodes.count * sizeof *slurm->tasks_of);
    GW_ASSERT_MEMORY(slurm->tasks_of != NULL);
    for (uint32_t i = 0; i < slurm->nodes.count; i++) slurm->tasks_of[i] = 1;
    good = read_step(environment, slurm, err) && read_cores(environment, slurm, err);
    if (good) {
        slurm->name = own_name(environment, slurm);
        take_gpus(environment, slurm);
    } else {
        gw_slurm_free(slurm);
    }
    return good;
}

void gw_slurm_free(gw_slurm *slurm) {
    gw_hostlist_free(&slurm->nodes);
    free(slurm->tasks_of);
    *slurm = (gw_slurm){.name = ""};
}

/* Addresses. */

uint16_t gw_slurm_port(uint64_t job, const char *cluster) {
    uint64_t slot = job % GW_SLURM_SLOTS;
    uint32_t hash = 2166136261; /* FNV-1a */
    for (const char *at = cluster; at != NULL && *at != '\0'; at++) hash = (hash ^ (uint8_t)*at) * 16777619;
    if (cluster != NULL) slot = (slot + hash) % GW_SLURM_SLOTS;
    return (uint16_t)(GW_SLURM_PORT + slot * GW_SLURM_STRIDE);
}

static char *address(const char *host, uint32_t port) {
    char *text;
    GW_ASSERT_MEMORY(asprintf(&text, "%s:%u", host, port) >= 0);
    return text;
}

/* Where there are more nodes than seeds, nodes at equal distances are asked: every peer computes the same ones. */
static uint32_t nodes_among(uint32_t nodes, uint32_t most) {
    return nodes < most ? nodes : most;
}

static uint32_t node_at(uint32_t number, uint32_t nodes, uint32_t most) {
    return (uint32_t)((uint64_t)number * nodes / nodes_among(nodes, most));
}

uint32_t gw_slurm_seeds(const gw_slurm *slurm, uint16_t port, bool loopback, char **seeds, uint32_t most) {
    uint32_t count = 0, nodes = nodes_among(slurm->nodes.count, most), added = nodes;
    for (uint32_t local = 0; added > 0 && count < most; local++) {
        added = 0;
        for (uint32_t i = 0; i < nodes && count < most; i++) {
            uint32_t node = node_at(i, slurm->nodes.count, most);
            if (local >= slurm->tasks_of[node] || port + local > UINT16_MAX) continue;
            seeds[count++] = address(loopback ? "127.0.0.1" : slurm->nodes.names[node], port + local);
            added++;
        }
    }
    return count;
}

/* Asking Slurm. */

/* Reads what a process writes until it closes the pipe, or `until_ns`. Returns whether it has closed it. */
static bool read_answer(int fd, uint64_t until_ns, char *answer, size_t *length) {
    for (;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        uint64_t now_ns = gw_now_ns();
        if (now_ns >= until_ns || poll(&readable, 1, (int)((until_ns - now_ns) / 1000000) + 1) < 0)
            return false;
        if (readable.revents == 0) continue;
        char bytes[4096];
        ssize_t count = read(fd, bytes, sizeof bytes);
        if (count <= 0) return count == 0;
        size_t taken = (size_t)count < ANSWER_MOST - *length ? (size_t)count : ANSWER_MOST - *length;
        memcpy(answer + *length, bytes, taken);
        *length += taken;
    }
}

/* Runs squeue and reads what it says, diagnostics included. */
static bool ask_squeue(uint64_t job, char *answer, int *status, gw_err *err) {
    char jobs[40];
    int ends[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    size_t length = 0;
    gw_process process;
    snprintf(jobs, sizeof jobs, "--jobs=%" PRIu64, job);
    char *argv[] = {(char[]){"squeue"},
                    (char[]){"--noheader"},
                    (char[]){"--states=all"},
                    (char[]){"--format=%T %N"},
                    jobs,
                    NULL};
    if (null < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        if (null >= 0) close(null);
        return gw_fail(err, GW_E_IO, "squeue: there are no descriptors for it");
    }
    const int fds[] = {null, ends[1], ends[1]};
    const gw_spawn spawn = {
        .file = "squeue", .argv = argv, .environment = environ, .fds = fds, .fd_count = 3};
    bool good = gw_process_spawn(&spawn, &process, err);
    close(ends[1]);
    close(null);
    if (good) {
        bool closed = read_answer(ends[0], gw_now_ns() + SQUEUE_NS, answer, &length);
        answer[length] = '\0';
        if (!closed) gw_process_kill(&process);
        good =
            (gw_process_wait(&process, SQUEUE_NS, true, status) && closed) ||
            gw_fail(err, GW_E_TIMEOUT, "squeue has not answered within %d s", (int)(SQUEUE_NS / 1000000000));
        gw_process_close(&process);
    }
    close(ends[0]);
    return good;
}

/* Reads "RUNNING node[1-3]", the last line of what squeue says. */
static bool read_running(char *answer, gw_hostlist *nodes, gw_err *err) {
    char state[24] = "", *line, *rest = answer;
    int at = 0;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0] != '\0') answer = line;
    if (sscanf(answer, "%23s %n", state, &at) != 1 || strcmp(state, "RUNNING") != 0 || answer[at] == '\0')
        return gw_fail(err, GW_E_NOTFOUND, "the job does not run (squeue: %.120s)", answer);
    answer[at + (int)strcspn(answer + at, " ")] = '\0';
    return read_nodes("squeue", answer + at, nodes, err);
}

bool gw_slurm_seeds_of(const gw_slurm *slurm, uint64_t job, uint16_t port, bool loopback, char **seeds,
                       uint32_t most, uint32_t *count, gw_err *err) {
    char *answer = malloc(ANSWER_MOST + 1);
    int status = 0;
    gw_hostlist nodes = {0};
    GW_ASSERT_MEMORY(answer != NULL);
    *count = 0;
    bool good = ask_squeue(job, answer, &status, err);
    if (good && status != 0) {
        answer[strcspn(answer, "\n")] = '\0';
        good = gw_fail(err, GW_E_NOTFOUND, "Slurm knows no such job (%.120s)", answer);
    }
    good = good && read_running(answer, &nodes, err);
    if (good && loopback && (nodes.count != 1 || strcmp(nodes.names[0], slurm->name) != 0))
        good = gw_fail(err, GW_E_USAGE,
                       "the job runs on other nodes, and without --key a peer listens on loopback only");
    for (uint32_t i = 0; good && i < nodes_among(nodes.count, most); i++)
        seeds[(*count)++] =
            address(loopback ? "127.0.0.1" : nodes.names[node_at(i, nodes.count, most)], port);
    gw_hostlist_free(&nodes);
    free(answer);
    return good;
}

/* Paths. */

bool gw_slurm_path(const gw_slurm *slurm, const char *pattern, char **path, gw_err *err) {
    size_t length;
    bool good = true;
    FILE *out = open_memstream(path, &length);
    GW_ASSERT_MEMORY(out != NULL);
    for (const char *at = pattern; good && *at != '\0'; at++) {
        if (*at != '%') {
            fputc(*at, out);
            continue;
        }
        switch (*++at) {
        case 'j':
            fprintf(out, "%" PRIu64, slurm->job);
            break;
        case 't':
            fprintf(out, "%u", slurm->task);
            break;
        case 'n':
            fprintf(out, "%u", slurm->node);
            break;
        case 'N':
            fputs(slurm->name, out);
            break;
        case '%':
            fputc('%', out);
            break;
        default:
            good = gw_fail(
                err, GW_E_USAGE,
                "'%s': with --join slurm a percent sign is followed by j (the job), t (the task), n (the "
                "number of the node), N (its name) or a second percent sign",
                pattern);
        }
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    if (!good) free(*path);
    return good;
}
