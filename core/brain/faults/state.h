/* Faults: which members computed, held or sent wrong bits. The state belongs to this room; the other rooms of
 * the brain read it. */
#ifndef GODWIT_CORE_BRAIN_FAULTS_STATE_H
#define GODWIT_CORE_BRAIN_FAULTS_STATE_H

#include "core/brain/message.h"
#include "core/record/convictions.h"
#include "core/shard/double_check.h"

/* The members whose contributions to a step are in doubt. */
typedef struct gw_doubt {
    bool any; /* otherwise nothing is in doubt */
    uint64_t step;
    gw_peer_id accused[2];
} gw_doubt;

/* The results of members that computed a disputed shard once more (WITNESS). They may come before this peer
 * knows of the dispute. */
typedef struct gw_testimony {
    gw_view_name view;
    uint64_t step;
    uint32_t shard[GW_MAX_MEMBERS];       /* by rank: the shard, plus 1; 0 = no result has come */
    uint64_t fingerprint[GW_MAX_MEMBERS]; /* by rank: of the result */
} gw_testimony;

typedef struct gw_faults_state {
    gw_path_errors path_errors;
    uint32_t arrangement;                          /* the order of this view's members for sums */
    uint32_t chosen[GW_VERIFY_MOST], chosen_count; /* shards of this step that are computed twice */
    gw_dispute dispute;                            /* while DISPUTING */
    gw_token probe_token, look_token;
    gw_testimony testimony;
    gw_doubt doubt;             /* until a view is installed, or the step is over */
    gw_convictions convictions; /* of peers that have not heard of them; part of the durable record */
    /* Epoch of this peer's last conviction that it has heard of; part of the durable record. */
    uint64_t heard_epoch;
    uint64_t recorded_epoch; /* the heard_epoch that the durable record has */
    uint32_t times_wrong;    /* how often this life was found to compute or hold other bits */
} gw_faults_state;

#endif
