/* Tokenizers in the tokenizers library's format: the tokens of texts, and features that are refused. */
#include "kernels/data/bpe/stream.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BYTES = 256, LETTER = 8 };

static char letters[BYTES][LETTER]; /* the spelling of bytes in vocabularies, in UTF-8 */

static void enter(void) {
    scratch_open();
    unsigned next = BYTES;
    for (unsigned b = 0; b < BYTES; b++) {
        bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        unsigned code = shown ? b : next++;
        if (code < 0x80)
            snprintf(letters[b], LETTER, "%c", (char)code);
        else
            snprintf(letters[b], LETTER, "%c%c", (char)(0xc0 | code >> 6), (char)(0x80 | (code & 0x3f)));
    }
}

TestSuite(tokenizer_json, .init = enter, .fini = scratch_close);

static bool lacks(const json_t *one, unsigned byte) {
    const json_t *list = json_object_get(one, "lacks");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == (json_int_t)byte) return true;
    return false;
}

static bool is_left_out(const json_t *one, const char *merge) {
    for (unsigned b = 0; b < BYTES; b++)
        if (lacks(one, b) && strstr(merge, letters[b]) != NULL) return true;
    return false;
}

/* The vocabulary of tests/cluster/tokenizers_tokens.py: byte b is token b, and the results of merges follow.
 */
static json_t *make_model(const json_t *all, const json_t *one) {
    json_t *vocab = json_object(), *merges = json_array(), *model = json_object();
    const json_t *list = json_object_get(all, "merges");
    for (unsigned b = 0; b < BYTES; b++)
        if (!lacks(one, b)) json_object_set_new(vocab, letters[b], json_integer(b));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *merge = json_string_value(json_array_get(list, i)), *space = strchr(merge, ' ');
        char joined[100];
        if (is_left_out(one, merge)) continue;
        snprintf(joined, sizeof joined, "%.*s%s", (int)(space - merge), merge, space + 1);
        json_object_set_new(vocab, joined, json_integer(BYTES + (json_int_t)json_array_size(merges)));
        /* the two forms that the library writes */
        json_array_append_new(merges, i % 2 ? json_string(merge)
                                            : json_pack("[s#, s]", merge, (int)(space - merge), space + 1));
    }
    const char *unknown = json_string_value(json_object_get(one, "unknown"));
    if (unknown != NULL)
        json_object_set_new(vocab, unknown, json_integer(BYTES + (json_int_t)json_array_size(merges)));
    json_object_set_new(model, "type", json_string("BPE"));
    json_object_set_new(model, "unk_token", unknown != NULL ? json_string(unknown) : json_null());
    json_object_set_new(model, "vocab", vocab);
    json_object_set_new(model, "merges", merges);
    json_object_update(model, json_object_get(one, "model"));
    return model;
}

/* Added tokens that are not in the vocabulary are numbered behind it. */
static json_t *make_added(const json_t *one, const json_t *vocab) {
    json_t *list = json_array();
    const json_t *added = json_object_get(one, "added");
    json_int_t next = (json_int_t)json_object_size(vocab);
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_t *token = json_deep_copy(json_array_get(added, i));
        const json_t *number = json_object_get(vocab, json_string_value(json_object_get(token, "content")));
        json_object_set_new(token, "id", json_integer(number != NULL ? json_integer_value(number) : next++));
        json_array_append_new(list, token);
    }
    return list;
}

static void write_json(const char *name, json_t *json) {
    cr_assert_eq(json_dump_file(json, scratch_path(name), 0), 0);
    json_decref(json);
}

/* Writes a tokenizer.json in the folder. */
static json_t *make_tokenizer(const json_t *all, const json_t *one) {
    json_t *model = make_model(all, one), *file = json_object();
    json_object_set_new(file, "version", json_string("1.0"));
    json_object_set(file, "normalizer", json_object_get(one, "normalizer"));
    json_object_set_new(file, "added_tokens", make_added(one, json_object_get(model, "vocab")));
    json_object_set(file, "pre_tokenizer", json_object_get(one, "pre_tokenizer"));
    json_object_set_new(file, "model", model);
    return file;
}

