#include "tests/net/nccl/fake.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COMMS = 64, OPS = 4096, MOST_EVENTS = 256 };

typedef struct op {
    const void *send;
    void *receive;
    size_t count;
    int type, operation;
    bool launched, done;
} op;

struct gw_nccl_comm {
    bool used, formed, launching, aborted;
    int ails; /* the result that it reports; 0: nothing is wrong */
    gw_nccl_id id;
    int ranks, rank, ordinal;
    op *ops;
    unsigned op_count;
};

typedef struct fake_stream {
    int ordinal;
} fake_stream;

typedef struct event {
    bool used;
    gw_nccl_comm *comm; /* the operations on the stream when it was recorded, and how many of them are done */
    unsigned ops;
    int ordinal;
} event;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool block_aborts, blocked;
    int gpus;
    gw_nccl_comm comms[COMMS];
    fake_stream streams[FAKE_GPUS];
    event events[MOST_EVENTS];
    bool hold, jam[FAKE_GPUS];
    void (*follow)(int ordinal);
    unsigned ration; /* all-reduces that may still end */
    int broken[FAKE_GPUS], lost[FAKE_GPUS], refuse_init[FAKE_GPUS], ail_init[FAKE_GPUS],
        refuse_sum[FAKE_GPUS], refuse_id;
    uint64_t group_bytes[FAKE_GPUS];
    unsigned ids, launched;
    fake_counts counts;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Groups belong to a thread. */
static _Thread_local struct {
    int depth, result;
    bool aborts;
    int context; /* ordinal + 1; 0: none */
} mine;

static void misuse(const char *what) {
    if (fake.counts.misuse == NULL) fake.counts.misuse = what;
}

static void lock(void) {
    pthread_mutex_lock(&fake.lock);
}

static int unlock(int result) {
    pthread_mutex_unlock(&fake.lock);
    return result;
}

/* How operations proceed. */

static gw_nccl_comm *rank_of(const gw_nccl_id *id, int rank) {
    for (int i = 0; i < COMMS; i++) {
        gw_nccl_comm *c = &fake.comms[i];
        if (c->used && !c->aborted && c->rank == rank && memcmp(&c->id, id, sizeof *id) == 0) return c;
    }
    return NULL;
}

/* A rank that has failed does not join again: the others stay connected to its former self. */
static bool all_there(const gw_nccl_comm *comm) {
    for (int i = 0; i < COMMS; i++) {
        const gw_nccl_comm *c = &fake.comms[i];
        if (c->used && c->ails != 0 && memcmp(&c->id, &comm->id, sizeof c->id) == 0) return false;
    }
    for (int r = 0; r < comm->ranks; r++)
        if (rank_of(&comm->id, r) == NULL) return false;
    return true;
}

static int64_t integer_at(const op *o, size_t i) {
    return o->type == GW_NCCL_INT64 ? ((const int64_t *)o->send)[i] : ((const int32_t *)o->send)[i];
}

/* The result for one element. A sum of int32 that does not fit is a use that NCCL does not notice. */
static int64_t reduce_integers(const gw_nccl_comm *comm, unsigned index, size_t i) {
    const op *first = &rank_of(&comm->id, 0)->ops[index];
    int64_t result = integer_at(first, i);
    for (int r = 1; r < comm->ranks; r++) {
        int64_t next = integer_at(&rank_of(&comm->id, r)->ops[index], i);
        if (first->operation == GW_NCCL_SUM)
            result = (int64_t)((uint64_t)result + (uint64_t)next);
        else if (next > result)
            result = next;
    }
    if (first->type == GW_NCCL_INT32 && result != (int32_t)result) misuse("a sum of int32 does not fit");
    return result;
}

static float add_floats(const gw_nccl_comm *comm, unsigned index, size_t i) {
    float sum = 0;
    for (int r = 0; r < comm->ranks; r++) sum += ((const float *)rank_of(&comm->id, r)->ops[index].send)[i];
    return sum;
}

static void add(const gw_nccl_comm *comm, unsigned index) {
    const op *how = &rank_of(&comm->id, 0)->ops[index];
    for (size_t i = 0; i < how->count; i++) {
        bool floats = how->type == GW_NCCL_FLOAT32;
        int64_t whole = floats ? 0 : reduce_integers(comm, index, i);
        float sum = floats ? add_floats(comm, index, i) : 0;
        for (int t = 0; t < comm->ranks; t++) {
            const op *to = &rank_of(&comm->id, t)->ops[index];
            if (floats)
                ((float *)to->receive)[i] = sum;
            else if (how->type == GW_NCCL_INT64)
                ((int64_t *)to->receive)[i] = whole;
            else
                ((int32_t *)to->receive)[i] = (int32_t)whole;
        }
    }
}

