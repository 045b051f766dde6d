#include "kernels/data/bpe/bpe.h"

#include "core/os/plain_file.h"
#include "kernels/data/bpe/cutter.h"
#include "kernels/data/bpe/inside.h"
#include "kernels/data/bpe/stream.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = GW_BPE_BYTES, LETTERS = 512, TOKENS_MOST = 1 << 24, MERGES_MOST = 1 << 24, LINE_MOST = 4096 };

/* No merge makes this token; it is recognised in the text, as in transformers. */
static const char end_of_text[] = GW_BPE_END_OF_TEXT;

/* The state of reading the two files. */
typedef struct reading {
    gw_bpe *bpe;
    json_t *numbers;          /* of tokens, spelled in letters */
    char letter[BYTES][3];    /* the letter of each byte, in UTF-8 */
    int16_t byte_of[LETTERS]; /* the byte of each letter; -1: none */
} reading;

/* The files spell bytes as letters: printable bytes as themselves, the others as U+0100 and following. */
static void make_letters(reading *r) {
    unsigned next = BYTES;
    for (int i = 0; i < LETTERS; i++) r->byte_of[i] = -1;
    for (unsigned b = 0; b < BYTES; b++) {
        bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        unsigned code = shown ? b : next++;
        r->byte_of[code] = (int16_t)b;
        if (code < 0x80) {
            r->letter[b][0] = (char)code;
        } else {
            r->letter[b][0] = (char)(0xc0 | code >> 6);
            r->letter[b][1] = (char)(0x80 | (code & 0x3f));
        }
    }
}

/* Writes the bytes that a token's letters stand for to `bytes`; false for other characters. */
static bool spell_back(const reading *r, const char *letters, char *bytes, size_t *length) {
    *length = 0;
    for (const unsigned char *c = (const unsigned char *)letters; *c != '\0'; c++) {
        unsigned code = *c;
        if (code >= 0x80) {
            if ((code & 0xe0) != 0xc0 || (c[1] & 0xc0) != 0x80) return false;
            code = (code & 0x1f) << 6 | (*++c & 0x3f);
        }
        if (code >= LETTERS || r->byte_of[code] < 0) return false;
        bytes[(*length)++] = (char)r->byte_of[code];
    }
    return true;
}

