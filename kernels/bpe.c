#define PCRE2_CODE_UNIT_WIDTH 8
#include "kernels/bpe.h"

#include "core/check.h"
#include "kernels/plain_file.h"

#include <errno.h>
#include <jansson.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, LETTERS = 512, TOKENS_MOST = 1 << 24, LINE_MOST = 4096 };

typedef struct token {
    char *bytes; /* NULL: no token has this number */
    size_t length;
} token;

struct gw_bpe {
    json_t *numbers;          /* of tokens, spelled in letters */
    json_t *ranks;            /* of merges, "left right" */
    char letter[BYTES][3];    /* each byte's letter, in UTF-8 */
    int16_t byte_of[LETTERS]; /* back from a letter; -1: none */
    token *tokens;
    uint32_t size;
    pcre2_code *cut;
};

/* Unicode's White_Space, which is what \s was where GPT-2's pattern comes from; PCRE's has U+180E as well. */
#define SPACES                                                                                               \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|"
                              "[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+";

/* No merges make it: it is a token where the text has it, as in transformers. */
static const char end_of_text[] = "<|endoftext|>";

/* Files spell bytes as letters: those that can be printed as themselves, the others as U+0100 and on. */
static void make_letters(gw_bpe *bpe) {
    unsigned next = BYTES;
    for (int i = 0; i < LETTERS; i++) bpe->byte_of[i] = -1;
    for (unsigned b = 0; b < BYTES; b++) {
        bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        unsigned code = shown ? b : next++;
        bpe->byte_of[code] = (int16_t)b;
        if (code < 0x80) {
            bpe->letter[b][0] = (char)code;
        } else {
            bpe->letter[b][0] = (char)(0xc0 | code >> 6);
            bpe->letter[b][1] = (char)(0x80 | (code & 0x3f));
        }
    }
}

/* The bytes that a token's letters stand for, written to `bytes`; false for other characters. */
static bool spell_back(const gw_bpe *bpe, const char *letters, char *bytes, size_t *length) {
    *length = 0;
    for (const unsigned char *c = (const unsigned char *)letters; *c != '\0'; c++) {
        unsigned code = *c;
        if (code >= 0x80) {
            if ((code & 0xe0) != 0xc0 || (c[1] & 0xc0) != 0x80) return false;
            code = (code & 0x1f) << 6 | (*++c & 0x3f);
        }
        if (code >= LETTERS || bpe->byte_of[code] < 0) return false;
        bytes[(*length)++] = (char)bpe->byte_of[code];
    }
    return true;
}

