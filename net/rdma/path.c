#include "net/rdma/path.h"

#include "core/base/log.h"
#include "net/rdma/endpoint.h"
#include "net/rdma/packing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rdma_path {
    gw_path base; /* first */
    uint16_t port;
    char name[GW_RDMA_NAME]; /* options.device */
    gw_rdma_options options;
    /* `memory` is NULL if the device was removed and none has been found since. */
    gw_rdma_endpoints endpoints;
} rdma_path;

static rdma_path *path_of(gw_path *path) {
    return (rdma_path *)path;
}

static const gw_rdma_device *device_of(const rdma_path *path) {
    return gw_rdma_memory_device(path->endpoints.memory);
}

/* Removed devices. */

/* Makes librdmacm close devices that are gone. It has devices open itself, and closes a removed one when it
 * next looks for devices and finds any. If the last device of the machine is removed, librdmacm holds it
 * until this process ends. */
static void make_library_release_devices(void) {
    struct ibv_context **devices = rdma_get_devices(NULL);
    if (devices != NULL) rdma_free_devices(devices);
}

static void release_device(rdma_path *path) {
    gw_rdma_endpoints_close(&path->endpoints);
    gw_rdma_owner_release(path->endpoints.owner);
    gw_rdma_memory_close(path->endpoints.memory);
    path->endpoints.memory = NULL;
    make_library_release_devices();
}

static void rdma_close_endpoint(gw_path_endpoint *endpoint) {
    rdma_path *path = path_of(endpoint->path);
    gw_rdma_endpoint_close(endpoint);
    if (path->endpoints.removed && path->endpoints.first == NULL) release_device(path);
}

static bool reopen(rdma_path *path, gw_err *err) {
    gw_rdma_device device;
    gw_rdma_endpoints *endpoints = &path->endpoints;
    if (!gw_rdma_device_open(&device, &path->options, err)) return false;
    endpoints->memory = gw_rdma_memory_open(&device, err);
    if (endpoints->memory == NULL) return false;
    if (gw_rdma_owner_take(endpoints->owner, endpoints->memory, err) &&
        gw_rdma_endpoints_open(endpoints, &path->port, err))
        return true;
    release_device(path);
    return false;
}

/* Looks for a device in place of the removed one. */
static void look_again(rdma_path *path) {
    gw_err err;
    if (path->endpoints.first != NULL) return; /* its endpoints will be closed first */
    if (path->endpoints.memory != NULL) release_device(path);
    if (!reopen(path, &err)) {
        gw_log(GW_DEBUG, "net/rdma", "%s", err.text);
        return;
    }
    gw_log(GW_INFO, "net/rdma", "%s port %u is used from now on", device_of(path)->name,
           device_of(path)->port);
    gw_rdma_owner_found(path->endpoints.owner);
}

/* Cards. */

static uint32_t rdma_card(gw_path *base, uint8_t bytes[GW_PATH_CARD_BYTES], gw_err *why) {
    rdma_path *path = path_of(base);
    if (path->endpoints.removed) look_again(path);
    if (path->endpoints.lost) {
        *why = path->endpoints.why_lost;
        return 0;
    }
    const gw_rdma_device *device = device_of(path);
    gw_rdma_card card = {.ethernet = device->ethernet, .address = device->address, .mbits = device->mbits};
    card.address.port = path->port;
    if (!device->ethernet) memcpy(card.network, device->gid.raw, sizeof card.network);
    return gw_rdma_card_encode(&card, bytes);
}

static bool read_card(const uint8_t *bytes, uint32_t count, gw_rdma_card *card, gw_err *err) {
    return gw_rdma_card_decode(bytes, count, card) ||
           gw_fail(err, GW_E_PEER, "net/rdma: the peer's card is malformed");
}

