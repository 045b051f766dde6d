/* An NCCL and a CUDA driver for processes on one host without a GPU, as one shared object: "GPU memory" is
 * each process's own, which has two GPUs, and communicators add over Unix sockets, rank 0 in the middle. It
 * waits where NCCL would wait: in threads of its own, until all ranks are there, and for ever when one has
 * died.
 *
 * A test tells it what to do by files in the folder FAKE_NCCL:
 *   log     (it writes here) a line for each communicator formed, abort, sum and maximum; of sums of floats and
 *           of int32 one more
 *   stall   while this is there, sums that begin do not go on
 *   wrong   while this is there, a bit of each sum of integers flips, alike for all ranks
 *   header  the same, of its second word
 *   lost    while this is there, streams of aborted communicators answer with an error
 *   broken  while this is there, communicators cannot be formed
 *   driverless, streamless  while these are there, the driver does not start, or has no memory for streams
 * and hears of a sum that stalls by a byte in the pipe "stalled". */
#include "net/nccl/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 2, RANKS = 16, OPS = 64, CHUNK = 1 << 16, INTERNAL_ERROR = 3 };

typedef struct stream {
    atomic_ulong begun, done; /* operations */
    atomic_bool aborted;
} stream;

typedef struct event {
    stream *of;
    unsigned long at;
} event;

typedef struct op {
    const void *send;
    void *receive;
    size_t count;
    int type, operation;
    stream *stream;
} op;

struct gw_nccl_comm {
    gw_nccl_id id;
    int ranks, rank, listener;
    int peers[RANKS]; /* sockets: rank 0's to all, others' to rank 0; -1: none */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    op ops[OPS];
    unsigned first, count; /* a ring */
    atomic_int state;
    atomic_bool aborted;
    bool begun; /* the thread runs */
};

static _Thread_local struct {
    int depth;
    unsigned begins; /* communicators to start at the end of the group */
    gw_nccl_comm *starts[RANKS];
} group;

/* ---- the test's folder ---- */

static const char *place(const char *name, char path[300]) {
    const char *folder = getenv("FAKE_NCCL");
    snprintf(path, 300, "%s/%s", folder != NULL ? folder : "/nonexistent", name);
    return path;
}

static bool is_there(const char *name) {
    char path[300];
    return access(place(name, path), F_OK) == 0;
}

static void note(const char *what, int number) {
    char path[300], line[80];
    int length = snprintf(line, sizeof line, "%s %d\n", what, number);
    int fd = open(place("log", path), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return;
    (void)!write(fd, line, (size_t)length);
    close(fd);
}

static void pause_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- sockets ---- */

static socklen_t address_of(const gw_nccl_id *id, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%.60s", id->bytes);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* False: broken, or the communicator is aborted. */
static bool transfer(gw_nccl_comm *c, int fd, void *bytes, size_t count, bool sends) {
    for (size_t done = 0; done < count && !atomic_load(&c->aborted);) {
        ssize_t moved = sends ? send(fd, (char *)bytes + done, count - done, MSG_NOSIGNAL)
                              : recv(fd, (char *)bytes + done, count - done, 0);
        if (moved > 0) done += (size_t)moved;
        if (moved == 0 || (moved < 0 && errno != EINTR)) return false;
    }
    return !atomic_load(&c->aborted);
}

static bool accept_all(gw_nccl_comm *c) {
    for (int i = 1; i < c->ranks; i++) {
        int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC), rank = 0;
        if (fd < 0 || !transfer(c, fd, &rank, sizeof rank, false) || rank < 1 || rank >= c->ranks)
            return false;
        c->peers[rank] = fd;
    }
    return true;
}

static bool connect_to_first(gw_nccl_comm *c) {
    struct sockaddr_un address;
    socklen_t length = address_of(&c->id, &address);
    c->peers[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(c->peers[0], (struct sockaddr *)&address, length) != 0) {
        if (atomic_load(&c->aborted)) return false;
        pause_a_little();
    }
    return transfer(c, c->peers[0], &c->rank, sizeof c->rank, true);
}

static bool join(gw_nccl_comm *c) {
    return c->rank == 0 ? accept_all(c) : connect_to_first(c);
}

/* ---- sums ---- */

static void add(const op *o, const void *theirs, size_t first, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int32_t *narrow = (int32_t *)o->receive + first + i, next = ((const int32_t *)theirs)[i];
        if (o->type == GW_NCCL_INT64)
            ((int64_t *)o->receive)[first + i] =
                (int64_t)((uint64_t)((int64_t *)o->receive)[first + i] + ((const uint64_t *)theirs)[i]);
        else if (o->type == GW_NCCL_INT32 && o->operation == GW_NCCL_MAX)
            *narrow = next > *narrow ? next : *narrow;
        else if (o->type == GW_NCCL_INT32)
            *narrow = (int32_t)((uint32_t)*narrow + (uint32_t)next);
        else
            ((float *)o->receive)[first + i] += ((const float *)theirs)[i];
    }
}