static bool add_token(gw_bpe *bpe, const char *letters, const json_t *number, gw_err *err) {
    json_int_t id = json_integer_value(number);
    if (!json_is_integer(number) || id < 0 || id >= TOKENS_MOST)
        return gw_fail(err, GW_E_INVALID, "token '%.40s' has no number below %d", letters, TOKENS_MOST);
    if (id >= bpe->size) {
        uint32_t size = (uint32_t)id + 1;
        token *grown = realloc(bpe->tokens, size * sizeof *grown);
        if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %u tokens", size);
        memset(grown + bpe->size, 0, (size - bpe->size) * sizeof *grown);
        bpe->tokens = grown;
        bpe->size = size;
    }
    token *t = &bpe->tokens[id];
    if (t->bytes != NULL) return gw_fail(err, GW_E_INVALID, "two tokens have the number %d", (int)id);
    t->bytes = malloc(strlen(letters) + 1);
    if (t->bytes == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a token");
    if (!spell_back(bpe, letters, t->bytes, &t->length))
        return gw_fail(err, GW_E_INVALID, "token '%.40s' has characters that stand for no byte", letters);
    return true;
}

static bool read_numbers(gw_bpe *bpe, FILE *file, gw_err *err) {
    json_error_t why;
    bpe->numbers = json_loadf(file, JSON_REJECT_DUPLICATES, &why);
    if (bpe->numbers == NULL) return gw_fail(err, GW_E_INVALID, "line %d: %s", why.line, why.text);
    if (!json_is_object(bpe->numbers))
        return gw_fail(err, GW_E_INVALID, "is no object of tokens and numbers");
    const char *letters;
    json_t *number;
    json_object_foreach(bpe->numbers, letters,
                        number) if (!add_token(bpe, letters, number, err)) return false;
    for (int b = 0; b < BYTES; b++)
        if (json_object_get(bpe->numbers, bpe->letter[b]) == NULL)
            return gw_fail(err, GW_E_INVALID, "has no token for byte %d ('%s')", b, bpe->letter[b]);
    return true;
}

/* A line "left right": both and what they make are tokens. */
static bool add_merge(gw_bpe *bpe, char *line, size_t number, gw_err *err) {
    char joined[LINE_MOST];
    char *space = strchr(line, ' ');
    if (space == NULL || space == line || space[1] == '\0' || strchr(space + 1, ' ') != NULL)
        return gw_fail(err, GW_E_INVALID, "line %zu is not two tokens with a space between them", number);
    snprintf(joined, sizeof joined, "%.*s%s", (int)(space - line), line, space + 1);
    bool known = json_object_get(bpe->numbers, joined) != NULL &&
                 json_object_get(bpe->numbers, space + 1) != NULL &&
                 json_object_getn(bpe->numbers, line, (size_t)(space - line)) != NULL;
    if (!known) return gw_fail(err, GW_E_INVALID, "line %zu: a part of '%.80s' is no token", number, line);
    if (json_object_get(bpe->ranks, line) != NULL)
        return gw_fail(err, GW_E_INVALID, "line %zu: '%.80s' is there twice", number, line);
    if (json_object_set_new(bpe->ranks, line, json_integer((json_int_t)number)) != 0)
        return gw_fail(err, GW_E_INVALID, "line %zu is not UTF-8", number);
    return true;
}

static bool read_merges(gw_bpe *bpe, FILE *file, gw_err *err) {
    char line[LINE_MOST];
    bool read = true;
    for (size_t number = 1; read && fgets(line, sizeof line, file) != NULL; number++) {
        size_t length = strlen(line);
        bool whole = length > 0 && line[length - 1] == '\n';
        if (!whole && !feof(file)) {
            read = gw_fail(err, GW_E_LIMIT, "line %zu is longer than %d bytes", number, LINE_MOST - 2);
            break;
        }
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) line[--length] = '\0';
        if (length == 0 || strncmp(line, "#version", 8) == 0) continue;
        read = add_merge(bpe, line, number, err);
    }
    if (read && ferror(file)) read = gw_fail_errno(err, errno, "cannot read it");
    return read;
}

static bool read_file(gw_bpe *bpe, const char *dir, const char *name,
                      bool (*read)(gw_bpe *, FILE *, gw_err *), gw_err *err) {
    char *path;
    gw_plain_file plain;
    if (asprintf(&path, "%s/%s", dir, name) < 0) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool done = gw_plain_open(path, &plain, err);
    FILE *file = done ? fdopen(plain.fd, "r") : NULL; /* closes it, too */
    if (done && file == NULL) {
        done = gw_fail(err, GW_E_NOMEM, "%s: out of memory", path);
        gw_plain_close(&plain);
    }
    if (done && !read(bpe, file, err)) done = gw_fail_in(err, "%s", path);
    if (file != NULL) fclose(file);
    free(path);
    return done;
}

bool gw_bpe_open(const char *dir, gw_bpe **out, gw_err *err) {
    gw_bpe *bpe = calloc(1, sizeof *bpe);
    if (bpe == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    int code;
    PCRE2_SIZE where;
    make_letters(bpe);
    bpe->cut = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &where, NULL);
    bpe->ranks = json_object();
    bool done = (bpe->cut != NULL && bpe->ranks != NULL) || gw_fail(err, GW_E_NOMEM, "out of memory");
    done = done && read_file(bpe, dir, "vocab.json", read_numbers, err) &&
           read_file(bpe, dir, "merges.txt", read_merges, err);
    if (!done) {
        gw_bpe_close(bpe);
        return false;
    }
    *out = bpe;
    return true;
}

void gw_bpe_close(gw_bpe *bpe) {
    if (bpe == NULL) return;
    for (uint32_t i = 0; i < bpe->size; i++) free(bpe->tokens[i].bytes);
    free(bpe->tokens);
    json_decref(bpe->numbers);
    json_decref(bpe->ranks);
    pcre2_code_free(bpe->cut);
    free(bpe);
}

uint32_t gw_bpe_size(const gw_bpe *bpe) {
    return bpe->size;
}

const char *gw_bpe_decode(const gw_bpe *bpe, uint32_t number, size_t *length) {
    *length = number < bpe->size ? bpe->tokens[number].length : 0;
    return *length > 0 ? bpe->tokens[number].bytes : "";
}

