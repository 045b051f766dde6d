/* The table of `godwit bench gpu`. */
#ifndef GODWIT_TOOLS_BENCH_GPU_TABLE_H
#define GODWIT_TOOLS_BENCH_GPU_TABLE_H

#include <jansson.h>

/* Prints the figures for people. */
void gw_bench_gpu_table(const json_t *figures);

#endif
