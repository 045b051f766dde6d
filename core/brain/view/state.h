/* Views: proposals, votes, installation, admission, healing.
 * The state belongs to this room; the other rooms of the brain read it. */
#ifndef GODWIT_CORE_BRAIN_VIEW_STATE_H
#define GODWIT_CORE_BRAIN_VIEW_STATE_H

#include "core/brain/message.h"
#include "core/record/ballot.h"

/* A view in which others live with this peer, which never heard that it was installed and has voted for
 * another one since. Only its leader can propose the next one. */
typedef struct gw_missed {
    uint64_t epoch; /* not above that of the installed view: there is none */
    gw_view_name name;
    gw_peer_id leader;
} gw_missed;

/* A proposal of this peer. */
typedef struct gw_attempt {
    bool active;
    bool deciding; /* all have voted, but the view waits for absent peers, such as holders of a checkpoint */
    gw_view view;
    uint64_t base_epoch;
    gw_view_name base;
    gw_view_name absorbed[GW_MAX_ABSORBED];
    uint32_t absorbed_count;
    gw_view *listed; /* owned */
    uint32_t listed_count;
    gw_report *reports[GW_MAX_MEMBERS]; /* by rank, from the votes; NULL: no vote yet; owned */
    uint64_t started_ns, resend_ns;
} gw_attempt;

typedef struct gw_view_state {
    gw_ballot ballot;
    gw_view current;        /* the view in which this peer lives; epoch 0 = none */
    gw_view_ref state_view; /* the view whose state this peer has; it may live in a later view, or in none */
    gw_install *installed;  /* at the view's leader: to be sent again; owned */
    gw_view voted;          /* the view for which this peer is frozen */
    /* The latest view that an earlier life of this peer voted for, and may have lived in. */
    gw_view_ref last_promise;
    uint64_t repair_sent_ns; /* when the leader was last asked for the change that is needed; 0 = not yet */
    /* ASK_VIEW for a view later than this peer's own: the last epoch that it asked about, until when an
     * answer is waited for, when it asks again, the pause before that, and the last epoch that an answer
     * named. */
    uint64_t ask_view_epoch, ask_view_at_ns, ask_view_again_ns, ask_view_pause_ms, view_answer_epoch;
    gw_missed missed;
    bool view_override; /* the next proposal needs no quorum, by the operator's request */
    gw_attempt attempt;
    /* Majority: views that others promised or installed, as they said when they refused, for the next
     * proposal. By index: who named the view and votes for no proposal that omits it, and whether that peer
     * lived in it. */
    gw_view *learned; /* owned */
    gw_peer_id learned_from[GW_MAX_LISTED];
    bool learned_lived[GW_MAX_LISTED];
    uint32_t learned_count;
    uint64_t set_aside_until_ns; /* until then learned views that stop a proposal do not count */
    uint64_t too_few_ns; /* when the `too_few` peers here were found to have no whole checkpoint; 0 = never */
    uint32_t too_few;
    uint64_t wait_since_ns; /* since when this peer's proposal waits for absent peers; 0 = it does not */
    gw_view_name ready_name;
    gw_set ready; /* ranks that hold the state of view `ready_name` */
    /* The newest checkpoint that one of those knows to be whole, in the lineage of that state. Step 0:
     * none. */
    gw_checkpoint_ref ready_whole;
    bool own_ready; /* this peer is among them, and has sent READY */
    gw_token freeze_token;
    bool freeze_after_apply;  /* FREEZE follows when the APPLY in progress has ended */
    uint64_t frozen_since_ns; /* since when this peer is at GW_AT_FROZEN, for one proposal after another */
    bool frozen;              /* FROZEN has come for the vote in progress: held and claimed are valid */
    gw_set held, claimed;
    bool vote_sent;
    gw_set missing;    /* the shards that the present deal deals */
    bool end_given_up; /* by the view, until it begins */
    uint32_t cuts[GW_MAX_MEMBERS + 1];
    /* The last LOAD. */
    gw_token load_token; /* 0: none is in progress */
    gw_load_kind load_kind;
    uint64_t load_step, load_fingerprint;
    gw_hash load_root;
    uint64_t load_epoch; /* of the checkpoint that is loaded */
    gw_best load_best;   /* GW_LOAD_PEERS: of the state that is loaded */
    bool load_ended;     /* that checkpoint is of the job's last state, by the job's own decision */
    gw_view_ref load_view;
    uint64_t loaded_epoch;   /* of the view in which the state was loaded; 0 = it was not loaded */
    uint32_t newcomers;      /* newcomers for which members wait */
    uint64_t pause_since_ns; /* since when members wait, for newcomers or at a boundary; 0 = they do not */
    /* At the leader, in the middle of a step: since when newcomers wait; 0 = none do. */
    uint64_t joiners_since_ns;
    uint64_t admit_at_ns;   /* no newcomer is admitted there before */
    uint64_t load_failures; /* failed loads of the same state, in a row */
    uint64_t failing_since_ns;
    uint64_t failed_step;  /* of the state that could not be loaded */
    gw_hash failed_root;   /* of its checkpoint, if it is one */
    uint64_t failed_lives; /* a digest of the lives among which the load failed */
    uint64_t join_at_ns, found_since_ns;
    gw_view_name asked_view; /* the view of the flock that this peer asks to be admitted to */
    uint32_t asked_times;    /* how often it has asked that flock */
    uint64_t heal_since_ns, heal_block_ns, offer_at_ns, offer_until_ns;
    bool healing; /* this view is offered to the one that `heal_leader` leads */
    gw_peer_id heal_leader;
    bool alone_logged, no_room_logged;
    bool met_once;       /* a peer of this job was met before there was a view */
    char unmet[300];     /* why no seed is met, as the world has told; empty: it has not */
    bool unmet_for_good; /* a seed has turned this peer away, or cannot be met */
    uint64_t views_installed, steps_repaired, shards_repaired;
} gw_view_state;

#endif
