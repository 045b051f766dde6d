/* Encodes texts of any size in memory of one size: bytes go in as they come, tokens come out, and they are
 * the same however the text was divided. */
#ifndef GODWIT_KERNELS_DATA_BPE_STREAM_H
#define GODWIT_KERNELS_DATA_BPE_STREAM_H

#include "kernels/data/bpe/bpe.h"

enum { GW_BPE_FEED = 1 << 16 }; /* bytes at a time, at most */

typedef struct gw_bpe_stream gw_bpe_stream;

/* `bpe` outlives it. Fails with GW_E_NOMEM; nothing else here fails. A stream belongs to one thread. */
bool gw_bpe_stream_open(const gw_bpe *bpe, gw_bpe_stream **stream, gw_err *err);
void gw_bpe_stream_close(gw_bpe_stream *stream); /* NULL is allowed */

/* Adds bytes to the text. *tokens are those that are certain by now, whatever comes: *count of them, until
 * the next call. A piece (kernels/data/bpe/bpe.h) of more than 1 MiB is cut there. */
void gw_bpe_stream_feed(gw_bpe_stream *stream, const char *bytes, size_t length, const uint32_t **tokens,
                        size_t *count);

/* The text ends here: the rest of its tokens. What is fed next is another text. */
void gw_bpe_stream_end(gw_bpe_stream *stream, const uint32_t **tokens, size_t *count);

#endif
