#include "net/nccl/nccl.h"

#include "core/base/assert.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 4 /* buckets under way: while one is on the wire, the next ones are being handed to the GPU */
};

typedef enum phase { IDLE = 1, FORMING, READY, SUMMING, DRAINING, LOST } phase;

typedef struct gpu {
    int ordinal, device;
    void *stream, *context;
    gw_nccl_comm *comm; /* the communicator; NULL: there is none */
    void *bucket_end[WINDOW];
} gpu;

struct gw_nccl {
    gw_nccl_api nccl;
    gw_cuda_api cuda;
    gpu gpus[GW_NCCL_GPUS];
    uint32_t gpu_count;
    uint64_t bucket_bytes, form_ns, progress_ns;
    phase phase;
    bool connected; /* the communicator has moved data; NCCL connects its ranks during the first sum */
    /* The sum under way. */
    gw_nccl_piece *pieces;
    uint32_t piece_count;
    uint32_t next_piece; /* the place from which the next bucket is issued */
    uint64_t next_element;
    bool issuing;            /* the newest bucket was handed to NCCL, which is still launching it */
    uint64_t issued, landed; /* buckets launched; buckets that have ended */
    /* The deadline. */
    uint64_t polled_ns, silent_ns;
    gw_err why; /* why the communicator is being ended, or the GPU is lost */
};

/* Errors. */

static bool cuda_fail(const gw_nccl *n, const gpu *g, const char *call, int result, gw_err *err) {
    return gw_fail(err, GW_E_IO, "GPU %d: %s: %s", g->ordinal, call, gw_cuda_text(&n->cuda, result));
}

static bool nccl_fail(const gw_nccl *n, const gpu *g, const char *call, int result, gw_err *err) {
    const char *more = n->nccl.get_last_error(g ? g->comm : NULL);
    gw_code code = result == GW_NCCL_REMOTE_ERROR ? GW_E_PEER : GW_E_IO;
    if (more == NULL) more = "";
    const char *between = more[0] != '\0' ? ": " : "";
    if (g == NULL)
        return gw_fail(err, code, "NCCL: %s: %s%s%s", call, n->nccl.get_error_string(result), between, more);
    return gw_fail(err, code, "NCCL: GPU %d: %s: %s%s%s", g->ordinal, call, n->nccl.get_error_string(result),
                   between, more);
}

static bool went_well(int result) {
    return result == GW_NCCL_SUCCESS || result == GW_NCCL_IN_PROGRESS;
}

/* The clock. */

static void moved(gw_nccl *n) {
    n->silent_ns = 0;
}

static void tick(gw_nccl *n, uint64_t now_ns) {
    uint64_t passed = now_ns > n->polled_ns ? now_ns - n->polled_ns : 0;
    n->silent_ns += passed < GW_NCCL_GAP_NS ? passed : GW_NCCL_GAP_NS;
    n->polled_ns = now_ns;
}

/* The end. */

static void forget_sum(gw_nccl *n) {
    free(n->pieces);
    n->pieces = NULL;
    n->piece_count = n->next_piece = 0;
    n->next_element = n->issued = n->landed = 0;
    n->issuing = false;
}

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
    n->phase = DRAINING;
    moved(n);
}

/* Notes that a GPU is lost. `how` says how that shows; n->why says why the communicator was ended before. */
static gw_nccl_event lose(gw_nccl *n, const gw_err *how, gw_err *err) {
    const gw_err before = n->why;
    n->phase = LOST;
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
        gpu *g = &n->gpus[i];
        int result = n->cuda.stream_query(g->stream);
        if (result == GW_CUDA_NOT_READY) {
            if (n->silent_ns >= n->progress_ns) {
                gw_fail(&how, GW_E_TIMEOUT, "GPU %d does not end what NCCL has aborted (see nvidia-smi)",
                        g->ordinal);
                return lose(n, &how, err);
            }
            empty = false;
        } else if (result != GW_CUDA_SUCCESS) {
            cuda_fail(n, g, "after NCCL has aborted (see dmesg for Xid messages, and nvidia-smi)", result,
                      &how);
            return lose(n, &how, err);
        }
    }
    if (!empty) return GW_NCCL_NOTHING;
    forget_sum(n);
    n->phase = IDLE;
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
    if (!went_well(result)) return nccl_fail(n, NULL, "ncclGroupStart", result, &n->why);
    bool good = true;
    for (uint32_t i = 0; good && i < n->gpu_count; i++) {
        gpu *g = &n->gpus[i];
        int set = n->cuda.context_set_current(g->context);
        if (set != GW_CUDA_SUCCESS) {
            good = cuda_fail(n, g, "cuCtxSetCurrent", set, &n->why);
            break;
        }
        result = n->nccl.comm_init_rank_config(&g->comm, (int)team->ranks, team->id, (int)(team->first + i),
                                               &config);
        if (!went_well(result)) good = nccl_fail(n, g, "ncclCommInitRankConfig", result, &n->why);
    }
    result = n->nccl.group_end(); /* after a failure too: the thread must leave the group */
    if (good && !went_well(result)) good = nccl_fail(n, NULL, "ncclGroupEnd", result, &n->why);
    return good;
}

