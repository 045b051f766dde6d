#include "kernels/data/bpe/bpe.h"

#include "core/os/plain_file.h"
#include "kernels/data/bpe/inside.h"
#include "kernels/data/bpe/nfc.h"
#include "kernels/data/bpe/stream.h"
#include "kernels/data/bpe/tokenizer_json.h"
#include "kernels/data/bpe/vocabulary.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MOST = 4096 };

gw_bpe *gw_bpe_new(gw_err *err) {
    gw_bpe *bpe = calloc(1, sizeof *bpe);
    if (bpe == NULL) {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    for (int b = 0; b < GW_BPE_BYTES; b++) bpe->byte_token[b] = GW_BPE_NO_TOKEN;
    bpe->end_of_text = bpe->unknown = GW_BPE_NO_TOKEN;
    bpe->space_step = -1;
    return bpe;
}

static bool read_numbers(gw_bpe_reading *r, FILE *file, gw_err *err) {
    json_error_t why;
    json_t *numbers = json_loadf(file, JSON_REJECT_DUPLICATES, &why);
    if (numbers == NULL) return gw_fail(err, GW_E_INVALID, "line %d: %s", why.line, why.text);
    r->file = numbers;
    return gw_bpe_read_tokens(r, numbers, err);
}

/* Reads a line "left right". */
static bool read_merge(gw_bpe_reading *r, const char *line, size_t number, gw_err *err) {
    const char *space = strchr(line, ' ');
    if (space == NULL || space == line || space[1] == '\0' || strchr(space + 1, ' ') != NULL)
        return gw_fail(err, GW_E_INVALID, "line %zu is not two tokens with a space between them", number);
    return gw_bpe_read_merge(r, line, (size_t)(space - line), space + 1, strlen(space + 1), err) ||
           gw_fail_in(err, "line %zu", number);
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

static bool read_merges(gw_bpe_reading *r, FILE *file, gw_err *err) {
    char line[LINE_MOST];
    bool there = true;
    for (size_t number = 1; there; number++) {
        if (!next_line(file, number, line, &there, err)) return false;
        bool version = number == 1 && strncmp(line, "#version", 8) == 0;
        if (line[0] != '\0' && !version && !read_merge(r, line, number, err)) return false;
    }
    return true;
}

static bool read_file(gw_bpe_reading *r, const char *path, bool (*read)(gw_bpe_reading *, FILE *, gw_err *),
                      gw_err *err) {
    gw_plain_file plain;
    if (!gw_plain_open(path, &plain, err)) return false;
    FILE *file = fdopen(plain.fd, "r"); /* fclose also closes the descriptor */
    if (file == NULL) {
        gw_plain_close(&plain);
        return gw_fail(err, GW_E_NOMEM, "%s: out of memory", path);
    }
    bool done = read(r, file, err) || gw_fail_in(err, "%s", path);
    fclose(file);
    return done;
}

/* Reads GPT-2's two files, and sets what they do not contain: the pattern that cuts texts and the token that
 * ends them. */
static bool read_pair(gw_bpe *bpe, const char *vocabulary, const char *merges, gw_err *err) {
    static const char end[] = GW_BPE_END_OF_TEXT;
    gw_bpe_reading r;
    gw_bpe_reading_begin(&r, bpe);
    bool done = read_file(&r, vocabulary, read_numbers, err) && read_file(&r, merges, read_merges, err);
    if (done) bpe->end_of_text = gw_bpe_number_of(&r, end, strlen(end));
    json_decref(r.file);
    if (done && bpe->end_of_text != GW_BPE_NO_TOKEN) {
        /* no merge makes this token; it is recognised in the text, as Hugging Face's transformers does */
        const gw_bpe_added_token token = {
            .text = end, .length = strlen(end), .token = (uint32_t)bpe->end_of_text};
        done = gw_bpe_added_add(&bpe->added[0], &token, err);
    }
    return done && gw_bpe_add_usual_step(bpe, err);
}

static char *path_in(const char *folder, const char *name) {
    char *path;
    return asprintf(&path, "%s/%s", folder, name) >= 0 ? path : NULL;
}

/* The path of the file with the first of two names, or with the second where only that file exists. */
static char *either(const char *folder, const char *name, const char *other) {
    char *first = path_in(folder, name), *second = path_in(folder, other);
    if (first == NULL || second == NULL || access(first, F_OK) == 0 || access(second, F_OK) != 0) {
        free(second);
        return first;
    }
    free(first);
    return second;
}

/* Says what a folder lacks, or what it holds instead. */
static bool refuse_folder(const char *folder, const char *vocabulary, gw_err *err) {
    char *sentences = path_in(folder, "tokenizer.model");
    bool there = sentences != NULL && access(sentences, F_OK) == 0;
    free(sentences);
    if (there)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "%s holds a SentencePiece model, tokenizer.model: byte-level BPE is what can be read",
                       folder);
    return gw_fail(err, GW_E_NOTFOUND, "there is no file %s, and no tokenizer.json beside it", vocabulary);
}

static bool read_folder(gw_bpe *bpe, const char *folder, gw_err *err) {
    char *json = path_in(folder, "tokenizer.json"),
         *vocabulary = either(folder, "vocab.json", "encoder.json"),
         *merges = either(folder, "merges.txt", "vocab.bpe");
    bool good = json != NULL && vocabulary != NULL && merges != NULL;
    if (!good)
        gw_fail(err, GW_E_NOMEM, "out of memory");
    else if (access(json, F_OK) == 0)
        good = gw_bpe_read_tokenizer(bpe, json, err);
    else if (access(vocabulary, F_OK) != 0)
        good = refuse_folder(folder, vocabulary, err);
    else
        good = read_pair(bpe, vocabulary, merges, err);
    free(json);
    free(vocabulary);
    free(merges);
    return good;
}

bool gw_bpe_open(const char *path, gw_bpe **out, gw_err *err) {
    struct stat about;
    gw_bpe *bpe = gw_bpe_new(err);
    if (bpe == NULL) return false;
    bool file = stat(path, &about) == 0 && S_ISREG(about.st_mode);
    if (file ? gw_bpe_read_tokenizer(bpe, path, err) : read_folder(bpe, path, err)) {
        for (int kind = 0; kind < 2; kind++) gw_bpe_added_sort(&bpe->added[kind]);
        *out = bpe;
        return true;
    }
    gw_bpe_close(bpe);
    return false;
}

void gw_bpe_close(gw_bpe *bpe) {
    if (bpe == NULL) return;
    for (uint32_t i = 0; i < bpe->size; i++) free(bpe->tokens[i].bytes);
    free(bpe->tokens);
    gw_bpe_pairs_free(&bpe->pairs);
    for (int kind = 0; kind < 2; kind++) gw_bpe_added_free(&bpe->added[kind]);
    for (uint32_t i = 0; i < bpe->step_count; i++) pcre2_code_free(bpe->steps[i].pattern);
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

/* Encodes a text to `all`, which has room for one token more for each byte than normalization makes of it. */
static bool encode(gw_bpe_stream *stream, const char *text, size_t length, uint32_t *all, size_t *total,
                   gw_err *err) {
    const uint32_t *tokens;
    size_t count;
    *total = 0;
    for (size_t at = 0, part; at < length; at += part) {
        part = length - at < GW_BPE_FEED ? length - at : GW_BPE_FEED;
        if (!gw_bpe_stream_feed(stream, text + at, part, &tokens, &count, err)) return false;
        memcpy(all + *total, tokens, count * sizeof *all);
        *total += count;
    }
    if (!gw_bpe_stream_end(stream, &tokens, &count, err)) return false;
    memcpy(all + *total, tokens, count * sizeof *all);
    *total += count;
    return true;
}

bool gw_bpe_encode(const gw_bpe *bpe, const char *text, size_t length, uint32_t **tokens, size_t *count,
                   gw_err *err) {
    gw_bpe_stream *stream;
    if (!gw_bpe_stream_open(bpe, &stream, err)) return false;
    *tokens = malloc(((GW_NFC_GROWTH + 1) * length + 1) * sizeof **tokens);
    bool encoded =
        *tokens != NULL || gw_fail(err, GW_E_NOMEM, "no memory for the tokens of %zu bytes", length);
    encoded = encoded && encode(stream, text, length, *tokens, count, err);
    gw_bpe_stream_close(stream);
    if (!encoded) {
        free(*tokens);
        *tokens = NULL;
    }
    return encoded;
}