static bool rdma_suits(gw_path *base, const uint8_t *bytes, uint32_t count, gw_err *why) {
    const rdma_path *path = path_of(base);
    gw_rdma_card card;
    if (path->endpoints.lost) {
        *why = path->endpoints.why_lost;
        return false;
    }
    if (!read_card(bytes, count, &card, why)) return false;
    const gw_rdma_device *device = device_of(path);
    bool same = card.ethernet == device->ethernet &&
                (card.ethernet || memcmp(card.network, device->gid.raw, sizeof card.network) == 0) &&
                card.address.family == device->address.family;
    return same ||
           gw_fail(why, GW_E_UNSUPPORTED, "net/rdma: %s port %u and the peer's device are not on one fabric",
                   device->name, device->port);
}

static gw_path_endpoint *rdma_open(gw_path *base, const gw_path_endpoint *as, const uint8_t *bytes,
                                   uint32_t count, gw_err *err) {
    gw_rdma_card card;
    if (!read_card(bytes, count, &card, err)) return NULL;
    return gw_rdma_endpoint_open(&path_of(base)->endpoints, as, &card, err);
}

/* This peer's memory. */

static void rdma_fence_begin(gw_path *base, const gw_fence *fence, const gw_peer_id *members,
                             uint32_t count) {
    (void)fence;
    gw_rdma_owner_fence_begin(path_of(base)->endpoints.owner, members, count);
}

static void rdma_fence_end(gw_path *base, const gw_fence *fence, const gw_peer_id *members, uint32_t count) {
    (void)members;
    (void)count;
    gw_rdma_owner_fence_end(path_of(base)->endpoints.owner, fence);
}

static void rdma_add_region(gw_path *base, uint32_t region, const void *memory, uint64_t bytes) {
    gw_rdma_loans_add(gw_rdma_owner_loans(path_of(base)->endpoints.owner), region, memory, bytes);
}

static void rdma_remove_region(gw_path *base, uint32_t region) {
    gw_rdma_loans_remove(gw_rdma_owner_loans(path_of(base)->endpoints.owner), region);
}

static const gw_word_domain *rdma_domain(gw_path *base) {
    return gw_rdma_owner_domain(path_of(base)->endpoints.owner);
}

/* Life. */

static void rdma_close(gw_path *base) {
    rdma_path *path = path_of(base);
    gw_rdma_endpoints_close(&path->endpoints);
    gw_rdma_owner_close(path->endpoints.owner);
    gw_rdma_memory_close(path->endpoints.memory);
    free(path);
}

static const gw_path_ops rdma_ops = {
    .kind = GW_PATH_RDMA,
    .card = rdma_card,
    .suits = rdma_suits,
    .open = rdma_open,
    .message = gw_rdma_endpoint_message,
    .channel = gw_rdma_endpoint_channel,
    .post = gw_rdma_endpoint_post,
    .abandon = gw_rdma_endpoint_abandon,
    .found = gw_rdma_endpoint_found,
    .close_endpoint = rdma_close_endpoint,
    .fence_begin = rdma_fence_begin,
    .fence_end = rdma_fence_end,
    .add_region = rdma_add_region,
    .remove_region = rdma_remove_region,
    .domain = rdma_domain,
    .close = rdma_close,
};

static bool open_parts(rdma_path *path, gw_err *err) {
    gw_rdma_device device;
    gw_rdma_endpoints *endpoints = &path->endpoints;
    endpoints->host = path->base.host;
    if (!gw_rdma_device_open(&device, &path->options, err)) return false;
    if (endpoints->packing_mbits == 0) endpoints->packing_mbits = gw_rdma_packing_mbits();
    endpoints->memory = gw_rdma_memory_open(&device, err);
    if (endpoints->memory == NULL) return false;
    endpoints->owner = gw_rdma_owner_open(endpoints->host, endpoints->memory, err);
    return endpoints->owner != NULL && gw_rdma_endpoints_open(endpoints, &path->port, err);
}

gw_path *gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err) {
    rdma_path *path = calloc(1, sizeof *path);
    if (path == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    path->base = (gw_path){&rdma_ops, host};
    path->options = *options;
    if (options->device != NULL) {
        snprintf(path->name, sizeof path->name, "%s", options->device);
        path->options.device = path->name;
    }
    if (open_parts(path, err)) return &path->base;
    rdma_close(&path->base);
    return NULL;
}