static bool sum_in_the_middle(gw_nccl_comm *c, const op *o, size_t size) {
    static _Thread_local char chunk[CHUNK];
    memmove(o->receive, o->send, o->count * size);
    for (int rank = 1; rank < c->ranks; rank++)
        for (size_t first = 0, count; first < o->count; first += count) {
            count = o->count - first < CHUNK / size ? o->count - first : CHUNK / size;
            if (!transfer(c, c->peers[rank], chunk, count * size, false)) return false;
            add(o, chunk, first, count);
        }
    if (o->type == GW_NCCL_INT64 && o->count > 0 && is_there("wrong"))
        ((int64_t *)o->receive)[o->count / 2] ^= 4;
    if (o->type == GW_NCCL_INT64 && o->count > 1 && is_there("header")) ((int64_t *)o->receive)[1] ^= 4;
    for (int rank = 1; rank < c->ranks; rank++)
        if (!transfer(c, c->peers[rank], o->receive, o->count * size, true)) return false;
    return true;
}

static void stall(gw_nccl_comm *c) {
    char path[300];
    if (!is_there("stall")) return;
    int fd = open(place("stalled", path), O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "s", 1);
        close(fd);
    }
    while (is_there("stall") && !atomic_load(&c->aborted)) pause_a_little();
}

static bool sum(gw_nccl_comm *c, const op *o) {
    size_t size = o->type == GW_NCCL_INT64 ? 8 : 4;
    stall(c);
    if (c->rank == 0) return sum_in_the_middle(c, o, size);
    return transfer(c, c->peers[0], (void *)(uintptr_t)o->send, o->count * size, true) &&
           transfer(c, c->peers[0], o->receive, o->count * size, false);
}

static void wait_for_abort(gw_nccl_comm *c) {
    pthread_mutex_lock(&c->lock);
    while (!atomic_load(&c->aborted)) pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

/* A rank that dies is not an error that anybody is told of: as where memory is shared. */
static void *run(void *context) {
    gw_nccl_comm *c = context;
    if (!join(c)) {
        wait_for_abort(c);
        return NULL;
    }
    note("formed", c->ranks);
    atomic_store(&c->state, GW_NCCL_SUCCESS);
    for (;;) {
        pthread_mutex_lock(&c->lock);
        while (c->count == 0 && !atomic_load(&c->aborted)) pthread_cond_wait(&c->changed, &c->lock);
        op o = c->ops[c->first % OPS];
        pthread_mutex_unlock(&c->lock);
        if (atomic_load(&c->aborted)) return NULL;
        if (!sum(c, &o)) {
            wait_for_abort(c);
            return NULL;
        }
        pthread_mutex_lock(&c->lock);
        c->first++;
        c->count--;
        pthread_mutex_unlock(&c->lock);
        note(o.operation == GW_NCCL_SUM ? "sum" : "most", c->ranks);
        if (o.type == GW_NCCL_FLOAT32) note("floats", c->ranks);
        if (o.type == GW_NCCL_INT32 && o.operation == GW_NCCL_SUM) note("narrow", c->ranks);
        atomic_fetch_add(&o.stream->done, 1);
    }
}

/* ---- NCCL ---- */

#define NCCL __attribute__((visibility("default"))) int
NCCL ncclGetVersion(int *version);
NCCL ncclGetUniqueId(gw_nccl_id *id);
NCCL ncclCommInitRankConfig(gw_nccl_comm **comm, int ranks, gw_nccl_id id, int rank, gw_nccl_config *config);
NCCL ncclCommGetAsyncError(gw_nccl_comm *comm, int *result);
NCCL ncclCommAbort(gw_nccl_comm *comm);
NCCL ncclAllReduce(const void *send, void *receive, size_t count, int type, int operation, gw_nccl_comm *comm,
                   void *on);
NCCL ncclGroupStart(void);
NCCL ncclGroupEnd(void);
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(gw_nccl_comm *comm);

int ncclGetVersion(int *version) {
    *version = 22809;
    return GW_NCCL_SUCCESS;
}

int ncclGetUniqueId(gw_nccl_id *id) {
    static atomic_uint made;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "godwit-fake-nccl-%d-%u-%ld", (int)getpid(),
             atomic_fetch_add(&made, 1), (long)time(NULL));
    return GW_NCCL_SUCCESS;
}

