#include "kernels/data/bpe/stream.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "kernels/data/bpe/cutter.h"
#include "kernels/data/bpe/nfc.h"
#include "kernels/data/bpe/pattern.h"
#include "kernels/data/bpe/pieces.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHARACTER = 4,  /* the most bytes of a character */
    KINDS = 2,      /* kinds of added tokens (gw_bpe.added) */
    SPARE = 8,      /* free bytes in front of the text, since a space may be put before it */
    HELD = 1 << 16, /* the most bytes of white space that wait for an added token to which they may belong */
    LOOK_BACK = CHARACTER * (GW_BPE_LOOK_BACK + 1),
    /* the most bytes that wait in a stream of raw text: the rest of it has gone to the inner stream */
    RAW = HELD + GW_BPE_FEED + 2 * GW_BPE_ADDED_MOST + GW_NFC_HELD,
    ROOM = SPARE + LOOK_BACK + GW_BPE_WINDOW + GW_BPE_ADDED_MOST + HELD + GW_BPE_FEED + 4 * CHARACTER,
    /* At most one token for each byte and for a space before it: of the text here, or of what an inner
     * stream holds and what it is given by one call. */
    TOKENS = 2 * (ROOM + GW_NFC_GROWTH * RAW),
};

struct gw_bpe_stream {
    const gw_bpe *bpe;
    gw_bpe_cutter cutter;
    gw_bpe_pieces pieces;
    pcre2_code *word; /* pattern of a word character, beside which a single_word token is not recognised */
    pcre2_match_data *match;
    size_t count;
    size_t low, at, length; /* text[low .. at) has been encoded, text[at .. length) has not */
    size_t part;            /* start of the text behind the latest added token of the first kind */
    size_t base;            /* start of the text that a pattern may look back at */
    size_t scanned[KINDS];  /* no added token of the kind begins in text[at .. scanned) */
    bool begins;            /* `at` is the start of a text between two added tokens */
    bool skips;             /* white space at `at` belongs to the added token before `at` */
    int skips_of;           /* kind of the added token before `at` */
    bool after_match;       /* as in gw_bpe_cut */
    /* Where the tokenizer normalizes, this stream recognises the added tokens of the first kind, in the
     * raw text, and the inner one encodes the normalized text between them. NULL: this stream does both. */
    gw_bpe_stream *inner;
    bool is_inner;
    uint32_t tokens[TOKENS];
    char text[ROOM];
};

static void begin_text(gw_bpe_stream *s) {
    if (s->inner != NULL) begin_text(s->inner);
    s->low = s->at = s->length = s->part = s->base = SPARE;
    s->scanned[0] = s->scanned[1] = SPARE;
    s->begins = true;
    s->skips = s->after_match = false;
}

static bool take_piece(void *context, const char *piece, size_t length, gw_err *err) {
    gw_bpe_stream *s = context;
    size_t count;
    GW_ASSERT(s->count + length <= TOKENS);
    if (!gw_bpe_pieces_encode(&s->pieces, piece, length, s->tokens + s->count, &count, err)) return false;
    s->count += count;
    return true;
}

/* The pattern of a word character: Rust's \w, which the tokenizers library uses. */
static const char word_pattern[] = "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}"
                                   "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}]";

static bool open_stream(const gw_bpe *bpe, bool is_inner, gw_bpe_stream **out, gw_err *err);

static bool open_inner(gw_bpe_stream *s, gw_err *err) {
    if (!s->bpe->composes || s->is_inner) return true;
    return open_stream(s->bpe, true, &s->inner, err);
}

static bool open_word(gw_bpe_stream *s, gw_err *err) {
    if (!s->bpe->added[0].has_single && !s->bpe->added[1].has_single) return true;
    s->word = gw_bpe_pattern(word_pattern, err);
    if (s->word != NULL) s->match = pcre2_match_data_create_from_pattern(s->word, NULL);
    return s->match != NULL || gw_fail(err, GW_E_NOMEM, "no memory to encode a text");
}

