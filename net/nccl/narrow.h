/* How exact sums travel between GPUs in half the bytes. NCCL adds int64 or int32 and nothing between. Most
 * sums are far narrower than 64 bits: where the widest element of a slice, over all ranks, leaves room for
 * the sum, its elements are narrowed to int32, summed, and widened again. Nothing is rounded, so the sum has
 * the bits that it has otherwise.
 *
 * The kernels come from the owner of the GPUs as this table, since net does not compute. Functions that take
 * a stream start work on it and do not wait; the caller has made the GPU's primary context current. `out`
 * has room for `count` int64, of which narrowed elements take the second half.
 *
 * Thread: that of net/nccl/nccl.h. */
#ifndef GODWIT_NET_NCCL_NARROW_H
#define GODWIT_NET_NCCL_NARROW_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    /* The most elements of a slice. The smaller slices are, the more of them are narrow; NCCL moves the 4 MiB
     * of a narrow one at full speed. */
    GW_NCCL_SLICE = 1 << 20,
    /* The most slices whose width is told. Those after them are not narrowed. */
    GW_NCCL_WIDTHS = 1 << 14,
};

/* Memory of one GPU for GW_NCCL_WIDTHS words. */
typedef struct gw_nccl_words {
    uint32_t *on_gpu;
    uint32_t *seen; /* host memory that the GPU copies to */
} gw_nccl_words;

typedef struct gw_nccl_narrow {
    /* Allocate and free the words of a GPU (CUDA's ordinal). */
    bool (*open)(int gpu, gw_nccl_words *words, gw_err *err);
    void (*close)(int gpu, gw_nccl_words *words);
    /* Sets the first `count` words on the GPU to zero. */
    bool (*clear)(const gw_nccl_words *words, uint32_t count, void *stream, gw_err *err);
    /* Raises a word on the GPU to the least number of bits, 1 to 64, that holds every element of in[count]
     * in two's complement. */
    bool (*measure)(const int64_t *in, uint64_t count, uint32_t *word, void *stream, gw_err *err);
    /* Copies the first `count` words to `seen`. */
    bool (*tell)(const gw_nccl_words *words, uint32_t count, void *stream, gw_err *err);
    /* Writes in[count], each of at most 32 bits, as int32 to the second half of `out`. */
    bool (*narrow)(const int64_t *in, uint64_t count, int64_t *out, void *stream, gw_err *err);
    /* Replaces the int32 in the second half of `out` by out[count]. */
    bool (*widen)(int64_t *out, uint64_t count, void *stream, gw_err *err);
} gw_nccl_narrow;

/* Where narrowed elements lie in `out`. */
static inline int32_t *gw_nccl_narrowed(int64_t *out, uint64_t count) {
    return (int32_t *)(void *)out + count;
}

#endif
