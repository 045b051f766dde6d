#include "core/brain/view/repair.h"

#include "core/base/assert.h"
#include "core/brain/peer.h"
#include "core/shard/deal.h"

#include <stdio.h>
#include <string.h>

/* After the first failed check of a step's sum the step is reduced again, after the second all its shards are
 * computed again, and after the third the job stops. */
enum { FAILURES_RECOMPUTE = 2, FAILURES_STOP = 3 };

/* The report that names the latest view, among the voters that have a state; NULL: none has one. */
static const gw_report *latest_reporter(const gw_report *const *reports, uint32_t count) {
    const gw_report *latest = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!reports[i]->has_state) continue;
        bool later = latest == NULL || reports[i]->installed_epoch > latest->installed_epoch ||
                     (reports[i]->installed_epoch == latest->installed_epoch &&
                      gw_view_name_compare(&reports[i]->installed, &latest->installed) > 0);
        if (later) latest = reports[i];
    }
    return latest;
}

/* Whether the state of a voter counts. */
static bool trusted(const gw_repair_rules *rules, const gw_report *report, const gw_report *latest) {
    if (!report->has_state) return false;
    return !rules->latest_view_only || gw_view_name_equal(&report->installed, &latest->installed);
}

/* The number of trusted reports that agree with `one` on step and fingerprint. */
static uint32_t support(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                        const gw_report *latest, const gw_report *one) {
    uint32_t agreeing = 0;
    for (uint32_t i = 0; i < count; i++)
        agreeing += trusted(rules, reports[i], latest) && reports[i]->step == one->step &&
                    reports[i]->fingerprint == one->fingerprint;
    return agreeing;
}

/* The report of the best state of fewer than `below` steps: the highest step, then the state that most voters
 * hold. NULL: there is none. */
static const gw_report *best_state(const gw_repair_rules *rules, const gw_report *const *reports,
                                   uint32_t count, uint64_t below) {
    const gw_report *latest = latest_reporter(reports, count), *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const gw_report *r = reports[i];
        if (!trusted(rules, r, latest) || r->step >= below) continue;
        bool better = best == NULL || r->step > best->step ||
                      (r->step == best->step && support(rules, reports, count, latest, r) >
                                                    support(rules, reports, count, latest, best));
        if (better) best = r;
    }
    return best;
}

/* A report of another state of the same step that as many voters hold as hold `state`; NULL: there is
 * none. */
static const gw_report *find_rival(const gw_repair_rules *rules, const gw_report *const *reports,
                                   uint32_t count, const gw_report *state, uint32_t *rank) {
    const gw_report *latest = latest_reporter(reports, count);
    for (*rank = 0; *rank < count; (*rank)++) {
        const gw_report *r = reports[*rank];
        if (trusted(rules, r, latest) && r->step == state->step && r->fingerprint != state->fingerprint &&
            support(rules, reports, count, latest, r) == support(rules, reports, count, latest, state))
            return r;
    }
    return NULL;
}

/* The report from whose state the view goes on; `newest` is the best of all. With exact sums an undisputed
 * state leads to the right bits of every later step, so it is preferred to a later state that has a rival. */
static const gw_report *choose_state(const gw_repair_rules *rules, const gw_report *const *reports,
                                     uint32_t count, const gw_report *newest) {
    const gw_report *best = newest;
    uint32_t rank;
    while (best != NULL && find_rival(rules, reports, count, best, &rank) != NULL)
        best = rules->latest_view_only ? NULL : best_state(rules, reports, count, best->step);
    return best != NULL ? best : newest;
}

static void tell_rival(const gw_view *view, const gw_report *state, const gw_report *rival, uint32_t rank,
                       char *text, size_t text_size) {
    char id[GW_SHORT_TEXT];
    snprintf(
        text, text_size,
        "peer %s and as many others hold different states of step %llu (%016llx, %016llx), and nobody can "
        "tell which are right: start again to resume",
        gw_peer_id_short(&view->members[rank].id, id), (unsigned long long)state->step,
        (unsigned long long)rival->fingerprint, (unsigned long long)state->fingerprint);
}

/* Whether a voter may have lived in a later view than the one whose state `latest` holds (NULL: in any view
 * at all). */
