/* `godwit tokenize` writes texts as the token shards that `godwit run gpt --data` takes. */
#include "core/os/clock.h"
#include "core/os/output.h"
#include "kernels/data/bpe/stream.h"
#include "kernels/data/folder.h"
#include "kernels/data/inflate.h"
#include "kernels/data/tokens/shards.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/thread/descriptors.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_TOKEN UINT32_MAX

enum { GPT2_VOCABULARY = 50257 }; /* what `godwit run gpt` takes without --vocab */

typedef struct arguments {
    char **texts;
    uint32_t text_count;
    const char *to, *tokenizer;
    uint64_t shard_tokens;
} arguments;

enum { KEY_TO = 256, KEY_TOKENIZER, KEY_SHARD_TOKENS };

static const struct argp_option tokenize_options[] = {
    {"tokenizer", KEY_TOKENIZER, "DIR", 0,
     "The tokenizer in DIR: tokenizer.json, or GPT-2's vocab.json and merges.txt", 0},
    {"to", KEY_TO, "FILE", 0, "Write the tokens to this file, such as train.bin", 0},
    {"shard-tokens", KEY_SHARD_TOKENS, "N", 0,
     "Begin another file after N tokens, at least 65536 (100000000)", 0},
    {0},
};

static const char tokenize_doc[] =
    "Writes the tokens of texts in llm.c's .bin format, which 'godwit run gpt --data' trains on: of two "
    "bytes a "
    "token, or of four where the tokenizer has more than 65536.\v"
    "Each TEXT is a file of any bytes, - for stdin, or a folder, which stands for all files below it in the "
    "order of their names. What is compressed by gzip or zstd is decompressed. A file is one document, or "
    "several with <|endoftext|> between them. If the vocabulary has that token, it is written before each "
    "text that does not begin with it, unless the text before it ends with it. A tokenizer without that "
    "token takes the eos_token that its tokenizer_config.json names.\n\n"
    "If there are more than --shard-tokens tokens, they go to FILE_000001.bin, FILE_000002.bin and so on "
    "(for FILE.bin), N to each; the last one takes up to 32768 more. The files appear when all of them are "
    "complete. They replace an older FILE of tokens, and no other file.";

/* Refuses a name by which other programs, and people, take a file for one of another format. */
static const char *check_name(struct argp_state *state, const char *path) {
    static const char *const foreign[] = {".npy",         ".npz",     ".gz",   ".zst",
                                          ".safetensors", ".parquet", ".arrow"};
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending != NULL && i < sizeof foreign / sizeof foreign[0]; i++)
        if (strcasecmp(ending, foreign[i]) == 0)
            gw_argp_error(state,
                          "--to: '%s': the tokens are written in llm.c's format, which is none of %s: name "
                          "a file such as train.bin",
                          path, foreign[i]);
    return path;
}

