#include "tests/gpu_emulated/emulator.h"

#include "core/rng.h"
#include "tests/gpu_emulated/fiber.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_THREADS = 1024,
    MOST_WARPS = MOST_THREADS / EMULATED_WARP,
    MOST_SHARED = 227 * 1024, /* dynamic and static together: of a GPU of compute capability 9.0 */
    MOST_COPIES = 256,        /* of a thread that nothing has waited for */
};

typedef enum state { READY, AT_BLOCK, AT_WARP, ENDED } state;

typedef struct copy {
    char *to;
    const char *from;
    size_t bytes, copied;
    uint64_t group;
} copy;

typedef struct thread {
    fiber *on; /* NULL until it first runs */
    state state;
    emulated_site site; /* that it waits at */
    uint32_t lanes;
    emulated_exchange *exchange;
    void *own;
    uint64_t group; /* of copies that is not committed */
    uint32_t copies;
} thread;

emulated_place emulated_here;

/* What every .cu file declares __shared__ lies between these (shim.cuh); absent if none does. */
extern char shared_begin[] __asm__("__start_gpu_shared") __attribute__((weak));
extern char shared_end[] __asm__("__stop_gpu_shared") __attribute__((weak));

static struct {
    const emulated_shape *shape;
    void (*kernel)(const void *arguments);
    const void *arguments;
    uint32_t count; /* threads of a block */
    thread threads[MOST_THREADS];
    fiber fibers[MOST_THREADS], scheduler;
    fiber *idle[MOST_THREADS]; /* opened, without a thread */
    uint32_t opened, idle_count;
    uint32_t ready[MOST_THREADS], first, ready_count; /* a ring of threads that can go on */
    uint32_t ended;
    bool failed;
    char fault[600];
    gw_rng rng;
    uint64_t seed, conflicts;
} e;

static copy copies[MOST_THREADS][MOST_COPIES];
static _Alignas(1024) char dynamic_shared[MOST_SHARED];
static size_t most_shared;

/* ---- orders ---- */

void emulated_shuffle(uint64_t seed) {
    e.seed = seed;
    e.rng = gw_rng_seeded(seed);
}

/* Every number below `count` once: from `start` on in steps that share no factor with count. */
typedef struct order {
    uint64_t at, step, count;
} order;

static uint64_t common_factor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static order order_of(uint64_t count) {
    order o = {0, 1, count};
    if (e.seed == 0) return o;
    o.at = gw_rng_next(&e.rng) % count;
    o.step = gw_rng_next(&e.rng) % count + 1;
    while (common_factor(o.step, count) != 1) o.step++;
    return o;
}

static uint64_t next_of(order *o) {
    uint64_t at = o->at;
    o->at = (o->at + o->step) % o->count;
    return at;
}

/* ---- threads ---- */

static thread *self(void) {
    return &e.threads[emulated_here.number];
}

static void make_ready(uint32_t number) {
    e.threads[number].state = READY;
    e.ready[(e.first + e.ready_count++) % MOST_THREADS] = number;
}

/* What a fiber does: threads, one after the other. */
static void fiber_main(void) {
    fiber_begun();
    for (;;) {
        e.kernel(e.arguments);
        thread *t = self();
        t->state = ENDED;
        e.ended++;
        e.idle[e.idle_count++] = t->on;
        fiber_switch(t->on, &e.scheduler);
    }
}

static fiber *idle_fiber(void) {
    if (e.idle_count > 0) return e.idle[--e.idle_count];
    fiber *f = &e.fibers[e.opened++];
    fiber_open(f, fiber_main);
    return f;
}

static void go_on(uint32_t number) {
    thread *t = &e.threads[number];
    struct dim3 size = e.shape->block;
    if (t->on == NULL) t->on = idle_fiber();
    emulated_here.number = number;
    emulated_here.thread =
        (struct uint3){number % size.x, number / size.x % size.y, number / size.x / size.y};
    fiber_switch(&e.scheduler, t->on);
}

/* Until something wakes the thread that runs. */
static void stop(thread *t) {
    fiber_switch(t->on, &e.scheduler);
}

static size_t put_place(char *text, size_t room, uint32_t number) {
    struct dim3 size = e.shape->block;
    int n = snprintf(text, room, "thread (%u, %u, %u) of block (%u, %u, %u)", number % size.x,
                     number / size.x % size.y, number / size.x / size.y, emulated_here.block.x,
                     emulated_here.block.y, emulated_here.block.z);
    return (size_t)n < room ? (size_t)n : room - 1;
}

