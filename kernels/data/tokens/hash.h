/* What is in files of tokens, which takes reading all of them: several at a time, as there are processors.
 * Where it takes long, the log says how far it is. */
#ifndef GODWIT_KERNELS_DATA_TOKENS_HASH_H
#define GODWIT_KERNELS_DATA_TOKENS_HASH_H

#include "core/base/id.h"
#include "core/os/plain_file.h"

typedef struct gw_token_content {
    gw_hash hash;     /* of the whole file */
    uint32_t largest; /* token in it */
} gw_token_content;

/* Token i of those that lie there, `width` bytes each, little-endian. */
static inline uint32_t gw_token_at(const uint8_t *bytes, uint32_t width, size_t i) {
    return width == 1 ? bytes[i] : (uint32_t)bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8;
}

/* As many threads as this process has processors, or fewer. */
uint32_t gw_token_hash_threads(void);

/* `width`: bytes of a token, 1 or 2, behind `head` bytes of a file that are none. `threads`: at most;
 * neither *contents nor a failure depend on them. Fails as gw_plain_read, for the first file that cannot be
 * read. Blocks on the disk. */
bool gw_token_hash(const gw_plain_file *files, uint32_t count, uint32_t head, uint32_t width,
                   uint32_t threads, gw_token_content *contents, gw_err *err);

#endif