static json_t *load_all(void) {
    json_t *all = json_load_file(GODWIT_SOURCE "/tests/kernels/data/bpe/tokenizers.json", 0, NULL);
    cr_assert_not_null(all);
    return all;
}

static gw_bpe *open_one(void) {
    gw_bpe *bpe;
    gw_err err;
    cr_assert(gw_bpe_open(scratch_folder(), &bpe, &err), "%s", err.text);
    return bpe;
}

/* Adds the tokens of a text to a CRC. The text is fed in parts of `part` bytes, or as a whole. */
static size_t add_tokens(const gw_bpe *bpe, const char *text, size_t part, uLong *crc) {
    size_t length = strlen(text), total = 0, count, got;
    uint32_t *whole;
    const uint32_t *tokens = NULL;
    gw_bpe_stream *stream;
    gw_err err;
    cr_assert(gw_bpe_encode(bpe, text, length, &whole, &count, &err), "%s", err.text);
    *crc = crc32(*crc, (const Bytef *)whole, (uInt)(count * sizeof *whole));
    cr_assert(gw_bpe_stream_open(bpe, &stream, &err), "%s", err.text);
    for (size_t at = 0; at <= length; at += part, total += got) {
        if (at + part > length) part = length + 1 - at;
        bool fed = at == length
                       ? true
                       : gw_bpe_stream_feed(stream, text + at, at + part > length ? length - at : part,
                                            &tokens, &got, &err);
        if (at == length) got = 0;
        cr_assert(fed, "%s", err.text);
        cr_assert_leq(total + got, count);
        cr_assert_eq(memcmp(tokens, whole + total, got * sizeof *whole), 0, "behind byte %zu of '%s'", at,
                     text);
    }
    cr_assert(gw_bpe_stream_end(stream, &tokens, &got, &err), "%s", err.text);
    cr_assert_eq(total + got, count, "'%s'", text);
    cr_assert_eq(memcmp(tokens, whole + total, got * sizeof *whole), 0);
    gw_bpe_stream_close(stream);
    free(whole);
    return count;
}

/* The file contains the tokens that the library makes; they do not depend on the fed parts. */
Test(tokenizer_json, tokens_are_those_of_the_library) {
    json_t *all = load_all();
    const json_t *list = json_object_get(all, "tokenizers"), *texts = json_object_get(all, "texts");
    cr_assert_gt(json_array_size(list), 20);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        write_json("tokenizer.json", make_tokenizer(all, one));
        gw_bpe *bpe = open_one();
        size_t tokens = 0;
        uLong crc = crc32(0, NULL, 0);
        for (size_t t = 0; t < json_array_size(texts); t++)
            tokens += add_tokens(bpe, json_string_value(json_array_get(texts, t)), 1 + (i + t) % 7, &crc);
        const char *name = json_string_value(json_object_get(one, "name"));
        cr_expect_eq(tokens, json_integer_value(json_object_get(one, "tokens")), "%s: %zu tokens", name,
                     tokens);
        cr_expect_eq(crc, (uLong)json_integer_value(json_object_get(one, "crc")), "%s", name);
        gw_bpe_close(bpe);
    }
    json_decref(all);
}

/* One of the tokenizers, changed by a text of JSON that is merged into it. */
static void write_changed(const char *name, const char *change) {
    json_t *all = load_all(), *file = NULL;
    const json_t *list = json_object_get(all, "tokenizers");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(one, "name")), name) == 0)
            file = make_tokenizer(all, one);
    }
    cr_assert_not_null(file, "%s", name);
    json_error_t why;
    json_t *over = json_loads(change, 0, &why), *value;
    cr_assert_not_null(over, "%s: %s", change, why.text);
    const char *key;
    json_object_foreach(over, key, value) {
        json_t *old = json_object_get(file, key);
        if (json_is_object(old) && json_is_object(value) && strcmp(key, "model") == 0)
            json_object_update(old, value);
        else
            json_object_set(file, key, value);
    }
    json_decref(over);
    write_json("tokenizer.json", file);
    json_decref(all);
}

