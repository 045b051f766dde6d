/* Recursive doubling for small sums. In stage k a member exchanges its sum so far with the member whose
 * number differs in bit k, so log2 N exchanges suffice. If N is no power of two, the first 2 (N - 2^m)
 * members form pairs first (stage 0): the even member hands its vector over and gets the result at the end,
 * and the odd one takes part in the exchanges for both. The two sides of an exchange add the same two
 * vectors, and adding two floats does not depend on their order, so all members get the same bytes.
 *
 * A sum is complete as soon as all members have entered, and no member can know earlier that they have, so
 * there is no deadline to count. What is sent to a member that has not entered waits there unread: one
 * message at most, for which any receive window has room (GW_DOUBLING_BYTES). If a message does not get
 * through, the link ends, which fails the call: over TCP when the message is not acknowledged in time
 * (net/link/stream.c), over RDMA when the card's retries run out. In shared memory nothing can get lost. */
#include "net/collective/doubling.h"

#include "core/base/assert.h"
#include "net/collective/part.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct doubling {
    uint32_t rounds;         /* m */
    uint32_t stage;          /* 0 fold, 1 to m exchange, m + 1 unfold, m + 2 done */
    bool to_send, to_land;   /* whether this stage still has to send, and to receive */
    gw_rail_peer *peers[34]; /* the partner in each stage; NULL: none */
    struct iovec tx_part, rx_part, *pieces;
    uint64_t bytes;
    uint8_t *sum, *theirs;       /* buffers of `bytes` bytes: the sum so far, and what arrives */
    uint64_t checksum, expected; /* the checksums that `sum` and `theirs` must have */
} doubling;

uint32_t gw_doubling_rounds(uint32_t members) {
    uint32_t rounds = 0;
    while (2u << rounds <= members) rounds++;
    return rounds;
}

uint32_t gw_doubling_partner(uint32_t members, uint32_t rank, uint32_t stage) {
    uint32_t rounds = gw_doubling_rounds(members), folded = members - (1u << rounds);
    bool folds = rank < 2 * folded;
    if (stage == 0 || stage > rounds) return folds ? rank ^ 1 : rank;
    if (folds && rank % 2 == 0) return rank;
    uint32_t number = folds ? rank / 2 : rank - folded; /* the number among the 2^m members that take part */
    uint32_t other = number ^ (1u << (stage - 1));
    return other < folded ? 2 * other + 1 : other + folded;
}

/* Copies between the pieces and one buffer. */
static void copy_vector(const gw_part *part, doubling *d, bool out) {
    uint32_t parts = gw_call_gather(part->call, out, 0, part->count, d->pieces);
    uint8_t *at = d->sum;
    for (uint32_t i = 0; i < parts; at += d->pieces[i++].iov_len) {
        if (out)
            memcpy(d->pieces[i].iov_base, at, d->pieces[i].iov_len);
        else
            memcpy(at, d->pieces[i].iov_base, d->pieces[i].iov_len);
    }
}

static uint64_t checksum_of(const doubling *d, const uint8_t *vector) {
    gw_checksum checksum = {0};
    gw_checksum_add(&checksum, vector, d->bytes);
    return gw_checksum_end(&checksum);
}

static void enter_stage(gw_part *part, doubling *d) {
    uint32_t rank = part->call->is.rank, last = d->rounds + 1;
    while (d->stage <= last && d->peers[d->stage] == NULL) d->stage++;
    if (d->stage > last) {
        part->tx_done = part->done = part->all_entered = true;
        copy_vector(part, d, true);
        part->own_changed = gw_call_checksum(part->call, true, 0, part->count) != d->checksum;
        return;
    }
    bool even = rank % 2 == 0;
    d->to_send = d->stage == 0 ? even : d->stage == last ? !even : true;
    d->to_land = d->stage == 0 ? !even : d->stage == last ? even : true;
    gw_rail_peer *peer = d->peers[d->stage];
    part->transport->ops->rail_resume(part->transport, peer);
    part->transport->ops->rail_push(part->transport, peer);
}

