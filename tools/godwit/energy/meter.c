#include "tools/godwit/energy/meter.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/os/durable.h"
#include "tools/godwit/energy/counters.h"
#include "tools/godwit/energy/rate.h"
#include "tools/godwit/energy/record.h"
#include "tools/godwit/energy/usage.h"
#include "tools/godwit/thread/helper.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define READ_NS   (SECOND_NS / 4) /* the least time between two reads */
#define SEEK_NS                                                                                              \
    (60 * SECOND_NS) /* while there is nothing to read: a driver may be loaded, or a right given */
#define WRITE_NS  (30 * SECOND_NS)
#define FINISH_NS SECOND_NS /* so long the end of a run waits for its last read */
#define WINDOW_S  1.0       /* means are taken over so long at least */
#define OUTLIER   4.0       /* a window counts so many means at the most: in it the peer waited for others */

/* What was counted of a GPU at the last read. */
typedef struct gpu_count {
    bool begun;
    uint64_t energy_mj;
} gpu_count;

/* An interval over which means are taken. */
typedef struct window {
    double seconds, joules, steps, shards;
} window;

struct gw_energy_meter {
    gw_energy_options options;
    const char *root;
    gw_helper *helper;
    bool ends;                          /* the last task was given */
    uint64_t next_ns;                   /* the loop's: when the next read is due */
    atomic_bool keep;                   /* the file is to be written with the next read */
    atomic_uint_fast64_t idle_until_ns; /* nothing can be read before */
    atomic_uint_fast64_t steps, shards; /* as of the last look */

    /* The helper's. */
    gw_energy_counters counters;
    gw_energy_usage usage;
    double unshared; /* joules of the machine that wait for a share of processor time */
    gpu_count gpus[GW_WATCHED_GPUS];
    uint64_t seek_ns, read_ns, written_ns;
    uint64_t steps_read, shards_read;
    window mean, power; /* under way */
    gw_energy_rate rate;
    gw_energy figures; /* whose joules are those of this process */
    char told[GW_ENERGY_LACK_TEXT];
    bool told_source, changed, write_failed;
    gw_energy_record record;
    double before[GW_ENERGY_SOURCES]; /* joules of earlier lives */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t done;
    uint64_t reads_given, reads_done;
    gw_energy shown;
    double shown_shard; /* joules of one more shard */
};

/* The file. */

static void read_file(gw_energy_meter *m) {
    char path[GW_PATH_BYTES];
    void *bytes;
    size_t length;
    gw_err err;
    gw_io *io = &m->options.directory->io;
    if (!gw_durable_path(path, &err, "%s/energy", m->options.directory->path)) return;
    if (!gw_durable_read(io, path, GW_ENERGY_RECORD_BYTES, &bytes, &length, &err)) {
        if (err.code != GW_E_NOTFOUND)
            gw_log(GW_WARN, "energy", "the energy of the run so far is not known: %s", err.text);
        return;
    }
    if (!gw_energy_record_read(bytes, length, &m->record, &err))
        gw_log(GW_WARN, "energy", "the energy of the run so far is not known: %s: %s", path, err.text);
    free(bytes);
}

static void write_file(gw_energy_meter *m, uint64_t now_ns) {
    char text[GW_ENERGY_RECORD_BYTES], path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    gw_err err;
    const char *dir = m->options.directory->path;
    gw_energy_job *job = gw_energy_record_job(&m->record, &m->options.job);
    for (int i = 0; i < GW_ENERGY_SOURCES; i++) job->joules[i] = m->before[i] + m->figures.joules[i];
    size_t length = gw_energy_record_write(&m->record, text);
    bool good = gw_durable_path(path, &err, "%s/energy", dir) &&
                gw_durable_path(temporary, &err, "%s/energy.new", dir) &&
                gw_durable_replace(&m->options.directory->io, temporary, dir, path, text, length, &err);
    if (!good && !m->write_failed)
        gw_log(GW_INFO, "energy", "the energy of the run so far cannot be written down: %s", err.text);
    m->write_failed = !good;
    m->written_ns = now_ns;
    m->changed = !good;
}

/* The processors. */

