/* The best evaluated state of a job so far, by one of the values that its evaluations give (--keep-best). The
 * record belongs to the state after a step, as it follows from the values of the evaluations up to that step:
 * it is told with votes and views, and stands in the manifests of checkpoints. The functions are pure. */
#ifndef GODWIT_CORE_RECORD_BEST_H
#define GODWIT_CORE_RECORD_BEST_H

#include "core/base/wire.h"
#include "core/record/lineage.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_BEST_BY_BYTES = 48 }; /* room for "val_loss:min", the value and which values are better */

typedef struct gw_best {
    bool any;     /* an evaluation has given a value, and `value` and `step` count */
    double value; /* the best one, never NaN */
    /* Steps done in the state that the evaluation made, which has the evaluated weights; 0: not known. */
    uint64_t step;
    uint32_t waited; /* evaluations in a row, up to now, that gave no better value */
    /* The best state of which a checkpoint is whole: that of `step`, or an earlier one if no disk took that.
     * Step 0: there is none. */
    gw_checkpoint_ref kept;
    double kept_value;
} gw_best;

/* How evaluations are judged. All peers of a run have the same rule. */
typedef struct gw_best_rule {
    bool on;
    bool more;         /* larger values are better */
    uint32_t patience; /* the job ends after so many evaluations in a row without a better value; 0: it does
                          not */
} gw_best_rule;

/* Takes the value of the evaluation that has made the state of `step` steps. Returns whether it is the best
 * so far: NaN is not, and neither is the value of an earlier evaluation again. */
bool gw_best_take(gw_best *best, const gw_best_rule *rule, double value, uint64_t step);
/* Whether the job ends here, as no evaluation has given a better value for so long. */
bool gw_best_is_over(const gw_best *best, const gw_best_rule *rule);
/* Whether the state of `step` steps is the best one, and no checkpoint of it is known to be whole. */
bool gw_best_lacks_checkpoint(const gw_best *best, uint64_t step);
/* A checkpoint is whole. If it is of the best state, it is the one to keep. */
void gw_best_note_checkpoint(gw_best *best, const gw_checkpoint_ref *whole);
/* Unites what two holders of one state know. They may differ in `kept`, as a message has not reached one of
 * them. If they differ in more, as not all of them began with the job's first evaluation, the first one that
 * has a value counts. */
void gw_best_unite(gw_best *best, const gw_best *other);

/* Whether the record says anything. Another one is not written. */
bool gw_best_is_known(const gw_best *best);
/* The best value as an integer, for comparison with that of other peers. */
int64_t gw_best_word(const gw_best *best);
/* Takes over the best value of another peer, given as such an integer. Nothing changes if it is this peer's
 * own, as it is unless the peers began with different evaluations. */
void gw_best_adopt(gw_best *best, int64_t word);

void gw_best_put(gw_writer *w, const gw_best *best);
/* Reads a record of the state of `step` steps. A record that is impossible fails the reader. */
gw_best gw_best_get(gw_reader *r, uint64_t step);

#endif
