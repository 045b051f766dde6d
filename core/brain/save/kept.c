/* The checkpoints that are recorded here: which of them are whole and in the lineage of the state that this
 * peer holds, and which of them are kept when room is made. */
#include "core/brain/save/kept.h"

#include "core/base/assert.h"
#include "core/brain/job_state.h"
#include "core/brain/outbox.h"
#include "core/brain/record.h"
#include "core/brain/save/holders.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 1000 }; /* between two looks at who is gone */

/* Whole checkpoints. */

/* With exact sums a step has only one state, and nothing that is written contains an epoch. */
uint64_t gw_kept_epoch(const gw_peer *p, uint64_t epoch) {
    return p->config.fast ? epoch : 0;
}

gw_checkpoint_ref gw_kept_whole(const gw_peer *p) {
    const gw_checkpoint_ref none = {0}, *newest = gw_kept_newest(p);
    return newest != NULL && gw_kept_knows_lineage(p) ? *newest : none;
}

const gw_checkpoint_ref *gw_kept_newest(const gw_peer *p) {
    for (uint32_t i = p->save.kept_count; i-- > 0;)
        if (p->save.kept[i].step == p->save.saved_step) return &p->save.kept[i];
    GW_ASSERT(p->save.saved_step == UINT64_MAX);
    return NULL;
}

void gw_kept_consider(gw_peer *p) {
    const gw_checkpoint_ref *known = gw_kept_newest(p);
    char text[GW_HOLDERS_TEXT];
    bool ends = p->phase == GW_AT_ENDING || p->save.end_sent;
    if (p->now < p->save.holders_due_ns || known == NULL || ends || p->phase == GW_AT_FROZEN) return;
    p->save.holders_due_ns = p->now + gw_peer_ms(p, LOOK_MS);
    bool away = !gw_holders_live(p, known);
    if (away && !p->save.away_logged)
        gw_peer_say(p, GW_WARN,
                    "no peer that is here has all of the checkpoint of step %" PRIu64
                    ", the newest: peers that are gone have the rest. %s",
                    known->step, gw_holders_unsaved(p, text));
    p->save.away_logged = away;
}

static void keep_no_more(gw_peer *p, uint32_t at) {
    GW_ASSERT(at < p->save.kept_count);
    memmove(p->save.kept + at, p->save.kept + at + 1, (--p->save.kept_count - at) * sizeof *p->save.kept);
}

void gw_kept_take_back(gw_peer *p, const gw_hash *root) {
    if (gw_given_up_drop(&p->save.given_up, root)) gw_peer_record_write(p);
}

/* Keeps a checkpoint. If steps have left the state as it was, its root is kept for an earlier step already,
 * and that entry is replaced. */
static void keep_root(gw_peer *p, uint64_t step, const gw_hash *root) {
    gw_kept_take_back(p, root);
    for (uint32_t i = 0; i < p->save.kept_count; i++) {
        if (!gw_hash_equal(&p->save.kept[i].root, root)) continue;
        if (p->save.kept[i].step == step) return;
        keep_no_more(p, i);
        break;
    }
    if (p->save.kept_count == p->config.keep) keep_no_more(p, 0);
    p->save.kept[p->save.kept_count++] = (gw_checkpoint_ref){step, *root};
}

static void note_newest(gw_peer *p, uint64_t step, const gw_hash *root) {
    p->save.saved_step = step;
    p->save.saved_behind = true;
    p->save.saved_ns = p->now;
    keep_root(p, step, root);
    const gw_checkpoint_ref whole = {step, *root};
    gw_job_state_note_checkpoint(p, &whole);
}

static void note_saved(gw_peer *p, uint64_t step, const gw_hash *root, const gw_set *ranks) {
    p->save.save_again_ns = 0;
    note_newest(p, step, root);
    gw_holders_note(p, root, ranks);
}

/* Each member that can write has kept the chunks that are placed on it. */
void gw_kept_resumed(gw_peer *p, uint64_t step, const gw_hash *root) {
    gw_set ranks = gw_set_of(p->view.current.count);
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        if (!p->save.unwritable_to_all[rank]) gw_set_add(&ranks, rank);
    note_saved(p, step, root, &ranks);
    gw_set_free(&ranks);
}

static void tell_complete(gw_peer *p, uint64_t step, const gw_hash *root) {
    gw_action *notice = gw_peer_notice(p, GW_NOTICE_CHECKPOINT, " ");
    notice->step = step;
    notice->notice.checkpoint.root = *root;
}