/* Says once where the energy of the processors comes from, and once each thing that is missing. */
static void tell(gw_energy_meter *m) {
    const gw_energy_counters *c = &m->counters;
    bool lacks = c->lack[0] != '\0' && strcmp(c->lack, m->told) != 0;
    bool matters = c->source != GW_ENERGY_NONE || c->denied || m->options.asked;
    if (c->source != GW_ENERGY_NONE && !m->told_source)
        gw_log(
            GW_INFO, "energy",
            "the energy of the processors is read by %s (%s%s): this process's share of it by processor time",
            gw_energy_source_text(c->source), c->zones[0].name, c->count > 1 ? " and others" : "");
    if (lacks && matters && c->source != GW_ENERGY_NONE)
        gw_log(GW_INFO, "energy", "a part of the processors' energy is missing: %s", c->lack);
    else if (lacks && matters && m->options.cpu_watts > 0)
        gw_log(GW_INFO, "energy",
               "the energy of the processors is an estimate, %g W for each that computes (--cpu-watts): %s",
               m->options.cpu_watts, c->lack);
    else if (lacks && matters)
        gw_log(GW_INFO, "energy", "the energy of the processors is not known: %s", c->lack);
    if (lacks && matters) memcpy(m->told, c->lack, sizeof m->told);
    m->told_source = c->source != GW_ENERGY_NONE;
}

/* Looks for counters where there are none or some are gone, now and then. */
static void seek(gw_energy_meter *m, uint64_t now_ns) {
    bool complete = m->counters.source != GW_ENERGY_NONE && !m->counters.incomplete;
    if (complete || now_ns < m->seek_ns) return;
    m->seek_ns = now_ns + SEEK_NS;
    m->unshared += gw_energy_counters_read(&m->counters, now_ns);
    gw_energy_counters_open(&m->counters, m->root, m->options.gpus != NULL);
    (void)gw_energy_counters_read(&m->counters, now_ns); /* it begins each counter */
    tell(m);
}

/* Returns the joules of the processors since the last read. */
static double read_processors(gw_energy_meter *m, uint64_t now_ns) {
    double own_s, busy_s, joules = 0;
    gw_energy_source source = m->counters.source;
    double machine = source != GW_ENERGY_NONE ? gw_energy_counters_read(&m->counters, now_ns) : 0;
    bool known = gw_energy_usage_read(&m->usage, &own_s, &busy_s) && busy_s >= 0;
    if (known)
        memcpy(m->figures.lack, m->counters.lack, sizeof m->figures.lack);
    else
        snprintf(m->figures.lack, sizeof m->figures.lack,
                 "%s/proc/stat or %s/proc/self/stat cannot be read: this process's share is not known",
                 m->root, m->root);
    if (m->counters.source != source || m->counters.incomplete) tell(m); /* counters are gone */
    if (source == GW_ENERGY_NONE && m->options.cpu_watts > 0 && known) {
        source = GW_ENERGY_ESTIMATE;
        joules = own_s * m->options.cpu_watts;
    } else if (source != GW_ENERGY_NONE && known) {
        m->unshared += machine;
        if (busy_s > 0) {
            joules = m->unshared * (own_s < busy_s ? own_s / busy_s : 1);
            m->unshared = 0;
        }
    } else {
        source = GW_ENERGY_NONE;
    }
    m->figures.processors = source;
    m->figures.joules[source] += joules;
    return joules;
}

/* The GPUs. */

/* Returns where the energy of a GPU comes from. The energy of an instance of a divided GPU is not known
 * unless the driver tells who else computes on the GPU. */
static gw_energy_source source_of(const gw_gpu_reading *r) {
    if (r->divided && !(r->known & GW_GPU_PROCESSES)) return GW_ENERGY_NONE;
    if (r->known & GW_GPU_ENERGY) return GW_ENERGY_NVML;
    return r->known & GW_GPU_POWER ? GW_ENERGY_NVML_POWER : GW_ENERGY_NONE;
}

/* The share of a GPU's energy that is this process's: by the number of processes that compute on it. In a
 * container the driver tells other numbers of processes than this process knows; then it is one of all. */
static double share_of(const gw_energy_meter *m, const gw_gpu_reading *r) {
    uint32_t own = 0;
    if (!(r->known & GW_GPU_PROCESSES) || r->process_count == 0) return 1;
    for (uint32_t i = 0; i < r->process_count && i < GW_GPU_READ_PROCESSES; i++)
        for (uint32_t k = 0; k < m->usage.pid_count; k++) own += r->processes[i] == m->usage.pids[k];
    return (double)(own > 0 ? own : 1) / r->process_count;
}

