#include "kernels/data/tokens/shards.h"

#include "core/os/output.h"
#include "kernels/data/tokens/tokens.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST = GW_TOKEN_SHARDS_LEAST, REST = GW_TOKEN_SHARDS_REST, CONTEXT = 64 };

static int renames_left = -1; /* number of calls until one fails; below 0: none fails */

/* Replaces the C library's function. */
int rename(const char *from, const char *to) {
    if (renames_left != 0) {
        if (renames_left > 0) renames_left--;
        return renameat(AT_FDCWD, from, AT_FDCWD, to);
    }
    errno = EIO;
    return -1;
}

TestSuite(token_shards, .init = scratch_open, .fini = scratch_close);

static uint32_t token_of(uint64_t i) {
    return (uint32_t)(i * 7919 % GW_TOKEN_SHARDS_NARROW);
}

static gw_token_shards *open_shards(const char *name) {
    gw_token_shards *shards;
    gw_err err;
    cr_assert(gw_token_shards_open(scratch_path(name), LEAST, GW_TOKEN_SHARDS_NARROW, &shards, &err), "%s",
              err.text);
    return shards;
}

/* Writes tokens from `first` on, a few at a time. */
static bool put(gw_token_shards *shards, uint64_t first, uint64_t count, gw_err *err) {
    enum { FEW = 1000 };
    uint32_t tokens[FEW];
    for (uint64_t i = 0, n; i < count; i += n) {
        n = count - i < FEW ? count - i : FEW;
        for (uint64_t k = 0; k < n; k++) tokens[k] = token_of(first + i + k);
        if (!gw_token_shards_write(shards, tokens, n, err)) return false;
    }
    return true;
}

/* Writes `count` tokens and checks that they take `files` files. */
static void write_all(const char *name, uint64_t count, uint32_t files, const char *first, const char *last) {
    gw_token_shards *shards = open_shards(name);
    gw_token_shards_written written;
    gw_err err;
    cr_assert(put(shards, 0, count, &err), "%s", err.text);
    cr_assert(gw_token_shards_end(shards, true, &written, &err), "%s", err.text);
    cr_expect_eq(written.tokens, count);
    cr_expect_eq(written.files, files, "%u", written.files);
    cr_expect_str_eq(written.first, scratch_path(first));
    cr_expect_str_eq(written.last, scratch_path(last));
    free(written.first);
    free(written.last);
}

/* Checks that a job reads the tokens that were written, in this order. */
static void check_read(const char *list, uint64_t count, uint32_t files) {
    gw_tokens tokens;
    gw_err err;
    uint32_t inputs[CONTEXT], targets[CONTEXT];
    cr_assert(gw_tokens_open(scratch_path(list), CONTEXT, 0, &tokens, &err), "%s", err.text);
    cr_expect(tokens.shards && tokens.tokens == count && tokens.file_count == files);
    uint64_t before = 0; /* tokens in the files before */
    for (uint32_t f = 0; f < files; before += tokens.files[f++].form.tokens)
        for (uint64_t w = 0; w < (tokens.files[f].form.tokens - 1) / CONTEXT; w++) {
            cr_assert(gw_tokens_window(&tokens, tokens.files[f].first_window + w, inputs, targets, &err),
                      "%s", err.text);
            for (uint64_t i = 0; i < CONTEXT; i++) {
                cr_assert_eq(inputs[i], token_of(before + w * CONTEXT + i));
                cr_assert_eq(targets[i], token_of(before + w * CONTEXT + i + 1));
            }
        }
    gw_tokens_close(&tokens);
}

