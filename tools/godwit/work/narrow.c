#include "tools/godwit/work/narrow.h"

#include "kernels/cuda/device/int32.h"

static bool open_words(int gpu, gw_nccl_words *words, gw_err *err) {
    return gw_int32_open(gpu, GW_NCCL_WIDTHS, &words->on_gpu, &words->seen, err);
}

static void close_words(int gpu, gw_nccl_words *words) {
    gw_int32_close(gpu, words->on_gpu, words->seen);
    *words = (gw_nccl_words){0};
}

static bool clear(const gw_nccl_words *words, uint32_t count, void *stream, gw_err *err) {
    return gw_int32_clear(words->on_gpu, count, stream, err);
}

static bool tell(const gw_nccl_words *words, uint32_t count, void *stream, gw_err *err) {
    return gw_int32_tell(words->on_gpu, words->seen, count, stream, err);
}

const gw_nccl_narrow gw_gpus_narrow = {
    .open = open_words,
    .close = close_words,
    .clear = clear,
    .measure = gw_int32_measure,
    .tell = tell,
    .narrow = gw_int32_narrow,
    .widen = gw_int32_widen,
};