/* Rank 0 listens from here on, whoever made the id. */
static bool listen_as_first(gw_nccl_comm *c) {
    struct sockaddr_un address;
    socklen_t length = address_of(&c->id, &address);
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(c->listener, (struct sockaddr *)&address, length) == 0 && listen(c->listener, RANKS) == 0;
}

int ncclCommInitRankConfig(gw_nccl_comm **comm, int ranks, gw_nccl_id id, int rank, gw_nccl_config *config) {
    const char *forced = getenv("NCCL_COMM_BLOCKING"); /* goes before what the caller says */
    int blocking = forced != NULL ? atoi(forced) : config->blocking;
    *comm = NULL;
    if (is_there("broken") || blocking != 0 || group.depth == 0 || ranks > RANKS) return INTERNAL_ERROR;
    gw_nccl_comm *c = calloc(1, sizeof *c);
    *c = (gw_nccl_comm){.id = id, .ranks = ranks, .rank = rank, .listener = -1, .state = GW_NCCL_IN_PROGRESS};
    for (int i = 0; i < RANKS; i++) c->peers[i] = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (rank == 0 && !listen_as_first(c)) return INTERNAL_ERROR;
    group.starts[group.begins++] = c;
    *comm = c;
    return GW_NCCL_SUCCESS;
}

int ncclCommGetAsyncError(gw_nccl_comm *comm, int *result) {
    *result = atomic_load(&comm->state);
    return GW_NCCL_SUCCESS;
}