static bool open_stream(const gw_bpe *bpe, bool is_inner, gw_bpe_stream **out, gw_err *err) {
    gw_bpe_stream *stream = malloc(sizeof *stream);
    if (stream == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to encode a text");
    memset(stream, 0, offsetof(gw_bpe_stream, tokens));
    stream->bpe = bpe;
    stream->is_inner = is_inner;
    begin_text(stream);
    if (gw_bpe_cutter_open(bpe, take_piece, stream, &stream->cutter, err) &&
        gw_bpe_pieces_open(bpe, &stream->pieces, err) && open_word(stream, err) && open_inner(stream, err)) {
        *out = stream;
        return true;
    }
    gw_bpe_stream_close(stream);
    return false;
}

bool gw_bpe_stream_open(const gw_bpe *bpe, gw_bpe_stream **stream, gw_err *err) {
    return open_stream(bpe, false, stream, err);
}

void gw_bpe_stream_close(gw_bpe_stream *stream) {
    if (stream == NULL) return;
    gw_bpe_stream_close(stream->inner);
    gw_bpe_cutter_close(&stream->cutter);
    gw_bpe_pieces_close(&stream->pieces);
    pcre2_match_data_free(stream->match);
    pcre2_code_free(stream->word);
    free(stream);
}

static bool is_word(const gw_bpe_stream *s, const char *character, size_t bytes) {
    return bytes > 0 &&
           pcre2_match(s->word, (PCRE2_SPTR)character, bytes, 0, PCRE2_NO_UTF_CHECK, s->match, NULL) > 0;
}

/* Whether no word character adjoins text[start .. stop) within text[low .. end). */
static bool stands_alone(const gw_bpe_stream *s, size_t low, size_t start, size_t stop, size_t end) {
    size_t before = start;
    while (before > low && start - before < CHARACTER && ((unsigned char)s->text[--before] & 0xc0) == 0x80) {
    }
    size_t bytes = before < start ? gw_utf8_character(s->text + before, start - before) : 0;
    if (before + bytes == start && is_word(s, s->text + before, bytes)) return false;
    return stop == end || !is_word(s, s->text + stop, gw_utf8_character(s->text + stop, end - stop));
}

struct found {
    const gw_bpe_added_token *token; /* NULL: none was found */
    size_t end;
};

/* Searches the first added token of a kind before `end`, where the text ends if it is `closed`. Returns its
 * start, including white space that belongs to it; where none is found, the end of the text that certainly
 * belongs to none. */
static size_t seek(gw_bpe_stream *s, int kind, size_t end, bool closed, struct found *found) {
    const gw_bpe_added *added = &s->bpe->added[kind];
    size_t at = s->scanned[kind] > s->at ? s->scanned[kind] : s->at, bytes;
    size_t ahead = added->longest + (added->has_single ? CHARACTER : 0);
    *found = (struct found){.token = NULL};
    if (added->count == 0) return end;
    for (; at < end && (closed || end - at >= ahead); at++) {
        unsigned char first = (unsigned char)s->text[at];
        if (added->first[first] == added->first[first + 1]) continue;
        const gw_bpe_added_token *token = gw_bpe_added_at(added, s->text + at, end - at);
        if (token == NULL) continue;
        size_t start = at, stop = at + token->length;
        at = stop - 1;
        if (token->single_word && !stands_alone(s, kind == 0 ? s->low : s->part, start, stop, end)) continue;
        while (token->strip_before && (bytes = gw_bpe_space_ends(s->text + s->at, start - s->at)) > 0)
            start -= bytes;
        found->token = token;
        found->end = s->scanned[kind] = stop;
        return start;
    }
    s->scanned[kind] = at;
    if (closed || !added->strips_before) return at;
    size_t before = at;
    while (at - before < HELD && (bytes = gw_bpe_space_ends(s->text + s->at, before - s->at)) > 0)
        before -= bytes;
    return at - before < HELD ? before : at;
}

static void accept(gw_bpe_stream *s, int kind, const struct found *found) {
    s->tokens[s->count++] = found->token->token;
    s->at = s->base = found->end;
    if (kind == 0) s->part = s->at;
    s->begins = true;
    s->skips = found->token->strip_behind;
    s->skips_of = kind;
    s->after_match = false;
}

/* The number of bytes that form whole characters. */
static size_t valid_bytes(const char *text, size_t length) {
    size_t valid = 0, bytes;
    for (; valid < length; valid += bytes) {
        bytes = (unsigned char)text[valid] < 0x80 ? 1 : gw_utf8_character(text + valid, length - valid);
        if (bytes == 0) break;
    }
    return valid;
}

/* Whether these bytes, which are no character, may become one with following bytes. */
static bool is_beginning(const char *text, size_t length) {
    unsigned char first = (unsigned char)text[0];
    size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || length >= bytes) return false;
    for (size_t i = 1; i < length; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80) return false;
    return true;
}

