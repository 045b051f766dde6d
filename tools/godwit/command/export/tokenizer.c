#include "tools/godwit/command/export/tokenizer.h"

#include "core/os/plain_file.h"
#include "kernels/data/bpe/bpe.h"
#include "tools/godwit/command/commands.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 256 << 20, BYTES = 256 };

#define JSON_FILE   "tokenizer.json"
#define CONFIG_FILE "tokenizer_config.json"

/* The files of a tokenizer; an older name stands behind the one that transformers look for. */
static const struct {
    const char *name, *older;
} names[] = {{JSON_FILE, NULL},           {CONFIG_FILE, NULL},          {"vocab.json", "encoder.json"},
             {"merges.txt", "vocab.bpe"}, {"tokenizer.model", NULL},    {"special_tokens_map.json", NULL},
             {"added_tokens.json", NULL}, {"chat_template.jinja", NULL}};

enum { JSON, CONFIG, NAMES = sizeof names / sizeof names[0] };

/* Reads a whole file into memory that the caller frees; NULL with *err on failure. */
static char *read_whole(const char *path, size_t *length, gw_err *err) {
    gw_plain_file file;
    if (!gw_plain_open(path, &file, err)) return NULL;
    char *bytes = NULL;
    if (file.bytes > FILE_MOST)
        gw_fail(err, GW_E_LIMIT, "%s: %llu bytes are too many", path, (unsigned long long)file.bytes);
    else if ((bytes = malloc(file.bytes)) == NULL)
        gw_fail(err, GW_E_NOMEM, "no memory for %s", path);
    *length = file.bytes;
    if (bytes != NULL && !gw_plain_read(&file, 0, bytes, file.bytes, err)) {
        free(bytes);
        bytes = NULL;
    }
    gw_plain_close(&file);
    return bytes;
}

/* Adds one file of the tokenizer, where the folder has it under this name; *there says whether. */
static bool add_there(const char *folder, const char *name, const char *as, const char *weights,
                      gw_export_files *files, bool *there, gw_err *err) {
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0) return gw_fail(err, GW_E_NOMEM, "out of memory");
    *there = access(path, F_OK) == 0;
    size_t length;
    char *bytes = *there ? read_whole(path, &length, err) : NULL;
    free(path);
    return !*there || (bytes != NULL && gw_export_files_add(files, weights, as, bytes, length, err));
}

/* Adds a text of JSON and releases the value. */
static bool add_json(json_t *value, const char *name, const char *weights, gw_export_files *files,
                     gw_err *err) {
    char *text = value != NULL ? json_dumps(value, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(value);
    return gw_export_files_add(files, weights, name, text, text != NULL ? strlen(text) : 0, err);
}

/* Adds a tokenizer_config.json. `end` is the text of the token that ends a text; NULL where there is none. */
static bool add_config(const char *class, const char *end, const gw_gpt *gpt, const char *weights,
                       gw_export_files *files, gw_err *err) {
    json_t *config = json_pack("{s:s, s:i, s:b}", "tokenizer_class", class, "model_max_length",
                               (int)gpt->context, "clean_up_tokenization_spaces", 0);
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token"};
    for (size_t i = 0; end != NULL && i < sizeof roles / sizeof roles[0]; i++)
        json_object_set_new(config, roles[i], json_string(end));
    return add_json(config, CONFIG_FILE, weights, files, err);
}

/* The letter that byte-level tokenizers write for a byte: its own character where that is visible, and
 * otherwise the next one from U+0100 on. */
static uint32_t letter_of(uint32_t byte) {
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < BYTES; b++) {
        bool visible = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        uint32_t letter = visible ? b : next++;
        if (b == byte) return letter;
    }
    return 0;
}

