/* Products of attention's tiles on tensor cores, of bfloat16.
 *
 * A block owns OWN rows (queries or keys) and goes through OTHER rows of the other kind at a time. A tile is
 * rows of D values in shared memory; what lies beyond a head's width is zero. A row is cut into chunks of 16
 * bytes, whose places are permuted by the row's number: eight rows of one chunk, which a matrix load reads
 * at once, and eight chunks of one row, which a copy writes, lie in different banks. */
#ifndef GODWIT_KERNELS_CUDA_MATH_ATTENTION_TENSOR_CUH
#define GODWIT_KERNELS_CUDA_MATH_ATTENTION_TENSOR_CUH

#include "kernels/cuda/math/dropout.cuh"
#include "kernels/cuda/math/tensor_core.cuh"

/* The sums of a warp, [16 HEIGHT, N]: a thread has SLOTS rows of them, PER values of each. */
template <int HEIGHT, int N> struct gw_tensor_sums {
    static constexpr int PER = N / 4;
    float c[HEIGHT][N / 8][4];

    __device__ float &at(int slot, int i) { return c[slot / 2][i / 2][slot % 2 * 2 + i % 2]; }
    __device__ void clear() {
#pragma unroll
        for (int m = 0; m < HEIGHT; m++)
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int r = 0; r < 4; r++) c[m][n][r] = 0.0f;
    }
    /* The column of value i of every slot. */
    static __device__ int column(int i) {
        return i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
    }
};

template <int D_, int WARPS, int HEIGHT, int OTHER_> struct gw_tensor_tiles {
    typedef uint16_t element;
    static constexpr int D = D_, THREADS = 32 * WARPS, SLOTS = 2 * HEIGHT, WARP_ROWS = 16 * HEIGHT,
                         OWN = WARPS * WARP_ROWS, OTHER = OTHER_, STRIDE = D;
    static constexpr int ROW_LANES = 4;        /* neighbouring threads that share a row */
    static constexpr int SCRATCH_FLOATS = 0;   /* scratch that `add` needs */
    static constexpr bool SHARES_DRAWS = true; /* for_each_kept exists */
    typedef gw_tensor_sums<HEIGHT, OTHER> scores;
    typedef gw_tensor_sums<HEIGHT, D> sums;

    static __device__ int warp_row() { return (int)threadIdx.x / 32 * WARP_ROWS; }
    static __device__ int row(int slot) {
        return warp_row() + slot / 2 * 16 + slot % 2 * 8 + (int)threadIdx.x % 32 / 4;
    }

    /* The offset of a chunk of a row from the tile's start. */
    static __device__ int place(int row, int chunk) { return row * D + (chunk ^ (row & 7)) * 8; }
    static __device__ element *at(element *tile, int row, int chunk) { return tile + place(row, chunk); }
    /* The address `rows` rows (a multiple of 8) and 2 k chunks beyond a place whose chunk is 0 or 1. It takes
     * one operation, since `rows` and `k` are constants. */
    static __device__ const element *beyond(const element *tile, int place, int k, int rows) {
        return tile + (place ^ (k * 16)) + rows * D;
    }

    /* Begins to copy `rows` rows, of which `there` exist, and which lie `stride` values apart in memory. */
    template <int rows>
    static __device__ void load(element *tile, const element *from, size_t stride, int there, int width) {
        constexpr int CHUNKS = D / 8;
        static_assert(rows * CHUNKS % THREADS == 0, "a thread copies as many chunks as the others");
#pragma unroll
        for (int k = 0; k < rows * CHUNKS / THREADS; k++) {
            int i = k * THREADS + (int)threadIdx.x, r = i / CHUNKS, chunk = i % CHUNKS;
            bool exists = r < there && chunk * 8 < width;
            gw_copy_begin(at(tile, r, chunk), from + (exists ? r * stride + (size_t)(chunk * 8) : 0), exists);
        }
    }

    /* Sets the scores *s to the product of the warp's own rows and the transposed other rows. */
    static __device__ void multiply(scores *s, const element *own, const element *other, int) {
        int lane = (int)threadIdx.x % 32;
        int own_place = place(warp_row() + lane % 16, lane / 16);
        int other_place = place(lane / 16 * 8 + lane % 8, lane / 8 % 2);
        gw_hide_value(own_place);
        gw_hide_value(other_place);
        s->clear();
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            uint32_t a[HEIGHT][4];
#pragma unroll
            for (int m = 0; m < HEIGHT; m++) gw_load_matrices(a[m], beyond(own, own_place, k, 16 * m));
#pragma unroll
            for (int n = 0; n < OTHER / 16; n++) {
                uint32_t b[4];
                gw_load_matrices(b, beyond(other, other_place, k, 16 * n));
#pragma unroll
                for (int m = 0; m < HEIGHT; m++) {
                    gw_multiply_bf16(s->c[m][2 * n], a[m], b[0], b[1]);
                    gw_multiply_bf16(s->c[m][2 * n + 1], a[m], b[2], b[3]);
                }
            }
        }
    }

    /* Adds to *to the product of *s, rounded to bfloat16, and the other rows. */
    static __device__ void add(sums *to, const scores *s, const element *other, float *) {
        int lane = (int)threadIdx.x % 32, other_place = place(lane % 16, lane / 16);
        gw_hide_value(other_place);
#pragma unroll
        for (int k = 0; k < OTHER / 16; k++) {
            uint32_t a[HEIGHT][4];
#pragma unroll
            for (int m = 0; m < HEIGHT; m++)
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    const float *c = s->c[m][2 * k + r / 2] + r % 2 * 2;
                    a[m][r] = gw_pack_bf16(c[0], c[1]);
                }
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                uint32_t b[4];
                gw_load_transposed(b, beyond(other, other_place, n, 16 * k));
#pragma unroll
                for (int m = 0; m < HEIGHT; m++) {
                    gw_multiply_bf16(to->c[m][2 * n], a[m], b[0], b[1]);
                    gw_multiply_bf16(to->c[m][2 * n + 1], a[m], b[2], b[3]);
                }
            }
        }
    }

    /* Calls use(slot, i, factor) for every score, with the factor of dropout: 0 or its scale. The weight of
     * query q and key k is dropout's element first + q * positions + k; own rows are keys if `by_keys`, else
     * queries. `positions` and `first` are multiples of 4: the generator gives bits for four keys at once,
     * and one of the threads that have these keys computes them and shuffles them to the others. */
    template <bool by_keys, typename user>
    static __device__ void for_each_kept(const gw_dropping &d, uint64_t first, uint32_t positions, user use) {
        int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int m = 0; m < HEIGHT; m++)
