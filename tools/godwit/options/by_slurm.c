#include "tools/godwit/options/by_slurm.h"

#include "core/base/assert.h"
#include "net/loop/address.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes a text that *options owns. */
__attribute__((format(printf, 2, 3))) static char *make(gw_run_options *options, const char *format, ...) {
    uint32_t i = 0;
    va_list list;
    while (options->place[i] != NULL) i++;
    GW_ASSERT(i < sizeof options->place / sizeof *options->place);
    va_start(list, format);
    GW_ASSERT_MEMORY(vasprintf(&options->place[i], format, list) >= 0);
    va_end(list);
    return options->place[i];
}

/* Writes out the percent signs of an option's value. */
static bool take_path(gw_run_options *options, const gw_slurm *slurm, const char *name, const char **path,
                      gw_err *err) {
    char *written;
    if (*path == NULL) return true;
    if (!gw_slurm_path(slurm, *path, &written, err)) return gw_fail_in(err, "--%s", name);
    *path = make(options, "%s", written);
    free(written);
    return true;
}

/* The directory. What its percent signs are written out to are folders that nobody has made for a job, and so is the
 * default. */
static bool choose_dir(gw_run_options *options, const gw_slurm *slurm, bool given, gw_err *err) {
    if (!given) options->dir = options->slurm_job != 0 ? GW_DEFAULT_DIR "/%j.%t" : GW_DEFAULT_DIR "/%t";
    const size_t plain = given ? strcspn(options->dir, "%") : 1;
    options->dir_exists = plain > 0 ? plain : 1;
    return take_path(options, slurm, "dir", &options->dir, err);
}

/* The listening address, and the port of each node's first task. */
static bool choose_listen(gw_run_options *options, const gw_slurm *slurm, uint16_t *port, gw_err *err) {
    char host[GW_HOST_TEXT] = "::";
    if (options->listen != NULL) {
        if (!gw_address_parse(options->listen, host, port, err)) return gw_fail_in(err, "--listen");
        if (*port == 0)
            return gw_fail(
                err, GW_E_USAGE,
                "--listen: with --join slurm each peer has to know the ports of the others, and port 0 takes "
                "any free one: leave --listen out");
    } else if (options->key_file == NULL) {
        snprintf(host, sizeof host, "127.0.0.1");
    }
    if (*port + slurm->local > UINT16_MAX)
        return gw_fail(err, GW_E_USAGE, "--listen: there is no port for task %u of this node", slurm->local);
    const bool v6 = strchr(host, ':') != NULL;
    options->listen = make(options, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "", *port + slurm->local);
    return true;
}

/* Adds the seeds: those of the other job first. */
static bool add_seeds(gw_run_options *options, const gw_slurm *slurm, uint16_t port, const char *cluster,
                      gw_err *err) {
    const bool loopback = options->key_file == NULL;
    uint32_t room = GW_MAX_SEEDS - options->seed_count, count = 0;
    char **seeds = options->seeds + options->seed_count;
    if (options->slurm_job != 0) {
        const uint16_t theirs = gw_slurm_port(options->slurm_job, cluster);
        if (!gw_slurm_seeds_of(slurm, options->slurm_job, theirs, loopback, seeds, room / 2, &count, err)) {
            if (err->code != GW_E_NOTFOUND || slurm->restarts == 0)
                return gw_fail_in(err,
                                  "--join slurm:%" PRIu64
                                  " (--join HOST:PORT names a peer without Slurm; the ports of "
                                  "that job begin at %u)",
                                  options->slurm_job, theirs);
            /* A job that was requeued goes on by itself: the other one has ended meanwhile. */
        }
        options->seed_count += count;
    }
    /* A peer whose only seed is itself would wait for an answer. */
    if (slurm->nodes.count == 1 && slurm->local_tasks == 1) return true;
    options->seed_count += gw_slurm_seeds(slurm, port, loopback, options->seeds + options->seed_count,
                                          GW_MAX_SEEDS - options->seed_count);
    return true;
}

static void take_gpus(gw_compute *compute, const gw_slurm *slurm) {
    compute->most_cores = slurm->cores;
    if (compute->kind != GW_COMPUTE_AUTO || slurm->gpu_count == 0) return;
    compute->given_gpus = true;
    for (compute->gpu_count = 0;
         compute->gpu_count < slurm->gpu_count && compute->gpu_count < GW_DEVICE_PARTS; compute->gpu_count++)
        compute->gpus[compute->gpu_count] = (int)slurm->gpus[compute->gpu_count];
}

/* The node's name, and the number of the task where the node has several. */
static void take_name(gw_run_options *options, const gw_slurm *slurm) {
    char number[16] = "";
    if (options->name[0] != '\0' || slurm->name[0] == '\0') return;
    if (slurm->local_tasks > 1) snprintf(number, sizeof number, ".%u", slurm->local);
    snprintf(options->name, sizeof options->name, "%.*s%s", (int)(GW_GOSSIP_NAME_BYTES - strlen(number)),
             slurm->name, number);
}

static bool complete(gw_run_options *options, const gw_slurm *slurm, bool dir_given, bool cluster_given,
                     gw_err *err) {
    const char *cluster = cluster_given ? options->cluster : NULL;
    uint16_t port = gw_slurm_port(slurm->job, cluster);
    if (slurm->nodes.count > 1 && options->key_file == NULL)
        return gw_fail(
            err, GW_E_USAGE,
            "--join slurm: this job has %u nodes, and without --key a peer listens on loopback only: make a "
            "key once ('godwit keygen FILE', in a folder that all nodes see) and give it (--key FILE)",
            slurm->nodes.count);
    if (slurm->tasks > GW_MAX_MEMBERS && options->peers == 0)
        return gw_fail(err, GW_E_USAGE,
                       "--join slurm: the step has %u tasks, and at most %d peers compute together",
                       slurm->tasks, (int)GW_MAX_MEMBERS);
    if (!choose_dir(options, slurm, dir_given, err) ||
        !take_path(options, slurm, "metrics", &options->metrics, err) ||
        !choose_listen(options, slurm, &port, err) || !add_seeds(options, slurm, port, cluster, err))
        return false;
    if (!cluster_given)
        options->cluster =
            make(options, "slurm-%" PRIu64, options->slurm_job != 0 ? options->slurm_job : slurm->job);
    if (options->peers == 0) options->peers = slurm->tasks;
    take_name(options, slurm);
    take_gpus(&options->compute, slurm);
    GW_ASSERT_MEMORY(
        asprintf(&options->place_text,
                 "job %" PRIu64 " of Slurm%s: task %u of %u, on node %s; it listens on %s, and its directory "
                 "is %s%s",
                 slurm->job, slurm->restarts > 0 ? ", requeued" : "", slurm->task, slurm->tasks,
                 slurm->name[0] != '\0' ? slurm->name : "(no name)", options->listen, options->dir,
                 slurm->in_step ? ""
                                : "; srun has not started it, so this peer is alone (srun godwit run ... "
                                  "starts one for each task)") >= 0);
    return true;
}

bool gw_options_by_slurm(gw_run_options *options, const gw_environment *environment, bool dir_given,
                         bool cluster_given, gw_err *err) {
    gw_slurm slurm;
    if (!gw_slurm_read(environment, &slurm, err)) return gw_fail_in(err, "--join slurm");
    bool good = complete(options, &slurm, dir_given, cluster_given, err);
    gw_slurm_free(&slurm);
    return good;
}