/* Larger vocabularies take four bytes a token. */
Test(token_shards, tokens_of_a_large_vocabulary_are_wide) {
    const uint32_t written_tokens[] = {70000, 1, 65535, 65536, 1 << 23, 5};
    enum { COUNT = sizeof written_tokens / sizeof written_tokens[0] };
    gw_token_shards *shards;
    gw_token_shards_written written;
    gw_tokens tokens;
    gw_err err;
    uint32_t inputs[COUNT - 1], targets[COUNT - 1];
    for (int round = 0; round < 2; round++) { /* the second replaces the first */
        cr_assert(
            gw_token_shards_open(scratch_path("wide.bin"), LEAST, GW_TOKEN_SHARDS_NARROW + 1, &shards, &err),
            "%s", err.text);
        cr_assert(gw_token_shards_write(shards, written_tokens, COUNT, &err), "%s", err.text);
        cr_assert(gw_token_shards_end(shards, true, &written, &err), "%s", err.text);
        free(written.first);
        free(written.last);
    }
    cr_assert(gw_tokens_open(scratch_path("wide.bin"), COUNT - 1, 0, &tokens, &err), "%s", err.text);
    cr_expect_eq(tokens.files[0].form.width, 4);
    cr_expect_eq(tokens.largest, 1 << 23);
    cr_assert(gw_tokens_window(&tokens, 0, inputs, targets, &err), "%s", err.text);
    cr_expect_arr_eq(inputs, written_tokens, sizeof inputs);
    cr_expect_arr_eq(targets, written_tokens + 1, sizeof targets);
    gw_tokens_close(&tokens);
}

