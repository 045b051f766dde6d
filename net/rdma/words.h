/* This peer's words at its RDMA device: their registration, which every fence replaces, and the atomicity
 * domain that they are in.
 *
 * Threads: any; gw_rdma_words_withdraw and gw_rdma_words_publish one at a time. */
#ifndef GODWIT_NET_RDMA_WORDS_H
#define GODWIT_NET_RDMA_WORDS_H

#include "net/data/words.h"
#include "net/rdma/loopback.h"

typedef struct gw_rdma_words gw_rdma_words;

/* Opens it without a registration. `words` must outlive it. Holds `memory`. NULL on failure. */
gw_rdma_words *gw_rdma_words_open(gw_rdma_memory *memory, gw_words *words, gw_err *err);
void gw_rdma_words_close(gw_rdma_words *words);

/* The device's atomicity domain; NULL if the device's atomics are atomic with the CPU's or it has none. While
 * the words are withdrawn nobody reaches them by the device, and the CPU acts on them. */
const gw_word_domain *gw_rdma_words_domain(const gw_rdma_words *words);
/* Withdraws the registration. When this returns, no operation of a device touches the words. */
void gw_rdma_words_withdraw(gw_rdma_words *words);
/* Registers the words' present memory under a key that was not in use lately, since operations of older
 * fences may still be on their way. A device that has failed is first tested, for a second at most; while it
 * does not act it is tested after growing pauses only. */
bool gw_rdma_words_publish(gw_rdma_words *words, gw_err *err);
/* Whether a failure keeps the words from being published and it is time to try again. */
bool gw_rdma_words_due(gw_rdma_words *words);
/* Makes the next gw_rdma_words_publish test a failed device, whatever pause remains: the device has reported
 * that it is back. */
void gw_rdma_words_retry_now(gw_rdma_words *words);
/* Withdraws the words and releases the device, which was removed. Until gw_rdma_words_take they cannot be
 * published. */
void gw_rdma_words_release(gw_rdma_words *words);
/* Takes the memory of another device, and holds it. False if that device's atomics are atomic with its own
 * operations only, while these words are in the CPU's domain. */
bool gw_rdma_words_take(gw_rdma_words *words, gw_rdma_memory *memory, gw_err *err);
/* Fills in the registration that members are told. False if there is none, or the device has no atomics. */
bool gw_rdma_words_key(gw_rdma_words *words, uint64_t *address, uint32_t *rkey);

#endif