int ncclCommAbort(gw_nccl_comm *c) {
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->aborted, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (c->listener >= 0) shutdown(c->listener, SHUT_RDWR);
    for (int i = 0; i < RANKS; i++)
        if (c->peers[i] >= 0) shutdown(c->peers[i], SHUT_RDWR);
    if (c->begun) pthread_join(c->thread, NULL);
    for (; c->count > 0; c->count--, c->first++) {
        stream *on = c->ops[c->first % OPS].stream;
        atomic_store(&on->aborted, true);
        atomic_fetch_add(&on->done, 1);
    }
    note("abort", c->ranks);
    if (c->listener >= 0) close(c->listener);
    for (int i = 0; i < RANKS; i++)
        if (c->peers[i] >= 0) close(c->peers[i]);
    free(c);
    return GW_NCCL_SUCCESS;
}

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int operation, gw_nccl_comm *c,
                  void *on) {
    bool known = operation == GW_NCCL_SUM || operation == GW_NCCL_MAX;
    if (!known || atomic_load(&c->state) != GW_NCCL_SUCCESS) return INTERNAL_ERROR;
    pthread_mutex_lock(&c->lock);
    bool fits = c->count < OPS;
    if (fits) {
        c->ops[(c->first + c->count++) % OPS] = (op){send, receive, count, type, operation, on};
        atomic_fetch_add(&((stream *)on)->begun, 1);
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return fits ? GW_NCCL_SUCCESS : INTERNAL_ERROR;
}

int ncclGroupStart(void) {
    group.depth++;
    return GW_NCCL_SUCCESS;
}

int ncclGroupEnd(void) {
    char mine[40];
    snprintf(mine, sizeof mine, "wedge.%d", (int)getpid());
    while (is_there(mine)) pause(); /* a driver that does not answer */
    group.depth--;
    for (unsigned i = 0; i < group.begins; i++) {
        gw_nccl_comm *c = group.starts[i];
        c->begun = pthread_create(&c->thread, NULL, run, c) == 0;
    }
    group.begins = 0;
    return GW_NCCL_IN_PROGRESS;
}

__attribute__((visibility("default"))) const char *ncclGetErrorString(int result) {
    return result == INTERNAL_ERROR ? "internal error" : "unhandled error";
}

__attribute__((visibility("default"))) const char *ncclGetLastError(gw_nccl_comm *comm) {
    (void)comm;
    return "";
}

/* ---- the driver ---- */

NCCL cuInit(unsigned flags);
NCCL cuDeviceGet(int *device, int ordinal);
NCCL cuDevicePrimaryCtxRetain(void **context, int device);
NCCL cuDevicePrimaryCtxRelease_v2(int device);
NCCL cuCtxSetCurrent(void *context);
NCCL cuEventCreate(void **made, unsigned flags);
NCCL cuEventRecord(void *recorded, void *on);
NCCL cuEventQuery(void *asked);
NCCL cuEventDestroy_v2(void *gone);
NCCL cuStreamCreate(void **made, unsigned flags);
NCCL cuStreamQuery(void *asked);
NCCL cuStreamDestroy_v2(void *gone);
NCCL cuGetErrorString(int result, const char **text);

int cuInit(unsigned flags) {
    return is_there("driverless") ? 100 : (int)flags;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < GPUS ? GW_CUDA_SUCCESS : 101;
}

static char contexts[GPUS];

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &contexts[device];
    return GW_CUDA_SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    return GW_CUDA_SUCCESS;
}

/* CUDA's runtime, whose stand-in is linked into the program, then works on the GPU of this context. */
int cuCtxSetCurrent(void *context) {
    int (*set_device)(int) = (int (*)(int))(uintptr_t)dlsym(RTLD_DEFAULT, "cudaSetDevice");
    if (context == NULL || set_device == NULL) return 201;
    return set_device((int)((const char *)context - contexts));
}

int cuEventCreate(void **made, unsigned flags) {
    (void)flags;
    *made = calloc(1, sizeof(event));
    return GW_CUDA_SUCCESS;
}

int cuEventRecord(void *recorded, void *on) {
    *(event *)recorded = (event){.of = on, .at = atomic_load(&((stream *)on)->begun)};
    return GW_CUDA_SUCCESS;
}

int cuEventQuery(void *asked) {
    const event *e = asked;
    return atomic_load(&e->of->done) >= e->at ? GW_CUDA_SUCCESS : GW_CUDA_NOT_READY;
}

int cuEventDestroy_v2(void *gone) {
    free(gone);
    return GW_CUDA_SUCCESS;
}

int cuStreamCreate(void **made, unsigned flags) {
    (void)flags;
    if (is_there("streamless")) return 2;
    *made = calloc(1, sizeof(stream));
    return GW_CUDA_SUCCESS;
}

int cuStreamQuery(void *asked) {
    stream *s = asked;
    if (atomic_load(&s->aborted) && is_there("lost")) return 214;
    return atomic_load(&s->done) == atomic_load(&s->begun) ? GW_CUDA_SUCCESS : GW_CUDA_NOT_READY;
}

int cuStreamDestroy_v2(void *gone) {
    free(gone);
    return GW_CUDA_SUCCESS;
}

int cuGetErrorString(int result, const char **text) {
    *text = result == 214 ? "uncorrectable ECC error encountered" : "an error";
    return GW_CUDA_SUCCESS;
}
