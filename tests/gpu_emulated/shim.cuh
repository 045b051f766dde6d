/* What makes a .cu file one for the host's compiler: included before everything else in it. A file needs
 * nothing but this if it starts kernels by GW_LAUNCH (kernels/cuda/math/launch.cuh) and leaves PTX to
 * kernels/cuda/math/tensor_core.cuh. What CUDA offers and is not here yet does not compile: add it. */
#ifndef GODWIT_TESTS_GPU_EMULATED_SHIM_CUH
#define GODWIT_TESTS_GPU_EMULATED_SHIM_CUH

#include "tests/gpu_emulated/emulator.h"
#include "tests/gpu_emulated/tensor_core.cuh"

#include "tests/gpu_fake/fake_cuda.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>
#include <type_traits>
#include <vector_functions.h>

/* One block at a time: what is shared is static, found by its section and filled before each block. */
#undef __shared__
#define __shared__         static __attribute__((section("gpu_shared")))
#define __CUDA_ARCH_LIST__ 800, 900

#define __launch_bounds__(...)

#define threadIdx (emulated_here.thread)
#define blockIdx  (emulated_here.block)
#define blockDim  (emulated_here.block_size)
#define gridDim   (emulated_here.grid)

#define EMULATED_SITE(what)                                                                                  \
    emulated_site {                                                                                          \
        what, __FILE__, __LINE__                                                                             \
    }

/* ---- starting ---- */

#define GW_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                            \
    emulated::launch((grid), (block), (shared_bytes), (stream),                                              \
                     [](auto... of) { kernel(of...); } __VA_OPT__(, ) __VA_ARGS__)
#define gw_dynamic_shared() emulated_shared()

namespace emulated {

/* What was given is kept as it is now, and called when the stream comes to it. */
template <typename body> void put(const emulated_shape &shape, cudaStream_t stream, body call) {
    struct launched {
        emulated_shape shape;
        body call;
    };
    static_assert(std::is_trivially_copyable_v<body>, "arguments of kernels are copied as bytes");
    launched l{shape, call};
    auto run = [](void *memory) {
        const launched *at = static_cast<const launched *>(memory);
        auto in_thread = [](const void *own) { (*static_cast<const body *>(own))(); };
        const char *fault = emulated_run(&at->shape, in_thread, &at->call);
        if (fault != nullptr) fake_break(fault);
    };
    fake_launch(stream, run, &l, sizeof l);
}

template <typename kernel, typename... type>
void launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, kernel call, type... arguments) {
    put(emulated_shape{grid, block, shared_bytes}, stream, [=] { call(arguments...); });
}

} // namespace emulated

template <typename kernel> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, kernel *of) {
    return cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(of));
}

template <typename kernel> cudaError_t cudaFuncSetAttribute(kernel *of, cudaFuncAttribute what, int value) {
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(of), what, value);
}

/* ---- meeting ---- */

#define __syncthreads()  emulated_meet_block(EMULATED_SITE("__syncthreads"))
#define __syncwarp(...)  emulated::sync_warp(EMULATED_SITE("__syncwarp") __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_sync(...) emulated::shuffle<emulated::from_lane>(EMULATED_SITE("__shfl_sync"), __VA_ARGS__)
#define __shfl_up_sync(...)                                                                                  \
    emulated::shuffle<emulated::from_below>(EMULATED_SITE("__shfl_up_sync"), __VA_ARGS__)