static error_t parse_tokenize(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case KEY_TO:
        a->to = check_name(state, arg);
        return 0;
    case KEY_TOKENIZER:
        a->tokenizer = arg;
        return 0;
    case KEY_SHARD_TOKENS:
        a->shard_tokens =
            gw_number_of_option(state, "--shard-tokens", arg, GW_TOKEN_SHARDS_LEAST, GW_TOKEN_SHARDS_MOST);
        return 0;
    case ARGP_KEY_ARGS:
        a->texts = state->argv + state->next;
        a->text_count = (uint32_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        gw_argp_error(state, "give a text: a file, or - for stdin");
        return EINVAL;
    case ARGP_KEY_SUCCESS:
        if (a->tokenizer == NULL) gw_argp_error(state, "--tokenizer DIR is missing: it names the vocabulary");
        if (a->to == NULL) gw_argp_error(state, "--to FILE is missing: the tokens are written to it");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Signals. Between open_interrupt and close_interrupt SIGINT, SIGTERM and SIGHUP do not end the process,
 * so that it can remove its files; wait_for_input notices them. Signals that are ignored stay ignored. */
typedef struct interrupt {
    int fd;
    sigset_t before;
} interrupt;

static bool open_interrupt(interrupt *i, gw_err *err) {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    i->fd = signalfd(-1, &ending, SFD_CLOEXEC);
    if (i->fd < 0) return gw_fail_errno(err, errno, "signalfd");
    sigprocmask(SIG_BLOCK, &ending, &i->before);
    return true;
}

/* Restores the signal mask: a signal that came meanwhile ends the process here. */
static void close_interrupt(interrupt *i) {
    close(i->fd);
    sigprocmask(SIG_SETMASK, &i->before, NULL);
}

/* Waits until `input` can be read. Returns false with GW_E_ABORTED when one of the signals has come; it
 * stays pending until close_interrupt lets it end the process. */
static bool wait_for_input(const interrupt *i, int input, gw_err *err) {
    struct pollfd fds[] = {{.fd = i->fd, .events = POLLIN}, {.fd = input, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR) return gw_fail_errno(err, errno, "poll");
    return fds[0].revents == 0 || gw_fail(err, GW_E_ABORTED, "ended by a signal");
}

/* The progress line on stderr, which is overwritten again and again; only on a terminal. */
typedef struct progress {
    bool shown;
    uint64_t begun_ns, shown_ns;
} progress;

static progress begin_progress(void) {
    const char *kind = getenv("TERM");
    bool shown = isatty(STDERR_FILENO) == 1 && kind != NULL && strcmp(kind, "dumb") != 0;
    return (progress){.shown = shown, .begun_ns = gw_now_ns()};
}

static void update_progress(progress *p, uint64_t bytes, uint64_t tokens) {
    enum { EVERY_NS = 200000000 };
    uint64_t now_ns = gw_now_ns();
    if (!p->shown || now_ns - p->shown_ns < EVERY_NS) return;
    p->shown_ns = now_ns;
    double seconds = (double)(now_ns - p->begun_ns + 1) * 1e-9;
    fprintf(stderr, "\r%.1f MB  %.2f million tokens  %.1f MB/s\033[K", (double)bytes * 1e-6,
            (double)tokens * 1e-6, (double)bytes * 1e-6 / seconds);
}

static void end_progress(const progress *p) {
    if (p->shown && p->shown_ns > 0) fputs("\r\033[K", stderr);
}

typedef struct tokenizing {
    gw_bpe *bpe;
    gw_bpe_stream *stream;
    gw_token_shards *shards;
    interrupt interrupt;
    uint32_t end_of_text; /* the token that ends a text; NO_TOKEN = none */
    uint32_t last;        /* the token written last; NO_TOKEN = none yet */
    bool at_start;        /* no token of this text has been written yet */
    uint64_t bytes, tokens;
    uint32_t wide, marked; /* texts that begin with the byte order marks of UTF-16 and of UTF-8 */
    char first_wide[200], first_marked[200];
    progress progress;
} tokenizing;

static bool put(tokenizing *t, const uint32_t *tokens, size_t count, gw_err *err) {
    if (count == 0) return true;
    bool separated = t->end_of_text == NO_TOKEN || t->last == t->end_of_text || tokens[0] == t->end_of_text;
    if (t->at_start && !separated) {
        if (!gw_token_shards_write(t->shards, &t->end_of_text, 1, err)) return false;
        t->tokens++;
    }
    t->at_start = false;
    t->last = tokens[count - 1];
    t->tokens += count;
    return gw_token_shards_write(t->shards, tokens, count, err);
}

/* Reads a full block, or what is left of the file. */
static bool read_block(const tokenizing *t, int fd, const char *name, char *block, size_t *count,
                       gw_err *err) {
    ssize_t got = 1;
    for (*count = 0; *count < GW_BPE_FEED && got != 0;) {
        if (!wait_for_input(&t->interrupt, fd, err)) return false;
        got = read(fd, block + *count, GW_BPE_FEED - *count);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return gw_fail_errno(err, errno, "cannot read %s", name);
        if (got > 0) *count += (size_t)got;
    }
    return true;
}

/* Encodes a part of a text, of at most GW_BPE_FEED bytes. */
static bool encode(tokenizing *t, const char *bytes, size_t length, gw_err *err) {
    const uint32_t *tokens;
    size_t count;
    if (!gw_bpe_stream_feed(t->stream, bytes, length, &tokens, &count, err)) return false;
    t->bytes += length;
    return put(t, tokens, count, err);
}

/* Encodes what a part of a compressed file holds. */
static bool encode_compressed(tokenizing *t, gw_inflater *inflater, const char *bytes, size_t length,
                              gw_err *err) {
    static char plain[GW_BPE_FEED];
    size_t made = sizeof plain;
    while (length > 0 || made == sizeof plain) {
        if (!gw_inflater_run(inflater, &bytes, &length, plain, sizeof plain, &made, err) ||
            !encode(t, plain, made, err))
            return false;
        update_progress(&t->progress, t->bytes, t->tokens);
        if (made == 0) break;
    }
    return true;
}

/* Remembers a text that begins with a byte order mark, by which its bytes are taken for what they are not. */
static void look_for_mark(tokenizing *t, const char *name, const char *bytes, size_t count) {
    bool wide = count >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0);
    bool mark = count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0;
    if (wide && t->wide++ == 0) snprintf(t->first_wide, sizeof t->first_wide, "%s", name);
    if (mark && t->marked++ == 0) snprintf(t->first_marked, sizeof t->first_marked, "%s", name);
}

/* Encodes a file from its first block on, which is as long as the file or a block is. */
static bool take_blocks(tokenizing *t, int fd, const char *name, gw_inflater *inflater, char *block,
                        size_t length, gw_err *err) {
    bool good = true;
    for (bool first = true;; first = false) {
        if (!first) good = read_block(t, fd, name, block, &length, err);
        if (!good) return false; /* which names the file */
        good = inflater == NULL ? encode(t, block, length, err)
                                : encode_compressed(t, inflater, block, length, err);
        if (!good) return gw_fail_in(err, "%s", name);
        update_progress(&t->progress, t->bytes, t->tokens);
        if (length < GW_BPE_FEED) break;
    }
    return inflater == NULL || gw_inflater_end(inflater, err) || gw_fail_in(err, "%s", name);
}

static bool take_stream(tokenizing *t, int fd, const char *name, gw_err *err) {
    static char block[GW_BPE_FEED];
    const uint32_t *tokens;
    size_t length, count;
    gw_compression compression;
    gw_inflater *inflater = NULL;
    t->at_start = true;
    if (!read_block(t, fd, name, block, &length, err)) return false;
    if (!gw_compression_of(block, length, &compression, err)) return gw_fail_in(err, "%s", name);
    if (compression == GW_PLAIN)
        look_for_mark(t, name, block, length);
    else if (!gw_inflater_open(compression, &inflater, err))
        return gw_fail_in(err, "%s", name);
    bool done = take_blocks(t, fd, name, inflater, block, length, err);
    gw_inflater_close(inflater);
    if (!done) return false;
    if (!gw_bpe_stream_end(t->stream, &tokens, &count, err)) return gw_fail_in(err, "%s", name);
    return put(t, tokens, count, err);
}

static bool is_stdin(const char *text) {
    return strcmp(text, "-") == 0;
}

/* The file is opened without waiting for the writer of a FIFO, because no signal could end that wait. */
static bool take_file(tokenizing *t, const char *path, gw_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot open %s", path);
    bool done = take_stream(t, fd, path, err);
    close(fd);
    return done;
}

static bool is_folder(const char *path) {
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

/* Whether a file in a folder is a text, or may hold one. One that is named is taken as it is. */
static bool may_be_text(const char *path) {
    char start[GW_COMPRESSION_BYTES];
    gw_compression compression = GW_PLAIN;
    gw_err ignored;
    FILE *file = fopen(path, "re");
    size_t count = file != NULL ? fread(start, 1, sizeof start, file) : 0;
    if (file != NULL) fclose(file);
    bool known = gw_compression_of(start, count, &compression, &ignored);
    return !known || compression != GW_PLAIN || !gw_folder_is_binary(path);
}

/* Takes a file, the standard input, or each text in a folder. */
static bool take_text(tokenizing *t, const char *text, gw_err *err) {
    gw_folder folder;
    if (is_stdin(text)) return take_stream(t, STDIN_FILENO, "stdin", err);
    if (!is_folder(text)) return take_file(t, text, err);
    if (!gw_folder_list(text, &folder, err)) return false;
    bool done = true;
    for (uint32_t i = 0; done && i < folder.count; i++)
        if (may_be_text(folder.paths[i])) done = take_file(t, folder.paths[i], err);
    gw_folder_free(&folder);
    return done;
}

static bool check_text(const char *path, gw_err *err) {
    struct stat there;
    return (stat(path, &there) == 0 && access(path, R_OK) == 0) ||
           gw_fail_named(err, errno, "cannot open %s", path);
}

/* Checks all texts at the start, so that hours are not spent before one is found missing. */
static bool check_texts(const arguments *a, const char *program, gw_err *err) {
    for (uint32_t i = 0; i < a->text_count; i++) {
        const char *text = a->texts[i];
        gw_folder folder;
        if (is_stdin(text)) continue;
        if (!check_text(text, err)) return false;
        if (!is_folder(text)) continue;
        if (!gw_folder_list(text, &folder, err)) return false;
        bool good = true;
        for (uint32_t k = 0; good && k < folder.count; k++) {
            good = check_text(folder.paths[k], err);
            if (good && !may_be_text(folder.paths[k]))
                fprintf(stderr, "%s: not taken, as a byte of zero shows that it is no text: %s\n", program,
                        folder.paths[k]);
        }
        for (uint32_t k = 0; k < folder.left_count; k++)
            fprintf(stderr, "%s: not taken, as it is a key, or a directory of Godwit: %s\n", program,
                    folder.left[k]);
        gw_folder_free(&folder);
        if (!good) return false;
    }
    return true;
}

static bool open_tokenizer(tokenizing *t, const char *dir, gw_err *err) {
    if (!gw_blame_named(gw_bpe_open(dir, &t->bpe, err), err)) return gw_fail_in(err, "--tokenizer");
    if (!gw_bpe_end_of_text(t->bpe, &t->end_of_text)) t->end_of_text = NO_TOKEN;
    return gw_bpe_stream_open(t->bpe, &t->stream, err);
}

static bool write_shards(tokenizing *t, const arguments *a, gw_token_shards_written *written, gw_err *err) {
    if (!gw_token_shards_open(a->to, a->shard_tokens, gw_bpe_size(t->bpe), &t->shards, err))
        return gw_fail_in(err, "--to");
    bool done = true;
    for (uint32_t i = 0; done && i < a->text_count; i++) done = take_text(t, a->texts[i], err);
    end_progress(&t->progress);
    if (done && t->tokens == 0) done = gw_fail(err, GW_E_INVALID, "the texts are empty");
    return gw_token_shards_end(t->shards, done, written, err);
}

static void report(const tokenizing *t, gw_token_shards_written *written) {
    bool several = written->files > 1;
    const uint32_t vocabulary = gw_bpe_size(t->bpe);
    char needs[60] = "";
    if (vocabulary != GPT2_VOCABULARY)
        snprintf(needs, sizeof needs, "; godwit run gpt needs --vocab %u", vocabulary);
    printf("%s%s%s: %llu tokens of %llu bytes, %u file%s%s\n", written->first, several ? " to " : "",
           several ? written->last : "", (unsigned long long)written->tokens, (unsigned long long)t->bytes,
           written->files, several ? "s" : "", needs);
    free(written->first);
    free(written->last);
}

static const char *others(uint32_t count, char text[40]) {
    text[0] = '\0';
    if (count > 1) snprintf(text, 40, " and %u others", count - 1);
    return text;
}

/* Says which texts may not be what they are taken for. */
static void warn(const tokenizing *t, const char *program) {
    char more[40];
    if (t->wide > 0)
        fprintf(stderr,
                "%s: %s%s begin%s as UTF-16 does, and the bytes were taken as they are: to convert such a "
                "text, iconv -f UTF-16 -t UTF-8\n",
                program, t->first_wide, others(t->wide, more), t->wide == 1 ? "s" : "");
    if (t->marked > 0)
        fprintf(stderr,
                "%s: %s%s begin%s with a byte order mark, which has become tokens: to remove it, sed "
                "'1s/^\\xef\\xbb\\xbf//'\n",
                program, t->first_marked, others(t->marked, more), t->marked == 1 ? "s" : "");
}

static bool tokenize(const arguments *a, const char *program, gw_err *err) {
    tokenizing t = {.last = NO_TOKEN, .progress = begin_progress()};
    gw_token_shards_written written = {0};
    bool done = check_texts(a, program, err) && open_tokenizer(&t, a->tokenizer, err) &&
                open_interrupt(&t.interrupt, err);
    if (done) {
        done = write_shards(&t, a, &written, err);
        close_interrupt(&t.interrupt);
    }
    if (done) {
        report(&t, &written);
        warn(&t, program);
    }
    gw_bpe_stream_close(t.stream);
    gw_bpe_close(t.bpe);
    return done;
}

int gw_tokenize_main(int argc, char **argv) {
    arguments a = {.shard_tokens = 100000000};
    const struct argp argp = {
        .options = tokenize_options, .parser = parse_tokenize, .args_doc = "TEXT...", .doc = tokenize_doc};
    if (gw_argp_parse(&argp, argc, argv, &a) != 0) return 2;
    gw_output_clean_on_signals();
    gw_descriptors_take(); /* every file of tokens stays open until the last one is complete */
    gw_err err;
    if (tokenize(&a, argv[0], &err)) return 0;
    return gw_command_fail(argv[0], &err);
}
