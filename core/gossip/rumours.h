/* The queue of rumours: the members about which there is news, those sent least often first. Each rumour
 * is sent a bounded number of times (lambda log n of SWIM). Only files of this folder include it. */
#ifndef GODWIT_CORE_GOSSIP_RUMOURS_H
#define GODWIT_CORE_GOSSIP_RUMOURS_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_RUMOUR_LEVELS = 40, GW_RUMOUR_NONE = 0 };

typedef struct gw_rumour {
    uint32_t member;
    uint32_t level; /* how often the rumour was sent */
    uint32_t next, previous;
} gw_rumour;

/* Slot 0, GW_RUMOUR_NONE, is not used. A zero-initialised queue is empty. */
typedef struct gw_rumours {
    gw_rumour *slots;
    uint32_t capacity, free, count;
    uint32_t head[GW_RUMOUR_LEVELS], tail[GW_RUMOUR_LEVELS];
} gw_rumours;

void gw_rumours_destroy(gw_rumours *queue);

/* Queues news about `member`, or restarts its count. *slot is the place of the member in this queue
 * (GW_RUMOUR_NONE: it is not queued). When out of memory the rumour is not queued, and anti-entropy
 * spreads the news. */
void gw_rumours_put(gw_rumours *queue, uint32_t *slot, uint32_t member);
void gw_rumours_drop(gw_rumours *queue, uint32_t *slot);
/* Notes that the member of this slot has another number now. */
void gw_rumours_renumber(gw_rumours *queue, uint32_t slot, uint32_t member);

/* Lists the members whose rumours go next, at most `most`, those sent least often first. Changes nothing. */
uint32_t gw_rumours_pick(const gw_rumours *queue, uint32_t *members, uint32_t most);
/* Counts one more sending; at the `limit`th the rumour leaves the queue. limit <= GW_RUMOUR_LEVELS. */
void gw_rumours_told(gw_rumours *queue, uint32_t *slot, uint32_t limit);

#endif
