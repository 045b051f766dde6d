#include "net/onesided/server.h"

#include "core/base/assert.h"
#include "net/onesided/requester.h"

#include <stdlib.h>

/* A reply that waits to be sent. */
typedef struct answer {
    bool read; /* `request` is a READ that is still to be executed */
    gw_request request;
    gw_reply reply;
    gw_lookup *lookup; /* FETCH: the bytes; reply.offset is how many of them are sent */
} answer;

struct gw_server {
    gw_peer_id peer;
    uint64_t channel;
    const gw_regions *regions;
    gw_provider *provider;
    answer queue[GW_REQUESTER_WINDOW]; /* a ring buffer */
    uint32_t head, count;
    uint32_t lookups; /* lookups at the provider */
    answer sending;   /* its lookup is not NULL while bytes of a FETCH are being sent */
    uint32_t sending_bytes, read_bytes;
    uint8_t stage[];
};

gw_server *gw_server_open(const gw_peer_id *peer, uint64_t channel, uint32_t read_bytes,
                          const gw_regions *regions, gw_provider *provider) {
    gw_server *server = malloc(sizeof *server + read_bytes);
    if (server == NULL) return NULL;
    *server = (gw_server){.peer = *peer,
                          .channel = channel,
                          .regions = regions,
                          .provider = provider,
                          .read_bytes = read_bytes};
    return server;
}

static answer *queued(gw_server *server, uint32_t i) {
    return &server->queue[(server->head + i) % GW_REQUESTER_WINDOW];
}

void gw_server_close(gw_server *server) {
    for (uint32_t i = 0; i < server->count; i++)
        if (queued(server, i)->lookup != NULL) gw_lookup_free(queued(server, i)->lookup);
    if (server->sending.lookup != NULL) gw_lookup_free(server->sending.lookup);
    free(server);
}

static void enqueue(gw_server *server, const answer *a) {
    GW_ASSERT(server->count < GW_REQUESTER_WINDOW);
    *queued(server, server->count++) = *a;
}

static bool take_fetch(gw_server *server, const gw_request *request) {
    gw_lookup *lookup = server->provider != NULL ? calloc(1, sizeof *lookup) : NULL;
    if (lookup == NULL) {
        gw_op_status status = server->provider != NULL ? GW_OP_UNAVAILABLE : GW_OP_NOTFOUND;
        enqueue(server, &(answer){.reply = {GW_OP_FETCH, status, true, request->id, 0, 0}});
        return true;
    }
    lookup->requester = server->peer;
    lookup->name = request->name;
    lookup->channel = server->channel;
    lookup->id = request->id;
    lookup->capacity = request->capacity;
    server->lookups++;
    gw_provider_ask(server->provider, lookup);
    return true;
}

bool gw_server_take(gw_server *server, const gw_request *request, const void *payload,
                    uint32_t payload_bytes) {
    uint32_t busy = server->count + server->lookups + (server->sending.lookup != NULL ? 1 : 0);
    if (busy >= GW_REQUESTER_WINDOW) return false;
    if (payload_bytes != (request->kind == GW_OP_WRITE ? request->bytes : 0)) return false;
    answer a = {.request = *request, .reply = {request->kind, GW_OP_OK, true, request->id, 0, 0}};
    switch (request->kind) {
    case GW_OP_READ:
        if (request->bytes > server->read_bytes) return false;
        a.read = true;
        break;
    case GW_OP_WRITE:
        a.reply.status = gw_regions_write(server->regions, &server->peer, &request->fence, request->region,
                                          request->offset, request->bytes, payload);
        break;
    case GW_OP_CAS:
    case GW_OP_FETCH_ADD:
        a.reply.status =
            gw_regions_word(server->regions, &server->peer, &request->fence, request->kind, request->region,
                            request->offset, request->expected, request->operand, &a.reply.value);
        break;
    case GW_OP_FETCH:
        return take_fetch(server, request);
    }
    enqueue(server, &a);
    return true;
}

void gw_server_answered(gw_server *server, gw_lookup *lookup) {
    GW_ASSERT(server->lookups > 0 && lookup->channel == server->channel);
    server->lookups--;
    bool found = lookup->status == GW_OP_OK;
    answer a = {.reply = {GW_OP_FETCH, lookup->status, true, lookup->id, found ? lookup->length : 0, 0}};
    if (found)
        a.lookup = lookup;
    else
        gw_lookup_free(lookup);
    enqueue(server, &a);
}

bool gw_server_next(gw_server *server, gw_reply *reply, struct iovec *payload) {
    if (server->count == 0) return false;
    GW_ASSERT(server->sending.lookup == NULL);
    answer *a = &server->sending;
    *a = *queued(server, 0);
    server->head = (server->head + 1) % GW_REQUESTER_WINDOW;
    server->count--;
    *payload = (struct iovec){server->stage, 0};
    if (a->read) {
        const gw_request *request = &a->request;
        a->reply.status = gw_regions_read(server->regions, &server->peer, &request->fence, request->region,
                                          request->offset, request->bytes, server->stage);
        if (a->reply.status == GW_OP_OK) payload->iov_len = request->bytes;
    } else if (a->lookup != NULL) {
        uint64_t left = a->lookup->length - a->reply.offset;
        payload->iov_base = (uint8_t *)(uintptr_t)a->lookup->bytes + a->reply.offset;
        payload->iov_len = left < GW_PIECE_BYTES ? left : GW_PIECE_BYTES;
        a->reply.last = payload->iov_len == left;
    }
    server->sending_bytes = (uint32_t)payload->iov_len;
    *reply = a->reply;
    return true;
}

void gw_server_sent(gw_server *server) {
    answer a = server->sending;
    server->sending.lookup = NULL;
    if (a.lookup == NULL) return;
    a.reply.offset += server->sending_bytes;
    if (a.reply.last) gw_lookup_free(a.lookup);
    /* At the end of the queue, so that other replies get their turn. */
    else
        enqueue(server, &a);
}