/* Returns the joules of the GPUs since the last read. */
static double read_gpus(gw_energy_meter *m, double seconds) {
    gw_watched_gpu gpus[GW_WATCHED_GPUS];
    double sum = 0;
    m->figures.gpus = GW_ENERGY_NONE;
    if (m->options.gpus == NULL) return 0;
    uint32_t count = gw_gpu_watch_copy(m->options.gpus, gpus);
    for (uint32_t i = 0; i < count; i++) {
        const gw_gpu_reading *r = &gpus[i].reading;
        gpu_count *before = &m->gpus[i];
        gw_energy_source source = source_of(r);
        double joules = 0;
        if (source == GW_ENERGY_NVML && before->begun && r->energy_mj >= before->energy_mj)
            joules = (double)(r->energy_mj - before->energy_mj) * 1e-3;
        if (source == GW_ENERGY_NVML_POWER) joules = r->power_mw * 1e-3 * seconds;
        /* A GPU that does not answer for a while goes on counting. */
        if (source == GW_ENERGY_NVML) *before = (gpu_count){true, r->energy_mj};
        joules *= share_of(m, r);
        m->figures.joules[source] += joules;
        if (source != GW_ENERGY_NONE) m->figures.gpus = source;
        sum += joules;
    }
    return sum;
}

/* The means. */

static double mean_with(double mean, double value) {
    if (mean == 0) return value;
    return mean * 0.8 + (value < OUTLIER * mean ? value : OUTLIER * mean) * 0.2;
}

static void add_to_means(gw_energy_meter *m, double seconds, double joules, uint64_t steps, uint64_t shards) {
    window *w = &m->mean, *p = &m->power;
    w->seconds += seconds;
    w->joules += joules;
    w->steps += (double)(steps - m->steps_read);
    w->shards += (double)(shards - m->shards_read);
    m->steps_read = steps;
    m->shards_read = shards;
    p->seconds += seconds;
    p->joules += joules;
    if (p->seconds >= WINDOW_S) {
        m->figures.watts = mean_with(m->figures.watts, p->joules / p->seconds);
        *p = (window){.seconds = 0};
    }
    if (w->seconds < WINDOW_S || w->steps == 0) return; /* a window ends with a step */
    gw_energy_rate_add(&m->rate, w->seconds, w->shards, w->joules);
    m->figures.step_joules = mean_with(m->figures.step_joules, w->joules / w->steps);
    if (w->shards > 0) m->figures.shard_joules = mean_with(m->figures.shard_joules, w->joules / w->shards);
    *w = (window){.seconds = 0};
}

/* Reads. */

static void show(gw_energy_meter *m) {
    pthread_mutex_lock(&m->lock);
    m->shown = m->figures;
    for (int i = 0; i < GW_ENERGY_SOURCES; i++) m->shown.joules[i] += m->before[i];
    m->shown_shard = gw_energy_rate_shard(&m->rate);
    m->reads_done++;
    pthread_cond_broadcast(&m->done);
    pthread_mutex_unlock(&m->lock);
}

static void run_read(void *context) {
    gw_energy_meter *m = context;
    uint64_t now_ns = gw_now_ns();
    double seconds = m->read_ns != 0 ? (double)(now_ns - m->read_ns) * 1e-9 : 0;
    uint64_t steps = atomic_load(&m->steps), shards = atomic_load(&m->shards);
    seek(m, now_ns);
    bool some = m->counters.source != GW_ENERGY_NONE || m->options.cpu_watts > 0 || m->options.gpus != NULL;
    if (some) {
        double joules = read_processors(m, now_ns);
        joules += read_gpus(m, seconds);
        m->read_ns = now_ns;
        m->changed |= joules > 0;
        add_to_means(m, seconds, joules, steps, shards);
    } else {
        m->figures.processors = GW_ENERGY_NONE;
        memcpy(m->figures.lack, m->counters.lack, sizeof m->figures.lack);
        atomic_store(&m->idle_until_ns, m->seek_ns);
    }
    bool keep = atomic_exchange(&m->keep, false) || now_ns >= m->written_ns + WRITE_NS;
    if (m->changed && keep) write_file(m, now_ns);
    show(m);
}

/* Whether a read is under way. */
static bool is_reading(gw_energy_meter *m) {
    pthread_mutex_lock(&m->lock);
    bool reads = m->reads_done < m->reads_given;
    pthread_mutex_unlock(&m->lock);
    return reads;
}

