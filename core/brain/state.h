/* Inside the brain: one peer's state, shared by the peer_*.c files only.
 *
 *   peer.c          assembly: create, dispatch, timers, status
 *   peer_contacts.c gossip's members: links, hello, what is gossiped of this peer
 *   peer_strangers.c peers that run another job
 *   peer_views.c    when a new view is needed, proposing, deciding what goes on in it
 *   peer_install.c  installing: until all its members hold the state
 *   peer_votes.c    voting, which freezes
 *   peer_waiting.c  without a view: founding, joining; healing of two views
 *   peer_steps.c    a step's life: deal, steal, seal, reduce, check, apply
 *   peer_verify.c   shards computed twice; other bits than most hold
 *   peer_changes.c  sums of which bits change between two members
 *   peer_halt.c     where nobody can tell who is right
 *   peer_retry.c    reductions that fail again and again
 *   peer_poison.c   a shard that spares nobody
 *   peer_commit.c   when others may see a step
 *   peer_inventory.c checkpoints that its disk has
 *   peer_saves.c    checkpoints, stop and the end of the job
 *   peer_leave.c    leaving by request
 *   peer_final.c    the last state, where it cannot be stored
 *   peer_end.c      the end of the job for those who missed it
 *   peer_patience.c deadlines for what the world was asked to do */
#ifndef GODWIT_CORE_BRAIN_STATE_H
#define GODWIT_CORE_BRAIN_STATE_H

#include "core/base/id_index.h"
#include "core/brain/message.h"
#include "core/brain/peer.h"
#include "core/gossip/gossip.h"
#include "core/record/ballot.h"
#include "core/record/convictions.h"
#include "core/record/inventory.h"
#include "core/record/losses.h"
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

enum { GW_MAX_CLAIMS = 64 }; /* workers whose claims are remembered */

/* What a life's workers are at in one careful step, as it has said. */
typedef struct gw_claims {
    bool heard, more; /* anything at all; more than is remembered, or than has come */
    uint64_t step;
    gw_incarnation life;
    uint32_t shard[GW_MAX_CLAIMS]; /* by worker; GW_LOSS_ANY = none */
} gw_claims;

typedef struct gw_view_ref {
    uint64_t epoch; /* 0 = of none */
    gw_view_name name;
} gw_view_ref;

/* A peer as the brain knows it beyond gossip. */
typedef struct gw_contact {
    gw_peer_id id;                        /* first: the index finds it by that */
    gw_incarnation incarnation;           /* as gossip has it */
    bool alive, linked, greeted, differs; /* greeted: its identity equals ours; differs: it does not */
    bool apart;                           /* differs, but only in the ways that it allows */
    uint32_t ways;                        /* of its hello */
    uint64_t kind;        /* of its hello, when it differs: equal for those who would run the same */
    char difference[300]; /* for people */
    bool wanted;          /* a link has been asked for */
    gw_incarnation linked_life;
    /* what that life has said by its link, as its blob may tell it, or be lost: it runs this job; that has
     * ended; how it fell */
    bool said_job, said_end, said_fell;
    gw_hash end_root; /* with said_end: of the last state */
    struct {
        bool blameless;
        uint32_t at;
        uint64_t epoch, step;
    } fell;
    gw_view_ref told_state; /* the view of that life's state, as it said when it refused a proposal */
    uint64_t came_ns; /* since when it comes again and again, each time for a short life, or this life */
    uint64_t life_since_ns; /* when this life was first heard of */
    uint64_t gone_ns;       /* when it was last heard to be dead */
    uint64_t alive_since_ns, unlinked_since_ns, blocked_until_ns;
    bool ended;           /* not alive, and not just silent: it left, or its address refuses connections */
    uint32_t blocks;      /* how often in a row it was blocked: each time for twice as long */
    bool data_missing;    /* no data link to it stands, */
    bool data_fails_here; /* for a reason of this peer's own, */
    bool data_said;       /* which the log has said */
    bool data_flaps;      /* the last one that did was gone at once */
    uint64_t data_missing_since_ns, data_up_ns;
    char data_why[96];      /* for people */
    uint32_t path_failures; /* reductions in a row that failed between it and this peer */
    uint64_t path_failed_ns;
    /* from its blob */
    bool has_view, at_end, leaving, blameless;
    bool unsaved; /* with at_end or said_end: its last state is on no disks */
    uint8_t job[8];
    uint64_t epoch, step, fingerprint, checkpoint_step, speed;
    gw_view_name view_name;
    gw_peer_id leader;
    uint32_t view_count;
    /* from JOIN, at a leader */
    uint64_t joining_until_ns;
    gw_view_name offered; /* the view it offers itself from, or none */
    gw_message *early;    /* at a leader: its STORED for a checkpoint not opened here yet; owned */
    uint32_t fell_at;     /* its last words: the shard that made it give up, plus 1; 0 = none did */
    gw_claims claims;
    uint64_t claims_lost; /* up to this step some may have been, with a link to that life; UINT64_MAX: none */
} gw_contact;

