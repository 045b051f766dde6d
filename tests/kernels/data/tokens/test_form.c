/* Files of tokens: shards of 32 bits, NumPy's arrays, arrays without a header, and folders of them. */
#include "kernels/data/tokens/form.h"

#include "core/base/log.h"
#include "kernels/data/tokens/tokens.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 20, CONTEXT = 6, FILE_MOST = 2048 };

TestSuite(token_form, .init = scratch_open, .fini = scratch_close);

static uint32_t token_of(uint32_t i, uint32_t width) {
    return width == 1 ? i * 13 % 256 : width == 2 ? i * 300 : i * 70001;
}

/* Writes a file with these first bytes and TOKENS tokens. */
static const char *write_file(const char *name, const void *head, size_t length, uint32_t width) {
    uint8_t bytes[FILE_MOST];
    cr_assert_leq(length + (size_t)width * TOKENS, sizeof bytes);
    memcpy(bytes, head, length);
    for (uint32_t i = 0; i < TOKENS; i++)
        for (uint32_t b = 0; b < width; b++)
            bytes[length + i * width + b] = (uint8_t)(token_of(i, width) >> (8 * b));
    return scratch_write(name, bytes, length + (size_t)width * TOKENS);
}

static const char *write_wide(const char *name) {
    uint32_t header[GW_TOKENS_HEADER / 4] = {20240801, 7, TOKENS};
    return write_file(name, header, sizeof header, 4);
}

/* Writes a file as numpy.save does, with a header that is padded with blanks and ends with a line end. */
static const char *write_array(const char *name, int version, const char *dictionary, uint32_t width) {
    uint8_t head[256] = "\x93NUMPY";
    size_t start = version == 1 ? 10 : 12, length = 128 - start;
    head[6] = (uint8_t)version;
    head[8] = (uint8_t)length;
    memset(head + start, ' ', length);
    for (size_t i = 0; dictionary[i] != '\0'; i++) head[start + i] = (uint8_t)dictionary[i];
    head[start + length - 1] = '\n';
    return write_file(name, head, start + length, width);
}

#define DICTIONARY(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }"

/* Checks that all windows hold the tokens that were written. */
static void check(const char *list, uint32_t headless, uint32_t width, uint32_t files) {
    gw_tokens tokens;
    gw_err err;
    uint32_t inputs[CONTEXT], targets[CONTEXT];
    cr_assert(gw_tokens_open(list, CONTEXT, headless, &tokens, &err), "%s", err.text);
    cr_expect(tokens.shards);
    cr_assert_eq(tokens.file_count, files);
    cr_expect_eq(tokens.tokens, (uint64_t)TOKENS * files);
    cr_assert_eq(tokens.windows, (TOKENS - 1) / CONTEXT * files);
    for (uint64_t w = 0; w < tokens.windows; w++) {
        uint32_t first = (uint32_t)(w % ((TOKENS - 1) / CONTEXT)) * CONTEXT;
        cr_assert(gw_tokens_window(&tokens, w, inputs, targets, &err), "%s", err.text);
        for (uint32_t i = 0; i < CONTEXT; i++) {
            cr_assert_eq(inputs[i], token_of(first + i, width));
            cr_assert_eq(targets[i], token_of(first + i + 1, width));
        }
    }
    if (width > 1) cr_expect_eq(tokens.largest, token_of(TOKENS - 1, width));
    gw_tokens_close(&tokens);
}

