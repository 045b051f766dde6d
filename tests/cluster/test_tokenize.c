/* Tests of `godwit tokenize` by its command line, and of training and generating with what it writes. */
#include "core/rng.h"
#include "kernels/data/bpe/bpe.h"
#include "kernels/data/tokens/tokens.h"
#include "kernels/model/gpt/decode.h"
#include "scratch.h"
#include "tests/cluster/lab.h"
#include "tools/godwit/weights/model.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT = 4000, BYTES = 256 };

/* Byte b is token b, and then comes what the merges make. */
static const char *const merges[] = {"h e", "l l",   "he ll", "hell o", "Ġ w",
                                     "o r", "Ġw or", "l d",   "Ġwor ld"};
enum {
    MERGES = sizeof merges / sizeof merges[0],
    HELLO = BYTES + 3,
    WORLD = BYTES + 8,
    END = BYTES + MERGES,
    LAST = END + 9 /* where a vocabulary has a gap */
};

/* As the published files spell a byte, in JSON. */
static void spell(unsigned byte, char letter[8]) {
    bool shown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    unsigned code = shown ? byte : byte <= 32 ? 256 + byte : byte <= 160 ? 256 + 33 + byte - 127 : 323;
    snprintf(letter, 8, "\\u%04x", code);
}

static void write_vocabulary(uint32_t last) {
    FILE *file = fopen(scratch_path("vocab.json"), "w");
    cr_assert_not_null(file);
    for (unsigned b = 0; b < BYTES; b++) {
        char letter[8];
        spell(b, letter);
        fprintf(file, "%c\"%s\":%u", b == 0 ? '{' : ',', letter, b);
    }
    for (unsigned i = 0; i < MERGES; i++) {
        const char *space = strchr(merges[i], ' ');
        fprintf(file, ",\"%.*s%s\":%u", (int)(space - merges[i]), merges[i], space + 1, BYTES + i);
    }
    fprintf(file, ",\"<|endoftext|>\":%u}", last);
    cr_assert_eq(fclose(file), 0);
}

static void enter(void) {
    scratch_open();
    write_vocabulary(END);
    FILE *file = fopen(scratch_path("merges.txt"), "w");
    cr_assert_not_null(file);
    fputs("#version: 0.2\n", file);
    for (int i = 0; i < MERGES; i++) fprintf(file, "%s\n", merges[i]);
    cr_assert_eq(fclose(file), 0);
}

TestSuite(tokenize, .init = enter, .fini = scratch_close);

static char said[TEXT];

/* Runs a shell's command in the folder, where $godwit is the program; returns its exit code. What it says is
 * in `said`. */
static int shell(const char *format, ...) {
    char command[TEXT];
    int length =
        snprintf(command, sizeof command, "exec 2>&1; cd %s; godwit=" GODWIT_BINARY "; ", scratch_folder());
    va_list arguments;
    va_start(arguments, format);
    cr_assert_lt(vsnprintf(command + length, sizeof command - (size_t)length, format, arguments),
                 TEXT - length);
    va_end(arguments);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    said[fread(said, 1, TEXT - 1, pipe)] = '\0';
    int status = pclose(pipe);
    cr_assert(WIFEXITED(status), "%s", command);
    return WEXITSTATUS(status);
}

#define TOKENIZE "$godwit tokenize --tokenizer . --to t.bin "

/* What is in t.bin: one window. */
static void check_tokens(uint32_t count, const uint32_t *expected) {
    gw_tokens tokens;
    gw_err err;
    uint32_t inputs[TEXT], targets[TEXT];
    cr_assert(gw_tokens_open(scratch_path("t.bin"), count - 1, 0, &tokens, &err), "%s", err.text);
    cr_assert_eq(tokens.tokens, count);
    cr_assert(gw_tokens_window(&tokens, 0, inputs, targets, &err), "%s", err.text);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = i == 0 ? inputs[0] : targets[i - 1];
        cr_expect_eq(token, expected[i], "token %u is %u", i, token);
    }
    gw_tokens_close(&tokens);
}

