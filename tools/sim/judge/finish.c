/* Promise: after all faults are healed, the job is done and every peer ends, in time. */
#include "tools/sim/judge/judge.h"

#include <inttypes.h>
#include <stdio.h>

/* Some peers wait long for those that ended, and then others for these. In a long haul, a peer that was
 * cut off may have to compute all steps alone, because no peer is left to tell it of the end. */
uint64_t sim_aftermath_ns(const gw_sim_options *o) {
    uint64_t alone_ns = o->haul != 0 ? (uint64_t)o->steps * o->shards * o->shard_us * 1000 : 0;
    return 100000 * SIM_MS + 24 * sim_resume_ns(o) + alone_ns;
}

static bool is_on_record(const sim_cluster *c, uint32_t peers, const sim_saved *checkpoint) {
    for (uint32_t i = 0; i < peers; i++) {
        const sim_disk *disk = &c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count; k++) {
            const sim_saved *one = &disk->saved[k];
            if (one->manifest && one->step == checkpoint->step && one->state == checkpoint->state)
                return true;
        }
    }
    return false;
}

/* Returns the number of different checkpoints that all disks have on record. */
static uint32_t count_checkpoints(const sim_cluster *c) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_disk *disk = &c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count; k++)
            count += disk->saved[k].manifest && !is_on_record(c, i, &disk->saved[k]);
    }
    return count;
}

/* The peers that are left wait for what the others may know, and, for each checkpoint that lacks chunks,
 * for a peer that has the rest of it. Chunks are missing where a checkpoint is damaged or the disks with
 * the rest are lost. With float sums any checkpoint on record may be such a one: it was given up with
 * steps that were computed again, and a peer that was away kept a part of it. */
uint64_t sim_bound_ns(const sim_cluster *c) {
    enum { SOME_WAITS = 6 };
    const gw_sim_options *o = c->options;
    bool lacks_chunks = o->damage_ms != 0 || o->unsynced_permille != 0 || o->fast;
    uint64_t waits = lacks_chunks ? SOME_WAITS : 0, each = o->fast ? count_checkpoints(c) + 1 : 0;
    if (each > waits) waits = each;
    if (o->core != 0) waits += 24;
    return o->bound_ms * SIM_MS + waits * sim_resume_ns(o);
}

/* Whether the peer stops the job, as it should. */
static bool stops_the_job(sim_judges *j, const sim_peer *p) {
    bool poisoned = p->finished && sim_names_poison(j, p), bad = p->finished && sim_ends_of_bad(j->c, p);
    j->c->result->poisoned |= poisoned;
    j->c->result->bad |= bad;
    return poisoned || bad;
}

static bool failed_end(const sim_judges *j, const sim_peer *p) {
    return p->finished && (p->finish == GW_FINISH_FAILED || p->finish == GW_FINISH_DENIED) &&
           !j->ends.of[p->number].excused;
}

/* Each peer that stops the job does so by itself, so all of them are looked at. */
bool sim_is_over(sim_judges *j) {
    bool done = false, running = false;
    if (j->c->result->unseen) return true;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *p = &j->c->peers[i];
        bool stops = stops_the_job(j, p);
        if (!stops && failed_end(j, p)) {
            sim_violation(j->c, "peer %u gave up: %s", i, p->finish_text);
            return true;
        }
        done |= stops || (p->finished && p->finish == GW_FINISH_DONE);
        running |= sim_runs(p);
    }
    return done && !running && j->c->calm;
}

static void describe(const sim_judges *j, char *text, size_t size) {
    size_t used = 0;
    for (uint32_t i = 0; i < j->c->count && used < size; i++) {
        const sim_peer *p = &j->c->peers[i];
        gw_peer_status status = {.phase = p->finished ? "ended" : "down"};
        if (sim_runs(p)) gw_peer_status_get(p->brain, &status);
        int more = snprintf(text + used, size - used, " [%u: %s, step %" PRIu64 ", view %" PRIu64 " of %u]",
                            i, status.phase, status.step, status.view == NULL ? 0 : status.view->epoch,
                            status.view == NULL ? 0 : status.view->count);
        used += more > 0 ? (size_t)more : 0;
    }
}

