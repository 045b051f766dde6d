#include "kernels/data/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH = 100 };

static bool add(gw_folder *folder, char *path, gw_err *err) {
    char **grown = realloc((void *)folder->paths, (folder->count + 1) * sizeof *grown);
    if (grown == NULL) {
        free(path);
        return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    }
    folder->paths = grown;
    grown[folder->count++] = path;
    return true;
}

static bool list(const char *path, int depth, gw_folder *folder, gw_err *err);

/* Adds an entry of a folder; where it is a folder, the files below it. It takes ownership of the path. */
static bool list_entry(char *path, int depth, gw_folder *folder, gw_err *err) {
    struct stat there, itself;
    bool known = path != NULL || gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    if (!known) return false;
    if (stat(path, &there) == 0 && lstat(path, &itself) == 0) {
        if (S_ISREG(there.st_mode)) return add(folder, path, err);
        if (S_ISDIR(itself.st_mode)) known = list(path, depth + 1, folder, err);
    }
    free(path);
    return known;
}

static bool list(const char *path, int depth, gw_folder *folder, gw_err *err) {
    if (depth == DEPTH)
        return gw_fail(err, GW_E_LIMIT, "%s: more than %d folders within each other", path, DEPTH);
    DIR *dir = opendir(path);
    if (dir == NULL) return gw_fail_errno(err, errno, "cannot read the folder %s", path);
    bool good = true;
    const struct dirent *entry = NULL;
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    do {
        char *below = NULL;
        errno = 0;
        entry = readdir(dir);
        if (entry == NULL && errno != 0) good = gw_fail_errno(err, errno, "cannot read the folder %s", path);
        if (entry == NULL || entry->d_name[0] == '.') continue;
        if (asprintf(&below, "%s%s%s", path, slash, entry->d_name) < 0) below = NULL;
        good = list_entry(below, depth, folder, err);
    } while (good && entry != NULL);
    closedir(dir);
    return good;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool gw_folder_list(const char *path, gw_folder *folder, gw_err *err) {
    *folder = (gw_folder){.paths = NULL};
    bool good = list(path, 0, folder, err);
    if (good && folder->count == 0)
        good = gw_fail(err, GW_E_NOTFOUND, "there is no file in the folder %s", path);
    if (!good) {
        gw_folder_free(folder);
        return false;
    }
    qsort((void *)folder->paths, folder->count, sizeof *folder->paths, compare);
    return true;
}

void gw_folder_free(gw_folder *folder) {
    for (uint32_t i = 0; i < folder->count; i++) free(folder->paths[i]);
    free((void *)folder->paths);
    *folder = (gw_folder){.paths = NULL};
}