#define CHECK(...)                                                                                           \
    check_tokens(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

Test(tokenize, each_text_is_a_document) {
    cr_assert_eq(shell("printf 'hello world' >a; printf 'hello\\377' >b; " TOKENIZE "a b"), 0, "%s", said);
    cr_expect_str_eq(said, "t.bin: 6 tokens of 17 bytes, 1 file; godwit run gpt needs --vocab 266\n");
    CHECK(END, HELLO, WORLD, END, HELLO, 0xff);
    /* once, whoever writes it; and nothing for nothing */
    cr_assert_eq(shell("printf '<|endoftext|>hello<|endoftext|>' >a; : >b; printf ' world' >c; " TOKENIZE
                       "a b c b a c"),
                 0, "%s", said);
    CHECK(END, HELLO, END, WORLD, END, HELLO, END, WORLD);
    cr_assert_eq(shell("sed -i 's/endoftext/other/' vocab.json; " TOKENIZE "c c"), 0, "%s", said);
    CHECK(WORLD, WORLD);
}

Test(tokenize, texts_come_from_pipes_too) {
    cr_assert_eq(shell("printf 'hello world' | " TOKENIZE "-"), 0, "%s", said);
    CHECK(END, HELLO, WORLD);
    cr_assert_eq(shell("mkfifo pipe; (printf hello; printf ' world') >pipe & " TOKENIZE "pipe"), 0, "%s",
                 said);
    CHECK(END, HELLO, WORLD);
    cr_assert_eq(shell(TOKENIZE "- <&-"), 1);
    cr_expect_not_null(strstr(said, "the texts are empty"), "%s", said);
}

/* More than is read at a time; the tokens of all files are those of one; and more files may be open than the
 * soft limit says. */
Test(tokenize, a_folder_stands_for_the_files_below_it) {
    cr_assert_eq(
        shell("mkdir -p f/b f/.git f/e && printf hello >f/c && printf ' world' >f/b/z && echo x >f/.git/y; "
              "echo x >f/.hidden; ln -s ../f f/loop; ln -s ../f/c f/d; " TOKENIZE "f"),
        0, "%s", said);
    CHECK(END, WORLD, END, HELLO, END, HELLO);
    cr_expect_str_eq(said, "t.bin: 6 tokens of 16 bytes, 1 file; godwit run gpt needs --vocab 266\n");
    cr_assert_eq(shell("$godwit keygen f/k >/dev/null; printf 'P\\0NG' >f/png; mkdir f/peer; echo x "
                       ">f/peer/godwit-directory; "
                       "printf hello | gzip >f/z.gz; " TOKENIZE "f"),
                 0, "%s", said);
    CHECK(END, WORLD, END, HELLO, END, HELLO, END, HELLO);
    cr_expect_not_null(strstr(said, "that it is no text: f/png\n"), "%s", said);
    cr_expect_not_null(strstr(said, "a directory of Godwit: f/k\n"), "%s", said);
    cr_expect_not_null(strstr(said, "a directory of Godwit: f/peer\n"), "%s", said);
}

Test(tokenize, compressed_texts_are_decompressed) {
    cr_assert_eq(
        shell("printf hello | gzip >a; printf ' wor' | gzip >>a; printf ld | gzip >>a; " TOKENIZE "a - <a"),
        0, "%s", said);
    CHECK(END, HELLO, WORLD, END, HELLO, WORLD);
    cr_assert_eq(shell("yes ' world' | tr -d '\\n' | head -c 1200000 >a; " TOKENIZE
                       "a && mv t.bin plain; gzip a; " TOKENIZE "a.gz && cmp t.bin plain"),
                 0, "%s", said);
    cr_assert_eq(shell("head -c 500 a.gz >b; " TOKENIZE "b"), 1);
    cr_expect_not_null(strstr(said, "b: was cut off: it ends within its compressed data"), "%s", said);
    cr_assert_eq(shell("printf BZh91AY >b; " TOKENIZE "b"), 1);
    cr_expect_not_null(strstr(said, "b: is compressed by bzip2"), "%s", said);
}

/* Line ends of DOS and byte order marks are bytes as all others are; a mark is told of. */
Test(tokenize, nothing_is_left_out_of_a_text) {
    cr_assert_eq(shell("printf '\\357\\273\\277hello\\r\\n' >a; printf 'hello\\n' >c; " TOKENIZE "a c a"), 0);
    CHECK(END, 0xef, 0xbb, 0xbf, HELLO, '\r', '\n', END, HELLO, '\n', END, 0xef, 0xbb, 0xbf, HELLO, '\r',
          '\n');
    cr_expect_not_null(strstr(said, "a and 1 others begin with a byte order mark, which has become tokens"),
                       "%s", said);
    cr_assert_eq(shell("printf '\\377\\376h\\0' >b; " TOKENIZE "b"), 0);
    cr_expect_not_null(strstr(said, "b begins as UTF-16 does"), "%s", said);
    CHECK(END, 0xff, 0xfe, 'h', 0);
}

Test(tokenize, a_large_text_takes_several_files) {
    cr_assert_eq(shell("yes 'hello world, hello!' | head -n 40000 >large; " TOKENIZE "large"), 0, "%s", said);
    cr_expect_str_eq(said,
                     "t.bin: 280001 tokens of 800000 bytes, 1 file; godwit run gpt needs --vocab 266\n");
    cr_assert_eq(shell("ulimit -Sn 8; $godwit tokenize --tokenizer . --to s.bin --shard-tokens 65536 large"),
                 0, "%s", said);
    cr_expect_str_eq(said, "s_000001.bin to s_000004.bin: 280001 tokens of 800000 bytes, 4 files; godwit run "
                           "gpt needs --vocab 266\n");
    cr_assert_eq(shell("for f in t.bin s_*.bin; do tail -c +1025 $f >>${f%%%%[._]*}; done; cmp t s"), 0, "%s",
                 said);
}

/* What it says, with its exit code, and that it leaves nothing behind. */
static void refused(int code, const char *words, const char *arguments) {
    cr_expect_eq(shell("$godwit tokenize %s", arguments), code, "%s: %s", arguments, said);
    cr_expect_not_null(strstr(said, words), "%s: %s", arguments, said);
    shell("ls | grep bin");
    cr_expect_str_empty(said, "%s: %s", arguments, said);
}

Test(tokenize, what_makes_no_sense_is_refused) {
    shell("echo hello >a; mkdir folder");
    refused(2, "give a text", "--tokenizer . --to t.bin");
    refused(2, "--tokenizer DIR is missing", "--to t.bin a");
    refused(2, "--to FILE is missing", "--tokenizer . a");
    refused(2, "--shard-tokens: ", "--tokenizer . --to t.bin --shard-tokens 65535 a");
    refused(2, "--shard-tokens: ", "--tokenizer . --to t.bin --shard-tokens 2000000001 a");
    refused(2, "unrecognized option", "--tokenizer . --to t.bin --fast a");
    refused(2, "--tokenizer: there is no file folder/vocab.json", "--tokenizer folder --to t.bin a");
    refused(2, "cannot open b: No such file", "--tokenizer . --to t.bin a b");
    refused(2, "--to: 't.npy': the tokens are written in llm.c's format", "--tokenizer . --to t.npy a");
    refused(1, "there is no file in the folder folder", "--tokenizer . --to t.bin a folder");
    refused(1, "--to: a exists and is no token shard", "--tokenizer . --to a a");
    refused(1, "--to: /dev/null is there and is not a regular file", "--tokenizer . --to /dev/null a");
    write_vocabulary(65535);
    cr_expect_eq(shell(TOKENIZE "a && rm t.bin"), 0, "%s", said);
    write_vocabulary(65536); /* takes four bytes a token */
    cr_expect_eq(shell(TOKENIZE "a"), 0, "%s", said);
    CHECK(65536, HELLO, '\n');
    cr_expect_eq(shell("wc -c <t.bin && rm t.bin"), 0);
    cr_expect_str_eq(said, "1036\n");
    cr_expect_eq(shell("cat a"), 0);
    cr_expect_str_eq(said, "hello\n");
}

Test(tokenize, a_full_disk_leaves_nothing) {
    cr_expect_eq(shell("yes hello | head -c 200000 >large; ulimit -f 100; " TOKENIZE "large"), 1, "%s", said);
    cr_expect_not_null(strstr(said, "cannot write t.bin: File too large"), "%s", said);
    shell("ls | grep bin");
    cr_expect_str_empty(said, "%s", said);
}

/* While it waits for more of a text, whose writer knows then that it is read; and, as far as it has got there
 * by then, for somebody to write the next one. */
Test(tokenize, a_signal_ends_it_and_leaves_nothing) {
    static const char *const until[] = {"", "exec 3>&-; $godwit --version >version; "};
    shell("mkfifo pipe never");
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(shell(TOKENIZE "pipe never & exec 3>pipe; %skill $!; wait $!", until[i]), 128 + SIGTERM,
                     "%s", said);
        shell("ls | grep bin");
        cr_expect_str_empty(said, "%s", said);
    }
}