static bool can_run(const gw_nccl_comm *comm, unsigned index) {
    for (int r = 0; r < comm->ranks; r++) {
        const gw_nccl_comm *c = rank_of(&comm->id, r);
        if (c == NULL || fake.jam[c->ordinal] || c->op_count <= index || !c->ops[index].launched)
            return false;
    }
    return true;
}

/* Executes what all ranks have launched. */
static void progress(void) {
    if (fake.hold) return;
    for (int i = 0; i < COMMS; i++) {
        gw_nccl_comm *c = &fake.comms[i];
        if (!c->used || c->aborted) continue;
        if (!c->formed && all_there(c)) c->formed = true;
        for (unsigned k = 0; k < c->op_count; k++) {
            if (c->ops[k].done || fake.ration == 0 || !can_run(c, k)) continue;
            fake.ration--;
            add(c, k);
            for (int r = 0; r < c->ranks; r++) rank_of(&c->id, r)->ops[k].done = true;
        }
    }
}

/* NCCL. */

static int get_version(int *version) {
    *version = 22809;
    return GW_NCCL_SUCCESS;
}

static int get_unique_id(gw_nccl_id *id) {
    lock();
    int result = fake.refuse_id;
    fake.refuse_id = 0;
    memset(id, 0, sizeof *id);
    memcpy(id->bytes, &(unsigned){++fake.ids}, sizeof(unsigned));
    return unlock(result);
}

static int comm_init(gw_nccl_comm **comm, int ranks, gw_nccl_id id, int rank, gw_nccl_config *config) {
    lock();
    int ordinal = mine.context - 1;
    if (mine.depth == 0) misuse("a communicator of several GPUs is formed outside a group");
    if (ordinal < 0) misuse("a communicator is formed without a context");
    if (config->blocking != 0 || config->magic != (unsigned)GW_NCCL_MAGIC) misuse("a blocking communicator");
    fake.counts.blocking = config->blocking;
    fake.counts.config_version = config->version;
    *comm = NULL;
    if (ordinal >= 0 && fake.refuse_init[ordinal] != 0) {
        mine.result = fake.refuse_init[ordinal];
        fake.refuse_init[ordinal] = 0;
        return unlock(mine.result);
    }
    for (int i = 0; i < COMMS && *comm == NULL; i++)
        if (!fake.comms[i].used) *comm = &fake.comms[i];
    **comm = (gw_nccl_comm){.used = true, .id = id, .ranks = ranks, .rank = rank, .ordinal = ordinal};
    (*comm)->ops = calloc(OPS, sizeof(op));
    (*comm)->ails = fake.ail_init[ordinal];
    fake.ail_init[ordinal] = 0;
    fake.counts.inits++;
    pthread_cond_broadcast(&fake.changed);
    fake.counts.comms++;
    return unlock(GW_NCCL_IN_PROGRESS);
}

static int get_async_error(gw_nccl_comm *comm, int *result) {
    lock();
    if (comm == NULL || comm->aborted) {
        misuse("a communicator is asked after its abort");
        *result = 4;
        return unlock(4);
    }
    progress();
    if (fake.broken[comm->ordinal] != 0) {
        *result = fake.broken[comm->ordinal];
    } else if (comm->ails != 0) {
        *result = comm->ails;
    } else if (!comm->formed || fake.hold) {
        *result = GW_NCCL_IN_PROGRESS;
    } else if (comm->launching) { /* it was asked once: the launch is over the next time */
        comm->launching = false;
        for (unsigned k = 0; k < comm->op_count; k++) {
            fake.launched += !comm->ops[k].launched;
            comm->ops[k].launched = true;
        }
        pthread_cond_broadcast(&fake.changed);
        *result = GW_NCCL_IN_PROGRESS;
    } else {
        *result = GW_NCCL_SUCCESS;
    }
    return unlock(GW_NCCL_SUCCESS);
}

static int comm_abort(gw_nccl_comm *comm) {
    lock();
    if (mine.depth == 0) misuse("an abort outside a group");
    if (comm->aborted) misuse("a second abort");
    fake.blocked = fake.block_aborts;
    pthread_cond_broadcast(&fake.changed);
    while (fake.block_aborts) pthread_cond_wait(&fake.changed, &fake.lock);
    fake.blocked = false;
    mine.aborts = true;
    comm->aborted = true;
    fake.counts.aborts++;
    pthread_cond_broadcast(&fake.changed);
    fake.counts.comms--;
    return unlock(GW_NCCL_SUCCESS);
}

