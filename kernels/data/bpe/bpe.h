/* Tokenizers with byte-pair encoding over bytes (Sennrich et al., 2016; Radford et al., 2019), as GPT-2
 * and many later models have. Added tokens, such as "<|endoftext|>", are recognised in a text first. The
 * text between them is cut into words, numbers, punctuation and blanks, by GPT-2's regular expression or
 * the tokenizer's own. Each of these pieces starts as single bytes; of all neighbours that have a merge,
 * those with the lowest rank are joined, until no merge is left. A piece of more than 1 MiB is cut at that
 * length. The tokens are those of Hugging Face's tokenizers library, without the ones that its
 * post-processors put around a whole text. Between added tokens that say so, a text is brought into
 * normalization form C first, where the tokenizer has that normalizer (kernels/data/bpe/nfc.h). There are
 * four differences: characters that Unicode has assigned after the version that PCRE2 knows count as
 * unassigned (kernels/data/bpe/pattern.h); marks that came after Unicode 9 are normalized, and the library
 * takes them for unassigned; a text may contain bytes that are not UTF-8, each of which is a piece; and
 * text that the library leaves out, since the vocabulary has no token for it, is an error. */
#ifndef GODWIT_KERNELS_DATA_BPE_BPE_H
#define GODWIT_KERNELS_DATA_BPE_BPE_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct gw_bpe gw_bpe;

/* Reads a tokenizer. The path names a tokenizer.json of the tokenizers library, or a folder with one; a
 * folder without one has GPT-2's files, vocab.json and merges.txt, which are also called encoder.json and
 * vocab.bpe. Fails with GW_E_NOTFOUND, GW_E_INVALID or GW_E_LIMIT, or with GW_E_UNSUPPORTED where a
 * tokenizer.json has a feature that is not implemented (another normalizer than NFC, a model of another
 * type), naming the file and what is wrong in it. Blocks on the disk. */
bool gw_bpe_open(const char *path, gw_bpe **bpe, gw_err *err);
void gw_bpe_close(gw_bpe *bpe); /* NULL is allowed */

/* One more than the largest token. */
uint32_t gw_bpe_size(const gw_bpe *bpe);

/* Sets *token to the token that ends a text: "<|endoftext|>" or, where the vocabulary has no such token, the
 * eos_token that a tokenizer_config.json beside the tokenizer.json names. Returns false where there is none.
 */
bool gw_bpe_end_of_text(const gw_bpe *bpe, uint32_t *token);

/* Encodes a text into tokens, in memory that the caller frees. Any bytes are allowed: those that are not
 * UTF-8 become tokens of single bytes. Fails as gw_bpe_stream_feed does (kernels/data/bpe/stream.h), or for
 * lack of memory. Any thread. */
bool gw_bpe_encode(const gw_bpe *bpe, const char *text, size_t length, uint32_t **tokens, size_t *count,
                   gw_err *err);

/* Returns the *length bytes that a token stands for, which may be a part of a character; none where no token
 * has that number. The bytes are valid until `bpe` is closed. */
const char *gw_bpe_decode(const gw_bpe *bpe, uint32_t token, size_t *length);

#endif
