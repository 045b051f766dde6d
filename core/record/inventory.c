#include "core/record/inventory.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

bool gw_inventory_is_after(const gw_inventory *one, uint64_t epoch, uint64_t step) {
    return one->epoch != epoch ? one->epoch > epoch : one->step > step;
}

bool gw_inventory_is_newer(const gw_inventory *one, const gw_inventory *other) {
    if (one->epoch != other->epoch || one->step != other->step)
        return gw_inventory_is_after(one, other->epoch, other->step);
    return memcmp(one->root.bytes, other->root.bytes, sizeof one->root.bytes) < 0;
}

static gw_inventory *find(const gw_peer_inventory *inventory, const gw_hash *root) {
    for (uint32_t i = 0; i < inventory->count; i++)
        if (gw_hash_equal(&inventory->list[i].root, root)) return &inventory->list[i];
    return NULL;
}

static gw_inventory *insert(gw_peer_inventory *inventory, const gw_inventory *what) {
    uint32_t at = 0;
    GW_ASSERT(inventory->count == 0 || inventory->list != NULL);
    while (at < inventory->count && gw_inventory_is_newer(&inventory->list[at], what)) at++;
    gw_inventory *list = realloc(inventory->list, (inventory->count + 1u) * sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    memmove(list + at + 1, list + at, (inventory->count - at) * sizeof *list);
    list[at] = *what;
    list[at].chunks = gw_set_of(what->chunks.size);
    inventory->list = list;
    inventory->count++;
    return &list[at];
}

/* Moves an entry to the place of its newer step and view: the same state was saved again, in a later view or
 * after steps that did not change it. */
static gw_inventory *renew(gw_peer_inventory *inventory, gw_inventory *entry, const gw_inventory *what) {
    if (gw_inventory_is_after(entry, what->epoch, what->step)) return entry;
    gw_inventory renewed = *what;
    renewed.chunks = entry->chunks;
    for (; entry > inventory->list && !gw_inventory_is_newer(entry - 1, what); entry--) *entry = entry[-1];
    *entry = renewed;
    return entry;
}

void gw_peer_inventory_open(gw_peer_inventory *inventory, const gw_inventory *list, uint32_t count,
                            bool fresh) {
    *inventory = (gw_peer_inventory){.fresh = fresh};
    for (uint32_t i = 0; i < count; i++) {
        gw_inventory *entry = find(inventory, &list[i].root);
        if (entry == NULL)
            gw_set_unite(&insert(inventory, &list[i])->chunks, &list[i].chunks);
        else
            renew(inventory, entry, &list[i]);
    }
    for (uint32_t i = 0; i < inventory->count; i++) inventory->list[i].ignored = fresh;
}

void gw_peer_inventory_close(gw_peer_inventory *inventory) {
    for (uint32_t i = 0; i < inventory->count; i++) gw_set_free(&inventory->list[i].chunks);
    free(inventory->list);
    *inventory = (gw_peer_inventory){0};
}

void gw_peer_inventory_wrote(gw_peer_inventory *inventory, const gw_inventory *what, const uint32_t *chunks,
                             uint32_t count) {
    gw_inventory *entry = find(inventory, &what->root);
    entry = entry == NULL ? insert(inventory, what) : renew(inventory, entry, what);
    entry->ignored = false;
    for (uint32_t i = 0; i < count; i++) gw_set_add(&entry->chunks, chunks[i]);
}

void gw_peer_inventory_kept(gw_peer_inventory *inventory, const gw_hash *roots, uint32_t count) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < inventory->count; i++) {
        bool kept = false;
        for (uint32_t k = 0; k < count; k++) kept |= gw_hash_equal(&roots[k], &inventory->list[i].root);
        if (kept)
            inventory->list[left++] = inventory->list[i];
        else
            gw_set_free(&inventory->list[i].chunks);
    }
    inventory->count = left;
    inventory->orphans = false;
}

void gw_peer_inventory_forget(gw_peer_inventory *inventory, uint32_t index) {
    GW_ASSERT(index < inventory->count);
    gw_set_free(&inventory->list[index].chunks);
    inventory->count--;
    memmove(inventory->list + index, inventory->list + index + 1,
            (inventory->count - index) * sizeof *inventory->list);
    inventory->orphans = true;
}

void gw_peer_inventory_loaded(gw_peer_inventory *inventory, const gw_inventory *what, const gw_set *held) {
    if (held == NULL || held->size != what->chunks.size) return;
    gw_inventory *entry = find(inventory, &what->root);
    if (entry == NULL) entry = insert(inventory, what);
    entry->ignored = false;
    gw_set_free(&entry->chunks);
    entry->chunks = gw_set_copy(held);
}

void gw_peer_inventory_failed(gw_peer_inventory *inventory, const gw_inventory *what, const gw_set *sound) {
    if (sound == NULL) return;
    if (sound->size != what->chunks.size) {
        inventory->orphans =
            false; /* an inventory has no other place to note that this checkpoint was tried */
        return;
    }
    gw_inventory *entry = find(inventory, &what->root);
    if (entry == NULL) entry = insert(inventory, what);
    gw_set_free(&entry->chunks);
    entry->chunks = gw_set_copy(sound);
}

const gw_inventory *gw_peer_inventory_find(const gw_peer_inventory *inventory, const gw_hash *root) {
    return find(inventory, root);
}

bool gw_peer_inventory_has(const gw_peer_inventory *inventory, uint64_t step, const gw_hash *root) {
    const gw_inventory *entry = find(inventory, root);
    return entry != NULL && entry->step == step;
}

const gw_inventory *gw_peer_inventory_newest(const gw_peer_inventory *inventory) {
    return inventory->count == 0 || inventory->fresh ? NULL : &inventory->list[0];
}

uint32_t gw_peer_inventory_range(const gw_peer_inventory *inventory, uint64_t least, uint64_t below,
                                 gw_hash *roots, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < inventory->count && count < most; i++) {
        const gw_inventory *one = &inventory->list[i];
        if (one->step >= least && one->step < below) roots[count++] = one->root;
    }
    return count;
}

uint32_t gw_peer_inventory_after(const gw_peer_inventory *inventory, uint64_t epoch, uint64_t step,
                                 gw_hash *roots) {
    uint32_t count = 0;
    for (; count < inventory->count; count++) {
        if (!gw_inventory_is_after(&inventory->list[count], epoch, step)) break;
        roots[count] = inventory->list[count].root;
    }
    return count;
}

uint32_t gw_peer_inventory_tell(const gw_peer_inventory *inventory, uint64_t epoch, uint64_t least,
                                gw_inventory *told, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < inventory->count && count < most; i++) {
        const gw_inventory *one = &inventory->list[i];
        if (one->epoch <= epoch && one->step < least) continue;
        told[count] = *one;
        told[count++].chunks = gw_set_copy(&one->chunks);
    }
    return count;
}
