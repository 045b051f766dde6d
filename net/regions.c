#include "net/regions.h"

#include "core/check.h"

#include <stdlib.h>
#include <string.h>

bool gw_regions_add(gw_regions *regions, uint32_t number, gw_region_kind kind, void *memory, uint64_t bytes,
                    gw_err *err) {
    GW_CHECK(kind == GW_REGION_DATA || kind == GW_REGION_WORDS);
    if (number >= GW_MAX_REGIONS)
        return gw_fail(err, GW_E_LIMIT, "net/regions: region %u: numbers are below %d", number,
                       GW_MAX_REGIONS);
    if (regions->list[number].kind != 0)
        return gw_fail(err, GW_E_INVALID, "net/regions: region %u is registered already", number);
    if (memory == NULL || bytes == 0)
        return gw_fail(err, GW_E_INVALID, "net/regions: region %u has no memory", number);
    if (kind == GW_REGION_WORDS && ((uintptr_t)memory % 8 != 0 || bytes % 8 != 0))
        return gw_fail(err, GW_E_INVALID, "net/regions: region %u: words must be aligned to 8 bytes", number);
    regions->list[number] = (gw_region){kind, memory, bytes};
    return true;
}

void gw_regions_remove(gw_regions *regions, uint32_t number) {
    if (number < GW_MAX_REGIONS) regions->list[number] = (gw_region){0};
}

static int compare_ids(const void *a, const void *b) {
    return gw_peer_id_compare(a, b);
}

gw_peer_id *gw_regions_fence(gw_regions *regions, const gw_fence *fence, gw_peer_id *members,
                             uint32_t count) {
    gw_peer_id *former = regions->members;
    if (count > 0) qsort(members, count, sizeof *members, compare_ids);
    regions->fence = *fence;
    regions->members = members;
    regions->member_count = count;
    return former;
}

/* The memory meant, or NULL with *status saying why not. */
static uint8_t *resolve(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                        uint32_t region, uint64_t offset, uint64_t bytes, gw_op_status *status) {
    *status = GW_OP_FENCED;
    if (gw_view_name_is_none(&regions->fence.view) || fence->epoch != regions->fence.epoch ||
        !gw_view_name_equal(&fence->view, &regions->fence.view))
        return NULL;
    if (regions->member_count == 0 ||
        bsearch(peer, regions->members, regions->member_count, sizeof *peer, compare_ids) == NULL)
        return NULL;
    *status = GW_OP_DENIED;
    if (region >= GW_MAX_REGIONS || regions->list[region].kind == 0) return NULL;
    const gw_region *r = &regions->list[region];
    if (bytes == 0 || offset > r->bytes || bytes > r->bytes - offset) return NULL;
    if (r->kind == GW_REGION_WORDS && (offset % 8 != 0 || bytes % 8 != 0)) return NULL;
    *status = GW_OP_OK;
    return r->memory + offset;
}

gw_op_status gw_regions_read(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                             uint32_t region, uint64_t offset, uint64_t bytes, void *out) {
    gw_op_status status;
    uint8_t *memory = resolve(regions, peer, fence, region, offset, bytes, &status);
    if (memory == NULL) return status;
    if (regions->list[region].kind == GW_REGION_DATA) {
        memcpy(out, memory, bytes);
        return GW_OP_OK;
    }
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = __atomic_load_n((uint64_t *)(void *)(memory + i), __ATOMIC_SEQ_CST);
        memcpy((uint8_t *)out + i, &word, 8);
    }
    return GW_OP_OK;
}

gw_op_status gw_regions_write(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                              uint32_t region, uint64_t offset, uint64_t bytes, const void *in) {
    gw_op_status status;
    uint8_t *memory = resolve(regions, peer, fence, region, offset, bytes, &status);
    if (memory == NULL) return status;
    if (regions->list[region].kind != GW_REGION_WORDS) return GW_OP_DENIED;
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)in + i, 8);
        __atomic_store_n((uint64_t *)(void *)(memory + i), word, __ATOMIC_SEQ_CST);
    }
    return GW_OP_OK;
}

gw_op_status gw_regions_word(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                             gw_op_kind kind, uint32_t region, uint64_t offset, uint64_t expected,
                             uint64_t operand, uint64_t *value) {
    gw_op_status status;
    uint8_t *memory = resolve(regions, peer, fence, region, offset, 8, &status);
    *value = 0;
    if (memory == NULL) return status;
    if (regions->list[region].kind != GW_REGION_WORDS) return GW_OP_DENIED;
    uint64_t *word = (uint64_t *)(void *)memory;
    if (kind == GW_OP_FETCH_ADD) {
        *value = __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
        return GW_OP_OK;
    }
    GW_CHECK(kind == GW_OP_CAS);
    *value = expected;
    bool swapped =
        __atomic_compare_exchange_n(word, value, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return swapped ? GW_OP_OK : GW_OP_MISMATCH;
}
