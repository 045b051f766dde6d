/* Tests of `godwit plot` by its command line. */
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT = 4000 };

static void enter(void) {
    scratch_open();
    FILE *out = fopen(scratch_path("it's.csv"), "w");
    fputs("step,job,phase,time,ms,members,shards,loss,lr\n", out);
    for (int i = 1; i <= 100; i++)
        fprintf(out, "%d,0123abcd,train,%d.5,1,1,1,%g,0.1\n", i, 1000 + i, 1.0 / i);
    fclose(out);
}

static char text[TEXT];

/* Runs `godwit plot ARGUMENTS` in the folder, after what comes before it; returns its exit code. */
static int plot(const char *before, const char *arguments) {
    char command[500];
    snprintf(command, sizeof command, "cd %s && %s %s plot %s 2>&1", scratch_folder(), before, GODWIT_BINARY,
             arguments);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    text[fread(text, 1, TEXT - 1, pipe)] = '\0';
    int status = pclose(pipe);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TestSuite(plot, .init = enter, .fini = scratch_close);

static size_t read_picture(const char *name, char *bytes, size_t room) {
    const char *path = scratch_path(name);
    FILE *in = fopen(path, "rb");
    cr_assert_not_null(in, "%s", path);
    size_t count = fread(bytes, 1, room, in);
    fclose(in);
    return count;
}

Test(plot, draws_png_and_svg) {
    if (system("gnuplot --version >/dev/null 2>&1") != 0) cr_skip_test("there is no gnuplot");
    static char picture[1 << 20];
    cr_assert_eq(plot("", "\"it's.csv\""), 0, "%s", text);
    cr_assert_str_eq(text, "it's.png: 1 curve\n");
    size_t bytes = read_picture("it's.png", picture, sizeof picture);
    cr_assert(bytes > 2000 && memcmp(picture, "\x89PNG\r\n", 6) == 0);
    cr_assert_eq(plot("", "\"it's.csv\" \"it's.csv\" -o \"it's.svg\" --y loss,lr --x time --log"), 0, "%s",
                 text);
    bytes = read_picture("it's.svg", picture, sizeof picture - 1);
    picture[bytes] = '\0';
    cr_assert(strstr(picture, "<svg") != NULL && strstr(picture, "it's.csv: lr") != NULL &&
              strstr(picture, "minutes") != NULL && strstr(picture, "</svg>") != NULL);
}

Test(plot, follows_links_and_leaves_what_is_no_file_alone) {
    if (system("gnuplot --version >/dev/null 2>&1") != 0) cr_skip_test("there is no gnuplot");
    struct stat stat;
    char path[200];
    snprintf(path, sizeof path, "%s/link.png", scratch_folder());
    cr_assert_eq(symlink("target.png", path), 0);
    cr_assert_eq(plot("", "\"it's.csv\" -o link.png"), 0, "%s", text);
    cr_assert(lstat(path, &stat) == 0 && S_ISLNK(stat.st_mode));
    cr_assert(lstat(scratch_path("target.png"), &stat) == 0 && stat.st_size > 2000);
    snprintf(path, sizeof path, "%s/pipe.png", scratch_folder());
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(plot("", "\"it's.csv\" -o pipe.png"), 1, "%s", text);
    cr_assert_not_null(strstr(text, "pipe.png is there and is not a regular file"), "%s", text);
    cr_assert(lstat(path, &stat) == 0 && S_ISFIFO(stat.st_mode));
}

/* No picture is left half made. */
static void refuse(int code, const char *before, const char *arguments, const char *words) {
    cr_assert_eq(plot(before, arguments), code, "%s: %s", arguments, text);
    cr_assert_not_null(strstr(text, words), "%s", text);
    char command[100];
    snprintf(command, sizeof command, "ls %s/*.godwit-partial >/dev/null 2>&1", scratch_folder());
    cr_assert_neq(system(command), 0);
}

Test(plot, says_which_file_has_nothing_to_draw) {
    if (system("gnuplot --version >/dev/null 2>&1") != 0) cr_skip_test("there is no gnuplot");
    const char other[] = "step,job,phase,time,ms,members,shards,energy\n1,0123abcd,train,1.5,1,1,1,0.5\n";
    scratch_write("other.csv", other, sizeof other - 1);
    cr_assert_eq(plot("", "\"it's.csv\" other.csv"), 0, "%s", text);
    cr_assert_not_null(strstr(text, "no curve of other.csv is drawn"), "%s", text);
    cr_assert_null(strstr(text, "no curve of it's.csv"), "%s", text);
}

static void expect_old(const char *name) {
    static char picture[1 << 20];
    cr_assert_eq(read_picture(name, picture, sizeof picture), 3);
    cr_assert_arr_eq(picture, "old", 3);
}

/* As on a full disk. */
Test(plot, a_file_size_limit_leaves_no_half_picture) {
    if (system("gnuplot --version >/dev/null 2>&1") != 0) cr_skip_test("there is no gnuplot");
    refuse(1, "ulimit -f 12;", "\"it's.csv\" -o half.svg", "cannot write half.svg: File too large");
    cr_assert_neq(access(scratch_path("half.svg"), F_OK), 0);
    scratch_write("half.svg", "old", 3);
    refuse(1, "ulimit -f 12;", "\"it's.csv\" -o half.svg", "cannot write half.svg: File too large");
    expect_old("half.svg");
}

/* A gnuplot that could write nothing ends with 0 all the same. */
Test(plot, half_a_picture_takes_no_ones_place) {
    const char svg[] = "#!/bin/sh\ncat >/dev/null; echo \"<svg><g>\"\n";
    const char png[] = "#!/bin/sh\ncat >/dev/null; printf '\\211PNG\\r\\n'\n";
    scratch_write("gnuplot", svg, sizeof svg - 1);
    scratch_write("loss.svg", "old", 3);
    scratch_write("it's.png", "old", 3);
    cr_assert_eq(chmod(scratch_path("gnuplot"), 0700), 0);
    refuse(1, "PATH=.:$PATH", "\"it's.csv\" -o loss.svg", "before the picture was complete");
    expect_old("loss.svg");
    scratch_write("gnuplot", png, sizeof png - 1);
    refuse(1, "PATH=.:$PATH", "\"it's.csv\"", "before the picture was complete");
    expect_old("it's.png");
}

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SANITIZED = true }; /* their own memory counts against a process's limit */
#else
enum { SANITIZED = false };
#endif

