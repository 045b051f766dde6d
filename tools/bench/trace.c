/* What a place costs that records for a trace (core/os/trace.h): while nobody reads, and while somebody does.
 * The loop around it is measured without the place, too, in turn, and taken off; the median of some rounds. */
#include "core/os/trace.h"
#include "tools/bench/bench.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 31, TIMES = 200000 };

/* What the loop computes, so that it is not left out. */
static volatile uint64_t computed;

static double measure_ns(bool place) {
    uint64_t began_ns = gw_now_ns();
    for (uint32_t i = 0; i < TIMES; i++) {
        uint64_t span_ns = place ? gw_trace_begin() : 0;
        computed = computed * 5 + i;
        if (place) gw_trace_end(GW_TRACE_SHARD, span_ns, i, 0, 0);
    }
    return (double)(gw_now_ns() - began_ns) / TIMES;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ns(void) {
    double costs[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double without = measure_ns(false);
        costs[i] = measure_ns(true) - without;
    }
    qsort(costs, ROUNDS, sizeof costs[0], compare);
    return costs[ROUNDS / 2];
}

int gw_bench_trace(int argc, char **argv) {
    const struct argp argp = {.doc = "Measures what a place that records for 'godwit trace' costs."};
    gw_trace_cursor cursor;
    if (gw_argp_parse(&argp, argc, argv, NULL) != 0) return 2;
    printf("%-24s %8.2f ns\n", "while nobody traces", median_ns());
    gw_trace_open(&cursor);
    printf("%-24s %8.2f ns\n", "while somebody does", median_ns());
    gw_trace_close(&cursor);
    return 0;
}
