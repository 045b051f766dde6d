/* Installing a view: from its leader's INSTALL to the moment when all its members hold the state. */
#include "core/brain/view/install.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/commit.h"
#include "core/brain/faults/path_errors.h"
#include "core/brain/faults/verdicts.h"
#include "core/brain/faults/verify.h"
#include "core/brain/job_state.h"
#include "core/brain/members/contacts.h"
#include "core/brain/members/links.h"
#include "core/brain/members/poison.h"
#include "core/brain/outbox.h"
#include "core/brain/record.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/deadlines.h"
#include "core/brain/save/job_end.h"
#include "core/brain/save/kept.h"
#include "core/brain/save/leave.h"
#include "core/brain/self.h"
#include "core/brain/state.h"
#include "core/brain/step/steps.h"
#include "core/brain/view/majority.h"

#include <inttypes.h>
#include <string.h>

enum {
    MOST_LOAD_FAILURES = 5, /* failed loads of one state after which this peer leaves */
    PAUSES_BETWEEN = 10,    /* two admissions are at least so many times as far apart as the last one took */
    HOLDERS_MS =
        30000, /* the holders of a checkpoint's chunks may be out of reach, again and again, this long */
};

/* Readiness. */

static void expect_ready(gw_peer *p, const gw_view *view) {
    if (p->view.ready.size == view->count && gw_view_name_equal(&p->view.ready_name, &view->name)) return;
    gw_set_free(&p->view.ready);
    p->view.ready = gw_set_of(view->count);
    p->view.ready_name = view->name;
    p->view.ready_whole = (gw_checkpoint_ref){0};
}

/* Whether the step waits for the durable record of deaths: a peer that dies of a shard, and is started again
 * alone, must know who died of it before. */
static bool waits_for_record(const gw_peer *p) {
    return p->members.deaths.count > 0 && p->record.token != 0 && p->now < p->record.due_ns;
}

static void note_pause(gw_peer *p) {
    if (p->view.pause_since_ns == 0) return;
    uint64_t pause_ns = p->now - p->view.pause_since_ns;
    p->view.pause_since_ns = 0;
    p->view.admit_at_ns = p->now + PAUSES_BETWEEN * pause_ns;
    if (p->view.newcomers == 0) return;
    gw_action *notice = gw_peer_notice(p, GW_NOTICE_JOINED, " ");
    notice->notice.joined.pause_ns = pause_ns;
    notice->notice.joined.newcomers = p->view.newcomers;
    p->view.newcomers = 0;
}

/* Begins the rest of the step, with a checkpoint if the view before it has not got one of the best state. */
static void begin(gw_peer *p) {
    if (gw_job_state_is_unsaved_best(p)) gw_saves_open(p, false);
    gw_steps_begin(p, &p->view.missing, p->view.cuts);
}

static void start_if_all_ready(gw_peer *p) {
    GW_ASSERT(p->phase == GW_AT_LOADING || p->phase == GW_AT_GATHERING);
    if (gw_set_count(&p->view.ready) < p->view.current.count || waits_for_record(p)) return;
    note_pause(p);
    p->view.load_failures = 0;
    if (p->view.end_given_up)
        gw_kept_give_up_end(p); /* not earlier, as a load may need chunks without a manifest here */
    p->view.end_given_up = false;
    gw_commit_agreed(p);
    bool begun = gw_set_count(&p->view.missing) < p->view.missing.size;
    if (p->state.ended)
        gw_saves_end(p);
    else if (begun || !gw_leave_rest(p))
        begin(p);
}

/* The newest checkpoint that this peer knows to be whole and in the lineage of the view's state; step 0:
 * none. */
static gw_checkpoint_ref known_whole(const gw_peer *p) {
    const gw_checkpoint_ref none = {0}, whole = gw_kept_whole(p);
    return whole.step <= p->state.step ? whole : none;
}

static void become_ready(gw_peer *p) {
    p->view.own_ready = true;
    gw_set_add(&p->view.ready, (uint32_t)gw_peer_own_rank(p));
    const gw_checkpoint_ref whole = known_whole(p);
    gw_kept_tell_whole(p, &whole);
    start_if_all_ready(p);
}