/* What gnuplot gets, too. */
Test(plot, a_million_rows_take_no_more_memory_than_some_thousand, .disabled = SANITIZED) {
    const char keep[] = "#!/bin/sh\ncat >script; echo \"</svg>\"\n";
    scratch_write("gnuplot", keep, sizeof keep - 1);
    cr_assert_eq(chmod(scratch_path("gnuplot"), 0700), 0);
    FILE *out = fopen(scratch_path("long.csv"), "w");
    cr_assert_not_null(out);
    fputs("step,loss\n", out);
    for (int i = 1; i <= 1000000; i++) fprintf(out, "%d,%s\n", i, i == 654321 ? "77" : i & 1 ? "2" : "3");
    cr_assert_eq(fclose(out), 0);
    cr_assert_eq(plot("ulimit -v 300000; PATH=.:$PATH", "long.csv -o long.svg"), 0, "%s", text);
    static char script[1 << 20];
    size_t bytes = read_picture("script", script, sizeof script - 1);
    cr_assert_lt(bytes, sizeof script - 1);
    script[bytes] = '\0';
    cr_assert(strstr(script, "\n1 2\n") != NULL && strstr(script, "\n654321 77\n") != NULL &&
              strstr(script, "\n1000000 3\n") != NULL);
}

/* The picture of one run, or of some, does not take the place of other ones', and shows its name. No line
 * leads over steps that the file lacks. */
Test(plot, a_picture_is_named_after_its_file_and_shows_a_range) {
    const char keep[] = "#!/bin/sh\ncat >script; printf '\\211PNG\\r\\nIEND'\n";
    static char script[20000];
    scratch_write("gnuplot", keep, sizeof keep - 1);
    cr_assert_eq(chmod(scratch_path("gnuplot"), 0700), 0);
    scratch_make_folder("runs");
    const char some[] = "step,loss\n10,1\n11,2\n20,3\n21,4\n";
    scratch_write("runs/m3.csv", some, sizeof some - 1);
    cr_assert_eq(plot("PATH=.:$PATH", "runs/m3.csv --from 11 --to 20"), 0, "%s", text);
    cr_assert_str_eq(text, "m3.png: 1 curve\n");
    script[read_picture("script", script, sizeof script - 1)] = '\0';
    cr_assert(strstr(script, "set title 'm3.csv'\n") != NULL &&
                  strstr(script, "<< END\n11 2\n\n20 3\nEND\n") != NULL,
              "%s", script);
    cr_assert_eq(plot("PATH=.:$PATH", "runs/m3.csv \"it's.csv\""), 0, "%s", text);
    cr_assert_str_eq(text, "m3-and-it's.png: 2 curves\n");
    scratch_write("m3.csv", some, sizeof some - 1);
    cr_assert_eq(plot("PATH=.:$PATH", "./runs/m3.csv m3.csv"), 0, "%s", text);
    cr_assert_str_eq(text, "runs-m3-and-m3.png: 2 curves\n");
    scratch_write("a-name-of-some-length.csv", some, sizeof some - 1);
    char many[10 * sizeof " a-name-of-some-length.csv"] = "";
    for (int i = 0; i < 10; i++) strcat(many, " a-name-of-some-length.csv");
    refuse(2, "PATH=.:$PATH", many, "too long for that of a picture: give one by --output");
    refuse(1, "PATH=.:$PATH", "runs/m3.csv --from 22", "no rows to draw");
    refuse(2, "", "runs/m3.csv --from 5 --to 4", "--from: it is a step after that of --to");
}

