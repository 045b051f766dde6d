#include "tests/gpu_fake/fake_cuda.h"

#include "kernels/cuda/runtime/call.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct op {
    struct op *next;
    void (*run)(void *arguments); /* NULL: waits for `upto` ops of `other` */
    struct CUstream_st *other;
    uint64_t upto;
    size_t bytes; /* of the arguments */
    max_align_t arguments[];
} op;

/* What a stream is told while it is recorded; and what can be started of that. */
struct CUgraph_st {
    op *first, **end;
    int device;
    bool broken; /* by a call that cannot be recorded */
};
struct CUgraphExec_st {
    struct CUgraph_st of;
};

struct CUstream_st {
    op *first, **end;
    uint64_t given, done;          /* ops */
    int device;                    /* its GPU's; GPUS: the default one, which is every GPU's */
    struct CUstream_st *destroyed; /* the next of these */
    struct CUgraph_st *recorded;   /* instead of being done: what it is told */
};

struct CUevent_st {
    int device;
    struct CUstream_st *stream;
    uint64_t upto; /* ops of the stream that were given when it was recorded */
};

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    int value; /* from NULL: a memset */
} copy;

enum { GPUS = 2, MOST_STREAMS = 64, MOST_FILLED = 1 << 20, HUGE_PAGE = 2 << 20, MOST_SHARED = 227 << 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct CUstream_st *streams[MOST_STREAMS], by_default = {.end = &by_default.first, .device = GPUS};
static struct CUstream_st *destroyed; /* events that were recorded on one stand: so does what they look at */
static struct memory {
    struct memory *next;
    char *at;
    size_t bytes;
    int device; /* GPUS: pinned memory of the host */
} * memories;
static size_t taken, graphs_launched, shared_most = MOST_SHARED, bytes_free = (size_t)1 << 30;
static int integrated, graphs_refused, compiled;
static unsigned countdown;
static cudaError_t planned, stuck[GPUS]; /* by GPU */
static int at_work;                      /* the GPU whose kernel runs */
static char broken[600];
static _Thread_local cudaError_t last; /* as cudaGetLastError tells it */
static _Thread_local int current;      /* the GPU of the calling thread */

/* ---- failing on purpose ---- */

void fake_fail(unsigned calls, cudaError_t status) {
    pthread_mutex_lock(&lock);
    countdown = calls;
    planned = status;
    for (int gpu = 0; gpu < GPUS; gpu++) stuck[gpu] = cudaSuccess;
    broken[0] = '\0';
    pthread_mutex_unlock(&lock);
}

unsigned fake_countdown(void) {
    pthread_mutex_lock(&lock);
    unsigned left = countdown;
    pthread_mutex_unlock(&lock);
    return left;
}

/* With the lock held, as whatever runs has it. */
void fake_break(const char *why) {
    if (stuck[at_work] != cudaSuccess) return;
    stuck[at_work] = cudaErrorLaunchFailure;
    snprintf(broken, sizeof broken, "%s", why);
}

/* What a test in another process wants of the current GPU; 0: nothing. */
static cudaError_t wanted(void) {
    const char *folder = getenv("FAKE_CUDA");
    char path[300], text[16] = "";
    if (folder == NULL) return cudaSuccess;
    snprintf(path, sizeof path, "%s/gpu.%d", folder, (int)getpid());
    FILE *file = fopen(path, "r");
    if (file == NULL) return cudaSuccess;
    if (fgets(text, sizeof text, file) == NULL) abort();
    fclose(file);
    const char *gpu = strchr(text, ' ');
    return gpu == NULL || atoi(gpu) == current ? (cudaError_t)atoi(text) : cudaSuccess;
}

/* With the lock held: what this call comes to. */
static cudaError_t counted(void) {
    cudaError_t *now = &stuck[current];
    if (*now == cudaSuccess) *now = wanted();
    if (*now == cudaSuccess && (countdown == 0 || --countdown > 0)) return cudaSuccess;
    if (*now == cudaSuccess && gw_cuda_sticky(planned)) *now = planned;
    return last = *now != cudaSuccess ? *now : planned;
}

/* The same of a call that has waited: what it waited for may have failed. */
static cudaError_t waited(cudaError_t status) {
    return status == cudaSuccess && stuck[current] != cudaSuccess ? last = stuck[current] : status;
}

/* ---- streams ---- */

static struct CUstream_st *named(cudaStream_t stream) {
    return stream != NULL ? stream : &by_default;
}

/* Whether the driver's stand-in has made the stream (tests/gpu_flock/nccl). Work on it is done at once, since
 * what stands before it on that stream has happened wherever the program starts work there. */
static bool is_of_driver(cudaStream_t stream) {
    bool ours = stream == NULL;
    for (int i = 0; i < MOST_STREAMS; i++) ours = ours || streams[i] == stream;
    for (const struct CUstream_st *s = destroyed; s != NULL; s = s->destroyed) ours = ours || s == stream;
    return !ours;
}

static void run_until(struct CUstream_st *stream, uint64_t upto) {
    while (stream->done < upto) {
        op *next = stream->first;
        stream->first = next->next;
        if (stream->first == NULL) stream->end = &stream->first;
        at_work = stream->device < GPUS ? stream->device : 0;
        if (next->run != NULL)
            next->run(next->arguments);
        else
            run_until(next->other, next->upto);
        stream->done++;
        free(next);
    }
}

static void run_all(void) {
    for (int i = 0; i < MOST_STREAMS; i++)
        if (streams[i] != NULL) run_until(streams[i], streams[i]->given);
    run_until(&by_default, by_default.given);
}

static void put(struct CUstream_st *stream, op *what) {
    what->next = NULL;
    if (stream->recorded != NULL) {
        *stream->recorded->end = what;
        stream->recorded->end = &what->next;
        return;
    }
    *stream->end = what;
    stream->end = &what->next;
    stream->given++;
}

static op *new_op(size_t bytes) {
    op *what = calloc(1, sizeof *what + bytes);
    if (what == NULL) abort();
    what->bytes = bytes;
    return what;
}

/* With the lock held: what CUDA says of waiting for a stream that is recorded, or for what encloses it. */
static cudaError_t unrecorded(struct CUstream_st *stream) {
    if (stream->recorded == NULL) return cudaSuccess;
    stream->recorded->broken = true;
    return last = cudaErrorStreamCaptureUnsupported;
}

static cudaError_t none_recorded(void) {
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < MOST_STREAMS; i++)
        if (streams[i] != NULL && streams[i]->device == current && unrecorded(streams[i]) != cudaSuccess)
            status = last;
    return status;
}

