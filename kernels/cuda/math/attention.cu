/* Attention after Dao, "FlashAttention-2" (2023). The algorithm is the same for both types; the products of
 * tiles depend on the type, and come from the template parameter `tiles` (attention_tensor.cuh,
 * attention_plain.cuh). Three kernels go over the scores:
 *
 * - forward: a block owns queries and goes through keys and values, up to the diagonal;
 * - keys: a block owns keys and values, goes through queries from the diagonal on, and computes the gradients
 *   of its keys and values;
 * - queries: a block owns queries, goes through keys and values again, and computes the gradient of its
 *   queries.
 *
 * So no two blocks write to one place, and every sum has one order; the price is that backward computes the
 * scores twice. While a block works on a pair of tiles, the next pair is copied to shared memory. */
#include "kernels/cuda/math/attention.h"

#include "kernels/cuda/math/attention_plain.cuh"
#include "kernels/cuda/math/attention_tensor.cuh"
#include "kernels/cuda/math/dropout.cuh"
#include "kernels/cuda/math/factor.cuh"
#include "kernels/cuda/math/launch.cuh"

#include <math.h>

namespace {

constexpr float LOG2_E = 1.44269504f;
constexpr unsigned ALL = 0xffffffffu;

struct shape_of {
    uint32_t positions, heads, channels, width;
    float scale; /* factor of scores */
    float unit;  /* factor of scores as exponents of 2 */
    gw_dropping dropping;
};

/* One head of one sequence; the grid's y is the head's number, its z the sequence's. */
struct head {
    size_t row;      /* the sequence's first row */
    uint32_t number; /* the head's number in its sequence */
    size_t stride;   /* elements from a row of qkv to the next */
    uint64_t first;  /* dropout's element number of weight (0, 0) */

    __device__ explicit head(const shape_of &s)
        : row((size_t)blockIdx.z * s.positions), number(blockIdx.y), stride(3 * (size_t)s.channels),
          first(((uint64_t)blockIdx.z * s.heads + blockIdx.y) * s.positions * s.positions) {}

