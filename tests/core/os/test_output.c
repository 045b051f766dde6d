#include "core/os/output.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool disk_fails;

/* In front of the C library's. */
int fsync(int fd) {
    if (!disk_fails) return fdatasync(fd);
    errno = EIO;
    return -1;
}

/* What somebody else does when a file is about to get its lock, or to be renamed or removed. */
static void (*meanwhile)(void), (*at_rename)(void); /* the latter at a rename alone */

static void let_others(void (**when)(void)) {
    void (*act)(void) = *when;
    *when = NULL;
    if (act != NULL) act();
}

int flock(int fd, int operation) {
    let_others(&meanwhile);
    return (int)syscall(SYS_flock, fd, operation);
}

int rename(const char *from, const char *to) {
    let_others(&meanwhile);
    let_others(&at_rename);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlink(const char *path) {
    let_others(&meanwhile);
    return unlinkat(AT_FDCWD, path, 0);
}

TestSuite(output, .init = scratch_open, .fini = scratch_close);

static const char *content(const char *name) {
    static char text[100];
    FILE *in = fopen(scratch_path(name), "r");
    cr_assert_not_null(in, "%s", name);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    return text;
}

static bool there(const char *name) {
    struct stat stat;
    return lstat(scratch_path(name), &stat) == 0;
}

/* Writes "new", and says at the end whether it is good. */
static void put(const char *name, bool good) {
    gw_output output;
    gw_err err = {.text = "why"};
    cr_assert(gw_output_open(scratch_path(name), &output, &err), "%s", err.text);
    cr_assert_eq(write(output.fd, "new", 3), 3);
    cr_assert_eq(gw_output_end(&output, good, &err), good, "%s", err.text);
    cr_assert_str_eq(err.text, "why");
}

Test(output, a_file_appears_when_it_is_whole) {
    put("file", true);
    cr_assert_str_eq(content("file"), "new");
    scratch_write("file", "old", 3);
    put("file", false);
    cr_assert_str_eq(content("file"), "old");
    cr_assert_not(there("file.godwit-partial"));
    put("file", true);
    cr_assert_str_eq(content("file"), "new");
    cr_assert_not(there("file.godwit-partial"));
}

/* What a crash would lose does not take the place of what it would not. */
Test(output, what_does_not_reach_the_disk_takes_no_ones_place) {
    gw_output output;
    gw_err err;
    scratch_write("file", "old", 3);
    disk_fails = true;
    cr_assert(gw_output_open(scratch_path("file"), &output, &err), "%s", err.text);
    cr_assert_eq(write(output.fd, "new", 3), 3);
    cr_assert_not(gw_output_end(&output, true, &err));
    cr_assert_eq(err.code, GW_E_IO);
    cr_assert_str_eq(content("file"), "old");
    cr_assert_not(there("file.godwit-partial"));
}

Test(output, links_are_followed_even_to_what_is_not_there_yet) {
    cr_assert_eq(mkdir(scratch_path("folder"), 0700), 0);
    cr_assert_eq(symlink("folder/second", scratch_path("first")), 0);
    cr_assert_eq(symlink("third", scratch_path("folder/second")), 0);
    put("first", true);
    cr_assert_str_eq(content("folder/third"), "new");
    scratch_write("folder/third", "old", 3);
    put("first", true);
    cr_assert_str_eq(content("folder/third"), "new");
    char said[20];
    cr_assert_eq(readlink(scratch_path("first"), said, sizeof said), (ssize_t)strlen("folder/second"));
    cr_assert_eq(readlink(scratch_path("folder/second"), said, sizeof said), (ssize_t)strlen("third"));
    cr_assert_eq(symlink(scratch_path("absolute"), scratch_path("far")), 0);
    put("far", true);
    cr_assert_str_eq(content("absolute"), "new");
}

static void refuse(const char *name, gw_code code, const char *words) {
    gw_output output;
    gw_err err;
    cr_assert_not(gw_output_open(scratch_path(name), &output, &err), "%s", name);
    cr_assert_eq(err.code, code);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
}

Test(output, what_is_no_regular_file_is_refused_and_stays) {
    struct stat stat;
    cr_assert_eq(mkfifo(scratch_path("pipe"), 0600), 0);
    cr_assert_eq(mkdir(scratch_path("folder"), 0700), 0);
    cr_assert_eq(symlink("/dev/null", scratch_path("device")), 0);
    cr_assert_eq(symlink("round", scratch_path("round")), 0);
    refuse("pipe", GW_E_INVALID, "not a regular file");
    refuse("folder", GW_E_INVALID, "not a regular file");
    refuse("device", GW_E_INVALID, "not a regular file");
    refuse("round", GW_E_IO, "Too many levels of symbolic links");
    refuse("nowhere/file", GW_E_NOTFOUND, "nowhere/file: there is no folder ");
    cr_assert(lstat(scratch_path("pipe"), &stat) == 0 && S_ISFIFO(stat.st_mode));
    cr_assert(lstat(scratch_path("device"), &stat) == 0 && S_ISLNK(stat.st_mode));
}

static void refuse_another(void) {
    refuse("file", GW_E_DENIED, "another process writes it");
    scratch_write("asked", "", 0);
}

Test(output, a_file_has_one_writer) {
    gw_output output;
    gw_err err;
    cr_assert_eq(symlink("file", scratch_path("link")), 0);
    for (int good = 0; good < 2; good++) {
        cr_assert(gw_output_open(scratch_path("file"), &output, &err), "%s", err.text);
        cr_assert(gw_output_write(&output, "first", 5, &err), "%s", err.text);
        refuse("link", GW_E_DENIED, "another process writes it");
        cr_assert_str_eq(content("file.godwit-partial"), "first");
        meanwhile = refuse_another; /* until the name is free */
        cr_assert_eq(gw_output_end(&output, good, &err), good, "%s", err.text);
        cr_assert(there("asked") && meanwhile == NULL);
        cr_assert_eq(remove(scratch_path("asked")), 0);
        cr_assert_eq(there("file"), good);
    }
    cr_assert_str_eq(content("file"), "first");
    put("file", true);
    cr_assert_str_eq(content("file"), "new");
}

static void refuse_both(void) {
    refuse("one", GW_E_DENIED, "another process writes it");
    refuse("two", GW_E_DENIED, "another process writes it");
}

/* Under the name that it had last, and one writer's all the time. */
Test(output, a_file_may_get_another_name_on_the_way) {
    gw_output output, other;
    gw_err err;
    scratch_write("one", "old", 3);
    cr_assert(gw_output_open(scratch_path("one"), &output, &err), "%s", err.text);
    cr_assert(gw_output_write(&output, "new", 3, &err), "%s", err.text);
    cr_assert(gw_output_open(scratch_path("three"), &other, &err), "%s", err.text);
    cr_assert_not(gw_output_move(&output, scratch_path("three"), &err)); /* somebody else's */
    cr_assert_eq(err.code, GW_E_DENIED);
    cr_assert(gw_output_end(&other, true, &err), "%s", err.text);
    cr_assert_str_eq(content("one.godwit-partial"), "new");
    cr_assert(gw_output_move(&output, scratch_path("two"), &err), "%s", err.text);
    refuse("two", GW_E_DENIED, "another process writes it");
    cr_assert(gw_output_write(&output, "er", 2, &err), "%s", err.text);
    cr_assert(gw_output_end(&output, true, &err), "%s", err.text);
    cr_assert_str_eq(content("one"), "old");
    cr_assert_str_eq(content("two"), "newer");
    cr_assert_str_eq(content("three"), "");
    cr_assert_not(there("one.godwit-partial") || there("two.godwit-partial") ||
                  there("three.godwit-partial"));
}

Test(output, a_file_is_nobody_elses_while_it_gets_another_name) {
    gw_output output;
    gw_err err;
    cr_assert(gw_output_open(scratch_path("one"), &output, &err), "%s", err.text);
    at_rename = refuse_both;
    cr_assert(gw_output_move(&output, scratch_path("two"), &err), "%s", err.text);
    cr_assert_null(at_rename);
    cr_assert_not(gw_output_end(&output, false, &err));
    cr_assert_not(there("one.godwit-partial") || there("two.godwit-partial"));
}

Test(output, a_file_of_somebody_else_is_known_by_its_lack_of_the_mark) {
    static const char mark[] = "<!-- ours -->";
    static char late[2 * GW_OUTPUT_HEAD];
    const size_t length = sizeof mark - 1;
    gw_err err;
    memset(late, ' ', sizeof late);
    memcpy(late + GW_OUTPUT_HEAD, mark, length);
    scratch_write_text("thesis", "four years of work");
    scratch_write_text("page", "<html> <!-- ours --> text");
    scratch_write_text("empty", "");
    scratch_write("late", late, sizeof late);
    for (int i = 0; i < 2; i++) {
        const char *other = i == 0 ? "thesis" : "late";
        cr_assert_not(gw_output_is_own(scratch_path(other), mark, length, &err));
        cr_expect_eq(err.code, GW_E_DENIED);
        cr_expect(strstr(err.text, other) != NULL && strstr(err.text, "--force") != NULL, "%s", err.text);
    }
    for (int i = 0; i < 3; i++)
        cr_expect(gw_output_is_own(scratch_path(i == 0   ? "page"
                                                : i == 1 ? "empty"
                                                         : "none"),
                                   mark, length, &err));
    cr_expect(gw_output_is_own("/dev/null", mark, length, &err), "gw_output_open refuses it");
    cr_expect_str_eq(content("thesis"), "four years of work");
}

static void put_in_place(void) {
    cr_assert_eq(rename(scratch_path("file.godwit-partial"), scratch_path("file")), 0);
}

/* Between the opening and the lock. */
Test(output, what_another_one_has_just_put_in_its_place_stays) {
    gw_output output;
    gw_err err;
    scratch_write("file.godwit-partial", "theirs", 6);
    meanwhile = put_in_place;
    cr_assert(gw_output_open(scratch_path("file"), &output, &err), "%s", err.text);
    cr_assert_null(meanwhile);
    cr_assert_eq(write(output.fd, "new", 3), 3);
    cr_assert_str_eq(content("file"), "theirs");
    cr_assert(gw_output_end(&output, true, &err), "%s", err.text);
    cr_assert_str_eq(content("file"), "new");
}

Test(output, what_a_crash_has_left_is_written_over) {
    scratch_write("file.godwit-partial", "half of it", 10);
    put("file", true);
    cr_assert_str_eq(content("file"), "new");
    cr_assert_not(there("file.godwit-partial"));
}

/* A process that writes two files and ends by the signal; returns the status of its end. */
static int end_writer(int signal, bool ignored) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        gw_output one, other;
        gw_err err;
        (void)sigaction(signal, &(struct sigaction){.sa_handler = ignored ? SIG_IGN : SIG_DFL}, NULL);
        gw_output_clean_on_signals();
        bool good = gw_output_open(scratch_path("one"), &one, &err) &&
                    gw_output_open(scratch_path("other"), &other, &err) &&
                    gw_output_write(&one, "new", 3, &err) && gw_output_end(&other, true, &err);
        if (good) raise(signal);
        _exit(good && gw_output_end(&one, true, &err) ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

Test(output, a_signal_leaves_nothing_unfinished) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        scratch_write_text("one", "old");
        int status = end_writer(signals[i], false);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
        cr_assert_str_eq(content("one"), "old");
        cr_assert(!there("one.partial") && !there("other.partial") && there("other"));
    }
    cr_assert_eq(end_writer(SIGHUP, true), 0, "under nohup it goes on");
    cr_assert_str_eq(content("one"), "new");
}
