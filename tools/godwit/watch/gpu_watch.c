#include "tools/godwit/watch/gpu_watch.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_NS UINT64_C(2000000000)

struct gw_gpu_watch {
    gw_nvml_api api;
    uint32_t count;
    gw_gpu_watch_times times;
    gw_nvml *nvml;                         /* used by the thread only; NULL = could not be opened */
    gw_gpu_health health[GW_WATCHED_GPUS]; /* used by the thread only */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    bool close, ended, looked;
    bool unawaited;     /* gw_gpu_watch_open waits no more for the first look, or for the error */
    gw_err why;         /* why NVML could not be opened */
    uint64_t inside_ns; /* when the thread entered NVML; 0 = it is not in NVML */
    bool hang_told;     /* the log has told that this call hangs */
    gw_watched_gpu gpus[GW_WATCHED_GPUS];
};

static void say(void *context, gw_level level, const char *text) {
    const gw_watched_gpu *gpu = context;
    gw_log(level, "node/gpu", "GPU %d (%s) %s", gpu->ordinal, gpu->name, text);
}

static void look(gw_gpu_watch *w) {
    uint32_t index, xid;
    while (gw_nvml_take_xid(w->nvml, &index, &xid))
        gw_gpu_health_xid(&w->health[index], xid, say, &w->gpus[index]);
    for (uint32_t i = 0; i < w->count; i++) {
        gw_gpu_health *health = &w->health[i];
        gw_watched_gpu *gpu = &w->gpus[i];
        gw_gpu_reading reading;
        gw_nvml_read(w->nvml, i, &reading);
        gw_gpu_health_look(health, &reading, say, gpu);
        pthread_mutex_lock(&w->lock);
        gpu->reading = reading;
        gpu->xids = health->xids;
        gpu->last_xid = health->last_xid;
        gpu->bad = gw_gpu_health_is_bad(health);
        pthread_mutex_unlock(&w->lock);
    }
}

/* Opens NVML on the watching thread, because this may hang as any look may. */
static bool open_nvml(gw_gpu_watch *w) {
    const char *buses[GW_WATCHED_GPUS];
    gw_err err;
    for (uint32_t i = 0; i < w->count; i++) buses[i] = w->gpus[i].bus;
    w->nvml = gw_nvml_open(&w->api, buses, w->count, &err);
    for (uint32_t i = 0; w->nvml != NULL && i < w->count; i++) {
        gw_gpu_names names;
        gw_nvml_identify(w->nvml, i, &names);
        pthread_mutex_lock(&w->lock);
        w->gpus[i].names = names;
        pthread_mutex_unlock(&w->lock);
    }
    if (w->nvml) return true;
    pthread_mutex_lock(&w->lock);
    w->why = err;
    if (w->unawaited)
        gw_log(GW_WARN, "node/gpu", "the load, temperature and errors of the GPUs cannot be read: %s",
               err.text);
    pthread_mutex_unlock(&w->lock);
    return false;
}

/* Called with the lock held, which is released during the look. */
static void look_unlocked(gw_gpu_watch *w) {
    w->inside_ns = gw_now_ns();
    pthread_mutex_unlock(&w->lock);
    look(w);
    pthread_mutex_lock(&w->lock);
    w->inside_ns = 0;
    w->looked = true;
    pthread_cond_broadcast(&w->changed);
    if (w->hang_told) gw_log(GW_INFO, "node/gpu", "NVML answers again");
    w->hang_told = false;
}

static void *run(void *context) {
    gw_gpu_watch *w = context;
    bool open = open_nvml(w);
    uint64_t next = gw_now_ns();
    pthread_mutex_lock(&w->lock);
    while (open && !w->close) {
        if (gw_now_ns() < next) {
            gw_cond_wait_until(&w->changed, &w->lock, next);
            continue;
        }
        look_unlocked(w);
        next = gw_now_ns() + w->times.interval_ns;
    }
    w->inside_ns = 0;
    w->ended = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void free_watch(gw_gpu_watch *w) {
    gw_nvml_close(w->nvml);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Waits for the first look. Returns false where NVML cannot be opened; an NVML that hangs may still answer
 * later. */
static bool await_first_look(gw_gpu_watch *w, gw_err *err) {
    uint64_t end = gw_now_ns() + w->times.open_ns;
    pthread_mutex_lock(&w->lock);
    while (!w->looked && !w->ended)
        if (!gw_cond_wait_until(&w->changed, &w->lock, end)) break;
    w->unawaited = true;
    bool failed = w->ended;
    pthread_mutex_unlock(&w->lock);
    if (failed) *err = w->why;
    return !failed;
}

gw_gpu_watch *gw_gpu_watch_open(const gw_nvml_api *api, const gw_watched_gpu *gpus, uint32_t count,
                                const gw_gpu_watch_times *times, gw_err *err) {
    GW_ASSERT(count >= 1 && count <= GW_WATCHED_GPUS);
    gw_gpu_watch *w = calloc(1, sizeof *w);
    if (!w) {
        gw_fail(err, GW_E_NOMEM, "GPU figures: out of memory");
        return NULL;
    }
    w->api = *api;
    w->count = count;
    w->times = *times;
    memcpy(w->gpus, gpus, count * sizeof *gpus);
    for (uint32_t i = 0; i < count; i++) w->gpus[i].names = (gw_gpu_names){.index = -1, .minor = -1};
    w->inside_ns = gw_now_ns();
    pthread_mutex_init(&w->lock, NULL);
    gw_cond_init(&w->changed);
    int result = pthread_create(&w->thread, NULL, run, w);
    if (result != 0) {
        gw_fail_thread(err, result, "GPU figures: thread");
        free_watch(w);
        return NULL;
    }
    if (await_first_look(w, err)) return w;
    pthread_join(w->thread, NULL);
    free_watch(w);
    return NULL;
}

void gw_gpu_watch_close(gw_gpu_watch *w) {
    if (!w) return;
    uint64_t end = gw_now_ns() + CLOSE_NS;
    pthread_mutex_lock(&w->lock);
    w->close = true;
    pthread_cond_broadcast(&w->changed);
    while (!w->ended && gw_now_ns() < end) gw_cond_wait_until(&w->changed, &w->lock, end);
    bool ended = w->ended;
    pthread_mutex_unlock(&w->lock);
    if (!ended) {
        pthread_detach(w->thread);
        return;
    }
    pthread_join(w->thread, NULL);
    free_watch(w);
}

uint32_t gw_gpu_watch_copy(gw_gpu_watch *w, gw_watched_gpu gpus[GW_WATCHED_GPUS]) {
    pthread_mutex_lock(&w->lock);
    memcpy(gpus, w->gpus, w->count * sizeof *gpus);
    bool hangs = w->inside_ns != 0 && gw_now_ns() - w->inside_ns >= w->times.hang_ns;
    if (hangs && !w->hang_told)
        gw_log(GW_ERROR, "node/gpu",
               "NVML has not answered for %.3g s: the state of the GPUs is not known; look for an Xid in the "
               "kernel's log",
               (double)(gw_now_ns() - w->inside_ns) * 1e-9);
    w->hang_told |= hangs;
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; hangs && i < w->count; i++) {
        gpus[i].reading = (gw_gpu_reading){.answers = false};
        gpus[i].bad = true;
    }
    return w->count;
}
