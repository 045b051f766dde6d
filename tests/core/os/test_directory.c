/* The directory of a peer: when it is Godwit's, and that nothing outside of it is touched. */
#include "core/os/directory.h"

#include "tests/scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gw_directory directory;
static gw_err err;

TestSuite(directory, .init = scratch_open, .fini = scratch_close);

static bool exists(const char *name) {
    struct stat status;
    return lstat(scratch_path(name), &status) == 0;
}

static void expect_taken(const char *given, const char *path) {
    char found[GW_PATH_BYTES];
    cr_assert(gw_directory_open(scratch_path(given), &directory, &err), "%s", err.text);
    cr_assert_str_eq(directory.path, scratch_path(path));
    gw_directory_close(&directory);
    cr_assert(gw_directory_find(scratch_path(given), found, &err));
    cr_assert_str_eq(found, scratch_path(path));
}

static void expect_refused(const char *given, const char *why) {
    cr_assert(!gw_directory_open(scratch_path(given), &directory, &err));
    cr_assert_eq(err.code, GW_E_DENIED);
    cr_assert_not_null(strstr(err.text, why), "%s", err.text);
}

Test(directory, a_missing_or_empty_folder_becomes_godwits) {
    char found[GW_PATH_BYTES];
    cr_assert(gw_directory_find(scratch_path("new"), found, &err));
    cr_assert_str_eq(found, scratch_path("new"));
    cr_assert(!exists("new"), "looking changes nothing");
    expect_taken("new", "new");
    cr_assert(exists("new/" GW_DIRECTORY_MARKER));
    expect_taken("new", "new");
    scratch_make_folder("empty");
    expect_taken("empty", "empty");
    scratch_make_folder("volume");
    scratch_make_folder("volume/lost+found"); /* of the file system's */
    expect_taken("volume", "volume");
}

Test(directory, what_was_made_for_a_start_that_failed_goes_and_anything_else_stays) {
    cr_assert(gw_directory_open(scratch_path("new"), &directory, &err), "%s", err.text);
    scratch_write_text("new/lock", "1");
    scratch_make_folder("new/chunks"); /* of a start that found no room for checkpoints */
    scratch_make_folder("new/tmp");
    gw_directory_discard(&directory);
    gw_directory_close(&directory);
    cr_expect(!exists("new"));
    cr_assert(gw_directory_open(scratch_path("used"), &directory, &err), "%s", err.text);
    scratch_make_folder("used/chunks");
    scratch_make_folder("used/chunks/a7");
    gw_directory_discard(&directory);
    gw_directory_close(&directory);
    cr_expect(exists("used/" GW_DIRECTORY_MARKER), "there is more in it");
    scratch_make_folder("before");
    cr_assert(gw_directory_open(scratch_path("before"), &directory, &err), "%s", err.text);
    gw_directory_discard(&directory);
    gw_directory_close(&directory);
    cr_expect(exists("before/" GW_DIRECTORY_MARKER), "it was there before");
}

Test(directory, in_a_folder_with_other_things_it_has_one_of_its_own) {
    scratch_make_folder("project");
    scratch_make_folder("project/tmp");
    scratch_write_text("project/tmp/thesis.tex", "chapter 3");
    scratch_write_text("project/lock", "mine");
    expect_taken("project", "project/" GW_DIRECTORY_INNER);
    expect_taken("project", "project/" GW_DIRECTORY_INNER);
    cr_assert(!exists("project/" GW_DIRECTORY_MARKER));
    scratch_make_folder("taken");
    scratch_write_text("taken/file", "");
    scratch_make_folder("taken/" GW_DIRECTORY_INNER);
    scratch_write_text("taken/" GW_DIRECTORY_INNER "/file", "");
    expect_refused("taken", "name a missing or an empty folder by --dir");
}

Test(directory, a_level_too_high_or_too_deep_is_refused) {
    scratch_make_folder("host");
    expect_taken("host/run", "host/run");
    scratch_make_folder("host/run/chunks");
    expect_refused("host", "host/run, a directory of Godwit: give that");
    expect_refused("host/run/chunks", "is inside of");
    expect_refused("host/run/new", "is inside of");
    expect_taken("host/run", "host/run");
    expect_taken("host/other/", "host/other/");
    expect_refused("host", "holds 2 directories of Godwit, such as ");
    expect_refused("host", "host/other: give the one that is meant");
}

Test(directory, one_of_an_older_build_is_recognized_by_its_key) {
    scratch_make_folder("old");
    scratch_write_text("old/lock", "17\n");
    scratch_write_text("old/boot", "1\n");
    scratch_write_text("old/identity", "0123456789012345678901234567890123456789012345678901234567890123\n");
    expect_taken("old", "old");
    cr_assert(exists("old/" GW_DIRECTORY_MARKER));
    scratch_make_folder("similar");
    scratch_write_text("similar/lock", "17\n");
    scratch_write_text("similar/identity", "me\n");
    expect_taken("similar", "similar/" GW_DIRECTORY_INNER);
}

