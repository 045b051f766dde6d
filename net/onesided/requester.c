#include "net/onesided/requester.h"

#include "core/base/assert.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A piece that was requested. */
typedef struct slot {
    bool busy, fetch;
    gw_posted *posted; /* NULL: it was abandoned, and its replies are dropped */
    uint64_t id;
    uint64_t offset, bytes; /* the place of the piece in its operation */
    uint64_t landed;        /* FETCH: bytes that have arrived */
    uint64_t whole;         /* FETCH: the whole length, once some bytes have arrived */
} slot;

struct gw_requester {
    gw_transport_events events;
    uint32_t window;
    /* Operations that are not requested in full, in order; only the first may be requested in part. */
    gw_posted *first, **last;
    slot slots[GW_REQUESTER_WINDOW];
    uint64_t requests; /* requests so far, which makes ids unique */
    slot *landing;     /* the piece whose payload is arriving; NULL: none */
    gw_reply landing_reply;
    uint32_t landing_bytes;
};

gw_requester *gw_requester_open(uint32_t window, const gw_transport_events *events) {
    GW_ASSERT(window >= 1 && window <= GW_REQUESTER_WINDOW);
    gw_requester *requester = calloc(1, sizeof *requester);
    if (requester == NULL) return NULL;
    requester->window = window;
    requester->events = *events;
    requester->last = &requester->first;
    return requester;
}

static void complete(gw_requester *requester, gw_posted *posted) {
    GW_ASSERT(posted->in_flight == 0 && !posted->waiting);
    gw_completion completion = {.token = posted->op.token,
                                .peer = posted->op.peer,
                                .kind = posted->op.kind,
                                .status = posted->status == 0 ? GW_OP_OK : posted->status,
                                .value = posted->value};
    free(posted);
    requester->events.completed(requester->events.context, &completion);
}

static void stop_waiting(gw_requester *requester, gw_posted *posted) {
    GW_ASSERT(requester->first == posted && posted->waiting);
    requester->first = posted->next;
    if (requester->first == NULL) requester->last = &requester->first;
    posted->waiting = false;
}

void gw_requester_add(gw_requester *requester, gw_posted *posted) {
    GW_ASSERT(posted->in_flight == 0 && !posted->asked);
    posted->waiting = true;
    posted->next = NULL;
    *requester->last = posted;
    requester->last = &posted->next;
}

/* Whether a slot holds an abandoned FETCH. It keeps its slot until its last reply has come, so that the reply
 * is recognised, but takes no room in the window, since the disk that it waits for may never answer. */
static bool is_abandoned_fetch(const slot *s) {
    return s->busy && s->fetch && s->posted == NULL;
}

static slot *free_slot(gw_requester *requester) {
    slot *unused = NULL;
    uint32_t in_flight = 0;
    for (uint32_t i = GW_REQUESTER_WINDOW; i-- > 0;) {
        slot *s = &requester->slots[i];
        if (!s->busy)
            unused = s;
        else if (!is_abandoned_fetch(s))
            in_flight++;
    }
    return in_flight < requester->window ? unused : NULL;
}

bool gw_requester_next(gw_requester *requester, gw_request *request, struct iovec *payload) {
    gw_posted *posted = requester->first;
    slot *s = posted == NULL ? NULL : free_slot(requester);
    if (s == NULL) return false;
    const gw_op *op = &posted->op;
    uint64_t bytes = op->bytes;
    if (op->kind == GW_OP_READ) {
        bytes -= posted->asked_bytes;
        if (bytes > GW_PIECE_BYTES) bytes = GW_PIECE_BYTES;
    }
    uint64_t id = ++requester->requests * GW_REQUESTER_WINDOW + (uint64_t)(s - requester->slots);
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
    if (op->kind != GW_OP_READ || posted->asked_bytes == op->bytes) stop_waiting(requester, posted);
    return true;
}

/* Notes that a piece is answered in full, which may complete the operation. */
static void settle(gw_requester *requester, slot *s, gw_op_status status) {
    gw_posted *posted = s->posted;
    GW_ASSERT(s->busy && posted != NULL);
    s->busy = false;
    if (status != GW_OP_OK && posted->status == 0) posted->status = status;
    posted->in_flight--;
    if (posted->status != 0 && posted->waiting) stop_waiting(requester, posted);
    if (posted->in_flight == 0 && !posted->waiting) complete(requester, posted);
}