/* A view that others live in with this peer, which never heard that it was installed, and has voted for
 * another one since: only its leader can propose the next one. */
typedef struct gw_missed {
    uint64_t epoch; /* not above that of the installed view: none */
    gw_view_name name;
    gw_peer_id leader;
} gw_missed;

typedef struct gw_attempt { /* a proposal of this peer's own */
    bool active, deciding;  /* deciding: all voted, but waits (for a checkpoint's holders) */
    gw_view view;
    uint64_t base_epoch;
    gw_view_name base;
    gw_view_name absorbed[GW_MAX_ABSORBED];
    uint32_t absorbed_count;
    gw_view *listed; /* owned */
    uint32_t listed_count;
    gw_report *reports[GW_MAX_MEMBERS];
    uint64_t started_ns, resend_ns;
} gw_attempt;

typedef struct gw_thief { /* of no meaning but while active, and then for the ranks of the view */
    bool active;
    gw_token tokens[GW_MAX_MEMBERS]; /* outstanding READ of each rank, 0 = none */
    uint64_t words[GW_MAX_MEMBERS];
    bool known[GW_MAX_MEMBERS]; /* words[rank] was read in this round */
    uint32_t outstanding;
    gw_token swap;
    uint32_t victim;
    uint64_t desired;
    uint32_t first, end;
    uint64_t retry_ns; /* next round, when a victim was not ready; 0 = none */
} gw_thief;

typedef struct gw_save {       /* one checkpoint in progress */
    bool active, final, looks; /* at the state once it is stored: no step follows that would */
    uint64_t step, fingerprint, deadline_ns;
    gw_token store_token, manifest_token;
    uint32_t *chunks; /* what this peer stores */
    uint32_t chunk_count;
    /* at the leader */
    gw_hash *hashes;       /* of all chunks; at the others from the list on */
    gw_set known, durable; /* chunks whose hash is known; that somebody stored */
    gw_set answered;       /* ranks that sent STORED */
    gw_set recorded;       /* ranks that sent RECORDED */
    gw_set placed;         /* ranks whose disks were counted on as it began */
    gw_hash root;
    bool listed;       /* the leader has sent the list */
    bool lacks_copies; /* one of these has failed meanwhile */
    uint64_t again_ns; /* final: no disks have room for it, and it is tried again then; 0 = no */
    /* at every member */
    bool incomplete; /* the list says: not all chunks are durable */
    /* what this peer has said so far: said again when a link comes back */
    gw_hash *own_hashes; /* of what it stored */
    uint32_t own_count;
    bool own_stored;                   /* and may be said: of the final one, after a look at the state */
    gw_hash own_root;                  /* of the manifest written here */
    bool own_recorded, own_unrecorded; /* unrecorded: hashed, but not written */
    bool unwritten;                    /* the manifest was tried, and the disk hangs */
} gw_save;

/* Whose contributions to a step are in doubt. */
typedef struct gw_doubt {
    bool any;
    uint64_t step;
    gw_peer_id accused[2];
} gw_doubt;

/* What members get when they compute a disputed shard once more; it may come before the dispute is known. */
typedef struct gw_testimony {
    gw_view_name view;
    uint64_t step;
    uint32_t shard[GW_MAX_MEMBERS]; /* plus 1; 0 = not heard */
    uint64_t told[GW_MAX_MEMBERS];
} gw_testimony;

typedef struct gw_retry { /* of reductions that failed */
    gw_hash members;      /* of the view that they failed in */
    uint32_t failures;    /* in a row, in views of these members */
    uint64_t at_ns;       /* when the next may be tried */
    char why[100];        /* the last one failed */
} gw_retry;