static bool doubling_open(gw_part *part, gw_err *err) {
    const gw_collective_call *is = &part->call->is;
    doubling *d = part->state = calloc(1, sizeof *d);
    if (d == NULL) return gw_fail(err, GW_E_NOMEM, "net/collective: no memory");
    d->bytes = part->count * gw_sum_bytes(is->type);
    d->pieces = calloc(is->piece_count, sizeof *d->pieces);
    d->sum = malloc(d->bytes + 1);
    d->theirs = malloc(d->bytes + 1);
    if (d->pieces == NULL || d->sum == NULL || d->theirs == NULL)
        return gw_fail(err, GW_E_NOMEM, "net/collective: no memory");
    d->rounds = gw_doubling_rounds(is->member_count);
    for (uint32_t stage = 0; stage <= d->rounds + 1; stage++) {
        uint32_t partner = gw_doubling_partner(is->member_count, is->rank, stage);
        if (partner != is->rank && !gw_part_peer(part, partner, &d->peers[stage], err)) return false;
    }
    /* The checksum is that of the inputs, not of their copy, so it also protects the copying. */
    d->checksum = gw_call_checksum(part->call, false, 0, part->count);
    copy_vector(part, d, false);
    enter_stage(part, d);
    return true;
}

static void doubling_close(gw_part *part) {
    doubling *d = part->state;
    if (d == NULL) return;
    free(d->pieces);
    free(d->sum);
    free(d->theirs);
    free(d);
}

/* Makes the arrived vector the sum, or adds it to the sum. The other side may have taken long to send it, and
 * adds what this side has sent, so the checksum of the sum is verified again. */
static void take_theirs(gw_part *part, doubling *d) {
    gw_checksum theirs = {0}, added = {0};
    if (d->stage == d->rounds + 1) {
        gw_checksum_add(&theirs, d->theirs, d->bytes);
        added = theirs;
    } else {
        gw_sum_into(part->call->is.type, d->theirs, d->sum, d->theirs, part->count, &theirs, &added);
        part->own_changed = checksum_of(d, d->sum) != d->checksum;
    }
    uint8_t *sum = d->theirs;
    d->theirs = d->sum;
    d->sum = sum;
    part->changed = gw_checksum_end(&theirs) != d->expected;
    d->checksum = gw_checksum_end(&added);
}

static void advance(gw_part *part, doubling *d) {
    if (d->to_send || d->to_land || part->in_flight > 0) return;
    bool even = part->call->is.rank % 2 == 0, last = d->stage == d->rounds + 1;
    bool received = last ? even : !(d->stage == 0 && even);
    if (received) take_theirs(part, d);
    if (part->changed || part->own_changed) return;
    d->stage++;
    enter_stage(part, d);
}

static bool doubling_next(gw_part *part, gw_rail_peer *peer, gw_rail_message *message) {
    doubling *d = part->state;
    if (!d->to_send || peer != d->peers[d->stage]) return false;
    d->to_send = false;
    d->tx_part = (struct iovec){d->sum, d->bytes};
    message->bytes = (uint32_t)d->bytes;
    message->parts = &d->tx_part;
    message->part_count = 1;
    gw_part_encode(part, GW_PART_ROUND, d->stage, d->checksum, message->header);
    part->sending_to = peer;
    part->in_flight++;
    return true;
}

static void doubling_sent(gw_part *part, gw_rail_peer *peer) {
    (void)peer;
    advance(part, part->state);
}

static gw_arrival doubling_arrive(gw_part *part, gw_rail_peer *peer, const gw_part_header *header,
                                  gw_rail_message *message) {
    doubling *d = part->state;
    if (header->type != GW_PART_ROUND || header->index > d->rounds + 1) return GW_ARRIVAL_REFUSE;
    if (header->index < d->stage || peer != d->peers[header->index] || message->bytes != d->bytes)
        return GW_ARRIVAL_REFUSE;
    if (header->index > d->stage) return GW_ARRIVAL_PARK;
    if (!d->to_land) return GW_ARRIVAL_REFUSE;
    d->expected = header->checksum;
    d->rx_part = (struct iovec){d->theirs, d->bytes};
    message->parts = &d->rx_part;
    message->part_count = 1;
    return GW_ARRIVAL_LAND;
}

static void doubling_landed(gw_part *part, gw_rail_peer *peer) {
    (void)peer;
    doubling *d = part->state;
    d->to_land = false;
    advance(part, d);
}

const gw_part_ops gw_doubling_ops = {.open = doubling_open,
                                     .next = doubling_next,
                                     .sent = doubling_sent,
                                     .arrive = doubling_arrive,
                                     .landed = doubling_landed,
                                     .close = doubling_close};
