#include "tools/sim/gossip/measure.h"

#include "core/base/assert.h"

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

/* Draws a running peer that is not slow. */
static uint32_t draw(gw_flock *flock) {
    for (;;) {
        uint32_t peer = (uint32_t)gw_rng_below(&flock->rng, flock->count);
        if (flock->peers[peer].gossip != NULL && !flock->peers[peer].slow) return peer;
    }
}

/* Waits until all peers know that all are alive, which is checked now and then. */
static double wait_until_whole(gw_flock *flock) {
    uint64_t since_ns = gw_sim_now(flock->engine), most_ns = since_ns + 60 * SECOND;
    while (!gw_flock_is_whole(flock) && gw_sim_now(flock->engine) < most_ns) gw_flock_run(flock, SECOND / 10);
    return gw_flock_is_whole(flock) ? (double)(gw_sim_now(flock->engine) - since_ns) * 1e-9 : -1;
}

static void measure_cuts(gw_flock *flock, const gw_gossip_trial *trial, gw_gossip_figures *figures) {
    uint64_t deaths = flock->false_deaths;
    figures->cuts = trial->cuts;
    figures->cuts_ms = trial->cuts_ms;
    gw_flock_cuts_begin(&figures->cuts, flock, trial->seed);
    gw_flock_run(flock, trial->cuts_ms * (SECOND / 1000));
    gw_flock_cuts_end(&figures->cuts);
    figures->whole_s = wait_until_whole(flock);
    figures->cut_deaths = flock->false_deaths - deaths;
}

static void garble(void *context, const uint8_t *bytes, size_t length) {
    gw_flock *flock = context;
    if (flock->garbler == NULL) flock->garbler = gw_sim_garbler_open();
    flock->forged += gw_sim_garbler_passes(flock->garbler, &flock->rng, bytes, length);
}

static void open_flock(gw_flock *flock, const gw_gossip_trial *trial) {
    gw_sim_weather weather = trial->weather;
    gw_flock_open(flock, trial->peers, trial->seed);
    if (weather.delay_most_ns == 0) {
        weather.delay_least_ns = flock->network.weather.delay_least_ns;
        weather.delay_most_ns = flock->network.weather.delay_most_ns;
    }
    flock->network.weather = weather;
    flock->network.garble = garble;
    flock->slow_least_ns = SECOND / 10;
    flock->slow_most_ns = SECOND;
    gw_flock_start_together(flock);
    for (uint32_t i = 0; i < trial->slow; i++) gw_flock_slow(flock, draw(flock));
}

static void measure_crashes(gw_flock *flock, gw_gossip_figures *figures) {
    for (uint32_t i = 0; i < figures->crashes; i++) measure_crash(flock, draw(flock), figures);
    uint32_t noticed = figures->crashes - figures->unnoticed;
    if (noticed == 0) return;
    figures->first_s /= noticed;
    figures->all_mean_s /= noticed;
    figures->quick_mean_s /= noticed;
}

static gw_gossip_asked asked_of(const gw_gossip_trial *trial) {
    enum { LARGE = 1000 }; /* in smaller flocks peers probe up to twice as often (core/gossip/gossip.h) */
    const gw_sim_weather *w = &trial->weather;
    bool usual = w->drop + w->duplicate + w->garble + w->tail == 0 && w->delay_most_ns == 0;
    if (!usual || 100 * (uint64_t)trial->slow > trial->peers) return (gw_gossip_asked){0};
    return (gw_gossip_asked){.known_s = 3, .bytes_per_s = trial->peers >= LARGE ? 1000 : 2000};
}

