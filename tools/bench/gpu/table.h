/* For `godwit bench gpu` only. */
#ifndef GODWIT_TOOLS_BENCH_GPU_TABLE_H
#define GODWIT_TOOLS_BENCH_GPU_TABLE_H

#include <jansson.h>

/* Prints what was measured, for people. */
void gw_bench_gpu_table(const json_t *figures);

#endif
