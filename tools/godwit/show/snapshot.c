#include "tools/godwit/show/snapshot.h"

#include "core/base/assert.h"
#include "core/os/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An age of the newest snapshot at which the loop counts as stuck: it publishes several times a second. */
#define STUCK_NS UINT64_C(5000000000)

static const gw_counter_info infos[GW_COUNTERS] = {
    [GW_COUNT_STEPS] = {"steps", "Steps applied by this peer.", 0},
    [GW_COUNT_SHARDS] = {"shards", "Shards computed by this peer.", 0},
    [GW_COUNT_SHARDS_STOLEN] = {"shards_stolen", "Shards this peer took from others.", 0},
    [GW_COUNT_SHARDS_LOST] = {"shards_lost", "Shards others took from this peer.", 0},
    [GW_COUNT_STEALS] = {"steals", "Successful steals.", 0},
    [GW_COUNT_STEALS_FAILED] = {"steals_failed", "Attempts to steal that failed.", 0},
    [GW_COUNT_STEPS_REPAIRED] = {"steps_repaired", "Steps in which shards were dealt again.", 0},
    [GW_COUNT_SHARDS_REPAIRED] = {"shards_repaired", "Shards dealt again after a failure.", 0},
    [GW_COUNT_VIEWS] = {"views", "Views installed.", 0},
    [GW_COUNT_CHECKPOINTS] = {"checkpoints", "Checkpoints that became complete.", 0},
    [GW_COUNT_CHECKPOINT_BYTES] = {"checkpoint_bytes", "Bytes of chunks written to this peer's disk.", 0},
    [GW_COUNT_BAD_ELEMENTS] = {"bad_elements", "Elements that were not finite or out of range.", 0},
    [GW_COUNT_SHARDS_VERIFIED] = {"shards_verified",
                                  "Shards of other peers that this peer computed again and found correct.",
                                  0},
    [GW_COUNT_CORRUPTIONS] = {"corruptions",
                              "Times that a peer was found to have computed, held or sent wrong bits.", 0},
    [GW_COUNT_LINKS_CORRUPT] = {"links_corrupt",
                                "Links that ended because the received bytes were not those that were sent.",
                                0},
    [GW_COUNT_REDUCE_NS] = {"reduce_seconds", "Time in reductions, including the wait for other members.",
                            1e-9},
    [GW_COUNT_REDUCE_SENT] = {"reduce_sent_bytes", "Bytes of sums sent to other members.", 0},
    [GW_COUNT_REDUCE_RECEIVED] = {"reduce_received_bytes", "Bytes of sums received from other members.", 0},
    [GW_COUNT_REDUCE_SAVED] = {"reduce_saved_bytes",
                               "Bytes of sums that were not sent because sums were packed.", 0},
    [GW_COUNT_CONTROL_SENT] = {"control_sent_bytes", "Bytes of gossip packets and control messages sent.", 0},
    [GW_COUNT_CONTROL_RECEIVED] = {"control_received_bytes",
                                   "Bytes of gossip packets and control messages received.", 0},
    [GW_COUNT_FETCHED] = {"fetched_bytes", "Bytes of states and checkpoints fetched from other peers.", 0},
    [GW_COUNT_SERVED] = {"served_bytes", "Bytes of states and checkpoints given to other peers.", 0},
    [GW_COUNT_PULLED] =
        {"pulled_bytes",
         "Bytes of states, checkpoints and shard payload that an RDMA device read from other peers' memory.",
         0},
    [GW_COUNT_OPERATIONS_DIRECT] =
        {"operations_direct", "One-sided operations on other peers' memory that ran none of their code.", 0},
    [GW_COUNT_OPERATIONS_SERVED] = {"operations_served",
                                    "One-sided operations of other peers that this peer's threads served.",
                                    0},
    [GW_COUNT_PROBES] = {"probes", "Peers probed by gossip.", 0},
    [GW_COUNT_PROBES_FAILED] = {"probes_failed", "Probes that were not answered in time.", 0},
    [GW_COUNT_SUSPICIONS] = {"suspicions", "Peers suspected to be dead.", 0},
    [GW_COUNT_REFUTATIONS] = {"refutations", "Suspicions of this peer that it refuted.", 0},
    [GW_COUNT_PAUSES] = {"pauses", "Times that this process was stopped or starved for long.", 0},
    [GW_COUNT_WARNINGS] = {"warnings", "Log lines of level warn and error.", 0},
    [GW_COUNT_PAYLOAD_LOCAL_BYTES] = {"payload_local_bytes",
                                      "Bytes of shard payload that shards found in this peer's memory.", 0},
    [GW_COUNT_PAYLOAD_READ_BYTES] = {"payload_read_bytes", "Bytes of shard payload read from other peers.",
                                     0},
    [GW_COUNT_PAYLOAD_READS_FAILED] = {"payload_reads_failed",
                                       "Blocks of shard payload that another peer failed to give.", 0},
    [GW_COUNT_PAYLOAD_WRITTEN] = {"payload_blocks_written", "Blocks of shard payload written by the job.", 0},
    [GW_COUNT_PAYLOAD_WAITED_NS] = {"payload_waited_seconds", "Time that workers waited for payload.", 1e-9},
    [GW_COUNT_NCCL_SUMS_CUT] = {"nccl_sums_cut",
                                "Sums by NCCL that the end of a member or a failure has interrupted.", 0},
    [GW_COUNT_NCCL_FORMING_CUT] =
        {"nccl_forming_cut",
         "Communicators of NCCL whose forming the end of a member or a failure has interrupted.", 0},
};

