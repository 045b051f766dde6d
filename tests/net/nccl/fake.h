/* An NCCL and a CUDA driver that live in the test's memory: communicators of ranks in one process, which
 * really sum what they are given, fail and hang where a test says so, and note every use that the real ones
 * forbid:
 *   - a group left open, an abort outside a group, a call on a communicator that is still at work;
 *   - a communicator used after its abort, or formed in another GPU's context;
 *   - an event recorded again before it has happened. */
#ifndef GODWIT_TESTS_NET_NCCL_FAKE_H
#define GODWIT_TESTS_NET_NCCL_FAKE_H

#include "net/nccl/api.h"

#include <stdbool.h>

enum { FAKE_GPUS = 8 };

/* As after the start of a process, with this many GPUs. */
void fake_reset(int gpus);
const gw_nccl_api *fake_nccl(void);
const gw_cuda_api *fake_cuda(void);

/* Communicators stay in progress, whatever others do. */
void fake_hold(bool hold);
/* From now on only so many more all-reduces end, in the order that they were begun. */
void fake_ration(unsigned sums);
/* GPU `ordinal`'s communicator says `result` from now on; 0: nothing is wrong any more. */
void fake_break(int ordinal, int result);
/* The GPU ends nothing that is on its stream, not even what was aborted. */
void fake_jam(int ordinal, bool jam);
/* Every call about the GPU's stream and events answers with this error. */
void fake_lose(int ordinal, int result);
/* The next communicator on this GPU cannot be begun. */
void fake_refuse_init(int ordinal, int result);
/* The next communicator on this GPU is begun, and then says `result`; nobody forms one by its id any more. */
void fake_ail_init(int ordinal, int result);
/* The next all-reduce on this GPU cannot be begun. */
void fake_refuse_sum(int ordinal, int result);
/* Aborts do not return while this is so; until one waits. */
void fake_block_aborts(bool block);
void fake_await_blocked(void);
/* Until so many all-reduces have been launched; communicators been begun; aborted. */
void fake_await_sums(unsigned sums);
void fake_await_inits(unsigned inits);
void fake_await_aborts(unsigned aborts);
/* The next gw_nccl_id cannot be made. */
void fake_refuse_id(int result);

typedef struct fake_counts {
    unsigned inits, aborts, groups, sums;
    unsigned abort_groups;  /* groups with an abort in them */
    unsigned comms;         /* that are there */
    uint64_t largest_bytes; /* of one group's all-reduces on one GPU */
    unsigned contexts_held; /* retained and not released */
    unsigned events;        /* created and not destroyed */
    unsigned streams;
    const char *misuse; /* the first thing that the real ones forbid; NULL: none */
    int blocking;       /* of the configuration that came last */
    unsigned config_version;
} fake_counts;

fake_counts fake_count(void);

#endif
