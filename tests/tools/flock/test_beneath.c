/* Files beneath a folder in which somebody else has left links, pipes and folders: nothing outside of it is read, made or
 * removed. */
#include "scratch.h"
#include "tools/godwit/flock/beneath.h"
#include "tools/godwit/flock/unpack.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const gw_hash chunk = {{1}};

static bool read_chunk(void *context, const gw_hash *name, void *bytes, uint32_t length, gw_err *err) {
    (void)context;
    (void)err;
    cr_assert(gw_hash_equal(name, &chunk));
    memset(bytes, 'x', length);
    return true;
}

/* Unpacks one file of three bytes. Returns the code. */
static gw_code unpack(const char *path, bool executable) {
    gw_job_file file = {path, executable, 3, &chunk};
    gw_job_files files = {.list = &file, .count = 1, .bytes = 3};
    gw_err err = {GW_OK, ""};
    return gw_unpack(scratch_path("in"), &files, read_chunk, NULL, &err) ? GW_OK : err.code;
}

static const char *inner(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "in/%s", name);
    return scratch_path(path);
}

static void open_scratch(void) {
    scratch_open();
    cr_assert(mkdir(scratch_path("in"), 0700) == 0 && mkdir(scratch_path("out"), 0700) == 0);
    int fd = open(scratch_path("out/file"), O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, "old", 3) == 3 && close(fd) == 0);
}

static bool is_untouched(void) {
    char text[10] = "";
    int fd = open(scratch_path("out/file"), O_RDONLY);
    bool same = fd >= 0 && read(fd, text, sizeof text) == 3 && memcmp(text, "old", 3) == 0;
    close(fd);
    return same && access(scratch_path("out/a"), F_OK) != 0;
}

TestSuite(beneath, .init = open_scratch, .fini = scratch_close);

Test(beneath, files_are_made_with_their_folders_and_modes) {
    struct stat status;
    cr_expect_eq(unpack("a/b/c", false), GW_OK);
    cr_expect(stat(inner("a/b/c"), &status) == 0 && status.st_size == 3 && (status.st_mode & 0777) == 0600);
    cr_expect_eq(unpack("a/b/c", true), GW_OK); /* in its place */
    cr_expect(stat(inner("a/b/c"), &status) == 0 && (status.st_mode & 0777) == 0700);
    cr_expect_eq(unpack("a/b", false), GW_E_INVALID);     /* a folder */
    cr_expect_eq(unpack("a/b/c/d", false), GW_E_INVALID); /* beneath a file */
}

Test(beneath, no_link_leads_out) {
    struct stat status;
    gw_err err;
    cr_assert(symlink("../out", inner("folder")) == 0 && symlink("../out/file", inner("file")) == 0);
    cr_assert(mkfifo(inner("pipe"), 0600) == 0);
    cr_expect_eq(unpack("folder/a", false), GW_E_INVALID);
    cr_expect_eq(unpack("folder/file", false), GW_E_INVALID);
    cr_expect_eq(unpack("file", false), GW_E_INVALID);
    cr_expect_eq(unpack("pipe", false), GW_E_INVALID);
    int root = open(scratch_path("in"), O_RDONLY | O_DIRECTORY);
    cr_expect_lt(gw_beneath_open(root, "folder/file", &status, &err), 0);
    cr_expect_lt(gw_beneath_open(root, "file", &status, &err), 0);
    cr_expect_lt(gw_beneath_open(root, "pipe", &status, &err), 0); /* it does not wait for a writer */
    close(root);
    cr_expect(is_untouched());
}

static bool count_file(void *context, const char *path, const struct stat *status) {
    (void)status;
    cr_expect_str_eq(path, "a/b");
    ++*(int *)context;
    return true;
}

Test(beneath, what_is_listed_and_removed_is_inside) {
    int count = 0, root = open(scratch_path("in"), O_RDONLY | O_DIRECTORY);
    gw_err err;
    cr_assert_eq(unpack("a/b", false), GW_OK);
    cr_assert(symlink("../out", inner("folder")) == 0 && symlink("../../out/file", inner("a/file")) == 0);
    cr_assert(mkfifo(inner("a/pipe"), 0600) == 0);
    cr_expect(gw_beneath_list(root, count_file, &count, &err));
    cr_expect_eq(count, 1);
    cr_expect(gw_beneath_remove(root, "a", &err), "%s", err.text);
    cr_expect(gw_beneath_remove(root, "folder", &err));
    cr_expect(gw_beneath_remove(root, "missing", &err));
    cr_expect(access(inner("a"), F_OK) != 0 && faccessat(root, "folder", F_OK, AT_SYMLINK_NOFOLLOW) != 0);
    close(root);
    cr_expect(is_untouched());
}