bool gw_kept_knows_lineage(const gw_peer *p) {
    return !p->config.fast || p->save.saved_behind;
}

void gw_kept_recorded(gw_peer *p, const gw_checkpoint_ref *one) {
    if (p->config.fast && one->step > 0) gw_lineage_add(&p->save.lineage, one);
}

void gw_kept_view_begins(gw_peer *p, const gw_install *install, bool holds) {
    p->save.load_whole = p->view.ready_whole;
    p->save.found = (gw_checkpoint_ref){install->found_step, install->found_root};
    p->save.view_lineage = install->lineage;
    if (holds && install->load == GW_LOAD_PEERS) p->save.lineage = install->lineage;
}

void gw_kept_note_load(gw_peer *p, const gw_checkpoint_ref *whole) {
    gw_checkpoint_ref_take_newer(&p->save.load_whole, whole);
}

void gw_kept_took_state(gw_peer *p) {
    const gw_checkpoint_ref *known = gw_kept_newest(p), loaded = {p->view.load_step, p->view.load_root};
    p->save.lineage = p->save.view_lineage;
    if (p->view.load_kind == GW_LOAD_MANIFEST) gw_kept_recorded(p, &loaded);
    p->save.saved_behind = known != NULL && p->config.fast && gw_kept_is_behind(p, known);
    gw_kept_note_whole(p, &p->save.load_whole);
}

/* Whether it is news that this checkpoint is whole: this peer has recorded it, and does not know that it or a
 * later one is whole. With exact sums, a peer that knows of no whole checkpoint keeps all that it has, which
 * may be later than what others know of. */
static bool is_news(const gw_peer *p, uint64_t step, const gw_hash *root) {
    const gw_peer_inventory *here = &p->inventory;
    if (!gw_peer_inventory_has(here, step, root)) return false;
    if (p->save.saved_step != UINT64_MAX && gw_kept_knows_lineage(p)) return step > p->save.saved_step;
    if (p->config.fast) return true; /* later checkpoints may be of a lineage that was given up */
    gw_hash later;
    return gw_peer_inventory_range(here, step + 1, UINT64_MAX, &later, 1) == 0;
}

/* With exact sums a step has only one state, so a checkpoint is in the lineage of every later state. */
bool gw_kept_is_behind(const gw_peer *p, const gw_checkpoint_ref *one) {
    return one->step <= p->state.step && (!p->config.fast || gw_lineage_has(&p->save.lineage, &one->root));
}

/* Whether the state that this peer is loading has come from that checkpoint. */
static bool is_behind_load(const gw_peer *p, const gw_checkpoint_ref *one) {
    if (p->view.load_token == 0 || one->step > p->view.load_step) return false;
    return !p->config.fast || gw_lineage_has(&p->save.view_lineage, &one->root);
}

gw_message gw_kept_ready(const gw_peer *p, const gw_checkpoint_ref *whole) {
    gw_message message = gw_peer_about_view(p, GW_MSG_READY);
    message.ready.whole = *whole;
    return message;
}

void gw_kept_tell_whole(gw_peer *p, const gw_checkpoint_ref *whole) {
    GW_ASSERT(p->view.own_ready && whole->step <= p->state.step);
    gw_message message = gw_kept_ready(p, whole);
    gw_peer_send_members(p, &message);
}

/* COMPLETE has come for a checkpoint that this peer no longer waits for, as a view change or the next
 * checkpoint came first. Nothing is deleted before another checkpoint is complete, since a vote may have
 * reported what is here, and a save may be under way. What was noted meanwhile about disks that refuse stays
 * as it is. The news is passed on to the other members: they may not have heard it, and may have recorded the
 * checkpoint even if this disk has not. Parts of a checkpoint are of use only if all members keep the same
 * one. */
void gw_kept_receive_complete(gw_peer *p, const gw_message *m) {
    const gw_checkpoint_ref whole = {m->complete.step, m->complete.root};
    if (m->complete.unsaved) return;
    if (is_behind_load(p, &whole)) gw_kept_note_load(p, &whole);
    if (!gw_kept_is_behind(p, &whole)) return;
    bool unrecorded = gw_peer_inventory_find(&p->inventory, &whole.root) == NULL;
    bool news = is_news(p, whole.step, &whole.root),
         others = unrecorded && whole.step > gw_kept_whole(p).step;
    if (news) {
        note_newest(p, whole.step, &whole.root);
        tell_complete(p, whole.step, &whole.root);
    }
    if ((news || others) && p->view.current.epoch > 0 && p->view.own_ready) gw_kept_tell_whole(p, &whole);
}

