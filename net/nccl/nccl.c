#include "net/nccl/nccl.h"

#include "core/base/assert.h"
#include "net/nccl/inside.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Errors. */

bool gw_nccl_cuda_fail(const gw_nccl *n, const gw_nccl_gpu *g, const char *call, int result, gw_err *err) {
    return gw_fail(err, GW_E_IO, "GPU %d: %s: %s", g->ordinal, call, gw_cuda_text(&n->cuda, result));
}

bool gw_nccl_fail(const gw_nccl *n, const gw_nccl_gpu *g, const char *call, int result, gw_err *err) {
    const char *more = n->nccl.get_last_error(g ? g->comm : NULL);
    gw_code code = result == GW_NCCL_REMOTE_ERROR ? GW_E_PEER : GW_E_IO;
    if (more == NULL) more = "";
    const char *between = more[0] != '\0' ? ": " : "";
    if (g == NULL)
        return gw_fail(err, code, "NCCL: %s: %s%s%s", call, n->nccl.get_error_string(result), between, more);
    return gw_fail(err, code, "NCCL: GPU %d: %s: %s%s%s", g->ordinal, call, n->nccl.get_error_string(result),
                   between, more);
}

bool gw_nccl_went_well(int result) {
    return result == GW_NCCL_SUCCESS || result == GW_NCCL_IN_PROGRESS;
}

/* The clock. */

void gw_nccl_moved(gw_nccl *n) {
    n->silent_ns = 0;
}

static void tick(gw_nccl *n, uint64_t now_ns) {
    uint64_t passed = now_ns > n->polled_ns ? now_ns - n->polled_ns : 0;
    n->silent_ns += passed < GW_NCCL_GAP_NS ? passed : GW_NCCL_GAP_NS;
    n->polled_ns = now_ns;
}

/* The end. */

/* Aborts all communicators in one group, since the abort of a single one would wait for the others. Aborting
 * is all that NCCL still accepts here, so its results are ignored; the streams show whether it has released
 * the GPUs. */
static void abort_group(gw_nccl *n) {
    (void)n->nccl.group_start();
    for (uint32_t i = 0; i < n->gpu_count; i++)
        if (n->gpus[i].comm != NULL) (void)n->nccl.comm_abort(n->gpus[i].comm);
    (void)n->nccl.group_end();
    for (uint32_t i = 0; i < n->gpu_count; i++) n->gpus[i].comm = NULL;
}

/* Ends the communicator. n->why must be set. */
static void end(gw_nccl *n) {
    abort_group(n);
    n->phase = GW_NCCL_DRAINING;
    gw_nccl_moved(n);
}

/* Notes that a GPU is lost. `how` says how that shows; n->why says why the communicator was ended before. */
static gw_nccl_event lose(gw_nccl *n, const gw_err *how, gw_err *err) {
    const gw_err before = n->why;
    n->phase = GW_NCCL_GONE;
    if (before.code == GW_E_ABORTED)
        n->why = *how;
    else
        gw_fail(&n->why, how->code, "%.230s; it began with: %.230s", how->text, before.text);
    *err = n->why;
    return GW_NCCL_LOST;
}

/* Waits until the streams are empty, after which the memory is the caller's again. Kernels end when they see
 * the abort. */
static gw_nccl_event drain(gw_nccl *n, gw_err *err) {
    bool empty = true;
    gw_err how;
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        gw_nccl_gpu *g = &n->gpus[i];
        int result = n->cuda.stream_query(g->stream);
        if (result == GW_CUDA_NOT_READY) {
            if (n->silent_ns >= n->progress_ns) {
                gw_fail(&how, GW_E_TIMEOUT, "GPU %d does not end what NCCL has aborted (see nvidia-smi)",
                        g->ordinal);
                return lose(n, &how, err);
            }
            empty = false;
        } else if (result != GW_CUDA_SUCCESS) {
            gw_nccl_cuda_fail(n, g, "after NCCL has aborted (see dmesg for Xid messages, and nvidia-smi)",
                              result, &how);
            return lose(n, &how, err);
        }
    }
    if (!empty) return GW_NCCL_NOTHING;
    gw_nccl_forget_sum(n);
    n->phase = GW_NCCL_IDLE;
    *err = n->why;
    return GW_NCCL_ENDED;
}

/* Forming. */