static bool may_have_lived_later(const gw_report *voter, const gw_report *latest) {
    bool promised = voter->promised_epoch > voter->installed_epoch;
    uint64_t epoch = promised ? voter->promised_epoch : voter->installed_epoch;
    const gw_view_name *name = promised ? &voter->promised : &voter->installed;
    if (latest == NULL || epoch != latest->installed_epoch)
        return epoch > (latest == NULL ? 0 : latest->installed_epoch);
    return gw_view_name_compare(name, &latest->installed) > 0;
}

/* Whether a step may have been shown (core/brain/commit.h) whose state only an absent peer holds. All members
 * of a view hold what was shown in it, so a voter that has the view's state has that, too. If there is none,
 * voters that have lost their state may have shown a step. */
static bool lacks_latest(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count) {
    if (!rules->latest_view_only || !rules->some_absent) return false;
    const gw_report *latest = latest_reporter(reports, count);
    for (uint32_t i = 0; i < count; i++)
        if (may_have_lived_later(reports[i], latest)) return true;
    return false;
}

static const gw_inventory *find_inventory(const gw_report *report, const gw_hash *root) {
    for (uint32_t i = 0; i < report->inventory_count; i++)
        if (gw_hash_equal(&report->inventory[i].root, root)) return &report->inventory[i];
    return NULL;
}

/* Whether the voters' disks together hold every chunk of this checkpoint. */
static bool is_complete(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                        const gw_inventory *checkpoint) {
    if (checkpoint->chunks.size != rules->state_chunks) return false;
    gw_set all = gw_set_of(checkpoint->chunks.size);
    for (uint32_t i = 0; i < count; i++) {
        const gw_inventory *own = find_inventory(reports[i], &checkpoint->root);
        if (own != NULL && own->chunks.size == all.size) gw_set_unite(&all, &own->chunks);
    }
    bool complete = gw_set_count(&all) == all.size;
    gw_set_free(&all);
    return complete;
}

/* Whether a checkpoint leads on from `state` (NULL: there is no state). With float sums steps may have been
 * computed again that all voters had forgotten, and a checkpoint of the first time does not belong to the
 * results of the second. All members of a view hold what is saved in it. Therefore a checkpoint of an earlier
 * view than the state's is in the lineage of the state, or was given up. A checkpoint of a later view counts
 * even if it has fewer steps: that view had nothing of the state, which is then the one that was given up. */
static bool leads_on(const gw_repair_rules *rules, const gw_inventory *checkpoint, const gw_report *state) {
    if (state == NULL) return true;
    if (checkpoint->ignored) return false;
    uint64_t epoch = rules->latest_view_only ? state->installed_epoch : 0;
    return gw_inventory_is_after(checkpoint, epoch, state->step);
}

/* Whether the disk of a voter may have chunks of a checkpoint that leads on from `state`. */
static bool lived_later(const gw_repair_rules *rules, const gw_report *voter, const gw_report *state) {
    if (state == NULL || !rules->latest_view_only) return true;
    return voter->installed_epoch > state->installed_epoch;
}

/* Whether a checkpoint that leads on from `state` may be complete although the reports do not show it, with
 * orphans of some voter. A load shows it. A voter that has tried to load it has it in its inventory, and
 * reports it unless its report is full. */
static bool may_be_complete(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                            const gw_report *state, const gw_inventory *checkpoint) {
    bool orphans = false;
    for (uint32_t i = 0; i < count; i++)
        orphans |= reports[i]->orphans && reports[i]->inventory_count < GW_MAX_INVENTORY &&
                   lived_later(rules, reports[i], state) &&
                   find_inventory(reports[i], &checkpoint->root) == NULL;
    return orphans && checkpoint->chunks.size == rules->state_chunks;
}

/* Whether a checkpoint is of an undisputed state. With exact sums a state later than `state` has a rival. A
 * checkpoint that all holders of such states have on record is from before they differed; another one may be
 * of either. */
static bool is_undisputed(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                          const gw_report *state, const gw_inventory *checkpoint) {
    for (uint32_t i = 0; i < count && state != NULL && !rules->latest_view_only; i++) {
        const gw_report *r = reports[i];
        bool later = r->has_state && r->step > state->step && r->step >= checkpoint->step;
        if (later && find_inventory(r, &checkpoint->root) == NULL) return false;
    }
    return true;
}

/* The newest checkpoint that the reports name, and the newest of which the voters' disks have all chunks.
 * NULL: there is none. */
typedef struct checkpoints {
    const gw_inventory *known, *complete;
} checkpoints;

