/* Planning: computes from the reports of a new view's members, which are frozen, what the view begins with
 * (core/README.md, section 5, "Repair"). The functions are pure. */
#ifndef GODWIT_CORE_BRAIN_VIEW_REPAIR_H
#define GODWIT_CORE_BRAIN_VIEW_REPAIR_H

#include "core/brain/message.h"

typedef struct gw_repair_rules {
    uint64_t steps;                                         /* of the whole job */
    uint64_t first_step;                                    /* see gw_peer_config */
    uint32_t (*shards)(const void *context, uint64_t step); /* the number of shards of a step */
    const void *shards_context;
    uint32_t state_chunks; /* chunks of the state image */
    /* Float sums: only the states of the latest view's members count, and checkpoints are compared by view
     * before they are compared by step. */
    bool latest_view_only;
    gw_set doubted;     /* ranks whose accumulators may hold wrong contributions; size 0 = none */
    bool some_absent;   /* a member of a view that this one follows is not among the voters */
    bool some_may_come; /* a peer whose disk may have what the voters' disks lack is not among the voters */
    bool alone;         /* the only voter has never met another peer, which texts for people take up */
} gw_repair_rules;

typedef enum gw_repair_answer {
    /* The plan is complete. */
    GW_REPAIR_READY = 1,
    /* The proposer waits. The view would go on from a checkpoint of which the voters' disks do not have all
     * chunks (with exact sums: and they have no other whole one); or, with float sums, no voter holds the
     * latest view's state, but an absent peer may; or the job goes on from a state that they do not have, for
     * which the proposer waits whatever `settle` says. */
    GW_REPAIR_WAIT,
    /* Float sums: the job has ended with the root, step and fingerprint that *install has, which a voter has
     * on record. No voter has all of that state, but an absent peer may. */
    GW_REPAIR_OVER,
    /* The step's sum has failed its checks for the third time, with the same voters and no member in doubt.
     * Without this proposer the others may try once more. */
    GW_REPAIR_STOP,
    /* As many voters hold one state as another, so that no peer may go on. */
    GW_REPAIR_HALT,
} gw_repair_answer;

/* Computes *install from the reports, which are in the order of the members of install->view. The caller has
 * set `view` and sets losses, convictions, spared, cause and cause_age_ns; everything else is zero before the
 * call. *install owns its sets afterwards. `settle`: the plan makes do with what the voters have, without
 * waiting any longer. `text` has at least 200 bytes; it explains WAIT, OVER, STOP and HALT, and warns of what
 * READY leaves behind, or is empty. */
gw_repair_answer gw_repair_plan(const gw_repair_rules *rules, const gw_report *const *reports, bool settle,
                                gw_install *install, char *text, size_t text_size);

#endif