Test(plot, draws_times_of_which_the_first_is_missing) {
    if (system("gnuplot --version >/dev/null 2>&1") != 0) cr_skip_test("there is no gnuplot");
    const char some[] = "step,time,loss\n1,,0.5\n2,60,0.4\n3,120,0.3\n";
    scratch_write("some.csv", some, sizeof some - 1);
    cr_assert_eq(plot("", "some.csv --x time -o some.svg"), 0, "%s", text);
    cr_assert_not_null(strstr(text, "some.svg: 1 curve"), "%s", text);
}

Test(plot, a_users_own_settings_of_gnuplot_change_nothing) {
    if (system("gnuplot --version >/dev/null 2>&1") != 0) cr_skip_test("there is no gnuplot");
    static char plain[1 << 20], picture[1 << 20];
    cr_assert_eq(plot("HOME=.", "\"it's.csv\" -o plain.svg"), 0, "%s", text);
    const char mine[] = "set title 'mine'\nset xrange [5:6]\n", exit[] = "exit\n";
    scratch_write(".gnuplot", mine, sizeof mine - 1);
    cr_assert_eq(plot("HOME=.", "\"it's.csv\" -o loss.svg"), 0, "%s", text);
    size_t bytes = read_picture("plain.svg", plain, sizeof plain);
    cr_assert_eq(read_picture("loss.svg", picture, sizeof picture), bytes);
    cr_assert_arr_eq(picture, plain, bytes);
    scratch_write(".gnuplot", exit, sizeof exit - 1);
    cr_assert_eq(plot("HOME=.", "\"it's.csv\""), 0, "%s", text);
    cr_assert_str_eq(text, "it's.png: 1 curve\n");
}

Test(plot, says_that_there_is_nothing_yet) {
    const char header[] = "step,time,loss\n";
    scratch_write("header.csv", header, sizeof header - 1);
    scratch_write("empty.csv", "", 0);
    refuse(1, "", "header.csv --x time", "no rows to draw");
    refuse(1, "", "empty.csv", "empty.csv: there is nothing in it to draw");
    refuse(1, "", "empty.csv --y loss", "empty.csv: there is nothing in it to draw");
    refuse(2, "", "empty.csv header.csv --y los",
           "--y: there is no column 'los': the columns are step, time, loss");
}

Test(plot, the_losses_of_digits_are_drawn_too) {
    if (system("gnuplot --version >/dev/null 2>&1") != 0) cr_skip_test("there is no gnuplot");
    scratch_write_text("d.csv", "step,job,phase,time,ms,members,shards,loss,test_loss,test_accuracy\n"
                                "1,j0123abcd,train,1,1,1,1,2,,\n2,j0123abcd,evaluate,2,1,1,1,,3,0.5\n");
    cr_assert_eq(plot("", "d.csv"), 0, "%s", text);
    cr_expect_str_eq(text, "d.png: 2 curves\n");
}

Test(plot, says_what_is_missing) {
    refuse(1, "PATH=/nowhere", "\"it's.csv\"", "apt-get install gnuplot-nox");
    refuse(2, "", "\"it's.csv\" -o loss.pdf", "neither .png nor .svg");
    refuse(2, "", "\"it's.csv\" --y loss,accuracy",
           "--y: there is no column 'accuracy': the columns are step, job, phase");
    refuse(2, "", "\"it's.csv\" --x tokens", "--x: there is no column 'tokens': the columns are");
    refuse(2, "", "nothing.csv", "there is no file nothing.csv");
    refuse(1, "", "\"it's.csv\" -o none/loss.png", "cannot write none/loss.png");
    refuse(1, "", "\"it's.csv\" --y phase", "no rows to draw");
    refuse(2, "", "", "give a file that");
}
