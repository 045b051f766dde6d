/* The judges: they observe a cluster and end its run when something happens that must not. Each judge is one
 * file with one struct, which no other judge writes. It learns what it knows from the facts that the world and
 * the faults tell (tools/sim/world/observer.h), and may ask the judges that stand above it in this list.
 *
 *   lineage.c     which state was made from which
 *   changes.c     bits that changed on their way, and who is accused
 *   corruption.c  wrong bits in memory, and who is found wrong
 *   sums.c        what is summed and applied
 *   shown.c       what people and effects are shown
 *   claimed_lineage.c  where peers say that a state has come from
 *   kept.c        checkpoints that were told to be complete
 *   bad.c         elements that are not finite
 *   views.c       views for newcomers
 *   poison.c      shards that kill every peer that computes them
 *   ends.c        processes that end by themselves
 *   finish.c      the end of the run: whether the job, and everybody, ends in time */
#ifndef GODWIT_TOOLS_SIM_JUDGE_JUDGE_H
#define GODWIT_TOOLS_SIM_JUDGE_JUDGE_H

#include "tools/sim/world/cluster.h"

/* What a view made of a step, with float sums. */
typedef struct sim_made {
    uint64_t view, step, state;
    uint64_t parent; /* the state that it was made from */
} sim_made;

typedef struct sim_lineage {
    sim_made *made; /* empty with exact sums */
    uint32_t made_count, made_capacity;
} sim_lineage;

/* Bits of what one peer sent were others when they came to another. */
typedef struct sim_change {
    gw_peer_id from, to, whose; /* whose: the machine at fault, one of the two */
    uint64_t boot;              /* the life on that machine */
    bool told;                  /* the receiver has accused the sender */
    bool of_two;                /* the receiver was in a view of two members */
    bool held;                  /* the receiver had the state that is summed from, or the one before */
    bool paid;                  /* the life on the machine at fault has been found wrong since */
} sim_change;

typedef struct sim_changes {
    sim_change *list;
    uint32_t count, capacity;
    uint32_t unfound[SIM_PEERS]; /* by machine: changes of sums since it was last found to make any */
    bool tells;                  /* of the change that is being heard of: its receiver must accuse */
} sim_changes;

/* A peer was found to compute, or to hold, wrong bits. */
typedef struct sim_verdict {
    gw_view_name in;        /* the view in which it was found */
    uint64_t by[SIM_PEERS]; /* the lives that told so; 0 = did not */
} sim_verdict;

/* A peer has computed a shard of this step, or held its state, or added up a part of it, wrong. */
typedef struct sim_error {
    gw_peer_id id;
    uint64_t step;
    uint64_t paid; /* the life that has been found wrong for it; 0 = none */
    bool part;     /* only the part was wrong, which nobody else can see */
} sim_error;

typedef struct sim_suspect { /* one life of a peer */
    sim_verdict on_work;     /* on what it has added to its step */
    sim_verdict on_state;
    uint32_t found_wrong; /* how often it has told that it was */
} sim_suspect;

typedef struct sim_corruption {
    sim_error *errors; /* all that have been made: nobody else may be blamed */
    uint32_t count, capacity;
    sim_suspect *suspects; /* by peer */
} sim_corruption;

typedef struct sim_named { /* failures of one life to sum with another, since it last could */
    uint32_t times;
    uint64_t at_ns, boot;
} sim_named;

typedef struct sim_sums {
    uint64_t
        *committed; /* majority: by epoch, the front of the name of the view that committed a step in it */
    uint64_t committed_capacity;
    bool forced;      /* an operator has forced a view: lost members may have used any epoch */
    sim_named *named; /* [peer * count + member] */
} sim_sums;

typedef struct sim_held { /* with float sums: a peer that held this state installed a view */
    uint64_t epoch, state;
    uint64_t boot[SIM_PEERS]; /* of the view's members; 0 = is none */
} sim_held;