static bool form_all(gw_nccl *n, const gw_nccl_team *team) {
    gw_nccl_config config = {
        .size = sizeof config,
        .magic = (unsigned)GW_NCCL_MAGIC,
        .version = GW_NCCL_OLDEST,
        .blocking = 0,
        .cga_cluster_size = GW_NCCL_UNDEFINED,
        .min_ctas = GW_NCCL_UNDEFINED,
        .max_ctas = GW_NCCL_UNDEFINED,
        .split_share = GW_NCCL_UNDEFINED,
        .traffic_class = GW_NCCL_UNDEFINED,
        .comm_name = "godwit",
        .collnet_enable = GW_NCCL_UNDEFINED,
        .cta_policy = GW_NCCL_UNDEFINED,
        .shrink_share = GW_NCCL_UNDEFINED,
        .nvls_ctas = GW_NCCL_UNDEFINED,
    };
    int result = n->nccl.group_start();
    if (!gw_nccl_went_well(result)) return gw_nccl_fail(n, NULL, "ncclGroupStart", result, &n->why);
    bool good = true;
    for (uint32_t i = 0; good && i < n->gpu_count; i++) {
        gw_nccl_gpu *g = &n->gpus[i];
        int set = n->cuda.context_set_current(g->context);
        if (set != GW_CUDA_SUCCESS) {
            good = gw_nccl_cuda_fail(n, g, "cuCtxSetCurrent", set, &n->why);
            break;
        }
        result = n->nccl.comm_init_rank_config(&g->comm, (int)team->ranks, team->id, (int)(team->first + i),
                                               &config);
        if (!gw_nccl_went_well(result)) good = gw_nccl_fail(n, g, "ncclCommInitRankConfig", result, &n->why);
    }
    result = n->nccl.group_end(); /* after a failure too: the thread must leave the group */
    if (good && !gw_nccl_went_well(result)) good = gw_nccl_fail(n, NULL, "ncclGroupEnd", result, &n->why);
    return good;
}

void gw_nccl_form(gw_nccl *n, const gw_nccl_team *team, uint64_t now_ns) {
    GW_ASSERT(n->phase == GW_NCCL_IDLE && team->ranks <= INT_MAX &&
              team->first + n->gpu_count <= team->ranks);
    n->phase = GW_NCCL_FORMING;
    n->connected = false;
    n->ranks = team->ranks;
    n->narrows = team->narrow && n->narrow != NULL;
    n->polled_ns = now_ns;
    gw_nccl_moved(n);
    if (!form_all(n, team)) end(n);
}

bool gw_nccl_settled(gw_nccl *n, const char *doing, bool *broken) {
    bool all = true;
    *broken = false;
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        int state = GW_NCCL_SUCCESS;
        int result = n->nccl.comm_get_async_error(n->gpus[i].comm, &state);
        if (result != GW_NCCL_SUCCESS) state = result;
        if (state == GW_NCCL_IN_PROGRESS) {
            all = false;
        } else if (state != GW_NCCL_SUCCESS) {
            *broken = true;
            return gw_nccl_fail(n, &n->gpus[i], doing, state, &n->why);
        }
    }
    return all;
}

static gw_nccl_event poll_forming(gw_nccl *n) {
    bool broken;
    if (gw_nccl_settled(n, "forming a communicator", &broken)) {
        n->phase = GW_NCCL_READY;
        return GW_NCCL_FORMED;
    }
    if (!broken && n->silent_ns >= n->form_ns) {
        gw_fail(&n->why, GW_E_TIMEOUT, "NCCL: no communicator after %llu ms",
                (unsigned long long)(n->form_ns / 1000000));
        broken = true;
    }
    if (broken) end(n);
    return GW_NCCL_NOTHING;
}

static gw_nccl_event poll_summing(gw_nccl *n) {
    if (!gw_nccl_move_sum(n)) {
        end(n);
        return GW_NCCL_NOTHING;
    }
    if (n->sum.stage != GW_NCCL_OVER) return GW_NCCL_NOTHING;
    gw_nccl_forget_sum(n);
    n->phase = GW_NCCL_READY;
    return GW_NCCL_SUMMED;
}

/* Polling and life. */

gw_nccl_event gw_nccl_poll(gw_nccl *n, uint64_t now_ns, gw_err *err) {
    tick(n, now_ns);
    switch (n->phase) {
    case GW_NCCL_FORMING:
        return poll_forming(n);
    case GW_NCCL_SUMMING:
        return poll_summing(n);
    case GW_NCCL_DRAINING:
        return drain(n, err);
    case GW_NCCL_GONE:
        *err = n->why;
        return GW_NCCL_LOST;
    case GW_NCCL_IDLE:
    case GW_NCCL_READY:
        break;
    }
    return GW_NCCL_NOTHING;
}

