/* The contents of token files: hash and largest token. All files are read for them, several at a time, as the
 * processors allow. Where that takes long, the log shows the progress. */
#ifndef GODWIT_KERNELS_DATA_TOKENS_HASH_H
#define GODWIT_KERNELS_DATA_TOKENS_HASH_H

#include "core/base/id.h"
#include "core/os/plain_file.h"

typedef struct gw_token_content {
    gw_hash hash;     /* of the whole file */
    uint32_t largest; /* the largest token in it */
} gw_token_content;

/* Token i of an array of tokens of `width` bytes each, little-endian. */
static inline uint32_t gw_token_at(const uint8_t *bytes, uint32_t width, size_t i) {
    return width == 1 ? bytes[i] : (uint32_t)bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8;
}

/* The number of processors of this process, bounded by what a disk can use. */
uint32_t gw_token_hash_threads(void);

/* Reads `count` files. A token has `width` bytes, 1 or 2; the first `head` bytes of a file are its header.
 * At most `threads` threads read; neither *contents nor a failure depends on their number. Fails as
 * gw_plain_read does, for the first file that cannot be read. Blocks on the disk. */
bool gw_token_hash(const gw_plain_file *files, uint32_t count, uint32_t head, uint32_t width,
                   uint32_t threads, gw_token_content *contents, gw_err *err);

#endif