gw_arrival gw_requester_place(gw_requester *requester, const gw_reply *reply, uint32_t bytes,
                              struct iovec *place) {
    slot *s = &requester->slots[reply->id % GW_REQUESTER_WINDOW];
    if (!s->busy || s->id != reply->id) return GW_ARRIVAL_REFUSE;
    bool fetch = reply->kind == GW_OP_FETCH;
    if (s->posted == NULL) {
        if (reply->last) s->busy = false;
        return GW_ARRIVAL_DROP;
    }
    const gw_op *op = &s->posted->op;
    uint64_t due = 0; /* the bytes that this reply must bring */
    if (reply->status == GW_OP_OK && op->kind == GW_OP_READ) due = s->bytes;
    if (reply->status == GW_OP_OK && fetch) {
        if (reply->value > op->bytes || (s->landed > 0 && reply->value != s->whole)) return GW_ARRIVAL_REFUSE;
        if (reply->offset != s->landed || bytes > reply->value - s->landed ||
            reply->last != (s->landed + bytes == reply->value))
            return GW_ARRIVAL_REFUSE;
        due = bytes;
    }
    bool more = fetch && reply->status == GW_OP_OK; /* more replies may follow */
    if (reply->kind != op->kind || bytes != due || (!more && !reply->last)) return GW_ARRIVAL_REFUSE;
    *place = (struct iovec){bytes > 0 ? (uint8_t *)op->buffer + s->offset + s->landed : NULL, bytes};
    requester->landing = s;
    requester->landing_reply = *reply;
    requester->landing_bytes = bytes;
    return GW_ARRIVAL_LAND;
}

void gw_requester_landed(gw_requester *requester) {
    slot *s = requester->landing;
    const gw_reply *reply = &requester->landing_reply;
    GW_ASSERT(s != NULL && s->busy && s->posted != NULL);
    GW_ASSERT(requester->landing_bytes == 0 ||
              s->offset + s->landed + requester->landing_bytes <= s->posted->op.bytes);
    requester->landing = NULL;
    s->landed += requester->landing_bytes;
    s->whole = reply->value;
    if (s->posted->op.landed != NULL) atomic_fetch_add(s->posted->op.landed, requester->landing_bytes);
    if (!reply->last) return;
    s->posted->value = reply->value;
    if (s->posted->op.kind == GW_OP_READ && s->posted->op.bytes == 8 && reply->status == GW_OP_OK)
        memcpy(&s->posted->value, s->posted->op.buffer, 8);
    settle(requester, s, reply->status);
}

/* Completes everything: operations of which a part was requested with GW_OP_UNKNOWN, the others with
 * GW_OP_UNREACHABLE. */
static void end_all(gw_requester *requester) {
    /* Handlers cannot add to this requester meanwhile, since posting goes through the rail's inbox. */
    gw_posted *waiting = requester->first;
    requester->first = NULL;
    requester->last = &requester->first;
    while (waiting != NULL) {
        gw_posted *posted = waiting;
        waiting = posted->next;
        posted->waiting = false;
        posted->status = posted->asked ? GW_OP_UNKNOWN : GW_OP_UNREACHABLE;
        if (posted->in_flight == 0) complete(requester, posted);
    }
    for (uint32_t i = 0; i < GW_REQUESTER_WINDOW; i++) {
        slot *s = &requester->slots[i];
        gw_posted *posted = s->posted;
        if (!s->busy || posted == NULL) continue;
        s->posted = NULL;
        posted->status = GW_OP_UNKNOWN;
        if (--posted->in_flight == 0) complete(requester, posted);
    }
}

bool gw_requester_abandon(gw_requester *requester) {
    /* A reply whose payload was arriving is dropped. */
    if (requester->landing != NULL && requester->landing_reply.last) {
        gw_posted *posted = requester->landing->posted;
        requester->landing->busy = false;
        requester->landing->posted = NULL;
        posted->status = GW_OP_UNKNOWN;
        if (--posted->in_flight == 0 && !posted->waiting) complete(requester, posted);
    }
    requester->landing = NULL;
    end_all(requester);
    for (uint32_t i = 0; i < GW_REQUESTER_WINDOW; i++)
        if (!is_abandoned_fetch(&requester->slots[i])) return true;
    return false;
}

void gw_requester_close(gw_requester *requester) {
    end_all(requester);
    free(requester);
}