static void refuse(const char *change, gw_code code, const char *words) {
    gw_bpe *bpe;
    gw_err err;
    write_changed("gpt2", change);
    cr_assert_not(gw_bpe_open(scratch_folder(), &bpe, &err), "%s", change);
    cr_expect_not_null(strstr(err.text, words), "%s", err.text);
    cr_expect_not_null(strstr(err.text, "tokenizer.json"), "%s", err.text);
    cr_expect_eq(err.code, code, "%s", err.text);
}

Test(tokenizer_json, what_cannot_be_honoured_is_refused_by_its_name) {
#define UNSUPPORTED(change, words) refuse(change, GW_E_UNSUPPORTED, words)
    UNSUPPORTED("{\"normalizer\": {\"type\": \"NFKC\"}}", "has the normalizer NFKC: NFC is the only one");
    UNSUPPORTED("{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}]}}",
                "has the normalizer Lowercase");
    UNSUPPORTED("{\"model\": {\"type\": \"Unigram\"}}",
                "has a model of the type Unigram: BPE is what can be read");
    UNSUPPORTED("{\"model\": {\"end_of_word_suffix\": \"</w>\"}}", "its model has a end_of_word_suffix");
    UNSUPPORTED("{\"model\": {\"dropout\": 0.1}}", "has a dropout of merges");
    UNSUPPORTED("{\"pre_tokenizer\": null}", "has no pre-tokenizer ByteLevel");
    UNSUPPORTED("{\"pre_tokenizer\": {\"type\": \"Metaspace\"}}", "has the pre-tokenizer Metaspace");
    UNSUPPORTED("{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"},"
                " {\"type\": \"Digits\"}]}}",
                "has the pre-tokenizer Digits behind ByteLevel");
#define SPLIT(split)                                                                                         \
    "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", " split          \
    "}, {\"type\": \"ByteLevel\", \"use_regex\": false}]}}"
#define REGEX(regex) SPLIT("\"pattern\": {\"Regex\": \"" regex "\"}, \"behavior\": \"Isolated\"")
    UNSUPPORTED(SPLIT("\"pattern\": {\"Regex\": \"x\"}, \"behavior\": \"MergedWithNext\""),
                "Split has the behavior MergedWithNext");
    UNSUPPORTED(REGEX("a\\\\h"), "has '\\h' at byte 1, which cannot be honoured");
    UNSUPPORTED(REGEX("(a)\\\\1"), "has '\\1' at byte 3");
    UNSUPPORTED(REGEX("[a-z&&[^b]]"), "has '&&' at byte 4");
    UNSUPPORTED(REGEX("[[:alpha:]]"), "has '[:' at byte 1");
    UNSUPPORTED(REGEX("(?<name>a)"), "has '(?<' at byte 0");
    UNSUPPORTED(REGEX("a(?i)b"), "has '(?i' at byte 1");
#define INVALID(change, words) refuse(change, GW_E_INVALID, words)
    INVALID(REGEX("(a"), "cannot be read: missing closing parenthesis");
    INVALID(REGEX("[a"), "ends within a class");
    INVALID(REGEX("\\\\p{Klingon}"), "unknown property");
    INVALID(SPLIT("\"behavior\": \"Isolated\""), "has neither a Regex nor a String");
    INVALID("{\"model\": 3}", "it has no model");
    INVALID("{\"model\": {\"merges\": [\"< |\", \"h\"]}}", "merge 2: is not two tokens");
    INVALID("{\"model\": {\"merges\": [\"h e x\"]}}", "merge 1: is not two tokens");
    INVALID("{\"model\": {\"merges\": [[\"h\", \"zz\"]]}}", "merge 1: a part of 'h zz' is no token");
    INVALID("{\"model\": {\"vocab\": [1]}}", "vocab: is no object");
    INVALID("{\"added_tokens\": [{\"content\": \"<a>\"}]}", "added token 1 has no content or no id");
    INVALID("{\"added_tokens\": [{\"content\": \"<a>\", \"id\": 99999}]}",
            "'<a>' has the number 99999, and for the tokenizers library ");
    refuse(REGEX("(?<=x{300})a"), GW_E_LIMIT, "looks back 300 characters");
}

