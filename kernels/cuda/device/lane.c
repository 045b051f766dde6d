/* A lane of a GPU: a stream, the scratch of one shard in flight, and two places for inputs, so that the next
 * shard's input is loaded and copied while the GPU computes the present one. With two lanes a shard is ready
 * when the one that runs ends. */
#include "kernels/cuda/device/inside.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device/common.h"
#include "kernels/host/fpmode.h"

#include <stdlib.h>

/* An input that is on the GPU, or on its way there. */
typedef struct input {
    void *host, *gpu; /* `host` is pinned */
    cudaEvent_t copied;
    uint64_t step;
    uint32_t shard;
    bool loaded;
} input;

struct gw_lane {
    gw_emitter emitter; /* must be the first field: emit casts the emitter to its lane */
    gw_cuda_device *owner;
    void *job_lane;
    pthread_t thread;
    cudaStream_t stream, copies;
    input inputs[2];
    /* the shard that the latest prefetch announced, and the first shard of the lane's step */
    uint64_t hint_step, first_step;
    uint32_t hint_shard, first_shard;
    bool hinted, started;

    gw_entry entry;
    bool probing;
    gw_cuda_graphs graphs;
    gw_cuda_graph *recording; /* emissions are recorded into this graph; NULL: they are added */
    gw_cuda_adding adding;    /* how the graph that is recorded adds */
    bool failed;              /* an emission could not be started; `err` has the reason */
    gw_err err;
    /* the place of the shard's first bad element; on the GPU, and pinned on the host */
    unsigned long long *least, *least_host;
    gw_cuda_found *found, *found_host; /* what the shard has, by tensor; on the GPU, and pinned on the host */
};

void gw_cuda_lane_check(const gw_cuda_device *d, const gw_lane *lane) {
    GW_ASSERT(lane->owner == d);
    GW_ASSERT(pthread_equal(lane->thread, pthread_self()));
}

/* Emitting. */

/* Starts the rounding and fingerprinting of a probe's piece, which is not added. */
static bool probe_piece(gw_lane *lane, uint32_t tensor, uint64_t first, uint64_t count, const float *floats,
                        const int64_t *integers, gw_err *err) {
    const gw_layout *layout = &lane->owner->layout;
    if (!gw_ledger_check(lane->owner->device.ledger, &lane->entry, tensor, first, count)) return true;
    gw_cuda_piece piece = {.format =
                               gw_exact_format_of(layout->tensors[tensor].frac_bits, lane->entry.shards),
                           .first = layout->of[tensor].first + first,
                           .count = count,
                           .place = GW_CUDA_PLACE(tensor, first),
                           .found = &lane->found[tensor],
                           .least = lane->least};
    cudaError_t status = floats != NULL
                             ? gw_cuda_add_floats(&piece, GW_CUDA_PROBE, floats, NULL, lane->stream)
                             : gw_cuda_add_integers(&piece, GW_CUDA_PROBE, integers, NULL, lane->stream);
    return gw_cuda_try(lane->owner->gpu.ordinal, status, err, "probing tensor '%s'",
                       layout->tensors[tensor].name);
}

/* Records the addition of a piece in the graph that is recorded. */
static bool record_piece(gw_lane *lane, uint32_t tensor, uint64_t first, uint64_t count, const float *floats,
                         const int64_t *integers, gw_err *err) {
    const gw_layout *layout = &lane->owner->layout;
    if (!gw_ledger_check(lane->owner->device.ledger, &lane->entry, tensor, first, count)) {
        *err = lane->entry.err;
        return false;
    }
    if (count != layout->of[tensor].elements || !gw_cuda_graph_note(lane->recording, tensor))
        return gw_fail(err, GW_E_UNSUPPORTED, "tensor '%s' is emitted in pieces, or twice",
                       layout->tensors[tensor].name);
    return gw_cuda_accumulator_record(lane->owner->accumulator, lane->entry.shards, tensor, floats, integers,
                                      lane->adding, &lane->found[tensor], lane->least, lane->stream, err);
}