void gw_nccl_form(gw_nccl *n, const gw_nccl_team *team, uint64_t now_ns) {
    GW_ASSERT(n->phase == IDLE && team->ranks <= INT_MAX && team->first + n->gpu_count <= team->ranks);
    n->phase = FORMING;
    n->connected = false;
    n->polled_ns = now_ns;
    moved(n);
    if (!form_all(n, team)) end(n);
}

/* Whether every communicator has finished its last request. False with *broken: one has failed. */
static bool settled(gw_nccl *n, const char *doing, bool *broken) {
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
            return nccl_fail(n, &n->gpus[i], doing, state, &n->why);
        }
    }
    return all;
}

static gw_nccl_event poll_forming(gw_nccl *n) {
    bool broken;
    if (settled(n, "forming a communicator", &broken)) {
        n->phase = READY;
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

/* Summing. */

void gw_nccl_sum(gw_nccl *n, const gw_nccl_piece *pieces, uint32_t count, uint64_t now_ns) {
    GW_ASSERT(n->phase == READY && count > 0);
    size_t bytes = (size_t)count * n->gpu_count * sizeof *pieces;
    n->pieces = malloc(bytes);
    GW_ASSERT_MEMORY(n->pieces != NULL);
    memcpy(n->pieces, pieces, bytes);
    n->piece_count = count;
    n->phase = SUMMING;
    n->polled_ns = now_ns;
    moved(n);
}

static bool all_issued(const gw_nccl *n) {
    return n->next_piece == n->piece_count;
}

/* Issues the sum of a slice of piece `index` on every GPU. */
static bool issue_slice(gw_nccl *n, uint32_t index, uint64_t first, uint64_t count) {
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        gpu *g = &n->gpus[i];
        const gw_nccl_piece *piece = &n->pieces[(size_t)i * n->piece_count + index];
        size_t offset = first * gw_sum_bytes(piece->type);
        int type = piece->type == GW_SUM_I64 ? GW_NCCL_INT64 : GW_NCCL_FLOAT32;
        int result = n->nccl.all_reduce((const char *)piece->in + offset, (char *)piece->out + offset, count,
                                        type, GW_NCCL_SUM, g->comm, g->stream);
        if (!went_well(result)) return nccl_fail(n, g, "ncclAllReduce", result, &n->why);
    }
    return true;
}

/* Issues one bucket as a group: as many pieces, or as much of one, as fit it. */
static bool issue_bucket(gw_nccl *n) {
    int result = n->nccl.group_start();
    if (!went_well(result)) return nccl_fail(n, NULL, "ncclGroupStart", result, &n->why);
    bool good = true;
    uint64_t left = n->bucket_bytes;
    while (good && !all_issued(n)) {
        const gw_nccl_piece *piece = &n->pieces[n->next_piece];
        uint64_t count = piece->count - n->next_element, fit = left / gw_sum_bytes(piece->type);
        if (count > fit) count = fit;
        if (count > 0) good = issue_slice(n, n->next_piece, n->next_element, count);
        left -= count * gw_sum_bytes(piece->type);
        n->next_element += count;
        if (n->next_element < piece->count) break;
        n->next_piece++;
        n->next_element = 0;
    }
    result = n->nccl.group_end(); /* after a failure too: the thread must leave the group */
    if (good && !went_well(result)) good = nccl_fail(n, NULL, "ncclGroupEnd", result, &n->why);
    n->issuing = good;
    return good;
}

/* Marks the end of the newest bucket, which is on its streams now. */
static bool mark_bucket(gw_nccl *n) {
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        gpu *g = &n->gpus[i];
        int result = n->cuda.context_set_current(g->context);
        if (result == GW_CUDA_SUCCESS)
            result = n->cuda.event_record(g->bucket_end[n->issued % WINDOW], g->stream);
        if (result != GW_CUDA_SUCCESS) return cuda_fail(n, g, "cuEventRecord", result, &n->why);
    }
    n->issuing = false;
    n->issued++;
    moved(n);
    return true;
}

/* Counts the buckets that have ended, in order. */
static bool land_buckets(gw_nccl *n) {
    while (n->landed < n->issued) {
        for (uint32_t i = 0; i < n->gpu_count; i++) {
            gpu *g = &n->gpus[i];
            int result = n->cuda.event_query(g->bucket_end[n->landed % WINDOW]);
            if (result == GW_CUDA_NOT_READY) return true;
            if (result != GW_CUDA_SUCCESS) return cuda_fail(n, g, "during a sum", result, &n->why);
        }
        n->landed++;
        n->connected = true;
        moved(n);
    }
    return true;
}