static bool add_token(reading *r, const char *letters, const json_t *number, gw_err *err) {
    gw_bpe *bpe = r->bpe;
    json_int_t id = json_integer_value(number);
    if (!json_is_integer(number) || id < 0 || id >= TOKENS_MOST)
        return gw_fail(err, GW_E_INVALID, "token '%.40s' has no number below %d", letters, TOKENS_MOST);
    if (id >= bpe->size) {
        uint32_t size = (uint32_t)id + 1;
        gw_bpe_token *grown = realloc(bpe->tokens, size * sizeof *grown);
        if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %u tokens", size);
        memset(grown + bpe->size, 0, (size - bpe->size) * sizeof *grown);
        bpe->tokens = grown;
        bpe->size = size;
    }
    gw_bpe_token *t = &bpe->tokens[id];
    if (t->bytes != NULL) return gw_fail(err, GW_E_INVALID, "two tokens have the number %d", (int)id);
    t->bytes = malloc(strlen(letters) + 1);
    if (t->bytes == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a token");
    if (!spell_back(r, letters, t->bytes, &t->length))
        return gw_fail(err, GW_E_INVALID, "token '%.40s' has characters that stand for no byte", letters);
    return true;
}

/* The number of a token; GW_BPE_NO_TOKEN where none is spelled so. */
static int64_t number_of(const reading *r, const char *letters, size_t length) {
    const json_t *number = json_object_getn(r->numbers, letters, length);
    return number != NULL ? json_integer_value(number) : GW_BPE_NO_TOKEN;
}

static bool read_numbers(reading *r, FILE *file, gw_err *err) {
    json_error_t why;
    r->numbers = json_loadf(file, JSON_REJECT_DUPLICATES, &why);
    if (r->numbers == NULL) return gw_fail(err, GW_E_INVALID, "line %d: %s", why.line, why.text);
    if (!json_is_object(r->numbers)) return gw_fail(err, GW_E_INVALID, "is no object of tokens and numbers");
    const char *letters;
    json_t *number;
    json_object_foreach(r->numbers, letters, number) if (!add_token(r, letters, number, err)) return false;
    for (int b = 0; b < BYTES; b++) {
        int64_t token = number_of(r, r->letter[b], strlen(r->letter[b]));
        if (token == GW_BPE_NO_TOKEN)
            return gw_fail(err, GW_E_INVALID, "has no token for byte %d ('%s')", b, r->letter[b]);
        r->bpe->byte_token[b] = (uint32_t)token;
    }
    r->bpe->end_of_text = number_of(r, end_of_text, strlen(end_of_text));
    return true;
}

/* Reads a line "left right": both, and the token that they become, must be tokens. */
static bool add_merge(reading *r, char *line, size_t number, gw_err *err) {
    char joined[LINE_MOST];
    char *space = strchr(line, ' ');
    if (space == NULL || space == line || space[1] == '\0' || strchr(space + 1, ' ') != NULL)
        return gw_fail(err, GW_E_INVALID, "line %zu is not two tokens with a space between them", number);
    size_t left_length = (size_t)(space - line), right_length = strlen(space + 1);
    memcpy(joined, line, left_length);
    memcpy(joined + left_length, space + 1, right_length);
    int64_t left = number_of(r, line, left_length), right = number_of(r, space + 1, right_length),
            both = number_of(r, joined, left_length + right_length);
    if (left == GW_BPE_NO_TOKEN || right == GW_BPE_NO_TOKEN || both == GW_BPE_NO_TOKEN)
        return gw_fail(err, GW_E_INVALID, "line %zu: a part of '%.80s' is no token", number, line);
    gw_bpe_pairs *pairs = &r->bpe->pairs;
    if (gw_bpe_pairs_find(pairs, (uint32_t)left, (uint32_t)right) != NULL)
        return gw_fail(err, GW_E_INVALID, "line %zu: '%.80s' is there twice", number, line);
    if (pairs->count == MERGES_MOST) return gw_fail(err, GW_E_LIMIT, "has more than %d merges", MERGES_MOST);
    const gw_bpe_pair pair = {(uint32_t)left, (uint32_t)right, pairs->count + 1, (uint32_t)both};
    return gw_bpe_pairs_add(pairs, &pair, err);
}

/* Reads the next line, without its end. */
static bool next_line(FILE *file, size_t number, char line[LINE_MOST], bool *there, gw_err *err) {
    size_t length = 0;
    int c;
    while ((c = getc_unlocked(file)) != EOF && c != '\n') {
        if (c == '\0')
            return gw_fail(err, GW_E_INVALID, "line %zu has a zero byte, which no text has", number);
        if (length == LINE_MOST - 2)
            return gw_fail(err, GW_E_LIMIT, "line %zu is longer than %d bytes", number, LINE_MOST - 2);
        line[length++] = (char)c;
    }
    if (ferror(file)) return gw_fail_errno(err, errno, "cannot read it");
    *there = c != EOF || length > 0;
    while (length > 0 && line[length - 1] == '\r') length--;
    line[length] = '\0';
    return true;
}

static bool read_merges(reading *r, FILE *file, gw_err *err) {
    char line[LINE_MOST];
    bool there = true;
    for (size_t number = 1; there; number++) {
        if (!next_line(file, number, line, &there, err)) return false;
        bool version = number == 1 && strncmp(line, "#version", 8) == 0;
        if (line[0] != '\0' && !version && !add_merge(r, line, number, err)) return false;
    }
    return true;
}

static bool read_file(reading *r, const char *dir, const char *name,
                      bool (*read)(reading *, FILE *, gw_err *), gw_err *err) {
    char *path;
    gw_plain_file plain;
    if (asprintf(&path, "%s/%s", dir, name) < 0) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool done = gw_plain_open(path, &plain, err);
    FILE *file = done ? fdopen(plain.fd, "r") : NULL; /* fclose also closes the descriptor */
    if (done && file == NULL) {
        done = gw_fail(err, GW_E_NOMEM, "%s: out of memory", path);
        gw_plain_close(&plain);
    }
    if (done && !read(r, file, err)) done = gw_fail_in(err, "%s", path);
    if (file != NULL) fclose(file);
    free(path);
    return done;
}

bool gw_bpe_open(const char *dir, gw_bpe **out, gw_err *err) {
    reading r = {.bpe = calloc(1, sizeof *r.bpe)};
    if (r.bpe == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    make_letters(&r);
    r.bpe->pattern = gw_bpe_pattern();
    bool done = r.bpe->pattern != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    done = done && read_file(&r, dir, "vocab.json", read_numbers, err) &&
           read_file(&r, dir, "merges.txt", read_merges, err);
    json_decref(r.numbers);
    if (!done) gw_bpe_close(r.bpe);
    if (done) *out = r.bpe;
    return done;
}

void gw_bpe_close(gw_bpe *bpe) {
    if (bpe == NULL) return;
    for (uint32_t i = 0; i < bpe->size; i++) free(bpe->tokens[i].bytes);
    free(bpe->tokens);
    gw_bpe_pairs_free(&bpe->pairs);
    pcre2_code_free(bpe->pattern);
    free(bpe);
}

uint32_t gw_bpe_size(const gw_bpe *bpe) {
    return bpe->size;
}

bool gw_bpe_end_of_text(const gw_bpe *bpe, uint32_t *token) {
    if (bpe->end_of_text == GW_BPE_NO_TOKEN) return false;
    *token = (uint32_t)bpe->end_of_text;
    return true;
}

const char *gw_bpe_decode(const gw_bpe *bpe, uint32_t number, size_t *length) {
    *length = number < bpe->size ? bpe->tokens[number].length : 0;
    return *length > 0 ? bpe->tokens[number].bytes : "";
}

/* `all` has room for a token a byte. */
static size_t encode(gw_bpe_stream *stream, const char *text, size_t length, uint32_t *all) {
    const uint32_t *tokens;
    size_t total = 0, count;
    for (size_t at = 0, part; at < length; at += part) {
        part = length - at < GW_BPE_FEED ? length - at : GW_BPE_FEED;
        gw_bpe_stream_feed(stream, text + at, part, &tokens, &count);
        memcpy(all + total, tokens, count * sizeof *all);
        total += count;
    }
    gw_bpe_stream_end(stream, &tokens, &count);
    memcpy(all + total, tokens, count * sizeof *all);
    return total + count;
}

bool gw_bpe_encode(const gw_bpe *bpe, const char *text, size_t length, uint32_t **tokens, size_t *count,
                   gw_err *err) {
    gw_bpe_stream *stream;
    if (!gw_bpe_stream_open(bpe, &stream, err)) return false;
    *tokens = malloc((length + 1) * sizeof **tokens);
    if (*tokens != NULL) *count = encode(stream, text, length, *tokens);
    gw_bpe_stream_close(stream);
    return *tokens != NULL || gw_fail(err, GW_E_NOMEM, "no memory for the tokens of %zu bytes", length);
}
