#include "kernels/data/bpe/tokenizer_json.h"

#include "core/base/assert.h"
#include "core/os/plain_file.h"
#include "kernels/data/bpe/nfc.h"
#include "kernels/data/bpe/pattern.h"
#include "kernels/data/bpe/vocabulary.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 30 };

/* Reads a JSON file. The caller releases the result; NULL with *err on failure. */
static json_t *load(const char *path, gw_err *err) {
    gw_plain_file file;
    json_error_t why;
    json_t *json = NULL;
    if (!gw_plain_open(path, &file, err)) return NULL;
    char *text = file.bytes <= FILE_MOST ? malloc(file.bytes) : NULL;
    if (text == NULL) {
        gw_fail(err, GW_E_LIMIT, "%s: no memory for %llu bytes", path, (unsigned long long)file.bytes);
    } else if (gw_plain_read(&file, 0, text, file.bytes, err)) {
        json = json_loadb(text, file.bytes, JSON_REJECT_DUPLICATES, &why);
        if (json == NULL) gw_fail(err, GW_E_INVALID, "%s: line %d: %.200s", path, why.line, why.text);
    }
    free(text);
    gw_plain_close(&file);
    return json;
}

static const char *type_of(const json_t *object) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type != NULL ? type : "";
}

static bool is_set(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

/* Whether a key has a text that is not empty. */
static bool has_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL && text[0] != '\0';
}

/* Reads a normalizer, or a sequence of them, which change a text before it is cut. Refuses all but NFC. */
static bool read_normalizer(gw_bpe *bpe, const json_t *normalizer, gw_err *err) {
    if (normalizer == NULL || json_is_null(normalizer)) return true;
    const char *type = type_of(normalizer);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(normalizer, "normalizers");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *one = json_array_get(list, i);
            if (strcmp(type_of(one), "Sequence") == 0)
                return gw_fail(err, GW_E_UNSUPPORTED, "has a Sequence of normalizers within another");
            if (!read_normalizer(bpe, one, err)) return false;
        }
        return true;
    }
    if (strcmp(type, "NFC") != 0)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "has the normalizer %.60s: NFC is the only one that can be honoured", type);
    bpe->composes = true;
    return true;
}

static bool add_step(gw_bpe *bpe, pcre2_code *pattern, bool drop_matches, bool drop_gaps, gw_err *err) {
    if (pattern == NULL) return false;
    if (bpe->step_count == GW_BPE_STEPS) {
        pcre2_code_free(pattern);
        return gw_fail(err, GW_E_LIMIT, "has more than %d pre-tokenizers", GW_BPE_STEPS);
    }
    bpe->steps[bpe->step_count++] = (gw_bpe_step){pattern, drop_matches, drop_gaps};
    return true;
}

static bool read_split(gw_bpe *bpe, const json_t *split, gw_err *err) {
    const json_t *pattern = json_object_get(split, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex")),
               *text = json_string_value(json_object_get(pattern, "String")),
               *behavior = json_string_value(json_object_get(split, "behavior"));
    bool inverted = is_set(split, "invert"), removed = behavior != NULL && strcmp(behavior, "Removed") == 0;
    if (regex == NULL && text == NULL)
        return gw_fail(err, GW_E_INVALID, "its pre-tokenizer Split has neither a Regex nor a String");
    if (!removed && (behavior == NULL || strcmp(behavior, "Isolated") != 0))
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "its pre-tokenizer Split has the behavior %.40s: Isolated and Removed are what can be "
                       "honoured",
                       behavior != NULL ? behavior : "of no name");
    pcre2_code *code = regex != NULL ? gw_bpe_pattern(regex, err) : gw_bpe_pattern_literal(text, err);
    return add_step(bpe, code, removed && !inverted, removed && inverted, err);
}

static bool read_byte_level(gw_bpe *bpe, const json_t *level, gw_err *err) {
    const json_t *regex = json_object_get(level, "use_regex"); /* older files lack the key */
    if (is_set(level, "add_prefix_space")) bpe->space_step = (int32_t)bpe->step_count;
    if (json_is_false(regex)) return true;
    return gw_bpe_add_usual_step(bpe, err);
}

/* Reads one pre-tokenizer or a sequence of them. *bytes tells whether ByteLevel has been read, behind which
 * texts consist of letters of bytes. */
