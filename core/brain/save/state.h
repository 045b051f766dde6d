/* Checkpoints, the end of the job, leaving, and deadlines for the disk.
 * The state belongs to this room; the other rooms of the brain read it. */
#ifndef GODWIT_CORE_BRAIN_SAVE_STATE_H
#define GODWIT_CORE_BRAIN_SAVE_STATE_H

#include "core/brain/message.h"
#include "core/record/convictions.h"
#include "core/record/lineage.h"

/* One checkpoint in progress. */
typedef struct gw_save {
    bool active, final; /* `final`: of the job's last state */
    /* It is of the best evaluated state: no member ends the next step, which would change the state, before
     * the checkpoint is complete or is given up. */
    bool holds;
    bool looks; /* the state is checked in memory after it is stored: no step that would do so ends before */
    uint64_t step, fingerprint, deadline_ns;
    gw_best best; /* of the state that is saved */
    gw_token store_token, manifest_token;
    uint32_t *chunks; /* numbers of the chunks that this peer stores */
    uint32_t chunk_count;
    /* At the leader. */
    gw_hash *hashes;       /* of all chunks; at other members from MANIFEST on */
    gw_set known, durable; /* chunks whose hashes are known; chunks that a member has stored */
    gw_set answered;       /* ranks that have sent STORED */
    gw_set recorded;       /* ranks that have sent RECORDED */
    gw_set placed;         /* ranks on whose disks chunks were placed when the checkpoint began */
    gw_hash root;
    bool listed;       /* the leader has sent MANIFEST */
    bool lacks_copies; /* a disk of `placed` has failed meanwhile */
    uint64_t again_ns; /* final: no disks have room for it, and it is tried again at this time; 0 = no */
    /* At every member. */
    bool incomplete; /* MANIFEST says that not all chunks are durable */
    /* What this peer has sent to the leader, which it sends again when a link comes back. */
    gw_hash *own_hashes; /* of the chunks that it stored */
    uint32_t own_count;
    bool own_stored;     /* STORED may be sent: if `looks`, the state has been checked */
    gw_hash own_root;    /* of the manifest that was written here */
    bool own_recorded;   /* RECORDED may be sent */
    bool own_unrecorded; /* the manifest was hashed, but not written */
    bool unwritten;      /* the manifest was to be written, and the disk hangs */
} gw_save;

/* The job's last state, by the manifest that this peer has written. */
typedef struct gw_end {
    bool known, stopped;
    bool unsaved;               /* the state could not be written, or has chunks that no peer has */
    uint64_t step, fingerprint; /* fingerprint 0 = not known */
    gw_hash root;
} gw_end;

/* A checkpoint that is not the job's last one, and has become complete. */
typedef struct gw_completed {
    bool any;     /* there is one that the rest of this event has yet to handle */
    bool unsaved; /* no peers could store all of it */
    gw_hash root;
} gw_completed;

/* A warning of trouble that may last for weeks: it is logged at once, after a minute, and then after twice
 * the time of before, up to an hour. Zeroed when the trouble is over. */
typedef struct gw_repeated_warning {
    uint64_t again_ns; /* when it is due again; 0 = it has not been logged */
    uint64_t wait_ns;  /* between the last two */
} gw_repeated_warning;

/* The end of a checkpoint for which members wait, as COMPLETE says. */
typedef struct gw_held_end {
    bool any, unsaved;
    uint64_t step;
    gw_hash root;
} gw_held_end;

/* The members that have the chunks of a checkpoint, by its placement. */
typedef struct gw_holders {
    gw_hash root;
    gw_member *members; /* owned */
    uint32_t count;
} gw_holders;

