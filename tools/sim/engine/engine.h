/* A discrete-event engine with virtual nanoseconds and a binary heap. The order depends only on what was
 * scheduled: events at one instant run by class, then in the order in which they were scheduled. */
#ifndef GODWIT_TOOLS_SIM_ENGINE_ENGINE_H
#define GODWIT_TOOLS_SIM_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_sim_engine gw_sim_engine;

/* An event: plain numbers whose meaning is known to its handler, and bytes that the engine owns. */
typedef struct gw_sim_event {
    void (*run)(void *context, const struct gw_sim_event *event);
    void *context;
    uint64_t a, b, c;
    uint8_t *bytes;
    size_t length;
    uint8_t order; /* class among the events of one instant: the lower one runs first */
} gw_sim_event;

/* Creates an engine. Running out of memory ends the program: a simulator has no caller that could go on. */
gw_sim_engine *gw_sim_engine_create(uint64_t start_ns);
void gw_sim_engine_destroy(gw_sim_engine *engine);

uint64_t gw_sim_now(const gw_sim_engine *engine);
uint64_t gw_sim_events_run(const gw_sim_engine *engine);

/* Runs `event` at `at_ns` (now, when that has passed). Copies event->bytes. */
void gw_sim_schedule(gw_sim_engine *engine, uint64_t at_ns, const gw_sim_event *event);

/* Runs the next event. Returns false when there is none up to `until_ns`; then the time is `until_ns`. */
bool gw_sim_step(gw_sim_engine *engine, uint64_t until_ns);

#endif
