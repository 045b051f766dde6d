#include "net/onesided/asker.h"

#include "core/base/assert.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A piece that was asked for. */
typedef struct slot {
    bool busy, fetch;
    gw_posted *posted; /* NULL: abandoned, its replies are dropped */
    uint64_t id;
    uint64_t offset, bytes; /* of the piece in its operation */
    uint64_t landed;        /* FETCH: bytes that are there */
    uint64_t whole;         /* FETCH: of how many, once some are there */
} slot;

struct gw_asker {
    gw_transport_events events;
    uint32_t window;
    gw_posted *first, **last; /* not asked for in full, in order; only the first may be asked for in part */
    slot slots[GW_ASKER_WINDOW];
    uint64_t requests; /* so far: makes ids unique */
    slot *landing;     /* where the payload at hand goes, or NULL */
    gw_reply landing_reply;
    uint32_t landing_bytes;
};

gw_asker *gw_asker_open(uint32_t window, const gw_transport_events *events) {
    GW_ASSERT(window >= 1 && window <= GW_ASKER_WINDOW);
    gw_asker *asker = calloc(1, sizeof *asker);
    if (asker == NULL) return NULL;
    asker->window = window;
    asker->events = *events;
    asker->last = &asker->first;
    return asker;
}

static void complete(gw_asker *asker, gw_posted *posted) {
    GW_ASSERT(posted->in_flight == 0 && !posted->waiting);
    gw_completion completion = {.token = posted->op.token,
                                .peer = posted->op.peer,
                                .kind = posted->op.kind,
                                .status = posted->status == 0 ? GW_OP_OK : posted->status,
                                .value = posted->value};
    free(posted);
    asker->events.completed(asker->events.context, &completion);
}

static void stop_waiting(gw_asker *asker, gw_posted *posted) {
    GW_ASSERT(asker->first == posted && posted->waiting);
    asker->first = posted->next;
    if (asker->first == NULL) asker->last = &asker->first;
    posted->waiting = false;
}

void gw_asker_add(gw_asker *asker, gw_posted *posted) {
    GW_ASSERT(posted->in_flight == 0 && !posted->asked);
    posted->waiting = true;
    posted->next = NULL;
    *asker->last = posted;
    asker->last = &posted->next;
}

/* A FETCH that was abandoned takes a slot until its last reply has come, so that this is known for what it
 * is, but no room in the window: what it waits for, a disk, may never come. */
static bool is_abandoned_fetch(const slot *s) {
    return s->busy && s->fetch && s->posted == NULL;
}

static slot *free_slot(gw_asker *asker) {
    slot *unused = NULL;
    uint32_t in_flight = 0;
    for (uint32_t i = GW_ASKER_WINDOW; i-- > 0;) {
        slot *s = &asker->slots[i];
        if (!s->busy)
            unused = s;
        else if (!is_abandoned_fetch(s))
            in_flight++;
    }
    return in_flight < asker->window ? unused : NULL;
}

bool gw_asker_next(gw_asker *asker, gw_request *request, struct iovec *payload) {
    gw_posted *posted = asker->first;
    slot *s = posted == NULL ? NULL : free_slot(asker);
    if (s == NULL) return false;
    const gw_op *op = &posted->op;
    uint64_t bytes = op->bytes;
    if (op->kind == GW_OP_READ) {
        bytes -= posted->asked_bytes;
        if (bytes > GW_PIECE_BYTES) bytes = GW_PIECE_BYTES;
    }
    uint64_t id = ++asker->requests * GW_ASKER_WINDOW + (uint64_t)(s - asker->slots);
    *s = (slot){.busy = true,
                .fetch = op->kind == GW_OP_FETCH,
                .posted = posted,
                .id = id,
                .offset = posted->asked_bytes,
                .bytes = bytes};
    *request = (gw_request){.kind = op->kind,
                            .region = op->region,
                            .bytes = op->kind == GW_OP_READ || op->kind == GW_OP_WRITE ? (uint32_t)bytes : 0,
                            .id = id,
                            .fence = op->fence,
                            .offset = op->offset + s->offset,
                            .expected = op->expected,
                            .operand = op->operand,
                            .name = op->name,
                            .capacity = op->bytes};
    *payload = (struct iovec){posted->payload, op->kind == GW_OP_WRITE ? bytes : 0};
    posted->asked = true;
    posted->in_flight++;
    posted->asked_bytes += bytes;
    if (op->kind != GW_OP_READ || posted->asked_bytes == op->bytes) stop_waiting(asker, posted);
    return true;
}

