#include "tools/godwit/command/inspect/report.h"

#include "core/base/assert.h"
#include "kernels/math/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adds squares over the bytes of a tensor, which come in pieces; a piece may end in the middle of an
 * element. */
typedef struct square_sum {
    gw_dtype dtype;
    size_t element_bytes;
    uint8_t carry[8];
    size_t carried;
    long double sum;
    double last; /* value of the last element */
} square_sum;

static double element_value(gw_dtype dtype, const uint8_t *at) {
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
    } value = {0};
    switch (dtype) {
    case GW_F32:
        memcpy(&value, at, 4);
        return (double)value.f32;
    case GW_F64:
        memcpy(&value, at, 8);
        return value.f64;
    case GW_I32:
        memcpy(&value, at, 4);
        return (double)value.i32;
    case GW_I64:
        memcpy(&value, at, 8);
        return (double)value.i64;
    case GW_U8:
    case GW_BOOL:
        return (double)*at;
    case GW_I8:
        return (double)(int8_t)*at;
    case GW_I16:
        return (double)(int16_t)(at[0] | at[1] << 8);
    case GW_F16:
        return (double)gw_half_value((uint16_t)(at[0] | at[1] << 8));
    case GW_BF16:
        return (double)gw_bfloat_value((uint16_t)(at[0] | at[1] << 8));
    }
    return NAN;
}

static void add_squares(square_sum *s, const uint8_t *bytes, size_t count) {
    if (s->carried > 0) {
        size_t taken = s->element_bytes - s->carried < count ? s->element_bytes - s->carried : count;
        GW_ASSERT(s->carried + taken <= sizeof s->carry);
        memcpy(s->carry + s->carried, bytes, taken);
        s->carried += taken;
        bytes += taken;
        count -= taken;
        if (s->carried < s->element_bytes) return;
        s->last = element_value(s->dtype, s->carry);
        s->sum += (long double)s->last * s->last;
        s->carried = 0;
    }
    for (; count >= s->element_bytes; bytes += s->element_bytes, count -= s->element_bytes) {
        s->last = element_value(s->dtype, bytes);
        s->sum += (long double)s->last * s->last;
    }
    if (count == 0) return;
    s->carried = count & 7; /* less than an element */
    memcpy(s->carry, bytes, s->carried);
}

/* A walk through the tensors, in step with the chunks. */
typedef struct walk {
    gw_inspect_report *report;
    uint32_t tensor; /* the first tensor that ends behind the current chunk's beginning */
    uint64_t begin;  /* offset of its first byte in the state image */
    square_sum sum;  /* its sum so far */
} walk;

static uint64_t tensor_bytes(const gw_tensor *tensor) {
    return gw_tensor_elements(tensor) * gw_dtype_bytes(tensor->dtype);
}

static void begin_tensor(walk *w) {
    const gw_manifest *manifest = w->report->manifest;
    if (w->tensor == manifest->tensor_count) return;
    gw_dtype dtype = manifest->tensors[w->tensor].dtype;
    w->sum = (square_sum){.dtype = dtype, .element_bytes = gw_dtype_bytes(dtype)};
}

/* Feeds chunk `index` to the tensors that it holds parts of. `bytes` is NULL where the chunk is missing or
 * damaged. */
static void feed_chunk(walk *w, uint32_t index, const uint8_t *bytes) {
    const gw_manifest *manifest = w->report->manifest;
    uint64_t first = gw_chunk_offset(index), end = first + gw_chunk_length(manifest->state_bytes, index);
    while (w->tensor < manifest->tensor_count) {
        gw_inspect_norm *norm = &w->report->norms[w->tensor];
        uint64_t tensor_end = w->begin + tensor_bytes(&manifest->tensors[w->tensor]);
        uint64_t from = w->begin > first ? w->begin : first, to = tensor_end < end ? tensor_end : end;
        if (from < to) {
            norm->chunks++;
            norm->absent += bytes == NULL;
            if (bytes != NULL && norm->absent == 0) add_squares(&w->sum, bytes + (from - first), to - from);
        }
        if (tensor_end > end) return;
        norm->norm = (double)sqrtl(w->sum.sum);
        norm->last = w->sum.last;
        w->begin = tensor_end;
        w->tensor++;
        begin_tensor(w);
    }
}