Test(tokenize, progress_is_for_terminals) {
    char shown[200] = "";
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    cr_assert_eq(shell("echo hello >a; TERM=xterm " TOKENIZE "a 2>%s", ptsname(terminal)), 0, "%s", said);
    cr_expect_gt(read(terminal, shown, sizeof shown - 1), 0);
    cr_expect_not_null(strstr(shown, "million tokens"), "%s", shown);
    cr_expect_not_null(strstr(shown, "\r\033[K"), "%s", shown); /* the line is erased at the end */
    close(terminal);
    cr_assert_eq(shell(TOKENIZE "a"), 0);
    cr_expect_str_eq(said, "t.bin: 3 tokens of 6 bytes, 1 file; godwit run gpt needs --vocab 266\n");
}

/* The bytes of the prompt (NULL: the end of a text has none) and of the tokens that the model goes on with,
 * by this seed: of those that the tokenizer has. Up to the first end, which *ends tells, or with all of them.
 */
static char *expect_text(char *state, const char *prompt, const gw_gpt_sampling *sampling, uint64_t count,
                         bool to_end, bool *ends) {
    const gw_checkpoint_choice choice = {.step = GW_CHECKPOINT_NEWEST};
    gw_model model;
    gw_gpt_decoder decoder;
    gw_bpe *bpe;
    gw_err err;
    uint32_t *tokens;
    size_t known, length, text_length;
    char *text = NULL;
    const char *begin = prompt != NULL ? prompt : "<|endoftext|>";
    cr_assert(gw_model_load(&state, 1, &choice, NULL, &model, &err), "%s", err.text);
    cr_assert(gw_gpt_decoder_open(&model.gpt, (const float *const *)model.parameters, &decoder, &err), "%s",
              err.text);
    cr_assert(gw_bpe_open(scratch_folder(), &bpe, &err), "%s", err.text);
    cr_assert(gw_bpe_encode(bpe, begin, strlen(begin), &tokens, &known, &err), "%s", err.text);
    FILE *out = open_memstream(&text, &text_length);
    float *scratch = calloc(model.gpt.vocabulary, sizeof *scratch);
    cr_assert(out != NULL && scratch != NULL);
    if (prompt != NULL) fputs(prompt, out);
    *ends = false;
    gw_gpt_decoder_feed(&decoder, tokens, (uint32_t)known);
    for (uint64_t i = 0; i < count; i++) {
        for (uint32_t gap = END; gap < LAST; gap++) decoder.logits[gap] = -INFINITY;
        uint32_t token = gw_gpt_sample(sampling, i, gw_bpe_size(bpe), decoder.logits, scratch);
        *ends |= token == LAST;
        if (*ends && to_end) break;
        const char *bytes = gw_bpe_decode(bpe, token, &length);
        fwrite(bytes, 1, length, out);
        gw_gpt_decoder_feed(&decoder, &token, 1);
    }
    fputc('\n', out);
    fclose(out);
    free(scratch);
    free(tokens);
    gw_bpe_close(bpe);
    gw_gpt_decoder_close(&decoder);
    gw_model_free(&model);
    for (size_t i = 0; i < text_length; i++) text[i] = text[i] == '\0' ? '0' : text[i];
    return text;
}