typedef struct gw_end { /* the job's last state, as the manifest has it that this peer has written */
    bool known, stopped;
    bool unsaved;               /* it could not be written, or has chunks that nobody has */
    uint64_t step, fingerprint; /* of that state; 0 = not known */
    gw_hash root;
} gw_end;

typedef struct gw_uncommitted { /* the step applied last, while others may not see it yet */
    bool any;
    uint64_t step, fingerprint; /* of the state after it */
    uint32_t members;           /* of the view it was made in */
} gw_uncommitted;

struct gw_peer {
    gw_peer_config config;
    char *identity; /* as told to others: the job's, and then the rules of this run */
    gw_hash job;
    gw_peer_inventory inventory; /* what its disk has */
    gw_gossip *gossip;
    gw_rng rng;
    gw_actions *actions; /* of the step in progress */
    uint64_t now, started_ns;
    uint64_t seeds_ns; /* since when an address of a seed is known; 0 = none is */
    gw_token last_token;
    bool started;

    gw_contact *contacts;
    uint32_t contact_count, contact_capacity;
    gw_id_index contact_index;
    uint64_t gossiped_epoch; /* the highest that any contact's blob has named */
    uint64_t links_due_ns;   /* no member of the view misses its link before; 0 = look */
    uint64_t data_due_ns;    /* nor is there anything to say of a missing data link */
    uint8_t meta[GW_GOSSIP_META_BYTES];
    size_t meta_length;

    /* views */
    gw_ballot ballot;
    gw_view view;           /* installed and lived in; epoch 0 = none */
    gw_view_ref state_view; /* whose state this peer has: it may be in a later one, or in none by now */
    gw_install *installed;  /* at its leader: to send again */
    gw_view voted;          /* frozen for this one */
    gw_view_ref
        last_promise; /* the latest that an earlier life of this peer voted for, and may have lived in */
    gw_phase_of_peer phase;
    bool need_change;
    char cause[120];
    uint64_t cause_ns, patience_ns; /* proposals of others get this long */
    uint64_t propose_at_ns, repair_sent_ns;
    /* a later view than ours: the last epoch asked about, until when an answer is waited for, and when it is
     * asked again; the last epoch that an answer named */
    uint64_t ask_view_epoch, ask_view_at_ns, ask_view_again_ns, ask_view_pause_ms, view_told_epoch;
    gw_missed missed;
    bool forced;   /* the next proposal needs no quorum */
    bool suspects; /* somebody's state is not what it was, who knows whose: before the next view all look */
    gw_attempt attempt;
    gw_view *learned;                       /* majority: views others promised, hints for the next proposal */
    gw_peer_id learned_from[GW_MAX_LISTED]; /* by index: who told of it, and votes for none without it */
    bool learned_lived[GW_MAX_LISTED];      /* somebody lives in it */
    uint32_t learned_count;
    uint64_t aside_until_ns; /* so long those that stop a proposal do not count */
    uint64_t too_few_ns;     /* when so few who are here were found to have no whole checkpoint; 0 = never */
    uint32_t too_few;
    uint64_t wait_since_ns;
    gw_view_name ready_name;
    gw_set ready;        /* ranks that hold the state of view `ready_name` */
    gw_kept ready_whole; /* the newest that one of them knows to be whole, behind that state; step 0: none */
    bool own_ready;

    /* freezing */
    gw_token freeze_token;
    gw_token record_token;    /* the last PERSIST, until it is answered; 0 = it is */
    uint64_t record_due_ns;   /* with losses to remember the next step waits for it until then */
    uint64_t frozen_since_ns; /* at GW_AT_FROZEN: for one proposal after another */
    bool frozen;              /* FROZEN has come for the vote in progress: the sets below stand */
    gw_set held, claimed;
    bool vote_sent, freeze_after_apply;