void emulated_fault(const char *format, ...) {
    thread *t = self();
    size_t used = put_place(e.fault, sizeof e.fault, emulated_here.number);
    used += (size_t)snprintf(e.fault + used, sizeof e.fault - used, ": ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(e.fault + used, sizeof e.fault - used, format, arguments);
    va_end(arguments);
    e.failed = true;
    fiber_switch(t->on, &e.scheduler);
    abort(); /* nobody wakes it */
}

/* ---- meeting ---- */

static bool same_site(const emulated_site *a, const emulated_site *b) {
    return a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0) &&
           (a->what == b->what || strcmp(a->what, b->what) == 0);
}

/* Reports a wait that cannot end and its cause: `waiting` waits for `other`. */
static void diverged(uint32_t waiting, uint32_t other) {
    const thread *w = &e.threads[waiting], *o = &e.threads[other];
    char *text = e.fault;
    size_t room = sizeof e.fault, used = put_place(text, room, waiting);
    used += (size_t)snprintf(text + used, room - used, " waits in %s (%s:%d), but ", w->site.what,
                             w->site.file, w->site.line);
    if (other < e.count)
        used += put_place(text + used, room - used, other);
    else
        used += (size_t)snprintf(text + used, room - used, "lane %u", other % EMULATED_WARP);
    if (other >= e.count)
        snprintf(text + used, room - used, ", which it waits for, does not exist");
    else if (o->state == ENDED)
        snprintf(text + used, room - used, " has ended");
    else
        snprintf(text + used, room - used, " waits in %s (%s:%d), lanes %08x and %08x", o->site.what,
                 o->site.file, o->site.line, w->lanes, o->lanes);
    e.failed = true;
}

void emulated_meet_block(emulated_site site) {
    thread *t = self();
    t->state = AT_BLOCK;
    t->site = site;
    t->lanes = 0;
    stop(t);
}

static uint32_t warp_of(uint32_t number) {
    return number / EMULATED_WARP * EMULATED_WARP;
}

/* A thread that `number` waits for and that is not there yet; MOST_THREADS: all are there. Threads mostly arrive in their
 * order, so the search begins behind `number`, where it mostly ends at once. */
static uint32_t missing(uint32_t number) {
    const thread *t = &e.threads[number];
    for (uint32_t i = 1; i <= EMULATED_WARP; i++) {
        uint32_t lane = (number + i) % EMULATED_WARP, other = warp_of(number) + lane;
        if ((t->lanes >> lane & 1u) == 0) continue;
        if (other >= e.count) return other;
        const thread *o = &e.threads[other];
        if (o->state != AT_WARP || o->lanes != t->lanes || o->exchange != t->exchange ||
            !same_site(&o->site, &t->site))
            return other;
    }
    return MOST_THREADS;
}

void emulated_meet_warp(emulated_site site, uint32_t lanes, emulated_exchange *exchange, void *own) {
    thread *t = self();
    uint32_t number = emulated_here.number, first = warp_of(number);
    if ((lanes >> number % EMULATED_WARP & 1u) == 0)
        emulated_fault("%s (%s:%d) with a mask, %08x, that lacks the thread itself", site.what, site.file,
                       site.line, lanes);
    t->state = AT_WARP;
    t->site = site;
    t->lanes = lanes;
    t->exchange = exchange;
    t->own = own;
    if (missing(number) != MOST_THREADS) {
        stop(t);
        return;
    }
    void *all[EMULATED_WARP] = {NULL};
    for (uint32_t lane = 0; lane < EMULATED_WARP; lane++)
        if (lanes >> lane & 1u) all[lane] = e.threads[first + lane].own;
    if (exchange != NULL) exchange(all, lanes);
    t->state = READY;
    for (uint32_t lane = 0; lane < EMULATED_WARP; lane++)
        if ((lanes >> lane & 1u) && first + lane != number) make_ready(first + lane);
}

/* Nobody can go on: all are at one barrier, or something is wrong. */
static void release(void) {
    uint32_t at_block = MOST_THREADS;
    for (uint32_t i = 0; i < e.count; i++) {
        if (e.threads[i].state == AT_WARP) {
            diverged(i, missing(i));
            return;
        }
        if (e.threads[i].state == AT_BLOCK && at_block == MOST_THREADS) at_block = i;
    }
    for (uint32_t i = 0; i < e.count; i++)
        if (e.threads[i].state == ENDED || !same_site(&e.threads[i].site, &e.threads[at_block].site)) {
            diverged(at_block, i);
            return;
        }
    order o = order_of(e.count);
    for (uint32_t i = 0; i < e.count; i++) make_ready((uint32_t)next_of(&o));
}

/* ---- shared memory ---- */

