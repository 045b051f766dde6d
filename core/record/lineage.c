#include "core/record/lineage.h"

#include "core/base/assert.h"

#include <string.h>

void gw_lineage_add(gw_lineage *lineage, const gw_checkpoint_ref *one) {
    GW_ASSERT(lineage->count <= GW_MAX_LINEAGE && one->step > 0);
    for (uint32_t i = 0; i < lineage->count; i++) {
        if (!gw_hash_equal(&lineage->list[i].root, &one->root)) continue;
        if (lineage->list[i].step >= one->step) return;
        memmove(lineage->list + i, lineage->list + i + 1, (--lineage->count - i) * sizeof *lineage->list);
        break;
    }
    uint32_t at = 0;
    while (at < lineage->count && lineage->list[at].step >= one->step) at++;
    if (at == GW_MAX_LINEAGE) return;
    if (lineage->count == GW_MAX_LINEAGE) lineage->count--;
    memmove(lineage->list + at + 1, lineage->list + at, (lineage->count - at) * sizeof *lineage->list);
    lineage->list[at] = *one;
    lineage->count++;
}

bool gw_lineage_has(const gw_lineage *lineage, const gw_hash *root) {
    for (uint32_t i = 0; i < lineage->count; i++)
        if (gw_hash_equal(&lineage->list[i].root, root)) return true;
    return false;
}

void gw_checkpoint_ref_take_newer(gw_checkpoint_ref *kept, const gw_checkpoint_ref *other) {
    if (other->step > kept->step) *kept = *other;
}
