/* The judges observe a cluster and end its run when a promise is broken. Each judge is one file with one
 * struct, which no other judge writes. It learns from the facts that the world and the faults tell
 * (tools/sim/world/observer.h), and may ask the judges above it in this list. The head of each file states
 * its promise.
 *
 * - lineage.c: with float sums, all members of a view make the same state of a step.
 * - changes.c: bits that change on their way are noticed, and no sound machine is convicted for them.
 * - corruption.c: only peers that were wrong are blamed, and a peer that was found wrong contributes
 *   nothing that it had.
 * - sums.c: each step's sum has each of its shards once, and every state is that of the undisturbed run.
 * - shown.c: with a majority rule, no two peers show different states of one step.
 * - claimed_lineage.c: what peers tell about the lineage of a state is true.
 * - kept.c: complete checkpoints have their copies, are kept, and are resumed from.
 * - best.c: all peers agree on the best evaluated state, and its checkpoint stays.
 * - bad.c: elements that are not finite are reported correctly, and their step is skipped or ends the job.
 * - names.c: what a peer is called by others is the name of that life of it.
 * - told_deaths.c: a life that is told to be proven to have ended does not run.
 * - views.c: views for newcomers do not follow one another without end.
 * - poison.c: a shard is named poison only after enough lives have died at it.
 * - deals.c: all members of a view deal a step alike.
 * - ends.c: no process ends by itself without a cause.
 * - finish.c: after all faults are healed, the job and every peer end in time. */
#ifndef GODWIT_TOOLS_SIM_JUDGE_JUDGE_H
#define GODWIT_TOOLS_SIM_JUDGE_JUDGE_H

#include "tools/sim/world/cluster.h"

/* The state that a view made in a step, with float sums. */
typedef struct sim_made {
    uint64_t view, step, state;
    uint64_t parent; /* the state that it was made from */
} sim_made;

typedef struct sim_lineage {
    sim_made *made; /* unused with exact sums */
    uint32_t made_count, made_capacity;
    /* 2 * made_capacity places, by state: which of `made` is the first with it, from 1; 0: none */
    uint32_t *index;
} sim_lineage;

/* Bits that one peer sent arrived changed at another peer. */
typedef struct sim_change {
    gw_peer_id from, to, whose; /* `whose` is the machine at fault, one of the two */
    uint64_t boot;              /* the life on the machine at fault */
    bool told;                  /* the receiver has accused the sender */
    bool of_two;                /* the receiver was in a view of two members */
    bool held;                  /* the receiver held the state that is summed from, or the one before */
    bool settled;               /* the life on the machine at fault has been found wrong since */
} sim_change;

typedef struct sim_changes {
    sim_change *list;
    uint32_t count, capacity;
    uint32_t unfound[SIM_PEERS]; /* by machine: changes of sums since it was last convicted of any */
    /* the receiver of the change that is being delivered must accuse the sender */
    bool tells;
} sim_changes;

/* A verdict: a peer was found to compute, or to hold, wrong bits. */
typedef struct sim_verdict {
    gw_view_name in;        /* the view in which it was found */
    uint64_t by[SIM_PEERS]; /* by peer: the life that reported the verdict; 0 = none */
} sim_verdict;

/* An error: a peer computed a shard of this step, held its state, or added up its part of the sum wrong. */
typedef struct sim_error {
    gw_peer_id id;
    uint64_t step;
    uint64_t settled; /* the life that was found wrong for it; 0 = none */
    bool part;        /* only the part was wrong, which no other peer can see */
} sim_error;

typedef struct sim_suspect { /* verdicts on one life of a peer */
    sim_verdict on_work;     /* on its contributions to the current step */
    sim_verdict on_state;
    uint32_t found_wrong; /* how often this life has reported a verdict on itself */
} sim_suspect;

typedef struct sim_corruption {
    sim_error *errors; /* all errors made so far: no other peer may be blamed */
    uint32_t count, capacity;
    sim_suspect *suspects; /* by peer */
} sim_corruption;

typedef struct sim_named { /* a series of failures of one life to sum with another */
    uint32_t times;
    uint64_t at_ns, boot;
} sim_named;

typedef struct sim_sums {
    /* Majority: by epoch, the first bytes of the name of the view that committed a step in it. */
    uint64_t *committed;
    uint64_t committed_capacity;
    bool forced;      /* an operator has forced a view, so that lost members may have used any epoch */
    sim_named *named; /* [peer * count + member] */
} sim_sums;

typedef struct sim_held { /* with float sums: a peer that held this state installed a view */
    uint64_t epoch, state;
    uint64_t boot[SIM_PEERS]; /* by peer: its boot count as a member of the view; 0 = no member */
} sim_held;