static void collect_chunks(gw_store *store, uint8_t *bytes, gw_inspect_report *report) {
    const gw_manifest *manifest = report->manifest;
    walk w = {.report = report};
    begin_tensor(&w);
    for (uint32_t i = 0; i < manifest->chunk_count; i++) {
        gw_err err = {.code = GW_E_NOTFOUND};
        uint32_t length = gw_chunk_length(manifest->state_bytes, i);
        bool read = store != NULL && gw_store_read(store, &manifest->chunks[i], bytes, length, &err);
        bool absent = !read && err.code == GW_E_NOTFOUND;
        report->status[i] = read ? GW_CHUNK_HELD : absent ? GW_CHUNK_MISSING : GW_CHUNK_DAMAGED;
        report->held += read;
        report->missing += absent;
        if (!read && !absent && report->damaged++ == 0) report->why = err;
        feed_chunk(&w, i, read ? bytes : NULL);
    }
}

bool gw_inspect_collect(const gw_manifest *manifest, gw_store *store, gw_inspect_report *report,
                        gw_err *err) {
    *report = (gw_inspect_report){.manifest = manifest};
    report->status = calloc(manifest->chunk_count + 1u, sizeof *report->status);
    report->norms = calloc(manifest->tensor_count + 1u, sizeof *report->norms);
    uint8_t *bytes = malloc(GW_CHUNK_BYTES);
    bool done = report->status != NULL && report->norms != NULL && bytes != NULL;
    if (done)
        collect_chunks(store, bytes, report);
    else
        gw_inspect_report_free(report);
    free(bytes);
    return done || gw_fail(err, GW_E_NOMEM, "out of memory");
}

const gw_service_holder *gw_inspect_holder(const gw_inspect_report *report, uint32_t chunk) {
    for (uint32_t i = 0; report->from != NULL && i < report->from->holders.count; i++)
        if (gw_holder_has(&report->from->holders.list[i], chunk)) return &report->from->holders.list[i];
    return NULL;
}

/* Counts the chunks of each tensor that other peers have. */
static void note_tensors(gw_inspect_report *report) {
    const gw_manifest *manifest = report->manifest;
    uint64_t begin = 0;
    for (uint32_t t = 0; t < manifest->tensor_count; t++) {
        uint64_t bytes = tensor_bytes(&manifest->tensors[t]);
        uint32_t last = bytes > 0 ? (uint32_t)((begin + bytes - 1) / GW_CHUNK_BYTES) : 0;
        for (uint32_t c = (uint32_t)(begin / GW_CHUNK_BYTES); bytes > 0 && c <= last; c++)
            report->norms[t].others +=
                report->status[c] != GW_CHUNK_HELD && gw_inspect_holder(report, c) != NULL;
        begin += bytes;
    }
}

void gw_inspect_note_others(gw_inspect_report *report, const gw_inspect_others *others) {
    report->from = others;
    for (uint32_t i = 0; others->asked && i < report->manifest->chunk_count; i++) {
        if (report->status[i] != GW_CHUNK_MISSING || gw_inspect_holder(report, i) == NULL) continue;
        report->status[i] = GW_CHUNK_OTHERS;
        report->others++;
        report->missing--;
    }
    note_tensors(report);
}

bool gw_inspect_is_result(const gw_tensor *tensor) {
    return tensor->dtype == GW_F64 && gw_tensor_elements(tensor) == 1;
}

void gw_inspect_fetch_results(gw_inspect_report *report, gw_client *client, gw_inspect_others *others) {
    const gw_manifest *manifest = report->manifest;
    uint8_t *bytes = malloc(GW_CHUNK_BYTES);
    uint32_t here = UINT32_MAX; /* the chunk in `bytes` */
    uint64_t begin = 0;
    bool good = bytes != NULL;
    for (uint32_t t = 0; t < manifest->tensor_count && good; t++) {
        uint64_t size = tensor_bytes(&manifest->tensors[t]), in_chunk = begin % GW_CHUNK_BYTES;
        uint32_t chunk = (uint32_t)(begin / GW_CHUNK_BYTES);
        gw_inspect_norm *norm = &report->norms[t];
        begin += size;
        if (norm->absent == 0 || norm->chunks > 1 || !gw_inspect_is_result(&manifest->tensors[t])) continue;
        gw_err ignored;
        if (chunk != here) good = gw_client_chunk(client, manifest, chunk, &others->holders, bytes, &ignored);
        if (!good) break;
        here = chunk;
        norm->last = element_value(GW_F64, bytes + in_chunk);
        norm->norm = fabs(norm->last);
        norm->absent = norm->others = 0;
    }
    free(bytes);
}

void gw_inspect_report_free(gw_inspect_report *report) {
    free(report->status);
    free(report->norms);
    free(report->command);
    *report = (gw_inspect_report){0};
}

uint32_t gw_inspect_count_held(const gw_manifest *manifest, gw_store *store) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < manifest->chunk_count; i++)
        held += gw_store_has(store, &manifest->chunks[i], gw_chunk_length(manifest->state_bytes, i));
    return held;
}
