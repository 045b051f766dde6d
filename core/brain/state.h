/* One peer's state, for the .c files of the brain alone. Each room has a struct of its own (state.h in its
 * folder).
 *
 *   peer.c     assembly: create, dispatch, timers, status; the helpers that all rooms use
 *   commit.c   when others may see a step
 *   members/   contacts.c (gossip's members, hello, the blob), links.c, strangers.c (peers of another job),
 *              poison.c (shards on which peers die)
 *   faults/    verify.c (shards computed twice), verdicts.c (convictions), path_errors.c (bits that change
 *              between two members), halt.c (where no peer can tell who is right)
 *   save/      checkpoint.c, kept.c (which checkpoints stay), final.c (a last state without room), job_end.c
 *              (the end for peers that missed it), leave.c, deadlines.c (actions of the world that hang)
 *   step/      steps.c (deal, steal, seal, reduce, check, apply), retry.c (reductions that fail)
 *   view/      propose.c, vote.c, install.c, admit.c (founding, joining, healing), repair.c */
#ifndef GODWIT_CORE_BRAIN_STATE_H
#define GODWIT_CORE_BRAIN_STATE_H

#include "core/brain/commit.h"
#include "core/brain/faults/state.h"
#include "core/brain/job_state.h"
#include "core/brain/members/state.h"
#include "core/brain/message.h"
#include "core/brain/peer.h"
#include "core/brain/save/state.h"
#include "core/brain/step/state.h"
#include "core/brain/view/state.h"
#include "core/gossip/gossip.h"
#include "core/record/ballot.h"
#include "core/record/convictions.h"
#include "core/record/deaths.h"
#include "core/record/inventory.h"
#include "core/rng.h"

#define GW_MS UINT64_C(1000000)

typedef enum gw_phase_of_peer {
    GW_AT_WAITING = 1, /* no view */
    GW_AT_FROZEN,      /* voted; waits for the view to be installed */
    GW_AT_LOADING,     /* installed; fetches the view's state */
    GW_AT_GATHERING,   /* installed; others fetch */
    GW_AT_COMPUTING,
    GW_AT_SEALING,
    GW_AT_REDUCING,
    GW_AT_DISPUTING, /* two members differ about a shard: all compute it once more */
    GW_AT_APPLYING,
    GW_AT_PAUSED, /* at a boundary: the leader is about to propose */
    GW_AT_ENDING, /* holds the final state; waits for the final checkpoint and for the others */
    GW_AT_OVER,   /* finished: nothing happens any more */
} gw_phase_of_peer;

struct gw_peer {
    gw_peer_config config;
    char *identity; /* that others compare with theirs: the job's, then the rules of this run; owned */
    gw_hash job;
    gw_peer_inventory inventory; /* what this peer's disk has */
    gw_gossip *gossip;
    gw_rng rng;
    gw_actions *actions; /* of the gw_peer_step in progress */
    uint64_t now, started_ns;
    uint64_t seeds_ns; /* since when an address of a seed is known; 0 = none is */
    gw_token last_token;
    bool started;
    gw_phase_of_peer phase;
    uint64_t phase_logged_ns;

    gw_job_state state;
    gw_commit commit;
    gw_members_state members;
    gw_faults_state faults;
    gw_save_state save;
    gw_step_state step;
    gw_view_state view;
};

