#include "tools/godwit/node/network.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/gossip/gossip.h"
#include "core/os/clock.h"
#include "kernels/host/cores.h"
#include "net/fabric/fabric.h"
#include "net/loop/address.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert((int)GW_WAY_TCP == (int)GW_FABRIC_TCP && (int)GW_WAY_SHM == (int)GW_FABRIC_SHM &&
                   (int)GW_WAY_RDMA == (int)GW_FABRIC_RDMA,
               "the brain's ways are the fabric's kinds");

#define PAYLOAD_PATIENCE_NS UINT64_C(5000000000)

enum { AUTO_RAILS = 4 /* the most of a link with --lanes auto */ };

/* What arrives. */

static void received(void *context, const gw_addr *from, uint8_t *bytes, size_t count) {
    gw_network *network = context;
    gw_peer_id sender;
    const uint8_t *body;
    size_t length;
    network->received_bytes += count;
    if (gw_packet_open(network->packets, from, bytes, count, gw_now_ns(), &sender, &body, &length) !=
        GW_PACKET_GOOD)
        return;
    gw_node_feed(network->node, &(gw_event){.kind = GW_EV_DATAGRAM,
                                            .peer = sender,
                                            .datagram.from = *from,
                                            .datagram.bytes = body,
                                            .datagram.length = length});
}

static void link_up(void *context, const gw_peer_id *peer, const gw_remote *remote) {
    gw_network *network = context;
    gw_data_links_follow(network->data_links, remote);
    if (network->gpus) gw_gpus_linked(network->gpus, peer);
    gw_node_feed(network->node,
                 &(gw_event){.kind = GW_EV_LINK_UP, .peer = *peer, .link.incarnation = remote->incarnation});
    gw_data_links_report(network->data_links, peer);
}

static void data_link_changed(void *context, const gw_peer_id *peer, const gw_data_link_state *state) {
    const gw_network *network = context;
    gw_event event = {.kind = state->stands ? GW_EV_DATA_UP : GW_EV_DATA_DOWN,
                      .peer = *peer,
                      .text = state->why,
                      .data_down.own_fault = state->own_fault};
    gw_node_note_data_link(network->node, peer, state);
    gw_node_feed(network->node, &event);
}

static void link_down(void *context, const gw_peer_id *peer, gw_closed why, gw_fault fault,
                      const char *text) {
    gw_network *network = context;
    (void)fault;
    char name[GW_SHORT_TEXT];
    gw_log(GW_DEBUG, "node/network", "link to %s: %s", gw_peer_id_short(peer, name), text);
    if (why == GW_CLOSED_CORRUPT)
        gw_data_links_report_corrupt(network->data_links, "control link", peer, text);
    if (why == GW_CLOSED_TIMEOUT) gw_node_note_unheard(network->node, peer);
    gw_data_links_unfollow(network->data_links, peer);
    gw_event event = {.kind = GW_EV_LINK_DOWN,
                      .peer = *peer,
                      .link.end = why == GW_CLOSED_REFUSED ? GW_LINK_REFUSED : GW_LINK_CLOSED,
                      .text = text};
    gw_data_links_life(network->data_links, peer, &event.link.incarnation);
    gw_node_feed(network->node, &event);
}

static void link_message(void *context, const gw_peer_id *peer, const uint8_t *bytes, size_t count) {
    gw_network *network = context;
    network->received_bytes += count;
    if (count > 0 &&
        bytes[0] == GW_GPU_TEAM_MARK) { /* for the sums of GPUs, of which the brain knows nothing */
        if (network->gpus) gw_gpus_hear(network->gpus, peer, bytes, count);
        return;
    }
    gw_node_feed(
        network->node,
        &(gw_event){.kind = GW_EV_MESSAGE, .peer = *peer, .message.bytes = bytes, .message.length = count});
}

static void accepted(void *context, gw_stream *stream, const gw_remote *remote) {
    gw_network *network = context;
    if (remote->kind == GW_STREAM_DATA)
        gw_data_links_adopt(network->data_links, stream);
    else if (remote->kind == GW_STREAM_CLIENT)
        gw_service_take(network->service, stream);
    else
        gw_links_adopt(network->links, stream);
}

/* What is sent. */

void gw_network_send_datagram(gw_network *network, const gw_action *action) {
    if (action->datagram.length > GW_PACKET_BODY) {
        gw_log(GW_WARN, "node/network", "gossip of %zu bytes is too long for a packet",
               action->datagram.length);
        return;
    }
    uint8_t datagram[GW_DATAGRAM_BYTES];
    size_t length =
        gw_packet_seal(network->packets, action->datagram.bytes, action->datagram.length, datagram);
    network->sent_bytes += length;
    gw_udp_send(network->udp, &action->datagram.to, datagram, length);
}

void gw_network_want_link(gw_network *network, const gw_action *action) {
    gw_err err;
    if (!action->link.wanted) {
        gw_links_unwant(network->links, &action->peer);
        gw_data_links_drop(network->data_links, &action->peer);
        return;
    }
    if (!gw_links_want(network->links, &action->peer, action->link.addrs, action->link.addr_count, &err))
        gw_log(GW_WARN, "node/network", "link: %s", err.text);
}

void gw_network_send_message(gw_network *network, const gw_peer_id *to, const uint8_t *bytes, size_t length) {
    gw_err err;
    if (gw_links_send(network->links, to, bytes, length, &err))
        network->sent_bytes += length;
    else if (err.code != GW_E_NOTFOUND)
        gw_log(GW_WARN, "node/network", "message: %s", err.text);
}

/* What the payload of shards needs. */