static int all_reduce(const void *send, void *receive, size_t count, int type, int operation,
                      gw_nccl_comm *comm, void *stream) {
    lock();
    if (comm->aborted || !comm->formed || comm->launching)
        misuse("a sum on a communicator that is not ready");
    bool in_place = type == GW_NCCL_INT32;
    if (operation != GW_NCCL_SUM && (operation != GW_NCCL_MAX || !in_place)) misuse("not a sum");
    if ((send == receive) != in_place) misuse("a sum in place, or int32 elsewhere");
    if (stream != &fake.streams[comm->ordinal]) misuse("a sum on another GPU's stream");
    if (mine.depth == 0) misuse("sums of several GPUs outside a group");
    if (fake.refuse_sum[comm->ordinal] != 0) {
        mine.result = fake.refuse_sum[comm->ordinal];
        fake.refuse_sum[comm->ordinal] = 0;
        return unlock(mine.result);
    }
    comm->ops[comm->op_count++] =
        (op){.send = send, .receive = receive, .count = count, .type = type, .operation = operation};
    fake.group_bytes[comm->ordinal] += count * (type == GW_NCCL_INT64 ? 8 : 4);
    if (fake.group_bytes[comm->ordinal] > fake.counts.largest_bytes)
        fake.counts.largest_bytes = fake.group_bytes[comm->ordinal];
    if (operation == GW_NCCL_SUM) fake.counts.sums++;
    if (operation == GW_NCCL_SUM && in_place) fake.counts.narrow_sums++;
    return unlock(GW_NCCL_SUCCESS);
}

static int group_start(void) {
    lock();
    if (mine.depth++ > 0) misuse("a group in a group");
    mine.result = GW_NCCL_SUCCESS;
    mine.aborts = false;
    memset(fake.group_bytes, 0, sizeof fake.group_bytes);
    return unlock(GW_NCCL_SUCCESS);
}

static int group_end(void) {
    lock();
    if (--mine.depth < 0) misuse("the end of no group");
    fake.counts.groups++;
    fake.counts.abort_groups += mine.aborts;
    for (int i = 0; i < COMMS; i++) {
        gw_nccl_comm *c = &fake.comms[i];
        bool fresh = c->used && !c->aborted && c->op_count > 0 && !c->ops[c->op_count - 1].launched;
        if (fresh) c->launching = true;
    }
    if (mine.aborts) return unlock(GW_NCCL_SUCCESS);
    return unlock(mine.result != GW_NCCL_SUCCESS ? mine.result : GW_NCCL_IN_PROGRESS);
}

static const char *nccl_text(int result) {
    return result == GW_NCCL_REMOTE_ERROR ? "remote process exited" : "unhandled error";
}

static const char *nccl_last(gw_nccl_comm *comm) {
    (void)comm;
    return "";
}

/* CUDA. */

static int init(unsigned flags) {
    return (int)flags;
}

static int device_get(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < fake.gpus ? GW_CUDA_SUCCESS : 101;
}

static int context_retain(void **context, int device) {
    lock();
    fake.counts.contexts_held++;
    *context = &fake.streams[device];
    return unlock(GW_CUDA_SUCCESS);
}

static int context_release(int device) {
    (void)device;
    lock();
    fake.counts.contexts_held--;
    return unlock(GW_CUDA_SUCCESS);
}

static int context_set(void *context) {
    mine.context = ((fake_stream *)context)->ordinal + 1;
    if (fake.follow != NULL) fake.follow(mine.context - 1);
    return GW_CUDA_SUCCESS;
}

static int event_create(void **made, unsigned flags) {
    (void)flags;
    lock();
    for (int i = 0; i < MOST_EVENTS; i++) {
        if (fake.events[i].used) continue;
        fake.events[i] = (event){.used = true, .ordinal = mine.context - 1};
        *made = &fake.events[i];
        fake.counts.events++;
        return unlock(GW_CUDA_SUCCESS);
    }
    return unlock(2);
}

static gw_nccl_comm *newest_on(int ordinal) {
    gw_nccl_comm *newest = NULL;
    for (int i = 0; i < COMMS; i++)
        if (fake.comms[i].used && fake.comms[i].ordinal == ordinal) newest = &fake.comms[i];
    return newest;
}

static bool has_happened(const event *e) {
    for (unsigned k = 0; k < e->ops; k++)
        if (!e->comm->aborted && !e->comm->ops[k].done) return false;
    return true;
}