void gw_nccl_abort(gw_nccl *n, uint64_t now_ns) {
    if (n->phase != GW_NCCL_FORMING && n->phase != GW_NCCL_READY && n->phase != GW_NCCL_SUMMING) return;
    gw_fail(&n->why, GW_E_ABORTED, "NCCL: ended on purpose");
    n->polled_ns = now_ns;
    end(n);
}

bool gw_nccl_is_idle(const gw_nccl *n) {
    return n->phase == GW_NCCL_IDLE;
}

bool gw_nccl_make_id(const gw_nccl_api *api, gw_nccl_id *id, gw_err *err) {
    int result = api->get_unique_id(id);
    if (result == GW_NCCL_SUCCESS) return true;
    const char *more = api->get_last_error(NULL);
    return gw_fail(err, GW_E_IO, "NCCL: ncclGetUniqueId: %s: %s", api->get_error_string(result),
                   more ? more : "");
}

static bool open_gpu(gw_nccl *n, gw_nccl_gpu *g, gw_err *err) {
    int result = n->cuda.device_get(&g->device, g->ordinal);
    if (result != GW_CUDA_SUCCESS) return gw_nccl_cuda_fail(n, g, "cuDeviceGet", result, err);
    result = n->cuda.primary_context_retain(&g->context, g->device);
    if (result != GW_CUDA_SUCCESS) {
        g->context = NULL;
        return gw_nccl_cuda_fail(n, g, "cuDevicePrimaryCtxRetain", result, err);
    }
    result = n->cuda.context_set_current(g->context);
    if (result != GW_CUDA_SUCCESS) return gw_nccl_cuda_fail(n, g, "cuCtxSetCurrent", result, err);
    result = n->cuda.stream_create(&g->stream, GW_CUDA_STREAM_OWN);
    if (result != GW_CUDA_SUCCESS) {
        g->stream = NULL;
        return gw_nccl_cuda_fail(n, g, "cuStreamCreate", result, err);
    }
    for (uint32_t i = 0; i < GW_NCCL_WINDOW; i++) {
        result = n->cuda.event_create(&g->part_end[i], GW_CUDA_EVENT_NO_TIMING);
        if (result != GW_CUDA_SUCCESS) {
            g->part_end[i] = NULL;
            return gw_nccl_cuda_fail(n, g, "cuEventCreate", result, err);
        }
    }
    return n->narrow == NULL || n->narrow->open(g->ordinal, &g->words, err);
}

gw_nccl *gw_nccl_open(const gw_nccl_options *options, gw_err *err) {
    GW_ASSERT(options->gpu_count >= 1 && options->gpu_count <= GW_NCCL_GPUS);
    gw_nccl *n = calloc(1, sizeof *n);
    if (!n) {
        gw_fail(err, GW_E_NOMEM, "NCCL: out of memory");
        return NULL;
    }
    n->nccl = *options->nccl;
    n->cuda = *options->cuda;
    n->gpu_count = options->gpu_count;
    n->bucket_bytes = options->bucket_bytes != 0 ? options->bucket_bytes : GW_NCCL_BUCKET_BYTES;
    n->narrow = options->narrow;
    n->narrow_bytes = options->narrow_bytes != 0 ? options->narrow_bytes : GW_NCCL_NARROW_BYTES;
    n->form_ns = options->form_ns;
    n->progress_ns = options->progress_ns;
    n->phase = GW_NCCL_IDLE;
    GW_ASSERT(n->bucket_bytes >= sizeof(int64_t));
    for (uint32_t i = 0; i < n->gpu_count; i++) n->gpus[i].ordinal = options->gpus[i];
    for (uint32_t i = 0; i < n->gpu_count; i++)
        if (!open_gpu(n, &n->gpus[i], err)) {
            gw_nccl_close(n);
            return NULL;
        }
    return n;
}

void gw_nccl_close(gw_nccl *n) {
    if (!n) return;
    GW_ASSERT(n->phase == GW_NCCL_IDLE || n->phase == GW_NCCL_GONE);
    for (uint32_t i = 0; n->phase == GW_NCCL_IDLE && i < n->gpu_count; i++) {
        gw_nccl_gpu *g = &n->gpus[i];
        for (uint32_t k = 0; k < GW_NCCL_WINDOW; k++)
            if (g->part_end[k] != NULL) (void)n->cuda.event_destroy(g->part_end[k]);
        if (n->narrow != NULL) n->narrow->close(g->ordinal, &g->words);
        if (g->stream != NULL) (void)n->cuda.stream_destroy(g->stream);
        if (g->context != NULL) (void)n->cuda.primary_context_release(g->device);
    }
    gw_nccl_forget_sum(n);
    free(n);
}
