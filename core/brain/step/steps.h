#ifndef GODWIT_CORE_BRAIN_STEP_STEPS_H
#define GODWIT_CORE_BRAIN_STEP_STEPS_H

#include "core/brain/state.h"

/* Begins a step: deals the missing shards (NULL: all), which `cuts` cuts. */
void gw_steps_begin(gw_peer *p, const gw_set *missing, const uint32_t *cuts);
void gw_steps_open(gw_peer *p);
/* This peer freezes: it steals nothing more, and no longer waits for SEALED. */
void gw_steps_freeze(gw_peer *p);
/* Handles FROZEN, which says to which step the accumulator belongs. */
void gw_steps_frozen(gw_peer *p, const gw_event *event);
/* A view is installed, with what its step begins with. */
void gw_steps_view_begins(gw_peer *p, const gw_install *install);
/* Zeroes the accumulator for this step. */
void gw_steps_begin_accumulator(gw_peer *p, uint64_t step);
void gw_steps_dry(gw_peer *p, const gw_event *event);
void gw_steps_word_read(gw_peer *p, const gw_event *event);
void gw_steps_word_swapped(gw_peer *p, const gw_event *event);
/* Handles SEALED. `newcomers`: peers wait at the leader to be admitted, so the members pause after this
 * step. */
void gw_steps_sealed(gw_peer *p, const gw_event *event, bool newcomers);
void gw_steps_reduced(gw_peer *p, const gw_event *event);
void gw_steps_applied(gw_peer *p, const gw_event *event);
void gw_steps_shard_lost(gw_peer *p, const gw_event *event);
void gw_steps_worker_lost(gw_peer *p, const gw_event *event);
void gw_steps_consider(gw_peer *p);
/* The speed by which this peer is dealt shards; 0 = not known. */
uint64_t gw_steps_speed(const gw_peer *p);

#endif
