#include "tools/bench/best.h"

#include <time.h>

enum { ROUNDS = 7 };

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* the time of other processes does not count */
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double gw_bench_best(gw_bench_work *work, void *context, uint64_t repeats) {
    double best = 0;
    work(context);
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (uint64_t i = 0; i < repeats; i++) work(context);
        double ns = (now_ns() - start) / (double)repeats;
        if (round == 0 || ns < best) best = ns;
    }
    return best;
}