size_t emulated_most_shared(void) {
    size_t most = most_shared;
    most_shared = 0;
    return most;
}

void *emulated_shared(void) {
    return dynamic_shared;
}

bool emulated_is_shared(const void *at, size_t bytes) {
    uintptr_t begin = (uintptr_t)at, end = begin + bytes, dynamic = (uintptr_t)dynamic_shared;
    return (begin >= dynamic && end <= dynamic + e.shape->shared_bytes) ||
           (begin >= (uintptr_t)shared_begin && end <= (uintptr_t)shared_end);
}

uint64_t emulated_conflicts(void) {
    return e.conflicts;
}

/* 32 banks of 4 bytes each: eight times 16 bytes take one turn if they lie in eight different groups. */
void emulated_count_conflicts(void *const at[8]) {
    uint32_t taken = 0;
    for (int i = 0; i < 8; i++) {
        uint32_t group = 1u << ((uintptr_t)at[i] / 16 % 8);
        e.conflicts += (taken & group) != 0;
        taken |= group;
    }
}

void emulated_copy_begin(void *to, const void *from, size_t bytes, size_t copied) {
    thread *t = self();
    if (t->copies == MOST_COPIES) emulated_fault("more copies under way than the emulator keeps");
    if (!emulated_is_shared(to, bytes)) emulated_fault("a copy to what is not shared memory");
    copies[emulated_here.number][t->copies++] = (copy){to, from, bytes, copied, t->group};
}

void emulated_copy_commit(void) {
    self()->group++;
}

void emulated_copy_wait(unsigned left) {
    thread *t = self();
    copy *own = copies[emulated_here.number];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->copies; i++) {
        copy c = own[i];
        if (c.group + left < t->group) {
            if (c.copied > 0) memcpy(c.to, c.from, c.copied);
            memset(c.to + c.copied, 0, c.bytes - c.copied);
        } else {
            own[kept++] = c;
        }
    }
    t->copies = kept;
}

/* ---- running ---- */

static void begin_block(uint64_t number) {
    struct dim3 grid = e.shape->grid;
    emulated_here.block = (struct uint3){(unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y),
                                         (unsigned)(number / grid.x / grid.y)};
    memset(dynamic_shared, 0xFF, e.shape->shared_bytes);
    if (shared_begin != NULL) memset(shared_begin, 0xFF, (size_t)(shared_end - shared_begin));
    e.first = e.ready_count = e.ended = 0;
    order o = order_of(e.count);
    for (uint32_t i = 0; i < e.count; i++) {
        thread *t = &e.threads[i];
        t->on = NULL;
        t->group = 0;
        t->copies = 0;
        make_ready((uint32_t)next_of(&o));
    }
}

static void run_block(uint64_t number) {
    begin_block(number);
    while (e.ended < e.count && !e.failed) {
        if (e.ready_count == 0) {
            release();
            continue;
        }
        uint32_t next = e.ready[e.first];
        e.first = (e.first + 1) % MOST_THREADS;
        e.ready_count--;
        go_on(next);
    }
}

/* Makes every fiber ready for another kernel, those that stopped on their way among them. */
static void start_again(void) {
    for (uint32_t i = 0; i < e.opened; i++) {
        fiber_restart(&e.fibers[i], fiber_main);
        e.idle[i] = &e.fibers[i];
    }
    e.idle_count = e.opened;
}

const char *emulated_run(const emulated_shape *shape, void (*kernel)(const void *arguments),
                         const void *arguments) {
    struct dim3 grid = shape->grid, block = shape->block;
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    if (threads == 0 || threads > MOST_THREADS || block.z > 64 || blocks == 0 || grid.x > INT32_MAX ||
        grid.y > UINT16_MAX || grid.z > UINT16_MAX || shape->shared_bytes > MOST_SHARED) {
        snprintf(e.fault, sizeof e.fault,
                 "no GPU takes a grid of %u x %u x %u, blocks of %u x %u x %u, %zu bytes of shared memory",
                 grid.x, grid.y, grid.z, block.x, block.y, block.z, shape->shared_bytes);
        return e.fault;
    }
    if (shape->shared_bytes > most_shared) most_shared = shape->shared_bytes;
    e.shape = shape;
    e.kernel = kernel;
    e.arguments = arguments;
    e.count = (uint32_t)threads;
    e.failed = false;
    e.scheduler = (fiber){0};
    emulated_here.grid = grid;
    emulated_here.block_size = block;
    order o = order_of(blocks);
    for (uint64_t i = 0; i < blocks && !e.failed; i++) run_block(next_of(&o));
    if (!e.failed) return NULL;
    start_again();
    return e.fault;
}
