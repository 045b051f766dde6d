#include "tests/tools/work/payload_rig.h"

#include "core/rng.h"
#include "core/shard/holders.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The job: each block begins with its number, from which the rest follows. */

static uint8_t byte_of(uint32_t shard, uint64_t i) {
    uint64_t value = i < sizeof shard ? shard >> (8 * i) : gw_mix64(shard * 1000003u + i);
    return (uint8_t)value;
}

static bool write_block(void *job, uint32_t shard, void *bytes, gw_err *err) {
    payload_peer *peer = job;
    pthread_mutex_lock(&peer->rig->lock);
    peer->hanging++;
    pthread_cond_broadcast(&peer->rig->changed);
    while (peer->write_hangs) pthread_cond_wait(&peer->rig->changed, &peer->rig->lock);
    peer->hanging--;
    bool fails = peer->cannot_write;
    peer->written[shard] += !fails;
    pthread_mutex_unlock(&peer->rig->lock);
    if (fails) return gw_fail(err, GW_E_IO, "its disk is gone");
    for (uint64_t i = 0; i < peer->rig->plan.bytes; i++) ((uint8_t *)bytes)[i] = byte_of(shard, i);
    return true;
}

static uint32_t shards_of(const void *job, uint64_t step, gw_phase *phase) {
    (void)step;
    *phase = GW_TRAIN;
    return ((const payload_peer *)job)->rig->plan.shards;
}

static const gw_job_type type = {.name = "payload-rig", .payload = write_block, .shards = shards_of};

/* The world. */

static payload_peer *find(payload_rig *rig, const gw_peer_id *id) {
    for (uint32_t i = 0; i < rig->count; i++)
        if (gw_peer_id_equal(&rig->peers[i].id, id)) return &rig->peers[i];
    return NULL;
}

static void complete(const gw_op *op, gw_data_op *pending, gw_op_status status) {
    gw_completion completion = {.peer = op->peer, .kind = op->kind, .status = status};
    pending->done(pending, &completion);
}

/* Called with the lock held. */
static gw_op_status carry_out(payload_peer *peer, const gw_op *op) {
    if (peer->dead) return GW_OP_UNREACHABLE;
    if (peer->fence.epoch == 0 || peer->fence.epoch != op->fence.epoch) return GW_OP_FENCED;
    if (op->region == GW_REGION_PAYLOAD_INDEX) {
        cr_assert(op->bytes == 8 && op->offset % 8 == 0 && op->offset / 8 < peer->rig->plan.shards);
        memcpy(op->buffer, &peer->index[op->offset / 8], 8);
        return GW_OP_OK;
    }
    cr_assert_eq(op->region, GW_REGION_PAYLOAD);
    if (peer->slots == NULL || op->offset + op->bytes > peer->bytes) return GW_OP_DENIED;
    memcpy(op->buffer, (const uint8_t *)peer->slots + op->offset, op->bytes);
    if (peer->corrupt) ((uint8_t *)op->buffer)[op->bytes / 2] ^= 1;
    peer->served++;
    pthread_cond_broadcast(&peer->rig->changed);
    return GW_OP_OK;
}

static void post(void *context, gw_op *op, gw_data_op *pending) {
    payload_rig *rig = ((payload_peer *)context)->rig;
    pthread_mutex_lock(&rig->lock);
    payload_peer *target = find(rig, &op->peer);
    cr_assert(target != NULL && target != context);
    cr_assert_leq(op->bytes, GW_PAYLOAD_PIECE_BYTES);
    bool waits = target->silent;
    gw_op_status status = GW_OP_OK;
    if (waits) {
        cr_assert_lt(rig->waiting_count, PAYLOAD_OPS);
        rig->waiting[rig->waiting_count].op = *op;
        rig->waiting[rig->waiting_count++].pending = pending;
        pthread_cond_broadcast(&rig->changed);
    } else {
        status = carry_out(target, op);
    }
    pthread_mutex_unlock(&rig->lock);
    if (!waits) complete(op, pending, status);
}

static void abandon(void *context, const gw_peer_id *peer) {
    payload_rig *rig = ((payload_peer *)context)->rig;
    pthread_mutex_lock(&rig->lock);
    find(rig, peer)->abandoned++;
    for (uint32_t i = 0; i < rig->waiting_count;) {
        if (!gw_peer_id_equal(&rig->waiting[i].op.peer, peer)) {
            i++;
            continue;
        }
        gw_op op = rig->waiting[i].op;
        gw_data_op *pending = rig->waiting[i].pending;
        rig->waiting[i] = rig->waiting[--rig->waiting_count];
        complete(&op, pending, GW_OP_UNKNOWN);
    }
    pthread_mutex_unlock(&rig->lock);
}