    /* the step */
    bool has_state, ended, stopped;
    uint64_t end_step; /* of the state that `ended` and `stopped` are about: not of one that is still to be
                          fetched */
    uint64_t step, fingerprint;
    uint64_t accumulator_step; /* UINT64_MAX = none */
    uint32_t shards;
    gw_set missing;    /* what the current deal deals */
    bool end_given_up; /* the view's, until it begins */
    bool careful;
    uint32_t cuts[GW_MAX_MEMBERS + 1];
    uint64_t speeds[GW_MAX_MEMBERS];
    uint64_t own_speed;   /* of the last step in which it had a shard; 0 = it has had none */
    uint64_t speed_ns;    /* when that was measured */
    uint64_t idle_shards; /* after a time for so many shards without one the speed counts as not known */
    bool speed_old;       /* it does */
    uint32_t tag;
    gw_token seal_token, reduce_token, apply_token, load_token;
    gw_load_kind load_kind; /* of the last LOAD */
    uint64_t load_step, load_fingerprint;
    gw_hash load_root;
    uint64_t load_epoch; /* of a checkpoint, and */
    bool load_ended;     /* whether it is that of the last state, by the job's own decision */
    gw_view_ref load_view;
    gw_kept load_whole;    /* what that view knows to be whole, behind the state that is loaded */
    gw_course course;      /* float sums: of the state that this peer holds */
    gw_course view_course; /* and of the one that its view began with */
    uint32_t newcomers;    /* that members wait for */
    bool applying;
    int64_t decisions; /* of the sum being applied */
    uint32_t failures;
    uint32_t lost_claims; /* of this step: shards claimed here and given back */
    bool claims_old;      /* this process stood still in this step: what others claimed may long be done */
    bool lacks_shard;     /* one of them was dealt in this view: a sum without it would be refused */
    gw_thief thief;
    gw_losses losses; /* of this job, from the present step on; part of the durable record */
    gw_losses agreed; /* those that the view began with: all members are careful in the same steps */
    uint8_t
        *old_ballot; /* quorum any: what the record says of promises, which a run by majority made; kept */
    size_t old_ballot_length;
    bool losses_changed; /* since that was read, at the start */
    uint32_t fell_at;    /* the shard that made this peer give up, plus 1; 0 = none */
    bool blameless;      /* it has ended, and no shard is why: its device, its disk, the others */
    char refused[120];   /* what was wrong with the sum that failed its checks last */
    gw_retry retry;
    gw_changes changes;
    uint32_t arrangement;                          /* of this view's members for sums */
    uint32_t chosen[GW_VERIFY_MOST], chosen_count; /* of this step: computed twice */
    gw_dispute dispute;                            /* while DISPUTING */
    gw_token probe_token, look_token;
    gw_testimony testimony;
    gw_doubt doubt;             /* until a view is installed, or the step is over */
    gw_convictions convictions; /* of others, which have not heard it; part of the durable record */
    uint64_t heard_epoch;       /* of the last one of its own that it knows of; part of the durable record, */
    uint64_t recorded_epoch;    /* which has this one by now */
    gw_given_up given_up;       /* for that; part of the durable record */
    uint64_t loaded_epoch;      /* of the view in which the state was loaded; 0 = in none */
    uint32_t faults;            /* times that this life was found to compute or hold other bits */
    uint64_t pause_since_ns;    /* members wait, for newcomers or at a boundary; 0 = they do not */
    uint64_t joiners_since_ns;  /* at the leader, in the middle of a step: newcomers wait; 0 = none */
    uint64_t admit_at_ns;       /* none is admitted there before */
    uint64_t load_failures;     /* of the same state, one after another */
    uint64_t failing_since_ns;
    uint64_t failed_step; /* that state: its step, and its checkpoint, if it is one, among these lives */
    gw_hash failed_root;
    uint64_t failed_lives; /* in one number */
    gw_uncommitted uncommitted;
    uint64_t committed_step, committed_fingerprint; /* the newest state that others may see */
    uint64_t effects_step; /* steps behind the state whose last step's effects were asked for last */

    /* what the world was asked for */
    uint64_t looked_ns;     /* when it was last seen to */
    uint64_t load_moved_ns; /* when the LOAD in progress last got on */
    gw_token disk_token;    /* the last SAVE or MANIFEST without an answer; 0 = none */
    uint64_t disk_moved_ns;
    bool disk_hangs;           /* it has been silent for too long */
    uint64_t persist_since_ns; /* majority: the record is not durable since; 0 = it is */
    uint64_t persist_again_ns; /* whoever rules: it was refused, and is written again; 0 = it was not */

    /* waiting */
    uint64_t stranger_ns; /* when the last one who runs another job said hello; 0 = nobody has */
    uint64_t join_at_ns, phase_logged_ns, found_since_ns;
    gw_view_name asked_view; /* the flock that it asks to be admitted to, */
    uint32_t asked_times;    /* and how often it has */
    uint64_t heal_since_ns, heal_block_ns, offer_at_ns, offer_until_ns;
    bool healing;
    gw_peer_id heal_leader;

