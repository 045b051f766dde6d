#include "tools/godwit/work/payload/memory.h"

#include "core/base/assert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE_BYTES = 64, PAGE_BYTES = 4096, NONE = UINT32_MAX };

static uint64_t up(uint64_t bytes, uint64_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

uint64_t gw_payload_stride(uint64_t bytes) {
    return up(bytes, bytes < PAGE_BYTES ? LINE_BYTES : PAGE_BYTES);
}

static uint64_t reserved_bytes(const gw_payload_memory *m) {
    return up(m->shards * m->stride, PAGE_BYTES);
}

bool gw_payload_memory_open(gw_payload_memory *m, const gw_payload_plan *plan,
                            void (*publish)(void *context, uint32_t shard, uint64_t entry), void *context,
                            gw_err *err) {
    *m = (gw_payload_memory){0};
    if (plan->shards > GW_MAX_PAYLOADS)
        return gw_fail(err, GW_E_LIMIT, "%u shards with payload; %d is the most", plan->shards,
                       GW_MAX_PAYLOADS);
    if (plan->shards == 0 || plan->bytes == 0 || plan->bytes > UINT64_MAX / 2 / GW_MAX_PAYLOADS)
        return gw_fail(err, GW_E_LIMIT, "%u blocks of %llu bytes are no payload", plan->shards,
                       (unsigned long long)plan->bytes);
    *m = (gw_payload_memory){.shards = plan->shards,
                             .bytes = plan->bytes,
                             .stride = gw_payload_stride(plan->bytes),
                             .publish = publish,
                             .context = context};
    void *space =
        mmap(NULL, reserved_bytes(m), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return gw_fail_errno(err, errno, "address space for %u blocks of %llu bytes", m->shards,
                             (unsigned long long)m->bytes);
    m->slots = space;
    m->owner = malloc(m->shards * sizeof *m->owner);
    m->blocks = calloc(m->shards, sizeof *m->blocks);
    if (m->owner == NULL || m->blocks == NULL) {
        gw_payload_memory_close(m);
        return gw_fail(err, GW_E_NOMEM, "list of %u blocks", plan->shards);
    }
    for (uint32_t s = 0; s < m->shards; s++) m->owner[s] = m->blocks[s].slot = NONE;
    return true;
}

void gw_payload_memory_close(gw_payload_memory *m) {
    if (m->slots != NULL) GW_ASSERT(munmap(m->slots, reserved_bytes(m)) == 0);
    free(m->owner);
    free(m->blocks);
    *m = (gw_payload_memory){0};
}

uint64_t gw_payload_memory_bytes(const gw_payload_memory *m) {
    return m->capacity * m->stride;
}

/* Takes memory for `more` further slots. */
static bool grow(gw_payload_memory *m, uint32_t more, gw_err *err) {
    GW_ASSERT(more <= m->shards - m->capacity);
    uint64_t bytes = (m->capacity + more) * m->stride;
    if (mprotect(m->slots, up(bytes, PAGE_BYTES), PROT_READ | PROT_WRITE) != 0)
        return gw_fail_errno(err, errno, "%llu bytes for shard payload", (unsigned long long)bytes);
    m->capacity += more;
    return true;
}

static void give_slot(gw_payload_memory *m, uint32_t shard, uint32_t slot) {
    GW_ASSERT(m->owner[slot] == NONE);
    m->owner[slot] = shard;
    m->blocks[shard].slot = slot;
    m->blocks[shard].state = GW_BLOCK_EMPTY;
}

static void take_slot(gw_payload_memory *m, uint32_t slot) {
    uint32_t shard = m->owner[slot];
    m->publish(m->context, shard, 0);
    m->blocks[shard].slot = m->owner[slot] = NONE;
    m->blocks[shard].state = GW_BLOCK_EMPTY;
}

uint32_t gw_payload_memory_want(gw_payload_memory *m, const gw_holders *holders, uint32_t rank, gw_err *err) {
    uint32_t lacking = 0, empty = 0, slot = 0;
    for (uint32_t s = 0; s < m->shards; s++) {
        gw_block *block = &m->blocks[s];
        block->wanted = gw_holders_has(holders, s, rank);
        lacking += block->wanted && block->slot == NONE;
    }
    for (uint32_t i = 0; i < m->capacity; i++) empty += m->owner[i] == NONE;
    if (lacking > empty) (void)grow(m, lacking - empty, err); /* on failure fewer blocks are held */
    for (uint32_t s = 0; s < m->shards && lacking > 0; s++) {
        if (!m->blocks[s].wanted || m->blocks[s].slot != NONE) continue;
        while (slot < m->capacity && m->owner[slot] != NONE) slot++;
        if (slot == m->capacity) break;
        give_slot(m, s, slot);
        lacking--;
    }
    return lacking;
}

static bool is_surplus(const gw_payload_memory *m, uint32_t slot) {
    if (m->owner[slot] == NONE) return false;
    const gw_block *block = &m->blocks[m->owner[slot]];
    return !block->wanted && block->pins == 0 && block->state != GW_BLOCK_LOADING;
}

bool gw_payload_memory_has_surplus(const gw_payload_memory *m) {
    for (uint32_t slot = 0; slot < m->capacity; slot++)
        if (is_surplus(m, slot)) return true;
    return false;
}

void gw_payload_memory_trim(gw_payload_memory *m) {
    for (uint32_t slot = 0; slot < m->capacity; slot++) {
        if (!is_surplus(m, slot)) continue;
        take_slot(m, slot);
        /* Slots smaller than a page share their page with others. If the kernel refuses, the memory stays
         * unused. */
        if (m->stride % PAGE_BYTES == 0) (void)madvise(m->slots + slot * m->stride, m->stride, MADV_DONTNEED);
    }
}

void *gw_payload_memory_block(const gw_payload_memory *m, uint32_t shard) {
    uint32_t slot = m->blocks[shard].slot;
    return slot == NONE ? NULL : m->slots + slot * m->stride;
}

void gw_payload_memory_ready(gw_payload_memory *m, uint32_t shard, uint64_t entry) {
    gw_block *block = &m->blocks[shard];
    GW_ASSERT(block->slot != NONE && block->state == GW_BLOCK_LOADING);
    block->state = GW_BLOCK_READY;
    m->publish(m->context, shard, entry);
}
