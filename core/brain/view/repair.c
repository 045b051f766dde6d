#include "core/brain/view/repair.h"

#include "core/base/assert.h"
#include "core/shard/deal.h"

#include <stdio.h>
#include <string.h>

/* A third failed check of one step's sum stops the job: the first reduces again, the second recomputes all.
 */
enum { FAILURES_RECOMPUTE = 2, FAILURES_STOP = 3 };

/* Of the peers that have a state the report that names the latest view; NULL = nobody has one. */
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

static bool trusted(const gw_repair_rules *rules, const gw_report *report, const gw_report *latest) {
    if (!report->has_state) return false;
    return !rules->latest_view_only || gw_view_name_equal(&report->installed, &latest->installed);
}

/* How many trusted reports agree with `one` on step and fingerprint. */
static uint32_t support(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                        const gw_report *latest, const gw_report *one) {
    uint32_t agreeing = 0;
    for (uint32_t i = 0; i < count; i++)
        agreeing += trusted(rules, reports[i], latest) && reports[i]->step == one->step &&
                    reports[i]->fingerprint == one->fingerprint;
    return agreeing;
}

/* Of the states of fewer than `below` steps the highest step's, then what most hold; NULL = there is none. */
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

/* One that holds other bits of the same step, as do as many as hold those of `state`: NULL = nobody does. */
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

/* The report whose state the view goes on from; `newest`: the best of all. With exact sums a state that
 * nobody disputes leads to the right bits of every later step: it is preferred to a later one of which as
 * many hold other bits. */
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

/* Than the view whose state `latest` holds (NULL: than in none at all). */
static bool may_have_lived_later(const gw_report *voter, const gw_report *latest) {
    bool promised = voter->promised_epoch > voter->installed_epoch;
    uint64_t epoch = promised ? voter->promised_epoch : voter->installed_epoch;
    const gw_view_name *name = promised ? &voter->promised : &voter->installed;
    if (latest == NULL || epoch != latest->installed_epoch)
        return epoch > (latest == NULL ? 0 : latest->installed_epoch);
    return gw_view_name_compare(name, &latest->installed) > 0;
}

/* Whether a step may have been shown (core/brain/commit.c) whose state only somebody absent holds. All
 * members of a view hold what was shown in it, so one of them with its state knows; with none, those who
 * forgot their state may have shown one. */
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

/* Whether the checkpoint leads on from `state` (NULL: from nothing). Float sums: steps that everybody here
 * had forgotten may have been computed again since, and a checkpoint of the first time is not one of what
 * came of the second. All members of a view hold what is saved in it, so that what was saved in an earlier
 * one than the state's is behind it, or was given up. What was saved in a later one counts, also if it has
 * fewer steps: that view had nothing of the state's, which is the one that was given up. */
static bool leads_on(const gw_repair_rules *rules, const gw_inventory *checkpoint, const gw_report *state) {
    if (state == NULL) return true;
    if (checkpoint->ignored) return false;
    uint64_t epoch = rules->latest_view_only ? state->installed_epoch : 0;
    return gw_inventory_is_after(checkpoint, epoch, state->step);
}

/* Whether this voter's disk may have chunks of one that does. */
static bool lived_later(const gw_repair_rules *rules, const gw_report *voter, const gw_report *state) {
    if (state == NULL || !rules->latest_view_only) return true;
    return voter->installed_epoch > state->installed_epoch;
}

/* Whether it may be complete all the same, with chunks of it that somebody has and does not know them as
 * such, and that lead on from `state`. A load shows it, and whoever has tried that tells of this checkpoint
 * itself, if it tells of all. */
static bool may_be_complete(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                            const gw_report *state, const gw_inventory *checkpoint) {
    bool orphans = false;
    for (uint32_t i = 0; i < count; i++)
        orphans |= reports[i]->orphans && reports[i]->inventory_count < GW_MAX_INVENTORY &&
                   lived_later(rules, reports[i], state) &&
                   find_inventory(reports[i], &checkpoint->root) == NULL;
    return orphans && checkpoint->chunks.size == rules->state_chunks;
}

/* With exact sums a later state than `state` is one of two, of which as many hold the one as the other. What
 * all who hold such a one have on record is from before they differed; another one may be of either. */
static bool is_undisputed(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                          const gw_report *state, const gw_inventory *checkpoint) {
    for (uint32_t i = 0; i < count && state != NULL && !rules->latest_view_only; i++) {
        const gw_report *r = reports[i];
        bool later = r->has_state && r->step > state->step && r->step >= checkpoint->step;
        if (later && find_inventory(r, &checkpoint->root) == NULL) return false;
    }
    return true;
}

typedef struct checkpoints { /* the newest among the reports; NULL = there is none */
    const gw_inventory *known, *complete;
} checkpoints;

/* Of those that lead on from `state`. `daring`: one that may be complete counts as complete. */
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

/* Of two of one step either will do. */
static bool lacks_chunks(const checkpoints *newest) {
    const gw_inventory *complete = newest->complete;
    return newest->known != NULL &&
           (complete == NULL || gw_inventory_is_after(newest->known, complete->epoch, complete->step));
}

