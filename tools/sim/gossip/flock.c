#include "tools/sim/gossip/flock.h"

#include "core/base/assert.h"
#include "net/secure/packet.h"

#include <stdlib.h>
#include <string.h>

/* At one instant datagrams come before ticks, as in the node's loop. */
enum { ORDER_CONTROL = 0, ORDER_DATAGRAM = 1, ORDER_TICK = 2 };

enum { DATAGRAM_HEADERS = 28 /* the headers of IPv4 and UDP */ };

static const gw_hash cluster = {{'f', 'l', 'o', 'c', 'k'}};

static gw_peer_id id_of(uint32_t peer) {
    gw_peer_id id;
    gw_blake2b(&peer, sizeof peer, id.bytes, sizeof id.bytes);
    return id;
}

static uint32_t peer_of(const gw_flock *flock, const gw_gossip_member *member) {
    uint32_t peer = flock->count;
    bool known = member->addr_count > 0 && gw_sim_endpoint(&flock->network, &member->addr[0], &peer);
    return known ? peer : flock->count;
}

static void on_send(void *context, const gw_addr *to, const void *bytes, size_t length) {
    const gw_flock_peer *peer = context;
    gw_flock *flock = peer->flock;
    uint32_t endpoint, self = (uint32_t)(peer - flock->peers);
    flock->bytes_sent += length + GW_PACKET_OVERHEAD + DATAGRAM_HEADERS;
    if (gw_sim_endpoint(&flock->network, to, &endpoint))
        gw_sim_network_send(&flock->network, self, endpoint, bytes, length);
}

static void on_event(void *context, const gw_gossip_event *event) {
    const gw_flock_peer *hearer = context;
    gw_flock *flock = hearer->flock;
    if (event->kind == GW_GOSSIP_CLONED) flock->clones++;
    if (event->kind != GW_GOSSIP_DEAD && event->kind != GW_GOSSIP_SUSPECT) return;
    uint32_t about = peer_of(flock, event->member);
    if (about == flock->count) return;
    gw_flock_peer *peer = &flock->peers[about];
    bool runs = peer->gossip != NULL && !peer->polite && peer->stopped_until_ns != UINT64_MAX;
    if (runs && event->incarnation.boot == peer->boot) {
        *(event->kind == GW_GOSSIP_DEAD ? &flock->false_deaths : &flock->false_suspicions) += 1;
    } else if (event->kind == GW_GOSSIP_DEAD && !runs && event->incarnation.boot == peer->boot) {
        uint64_t now_ns = gw_sim_now(flock->engine);
        if (peer->known_dead_by++ == 0) peer->first_known_ns = now_ns;
        peer->last_known_ns = now_ns;
        if (!hearer->slow) peer->last_quick_ns = now_ns;
    }
}

static void tick(void *context, const gw_sim_event *event);

void gw_flock_replan(gw_flock *flock, uint32_t number) {
    gw_flock_peer *peer = &flock->peers[number];
    if (peer->gossip == NULL) return;
    uint64_t due_ns = gw_gossip_next_deadline(peer->gossip);
    if (due_ns < peer->stopped_until_ns && peer->stopped_until_ns > gw_sim_now(flock->engine))
        due_ns = peer->stopped_until_ns;
    if (due_ns == UINT64_MAX || due_ns >= peer->timer_ns) return;
    peer->timer_ns = due_ns;
    gw_sim_event event = {.run = tick, .context = flock, .a = number, .b = peer->boot, .order = ORDER_TICK};
    gw_sim_schedule(flock->engine, due_ns, &event);
}

static void tick(void *context, const gw_sim_event *event) {
    gw_flock *flock = context;
    gw_flock_peer *peer = &flock->peers[event->a];
    uint64_t now_ns = gw_sim_now(flock->engine);
    if (peer->gossip == NULL || peer->boot != event->b) return;
    if (peer->timer_ns <= now_ns) peer->timer_ns = UINT64_MAX;
    if (now_ns >= peer->stopped_until_ns) gw_gossip_tick(peer->gossip, now_ns);
    gw_flock_replan(flock, (uint32_t)event->a);
}

static void deliver(void *context, uint32_t from, uint32_t to, const uint8_t *bytes, size_t length);

