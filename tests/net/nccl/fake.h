/* An NCCL and a CUDA driver in the test's memory: communicators of ranks in one process, which really sum
 * what they are given, fail and hang when a test says so, and note every use that the real ones forbid:
 *  - a group left open, an abort outside a group, a call on a communicator that is still at work;
 *  - a communicator used after its abort, or formed in another GPU's context;
 *  - a sum of int32 that does not fit; a kernel within a group, or in another GPU's context;
 *  - an event recorded again before it has happened. */
#ifndef GODWIT_TESTS_NET_NCCL_FAKE_H
#define GODWIT_TESTS_NET_NCCL_FAKE_H

#include "net/nccl/api.h"
#include "net/nccl/narrow.h"

#include <stdbool.h>

enum { FAKE_GPUS = 8 };

/* Resets everything to the start of a process, with this many GPUs. */
void fake_reset(int gpus);
const gw_nccl_api *fake_nccl(void);
const gw_cuda_api *fake_cuda(void);
const gw_nccl_narrow *fake_narrow(void);

/* Has a function called with the number of each GPU whose context becomes current. */
void fake_follow_context(void (*follow)(int ordinal));

/* Makes communicators stay in progress, whatever the others do. */
void fake_hold(bool hold);
/* Lets only so many more all-reduces end, in the order in which they were begun. */
void fake_ration(unsigned sums);
/* Makes the communicator of GPU `ordinal` report `result` from now on; 0: nothing is wrong any more. */
void fake_fail_communicator(int ordinal, int result);
/* Makes the GPU end nothing that is on its stream, not even what was aborted. */
void fake_jam(int ordinal, bool jam);
/* Makes every call about the GPU's stream and events fail with this error. */
void fake_lose(int ordinal, int result);
/* Makes the next communicator on this GPU fail to begin. */
void fake_refuse_init(int ordinal, int result);
/* Lets the next communicator on this GPU begin and then report `result`; none can be formed by its id any
 * more. */
void fake_ail_init(int ordinal, int result);
/* Makes the next all-reduce on this GPU fail to begin. */
void fake_refuse_sum(int ordinal, int result);
/* Makes aborts hang while this is set; waits until one does. */
void fake_block_aborts(bool block);
void fake_await_blocked(void);
/* Wait until so many all-reduces have been launched, communicators begun, and communicators aborted. */
void fake_await_sums(unsigned sums);
void fake_await_inits(unsigned inits);
void fake_await_aborts(unsigned aborts);
/* Makes the next gw_nccl_id fail. */
void fake_refuse_id(int result);

typedef struct fake_counts {
    unsigned inits, aborts, groups, sums, narrow_sums;
    unsigned abort_groups;  /* groups with an abort in them */
    unsigned comms;         /* communicators that exist */
    uint64_t largest_bytes; /* the most bytes of one group's all-reduces on one GPU */
    unsigned contexts_held; /* contexts that are retained and not released */
    unsigned events;        /* events that are created and not destroyed */
    unsigned streams;
    const char *misuse; /* the first use that the real ones forbid; NULL: none */
    int blocking;       /* a field of the last configuration */
    unsigned config_version;
} fake_counts;

fake_counts fake_count(void);

#endif
