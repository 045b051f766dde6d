#include "kernels/data/tokens/tokens.h"

#include "core/rng.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIST = 800, HEADER = 1024 };

TestSuite(tokens, .init = scratch_open, .fini = scratch_close);

/* Writes a shard of `count` tokens; token i is i * 7 mod 50257. The file is `bytes` long, or as long as it
 * must be where `bytes` is 0. */
static void write_shard(const char *name, uint32_t magic, uint32_t version, uint32_t count, size_t bytes) {
    size_t right = HEADER + 2 * (size_t)count, size = bytes > right ? bytes : right;
    uint8_t *all = calloc(size, 1);
    const uint32_t header[] = {magic, version, count};
    memcpy(all, header, sizeof header);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = i * 7 % 50257;
        all[HEADER + 2 * i] = (uint8_t)token;
        all[HEADER + 2 * i + 1] = (uint8_t)(token >> 8);
    }
    scratch_write(name, all, bytes > 0 ? bytes : right);
    free(all);
}

static gw_tokens open_all(const char *list, uint32_t context) {
    gw_tokens tokens;
    gw_err err;
    cr_assert(gw_tokens_open(list, context, 0, &tokens, &err), "%s", err.text);
    return tokens;
}

static void refuse(const char *list, uint32_t context, gw_code code, const char *words) {
    gw_tokens tokens;
    gw_err err = {0};
    cr_assert_not(gw_tokens_open(list, context, 0, &tokens, &err));
    cr_assert_eq(err.code, code, "%s", err.text);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
}

Test(tokens, bytes_are_cut_into_windows_that_overlap_by_what_follows) {
    scratch_write("text", "abcdefghijk", 11);
    gw_tokens tokens = open_all(scratch_path("text"), 3);
    cr_assert_not(tokens.shards);
    cr_assert_eq(tokens.windows, 3);
    cr_assert_eq(tokens.tokens, 11);
    cr_assert_eq(tokens.largest, 'k');
    const char *const inputs[] = {"abc", "def", "ghi"}, *const targets[] = {"bcd", "efg", "hij"};
    for (uint64_t w = 0; w < 3; w++) {
        uint32_t in[3], out[3];
        gw_err err;
        cr_assert(gw_tokens_window(&tokens, w, in, out, &err), "%s", err.text);
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(in[i], (uint32_t)inputs[w][i]);
            cr_assert_eq(out[i], (uint32_t)targets[w][i]);
        }
    }
    gw_tokens_close(&tokens);
}

Test(tokens, many_shards_are_one_sequence_of_windows) {
    write_shard("a-2.bin", 20240520, 1, 11, 0);
    write_shard("a-1.bin", 20240520, 1, 10000, 0);
    write_shard("other", 20240520, 1, 26, 0);
    char list[LIST];
    snprintf(list, sizeof list, "%s,%s", scratch_path("a-*.bin"), scratch_path("other"));
    gw_tokens tokens = open_all(list, 5);
    cr_assert(tokens.shards);
    cr_assert_eq(tokens.file_count, 3);
    cr_assert_str_eq(tokens.files[0].path, scratch_path("a-1.bin")); /* the files are sorted */
    cr_assert_eq(tokens.windows, 1999 + 2 + 5);
    cr_assert_eq(tokens.largest, 50253);
    const struct {
        uint64_t window;
        uint32_t first; /* number of the window's first token in its file */
    } places[] = {{0, 0}, {1998, 9990}, {1999, 0}, {2000, 5}, {2001, 0}, {2005, 20}};
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        uint32_t in[5], out[5];
        gw_err err;
        cr_assert(gw_tokens_window(&tokens, places[k].window, in, out, &err), "%s", err.text);
        for (uint32_t i = 0; i < 5; i++) {
            cr_assert_eq(in[i], (places[k].first + i) * 7 % 50257);
            cr_assert_eq(out[i], (places[k].first + i + 1) * 7 % 50257);
        }
    }
    gw_tokens_close(&tokens);
}