static bool share(void *context, const void *slots, uint64_t bytes, gw_err *err) {
    (void)err;
    payload_peer *peer = context;
    pthread_mutex_lock(&peer->rig->lock);
    cr_assert_null(peer->slots);
    peer->slots = slots;
    peer->bytes = bytes;
    pthread_mutex_unlock(&peer->rig->lock);
    return true;
}

static void stop_sharing(void *context) {
    payload_peer *peer = context;
    pthread_mutex_lock(&peer->rig->lock);
    peer->slots = NULL;
    pthread_mutex_unlock(&peer->rig->lock);
}

static void publish(void *context, uint32_t shard, uint64_t entry) {
    payload_peer *peer = context;
    pthread_mutex_lock(&peer->rig->lock);
    peer->index[shard] = entry;
    pthread_cond_broadcast(&peer->rig->changed);
    pthread_mutex_unlock(&peer->rig->lock);
}

/* Opening. */

static int by_id(const void *a, const void *b) {
    return gw_peer_id_compare(&((const payload_peer *)a)->id, &((const payload_peer *)b)->id);
}

void payload_rig_open(payload_rig *rig, uint32_t peers, uint32_t shards, uint64_t bytes, uint32_t copies) {
    memset(rig, 0, sizeof *rig);
    rig->plan = (gw_payload_plan){.shards = shards, .bytes = bytes, .copies = copies};
    rig->count = peers;
    rig->workers = 1;
    rig->patience_ns = rig->spare_ns = UINT64_C(1000000000000);
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->changed, NULL);
    for (uint32_t i = 0; i < peers; i++) gw_blake2b(&i, sizeof i, rig->peers[i].id.bytes, sizeof(gw_peer_id));
    qsort(rig->peers, peers, sizeof *rig->peers, by_id);
    for (uint32_t i = 0; i < peers; i++) {
        rig->peers[i].rig = rig;
        rig->peers[i].number = i;
    }
}

void payload_rig_start(payload_rig *rig) {
    for (uint32_t i = 0; i < rig->count; i++) {
        payload_peer *peer = &rig->peers[i];
        gw_payloads_options options = {.type = &type,
                                       .job = peer,
                                       .plan = rig->plan,
                                       .world = {.way = {.context = peer,
                                                         .post = post,
                                                         .abandon = abandon,
                                                         .patience_ns = rig->patience_ns},
                                                 .share = share,
                                                 .unshare = stop_sharing,
                                                 .publish = publish},
                                       .self = peer->id,
                                       .workers = rig->workers,
                                       .ahead = rig->ahead,
                                       .spare_ns = rig->spare_ns};
        gw_err err;
        peer->payloads = gw_payloads_open(&options, &err);
        cr_assert_not_null(peer->payloads, "%s", err.text);
    }
}

void payload_rig_close(payload_rig *rig) {
    for (uint32_t i = 0; i < rig->count; i++) payload_rig_freeze(rig, i);
    for (uint32_t i = 0; i < rig->count; i++) cr_expect(gw_payloads_end(rig->peers[i].payloads, UINT64_MAX));
    for (uint32_t i = 0; i < rig->count; i++) {
        cr_assert_null(rig->peers[i].slots, "peer %u shares memory that is gone", i);
        gw_payloads_close(rig->peers[i].payloads);
    }
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->lock);
}

/* Views. */

static void fence(payload_rig *rig, uint32_t peer, uint64_t epoch) {
    pthread_mutex_lock(&rig->lock);
    rig->peers[peer].fence.epoch = epoch;
    pthread_mutex_unlock(&rig->lock);
}

void payload_rig_freeze(payload_rig *rig, uint32_t peer) {
    fence(rig, peer, 0);
    gw_payloads_freeze(rig->peers[peer].payloads);
    for (uint32_t i = 0; i < rig->count; i++) abandon(&rig->peers[peer], &rig->peers[i].id);
}

void payload_rig_break(payload_rig *rig, uint32_t peer) {
    abandon(&rig->peers[peer], &rig->peers[peer].id);
}

static uint32_t list_members(const payload_rig *rig, uint32_t members, gw_peer_id *ids) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->count; i++)
        if (members >> i & 1) ids[count++] = rig->peers[i].id;
    return count;
}

void payload_rig_view(payload_rig *rig, uint32_t members) {
    gw_view view = {.epoch = ++rig->epoch};
    gw_peer_id ids[PAYLOAD_PEERS];
    view.count = list_members(rig, members, ids);
    for (uint32_t i = 0; i < view.count; i++) view.members[i].id = ids[i];
    for (uint32_t i = 0; i < rig->count; i++)
        if (members >> i & 1) payload_rig_freeze(rig, i);
    for (uint32_t i = 0; i < rig->count; i++) {
        if ((members >> i & 1) == 0) continue;
        gw_payloads_install(rig->peers[i].payloads, &view);
        fence(rig, i, rig->epoch);
    }
}