/* Whether the peer waits without a view, together with others that it has met, which are too few to found
 * a job, or to be a majority of the founders or of the newest view: peers that ended may come back. */
static bool waits_with_too_few(sim_judges *j, const sim_peer *p) {
    uint32_t waiting = 1;
    bool among[SIM_PEERS] = {false};
    among[p->number] = true;
    for (uint32_t i = 0; i < j->c->count; i++) {
        gw_peer_status status;
        const sim_peer *other = &j->c->peers[i];
        if (!sim_runs(other) || (other != p && other->boot != p->met[i])) continue;
        gw_peer_status_get(other->brain, &status);
        if (status.view != NULL) return false;
        waiting += other != p;
        among[i] = true;
    }
    uint32_t founders = j->c->options->founders,
             least = j->c->options->majority ? founders / 2 + 1 : founders;
    return waiting > 1 &&
           (waiting < least || (j->c->options->majority && !sim_is_majority(j->c, &j->final.newest, among)));
}

/* All peers that run for so long without faults meet if a seed runs as well: a peer that knows others asks
 * one of the seeds every five seconds, any of them, and other seeds may be gone. */
#define MEET_NS (30000 * SIM_MS)

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Returns the time since which others could meet this life without faults. */
static uint64_t there_since_ns(const sim_judges *j, const sim_peer *p) {
    return later(later(p->started_ns, p->paused_until_ns), j->c->result->healed_ns);
}

/* Whether this life and the last life of a peer that ended the job have run together with a seed for so
 * long that they have heard of each other. (Without a seed they may look for each other in vain.) */
static bool had_met(const sim_judges *j, const sim_peer *p, const sim_peer *done) {
    uint64_t since_ns = later(there_since_ns(j, p), there_since_ns(j, done));
    for (uint32_t i = 0; i < SIM_SEEDS; i++) {
        if (j->c->seeds[i] >= j->c->count) continue;
        const sim_peer *seed = &j->c->peers[j->c->seeds[i]];
        uint64_t until_ns =
            sim_runs(seed) || seed->ended_ns > done->ended_ns ? done->ended_ns : seed->ended_ns;
        if (until_ns >= later(since_ns, there_since_ns(j, seed)) + MEET_NS) return true;
    }
    return false;
}

/* Whether the peer may still hope, with a majority rule: the peers that it does not know to have ended
 * (their hosts do not refuse its dials) are a majority of every view that it has installed or promised.
 * They may only be cut off, as far as it knows, and it waits for them. */
static bool may_hope(sim_judges *j, const sim_peer *p) {
    bool left[SIM_PEERS] = {false};
    for (uint32_t i = 0; i < j->c->count; i++)
        left[i] = j->c->peers[i].brain != NULL || j->c->peers[i].host_down;
    return j->c->options->majority && !sim_lacks_majority(j->c, p, left);
}

/* Returns the chunks of this checkpoint that peers which run have on their disks, as bits. */
static uint64_t chunks_at_hand(sim_judges *j, const sim_saved *checkpoint) {
    uint64_t there = 0;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_disk *disk = &j->c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count && sim_runs(&j->c->peers[i]); k++)
            if (disk->saved[k].step == checkpoint->step && disk->saved[k].state == checkpoint->state)
                there |= disk->saved[k].chunks.words[0] & ~disk->saved[k].damaged.words[0];
    }
    return there;
}

/* Whether none of the peers that run can begin the job, as it goes on from a state (--continue) and they have
 * neither that one nor a later checkpoint as a whole. They wait for peers that have the rest. */
static bool lacks_a_beginning(sim_judges *j) {
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_disk *disk = &j->c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count && sim_runs(&j->c->peers[i]); k++)
            if (disk->saved[k].manifest && chunks_at_hand(j, &disk->saved[k]) == SIM_ALL_CHUNKS) return false;
    }
    return j->c->options->first_step > 0;
}

/* Whether the peer knows that the job has ended: it has the final manifest, and sums are exact; or a peer
 * that has ended the job told it so, or ended while the two could hear of each other; or it had met that
 * peer before, and neither waits with others to found a job nor for the state from which the job goes on. A
 * peer that was away or cut off for all of that cannot know. */
