#include "kernels/data/folder.h"

#include "core/os/directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 100, KEYS_MOST = 1 << 16, KEY_DIGITS = 64, FIRST_BYTES = 8192 };

/* Adds a path to a list, which then owns it. */
static bool add(char ***list, uint32_t *count, char *path, gw_err *err) {
    char **grown = realloc((void *)*list, (*count + 1) * sizeof *grown);
    if (grown == NULL) {
        free(path);
        return gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    }
    *list = grown;
    grown[(*count)++] = path;
    return true;
}

/* Reads at most `room` bytes from the beginning of a file; returns how many, 0 where it cannot be read. */
static size_t read_first(const char *path, char *bytes, size_t room) {
    FILE *file = fopen(path, "re");
    size_t count = file != NULL ? fread(bytes, 1, room, file) : 0;
    if (file != NULL) fclose(file);
    return count;
}

bool gw_folder_is_key(const char *path) {
    static const char digits[] = "0123456789abcdefABCDEF";
    struct stat about;
    if (stat(path, &about) != 0 || about.st_size < KEY_DIGITS || about.st_size > KEYS_MOST) return false;
    char *text = calloc(1, KEYS_MOST + 1), *rest = text, *line;
    uint32_t keys = 0;
    bool others = text == NULL || read_first(path, text, KEYS_MOST) == 0;
    while (!others && (line = strsep(&rest, "\r\n")) != NULL) {
        bool key = strspn(line, digits) == KEY_DIGITS && line[KEY_DIGITS] == '\0';
        keys += key;
        others = !key && line[0] != '#' && line[0] != '\0';
    }
    free(text);
    return !others && keys > 0;
}

bool gw_folder_is_binary(const char *path) {
    char bytes[FIRST_BYTES];
    size_t count = read_first(path, bytes, sizeof bytes);
    return count > 0 && memchr(bytes, 0, count) != NULL;
}

static bool is_of_peer(const char *path) {
    char marker[GW_PATH_BYTES];
    gw_err ignored;
    return gw_durable_path(marker, &ignored, "%s/" GW_DIRECTORY_MARKER, path) && access(marker, F_OK) == 0;
}

static bool list(const char *path, int depth, gw_folder *folder, gw_err *err);

/* Adds an entry of a folder; where it is a folder, the files below it. It takes ownership of the path. */
static bool list_entry(char *path, int depth, gw_folder *folder, gw_err *err) {
    struct stat there, itself;
    bool known = path != NULL || gw_fail(err, GW_E_NOMEM, "no memory for a list of files");
    if (!known) return false;
    if (stat(path, &there) == 0 && lstat(path, &itself) == 0) {
        bool none =
            S_ISREG(there.st_mode) ? gw_folder_is_key(path) : S_ISDIR(itself.st_mode) && is_of_peer(path);
        if (none) return add(&folder->left, &folder->left_count, path, err);
        if (S_ISREG(there.st_mode)) return add(&folder->paths, &folder->count, path, err);
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
    for (uint32_t i = 0; i < folder->left_count; i++) free(folder->left[i]);
    free((void *)folder->paths);
    free((void *)folder->left);
    *folder = (gw_folder){.paths = NULL};
}