static uint32_t files_there(void) {
    DIR *folder = opendir(scratch_folder());
    uint32_t count = 0;
    cr_assert_not_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

Test(token_shards, few_tokens_are_one_file) {
    write_all("t.bin", 1000, 1, "t.bin", "t.bin");
    check_read("t.bin", 1000, 1);
    write_all("t.bin", LEAST, 1, "t.bin", "t.bin"); /* in the place of the older one */
    check_read("t.bin", LEAST, 1);
    cr_assert_eq(files_there(), 1);
}

/* A last file of few tokens would contain no window. */
Test(token_shards, the_last_file_takes_what_is_too_little_for_another) {
    write_all("a.bin", LEAST + REST - 1, 1, "a.bin", "a.bin");
    check_read("a.bin", LEAST + REST - 1, 1);
    write_all("b.bin", LEAST + REST + 1, 2, "b_000001.bin", "b_000002.bin");
    check_read("b_*.bin", LEAST + REST + 1, 2);
    cr_assert_eq(files_there(), 3);
}

Test(token_shards, many_tokens_are_several_files_of_one_size) {
    enum { COUNT = 3 * LEAST + REST + 7 };
    write_all("t.bin", COUNT, 4, "t_000001.bin", "t_000004.bin");
    check_read("t_*.bin", COUNT, 4);
    struct stat status;
    for (int i = 1; i <= 3; i++) {
        char name[30];
        snprintf(name, sizeof name, "t_%06d.bin", i);
        cr_assert_eq(stat(scratch_path(name), &status), 0);
        cr_expect_eq(status.st_size, GW_TOKENS_HEADER + 2 * LEAST);
    }
    cr_assert_eq(files_there(), 4);
}

/* The shards lie beside the link's target. */
Test(token_shards, several_files_are_beside_what_a_link_names) {
    cr_assert_eq(mkdir(scratch_path("disk"), 0700), 0);
    cr_assert_eq(symlink("disk/large", scratch_path("t.bin")), 0);
    write_all("t.bin", 2 * LEAST, 2, "disk/large_000001.bin", "disk/large_000002.bin");
    check_read("disk/large_*.bin", 2 * LEAST, 2);
    cr_assert_eq(files_there(), 2);
}

static void refuse_path(const char *path, gw_code code, const char *words) {
    gw_token_shards *shards;
    gw_err err;
    cr_assert_not(gw_token_shards_open(path, LEAST, GW_TOKEN_SHARDS_NARROW, &shards, &err), "%s", path);
    cr_assert_eq(err.code, code, "%s", err.text);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
}

static void refuse(const char *name, gw_code code, const char *words) {
    refuse_path(scratch_path(name), code, words);
}

Test(token_shards, nothing_of_another_kind_or_run_is_overwritten) {
    scratch_write("text.txt", "This is a text.", 15);
    refuse("text.txt", GW_E_DENIED, "text.txt exists and is no token shard");
    scratch_write("short", "abc", 3);
    refuse("short", GW_E_DENIED, "is no token shard");
    cr_assert_eq(mkfifo(scratch_path("pipe"), 0600), 0);
    refuse("pipe", GW_E_INVALID, "not a regular file");
    refuse("nowhere/t.bin", GW_E_NOTFOUND, "cannot write");
    scratch_write("old_000001.bin", "", 0);
    refuse("old.bin", GW_E_DENIED, "old_000001.bin of another run exists");
    scratch_write("left_000100.bin", "", 0);
    scratch_write("left_000007.bin", "", 0); /* the run's first files were moved away */
    refuse("left.bin", GW_E_DENIED, "left_000007.bin of another run exists");
    refuse("left", GW_E_DENIED, "remove all files of that run");
    cr_assert_eq(files_there(), 6);
}

Test(token_shards, a_name_is_free_beside_others) {
    static const char *const others[] = {"other_000001.bin", "t_1.bin",      "t_0000001.bin",
                                         "t_000001.txt",     "t_00000a.bin", "t_000001.bin.bak",
                                         "t-000001.bin",     "tt_000001.bin"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) scratch_write(others[i], "", 0);
    write_all("t.bin", 2 * LEAST, 2, "t_000001.bin", "t_000002.bin");
    cr_assert_eq(chdir(scratch_folder()), 0);
    refuse_path("t.bin", GW_E_DENIED, "t_000001.bin of another run exists");
    scratch_write("empty", "", 0); /* an empty file, as mktemp makes */
    write_all("empty", 100, 1, "empty", "empty");
    cr_assert_eq(files_there(), 11);
}

Test(token_shards, several_files_take_no_place_beside_an_older_one) {
    gw_err err;
    write_all("t.bin", 1000, 1, "t.bin", "t.bin");
    gw_token_shards *shards = open_shards("t.bin");
    cr_assert_not(put(shards, 0, 2 * LEAST, &err));
    cr_assert(err.code == GW_E_DENIED && strstr(err.text, "t.bin exists, and the tokens take several files"),
              "%s", err.text);
    cr_assert_not(gw_token_shards_end(shards, false, NULL, &err));
    cr_assert_eq(files_there(), 1);
    check_read("t.bin", 1000, 1);
}

Test(token_shards, what_does_not_become_whole_leaves_nothing) {
    gw_err err = {.text = "why"};
    write_all("t.bin", 1000, 1, "t.bin", "t.bin");
    cr_assert_not(gw_token_shards_end(open_shards("t.bin"), false, NULL, &err));
    gw_token_shards *shards = open_shards("u.bin");
    cr_assert(put(shards, 0, 3 * LEAST, &err));
    cr_assert_eq(files_there(), 4);
    cr_assert_not(gw_token_shards_end(shards, false, NULL, &err));
    cr_assert_str_eq(err.text, "why");
    cr_assert_eq(files_there(), 1);
    check_read("t.bin", 1000, 1);
}

/* Even a late failure leaves no file. */
Test(token_shards, a_file_that_finds_no_place_takes_the_others_with_it) {
    gw_err err;
    gw_token_shards_written written;
    for (int good = 0; good < 3; good++) {
        gw_token_shards *shards = open_shards("t.bin");
        cr_assert(put(shards, 0, 3 * LEAST, &err), "%s", err.text);
        renames_left = good;
        cr_assert_not(gw_token_shards_end(shards, true, &written, &err));
        cr_assert(err.code == GW_E_IO && strstr(err.text, "cannot write") != NULL, "%s", err.text);
        renames_left = -1;
        cr_assert_eq(files_there(), 0);
    }
}

/* A failure as on a full disk. */
Test(token_shards, a_full_disk_is_told_and_leaves_nothing) {
    gw_err err;
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = LEAST;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    gw_token_shards *shards = open_shards("t.bin");
    cr_assert_not(put(shards, 0, 2 * LEAST, &err));
    cr_assert(err.code == GW_E_IO && strstr(err.text, "t.bin: File too large") != NULL, "%s", err.text);
    cr_assert_not(gw_token_shards_end(shards, false, NULL, &err));
    cr_assert_eq(files_there(), 0);
}
