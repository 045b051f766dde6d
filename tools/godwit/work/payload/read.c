#include "tools/godwit/work/payload/read.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/rng.h"
#include "kernels/exact/exact.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PLACE_MASK = 0xFFFF };

typedef struct piece {
    gw_data_op op; /* must come first */
    struct reading *reading;
    bool flying;
} piece;

/* A run of READs of adjacent bytes of one region. */
typedef struct reading {
    pthread_mutex_t lock;
    pthread_cond_t landed;
    uint32_t flying;
    _Atomic uint64_t *landed_ns;
    gw_op_status status; /* of the first READ that failed; OK so far */
    piece pieces[GW_PAYLOAD_WINDOW];
} reading;

static void piece_done(gw_data_op *op, const gw_completion *completion) {
    piece *p = (piece *)op;
    reading *r = p->reading;
    if (completion->status == GW_OP_OK) atomic_store(r->landed_ns, gw_now_ns());
    pthread_mutex_lock(&r->lock);
    p->flying = false;
    r->flying--;
    if (completion->status != GW_OP_OK && r->status == GW_OP_OK) r->status = completion->status;
    pthread_cond_signal(&r->landed);
    pthread_mutex_unlock(&r->lock);
}

/* Waits until a piece has landed. A peer that is silent for too long is abandoned: then all operations on it
 * complete, and none writes to the buffers any more. Called with the lock held. */
static void wait_landed(const gw_payload_way *way, const gw_peer_id *peer, reading *r) {
    uint64_t end = gw_now_ns() + way->patience_ns;
    uint32_t flying = r->flying;
    while (r->flying == flying) {
        if (gw_cond_wait_until(&r->landed, &r->lock, end) || r->flying != flying) continue;
        pthread_mutex_unlock(&r->lock);
        way->abandon(way->context, peer);
        pthread_mutex_lock(&r->lock);
        while (r->flying > 0) pthread_cond_wait(&r->landed, &r->lock);
        return;
    }
}

static piece *free_piece(reading *r) {
    for (int i = 0; i < GW_PAYLOAD_WINDOW; i++)
        if (!r->pieces[i].flying) return &r->pieces[i];
    return NULL;
}

static void read_pieces(const gw_payload_way *way, const gw_op *whole, reading *r) {
    uint64_t next = 0;
    pthread_mutex_lock(&r->lock);
    while (r->flying > 0 || (r->status == GW_OP_OK && next < whole->bytes)) {
        piece *p = r->status == GW_OP_OK && next < whole->bytes ? free_piece(r) : NULL;
        if (p == NULL) {
            wait_landed(way, &whole->peer, r);
            continue;
        }
        gw_op request = *whole;
        uint64_t left = whole->bytes - next;
        request.offset += next;
        request.bytes = left < GW_PAYLOAD_PIECE_BYTES ? left : GW_PAYLOAD_PIECE_BYTES;
        request.buffer = (uint8_t *)whole->buffer + next;
        next += request.bytes;
        *p = (piece){.op = {.done = piece_done}, .reading = r, .flying = true};
        r->flying++;
        pthread_mutex_unlock(&r->lock);
        way->post(way->context, &request, &p->op);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
}

static gw_op_status read_range(const gw_payload_way *way, const gw_op *whole, gw_err *err) {
    reading r = {.status = GW_OP_OK, .landed_ns = way->landed_ns};
    pthread_mutex_init(&r.lock, NULL);
    gw_cond_init(&r.landed);
    read_pieces(way, whole, &r);
    pthread_cond_destroy(&r.landed);
    pthread_mutex_destroy(&r.lock);
    char id[GW_SHORT_TEXT];
    if (r.status != GW_OP_OK)
        gw_fail(err, GW_E_PEER, "READ from %s: %s", gw_peer_id_short(&whole->peer, id),
                gw_op_status_name(r.status));
    return r.status;
}

gw_payload_read_end gw_payload_read(const gw_payload_way *way, const gw_peer_id *peer, const gw_fence *fence,
                                    uint32_t shard, uint64_t bytes, uint64_t stride, void *into,
                                    gw_err *err) {
    uint64_t entry = 0;
    gw_op op = {.kind = GW_OP_READ,
                .peer = *peer,
                .fence = *fence,
                .region = GW_REGION_PAYLOAD_INDEX,
                .offset = shard * sizeof entry,
                .bytes = sizeof entry,
                .buffer = &entry};
    gw_op_status found = read_range(way, &op, err);
    if (found == GW_OP_FENCED || found == GW_OP_UNREACHABLE) return GW_PAYLOAD_READ_EARLY;
    if (found != GW_OP_OK) return GW_PAYLOAD_READ_FAILED;
    if (entry == 0) return GW_PAYLOAD_READ_ABSENT;
    uint32_t slot = (uint32_t)(entry & PLACE_MASK) - 1;
    op.region = GW_REGION_PAYLOAD;
    op.offset = slot * stride;
    op.bytes = bytes;
    op.buffer = into;
    if (read_range(way, &op, err) != GW_OP_OK) return GW_PAYLOAD_READ_FAILED;
    if (gw_payload_entry(slot, into, bytes) == entry) return GW_PAYLOAD_READ_OK;
    char id[GW_SHORT_TEXT];
    gw_fail(err, GW_E_CORRUPT, "READ from %s: the bytes have another hash than they should",
            gw_peer_id_short(peer, id));
    return GW_PAYLOAD_READ_FAILED;
}

uint64_t gw_payload_entry(uint32_t slot, const void *block, uint64_t bytes) {
    GW_ASSERT(slot < PLACE_MASK);
    uint64_t hash = gw_exact_hash_state(gw_exact_path_best(), 0, bytes, block);
    return (gw_mix64(hash) & ~(uint64_t)PLACE_MASK) | (slot + 1);
}