/* Chooses among the checkpoints that lead on from `state`. `daring`: one that may be complete counts as
 * complete. */
static checkpoints choose_checkpoints(const gw_repair_rules *rules, const gw_report *const *reports,
                                      uint32_t count, const gw_report *state, bool daring) {
    checkpoints newest = {0};
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < reports[i]->inventory_count; k++) {
            const gw_inventory *one = &reports[i]->inventory[k];
            if (!leads_on(rules, one, state) || !is_undisputed(rules, reports, count, state, one)) continue;
            if (newest.known == NULL || gw_inventory_is_newer(one, newest.known)) newest.known = one;
            if (newest.complete != NULL && !gw_inventory_is_newer(one, newest.complete)) continue;
            if (is_complete(rules, reports, count, one) ||
                (daring && may_be_complete(rules, reports, count, state, one)))
                newest.complete = one;
        }
    }
    return newest;
}

/* Whether a newer checkpoint is known than the newest complete one. If both are of one step and view, either
 * will do. */
static bool lacks_chunks(const checkpoints *newest) {
    const gw_inventory *complete = newest->complete;
    return newest->known != NULL &&
           (complete == NULL || gw_inventory_is_after(newest->known, complete->epoch, complete->step));
}

static void tell_lack(const gw_repair_rules *rules, const checkpoints *newest, uint64_t otherwise,
                      bool settle, char *text, size_t text_size) {
    unsigned long long known = newest->known->step,
                       from = newest->complete == NULL ? otherwise : newest->complete->step;
    if (settle)
        snprintf(text, text_size,
                 "checkpoint of step %llu is known, but nobody here has all of it: beginning at step %llu",
                 known, from);
    else
        snprintf(text, text_size, "checkpoint of step %llu is known, but some of its chunks are %s", known,
                 rules->alone ? "damaged or gone here" : "on peers that are not here");
}

/* Whether a voter has a checkpoint on record as the job's last state. The record comes from the leader of a
 * view whose members all held this state. */
static bool is_end(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                   const gw_inventory *checkpoint) {
    bool end = checkpoint->step >= rules->steps;
    for (uint32_t i = 0; i < count; i++) {
        const gw_inventory *own = find_inventory(reports[i], &checkpoint->root);
        end |= own != NULL && own->ended;
    }
    return end;
}

/* Decides about a newer checkpoint of which the voters lack chunks. With float sums the job's end is not
 * computed again while an absent peer may have the rest of it: others may have ended with it, have said so,
 * and will not come back to hear of another end. All members whose disks could write had it on record before
 * any ended, so that a majority knows of it unless disks failed. If no peer can bring the rest, it is lost.
 * Then it is given up, so that no later plan finds it on record, as the next end will be another. */
static gw_repair_answer answer_lack(const gw_repair_rules *rules, const gw_report *const *reports,
                                    const checkpoints *newest, uint64_t otherwise, bool settle,
                                    gw_install *install, char *text, size_t text_size) {
    const gw_inventory *known = newest->known;
    bool end = rules->latest_view_only && is_end(rules, reports, install->view.count, known);
    install->end_given_up = end && settle;
    if (end && settle && rules->some_may_come) {
        install->step = known->step;
        install->fingerprint = known->fingerprint;
        install->root = known->root;
        snprintf(text, text_size,
                 "the job has ended at step %llu, with sums that nobody makes again; some chunks of its last "
                 "checkpoint are on peers that are not here",
                 (unsigned long long)known->step);
        return GW_REPAIR_OVER;
    }
    tell_lack(rules, newest, otherwise, settle, text, text_size);
    return settle ? GW_REPAIR_READY : GW_REPAIR_WAIT;
}

static bool leader_is_fresh(const gw_report *const *reports, const gw_install *install) {
    int rank = gw_view_rank(&install->view, &install->view.leader);
    GW_ASSERT(rank >= 0);
    return reports[rank]->fresh;
}