typedef struct gw_save_state {
    gw_completed completed;
    gw_held_end held_end; /* at the leader, of the present state: members may not have heard of it */
    gw_save open;         /* the checkpoint in progress */
    uint64_t saved_step;  /* of the newest complete checkpoint; UINT64_MAX = none */
    bool saved_behind;    /* the state that this peer holds, or holds next, has come from that checkpoint */
    /* A newer checkpoint, of which this view's disks had all chunks when the view began. Step 0: none. */
    gw_checkpoint_ref found;
    uint64_t saved_ns; /* when a checkpoint was last complete */
    /* No peer could store the last checkpoint: the next one is due at this time, or when a peer can store
     * one, and none begins before without need. 0: the last one could be stored. */
    uint64_t save_again_ns;
    uint32_t unsaved_times; /* such checkpoints in a row */
    bool save_asked;        /* a checkpoint was requested, and none begun since has become complete */
    gw_end end;
    uint64_t lonely_ns;      /* since when this peer can do nothing without others; 0 = it can */
    uint64_t hopeless_ns;    /* since when those others have ended; 0 = they have not */
    gw_checkpoint_ref *kept; /* complete checkpoints that are kept, the newest last; owned */
    uint32_t kept_count;
    gw_holders
        *holders; /* of those that became complete, or were loaded, while this peer was a member; owned */
    uint32_t holders_count;
    uint64_t holders_due_ns; /* nobody looks before whether they live */
    bool away_logged;        /* the log says that peers which are gone have the newest complete checkpoint */
    gw_given_up given_up;    /* checkpoints that count no more; part of the durable record */
    bool want_save, want_stop; /* a checkpoint, or the end of the job, was requested for the next boundary */
    bool leaving;              /* the user has asked this peer to leave */
    bool unwritable;           /* this peer's disk takes no checkpoints */
    bool end_sent;             /* this peer has ended with the job, or sends END as it ends */
    uint64_t write_again_ns;   /* while unwritable: when the disk is tried again */
    uint32_t refusals;         /* of this peer's disk, in a row */
    uint64_t refused_ns;       /* when the first of these refusals came */
    uint64_t last_refused_ns;  /* when it last refused */
    /* The disk has written again so soon after it refused that the log does not say so yet. */
    bool recovery_unsaid;
    uint64_t part_step; /* of the last checkpoint begun here since the last RETAIN; UINT64_MAX = none */
    /* Step of the last checkpoint for which everything dispensable was deleted; UINT64_MAX = none. */
    uint64_t room_step;
    bool older_gave_way;    /* for it, checkpoints before the newest whole one were deleted as well */
    bool unwritable_logged; /* the log has the reason, and nothing has been written since */
    gw_repeated_warning unwritable_warning;
    char unwritable_why[200];
    gw_repeated_warning given_up_warning; /* of checkpoints that are given up, while none becomes complete */
    uint32_t late_saves;                  /* checkpoints in a row that took too long */
    bool member_unwritable[GW_MAX_MEMBERS]; /* by rank, as far as this peer has heard */
    /* By rank, as the last sum or view told all members alike; chunks are placed by this. */
    bool unwritable_to_all[GW_MAX_MEMBERS];
    uint32_t final_failures; /* final checkpoints in a row that no peer could hash */
    uint64_t unsaved_ns; /* since when no peer could store the last state; 0 = it could, or there is none */
    bool unsaved_logged; /* the log says that the last state is not saved */
    uint64_t leave_step; /* the step at which this peer was asked to leave */
    uint64_t leave_ns;   /* since when this peer is leaving */
    bool leave_tried;    /* as the last peer, it has begun to save its results */
    bool step_given_up;  /* the log says that the step in progress is not waited for */
    uint64_t leave_again_ns; /* while it waits to leave: no other save begins before */
    gw_lineage lineage;      /* float sums: of the state that this peer holds */
    gw_lineage view_lineage; /* float sums: of the state that its view began with */
    /* The newest checkpoint that the view of the last LOAD knows to be whole, and in the lineage of the state
     * that is loaded. */
    gw_checkpoint_ref load_whole;
    uint64_t looked_ns;     /* when the deadlines were last checked */
    uint64_t load_moved_ns; /* when the LOAD in progress last made progress */
    gw_token disk_token;    /* of the last SAVE or MANIFEST, while it has no answer; 0 = none */
    uint64_t disk_moved_ns; /* when it last made progress */
    bool disk_hangs;        /* it has made no progress for too long */
} gw_save_state;

#endif