void gw_kept_note_whole(gw_peer *p, const gw_checkpoint_ref *whole) {
    const gw_checkpoint_ref *known = gw_kept_newest(p);
    if (known != NULL && known->step == whole->step && gw_hash_equal(&known->root, &whole->root))
        p->save.saved_behind = true;
    else if (is_news(p, whole->step, &whole->root))
        note_newest(p, whole->step, &whole->root);
}

/* Keeping checkpoints and making room. */

/* Has everything on this disk deleted except these checkpoints and that of the best state; orphans, too. */
static void keep_only(gw_peer *p, const gw_hash *roots, uint32_t count) {
    gw_hash *all = calloc(count + 1, sizeof *all);
    GW_ASSERT_MEMORY(all != NULL);
    if (count > 0) memcpy(all, roots, count * sizeof *all);
    if (p->state.best.kept.step > 0) all[count++] = p->state.best.kept.root;
    gw_action *action = gw_peer_act(p, GW_ACT_RETAIN);
    action->retain.count = count;
    action->retain.roots = gw_actions_copy(p->actions, all, count * sizeof *all);
    gw_peer_inventory_kept(&p->inventory, all, count);
    p->save.part_step = UINT64_MAX;
    free(all);
}

static uint32_t kept_roots(const gw_peer *p, gw_hash *roots) {
    for (uint32_t i = 0; i < p->save.kept_count; i++) roots[i] = p->save.kept[i].root;
    return p->save.kept_count;
}

static uint32_t all_roots(const gw_peer *p, gw_hash *roots) {
    uint32_t count = kept_roots(p, roots);
    return count + gw_peer_inventory_range(&p->inventory, 0, UINT64_MAX, roots + count, p->inventory.count);
}

/* The newest checkpoint that is known to be whole, or that this view's disks were found to have as a whole.
 * Peers that have died may have completed the latter, and the job would resume from it. It does not replace
 * the former before a disk is full. */
static const gw_checkpoint_ref *newest_whole(const gw_peer *p) {
    GW_ASSERT(gw_kept_knows_lineage(p));
    const gw_checkpoint_ref *known = gw_kept_newest(p), *found = &p->save.found;
    bool newer =
        found->step > 0 && found->step <= p->state.step && (known == NULL || found->step > known->step);
    return newer && gw_peer_inventory_find(&p->inventory, &found->root) != NULL ? found : known;
}

static bool is_one_of(const gw_hash *roots, uint32_t count, const gw_hash *root) {
    for (uint32_t i = 0; i < count; i++)
        if (gw_hash_equal(&roots[i], root)) return true;
    return false;
}

/* Fills `roots` up to the number of checkpoints to keep, with the newest ones here of at most `steps` steps
 * that it does not contain. This life of the peer may not have heard that they are complete. With float sums
 * it may not know either that its state has come from them, but there would be nothing else to resume from if
 * the checkpoints in `roots` turned out to be damaged. */
static uint32_t fill_up(const gw_peer *p, uint64_t steps, gw_hash *roots, uint32_t count) {
    const gw_peer_inventory *here = &p->inventory;
    for (uint32_t i = 0; i < here->count && count < p->config.keep && !here->fresh; i++) {
        const gw_inventory *one = &here->list[i];
        if (one->step <= steps && !is_one_of(roots, count, &one->root)) roots[count++] = one->root;
    }
    return count;
}

/* Writes the roots of the checkpoints to keep if little room is left, and of those that this run has yet to
 * reach. In falling order of importance they are the newest one that is known, or was found, to be whole;
 * those after it, which may be whole; others that are known to be; and earlier ones. With float sums the job
 * never reaches what an earlier view has saved at a later step, since that was given up. A root may appear
 * twice. */