static void tell_lack(const checkpoints *newest, uint64_t otherwise, bool settle, char *text,
                      size_t text_size) {
    unsigned long long known = newest->known->step,
                       from = newest->complete == NULL ? otherwise : newest->complete->step;
    if (settle)
        snprintf(text, text_size,
                 "checkpoint of step %llu is known, but nobody here has all of it: beginning at step %llu",
                 known, from);
    else
        snprintf(text, text_size,
                 "checkpoint of step %llu is known, but some of its chunks are on peers that are not here",
                 known);
}

/* Somebody has it on record as the job's last state. It has that from the leader of a view whose members all
 * held this state. */
static bool is_end(const gw_repair_rules *rules, const gw_report *const *reports, uint32_t count,
                   const gw_inventory *checkpoint) {
    bool end = checkpoint->step >= rules->steps;
    for (uint32_t i = 0; i < count; i++) {
        const gw_inventory *own = find_inventory(reports[i], &checkpoint->root);
        end |= own != NULL && own->ended;
    }
    return end;
}

/* What the voters do about a newer checkpoint that they cannot complete. With float sums the job's end is not
 * made again while somebody absent may have the rest of it: others may have ended with it, and said so, and
 * do not come back to hear of another. All members whose disks took it had it on record before anybody ended,
 * so that a majority knows, unless disks failed. Where nobody can bring the rest it is lost: then no later
 * plan is to find it on record, as the end that is made next is another. */
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
    tell_lack(newest, otherwise, settle, text, text_size);
    return settle ? GW_REPAIR_READY : GW_REPAIR_WAIT;
}

static bool leader_is_fresh(const gw_report *const *reports, const gw_install *install) {
    int rank = gw_view_rank(&install->view, &install->view.leader);
    GW_ASSERT(rank >= 0);
    return reports[rank]->fresh;
}

/* All go on from this checkpoint, which the voters' disks complete, for all that is known. */
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

/* Checkpoints that lead on from the state that is held: the job will come to them (exact sums), or has been
 * there (float sums). None when somebody wants none, or could not load one just now. A load that fails costs
 * nothing with exact sums. With float sums it costs the state: one that may be complete is tried when nobody
 * else is waited for who may have the rest. */
static checkpoints later_checkpoints(const gw_repair_rules *rules, const gw_report *const *reports,
                                     uint32_t count, const gw_report *state, bool settle) {
    if (state->ended && !rules->latest_view_only) return (checkpoints){0};
    /* --fresh: with float sums what was saved since counts. */
    for (uint32_t i = 0; i < count; i++)
        if ((reports[i]->fresh && !rules->latest_view_only) || reports[i]->load_failed)
            return (checkpoints){0};
    return choose_checkpoints(rules, reports, count, state, !rules->latest_view_only || settle);
}

/* Nobody has a state: from a checkpoint, or from S_0. With exact sums a checkpoint leads to those after it,
 * and who brings the rest of one is not waited for: when it comes, all go on from that. */
static gw_repair_answer plan_start(const gw_repair_rules *rules, const gw_report *const *reports, bool settle,
                                   gw_install *install, char *text, size_t text_size) {
    uint32_t count = install->view.count;
    checkpoints newest = {0};
    if (!leader_is_fresh(reports, install)) newest = choose_checkpoints(rules, reports, count, NULL, true);
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

/* Checks that failed in a row: whose bits were the cause is known, and dealt again; or may have gone with
 * them, which is worth another try from the beginning. */
static void forgive(const gw_repair_rules *rules, gw_install *install) {
    if (gw_set_count(&rules->doubted) > 0)
        install->failures = 0;
    else if (rules->some_absent && install->failures > FAILURES_RECOMPUTE)
        install->failures = FAILURES_RECOMPUTE;
}

/* Members that hold the state; overlaps cost the higher rank its accumulator. */
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

/* All go on from this state. */
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

/* Somebody has a state: from there, or from a later checkpoint. With exact sums the state leads there anyway,
 * and nobody waits for the rest of one. */
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

/* With float sums: what those know who hold the state. */
static void plan_lineage(const gw_repair_rules *rules, const gw_report *const *reports, gw_install *install) {
    if (!rules->latest_view_only || install->load != GW_LOAD_PEERS) return;
    for (uint32_t i = 0; i < install->view.count; i++) {
        const gw_lineage *lineage = &reports[i]->lineage;
        for (uint32_t k = 0; k < lineage->count && !gw_set_has(&install->fetchers, i); k++)
            if (lineage->list[k].step <= install->step) gw_lineage_add(&install->lineage, &lineage->list[k]);
    }
}

/* Whether the state that the view goes on from has come from there. With exact sums a step has one state. */
static bool is_behind(const gw_repair_rules *rules, const gw_install *install, uint64_t step,
                      const gw_hash *root) {
    return step <= install->step && (!rules->latest_view_only || gw_lineage_has(&install->lineage, root));
}

/* With float sums who holds a state knows what is behind it, and one that any other voter of the same view
 * holds is of that lineage, though it may have been forgotten. */
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

/* Whether a voter of lower rank tells of it as well: each is looked at once, however many have it. */
static bool is_told_before(const gw_report *const *reports, uint32_t rank, const gw_inventory *checkpoint) {
    for (uint32_t i = 0; i < rank; i++) {
        const gw_inventory *own = find_inventory(reports[i], &checkpoint->root);
        if (own != NULL && own->epoch == checkpoint->epoch && own->step == checkpoint->step) return true;
    }
    return false;
}

/* Those who were told that it is complete may all be dead; the voters' disks say what is whole. One that is
 * to be loaded is known to be whole when it has been. */
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
