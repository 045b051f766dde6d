/* The time of a steal with verbs alone: the lower bound of gw_bench_steal over RDMA. */
#ifndef GODWIT_BENCH_VERBS_H
#define GODWIT_BENCH_VERBS_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Performs `count` times a READ of 8 bytes, and then a CAS of what it has read. This thread posts each
 * operation and polls for it, on a queue pair of this machine's RDMA device that is connected to itself.
 * Fills in the time of each operation (ns, arrays of `count`). Fails without a device, and in a build
 * without RDMA. */
bool gw_bench_verbs(uint32_t count, double *read_ns, double *cas_ns, double *steal_ns, gw_err *err);

#endif