typedef struct sim_shown {
    uint64_t *state;         /* by step: the state that was shown last; 0 = none */
    uint32_t *effects;       /* by step: how often its effects took place */
    bool last_effect_failed; /* a peer was done, but its last effects failed, and its process with them */
    sim_held *held;
    uint32_t held_count, held_capacity;
    struct sim_holder {
        uint64_t epoch;   /* epoch of the last view in which this life had a state */
        uint64_t before;  /* the same, without the current view */
        uint64_t without; /* epoch of the latest view in which others went on without this life */
    } * holders;          /* by peer */
} sim_shown;

typedef struct sim_complete { /* a checkpoint that was reported to be complete */
    uint64_t step, state;
    uint64_t epoch; /* epoch of the latest view that saved it */
    gw_hash root;
    uint64_t had[SIM_PEERS];  /* by peer: its chunks on that disk at the report, as bits */
    uint64_t life[SIM_PEERS]; /* by peer: the life that had them; 0 = none ran */
    bool lost;                /* it was counted as lost, with an excuse */
    bool spoilt;              /* the disks have lost so much of it that it is not whole any more */
} sim_complete;

typedef struct sim_keeper { /* a peer in its role as a keeper of checkpoints */
    /* the latest checkpoints that this life knows to be complete, or resumed from */
    gw_hash kept[GW_SIM_KEEP];
    uint32_t kept_count;
    /* this life deleted checkpoints while its disk refused writes: it may keep fewer than --keep */
    bool gave_way;
    bool disk_refuses;    /* the disk was full or hung, and has stored no checkpoint since */
    uint64_t counts_from; /* checkpoints of this step and later rely on the disk again */
} sim_keeper;

typedef struct sim_best_keeper { /* a life that knows that the checkpoint of the best state is complete */
    uint64_t step;               /* 0: it knows of none */
    gw_hash root;
    uint64_t had; /* chunks on its disk before what it does not retain is deleted, as bits */
} sim_best_keeper;

typedef struct sim_best {
    sim_best_keeper *of; /* by peer */
} sim_best;

typedef struct sim_kept {
    sim_complete complete[GW_SIM_KEEP]; /* the newest ones, newest first */
    uint32_t complete_count;
    gw_hash *ends; /* roots of the final checkpoints that were checked, of jobs that were done or stopped */
    uint32_t end_count;
    gw_hash final_root;  /* root that the last peer that was done ended with */
    sim_keeper *keepers; /* by peer */
} sim_kept;

typedef struct sim_views { /* by peer, for its current life */
    struct sim_admission {
        /* by peer: its life as a member of this peer's last view; 0 = no member */
        uint64_t viewed[SIM_PEERS];
        uint64_t step;        /* the step of this peer at its last view */
        bool proposed_others; /* it has proposed a view with other members since */
        uint32_t in_vain;     /* successive views for newcomers that it led and that admitted none */
    } * of;
} sim_views;

typedef struct sim_death { /* the end of a life */
    uint32_t peer;
    uint64_t boot, nonce;
    bool had_state;
    /* another peer was paused, and believes that the life died in the step of its last message */
    bool unseen;
    /* the step that it was in; without a state, the step of a peer in whose view it is, or will be */
    uint64_t step;
    gw_set begun; /* shards of the step that this life had computed or begun */
} sim_death;

typedef struct sim_lost_process { /* a worker process that ended, perhaps by the shard's fault */
    uint32_t peer, shard;
    uint64_t step;
} sim_lost_process;

typedef struct sim_poison {
    sim_death *deaths; /* every life that ended in any way: other peers may not know how it ended */
    uint32_t count;
    sim_lost_process *processes;
    uint32_t process_count;
    bool named;            /* some peer has ended and named a poison shard */
    bool alone[SIM_PEERS]; /* by peer: as it ended, it was the only member of its view */
    bool first[SIM_PEERS]; /* by peer: no other had named a poison shard before it */
} sim_poison;

/* A deal, as the first member of its view has made it. */
typedef struct sim_deal {
    gw_view_name view;
    uint64_t step, cuts; /* a hash of the cuts */
} sim_deal;

enum { SIM_DEALS = 64 };

typedef struct sim_deals {
    sim_deal list[SIM_DEALS]; /* the last ones, in a ring */
    uint32_t next;
} sim_deals;

typedef struct sim_end {                /* events of a peer's life that may excuse its end */
    bool gave_up, refused, device_lost; /* events of this life */
    /* this life may have heard of a stop: it ran when the job was asked to stop, or with a life that did */
    bool heard_of_stop;
    bool told_end;       /* a peer that ended the job told this life so */
    bool asked_to_leave; /* this life was asked to leave, at that time and in that step */
    uint64_t leave_ns, leave_step;
    uint64_t greeted_by[SIM_PEERS]; /* by peer: its last life that said hello to this one; 0 = none */
    /* until when a life of it may have told others that the job has stopped; 0 = never */
    uint64_t stopped_ns;
    uint64_t unsaved_ns; /* the same for a job that could not be saved */
    /* the same, under a name that was lost with its disk and is not used again */
    bool name_stopped, name_unsaved;
    bool excused; /* this life had an excuse for its end */
} sim_end;