/* How long there may be no progress. */
static uint64_t patience_of(const gw_nccl *n) {
    return n->connected || n->form_ns < n->progress_ns ? n->progress_ns : n->form_ns;
}

/* Makes progress with the sum. False: it has failed, and n->why says why. */
static bool move_sum(gw_nccl *n) {
    bool broken;
    bool is_settled = settled(n, "during a sum", &broken);
    if (broken) return false;
    if (is_settled && n->issuing && !mark_bucket(n)) return false;
    if (!land_buckets(n)) return false;
    if (is_settled && !all_issued(n) && n->issued - n->landed < WINDOW && !issue_bucket(n)) return false;
    if (n->silent_ns < patience_of(n)) return true;
    return gw_fail(&n->why, GW_E_TIMEOUT, "NCCL: no progress in %s for %llu ms, %llu of its parts done",
                   n->connected ? "a sum" : "a communicator's first sum",
                   (unsigned long long)(patience_of(n) / 1000000), (unsigned long long)n->landed);
}

static gw_nccl_event poll_summing(gw_nccl *n) {
    if (!move_sum(n)) {
        end(n);
        return GW_NCCL_NOTHING;
    }
    if (n->issuing || !all_issued(n) || n->landed < n->issued) return GW_NCCL_NOTHING;
    forget_sum(n);
    n->phase = READY;
    return GW_NCCL_SUMMED;
}

/* Polling and life. */

gw_nccl_event gw_nccl_poll(gw_nccl *n, uint64_t now_ns, gw_err *err) {
    tick(n, now_ns);
    switch (n->phase) {
    case FORMING:
        return poll_forming(n);
    case SUMMING:
        return poll_summing(n);
    case DRAINING:
        return drain(n, err);
    case LOST:
        *err = n->why;
        return GW_NCCL_LOST;
    case IDLE:
    case READY:
        break;
    }
    return GW_NCCL_NOTHING;
}

void gw_nccl_abort(gw_nccl *n, uint64_t now_ns) {
    if (n->phase != FORMING && n->phase != READY && n->phase != SUMMING) return;
    gw_fail(&n->why, GW_E_ABORTED, "NCCL: ended on purpose");
    n->polled_ns = now_ns;
    end(n);
}

bool gw_nccl_is_idle(const gw_nccl *n) {
    return n->phase == IDLE;
}

bool gw_nccl_make_id(const gw_nccl_api *api, gw_nccl_id *id, gw_err *err) {
    int result = api->get_unique_id(id);
    if (result == GW_NCCL_SUCCESS) return true;
    const char *more = api->get_last_error(NULL);
    return gw_fail(err, GW_E_IO, "NCCL: ncclGetUniqueId: %s: %s", api->get_error_string(result),
                   more ? more : "");
}

static bool open_gpu(gw_nccl *n, gpu *g, gw_err *err) {
    int result = n->cuda.device_get(&g->device, g->ordinal);
    if (result != GW_CUDA_SUCCESS) return cuda_fail(n, g, "cuDeviceGet", result, err);
    result = n->cuda.primary_context_retain(&g->context, g->device);
    if (result != GW_CUDA_SUCCESS) {
        g->context = NULL;
        return cuda_fail(n, g, "cuDevicePrimaryCtxRetain", result, err);
    }
    result = n->cuda.context_set_current(g->context);
    if (result != GW_CUDA_SUCCESS) return cuda_fail(n, g, "cuCtxSetCurrent", result, err);
    result = n->cuda.stream_create(&g->stream, GW_CUDA_STREAM_OWN);
    if (result != GW_CUDA_SUCCESS) {
        g->stream = NULL;
        return cuda_fail(n, g, "cuStreamCreate", result, err);
    }
    for (uint32_t i = 0; i < WINDOW; i++) {
        result = n->cuda.event_create(&g->bucket_end[i], GW_CUDA_EVENT_NO_TIMING);
        if (result != GW_CUDA_SUCCESS) {
            g->bucket_end[i] = NULL;
            return cuda_fail(n, g, "cuEventCreate", result, err);
        }
    }
    return true;
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
    n->form_ns = options->form_ns;
    n->progress_ns = options->progress_ns;
    n->phase = IDLE;
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
    GW_ASSERT(n->phase == IDLE || n->phase == LOST);
    for (uint32_t i = 0; n->phase == IDLE && i < n->gpu_count; i++) {
        gpu *g = &n->gpus[i];
        for (uint32_t k = 0; k < WINDOW; k++)
            if (g->bucket_end[k] != NULL) (void)n->cuda.event_destroy(g->bucket_end[k]);
        if (g->stream != NULL) (void)n->cuda.stream_destroy(g->stream);
        if (g->context != NULL) (void)n->cuda.primary_context_release(g->device);
    }
    free(n->pieces);
    free(n);
}
