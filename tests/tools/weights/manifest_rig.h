/* A small checkpoint in the scratch folder (tests/scratch.h) for suites that look for manifests. */
#ifndef GODWIT_TESTS_TOOLS_WEIGHTS_MANIFEST_RIG_H
#define GODWIT_TESTS_TOOLS_WEIGHTS_MANIFEST_RIG_H

#include "checkpoint/manifest.h"

enum { RIG_STATE_BYTES = 100, RIG_JOB = 7 };

/* Saves the manifest of a state of one size, which is always the same, as of this step of a job whose id
 * is {job}. Returns its root. */
gw_hash rig_save_manifest(uint64_t step, uint8_t job);
/* Does the same for a state of `chunks` whole chunks of zeros. */
gw_hash rig_save_zeros(uint64_t step, uint8_t job, uint32_t chunks);
/* Saves a checkpoint: this state image, in chunks, and the manifest, whose job, step, parameters and
 * tensors are set. */
void rig_save_state(gw_manifest manifest, const void *state);

#endif
