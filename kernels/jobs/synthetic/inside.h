/* What the files of the `synthetic` job share, which compute the same state on processors and on GPUs. */
#ifndef GODWIT_KERNELS_JOBS_SYNTHETIC_INSIDE_H
#define GODWIT_KERNELS_JOBS_SYNTHETIC_INSIDE_H

#include "core/godwit.h"
#include "kernels/jobs/synthetic/noise.h"

#include <time.h>

enum { CELLS, DIGEST, PUSH, COUNT, ENERGY, UNREAD, TENSORS };
enum { PUSH_FRAC = 40, ENERGY_FRAC = 20, DIGEST_WORDS = 4 };

/* The shard that --crash-shard or --bad-shard names. */
typedef struct synthetic_place {
    bool given;
    uint64_t step;
    uint32_t shard;
} synthetic_place;

typedef struct synthetic {
    gw_tensor tensors[TENSORS];
    uint64_t seed, pushed, payload_bytes;
    uint32_t shards, payload_copies;
    int64_t shard_ns; /* time of a shard, with skew */
    bool spin;
    synthetic_place crash, bad;
} synthetic;

bool synthetic_is_at(const synthetic_place *at, uint64_t step, uint32_t shard);

/* The key of one stream of noise: Philox of (seed, step, shard). The noise of S_0 has SYNTHETIC_INIT as step
 * and the tensor's number as shard. */
#define SYNTHETIC_INIT UINT64_MAX
uint64_t synthetic_noise_key(const synthetic *job, uint64_t step, uint64_t shard);

/* A digest of every bit of a payload and its position. */
uint64_t synthetic_digest_of(const uint8_t *bytes, uint64_t count);

/* synthetic_start returns the time at which a shard starts; synthetic_wait waits until the shard has taken
 * job->shard_ns since then. */
struct timespec synthetic_start(const synthetic *job);
void synthetic_wait(const synthetic *job, struct timespec start);

#ifdef GODWIT_CUDA
extern const struct gw_job_gpu synthetic_gpu;
#endif

#endif
