/* A stand-in for the CUDA runtime, so that what drives a GPU is tested where there is none: memory of the
 * "GPU" is host memory, and streams are as lazy as CUDA allows. Nothing that was started is done before
 * something waits for it, and then only what must be: whoever reads without waiting, or waits for the wrong
 * stream, finds what was there before. The default stream is no other than the rest, as all of these were
 * made not to wait for it. There are two GPUs of a kind; work for one while the other is current is an error,
 * as it is to CUDA, and so is a copy of what lies in the other's memory. A stream that is recorded as a graph
 * does nothing, and waiting for it, or on it for an event, spoils the graph. New memory begins with 0xEE, a
 * megabyte of it. */
#ifndef GODWIT_TESTS_GPU_FAKE_FAKE_CUDA_H
#define GODWIT_TESTS_GPU_FAKE_FAKE_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts a "kernel" on a stream (NULL: the default one): run(arguments), on a copy of them. */
cudaError_t fake_launch(cudaStream_t stream, void (*run)(void *arguments), const void *arguments,
                        size_t bytes);

/* From now on the call that is `countdown` calls away fails with `status`, and, if that is an error that
 * stays (gw_cuda_sticky), every one after it. Counts calls that start or wait for work, and allocations. */
void fake_fail(unsigned countdown, cudaError_t status);
/* How many calls away it is; 0: it has failed, or none is to fail. */
unsigned fake_countdown(void);

/* Within a kernel: it did what no GPU allows. It ends, and from the next call that starts or waits for work
 * on every one fails with cudaErrorLaunchFailure, whose text is `why`. fake_fail mends that, too. */
void fake_break(const char *why);

/* Whether there is no memory to start a graph from now on. */
void fake_refuse_graphs(bool refused);

/* Whether GPUs share the host's memory from now on. */
void fake_integrated(bool is);

/* Whether the driver has compiled all kernels from now on. */
void fake_compiled(bool is);

/* How much shared memory a block may have at most from now on: that of an H100 at first. */
void fake_shared(size_t bytes);

/* The environment's FAKE_CUDA_DRIVER is the newest CUDA that the driver knows, as CUDA counts (12040
 * is 12.4); 0: there is no driver. */

/* The environment's FAKE_CUDA_COUNTED is the status that counting the GPUs ends with. */

/* The environment's FAKE_CUDA_UNREADABLE is a GPU that the driver tells nothing of. */

/* In a process of its own: while the file gpu.<pid> is in the folder that FAKE_CUDA names, calls fail with
 * the status that is its number; where a second number follows, on that GPU alone. */

/* Memory of the GPU, pinned memory and graphs that were not freed. */
size_t fake_leaked(void);

/* Bytes of it that are a GPU's; and how many are said to be free from now on where none are, 1 GiB at first.
 */
size_t fake_bytes(void);
void fake_free(size_t bytes);

/* Graphs that were started so far. */
size_t fake_graphs(void);

#ifdef __cplusplus
}
#endif

#endif
