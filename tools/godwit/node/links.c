/* The control plane's sockets: gossip datagrams, the listening socket, control links. Everything that comes
 * in becomes an event. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/gossip/gossip.h"
#include "core/os/clock.h"
#include "net/loop/address.h"
#include "tools/godwit/node/inside.h"

#include <string.h>
#include <unistd.h>

static void received(void *context, const gw_addr *from, uint8_t *bytes, size_t count) {
    gw_node *node = context;
    gw_peer_id sender;
    const uint8_t *body;
    size_t length;
    node->shown.counter[GW_COUNT_CONTROL_RECEIVED] += count;
    if (gw_packet_open(node->packets, from, bytes, count, gw_now_ns(), &sender, &body, &length) !=
        GW_PACKET_GOOD)
        return;
    gw_node_feed(node, &(gw_event){.kind = GW_EV_DATAGRAM,
                                   .peer = sender,
                                   .datagram.from = *from,
                                   .datagram.bytes = body,
                                   .datagram.length = length});
}

static void link_up(void *context, const gw_peer_id *peer, const gw_remote *remote) {
    gw_node *node = context;
    gw_wires_follow(node->wires, remote);
    if (node->gpus) gw_gpus_linked(node->gpus, peer);
    gw_node_feed(node,
                 &(gw_event){.kind = GW_EV_LINK_UP, .peer = *peer, .link.incarnation = remote->incarnation});
    gw_wires_tell(node->wires, peer);
}

static void data_link(void *context, const gw_peer_id *peer, bool stands, const char *why, bool own_fault) {
    gw_node_feed(context, &(gw_event){.kind = stands ? GW_EV_DATA_UP : GW_EV_DATA_DOWN,
                                      .peer = *peer,
                                      .text = why,
                                      .data_down.own_fault = own_fault});
}

static void link_down(void *context, const gw_peer_id *peer, gw_closed why, gw_fault fault,
                      const char *text) {
    gw_node *node = context;
    (void)fault;
    char name[GW_SHORT_TEXT];
    gw_log(GW_DEBUG, "node", "link to %s: %s", gw_peer_id_short(peer, name), text);
    if (why == GW_CLOSED_CORRUPT) gw_wires_tell_corrupt(node->wires, "control link", peer, text);
    gw_wires_unfollow(node->wires, peer);
    gw_event event = {.kind = GW_EV_LINK_DOWN,
                      .peer = *peer,
                      .link.end = why == GW_CLOSED_REFUSED ? GW_LINK_REFUSED : GW_LINK_CLOSED,
                      .text = text};
    gw_wires_life(node->wires, peer, &event.link.incarnation);
    gw_node_feed(node, &event);
}

static void link_message(void *context, const gw_peer_id *peer, const uint8_t *bytes, size_t count) {
    gw_node *node = context;
    node->shown.counter[GW_COUNT_CONTROL_RECEIVED] += count;
    if (count > 0 && bytes[0] == GW_GPU_TEAM_MARK) { /* between worlds; brains know nothing of it */
        if (node->gpus) gw_gpus_hear(node->gpus, peer, bytes, count);
        return;
    }
    gw_node_feed(
        node,
        &(gw_event){.kind = GW_EV_MESSAGE, .peer = *peer, .message.bytes = bytes, .message.length = count});
}

static void accepted(void *context, gw_stream *stream, const gw_remote *remote) {
    gw_node *node = context;
    if (remote->kind == GW_STREAM_DATA)
        gw_wires_adopt(node->wires, stream);
    else
        gw_links_adopt(node->links, stream);
}

static bool bind_endpoint(gw_node *node, gw_err *err) {
    gw_addr wanted[GW_RESOLVE_ADDRS];
    size_t count;
    if (!gw_address_resolve(node->options->listen, wanted, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--listen %s", node->options->listen);
    if (!gw_net_require_loopback(&wanted[0], node->keyring.count > 0, err)) return false;
    return gw_endpoint_bind(&wanted[0], &node->tcp_fd, &node->udp_fd, &node->listen, err);
}

/* Where others are told to reach this peer. */
static bool advertised(gw_node *node, gw_addr *addr, gw_err *err) {
    *addr = node->listen;
    if (!node->options->advertise) return true;
    gw_addr found[GW_RESOLVE_ADDRS];
    size_t count;
    if (!gw_address_resolve(node->options->advertise, found, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--advertise %s", node->options->advertise);
    *addr = found[0];
    return true;
}

bool gw_node_bind(gw_node *node, gw_err *err) {
    return bind_endpoint(node, err) && advertised(node, &node->local.listen, err);
}

/* A peer that does not run is gossip's to expel, and no link of it may end sooner: as core/brain/peer.c
 * widens the times of gossip, so here. Heartbeats come as often as ever: it is never less. */
static uint64_t silence_ns(const gw_run_options *options) {
    uint64_t percent = options->time_scale_percent, usual_ns = gw_gossip_timing_default().period_ns;
    if (options->probe_interval_ns != 0) percent = percent * options->probe_interval_ns / usual_ns;
    return percent > 100 ? GW_SILENCE_NS * percent / 100 : GW_SILENCE_NS;
}

bool gw_node_listen(gw_node *node, gw_err *err) {
    node->packets = gw_packets_open(&node->self, &node->keyring, &node->local.cluster, err);
    if (!node->packets) return false;
    node->udp = gw_udp_open(node->loop, node->udp_fd, received, node, err);
    node->udp_fd = -1;
    if (!node->udp) return false;
    gw_link_events link_events = {.context = node, .up = link_up, .down = link_down, .message = link_message};
    node->links = gw_links_open(node->loop, &node->local, &link_events, err);
    if (!node->links) return false;
    gw_links_set_silence(node->links, silence_ns(node->options));
    gw_fetch_provider provider = gw_server_provider(&node->server);
    gw_wires_options how = {.kinds = node->options->transports,
                            .rdma = node->options->rdma,
                            .time_scale_percent = node->options->time_scale_percent,
                            .silence_ns = silence_ns(node->options),
                            .told = data_link,
                            .told_context = node};
    node->wires = gw_wires_open(node->loop, &node->local, &how, &provider, gw_reduction_call_done,
                                &node->reduction, err);
    if (!node->wires || !gw_transport_share_words(gw_wires_transport(node->wires), GW_REGION_RANGE, 1, err))
        return false;
    node->fetcher.wires = node->reduction.wires = node->wires;
    if (node->payloads && !gw_transport_share_words(gw_wires_transport(node->wires), GW_REGION_PAYLOAD_INDEX,
                                                    node->plan.payload.shards, err))
        return false;
    gw_workers_share(node->workers, gw_wires_transport(node->wires), GW_REGION_RANGE);
    gw_listener_events listener_events = {.context = node, .accepted = accepted};
    node->listener = gw_listener_open(node->loop, &node->local, node->tcp_fd, &listener_events, err);
    node->tcp_fd = -1;
    if (!node->listener) return false;
    gw_events_listening(node->console->events, "gossip", &node->listen);
    return true;
}

void gw_node_unlisten(gw_node *node) {
    gw_listener_close(node->listener);
    gw_wires_stop(node->wires);
    gw_links_close(node->links);
    gw_udp_close(node->udp);
    if (node->tcp_fd >= 0) close(node->tcp_fd);
    if (node->udp_fd >= 0) close(node->udp_fd);
}
