#ifndef GODWIT_CORE_BRAIN_STEP_STEPS_H
#define GODWIT_CORE_BRAIN_STEP_STEPS_H

#include "core/brain/state.h"

void gw_steps_begin(gw_peer *p, const gw_set *missing, const uint32_t *cuts); /* missing NULL: all */
void gw_steps_open(gw_peer *p);
/* This peer freezes: it steals and seals nothing. */
void gw_steps_freeze(gw_peer *p);
/* The event FROZEN says to which step the accumulator belongs. */
void gw_steps_frozen(gw_peer *p, const gw_event *event);
/* A view is installed, and this says what its step begins with. */
void gw_steps_view_begins(gw_peer *p, const gw_install *install);
/* Zeroes the accumulator for this step. */
void gw_steps_begin_accumulator(gw_peer *p, uint64_t step);
void gw_steps_dry(gw_peer *p, const gw_event *event);
void gw_steps_word_read(gw_peer *p, const gw_event *event);
void gw_steps_word_swapped(gw_peer *p, const gw_event *event);
/* The event SEALED. `newcomers`: peers wait at the leader to be admitted, and the members pause for them. */
void gw_steps_sealed(gw_peer *p, const gw_event *event, bool newcomers);
void gw_steps_reduced(gw_peer *p, const gw_event *event);
void gw_steps_applied(gw_peer *p, const gw_event *event);
void gw_steps_shard_lost(gw_peer *p, const gw_event *event);
void gw_steps_consider(gw_peer *p);
uint64_t gw_steps_speed(const gw_peer *p); /* to deal by; 0 = not known */

#endif
