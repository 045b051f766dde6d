/* Checkpoints, the end of the job, leaving, and deadlines for the disk.
 * The state belongs to this room; the other rooms of the brain read it. */
#ifndef GODWIT_CORE_BRAIN_SAVE_STATE_H
#define GODWIT_CORE_BRAIN_SAVE_STATE_H

#include "core/brain/message.h"
#include "core/record/convictions.h"
#include "core/record/lineage.h"

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

typedef struct gw_end { /* the job's last state, as the manifest has it that this peer has written */
    bool known, stopped;
    bool unsaved;               /* it could not be written, or has chunks that nobody has */
    uint64_t step, fingerprint; /* of that state; 0 = not known */
    gw_hash root;
} gw_end;

/* A checkpoint that is not the job's last one has become complete. */
typedef struct gw_completed {
    bool any;     /* the rest of this event has yet to see it */
    bool unsaved; /* nobody could store all of it */
    gw_hash root;
} gw_completed;

typedef struct gw_save_state {
    gw_completed completed;
    gw_save open;        /* the checkpoint in progress */
    uint64_t saved_step; /* of the newest complete checkpoint; UINT64_MAX = none */
    bool saved_behind;   /* that checkpoint was noted after the last load of a state, which goes on from it */
    gw_checkpoint_ref
        found; /* a newer checkpoint, of which this view's disks had all chunks when the view began;
                            step 0: none */
    uint64_t saved_ns;
    uint64_t save_again_ns; /* no peer could store the last checkpoint: the next one is due at this time, or
                               when a peer can, and none begins before without need; 0 = it could be stored */
    uint32_t unsaved_times; /* such checkpoints in a row */
    bool save_asked;        /* a checkpoint was requested, and none begun since has become complete */
    gw_end end;
    uint64_t lonely_ns;      /* since when this peer can do nothing without others; 0 = it can */
    uint64_t hopeless_ns;    /* since when those others have ended; 0 = they have not */
    gw_checkpoint_ref *kept; /* owned */
    uint32_t kept_count;
    gw_given_up given_up; /* checkpoints that count no more; part of the durable record */
    bool want_save, want_stop, leaving, unwritable, end_sent;
    uint64_t write_again_ns; /* while unwritable */
    uint32_t refusals;       /* of the own disk, in a row */
    uint64_t refused_ns;     /* when the first of these refusals came */
    uint64_t part_step;      /* of the last checkpoint begun here since the last RETAIN; UINT64_MAX = none */
    uint64_t room_step;      /* of the last checkpoint for which everything dispensable was deleted;
                                UINT64_MAX = none */
    bool unwritable_said;    /* the log has the reason, and nothing has been written since */
    char unwritable_why[200];
    bool given_up_said;                     /* the log names a checkpoint given up; none is complete since */
    uint32_t late_saves;                    /* checkpoints in a row that took too long */
    bool member_unwritable[GW_MAX_MEMBERS]; /* as far as this peer has heard */
    bool unwritable_to_all[GW_MAX_MEMBERS]; /* as the last sum or view told all members alike: chunks are
                                               placed by this */
    uint32_t final_failures;                /* final checkpoints in a row that no peer could hash */
    uint64_t unsaved_ns; /* since when no peer could store the last state; 0 = it could, or there is none */
    bool unsaved_said;
    uint64_t leave_step;
    uint64_t leave_ns;       /* since when this peer is leaving */
    bool leave_tried;        /* as the last peer, it has begun to save what it made */
    uint64_t leave_again_ns; /* while it waits to leave: no other save begins before */
    gw_lineage lineage;      /* float sums: of the state that this peer holds */
    gw_lineage view_lineage; /* float sums: of the state that its view began with */
    gw_checkpoint_ref
        load_whole;         /* the newest checkpoint that the loaded view knows to be whole, behind the state
                                that is loaded */
    uint64_t looked_ns;     /* when the deadlines were last checked */
    uint64_t load_moved_ns; /* when the LOAD in progress last made progress */
    gw_token disk_token;    /* of the last SAVE or MANIFEST, while it has no answer; 0 = none */
    uint64_t disk_moved_ns;
    bool disk_hangs; /* no progress has been reported of it for too long */
} gw_save_state;

#endif
