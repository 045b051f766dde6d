#include "net/data/regions.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

bool gw_regions_add(gw_regions *regions, uint32_t number, const void *memory, uint64_t bytes, gw_err *err) {
    uint64_t offset, length;
    if (number >= GW_MAX_REGIONS)
        return gw_fail(err, GW_E_LIMIT, "net/data: region %u: numbers are below %d", number, GW_MAX_REGIONS);
    if (regions->data[number].memory != NULL || gw_words_find(regions->words, number, &offset, &length))
        return gw_fail(err, GW_E_INVALID, "net/data: region %u is registered already", number);
    if (memory == NULL || bytes == 0)
        return gw_fail(err, GW_E_INVALID, "net/data: region %u has no memory", number);
    regions->data[number] = (gw_data_region){memory, bytes};
    return true;
}

void gw_regions_remove(gw_regions *regions, uint32_t number) {
    if (number < GW_MAX_REGIONS) regions->data[number] = (gw_data_region){0};
}

bool gw_regions_share(gw_regions *regions, uint32_t number, uint64_t count, gw_err *err) {
    if (number < GW_MAX_REGIONS && regions->data[number].memory != NULL)
        return gw_fail(err, GW_E_INVALID, "net/data: region %u is registered already", number);
    return gw_words_add(regions->words, number, count, err);
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

/* Whether operations of `peer` under `fence` are served. */
static bool serves(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence) {
    if (gw_view_name_is_none(&regions->fence.view) || !gw_fence_equal(fence, &regions->fence)) return false;
    return regions->member_count > 0 &&
           bsearch(peer, regions->members, regions->member_count, sizeof *peer, compare_ids) != NULL;
}

static bool within(uint64_t offset, uint64_t bytes, uint64_t size) {
    return bytes > 0 && offset <= size && bytes <= size - offset;
}

/* Gives the place of words in their file. False if they are not there, out of bounds or misaligned. */
static bool find_words(const gw_regions *regions, uint32_t region, uint64_t offset, uint64_t bytes,
                       uint64_t *at) {
    uint64_t first, size;
    if (!gw_words_find(regions->words, region, &first, &size)) return false;
    if (!within(offset, bytes, size) || offset % 8 != 0 || bytes % 8 != 0) return false;
    *at = first + offset;
    return true;
}

gw_op_status gw_regions_read(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                             uint32_t region, uint64_t offset, uint64_t bytes, void *out) {
    if (!serves(regions, peer, fence)) return GW_OP_FENCED;
    if (region < GW_MAX_REGIONS && regions->data[region].memory != NULL) {
        const gw_data_region *data = &regions->data[region];
        if (!within(offset, bytes, data->bytes)) return GW_OP_DENIED;
        memcpy(out, data->memory + offset, bytes);
        return GW_OP_OK;
    }
    uint64_t at;
    if (!find_words(regions, region, offset, bytes, &at)) return GW_OP_DENIED;
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = gw_words_do(regions->words, GW_WORD_LOAD, at + i, 0, 0);
        memcpy((uint8_t *)out + i, &word, 8);
    }
    return GW_OP_OK;
}

gw_op_status gw_regions_write(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                              uint32_t region, uint64_t offset, uint64_t bytes, const void *in) {
    uint64_t at;
    if (!serves(regions, peer, fence)) return GW_OP_FENCED;
    if (!find_words(regions, region, offset, bytes, &at)) return GW_OP_DENIED;
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)in + i, 8);
        gw_words_do(regions->words, GW_WORD_STORE, at + i, 0, word);
    }
    return GW_OP_OK;
}

gw_op_status gw_regions_word(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                             gw_op_kind kind, uint32_t region, uint64_t offset, uint64_t expected,
                             uint64_t operand, uint64_t *value) {
    uint64_t at;
    *value = 0;
    if (!serves(regions, peer, fence)) return GW_OP_FENCED;
    if (!find_words(regions, region, offset, 8, &at)) return GW_OP_DENIED;
    GW_ASSERT(kind == GW_OP_CAS || kind == GW_OP_FETCH_ADD);
    bool add = kind == GW_OP_FETCH_ADD;
    *value = gw_words_do(regions->words, add ? GW_WORD_ADD : GW_WORD_CAS, at, expected, operand);
    return add || *value == expected ? GW_OP_OK : GW_OP_MISMATCH;
}
