/* The tokenizer that goes along with an exported language model, so that AutoTokenizer of transformers
 * loads it. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_EXPORT_TOKENIZER_H
#define GODWIT_TOOLS_GODWIT_COMMAND_EXPORT_TOKENIZER_H

#include "kernels/model/gpt/gpt.h"
#include "tools/godwit/command/export/files.h"

#define GW_TOKENIZER_BYTES "bytes"

/* Adds the files of the tokenizer at `path` (a folder, or the tokenizer.json in it), or with "bytes" one
 * whose tokens are the 256 bytes, and a tokenizer_config.json where it has none. GPT-2's encoder.json and
 * vocab.bpe get the names that transformers expects. *ends says whether it has a token that ends a text,
 * and *end which. A tokenizer of another kind than byte-level BPE goes along unchecked, which `program`
 * tells on stderr. Fails with GW_E_USAGE where it has more tokens than the model, and as gw_bpe_open does.
 * Blocks. */
bool gw_export_tokenizer(const char *path, const gw_gpt *gpt, const char *weights, const char *program,
                         gw_export_files *files, bool *ends, uint32_t *end, gw_err *err);

#endif
