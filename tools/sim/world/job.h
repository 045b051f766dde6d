/* The simulated job, as functions of the run's options alone.
 *
 * Its state is 64 bits: the state after step t is a hash of the previous state and of the step's sum, and
 * a shard's contribution is a hash of (state, t, shard). The states of an undisturbed run can therefore be
 * computed in advance, and a sum that lost or doubled a shard shows. With --reduce fast a sum depends on
 * the view that made it, as float sums do, so that two lineages of one step show at once. */
#ifndef GODWIT_TOOLS_SIM_WORLD_JOB_H
#define GODWIT_TOOLS_SIM_WORLD_JOB_H

#include "core/brain/peer.h"
#include "tools/sim/setup/options.h"

#define SIM_MS      UINT64_C(1000000)
#define SIM_SKIPPED 0 /* takes the place of the sum where the update is skipped */

enum { SIM_CHUNKS = 6 };                                 /* chunks of each state */
#define SIM_ALL_CHUNKS ((UINT64_C(1) << SIM_CHUNKS) - 1) /* all of them, as bits */

uint64_t sim_contribution(uint64_t state, uint64_t step, uint32_t shard);
/* returns the sum of all its shards */
uint64_t sim_step_sum(const gw_sim_options *options, uint64_t state, uint64_t step);
uint64_t sim_next_state(uint64_t state, uint64_t sum);
/* Returns the state that an undisturbed run makes in this step from this state. */
uint64_t sim_state_after(const gw_sim_options *options, uint64_t state, uint64_t step);
/* Returns the sum that a view, given by the first bytes of its name, makes: with float sums each view
 * makes its own. */
uint64_t sim_sum_of_view(const gw_sim_options *options, uint64_t sum, uint64_t view);
/* steps differ in size, so that a mixed-up step shows */
uint32_t sim_shards(const void *options, uint64_t step);
uint64_t sim_fingerprint(uint64_t state);
gw_hash sim_chunk_hash(uint64_t state, uint32_t chunk);
gw_hash sim_root(uint64_t step, uint64_t state); /* returns the root of the checkpoint after `step` steps */
/* Returns the root of chunks with these hashes, at most SIM_CHUNKS. */
gw_hash sim_root_of(uint64_t step, const gw_hash *hashes, uint32_t count);
/* Returns the number of steps that the job really has: until its own end, or by --patience. */
uint64_t sim_last_step(const gw_sim_options *options);
uint64_t sim_own_end(const gw_sim_options *options); /* the same without --patience */

/* Whether a step is an evaluation, whose value is stored: one of a few, so that some are equal, and sometimes
 * NaN. Values depend on the step alone, so that the best one of every lineage is known. */
bool sim_evaluates(const gw_sim_options *options, uint64_t step, double *value);
gw_best_rule sim_best_rule(const gw_sim_options *options);
/* Returns the record of the best state after so many steps, without what is kept of it. */
gw_best sim_best_after(const gw_sim_options *options, uint64_t steps);

/* Counts the elements of a step's sum that are not finite: those of the shards that `times` counts as
 * added (NULL = of all shards). *first becomes the first of them. */
uint64_t sim_bad_among(const gw_sim_options *options, uint64_t step, uint32_t shards, const uint8_t *times,
                       gw_bad *first);
uint64_t sim_bad_of(const gw_sim_options *options, uint64_t step,
                    gw_bad *first); /* counts those of all shards of a step */

/* Returns the number of the peer whose contributions may be wrong, or UINT32_MAX where none are. */
uint32_t sim_faulty_machine(const gw_sim_options *options);
/* Whether sums use recursive doubling rather than a ring. */
bool sim_sums_are_small(const gw_sim_options *options);
/* Returns a random number of its own for each `of`. It changes no other random number, so that runs that
 * once failed replay as they were. */
uint64_t sim_lot(const gw_sim_options *options, uint64_t of);

/* The configuration of all peers. */
uint32_t sim_replicas(const gw_sim_options *options);
uint32_t sim_keep(const gw_sim_options *options);
uint64_t sim_resume_ns(const gw_sim_options *options);
uint64_t sim_save_timeout_ns(const gw_sim_options *options);
uint64_t sim_grace_ns(const gw_sim_options *options);

#endif
