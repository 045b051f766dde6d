#include "tools/sim/measure.h"

#include "core/check.h"
#include "tools/sim/flock.h"

#include <inttypes.h>
#include <stdio.h>

#define SECOND UINT64_C(1000000000)

static void measure_crash(gw_flock *flock, uint32_t victim, gw_gossip_figures *figures) {
    const gw_flock_peer *peer = &flock->peers[victim];
    uint32_t others = gw_flock_running(flock) - 1;
    gw_flock_crash(flock, victim);
    uint64_t crashed_ns = gw_sim_now(flock->engine), most_ns = crashed_ns + 10 * SECOND;
    while (peer->known_dead_by < others && gw_sim_now(flock->engine) < most_ns)
        gw_flock_run(flock, SECOND / 10);
    if (peer->known_dead_by < others) {
        figures->unnoticed++;
        return;
    }
    double all_s = (double)(peer->last_known_ns - crashed_ns) * 1e-9;
    double quick_s = (double)(peer->last_quick_ns - crashed_ns) * 1e-9;
    figures->first_s += (double)(peer->first_known_ns - crashed_ns) * 1e-9;
    figures->all_mean_s += all_s;
    figures->quick_mean_s += quick_s;
    if (all_s > figures->all_worst_s) figures->all_worst_s = all_s;
    if (quick_s > figures->quick_worst_s) figures->quick_worst_s = quick_s;
    gw_flock_run(flock, 2 * SECOND);
}

/* A peer that runs and has not been chosen to be slow. */
static uint32_t draw(gw_flock *flock) {
    for (;;) {
        uint32_t peer = (uint32_t)gw_rng_below(&flock->rng, flock->count);
        if (flock->peers[peer].gossip != NULL && !flock->peers[peer].slow) return peer;
    }
}

void gw_gossip_measure(uint32_t peers, uint32_t slow, uint32_t crashes, uint64_t seed,
                       gw_gossip_figures *figures) {
    GW_CHECK(peers >= 3 && crashes < peers - 1 && slow + crashes < peers);
    *figures = (gw_gossip_figures){.peers = peers, .slow = slow, .crashes = crashes};
    gw_flock flock;
    gw_flock_open(&flock, peers, seed);
    flock.slow_least_ns = SECOND / 10;
    flock.slow_most_ns = SECOND;
    gw_flock_start_together(&flock);
    for (uint32_t i = 0; i < slow; i++) gw_flock_slow(&flock, draw(&flock));
    gw_flock_run(&flock, 10 * SECOND);
    uint64_t bytes = flock.bytes_sent, datagrams = flock.network.sent;
    gw_flock_run(&flock, 10 * SECOND);
    figures->bytes_per_s = (double)(flock.bytes_sent - bytes) / 10 / peers;
    figures->datagrams_per_s = (double)(flock.network.sent - datagrams) / 10 / peers;
    for (uint32_t i = 0; i < crashes; i++) measure_crash(&flock, draw(&flock), figures);
    uint32_t noticed = crashes - figures->unnoticed;
    if (noticed > 0) {
        figures->first_s /= noticed;
        figures->all_mean_s /= noticed;
        figures->quick_mean_s /= noticed;
    }
    figures->false_suspicions = flock.false_suspicions;
    figures->false_deaths = flock.false_deaths;
    gw_flock_close(&flock);
}

void gw_gossip_figures_print(const gw_gossip_figures *f) {
    printf("gossip of %u peers, %u of them slow, virtual time\n"
           "  at rest, sent by each peer   %.0f B/s in %.1f datagrams/s\n"
           "  crash known to the first     %.2f s on average of %u\n"
           "  crash known to all           %.2f s on average, %.2f s at worst\n",
           f->peers, f->slow, f->bytes_per_s, f->datagrams_per_s, f->first_s, f->crashes, f->all_mean_s,
           f->all_worst_s);
    if (f->slow > 0)
        printf("  to all but the slow ones     %.2f s on average, %.2f s at worst\n", f->quick_mean_s,
               f->quick_worst_s);
    printf("  crashes somebody missed      %u\n"
           "  living ones suspected        %" PRIu64 ", buried %" PRIu64 "\n",
           f->unnoticed, f->false_suspicions, f->false_deaths);
}