/* What CUDA says of work for one GPU while another is current. */
static cudaError_t other_gpu(int device) {
    return device == current || device == GPUS ? cudaSuccess : (last = cudaErrorInvalidResourceHandle);
}

cudaError_t fake_launch(cudaStream_t stream, void (*run)(void *arguments), const void *arguments,
                        size_t bytes) {
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    bool of_driver = is_of_driver(stream);
    if (status == cudaSuccess && !of_driver) status = other_gpu(named(stream)->device);
    if (status == cudaSuccess && of_driver) {
        op *what = new_op(bytes);
        run(memcpy(what->arguments, arguments, bytes));
        free(what);
    } else if (status == cudaSuccess) {
        op *what = new_op(bytes);
        what->run = run;
        memcpy(what->arguments, arguments, bytes);
        put(named(stream), what);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    (void)flags;
    struct CUstream_st *s = calloc(1, sizeof *s);
    s->end = &s->first;
    s->device = current;
    pthread_mutex_lock(&lock);
    int free_one = 0;
    while (free_one < MOST_STREAMS && streams[free_one] != NULL) free_one++;
    if (free_one == MOST_STREAMS) abort();
    streams[free_one] = s;
    pthread_mutex_unlock(&lock);
    *stream = s;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    pthread_mutex_lock(&lock);
    run_until(stream, stream->given);
    for (int i = 0; i < MOST_STREAMS; i++)
        if (streams[i] == stream) streams[i] = NULL;
    stream->destroyed = destroyed;
    destroyed = stream;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    stream = named(stream);
    if (status == cudaSuccess) status = unrecorded(stream);
    run_until(stream, stream->given); /* also after a failure: what was started ends some time */
    status = waited(status);
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    pthread_mutex_lock(&lock);
    stream = named(stream);
    cudaError_t status = stuck[current] != cudaSuccess  ? stuck[current]
                         : stream->done < stream->given ? cudaErrorNotReady
                                                        : cudaSuccess;
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t cudaDeviceSynchronize(void) {
    pthread_mutex_lock(&lock);
    run_all();
    cudaError_t status = waited(none_recorded());
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    (void)mode;
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    if (status == cudaSuccess) status = other_gpu(stream->device);
    if (status == cudaSuccess) status = unrecorded(stream);
    if (status == cudaSuccess) {
        struct CUgraph_st *graph = calloc(1, sizeof *graph);
        if (graph == NULL) abort();
        *graph = (struct CUgraph_st){.end = &graph->first, .device = stream->device};
        stream->recorded = graph;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void free_graph(struct CUgraph_st *graph) {
    for (op *next; graph->first != NULL; graph->first = next) {
        next = graph->first->next;
        free(graph->first);
    }
}

/* With the lock held. */
static op *copy_of(const op *from) {
    op *copied = new_op(from->bytes);
    memcpy(copied, from, sizeof *from + from->bytes);
    return copied;
}

/* It ends in any case; a graph is there only if all went well. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    *graph = NULL;
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    struct CUgraph_st *recorded = stream->recorded;
    stream->recorded = NULL;
    if (status == cudaSuccess && recorded == NULL) status = last = cudaErrorIllegalState;
    if (status == cudaSuccess && recorded->broken) status = last = cudaErrorStreamCaptureInvalidated;
    if (status == cudaSuccess) {
        *graph = recorded;
        taken++;
    } else if (recorded != NULL) {
        free_graph(recorded);
        free(recorded);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    pthread_mutex_lock(&lock);
    taken--;
    free_graph(graph);
    free(graph);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    if (status == cudaSuccess) {
        *exec = calloc(1, sizeof **exec);
        if (*exec == NULL) abort();
        struct CUgraph_st *of = &(*exec)->of;
        *of = (struct CUgraph_st){.end = &of->first, .device = graph->device};
        for (const op *from = graph->first; from != NULL; from = from->next) {
            *of->end = copy_of(from);
            of->end = &(*of->end)->next;
        }
        *of->end = NULL;
        taken++;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    if (status == cudaSuccess) status = other_gpu(stream->device);
    if (status == cudaSuccess) status = other_gpu(exec->of.device);
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    pthread_mutex_lock(&lock);
    taken--;
    free_graph(&exec->of);
    free(exec);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    if (status == cudaSuccess) status = other_gpu(stream->device);
    if (status == cudaSuccess) status = other_gpu(exec->of.device);
    if (status == cudaSuccess) status = unrecorded(stream); /* nobody here means to have graphs in graphs */
    if (status == cudaSuccess && graphs_refused) status = last = cudaErrorMemoryAllocation;
    for (const op *from = exec->of.first; status == cudaSuccess && from != NULL; from = from->next)
        put(stream, copy_of(from));
    graphs_launched += status == cudaSuccess;
    pthread_mutex_unlock(&lock);
    return status;
}

size_t fake_graphs(void) {
    pthread_mutex_lock(&lock);
    size_t launched = graphs_launched;
    pthread_mutex_unlock(&lock);
    return launched;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof **event);
    (*event)->device = current;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, 0);
}

/* No time passes here: what is measured means nothing. */
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    (void)from, (void)to;
    *milliseconds = 1;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    stream = named(stream);
    if (status == cudaSuccess) status = other_gpu(stream->device);
    if (status == cudaSuccess) status = other_gpu(event->device);
    if (status == cudaSuccess) status = unrecorded(stream); /* nobody here means to order what is recorded */
    if (status == cudaSuccess) *event = (struct CUevent_st){event->device, stream, stream->given};
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    stream = named(stream);
    if (status == cudaSuccess) status = unrecorded(stream);
    if (status == cudaSuccess && event->stream != NULL && event->stream != stream) {
        op *what = new_op(0);
        what->other = event->stream;
        what->upto = event->upto;
        put(stream, what);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    if (event->stream != NULL) run_until(event->stream, event->upto);
    status = waited(status);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- memory ---- */

/* Whether a copy may touch what lies there: not what is another GPU's. Nobody here means to have one GPU read
 * the memory of another, though CUDA could do that. */
static cudaError_t reachable(const void *at) {
    const char *byte = at;
    for (const struct memory *m = memories; m != NULL; m = m->next)
        if (byte >= m->at && byte < m->at + m->bytes) return other_gpu(m->device);
    return cudaSuccess;
}

static void remember(char *at, size_t bytes, int device) {
    struct memory *m = malloc(sizeof *m);
    if (m == NULL) abort();
    *m = (struct memory){.next = memories, .at = at, .bytes = bytes, .device = device};
    memories = m;
}

static void forget(const void *at) {
    for (struct memory **m = &memories; *m != NULL; m = &(*m)->next) {
        if ((*m)->at != at) continue;
        struct memory *gone = *m;
        *m = gone->next;
        free(gone);
        return;
    }
}

static cudaError_t give_out(void **memory, size_t bytes, int device) {
    pthread_mutex_lock(&lock);
    cudaError_t status = counted();
    if (status == cudaSuccess) {
        size_t unit = bytes < HUGE_PAGE ? 256 : HUGE_PAGE;
        *memory = aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
        if (*memory == NULL) abort();
        if (unit == HUGE_PAGE) (void)madvise(*memory, bytes, MADV_HUGEPAGE); /* fewer page faults */
        memset(*memory, 0xEE, bytes < MOST_FILLED ? bytes : MOST_FILLED);
        remember(*memory, bytes, device);
        taken++;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static cudaError_t take_back(void *memory) {
    pthread_mutex_lock(&lock);
    run_all();
    taken--;
    forget(memory);
    pthread_mutex_unlock(&lock);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    return give_out(memory, bytes, current);
}

cudaError_t cudaFree(void *memory) {
    return take_back(memory);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    return give_out(memory, bytes, GPUS);
}

cudaError_t cudaFreeHost(void *memory) {
    return take_back(memory);
}

size_t fake_leaked(void) {
    pthread_mutex_lock(&lock);
    size_t left = taken;
    pthread_mutex_unlock(&lock);
    return left;
}

/* Returns the memory that is taken of the GPUs from `first` on, before `end`. */
static size_t bytes_of(int first, int end) {
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (const struct memory *m = memories; m != NULL; m = m->next)
        bytes += m->device >= first && m->device < end ? m->bytes : 0;
    pthread_mutex_unlock(&lock);
    return bytes;
}

size_t fake_bytes(void) {
    return bytes_of(0, GPUS);
}

void fake_free(size_t bytes) {
    bytes_free = bytes;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes) {
    size_t held = bytes_of(current, current + 1);
    *free_bytes = held < bytes_free ? bytes_free - held : 0;
    *all_bytes = (size_t)2 << 30;
    return cudaSuccess;
}

static void do_copy(void *arguments) {
    const copy *c = arguments;
    if (c->from != NULL)
        memcpy(c->to, c->from, c->bytes);
    else
        memset(c->to, c->value, c->bytes);
}

static cudaError_t launch_copy(const copy *c, cudaStream_t stream) {
    pthread_mutex_lock(&lock);
    cudaError_t status = reachable(c->to);
    if (status == cudaSuccess) status = reachable(c->from);
    pthread_mutex_unlock(&lock);
    return status == cudaSuccess ? fake_launch(stream, do_copy, c, sizeof *c) : status;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)kind;
    copy c = {.to = to, .from = from, .bytes = bytes};
    return launch_copy(&c, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    copy c = {.to = to, .bytes = bytes, .value = value};
    return launch_copy(&c, stream);
}

/* What is copied lies behind. */
static void do_staged(void *arguments) {
    const copy *c = arguments;
    memcpy(c->to, c + 1, c->bytes);
}

/* To the GPU what is copied is taken at once, and gets there some time; from it the call waits. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    if (kind != cudaMemcpyHostToDevice) {
        cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, NULL);
        return status == cudaSuccess ? cudaStreamSynchronize(NULL) : status;
    }
    copy *staged = malloc(sizeof *staged + bytes);
    if (staged == NULL) abort();
    *staged = (copy){.to = to, .bytes = bytes};
    memcpy(staged + 1, from, bytes);
    cudaError_t status = fake_launch(NULL, do_staged, staged, sizeof *staged + bytes);
    free(staged);
    return status;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    return cudaMemsetAsync(to, value, bytes, NULL);
}

/* ---- the device ---- */

static int driver_knows(void) {
    const char *version = getenv("FAKE_CUDA_DRIVER");
    return version != NULL ? atoi(version) : CUDART_VERSION;
}

cudaError_t cudaGetDeviceCount(int *count) {
    const char *counts = getenv("FAKE_CUDA_COUNTED");
    bool enough = driver_knows() / 1000 >= CUDART_VERSION / 1000;
    if (counts != NULL) return *count = 0, last = (cudaError_t)atoi(counts);
    *count = enough ? GPUS : 0;
    return enough ? cudaSuccess : (last = cudaErrorInsufficientDriver);
}

/* The runtime's header gives the name a version of its own. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    const char *unreadable = getenv("FAKE_CUDA_UNREADABLE");
    if (device < 0 || device >= GPUS) return cudaErrorInvalidDevice;
    if (unreadable != NULL && atoi(unreadable) == device) return last = cudaErrorECCUncorrectable;
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "a stand-in");
    properties->major = 9;
    properties->pciBusID = device + 1;
    properties->multiProcessorCount = 7;
    properties->totalGlobalMem = (size_t)2 << 30;
    properties->l2CacheSize = 50000000;
    return cudaSuccess;
}

void fake_refuse_graphs(bool refused) {
    graphs_refused = refused;
}

void fake_integrated(bool is) {
    integrated = is;
}

void fake_compiled(bool is) {
    compiled = is;
}

void fake_shared(size_t bytes) {
    shared_most = bytes;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device) {
    if (device < 0 || device >= GPUS) return cudaErrorInvalidDevice;
    switch (what) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)shared_most;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)shared_most + 1024; /* what CUDA takes of a block's */
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
    case cudaDevAttrIntegrated:
        *value = integrated;
        return cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= GPUS) return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = driver_knows();
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t status = last;
    last = cudaSuccess;
    return status;
}

/* Every kernel has these attributes. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel) {
    (void)kernel;
    *attributes =
        (struct cudaFuncAttributes){.maxThreadsPerBlock = 1024, .binaryVersion = compiled ? 120 : 90};
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute what, int value) {
    (void)kernel;
    bool takes = what == cudaFuncAttributePreferredSharedMemoryCarveout ||
                 (what == cudaFuncAttributeMaxDynamicSharedMemorySize && (size_t)value <= shared_most);
    return takes ? cudaSuccess : cudaErrorInvalidValue;
}

const char *cudaGetErrorName(cudaError_t status) {
    static _Thread_local char name[32];
    snprintf(name, sizeof name, "error %d", (int)status);
    return name;
}

const char *cudaGetErrorString(cudaError_t status) {
    if (status == cudaErrorLaunchFailure && broken[0] != '\0') return broken;
    return status == cudaSuccess ? "no error" : "failed as it was told to";
}