static bool read_pre_tokenizer(gw_bpe *bpe, const json_t *pre, bool *bytes, gw_err *err) {
    const char *type = type_of(pre);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(pre, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *one = json_array_get(list, i);
            if (strcmp(type_of(one), "Sequence") == 0)
                return gw_fail(err, GW_E_UNSUPPORTED, "has a Sequence of pre-tokenizers within another");
            if (!read_pre_tokenizer(bpe, one, bytes, err)) return false;
        }
        return true;
    }
    if (*bytes)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "has the pre-tokenizer %.40s behind ByteLevel, which has to be last", type);
    if (strcmp(type, "Split") == 0) return read_split(bpe, pre, err);
    if (strcmp(type, "Digits") == 0)
        return add_step(bpe, gw_bpe_pattern(is_set(pre, "individual_digits") ? "\\p{N}" : "\\p{N}+", err),
                        false, false, err);
    *bytes = true;
    if (strcmp(type, "ByteLevel") == 0) return read_byte_level(bpe, pre, err);
    return gw_fail(err, GW_E_UNSUPPORTED,
                   "has the pre-tokenizer %.40s: ByteLevel, with Split and Digits before it, is what can be "
                   "honoured",
                   type);
}

static bool read_pre_tokenizers(gw_bpe *bpe, const json_t *pre, gw_err *err) {
    bool bytes = false;
    if (json_is_object(pre) && !read_pre_tokenizer(bpe, pre, &bytes, err)) return false;
    return bytes || gw_fail(err, GW_E_UNSUPPORTED,
                            "has no pre-tokenizer ByteLevel: byte-level BPE is what can be read");
}

/* Reads a merge, "left right" or ["left", "right"]. */
static bool read_merge(gw_bpe_reading *r, const json_t *merge, gw_err *err) {
    const char *left = json_string_value(json_is_array(merge) ? json_array_get(merge, 0) : merge),
               *right = NULL;
    if (json_is_array(merge)) right = json_string_value(json_array_get(merge, 1));
    if (json_array_size(merge) > 2) left = NULL;
    const char *space = left != NULL && !json_is_array(merge) ? strchr(left, ' ') : NULL;
    size_t length = space != NULL ? (size_t)(space - left) : left != NULL ? strlen(left) : 0;
    if (space != NULL && strchr(space + 1, ' ') == NULL) right = space + 1;
    if (length == 0 || right == NULL || right[0] == '\0')
        return gw_fail(err, GW_E_INVALID, "is not two tokens");
    return gw_bpe_read_merge(r, left, length, right, strlen(right), err);
}

