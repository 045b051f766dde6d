/* Helpers for authors of jobs, beside core/godwit.h and core/rng.h. This header includes all of them, and the
 * program exports every function that they declare, so that a job in a shared object calls them without
 * linking anything:
 *
 *     kernels/math/permutation.h   the order of an epoch's samples: a keyed permutation without memory
 *     kernels/math/optimizer.h     SGD with momentum and AdamW on a range of elements, from exact sums
 *     kernels/math/schedule.h      learning rates: warm-up, cosine, linear, wsd, constant
 *     kernels/math/norm.h          the norm of a gradient from its exact sums
 *     core/rng.h                   gw_philox_at: random bits as a pure function of key and counter
 *     core/base/id.h               gw_blake2b: digests of data, for gw_plan.data_digest
 *     core/base/err.h              gw_fail and gw_fail_in: errors
 *
 * All of them are pure functions of their arguments without state of their own, and may be called from any
 * thread. Integers (permutation, Philox, digests) are the same everywhere. Floating-point results are the same
 * bytes on all peers of one compute class; an optimizer gives the same bytes for any partition of a tensor into
 * ranges, and a norm for any order in which blocks of GW_NORM_BLOCK elements are added. Between versions of
 * GW_JOB_API a function may change its results, which then belong to another job. Other functions of the program
 * are visible to a shared object too, but they are not part of this interface and may change in any version.
 *
 * Typical use:
 *
 *     contribute   gw_permutation order = gw_permutation_of(seed, epoch, samples);
 *                  uint64_t sample = gw_permutation_at(&order, position);
 *     scalars      scalars->value[0] = gw_schedule_rate(&schedule, update);
 *     apply        gw_optimizer_sgd(&(gw_sgd){.scale = 0x1p-40 / batch, .rate = rate, ...}, range->count,
 *                                   sums->data[GRADIENT] + range->first, weights + range->first, ...);
 *
 * 0x1p-40 is 2^-frac_bits of the gradient's sum; batch is the number of samples that the step has summed. */
#ifndef GODWIT_KERNELS_JOB_H
#define GODWIT_KERNELS_JOB_H

#include "core/godwit.h"
#include "core/rng.h"
#include "kernels/math/norm.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/permutation.h"
#include "kernels/math/schedule.h"

#endif
