/* Token streams in files: text or any other bytes (a token is a byte), or shards in llm.c's .bin format: a
 * header of 256 little-endian int32 (20240520, 1, number of tokens), then uint16 tokens. Files are mapped,
 * not read, and cut into windows of `context` tokens, each predicting the one after it; a window never spans
 * two files. */
#ifndef GODWIT_KERNELS_TOKENS_H
#define GODWIT_KERNELS_TOKENS_H

#include "core/err.h"
#include "core/id.h"

#include <stdint.h>

/* At most: a process may have 65530 mappings (vm.max_map_count), which other things need too. */
enum { GW_TOKENS_FILES = 32768 };

typedef struct gw_token_file {
    char *path;
    int fd;
    const uint8_t *map; /* the whole file */
    uint64_t bytes, tokens;
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

/* `list`: paths separated by commas; those with *, ? or [ stand for all files that match, sorted. Reads every
 * file once. Fails with GW_E_NOTFOUND, GW_E_IO, or GW_E_CORRUPT / GW_E_INVALID naming file and offset;
 * *tokens then holds nothing. Blocks on the disk. */
bool gw_tokens_open(const char *list, uint32_t context, gw_tokens *tokens, gw_err *err);
void gw_tokens_close(gw_tokens *tokens);

/* Window `window` (< windows): context tokens and what follows each of them. Fails when the file has changed
 * since it was opened: is shorter, or has a token above `largest`. Any thread. */
bool gw_tokens_window(const gw_tokens *tokens, uint64_t window, uint32_t *inputs, uint32_t *targets,
                      gw_err *err);

#endif