/* Skips the white space that belongs to the added token before. Returns false where it may continue behind
 * `end`. */
static bool skip_spaces(gw_bpe_stream *s, size_t end, bool closed) {
    size_t bytes;
    while ((bytes = gw_bpe_space_begins(s->text + s->at, end - s->at)) > 0) s->at += bytes;
    s->base = s->at;
    if (s->skips_of == 0) s->part = s->at;
    if (!closed && (s->at == end || is_beginning(s->text + s->at, end - s->at))) return false;
    s->skips = false;
    return true;
}

/* Cuts text[at .. valid), all of which is UTF-8, as far as no following text can change it. */
static bool encode_valid(gw_bpe_stream *s, size_t valid, bool ended, gw_err *err) {
    size_t base = s->base, most = s->cutter.look_back;
    if (s->at - base > most) base = s->at - most;
    while (((unsigned char)s->text[base] & 0xc0) == 0x80) base++;
    gw_bpe_cut cut = {.text = s->text + base,
                      .at = s->at - base,
                      .length = valid - base,
                      .ended = ended,
                      .after_match = s->after_match};
    if (!gw_bpe_cutter_cut(&s->cutter, &cut, err)) return false;
    s->at = base + cut.at;
    s->after_match = cut.after_match;
    return true;
}

/* Encodes the text up to `end`, which has no added tokens, as far as no following text can change it; if it
 * is `closed`, all of it. A byte that belongs to no character is a piece of its own, and separates the text
 * around it. */
static bool encode_text(gw_bpe_stream *s, size_t end, bool closed, gw_err *err) {
    if (s->skips && !skip_spaces(s, end, closed)) return true;
    if (s->begins && s->at < end) {
        s->begins = false;
        if (s->bpe->space_step == 0 && s->text[s->at] != ' ') { /* the byte before has been encoded */
            s->text[--s->at] = ' ';
            s->base = s->at;
            if (s->low > s->at) s->low = s->at;
        }
    }
    while (s->at < end) {
        size_t valid = s->at + valid_bytes(s->text + s->at, end - s->at);
        bool waits = !closed && (valid == end || is_beginning(s->text + valid, end - valid));
        if (valid > s->at && !encode_valid(s, valid, !waits, err)) return false;
        if (waits) return true;
        if (valid == end) break;
        if (!take_piece(s, s->text + s->at, 1, err)) return false;
        s->base = ++s->at;
        s->after_match = false;
    }
    return true;
}

/* Encodes the text up to `end`, which has no added tokens of the first kind. No token of the second kind is
 * recognised in white space that belongs to one of the first kind. */
static bool encode_part(gw_bpe_stream *s, size_t end, bool closed, gw_err *err) {
    struct found found;
    if (s->skips && s->skips_of == 0 && !skip_spaces(s, end, closed)) return true;
    do {
        size_t stop = seek(s, 1, end, closed, &found);
        if (!encode_text(s, stop, closed || found.token != NULL, err)) return false;
        if (found.token != NULL) accept(s, 1, &found);
    } while (found.token != NULL);
    return true;
}