static gw_holders holders_in(const payload_rig *rig, uint32_t members, uint32_t peer, uint32_t *rank) {
    gw_peer_id ids[PAYLOAD_PEERS];
    uint32_t count = list_members(rig, members, ids);
    for (uint32_t i = 0; i < count; i++)
        if (gw_peer_id_equal(&ids[i], &rig->peers[peer].id)) *rank = i;
    return gw_holders_of(rig->plan.shards, rig->plan.copies, ids, count);
}

uint32_t payload_rig_shard_of(const payload_rig *rig, uint32_t peer, uint32_t members) {
    uint32_t rank = UINT32_MAX, shard = 0;
    gw_holders h = holders_in(rig, members, peer, &rank);
    while (h.ranks[(size_t)shard * h.copies] != rank) shard++;
    gw_holders_free(&h);
    cr_assert_lt(shard, rig->plan.shards);
    return shard;
}

/* Waiting. */

void payload_rig_wait_index(payload_rig *rig, uint32_t peer, uint32_t shard, bool there) {
    pthread_mutex_lock(&rig->lock);
    while ((rig->peers[peer].index[shard] != 0) != there) pthread_cond_wait(&rig->changed, &rig->lock);
    pthread_mutex_unlock(&rig->lock);
}

void payload_rig_wait_held(payload_rig *rig, uint32_t peer, uint32_t members) {
    uint32_t rank = UINT32_MAX;
    gw_holders h = holders_in(rig, members, peer, &rank);
    for (uint32_t s = 0; s < rig->plan.shards; s++)
        if (gw_holders_has(&h, s, rank)) payload_rig_wait_index(rig, peer, s, true);
    gw_holders_free(&h);
}

void payload_rig_wait_waiting(payload_rig *rig, uint32_t reads) {
    pthread_mutex_lock(&rig->lock);
    while (rig->waiting_count != reads) pthread_cond_wait(&rig->changed, &rig->lock);
    pthread_mutex_unlock(&rig->lock);
}

void payload_rig_answer(payload_rig *rig) {
    pthread_mutex_lock(&rig->lock);
    while (rig->waiting_count > 0) {
        gw_op op = rig->waiting[--rig->waiting_count].op;
        gw_data_op *pending = rig->waiting[rig->waiting_count].pending;
        complete(&op, pending, carry_out(find(rig, &op.peer), &op));
    }
    pthread_mutex_unlock(&rig->lock);
}

void payload_rig_wait_hanging(payload_rig *rig, uint32_t peer) {
    pthread_mutex_lock(&rig->lock);
    while (!rig->peers[peer].write_hangs || rig->peers[peer].hanging == 0)
        pthread_cond_wait(&rig->changed, &rig->lock);
    pthread_mutex_unlock(&rig->lock);
}

void payload_rig_wait_served(payload_rig *rig, uint32_t peer, uint32_t reads) {
    pthread_mutex_lock(&rig->lock);
    while (rig->peers[peer].served < reads) pthread_cond_wait(&rig->changed, &rig->lock);
    pthread_mutex_unlock(&rig->lock);
}

/* Faults, looking. */

void payload_rig_set(payload_rig *rig, bool *fault, bool value) {
    pthread_mutex_lock(&rig->lock);
    *fault = value;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

void payload_rig_expect(payload_rig *rig, uint32_t peer, uint32_t shard) {
    const void *block;
    gw_err err;
    cr_assert_eq(gw_payloads_take(rig->peers[peer].payloads, shard, &block, &err), GW_PAYLOAD_HERE);
    cr_assert_eq((uintptr_t)block % 64, 0);
    for (uint64_t i = 0; i < rig->plan.bytes; i++)
        cr_assert_eq(((const uint8_t *)block)[i], byte_of(shard, i), "byte %u of shard %u", (unsigned)i,
                     shard);
    gw_payloads_release(rig->peers[peer].payloads, shard, block);
}

bool payload_rig_in_place(const payload_rig *rig, uint32_t peer, const void *block) {
    const uint8_t *slots = rig->peers[peer].slots, *at = block;
    return slots != NULL && at >= slots && at < slots + rig->peers[peer].bytes;
}

uint32_t payload_rig_written(payload_rig *rig, uint32_t peer) {
    uint32_t sum = 0;
    pthread_mutex_lock(&rig->lock);
    for (uint32_t s = 0; s < rig->plan.shards; s++) sum += rig->peers[peer].written[s];
    pthread_mutex_unlock(&rig->lock);
    return sum;
}
