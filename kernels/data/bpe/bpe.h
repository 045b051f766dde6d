/* GPT-2's tokenizer: byte-pair encoding over bytes (Sennrich et al., 2016; Radford et al., 2019), from the
 * published vocab.json and merges.txt. A text is cut into words, numbers, punctuation and blanks. Each of
 * these pieces starts as single bytes; of all neighbours that have a merge, those with the lowest rank are
 * joined, until no merge is left. "<|endoftext|>" is one token where the vocabulary has it. A piece of more
 * than 1 MiB is cut there. */
#ifndef GODWIT_KERNELS_DATA_BPE_BPE_H
#define GODWIT_KERNELS_DATA_BPE_BPE_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct gw_bpe gw_bpe;

/* Reads DIR/vocab.json and DIR/merges.txt. Fails with GW_E_NOTFOUND, GW_E_INVALID or GW_E_LIMIT, naming the
 * file and what is wrong in it. Blocks on the disk. */
bool gw_bpe_open(const char *dir, gw_bpe **bpe, gw_err *err);
void gw_bpe_close(gw_bpe *bpe); /* NULL is allowed */

/* One more than the largest token. */
uint32_t gw_bpe_size(const gw_bpe *bpe);

/* The token of "<|endoftext|>"; false where the vocabulary has none. */
bool gw_bpe_end_of_text(const gw_bpe *bpe, uint32_t *token);

/* Encodes a text into tokens, in memory that the caller frees. Any bytes are allowed: those that are not
 * UTF-8 become tokens of single bytes. Fails only for lack of memory. Any thread. */
bool gw_bpe_encode(const gw_bpe *bpe, const char *text, size_t length, uint32_t **tokens, size_t *count,
                   gw_err *err);

/* The *length bytes that a token stands for, which may be part of a character; empty where no token has that
 * number. */
const char *gw_bpe_decode(const gw_bpe *bpe, uint32_t token, size_t *length);

#endif