/* Delivers a datagram that waited in the socket of a peer that stood still. */
static void redeliver(void *context, const gw_sim_event *event) {
    deliver(context, (uint32_t)event->a, (uint32_t)event->b, event->bytes, event->length);
}

static void deliver(void *context, uint32_t from, uint32_t to, const uint8_t *bytes, size_t length) {
    gw_flock *flock = context;
    gw_flock_peer *peer = &flock->peers[to];
    uint64_t now_ns = gw_sim_now(flock->engine);
    if (peer->gossip == NULL || peer->stopped_until_ns == UINT64_MAX) return;
    if (peer->stopped_until_ns > now_ns) {
        uint8_t copy[GW_GOSSIP_DATAGRAM];
        memcpy(copy, bytes, length);
        gw_sim_event event = {.run = redeliver,
                              .context = flock,
                              .a = from,
                              .b = to,
                              .bytes = copy,
                              .length = length,
                              .order = ORDER_DATAGRAM};
        gw_sim_schedule(flock->engine, peer->stopped_until_ns, &event);
        return;
    }
    gw_addr addr = gw_sim_addr(from);
    gw_gossip_datagram(peer->gossip, &addr, bytes, length, now_ns);
    gw_flock_replan(flock, to);
}

void gw_flock_open(gw_flock *flock, uint32_t peers, uint64_t seed) {
    *flock = (gw_flock){.count = peers,
                        .rng = gw_rng_seeded(seed),
                        .timing = gw_gossip_timing_default(),
                        .slow_least_ns = 20000000,
                        .slow_most_ns = 300000000};
    flock->engine = gw_sim_engine_create(1000000000);
    flock->peers = calloc(peers, sizeof *flock->peers);
    GW_ASSERT_MEMORY(flock->peers != NULL);
    for (uint32_t i = 0; i < peers; i++) flock->peers[i] = (gw_flock_peer){.flock = flock, .id = id_of(i)};
    gw_sim_network_open(&flock->network, flock->engine, peers, gw_rng_next(&flock->rng));
    flock->network.deliver = deliver;
    flock->network.context = flock;
}

static void stop(gw_flock_peer *peer) {
    gw_gossip_destroy(peer->gossip);
    peer->gossip = NULL;
}

void gw_flock_close(gw_flock *flock) {
    for (uint32_t i = 0; i < flock->count; i++) stop(&flock->peers[i]);
    gw_gossip_roster_destroy(flock->roster);
    gw_sim_garbler_close(flock->garbler);
    gw_sim_network_close(&flock->network);
    gw_sim_engine_destroy(flock->engine);
    free(flock->peers);
}

static void start_with(gw_flock *flock, uint32_t number, uint32_t seeds) {
    gw_flock_peer *peer = &flock->peers[number];
    GW_ASSERT(peer->gossip == NULL && seeds <= GW_GOSSIP_SEEDS);
    gw_addr seed[GW_GOSSIP_SEEDS];
    for (uint32_t i = 0; i < seeds; i++) seed[i] = gw_sim_addr(i);
    peer->boot++;
    peer->polite = false;
    peer->timer_ns = UINT64_MAX;
    peer->stopped_until_ns = 0;
    gw_gossip_config config = {
        .id = peer->id,
        .incarnation = {.boot = peer->boot, .nonce = gw_rng_next(&flock->rng)},
        .cluster = cluster,
        .addr = {gw_sim_addr(number)},
        .addr_count = 1,
        .seeds = seed,
        .seed_count = seeds,
        .timing = flock->timing,
        .rng_seed = gw_rng_next(&flock->rng),
        .sink = {peer, on_send, on_event},
    };
    gw_err err;
    GW_ASSERT(gw_gossip_create(&config, &peer->gossip, &err));
}

void gw_flock_start(gw_flock *flock, uint32_t number, uint32_t seeds) {
    start_with(flock, number, seeds);
    gw_gossip_start(flock->peers[number].gossip, gw_sim_now(flock->engine));
    gw_flock_replan(flock, number);
}

static void forget_crash(gw_flock *flock, gw_flock_peer *peer) {
    peer->crashed_ns = gw_sim_now(flock->engine);
    peer->known_dead_by = 0;
}

void gw_flock_crash(gw_flock *flock, uint32_t number) {
    gw_flock_peer *peer = &flock->peers[number];
    forget_crash(flock, peer);
    gw_gossip_destroy(peer->gossip);
    peer->gossip = NULL;
}