Test(token_form, tokens_are_read_in_any_form) {
    check(write_wide("wide.bin"), 0, 4, 1);
    static const struct {
        const char *dictionary;
        int version;
        uint32_t width;
    } arrays[] = {
        {DICTIONARY("|u1", "(20,)"), 1, 1}, {DICTIONARY("<u2", "(20,)"), 1, 2},
        {DICTIONARY("<i2", "(20,)"), 2, 2}, {DICTIONARY("<u4", "(20,)"), 2, 4},
        {DICTIONARY("<i4", "(20,)"), 3, 4},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        check(write_array("a.npy", arrays[i].version, arrays[i].dictionary, arrays[i].width), 0,
              arrays[i].width, 1);
    check(write_file("raw16.bin", "", 0, 2), 2, 2, 1);
    check(write_file("raw32", "", 0, 4), 4, 4, 1);
    check(write_wide("wide.bin"), 2, 4, 1); /* a header takes precedence */
}

Test(token_form, forms_may_be_mixed_and_are_part_of_the_digest) {
    char list[600];
    gw_tokens one, other;
    gw_err err;
    write_array("a.npy", 1, DICTIONARY("<u4", "(20,)"), 4);
    write_wide("b.bin");
    write_file("c.bin", "", 0, 4);
    snprintf(list, sizeof list, "%s,%s", scratch_path("a.npy"), scratch_path("b.bin"));
    check(list, 0, 4, 2);
    cr_assert(gw_tokens_open(scratch_path("c.bin"), 3, 4, &one, &err), "%s", err.text);
    cr_assert(gw_tokens_open(scratch_path("c.bin"), 3, 2, &other, &err), "%s", err.text);
    cr_expect_not(gw_hash_equal(&one.digest, &other.digest));
    gw_tokens_close(&one);
    gw_tokens_close(&other);
}

/* The digest is part of a job's id, which checkpoints contain. (Python's hashlib.blake2b has computed it.) */
Test(token_form, the_digest_of_shards_stays_what_it_is) {
    uint32_t header[GW_TOKENS_HEADER / 4] = {20240520, 1, TOKENS};
    gw_tokens tokens;
    gw_err err;
    char text[65];
    cr_assert(gw_tokens_open(write_file("a.bin", header, sizeof header, 2), 4, 0, &tokens, &err), "%s",
              err.text);
    gw_hex(tokens.digest.bytes, sizeof tokens.digest.bytes, text);
    cr_expect_str_eq(text, "73ff3c2511a831752b246bf360797d24419300332448f16d5759a834e08a7aa6");
    gw_tokens_close(&tokens);
}

static void refuse(const char *path, uint32_t headless, gw_code code, const char *words) {
    gw_tokens tokens;
    gw_err err = {0};
    cr_assert_not(gw_tokens_open(path, CONTEXT, headless, &tokens, &err), "%s", words);
    cr_expect_not_null(strstr(err.text, words), "%s", err.text);
    cr_expect_eq(err.code, code, "%d: %s", err.code, err.text);
}

Test(token_form, what_is_none_of_them_is_refused_with_the_reason) {
    uint32_t wide[GW_TOKENS_HEADER / 4] = {20240801, 1, TOKENS};
    refuse(write_file("v.bin", wide, sizeof wide, 4), 0, GW_E_UNSUPPORTED,
           "of version 1; this reads version 7");
    wide[1] = 7;
    refuse(write_file("s.bin", wide, sizeof wide, 2), 0, GW_E_CORRUPT,
           "s.bin has 1064 bytes; its header says 20 tokens, which take 1104");
    refuse(write_file("r.bin", "", 0, 2), 0, GW_E_INVALID, "as nanoGPT writes, needs --data-dtype uint16");
    refuse(write_file("r.npy", "", 0, 2), 0, GW_E_INVALID, "r.npy is no NumPy array");
    refuse(scratch_write("odd.bin", "12345678901234567", 17), 2, GW_E_INVALID,
           "odd.bin has 17 bytes, which are no whole number of tokens of 2 bytes");
#define ARRAY(dictionary) write_array("a.npy", 1, dictionary, 4)
    refuse(ARRAY(DICTIONARY("<i8", "(10,)")), 0, GW_E_UNSUPPORTED,
           "holds elements of the type '<i8'. To convert it: ");
    refuse(ARRAY(DICTIONARY(">u4", "(20,)")), 0, GW_E_UNSUPPORTED, "a.astype('uint32'))\" /");
    refuse(ARRAY(DICTIONARY("<f4", "(20,)")), 0, GW_E_UNSUPPORTED, "of the type '<f4'");
    refuse(ARRAY(DICTIONARY("<u4", "(4, 5)")), 0, GW_E_UNSUPPORTED,
           "has the shape (4, 5), and tokens are one row");
    refuse(ARRAY(DICTIONARY("<u4", "()")), 0, GW_E_UNSUPPORTED, "has the shape ()");
    refuse(ARRAY(DICTIONARY("<u4", "(21,)")), 0, GW_E_CORRUPT, "its header says 21 tokens");
    refuse(ARRAY("{'shape': (20,)}"), 0, GW_E_CORRUPT, "has no descr or no shape");
    refuse(ARRAY("{}"), 0, GW_E_CORRUPT, "has no descr or no shape");
    refuse(write_array("a.npy", 4, DICTIONARY("<u4", "(20,)"), 4), 0, GW_E_UNSUPPORTED,
           "NumPy array of version 4");
    refuse(scratch_write("a.npy", "\x93NUMPY\1\0\xff\xff{'descr", 17), 0, GW_E_CORRUPT,
           "cut off within its header");
}

static char line[3000];

static void keep_line(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)room, (void)level;
    snprintf(line + strlen(line), sizeof line - strlen(line), "%s\n", text);
}

