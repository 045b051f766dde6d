#include "tools/godwit/work/gpus.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define FORM_NS                                                                                              \
    UINT64_C(30000000000) /* forming a communicator of many GPUs on a slow network takes seconds */
#define PROGRESS_NS UINT64_C(5000000000)

/* While NCCL is tried again, the attempt is repeated after so long without an order to form a
 * communicator: the leader may have got no id. */
#define NO_ORDER_NS UINT64_C(60000000000)

#define RETRY_NS         UINT64_C(60000000000)   /* the first pause: twice what an attempt that hangs takes */
#define LONGEST_PAUSE_NS UINT64_C(3600000000000) /* pauses double until this */

struct gw_gpus {
    gw_gpus_options options;
    gw_gpu_team *team;
    gw_gpu_sums *sums;
    /* What goes from the thread of the sums to the loop, under the lock. */
    pthread_mutex_t lock;
    bool id_waits; /* `id` has been made, and the loop has not taken it */
    gw_nccl_id id;
    gw_fence formed; /* of the last communicator that was formed */

    atomic_uint failures; /* sums that NCCL failed in a row */
    atomic_uint pauses;   /* pauses in a row without a right sum between them */
    atomic_bool paused;   /* NCCL is not used */
    atomic_bool lost;     /* a GPU can be used no more */
    /* Members of the loop's thread. */
    bool in_view;
    gw_view view;
    bool trying; /* paused, but takes part in forming a communicator */
    gw_timer retry;
};

/* Pauses of NCCL, on the loop. */

static bool is_alone(const gw_gpus *g) {
    return g->view.count == 1 && g->options.count == 1;
}

static void try_again(void *context);

static void set_retry(gw_gpus *g, uint64_t pause_ns) {
    gw_err err;
    GW_ASSERT_MEMORY(gw_timer_set(g->options.loop, &g->retry, gw_now_ns() + pause_ns, try_again, g, &err));
}

/* Forms the view's communicator, if there is one to form. */
static void enter(gw_gpus *g) {
    bool may = !atomic_load(&g->lost) && (g->trying || !atomic_load(&g->paused));
    if (g->trying) set_retry(g, NO_ORDER_NS * g->options.time_scale_percent / 100);
    if (g->in_view && may && !is_alone(g))
        gw_gpu_team_install(g->team, &g->view);
    else
        gw_gpu_team_leave(g->team);
}

static void try_again(void *context) {
    gw_gpus *g = context;
    g->trying = true;
    enter(g);
}

static void pause_nccl(void *context) {
    gw_gpus *g = context;
    uint32_t doublings = atomic_fetch_add(&g->pauses, 1);
    uint64_t first = g->options.retry_ns != 0 ? g->options.retry_ns : RETRY_NS;
    uint64_t pause = doublings < 10 ? first << doublings : LONGEST_PAUSE_NS;
    if (pause > LONGEST_PAUSE_NS) pause = LONGEST_PAUSE_NS;
    g->trying = false;
    enter(g);
    gw_log(GW_WARN, "work/gpus",
           "sums go through host memory, which takes longer; NCCL is tried again in %" PRIu64 " s",
           pause / 1000000000);
    set_retry(g, pause);
}

static void use_again(void *context) {
    gw_gpus *g = context;
    pthread_mutex_lock(&g->lock);
    gw_fence fence = g->formed;
    pthread_mutex_unlock(&g->lock);
    bool present =
        g->in_view && fence.epoch == g->view.epoch && gw_view_name_equal(&fence.view, &g->view.name);
    if (!g->trying || !present) return;
    g->trying = false;
    gw_timer_cancel(&g->retry);
    atomic_store(&g->failures, GW_GPUS_FAILURES - 1);
    atomic_store(&g->paused, false);
    gw_log(GW_INFO, "work/gpus", "NCCL has formed a communicator again, and sums go by it");
}

static void pause_again(void *context) {
    gw_gpus *g = context;
    if (g->trying) pause_nccl(g);
}

/* Callbacks on the thread of the sums. */

/* Has the loop call a function. */
static void post(gw_gpus *g, gw_loop_call *call) {
    gw_err err;
    GW_ASSERT_MEMORY(gw_loop_post(g->options.loop, call, g, &err));
}

static void take_id(void *context) {
    gw_gpus *g = context;
    pthread_mutex_lock(&g->lock);
    bool waits = g->id_waits;
    gw_nccl_id id = g->id;
    g->id_waits = false;
    pthread_mutex_unlock(&g->lock);
    if (waits) gw_gpu_team_id(g->team, &id);
}

static void id_made(void *context, const gw_nccl_id *id) {
    gw_gpus *g = context;
    pthread_mutex_lock(&g->lock);
    g->id_waits = true;
    g->id = *id;
    pthread_mutex_unlock(&g->lock);
    post(g, take_id);
}

static void formed(void *context, const gw_fence *fence) {
    gw_gpus *g = context;
    pthread_mutex_lock(&g->lock);
    g->formed = *fence;
    pthread_mutex_unlock(&g->lock);
    if (atomic_load(&g->paused)) post(g, use_again);
}

static void failed(void *context, const gw_fence *fence, const gw_err *why) {
    gw_gpus *g = context;
    gw_log(GW_WARN, "work/gpus", "view %" PRIu64 ": %s", fence->epoch, why->text);
    if (atomic_load(&g->paused)) post(g, pause_again);
}