Test(tokens, the_digest_is_of_the_contents) {
    scratch_write("a", "the same text", 13);
    scratch_write("b", "the same text", 13);
    scratch_write("c", "the same texT", 13);
    char both[LIST];
    snprintf(both, sizeof both, "%s,%s", scratch_path("a"), scratch_path("b"));
    gw_tokens a = open_all(scratch_path("a"), 4), b = open_all(scratch_path("b"), 4),
              c = open_all(scratch_path("c"), 4);
    gw_tokens two = open_all(both, 4);
    cr_assert(gw_hash_equal(&a.digest, &b.digest));
    cr_assert_not(gw_hash_equal(&a.digest, &c.digest));
    cr_assert_not(gw_hash_equal(&a.digest, &two.digest));
    gw_tokens *all[] = {&a, &b, &c, &two};
    for (int i = 0; i < 4; i++) gw_tokens_close(all[i]);
}

/* The digest is part of a job's id, which checkpoints contain. (Python's hashlib.blake2b has computed it.) */
Test(tokens, the_digest_stays_what_it_is) {
    scratch_write("a", "the same text", 13);
    scratch_write("c", "the same texT", 13);
    char list[LIST], text[65];
    snprintf(list, sizeof list, "%s,%s", scratch_path("a"), scratch_path("c"));
    gw_tokens tokens = open_all(list, 4);
    gw_hex(tokens.digest.bytes, sizeof tokens.digest.bytes, text);
    cr_assert_str_eq(text, "2e8278596ab3a56d3cd1e600408afb03a6d15a79a620fcba3192d28b7fac10b7");
    gw_tokens_close(&tokens);
}

Test(tokens, damaged_shards_are_refused_with_the_reason) {
    write_shard("magic.bin", 20240519, 1, 100, 0);
    write_shard("version", 20240520, 2, 100, 0);
    write_shard("short", 20240520, 1, 100, HEADER + 199);
    write_shard("long", 20240520, 1, 100, HEADER + 202);
    write_shard("header", 20240520, 1, 100, 700);
    write_shard("huge", 20240520, 1, 100, 0);
    FILE *huge = fopen(scratch_path("huge"), "r+b");
    fseek(huge, 8, SEEK_SET);
    fwrite("\xff\xff\xff\xff", 1, 4, huge);
    fclose(huge);
    refuse(
        scratch_path("magic.bin"), 8, GW_E_INVALID,
        "magic.bin is no token shard: it does not begin with 20240520. An array of numbers without a header, "
        "as nanoGPT writes, needs --data-dtype uint16. The name of plain bytes must not end in .bin");
    refuse(scratch_path("version"), 8, GW_E_UNSUPPORTED, "version 2");
    refuse(scratch_path("short"), 8, GW_E_CORRUPT,
           "short has 1223 bytes; its header says 100 tokens, which take 1224");
    refuse(scratch_path("long"), 8, GW_E_CORRUPT, "1226 bytes");
    refuse(scratch_path("header"), 8, GW_E_CORRUPT, "ends after 700 bytes");
    refuse(scratch_path("huge"), 8, GW_E_CORRUPT, "4294967295 tokens");
}

/* A file that opens can be read to its end, whatever its header contains. */
Test(tokens, random_damage_does_no_harm) {
    enum { TOKENS = 300, BYTES = HEADER + 2 * TOKENS, ROUNDS = 2000 };
    static uint8_t good[BYTES], bytes[BYTES + 8];
    write_shard("good", 20240520, 1, TOKENS, 0);
    FILE *in = fopen(scratch_path("good"), "rb");
    cr_assert_eq(fread(good, 1, BYTES, in), BYTES);
    fclose(in);
    gw_rng rng = gw_rng_seeded(5);
    uint32_t opened = 0;
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(bytes, good, BYTES);
        for (uint64_t k = gw_rng_below(&rng, 3); k-- > 0;)
            bytes[gw_rng_below(&rng, k == 0 ? 16 : BYTES)] = (uint8_t)gw_rng_below(&rng, 256);
        uint64_t length = gw_rng_below(&rng, 4) == 0 ? gw_rng_below(&rng, BYTES + 8) + 1 : BYTES;
        scratch_write("damaged.bin", bytes, length);
        gw_tokens tokens;
        gw_err err;
        if (!gw_tokens_open(scratch_path("damaged.bin"), 16, 0, &tokens, &err)) continue;
        opened++;
        for (uint64_t w = 0; w < tokens.windows; w++) {
            uint32_t inputs[16], targets[16];
            cr_assert(gw_tokens_window(&tokens, w, inputs, targets, &err), "%s", err.text);
        }
        gw_tokens_close(&tokens);
    }
    cr_assert(opened > 0 && opened < ROUNDS);
}

