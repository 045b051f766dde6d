/* Writes token shards as kernels/data/tokens/tokens.h reads them (llm.c's .bin): one file while its tokens are few
 * enough, else several, numbered. They appear together when all are whole (core/os/output.h). Thread:
 * any; a gw_token_shards belongs to its caller. */
#ifndef GODWIT_KERNELS_DATA_TOKENS_SHARDS_H
#define GODWIT_KERNELS_DATA_TOKENS_SHARDS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GW_TOKEN_SHARDS_VOCABULARY = 1 << 16, /* tokens are below */
    /* The last file has up to so many more than the others: left to a file of their own they might be too few
     * for one window. */
    GW_TOKEN_SHARDS_REST = 1 << 15,
    /* Tokens of a file: at least, and at most, as the header counts in int32. */
    GW_TOKEN_SHARDS_LEAST = 1 << 16,
    GW_TOKEN_SHARDS_MOST = 2000000000,
};

typedef struct gw_token_shards gw_token_shards;

/* All go to `path`, or, where there are more than `most`, to files beside it (beside what it links to):
 * name_000001.bin, name_000002.bin and so on for name.bin. Fails as gw_output_open does, and with GW_E_DENIED
 * where `path` is no token shard, or there are numbered ones of it already: nothing else is overwritten, and
 * no two runs' are mixed. `path` stays the caller's. */
bool gw_token_shards_open(const char *path, uint64_t most, gw_token_shards **shards, gw_err *err);

/* Adds tokens below GW_TOKEN_SHARDS_VOCABULARY. Fails with GW_E_IO, with GW_E_LIMIT for more files than a
 * job reads, and with GW_E_DENIED where there is a file `path` and the tokens take several. Blocks on the
 * disk. */
bool gw_token_shards_write(gw_token_shards *shards, const uint32_t *tokens, size_t count, gw_err *err);

typedef struct gw_token_shards_written {
    uint64_t tokens;
    uint32_t files;
    char *first, *last; /* their names; the caller frees both */
} gw_token_shards_written;

/* Puts all files in their places if they are `good`, and says what there is now. Otherwise, or if that fails,
 * removes them, leaves what was there and returns false; with *err as it was if not `good`. To be called once
 * for what was opened, which it frees. Blocks on the disk. */
bool gw_token_shards_end(gw_token_shards *shards, bool good, gw_token_shards_written *written, gw_err *err);

#endif
