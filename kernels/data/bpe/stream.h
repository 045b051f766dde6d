/* Encodes texts of any size in bounded memory. The tokens do not depend on how the text was divided. */
#ifndef GODWIT_KERNELS_DATA_BPE_STREAM_H
#define GODWIT_KERNELS_DATA_BPE_STREAM_H

#include "kernels/data/bpe/bpe.h"

enum { GW_BPE_FEED = 1 << 16 }; /* the most bytes of one call */

typedef struct gw_bpe_stream gw_bpe_stream;

/* Opens a stream. `bpe` outlives it. Fails with GW_E_NOMEM. A stream belongs to one thread. */
bool gw_bpe_stream_open(const gw_bpe *bpe, gw_bpe_stream **stream, gw_err *err);
void gw_bpe_stream_close(gw_bpe_stream *stream); /* NULL is allowed */

/* Adds bytes to the text. *tokens are the *count tokens that are final whatever follows, valid until the next
 * call. A piece (kernels/data/bpe/bpe.h) of more than 1 MiB is cut there. Fails with GW_E_INVALID where the
 * vocabulary lacks what the text needs, and with GW_E_LIMIT where the tokenizer's regular expression does not
 * come to an end; the text is given up then. */
bool gw_bpe_stream_feed(gw_bpe_stream *stream, const char *bytes, size_t length, const uint32_t **tokens,
                        size_t *count, gw_err *err);

/* Ends the text and returns the rest of its tokens. Bytes fed later belong to another text. Fails as
 * gw_bpe_stream_feed does. */
bool gw_bpe_stream_end(gw_bpe_stream *stream, const uint32_t **tokens, size_t *count, gw_err *err);

#endif
