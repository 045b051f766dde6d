#include "kernels/data/bpe/stream.h"

#include "core/base/assert.h"
#include "kernels/data/bpe/cutter.h"
#include "kernels/data/bpe/pieces.h"

#include <stdlib.h>
#include <string.h>

static const char mark[] = GW_BPE_END_OF_TEXT;

enum {
    MARK = sizeof mark - 1,
    /* The bytes that decide where a piece ends: the blank that it leaves to the next one, of at most three
     * bytes, and whether a mark follows. */
    AHEAD = 3 + MARK,
    ROOM = GW_BPE_PIECE + 2 * AHEAD + GW_BPE_FEED,
};

struct gw_bpe_stream {
    const gw_bpe *bpe;
    gw_bpe_cutter cutter;
    gw_bpe_pieces pieces;
    size_t length, count;
    uint32_t tokens[ROOM];
    char text[ROOM]; /* `length` bytes that are not yet encoded */
};

bool gw_bpe_stream_open(const gw_bpe *bpe, gw_bpe_stream **out, gw_err *err) {
    gw_bpe_stream *stream = malloc(sizeof *stream);
    if (stream == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to encode a text");
    stream->bpe = bpe;
    stream->length = stream->count = 0;
    bool cuts = gw_bpe_cutter_open(bpe, &stream->cutter, err);
    if (cuts && gw_bpe_pieces_open(bpe, &stream->pieces, err)) {
        *out = stream;
        return true;
    }
    if (cuts) gw_bpe_cutter_close(&stream->cutter);
    free(stream);
    return false;
}

void gw_bpe_stream_close(gw_bpe_stream *stream) {
    if (stream == NULL) return;
    gw_bpe_cutter_close(&stream->cutter);
    gw_bpe_pieces_close(&stream->pieces);
    free(stream);
}

/* A piece that is too long ends at a character's end. */
static size_t shorten(const char *piece, size_t length) {
    if (length <= GW_BPE_PIECE) return length;
    for (length = GW_BPE_PIECE; (piece[length] & 0xc0) == 0x80;) length--;
    return length;
}

/* Encodes the pieces of a part of the text without marks, up to the first piece that may still change if
 * there is `more` of the part. Returns the number of bytes encoded. */
static size_t encode_part(gw_bpe_stream *s, const char *part, size_t length, bool more) {
    gw_bpe_cutter *cutter = &s->cutter;
    gw_bpe_cutter_take(cutter, part, length);
    while (cutter->at < length) {
        size_t piece = gw_bpe_cutter_piece(cutter);
        bool certain = cutter->at + piece + AHEAD <= length || piece > GW_BPE_PIECE + AHEAD;
        if (more && !certain) break;
        piece = shorten(part + cutter->at, piece);
        s->count += gw_bpe_pieces_encode(&s->pieces, part + cutter->at, piece, s->tokens + s->count);
        cutter->at += piece;
    }
    return cutter->at;
}

static void encode(gw_bpe_stream *s, bool more) {
    size_t at = 0, part;
    bool marked;
    s->count = 0;
    do {
        const char *text = s->text + at, *found = NULL;
        if (s->bpe->end_of_text != GW_BPE_NO_TOKEN) found = memmem(text, s->length - at, mark, MARK);
        marked = found != NULL;
        part = marked ? (size_t)(found - text) : s->length - at;
        at += encode_part(s, text, part, more && !marked);
        if (marked) {
            s->tokens[s->count++] = (uint32_t)s->bpe->end_of_text;
            at += MARK;
        }
    } while (marked);
    s->length -= at;
    memmove(s->text, s->text + at, s->length);
}

void gw_bpe_stream_feed(gw_bpe_stream *stream, const char *bytes, size_t length, const uint32_t **tokens,
                        size_t *count) {
    GW_ASSERT(length <= GW_BPE_FEED && length <= ROOM - stream->length);
    memcpy(stream->text + stream->length, bytes, length);
    stream->length += length;
    encode(stream, true);
    *tokens = stream->tokens;
    *count = stream->count;
}

void gw_bpe_stream_end(gw_bpe_stream *stream, const uint32_t **tokens, size_t *count) {
    encode(stream, false);
    *tokens = stream->tokens;
    *count = stream->count;
}
