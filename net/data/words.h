/* The memory of a peer's WORDS regions: the only memory that others can write.
 *
 * One atomicity domain per word: whoever touches these words on this machine, the owner included, does it by
 * gw_words_do, with the atomics of the CPU unless a domain says otherwise (a network card whose atomics are
 * not the CPU's). Peers that map the memory (net/shm/shm.h) use the CPU's atomics on it, and only when that
 * is the domain.
 *
 * The words lie in one shared-memory file, which is replaced at every fence by a fresh one with the same
 * words: who was not given the new one keeps a dead copy that says `retired`.
 *
 * Threads: any, but gw_words_add and _renew from one at a time. */
#ifndef GODWIT_NET_DATA_WORDS_H
#define GODWIT_NET_DATA_WORDS_H

#include "net/data/transport.h"

enum { GW_WORDS_BYTES = 64 * 1024 /* of the file; the first 64 are its header */ };

/* The beginning of the file. */
typedef struct gw_words_header {
    uint64_t retired; /* not 0: a newer file has taken its place. An operation that finds this 0 after it was
                         done was done in time */
} gw_words_header;

typedef enum gw_word_do { GW_WORD_LOAD = 1, GW_WORD_STORE, GW_WORD_CAS, GW_WORD_ADD } gw_word_do;

/* How words are touched when not by the CPU. `word` points into the current file's memory. Returns the word
 * before. Must not fail: a device that is lost is replaced by the CPU from inside. */
typedef struct gw_word_domain {
    void *context;
    uint64_t (*act)(void *context, gw_word_do what, uint64_t *word, uint64_t expected, uint64_t operand);
} gw_word_domain;

/* The CPU's way. */
uint64_t gw_word_act(gw_word_do what, uint64_t *word, uint64_t expected, uint64_t operand);

typedef struct gw_words gw_words;

/* NULL: no memory. */
gw_words *gw_words_open(gw_err *err);
void gw_words_close(gw_words *words);

/* Room for `count` words, all 0, called `region`. */
bool gw_words_add(gw_words *words, uint32_t region, uint64_t count, gw_err *err);
/* Where a region begins in the file, and its length; false: not here. */
bool gw_words_find(const gw_words *words, uint32_t region, uint64_t *offset, uint64_t *bytes);

/* Acts on one word atomically, in its domain; returns the word before. `offset`: in the file, of a region. */
uint64_t gw_words_do(gw_words *words, gw_word_do what, uint64_t offset, uint64_t expected, uint64_t operand);
/* NULL: the CPU. Set before anybody touches a word. */
void gw_words_set_domain(gw_words *words, const gw_word_domain *domain);
bool gw_words_are_cpus(gw_words *words);

/* Moves the words to a fresh file; the old one is marked retired first. False: there is none to be had, and
 * the words stay in the old one, retired: others are served by this peer's threads, or not at all. */
bool gw_words_renew(gw_words *words, gw_err *err);
/* The present file: its descriptor and mapping, until the next renewal. */
int gw_words_fd(const gw_words *words);
void *gw_words_memory(const gw_words *words);

#endif
