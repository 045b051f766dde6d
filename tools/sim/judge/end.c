/* Processes that end by themselves: what they say, and whether what befell them allows it. */
#include "tools/sim/world/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of this peer's view each disk: what nobody could store is lost. */
static bool all_disks_ail(const sim_cluster *c, const sim_peer *p) {
    bool all = true;
    for (uint32_t i = 0; i < c->count; i++)
        all &= gw_view_rank(&p->m.fence, &c->peers[i].id) < 0 || sim_disk_ails(c, &c->peers[i]);
    return all;
}

static bool others_ended(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *other = &c->peers[i];
        if (other != p && (other->brain == NULL || other->finished || other->boot > 1)) return true;
    }
    return false;
}

#define HEARD_NS (10000 * SIM_MS) /* who runs for so long, with nothing going wrong, is known to all */

/* By number: this peer, and those that it cannot but hear. */
static void list_heard(const sim_cluster *c, const sim_peer *p, bool *heard) {
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *other = &c->peers[i];
        uint64_t since_ns =
            other->started_ns > c->result->healed_ns ? other->started_ns : c->result->healed_ns;
        if (since_ns < p->paused_until_ns) since_ns = p->paused_until_ns;
        heard[i] = other == p || (sim_runs(other) && c->calm && sim_now(c) >= since_ns + HEARD_NS);
    }
}

/* And such a one does not run, or has stopped in this life of the peer, which has not heard that it runs
 * again, as it would in calm. By a name that was lost with its disk, also the peer's own, none runs again. */
static bool others_have_stopped(const sim_cluster *c, const sim_peer *p, bool unsaved) {
    bool heard[SIM_PEERS], stopped = false;
    list_heard(c, p, heard);
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *other = &c->peers[i];
        uint64_t until_ns = unsaved ? other->unsaved_ns : other->stopped_ns;
        bool may_miss = other != p && (!sim_runs(other) || (!heard[i] && until_ns >= p->started_ns));
        stopped |= (until_ns != 0 && may_miss) || (unsaved ? other->name_unsaved : other->name_stopped);
    }
    return stopped;
}

static bool has_view(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return status.view != NULL;
}

bool sim_lacks_majority(sim_cluster *c, const sim_peer *p, const bool *among) {
    gw_ballot ballot;
    sim_ballot_read(&p->asked, &ballot);
    bool lacks = ballot.installed.epoch > 0 && !sim_is_majority(c, &ballot.installed, among);
    for (uint32_t k = 0; k < ballot.later_count; k++) lacks |= !sim_is_majority(c, &ballot.later[k], among);
    gw_ballot_close(&ballot);
    return lacks;
}

static bool lack_majority(sim_cluster *c, const bool *heard) {
    bool lack = false;
    for (uint32_t i = 0; i < c->count; i++) lack |= heard[i] && sim_lacks_majority(c, &c->peers[i], heard);
    return lack;
}

/* Others have ended, and none of them told it that the job has; and among those that it can hear nobody lives
 * in a view that it could be admitted to, or (also where it lives in one itself) they are too few to form the
 * next. */
static bool nobody_is_left(sim_cluster *c, const sim_peer *p) {
    bool heard[SIM_PEERS] = {false}, flock = false;
    list_heard(c, p, heard);
    for (uint32_t i = 0; i < c->count; i++) flock |= heard[i] && has_view(&c->peers[i]);
    if (!others_ended(c, p) || p->told_end) return false;
    return !flock || (c->options->majority && lack_majority(c, heard));
}

/* Whether it has happened. */
static bool is_true(sim_cluster *c, const sim_peer *p, gw_sim_excuse excuse) {
    switch (excuse) {
    case GW_SIM_LEFT:
        return sim_leaves_rightly(c, p);
    case GW_SIM_STOPPED:
        return p->heard_of_stop;
    case GW_SIM_MISSED_END:
        return c->result->done_ns != 0 || others_have_stopped(c, p, false) || others_have_stopped(c, p, true);
    case GW_SIM_OWN_DISK:
        return sim_disk_ails(c, p);
    case GW_SIM_DISKS:
        return all_disks_ail(c, p) || others_have_stopped(c, p, true);
    case GW_SIM_DEVICE:
        return p->device_lost;
    case GW_SIM_GAVE_UP:
        return p->gave_up;
    case GW_SIM_REFUSED:
        return p->refused;
    case GW_SIM_WRONG_BITS:
        return sim_blames_rightly(c, p);
    case GW_SIM_ALONE:
        return nobody_is_left(c, p);
    default:
        return false;
    }
}