static void post_read(void *context, gw_op *request, gw_data_op *op) {
    gw_data_links_post(((gw_network *)context)->data_links, request, op);
}

static void abandon_peer(void *context, const gw_peer_id *peer) {
    gw_data_links_abandon(((gw_network *)context)->data_links, peer);
}

static bool share_slots(void *context, const void *slots, uint64_t bytes, gw_err *err) {
    gw_transport *transport = gw_data_links_transport(((gw_network *)context)->data_links);
    return gw_transport_register(transport, GW_REGION_PAYLOAD, slots, bytes, err);
}

static void unshare_slots(void *context) {
    gw_transport_withdraw(gw_data_links_transport(((gw_network *)context)->data_links), GW_REGION_PAYLOAD);
}

static void publish_block(void *context, uint32_t shard, uint64_t entry) {
    gw_transport *transport = gw_data_links_transport(((gw_network *)context)->data_links);
    gw_transport_word_store(transport, GW_REGION_PAYLOAD_INDEX, shard, entry);
}

gw_payload_world gw_network_payload_world(gw_network *network) {
    return (gw_payload_world){
        .way = {.context = network,
                .post = post_read,
                .abandon = abandon_peer,
                .patience_ns = PAYLOAD_PATIENCE_NS * network->options->time_scale_percent / 100},
        .share = share_slots,
        .unshare = unshare_slots,
        .publish = publish_block};
}

/* Opening and closing. */

/* Has a peer that listens on all addresses listen on those of IPv4 where the kernel has no IPv6. */
static void avoid_absent_ipv6(gw_addr *listen) {
    if (listen->family != 6 || !gw_address_is_any(listen)) return;
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    else if (errno == EAFNOSUPPORT)
        *listen = (gw_addr){.family = 4, .port = listen->port};
}

bool gw_network_bind(gw_network *network, uint16_t free_port, gw_err *err) {
    const gw_run_options *options = network->options;
    gw_addr found[GW_RESOLVE_ADDRS];
    size_t count;
    if (!gw_address_resolve(options->listen, found, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--listen %s", options->listen);
    avoid_absent_ipv6(&found[0]);
    if (found[0].port == 0) found[0].port = free_port;
    if (!gw_net_require_loopback(&found[0], network->local.keyring->count > 0, err)) return false;
    if (!gw_endpoint_bind(&found[0], &network->tcp_fd, &network->udp_fd, &network->listen, err)) return false;
    network->local.listen = network->listen;
    if (!options->advertise) return true;
    if (!gw_address_resolve(options->advertise, found, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--advertise %s", options->advertise);
    network->local.listen = found[0];
    return true;
}

/* How long a link may be silent before it ends. A peer that does not run is expelled by gossip, and no
 * link to it may end sooner: therefore this time grows as core/brain/peer/peer.c widens the times of
 * gossip. Heartbeats come as often as ever, so it never shrinks. */
static uint64_t silence_ns(const gw_run_options *options) {
    uint64_t percent = options->time_scale_percent, usual_ns = gw_gossip_timing_default().period_ns;
    if (options->probe_interval_ns != 0) percent = percent * options->probe_interval_ns / usual_ns;
    return percent > 100 ? GW_SILENCE_NS * percent / 100 : GW_SILENCE_NS;
}

/* How many rails a link may have beside the first one with --lanes auto. Half of the cores are left to what the system
 * does for the network, and to other processes. */
static uint32_t count_extra_rails(void) {
    uint32_t rails = gw_cores() / 2;
    return rails < 1 ? 0 : rails < AUTO_RAILS ? rails - 1 : AUTO_RAILS - 1;
}

bool gw_network_open(gw_network *network, gw_server *server, gw_reduction *reduction, gw_err *err) {
    const gw_local *local = &network->local;
    uint32_t lanes = network->options->lanes;
    network->packets = gw_packets_open(local->identity, local->keyring, &local->cluster, err);
    if (!network->packets) return false;
    network->udp = gw_udp_open(network->loop, network->udp_fd, received, network, err);
    network->udp_fd = -1;
    if (!network->udp) return false;
    gw_link_events events = {.context = network, .up = link_up, .down = link_down, .message = link_message};
    network->links = gw_links_open(network->loop, local, &events, err);
    if (!network->links) return false;
    gw_links_set_silence(network->links, silence_ns(network->options));
    gw_fetch_provider provider = gw_server_provider(server);
    gw_data_links_options how = {.kinds = network->options->transports,
                                 .rails = lanes > 0 ? lanes : 1,
                                 .extra_rails = lanes > 0 ? 0 : count_extra_rails(),
                                 .rdma = network->options->rdma,
                                 .time_scale_percent = network->options->time_scale_percent,
                                 .silence_ns = silence_ns(network->options),
                                 .on_change = data_link_changed,
                                 .changed_context = network};
    network->data_links =
        gw_data_links_open(network->loop, local, &how, &provider, gw_reduction_call_done, reduction, err);
    return network->data_links != NULL;
}

bool gw_network_listen(gw_network *network, gw_err *err) {
    gw_listener_events events = {.context = network, .accepted = accepted};
    network->listener = gw_listener_open(network->loop, &network->local, network->tcp_fd, &events, err);
    network->tcp_fd = -1;
    return network->listener != NULL;
}

void gw_network_close(gw_network *network) {
    gw_listener_close(network->listener);
    gw_data_links_stop(network->data_links);
    gw_links_close(network->links);
    gw_udp_close(network->udp);
    if (network->tcp_fd >= 0) close(network->tcp_fd);
    if (network->udp_fd >= 0) close(network->udp_fd);
}