void gw_install_consider(gw_peer *p) {
    bool gathers = p->phase == GW_AT_LOADING || p->phase == GW_AT_GATHERING;
    if (gathers && p->members.deaths.count > 0) start_if_all_ready(p);
}

uint64_t gw_install_deadline(const gw_peer *p) {
    bool gathers = p->phase == GW_AT_LOADING || p->phase == GW_AT_GATHERING;
    return gathers && waits_for_record(p) ? p->record.due_ns : UINT64_MAX;
}

/* Installing. */

/* Lists the sources of a load. If bits have changed on the way here, each load begins with another donor, so
 * that it is not always the same one that is accused. Holders of a checkpoint are listed by rank, like their
 * inventories. */
static const gw_peer_id *list_donors(gw_peer *p, const gw_install *i, bool holders, uint32_t *count) {
    gw_peer_id donors[GW_MAX_MEMBERS], turned[GW_MAX_MEMBERS];
    *count = 0;
    for (uint32_t rank = 0; rank < i->view.count; rank++)
        if (holders || !gw_set_has(&i->fetchers, rank)) donors[(*count)++] = i->view.members[rank].id;
    for (uint32_t k = 0; k < *count; k++)
        turned[k] = donors[holders ? k : (p->faults.path_errors.count + k) % *count];
    return gw_actions_copy(p->actions, turned, *count * sizeof turned[0]);
}

static void notice_resume(gw_peer *p, gw_notice_kind kind, uint64_t step, const gw_hash *root) {
    gw_action *notice = gw_peer_notice(p, kind, "from the checkpoint of step %" PRIu64, step);
    notice->step = step;
    notice->notice.checkpoint.root = *root;
}

/* Ends a load at once, as failed. On a disk that hangs it would end this peer, and with it the state that it
 * holds. The peers that can load the checkpoint have it in memory when the next view is formed. */
static void load_nothing(gw_peer *p) {
    const gw_event failed = {.kind = GW_EV_LOADED,
                             .token = p->view.load_token,
                             .outcome = GW_FAILED,
                             .text = "the disk here hangs"};
    gw_install_loaded(p, &failed);
}

/* Warns if this peer and others disagree about --fresh. If no peer has a state, that of the leader
 * decides. */
static void say_if_fresh(gw_peer *p, const gw_install *i) {
    const gw_inventory *newest = gw_peer_inventory_newest(&p->inventory);
    if (i->load == GW_LOAD_MANIFEST && p->config.fresh && p->view.views_installed == 1)
        gw_peer_say(p, GW_WARN,
                    "this peer was started with --fresh, but goes on from the checkpoint of step %" PRIu64
                    ", as others were not: to begin anew, start all with --fresh",
                    i->step);
    if (i->load == GW_LOAD_INIT && newest != NULL && !gw_peer_is_leader(p)) /* who has said why itself */
        gw_peer_say(p, GW_WARN,
                    "beginning at step 0, though the checkpoint of step %" PRIu64
                    " is here: not all of it is, or the leader was started with --fresh",
                    newest->step);
}

/* Tells what becomes of the steps that this peer has made apart from the others. A member that is one step
 * behind has only missed the end of that step. */
static void say_if_parted(gw_peer *p, const gw_install *i) {
    bool apart = p->state.present && (p->state.step + 1 < i->step || p->state.step > i->step);
    if (i->load != GW_LOAD_PEERS || !apart) return;
    gw_peer_say(
        p, GW_INFO,
        "taking the state of step %" PRIu64 " from the others in place of the own one of step %" PRIu64
        ": %s",
        i->step, p->state.step,
        p->config.fast
            ? "what was computed here since they parted is given up"
            : "what was computed here since they parted is computed there as well, with the same bits");
}

