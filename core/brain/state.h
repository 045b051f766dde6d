/* One peer's state, for the files of the brain alone. It is put together of parts, and each part is written
 * by one room, or by one file of this folder, alone (tests/rooms.py); all others read it:
 *
 *   job_state.c  the state of the job that this peer holds
 *   commit.c     which steps others may see
 *   outbox.c     actions, messages, what people are told, the end
 *   agenda.c     what the rooms leave to the view
 *   record.c     the durable record
 *   members/     contacts.c (gossip's members, their metadata, HELLO), links.c, strangers.c (peers of another
 *                job), poison.c (shards on which peers die)
 *   faults/      verify.c (shards computed twice), verdicts.c (convictions), path_errors.c (bits that change
 *                between two members), halt.c (where no peer can tell who is right)
 *   save/        checkpoint.c, kept.c (which checkpoints stay), final.c (a last state without room), job_end.c (the end
 *                for peers that missed it), leave.c, deadlines.c (actions of the world that hang)
 *   step/        steps.c (deal, steal, seal, reduce, check, apply), retry.c (reductions that fail)
 *   view/        propose.c, vote.c, install.c, admit.c (founding, joining, healing), repair.c
 *   peer/        peer.c (assembly: create, events, the clock), status.c; these own nothing
 *
 * A room calls those before it in this list and none after it. What it has for a later one it returns to
 * peer/peer.c, or leaves on the agenda. */
#ifndef GODWIT_CORE_BRAIN_STATE_H
#define GODWIT_CORE_BRAIN_STATE_H

#include "core/brain/agenda.h"
#include "core/brain/commit.h"
#include "core/brain/faults/state.h"
#include "core/brain/job_state.h"
#include "core/brain/members/state.h"
#include "core/brain/message.h"
#include "core/brain/outbox.h"
#include "core/brain/peer.h"
#include "core/brain/record.h"
#include "core/brain/save/state.h"
#include "core/brain/step/state.h"
#include "core/brain/view/state.h"
#include "core/gossip/gossip.h"
#include "core/record/ballot.h"
#include "core/record/convictions.h"
#include "core/record/deaths.h"
#include "core/record/inventory.h"
#include "core/rng.h"

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
    bool started;
    gw_phase_of_peer phase;

    gw_outbox outbox;
    gw_agenda agenda;
    gw_peer_record record;
    gw_job_state state;
    gw_commit commit;
    gw_members_state members;
    gw_faults_state faults;
    gw_save_state save;
    gw_step_state step;
    gw_view_state view;
};

#endif