void gw_gossip_measure(const gw_gossip_trial *trial, gw_gossip_figures *figures) {
    const uint32_t peers = trial->peers, crashes = trial->crashes;
    GW_ASSERT(peers >= 3 && crashes < peers - 1 && trial->slow + crashes < peers);
    *figures = (gw_gossip_figures){
        .peers = peers, .slow = trial->slow, .crashes = crashes, .asked = asked_of(trial)};
    gw_flock flock;
    open_flock(&flock, trial);
    gw_flock_run(&flock, 10 * SECOND);
    uint64_t bytes = flock.bytes_sent, datagrams = flock.network.sent;
    gw_flock_run(&flock, 10 * SECOND);
    figures->bytes_per_s = (double)(flock.bytes_sent - bytes) / 10 / peers;
    figures->datagrams_per_s = (double)(flock.network.sent - datagrams) / 10 / peers;
    measure_crashes(&flock, figures);
    figures->false_suspicions = flock.false_suspicions;
    figures->false_deaths = flock.false_deaths;
    if (trial->cuts_ms != 0) measure_cuts(&flock, trial, figures);
    figures->sent = flock.network.sent;
    figures->dropped = flock.network.dropped;
    figures->duplicated = flock.network.duplicated;
    figures->garbled = flock.network.garbled;
    figures->forged = flock.forged;
    gw_flock_close(&flock);
}

static bool within(double figure, double asked) {
    return asked == 0 || figure <= asked;
}

static bool is_soon_known(const gw_gossip_figures *f) {
    return within(f->slow > 0 ? f->quick_worst_s : f->all_worst_s, f->asked.known_s);
}

bool gw_gossip_figures_good(const gw_gossip_figures *f) {
    return f->unnoticed == 0 && f->false_deaths == 0 && f->forged == 0 && f->whole_s >= 0 &&
           within(f->bytes_per_s, f->asked.bytes_per_s) && is_soon_known(f);
}

static void print_asked(const gw_gossip_figures *f) {
    if (f->asked.known_s == 0)
        printf("  asked for                    nothing, with such a network or so many slow peers\n");
    else
        printf("  asked for                    at most %.0f B/s%s, and %.0f s until %s know%s\n",
               f->asked.bytes_per_s, within(f->bytes_per_s, f->asked.bytes_per_s) ? "" : " (MISSED)",
               f->asked.known_s, f->slow > 0 ? "all but the slow peers" : "all peers",
               is_soon_known(f) ? "" : " (MISSED)");
}

static void print_network(const gw_gossip_figures *f) {
    const gw_flock_cuts *cuts = &f->cuts;
    if (f->dropped + f->duplicated + f->garbled > 0)
        printf("  of %" PRIu64 " datagrams             %" PRIu64 " lost, %" PRIu64 " doubled, %" PRIu64
               " garbled, %" PRIu64 " of these accepted\n",
               f->sent, f->dropped, f->duplicated, f->garbled, f->forged);
    if (f->cuts_ms == 0) return;
    printf("  then cut                     in two %" PRIu64 " times, one way %" PRIu64 ", again %" PRIu64
           "; %" PRIu64 " pairs parted, %" PRIu64 " ways clogged; %" PRIu64 " live peers declared dead\n",
           cuts->partitions, cuts->one_way, cuts->flaps, cuts->parted, cuts->clogged, f->cut_deaths);
    if (f->whole_s < 0)
        printf("  after that                   some peers do not know that all are alive\n");
    else
        printf("  after that all know all      in %.1f s\n", f->whole_s);
}

void gw_gossip_figures_print(const gw_gossip_figures *f) {
    printf("gossip of %u peers, %u of them slow, virtual time\n"
           "  at rest, sent by each peer   %.0f B/s in %.1f datagrams/s (no job runs, so there is no news of "
           "steps)\n"
           "  crash known to the first     %.2f s on average of %u\n"
           "  crash known to all           %.2f s on average, %.2f s at worst\n",
           f->peers, f->slow, f->bytes_per_s, f->datagrams_per_s, f->first_s, f->crashes, f->all_mean_s,
           f->all_worst_s);
    if (f->slow > 0)
        printf("  to all but the slow ones     %.2f s on average, %.2f s at worst\n", f->quick_mean_s,
               f->quick_worst_s);
    print_asked(f);
    printf("  crashes not known to all     %u\n"
           "  live peers suspected         %" PRIu64 ", declared dead %" PRIu64 "\n",
           f->unnoticed, f->false_suspicions, f->false_deaths);
    print_network(f);
}