void gw_flock_freeze(gw_flock *flock, uint32_t number, uint64_t for_ns) {
    gw_flock_peer *peer = &flock->peers[number];
    forget_crash(flock, peer);
    peer->stopped_until_ns = for_ns == UINT64_MAX ? UINT64_MAX : gw_sim_now(flock->engine) + for_ns;
}

static uint64_t slow_time(gw_flock *flock) {
    return flock->slow_least_ns + gw_rng_below(&flock->rng, flock->slow_most_ns - flock->slow_least_ns + 1);
}

static void stumble(void *context, const gw_sim_event *event) {
    gw_flock *flock = context;
    gw_flock_peer *peer = &flock->peers[event->a];
    if (!peer->slow) return;
    uint64_t now_ns = gw_sim_now(flock->engine), stand_ns = slow_time(flock);
    if (peer->stopped_until_ns < now_ns + stand_ns) peer->stopped_until_ns = now_ns + stand_ns;
    gw_sim_schedule(flock->engine, now_ns + stand_ns + slow_time(flock), event);
}

void gw_flock_slow(gw_flock *flock, uint32_t number) {
    GW_ASSERT(!flock->peers[number].slow);
    flock->peers[number].slow = true;
    gw_sim_event event = {.run = stumble, .context = flock, .a = number, .order = ORDER_CONTROL};
    gw_sim_schedule(flock->engine, gw_sim_now(flock->engine) + slow_time(flock), &event);
}

void gw_flock_run(gw_flock *flock, uint64_t for_ns) {
    uint64_t until_ns = gw_sim_now(flock->engine) + for_ns;
    while (gw_sim_step(flock->engine, until_ns)) {
    }
}

uint32_t gw_flock_running(const gw_flock *flock) {
    uint32_t running = 0;
    for (uint32_t i = 0; i < flock->count; i++) {
        const gw_flock_peer *peer = &flock->peers[i];
        running += peer->gossip != NULL && !peer->polite && peer->stopped_until_ns != UINT64_MAX;
    }
    return running;
}

static bool runs(const gw_flock_peer *peer) {
    return peer->gossip != NULL && !peer->polite && peer->stopped_until_ns != UINT64_MAX;
}

static bool holds(const gw_flock_peer *one, const gw_flock_peer *other, gw_gossip_state state) {
    const gw_gossip_member *member = gw_gossip_find(one->gossip, &other->id);
    return member != NULL && member->state == state && member->incarnation.boot == other->boot;
}

uint64_t gw_flock_pairs(const gw_flock *flock, gw_gossip_state state) {
    uint64_t pairs = 0;
    for (uint32_t a = 0; a < flock->count; a++)
        for (uint32_t b = 0; runs(&flock->peers[a]) && b < flock->count; b++)
            pairs += a != b && runs(&flock->peers[b]) && holds(&flock->peers[a], &flock->peers[b], state);
    return pairs;
}

bool gw_flock_is_whole(const gw_flock *flock) {
    for (uint32_t a = 0; a < flock->count; a++) {
        for (uint32_t b = 0; runs(&flock->peers[a]) && b < flock->count; b++) {
            if (a == b || !runs(&flock->peers[b])) continue;
            if (!holds(&flock->peers[a], &flock->peers[b], GW_GOSSIP_IS_ALIVE)) return false;
        }
    }
    return true;
}

void gw_flock_start_together(gw_flock *flock) {
    gw_err err;
    GW_ASSERT(flock->roster == NULL);
    gw_gossip_member *members = calloc(flock->count, sizeof *members);
    GW_ASSERT_MEMORY(members != NULL);
    for (uint32_t i = 0; i < flock->count; i++) {
        start_with(flock, i, 0);
        members[i] = *gw_gossip_self(flock->peers[i].gossip);
        members[i].name = NULL; /* that of the peer's own memory; the others have not heard it */
    }
    GW_ASSERT(gw_gossip_roster_create(members, flock->count, &flock->roster, &err));
    free(members);
    for (uint32_t i = 0; i < flock->count; i++) {
        GW_ASSERT(gw_gossip_enroll(flock->peers[i].gossip, flock->roster, &err));
        gw_gossip_start(flock->peers[i].gossip, gw_sim_now(flock->engine));
        gw_flock_replan(flock, i);
    }
}
