/* Writes token shards as kernels/data/tokens/tokens.h reads them (llm.c's .bin): one file while it can hold
 * the tokens, else several, numbered. The files appear together when all are complete (core/os/output.h). Any
 * thread; a gw_token_shards belongs to its caller. */
#ifndef GODWIT_KERNELS_DATA_TOKENS_SHARDS_H
#define GODWIT_KERNELS_DATA_TOKENS_SHARDS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GW_TOKEN_SHARDS_NARROW = 1 << 16, /* the largest vocabulary whose tokens take two bytes instead of four */
    /* The last file may have this many tokens more than the others, since a further file of so few tokens
     * might hold no window. */
    GW_TOKEN_SHARDS_REST = 1 << 15,
    /* The least and the most tokens of a file; the header counts them in int32. */
    GW_TOKEN_SHARDS_LEAST = 1 << 16,
    GW_TOKEN_SHARDS_MOST = 2000000000,
};

typedef struct gw_token_shards gw_token_shards;

/* Begins to write tokens below `vocabulary` at `path`. More than `most` tokens go to several files beside it
 * (or beside its link's target): name_000001.bin, name_000002.bin and so on for name.bin. Fails as
 * gw_output_open does, and with GW_E_DENIED where `path` is a file other than a token shard, or numbered
 * shards of that name exist: nothing else is overwritten, and the shards of two runs are not mixed. The
 * caller keeps `path`. */
bool gw_token_shards_open(const char *path, uint64_t most, uint32_t vocabulary, gw_token_shards **shards,
                          gw_err *err);

/* Adds tokens. Fails with GW_E_IO, with GW_E_LIMIT for more files than a job
 * reads, and with GW_E_DENIED where a file `path` exists and the tokens need several. Blocks on the disk. */
bool gw_token_shards_write(gw_token_shards *shards, const uint32_t *tokens, size_t count, gw_err *err);

typedef struct gw_token_shards_written {
    uint64_t tokens;
    uint32_t files;
    char *first, *last; /* names of the files; the caller frees both */
} gw_token_shards_written;

/* Ends the writing and frees `shards`; to be called once. If `good`, moves all files to their places and
 * describes them. If not, or if that fails, removes them, leaves older files alone and returns false; *err is
 * not changed if `good` was false. Blocks on the disk. */
bool gw_token_shards_end(gw_token_shards *shards, bool good, gw_token_shards_written *written, gw_err *err);

#endif