/* A text on its way to tokens. */
typedef struct encoding {
    const gw_bpe *bpe;
    char *letters;    /* of the piece in hand */
    char *pair;       /* "left right" */
    size_t *start;    /* of each symbol in `letters`, and behind the last */
    uint32_t *tokens; /* of all pieces so far */
    size_t count;
} encoding;

/* The merge's rank of symbol i and the next; -1: none. */
static json_int_t rank_of(const encoding *e, size_t i) {
    size_t left = e->start[i + 1] - e->start[i], right = e->start[i + 2] - e->start[i + 1];
    memcpy(e->pair, e->letters + e->start[i], left);
    e->pair[left] = ' ';
    memcpy(e->pair + left + 1, e->letters + e->start[i + 1], right);
    const json_t *rank = json_object_getn(e->bpe->ranks, e->pair, left + 1 + right);
    return rank != NULL ? json_integer_value(rank) : -1;
}

static void encode_piece(encoding *e, const char *text, size_t length) {
    size_t symbols = length, used = 0;
    for (size_t i = 0; i < length; i++) {
        const char *letter = e->bpe->letter[(unsigned char)text[i]];
        e->start[i] = used;
        memcpy(e->letters + used, letter, strlen(letter));
        used += strlen(letter);
    }
    e->start[length] = used;
    for (;;) {
        size_t best = 0;
        json_int_t least = -1;
        for (size_t i = 0; i + 1 < symbols; i++) {
            json_int_t rank = rank_of(e, i);
            if (rank < 0 || (least >= 0 && rank >= least)) continue;
            least = rank;
            best = i;
        }
        if (least < 0) break;
        memmove(&e->start[best + 1], &e->start[best + 2], (symbols - best - 1) * sizeof e->start[0]);
        symbols--;
    }
    for (size_t i = 0; i < symbols; i++) {
        const json_t *number =
            json_object_getn(e->bpe->numbers, e->letters + e->start[i], e->start[i + 1] - e->start[i]);
        GW_CHECK(number != NULL); /* every byte and every merge's result is a token */
        e->tokens[e->count++] = (uint32_t)json_integer_value(number);
    }
}

/* What the pattern finds are pieces; what lies between its finds is not UTF-8, and is taken byte by byte. */
static void encode_part(encoding *e, pcre2_match_data *match, const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        int found = pcre2_match(e->bpe->cut, (PCRE2_SPTR)text, length, at, 0, match, NULL);
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(match);
        size_t begin = found > 0 ? ends[0] : length, end = found > 0 ? ends[1] : length;
        for (; at < begin; at++) encode_piece(e, text + at, 1);
        encode_piece(e, text + begin, end - begin);
        at = end;
    }
}

static void encode_all(encoding *e, pcre2_match_data *match, const char *text, size_t length) {
    const json_t *number = json_object_get(e->bpe->numbers, end_of_text);
    const size_t mark = strlen(end_of_text);
    const char *end;
    while (number != NULL && (end = memmem(text, length, end_of_text, mark)) != NULL) {
        size_t before = (size_t)(end - text);
        encode_part(e, match, text, before);
        e->tokens[e->count++] = (uint32_t)json_integer_value(number);
        text = end + mark;
        length -= before + mark;
    }
    encode_part(e, match, text, length);
}

bool gw_bpe_encode(const gw_bpe *bpe, const char *text, size_t length, uint32_t **tokens, size_t *count,
                   gw_err *err) {
    encoding e = {.bpe = bpe,
                  .letters = malloc(2 * length + 1),
                  .pair = malloc(2 * length + 2),
                  .start = malloc((length + 1) * sizeof(size_t)),
                  .tokens = malloc((length + 1) * sizeof(uint32_t))};
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(bpe->cut, NULL);
    bool done = e.letters != NULL && e.pair != NULL && e.start != NULL && e.tokens != NULL && match != NULL;
    if (done)
        encode_all(&e, match, text, length);
    else
        gw_fail(err, GW_E_NOMEM, "no memory for the tokens of %zu bytes", length);
    pcre2_match_data_free(match);
    free(e.letters);
    free(e.pair);
    free(e.start);
    if (!done) free(e.tokens);
    *tokens = done ? e.tokens : NULL;
    *count = e.count;
    return done;
}