    /* checkpoints and the end */
    gw_save save;
    uint64_t saved_step; /* newest complete; UINT64_MAX = none */
    bool saved_behind;   /* noted since a state was loaded last, which goes on from it */
    gw_kept found;       /* a newer one, of which this view's disks had all when it began; step 0: none */
    uint64_t saved_ns;
    uint64_t save_again_ns; /* the last one could be stored by nobody: the next is due then, or when somebody
                               can, and none before without need; 0 = it could */
    uint32_t unsaved_times; /* such ones in a row */
    bool save_asked;        /* somebody asked for one, and none was complete since it was begun */
    gw_end end;
    bool said_alone, said_no_room;
    uint64_t lonely_ns;   /* since when it can do nothing without others; 0 = it can */
    uint64_t hopeless_ns; /* and those have ended */
    gw_kept *kept;
    uint32_t kept_count;
    bool want_save, want_stop, leaving, unwritable, end_sent;
    uint64_t write_again_ns; /* while unwritable */
    uint32_t refusals;       /* of the disk here, in a row, */
    uint64_t refused_ns;     /* and the first of them */
    uint64_t part_step;      /* of the last one begun here since the last RETAIN; UINT64_MAX = none */
    uint64_t room_step;      /* of the last one for which all was deleted that can go; UINT64_MAX = none */
    bool unwritable_said;    /* until something was written again */
    char unwritable_why[200];
    bool given_up_said;                     /* a checkpoint was given up, and none is complete since */
    uint32_t late_saves;                    /* checkpoints in a row that took too long */
    bool member_unwritable[GW_MAX_MEMBERS]; /* as far as this peer has heard */
    bool unwritable_to_all[GW_MAX_MEMBERS]; /* as the last sum or view told all members: chunks go by this */
    uint32_t final_failures;                /* final checkpoints in a row that nobody could hash */
    uint64_t unsaved_ns; /* since when the last state could be stored by nobody; 0 = it could, or is none */
    bool unsaved_said;
    uint64_t leave_step;
    uint64_t leave_ns;       /* since when it is leaving */
    bool leave_tried;        /* a save of what the last one has made was begun */
    uint64_t leave_again_ns; /* waiting to leave: no other save begins before */

