/* What people bring along with a model: the index of its files, its tokenizer, and compressed texts. */
#include "kernels/data/bpe/pattern.h"
#include "kernels/data/bpe/stream.h"
#include "kernels/data/inflate.h"
#include "kernels/data/safetensors.h"
#include "tests/fuzz/target.h"
#include "tests/weights_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* The index of a sharded model, beside two of its files. */

static void index_examples(fuzz_add *add, void *context) {
    static const char index[] =
        "{\"metadata\": {\"total_size\": 8}, \"weight_map\": {\"a\": \"one\", \"b\": \"two\"}}";
    add(context, index, sizeof index - 1);
}

static bool take_index(const uint8_t *bytes, size_t count) {
    static const float values[2];
    static const char *const names[] = {"a", "b"}, *const files[] = {"one", "two"};
    gw_safetensors model;
    gw_err err;
    for (int i = 0; i < 2; i++) {
        const gw_safetensor tensor = {.name = names[i],
                                      .dtype = "F32",
                                      .rank = 1,
                                      .dim = {1},
                                      .bytes = (const uint8_t *)values,
                                      .size = sizeof(float)};
        GW_ASSERT(write_weights(fuzz_file(files[i], "", 0, 0600), &tensor, 1, &err));
    }
    if (!gw_safetensors_open(fuzz_file("index", bytes, count, 0600), &model, &err)) return false;
    GW_ASSERT(model.count > 0 && model.part_count > 0);
    for (uint32_t i = 0; i < model.count; i++)
        GW_ASSERT(model.list[i].size == 0 || model.list[i].bytes != NULL);
    gw_safetensors_close(&model);
    return true;
}

const fuzz_target fuzz_index = {"index", 1500, 400, index_examples, NULL, take_index};

/* A tokenizer.json, and a text that it is to encode. */

static const char hard_text[] = "a  ab'll 12 \xc3\xa9\xff\u0301e\u0301\n\xf0\x9f\x99\x82 <x>  ba";

static void tokenizer_examples(fuzz_add *add, void *context) {
    static const char tokenizer[] =
        "{\"added_tokens\": [{\"content\": \"<x>\", \"id\": 5, \"lstrip\": true, \"single_word\": true}, "
        "{\"content\": \"b\", \"id\": 1, \"normalized\": true, \"rstrip\": true}], \"normalizer\": "
        "{\"type\": \"NFC\"}, "
        "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
        "{\"Regex\": \"\\\\s+(?!\\\\S)|[^\\\\p{L}a-c]{1,3}+\"}, \"behavior\": \"Removed\", \"invert\": "
        "true}, {\"type\": "
        "\"Digits\", \"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": true}]}, "
        "\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"fuse_unk\": true, \"ignore_merges\": true, "
        "\"vocab\": "
        "{\"a\": 0, \"b\": 1, \"\\u0120\": 2, \"?\": 3, \"ab\": 4}, \"merges\": [\"a b\"]}}";
    add(context, tokenizer, sizeof tokenizer - 1);
}

static bool take_tokenizer(const uint8_t *bytes, size_t count) {
    gw_bpe *bpe;
    gw_err err;
    uint32_t *tokens;
    size_t token_count, length;
    if (!gw_bpe_open(fuzz_file("tokenizer", bytes, count, 0600), &bpe, &err)) return false;
    bool encoded = gw_bpe_encode(bpe, hard_text, sizeof hard_text - 1, &tokens, &token_count, &err);
    for (size_t i = 0; encoded && i < token_count; i++) {
        GW_ASSERT(tokens[i] < gw_bpe_size(bpe));
        gw_bpe_decode(bpe, tokens[i], &length);
    }
    if (encoded) free(tokens);
    gw_bpe_close(bpe);
    return true;
}

const fuzz_target fuzz_tokenizer = {"tokenizer", 1000, 2000, tokenizer_examples, NULL, take_tokenizer};

/* A regular expression of a tokenizer, which stops at a zero byte. */

static void pattern_examples(fuzz_add *add, void *context) {
    static const char *const patterns[] = {
        "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}+| ?[^\\s\\p{L}]++[\\r\\n]*|\\s+(?!\\S)",
        " ?[^(\\s|[.,!?])]+", "(?<=\\w)\\b|\\u0041{,3}|\\x{41}{2}?", "(?i)^[\\d\\-a-c]*.$"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        add(context, patterns[i], strlen(patterns[i]));
}

static bool take_pattern(const uint8_t *bytes, size_t count) {
    gw_err err;
    char *text = malloc(count + 1);
    GW_ASSERT_MEMORY(text != NULL);
    memcpy(text, bytes, count);
    text[count] = '\0';
    pcre2_code *pattern = gw_bpe_pattern(text, &err);
    pcre2_code_free(pattern);
    pcre2_code *literal = gw_bpe_pattern_literal(text, &err);
    pcre2_code_free(literal);
    free(text);
    return pattern != NULL;
}

const fuzz_target fuzz_pattern = {"pattern", 3000, 200, pattern_examples, NULL, take_pattern};

/* A compressed file, whole and byte by byte. */

static void inflate_examples(fuzz_add *add, void *context) {
    static const char text[] = "a text of words, a text of words";
    uint8_t packed[200];
    add(context, packed, ZSTD_compress(packed, sizeof packed, text, sizeof text, 3));
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text,
                  .avail_in = sizeof text,
                  .next_out = packed,
                  .avail_out = sizeof packed};
    GW_ASSERT(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK &&
              deflate(&z, Z_FINISH) == Z_STREAM_END);
    add(context, packed, z.total_out);
    deflateEnd(&z);
}

enum { UNPACKED = 1 << 16 };

/* Decompresses up to UNPACKED bytes; *total is the number. */
static bool unpack(const uint8_t *bytes, size_t count, size_t most, char *out, size_t *total) {
    gw_compression compression;
    gw_inflater *inflater;
    gw_err err;
    *total = 0;
    if (!gw_compression_of((const char *)bytes, count, &compression, &err) || compression == GW_PLAIN)
        return false;
    GW_ASSERT(gw_inflater_open(compression, &inflater, &err));
    bool good = true;
    for (size_t at = 0, part, made; good && at < count && *total < UNPACKED; at += part) {
        part = count - at < most ? count - at : most;
        const char *from = (const char *)bytes + at;
        size_t left = part;
        do {
            good = gw_inflater_run(inflater, &from, &left, out + *total, UNPACKED - *total, &made, &err);
            if (good) *total += made;
        } while (good && left > 0 && *total < UNPACKED);
    }
    good = good && (*total == UNPACKED || gw_inflater_end(inflater, &err));
    gw_inflater_close(inflater);
    return good;
}

static bool take_inflate(const uint8_t *bytes, size_t count) {
    static char whole[UNPACKED], parts[UNPACKED];
    size_t total, other;
    bool good = unpack(bytes, count, count, whole, &total);
    GW_ASSERT(unpack(bytes, count, 1, parts, &other) == good);
    if (good) GW_ASSERT(total == other && memcmp(whole, parts, total) == 0);
    return good;
}

const fuzz_target fuzz_inflate = {"inflate", 3000, 300, inflate_examples, NULL, take_inflate};