static void emit(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count, const float *floats,
                 const int64_t *integers) {
    gw_lane *lane = (gw_lane *)(void *)emitter;
    if (lane->failed || count == 0) return;
    bool good;
    if (lane->probing)
        good = probe_piece(lane, tensor, first, count, floats, integers, &lane->err);
    else if (lane->recording != NULL)
        good = record_piece(lane, tensor, first, count, floats, integers, &lane->err);
    else
        good = gw_cuda_accumulator_add(lane->owner->accumulator, &lane->entry, tensor, first, count, floats,
                                       integers, &lane->found[tensor], lane->least, lane->stream, &lane->err);
    lane->failed = !good;
}

static void emit_floats(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *values) {
    emit(emitter, tensor, first, count, values, NULL);
}

static void emit_integers(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                          const int64_t *values) {
    emit(emitter, tensor, first, count, NULL, values);
}

/* Opening. */

static bool open_input(gw_cuda_device *d, input *in, gw_err *err) {
    return gw_cuda_pin(d->gpu.ordinal, d->input_bytes, &in->host, err) &&
           gw_cuda_allocate(d->gpu.ordinal, d->input_bytes, &in->gpu, err) &&
           gw_cuda_try(d->gpu.ordinal, cudaEventCreateWithFlags(&in->copied, cudaEventDisableTiming), err,
                       "cudaEventCreate");
}

static bool open_memory(gw_cuda_device *d, gw_lane *lane, gw_err *err) {
    void *least, *least_host, *found, *found_host;
    int gpu = d->gpu.ordinal;
    if (!gw_cuda_allocate(gpu, sizeof *lane->least, &least, err)) return false;
    lane->least = least;
    if (!gw_cuda_pin(gpu, sizeof *lane->least_host, &least_host, err)) return false;
    lane->least_host = least_host;
    if (!gw_cuda_allocate(gpu, d->layout.tensor_count * sizeof *lane->found, &found, err)) return false;
    lane->found = found;
    if (!gw_cuda_pin(gpu, d->layout.tensor_count * sizeof *lane->found, &found_host, err)) return false;
    lane->found_host = found_host;
    for (int i = 0; i < 2 && d->input_bytes > 0; i++)
        if (!open_input(d, &lane->inputs[i], err)) return false;
    return gw_cuda_try(gpu, cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking), err,
                       "cudaStreamCreate") &&
           gw_cuda_try(gpu, cudaStreamCreateWithFlags(&lane->copies, cudaStreamNonBlocking), err,
                       "cudaStreamCreate");
}