/* Plans that all members load this checkpoint, which as far as is known the voters' disks have as a whole. */
static void plan_checkpoint(const gw_repair_rules *rules, const gw_report *const *reports,
                            const gw_inventory *checkpoint, gw_install *install) {
    bool complete = is_complete(rules, reports, install->view.count, checkpoint);
    gw_set_fill(&install->fetchers);
    install->load = GW_LOAD_MANIFEST;
    install->step = checkpoint->step;
    install->fingerprint = checkpoint->fingerprint;
    install->root = checkpoint->root;
    install->root_epoch = checkpoint->epoch;
    for (uint32_t i = 0; i < install->view.count; i++) {
        const gw_inventory *own = find_inventory(reports[i], &checkpoint->root);
        install->ended |= own != NULL && own->ended;
        install->inventories[i] = own != NULL ? gw_set_copy(&own->chunks) : gw_set_of(rules->state_chunks);
        if (own == NULL && !complete && reports[i]->orphans) gw_set_fill(&install->inventories[i]);
    }
}

/* The checkpoints that lead on from the state that is held: with exact sums the job will reach them, with
 * float sums it has been there. There are none if a voter wants none, or has just failed to load one. A
 * failed load costs nothing with exact sums. With float sums it costs the state; there a checkpoint that may
 * be complete is tried only when the proposer no longer waits for peers that may have the rest. */
static checkpoints later_checkpoints(const gw_repair_rules *rules, const gw_report *const *reports,
                                     uint32_t count, const gw_report *state, bool settle) {
    if (state->ended && !rules->latest_view_only) return (checkpoints){0};
    /* With float sums --fresh does not matter, since checkpoints from before are ignored (leads_on). */
    for (uint32_t i = 0; i < count; i++)
        if ((reports[i]->fresh && !rules->latest_view_only) || reports[i]->load_failed)
            return (checkpoints){0};
    return choose_checkpoints(rules, reports, count, state, !rules->latest_view_only || settle);
}

/* Nobody here can compute the state from which a job goes on, and it is not on the voters' disks as a
 * whole. */
static gw_repair_answer lack_first(const gw_repair_rules *rules, const checkpoints *newest, char *text,
                                   size_t text_size) {
    if (rules->first_step == GW_STEP_UNKNOWN)
        snprintf(text, text_size, "no peer here knows from which checkpoint the job goes on (--continue)");
    else if (newest->known == NULL)
        snprintf(text, text_size, "no peer here has the checkpoint of step %llu from which the job goes on",
                 (unsigned long long)rules->first_step);
    else
        tell_lack(rules, newest, 0, false, text, text_size);
    return GW_REPAIR_WAIT;
}

/* Plans for voters of which none has a state: the view begins with a checkpoint, or with S_0. With exact sums
 * the job reaches the later checkpoints by itself, so no peer is waited for that may bring the rest of one;
 * when it comes, all go on from that checkpoint. */
static gw_repair_answer plan_start(const gw_repair_rules *rules, const gw_report *const *reports, bool settle,
                                   gw_install *install, char *text, size_t text_size) {
    uint32_t count = install->view.count;
    checkpoints newest = {0};
    if (!leader_is_fresh(reports, install)) newest = choose_checkpoints(rules, reports, count, NULL, true);
    if (newest.complete == NULL && rules->first_step > 0) return lack_first(rules, &newest, text, text_size);
    gw_repair_answer answer = GW_REPAIR_READY;
    bool leads_there = newest.complete != NULL && !rules->latest_view_only;
    if (lacks_chunks(&newest))
        answer = answer_lack(rules, reports, &newest, 0, settle || leads_there, install, text, text_size);
    if (answer != GW_REPAIR_READY) return answer;
    if (newest.complete != NULL) {
        plan_checkpoint(rules, reports, newest.complete, install);
    } else {
        gw_set_fill(&install->fetchers);
        install->load = GW_LOAD_INIT;
    }
    return GW_REPAIR_READY;
}

/* Reduces the count of failed checks. If the members whose bits were the cause are known, their shards are
 * dealt again and the count begins anew. If members are absent, the cause may be gone with them, and the
 * shards are worth being computed once more. */
static void forgive(const gw_repair_rules *rules, gw_install *install) {
    if (gw_set_count(&rules->doubted) > 0)
        install->failures = 0;
    else if (rules->some_absent && install->failures > FAILURES_RECOMPUTE)
        install->failures = FAILURES_RECOMPUTE;
}

/* Plans which shards are missing. If the accumulators of two members overlap, the higher rank drops its
 * own. */