static void give(gw_energy_meter *m) {
    pthread_mutex_lock(&m->lock);
    m->reads_given++;
    pthread_mutex_unlock(&m->lock);
    gw_helper_give(m->helper, run_read, m);
}

void gw_energy_meter_look(gw_energy_meter *m, uint64_t steps, uint64_t shards) {
    uint64_t now_ns = gw_now_ns();
    if (m == NULL || now_ns < m->next_ns || now_ns < atomic_load(&m->idle_until_ns) || is_reading(m)) return;
    m->next_ns = now_ns + READ_NS;
    atomic_store(&m->steps, steps);
    atomic_store(&m->shards, shards);
    give(m);
}

void gw_energy_meter_finish(gw_energy_meter *m, uint64_t steps, uint64_t shards, gw_energy *energy) {
    uint64_t end_ns = gw_now_ns() + FINISH_NS;
    *energy = (gw_energy){.processors = GW_ENERGY_NONE};
    if (m == NULL) return;
    atomic_store(&m->steps, steps);
    atomic_store(&m->shards, shards);
    pthread_mutex_lock(&m->lock);
    uint64_t wanted = m->reads_given + 1;
    pthread_mutex_unlock(&m->lock);
    give(m);
    pthread_mutex_lock(&m->lock);
    while (m->reads_done < wanted && gw_cond_wait_until(&m->done, &m->lock, end_ns)) continue;
    *energy = m->shown;
    pthread_mutex_unlock(&m->lock);
}

void gw_energy_meter_keep(gw_energy_meter *m) {
    if (m != NULL) atomic_store(&m->keep, true);
}

void gw_energy_meter_copy(gw_energy_meter *m, gw_energy *energy) {
    *energy = (gw_energy){.processors = GW_ENERGY_NONE};
    if (m == NULL) return;
    pthread_mutex_lock(&m->lock);
    *energy = m->shown;
    pthread_mutex_unlock(&m->lock);
}

uint64_t gw_energy_meter_shard(gw_energy_meter *m) {
    if (m == NULL) return 0;
    pthread_mutex_lock(&m->lock);
    double joules = m->shown_shard;
    pthread_mutex_unlock(&m->lock);
    return joules > 0 && joules < 1e9 ? (uint64_t)(joules * 1e6) + 1 : 0;
}

/* Begin and end. */

gw_energy_meter *gw_energy_meter_open(const gw_energy_options *options, gw_err *err) {
    gw_energy_meter *m = calloc(1, sizeof *m);
    if (m == NULL) {
        gw_fail(err, GW_E_NOMEM, "energy: out of memory");
        return NULL;
    }
    m->options = *options;
    m->root = options->root == NULL || strcmp(options->root, "/") == 0 ? "" : options->root;
    m->usage = (gw_energy_usage){.root = m->root, .workers = options->workers};
    m->written_ns = gw_now_ns();
    read_file(m);
    gw_energy_job *job = gw_energy_record_job(&m->record, &options->job);
    m->changed = options->fresh && m->record.count > 0;
    if (options->fresh) memset(job->joules, 0, sizeof job->joules);
    memcpy(m->before, job->joules, sizeof m->before);
    memcpy(m->shown.joules, m->before, sizeof m->before);
    m->helper = gw_helper_open("gw-energy", err);
    if (m->helper == NULL) {
        free(m);
        return NULL;
    }
    pthread_mutex_init(&m->lock, NULL);
    gw_cond_init(&m->done);
    gw_energy_meter_look(m, 0, 0);
    return m;
}

static void run_last(void *context) {
    gw_energy_meter *m = context;
    if (m->changed) write_file(m, gw_now_ns());
}

bool gw_energy_meter_close(gw_energy_meter *m, uint64_t patience_ns) {
    if (m == NULL) return true;
    if (!m->ends) gw_helper_give(m->helper, run_last, m);
    m->ends = true;
    if (!gw_helper_close_until(m->helper, gw_now_ns() + patience_ns)) {
        gw_log(GW_WARN, "energy",
               "the energy of the run is not written down: its disk, or a counter, has not "
               "answered for %.3g s",
               (double)patience_ns * 1e-9);
        return false;
    }
    pthread_cond_destroy(&m->done);
    pthread_mutex_destroy(&m->lock);
    free(m);
    return true;
}
