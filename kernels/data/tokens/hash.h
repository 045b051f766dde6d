/* The contents of token files: hash and largest token. All files are read for them, several at a time, as the
 * processors allow. Where that takes long, the log shows the progress. */
#ifndef GODWIT_KERNELS_DATA_TOKENS_HASH_H
#define GODWIT_KERNELS_DATA_TOKENS_HASH_H

#include "core/base/id.h"
#include "core/os/plain_file.h"
#include "kernels/data/tokens/form.h"

typedef struct gw_token_content {
    gw_hash hash;     /* of the whole file */
    uint32_t largest; /* the largest token in it */
} gw_token_content;

/* Token i of an array of tokens of `width` bytes each, little-endian. */
static inline uint32_t gw_token_at(const uint8_t *bytes, uint32_t width, size_t i) {
    const uint8_t *b = bytes + width * i;
    uint32_t low = width == 1 ? b[0] : (uint32_t)b[0] | (uint32_t)b[1] << 8;
    return width == 4 ? low | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24 : low;
}

/* The number of processors of this process, bounded by what a disk can use. */
uint32_t gw_token_hash_threads(void);

/* Reads `count` files, of the forms given. At most `threads` threads read; neither *contents nor a failure
 * depends on their number. Fails as gw_plain_read does, for the first file that cannot be read. Blocks on the
 * disk. */
bool gw_token_hash(const gw_plain_file *files, const gw_token_form *forms, uint32_t count, uint32_t threads,
                   gw_token_content *contents, gw_err *err);

#endif