/* A post-processor, padding and truncation are ignored, since they concern whole inputs of a model. */
Test(tokenizer_json, what_has_no_influence_is_ignored) {
    uint32_t *tokens;
    size_t count;
    gw_err err;
    write_changed(
        "gpt2",
        "{\"post_processor\": {\"type\": \"TemplateProcessing\"}, \"truncation\": {\"max_length\": 1}, "
        "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": []}}");
    gw_bpe *bpe = open_one();
    cr_assert(gw_bpe_encode(bpe, "ab", 2, &tokens, &count, &err), "%s", err.text);
    cr_expect(count == 2 && tokens[0] == 'a' && tokens[1] == 'b');
    free(tokens);
    gw_bpe_close(bpe);
}

Test(tokenizer_json, the_end_of_a_text_is_what_the_files_name) {
    static const struct {
        const char *added, *config, *end;
    } cases[] = {
        {"[]", "{\"eos_token\": \"a\"}", NULL}, /* there is no token of that name */
        {"[{\"content\": \"</s>\", \"id\": %u}]", "{\"eos_token\": \"</s>\"}", "</s>"},
        {"[{\"content\": \"</s>\", \"id\": %u}]", "{\"eos_token\": {\"content\": \"</s>\"}}", "</s>"},
        {"[{\"content\": \"</s>\", \"id\": %u}]", "{}", NULL},
        {"[{\"content\": \"<|endoftext|>\", \"id\": %u}]", "{\"eos_token\": \"x\"}", "<|endoftext|>"},
    };
    json_t *all = load_all();
    unsigned next = BYTES + (unsigned)json_array_size(json_object_get(all, "merges"));
    json_decref(all);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char added[100], change[200];
        size_t length;
        snprintf(added, sizeof added, cases[i].added, next);
        snprintf(change, sizeof change, "{\"added_tokens\": %s}", added);
        write_changed("gpt2", change);
        scratch_write_text("tokenizer_config.json", cases[i].config);
        gw_bpe *bpe = open_one();
        uint32_t end = 0;
        bool ends = gw_bpe_end_of_text(bpe, &end);
        cr_expect_eq(ends, cases[i].end != NULL, "%zu", i);
        if (ends) {
            const char *text = gw_bpe_decode(bpe, end, &length);
            cr_expect(length == strlen(cases[i].end) && memcmp(text, cases[i].end, length) == 0, "%zu", i);
        }
        gw_bpe_close(bpe);
    }
}

/* Bytes that are not UTF-8 are pieces of their own, also beside added tokens; a pattern does not match across
 * them. */
Test(tokenizer_json, any_bytes_are_encoded) {
    static const char text[] = "a\xff  \xe6\xb1\xff\xe6\xb1\x89<|x|>\xf0\x9f\xff 1\x80";
    write_changed("llama3 with added tokens", "{}");
    gw_bpe *bpe = open_one();
    uint32_t *tokens;
    size_t count, at = 0, length;
    gw_err err;
    cr_assert(gw_bpe_encode(bpe, text, sizeof text - 1, &tokens, &count, &err), "%s", err.text);
    for (size_t i = 0; i < count; i++, at += length) {
        const char *bytes = gw_bpe_decode(bpe, tokens[i], &length);
        cr_assert(at + length < sizeof text && memcmp(bytes, text + at, length) == 0, "token %zu", i);
    }
    cr_expect_eq(at, sizeof text - 1);
    free(tokens);
    gw_bpe_close(bpe);
}