bool gw_cuda_lane_open(gw_device *device, gw_lane **lane, gw_err *err) {
    gw_cuda_device *d = gw_cuda_device_of(device);
    gw_lane *l = calloc(1, sizeof *l);
    *lane = NULL;
    if (l == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a worker's lane");
    gw_fpmode_set();
    l->emitter = (gw_emitter){.emit = emit_floats, .emit_integers = emit_integers};
    l->owner = d;
    l->thread = pthread_self();
    bool good = gw_cuda_device_use(d, err) && open_memory(d, l, err) &&
                (d->type->gpu->lane_open(d->job, d->side, &l->job_lane, err) ||
                 gw_fail_in(err, "job %s", d->type->name));
    if (!good) {
        gw_cuda_lane_close(device, l);
        return gw_fail_in(err, "lane");
    }
    *lane = l;
    return true;
}

void gw_cuda_lane_close(gw_device *device, gw_lane *lane) {
    if (lane == NULL) return;
    gw_cuda_device *d = gw_cuda_device_of(device);
    int gpu = d->gpu.ordinal;
    (void)cudaSetDevice(gpu); /* fails on a lost GPU, which has nothing to free */
    if (lane->stream != NULL) (void)cudaStreamSynchronize(lane->stream);
    if (lane->copies != NULL) (void)cudaStreamSynchronize(lane->copies);
    gw_cuda_graphs_close(&lane->graphs);
    if (lane->job_lane != NULL) d->type->gpu->lane_close(d->job, d->side, lane->job_lane);
    for (int i = 0; i < 2; i++) {
        gw_cuda_unpin(gpu, lane->inputs[i].host);
        gw_cuda_free(gpu, lane->inputs[i].gpu);
        if (lane->inputs[i].copied != NULL) (void)cudaEventDestroy(lane->inputs[i].copied);
    }
    if (lane->stream != NULL) (void)cudaStreamDestroy(lane->stream);
    if (lane->copies != NULL) (void)cudaStreamDestroy(lane->copies);
    gw_cuda_free(gpu, lane->least);
    gw_cuda_unpin(gpu, lane->least_host);
    gw_cuda_free(gpu, lane->found);
    gw_cuda_unpin(gpu, lane->found_host);
    free(lane);
}

/* Inputs. */

static bool has(const input *in, uint64_t step, uint32_t shard) {
    return in->loaded && in->step == step && in->shard == shard;
}

/* Loads a shard's input and starts its copy. No kernel may still read the place. */
static bool load(gw_lane *lane, input *in, uint64_t step, uint32_t shard, gw_err *err) {
    gw_cuda_device *d = lane->owner;
    int gpu = d->gpu.ordinal;
    in->loaded = false;
    /* An earlier copy may still read the place. */
    if (!gw_cuda_try(gpu, cudaEventSynchronize(in->copied), err, "copying a shard's input")) return false;
    if (!d->type->gpu->load(d->job, step, shard, in->host, err))
        return gw_fail_in(err, "job %s: step %llu, shard %u: input", d->type->name, (unsigned long long)step,
                          shard);
    if (!gw_cuda_try(gpu,
                     cudaMemcpyAsync(in->gpu, in->host, d->input_bytes, cudaMemcpyHostToDevice, lane->copies),
                     err, "copying a shard's input") ||
        !gw_cuda_try(gpu, cudaEventRecord(in->copied, lane->copies), err, "cudaEventRecord"))
        return false;
    in->step = step;
    in->shard = shard;
    in->loaded = true;
    return true;
}

/* Returns the place that holds the shard's input, in the order of the lane's stream. */
static input *input_of(gw_lane *lane, uint64_t step, uint32_t shard, gw_err *err) {
    input *in = has(&lane->inputs[1], step, shard) ? &lane->inputs[1] : &lane->inputs[0];
    if (!has(in, step, shard) && !load(lane, in, step, shard, err)) return NULL;
    return gw_cuda_try(lane->owner->gpu.ordinal, cudaStreamWaitEvent(lane->stream, in->copied, 0), err,
                       "cudaStreamWaitEvent")
               ? in
               : NULL;
}

/* Loads the input of the probable next shard while the GPU computes the one whose input is `used`: the hinted
 * shard, or else the next step's counterpart of the shard that the lane began this step with. A failure is
 * ignored; it shows when the shard is run. */
static void load_ahead(gw_lane *lane, const input *used) {
    gw_cuda_device *d = lane->owner;
    if (used == NULL) return;
    input *other = &lane->inputs[used == &lane->inputs[0]];
    uint64_t step = lane->hinted ? lane->hint_step : lane->first_step + 1;
    uint32_t shard = lane->hinted ? lane->hint_shard : lane->first_shard;
    gw_phase phase;
    gw_err err;
    lane->hinted = false;
    if (has(other, step, shard) || has(used, step, shard)) return;
    if (shard >= d->type->shards(d->job, step, &phase)) return;
    (void)load(lane, other, step, shard, &err);
}

void gw_cuda_lane_prefetch(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard) {
    gw_cuda_lane_check(gw_cuda_device_of(device), lane);
    lane->hint_step = step;
    lane->hint_shard = shard;
    lane->hinted = true;
}

void gw_cuda_lane_payload(gw_device *device, gw_lane *lane, const void *bytes) {
    gw_cuda_lane_check(gw_cuda_device_of(device), lane);
    lane->emitter.payload = bytes;
}

/* Shards. */

/* Calls the job's contribute, which starts all of a shard; while the lane's stream is recorded, it records
 * it. */
static bool contribute(gw_lane *lane, const gw_gpu_shard *what, gw_err *err) {
    const gw_cuda_device *d = lane->owner;
    gw_state state = {d->state};
    lane->failed = false;
    if (!d->type->gpu->contribute(d->job, d->side, lane->job_lane, what, &state, &lane->emitter, err))
        return gw_fail_in(err, "job %s: step %llu, shard %u", d->type->name, (unsigned long long)what->step,
                          what->shard);
    if (!lane->failed) return true;
    *err = lane->err;
    return gw_fail_in(err, "step %llu, shard %u", (unsigned long long)what->step, what->shard);
}

static bool record(gw_lane *lane, const gw_gpu_shard *what, gw_cuda_graph *graph, gw_cuda_adding adding,
                   cudaGraphExec_t *recorded, gw_err *err) {
    int gpu = lane->owner->gpu.ordinal;
    if (!gw_cuda_graph_begin(gpu, lane->stream, err)) return false;
    gw_cuda_graph_forget(graph);
    lane->recording = graph;
    lane->adding = adding;
    bool good = contribute(lane, what, err);
    lane->recording = NULL;
    return gw_cuda_graph_end(gpu, lane->stream, good, recorded, err);
}

static bool record_both(gw_lane *lane, const gw_gpu_shard *what, gw_cuda_graph *graph, gw_err *err) {
    return (graph->store != NULL || record(lane, what, graph, GW_CUDA_STORE, &graph->store, err)) &&
           (graph->add != NULL || record(lane, what, graph, GW_CUDA_ADD, &graph->add, err));
}

static void note_failure(gw_cuda_graph *graph, const char *what, const gw_err *err) {
    bool last = ++graph->failures == GW_CUDA_GRAPH_TRIES;
    gw_log(GW_WARN, "kernels/cuda", "a shard was not %s as a graph, but kernel by kernel%s: %s", what,
           last ? ", and so are all of its kind from now on" : "", err->text);
}

/* Returns the graph of a shard. NULL: the shard is started kernel by kernel, as the first of its kind always
 * is. */
static gw_cuda_graph *graph_of(gw_lane *lane, const gw_gpu_shard *what) {
    const gw_cuda_device *d = lane->owner;
    const gw_job_gpu *job = d->type->gpu;
    uint64_t number = job->graph == NULL ? 0 : job->graph(d->job, what->step, what->shard);
    gw_err err;
    if (number == 0 || lane->probing || lane->emitter.payload != NULL) return NULL;
    const gw_cuda_work work = {number, what->input, lane->entry.shards};
    gw_cuda_graph *graph = gw_cuda_graph_find(&lane->graphs, &work, d->layout.tensor_count);
    if (graph == NULL || graph->failures == GW_CUDA_GRAPH_TRIES) return NULL;
    bool met = graph->met;
    graph->met = true;
    if (!met) return NULL;
    if (!record_both(lane, what, graph, &err)) {
        note_failure(graph, "recorded", &err);
        return NULL;
    }
    return graph;
}

/* Starts a shard by its graph where one exists and can be started, otherwise kernel by kernel. */
static bool compute(gw_lane *lane, const gw_gpu_shard *what, gw_err *err) {
    gw_cuda_graph *graph = graph_of(lane, what);
    bool started;
    if (graph == NULL) return contribute(lane, what, err);
    bool good = gw_cuda_accumulator_launch(lane->owner->accumulator, &lane->entry, graph, lane->stream,
                                           &started, err);
    if (good) graph->failures = 0;
    if (started) return good;
    note_failure(graph, "started", err);
    return contribute(lane, what, err);
}

/* Starts all of a shard, and the copies of its fingerprints and its first bad element to the host. */
static bool start(gw_lane *lane, uint64_t step, uint32_t shard, const input **used, gw_err *err) {
    gw_cuda_device *d = lane->owner;
    int gpu = d->gpu.ordinal;
    *used = NULL;
    if (d->input_bytes > 0 && (*used = input_of(lane, step, shard, err)) == NULL) return false;
    gw_gpu_shard what = {
        .step = step, .shard = shard, .input = *used != NULL ? (*used)->gpu : NULL, .stream = lane->stream};
    size_t found_bytes = d->layout.tensor_count * sizeof *lane->found;
    if (!gw_cuda_try(gpu, cudaMemsetAsync(lane->found, 0, found_bytes, lane->stream), err, "cudaMemset") ||
        !gw_cuda_try(gpu, cudaMemsetAsync(lane->least, 0xff, sizeof *lane->least, lane->stream), err,
                     "cudaMemset"))
        return false;
    return compute(lane, &what, err) &&
           gw_cuda_try(gpu,
                       cudaMemcpyAsync(lane->found_host, lane->found, found_bytes, cudaMemcpyDeviceToHost,
                                       lane->stream),
                       err, "copying a shard's fingerprints") &&
           gw_cuda_try(gpu,
                       cudaMemcpyAsync(lane->least_host, lane->least, sizeof *lane->least,
                                       cudaMemcpyDeviceToHost, lane->stream),
                       err, "copying a shard's fingerprints");
}

/* Waits for the work of the lane's stream. `started` tells whether all of the shard was started. */
static bool finish(gw_lane *lane, bool started, uint64_t step, uint32_t shard, gw_err *err) {
    gw_err waiting;
    if (gw_cuda_try(lane->owner->gpu.ordinal, cudaStreamSynchronize(lane->stream), &waiting,
                    "step %llu, shard %u", (unsigned long long)step, shard))
        return started;
    if (started) *err = waiting;
    return false;
}

/* The fingerprint of the latest shard's contribution, equal to the one a processor computes. */
static uint64_t contribution(const gw_lane *lane) {
    uint64_t fingerprint = 0;
    for (uint32_t t = 0; t < lane->owner->layout.tensor_count; t++) {
        gw_exact_part part = {lane->found_host[t].fingerprint, lane->found_host[t].bad};
        fingerprint += gw_exact_contribution(t, &part);
    }
    return fingerprint;
}

gw_contributed gw_cuda_lane_contribute(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                                       gw_err *err) {
    gw_cuda_device *d = gw_cuda_device_of(device);
    gw_cuda_lane_check(d, lane);
    if (!gw_cuda_device_use(d, err)) {
        (void)gw_cuda_device_failed(d, "beginning a shard");
        return GW_SHARD_FAILED;
    }
    if (!gw_ledger_enter(d->device.ledger, step, shard, &lane->entry, err)) return GW_SHARD_FAILED;
    if (!lane->started || lane->first_step != step) {
        lane->first_step = step;
        lane->first_shard = shard;
        lane->started = true;
    }
    const input *used;
    bool good = start(lane, step, shard, &used, err);
    if (good) load_ahead(lane, used);
    good = finish(lane, good, step, shard, err) || gw_cuda_device_shard_failed(d, err);
    if (good && *lane->least_host != GW_CUDA_NO_PLACE)
        gw_ledger_note_bad(d->device.ledger, &lane->entry, (uint32_t)(*lane->least_host >> 44),
                           *lane->least_host & ((UINT64_C(1) << 44) - 1));
    if (good) lane->entry.fingerprint = contribution(lane);
    return gw_ledger_leave(d->device.ledger, &lane->entry, good, err);
}

uint64_t gw_cuda_lane_fingerprint(gw_device *device, gw_lane *lane) {
    gw_cuda_lane_check(gw_cuda_device_of(device), lane);
    return contribution(lane);
}

bool gw_cuda_lane_probe(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                        uint64_t *fingerprint, gw_err *err) {
    gw_cuda_device *d = gw_cuda_device_of(device);
    gw_cuda_lane_check(d, lane);
    lane->entry = (gw_entry){.step = step, .shard = shard};
    if (!gw_step_shards(d->type, d->job, step, &lane->entry.shards, err)) return false;
    lane->probing = true;
    const input *used;
    bool good = gw_cuda_device_use(d, err) && start(lane, step, shard, &used, err);
    good = finish(lane, good, step, shard, err);
    lane->probing = false;
    if (good && lane->entry.invalid) {
        *err = lane->entry.err;
        return gw_fail_in(err, "job %s: probe of step %llu, shard %u", d->type->name,
                          (unsigned long long)step, shard);
    }
    if (good) *fingerprint = contribution(lane);
    return good || gw_cuda_device_failed(d, "computing a shard once more") || gw_fail_in(err, "probe");
}
