/* The time of work that takes no other process: processor time of this thread, the best of some rounds. */
#ifndef GODWIT_TOOLS_BENCH_BEST_H
#define GODWIT_TOOLS_BENCH_BEST_H

#include <stdint.h>

typedef void gw_bench_work(void *context);

/* Runs the work once, and then in seven rounds of `repeats` times; returns the ns of one time in the best round. */
double gw_bench_best(gw_bench_work *work, void *context, uint64_t repeats);

#endif