static void plan_shards(const gw_repair_rules *rules, const gw_report *const *reports, gw_install *install) {
    uint32_t shards = install->ended || install->step >= rules->steps
                          ? 0
                          : rules->shards(rules->shards_context, install->step);
    install->missing = gw_set_of(shards);
    for (uint32_t rank = 0; rank < install->view.count && shards > 0; rank++) {
        const gw_report *r = reports[rank];
        if (gw_set_has(&install->fetchers, rank)) continue;
        if (gw_set_has(&rules->doubted, rank)) {
            gw_set_add(&install->drops, rank);
            continue;
        }
        if (r->held.size != shards || install->failures >= FAILURES_RECOMPUTE) {
            if (r->held.size != 0) gw_set_add(&install->drops, rank);
            continue;
        }
        gw_set own = gw_set_copy(&r->held);
        gw_set_unite(&own, &r->claimed);
        if (gw_set_overlaps(&r->held, &r->claimed) || gw_set_overlaps(&own, &install->missing))
            gw_set_add(&install->drops, rank);
        else
            gw_set_unite(&install->missing, &own);
        gw_set_free(&own);
    }
    gw_set_complement(&install->missing);
}

/* Plans that all members go on from this state. */
static void plan_state(const gw_report *const *reports, const gw_report *state, gw_install *install) {
    install->load = GW_LOAD_PEERS;
    install->step = state->step;
    install->fingerprint = state->fingerprint;
    install->ended = state->ended;
    install->stopped = state->stopped;
    for (uint32_t i = 0; i < install->view.count; i++) {
        const gw_report *r = reports[i];
        bool holds = r->has_state && r->step == state->step && r->fingerprint == state->fingerprint;
        if (!holds) gw_set_add(&install->fetchers, i);
        if (holds && r->failures > install->failures) install->failures = r->failures;
    }
}

/* Plans for voters of which some have a state: the view goes on from it, or from a later checkpoint. With
 * exact sums the state leads to that checkpoint anyway, so the rest of one is not waited for. */
static gw_repair_answer plan_on(const gw_repair_rules *rules, const gw_report *const *reports,
                                const gw_report *state, bool settle, gw_install *install, char *text,
                                size_t text_size) {
    checkpoints later = later_checkpoints(rules, reports, install->view.count, state, settle);
    gw_repair_answer answer = GW_REPAIR_READY;
    if (rules->latest_view_only && lacks_chunks(&later))
        answer = answer_lack(rules, reports, &later, state->step, settle, install, text, text_size);
    if (answer != GW_REPAIR_READY) return answer;
    if (later.complete != NULL)
        plan_checkpoint(rules, reports, later.complete, install);
    else
        plan_state(reports, state, install);
    return GW_REPAIR_READY;
}

/* With float sums: unites the lineages that the holders of the state report. */
static void plan_lineage(const gw_repair_rules *rules, const gw_report *const *reports, gw_install *install) {
    if (!rules->latest_view_only || install->load != GW_LOAD_PEERS) return;
    for (uint32_t i = 0; i < install->view.count; i++) {
        const gw_lineage *lineage = &reports[i]->lineage;
        for (uint32_t k = 0; k < lineage->count && !gw_set_has(&install->fetchers, i); k++)
            if (lineage->list[k].step <= install->step) gw_lineage_add(&install->lineage, &lineage->list[k]);
    }
}

/* Unites what the holders of the state know of the best state up to it. */
static void plan_best(const gw_report *const *reports, gw_install *install) {
    if (install->load != GW_LOAD_PEERS) return;
    for (uint32_t i = 0; i < install->view.count; i++)
        if (!gw_set_has(&install->fetchers, i)) gw_best_unite(&install->best, &reports[i]->best);
}

/* Whether a checkpoint is in the lineage of the state from which the view goes on. With exact sums a step has
 * only one state. */
static bool is_behind(const gw_repair_rules *rules, const gw_install *install, uint64_t step,
                      const gw_hash *root) {
    return step <= install->step && (!rules->latest_view_only || gw_lineage_has(&install->lineage, root));
}

/* Whether the whole checkpoint of a voter is in the lineage of the state from which the view goes on. With
 * float sums the holders of a state know its lineage. A checkpoint that another voter of the same view names
 * belongs to it, too, though the holders may have forgotten it. */
static bool is_of_this_lineage(const gw_repair_rules *rules, const gw_report *voter, const gw_report *latest,
                               const gw_install *install) {
    if (is_behind(rules, install, voter->whole_step, &voter->whole_root)) return true;
    return voter->whole_step <= install->step && install->load == GW_LOAD_PEERS &&
           trusted(rules, voter, latest);
}