/* What it writes, zero bytes as '0'. */
static const char *generated(const char *state, const char *arguments, uint64_t seed) {
    static char text[TEXT];
    cr_assert_eq(shell("$godwit generate %s --tokenizer . --tokens 60 --temperature 1e6 --seed %d %s | tr "
                       "'\\0' 0 >out",
                       state, (int)seed, arguments),
                 0, "%s", said);
    FILE *in = fopen(scratch_path("out"), "r");
    cr_assert_not_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    return text;
}

/* The model has more tokens than the tokenizer, whose numbers have a gap before the last one, and it may
 * draw any of them. With some seeds the text ends early. */
static bool warns_of_vocabulary(const json_t *event, const void *context) {
    (void)context;
    return strcmp(lab_text(event, "event"), "warning") == 0 &&
           strstr(lab_text(event, "text"), "and the model has 50257: if their tokenizer has fewer") != NULL;
}

Test(tokenize, a_model_of_the_tokens_writes_text) {
    lab *l = lab_open();
    write_vocabulary(LAST);
    cr_assert_eq(shell("yes 'hello world' | head -n 100 >a; yes 'or held' | head -n 100 >b; " TOKENIZE "a b"),
                 0, "%s", said);
    char args[TEXT];
    snprintf(args, sizeof args,
             "gpt --data %s --vocab %d --layers 1 --heads 1 --channels 8 --context 64 --batch-tokens 512 "
             "--micro-batch 1 --workers 1 --updates 1",
             scratch_path("t.bin"), LAST + 200);
    lab_undisturbed(l, args);
    char *state = l->peers[0].dir;
    /* Without --vocab the model gets GPT-2's. */
    snprintf(args, sizeof args,
             "gpt --data %s --layers 1 --heads 1 --channels 4 --context 64 --batch-tokens 64 --workers 1 "
             "--updates 1",
             scratch_path("t.bin"));
    lab_peer *peer = lab_start(l, "large", NULL, args);
    lab_wait(l, peer, warns_of_vocabulary, NULL, "a warning about the vocabulary");
    lab_state(l, peer, "done");
    uint32_t ended = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        const gw_gpt_sampling sampling = {.temperature = 1e6, .seed = seed};
        bool prompt = seed % 2 == 0, ends, same;
        char *text = expect_text(state, prompt ? "hello world" : NULL, &sampling, 60, true, &ends);
        char *whole = expect_text(state, prompt ? "hello world" : NULL, &sampling, 60, false, &same);
        cr_assert_eq(ends, same);
        cr_expect_eq(strstr(whole, "<|endoftext|>") != NULL, ends);
        cr_expect_str_eq(generated(state, prompt ? "--prompt 'hello world'" : "", seed), text);
        cr_expect_str_eq(
            generated(state, prompt ? "--ignore-end --prompt 'hello world'" : "--ignore-end", seed), whole);
        ended += ends;
        free(text);
        free(whole);
    }
    cr_expect(ended > 0 && ended < 16, "%u", ended);
    lab_close(l);
}

