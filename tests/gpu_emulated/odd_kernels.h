/* Kernels that do what the emulator is to notice, or to do as a GPU does, for tests of the emulator itself.
 * They only start work on the default stream. */
#ifndef GODWIT_TESTS_GPU_EMULATED_ODD_KERNELS_H
#define GODWIT_TESTS_GPU_EMULATED_ODD_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void odd_thread_ends_before_a_barrier(void);
void odd_threads_at_two_barriers(void);
void odd_lane_misses_a_shuffle(void);
void odd_lanes_that_do_not_exist(void);
void odd_lane_outside_its_mask(void);
void odd_access_not_aligned(void);
void odd_too_many_threads(void);

/* to[0 .. 3): a word of static and one of dynamic shared memory that nothing has written, and what another
 * block has left there. */
void odd_shared_memory(uint32_t *to);
/* to[block * 64 + thread] = when it ran, counted by *clock. */
void odd_order(uint32_t *to, uint32_t *clock);
/* to[thread] for 128 threads: the sum of in[0 .. 128), by shuffles and shared memory, plus the number of
 * values above 0 of its warp, by a vote. */
void odd_sums(const int32_t *in, int32_t *to);

/* Computes c [16, 8] = a [16, 16] times b [16, 8], bfloat16 as bits, by one warp: factors copied to shared memory
 * asynchronously and loaded as matrices. `hasty`: the kernel does not wait for the copies. */
void odd_product(const uint16_t *a, const uint16_t *b, float *c, int hasty);

#ifdef __cplusplus
}
#endif

#endif
