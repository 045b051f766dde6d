/* A tokenizer in the format of Hugging Face's tokenizers library, tokenizer.json. */
#ifndef GODWIT_KERNELS_DATA_BPE_TOKENIZER_JSON_H
#define GODWIT_KERNELS_DATA_BPE_TOKENIZER_JSON_H

#include "kernels/data/bpe/inside.h"

/* Reads the file into an empty vocabulary, and from a tokenizer_config.json beside it the token that ends a
 * text. Features that are not implemented are refused by their names: models other than BPE, normalizers
 * other than NFC, and pre-tokenizers other than Split, Digits and ByteLevel, which must be the last.
 * Post-processors, truncation and padding concern whole inputs of a model and are ignored, like the decoder.
 * Fails as gw_bpe_open does.
 * */
bool gw_bpe_read_tokenizer(gw_bpe *bpe, const char *path, gw_err *err);

#endif
