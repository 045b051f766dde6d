#include "kernels/data/tokens/form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char bin[] = ".bin", npy[] = ".npy", numpy_magic[] = "\x93NUMPY";

enum { START = 12, NUMPY_START = 8, NUMPY_HEADER_MOST = 1 << 16 };

static uint32_t word_at(const uint8_t *bytes, size_t word) {
    const uint8_t *b = bytes + 4 * word;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static bool is_called(const gw_plain_file *file, const char *extension) {
    size_t length = strlen(file->path), end = strlen(extension);
    return length > end && strcmp(file->path + length - end, extension) == 0;
}

static bool check_length(const gw_plain_file *file, const gw_token_form *form, gw_err *err) {
    uint64_t expected = form->head + form->width * form->tokens;
    if (file->bytes == expected) return true;
    return gw_fail(err, GW_E_CORRUPT, "%s has %llu bytes; its header says %llu tokens, which take %llu",
                   file->path, (unsigned long long)file->bytes, (unsigned long long)form->tokens,
                   (unsigned long long)expected);
}

/* Reads the header of a shard; `start` holds its first numbers. */
static bool read_shard(const gw_plain_file *file, const uint8_t *start, gw_token_form *form, gw_err *err) {
    bool wide = word_at(start, 0) == GW_TOKENS_WIDE_MAGIC;
    uint32_t version = word_at(start, 1);
    int known = wide ? GW_TOKENS_WIDE_VERSION : GW_TOKENS_VERSION;
    if (file->bytes < GW_TOKENS_HEADER)
        return gw_fail(err, GW_E_CORRUPT, "%s ends after %llu bytes, within its header of %d", file->path,
                       (unsigned long long)file->bytes, GW_TOKENS_HEADER);
    if (version != (uint32_t)known)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s is a token shard of version %u; this reads version %d",
                       file->path, version, known);
    *form = (gw_token_form){
        .numbers = true, .head = GW_TOKENS_HEADER, .width = wide ? 4 : 2, .tokens = word_at(start, 2)};
    return check_length(file, form, err);
}

/* The value of a key of the header, a Python dictionary; "" where it has no such key. */
static const char *value_of(const char *header, const char *key) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    if (at == NULL) return "";
    at += strlen(quoted);
    return at + strspn(at, " ");
}

static bool refuse_array(const gw_plain_file *file, const char *what, const char *change, gw_err *err) {
    return gw_fail(err, GW_E_UNSUPPORTED,
                   "%s %s. To convert it: python3 -c \"import sys, numpy; a = numpy.load(sys.argv[1]); "
                   "numpy.save(sys.argv[2], %s)\" %s NEW.npy",
                   file->path, what, change, file->path);
}

/* Reads the form of an array from its header. */
static bool read_array(const gw_plain_file *file, const char *header, gw_token_form *form, gw_err *err) {
    static const struct {
        const char *descr;
        uint32_t width;
    } types[] = {{"'|u1'", 1}, {"'<u2'", 2}, {"'<i2'", 2}, {"'<u4'", 4}, {"'<i4'", 4}};
    char what[80];
    const char *descr = value_of(header, "descr"), *shape = value_of(header, "shape");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strncmp(descr, types[i].descr, strlen(types[i].descr)) == 0) form->width = types[i].width;
    if (descr[0] == '\0' || shape[0] != '(')
        return gw_fail(err, GW_E_CORRUPT,
                       "%s is no NumPy array, or damaged: its header has no descr or no shape", file->path);
    if (form->width == 0) {
        snprintf(what, sizeof what, "holds elements of the type %.*s", (int)strcspn(descr, ",}"), descr);
        return refuse_array(file, what, "a.astype('uint32')", err);
    }
    char *end;
    form->tokens = strtoull(shape + 1, &end, 10);
    bool flat = end > shape + 1 && (strncmp(end, ",)", 2) == 0 || end[0] == ')');
    if (flat) return check_length(file, form, err);
    snprintf(what, sizeof what, "has the shape %.*s, and tokens are one row", (int)(strcspn(shape, ")") + 1),
             shape);
    return refuse_array(file, what, "a.ravel()", err);
}

static bool read_numpy(const gw_plain_file *file, const uint8_t *start, gw_token_form *form, gw_err *err) {
    bool first = start[6] == 1; /* the major version whose header has a length of two bytes */
    uint32_t length = first ? (uint32_t)start[8] | (uint32_t)start[9] << 8 : word_at(start, 2);
    uint32_t at = NUMPY_START + (first ? 2 : 4);
    if (start[6] < 1 || start[6] > 3)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s is a NumPy array of version %u; versions 1 to 3 are read",
                       file->path, start[6]);
    if (length > NUMPY_HEADER_MOST || at + length > file->bytes)
        return gw_fail(err, GW_E_CORRUPT, "%s is no NumPy array, or was cut off within its header",
                       file->path);
    char *header = calloc(1, length + 1);
    if (header == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the header of %s", file->path);
    *form = (gw_token_form){.numbers = true, .head = at + length};
    bool good = gw_plain_read(file, at, header, length, err) && read_array(file, header, form, err);
    free(header);
    return good;
}

static bool refuse_headless(const gw_plain_file *file, gw_err *err) {
    if (is_called(file, npy))
        return gw_fail(err, GW_E_INVALID,
                       "%s is no NumPy array: it does not begin as such. The name of plain "
                       "bytes must not end in %s",
                       file->path, npy);
    return gw_fail(
        err, GW_E_INVALID,
        "%s is no token shard: it does not begin with %d. An array of numbers without a header, as "
        "nanoGPT writes, needs --data-dtype uint16. The name of plain bytes must not end in %s",
        file->path, GW_TOKENS_MAGIC, bin);
}

bool gw_token_form_of(const gw_plain_file *file, uint32_t headless, gw_token_form *form, gw_err *err) {
    uint8_t start[START] = {0}; /* zeros where the file is shorter */
    size_t there = file->bytes < sizeof start ? file->bytes : sizeof start;
    if (!gw_plain_read(file, 0, start, there, err)) return false;
    uint32_t magic = word_at(start, 0);
    if (magic == GW_TOKENS_MAGIC || magic == GW_TOKENS_WIDE_MAGIC) return read_shard(file, start, form, err);
    if (memcmp(start, numpy_magic, strlen(numpy_magic)) == 0) return read_numpy(file, start, form, err);
    if (headless == 0 && (is_called(file, bin) || is_called(file, npy))) return refuse_headless(file, err);
    if (headless > 0 && file->bytes % headless != 0)
        return gw_fail(err, GW_E_INVALID,
                       "%s has %llu bytes, which are no whole number of tokens of %u bytes", file->path,
                       (unsigned long long)file->bytes, headless);
    *form = (gw_token_form){.numbers = headless > 0, .width = headless > 0 ? headless : 1};
    form->tokens = file->bytes / form->width;
    return true;
}
