/* The libraries of RDMA, libibverbs and librdmacm, are opened while the program runs: the same binary starts on
 * machines that lack them, and takes those of its machine, which fit the drivers there. */
#ifndef GODWIT_NET_RDMA_VERBS_H
#define GODWIT_NET_RDMA_VERBS_H

#include "core/base/err.h"

/* Opens both libraries; after that the functions of their headers that net/rdma/verbs.c defines can be called.
 * The environment variables GODWIT_IBVERBS and GODWIT_RDMACM name other files. The first call decides: later
 * ones have its result. Fails with GW_E_UNSUPPORTED, and says what is missing and what to install. Any
 * thread. */
bool gw_verbs_open(gw_err *err);

#endif
