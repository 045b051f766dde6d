#include "core/state/chunk.h"

#include "core/base/assert.h"

#include <sodium.h>
#include <string.h>

uint32_t gw_chunk_count(uint64_t state_bytes) {
    GW_ASSERT(state_bytes <= GW_MAX_STATE_BYTES);
    return (uint32_t)((state_bytes + GW_CHUNK_BYTES - 1) / GW_CHUNK_BYTES);
}

uint32_t gw_chunk_length(uint64_t state_bytes, uint32_t index) {
    GW_ASSERT(index < gw_chunk_count(state_bytes));
    uint64_t left = state_bytes - gw_chunk_offset(index);
    return left < GW_CHUNK_BYTES ? (uint32_t)left : GW_CHUNK_BYTES;
}

uint32_t gw_chunk_room(uint64_t state_bytes) {
    return state_bytes == 0 ? 1 : gw_chunk_length(state_bytes, 0);
}

uint64_t gw_chunk_offset(uint32_t index) {
    return (uint64_t)index * GW_CHUNK_BYTES;
}

bool gw_chunk_state_bytes(const gw_tensor *tensors, uint32_t count, uint64_t *state_bytes, gw_err *err) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        const gw_tensor *tensor = &tensors[i];
        if (tensor->role != GW_STATE) continue;
        uint64_t bytes = gw_dtype_bytes(tensor->dtype);
        for (uint32_t d = 0; d < tensor->rank; d++)
            if (__builtin_mul_overflow(bytes, tensor->dim[d], &bytes)) bytes = UINT64_MAX;
        if (bytes > GW_MAX_STATE_BYTES || total + bytes > GW_MAX_STATE_BYTES)
            return gw_fail(err, GW_E_LIMIT, "the state is over %llu bytes at tensor %s",
                           (unsigned long long)GW_MAX_STATE_BYTES, tensor->name);
        total += bytes;
    }
    *state_bytes = total;
    return true;
}

static void absorb(crypto_generichash_state *state, const void *bytes, size_t length) {
    int failed = crypto_generichash_update(state, bytes, length);
    GW_ASSERT(failed == 0);
}

static void begin(crypto_generichash_state *state, const char *domain) {
    int failed = crypto_generichash_init(state, NULL, 0, 32);
    GW_ASSERT(failed == 0);
    absorb(state, domain, strlen(domain));
}

static void end(crypto_generichash_state *state, gw_hash *hash) {
    int failed = crypto_generichash_final(state, hash->bytes, sizeof hash->bytes);
    GW_ASSERT(failed == 0);
}

void gw_chunk_layout_hash(const gw_tensor *tensors, uint32_t count, gw_hash *layout) {
    crypto_generichash_state state;
    begin(&state, "godwit layout 1");
    for (uint32_t i = 0; i < count; i++) {
        const gw_tensor *tensor = &tensors[i];
        if (tensor->role != GW_STATE) continue;
        uint8_t bytes[2 + GW_MAX_TENSOR_NAME + 2 + 8 * GW_MAX_RANK];
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_put_string(&w, tensor->name);
        gw_put_u8(&w, (uint8_t)tensor->dtype);
        gw_put_u8(&w, (uint8_t)tensor->rank);
        for (uint32_t d = 0; d < tensor->rank; d++) gw_put_u64(&w, tensor->dim[d]);
        GW_ASSERT(!w.failed);
        absorb(&state, bytes, w.length);
    }
    end(&state, layout);
}

void gw_chunk_root(const gw_hash *layout, uint64_t state_bytes, const gw_hash *chunks, uint32_t chunk_count,
                   gw_hash *root) {
    GW_ASSERT(chunk_count == gw_chunk_count(state_bytes));
    crypto_generichash_state state;
    begin(&state, "godwit state 1");
    uint8_t bytes[32 + 8 + 4];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_hash(&w, layout);
    gw_put_u64(&w, state_bytes);
    gw_put_u32(&w, chunk_count);
    GW_ASSERT(!w.failed);
    absorb(&state, bytes, w.length);
    absorb(&state, chunks, (size_t)chunk_count * sizeof *chunks);
    end(&state, root);
}