static uint32_t most_wanted_roots(const gw_peer *p, gw_hash *roots) {
    const gw_peer_inventory *here = &p->inventory;
    const gw_checkpoint_ref *whole = newest_whole(p), *known = gw_kept_newest(p);
    uint32_t most = p->config.keep, count = 0;
    GW_ASSERT(known != NULL && most > 0);
    roots[count++] = whole->root;
    if (whole != known && count < most) roots[count++] = known->root;
    count += gw_peer_inventory_range(here, whole->step + 1, p->state.step + 1, roots + count, most - count);
    for (uint32_t i = p->save.kept_count; i-- > 0 && count < most;)
        if (&p->save.kept[i] != known && !gw_hash_equal(&p->save.kept[i].root, &whole->root))
            roots[count++] = p->save.kept[i].root;
    count = fill_up(p, p->state.step, roots, count);
    return count + gw_peer_inventory_after(here, gw_kept_epoch(p, p->view.current.epoch), p->state.step,
                                           roots + count);
}

bool gw_kept_has_older(const gw_peer *p) {
    const gw_checkpoint_ref *known = gw_kept_newest(p);
    bool given = p->save.room_step == p->save.open.step && p->save.older_gave_way;
    if (known == NULL || given || !gw_kept_knows_lineage(p) || !gw_holders_surely_live(p, known))
        return false;
    bool older = false;
    for (uint32_t i = 0; i < p->inventory.count; i++) {
        const gw_inventory *one = &p->inventory.list[i];
        bool best = p->state.best.kept.step > 0 && gw_hash_equal(&one->root, &p->state.best.kept.root);
        older |= one->step < known->step && !best;
    }
    return older;
}

/* Writes the roots of the checkpoints that a last state leaves on a disk without room for it: the newest one
 * that is known to be whole, and all later ones, which may be. Each peer keeps what it knows to be whole and
 * what follows it, so that the newest whole one of all stays whole. */
static uint32_t last_roots(gw_peer *p, gw_hash *roots) {
    const gw_peer_inventory *here = &p->inventory;
    const gw_checkpoint_ref known = *gw_kept_newest(p);
    gw_peer_say(p, GW_WARN,
                "there is no room for the state of step %" PRIu64 ": checkpoints before that of step %" PRIu64
                ", which is whole, are deleted here",
                p->save.open.step, known.step);
    for (uint32_t i = p->save.kept_count; i-- > 0;)
        if (p->save.kept[i].step < known.step) keep_no_more(p, i);
    roots[0] = known.root;
    return 1 + gw_peer_inventory_range(here, known.step + 1, UINT64_MAX, roots + 1, here->count);
}

/* Makes room for the next checkpoint. Chunks of checkpoints that were given up are deleted, except those of
 * the state that is to be saved, which are of use. Orphans that were here when this process began may belong
 * to a checkpoint of other peers, and checkpoints that nobody has called complete may be complete
 * nevertheless; they stay until the disk has refused to write for a while. After that only as many
 * checkpoints are kept as the configuration says, and fewer for a last state. */
void gw_kept_make_room(gw_peer *p, bool lacks_room, bool last) {
    bool left =
        p->save.part_step != UINT64_MAX && p->save.part_step != p->save.open.step && !p->inventory.orphans;
    bool older = lacks_room && last && gw_kept_has_older(p);
    bool refused = older || (lacks_room && p->save.room_step != p->save.open.step);
    if (!left && !refused) return;
    if (refused) {
        p->save.room_step = p->save.open.step;
        p->save.older_gave_way = older;
    }
    gw_hash *roots = calloc(2 * (size_t)p->inventory.count + p->save.kept_count + 1, sizeof *roots);
    GW_ASSERT_MEMORY(roots != NULL);
    bool all = !refused || p->save.kept_count == 0 || !gw_kept_knows_lineage(p);
    uint32_t count = older ? last_roots(p, roots) : all ? all_roots(p, roots) : most_wanted_roots(p, roots);
    keep_only(p, roots, count);
    free(roots);
}

/* Writes the roots of the checkpoints to keep with exact sums. Beside the kept ones they are those later than
 * this run has reached, as a peer with the rest of one may still come; those between kept ones, which other
 * members may have heard to be complete and keep instead of an earlier one; and earlier ones up to the number
 * to keep, as this life may not have heard that they are complete. */
static uint32_t exact_roots(const gw_peer *p, gw_hash *roots) {
    const gw_peer_inventory *here = &p->inventory;
    uint32_t count = kept_roots(p, roots), most = p->config.keep;
    if (!here->fresh)
        count += gw_peer_inventory_range(here, 0, p->save.kept[0].step, roots + count, most - count);
    for (uint32_t i = 1; i < p->save.kept_count; i++)
        count += gw_peer_inventory_range(here, p->save.kept[i - 1].step + 1, p->save.kept[i].step,
                                         roots + count, 2 * most - count);
    if (!here->fresh)
        count +=
            gw_peer_inventory_range(here, p->save.saved_step + 1, UINT64_MAX, roots + count, here->count);
    return count;
}

