#include "core/gossip/inside.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"

#include <stdlib.h>
#include <string.h>

unsigned gw_gossip_log2(uint32_t n) {
    return n <= 1 ? 0 : 32 - (unsigned)__builtin_clz(n - 1);
}

bool gw_gossip_is_live(const gw_gossip_entry *entry) {
    return entry->public.state <= GW_GOSSIP_IS_SUSPECT;
}

static gw_id_records records(const gw_gossip *g) {
    return (gw_id_records){g->entries, 0};
}

uint32_t gw_gossip_number(const gw_gossip *g, const gw_peer_id *id) {
    return gw_id_index_find(&g->index, records(g), id);
}

const gw_gossip_entry *gw_gossip_entry_find(const gw_gossip *g, const gw_peer_id *id) {
    uint32_t number = gw_gossip_number(g, id);
    return number == UINT32_MAX ? NULL : g->entries[number];
}

gw_gossip_entry *gw_gossip_entry_own(gw_gossip *g, const gw_gossip_entry *entry) {
    if (entry->owned) return (gw_gossip_entry *)entry;
    gw_gossip_entry *copy = malloc(sizeof *copy);
    if (copy == NULL) return NULL;
    *copy = *entry;
    copy->owned = true;
    copy->number = gw_gossip_number(g, &entry->public.id);
    g->entries[copy->number] = copy;
    return copy;
}

gw_gossip_entry *gw_gossip_entry_at(const gw_gossip *g, uint32_t number) {
    GW_ASSERT(number < g->count && g->entries[number]->owned);
    return (gw_gossip_entry *)g->entries[number];
}

static bool grow(gw_gossip *g, uint32_t capacity) {
    const gw_gossip_entry **entries = realloc(g->entries, capacity * sizeof(const gw_gossip_entry *));
    if (entries == NULL) return false;
    g->entries = entries;
    uint32_t *order = realloc(g->order, capacity * sizeof *order);
    if (order == NULL) return false;
    g->order = order;
    uint64_t *heard_ns = realloc(g->heard_ns, capacity * sizeof *heard_ns);
    if (heard_ns == NULL) return false;
    g->heard_ns = heard_ns;
    if (!gw_id_index_reserve(&g->index, records(g), g->count, capacity)) return false;
    g->capacity = capacity;
    return true;
}

/* Inserts a new member into the unvisited part of the probing round at a random place, as SWIM does, so
 * that it is probed no later than other members. */
static void join_round(gw_gossip *g, uint32_t number) {
    uint32_t place = g->cursor + (uint32_t)gw_rng_below(&g->rng, g->order_count - g->cursor + 1);
    g->order[g->order_count] = g->order[place];
    g->order[place] = number;
    g->order_count++;
}

/* Adds an entry to all tables, which have room. */
static void append(gw_gossip *g, const gw_gossip_entry *entry) {
    uint32_t number = g->count++;
    g->entries[number] = entry;
    g->heard_ns[number] = 0;
    gw_id_index_put(&g->index, records(g), number);
    if (number > 0) join_round(g, number);
    g->live++;
    gw_gossip_ring_changed(g, entry);
}

gw_gossip_entry *gw_gossip_entry_add(gw_gossip *g, const gw_peer_id *id, const gw_incarnation *incarnation) {
    GW_ASSERT(gw_gossip_entry_find(g, id) == NULL);
    if (g->count >= g->capacity && !grow(g, g->capacity == 0 ? 8 : g->capacity + g->capacity / 2))
        return NULL;
    gw_gossip_entry *entry = malloc(sizeof *entry);
    if (entry == NULL) return NULL;
    *entry =
        (gw_gossip_entry){.public = {.id = *id, .incarnation = *incarnation, .state = GW_GOSSIP_IS_ALIVE},
                          .number = g->count,
                          .owned = true};
    append(g, entry);
    return entry;
}

