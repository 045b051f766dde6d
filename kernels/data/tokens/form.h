/* How tokens lie in a file: plain bytes, llm.c's shards (.bin) of 16 or 32 bits, NumPy's arrays (.npy), or an
 * array of numbers without a header. All are little-endian. */
#ifndef GODWIT_KERNELS_DATA_TOKENS_FORM_H
#define GODWIT_KERNELS_DATA_TOKENS_FORM_H

#include "core/os/plain_file.h"

/* The headers of llm.c's shards, 256 int32: a magic number, a version, and the number of tokens. */
enum {
    GW_TOKENS_MAGIC = 20240520, /* version of shards with uint16 */
    GW_TOKENS_VERSION = 1,
    GW_TOKENS_WIDE_MAGIC = 20240801, /* version of shards with uint32 */
    GW_TOKENS_WIDE_VERSION = 7,
    GW_TOKENS_HEADER = 1024, /* size of the header in bytes */
};

typedef struct gw_token_form {
    bool numbers;    /* tokens are numbers of a vocabulary, and not bytes */
    uint32_t head;   /* size of the file's header, before its first token */
    uint32_t width;  /* bytes of a token: 1, 2 or 4 */
    uint64_t tokens; /* number of tokens in the file */
} gw_token_form;

/* Recognises the form of an open file by its first bytes. A file without a header holds tokens of `headless`
 * bytes, 2 or 4. Where `headless` is 0, it holds plain bytes, and a file with the extension .bin or .npy is
 * damaged. Fails with GW_E_INVALID, GW_E_CORRUPT or GW_E_UNSUPPORTED, naming the file and what is wrong in
 * it, or as gw_plain_read does. Blocks on the disk. */
bool gw_token_form_of(const gw_plain_file *file, uint32_t headless, gw_token_form *form, gw_err *err);

#endif