static void load_state(gw_peer *p, const gw_install *i) {
    say_if_fresh(p, i);
    say_if_parted(p, i);
    p->phase = GW_AT_LOADING;
    p->view.load_token = gw_peer_token(p);
    p->view.load_kind = i->load;
    p->view.load_step = i->step;
    p->view.load_fingerprint = i->fingerprint;
    p->view.load_root = i->root;
    p->view.load_epoch = i->root_epoch;
    p->view.load_best = i->best;
    p->view.load_ended = i->ended;
    p->view.load_view = (gw_view_ref){.epoch = i->view.epoch, .name = i->view.name};
    if (i->load == GW_LOAD_MANIFEST && p->save.disk_hangs) {
        load_nothing(p);
        return;
    }
    gw_action *load = gw_peer_act(p, GW_ACT_LOAD);
    load->token = p->view.load_token;
    load->load.kind = i->load;
    load->step = i->step;
    load->load.fingerprint = i->fingerprint;
    load->load.root = i->root;
    gw_deadlines_load_begins(p);
    const gw_peer_id *peers = list_donors(p, i, i->load == GW_LOAD_MANIFEST, &load->load.source_count);
    if (i->load == GW_LOAD_MANIFEST) {
        load->load.sources = peers;
        gw_set *inventories =
            gw_actions_copy(p->actions, i->inventories, i->view.count * sizeof *inventories);
        for (uint32_t k = 0; k < i->view.count; k++)
            inventories[k] = *gw_actions_copy_set(p->actions, &i->inventories[k]);
        load->load.inventories = inventories;
        notice_resume(p, GW_NOTICE_RESUMING, i->step, &i->root);
    } else {
        load->load.sources = peers;
    }
}

/* The number of members of `view` that were not in `other`, or in another life. */
static uint32_t count_strangers(const gw_view *view, const gw_view *other) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < view->count; k++) {
        const gw_member *member = &view->members[k];
        count += gw_view_rank_of_life(other, &member->id, member->boot, member->nonce) < 0;
    }
    return count;
}

/* Counts newcomers, and returns whether the view has only grown; for a newcomer itself it has. Newcomers of a
 * view that came to nothing, for which the others still wait, stay counted. */
static bool note_newcomers(gw_peer *p, const gw_view *view) {
    bool comes = p->view.current.epoch == 0, stay = !comes && count_strangers(&p->view.current, view) == 0;
    if (comes) p->view.pause_since_ns = 0;
    if (!stay || p->view.pause_since_ns == 0) p->view.newcomers = 0;
    if (!comes) p->view.newcomers += count_strangers(view, &p->view.current);
    if (p->view.newcomers > 0 && p->view.pause_since_ns == 0) p->view.pause_since_ns = p->now;
    return comes || (stay && p->view.newcomers > 0);
}

/* Sends the notices of a new view. `grew`: the rest of the step is dealt again only because there are more
 * members. */
static void note_install(gw_peer *p, const gw_install *i, bool grew, uint64_t cause_ns) {
    p->view.views_installed++;
    gw_peer_waits_no_more(p);
    gw_action *notice = gw_peer_notice(p, GW_NOTICE_VIEW, "%s", i->cause);
    notice->notice.view.installed = gw_actions_copy(p->actions, &p->view.current, sizeof p->view.current);
    notice->step = i->step;
    notice->notice.view.duration_ns = cause_ns == 0 ? i->cause_age_ns : p->now - cause_ns;
    uint32_t dealt = gw_set_count(&i->missing);
    bool again = dealt < i->missing.size || gw_shard_deaths_in_step(&i->losses, i->step);
    bool repaired = i->load == GW_LOAD_PEERS && i->missing.size > 0 && (i->failures > 0 || (again && !grew));
    if (!repaired) return;
    p->view.steps_repaired++;
    p->view.shards_repaired += dealt;
    gw_action *repair = gw_peer_notice(p, GW_NOTICE_REPAIR, "%s", i->cause);
    repair->step = i->step;
    repair->notice.repair.shards = dealt;
}

static void adopt_view(gw_peer *p, const gw_install *i) {
    bool founded = p->view.current.epoch == 0;
    p->view.current = i->view;
    gw_ballot_install(&p->view.ballot, &i->view);
    if (p->view.ballot.majority) {
        gw_peer_record_write(
            p); /* a later life founds on this view, and must not need members of the view before */
        uint32_t kept = 0;
        for (uint32_t k = 0; k < p->view.learned_count; k++) {
            if (gw_view_compare(&p->view.learned[k], &i->view) <= 0) continue;
            gw_majority_keep_learned(p, k, kept++);
        }
        p->view.learned_count = kept;
    }
    gw_agenda_clear(p);
    p->view.repair_sent_ns = 0;
    p->view.wait_since_ns = 0;
    gw_links_look_anew(p);
    gw_end_forget_loneliness(p);
    p->view.healing = p->view.view_override = false;
    for (uint32_t k = 0; k < p->view.current.count; k++)
        gw_saves_note_disk(p, k, gw_set_has(&i->unwritable, k));
    gw_contacts_view_begins(p, founded);
    gw_peer_act(p, GW_ACT_INSTALL)->install.view =
        gw_actions_copy(p->actions, &p->view.current, sizeof p->view.current);
}