typedef struct sim_shown {
    uint64_t *state;         /* by step: the state that was shown last; 0 = none */
    uint32_t *effects;       /* by step: how often its effects took place */
    bool last_effect_failed; /* a peer was done but for that, and its process failed by it */
    sim_held *held;
    uint32_t held_count, held_capacity;
    struct sim_holder {
        uint64_t epoch;   /* of the last view in which this life had a state */
        uint64_t before;  /* the same before the present view */
        uint64_t without; /* of the latest view that others went on in without this life */
    } * holders;          /* by peer */
} sim_shown;

typedef struct sim_complete { /* a checkpoint that was told to be complete */
    uint64_t step, state;
    uint64_t epoch; /* of the latest view that saved it */
    gw_hash root;
    uint64_t had[SIM_PEERS];  /* chunks of it on each disk then, bits */
    uint64_t life[SIM_PEERS]; /* the lives that had them; 0 = none ran */
    bool lost;                /* it is counted as lost, which was excused */
    bool spoilt;              /* disks have lost so much that what is left is not all of it */
} sim_complete;

typedef struct sim_keeper {    /* a peer, as one that keeps checkpoints */
    gw_hash kept[GW_SIM_KEEP]; /* this life was told last that these are complete, or went on from them */
    uint32_t kept_count;
    bool gave_way;        /* this life deleted while its disk refused: it may keep less than --keep */
    bool disk_refuses;    /* the disk was full or hung and has taken no checkpoint since */
    uint64_t counts_from; /* checkpoints of this step and later count on the disk again */
} sim_keeper;

typedef struct sim_kept {
    sim_complete complete[GW_SIM_KEEP]; /* the newest ones, the last one first */
    uint32_t complete_count;
    gw_hash *ends; /* roots of final checkpoints that were looked at: of a job that was done, or stopped */
    uint32_t end_count;
    gw_hash final_root;  /* of the last peer that was done */
    sim_keeper *keepers; /* by peer */
} sim_kept;

typedef struct sim_views { /* by peer, of one life each */
    struct sim_admission {
        uint64_t viewed[SIM_PEERS]; /* the lives of the members of its last view; 0 = is none */
        uint64_t step;              /* the step that it was in then */
        bool proposed_others;       /* it has proposed a view with somebody else since */
        uint32_t in_vain;           /* views for newcomers that it led, one after another, that had none */
    } * of;
} sim_views;

typedef struct sim_death { /* the end of a life */
    uint32_t peer;
    uint64_t boot, nonce;
    bool had_state;
    bool unseen;   /* some peer stood still, for which it dies in the step of its last word */
    uint64_t step; /* that it was in; without a state: that of a peer in whose view it is, or comes to be */
    gw_set begun;  /* shards of the step that this life had begun to compute, or had computed */
} sim_death;

typedef struct sim_poison {
    sim_death *deaths; /* of lives that ended, however: others may not have heard how */
    uint32_t count;
} sim_poison;

typedef struct sim_end {                /* what befell a peer that may excuse its end */
    bool gave_up, refused, device_lost; /* in this life */
    bool heard_of_stop;  /* perhaps: this life ran when the job was asked to stop, or with one that did */
    bool told_end;       /* this life was told that the job has ended, by a peer that ended it */
    bool asked_to_leave; /* this life, at that time and in that step: */
    uint64_t leave_ns, leave_step;
    uint64_t greeted_by[SIM_PEERS]; /* the last life of each that has said hello to this one; 0 = none */
    uint64_t stopped_ns; /* until when a life of it has told others that the job has stopped; 0 = none has */
    uint64_t unsaved_ns; /* the same for a job that nobody could save */
    bool name_stopped, name_unsaved; /* the same, by a name that it has lost: nobody lives by it again */
    bool excused;                    /* what has happened allows this life to end as it did */
} sim_end;

typedef struct sim_ends {
    sim_end *of; /* by peer */
} sim_ends;

