/* Processes that end by themselves: what has happened to them must allow it. */
#include "tools/sim/judge/judge.h"

#include "core/brain/message.h"

#include <inttypes.h>
#include <string.h>

/* A brain notices a disk that stalls after half a minute, and says so within a second. */
#define PATIENCE_NS (31000 * SIM_MS)

/* The disk hangs or refuses something, or did while a brain may be about to end for that. */
static bool disk_ails(const sim_judges *j, const sim_peer *p) {
    uint64_t until_ns =
        p->disk_full_until_ns > p->disk_hangs_until_ns ? p->disk_full_until_ns : p->disk_hangs_until_ns;
    if (until_ns < p->record_fails_until_ns) until_ns = p->record_fails_until_ns;
    return until_ns != 0 && sim_now(j->c) < until_ns + PATIENCE_NS;
}

/* A peer that says that a disk stalls, or a fetch, has a disk that does. */
static void check_stall(sim_judges *j, const sim_peer *p, const char *text) {
    bool hung = p->disk_hangs_until_ns != 0 && sim_now(j->c) < p->disk_hangs_until_ns + PATIENCE_NS;
    if (!hung && strstr(text, "made no progress") != NULL)
        sim_violation(j->c, "peer %u, whose disk does not hang, says: %s", p->number, text);
}

/* Every disk of this peer's view ails: what nobody could store is lost. */
static bool all_disks_ail(const sim_judges *j, const sim_peer *p) {
    bool all = true;
    for (uint32_t i = 0; i < j->c->count; i++)
        all &= gw_view_rank(&p->m.fence, &j->c->peers[i].id) < 0 || disk_ails(j, &j->c->peers[i]);
    return all;
}

static bool others_ended(const sim_judges *j, const sim_peer *p) {
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *other = &j->c->peers[i];
        if (other != p && (other->brain == NULL || other->finished || other->boot > 1)) return true;
    }
    return false;
}

#define HEARD_NS (10000 * SIM_MS) /* a peer that runs for so long in calm is known to all */

/* Marks, by number, this peer and those that it cannot but hear. */
static void list_heard(const sim_judges *j, const sim_peer *p, bool *heard) {
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *other = &j->c->peers[i];
        uint64_t since_ns =
            other->started_ns > j->c->result->healed_ns ? other->started_ns : j->c->result->healed_ns;
        if (since_ns < p->paused_until_ns) since_ns = p->paused_until_ns;
        heard[i] = other == p || (sim_runs(other) && j->c->calm && sim_now(j->c) >= since_ns + HEARD_NS);
    }
}

/* Some peer has told others that the job has stopped (unsaved: that nobody could save it), and does not run,
 * or did so within this life of `p`, which has not heard that it runs again, as it would in calm. By a name
 * that was lost with its disk, also p's own, nobody runs again. */
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

/* Others have ended, and none of them told this peer that the job has; and among those that it can hear
 * nobody lives in a view that it could be admitted to, or (even where it lives in one itself) they are too
 * few to form the next. */
static bool nobody_is_left(sim_judges *j, const sim_peer *p) {
    bool heard[SIM_PEERS] = {false}, flock = false;
    list_heard(j, p, heard);
    for (uint32_t i = 0; i < j->c->count; i++) flock |= heard[i] && has_view(&j->c->peers[i]);
    if (!others_ended(j, p) || j->ends.of[p->number].told_end) return false;
    return !flock || (j->c->options->majority && lack_majority(j, heard));
}

#define LEAVE_NS (10000 * SIM_MS) /* a leaving peer waits for so long at least (core/brain/save/leave.c) */
#define NEWS_NS  (20000 * SIM_MS) /* a peer that dies is taken for alive for so long at most */

/* Another member goes on from that step, or did a moment ago. */
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

/* Before its time is up no peer leaves whose work is lost with it: it is saved, or others have it. Where all
 * leave, that is the state of the step in which they were asked to, and of the last one what it has made at
 * last. */
static bool leaves_rightly(const sim_judges *j, const sim_peer *p) {
    gw_peer_status status;
    const sim_end *own = &j->ends.of[p->number];
    gw_peer_status_get(p->brain, &status);
    if (!own->asked_to_leave) return false;
    uint64_t patience_ns = sim_save_timeout_ns(j->c->options);
    if (patience_ns < LEAVE_NS) patience_ns = LEAVE_NS;
    bool late = sim_now(j->c) >= own->leave_ns + patience_ns / 10 * 8; /* clocks differ */
    bool worthless = !p->m.has_state || p->m.flipped;
    if (status.view == NULL || worthless || late || j->c->options->jump_ms != 0) return true;
    uint64_t step = status.view->count == 1 ? status.step : own->leave_step;
    bool saved = status.checkpoint_step != UINT64_MAX && status.checkpoint_step >= step;
    return saved || others_have(j, p, status.view, step);
}

/* Whether what excuses such an end has happened. */
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
        return disk_ails(j, p);
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
        sim_violation(j->c, "peer %u ends, and nothing has happened to it that allows it: %s", p->number,
                      p->finish_text);
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

/* A life that starts hears of a stop from any peer that runs and has heard of it. */
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
