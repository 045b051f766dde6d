/* Promise: no process ends by itself without a cause: an event of the run must excuse its end. */
#include "tools/sim/judge/judge.h"

#include "core/brain/message.h"

#include <inttypes.h>
#include <string.h>

/* A brain notices a stalled disk after half a minute, and reports it within a second. */
#define PATIENCE_NS (31000 * SIM_MS)

/* Whether the disk hangs or refuses writes, or did so recently, so that the brain may still end because of
 * it. */
static bool disk_is_ailing(const sim_judges *j, const sim_peer *p) {
    uint64_t until_ns =
        p->disk_full_until_ns > p->disk_hangs_until_ns ? p->disk_full_until_ns : p->disk_hangs_until_ns;
    if (until_ns < p->record_fails_until_ns) until_ns = p->record_fails_until_ns;
    return until_ns != 0 && sim_now(j->c) < until_ns + PATIENCE_NS;
}

/* Checks a message about a stalled disk or fetch: the disk must really hang. */
static void check_stall(sim_judges *j, const sim_peer *p, const char *text) {
    bool hung = p->disk_hangs_until_ns != 0 && sim_now(j->c) < p->disk_hangs_until_ns + PATIENCE_NS;
    if (!hung && strstr(text, "made no progress") != NULL)
        sim_violation(j->c, "peer %u, whose disk does not hang, reports: %s", p->number, text);
}

/* Whether every disk of this peer's view ails, so that the state could not be stored anywhere. */
static bool all_disks_ail(const sim_judges *j, const sim_peer *p) {
    bool all = true;
    for (uint32_t i = 0; i < j->c->count; i++)
        all &= gw_view_rank(&p->m.fence, &j->c->peers[i].id) < 0 || disk_is_ailing(j, &j->c->peers[i]);
    return all;
}

static bool others_ended(const sim_judges *j, const sim_peer *p) {
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *other = &j->c->peers[i];
        if (other != p && (other->brain == NULL || other->finished || other->boot > 1)) return true;
    }
    return false;
}

#define HEARD_NS (10000 * SIM_MS) /* a peer that has run for so long without faults is known to all */

/* Marks, by number, this peer and the peers that it certainly hears. */
static void list_heard(const sim_judges *j, const sim_peer *p, bool *heard) {
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *other = &j->c->peers[i];
        uint64_t since_ns =
            other->started_ns > j->c->result->healed_ns ? other->started_ns : j->c->result->healed_ns;
        if (since_ns < p->paused_until_ns) since_ns = p->paused_until_ns;
        heard[i] = other == p || (sim_runs(other) && j->c->calm && sim_now(j->c) >= since_ns + HEARD_NS);
    }
}

/* Whether some peer has told others that the job has stopped (unsaved: that it could not be saved), and
 * either does not run, or did so within this life of `p` and is not known to run again. No peer runs again
 * under a name that was lost with its disk, be it p's own. */
static bool others_have_stopped(const sim_judges *j, const sim_peer *p, bool unsaved) {
    bool heard[SIM_PEERS], stopped = false;
    list_heard(j, p, heard);
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *other = &j->c->peers[i];
        const sim_end *its = &j->ends.of[i];
        uint64_t until_ns = unsaved ? its->unsaved_ns : its->stopped_ns;
        bool may_miss = other != p && (!sim_runs(other) || (!heard[i] && until_ns >= p->started_ns));
        stopped |= (until_ns != 0 && may_miss) || (unsaved ? its->name_unsaved : its->name_stopped);
    }
    return stopped;
}

static bool has_view(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return status.view != NULL;
}

static bool lack_majority(sim_judges *j, const bool *heard) {
    bool lack = false;
    for (uint32_t i = 0; i < j->c->count; i++)
        lack |= heard[i] && sim_lacks_majority(j->c, &j->c->peers[i], heard);
    return lack;
}

/* Whether the peer may give up as alone: others have ended and have not told it that the job is done, and
 * among the peers that it can hear, none is in a view that could admit it, or they are too few to form the
 * next view (even if the peer is in a view itself). */
static bool nobody_is_left(sim_judges *j, const sim_peer *p) {
    bool heard[SIM_PEERS] = {false}, flock = false;
    list_heard(j, p, heard);
    for (uint32_t i = 0; i < j->c->count; i++) flock |= heard[i] && has_view(&j->c->peers[i]);
    if (!others_ended(j, p) || j->ends.of[p->number].told_end) return false;
    return !flock || (j->c->options->majority && lack_majority(j, heard));
}

#define LEAVE_NS (10000 * SIM_MS) /* a leaving peer waits at least so long */
#define NEWS_NS  (20000 * SIM_MS) /* a dead peer may be believed alive for so long */

/* Whether another member goes on from that step, or did so recently. */
static bool others_have(const sim_judges *j, const sim_peer *p, const gw_view *view, uint64_t step) {
    bool any = false;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *q = &j->c->peers[i];
        if (q == p) continue;
        any |= sim_runs(q) && q->m.has_state && q->m.step >= step;
        bool lately = q->ended_ns != 0 && sim_now(j->c) < q->ended_ns + NEWS_NS;
        any |= gw_view_rank(view, &q->id) >= 0 && (lately || sim_found_wrong(j, q) > 0);
    }
    return any;
}

/* Whether a peer leaves rightly. Before its time is up, a peer leaves only if its work is not lost with
 * it: it is saved, or others have it. If all peers leave, the work is the state of the step in which they
 * were asked to, and for the last one the latest state that it has made. */