    /* The offset of the head's elements at `position`: in qkv, of its query (part 0), key (1) or value (2);
     * in an array [rows, channels]; in an array [rows, heads]. */
    __device__ size_t in_qkv(const shape_of &s, uint32_t position, uint32_t part) const {
        return (row + position) * stride + (size_t)part * s.channels + (size_t)number * s.width;
    }
    __device__ size_t in_out(const shape_of &s, uint32_t position) const {
        return (row + position) * s.channels + (size_t)number * s.width;
    }
    __device__ size_t in_norms(const shape_of &s, uint32_t position) const {
        return (row + position) * s.heads + number;
    }
};

/* The pairs of tiles of the other rows, which take turns in two places. `memory` has room for four tiles. */
template <typename tiles> struct stream {
    typedef typename tiles::element element;
    static constexpr int TILE = tiles::OTHER * tiles::STRIDE;

    element *memory;
    const element *from[2];
    size_t stride[2];
    int positions, width;

    __device__ element *tile(int index, int which) const { return memory + (index % 2 * 2 + which) * TILE; }
    __device__ void begin(int index) const {
        int first = index * tiles::OTHER;
#pragma unroll
        for (int which = 0; which < 2; which++)
            tiles::template load<tiles::OTHER>(tile(index, which),
                                               from[which] + (size_t)first * stride[which], stride[which],
                                               positions - first, width);
        gw_copy_commit();
    }
    /* Waits until the block's copies of the tiles `index` are complete and no thread reads the pair before.
     */
    __device__ void arrived() const {
        gw_copy_wait<0>();
        __syncthreads();
    }
};

/* Bytes of shared memory that own rows, other rows and the scratch of products take. */
template <typename tiles> constexpr size_t shared_bytes(int own_tiles, int other_floats) {
    return sizeof(typename tiles::element) * tiles::STRIDE * (own_tiles * tiles::OWN + 4 * tiles::OTHER) +
           sizeof(float) * (tiles::SCRATCH_FLOATS + other_floats);
}

/* The block's own tile `index` in shared memory, and the scratch behind own and other tiles. */
template <typename tiles> __device__ typename tiles::element *own_tile(int index) {
    return static_cast<typename tiles::element *>(gw_dynamic_shared()) + index * tiles::OWN * tiles::STRIDE;
}

template <typename tiles> __device__ float *scratch_after(int own_tiles) {
    return reinterpret_cast<float *>(own_tile<tiles>(own_tiles) + 4 * tiles::OTHER * tiles::STRIDE);
}

/* The pairs of key and value tiles of a head, behind `own_tiles` tiles of own rows in shared memory. */
template <typename tiles>
__device__ stream<tiles> keys_and_values(const shape_of &shape, const head &h,
                                         const typename tiles::element *qkv, int own_tiles) {
    return {own_tile<tiles>(own_tiles),
            {qkv + h.in_qkv(shape, 0, 1), qkv + h.in_qkv(shape, 0, 2)},
            {h.stride, h.stride},
            (int)shape.positions,
            (int)shape.width};
}

/* The number of key tiles that a block attends to whose first query is `first`. */
template <typename tiles> __device__ int key_tiles(int first, int positions) {
    return (min(first + tiles::OWN, positions) + tiles::OTHER - 1) / tiles::OTHER;
}

/* Starts the copy of the block's own rows, from row `first` of part `part` of qkv on, to own tile `tile`. */
template <typename tiles>
__device__ void load_own(const shape_of &shape, const head &h, const typename tiles::element *qkv, int first,
                         uint32_t part, int tile) {
    tiles::template load<tiles::OWN>(own_tile<tiles>(tile), qkv + h.in_qkv(shape, (uint32_t)first, part),
                                     h.stride, (int)shape.positions - first, (int)shape.width);
}

template <typename tiles> __device__ void scale_by(typename tiles::sums *sums, float factor) {
#pragma unroll
    for (int slot = 0; slot < tiles::SLOTS; slot++)
#pragma unroll
        for (int i = 0; i < tiles::sums::PER; i++) sums->at(slot, i) *= factor;
}

template <typename tiles> __device__ float row_sum(float value) {
#pragma unroll
    for (int step = 1; step < tiles::ROW_LANES; step *= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

template <typename tiles> __device__ float row_largest(float value) {
#pragma unroll
    for (int step = 1; step < tiles::ROW_LANES; step *= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, step));
    return value;
}

/* Calls use(slot, i, factor) for every score, with the factor of dropout: 0 or its scale. Own rows are keys
 * if `by_keys`, else queries. The first query's weight of the first key is dropout's element `first`. */
template <typename tiles, bool dropped, bool by_keys, typename user>
__device__ void for_each_score(const shape_of &shape, uint64_t first, user use) {
    if constexpr (dropped && tiles::SHARES_DRAWS) {
        if (shape.positions % 4 == 0) {
            tiles::template for_each_kept<by_keys>(shape.dropping, first, shape.positions, use);
            return;
        }
    }
#pragma unroll
    for (int slot = 0; slot < tiles::SLOTS; slot++)
#pragma unroll
        for (int i = 0; i < tiles::scores::PER; i++) {
            float kept[1] = {1.0f};
            int own = tiles::row(slot), other = tiles::scores::column(i);
            uint64_t query = (uint64_t)(by_keys ? other : own), key = (uint64_t)(by_keys ? own : other);
            if (dropped) gw_drop(shape.dropping, first + query * shape.positions + key, kept);
            use(slot, i, kept[0]);
        }
}

/* Forward. */

/* The state of the online softmax of a thread's rows: the largest score so far, and this thread's part of the
 * sum of 2^(score - largest), with scores as exponents of 2. */
template <typename tiles> struct progress { float largest[tiles::SLOTS], total[tiles::SLOTS]; };

/* Turns scores into weights. If a row has a larger score now, the sums so far are rescaled; where no row of
 * the warp has one, that would multiply by 1 and is left out. */
template <typename tiles>
__device__ void weigh(float unit, typename tiles::scores *s, progress<tiles> *p, typename tiles::sums *out) {
    float before[tiles::SLOTS];
    bool larger = false;
#pragma unroll
    for (int slot = 0; slot < tiles::SLOTS; slot++) {
        before[slot] = p->largest[slot];
        float largest = before[slot];
#pragma unroll
        for (int i = 0; i < tiles::scores::PER; i++) largest = fmaxf(largest, s->at(slot, i));
        p->largest[slot] = row_largest<tiles>(largest);
        larger = larger || p->largest[slot] > before[slot];
    }
    if (__any_sync(ALL, larger)) {
#pragma unroll
        for (int slot = 0; slot < tiles::SLOTS; slot++) {
            float shrink = gw_exp2((before[slot] - p->largest[slot]) * unit);
            p->total[slot] *= shrink;
#pragma unroll
            for (int i = 0; i < tiles::sums::PER; i++) out->at(slot, i) *= shrink;
        }
    }
#pragma unroll
    for (int slot = 0; slot < tiles::SLOTS; slot++) {
        float offset = p->largest[slot] * unit;
#pragma unroll
        for (int i = 0; i < tiles::scores::PER; i++) {
            float weight = gw_exp2(fmaf(s->at(slot, i), unit, -offset));
            s->at(slot, i) = weight;
            p->total[slot] += weight;
        }
    }
}

template <typename tiles, bool dropped>
__global__ void __launch_bounds__(tiles::THREADS, 1)
    forward_kernel(shape_of shape, const typename tiles::element *__restrict__ qkv,
                   typename tiles::element *__restrict__ out, float *__restrict__ norms) {
    int first = (int)(gridDim.x - 1 - blockIdx.x) * tiles::OWN; /* blocks with most tiles start first */
    int positions = (int)shape.positions, width = (int)shape.width;
    head h(shape);
    stream<tiles> others = keys_and_values<tiles>(shape, h, qkv, 1);
    int count = key_tiles<tiles>(first, positions);
    int warp_first = first + tiles::warp_row(), warp_last = warp_first + tiles::WARP_ROWS - 1;
    load_own<tiles>(shape, h, qkv, first, 0, 0);
    others.begin(0);

    progress<tiles> p;
    typename tiles::sums result;
    result.clear();
#pragma unroll
    for (int slot = 0; slot < tiles::SLOTS; slot++) {
        p.largest[slot] = -INFINITY;
        p.total[slot] = 0.0f;
    }
#pragma unroll 1
    for (int index = 0; index < count; index++) {
        int key = index * tiles::OTHER;
        others.arrived();
        if (index + 1 < count) others.begin(index + 1);
        if (key > warp_last) continue; /* the mask is causal: later keys have no weight */
        typename tiles::scores s;
        tiles::multiply(&s, own_tile<tiles>(0), others.tile(index, 0), width);
        if (key + tiles::OTHER - 1 > warp_first) {
#pragma unroll
            for (int slot = 0; slot < tiles::SLOTS; slot++)
#pragma unroll
                for (int i = 0; i < tiles::scores::PER; i++)
                    if (key + tiles::scores::column(i) > first + tiles::row(slot)) s.at(slot, i) = -INFINITY;
        }
        weigh<tiles>(shape.unit, &s, &p, &result);
        if (dropped)
            for_each_score<tiles, dropped, false>(
                shape, h.first + (uint64_t)first * shape.positions + (uint64_t)key,
                [&](int slot, int i, float kept) { s.at(slot, i) *= kept; });
        tiles::add(&result, &s, others.tile(index, 1), scratch_after<tiles>(1));
    }
#pragma unroll
    for (int slot = 0; slot < tiles::SLOTS; slot++) {
        float total = row_sum<tiles>(p.total[slot]), share = 1.0f / total;
#pragma unroll
        for (int i = 0; i < tiles::sums::PER; i++) result.at(slot, i) *= share;
        int position = first + tiles::row(slot);
        if (position < positions && threadIdx.x % tiles::ROW_LANES == 0)
            norms[h.in_norms(shape, (uint32_t)position)] = p.largest[slot] * shape.scale + logf(total);
    }
    tiles::store(&result, own_tile<tiles>(0), out + h.in_out(shape, (uint32_t)first), shape.channels,
                 positions - first, width);
}

/* Backward. */

/* Writes dots[rows, heads], the dot product of a head's rows of dout and out. It equals the mean of the row's
 * weight gradients under its weights, which the softmax's gradient needs. */
enum { DOT_THREADS = 256, DOT_LANES = 8 };

template <typename T, int n>
__global__ void __launch_bounds__(DOT_THREADS)
    dots_kernel(uint64_t count, uint32_t width, const T *__restrict__ out, const T *__restrict__ dout,
                float *__restrict__ dots) {
    uint64_t number = ((uint64_t)blockIdx.x * DOT_THREADS + threadIdx.x) / DOT_LANES;
    float sum = 0.0f;
    if (number < count)
        for (uint32_t i = threadIdx.x % DOT_LANES * n; i < width; i += DOT_LANES * n) {
            float a[n], b[n];
            gw_read(out + number * width + i, a);
            gw_read(dout + number * width + i, b);
#pragma unroll
            for (int k = 0; k < n; k++) sum = fmaf(a[k], b[k], sum);
        }
#pragma unroll
    for (int step = 1; step < DOT_LANES; step *= 2) sum += __shfl_xor_sync(ALL, sum, step);
    if (number < count && threadIdx.x % DOT_LANES == 0) dots[number] = sum;
}

/* The weight, computed again from its score and its row's normaliser (an exponent of 2); 0 where the causal
 * mask hides the key. */
__device__ float weight_of(float score, float unit, float norm, bool masked) {
    float weight = gw_exp2(fmaf(score, unit, -norm));
    return masked ? 0.0f : weight;
}

/* What backward needs of a query: its normaliser as an exponent of 2, and its element of `dots`. A query
 * behind the last position gets a normaliser that makes its weights 0. */
struct query_terms {
    float norm, dot;
};

__device__ query_terms look_up(const shape_of &shape, const head &h, int position, const float *norms,
                               const float *dots) {
    if (position >= (int)shape.positions) return query_terms{INFINITY, 0.0f};
    size_t i = h.in_norms(shape, (uint32_t)position);
    return query_terms{norms[i] * LOG2_E, dots[i]};
}

template <typename tiles, bool dropped>
__global__ void __launch_bounds__(tiles::THREADS, 1)
    keys_kernel(shape_of shape, const typename tiles::element *__restrict__ qkv,
                const typename tiles::element *__restrict__ dout, const float *__restrict__ norms,
                const float *__restrict__ dots, typename tiles::element *__restrict__ dqkv) {
    constexpr int OTHER = tiles::OTHER;
    static_assert(OTHER <= tiles::THREADS, "a thread loads one query's terms");
    int first = (int)blockIdx.x * tiles::OWN;
    int positions = (int)shape.positions, width = (int)shape.width, lane = (int)threadIdx.x;
    head h(shape);
    stream<tiles> others = {own_tile<tiles>(2),
                            {qkv + h.in_qkv(shape, 0, 0), dout + h.in_out(shape, 0)},
                            {h.stride, shape.channels},
                            positions,
                            width};
    float *scratch = scratch_after<tiles>(2);
    query_terms *queries =
        reinterpret_cast<query_terms *>(scratch + tiles::SCRATCH_FLOATS); /* of two tiles */
    int begin = first / OTHER, end = (positions + OTHER - 1) / OTHER;
    int warp_first = first + tiles::warp_row(), warp_last = warp_first + tiles::WARP_ROWS - 1;
#pragma unroll
    for (int part = 0; part < 2; part++) load_own<tiles>(shape, h, qkv, first, (uint32_t)part + 1, part);
    others.begin(begin);
    if (lane < OTHER)
        queries[begin % 2 * OTHER + lane] = look_up(shape, h, begin * OTHER + lane, norms, dots);

    typename tiles::sums dkey, dvalue;
    dkey.clear();
    dvalue.clear();
#pragma unroll 1
    for (int index = begin; index < end; index++) {
        int query = index * OTHER;
        query_terms next = {0.0f, 0.0f};
        others.arrived();
        if (index + 1 < end) {
            others.begin(index + 1);
            if (lane < OTHER) next = look_up(shape, h, query + OTHER + lane, norms, dots);
        }
        if (query + OTHER - 1 >= warp_first) {
            bool cut = query < warp_last;
            typename tiles::scores weights, gradient;
            tiles::multiply(&weights, own_tile<tiles>(0), others.tile(index, 0), width);
            tiles::multiply(&gradient, own_tile<tiles>(1), others.tile(index, 1), width);
            for_each_score<tiles, dropped, true>(
                shape, h.first + (uint64_t)query * shape.positions + (uint64_t)first,
                [&](int slot, int i, float kept) {
                    int other = tiles::scores::column(i);
                    query_terms q = queries[index % 2 * OTHER + other];
                    float weight = weight_of(weights.at(slot, i), shape.unit, q.norm,
                                             cut && first + tiles::row(slot) > query + other);
                    weights.at(slot, i) = weight * kept;
                    gradient.at(slot, i) = weight * (gradient.at(slot, i) * kept - q.dot);
                });
            tiles::add(&dvalue, &weights, others.tile(index, 1), scratch);
            tiles::add(&dkey, &gradient, others.tile(index, 0), scratch);
        }
        if (index + 1 < end && lane < OTHER) queries[(index + 1) % 2 * OTHER + lane] = next;
    }
    scale_by<tiles>(&dkey, shape.scale);
    tiles::store(&dkey, own_tile<tiles>(0), dqkv + h.in_qkv(shape, (uint32_t)first, 1), h.stride,
                 positions - first, width);
    tiles::store(&dvalue, own_tile<tiles>(1), dqkv + h.in_qkv(shape, (uint32_t)first, 2), h.stride,
                 positions - first, width);
}

template <typename tiles, bool dropped>
__global__ void __launch_bounds__(tiles::THREADS, 1)
    queries_kernel(shape_of shape, const typename tiles::element *__restrict__ qkv,
                   const typename tiles::element *__restrict__ dout, const float *__restrict__ norms,
                   const float *__restrict__ dots, typename tiles::element *__restrict__ dqkv) {
    int first = (int)(gridDim.x - 1 - blockIdx.x) * tiles::OWN;
    int positions = (int)shape.positions, width = (int)shape.width;
    head h(shape);
    stream<tiles> others = keys_and_values<tiles>(shape, h, qkv, 2);
    int count = key_tiles<tiles>(first, positions);
    int warp_first = first + tiles::warp_row(), warp_last = warp_first + tiles::WARP_ROWS - 1;
    load_own<tiles>(shape, h, qkv, first, 0, 0);
    tiles::template load<tiles::OWN>(own_tile<tiles>(1), dout + h.in_out(shape, (uint32_t)first),
                                     shape.channels, positions - first, width);
    others.begin(0);

    query_terms queries[tiles::SLOTS];
#pragma unroll
    for (int slot = 0; slot < tiles::SLOTS; slot++)
        queries[slot] = look_up(shape, h, first + tiles::row(slot), norms, dots);
    typename tiles::sums dquery;
    dquery.clear();
#pragma unroll 1
    for (int index = 0; index < count; index++) {
        int key = index * tiles::OTHER;
        others.arrived();
        if (index + 1 < count) others.begin(index + 1);
        if (key > warp_last) continue;
        bool cut = key + tiles::OTHER - 1 > warp_first;
        typename tiles::scores weights, gradient;
        tiles::multiply(&weights, own_tile<tiles>(0), others.tile(index, 0), width);
        tiles::multiply(&gradient, own_tile<tiles>(1), others.tile(index, 1), width);
        for_each_score<tiles, dropped, false>(
            shape, h.first + (uint64_t)first * shape.positions + (uint64_t)key,
            [&](int slot, int i, float kept) {
                float weight = weight_of(weights.at(slot, i), shape.unit, queries[slot].norm,
                                         cut && key + tiles::scores::column(i) > first + tiles::row(slot));
                gradient.at(slot, i) = weight * (gradient.at(slot, i) * kept - queries[slot].dot);
            });
        tiles::add(&dquery, &gradient, others.tile(index, 0), scratch_after<tiles>(2));
    }
    scale_by<tiles>(&dquery, shape.scale);
    tiles::store(&dquery, own_tile<tiles>(0), dqkv + h.in_qkv(shape, (uint32_t)first, 0), h.stride,
                 positions - first, width);
}

/* Launches. */

/* The tiles for tensor cores, by the width of heads: a thread's sums must fit its registers, and the tiles of
 * several blocks the shared memory. A warp that owns twice as many rows reads the other rows half as often;
 * with dropout the registers do not suffice for that. */
template <int D, bool dropped> struct on_tensor_cores {
    static constexpr int WARPS = dropped ? 8 : 4, HEIGHT = dropped ? 1 : 2;
    typedef gw_tensor_tiles<D, WARPS, HEIGHT, D == 64 ? 64 : 32> forward;
    typedef gw_tensor_tiles<D, D == 64 ? WARPS : 8, D == 64 ? HEIGHT : 1, 32> backward;
};

template <int D, bool> struct plain { typedef gw_plain_tiles<D> forward, backward; };

shape_of shape_from(const gw_cuda_attention *shape) {
    uint32_t width = shape->channels / shape->heads;
    float scale = 1.0f / sqrtf((float)width);
    return shape_of{shape->positions,
                    shape->heads,
                    shape->channels,
                    width,
                    scale,
                    scale * LOG2_E,
                    gw_dropping_of(shape->dropout, shape->drawn)};
}

template <typename tiles> dim3 grid_of(const gw_cuda_attention *shape) {
    return dim3(gw_cuda_blocks(shape->positions, tiles::OWN), shape->heads, shape->sequences);
}

/* Lets a kernel use more shared memory than a kernel has by default. */
template <typename kernel> cudaError_t allow(kernel *of, size_t bytes) {
    return cudaFuncSetAttribute(of, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

/* The shared memory of the kernel that takes most in the backward pass, keys_kernel. */
template <typename tiles> constexpr size_t backward_bytes() {
    return shared_bytes<tiles>(2, 4 * tiles::OTHER);
}

template <typename tiles, bool dropped>
cudaError_t start_forward(const gw_cuda_attention *shape, const void *qkv, void *out, float *norms,
                          cudaStream_t stream) {
    typedef typename tiles::element element;
    constexpr size_t bytes = shared_bytes<tiles>(1, 0);
    cudaError_t status = allow(forward_kernel<tiles, dropped>, bytes);
    if (status != cudaSuccess) return status;
    GW_LAUNCH((forward_kernel<tiles, dropped>), grid_of<tiles>(shape), tiles::THREADS, bytes, stream,
              shape_from(shape), static_cast<const element *>(qkv), static_cast<element *>(out), norms);
    return cudaGetLastError();
}

/* `on`: on_tensor_cores or plain, for the width D. */
template <template <int, bool> typename on, int D>
cudaError_t forward(const gw_cuda_attention *shape, const void *qkv, void *out, float *norms,
                    cudaStream_t stream) {
    return shape->dropout.rate > 0.0f
               ? start_forward<typename on<D, true>::forward, true>(shape, qkv, out, norms, stream)
               : start_forward<typename on<D, false>::forward, false>(shape, qkv, out, norms, stream);
}

/* The arguments of both kernels of backward. */
struct gradients {
    const gw_cuda_attention *shape;
    const void *qkv, *dout;
    const float *norms, *dots;
    void *dqkv;
    cudaStream_t stream;
};

template <typename tiles, bool dropped> cudaError_t start_backward(const gradients &g) {
    typedef typename tiles::element element;
    constexpr size_t of_keys = backward_bytes<tiles>(), of_queries = shared_bytes<tiles>(2, 0);
    cudaError_t status = allow(keys_kernel<tiles, dropped>, of_keys);
    if (status == cudaSuccess) status = allow(queries_kernel<tiles, dropped>, of_queries);
    if (status != cudaSuccess) return status;
    const element *qkv = static_cast<const element *>(g.qkv), *dout = static_cast<const element *>(g.dout);
    element *dqkv = static_cast<element *>(g.dqkv);
    GW_LAUNCH((keys_kernel<tiles, dropped>), grid_of<tiles>(g.shape), tiles::THREADS, of_keys, g.stream,
              shape_from(g.shape), qkv, dout, g.norms, g.dots, dqkv);
    GW_LAUNCH((queries_kernel<tiles, dropped>), grid_of<tiles>(g.shape), tiles::THREADS, of_queries, g.stream,
              shape_from(g.shape), qkv, dout, g.norms, g.dots, dqkv);
    return cudaGetLastError();
}

template <template <int, bool> typename on, int D> cudaError_t backward(const gradients &g) {
    return g.shape->dropout.rate > 0.0f ? start_backward<typename on<D, true>::backward, true>(g)
                                        : start_backward<typename on<D, false>::backward, false>(g);
}

constexpr size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* The most shared memory that a kernel takes, with dropout or without. */
template <template <int, bool> typename on, int D> constexpr size_t most_shared() {
    return larger(larger(shared_bytes<typename on<D, true>::forward>(1, 0),
                         backward_bytes<typename on<D, true>::backward>()),
                  larger(shared_bytes<typename on<D, false>::forward>(1, 0),
                         backward_bytes<typename on<D, false>::backward>()));
}

template <typename T, int n>
cudaError_t start_dots(const gw_cuda_attention *shape, const void *out, const void *dout, float *dots,
                       cudaStream_t stream) {
    uint64_t count = (uint64_t)shape->sequences * shape->positions * shape->heads;
    GW_LAUNCH((dots_kernel<T, n>), gw_cuda_blocks(count, DOT_THREADS / DOT_LANES), DOT_THREADS, 0, stream,
              count, shape->channels / shape->heads, static_cast<const T *>(out),
              static_cast<const T *>(dout), dots);
    return cudaGetLastError();
}

bool is_wide(const gw_cuda_attention *shape) {
    return shape->channels / shape->heads > 64;
}

} // namespace

const char *gw_cuda_attention_refuses(const gw_cuda_attention *shape, bool bf16) {
    if (shape->sequences == 0 || shape->positions == 0 || shape->heads == 0 || shape->channels == 0)
        return "there is nothing to attend to";
    if (shape->channels % shape->heads != 0) return "the channels are not a multiple of the heads";
    uint32_t width = shape->channels / shape->heads;
    if (width > 128) return "heads are wider than 128 channels";
    if (bf16 && width % 16 != 0) return "in bfloat16 a head's width has to be a multiple of 16";
    if (shape->heads > 65535 || shape->sequences > 65535)
        return "there are more than 65535 sequences or heads";
    if (shape->positions > 1u << 24) return "there are more than 2^24 positions";
    return nullptr;
}

size_t gw_cuda_attention_shared(const gw_cuda_attention *shape, bool bf16) {
    if (bf16)
        return is_wide(shape) ? most_shared<on_tensor_cores, 128>() : most_shared<on_tensor_cores, 64>();
    return is_wide(shape) ? most_shared<plain, 128>() : most_shared<plain, 64>();
}

cudaError_t gw_cuda_attention_forward(const gw_cuda_attention *shape, gw_cuda_factor qkv, gw_cuda_factor out,
                                      float *norms, cudaStream_t stream) {
    if (qkv.bf16 != out.bf16 || gw_cuda_attention_refuses(shape, qkv.bf16) != nullptr)
        return cudaErrorInvalidValue;
    auto start = is_wide(shape) ? forward<plain, 128> : forward<plain, 64>;
    if (qkv.bf16) start = is_wide(shape) ? forward<on_tensor_cores, 128> : forward<on_tensor_cores, 64>;
    return start(shape, qkv.values, out.values, norms, stream);
}

cudaError_t gw_cuda_attention_backward(const gw_cuda_attention *shape, gw_cuda_factor qkv, gw_cuda_factor out,
                                       const float *norms, gw_cuda_factor dout, gw_cuda_factor dqkv,
                                       float *dots, cudaStream_t stream) {
    if (qkv.bf16 != out.bf16 || qkv.bf16 != dout.bf16 || qkv.bf16 != dqkv.bf16 ||
        gw_cuda_attention_refuses(shape, qkv.bf16) != nullptr)
        return cudaErrorInvalidValue;
    auto dot = shape->channels / shape->heads % 4 == 0 ? start_dots<float, 4> : start_dots<float, 1>;
    auto start = is_wide(shape) ? backward<plain, 128> : backward<plain, 64>;
    if (qkv.bf16) {
        dot = start_dots<uint16_t, 8>;
        start = is_wide(shape) ? backward<on_tensor_cores, 128> : backward<on_tensor_cores, 64>;
    }
    cudaError_t status = dot(shape, out.values, dout.values, dots, stream);
    if (status != cudaSuccess) return status;
    return start(gradients{shape, qkv.values, dout.values, norms, dots, dqkv.values, stream});
}
