/* Token streams in files: any bytes (each a token), or numbers of a vocabulary in llm.c's shards, NumPy's
 * arrays and arrays without a header (kernels/data/tokens/form.h). Files stay on the disk. They are divided
 * into windows of `context` tokens, each of which predicts the token after it; a window does not span files.
 * Windows are read on demand and not through a mapping, because a process that has a file mapped is killed
 * when the file is truncated or its disk fails. */
#ifndef GODWIT_KERNELS_DATA_TOKENS_TOKENS_H
#define GODWIT_KERNELS_DATA_TOKENS_TOKENS_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/os/plain_file.h"
#include "kernels/data/tokens/form.h"

#include <stdint.h>

/* The most files. Each takes a descriptor, and the usual limit of a process is 65536. */
enum { GW_TOKENS_FILES = 32768 };

typedef struct gw_token_file {
    char *path;
    gw_plain_file file;
    gw_token_form form;
    uint64_t first_window; /* number of its first window in the set */
} gw_token_file;

typedef struct gw_tokens {
    uint32_t context;
    bool shards; /* the tokens are numbers of a vocabulary; otherwise bytes */
    uint32_t file_count;
    gw_token_file *files;
    uint64_t tokens, windows; /* numbers of all files together */
    uint32_t largest;         /* the largest token in any file */
    gw_hash digest;           /* hash of forms, context and the files' contents in order, without names */
} gw_tokens;

/* Opens files and checks their headers, which takes little time; `largest` and `digest` stay 0. `list`
 * holds paths separated by commas, unless it is the name of one file as a whole. A path with *, ? or [
 * stands for all files that match, sorted, unless a file has that very name. A folder stands for the .bin
 * and .npy files below it, sorted, or where it has none for all texts (kernels/data/folder.h). Where a
 * file is named twice, a warning says so. Files without a header hold tokens of `headless` bytes each, 2
 * or 4; where that is 0 they are plain bytes. Fails with GW_E_NOTFOUND, GW_E_IO (also where a folder
 * cannot be listed), or GW_E_CORRUPT or GW_E_INVALID naming file and offset; *tokens is empty then. */
bool gw_tokens_begin(const char *list, uint32_t context, uint32_t headless, gw_tokens *tokens, gw_err *err);
/* Returns the path of a file that is in both lists, or twice in the first where `other` is NULL; NULL:
 * there is none. */
const char *gw_tokens_repeated(const gw_tokens *tokens, const gw_tokens *other);
/* Reads every file once (kernels/data/tokens/hash.h), before windows are read. Fails as gw_token_hash does.
 * Blocks on the disk. */
bool gw_tokens_read(gw_tokens *tokens, gw_err *err);
/* Does what gw_tokens_begin and gw_tokens_read do; on failure *tokens is empty. */
bool gw_tokens_open(const char *list, uint32_t context, uint32_t headless, gw_tokens *tokens, gw_err *err);
void gw_tokens_close(gw_tokens *tokens);

/* Reads window `window`, below `windows`: `context` tokens, and the token after each. Fails with GW_E_IO
 * where the file cannot be read, and with GW_E_CORRUPT where its size, its modification time or a token above
 * `largest` shows that it has changed since it was opened. Blocks on the disk. Any thread. */
bool gw_tokens_window(const gw_tokens *tokens, uint64_t window, uint32_t *inputs, uint32_t *targets,
                      gw_err *err);
/* The file in which a window, below `windows`, lies; *first becomes the number of its first token in that file.
 * Any thread. */
const gw_token_file *gw_tokens_place(const gw_tokens *tokens, uint64_t window, uint64_t *first);

#endif