    uint64_t views_installed, steps_repaired, shards_repaired, steals, shards_stolen;
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

/* ---- peer_contacts.c ---- */
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

/* ---- peer_links.c ---- */
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

/* ---- peer_strangers.c ---- */
bool gw_strangers_is_one(const gw_peer *p, const gw_message *hello);
void gw_strangers_met(gw_peer *p, gw_contact *from, const gw_message *hello); /* of one */
void gw_strangers_consider(gw_peer *p); /* without a view: is this peer turned away? */

/* ---- peer_views.c ---- */
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

/* ---- peer_install.c ---- */
void gw_install_adopt(gw_peer *p, const gw_install *install); /* of the view that it is frozen for */
void gw_install_told(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_install_member_ready(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_install_loaded(gw_peer *p, const gw_event *event);
void gw_install_consider(gw_peer *p); /* what a step that is about to begin waits for */
uint64_t gw_install_deadline(const gw_peer *p);
void gw_install_link_up(gw_peer *p, const gw_contact *member); /* says again what it may have missed */
/* READY again, with what is known now to be whole, and behind the view's state. */
void gw_install_tell_whole(gw_peer *p, const gw_kept *whole);

/* ---- peer_votes.c ---- */
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

/* ---- peer_waiting.c ---- */
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

/* ---- peer_steps.c ---- */
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

/* ---- peer_verify.c ---- */
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

/* ---- peer_verdicts.c ---- */
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

/* ---- peer_halt.c ---- */
/* Nobody can tell which bits are right, for the reason given: ends this peer, and, as far as they can be
 * reached, all members of the view, which is the one that it lives in or has proposed. */
void gw_halt(gw_peer *p, const gw_view *view, const char *format, ...) __attribute__((format(printf, 3, 4)));
void gw_halt_told(gw_peer *p, const gw_contact *from, const gw_message *message);
/* A member that has left in the middle of a sum, or of a dispute about one, may have said why. */
bool gw_halt_may_come(const gw_peer *p);

/* ---- peer_changes.c ---- */
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

/* ---- peer_retry.c ---- */
void gw_retry_failed(gw_peer *p, const gw_event *event); /* asks for a new view, now or later, or gives up */
void gw_retry_blame(gw_peer *p, const gw_peer_id *id); /* something fails between this member and this peer */
void gw_retry_succeeded(gw_peer *p);  /* a sum that is right: nothing has failed between its members */
void gw_retry_begin_anew(gw_peer *p); /* the others have gone on without this peer */
void gw_retry_consider(gw_peer *p);
uint64_t gw_retry_deadline(const gw_peer *p);

/* ---- peer_poison.c ---- */
/* What peers were at in this step is not known from now on: they may have got further. */
void gw_poison_stood_still(gw_peer *p);
void gw_poison_claim(gw_peer *p, const gw_event *event);
void gw_poison_linked(const gw_peer *p, gw_contact *contact, const gw_incarnation *life); /* anew */
void gw_poison_left_out(gw_contact *contact); /* of the view that goes on */
void gw_poison_claimed_by(gw_peer *p, gw_contact *from, const gw_message *message);
bool gw_poison_start(gw_peer *p); /* takes in how the last life ended; true: the record is to change */
/* Takes over what others know; steps before `step` are done. May end this peer. */
void gw_poison_learn(gw_peer *p, const gw_losses *losses, uint64_t step);
/* It died or gave up, and has not wished to leave. */
void gw_poison_member_fell(gw_peer *p, gw_contact *contact);
void gw_poison_tell(gw_peer *p); /* the others, why this peer cannot go on */
void gw_poison_told(gw_contact *from, const gw_message *message);
void gw_poison_as_told(gw_contact *contact); /* after its blob was read: what its link told, if it did */
void gw_poison_last_words(gw_peer *p, gw_contact *contact); /* they may come after the news that it left */
/* This peer cannot go on because of this shard: "shard 7 of step 3 <why>". */
void gw_poison_give_up(gw_peer *p, uint32_t shard, const gw_event *event);
void gw_poison_forget(gw_peer *p, uint64_t step); /* steps before this one are over */

/* ---- peer_commit.c ---- */
void gw_commit_applied(gw_peer *p); /* a step has been applied here: p->step and p->fingerprint are of now */
/* All members of the view hold the state that this peer holds: shows the step that led to it, once. */
void gw_commit_agreed(gw_peer *p);
void gw_commit_effects(gw_peer *p, const gw_event *event); /* COMMITTED */

/* ---- peer_saves.c ---- */
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

/* ---- peer_kept.c ---- */
const gw_kept *gw_kept_newest(const gw_peer *p); /* that is known to be whole, or NULL */
/* Whether that is behind the state that this peer holds, or holds next: with float sums it may be of another
 * course of the job. */
bool gw_kept_knows_course(const gw_peer *p);
/* The same, if it is behind that state; step 0: there is none. */
gw_kept gw_kept_whole(const gw_peer *p);
/* Whether a checkpoint that has been recorded here is behind the state that this peer holds. */
bool gw_kept_is_behind(const gw_peer *p, const gw_kept *one);
/* This checkpoint has been loaded: it is the newest complete one, and is kept beside the next. */
void gw_kept_resumed(gw_peer *p, uint64_t step, const gw_hash *root);
/* A checkpoint of this peer's state has been recorded, by whichever disks take it. */
void gw_kept_recorded(gw_peer *p, const gw_kept *one);
/* The state of this peer's view was loaded, with its course. */
void gw_kept_took_state(gw_peer *p);
/* As a view's members know. It may not have reached this peer that it is complete. */
void gw_kept_told_whole(gw_peer *p, const gw_kept *whole);
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

/* ---- peer_leave.c ---- */
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

/* ---- peer_final.c ---- */
void gw_final_not_hashed(gw_peer *p); /* nobody could even hash some of it: tried again, but not for ever */
/* At the leader: nobody has room for all of it. True: it will be tried again; false: that has lasted long
 * enough. */
bool gw_final_waits_for_room(gw_peer *p);
void gw_final_consider(gw_peer *p);
void gw_final_unsaved(gw_peer *p, uint64_t step, const gw_hash *root); /* ends this peer */

/* ---- peer_end.c ---- */
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

/* ---- peer_patience.c ---- */
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
