/* The simulated job, as functions of the run's options alone.
 *
 * Its state is 64 bits: the state after step t is a hash of the one before and of the step's sum, and a
 * shard's contribution is a hash of (state, t, shard). So the states that an undisturbed run reaches can be
 * computed beforehand, and a sum that lost or doubled a shard shows. With --reduce fast a sum depends on the
 * view that made it, as float sums do: two lineages of one step show at once. */
#ifndef GODWIT_TOOLS_SIM_WORLD_JOB_H
#define GODWIT_TOOLS_SIM_WORLD_JOB_H

#include "core/brain/peer.h"
#include "tools/sim/setup/options.h"

#define SIM_MS      UINT64_C(1000000)
#define SIM_SKIPPED 0 /* takes the place of the sum where the update is skipped */

enum { SIM_CHUNKS = 6 }; /* of each state */

uint64_t sim_contribution(uint64_t state, uint64_t step, uint32_t shard);
uint64_t sim_step_sum(const gw_sim_options *options, uint64_t state, uint64_t step); /* of all its shards */
uint64_t sim_next_state(uint64_t state, uint64_t sum);
/* What an undisturbed run makes of this step from this state. */
uint64_t sim_state_after(const gw_sim_options *options, uint64_t state, uint64_t step);
/* What a view, named by the front of its name, makes of a sum: with float sums each view makes its own. */
uint64_t sim_sum_of_view(const gw_sim_options *options, uint64_t sum, uint64_t view);
uint32_t sim_shards(const void *options, uint64_t step); /* steps differ in size: a mixed-up step shows */
uint64_t sim_fingerprint(uint64_t state);
gw_hash sim_chunk_hash(uint64_t state, uint32_t chunk);
gw_hash sim_root(uint64_t step, uint64_t state); /* of the checkpoint of the state after `step` steps */
/* The root that chunks with these hashes, at most SIM_CHUNKS, have together. */
gw_hash sim_root_of(uint64_t step, const gw_hash *hashes, uint32_t count);
uint64_t sim_last_step(const gw_sim_options *options); /* how many steps the job really has */

/* Elements of a step's sum that are not finite: how many of them the shards bring that `times` counts as
 * added (NULL: all do), and the first of them. */
uint64_t sim_bad_among(const gw_sim_options *options, uint64_t step, uint32_t shards, const uint8_t *times,
                       gw_bad *first);
uint64_t sim_bad_of(const gw_sim_options *options, uint64_t step,
                    gw_bad *first); /* of all shards of a step */

/* One machine's contributions may be wrong; this is its peer's number, or UINT32_MAX where none are. */
uint32_t sim_faulty_machine(const gw_sim_options *options);
/* Sums go by recursive doubling rather than round a ring. */
bool sim_sums_are_small(const gw_sim_options *options);
/* A random number of its own for each `of`, which moves no other: runs that once failed replay as they were.
 */
uint64_t sim_lot(const gw_sim_options *options, uint64_t of);

/* What all peers are configured with. */
uint32_t sim_replicas(const gw_sim_options *options);
uint32_t sim_keep(const gw_sim_options *options);
uint64_t sim_resume_ns(const gw_sim_options *options);
uint64_t sim_save_timeout_ns(const gw_sim_options *options);

#endif