/* One piece is answered in full: the operation may be done. */
static void settle(gw_asker *asker, slot *s, gw_op_status status) {
    gw_posted *posted = s->posted;
    GW_ASSERT(s->busy && posted != NULL);
    s->busy = false;
    if (status != GW_OP_OK && posted->status == 0) posted->status = status;
    posted->in_flight--;
    if (posted->status != 0 && posted->waiting) stop_waiting(asker, posted);
    if (posted->in_flight == 0 && !posted->waiting) complete(asker, posted);
}

gw_arrival gw_asker_place(gw_asker *asker, const gw_reply *reply, uint32_t bytes, struct iovec *place) {
    slot *s = &asker->slots[reply->id % GW_ASKER_WINDOW];
    if (!s->busy || s->id != reply->id) return GW_ARRIVAL_REFUSE;
    bool fetch = reply->kind == GW_OP_FETCH;
    if (s->posted == NULL) {
        if (reply->last) s->busy = false;
        return GW_ARRIVAL_DROP;
    }
    const gw_op *op = &s->posted->op;
    uint64_t due = 0; /* bytes that this reply must bring */
    if (reply->status == GW_OP_OK && op->kind == GW_OP_READ) due = s->bytes;
    if (reply->status == GW_OP_OK && fetch) {
        if (reply->value > op->bytes || (s->landed > 0 && reply->value != s->whole)) return GW_ARRIVAL_REFUSE;
        if (reply->offset != s->landed || bytes > reply->value - s->landed ||
            reply->last != (s->landed + bytes == reply->value))
            return GW_ARRIVAL_REFUSE;
        due = bytes;
    }
    bool more = fetch && reply->status == GW_OP_OK; /* may follow */
    if (reply->kind != op->kind || bytes != due || (!more && !reply->last)) return GW_ARRIVAL_REFUSE;
    *place = (struct iovec){bytes > 0 ? (uint8_t *)op->buffer + s->offset + s->landed : NULL, bytes};
    asker->landing = s;
    asker->landing_reply = *reply;
    asker->landing_bytes = bytes;
    return GW_ARRIVAL_LAND;
}

void gw_asker_landed(gw_asker *asker) {
    slot *s = asker->landing;
    const gw_reply *reply = &asker->landing_reply;
    GW_ASSERT(s != NULL && s->busy && s->posted != NULL);
    GW_ASSERT(asker->landing_bytes == 0 ||
              s->offset + s->landed + asker->landing_bytes <= s->posted->op.bytes);
    asker->landing = NULL;
    s->landed += asker->landing_bytes;
    s->whole = reply->value;
    if (s->posted->op.landed != NULL) atomic_fetch_add(s->posted->op.landed, asker->landing_bytes);
    if (!reply->last) return;
    s->posted->value = reply->value;
    if (s->posted->op.kind == GW_OP_READ && s->posted->op.bytes == 8 && reply->status == GW_OP_OK)
        memcpy(&s->posted->value, s->posted->op.buffer, 8);
    settle(asker, s, reply->status);
}

/* Completes everything: what was asked for in any part with UNKNOWN, the rest with UNREACHABLE. */
static void end_all(gw_asker *asker) {
    /* Handlers may not add to this asker meanwhile: posting goes through the rail's inbox. */
    gw_posted *waiting = asker->first;
    asker->first = NULL;
    asker->last = &asker->first;
    while (waiting != NULL) {
        gw_posted *posted = waiting;
        waiting = posted->next;
        posted->waiting = false;
        posted->status = posted->asked ? GW_OP_UNKNOWN : GW_OP_UNREACHABLE;
        if (posted->in_flight == 0) complete(asker, posted);
    }
    for (uint32_t i = 0; i < GW_ASKER_WINDOW; i++) {
        slot *s = &asker->slots[i];
        gw_posted *posted = s->posted;
        if (!s->busy || posted == NULL) continue;
        s->posted = NULL;
        posted->status = GW_OP_UNKNOWN;
        if (--posted->in_flight == 0) complete(asker, posted);
    }
}

bool gw_asker_abandon(gw_asker *asker) {
    /* The reply whose payload was landing is as good as dropped. */
    if (asker->landing != NULL && asker->landing_reply.last) {
        gw_posted *posted = asker->landing->posted;
        asker->landing->busy = false;
        asker->landing->posted = NULL;
        posted->status = GW_OP_UNKNOWN;
        if (--posted->in_flight == 0 && !posted->waiting) complete(asker, posted);
    }
    asker->landing = NULL;
    end_all(asker);
    for (uint32_t i = 0; i < GW_ASKER_WINDOW; i++)
        if (!is_abandoned_fetch(&asker->slots[i])) return true;
    return false;
}

void gw_asker_close(gw_asker *asker) {
    end_all(asker);
    free(asker);
}