static gw_sim_excuse excuse_of_failure(const char *text) {
    static const struct {
        const char *phrase;
        gw_sim_excuse excuse;
    } phrases[] = {
        {"the machine is faulty", GW_SIM_WRONG_BITS},
        {"nobody can tell which are right", GW_SIM_WRONG_BITS},
        {"nobody can tell in whose memory", GW_SIM_WRONG_BITS},
        {"could not be fetched: ", GW_SIM_WRONG_BITS}, /* the last time it may be for another reason */
        {"start again to resume", GW_SIM_WRONG_BITS},
        {"so that the others go on", GW_SIM_OWN_DISK},
        {"(failing disk: ", GW_SIM_DISKS},
        {"the others compute its shards", GW_SIM_DEVICE},
        {"cannot be computed here", GW_SIM_GAVE_UP},
        {"could not be applied: ", GW_SIM_REFUSED},
        {"effects cannot take place here: ", GW_SIM_REFUSED},
        {"is sound could not be seen: ", GW_SIM_REFUSED},
        {"or they all failed", GW_SIM_ALONE},
    };
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (strstr(text, phrases[i].phrase) != NULL) return phrases[i].excuse;
    return GW_SIM_NO_EXCUSE;
}

static gw_sim_excuse excuse_of(const sim_peer *p) {
    switch (p->finish) {
    case GW_FINISH_LEFT:
        return strstr(p->finish_text, "the others ended the job") != NULL ? GW_SIM_MISSED_END : GW_SIM_LEFT;
    case GW_FINISH_STOPPED:
        return GW_SIM_STOPPED;
    case GW_FINISH_UNSAVED:
        return GW_SIM_DISKS;
    case GW_FINISH_FAILED:
        return excuse_of_failure(p->finish_text);
    default:
        return GW_SIM_NO_EXCUSE;
    }
}

void sim_judge_end(sim_cluster *c, sim_peer *p) {
    gw_sim_excuse excuse = excuse_of(p);
    p->excused = excuse != GW_SIM_NO_EXCUSE && is_true(c, p, excuse);
    const uint64_t until_ns = sim_now(c) + SIM_LAST_WORDS_NS;
    if (p->excused && (excuse == GW_SIM_STOPPED || excuse == GW_SIM_MISSED_END)) p->stopped_ns = until_ns;
    if (p->finish == GW_FINISH_UNSAVED) p->unsaved_ns = until_ns;
    if (p->excused)
        c->result->excused[excuse]++;
    else if (excuse != GW_SIM_NO_EXCUSE)
        sim_violation(c, "peer %u ends, and nothing has happened to it that allows it: %s", p->number,
                      p->finish_text);
}

/* By as many of those that ended as it takes, but for one. */
static bool was_begun(const sim_cluster *c, uint64_t step, uint32_t shard) {
    uint32_t begun = 1;
    for (uint32_t i = 0; i < c->death_count; i++) {
        const sim_death *death = &c->deaths[i];
        begun += death->step == step && shard < death->begun.size && gw_set_has(&death->begun, shard);
    }
    return begun >= GW_POISON_LOSSES;
}

/* A shard whose holders died three times ends the job by design; with crashes as dense as some seeds have
 * them, chance does that. All but one of them had begun it, and may have been through with it if that news
 * was lost with them: of the first of a step nobody knows the shard. That one may have died before it had
 * applied a sum, and so in the next step for those who had, or steps later than who stood still knows. Of
 * shards that were computed together as often any may be named. */
bool sim_names_poison(const sim_cluster *c, const sim_peer *p) {
    unsigned shard;
    uint64_t step;
    const char *behind = strstr(p->finish_text, " of step "), * or = strstr(p->finish_text, " or ");
    if (p->finish != GW_FINISH_FAILED || behind == NULL || strstr(behind, " is poison") == NULL) return false;
    if (sscanf(p->finish_text, "shard %u", &shard) != 1) return false;
    if (sscanf(behind, " of step %" SCNu64, &step) != 1) return false;
    uint32_t lost = 0, most = 0;
    for (uint32_t i = 0; i < c->death_count; i++) {
        const sim_death *death = &c->deaths[i];
        lost += death->step == step || death->step + 1 == step || (death->unseen && death->step > step);
        if (death->step == step && death->begun.size > most) most = death->begun.size;
    }
    bool begun = was_begun(c, step, shard), ties = or != NULL && or < behind;
    for (uint32_t other = 0; other < most && ties && !begun; other++) begun = was_begun(c, step, other);
    return lost >= GW_POISON_LOSSES && begun;
}