static bool take_tokens(gw_bpe_stream *s, const uint32_t *tokens, size_t count) {
    GW_ASSERT(s->count + count <= TOKENS);
    memcpy(s->tokens + s->count, tokens, count * sizeof *tokens);
    s->count += count;
    return true;
}

/* Gives normalized text to the inner stream. */
static bool feed_inner(gw_bpe_stream *s, const char *text, size_t length, gw_err *err) {
    const uint32_t *tokens;
    size_t count;
    for (size_t at = 0, part; at < length; at += part) {
        part = length - at < GW_BPE_FEED ? length - at : GW_BPE_FEED;
        if (!gw_bpe_stream_feed(s->inner, text + at, part, &tokens, &count, err)) return false;
        take_tokens(s, tokens, count);
    }
    return true;
}

/* Encodes the raw text up to `end`, which has no added tokens of the first kind, by the inner stream, as
 * far as its normalization does not depend on the text behind it; if it is `closed`, all of it. */
static bool encode_raw(gw_bpe_stream *s, size_t end, bool closed, gw_err *err) {
    if (s->skips && !skip_spaces(s, end, closed)) return true;
    size_t settled = closed ? end - s->at : gw_nfc_settled(s->text + s->at, end - s->at), length, count;
    const uint32_t *tokens;
    char *text;
    if (settled > 0) {
        if (!gw_nfc(s->text + s->at, settled, &text, &length, err)) return false;
        bool fed = feed_inner(s, text, length, err);
        free(text);
        if (!fed) return false;
        s->at += settled;
    }
    if (!closed) return true;
    return gw_bpe_stream_end(s->inner, &tokens, &count, err) && take_tokens(s, tokens, count);
}

static size_t moved(size_t place, size_t low, size_t by) {
    return place > low ? place - by : low - by;
}

/* Moves the text that is still needed to the front of the buffer. */
static void make_room(gw_bpe_stream *s) {
    size_t keep = s->cutter.look_back, low = s->at - s->low > keep ? s->at - keep : s->low, by = low - SPARE;
    memmove(s->text + SPARE, s->text + low, s->length - low);
    s->part = s->part < low ? 0 : s->part - by; /* 0 where the start lies before the text that is kept */
    s->base = moved(s->base, low, by);
    for (int kind = 0; kind < KINDS; kind++) s->scanned[kind] = moved(s->scanned[kind], low, by);
    s->at -= by;
    s->length -= by;
    s->low = SPARE;
}

static bool encode(gw_bpe_stream *s, bool more, gw_err *err) {
    struct found found;
    s->count = 0;
    if (s->is_inner) return encode_part(s, s->length, !more, err);
    do {
        size_t stop = seek(s, 0, s->length, !more, &found);
        bool closed = !more || found.token != NULL;
        if (s->inner != NULL ? !encode_raw(s, stop, closed, err) : !encode_part(s, stop, closed, err))
            return false;
        if (found.token != NULL) accept(s, 0, &found);
    } while (found.token != NULL);
    return true;
}

bool gw_bpe_stream_feed(gw_bpe_stream *stream, const char *bytes, size_t length, const uint32_t **tokens,
                        size_t *count, gw_err *err) {
    GW_ASSERT(length <= GW_BPE_FEED && length <= ROOM - stream->length);
    memcpy(stream->text + stream->length, bytes, length);
    stream->length += length;
    bool encoded = encode(stream, true, err);
    if (encoded)
        make_room(stream);
    else
        begin_text(stream);
    *tokens = stream->tokens;
    *count = stream->count;
    return encoded;
}

bool gw_bpe_stream_end(gw_bpe_stream *stream, const uint32_t **tokens, size_t *count, gw_err *err) {
    bool encoded = encode(stream, false, err);
    begin_text(stream);
    *tokens = stream->tokens;
    *count = stream->count;
    return encoded;
}
