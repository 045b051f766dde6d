#include "scratch.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 400 };

static char folder[PATH / 2];

void scratch_open(void) {
    const char *base = getenv("TMPDIR");
    int length = snprintf(folder, sizeof folder, "%s/godwit-test-XXXXXX", base != NULL ? base : "/tmp");
    cr_assert(length < (int)sizeof folder && mkdtemp(folder) != NULL, "%s", folder);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status, (void)type, (void)where;
    return remove(path);
}

void scratch_close(void) {
    cr_assert_eq(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0, "%s", folder);
}

const char *scratch_folder(void) {
    return folder;
}

const char *scratch_path(const char *name) {
    static char paths[4][PATH];
    static int next;
    char *path = paths[next++ % 4];
    cr_assert_lt(snprintf(path, PATH, "%s/%s", folder, name), PATH, "%s", name);
    return path;
}

const char *scratch_write(const char *name, const void *bytes, size_t count) {
    const char *path = scratch_path(name);
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0, "%s", path);
    return path;
}

const char *scratch_write_text(const char *name, const char *text) {
    return scratch_write(name, text, strlen(text));
}

void scratch_make_folder(const char *name) {
    cr_assert_eq(mkdir(scratch_path(name), 0755), 0, "%s", name);
}
