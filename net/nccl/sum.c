/* How a sum is cut into buckets, narrowed, issued and watched. */
#include "core/base/assert.h"
#include "net/nccl/inside.h"

#include <stdlib.h>
#include <string.h>

enum { NARROW_BITS = 32 };

/* Slices. */

typedef struct slice {
    uint32_t number, piece;
    uint64_t first, count;
    bool exact;
} slice;

/* Takes the next slice of a bucket that has room for *left bytes more. False: the bucket is full, or there are
 * no more elements. */
static bool take_slice(const gw_nccl *n, gw_nccl_place *at, uint64_t *left, slice *s) {
    while (at->piece < n->sum.piece_count) {
        const gw_nccl_piece *piece = &n->sum.pieces[at->piece];
        bool exact = piece->type == GW_SUM_I64;
        uint64_t size = gw_sum_bytes(piece->type), count = piece->count - at->element, fit = *left / size;
        if (exact && n->narrows && count > GW_NCCL_SLICE) count = GW_NCCL_SLICE;
        if (count > fit) count = fit;
        *s = (slice){at->slice, at->piece, at->element, count, exact};
        *left -= count * size;
        at->element += count;
        if (at->element == piece->count)
            *at = (gw_nccl_place){.piece = at->piece + 1, .slice = at->slice};
        else if (count == 0)
            return false;
        at->slice += count > 0;
        if (count > 0) return true;
    }
    return false;
}

static const gw_nccl_piece *piece_on(const gw_nccl *n, uint32_t gpu, const slice *s) {
    return &n->sum.pieces[(size_t)gpu * n->sum.piece_count + s->piece];
}

static int64_t *sum_of(const gw_nccl *n, uint32_t gpu, const slice *s) {
    return (int64_t *)piece_on(n, gpu, s)->out + s->first;
}

static const int64_t *input_of(const gw_nccl *n, uint32_t gpu, const slice *s) {
    return (const int64_t *)piece_on(n, gpu, s)->in + s->first;
}

static bool all_issued(const gw_nccl *n) {
    return n->sum.next.piece == n->sum.piece_count;
}

static bool use_gpu(gw_nccl *n, const gw_nccl_gpu *g) {
    int result = n->cuda.context_set_current(g->context);
    return result == GW_CUDA_SUCCESS || gw_nccl_cuda_fail(n, g, "cuCtxSetCurrent", result, &n->why);
}

/* Parts. */

static bool begin_group(gw_nccl *n) {
    int result = n->nccl.group_start();
    return gw_nccl_went_well(result) || gw_nccl_fail(n, NULL, "ncclGroupStart", result, &n->why);
}

/* Ends a group, also after a failure, since the thread must leave it. */
static bool end_group(gw_nccl *n, bool good) {
    int result = n->nccl.group_end();
    if (good && !gw_nccl_went_well(result)) good = gw_nccl_fail(n, NULL, "ncclGroupEnd", result, &n->why);
    n->sum.issuing = good;
    return good;
}

static bool all_reduce(gw_nccl *n, const gw_nccl_gpu *g, const void *in, void *out, uint64_t count,
                       gw_nccl_type type, int operation) {
    int result = n->nccl.all_reduce(in, out, count, (int)type, operation, g->comm, g->stream);
    return gw_nccl_went_well(result) || gw_nccl_fail(n, g, "ncclAllReduce", result, &n->why);
}

/* Marks the end of the newest part, which is on its streams now. */
static bool mark_part(gw_nccl *n) {
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        gw_nccl_gpu *g = &n->gpus[i];
        if (!use_gpu(n, g)) return false;
        int result = n->cuda.event_record(g->part_end[n->sum.issued % GW_NCCL_WINDOW], g->stream);
        if (result != GW_CUDA_SUCCESS) return gw_nccl_cuda_fail(n, g, "cuEventRecord", result, &n->why);
    }
    n->sum.issuing = false;
    n->sum.issued++;
    gw_nccl_moved(n);
    return true;
}

/* Counts the parts that have ended, in order. */
static bool land_parts(gw_nccl *n) {
    while (n->sum.landed < n->sum.issued) {
        for (uint32_t i = 0; i < n->gpu_count; i++) {
            gw_nccl_gpu *g = &n->gpus[i];
            int result = n->cuda.event_query(g->part_end[n->sum.landed % GW_NCCL_WINDOW]);
            if (result == GW_CUDA_NOT_READY) return true;
            if (result != GW_CUDA_SUCCESS) return gw_nccl_cuda_fail(n, g, "during a sum", result, &n->why);
        }
        n->sum.landed++;
        n->connected = true;
        gw_nccl_moved(n);
    }
    return true;
}

/* Widths. */

static bool is_narrow(const gw_nccl *n, const slice *s) {
    return n->sum.narrow != NULL && s->number < n->sum.measured && n->sum.narrow[s->number];
}

/* Calls `how` for every exact slice of the bucket that begins at *at, on every GPU, whose context is current
 * then. Moves *at behind the bucket. */