static bool leaves_rightly(const sim_judges *j, const sim_peer *p) {
    gw_peer_status status;
    const sim_end *own = &j->ends.of[p->number];
    gw_peer_status_get(p->brain, &status);
    if (!own->asked_to_leave) return false;
    uint64_t patience_ns = sim_save_timeout_ns(j->c->options);
    if (patience_ns < LEAVE_NS) patience_ns = LEAVE_NS;
    /* the factor allows for clocks that differ */
    bool late = sim_now(j->c) >= own->leave_ns + patience_ns / 10 * 8;
    bool worthless = !p->m.has_state || p->m.flipped;
    if (status.view == NULL || worthless || late || j->c->options->jump_ms != 0) return true;
    uint64_t step = status.view->count == 1 ? status.step : own->leave_step;
    bool saved = status.checkpoint_step != UINT64_MAX && status.checkpoint_step >= step;
    return saved || others_have(j, p, status.view, step);
}

/* Whether the excuse that a peer gives for its end is true. */
static bool is_true(sim_judges *j, const sim_peer *p, gw_sim_excuse excuse) {
    const sim_end *own = &j->ends.of[p->number];
    switch (excuse) {
    case GW_SIM_LEFT:
        return leaves_rightly(j, p);
    case GW_SIM_STOPPED:
        return own->heard_of_stop;
    case GW_SIM_MISSED_END:
        return j->c->result->done_ns != 0 || others_have_stopped(j, p, false) ||
               others_have_stopped(j, p, true);
    case GW_SIM_OWN_DISK:
        return disk_is_ailing(j, p);
    case GW_SIM_DISKS:
        return all_disks_ail(j, p) || others_have_stopped(j, p, true);
    case GW_SIM_DEVICE:
        return own->device_lost;
    case GW_SIM_GAVE_UP:
        return own->gave_up;
    case GW_SIM_REFUSED:
        return own->refused;
    case GW_SIM_WRONG_BITS:
        return sim_blames_rightly(j, p);
    case GW_SIM_ALONE:
        return nobody_is_left(j, p);
    default:
        return false;
    }
}

static void on_finished(void *context, sim_peer *p) {
    sim_judges *j = context;
    sim_end *own = &j->ends.of[p->number];
    gw_sim_excuse excuse = sim_reason_of_end(p);
    own->excused = excuse != GW_SIM_NO_EXCUSE && is_true(j, p, excuse);
    const uint64_t until_ns = sim_now(j->c) + SIM_LAST_WORDS_NS;
    if (own->excused && (excuse == GW_SIM_STOPPED || excuse == GW_SIM_MISSED_END)) own->stopped_ns = until_ns;
    if (p->finish == GW_FINISH_UNSAVED) own->unsaved_ns = until_ns;
    if (own->excused)
        j->c->result->excused[excuse]++;
    else if (excuse != GW_SIM_NO_EXCUSE)
        sim_violation(j->c, "peer %u ends without an excuse: %s", p->number, p->finish_text);
    check_stall(j, p, p->finish_text);
}

static void on_logged(void *context, sim_peer *p, const char *text) {
    check_stall(context, p, text);
}

static void on_arrives(void *context, sim_peer *p, const sim_peer *from, uint8_t kind) {
    sim_end *own = &((sim_judges *)context)->ends.of[p->number];
    if (kind == GW_MSG_HELLO) own->greeted_by[from->number] = from->boot;
    own->told_end |= kind == GW_MSG_END && from->finish == GW_FINISH_DONE;
}

/* Begins a life. It may hear of a stop from any peer that runs and has heard of it. */
static void on_life(void *context, sim_peer *p) {
    sim_judges *j = context;
    sim_end *own = &j->ends.of[p->number];
    own->gave_up = own->refused = own->device_lost = own->told_end = own->asked_to_leave = false;
    memset(own->greeted_by, 0, sizeof own->greeted_by);
    own->heard_of_stop = false;
    for (uint32_t i = 0; i < j->c->count; i++)
        own->heard_of_stop |= sim_runs(&j->c->peers[i]) && j->ends.of[i].heard_of_stop;
}

static void on_mishap(void *context, sim_peer *p, sim_mishap mishap) {
    sim_judges *j = context;
    sim_end *own = &j->ends.of[p->number];
    gw_peer_status status;
    switch (mishap) {
    case SIM_ASKED_TO_LEAVE:
        if (own->asked_to_leave) return;
        gw_peer_status_get(p->brain, &status);
        own->asked_to_leave = true;
        own->leave_ns = sim_now(j->c);
        own->leave_step = status.step;
        break;
    case SIM_ASKED_TO_STOP:
        for (uint32_t i = 0; i < j->c->count; i++) j->ends.of[i].heard_of_stop |= sim_runs(&j->c->peers[i]);
        break;
    case SIM_LOST_DEVICE:
        own->device_lost = true;
        break;
    case SIM_GAVE_UP_SHARD:
        own->gave_up = true;
        break;
    case SIM_WAS_REFUSED:
        own->refused = true;
        break;
    case SIM_DISK_IS_ANOTHER:
        own->name_stopped |= own->stopped_ns != 0;
        own->name_unsaved |= own->unsaved_ns != 0;
        for (uint32_t i = 0; i < j->c->count; i++) j->ends.of[i].greeted_by[p->number] = 0;
        break;
    case SIM_DISK_REFUSES:
        break;
    }
}

const sim_observer sim_ends_observer = {.finished = on_finished,
                                        .logged = on_logged,
                                        .message_arrives = on_arrives,
                                        .life_begins = on_life,
                                        .mishap = on_mishap};
