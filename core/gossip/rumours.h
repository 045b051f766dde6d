/* The queue of rumours: which members there is news about, those told least often first. Each is told a
 * bounded number of times (SWIM's lambda log n). Inside the gossip room only. */
#ifndef GODWIT_CORE_GOSSIP_RUMOURS_H
#define GODWIT_CORE_GOSSIP_RUMOURS_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_RUMOUR_LEVELS = 40, GW_RUMOUR_NONE = 0 };

typedef struct gw_rumour {
    uint32_t member;
    uint32_t level; /* how often it was told */
    uint32_t next, previous;
} gw_rumour;

/* Slot 0 is not used: GW_RUMOUR_NONE. Zero-initialised = empty. */
typedef struct gw_rumours {
    gw_rumour *slots;
    uint32_t capacity, free, count;
    uint32_t head[GW_RUMOUR_LEVELS], tail[GW_RUMOUR_LEVELS];
} gw_rumours;

void gw_rumours_destroy(gw_rumours *queue);

/* Tells about `member` anew. *slot is where the member keeps its place in this queue (GW_RUMOUR_NONE: not in
 * it). Out of memory: the rumour is not told; anti-entropy has to spread it. */
void gw_rumours_put(gw_rumours *queue, uint32_t *slot, uint32_t member);
void gw_rumours_drop(gw_rumours *queue, uint32_t *slot);
/* The member of this slot has got another number. */
void gw_rumours_renumber(gw_rumours *queue, uint32_t slot, uint32_t member);

/* The members to tell about next, at most `most`, least told first. Changes nothing. */
uint32_t gw_rumours_pick(const gw_rumours *queue, uint32_t *members, uint32_t most);
/* Told once more; the `limit`th time it leaves the queue. limit <= GW_RUMOUR_LEVELS. */
void gw_rumours_told(gw_rumours *queue, uint32_t *slot, uint32_t limit);

#endif
