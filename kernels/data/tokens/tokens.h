/* Token streams in files: text or any other bytes (a token is a byte), or shards in llm.c's .bin format: a
 * header of 256 little-endian int32 (20240520, 1, number of tokens), then uint16 tokens. Files stay where
 * they are, cut into windows of `context` tokens, each predicting the one after it; a window never spans two
 * files. It is read when it is asked for, and not through a mapping: who has a file mapped that is cut off
 * meanwhile, or whose disk fails, is killed. */
#ifndef GODWIT_KERNELS_DATA_TOKENS_TOKENS_H
#define GODWIT_KERNELS_DATA_TOKENS_TOKENS_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/os/plain_file.h"

#include <stdint.h>

/* How a shard begins; its header has so many bytes. */
enum { GW_TOKENS_MAGIC = 20240520, GW_TOKENS_VERSION = 1, GW_TOKENS_HEADER = 1024 };

/* At most: each takes a descriptor, of which a process may often have 65536 or less. */
enum { GW_TOKENS_FILES = 32768 };

typedef struct gw_token_file {
    char *path;
    gw_plain_file file;
    uint64_t tokens;
    uint64_t first_window; /* its first window's number in the set */
} gw_token_file;

typedef struct gw_tokens {
    uint32_t context;
    bool shards; /* .bin; else bytes */
    uint32_t file_count;
    gw_token_file *files;
    uint64_t tokens, windows; /* of all files */
    uint32_t largest;         /* token number in any of them */
    gw_hash digest;           /* of kind, context and tokens, in order; not of names */
} gw_tokens;

/* `list`: paths separated by commas; one with *, ? or [ stands for all files that match, sorted, unless there
 * is a file of that very name. Opens them and looks at how they begin, which takes no time: `largest` and
 * `digest` stay 0. Fails with GW_E_NOTFOUND, GW_E_IO (also where a folder does not tell what is in it), or
 * GW_E_CORRUPT / GW_E_INVALID naming file and offset; *tokens then holds nothing. */
bool gw_tokens_begin(const char *list, uint32_t context, gw_tokens *tokens, gw_err *err);
/* Reads every file once (kernels/data/tokens/hash.h), before windows are asked for. Fails as that does. Blocks
 * on the disk. */
bool gw_tokens_read(gw_tokens *tokens, gw_err *err);
/* Both; on failure *tokens holds nothing. */
bool gw_tokens_open(const char *list, uint32_t context, gw_tokens *tokens, gw_err *err);
void gw_tokens_close(gw_tokens *tokens);

/* Window `window` (< windows): context tokens and what follows each of them. Fails with GW_E_IO when the file
 * cannot be read, with GW_E_CORRUPT when it was written to since it was opened, which its size, its time of
 * modification or a token above `largest` tells. Blocks on the disk. Any thread. */
bool gw_tokens_window(const gw_tokens *tokens, uint64_t window, uint32_t *inputs, uint32_t *targets,
                      gw_err *err);

#endif
