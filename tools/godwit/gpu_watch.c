#include "tools/godwit/gpu_watch.h"

#include "core/check.h"
#include "net/condition.h"
#include "net/loop.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_NS UINT64_C(2000000000)

struct gw_gpu_watch {
    gw_nvml *nvml;
    uint32_t count;
    uint64_t interval_ns;
    gw_gpu_health health[GW_WATCHED_GPUS]; /* the thread's */
    pthread_t thread;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t changed;
    bool close, ended;
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

static void *run(void *context) {
    gw_gpu_watch *w = context;
    uint64_t next = gw_now_ns() + w->interval_ns;
    pthread_mutex_lock(&w->lock);
    while (!w->close) {
        if (gw_now_ns() < next) {
            gw_cond_wait_until(&w->changed, &w->lock, next);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        look(w);
        next = gw_now_ns() + w->interval_ns;
        pthread_mutex_lock(&w->lock);
    }
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

gw_gpu_watch *gw_gpu_watch_open(const gw_nvml_api *api, const gw_watched_gpu *gpus, uint32_t count,
                                uint64_t interval_ns, gw_err *err) {
    GW_CHECK(count >= 1 && count <= GW_WATCHED_GPUS);
    gw_gpu_watch *w = calloc(1, sizeof *w);
    if (!w) {
        gw_fail(err, GW_E_NOMEM, "GPU figures: out of memory");
        return NULL;
    }
    const char *buses[GW_WATCHED_GPUS];
    for (uint32_t i = 0; i < count; i++) {
        w->gpus[i] = gpus[i];
        buses[i] = w->gpus[i].bus;
    }
    w->count = count;
    w->interval_ns = interval_ns;
    w->nvml = gw_nvml_open(api, buses, count, err);
    if (!w->nvml) {
        free(w);
        return NULL;
    }
    pthread_mutex_init(&w->lock, NULL);
    gw_cond_init(&w->changed);
    look(w);
    int result = pthread_create(&w->thread, NULL, run, w);
    if (result == 0) return w;
    gw_fail_errno(err, result, "GPU figures: thread");
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
    pthread_mutex_unlock(&w->lock);
    return w->count;
}