typedef struct sim_final {
    gw_view newest; /* of the views that were installed */
} sim_final;

typedef struct sim_judges {
    sim_cluster *c;
    sim_lineage lineage;
    sim_changes changes;
    sim_corruption corruption;
    sim_sums sums;
    sim_shown shown;
    sim_kept kept;
    sim_views views;
    sim_poison poison;
    sim_ends ends;
    sim_final final;
} sim_judges;

/* Registers all judges with the cluster, which they must outlive, before anybody runs. */
sim_judges *sim_judges_open(sim_cluster *c);
void sim_judges_close(sim_judges *j);

/* finish.c: whether nothing more is to come; then what that means has been decided. */
bool sim_is_over(sim_judges *j);
/* In calm the job must be done this much later, at most. */
uint64_t sim_bound_ns(const sim_cluster *c);
/* Once a peer is done, or has stopped the job, the others have this long to end. */
uint64_t sim_aftermath_ns(const gw_sim_options *options);
void sim_check_done(sim_judges *j, uint64_t bound); /* when the job should be done */
void sim_check_all_end(sim_judges *j);              /* after the aftermath of a job that is done */
void sim_check_all_stop(sim_judges *j);             /* after that of one that a peer has stopped */

/* What judges register, in the order of the list above. */
extern const sim_observer sim_lineage_observer, sim_changes_observer, sim_corruption_observer,
    sim_sums_observer, sim_shown_observer, sim_claimed_lineage_observer, sim_kept_observer, sim_bad_observer,
    sim_views_observer, sim_poison_observer, sim_ends_observer, sim_final_observer;

/* lineage.c */
const sim_made *sim_maker(const sim_judges *j, uint64_t state); /* NULL: nobody has made it */
/* The state of a step that some view made, if it has this fingerprint; NULL: none has. */
const sim_made *sim_made_with(const sim_judges *j, uint64_t step, uint64_t fingerprint);
/* Whether `state` came of `from`, by any number of steps. */
bool sim_descends(const sim_judges *j, uint64_t state, uint64_t from);
/* The state that a load is to bring; the initial one where nobody has made it. */
uint64_t sim_state_of(const sim_judges *j, const sim_load_request *load);

/* changes.c */
/* Whether this accuses a sender, which says nothing for sure of anybody; then it must be true. */
bool sim_accuses(sim_judges *j, const sim_peer *by, const gw_action *notice);
bool sim_is_verdict_on_changes(const gw_action *notice);
/* Whether a verdict, or that a peer has heard one on itself, may be for what its machine has changed. */
bool sim_convicts_rightly(sim_judges *j, const sim_peer *by, const gw_action *notice);
/* Bits have changed between it and the only other member so often that both may stop. */
bool sim_halts_rightly(const sim_judges *j, const sim_peer *p);
/* Its machine changes bits, or may be the one that does, as there was no third member. */
bool sim_cannot_fetch(const sim_judges *j, const sim_peer *p);
/* What it sent had other bits for somebody. */
bool sim_cannot_be_fetched_from(const sim_judges *j, const sim_peer *p);

/* corruption.c */
/* Whether it has computed some of that step wrong, and nobody else is in its view to find that. */
bool sim_computes_alone(const sim_judges *j, const sim_peer *p, uint64_t step);
/* Whether its end, of which it says that some peer's bits were wrong, blames nobody who did no wrong. */
bool sim_blames_rightly(const sim_judges *j, const sim_peer *p);
uint32_t sim_found_wrong(const sim_judges *j, const sim_peer *p); /* how often this life has told so */

/* bad.c */
/* Whether it has ended, as it should, of a sum that is not finite. */
bool sim_ends_of_bad(const sim_cluster *c, const sim_peer *p);

/* poison.c */
/* Whether it ends as it names a shard poison whose holders died as often as that takes. */
bool sim_names_poison(const sim_judges *j, const sim_peer *p);

#endif
