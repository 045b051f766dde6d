/* The state of one peer, for the files of the brain alone. It is put together of parts. Each part is written
 * by one room, or by one file of this folder, and read by all (tests/rooms.py holds that):
 *
 *   outbox.c     actions, messages, texts for people, the end
 *   agenda.c     what the rooms leave to the view
 *   record.c     the durable record
 *   job_state.c  the state of the job that this peer holds
 *   commit.c     the steps that others may see
 *   members/     contacts.c (the peers that gossip knows), links.c, strangers.c (peers of another job),
 *                poison.c (shards at which peers die)
 *   faults/      verify.c (shards computed twice), verdicts.c (convictions), path_errors.c (bits that change
 *                between two members), halt.c (when no peer can tell who is right)
 *   save/        holders.c (which peers have their chunks), kept.c (which checkpoints stay), checkpoint.c,
 *                final.c (a last state for which no disk has room), job_end.c (the end for peers that missed
 *                it), leave.c, deadlines.c (what hangs)
 *   step/        steps.c (deal, steal, seal, reduce, check, apply), retry.c (reductions that fail)
 *   view/        majority.c (which peers a view needs), joiners.c, vote.c, install.c, repair.c, propose.c,
 *                admit.c (founding, joining, healing)
 *   peer/        peer.c (creation, events, time), status.c; these own no part
 *
 * A file calls files of its own room and of those above it in this list. What a room has for a later one it
 * returns to peer/peer.c or notes on the agenda, so the files call each other in no circle. */
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

/* What a peer is doing. */
typedef enum gw_phase_of_peer {
    GW_AT_WAITING = 1, /* without a view */
    GW_AT_FROZEN,      /* it has voted and waits for the view to be installed */
    GW_AT_LOADING,     /* a view is installed, whose state this peer fetches */
    GW_AT_GATHERING,   /* a view is installed, whose state other members fetch */
    GW_AT_COMPUTING,
    GW_AT_SEALING,
    GW_AT_REDUCING,
    GW_AT_DISPUTING, /* two members differ about a shard, which all compute once more */
    GW_AT_APPLYING,
    GW_AT_PAUSED, /* at the end of a step; the leader is about to propose a view */
    GW_AT_ENDING, /* it holds the final state and waits for the final checkpoint */
    GW_AT_OVER,   /* it has ended, and nothing happens any more */
} gw_phase_of_peer;

struct gw_peer {
    gw_peer_config config;
    char *identity; /* the job's identity and the rules of this run, compared with those of others; owned */
    gw_hash job;
    gw_peer_inventory inventory; /* the checkpoints on this peer's disk */
    gw_gossip *gossip;
    gw_rng rng;
    gw_actions *actions; /* of the gw_peer_step in progress; NULL between two */
    uint64_t now;        /* time of the gw_peer_step in progress, or of the last one */
    uint64_t started_ns;
    uint64_t seeds_ns; /* since when the address of a seed is known; 0 = none is known */
    bool started;      /* the event START has come */
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
