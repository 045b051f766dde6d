#include "net/rdma/loopback.h"

#include "core/os/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS = 2000 /* polls before the thread yields the processor and reads the clock */ };

#define PATIENCE_NS                                                                                          \
    UINT64_C(10000000000) /* how long an operation may take that normally takes microseconds */
#define PROOF_NS UINT64_C(1000000000)

struct gw_rdma_loopback {
    gw_rdma_memory *memory;
    gw_rdma_queue *queue; /* NULL: the device did not answer, and the queue pair was closed */
    pthread_mutex_t lock;
    uint64_t patience_ns;
    const gw_rdma_region *region; /* the registration of `answer` */
    _Alignas(64) uint64_t answer;
};

gw_rdma_loopback *gw_rdma_loopback_open(gw_rdma_memory *memory, gw_err *err) {
    const gw_rdma_device *device = gw_rdma_memory_device(memory);
    if (device->atomics == IBV_ATOMIC_NONE) {
        gw_fail(err, GW_E_UNSUPPORTED, "net/rdma: %s has no atomic operations", device->name);
        return NULL;
    }
    gw_rdma_loopback *loop = aligned_alloc(64, (sizeof *loop + 63) / 64 * 64);
    if (loop == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    *loop = (gw_rdma_loopback){.memory = memory, .patience_ns = PATIENCE_NS};
    pthread_mutex_init(&loop->lock, NULL);
    loop->region = gw_rdma_memory_take(memory, &loop->answer, sizeof loop->answer, GW_RDMA_LOCAL, err);
    if (loop->region != NULL)
        loop->queue = gw_rdma_queue_open(memory, &(gw_rdma_queue_options){.send_depth = 4}, err);
    if (loop->queue != NULL && gw_rdma_queue_connect_self(loop->queue, err)) return loop;
    gw_rdma_loopback_close(loop);
    return NULL;
}

void gw_rdma_loopback_close(gw_rdma_loopback *loop) {
    if (loop == NULL) return;
    gw_rdma_queue_close(loop->queue);
    gw_rdma_memory_drop(loop->memory, loop->region);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

static void on_done(void *context, gw_rdma_work *work, gw_rdma_outcome outcome) {
    (void)work;
    *(gw_rdma_outcome *)context = outcome;
}

/* Waits for the outcome; 0 if there is none after a time that no working device takes. This process may have
 * been stopped meanwhile, so the last poll comes after the last reading of the clock. */
static gw_rdma_outcome wait_for(gw_rdma_loopback *loop, const gw_rdma_outcome *outcome,
                                const gw_rdma_handlers *handlers) {
    uint64_t end = UINT64_MAX;
    for (uint32_t spins = 0; *outcome == 0; spins++) {
        uint64_t now = spins < SPINS ? 0 : gw_now_ns();
        gw_rdma_queue_poll(loop->queue, handlers);
        if (now >= end) break;
        if (spins == SPINS) end = now + loop->patience_ns;
        if (spins >= SPINS) sched_yield();
    }
    return *outcome;
}

/* Performs one operation. Afterwards the device does not refer to `work` any more. Called with the lock
 * held. */
static bool perform(gw_rdma_loopback *loop, gw_rdma_work *work, gw_err *err) {
    gw_rdma_outcome outcome = 0;
    gw_rdma_handlers handlers = {.context = &outcome, .done = on_done};
    const gw_rdma_device *device = gw_rdma_memory_device(loop->memory);
    if (loop->queue != NULL) {
        gw_rdma_queue_post(loop->queue, work);
        if (wait_for(loop, &outcome, &handlers) == GW_RDMA_DONE) return true;
        if (outcome != 0) {
            *err = *gw_rdma_queue_trouble(loop->queue, NULL);
            return false;
        }
        gw_rdma_queue_close(loop->queue);
        loop->queue = NULL;
    }
    return gw_fail(err, GW_E_TIMEOUT, "net/rdma: %s port %u: an atomic operation has not ended within %d s",
                   device->name, device->port, (int)(loop->patience_ns / 1000000000));
}

static bool run(gw_rdma_loopback *loop, gw_rdma_work *work, uint64_t *found, gw_err *err) {
    work->local = (uint8_t *)&loop->answer;
    work->bytes = sizeof loop->answer;
    pthread_mutex_lock(&loop->lock);
    work->lkey = loop->region->lkey;
    bool done = perform(loop, work, err);
    *found = atomic_load_explicit((_Atomic uint64_t *)&loop->answer, memory_order_acquire);
    pthread_mutex_unlock(&loop->lock);
    return done;
}

bool gw_rdma_loopback_swap(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t expected,
                           uint64_t operand, uint64_t *found, gw_err *err) {
    gw_rdma_work work = {.verb = GW_RDMA_CAS,
                         .remote = (uintptr_t)word,
                         .rkey = rkey,
                         .expected = expected,
                         .operand = operand};
    return run(loop, &work, found, err);
}

bool gw_rdma_loopback_add(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t operand,
                          uint64_t *found, gw_err *err) {
    gw_rdma_work work = {
        .verb = GW_RDMA_FETCH_ADD, .remote = (uintptr_t)word, .rkey = rkey, .operand = operand};
    return run(loop, &work, found, err);
}

bool gw_rdma_loopback_store(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t value,
                            uint64_t *found, gw_err *err) {
    uint64_t expected = atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_acquire);
    while (gw_rdma_loopback_swap(loop, word, rkey, expected, value, found, err)) {
        if (*found == expected) return true;
        expected = *found;
    }
    return false;
}

bool gw_rdma_loopback_prove(gw_rdma_loopback *loop, const void *word, uint32_t rkey, gw_err *err) {
    uint64_t found;
    loop->patience_ns = PROOF_NS;
    bool done = gw_rdma_loopback_add(loop, word, rkey, 0, &found, err);
    loop->patience_ns = PATIENCE_NS;
    return done;
}