/* Writes the roots of the checkpoints to keep with float sums: those that are known to be whole, and the
 * newest others up to the number to keep. The job never goes back to a lineage that was given up, but if the
 * flock had to begin anew, its user may want to. */
static uint32_t float_roots(const gw_peer *p, gw_hash *roots) {
    return fill_up(p, UINT64_MAX, roots, kept_roots(p, roots));
}

static void retain(gw_peer *p) {
    uint32_t most = p->config.keep;
    GW_ASSERT(p->save.kept_count > 0 && p->save.kept_count <= most);
    gw_hash *roots = calloc(2 * (size_t)most + p->inventory.count, sizeof *roots);
    GW_ASSERT_MEMORY(roots != NULL);
    uint32_t count = p->config.fast ? float_roots(p, roots) : exact_roots(p, roots);
    GW_ASSERT(count <= 2 * most + p->inventory.count);
    keep_only(p, roots, count);
    free(roots);
}

/* Whether a checkpoint is on record as the job's last state, and is not this peer's state. */
static bool is_other_end(const gw_peer *p, const gw_inventory *one) {
    bool end = one->ended || one->step >= p->config.steps;
    return end && (one->step > p->state.step || one->fingerprint != p->state.fingerprint);
}

void gw_kept_give_up_end(gw_peer *p) {
    const gw_peer_inventory *here = &p->inventory;
    gw_hash *roots = calloc(here->count + p->save.kept_count + 1, sizeof *roots);
    GW_ASSERT_MEMORY(roots != NULL);
    uint32_t count = 0;
    for (uint32_t i = 0; i < here->count; i++)
        if (!is_other_end(p, &here->list[i])) roots[count++] = here->list[i].root;
    for (uint32_t i = 0; i < p->save.kept_count; i++)
        if (gw_peer_inventory_find(here, &p->save.kept[i].root) == NULL)
            roots[count++] = p->save.kept[i].root;
    keep_only(p, roots, count);
    free(roots);
}

void gw_kept_give_up_after(gw_peer *p, uint64_t step, const gw_hash *spared, uint32_t count) {
    gw_peer_inventory *here = &p->inventory;
    bool known = false;
    for (uint32_t i = here->count; i-- > 0;) {
        if (here->list[i].step <= step || is_one_of(spared, count, &here->list[i].root)) continue;
        gw_given_up_add(&p->save.given_up, &here->list[i].root);
        gw_peer_inventory_forget(here, i);
    }
    for (uint32_t i = p->save.kept_count; i-- > 0;)
        if (p->save.kept[i].step > step && !is_one_of(spared, count, &p->save.kept[i].root))
            keep_no_more(p, i);
    for (uint32_t i = 0; i < p->save.kept_count; i++) known |= p->save.kept[i].step == p->save.saved_step;
    if (!known)
        p->save.saved_step = p->save.kept_count > 0 ? p->save.kept[p->save.kept_count - 1].step : UINT64_MAX;
}

void gw_kept_close(gw_peer *p) {
    free(p->save.kept);
    gw_holders_close(p);
}

/* Forgets what an earlier life gave up, and notes again what of it is still on the disk. */
void gw_kept_open(gw_peer *p, const gw_given_up *before) {
    p->save.saved_step = p->save.part_step = p->save.room_step = UINT64_MAX;
    p->save.kept = calloc(p->config.keep + 1, sizeof *p->save.kept);
    GW_ASSERT_MEMORY(p->save.kept != NULL);
    for (uint32_t i = p->inventory.count; i-- > 0;) {
        const gw_hash root = p->inventory.list[i].root;
        if (!is_one_of(before->roots, before->count, &root)) continue;
        gw_given_up_add(&p->save.given_up, &root);
        gw_peer_inventory_forget(&p->inventory, i);
    }
}

void gw_kept_complete(gw_peer *p, uint64_t step, const gw_hash *root, const gw_set *ranks) {
    note_saved(p, step, root, ranks);
    tell_complete(p, step, root);       /* before an earlier checkpoint is deleted */
    if (!p->save.disk_hangs) retain(p); /* also on a full disk, which gets room in this way */
}