/* Adds a tokenizer of the library whose token N is the byte N. */
static bool add_bytes(const char *weights, gw_export_files *files, gw_err *err) {
    json_t *vocabulary = json_object();
    for (uint32_t byte = 0; byte < BYTES; byte++) {
        uint32_t letter = letter_of(byte);
        char text[3] = {(char)letter};
        if (letter >= 0x80) {
            text[0] = (char)(0xC0 | letter >> 6);
            text[1] = (char)(0x80 | (letter & 0x3F));
        }
        json_object_set_new(vocabulary, text, json_integer(byte));
    }
    json_t *level = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                              "trim_offsets", 1, "use_regex", 0);
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:[]}", "type", "BPE", "dropout",
                              "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                              "byte_fallback", 0, "ignore_merges", 0, "vocab", vocabulary, "merges");
    json_t *whole = json_pack("{s:s, s:n, s:n, s:[], s:n, s:O, s:n, s:o, s:o}", "version", "1.0",
                              "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", level,
                              "post_processor", "decoder", level, "model", model);
    return add_json(whole, JSON_FILE, weights, files, err);
}

static bool check_size(uint32_t tokens, const gw_gpt *gpt, gw_err *err) {
    return tokens <= gpt->vocabulary ||
           gw_fail(err, GW_E_USAGE, "it has %u tokens, and the model %u", tokens, gpt->vocabulary);
}

/* Adds the files of the tokenizer in `folder`. `json` is the name of its tokenizer.json; `bpe` is NULL
 * where it cannot be read here. */
static bool add_files(const char *folder, const char *json, const gw_bpe *bpe, const gw_gpt *gpt,
                      const char *weights, gw_export_files *files, bool *ends, uint32_t *end, gw_err *err) {
    bool has[NAMES] = {false};
    for (int i = 0; i < NAMES; i++) {
        if (!add_there(folder, i == JSON ? json : names[i].name, names[i].name, weights, files, &has[i], err))
            return false;
        if (!has[i] && names[i].older != NULL &&
            !add_there(folder, names[i].older, names[i].name, weights, files, &has[i], err))
            return false;
    }
    *ends = bpe != NULL && gw_bpe_end_of_text(bpe, end);
    if (has[CONFIG] || bpe == NULL) return true;
    size_t length = 0;
    const char *bytes = *ends ? gw_bpe_decode(bpe, *end, &length) : NULL;
    char *text = bytes != NULL ? strndup(bytes, length) : NULL;
    if (bytes != NULL && text == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool added =
        add_config(has[JSON] ? "PreTrainedTokenizerFast" : "GPT2Tokenizer", text, gpt, weights, files, err);
    free(text);
    return added;
}

bool gw_export_tokenizer(const char *path, const gw_gpt *gpt, const char *weights, const char *program,
                         gw_export_files *files, bool *ends, uint32_t *end, gw_err *err) {
    *ends = false;
    if (strcmp(path, GW_TOKENIZER_BYTES) == 0)
        return (check_size(BYTES, gpt, err) || gw_fail_in(err, "--tokenizer %s", path)) &&
               add_bytes(weights, files, err) &&
               add_config("PreTrainedTokenizerFast", NULL, gpt, weights, files, err);
    gw_bpe *bpe = NULL;
    struct stat about;
    bool inner = stat(path, &about) == 0 && !S_ISDIR(about.st_mode);
    const char *file = basename(path);
    char *folder = !inner ? strdup(path) : file > path ? strndup(path, (size_t)(file - path)) : strdup(".");
    if (folder == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool good = gw_bpe_open(path, &bpe, err);
    if (!good && err->code == GW_E_UNSUPPORTED) { /* transformers may read it all the same */
        fprintf(stderr, "%s: --tokenizer: %s; it goes along unchecked\n", program, err->text);
        good = true;
    }
    good = good && (bpe == NULL || check_size(gw_bpe_size(bpe), gpt, err) || gw_fail_in(err, "%s", path)) &&
           add_files(folder, inner ? file : JSON_FILE, bpe, gpt, weights, files, ends, end, err);
    gw_bpe_close(bpe);
    free(folder);
    return gw_blame_named(good, err) || gw_fail_in(err, "--tokenizer");
}