/* ---- shared helpers (peer.c) ---- */
gw_token gw_peer_token(gw_peer *p);
gw_action *gw_peer_act(gw_peer *p, gw_action_kind kind);
void gw_peer_say(gw_peer *p, gw_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
gw_action *gw_peer_notice(gw_peer *p, gw_notice_kind notice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says what this peer waits for, at most every two seconds and only when it changed or persists. */
void gw_peer_waits(gw_peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A protocol duration, scaled for slow machines. */
uint64_t gw_peer_ms(const gw_peer *p, uint64_t milliseconds);
void gw_peer_send(gw_peer *p, const gw_peer_id *to, gw_message *message);
/* The text of an event that tells of a failure, for people. */
const char *gw_peer_why(const gw_event *event);
/* A message about the installed view. */
gw_message gw_peer_about_view(const gw_peer *p, gw_message_kind kind);
void gw_peer_send_members(gw_peer *p, gw_message *message); /* all but this peer */
void gw_peer_finish(gw_peer *p, gw_finish finish, const gw_hash *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int gw_peer_own_rank(const gw_peer *p);
bool gw_peer_is_leader(const gw_peer *p);

/* Functions of members/contacts.c. */
gw_contact *gw_peer_contact(gw_peer *p, const gw_peer_id *id); /* NULL = unknown */
void gw_contacts_gossip_event(gw_peer *p, const gw_gossip_event *event);
void gw_contacts_link(gw_peer *p, const gw_event *event);
void gw_contacts_hello(gw_peer *p, gw_contact *from, const gw_message *message);
void gw_contacts_announce(gw_peer *p); /* keeps the own blob current */
/* One that fell silent: dials it, as a refusal would show that its process has ended. */
void gw_contacts_look_for(gw_peer *p, gw_contact *contact);
/* Of the view that this peer is in, in the life that is known of it. */
bool gw_contacts_is_member(const gw_peer *p, const gw_contact *contact);
/* The member of the installed view at `rank` lives, in the life that is a member. */
bool gw_contacts_member_lives(gw_peer *p, const gw_view *view, uint32_t rank);
/* This process has been linked to the life that gossip knows, or to one before it: what gossip has that life
 * say was said since. Of any other it may be a recording: what brings gossip can be replayed to a process
 * that has just begun (net/secure/packet.h), a link's handshake cannot. */
bool gw_contacts_has_met(const gw_contact *contact);
/* Alive, linked and greeted, in the life that is known: it can be asked. */
bool gw_contacts_greeted(const gw_contact *contact);
/* And it is not kept out of proposals for a while. */
bool gw_contacts_ready(const gw_peer *p, const gw_contact *contact);
bool gw_contacts_same_job(const gw_peer *p, const gw_contact *contact);

/* Functions of members/links.c. */
void gw_links_data(gw_peer *p, const gw_event *event);
/* Linked to a member, by control and by data, or without it for so short a time that it will come back. */
bool gw_links_lately(gw_peer *p, const gw_contact *contact);
/* Linked as this peer has to be to whoever is admitted. */
bool gw_links_admit(const gw_peer *p, const gw_contact *contact);
/* Its data link stands, and not for a moment only. */
bool gw_links_carry(const gw_peer *p, const gw_contact *contact);
/* A data link to a member that lives is missing, for however short a time. */
bool gw_links_lack_data(gw_peer *p);
/* The first member of the view that lives and has been without a link for longer; NULL = none. */
const gw_contact *gw_links_missing(gw_peer *p);
/* Its links stand, but reductions with this member go on failing: one of the two must go. */
bool gw_links_path_broken(const gw_peer *p, const gw_contact *contact);
enum { GW_LINK_TEXT = 160 };
/* Which link to it is missing, and why; returns `text`. */
const char *gw_links_describe(const gw_contact *contact, char *text, size_t capacity);
/* Somebody of this job who could be in a view with this peer but for its data link; NULL = nobody. */
const gw_contact *gw_links_newcomer_without_data(const gw_peer *p);
void gw_links_consider(gw_peer *p);

/* Functions of members/strangers.c. */
bool gw_strangers_is_one(const gw_peer *p, const gw_message *hello);
void gw_strangers_met(gw_peer *p, gw_contact *from, const gw_message *hello); /* of one */
void gw_strangers_consider(gw_peer *p); /* without a view: is this peer turned away? */

/* Functions of view/propose.c. */
void gw_views_need_change(gw_peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gw_views_consider(gw_peer *p);
uint64_t gw_views_deadline(const gw_peer *p);
/* Proposes a view of these members (this peer among them) on the view it is in. */
void gw_views_propose(gw_peer *p, const gw_member *members, uint32_t count);
/* Where a majority rules: whether these members (this peer among them) can go on without any others. */
bool gw_views_are_enough(gw_peer *p, const gw_member *members, uint32_t count);
void gw_views_drop_attempt(gw_peer *p);
void gw_views_message(gw_peer *p, gw_contact *from, gw_message *message);
void gw_views_link_up(gw_peer *p, gw_contact *contact);
void gw_views_force(gw_peer *p);                                     /* the operator insists */
void gw_views_keep_learned(gw_peer *p, uint32_t index, uint32_t at); /* moves one forward, over another */
void gw_views_lost(gw_peer *p, const char *why); /* leaves the installed view and waits to be admitted */

/* Functions of view/install.c. */
void gw_install_adopt(gw_peer *p, const gw_install *install); /* of the view that it is frozen for */
void gw_install_told(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_install_member_ready(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_install_loaded(gw_peer *p, const gw_event *event);
void gw_install_consider(gw_peer *p); /* what a step that is about to begin waits for */
uint64_t gw_install_deadline(const gw_peer *p);
void gw_install_link_up(gw_peer *p, const gw_contact *member); /* says again what it may have missed */
/* READY again, with what is known now to be whole, and behind the view's state. */
void gw_install_tell_whole(gw_peer *p, const gw_checkpoint_ref *whole);

/* Functions of view/vote.c. */
enum { GW_PATIENCE_MS = 2000 }; /* how long a proposal that one voted for may take */
void gw_votes_propose(gw_peer *p, gw_contact *from, const gw_message *message); /* somebody proposes a view */
void gw_votes_give(gw_peer *p, const gw_view *view, uint64_t base_epoch);
void gw_votes_freeze(gw_peer *p);
/* Frozen for this view, as `from` has proposed it. */
bool gw_votes_waits_for(const gw_peer *p, const gw_contact *from, const gw_view_name *view);
/* Frozen for longer than a proposal usually takes: people are told that it waits. */
bool gw_votes_wait_long(const gw_peer *p);
void gw_votes_persist(
    gw_peer *p); /* the durable record: the ballot (majority), before it is acted on; losses */
void gw_votes_frozen(gw_peer *p, const gw_event *event);
void gw_votes_persisted(gw_peer *p, const gw_event *event);
void gw_votes_send_if_ready(gw_peer *p);
void gw_votes_vote(gw_peer *p, const gw_contact *from,
                   gw_message *message); /* at the proposer; takes the report */

/* Functions of view/admit.c. */
void gw_waiting_consider(gw_peer *p);
/* So many that have founded would begin at step 0, which is for more: they wait without a view again. */
void gw_waiting_found_too_few(gw_peer *p, uint32_t here);
void gw_waiting_join(gw_peer *p, gw_contact *from, const gw_message *message);
/* Adds the newcomers that may be admitted now; returns the new count. */
uint32_t gw_waiting_add_joiners(gw_peer *p, gw_member *members, uint32_t count);
/* Adds the view that this newcomer lives in, if any, to the names (GW_MAX_ABSORBED). False: it does not fit.
 */
bool gw_waiting_absorb(const gw_peer *p, const gw_contact *newcomer, gw_view_name *names, uint32_t *count);
bool gw_waiting_has_joiners(gw_peer *p);
uint32_t gw_waiting_count_joiners(gw_peer *p); /* at least 1: linked to all members or not */
/* At a boundary, at the leader: proposes the next view. */
void gw_waiting_at_pause(gw_peer *p);
/* Newcomers had the flock wait for so long, and have been admitted, or not. */
void gw_waiting_admitted(gw_peer *p, uint64_t pause_ns);
/* A proposal waits for the likes of it. */
bool gw_waiting_misses(const gw_peer *p, const gw_contact *contact);
bool gw_waiting_knows_flock(const gw_peer *p); /* a living peer of this job has a view */
uint64_t gw_waiting_deadline(const gw_peer *p);

/* Functions of step/steps.c. */
void gw_steps_begin(gw_peer *p, const gw_set *missing, const uint32_t *cuts); /* missing NULL: all */
void gw_steps_dry(gw_peer *p, const gw_event *event);
void gw_steps_word_read(gw_peer *p, const gw_event *event);
void gw_steps_word_swapped(gw_peer *p, const gw_event *event);
void gw_steps_sealed(gw_peer *p, const gw_event *event);
void gw_steps_reduced(gw_peer *p, const gw_event *event);
void gw_steps_applied(gw_peer *p, const gw_event *event);
void gw_steps_shard_lost(gw_peer *p, const gw_event *event);
/* What this shard is computed from cannot be had just now, as the event tells: it is dealt again in another
 * view, unless this peer has given back too many. */
void gw_steps_give_back(gw_peer *p, uint32_t shard, const gw_event *event);
void gw_steps_consider(gw_peer *p);
uint64_t gw_steps_speed(const gw_peer *p); /* to deal by; 0 = not known */

/* Functions of faults/verify.c. */
void gw_verify_deal(gw_peer *p, gw_action *deal); /* chooses */
void gw_verify_reduce(gw_peer *p, const gw_event *sealed, gw_action *reduce);
/* Looks at the table of a right sum. True: two members differ, and it must not be applied. */
bool gw_verify_disputes(gw_peer *p, const gw_event *reduced);
void gw_verify_probed(gw_peer *p, const gw_event *event);
void gw_verify_witness(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_verify_link_up(gw_peer *p,
                       const gw_contact *contact); /* says again what the old link may have lost */
/* At a state that no step follows (gw_save.looks), before its hashes are told: gw_saves_sound. Not while
 * shards are computed: the node does so when no deal is worked at. */
void gw_verify_look(gw_peer *p);
void gw_verify_looked(gw_peer *p, const gw_event *event);
/* The rows of a right sum: whether all members started the step from one state. Names the odd ones out. */
bool gw_verify_states_agree(gw_peer *p, const int64_t *slots);
/* At a proposer, of what it is about to install: those whose state of the same step it does not go on from.
 */
void gw_verify_name_outvoted(gw_peer *p, gw_install *install);
/* Of what is installed here. False: this peer is one of these, or was found to compute other bits, was so
 * before, and ends. */
bool gw_verify_takes(gw_peer *p, const gw_install *install);
void gw_verify_damaged(gw_peer *p); /* this peer's state is no longer what it was */
/* What this peer gave to a sum is no longer what it had added up. It may end by it. */
void gw_verify_own_part(gw_peer *p);
/* `peer` (NULL = not known who) computed, held or sent other bits than it should have: for people. */
void gw_verify_tell(gw_peer *p, const gw_peer_id *peer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds to `doubted` (of ranks) whose accumulators must be dropped: those that a vote tells are in doubt. */
void gw_verify_doubted(const gw_attempt *attempt, gw_set *doubted);

/* Functions of faults/verdicts.c. */
/* A member was found wrong in this view; what it has of more than `step` steps counts for nothing. */
void gw_verdicts_remember(gw_peer *p, const gw_peer_id *id, uint64_t step);
/* All that the reports of a proposal tell of and that has not been served yet. */
void gw_verdicts_unite(const gw_attempt *attempt, bool majority, gw_convictions *all);
/* This voter has heard that it was found wrong in that view, and has given up what it had then. */
bool gw_verdicts_has_heard(const gw_attempt *attempt, uint32_t rank, uint64_t epoch);
/* It is among these, and has not. */
bool gw_verdicts_count_against(const gw_attempt *attempt, const gw_convictions *all, uint32_t rank);
/* Makes these reports tell of convicted peers only what may be believed; *install loses convictions of who is
 * needed. */
void gw_verdicts_discount(const gw_attempt *attempt, bool majority, gw_install *install);
/* Once all convictions are there sets the spared checkpoints of *install. */
void gw_verdicts_spare(const gw_attempt *attempt, gw_install *install);
/* Of what is installed here. True: others have convicted this peer, which hears of it only now, and is not
 * to keep the state that it holds. */
bool gw_verdicts_hear(gw_peer *p, const gw_install *install);

/* Functions of faults/halt.c. */
/* Nobody can tell which bits are right, for the reason given: ends this peer, and, as far as they can be
 * reached, all members of the view, which is the one that it lives in or has proposed. */
void gw_halt(gw_peer *p, const gw_view *view, const char *format, ...) __attribute__((format(printf, 3, 4)));
void gw_halt_told(gw_peer *p, const gw_contact *from, const gw_message *message);
/* A member that has left in the middle of a sum, or of a dispute about one, may have said why. */
bool gw_halt_may_come(const gw_peer *p);

/* Functions of faults/path_errors.c. */
/* A reduction or a load failed with `changed`; `what` was sent. True: it is the path to that member, as it
 * seems. */
bool gw_changes_note(gw_peer *p, const gw_event *event, const char *what);
void gw_changes_forget(gw_peer *p); /* a sum is right */
/* At a proposer that has all votes, with all convictions that they tell of: the view's arrangement, and whose
 * conviction is to go with it, by rank; -1: nobody's. */
int gw_changes_judge(gw_peer *p, gw_install *install);
/* When it does; this peer hears of its own by the install. */
void gw_changes_tell(gw_peer *p, const gw_install *install, int rank);
bool gw_changes_halt(gw_peer *p); /* likewise; true: this peer has ended, as all are to */
void gw_changes_installed(gw_peer *p, const gw_install *install);

/* Functions of step/retry.c. */
void gw_retry_failed(gw_peer *p, const gw_event *event); /* asks for a new view, now or later, or gives up */
void gw_retry_blame(gw_peer *p, const gw_peer_id *id); /* something fails between this member and this peer */
void gw_retry_succeeded(gw_peer *p);  /* a sum that is right: nothing has failed between its members */
void gw_retry_begin_anew(gw_peer *p); /* the others have gone on without this peer */
void gw_retry_consider(gw_peer *p);
uint64_t gw_retry_deadline(const gw_peer *p);

/* Functions of members/poison.c. */
/* What peers were at in this step is not known from now on: they may have got further. */
void gw_poison_stood_still(gw_peer *p);
void gw_poison_claim(gw_peer *p, const gw_event *event);
void gw_poison_linked(const gw_peer *p, gw_contact *contact, const gw_incarnation *life); /* anew */
void gw_poison_left_out(gw_contact *contact); /* of the view that goes on */
void gw_poison_claimed_by(gw_peer *p, gw_contact *from, const gw_message *message);
bool gw_poison_start(gw_peer *p); /* takes in how the last life ended; true: the record is to change */
/* Takes over what others know; steps before `step` are done. May end this peer. */
void gw_poison_learn(gw_peer *p, const gw_shard_deaths *losses, uint64_t step);
/* It died or gave up, and has not wished to leave. */
void gw_poison_member_fell(gw_peer *p, gw_contact *contact);
void gw_poison_tell(gw_peer *p); /* the others, why this peer cannot go on */
void gw_poison_told(gw_contact *from, const gw_message *message);
void gw_poison_as_told(gw_contact *contact); /* after its blob was read: what its link told, if it did */
void gw_poison_last_words(gw_peer *p, gw_contact *contact); /* they may come after the news that it left */
/* This peer cannot go on because of this shard: "shard 7 of step 3 <why>". */
void gw_poison_give_up(gw_peer *p, uint32_t shard, const gw_event *event);
void gw_poison_forget(gw_peer *p, uint64_t step); /* steps before this one are over */

/* Functions of save/checkpoint.c. */
/* Tells the leader, who may be new, of a stop or a checkpoint that this peer was asked for. */
void gw_saves_remind(gw_peer *p);
int64_t gw_saves_decide(gw_peer *p); /* at the leader: decisions for the reduction it is about to enter */
void gw_saves_open(gw_peer *p, bool final);
void gw_saves_abandon(gw_peer *p);
/* What a checkpoint of that view, and a state that is held in it, say of when they were made. */
uint64_t gw_saves_epoch(const gw_peer *p, uint64_t epoch);
void gw_saves_free(gw_save *save);
void gw_saves_stored(gw_peer *p, const gw_event *event);
void gw_saves_sound(gw_peer *p); /* the state that was stored is still what it was when it was made */
void gw_saves_manifest_stored(gw_peer *p, const gw_event *event);
void gw_saves_message(gw_peer *p, gw_contact *from, gw_message *message); /* may keep what it points to */
void gw_saves_forget_early(gw_contact *contact);
void gw_saves_link_up(gw_peer *p, const gw_contact *contact); /* says again what the old link may have lost */
void gw_saves_consider(gw_peer *p);
/* Whether a member's disk takes checkpoints, as a sum or a view tells all members alike. */
void gw_saves_told_disk(gw_peer *p, uint32_t rank, bool unwritable);
bool gw_saves_anyone_writes(const gw_peer *p, int but); /* a member other than that rank; -1: any */
/* The leader ended the job and went before its word reached us: whoever has the final manifest is through as
 * well. */
bool gw_saves_end_without_leader(gw_peer *p, const gw_contact *gone);
void gw_saves_end(gw_peer *p); /* the job's last boundary has been reached */
uint64_t gw_saves_deadline(const gw_peer *p);
void gw_saves_disk_hangs(gw_peer *p); /* what was given to the disk will not end */

/* Functions of save/kept.c. */
const gw_checkpoint_ref *gw_kept_newest(const gw_peer *p); /* that is known to be whole, or NULL */
/* Whether that is behind the state that this peer holds, or holds next: with float sums it may be of another
 * lineage of the job. */
bool gw_kept_knows_lineage(const gw_peer *p);
/* The same, if it is behind that state; step 0: there is none. */
gw_checkpoint_ref gw_kept_whole(const gw_peer *p);
/* Whether a checkpoint that has been recorded here is behind the state that this peer holds. */
bool gw_kept_is_behind(const gw_peer *p, const gw_checkpoint_ref *one);
/* This checkpoint has been loaded: it is the newest complete one, and is kept beside the next. */
void gw_kept_resumed(gw_peer *p, uint64_t step, const gw_hash *root);
/* A checkpoint of this peer's state has been recorded, by whichever disks take it. */
void gw_kept_recorded(gw_peer *p, const gw_checkpoint_ref *one);
/* The state of this peer's view was loaded, with its lineage. */
void gw_kept_took_state(gw_peer *p);
/* As a view's members know. It may not have reached this peer that it is complete. */
void gw_kept_told_whole(gw_peer *p, const gw_checkpoint_ref *whole);
/* All members have recorded it, this peer among them: earlier ones go. */
void gw_kept_complete(gw_peer *p, uint64_t step, const gw_hash *root);
void gw_kept_complete_late(gw_peer *p, const gw_message *message); /* COMPLETE, not of the save under way */
/* Before a checkpoint is stored; `lacks_room`: on a disk that has refused some for a while. */
void gw_kept_make_room(gw_peer *p, bool lacks_room);
/* The view goes on from the present state though another one is on record as the job's end: that one goes. */
void gw_kept_give_up_end(gw_peer *p);
/* Those of more than `step` steps, but these: they are known no more, now or in a later life. The next
 * checkpoint that is complete has them deleted. */
void gw_kept_give_up_after(gw_peer *p, uint64_t step, const gw_hash *spared, uint32_t count);
void gw_kept_given_up_before(gw_peer *p); /* in an earlier life */
/* The flock has come to that one, or goes on from it: it was right. */
void gw_kept_take_back(gw_peer *p, const gw_hash *root);

/* Functions of save/leave.c. */
void gw_leave_asked(gw_peer *p);
/* For so long, in which who is to stay may have died: that does not count. */
void gw_leave_stood_still(gw_peer *p, uint64_t time_ns);
/* Members go on with what this peer, which leaves, has computed. */
bool gw_leave_somebody_stays(const gw_peer *p);
/* Until when it waits for a checkpoint; UINT64_MAX: it is not leaving. */
uint64_t gw_leave_until(const gw_peer *p);
/* It is the last one, computes no more, and has what it computed saved. */
bool gw_leave_waits(const gw_peer *p);
/* It is the last one, and what it makes, or is about to save, comes before whoever has come: there is time
 * for those when that is through. */
bool gw_leave_comes_first(const gw_peer *p);
/* True: it has left. */
bool gw_leave_at_boundary(gw_peer *p);
/* True: it is the last one and computes no more: it has left, or waits. */
bool gw_leave_rest(gw_peer *p);
/* A checkpoint that is not the job's last is through; `unsaved`: nobody could store all of it. */
void gw_leave_saved(gw_peer *p, const gw_hash *root, bool unsaved);
void gw_leave_consider(gw_peer *p);
uint64_t gw_leave_deadline(const gw_peer *p);

/* Functions of save/final.c. */
void gw_final_not_hashed(gw_peer *p); /* nobody could even hash some of it: tried again, but not for ever */
/* At the leader: nobody has room for all of it. True: it will be tried again; false: that has lasted long
 * enough. */
bool gw_final_waits_for_room(gw_peer *p);
void gw_final_consider(gw_peer *p);
void gw_final_unsaved(gw_peer *p, uint64_t step, const gw_hash *root); /* ends this peer */

/* Functions of save/job_end.c. */
void gw_end_recorded(gw_peer *p, uint64_t step, uint64_t fingerprint, const gw_hash *root, bool stopped,
                     bool unsaved);
/* Whether what this peer has seen of another's end is that of this very state. */
bool gw_end_is_of(const gw_peer *p, const gw_contact *ended, uint64_t step, uint64_t fingerprint,
                  const gw_hash *root);
void gw_end_from_disk(gw_peer *p);
void gw_end_forget(gw_peer *p); /* the flock goes on from before that end */
/* As this peer ends with the job: those that it is linked to outside its view may hear of it in no other way.
 */
void gw_end_tell_others(gw_peer *p, const gw_hash *root);
/* The voters for this peer's proposal know that the job has ended so: all of them end, too. */
void gw_end_decided(gw_peer *p, const gw_install *with);
void gw_end_told(gw_peer *p, gw_contact *from, const gw_message *message);
/* When another peer ended the job and left: ends this one as well, and says true. */
bool gw_end_of_others(gw_peer *p);
/* While this peer can neither found nor join nor form a view: after a time it ends, if nobody is left. */
void gw_end_consider(gw_peer *p);
void gw_end_hope(gw_peer *p); /* it can do something again */

/* Functions of save/deadlines.c. */
void gw_patience_load(gw_peer *p); /* a LOAD begins */
/* A SAVE or a MANIFEST is given to the disk; one of them has ended. */
void gw_patience_disk(gw_peer *p, gw_token token);
void gw_patience_disk_answered(gw_peer *p, gw_token token);
void gw_patience_persist(gw_peer *p); /* a PERSIST begins; it has ended */
void gw_patience_persisted(gw_peer *p, bool durable);
void gw_patience_progress(gw_peer *p, const gw_event *event);
void gw_patience_consider(gw_peer *p);
uint64_t gw_patience_deadline(const gw_peer *p);

/* Bits of the leader's decisions in the reduction's slots. */
enum { GW_DECIDE_SAVE = 1, GW_DECIDE_PAUSE = 2, GW_DECIDE_STOP = 4 };
/* Bits of any member's flags. */
enum { GW_FLAG_UNWRITABLE = 1 };
enum {
    GW_SLOT_SPEED,
    GW_SLOT_FINGERPRINT,
    GW_SLOT_DECISIONS,
    GW_SLOT_FLAGS,
    GW_SLOT_BAD,
    GW_SLOT_BAD_INDEX,
    GW_SLOT_SPARE,
    GW_SLOT_CHECK
};

#endif