bool gw_gossip_entries_lend(gw_gossip *g, const gw_gossip_entry *entries, uint32_t count) {
    if (g->count + count > g->capacity && !grow(g, g->count + count)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (gw_gossip_entry_find(g, &entries[i].public.id) == NULL) append(g, &entries[i]);
    return true;
}

void gw_gossip_entry_set(gw_gossip *g, gw_gossip_entry *entry, gw_gossip_state state, uint64_t now_ns) {
    bool was_live = gw_gossip_is_live(entry);
    if (was_live) g->live--;
    if (entry->public.state == GW_GOSSIP_IS_DEAD) g->dead--;
    if (state != GW_GOSSIP_IS_SUSPECT) gw_gossip_suspicion_end(g, entry);
    if (state != entry->public.state) entry->since_ns = now_ns;
    entry->public.state = (uint8_t)state;
    if (gw_gossip_is_live(entry)) g->live++;
    if (state == GW_GOSSIP_IS_DEAD) g->dead++;
    if (was_live != gw_gossip_is_live(entry)) gw_gossip_ring_changed(g, entry);
}

bool gw_gossip_entry_set_meta(gw_gossip_entry *entry, const void *meta, uint8_t bytes) {
    uint8_t *copy = NULL;
    if (bytes > 0) {
        copy = malloc(bytes);
        if (copy == NULL) return false;
        memcpy(copy, meta, bytes);
    }
    free((void *)entry->public.meta);
    entry->public.meta = copy;
    entry->public.meta_bytes = bytes;
    return true;
}

void gw_gossip_entry_drop_name(gw_gossip_entry *entry) {
    free((void *)entry->public.name);
    entry->public.name = NULL;
}

bool gw_gossip_entry_set_name(gw_gossip_entry *entry, const char *name, uint8_t bytes) {
    char *copy = malloc(bytes + 1u);
    if (copy == NULL) return false;
    if (bytes > 0) memcpy(copy, name, bytes);
    copy[bytes] = '\0';
    gw_utf8_make_printable(copy);
    gw_gossip_entry_drop_name(entry);
    entry->public.name = copy;
    return true;
}

void gw_gossip_entry_free(const gw_gossip_entry *entry) {
    if (!entry->owned) return;
    free((void *)entry->public.meta);
    free((void *)entry->public.name);
    free((void *)entry);
}

static void new_round(gw_gossip *g) {
    g->cursor = 0;
    g->order_count = 0;
    for (uint32_t i = 1; i < g->count; i++) join_round(g, i);
}

static void renumber(gw_gossip *g, gw_gossip_entry *entry, uint32_t number) {
    entry->number = number;
    gw_rumours_renumber(&g->rumours[GW_NEWS], entry->rumour[GW_NEWS], number);
    gw_rumours_renumber(&g->rumours[GW_METAS], entry->rumour[GW_METAS], number);
    if (entry->suspicion != 0) g->suspicions[entry->suspicion - 1].member = number;
}

/* Removes the entry of a member that is not alive any more, and is therefore owned. */
static void entry_remove(gw_gossip *g, uint32_t number) {
    gw_gossip_entry *entry = gw_gossip_entry_at(g, number);
    GW_ASSERT(number > 0 && entry->suspicion == 0);
    if (entry->public.state == GW_GOSSIP_IS_DEAD) g->dead--;
    gw_rumours_drop(&g->rumours[GW_NEWS], &entry->rumour[GW_NEWS]);
    gw_rumours_drop(&g->rumours[GW_METAS], &entry->rumour[GW_METAS]);
    gw_gossip_entry_free(entry);
    const gw_gossip_entry *last = g->entries[--g->count];
    g->entries[number] = last;
    g->heard_ns[number] = g->heard_ns[g->count];
    if (number < g->count && last->owned) renumber(g, gw_gossip_entry_at(g, number), number);
    gw_id_index_rebuild(&g->index, records(g), g->count);
    new_round(g);
}

const gw_gossip_entry *gw_gossip_entry_at_addr(const gw_gossip *g, const gw_addr *addr) {
    for (uint32_t i = 0; i < g->count; i++) {
        const gw_gossip_entry *entry = g->entries[i];
        for (uint32_t a = 0; gw_gossip_is_live(entry) && a < entry->public.addr_count; a++)
            if (gw_addr_equal(&entry->public.addr[a], addr)) return entry;
    }
    return NULL;
}

/* Examines one dead member and returns its number if it died long ago and another member lives at its
 * address; otherwise 0. The examined member is the one after the last that was pinged in turn, so that each
 * call examines another. */
static uint32_t find_replaced(const gw_gossip *g, uint64_t now_ns) {
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t number = (g->next_dead + 1 + i) % g->count;
        const gw_gossip_entry *entry = g->entries[number];
        if (entry->public.state != GW_GOSSIP_IS_DEAD || entry->public.addr_count == 0 ||
            now_ns - entry->since_ns <= GW_GOSSIP_REPLACED_KEPT_NS)
            continue;
        return gw_gossip_entry_at_addr(g, gw_gossip_addr_of(entry)) != NULL ? number : 0;
    }
    return 0;
}

