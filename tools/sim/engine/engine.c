#include "tools/sim/engine/engine.h"

#include "core/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pending {
    gw_sim_event event;
    uint8_t bytes[]; /* bytes of the event */
} pending;

/* An entry of the heap. The keys of the order are in the heap itself, so that sifting touches no pending
 * event. */
typedef struct slot {
    uint64_t at_ns, serial;
    pending *what;
    uint8_t order;
} slot;

struct gw_sim_engine {
    uint64_t now_ns, serial, run;
    slot *heap;
    size_t count, capacity;
};

static void *must(void *memory) {
    if (memory == NULL) {
        fputs("godwit sim: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

gw_sim_engine *gw_sim_engine_create(uint64_t start_ns) {
    gw_sim_engine *engine = must(calloc(1, sizeof *engine));
    engine->now_ns = start_ns;
    return engine;
}

void gw_sim_engine_destroy(gw_sim_engine *engine) {
    if (engine == NULL) return;
    for (size_t i = 0; i < engine->count; i++) free(engine->heap[i].what);
    free(engine->heap);
    free(engine);
}

uint64_t gw_sim_now(const gw_sim_engine *engine) {
    return engine->now_ns;
}

uint64_t gw_sim_events_run(const gw_sim_engine *engine) {
    return engine->run;
}

static bool before(const slot *x, const slot *y) {
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns;
    if (x->order != y->order) return x->order < y->order;
    return x->serial < y->serial;
}

static pending *copy_of(const gw_sim_event *event) {
    pending *p = must(malloc(sizeof *p + event->length));
    p->event = *event;
    p->event.bytes = event->length > 0 ? p->bytes : NULL;
    if (event->length > 0) memcpy(p->bytes, event->bytes, event->length);
    return p;
}

void gw_sim_schedule(gw_sim_engine *engine, uint64_t at_ns, const gw_sim_event *event) {
    if (engine->count == engine->capacity) {
        engine->capacity = engine->capacity == 0 ? 1024 : 2 * engine->capacity;
        engine->heap = must(realloc(engine->heap, engine->capacity * sizeof *engine->heap));
    }
    slot new = {.at_ns = at_ns < engine->now_ns ? engine->now_ns : at_ns,
                .serial = engine->serial++,
                .what = copy_of(event),
                .order = event->order};
    size_t hole = engine->count++;
    while (hole > 0 && before(&new, &engine->heap[(hole - 1) / 2])) {
        engine->heap[hole] = engine->heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    engine->heap[hole] = new;
}

static slot pop(gw_sim_engine *engine) {
    slot first = engine->heap[0], last = engine->heap[--engine->count];
    size_t hole = 0;
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= engine->count) break;
        if (child + 1 < engine->count && before(&engine->heap[child + 1], &engine->heap[child])) child++;
        if (!before(&engine->heap[child], &last)) break;
        engine->heap[hole] = engine->heap[child];
        hole = child;
    }
    if (engine->count > 0) engine->heap[hole] = last;
    return first;
}

bool gw_sim_step(gw_sim_engine *engine, uint64_t until_ns) {
    if (engine->count == 0 || engine->heap[0].at_ns > until_ns) {
        if (engine->now_ns < until_ns) engine->now_ns = until_ns;
        return false;
    }
    slot next = pop(engine);
    GW_ASSERT(next.at_ns >= engine->now_ns);
    engine->now_ns = next.at_ns;
    engine->run++;
    next.what->event.run(next.what->event.context, &next.what->event);
    free(next.what);
    return true;
}