/* Asks for a new view if a member has died between its vote and now, as its death was reported before this
 * view. */
static void mourn(gw_peer *p) {
    char id[GW_SHORT_TEXT];
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        const gw_contact *contact = gw_peer_contact(p, &p->view.current.members[rank].id);
        if (contact == NULL || contact->alive_since_ns == 0 ||
            gw_contacts_member_lives(p, &p->view.current, rank))
            continue;
        gw_agenda_change_view(p, "peer %s died", gw_peer_id_short(&contact->id, id));
    }
}

/* What members were convicted of, this peer perhaps among them. False: this peer has ended. */
static bool hear_verdicts(gw_peer *p, const gw_install *i) {
    bool changed = false, hears = gw_verdicts_take_over(p, i, &changed);
    if (hears && !p->view.ballot.majority)
        gw_kept_give_up_after(p, gw_convictions_of(&i->convictions, &p->config.id)->step, i->spared,
                              i->spared_count);
    if (changed) gw_peer_record_write(p);
    return gw_verify_accepts(p, i, hears);
}

void gw_install_adopt(gw_peer *p, const gw_install *i) {
    GW_ASSERT(p->phase == GW_AT_FROZEN && p->view.load_token == 0 && !p->step.applying);
    bool grew = note_newcomers(p, &i->view);
    uint64_t cause_ns = p->agenda.cause_ns;
    adopt_view(p, i);
    note_install(p, i, grew, cause_ns);
    gw_path_errors_view_begins(p, i);
    gw_poison_unite(p, &i->losses, i->step);
    if (p->phase == GW_AT_OVER || !hear_verdicts(p, i)) return;
    uint32_t rank = (uint32_t)gw_peer_own_rank(p);
    gw_verify_forget_doubt(p);
    gw_poison_agree(p, &i->losses);
    gw_steps_view_begins(p, i);
    bool ended = i->ended || i->step >= p->config.steps; /* then the final checkpoint was found again */
    gw_job_state_set_end(p, i->step, ended, i->stopped);
    p->view.end_given_up = i->end_given_up;
    if (!p->state.ended) gw_end_forget(p);
    /* A peer holds the state also if the view loads a checkpoint of it, unless the manifest has to say which
     * state is the best up to it: all members need the same answer. */
    bool tells_best = p->config.best.on && i->load == GW_LOAD_MANIFEST;
    bool holds = !tells_best && p->state.present && p->state.step == i->step && i->fingerprint != 0 &&
                 p->state.fingerprint == i->fingerprint;
    expect_ready(p, &p->view.current);
    const gw_checkpoint_ref whole = {i->whole_step, i->whole_root};
    gw_checkpoint_ref_take_newer(&p->view.ready_whole, &whole);
    bool later = p->config.fast && !holds && gw_set_has(&i->fetchers, rank);
    if (!later) gw_kept_note_whole(p, &p->view.ready_whole);
    gw_kept_view_begins(p, i, holds);
    gw_set_free(&p->view.missing);
    p->view.missing = gw_set_copy(&i->missing);
    memcpy(p->view.cuts, i->cuts, sizeof p->view.cuts);
    for (uint32_t k = 0; k < p->view.current.count; k++)
        if (!gw_set_has(&i->fetchers, k)) gw_set_add(&p->view.ready, k);
    p->view.own_ready = !gw_set_has(&i->fetchers, rank);
    if (p->step.accumulator_step != i->step || gw_set_has(&i->drops, rank) || !p->view.own_ready)
        gw_steps_begin_accumulator(p, i->step);
    if (p->view.own_ready || holds)
        p->view.state_view = (gw_view_ref){.epoch = i->view.epoch, .name = i->view.name};
    if (holds) gw_job_state_set_best(p, &i->best);
    if (p->view.own_ready) {
        p->phase = GW_AT_GATHERING;
        const gw_checkpoint_ref known = known_whole(p); /* it may have become known since the vote */
        if (known.step > p->view.ready_whole.step) gw_kept_tell_whole(p, &known);
        start_if_all_ready(p);
    } else if (holds) {
        p->phase = GW_AT_LOADING;
        if (i->load == GW_LOAD_MANIFEST) gw_kept_resumed(p, i->step, &i->root);
        become_ready(p);
    } else {
        load_state(p, i);
    }
    if (p->phase == GW_AT_OVER) return;
    mourn(p);
    if (!gw_peer_is_leader(p)) gw_saves_remind(p);
}