typedef struct sim_ends {
    sim_end *of; /* by peer */
} sim_ends;

typedef struct sim_final {
    gw_view newest; /* the view with the highest epoch that was installed */
} sim_final;

typedef struct sim_judges {
    sim_cluster *c;
    sim_lineage lineage;
    sim_changes changes;
    sim_corruption corruption;
    sim_sums sums;
    sim_shown shown;
    sim_kept kept;
    sim_best best;
    sim_views views;
    sim_poison poison;
    sim_deals deals;
    sim_ends ends;
    sim_final final;
} sim_judges;

/* Opens all judges and registers them with the cluster, before any peer runs. They must outlive the
 * cluster. */
sim_judges *sim_judges_open(sim_cluster *c);
void sim_judges_close(sim_judges *j);

/* Whether the run is over; if so, the verdict has been reached (finish.c). */
bool sim_is_over(sim_judges *j);
/* Returns the time after the end of all faults within which the job must be done. */
uint64_t sim_bound_ns(const sim_cluster *c);
/* Returns the time within which all others must end once one peer is done or has stopped the job. */
uint64_t sim_aftermath_ns(const gw_sim_options *options);
void sim_check_done(sim_judges *j, uint64_t bound); /* called when the job should be done */
void sim_check_all_end(sim_judges *j);              /* called after the aftermath of a job that is done */
/* called after the aftermath of a job that a peer has stopped */
void sim_check_all_stop(sim_judges *j);

/* The observers that the judges register, in the order of the list above. */
extern const sim_observer sim_lineage_observer, sim_changes_observer, sim_corruption_observer,
    sim_sums_observer, sim_shown_observer, sim_claimed_lineage_observer, sim_kept_observer, sim_best_observer,
    sim_bad_observer, sim_names_observer, sim_told_deaths_observer, sim_views_observer, sim_poison_observer,
    sim_deals_observer, sim_ends_observer, sim_final_observer;

/* lineage.c */
/* returns NULL where no view has made the state */
const sim_made *sim_maker(const sim_judges *j, uint64_t state);
/* Returns the state of a step with this fingerprint, if some view made one, or NULL. */
const sim_made *sim_made_with(const sim_judges *j, uint64_t step, uint64_t fingerprint);
/* Whether `state` descends from `from` by any number of steps. */
bool sim_descends(const sim_judges *j, uint64_t state, uint64_t from);
/* Returns the state that a load should bring; the initial one where no view has made it. */
uint64_t sim_state_of(const sim_judges *j, const sim_load_request *load);

/* changes.c */
/* Whether the notice accuses a sender, which is no proof against either side. The accusation must be true. */
bool sim_accuses(sim_judges *j, const sim_peer *by, const gw_action *notice);
bool sim_is_verdict_on_changes(const gw_action *notice);
/* Whether a verdict, or a peer's report of a verdict on itself, may be about bits that its machine has
 * changed. */
bool sim_convicts_rightly(sim_judges *j, const sim_peer *by, const gw_action *notice);
/* Whether bits have changed between the peer and the only other member so often that both may stop. */
bool sim_halts_rightly(const sim_judges *j, const sim_peer *p);
/* Whether the peer's machine changes bits, or may be the one that does, because there was no third member. */
bool sim_cannot_fetch(const sim_judges *j, const sim_peer *p);
/* Whether something that the peer sent has arrived changed. */
bool sim_cannot_be_fetched_from(const sim_judges *j, const sim_peer *p);

/* corruption.c */
/* Whether the peer has computed some of that step wrong, and is alone in its view, so that no other peer
 * can find it. */
bool sim_computes_alone(const sim_judges *j, const sim_peer *p, uint64_t step);
/* Whether an end because of wrong bits blames no peer that did nothing wrong. */
bool sim_blames_rightly(const sim_judges *j, const sim_peer *p);
/* returns how often this life has reported so */
uint32_t sim_found_wrong(const sim_judges *j, const sim_peer *p);

/* bad.c */
/* Whether the peer has ended, as it should, because a sum is not finite. */
bool sim_ends_of_bad(const sim_cluster *c, const sim_peer *p);

/* poison.c */
/* Whether the peer ends because a shard is poison, and as many lives died at that shard as this takes. */
bool sim_names_poison(const sim_judges *j, const sim_peer *p);

#endif