/* The text has every sort of character beside every other sort. */
static void write_hard_text(const char *name) {
    /* clang-format off */
    static const char *const bits[] = {
        "the ", "The", " don't", "we'll", "I'VE", "'s", "' s", "12", " 3.14", "٣٤", "²½", " ", "  ",
        "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u180e", "\u200b", "\xc2\x85", "\u2028",
        "é", "e\u0301", "naïve ", "Straße", "日本語", " 日本", "русский ", "العربية", "🙂", "👩\u200d👩\u200d👧",
        "!?", " --", "...", "_a_", "<|endoftext|>", "<|endof", "{\"a\": [1]}", "\x1c", "\x01",
        "\U000e0001",
    };
    /* clang-format on */
    gw_rng rng = gw_rng_seeded(1);
    FILE *file = fopen(scratch_path(name), "w");
    cr_assert_not_null(file);
    for (int i = 0; i < 50000; i++) fputs(bits[gw_rng_below(&rng, sizeof bits / sizeof bits[0])], file);
    cr_assert_eq(fclose(file), 0);
}

/* All tokenizers of tests/kernels/data/bpe/tokenizers.json, on many code points and more;
 * tests/python/test_tokenizers.py takes every one. */
Test(tokenize, the_tokenizers_library_makes_the_same_tokens) {
    const char *python = getenv("GODWIT_TEST_PYTHON");
    if (python == NULL) python = "python3";
    if (shell("%s -c 'from importlib.util import find_spec as f; assert f(\"tokenizers\")'", python) != 0)
        cr_skip_test("%s lacks tokenizers; GODWIT_TEST_PYTHON may name one that has it", python);
    cr_assert_eq(shell("%s " GODWIT_SOURCE "/tests/cluster/tokenizers_tokens.py sample $godwit", python), 0,
                 "%s", said);
    cr_expect_not_null(strstr(said, "all tokens are the same"), "%s", said);
}

Test(tokenize, transformers_makes_the_same_tokens) {
    const char *python = getenv("GODWIT_TEST_PYTHON"), *data = getenv("GODWIT_TEST_DATA");
    if (python == NULL) python = "python3";
    if (shell("%s -c 'from importlib.util import find_spec as f; assert f(\"transformers\") and "
              "f(\"tokenizers\")'",
              python) != 0)
        cr_skip_test("%s lacks transformers; GODWIT_TEST_PYTHON may name one that has it", python);
    write_hard_text("hard");
    if (data != NULL)
        cr_assert_eq(shell("cp %s/text/shakespeare.txt prose", data), 0, "%s", said);
    else
        cr_assert_eq(shell("cp hard prose"), 0);
#define COMPARE "%s " GODWIT_SOURCE "/tests/cluster/transformers_tokens.py "
    cr_assert_eq(shell("cat hard prose >both; " COMPARE "train . both 16000", python), 0, "%s", said);
    cr_assert_eq(shell(TOKENIZE "hard && mv t.bin hard.bin && " TOKENIZE "prose && mv t.bin prose.bin"), 0,
                 "%s", said);
    cr_assert_eq(shell(COMPARE "compare . hard hard.bin prose prose.bin", python), 0, "%s", said);
    cr_expect_not_null(strstr(said, "prose: "), "%s", said);
}
