/* From the frozen reports of a view's members to what the view starts with (core/README.md, section 5).
 * Pure. */
#ifndef GODWIT_CORE_BRAIN_VIEW_REPAIR_H
#define GODWIT_CORE_BRAIN_VIEW_REPAIR_H

#include "core/brain/message.h"

typedef struct gw_repair_rules {
    uint64_t steps; /* of the whole job */
    uint32_t (*shards)(const void *context, uint64_t step);
    const void *shards_context;
    uint32_t state_chunks;
    bool latest_view_only; /* float sums: only the state of the latest view's members counts, and of
                              checkpoints the latest view's before one of more steps */
    gw_set doubted;        /* of ranks: what their accumulators hold may be wrong; size 0 = nobody's */
    bool some_absent;      /* a member of a view that this one follows is not among the voters */
    bool some_may_come;    /* nor is somebody whose disk may have what theirs lack */
} gw_repair_rules;

typedef enum gw_repair_answer {
    GW_REPAIR_READY = 1,
    GW_REPAIR_WAIT, /* what is to go on is a checkpoint that the voters' disks cannot complete (with exact
                       sums, where they can complete none), or float sums: nobody here holds the latest view's
                       state, but somebody absent may: see the text */
    GW_REPAIR_OVER, /* float sums: the job has ended, with install's root, step and fingerprint, as a voter
                       has it on record; nobody here has all of that state, but somebody absent may: see the
                       text */
    GW_REPAIR_STOP, /* the step's sum failed its checks a third time, with the same voters and nobody in
                       doubt: see the text. Without this proposer the others may try once more */
    GW_REPAIR_HALT, /* as many hold one state as another, so that nobody may go on: see the text */
} gw_repair_answer;

/* Fills everything of *install but view, losses, convictions, spared, cause and cause_age_ns (view is read:
 * its members are in the order of the reports). *install must be zeroed but for these, and owns its sets
 * afterwards. `settle`: make do with what the voters have, without waiting any longer. `text` (at least 200
 * bytes) explains WAIT, OVER, STOP and HALT, and warns of what READY leaves behind; empty otherwise. */
gw_repair_answer gw_repair_plan(const gw_repair_rules *rules, const gw_report *const *reports, bool settle,
                                gw_install *install, char *text, size_t text_size);

#endif