static int event_record(void *recorded, void *stream) {
    lock();
    event *e = recorded;
    int ordinal = ((fake_stream *)stream)->ordinal;
    if (mine.context - 1 != ordinal || e->ordinal != ordinal) misuse("an event of another GPU");
    if (!has_happened(e)) misuse("an event is recorded again before it has happened");
    e->comm = newest_on(ordinal);
    e->ops = 0; /* an operation that is not launched yet is not on the stream */
    while (e->ops < e->comm->op_count && e->comm->ops[e->ops].launched) e->ops++;
    return unlock(fake.lost[ordinal]);
}

static int event_query(void *asked) {
    lock();
    event *e = asked;
    progress();
    if (fake.lost[e->ordinal] != 0) return unlock(fake.lost[e->ordinal]);
    return unlock(has_happened(e) ? GW_CUDA_SUCCESS : GW_CUDA_NOT_READY);
}

static int event_destroy(void *event_gone) {
    lock();
    ((event *)event_gone)->used = false;
    fake.counts.events--;
    return unlock(GW_CUDA_SUCCESS);
}

static int stream_create(void **stream, unsigned flags) {
    lock();
    if (flags != GW_CUDA_STREAM_OWN) misuse("a stream that others wait for");
    *stream = &fake.streams[mine.context - 1];
    fake.counts.streams++;
    return unlock(GW_CUDA_SUCCESS);
}

static int stream_destroy(void *stream) {
    (void)stream;
    lock();
    fake.counts.streams--;
    return unlock(GW_CUDA_SUCCESS);
}

static int stream_query(void *stream) {
    lock();
    int ordinal = ((fake_stream *)stream)->ordinal;
    if (fake.lost[ordinal] != 0) return unlock(fake.lost[ordinal]);
    const gw_nccl_comm *comm = newest_on(ordinal);
    if (comm != NULL && comm->aborted && !fake.jam[ordinal]) return unlock(GW_CUDA_SUCCESS);
    for (unsigned k = 0; comm != NULL && k < comm->op_count; k++)
        if (comm->ops[k].launched && !comm->ops[k].done) return unlock(GW_CUDA_NOT_READY);
    return unlock(GW_CUDA_SUCCESS);
}

/* Kernels. They run when they are started, on whose context is current. */

static void expect_kernel(const void *stream) {
    lock();
    const fake_stream *on = stream;
    if (mine.context - 1 != on->ordinal) misuse("a kernel in another GPU's context");
    if (mine.depth > 0) misuse("a kernel in a group");
    unlock(0);
}

static bool words_open(int gpu, gw_nccl_words *words, gw_err *err) {
    (void)gpu, (void)err;
    *words = (gw_nccl_words){calloc(GW_NCCL_WIDTHS, 4), calloc(GW_NCCL_WIDTHS, 4)};
    return true;
}

static void words_close(int gpu, gw_nccl_words *words) {
    (void)gpu;
    free(words->on_gpu);
    free(words->seen);
}

static bool words_clear(const gw_nccl_words *words, uint32_t count, void *stream, gw_err *err) {
    (void)err;
    expect_kernel(stream);
    memset(words->on_gpu, 0, count * sizeof *words->on_gpu);
    return true;
}

static bool measure(const int64_t *in, uint64_t count, uint32_t *word, void *stream, gw_err *err) {
    (void)err;
    expect_kernel(stream);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t width = 1;
        while (width < 64 && (in[i] >> (width - 1)) != (in[i] < 0 ? -1 : 0)) width++;
        if (width > *word) *word = width;
    }
    return true;
}

static bool words_tell(const gw_nccl_words *words, uint32_t count, void *stream, gw_err *err) {
    (void)err;
    expect_kernel(stream);
    memcpy(words->seen, words->on_gpu, count * sizeof *words->seen);
    return true;
}

static bool narrow(const int64_t *in, uint64_t count, int64_t *out, void *stream, gw_err *err) {
    (void)err;
    expect_kernel(stream);
    for (uint64_t i = 0; i < count; i++) gw_nccl_narrowed(out, count)[i] = (int32_t)in[i];
    return true;
}

static bool widen(int64_t *out, uint64_t count, void *stream, gw_err *err) {
    (void)err;
    expect_kernel(stream);
    for (uint64_t i = 0; i < count; i++) out[i] = gw_nccl_narrowed(out, count)[i];
    return true;
}

static int cuda_text(int result, const char **text) {
    *text =
        result == 700 ? "an illegal memory access was encountered" : "uncorrectable ECC error encountered";
    return GW_CUDA_SUCCESS;
}