void gw_install_receive(gw_peer *p, const gw_contact *from, const gw_message *m) {
    const gw_install *i = m->install.install;
    if (!gw_peer_id_equal(&i->view.leader, &from->id)) return;
    if (p->phase != GW_AT_FROZEN || !gw_view_name_equal(&i->view.name, &p->view.voted.name)) return;
    if (!p->view.frozen || p->step.applying || p->view.load_token != 0 || p->step.reduce_token != 0)
        return; /* it cannot have this peer's vote */
    gw_install_adopt(p, i);
}

/* Notes what a READY says: a checkpoint in the lineage of the view's state is whole. If this peer fetches
 * that state, it may hold another one meanwhile, and keep it if the load fails. */
static void note_whole(gw_peer *p, bool installed, const gw_checkpoint_ref *whole) {
    if (whole->step == 0) return;
    if (installed && p->view.load_token != 0) gw_kept_note_load(p, whole);
    bool of_view = installed && p->view.own_ready && whole->step <= p->state.step;
    if (of_view || gw_kept_is_behind(p, whole)) gw_kept_note_whole(p, whole);
}

void gw_install_receive_ready(gw_peer *p, const gw_contact *from, const gw_message *m) {
    bool installed = gw_view_name_equal(&m->name, &p->view.current.name);
    bool voted = p->phase == GW_AT_FROZEN && gw_view_name_equal(&m->name, &p->view.voted.name);
    if (!installed && !voted) return;
    const gw_view *view = installed ? &p->view.current : &p->view.voted;
    const gw_checkpoint_ref whole = m->ready.whole;
    int rank = gw_view_rank(view, &from->id);
    if (rank < 0) return;
    note_whole(p, installed, &whole);
    if (installed && p->phase != GW_AT_LOADING && p->phase != GW_AT_GATHERING) return;
    expect_ready(p, view);
    gw_checkpoint_ref_take_newer(&p->view.ready_whole, &whole);
    gw_set_add(&p->view.ready, (uint32_t)rank);
    if (installed) start_if_all_ready(p);
}

static uint64_t lives_of(const gw_view *view) {
    uint64_t lives = 0;
    for (uint32_t i = 0; i < view->count; i++) lives += gw_mix64(view->members[i].nonce);
    return lives;
}

/* Counts how often this very state could not be fetched. A peer that finds one checkpoint after another
 * damaged comes to the end of them, since the holders correct their inventories and the checkpoint is not
 * chosen again. A holder that was started again has to find once more which chunks are damaged, which may
 * take long; so the count begins anew if the members' lives have changed. */
static uint64_t count_failure(gw_peer *p) {
    uint64_t lives = lives_of(&p->view.current); /* which has not changed since the load began */
    bool found_out = p->view.load_kind != GW_LOAD_MANIFEST || p->view.failed_lives == lives;
    bool same = found_out && p->view.failed_step == p->view.load_step &&
                gw_hash_equal(&p->view.failed_root, &p->view.load_root);
    if (!same) p->view.load_failures = 0;
    if (p->view.load_failures == 0) p->view.failing_since_ns = p->now;
    p->view.failed_step = p->view.load_step;
    p->view.failed_root = p->view.load_root;
    p->view.failed_lives = lives;
    return ++p->view.load_failures;
}

/* Whether nothing suggests that this very state can still be fetched. For a checkpoint, the links to the
 * holders of the rest may come and go, and each try tells the others which of its chunks are here. */
static bool fails_for_good(gw_peer *p) {
    if (gw_links_lack_data(p)) return false; /* the link comes back, or one of its ends is left out */
    bool often = count_failure(p) >= MOST_LOAD_FAILURES;
    bool may_be_reached = p->view.load_kind == GW_LOAD_MANIFEST &&
                          p->now < p->view.failing_since_ns + gw_peer_ms(p, HOLDERS_MS);
    return often && !may_be_reached;
}