Test(token_form, a_folder_stands_for_its_files_of_tokens) {
    static const uint8_t text[] = {"a text of a few words"},
                         key[] = {"# a key\n0123456789abcdef0123456789abcdef"
                                  "0123456789abcdef0123456789ABCDEF\n"};
    enum { LENGTH = sizeof text - 1, KEY = sizeof key - 1 };
    gw_tokens tokens;
    gw_err err;
    scratch_make_folder("f");
    scratch_make_folder("f/b");
    scratch_make_folder("f/.git");
    scratch_write("f/b/README.md", text, LENGTH);
    scratch_write("f/.git/a.npy", text, LENGTH);
    /* What belongs to Godwit, and what is no text. */
    scratch_make_folder("f/data");
    scratch_write("f/data/godwit-directory", text, LENGTH);
    scratch_write("f/data/boot", text, LENGTH);
    scratch_write("f/cluster.key", key, KEY);
    scratch_write("f/picture.png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    char path[300];
    gw_log_set_sink(keep_line, NULL);
    snprintf(path, sizeof path, "%s", scratch_path("f"));
    cr_assert(gw_tokens_open(path, CONTEXT, 0, &tokens, &err), "%s", err.text);
    cr_expect(!tokens.shards && tokens.file_count == 1 && tokens.tokens == LENGTH);
    gw_tokens_close(&tokens);
    cr_expect_not_null(strstr(line, "f/b/README.md\n"), "%s", line);
    cr_expect_not_null(strstr(line, "name them to take them): 1 file, "), "%s", line);
    cr_expect_not_null(strstr(line, "keys, or directories of Godwit: 2 files, "), "%s", line);
    refuse(scratch_path("f/cluster.key"), 0, GW_E_USAGE, "cluster.key is a cluster key, and no text");
    line[0] = '\0';
    write_wide("f/z.bin");
    write_array("f/b/a.npy", 1, DICTIONARY("<u4", "(20,)"), 4);
    check(path, 0, 4, 2);
    cr_assert(gw_tokens_begin(path, CONTEXT, 0, &tokens, &err), "%s", err.text);
    cr_expect_not_null(strstr(tokens.files[0].path, "f/b/a.npy"), "%s", tokens.files[0].path);
    gw_tokens_close(&tokens);
    /* A file that is read twice is told of, under whatever name. */
    char twice[700];
    snprintf(twice, sizeof twice, "%s/z.bin,%s/b/../z.bin", path, path);
    cr_assert(gw_tokens_begin(twice, CONTEXT, 0, &tokens, &err), "%s", err.text);
    cr_expect_not_null(strstr(line, "b/../z.bin is among the files more than once"), "%s", line);
    gw_tokens other;
    cr_assert(gw_tokens_begin(path, CONTEXT, 0, &other, &err), "%s", err.text);
    cr_expect_not_null(gw_tokens_repeated(&tokens, &other));
    cr_expect_null(gw_tokens_repeated(&other, NULL));
    gw_tokens_close(&other);
    gw_tokens_close(&tokens);
    /* What is taken of the folder is told, and what is not. */
    cr_expect_not_null(strstr(line, "taken: 2 files, "), "%s", line);
    cr_expect_not_null(
        strstr(line, "f/z.bin\nnot taken, as there are files of tokens (.bin, .npy): 2 files, "), "%s", line);
    gw_log_set_sink(NULL, NULL);
    refuse(scratch_path("f/.git"), 0, GW_E_INVALID, "a.npy is no NumPy array");
    scratch_make_folder("e");
    refuse(scratch_path("e"), 0, GW_E_NOTFOUND, "there is no file in the folder ");
}

/* Compressed data are accepted as plain bytes, with a warning, and make a job of their own. */
Test(token_form, compressed_bytes_are_told_of) {
    gw_tokens tokens;
    gw_err err;
    gw_log_set_sink(keep_line, NULL);
    cr_assert(gw_tokens_open(scratch_write("a.gz", "\x1f\x8b\x08 and so on", 13), CONTEXT, 0, &tokens, &err),
              "%s", err.text);
    cr_expect_not_null(strstr(line, "a.gz is compressed, and its bytes are taken as they are"), "%s", line);
    cr_expect_eq(tokens.tokens, 13);
    gw_tokens_close(&tokens);
    gw_log_set_sink(NULL, NULL);
}

/* A list is split at its commas, unless one file has the name. */
Test(token_form, a_name_may_have_commas) {
    static const uint8_t text[30] = "a text of a few words";
    gw_tokens tokens;
    gw_err err;
    char path[300];
    snprintf(path, sizeof path, "%s", scratch_write("my,text", text, sizeof text));
    cr_assert(gw_tokens_open(path, CONTEXT, 0, &tokens, &err), "%s", err.text);
    cr_expect_eq(tokens.file_count, 1);
    gw_tokens_close(&tokens);
}