Test(tokens, what_cannot_be_data_is_refused_with_the_reason) {
    scratch_write("empty", "", 0);
    scratch_write("tiny", "12345678", 8);
    write_shard("shard", 20240520, 1, 100, 0);
    char mixed[LIST];
    snprintf(mixed, sizeof mixed, "%s,%s", scratch_path("tiny"), scratch_path("shard"));
    refuse(scratch_path("none"), 8, GW_E_NOTFOUND, "there is no file");
    refuse(scratch_path("none-*"), 8, GW_E_NOTFOUND, "no file matches");
    refuse(scratch_path("empty"), 8, GW_E_INVALID, "is empty");
    cr_assert_eq(mkfifo(scratch_path("fifo"), 0600), 0); /* a pipe without a writer */
    refuse(scratch_path("fifo"), 8, GW_E_INVALID, "not a plain file");
    refuse(scratch_path("tiny"), 8, GW_E_INVALID,
           "tiny has 8 tokens; a window of 8 and the token after it need 9: join such files with others, or "
           "take a "
           "smaller --context");
    refuse(mixed, 4, GW_E_INVALID, "plain bytes");
    scratch_write("dump.bin", "12345678", 8);
    snprintf(mixed, sizeof mixed, "%s,%s", scratch_path("tiny"), scratch_path("dump.bin"));
    refuse(mixed, 4, GW_E_INVALID, "dump.bin is no token shard: ");
    refuse("", 8, GW_E_USAGE, "not a list of files");
    refuse(",b", 8, GW_E_USAGE, "not a list of files");
}

Test(tokens, a_file_may_be_called_what_looks_like_a_pattern) {
    scratch_write("notes [1].txt", "abcdefghi", 9);
    scratch_write("notes 1.txt", "abcdefghijk", 11);
    gw_tokens tokens = open_all(scratch_path("notes [1].txt"), 8);
    cr_expect(tokens.file_count == 1 && tokens.tokens == 9);
    gw_tokens_close(&tokens);
    cr_assert_eq(unlink(scratch_path("notes [1].txt")), 0);
    tokens = open_all(scratch_path("notes [1].txt"), 8); /* now the pattern is a file's name */
    cr_expect(tokens.file_count == 1 && tokens.tokens == 11);
    gw_tokens_close(&tokens);
}

Test(tokens, a_folder_that_cannot_be_read_is_not_called_empty) {
    cr_assert_eq(symlink("loop", scratch_path("loop")), 0);
    refuse(scratch_path("loop/*.txt"), 8, GW_E_IO, "loop/*.txt': Too many levels of symbolic links");
    refuse(scratch_path("nowhere/*.txt"), 8, GW_E_IO, "nowhere/*.txt': No such file or directory");
}

/* All short files are reported at once, since a user who leaves out one after the other starts as often. */
Test(tokens, files_that_are_too_short_are_told_of_at_once) {
    scratch_write("a", "1234567890", 10);
    scratch_write("b", "12345678", 8);
    scratch_write("c", "1", 1);
    scratch_write("d", "123456789", 9);
    char list[LIST];
    snprintf(list, sizeof list, "%s,%s", scratch_path("a"), scratch_path("b"));
    refuse(list, 8, GW_E_INVALID,
           "b has 8 tokens; a window of 8 and the token after it need 9: join such files with others, leave "
           "them out, or take a smaller --context");
    refuse(scratch_path("[a-d]"), 8, GW_E_INVALID, "b has 8 tokens, and 1 more have too few; a window");
    snprintf(list, sizeof list, "%s,%s,%s", scratch_path("d"), scratch_path("a"), scratch_path("d"));
    gw_tokens tokens = open_all(list, 4);
    cr_assert_eq(tokens.windows, 6);
    cr_assert_eq(tokens.tokens, 28);
    cr_assert_eq(tokens.files[2].first_window, 4);
    gw_tokens_close(&tokens);
}

