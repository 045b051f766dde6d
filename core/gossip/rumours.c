#include "core/gossip/rumours.h"

#include "core/base/assert.h"

#include <stdlib.h>

void gw_rumours_destroy(gw_rumours *queue) {
    free(queue->slots);
    *queue = (gw_rumours){0};
}

static void link_at(gw_rumours *queue, uint32_t slot, uint32_t level) {
    GW_ASSERT(level < GW_RUMOUR_LEVELS);
    gw_rumour *rumour = &queue->slots[slot];
    rumour->level = level;
    rumour->next = GW_RUMOUR_NONE;
    rumour->previous = queue->tail[level];
    if (queue->tail[level] == GW_RUMOUR_NONE)
        queue->head[level] = slot;
    else
        queue->slots[queue->tail[level]].next = slot;
    queue->tail[level] = slot;
}

static void unlink_from(gw_rumours *queue, uint32_t slot) {
    gw_rumour *rumour = &queue->slots[slot];
    if (rumour->previous == GW_RUMOUR_NONE)
        queue->head[rumour->level] = rumour->next;
    else
        queue->slots[rumour->previous].next = rumour->next;
    if (rumour->next == GW_RUMOUR_NONE)
        queue->tail[rumour->level] = rumour->previous;
    else
        queue->slots[rumour->next].previous = rumour->previous;
}

static bool grow(gw_rumours *queue) {
    uint32_t capacity = queue->capacity == 0 ? 8 : queue->capacity * 2;
    gw_rumour *slots = realloc(queue->slots, capacity * sizeof *slots);
    if (slots == NULL) return false;
    for (uint32_t i = queue->capacity == 0 ? 1 : queue->capacity; i < capacity; i++) {
        slots[i].next = queue->free;
        queue->free = i;
    }
    queue->slots = slots;
    queue->capacity = capacity;
    return true;
}

void gw_rumours_put(gw_rumours *queue, uint32_t *slot, uint32_t member) {
    if (*slot != GW_RUMOUR_NONE) {
        GW_ASSERT(queue->slots[*slot].member == member);
        unlink_from(queue, *slot);
    } else {
        if (queue->free == GW_RUMOUR_NONE && !grow(queue)) return;
        *slot = queue->free;
        queue->free = queue->slots[*slot].next;
        queue->slots[*slot].member = member;
        queue->count++;
    }
    link_at(queue, *slot, 0);
}

void gw_rumours_drop(gw_rumours *queue, uint32_t *slot) {
    if (*slot == GW_RUMOUR_NONE) return;
    GW_ASSERT(queue->count > 0);
    unlink_from(queue, *slot);
    queue->slots[*slot].next = queue->free;
    queue->free = *slot;
    *slot = GW_RUMOUR_NONE;
    queue->count--;
}

void gw_rumours_renumber(gw_rumours *queue, uint32_t slot, uint32_t member) {
    if (slot != GW_RUMOUR_NONE) queue->slots[slot].member = member;
}

uint32_t gw_rumours_pick(const gw_rumours *queue, uint32_t *members, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t level = 0; count < most && count < queue->count; level++) {
        GW_ASSERT(level < GW_RUMOUR_LEVELS); /* every queued rumour has a level */
        for (uint32_t slot = queue->head[level]; slot != GW_RUMOUR_NONE && count < most;
             slot = queue->slots[slot].next)
            members[count++] = queue->slots[slot].member;
    }
    return count;
}

void gw_rumours_told(gw_rumours *queue, uint32_t *slot, uint32_t limit) {
    GW_ASSERT(*slot != GW_RUMOUR_NONE && limit <= GW_RUMOUR_LEVELS);
    uint32_t level = queue->slots[*slot].level + 1;
    if (level >= limit) {
        gw_rumours_drop(queue, slot);
        return;
    }
    unlink_from(queue, *slot);
    link_at(queue, *slot, level);
}