Test(directory, what_is_no_folder_is_an_error) {
    scratch_write_text("file", "");
    cr_assert(!gw_directory_open(scratch_path("file"), &directory, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert(!gw_directory_open(scratch_path("no/parent"), &directory, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
}

Test(directory, a_link_in_the_place_of_an_own_file_is_refused_by_its_name) {
    static const char *const names[] = {"tmp",      "chunks",      "manifests", "lock",
                                        "identity", "known-peers", "energy"};
    scratch_make_folder("other");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[40], link[60];
        snprintf(name, sizeof name, "linked%zu", i);
        snprintf(link, sizeof link, "%s/%s", name, names[i]);
        expect_taken(name, name);
        cr_assert_eq(symlink("../other", scratch_path(link)), 0);
        expect_refused(name, names[i]);
    }
}

/* The user may put the directory behind a link; inside, no link is followed, whatever is asked for. */
Test(directory, nothing_leaves_it) {
    char path[GW_PATH_BYTES];
    scratch_make_folder("other");
    scratch_write_text("other/results.csv", "mine");
    scratch_make_folder("disk");
    cr_assert_eq(symlink("disk", scratch_path("run")), 0);
    cr_assert(gw_directory_open(scratch_path("run"), &directory, &err), "%s", err.text);
    gw_io *io = &directory.io;
    cr_assert_eq(symlink("../other", scratch_path("disk/sub")), 0);
    cr_assert_eq(symlink("../other/results.csv", scratch_path("disk/file")), 0);
    snprintf(path, sizeof path, "%s/sub/results.csv", directory.path);
    cr_assert_lt(io->open(io, path, O_RDWR, 0), 0);
    cr_assert_lt(io->unlink(io, path), 0);
    cr_assert_lt(io->rename(io, path, scratch_path("run/x")), 0);
    cr_assert_lt(io->rename(io, scratch_path("run/" GW_DIRECTORY_MARKER), path), 0);
    snprintf(path, sizeof path, "%s/sub/made", directory.path);
    cr_assert_lt(io->mkdir(io, path, 0700), 0);
    cr_assert_lt(io->open(io, path, O_WRONLY | O_CREAT, 0600), 0);
    snprintf(path, sizeof path, "%s/file", directory.path);
    cr_assert_lt(io->open(io, path, O_WRONLY | O_TRUNC, 0), 0);
    cr_assert_eq(errno, ELOOP);
    snprintf(path, sizeof path, "%s/../other/results.csv", directory.path);
    cr_assert_lt(io->unlink(io, path), 0);
    cr_assert_eq(errno, EXDEV);
    cr_assert(!exists("other/made") && exists("other/results.csv"));
    /* The link itself is the directory's own. */
    snprintf(path, sizeof path, "%s/file", directory.path);
    cr_assert_eq(io->unlink(io, path), 0);
    cr_assert(exists("other/results.csv") && !exists("disk/file"));
    gw_directory_close(&directory);
}

Test(directory, files_are_made_and_moved_in_it_as_anywhere) {
    char folder[GW_PATH_BYTES], file[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    void *bytes;
    size_t length;
    cr_assert(gw_directory_open(scratch_path("d"), &directory, &err), "%s", err.text);
    gw_io *io = &directory.io;
    snprintf(folder, sizeof folder, "%s/chunks", directory.path);
    snprintf(file, sizeof file, "%s/chunks/one", directory.path);
    snprintf(temporary, sizeof temporary, "%s/one.new", directory.path);
    cr_assert(gw_durable_folder(io, folder, NULL, &err), "%s", err.text);
    cr_assert(gw_durable_replace(io, temporary, folder, file, "text", 4, &err), "%s", err.text);
    cr_assert(gw_durable_sync_folder(io, directory.path, &err), "%s", err.text);
    cr_assert(gw_durable_read(io, file, 10, &bytes, &length, &err), "%s", err.text);
    cr_assert_arr_eq(bytes, "text", 4);
    free(bytes);
    cr_assert(exists("d/chunks/one") && !exists("d/one.new"));
    gw_directory_close(&directory);
}

/* A peer goes on in a directory that was renamed while it runs, and can tell where that is. */
Test(directory, one_that_is_renamed_goes_on_being_used) {
    char now[GW_PATH_BYTES], path[GW_PATH_BYTES], there[GW_PATH_BYTES];
    bool created;
    cr_assert(gw_directory_open(scratch_path("old"), &directory, &err), "%s", err.text);
    snprintf(path, sizeof path, "%s/manifests", directory.path);
    cr_assert(gw_durable_folder(&directory.io, path, NULL, &err), "%s", err.text);
    cr_expect_eq(gw_directory_look(&directory, now), GW_DIRECTORY_THERE);
    cr_assert_eq(rename(scratch_path("old"), (strcpy(there, scratch_path("moved")), there)), 0);
    cr_expect_eq(gw_directory_look(&directory, now), GW_DIRECTORY_MOVED);
    cr_expect_str_eq(now, there);
    cr_assert(gw_durable_folder(&directory.io, path, &created, &err), "%s", err.text);
    cr_expect_not(created, "it is there");
    scratch_make_folder("old"); /* another one */
    cr_expect_eq(gw_directory_look(&directory, now), GW_DIRECTORY_MOVED);
    char command[GW_PATH_BYTES + 16];
    snprintf(command, sizeof command, "rm -r %s", there);
    cr_assert_eq(system(command), 0);
    cr_expect_eq(gw_directory_look(&directory, now), GW_DIRECTORY_REMOVED);
    gw_directory_close(&directory);
}
