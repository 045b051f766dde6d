#include "net/data/transport.h"

#include "core/base/assert.h"
#include "net/data/rail.h"

bool gw_transport_register(gw_transport *transport, uint32_t region, const void *memory, uint64_t bytes,
                           gw_err *err) {
    return transport->ops->add_region(transport, region, memory, bytes, err);
}

void gw_transport_withdraw(gw_transport *transport, uint32_t region) {
    transport->ops->remove_region(transport, region);
}

bool gw_transport_share_words(gw_transport *transport, uint32_t region, uint64_t count, gw_err *err) {
    return transport->ops->share_words(transport, region, count, err);
}

uint64_t gw_transport_word_load(gw_transport *transport, uint32_t region, uint64_t index) {
    return transport->ops->word(transport, GW_WORD_LOAD, region, index, 0, 0);
}

void gw_transport_word_store(gw_transport *transport, uint32_t region, uint64_t index, uint64_t value) {
    (void)transport->ops->word(transport, GW_WORD_STORE, region, index, 0, value);
}

bool gw_transport_word_swap(gw_transport *transport, uint32_t region, uint64_t index, uint64_t *expected,
                            uint64_t desired) {
    uint64_t before = transport->ops->word(transport, GW_WORD_CAS, region, index, *expected, desired);
    bool swapped = before == *expected;
    *expected = before;
    return swapped;
}

bool gw_transport_fence(gw_transport *transport, const gw_fence *fence, const gw_peer_id *members,
                        uint32_t count, gw_err *err) {
    GW_ASSERT(count == 0 || members != NULL);
    return transport->ops->fence(transport, fence, members, count, err);
}

void gw_transport_post(gw_transport *transport, const gw_op *op) {
    GW_ASSERT(op->kind >= GW_OP_READ && op->kind <= GW_OP_FETCH);
    GW_ASSERT(op->region < GW_MAX_REGIONS);
    bool moves = op->kind == GW_OP_READ || op->kind == GW_OP_WRITE;
    GW_ASSERT(!moves || (op->buffer != NULL && op->bytes > 0));
    GW_ASSERT(op->kind != GW_OP_WRITE || op->bytes <= GW_WRITE_BYTES);
    GW_ASSERT(op->kind != GW_OP_FETCH || op->buffer != NULL || op->bytes == 0);
    transport->ops->post(transport, op);
}

void gw_transport_abandon(gw_transport *transport, const gw_peer_id *peer) {
    transport->ops->abandon(transport, peer);
}

void gw_transport_unlink(gw_transport *transport, const gw_peer_id *peer) {
    transport->ops->unlink(transport, peer);
}

void gw_transport_spin(gw_transport *transport, bool spin) {
    transport->ops->spin(transport, spin);
}

gw_transport_counts gw_transport_count(gw_transport *transport) {
    return transport->ops->count(transport);
}

void gw_transport_close(gw_transport *transport) {
    transport->ops->close(transport);
}

const char *gw_op_status_name(gw_op_status status) {
    static const char *const names[] = {
        [GW_OP_OK] = "ok",
        [GW_OP_MISMATCH] = "mismatch",
        [GW_OP_FENCED] = "fenced",
        [GW_OP_DENIED] = "denied",
        [GW_OP_NOTFOUND] = "not-found",
        [GW_OP_UNAVAILABLE] = "unavailable",
        [GW_OP_UNREACHABLE] = "unreachable",
        [GW_OP_UNKNOWN] = "unknown",
    };
    GW_ASSERT(status >= GW_OP_OK && (size_t)status < sizeof names / sizeof names[0]);
    return names[status];
}

const char *gw_path_kind_name(gw_path_kind kind) {
    static const char *const names[] = {
        [GW_PATH_TCP] = "tcp", [GW_PATH_SHM] = "shm", [GW_PATH_RDMA] = "rdma"};
    GW_ASSERT(kind >= GW_PATH_TCP && (size_t)kind < sizeof names / sizeof names[0]);
    return names[kind];
}