static bool read_model(gw_bpe_reading *r, const json_t *model, gw_err *err) {
    static const char *const unsupported[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = type_of(model);
    json_t *merges = json_object_get(model, "merges"), *vocab = json_object_get(model, "vocab");
    if (strcmp(type, "BPE") != 0 && (type[0] != '\0' || merges == NULL))
        return gw_fail(err, GW_E_UNSUPPORTED, "has a model of the type %.40s: BPE is what can be read",
                       type[0] != '\0' ? type : "of no name");
    for (int i = 0; i < 2; i++)
        if (has_text(model, unsupported[i]))
            return gw_fail(err, GW_E_UNSUPPORTED, "its model has a %s, which byte-level BPE has not",
                           unsupported[i]);
    if (json_number_value(json_object_get(model, "dropout")) > 0.0)
        return gw_fail(
            err, GW_E_UNSUPPORTED,
            "its model has a dropout of merges, by which a text has other tokens each time: set it "
            "to null");
    if (!gw_bpe_read_tokens(r, vocab, err)) return gw_fail_in(err, "vocab");
    if (!json_is_array(merges)) return gw_fail(err, GW_E_INVALID, "its merges are no list");
    for (size_t i = 0; i < json_array_size(merges); i++)
        if (!read_merge(r, json_array_get(merges, i), err)) return gw_fail_in(err, "merge %zu", i + 1);
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    if (unknown != NULL) r->bpe->unknown = gw_bpe_number_of(r, unknown, strlen(unknown));
    r->bpe->fuse_unknown = is_set(model, "fuse_unk");
    r->bpe->whole_first = is_set(model, "ignore_merges");
    return true;
}

/* Reads the added tokens, in the order of the file. The library numbers those that are not in the vocabulary
 * behind it, whatever numbers the file states; a file with other numbers is therefore refused. */
static bool read_added(gw_bpe_reading *r, const json_t *list, gw_err *err) {
    int64_t size = (int64_t)json_object_size(r->numbers), largest = -1;
    json_t *known = json_object();
    bool good = known != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        const json_t *added = json_array_get(list, i), *stated = json_object_get(added, "id");
        const char *text = json_string_value(json_object_get(added, "content"));
        if (text == NULL || !json_is_integer(stated)) {
            good = gw_fail(err, GW_E_INVALID, "added token %zu has no content or no id", i + 1);
            break;
        }
        size_t length = strlen(text);
        if (length == 0 || json_object_get(known, text) != NULL) continue; /* the library does the same */
        int64_t number = gw_bpe_number_of(r, text, length);
        if (number == GW_BPE_NO_TOKEN) number = largest >= size ? largest + 1 : size;
        if (number > largest) largest = number;
        if (number != json_integer_value(stated))
            good =
                gw_fail(err, GW_E_INVALID,
                        "added token '%.60s' has the number %lld, and for the tokenizers library %lld: save "
                        "the tokenizer by the library",
                        text, (long long)json_integer_value(stated), (long long)number);
        else if (length > GW_BPE_ADDED_MOST)
            good = gw_fail(err, GW_E_LIMIT, "added token %lld is longer than %d bytes", (long long)number,
                           GW_BPE_ADDED_MOST);
        bool normalized = is_set(added, "normalized");
        char *composed = NULL; /* the spelling that it has in normalized texts */
        size_t composed_length = 0;
        if (good && normalized && r->bpe->composes)
            good = gw_nfc(text, length, &composed, &composed_length, err);
        const gw_bpe_added_token token = {.text = composed != NULL ? composed : text,
                                          .length = composed != NULL ? composed_length : length,
                                          .token = (uint32_t)number,
                                          .single_word = is_set(added, "single_word"),
                                          .strip_before = is_set(added, "lstrip"),
                                          .strip_behind = is_set(added, "rstrip")};
        good = good && gw_bpe_set_token(r->bpe, (uint32_t)number, text, length, err) &&
               gw_bpe_added_add(&r->bpe->added[normalized ? 1 : 0], &token, err) &&
               (json_object_set_new(known, text, json_integer(number)) == 0 ||
                gw_fail(err, GW_E_NOMEM, "out of memory"));
        free(composed);
        if (good && strcmp(text, GW_BPE_END_OF_TEXT) == 0) r->bpe->end_of_text = number;
    }
    json_decref(known);
    return good;
}

/* Reads the end of a text that a tokenizer_config.json names, which is a text or an added token. */
static bool read_end(gw_bpe_reading *r, const char *tokenizer, gw_err *err) {
    static const char end[] = GW_BPE_END_OF_TEXT;
    gw_bpe *bpe = r->bpe;
    char *path;
    if (bpe->end_of_text == GW_BPE_NO_TOKEN) bpe->end_of_text = gw_bpe_number_of(r, end, strlen(end));
    if (bpe->end_of_text != GW_BPE_NO_TOKEN) return true;
    if (asprintf(&path, "%.*stokenizer_config.json", (int)(basename(tokenizer) - tokenizer), tokenizer) < 0)
        return gw_fail(err, GW_E_NOMEM, "out of memory");
    json_t *config = load(path, err);
    bool good = config != NULL || err->code == GW_E_NOTFOUND;
    free(path);
    const json_t *eos = json_object_get(config, "eos_token");
    const char *text = json_string_value(json_is_object(eos) ? json_object_get(eos, "content") : eos);
    for (int kind = 0; text != NULL && kind < 2; kind++)
        for (uint32_t i = 0; i < bpe->added[kind].count; i++) {
            const gw_bpe_added_token *token = &bpe->added[kind].list[i];
            if (token->length == strlen(text) && memcmp(token->text, text, token->length) == 0)
                bpe->end_of_text = token->token;
        }
    json_decref(config);
    return good;
}

bool gw_bpe_read_tokenizer(gw_bpe *bpe, const char *path, gw_err *err) {
    gw_bpe_reading r;
    json_t *file = load(path, err);
    if (file == NULL) return false;
    gw_bpe_reading_begin(&r, bpe);
    bool good = json_is_object(json_object_get(file, "model")) ||
                gw_fail(err, GW_E_INVALID, "is no tokenizer of the tokenizers library: it has no model");
    good = good && read_normalizer(bpe, json_object_get(file, "normalizer"), err) &&
           read_pre_tokenizers(bpe, json_object_get(file, "pre_tokenizer"), err) &&
           read_model(&r, json_object_get(file, "model"), err) &&
           read_added(&r, json_object_get(file, "added_tokens"), err);
    if (!good) gw_fail_in(err, "%s", path);
    good = good && read_end(&r, path, err);
    json_decref(file);
    return good;
}
