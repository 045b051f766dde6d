/* The state in the GPU's memory. One unit of work is all of it, since a GPU is idle while the host waits
 * between small units. Copies for checkpoints and joins go through two pinned buffers on a stream of their
 * own, so that one is filled while the other is emptied, and shards continue meanwhile. */
#include "kernels/cuda/device/inside.h"

#include "core/base/assert.h"
#include "core/state/chunk.h"
#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/host/fpmode.h"

#include <stdlib.h>
#include <string.h>

/* The size of a pinned buffer: an eighth of a chunk (core/state/chunk.h), which readers ask for at once, so
 * that most of a chunk is passed on while the rest is copied. */
enum { BOUNCE_BYTES = GW_CHUNK_BYTES / 8 };
/* The words in which the two parts of a gw_state_print are summed. */
enum { PRINT_READ, PRINT_REST, PRINT_WORDS };

static bool is_small(const gw_layout *layout, uint32_t tensor) {
    return layout->tensors[tensor].role == GW_STATE && layout->of[tensor].elements <= GW_GPU_SMALL;
}

size_t gw_cuda_state_bytes(const gw_layout *layout) {
    size_t bytes = 0;
    for (uint32_t t = 0; t < layout->tensor_count; t++)
        if (layout->tensors[t].role == GW_STATE) bytes += gw_cuda_aligned(layout->of[t].bytes);
    return bytes;
}

/* Small tensors that lie one behind the other in the image, so that one copy brings them to the host. */
struct gw_cuda_run {
    const char *image;
    char *small; /* on the host */
    size_t bytes;
};

/* Starts a new run of small tensors, unless the last one ends at this place of the image. */
static void extend_runs(gw_cuda_device *d, const char *image, char *small, size_t bytes) {
    struct gw_cuda_run *run = d->run_count > 0 ? &d->runs[d->run_count - 1] : NULL;
    if (run == NULL || run->image + run->bytes != image) {
        run = &d->runs[d->run_count++];
        *run = (struct gw_cuda_run){.image = image, .small = small};
    }
    run->bytes += bytes;
}

static bool lay_out(gw_cuda_device *d, gw_err *err) {
    size_t small = 0, bytes = gw_cuda_state_bytes(&d->layout);
    void *memory;
    for (uint32_t t = 0; t < d->layout.tensor_count; t++)
        if (is_small(&d->layout, t)) small += gw_cuda_aligned(d->layout.of[t].bytes);
    if (!gw_cuda_allocate(d->gpu.ordinal, bytes, &memory, err)) return gw_fail_in(err, "state");
    d->image = memory;
    d->image_bytes = bytes;
    if (!gw_cuda_pin(d->gpu.ordinal, small, &d->small_memory, err)) return gw_fail_in(err, "state");
    char *next = d->image, *next_small = d->small_memory;
    for (uint32_t t = 0; t < d->layout.tensor_count; t++) {
        if (d->layout.tensors[t].role != GW_STATE) continue;
        size_t room = gw_cuda_aligned(d->layout.of[t].bytes);
        d->state[t] = next;
        next += room;
        if (!is_small(&d->layout, t)) continue;
        d->state_small[t] = memset(next_small, 0, room);
        extend_runs(d, d->state[t], next_small, room);
        next_small += room;
    }
    return true;
}

/* Whether a state tensor is so small that starting a fingerprint of its own would take longer than computing
 * it. */
static bool is_in_table(const gw_layout *layout, uint32_t tensor) {
    enum { MOST_BYTES = 32 << 10 };
    return layout->tensors[tensor].role == GW_STATE && layout->of[tensor].bytes <= MOST_BYTES;
}