static void lost(void *context, const gw_err *why) {
    gw_gpus *g = context;
    atomic_store(&g->lost, true);
    g->options.lost(g->options.context, why);
}

static void begin_pause(gw_gpus *g) {
    atomic_store(&g->paused, true);
    post(g, pause_nccl);
}

static void done(void *context, const gw_collective_result *result) {
    gw_gpus *g = context;
    if (result->status == GW_COLLECTIVE_OK) atomic_store(&g->failures, 0);
    if (result->status == GW_COLLECTIVE_FAILED && atomic_fetch_add(&g->failures, 1) + 1 == GW_GPUS_FAILURES) {
        gw_log(GW_WARN, "work/gpus", "NCCL has failed %d times in a row, the last time: %s", GW_GPUS_FAILURES,
               result->err->text);
        begin_pause(g);
    }
    g->options.done(g->options.context, result);
}

/* Callbacks and calls on the loop. */

static void send(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length) {
    gw_gpus *g = context;
    g->options.send(g->options.context, to, bytes, length);
}

static void make_id(void *context, const gw_fence *fence) {
    gw_gpus *g = context;
    pthread_mutex_lock(&g->lock);
    bool waits = g->id_waits; /* an id that was asked for before serves as well */
    pthread_mutex_unlock(&g->lock);
    if (!waits) gw_gpu_sums_make_id(g->sums, fence);
}

static void form(void *context, const gw_fence *fence, const gw_nccl_team *team) {
    gw_gpus *g = context;
    if (g->trying) gw_timer_cancel(&g->retry); /* `formed` or `failed` follows */
    gw_gpu_sums_form(g->sums, fence, team);
}

void gw_gpus_install(gw_gpus *g, const gw_view *view) {
    gw_gpu_sums_abort(g->sums);
    g->in_view = true;
    g->view = *view;
    enter(g);
}

void gw_gpus_leave(gw_gpus *g) {
    g->in_view = false;
    enter(g);
    gw_gpu_sums_abort(g->sums);
}

void gw_gpus_linked(gw_gpus *g, const gw_peer_id *peer) {
    gw_gpu_team_linked(g->team, peer);
}

void gw_gpus_hear(gw_gpus *g, const gw_peer_id *from, const uint8_t *bytes, size_t length) {
    gw_err err;
    if (!gw_gpu_team_hear(g->team, from, bytes, length, &err)) gw_log(GW_WARN, "work/gpus", "%s", err.text);
}

bool gw_gpus_ready(gw_gpus *g) {
    return !atomic_load(&g->lost) && !atomic_load(&g->paused);
}

void gw_gpus_trust(gw_gpus *g) {
    atomic_store(&g->pauses, 0);
}

void gw_gpus_distrust(gw_gpus *g) {
    if (atomic_load(&g->paused)) return;
    gw_log(GW_WARN, "work/gpus", "a sum by NCCL is wrong");
    begin_pause(g);
}

void gw_gpus_start(gw_gpus *g, const gw_gpu_call *call) {
    gw_gpu_sums_start(g->sums, call);
}

void gw_gpus_abort(gw_gpus *g) {
    gw_gpu_sums_abort(g->sums);
}

uint64_t gw_gpus_inside_since(gw_gpus *g) {
    return gw_gpu_sums_inside_since(g->sums);
}

gw_gpu_cuts gw_gpus_cut(gw_gpus *g) {
    return gw_gpu_sums_cut(g->sums);
}

/* Opening and closing. */

gw_gpus *gw_gpus_open(const gw_gpus_options *options, gw_err *err) {
    gw_gpus *g = calloc(1, sizeof *g);
    if (!g) {
        gw_fail(err, GW_E_NOMEM, "work/gpus: out of memory");
        return NULL;
    }
    g->options = *options;
    pthread_mutex_init(&g->lock, NULL);
    gw_gpu_team_world world = {.context = g, .send = send, .make_id = make_id, .form = form};
    gw_nccl_options nccl = {
        .nccl = options->nccl,
        .cuda = options->cuda,
        .gpus = options->ordinals,
        .gpu_count = options->count,
        .form_ns = FORM_NS * options->time_scale_percent / 100,
        .progress_ns = PROGRESS_NS * options->time_scale_percent / 100,
        .narrow = options->narrow,
        .narrow_bytes = options->narrow_bytes,
    };
    gw_gpu_team_share share = {.gpus = options->count, .narrow = options->narrow != NULL};
    gw_gpu_sums_events events = {
        .context = g, .id_made = id_made, .formed = formed, .failed = failed, .lost = lost, .done = done};
    g->team = gw_gpu_team_open(&options->self, &share, &world, err);
    g->sums = g->team ? gw_gpu_sums_open(&nccl, &events, err) : NULL;
    if (g->sums) return g;
    gw_gpu_team_close(g->team);
    pthread_mutex_destroy(&g->lock);
    free(g);
    return NULL;
}

bool gw_gpus_close(gw_gpus *g, uint64_t patience_ns) {
    if (!g) return true;
    if (!gw_gpu_sums_close(g->sums, patience_ns)) return false;
    gw_timer_cancel(&g->retry);
    gw_gpu_team_close(g->team);
    pthread_mutex_destroy(&g->lock);
    free(g);
    return true;
}