static gw_inventory loaded_checkpoint(const gw_peer *p) {
    return (gw_inventory){.epoch = p->view.load_epoch,
                          .step = p->view.load_step,
                          .root = p->view.load_root,
                          .fingerprint = p->view.load_fingerprint,
                          .ended = p->view.load_ended,
                          .chunks = {.size = p->config.state_chunks}};
}

void gw_install_loaded(gw_peer *p, const gw_event *event) {
    if (event->token != p->view.load_token) return;
    p->view.load_token = 0;
    bool other = event->outcome == GW_DONE && p->view.load_fingerprint != 0 &&
                 event->loaded.fingerprint != p->view.load_fingerprint;
    if (event->outcome == GW_DONE) {
        gw_job_state_take(p, p->view.load_step, event->loaded.fingerprint, !other);
        const gw_best *bests[] = {[GW_LOAD_INIT] = NULL,
                                  [GW_LOAD_MANIFEST] = &event->loaded.best,
                                  [GW_LOAD_PEERS] = &p->view.load_best};
        gw_job_state_set_best(p, bests[p->view.load_kind]);
        gw_commit_loaded(p);
        p->view.state_view = p->view.load_view;
        p->view.loaded_epoch = p->view.load_view.epoch;
        gw_leave_loaded(p);
        gw_poison_forget(p, p->state.step);
        gw_kept_took_state(p);
        if (!other &&
            p->view.load_kind == GW_LOAD_MANIFEST) { /* not earlier, as the checkpoint may not be whole */
            const gw_inventory what = loaded_checkpoint(p);
            gw_peer_inventory_loaded(&p->inventory, &what, event->loaded.held);
            gw_kept_resumed(p, p->view.load_step, &p->view.load_root);
            notice_resume(p, GW_NOTICE_RESUMED, p->view.load_step, &p->view.load_root);
        }
        if (!other && !p->view.ballot.majority) gw_commit_agreed(p);
    }
    if (event->outcome != GW_DONE || other) {
        const char *why = other ? "its fingerprint differs" : gw_peer_why(event);
        if (p->view.load_kind == GW_LOAD_MANIFEST) {
            const gw_inventory what = loaded_checkpoint(p);
            gw_peer_inventory_failed(&p->inventory, &what, event->loaded.held);
        }
        if (event->loaded.changed && gw_path_errors_note(p, event, "the state"))
            gw_links_blame_path(p, &event->peer);
        /* If the view changes, the sources may have died, which is no fault of this state. */
        bool changing = p->phase == GW_AT_FROZEN || p->agenda.view_change || p->view.current.epoch == 0;
        bool of_the_path = event->loaded.changed &&
                           p->view.current.count > 2; /* then the path or one of its ends is left out */
        if (!changing && !of_the_path && fails_for_good(p)) {
            gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                           "the state of step %" PRIu64 " could not be fetched: %s", p->view.load_step, why);
            return;
        }
        gw_peer_say(p, GW_WARN, "the state of step %" PRIu64 " could not be fetched: %s", p->view.load_step,
                    why);
        gw_agenda_suspect_states(p);
        if (p->phase != GW_AT_FROZEN) gw_agenda_change_view(p, "a member could not fetch the state");
    } else if (p->phase == GW_AT_LOADING) {
        become_ready(p);
    }
}

/* A link to a member is new: sends again what the member may have missed. */
void gw_install_link_up(gw_peer *p, const gw_contact *contact) {
    bool own =
        p->view.installed != NULL && gw_view_name_equal(&p->view.installed->view.name, &p->view.current.name);
    if (own) { /* this peer leads the view */
        gw_message message = {.kind = GW_MSG_INSTALL,
                              .epoch = p->view.current.epoch,
                              .name = p->view.current.name,
                              .install.install = p->view.installed};
        gw_peer_send(p, &contact->id, &message);
    }
    if (p->view.own_ready) {
        const gw_checkpoint_ref whole = known_whole(p);
        gw_message message = gw_kept_ready(p, &whole);
        gw_peer_send(p, &contact->id, &message);
    }
}
