/* The memory of a peer's words regions, the only memory that other peers can write.
 *
 * All words are in one atomicity domain. Every access on this machine, the owner's included, goes through
 * gw_words_do, which uses the atomics of the CPU unless a domain is set (a network card whose atomics are not
 * atomic with the CPU's). Peers that map the memory (net/shm/shm.h) use the CPU's atomics, and only while no
 * domain is set.
 *
 * The words lie in one shared-memory file, which every fence replaces by a fresh file with the same words. A
 * peer that is not given the new file keeps a dead copy that is marked `retired`.
 *
 * Threads: any; gw_words_add and gw_words_renew must not run concurrently. */
#ifndef GODWIT_NET_DATA_WORDS_H
#define GODWIT_NET_DATA_WORDS_H

#include "net/data/transport.h"

enum { GW_WORDS_BYTES = 64 * 1024 /* of the file; the first 64 are its header */ };

/* The beginning of the file. */
typedef struct gw_words_header {
    /* Set to 1 when a newer file replaces this one. If it is still 0 after an operation, the operation took effect. */
    uint64_t retired;
} gw_words_header;

typedef enum gw_word_do { GW_WORD_LOAD = 1, GW_WORD_STORE, GW_WORD_CAS, GW_WORD_ADD } gw_word_do;

/* An atomicity domain other than the CPU's. `act` does an operation on `word`, which lies in the current
 * file, and returns the word before it. It must not fail: if its device is lost, it uses the CPU. */
typedef struct gw_word_domain {
    void *context;
    uint64_t (*act)(void *context, gw_word_do what, uint64_t *word, uint64_t expected, uint64_t operand);
} gw_word_domain;

/* Does an operation with the atomics of the CPU, and returns the word before it. */
uint64_t gw_word_act(gw_word_do what, uint64_t *word, uint64_t expected, uint64_t operand);

typedef struct gw_words gw_words;

/* Opens it without regions. NULL if out of memory or descriptors. */
gw_words *gw_words_open(gw_err *err);
void gw_words_close(gw_words *words);

/* Adds a region of `count` words, all 0. */
bool gw_words_add(gw_words *words, uint32_t region, uint64_t count, gw_err *err);
/* Gives the place of a region in the file. False if there is no such region. */
bool gw_words_find(const gw_words *words, uint32_t region, uint64_t *offset, uint64_t *bytes);

/* Operates on one word atomically in its domain, and returns the word before. `offset` is the word's place in
 * the file. */
uint64_t gw_words_do(gw_words *words, gw_word_do what, uint64_t offset, uint64_t expected, uint64_t operand);
/* Sets the atomicity domain (NULL: the CPU's), before any word is used. */
void gw_words_set_domain(gw_words *words, const gw_word_domain *domain);
bool gw_words_are_cpus(gw_words *words);

/* Moves the words to a fresh file, after marking the old one retired. False if no file can be made: the words
 * then stay in the old file, and no peer that has mapped it can operate on them. */
bool gw_words_renew(gw_words *words, gw_err *err);
/* The present file, its descriptor and its mapping, which are valid until the next renewal. */
int gw_words_fd(const gw_words *words);
void *gw_words_memory(const gw_words *words);

#endif
