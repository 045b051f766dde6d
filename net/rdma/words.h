/* This peer's words at its RDMA device: their registration, which every fence replaces, and the atomicity
 * domain that they are in.
 *
 * Threads: any; _withdraw and _publish one at a time. */
#ifndef GODWIT_NET_RDMA_WORDS_H
#define GODWIT_NET_RDMA_WORDS_H

#include "net/data/words.h"
#include "net/rdma/loopback.h"

typedef struct gw_rdma_words gw_rdma_words;

/* `words` outlive it. Holds `memory`. NULL on failure. */
gw_rdma_words *gw_rdma_words_open(gw_rdma_memory *memory, gw_words *words, gw_err *err);
void gw_rdma_words_close(gw_rdma_words *words);

/* The device's domain, or NULL: its atomics are the CPU's, or it has none. While the words are withdrawn
 * nobody reaches them by the device, and the CPU acts on them. */
const gw_word_domain *gw_rdma_words_domain(const gw_rdma_words *words);
/* When this returns, no device's operation touches the words. */
void gw_rdma_words_withdraw(gw_rdma_words *words);
/* Registers the words' present memory, under a key that it did not have lately: operations of older fences
 * may still be on their way. A device that has failed is looked at first, for a second at most, and where it
 * does not act not again for ever longer. */
bool gw_rdma_words_publish(gw_rdma_words *words, gw_err *err);
/* Whether a failure keeps them from being published, and it is time to try again. */
bool gw_rdma_words_due(gw_rdma_words *words);
/* The device says that it is back: the next _publish looks at it, however lately it was looked at in vain. */
void gw_rdma_words_look(gw_rdma_words *words);
/* The device was removed: withdraws them, and lets go of it. Until _take they cannot be published. */
void gw_rdma_words_let_go(gw_rdma_words *words);
/* Another device's memory, which is held. False: its atomics are its own, and these words are the CPU's. */
bool gw_rdma_words_take(gw_rdma_words *words, gw_rdma_memory *memory, gw_err *err);
/* The registration, to be told to members; false: there is none, or nothing atomic can be done with it. */
bool gw_rdma_words_key(gw_rdma_words *words, uint64_t *address, uint32_t *rkey);

#endif
