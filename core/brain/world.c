#include "core/brain/world.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

/* A chain of allocations; the bytes follow the link, aligned for anything. */
typedef struct block {
    struct block *next;
    _Alignas(max_align_t) unsigned char bytes[];
} block;

static void free_blocks(gw_actions *actions) {
    for (block *b = actions->blocks; b != NULL;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    actions->blocks = NULL;
}

void gw_actions_reset(gw_actions *actions) {
    free_blocks(actions);
    actions->count = 0;
}

void gw_actions_free(gw_actions *actions) {
    free_blocks(actions);
    free(actions->list);
    *actions = (gw_actions){0};
}

gw_action *gw_actions_add(gw_actions *actions, gw_action_kind kind) {
    if (actions->count == actions->capacity) {
        actions->capacity = actions->capacity == 0 ? 16 : 2 * actions->capacity;
        gw_action *grown = realloc(actions->list, actions->capacity * sizeof *grown);
        GW_ASSERT_MEMORY(grown != NULL);
        actions->list = grown;
    }
    gw_action *action = &actions->list[actions->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

void *gw_actions_copy(gw_actions *actions, const void *bytes, size_t length) {
    block *b = malloc(sizeof *b + length);
    GW_ASSERT_MEMORY(b != NULL);
    b->next = actions->blocks;
    actions->blocks = b;
    if (length > 0) memcpy(b->bytes, bytes, length);
    return b->bytes;
}

const gw_set *gw_actions_copy_set(gw_actions *actions, const gw_set *set) {
    gw_set copy = {.size = set->size};
    copy.words = gw_actions_copy(actions, set->words, (set->size + 63) / 64 * sizeof *set->words);
    return gw_actions_copy(actions, &copy, sizeof copy);
}