#pragma unroll
            for (int n = 0; n < OTHER / 8; n++) {
                /* The same four keys belong to two threads with two each, or to four with one each. */
                int part = by_keys ? g % 4 : t % 2, lower = by_keys ? part / 2 : part;
                int query = by_keys ? 8 * n + 2 * t + part % 2 : row(2 * m + lower);
                int key = by_keys ? row(2 * m + lower) - g % 4 : 8 * n + t / 2 * 4;
                unsigned own = gw_kept_of_four(d, first + (uint64_t)query * positions + (uint64_t)key);
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    int from = by_keys ? lane - part * 4 + r * 4 : lane - part + r / 2;
                    unsigned kept = __shfl_sync(0xffffffffu, own, from);
                    int bit = by_keys ? part : 2 * part + r % 2;
                    use(2 * m + r / 2, 2 * n + r % 2, kept >> bit & 1u ? d.scale : 0.0f);
                }
            }
    }

    /* Writes the sums to memory by way of the warp's rows of `tile`, whose contents are lost. */
    static __device__ void store(sums *from, element *tile, element *to, size_t stride, int there,
                                 int width) {
        __syncwarp();
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++)
#pragma unroll
            for (int i = 0; i < sums::PER; i += 2) {
                int column = sums::column(i);
                *reinterpret_cast<uint32_t *>(at(tile, row(slot), column / 8) + column % 8) =
                    gw_pack_bf16(from->at(slot, i), from->at(slot, i + 1));
            }
        __syncwarp();
        for (int i = (int)threadIdx.x % 32; i < WARP_ROWS * D / 8; i += 32) {
            int r = warp_row() + i / (D / 8), chunk = i % (D / 8);
            if (r < there && chunk * 8 < width)
                *reinterpret_cast<uint4 *>(to + r * stride + chunk * 8) =
                    *reinterpret_cast<const uint4 *>(at(tile, r, chunk));
        }
    }
};

#endif