static bool each_exact_slice(gw_nccl *n, gw_nccl_place *at,
                             bool how(gw_nccl *, uint32_t gpu, const slice *)) {
    uint64_t left = n->bucket_bytes;
    slice s;
    while (take_slice(n, at, &left, &s))
        for (uint32_t i = 0; s.exact && i < n->gpu_count; i++)
            if (!use_gpu(n, &n->gpus[i]) || !how(n, i, &s)) return false;
    return true;
}

static bool each_exact_slice_of_all(gw_nccl *n, bool how(gw_nccl *, uint32_t gpu, const slice *)) {
    gw_nccl_place at = {0};
    while (at.piece < n->sum.piece_count)
        if (!each_exact_slice(n, &at, how)) return false;
    return true;
}

/* Whether the exact elements are worth narrowing. All ranks come to the same result. */
static bool is_worth_narrowing(const gw_nccl *n) {
    uint64_t exact_bytes = 0;
    for (uint32_t i = 0; i < n->sum.piece_count; i++)
        if (n->sum.pieces[i].type == GW_SUM_I64) exact_bytes += n->sum.pieces[i].count * sizeof(int64_t);
    return n->narrows && exact_bytes > 0 && exact_bytes >= n->narrow_bytes;
}

static uint32_t count_slices(const gw_nccl *n) {
    gw_nccl_place at = {0};
    slice s;
    while (at.piece < n->sum.piece_count) {
        uint64_t left = n->bucket_bytes;
        while (take_slice(n, &at, &left, &s)) continue;
    }
    return at.slice;
}

static bool measure_slice(gw_nccl *n, uint32_t gpu, const slice *s) {
    const gw_nccl_gpu *g = &n->gpus[gpu];
    if (s->number >= n->sum.measured) return true;
    return n->narrow->measure(input_of(n, gpu, s), s->count, g->words.on_gpu + s->number, g->stream, &n->why);
}

static bool issue_widths(gw_nccl *n) {
    uint32_t slices = count_slices(n);
    n->sum.measured = slices < GW_NCCL_WIDTHS ? slices : GW_NCCL_WIDTHS;
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        const gw_nccl_gpu *g = &n->gpus[i];
        if (!use_gpu(n, g) || !n->narrow->clear(&g->words, n->sum.measured, g->stream, &n->why)) return false;
    }
    if (!each_exact_slice_of_all(n, measure_slice) || !begin_group(n)) return false;
    bool good = true;
    for (uint32_t i = 0; good && i < n->gpu_count; i++) {
        uint32_t *words = n->gpus[i].words.on_gpu;
        good = all_reduce(n, &n->gpus[i], words, words, n->sum.measured, GW_NCCL_INT32, GW_NCCL_MAX);
    }
    return end_group(n, good);
}

static bool issue_telling(gw_nccl *n) {
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        const gw_nccl_gpu *g = &n->gpus[i];
        if (!use_gpu(n, g) || !n->narrow->tell(&g->words, n->sum.measured, g->stream, &n->why)) return false;
    }
    return mark_part(n);
}

/* The bits that a sum may have beyond those of its addends. */
static uint32_t carry_bits(uint32_t ranks) {
    uint32_t bits = 0;
    while ((uint64_t)1 << bits < ranks) bits++;
    return bits;
}

/* Decides which slices are narrowed. The ranks have the same widths, since each has the result of one
 * all-reduce; GPUs of one peer that differ have a fault. */
static bool choose_slices(gw_nccl *n) {
    uint32_t count = n->sum.measured, carry = carry_bits(n->ranks);
    const uint32_t *widths = n->gpus[0].words.seen;
    for (uint32_t i = 1; i < n->gpu_count; i++)
        if (memcmp(n->gpus[i].words.seen, widths, count * sizeof *widths) != 0)
            return gw_fail(&n->why, GW_E_CORRUPT, "NCCL: GPU %d and GPU %d have different results of one sum",
                           n->gpus[0].ordinal, n->gpus[i].ordinal);
    n->sum.narrow = calloc(count, 1);
    GW_ASSERT_MEMORY(n->sum.narrow != NULL);
    for (uint32_t i = 0; i < count; i++) n->sum.narrow[i] = widths[i] > 0 && widths[i] + carry <= NARROW_BITS;
    return true;
}

static bool narrow_slice(gw_nccl *n, uint32_t gpu, const slice *s) {
    return !is_narrow(n, s) ||
           n->narrow->narrow(input_of(n, gpu, s), s->count, sum_of(n, gpu, s), n->gpus[gpu].stream, &n->why);
}

static bool widen_slice(gw_nccl *n, uint32_t gpu, const slice *s) {
    return !is_narrow(n, s) || n->narrow->widen(sum_of(n, gpu, s), s->count, n->gpus[gpu].stream, &n->why);
}

static bool issue_widening(gw_nccl *n) {
    return each_exact_slice_of_all(n, widen_slice) && mark_part(n);
}

/* Buckets. */