/* Sets another modification time, which does not depend on the clock's resolution. */
static void write_token_90(const char *name, const char *bytes, time_t written_s) {
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = written_s}};
    FILE *file = fopen(scratch_path(name), "r+b");
    cr_assert_not_null(file);
    fseek(file, HEADER + 2 * 90, SEEK_SET);
    fwrite(bytes, 1, 2, file);
    fclose(file);
    cr_assert_eq(utimensat(AT_FDCWD, scratch_path(name), times, 0), 0);
}

Test(tokens, a_file_that_changes_under_the_run_is_noticed) {
    write_shard("live", 20240520, 1, 100, 0);
    write_token_90("live", "\x01\x00", 1000);
    gw_tokens tokens = open_all(scratch_path("live"), 8);
    uint32_t in[8], out[8];
    gw_err err;
    cr_assert(gw_tokens_window(&tokens, 11, in, out, &err), "%s", err.text);
    write_token_90("live", "\x05\x00", 1001); /* a valid token */
    cr_assert_not(gw_tokens_window(&tokens, 11, in, out, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert_not_null(strstr(err.text, "live was written to"), "%s", err.text);
    cr_expect_not_null(strstr(err.text, ". Put back what it held, "), "%s", err.text);
    write_token_90("live", "\xff\xff", 1000); /* the modification time is set back */
    cr_assert_not(gw_tokens_window(&tokens, 11, in, out, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert_not_null(strstr(err.text, "token 90 is 65535, above 693"), "%s", err.text);
    cr_assert(gw_tokens_window(&tokens, 0, in, out, &err), "%s", err.text);
    cr_assert_eq(truncate(scratch_path("live"), HEADER), 0);
    cr_assert_not(gw_tokens_window(&tokens, 0, in, out, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert_not_null(strstr(err.text, "live has shrunk: it had 1224 bytes, and ends at 1024. Put back "),
                       "%s", err.text);
    gw_tokens_close(&tokens);
}

Test(tokens, a_file_that_cannot_be_read_is_an_error) {
    scratch_write("text", "abcdefghijk", 11);
    gw_tokens tokens = open_all(scratch_path("text"), 3);
    uint32_t in[3], out[3];
    gw_err err;
    int unreadable = open(scratch_path("text"), O_WRONLY | O_CLOEXEC);
    cr_assert(unreadable >= 0 && dup2(unreadable, tokens.files[0].file.fd) >= 0);
    close(unreadable);
    cr_assert_not(gw_tokens_window(&tokens, 0, in, out, &err));
    cr_assert_eq(err.code, GW_E_IO);
    cr_assert_not_null(strstr(err.text, "text: Bad file descriptor"), "%s", err.text);
    gw_tokens_close(&tokens);
}

/* Reads windows repeatedly and ignores the results. */
static void read_on(const gw_tokens *tokens, uint32_t windows) {
    static uint32_t in[50000], out[50000];
    gw_err err;
    for (uint32_t i = 0; i < windows; i++) (void)gw_tokens_window(tokens, 0, in, out, &err);
}

Test(tokens, a_file_that_is_cut_while_it_is_read_kills_nobody) {
    write_shard("live", 20240520, 1, 50001, 0);
    gw_tokens tokens = open_all(scratch_path("live"), 50000);
    pid_t reader = fork(), ended;
    cr_assert(reader >= 0);
    if (reader == 0) {
        read_on(&tokens, 5000);
        _exit(0);
    }
    int status;
    while ((ended = waitpid(reader, &status, WNOHANG)) == 0)
        cr_assert(truncate(scratch_path("live"), HEADER) == 0 &&
                  truncate(scratch_path("live"), HEADER + 100002) == 0);
    cr_assert(ended == reader && WIFEXITED(status), "signal %d", WTERMSIG(status));
    gw_tokens_close(&tokens);
}
