#include "tools/godwit/node/clients.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)GW_SERVICE_NAME_TEXT >= (int)GW_NAME_TEXT, "a name fits");

enum { MOST_CHUNKS = 1 << 20 /* of a state whose peers are asked what they have: 4 TiB */ };

static uint32_t list_peers(void *context, gw_service_holder *peers, uint32_t most) {
    const gw_node_clients *clients = context;
    gw_node_snapshot *snapshot = malloc(sizeof *snapshot);
    uint32_t count = 0;
    if (snapshot == NULL) return 0;
    gw_board_copy(clients->board, snapshot);
    for (uint32_t i = 0; i < snapshot->peer_count && count < most; i++) {
        const gw_snapshot_peer *peer = &snapshot->peers[i];
        bool lives = strcmp(peer->state, "alive") == 0 || strcmp(peer->state, "suspect") == 0;
        if (peer->self) continue;
        gw_service_holder *holder = &peers[count++];
        *holder = (gw_service_holder){
            .id = peer->id, .addr = peer->addr, .knowledge = lives ? GW_HOLDER_UNKNOWN : GW_HOLDER_SILENT};
        snprintf(holder->name, sizeof holder->name, "%s", peer->name);
    }
    free(snapshot);
    return count;
}

static bool fetch(void *context, const gw_peer_id *peer, const gw_hash *name, void *bytes, uint32_t length,
                  gw_err *err) {
    const gw_node_clients *clients = context;
    uint64_t got;
    if (!gw_name_is_chunk(name)) return gw_fail(err, GW_E_NOTFOUND, "this is not the name of a chunk");
    if (!gw_fetch_aside(clients->fetcher, peer, name, bytes, length, &got, err)) return false;
    return got == length ||
           gw_fail(err, GW_E_NOTFOUND, "the peer has a chunk of this name of another length");
}

static bool fetch_held(void *context, const gw_peer_id *peer, const gw_checkpoint_key *checkpoint,
                       gw_set *chunks, gw_err *err) {
    const gw_node_clients *clients = context;
    const gw_hash name = gw_held_name(checkpoint->step, &checkpoint->root);
    const size_t room = GW_HELD_BYTES(MOST_CHUNKS);
    uint64_t length;
    if (!gw_hash_equal(&checkpoint->job_id, &clients->job_id))
        return gw_fail(err, GW_E_NOTFOUND, "the peers run another job");
    void *bytes = malloc(room);
    if (bytes == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool good = gw_fetch_aside(clients->fetcher, peer, &name, bytes, room, &length, err) &&
                gw_held_decode(bytes, length, chunks, err);
    free(bytes);
    return good;
}

/* Lists the shards that run, and the reduction. */
static uint32_t list_open_spans(void *context, gw_trace_unended *list, uint32_t most) {
    const gw_node_clients *clients = context;
    uint32_t count = 0;
    gw_running *running = malloc(most * sizeof *running);
    if (running == NULL) return 0;
    uint32_t shards = gw_workers_running(clients->workers, running, most - 1);
    for (uint32_t i = 0; i < shards; i++) {
        gw_trace_unended *one = &list[count++];
        gw_trace_kind kind = running[i].loads ? GW_TRACE_PAYLOAD : GW_TRACE_SHARD;
        *one = (gw_trace_unended){.record = {.begin_ns = running[i].started_ns,
                                             .a = running[i].shard,
                                             .b = running[i].step,
                                             .c = GW_TRACE_SHARD_RUNS,
                                             .kind = (uint16_t)kind}};
        snprintf(one->thread, sizeof one->thread, "gw-worker-%u", running[i].worker);
    }
    free(running);
    uint64_t since_ns = atomic_load_explicit(&clients->reduction->traced_ns, memory_order_relaxed);
    if (since_ns == 0) return count;
    list[count++] = (gw_trace_unended){
        .thread = "gw-compute",
        .record = {.begin_ns = since_ns,
                   .b = atomic_load_explicit(&clients->reduction->traced_step, memory_order_relaxed),
                   .kind = GW_TRACE_REDUCE}};
    return count;
}

gw_service_world gw_node_clients_world(gw_node_clients *clients) {
    return (gw_service_world){.context = clients,
                              .name = clients->name,
                              .peers = list_peers,
                              .fetch = fetch,
                              .held = fetch_held,
                              .workers = clients->worker_count,
                              .open_spans = list_open_spans};
}