const gw_counter_info *gw_counter_of(gw_counter counter) {
    GW_ASSERT((unsigned)counter < GW_COUNTERS && infos[counter].name != NULL);
    return &infos[counter];
}

const char *gw_packet_drop_name(gw_packet_verdict verdict) {
    static const char *const names[GW_PACKET_VERDICTS] = {
        [GW_PACKET_GARBAGE] = "garbage",   [GW_PACKET_VERSIONED] = "version",
        [GW_PACKET_FOREIGN] = "foreign",   [GW_PACKET_UNSEALED] = "not_sealed",
        [GW_PACKET_SEALED] = "sealed",     [GW_PACKET_WRONG_KEY] = "wrong_key",
        [GW_PACKET_REPLAYED] = "replayed", [GW_PACKET_OUTDATED] = "outdated",
        [GW_PACKET_OWN] = "own",
    };
    return names[verdict];
}

static int interest_in(const gw_snapshot_peer *peer) {
    bool lives = strcmp(peer->state, "alive") == 0 || strcmp(peer->state, "suspect") == 0;
    return peer->self ? 3 : peer->member ? 2 : lives;
}

void gw_snapshot_add(gw_node_snapshot *snapshot, const gw_snapshot_peer *peer) {
    if (snapshot->peer_count < GW_SNAPSHOT_PEERS) {
        snapshot->peers[snapshot->peer_count++] = *peer;
        return;
    }
    gw_snapshot_peer *least = &snapshot->peers[0];
    for (uint32_t i = 1; i < snapshot->peer_count; i++)
        if (interest_in(&snapshot->peers[i]) < interest_in(least)) least = &snapshot->peers[i];
    if (interest_in(least) < interest_in(peer)) *least = *peer;
}

struct gw_board {
    pthread_mutex_t lock;
    bool published;
    uint64_t published_ns;
    gw_node_snapshot snapshot;
};

gw_board *gw_board_open(gw_err *err) {
    gw_board *board = calloc(1, sizeof *board);
    if (board == NULL) {
        gw_fail(err, GW_E_NOMEM, "snapshot: out of memory");
        return NULL;
    }
    GW_ASSERT(pthread_mutex_init(&board->lock, NULL) == 0);
    return board;
}

void gw_board_close(gw_board *board) {
    if (board == NULL) return;
    pthread_mutex_destroy(&board->lock);
    free(board);
}

void gw_board_publish(gw_board *board, const gw_node_snapshot *snapshot) {
    GW_ASSERT(snapshot->peer_count <= GW_SNAPSHOT_PEERS);
    GW_ASSERT(snapshot->checkpoint_count <= GW_SNAPSHOT_CHECKPOINTS);
    pthread_mutex_lock(&board->lock);
    board->snapshot = *snapshot;
    board->published = true;
    board->published_ns = gw_now_ns();
    pthread_mutex_unlock(&board->lock);
}

/* Marks an old snapshot as that of a stuck loop, unless it is the last one of a peer that has ended. */
static void mark_stuck(gw_node_snapshot *snapshot, uint64_t for_ns) {
    if (snapshot->ended || for_ns < STUCK_NS) return;
    snapshot->healthy = false;
    snprintf(snapshot->phase, sizeof snapshot->phase,
             "the event loop has not turned for %" PRIu64 " s: it is stuck, or this process was stopped",
             for_ns / 1000000000);
}

bool gw_board_copy(gw_board *board, gw_node_snapshot *snapshot) {
    pthread_mutex_lock(&board->lock);
    *snapshot = board->snapshot;
    bool published = board->published;
    uint64_t age_ns = published ? gw_now_ns() - board->published_ns : 0;
    pthread_mutex_unlock(&board->lock);
    mark_stuck(snapshot, age_ns);
    return published;
}

double gw_snapshot_token_joules(const gw_node_snapshot *s) {
    if (!(s->step_ms > 0) || !(s->shards_a_step > 0)) return 0;
    double tokens_a_step = s->tokens_per_s * s->step_ms * 1e-3;
    return tokens_a_step > 0 ? s->energy.shard_joules * s->shards_a_step / tokens_a_step : 0;
}

bool gw_snapshot_energy_left(const gw_node_snapshot *s, double *joules) {
    *joules = s->steps > s->step ? (double)(s->steps - s->step) * s->energy.step_joules : 0;
    return s->steps > 0 && !s->no_state && s->energy.step_joules > 0;
}

uint64_t gw_rss_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) return 0;
    unsigned long long total, resident;
    int fields = fscanf(file, "%llu %llu", &total, &resident);
    fclose(file);
    return fields == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}