#define __shfl_down_sync(...)                                                                                \
    emulated::shuffle<emulated::from_above>(EMULATED_SITE("__shfl_down_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...)                                                                                 \
    emulated::shuffle<emulated::from_other>(EMULATED_SITE("__shfl_xor_sync"), __VA_ARGS__)
#define __ballot_sync(...)     emulated::ballot(EMULATED_SITE("__ballot_sync"), __VA_ARGS__)
#define __any_sync(...)        (emulated::ballot(EMULATED_SITE("__any_sync"), __VA_ARGS__) != 0)
#define __all_sync(mask, good) (emulated::ballot(EMULATED_SITE("__all_sync"), mask, !(good)) == 0)

namespace emulated {

inline void sync_warp(emulated_site site, unsigned mask = 0xffffffffu) {
    emulated_meet_warp(site, mask, nullptr, nullptr);
}

/* The lane to read, in a segment of `width` lanes that begins at `first`; outside of it: the lane itself. */
inline int from_lane(int, int by, int first, int width) {
    return first + (int)((unsigned)by % (unsigned)width);
}
inline int from_below(int lane, int by, int first, int) {
    return lane - by >= first ? lane - by : lane;
}
inline int from_above(int lane, int by, int first, int width) {
    return lane + by < first + width ? lane + by : lane;
}
inline int from_other(int lane, int by, int first, int width) {
    return (lane ^ by) < first + width ? lane ^ by : lane;
}

template <typename type> struct shuffled {
    type value, result;
    int from;
};

template <typename type> void exchange(void *const own[EMULATED_WARP], uint32_t lanes) {
    for (int lane = 0; lane < EMULATED_WARP; lane++) {
        if ((lanes >> lane & 1u) == 0) continue;
        shuffled<type> *s = static_cast<shuffled<type> *>(own[lane]);
        if ((lanes >> s->from & 1u) == 0)
            emulated_fault("lane %d reads lane %d, which is not among lanes %08x", lane, s->from, lanes);
        s->result = static_cast<shuffled<type> *>(own[s->from])->value;
    }
}

template <int (*of)(int, int, int, int), typename type>
type shuffle(emulated_site site, unsigned mask, type value, int by, int width = EMULATED_WARP) {
    static_assert(std::is_arithmetic_v<type>, "shuffles move numbers");
    int lane = (int)(emulated_here.number % EMULATED_WARP), first = lane / width * width;
    shuffled<type> s = {value, value, of(lane, by, first, width)};
    emulated_meet_warp(site, mask, exchange<type>, &s);
    return s.result;
}

struct vote {
    bool good;
    unsigned votes;
};

inline void count_votes(void *const own[EMULATED_WARP], uint32_t lanes) {
    unsigned votes = 0;
    for (int lane = 0; lane < EMULATED_WARP; lane++)
        if ((lanes >> lane & 1u) && static_cast<vote *>(own[lane])->good) votes |= 1u << lane;
    for (int lane = 0; lane < EMULATED_WARP; lane++)
        if (lanes >> lane & 1u) static_cast<vote *>(own[lane])->votes = votes;
}

inline unsigned ballot(emulated_site site, unsigned mask, bool good) {
    vote v = {good, 0};
    emulated_meet_warp(site, mask, count_votes, &v);
    return v.votes;
}

} // namespace emulated

/* ---- memory ---- */

namespace emulated {

template <typename type> void expect_aligned(const type *at) {
    if ((uintptr_t)at % alignof(type) != 0)
        emulated_fault("%zu bytes at %p, which is not aligned", sizeof(type), (const void *)at);
}

template <typename type> type load(const type *at) {
    expect_aligned(at);
    return *at;
}

template <typename type> void store(type *at, type value) {
    expect_aligned(at);
    *at = value;
}

template <typename to, typename from> to same_bits(from value) {
    static_assert(sizeof(to) == sizeof(from));
    to bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

template <typename type> using given = std::common_type_t<type>; /* not deduced */

} // namespace emulated

#define __ldg(at)        emulated::load(at)
#define __ldcs(at)       emulated::load(at)
#define __ldcg(at)       emulated::load(at)
#define __stcs(at, what) emulated::store((at), (what))
#define __stcg(at, what) emulated::store((at), (what))

/* Integers alone: sums of floats would depend on the order. */
template <typename type> type atomicAdd(type *at, emulated::given<type> value) {
    static_assert(std::is_integral_v<type>, "no atomic sums of floats");
    type before = emulated::load(at);
    *at = (type)(before + value);
    return before;
}

template <typename type> type atomicMin(type *at, emulated::given<type> value) {
    type before = emulated::load(at);
    if (value < before) *at = value;
    return before;
}

template <typename type> type atomicMax(type *at, emulated::given<type> value) {
    type before = emulated::load(at);
    if (value > before) *at = value;
    return before;
}

template <typename type> type atomicOr(type *at, emulated::given<type> value) {
    type before = emulated::load(at);
    *at = before | value;
    return before;
}

/* ---- arithmetic ---- */

#define __float_as_int(x)       emulated::same_bits<int>((float)(x))
#define __float_as_uint(x)      emulated::same_bits<unsigned>((float)(x))
#define __int_as_float(x)       emulated::same_bits<float>((int)(x))
#define __uint_as_float(x)      emulated::same_bits<float>((unsigned)(x))
#define __double_as_longlong(x) emulated::same_bits<long long>((double)(x))
#define __longlong_as_double(x) emulated::same_bits<double>((long long)(x))
#define __double2ll_rn(x)       llrint(x)
#define __float2int_rn(x)       ((int)lrintf(x))
#define __popc(x)               __builtin_popcount(x)
#define __clz(x)                ((x) == 0 ? 32 : __builtin_clz((unsigned)(x)))
#define __ffs(x)                __builtin_ffs((int)(x))
#define __umulhi(a, b)          ((unsigned)((unsigned long long)(unsigned)(a) * (unsigned)(b) >> 32))
#define __fadd_rn(a, b)         ((float)(a) + (float)(b))
#define __fmul_rn(a, b)         ((float)(a) * (float)(b))
#define __fmaf_rn(a, b, c)      fmaf(a, b, c)
#define __fdiv_rn(a, b)         ((float)(a) / (float)(b))
#define __fdividef(a, b)        ((float)(a) / (float)(b))
#define __frcp_rn(x)            (1.0f / (float)(x))
#define __fsqrt_rn(x)           sqrtf(x)
#define __expf(x)               expf(x)
#define __logf(x)               logf(x)
#define rsqrtf(x)               (1.0f / sqrtf(x))

template <typename a, typename b> std::common_type_t<a, b> min(a x, b y) {
    return y < x ? y : x;
}
template <typename a, typename b> std::common_type_t<a, b> max(a x, b y) {
    return x < y ? y : x;
}

#endif