/* The functions for tests. */

void fake_reset(int gpus) {
    lock();
    for (int i = 0; i < COMMS; i++) free(fake.comms[i].ops);
    memset(fake.comms, 0, sizeof fake.comms);
    memset(fake.events, 0, sizeof fake.events);
    memset(fake.jam, 0, sizeof fake.jam);
    memset(fake.broken, 0, sizeof fake.broken);
    memset(fake.lost, 0, sizeof fake.lost);
    memset(fake.refuse_init, 0, sizeof fake.refuse_init);
    memset(fake.ail_init, 0, sizeof fake.ail_init);
    memset(fake.refuse_sum, 0, sizeof fake.refuse_sum);
    fake.counts = (fake_counts){0};
    fake.hold = fake.block_aborts = fake.blocked = false;
    fake.refuse_id = 0;
    fake.follow = NULL;
    fake.gpus = gpus;
    fake.ration = UINT_MAX;
    fake.launched = 0;
    for (int i = 0; i < FAKE_GPUS; i++) fake.streams[i].ordinal = i;
    unlock(0);
}

const gw_nccl_api *fake_nccl(void) {
    static const gw_nccl_api api = {
        .get_version = get_version,
        .get_unique_id = get_unique_id,
        .comm_init_rank_config = comm_init,
        .comm_get_async_error = get_async_error,
        .comm_abort = comm_abort,
        .all_reduce = all_reduce,
        .group_start = group_start,
        .group_end = group_end,
        .get_error_string = nccl_text,
        .get_last_error = nccl_last,
    };
    return &api;
}

const gw_cuda_api *fake_cuda(void) {
    static const gw_cuda_api api = {
        .init = init,
        .device_get = device_get,
        .primary_context_retain = context_retain,
        .primary_context_release = context_release,
        .context_set_current = context_set,
        .event_create = event_create,
        .event_record = event_record,
        .event_query = event_query,
        .event_destroy = event_destroy,
        .stream_create = stream_create,
        .stream_query = stream_query,
        .stream_destroy = stream_destroy,
        .get_error_string = cuda_text,
    };
    return &api;
}

const gw_nccl_narrow *fake_narrow(void) {
    static const gw_nccl_narrow table = {words_open, words_close, words_clear, measure,
                                         words_tell, narrow,      widen};
    return &table;
}

void fake_follow_context(void (*follow)(int ordinal)) {
    lock();
    fake.follow = follow;
    unlock(0);
}

void fake_hold(bool hold) {
    lock();
    fake.hold = hold;
    unlock(0);
}

void fake_ration(unsigned sums) {
    lock();
    fake.ration = sums;
    unlock(0);
}

void fake_fail_communicator(int ordinal, int result) {
    lock();
    fake.broken[ordinal] = result;
    unlock(0);
}

void fake_jam(int ordinal, bool jam) {
    lock();
    fake.jam[ordinal] = jam;
    unlock(0);
}

void fake_lose(int ordinal, int result) {
    lock();
    fake.lost[ordinal] = result;
    unlock(0);
}

void fake_refuse_init(int ordinal, int result) {
    lock();
    fake.refuse_init[ordinal] = result;
    unlock(0);
}

void fake_ail_init(int ordinal, int result) {
    lock();
    fake.ail_init[ordinal] = result;
    unlock(0);
}

void fake_refuse_sum(int ordinal, int result) {
    lock();
    fake.refuse_sum[ordinal] = result;
    unlock(0);
}

void fake_block_aborts(bool block) {
    lock();
    fake.block_aborts = block;
    pthread_cond_broadcast(&fake.changed);
    unlock(0);
}

void fake_await_blocked(void) {
    lock();
    while (!fake.blocked) pthread_cond_wait(&fake.changed, &fake.lock);
    unlock(0);
}

void fake_await_inits(unsigned inits) {
    lock();
    while (fake.counts.inits < inits) pthread_cond_wait(&fake.changed, &fake.lock);
    unlock(0);
}

void fake_await_sums(unsigned sums) {
    lock();
    while (fake.launched < sums) pthread_cond_wait(&fake.changed, &fake.lock);
    unlock(0);
}

void fake_await_aborts(unsigned aborts) {
    lock();
    while (fake.counts.aborts < aborts) pthread_cond_wait(&fake.changed, &fake.lock);
    unlock(0);
}

void fake_refuse_id(int result) {
    lock();
    fake.refuse_id = result;
    unlock(0);
}

fake_counts fake_count(void) {
    lock();
    fake_counts counts = fake.counts;
    unlock(0);
    return counts;
}