static bool add_slice(gw_nccl *n, const slice *s) {
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        const gw_nccl_gpu *g = &n->gpus[i];
        const gw_nccl_piece *piece = piece_on(n, i, s);
        uint64_t size = gw_sum_bytes(piece->type), offset = s->first * size;
        bool good;
        if (is_narrow(n, s)) {
            int32_t *at = gw_nccl_narrowed(sum_of(n, i, s), s->count);
            size = sizeof *at;
            good = all_reduce(n, g, at, at, s->count, GW_NCCL_INT32, GW_NCCL_SUM);
        } else {
            good = all_reduce(n, g, (const char *)piece->in + offset, (char *)piece->out + offset, s->count,
                              s->exact ? GW_NCCL_INT64 : GW_NCCL_FLOAT32, GW_NCCL_SUM);
        }
        if (!good) return false;
        n->moved_bytes += s->count * size;
    }
    return true;
}

/* Issues one bucket as a group: as many pieces, or as much of one, as fit it. */
static bool issue_bucket(gw_nccl *n) {
    gw_nccl_place narrowed = n->sum.next;
    bool good = true;
    if (n->sum.narrow != NULL && !each_exact_slice(n, &narrowed, narrow_slice)) return false;
    if (!begin_group(n)) return false;
    uint64_t left = n->bucket_bytes;
    slice s;
    while (good && take_slice(n, &n->sum.next, &left, &s)) good = add_slice(n, &s);
    return end_group(n, good);
}

/* The sum. */

void gw_nccl_sum(gw_nccl *n, const gw_nccl_piece *pieces, uint32_t count, uint64_t now_ns) {
    GW_ASSERT(n->phase == GW_NCCL_READY && count > 0);
    size_t bytes = (size_t)count * n->gpu_count * sizeof *pieces;
    n->sum = (gw_nccl_summing){.pieces = malloc(bytes), .piece_count = count, .stage = GW_NCCL_ADDS};
    GW_ASSERT_MEMORY(n->sum.pieces != NULL);
    memcpy(n->sum.pieces, pieces, bytes);
    if (is_worth_narrowing(n)) n->sum.stage = GW_NCCL_MEASURES;
    n->moved_bytes = 0;
    n->phase = GW_NCCL_SUMMING;
    n->polled_ns = now_ns;
    gw_nccl_moved(n);
}

void gw_nccl_forget_sum(gw_nccl *n) {
    free(n->sum.pieces);
    free(n->sum.narrow);
    n->sum = (gw_nccl_summing){0};
}

uint64_t gw_nccl_moved_bytes(const gw_nccl *n) {
    return n->moved_bytes;
}

/* Starts the next part if the stage has one and it may begin. */
static bool issue_part(gw_nccl *n) {
    bool first = n->sum.issued == n->sum.landed && !n->sum.issuing;
    switch (n->sum.stage) {
    case GW_NCCL_MEASURES:
        return !first || issue_widths(n);
    case GW_NCCL_TELLS:
        return !first || issue_telling(n);
    case GW_NCCL_ADDS:
        return all_issued(n) || n->sum.issued - n->sum.landed >= GW_NCCL_WINDOW || issue_bucket(n);
    case GW_NCCL_WIDENS:
        return !first || issue_widening(n);
    case GW_NCCL_OVER:
        break;
    }
    return true;
}

static bool narrows_any(const gw_nccl *n) {
    return n->sum.narrow != NULL && memchr(n->sum.narrow, true, n->sum.measured) != NULL;
}

/* Goes on to the next stage once all parts of the present one have ended. */
static bool end_stage(gw_nccl *n) {
    switch (n->sum.stage) {
    case GW_NCCL_MEASURES:
        n->sum.stage = GW_NCCL_TELLS;
        return true;
    case GW_NCCL_TELLS:
        n->sum.stage = GW_NCCL_ADDS;
        return choose_slices(n);
    case GW_NCCL_ADDS:
        if (all_issued(n)) n->sum.stage = narrows_any(n) ? GW_NCCL_WIDENS : GW_NCCL_OVER;
        return true;
    case GW_NCCL_WIDENS:
    case GW_NCCL_OVER:
        n->sum.stage = GW_NCCL_OVER;
        return true;
    }
    return true;
}

/* How long there may be no progress. */
static uint64_t patience_of(const gw_nccl *n) {
    return n->connected || n->form_ns < n->progress_ns ? n->progress_ns : n->form_ns;
}

bool gw_nccl_move_sum(gw_nccl *n) {
    bool broken, settled = gw_nccl_settled(n, "during a sum", &broken);
    if (broken) return false;
    if (settled && n->sum.issuing && !mark_part(n)) return false;
    uint64_t landed = n->sum.landed;
    if (!land_parts(n)) return false;
    bool over = !n->sum.issuing && n->sum.issued > 0 && n->sum.landed == n->sum.issued;
    if (over && n->sum.landed > landed && !end_stage(n)) return false;
    if (settled && !n->sum.issuing && !issue_part(n)) return false;
    if (n->silent_ns < patience_of(n)) return true;
    return gw_fail(&n->why, GW_E_TIMEOUT, "NCCL: no progress in %s for %llu ms, %llu of its parts done",
                   n->connected ? "a sum" : "a communicator's first sum",
                   (unsigned long long)(patience_of(n) / 1000000), (unsigned long long)n->sum.landed);
}