/* Lists the small tensors on the GPU. */
static bool make_table(gw_cuda_device *d, gw_err *err) {
    const gw_layout *layout = &d->layout;
    gw_cuda_printed *table = calloc(layout->tensor_count, sizeof *table);
    if (table == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", layout->tensor_count);
    uint32_t count = 0;
    for (uint32_t t = 0; t < layout->tensor_count; t++)
        if (is_in_table(layout, t))
            table[count++] =
                (gw_cuda_printed){.first = layout->of[t].first_word,
                                  .count = (layout->of[t].bytes + 7) / 8,
                                  .words = d->state[t],
                                  .total = layout->tensors[t].apply_only ? PRINT_REST : PRINT_READ};
    void *memory = NULL;
    size_t bytes = count * sizeof *table;
    bool good = count == 0 || gw_cuda_allocate(d->gpu.ordinal, bytes, &memory, err);
    if (good && count > 0)
        good = gw_cuda_try(d->gpu.ordinal, cudaMemcpy(memory, table, bytes, cudaMemcpyHostToDevice), err,
                           "copying the list of small tensors");
    d->table = memory;
    d->table_count = count;
    free(table);
    return good;
}

bool gw_cuda_state_open(gw_cuda_device *d, gw_err *err) {
    int gpu = d->gpu.ordinal;
    void *print, *print_host;
    const size_t print_bytes = PRINT_WORDS * sizeof *d->print;
    d->state = calloc(d->layout.tensor_count, sizeof *d->state);
    d->state_small = calloc(d->layout.tensor_count, sizeof *d->state_small);
    d->runs = calloc(d->layout.tensor_count, sizeof *d->runs);
    if (d->state == NULL || d->state_small == NULL || d->runs == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", d->layout.tensor_count);
    if (!lay_out(d, err) || !make_table(d, err)) return false;
    if (!gw_cuda_allocate(gpu, print_bytes, &print, err)) return false;
    d->print = print;
    if (!gw_cuda_pin(gpu, print_bytes, &print_host, err)) return false;
    d->print_host = print_host;
    for (int i = 0; i < 2; i++)
        if (!gw_cuda_pin(gpu, BOUNCE_BYTES, &d->bounce[i], err) ||
            !gw_cuda_try(gpu, cudaEventCreateWithFlags(&d->bounced[i], cudaEventDisableTiming), err,
                         "cudaEventCreate"))
            return false;
    return gw_cuda_try(gpu, cudaStreamCreateWithFlags(&d->transfer, cudaStreamNonBlocking), err,
                       "cudaStreamCreate");
}

void gw_cuda_state_close(gw_cuda_device *d) {
    int gpu = d->gpu.ordinal;
    if (d->transfer != NULL) (void)cudaStreamDestroy(d->transfer);
    for (int i = 0; i < 2; i++) {
        if (d->bounced[i] != NULL) (void)cudaEventDestroy(d->bounced[i]);
        gw_cuda_unpin(gpu, d->bounce[i]);
    }
    gw_cuda_free(gpu, d->image);
    gw_cuda_free(gpu, d->table);
    gw_cuda_free(gpu, d->print);
    gw_cuda_unpin(gpu, d->print_host);
    gw_cuda_unpin(gpu, d->small_memory);
    free(d->state);
    free(d->state_small);
    free(d->runs);
}

/* Units. */

static bool work_on_group(gw_cuda_device *d, gw_unit_work work, const gw_range *range, gw_err *err) {
    const gw_job_gpu *gpu = d->type->gpu;
    gw_state state = {d->state};
    if (work == GW_UNIT_INIT)
        return gpu->init(d->job, d->side, range, &state, d->control, err) ||
               gw_fail_in(err, "job %s: init", d->type->name);
    GW_ASSERT(work == GW_UNIT_APPLY);
    gw_sums sums = {d->sum, d->layout.tensors, NULL};
    const uint64_t step = d->result.step;
    return gpu->apply(d->job, d->side, step, range, &sums, &d->result.scalars, &state, d->control, err) ||
           gw_fail_in(err, "job %s: step %llu: apply", d->type->name, (unsigned long long)step);
}

/* Works on each group as a whole: the layout's units of one group are consecutive. */
static bool work_on_all(gw_cuda_device *d, gw_unit_work work, gw_err *err) {
    for (uint64_t u = 0; u < d->layout.unit_count;) {
        gw_range range = d->layout.units[u].range;
        for (u++; u < d->layout.unit_count && d->layout.units[u].range.group == range.group; u++)
            range.count += d->layout.units[u].range.count;
        if (!work_on_group(d, work, &range, err)) return false;
    }
    return true;
}

/* Starts what must follow a change of the state: the job's copies of it, and the host's copies of small
 * tensors. */
static bool follow_state(gw_cuda_device *d, cudaStream_t stream, gw_err *err) {
    gw_state state = {d->state};
    if (d->type->gpu->derive != NULL && !d->type->gpu->derive(d->job, d->side, &state, stream, err))
        return gw_fail_in(err, "job %s: derive", d->type->name);
    for (uint32_t i = 0; i < d->run_count; i++)
        if (!gw_cuda_try(d->gpu.ordinal,
                         cudaMemcpyAsync(d->runs[i].small, d->runs[i].image, d->runs[i].bytes,
                                         cudaMemcpyDeviceToHost, stream),
                         err, "copying small state tensors"))
            return false;
    return true;
}

static bool start_hash(gw_cuda_device *d, gw_unit_work work, gw_err *err) {
    int gpu = d->gpu.ordinal;
    const size_t bytes = PRINT_WORDS * sizeof *d->print;
    if (!gw_cuda_try(gpu, cudaMemsetAsync(d->print, 0, bytes, d->control), err, "cudaMemset")) return false;
    /* The last word of a tensor is padded: the bytes behind it are zeros. */
    uint32_t without = work == GW_UNIT_HASH_READ ? PRINT_REST : PRINT_WORDS;
    if (!gw_cuda_try(gpu, gw_cuda_state_fingerprints(d->table, d->table_count, without, d->print, d->control),
                     err, "fingerprints of small state tensors"))
        return false;
    for (uint32_t t = 0; t < d->layout.tensor_count; t++) {
        const gw_layout_tensor *of = &d->layout.of[t];
        const gw_tensor *tensor = &d->layout.tensors[t];
        if (d->state[t] == NULL || is_in_table(&d->layout, t) ||
            (work == GW_UNIT_HASH_READ && tensor->apply_only))
            continue;
        unsigned long long *part = d->print + (tensor->apply_only ? PRINT_REST : PRINT_READ);
        if (!gw_cuda_try(
                gpu,
                gw_cuda_state_fingerprint(of->first_word, (of->bytes + 7) / 8, d->state[t], part, d->control),
                err, "fingerprint of state tensor '%s'", tensor->name))
            return false;
    }
    return gw_cuda_try(gpu,
                       cudaMemcpyAsync(d->print_host, d->print, bytes, cudaMemcpyDeviceToHost, d->control),
                       err, "copying the state's fingerprint");
}

bool gw_cuda_state_unit(gw_device *device, gw_unit_work work, uint64_t unit, gw_state_print *part,
                        gw_err *err) {
    gw_cuda_device *d = gw_cuda_device_of(device);
    GW_ASSERT(unit < device->unit_count);
    gw_fpmode_set();
    GW_ASSERT(work != GW_UNIT_APPLY || d->result.ready);
    if (!gw_cuda_device_use(d, err)) return gw_cuda_device_failed(d, "changing the state");
    bool only_hash = work == GW_UNIT_HASH || work == GW_UNIT_HASH_READ;
    bool good = only_hash || (work_on_all(d, work, err) && follow_state(d, d->control, err));
    good = good && start_hash(d, work, err);
    gw_err waiting;
    if (!gw_cuda_try(d->gpu.ordinal, cudaStreamSynchronize(d->control), &waiting, "changing the state") &&
        good) {
        *err = waiting;
        good = false;
    }
    *part = (gw_state_print){.read = d->print_host[PRINT_READ], .rest = d->print_host[PRINT_REST]};
    return good || gw_cuda_device_failed(d, only_hash ? "hashing the state" : "changing the state");
}

/* Copies. */

/* Starts a copy of up to BOUNCE_BYTES of the image, from `offset` on, between a pinned buffer and the GPU. */
static bool start_copy(gw_cuda_device *d, uint64_t offset, uint64_t bytes, char *host, bool to_host,
                       gw_err *err) {
    for (uint64_t done = 0, within, length; done < bytes; done += length) {
        uint32_t t = gw_layout_find(&d->layout, offset + done, bytes - done, &within, &length);
        char *gpu = (char *)d->state[t] + within;
        if (!gw_cuda_try(d->gpu.ordinal,
                         cudaMemcpyAsync(to_host ? host + done : gpu, to_host ? gpu : host + done, length,
                                         to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                                         d->transfer),
                         err, "copying state tensor '%s'", d->layout.tensors[t].name))
            return false;
    }
    return true;
}

static uint64_t piece_of(uint64_t done, uint64_t bytes) {
    return bytes - done < BOUNCE_BYTES ? bytes - done : BOUNCE_BYTES;
}

static bool wait_bounce(gw_cuda_device *d, int which, gw_err *err) {
    return gw_cuda_try(d->gpu.ordinal, cudaEventSynchronize(d->bounced[which]), err, "copying state");
}

/* Reads the image in pieces: piece i + 1 is copied from the GPU while piece i is copied to `to`. The caller
 * holds the lock. */
static bool read_pieces(gw_cuda_device *d, uint64_t offset, uint64_t bytes, char *to, gw_err *err) {
    uint64_t pieces = (bytes + BOUNCE_BYTES - 1) / BOUNCE_BYTES;
    for (uint64_t i = 0; i <= pieces; i++) {
        uint64_t at = i * BOUNCE_BYTES;
        if (i < pieces && (!start_copy(d, offset + at, piece_of(at, bytes), d->bounce[i % 2], true, err) ||
                           !gw_cuda_try(d->gpu.ordinal, cudaEventRecord(d->bounced[i % 2], d->transfer), err,
                                        "cudaEventRecord")))
            return false;
        if (i == 0) continue;
        if (!wait_bounce(d, (i - 1) % 2, err)) return false;
        memcpy(to + at - BOUNCE_BYTES, d->bounce[(i - 1) % 2], piece_of(at - BOUNCE_BYTES, bytes));
    }
    return true;
}

static bool write_pieces(gw_cuda_device *d, uint64_t offset, uint64_t bytes, const char *from, gw_err *err) {
    uint64_t pieces = (bytes + BOUNCE_BYTES - 1) / BOUNCE_BYTES;
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t at = i * BOUNCE_BYTES;
        if (i >= 2 && !wait_bounce(d, i % 2, err)) return false;
        memcpy(d->bounce[i % 2], from + at, piece_of(at, bytes));
        if (!start_copy(d, offset + at, piece_of(at, bytes), d->bounce[i % 2], false, err) ||
            !gw_cuda_try(d->gpu.ordinal, cudaEventRecord(d->bounced[i % 2], d->transfer), err,
                         "cudaEventRecord"))
            return false;
    }
    return follow_state(d, d->transfer, err);
}

static bool transfer(gw_cuda_device *d, uint64_t offset, uint64_t bytes, char *to, const char *from,
                     gw_err *err) {
    GW_ASSERT(offset <= d->layout.image_bytes && bytes <= d->layout.image_bytes - offset);
    if (bytes == 0) return true;
    pthread_mutex_lock(&d->transfer_lock);
    bool good = gw_cuda_device_use(d, err) && (to != NULL ? read_pieces(d, offset, bytes, to, err)
                                                          : write_pieces(d, offset, bytes, from, err));
    gw_err waiting; /* waits also after a failure: the work that was started uses the buffers */
    if (!gw_cuda_try(d->gpu.ordinal, cudaStreamSynchronize(d->transfer), &waiting, "copying state") && good) {
        *err = waiting;
        good = false;
    }
    pthread_mutex_unlock(&d->transfer_lock);
    return good || gw_cuda_device_failed(d, to != NULL ? "reading the state" : "writing the state");
}

bool gw_cuda_state_read(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err) {
    return transfer(gw_cuda_device_of(device), offset, bytes, to, NULL, err);
}

bool gw_cuda_state_write(gw_device *device, uint64_t offset, uint64_t bytes, const void *from, gw_err *err) {
    return transfer(gw_cuda_device_of(device), offset, bytes, NULL, from, err);
}