void gw_gossip_reap(gw_gossip *g, uint64_t now_ns) {
    uint32_t oldest = 0, left_long_ago = 0, replaced = find_replaced(g, now_ns);
    for (uint32_t i = 1; i < g->count; i++) {
        const gw_gossip_entry *entry = g->entries[i];
        if (entry->public.state == GW_GOSSIP_IS_DEAD &&
            (oldest == 0 || entry->since_ns < g->entries[oldest]->since_ns))
            oldest = i;
        if (entry->public.state == GW_GOSSIP_IS_LEFT && now_ns - entry->since_ns > GW_GOSSIP_LEFT_KEPT_NS)
            left_long_ago = i;
    }
    uint32_t most_dead = 2 * g->live > 256 ? 2 * g->live : 256;
    if (left_long_ago != 0)
        entry_remove(g, left_long_ago);
    else if (replaced != 0)
        entry_remove(g, replaced);
    else if (g->dead > most_dead)
        entry_remove(g, oldest);
}

const gw_gossip_entry *gw_gossip_next_in_round(gw_gossip *g) {
    for (uint32_t tries = 0; tries < 2 * g->count; tries++) {
        if (g->cursor >= g->order_count) new_round(g);
        if (g->order_count == 0) return NULL;
        const gw_gossip_entry *entry = g->entries[g->order[g->cursor++]];
        if (gw_gossip_is_live(entry) && entry->public.addr_count > 0) return entry;
    }
    return NULL;
}

static bool eligible(const gw_gossip *g, uint32_t number, const gw_peer_id *except) {
    const gw_gossip_entry *entry = g->entries[number];
    return number != 0 && gw_gossip_is_live(entry) && entry->public.addr_count > 0 &&
           (except == NULL || !gw_peer_id_equal(&entry->public.id, except));
}

uint32_t gw_gossip_choose(gw_gossip *g, const gw_peer_id *except, uint32_t *numbers, uint32_t most) {
    uint32_t found = 0;
    if (g->count > 32) { /* random picks; a flock of mostly dead members may yield fewer */
        for (uint32_t tries = 0; tries < 8 * most && found < most; tries++) {
            uint32_t number = (uint32_t)gw_rng_below(&g->rng, g->count);
            bool again = !eligible(g, number, except);
            for (uint32_t i = 0; i < found; i++) again |= numbers[i] == number;
            if (!again) numbers[found++] = number;
        }
        if (found > 0) return found;
    }
    uint32_t seen = 0; /* reservoir sampling over all */
    for (uint32_t number = 1; number < g->count; number++) {
        if (!eligible(g, number, except)) continue;
        seen++;
        if (found < most)
            numbers[found++] = number;
        else {
            uint64_t place = gw_rng_below(&g->rng, seen);
            if (place < most) numbers[place] = number;
        }
    }
    return found;
}