static bool knows_of_the_end(sim_judges *j, const sim_peer *p) {
    bool recorded = false, met = false, told = j->ends.of[p->number].told_end;
    for (uint32_t i = 0; i < p->disk.saved_count; i++)
        recorded |= p->disk.saved[i].manifest && p->disk.saved[i].step == sim_last_step(j->c->options);
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *done = &j->c->peers[i];
        if (done->finish != GW_FINISH_DONE) continue;
        met |= done->boot == j->ends.of[p->number].greeted_by[i];
        told |= had_met(j, p, done);
    }
    return told || (met && !waits_with_too_few(j, p) && !may_hope(j, p) && !lacks_a_beginning(j)) ||
           (recorded && !j->c->options->fast);
}

static const gw_view *view_of(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return status.view;
}

/* Whether all members of the peer's view run, in the lives that the view names, and are in it. Then no
 * peer is missing, and they could end. */
static bool lives_in_whole_view(sim_judges *j, const sim_peer *p) {
    const gw_view *view = view_of(p);
    if (view == NULL) return false;
    for (uint32_t i = 0; i < view->count; i++) {
        const sim_peer *member = sim_by_id(j->c, &view->members[i].id);
        if (member == NULL || !sim_runs(member) || member->boot != view->members[i].boot) return false;
        const gw_view *its = view_of(member);
        if (its == NULL || !gw_view_name_equal(&its->name, &view->name)) return false;
    }
    return true;
}

static void count_calm(const sim_judges *j, uint64_t bound) {
    gw_sim_result *r = j->c->result;
    if (r->done_ns <= r->healed_ns) return;
    uint64_t took_ns = r->done_ns - r->healed_ns;
    r->calm_most_share = (double)took_ns / (double)bound;
    if (j->c->options->haul != 0) return;
    r->calmed = 1;
    r->calm_ns = r->calm_most_ns = took_ns;
}

/* What stopped the job at one peer must stop it at all peers: those that go on without the peers that have
 * ended come to the same cause, or to the job's end. With a majority rule they may wait for those that
 * have ended. */
void sim_check_all_stop(sim_judges *j) {
    char text[400] = "";
    bool goes_on = false;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *p = &j->c->peers[i];
        if (!sim_runs(p)) continue;
        bool lives = j->c->options->majority ? lives_in_whole_view(j, p) : view_of(p) != NULL;
        goes_on |= lives;
        j->c->result->waiting += !lives;
    }
    if (j->c->result->failed || !goes_on) return;
    describe(j, text, sizeof text);
    sim_violation(j->c, "a peer has stopped the job, but others do not end:%s", text);
}

void sim_check_done(sim_judges *j, uint64_t bound) {
    char text[400] = "";
    if (j->c->result->done_ns != 0) {
        count_calm(j, bound);
        return;
    }
    describe(j, text, sizeof text);
    sim_violation(j->c, "the job is not done %" PRIu64 " ms after all faults were healed:%s", bound / SIM_MS,
                  text);
}

static void check_effects(sim_judges *j) {
    uint64_t steps = sim_last_step(j->c->options), first = j->c->options->first_step;
    for (uint64_t step = first; step < steps; step++)
        if (j->shown.effects[step] == 0 && !(step + 1 == steps && j->shown.last_effect_failed))
            sim_violation(j->c, "the job is done, but no effect of step %" PRIu64 " has taken place", step);
}

/* A peer that cannot know of the end may wait for ever. */
void sim_check_all_end(sim_judges *j) {
    char text[400] = "";
    check_effects(j);
    bool waits = false;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *p = &j->c->peers[i];
        if (!sim_runs(p)) continue;
        bool may_wait = !knows_of_the_end(j, p) && !lives_in_whole_view(j, p);
        waits |= !may_wait;
        j->c->result->waiting += may_wait;
    }
    if (j->c->result->failed || !waits) return;
    describe(j, text, sizeof text);
    sim_violation(j->c, "a peer is done, but others do not end:%s", text);
}

static void on_installed(void *context, sim_peer *p, const gw_view *view) {
    sim_judges *j = context;
    (void)p;
    if (view->epoch > j->final.newest.epoch) j->final.newest = *view;
}

const sim_observer sim_final_observer = {.view_installed = on_installed};