static void plan_whole(const gw_repair_rules *rules, const gw_report *const *reports, gw_install *install) {
    const gw_report *latest = latest_reporter(reports, install->view.count);
    for (uint32_t i = 0; i < install->view.count; i++) {
        const gw_report *r = reports[i];
        if (r->whole_step <= install->whole_step || !is_of_this_lineage(rules, r, latest, install)) continue;
        install->whole_step = r->whole_step;
        install->whole_root = r->whole_root;
    }
}

/* Whether a voter of lower rank reports the same checkpoint, so that each is examined once. */
static bool is_told_before(const gw_report *const *reports, uint32_t rank, const gw_inventory *checkpoint) {
    for (uint32_t i = 0; i < rank; i++) {
        const gw_inventory *own = find_inventory(reports[i], &checkpoint->root);
        if (own != NULL && own->epoch == checkpoint->epoch && own->step == checkpoint->step) return true;
    }
    return false;
}

/* Finds the newest checkpoint that is whole by what is on the voters' disks: all peers that knew it to be
 * complete may be dead. If the view loads a checkpoint, that one is known to be whole once it is loaded. */
static void plan_found(const gw_repair_rules *rules, const gw_report *const *reports, gw_install *install) {
    if (install->load != GW_LOAD_PEERS) return;
    for (uint32_t i = 0; i < install->view.count; i++) {
        for (uint32_t k = 0; k < reports[i]->inventory_count; k++) {
            const gw_inventory *one = &reports[i]->inventory[k];
            bool newer = one->step > install->whole_step && one->step > install->found_step;
            if (!newer || !is_behind(rules, install, one->step, &one->root) ||
                is_told_before(reports, i, one) || !is_complete(rules, reports, install->view.count, one))
                continue;
            install->found_step = one->step;
            install->found_root = one->root;
        }
    }
}

gw_repair_answer gw_repair_plan(const gw_repair_rules *rules, const gw_report *const *reports, bool settle,
                                gw_install *install, char *text, size_t text_size) {
    uint32_t count = install->view.count;
    GW_ASSERT(count > 0 && text_size >= 200);
    text[0] = '\0';
    install->fetchers = gw_set_of(count);
    install->drops = gw_set_of(count);
    install->unwritable = gw_set_of(count);
    for (uint32_t i = 0; i < count; i++)
        if (reports[i]->unwritable) gw_set_add(&install->unwritable, i);
    if (lacks_latest(rules, reports, count)) {
        snprintf(text, text_size,
                 "nobody here holds the last view's state, and some of its members are not here%s",
                 settle ? ": steps that were shown may be computed again, with other sums" : "");
        if (!settle) return GW_REPAIR_WAIT;
    }
    const gw_report *newest = best_state(rules, reports, count, UINT64_MAX),
                    *state = choose_state(rules, reports, count, newest);
    if (state != newest)
        snprintf(text, text_size, "as many hold one state of step %llu as another: back to step %llu",
                 (unsigned long long)newest->step, (unsigned long long)state->step);
    uint32_t rank;
    const gw_report *rival = state == NULL ? NULL : find_rival(rules, reports, count, state, &rank);
    if (rival != NULL) {
        tell_rival(&install->view, state, rival, rank, text, text_size);
        return GW_REPAIR_HALT;
    }
    gw_repair_answer answer = state == NULL
                                  ? plan_start(rules, reports, settle, install, text, text_size)
                                  : plan_on(rules, reports, state, settle, install, text, text_size);
    if (answer != GW_REPAIR_READY) return answer;
    plan_lineage(rules, reports, install);
    plan_best(reports, install);
    plan_whole(rules, reports, install);
    plan_found(rules, reports, install);
    forgive(rules, install);
    plan_shards(rules, reports, install);
    uint64_t speeds[GW_MAX_MEMBERS];
    for (uint32_t i = 0; i < count; i++) speeds[i] = reports[i]->speed;
    gw_deal_cut(gw_set_count(&install->missing), speeds, count, install->cuts);
    if (install->failures >= FAILURES_STOP) {
        snprintf(
            text, text_size,
            "the sum of step %llu failed its checks %u times, the last time after all was computed again",
            (unsigned long long)install->step, install->failures);
        return GW_REPAIR_STOP;
    }
    return GW_REPAIR_READY;
}
