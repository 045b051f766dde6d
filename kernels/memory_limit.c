#include "kernels/memory_limit.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number that a file holds; UINT64_MAX where there is no such file, or another word in it ("max"). */
static uint64_t read_limit(const char *path) {
    char text[32] = "", *end = text;
    FILE *file = fopen(path, "re");
    if (file == NULL) return UINT64_MAX;
    if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
    fclose(file);
    errno = 0;
    unsigned long long limit = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    return end != text && (*end == '\n' || *end == '\0') && errno == 0 ? limit : UINT64_MAX;
}

/* What follows `key` in a line of its own; UINT64_MAX where there is no such line. */
static uint64_t read_keyed(const char *path, const char *key) {
    char line[200];
    unsigned long long value;
    uint64_t found = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL) return found;
    size_t length = strlen(key);
    while (found == UINT64_MAX && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, length) == 0 && line[length] == ' ' &&
            sscanf(line + length, "%llu", &value) == 1)
            found = value;
    fclose(file);
    return found;
}

/* Which files of a group say what, by the version of groups. */
typedef struct files {
    const char *limit, *use;
    const char *idle; /* in memory.stat: what of its use are pages of files that may go */
} files;

static const files version1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
                   version2 = {"memory.max", "memory.current", "inactive_file"};

static bool path_in(const char *folder, const char *name, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

static uint64_t limit_of_group(const files *names, const char *folder) {
    char path[PATH_MAX];
    return path_in(folder, names->limit, path) ? read_limit(path) : UINT64_MAX;
}

static uint64_t left_of_group(const files *names, const char *folder) {
    char path[PATH_MAX];
    uint64_t limit = limit_of_group(names, folder);
    uint64_t use = path_in(folder, names->use, path) ? read_limit(path) : UINT64_MAX;
    if (limit == UINT64_MAX || use == UINT64_MAX) return limit;
    uint64_t idle = path_in(folder, "memory.stat", path) ? read_keyed(path, names->idle) : UINT64_MAX;
    if (idle != UINT64_MAX) use -= idle < use ? idle : use;
    return use < limit ? limit - use : 0;
}

typedef uint64_t measure(const files *names, const char *folder);

/* The least of a group and those above it. Folders may be missing: a container often sees its own group as
 * the hierarchy's root, and is told the path that its host has. */
static uint64_t least_above(const char *mount, const char *group, const files *names, measure *of) {
    uint64_t least = UINT64_MAX;
    size_t length = strcmp(group, "/") == 0 ? 0 : strlen(group);
    for (;;) {
        char folder[PATH_MAX];
        int needed = snprintf(folder, sizeof folder, "%s%.*s", mount, (int)length, group);
        uint64_t here = needed < (int)sizeof folder ? of(names, folder) : UINT64_MAX;
        if (here < least) least = here;
        if (length == 0) return least;
        while (length > 0 && group[--length] != '/') continue;
    }
}

/* Of a line "4:cpu,memory:/group" (version 1), or "0::/group" (2, where others are mounted in a folder of its
 * own). */
static uint64_t least_of_line(char *line, const char *mounts, measure *of) {
    char mount[PATH_MAX];
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL || group[1] != '/') return UINT64_MAX;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[1] == '\0') {
        snprintf(mount, sizeof mount, "%s/unified", mounts);
        uint64_t here = least_above(mounts, group, &version2, of),
                 apart = least_above(mount, group, &version2, of);
        return here < apart ? here : apart;
    }
    for (char *next, *name = strtok_r(controllers + 1, ",", &next); name != NULL;
         name = strtok_r(NULL, ",", &next)) {
        if (strcmp(name, "memory") != 0) continue;
        snprintf(mount, sizeof mount, "%s/memory", mounts);
        return least_above(mount, group, &version1, of);
    }
    return UINT64_MAX;
}

static uint64_t least_of_groups(const char *list, const char *mounts, measure *of) {
    char *line = NULL;
    size_t room = 0;
    uint64_t least = UINT64_MAX;
    FILE *file = fopen(list, "re");
    if (file == NULL) return least;
    while (getline(&line, &room, file) >= 0) {
        uint64_t here = least_of_line(line, mounts, of);
        if (here < least) least = here;
    }
    free(line);
    fclose(file);
    return least;
}

uint64_t gw_memory_limit_of_groups(const char *list, const char *mounts) {
    return least_of_groups(list, mounts, limit_of_group);
}

uint64_t gw_memory_left_of_groups(const char *list, const char *mounts) {
    return least_of_groups(list, mounts, left_of_group);
}

#define OWN_GROUPS "/proc/self/cgroup", "/sys/fs/cgroup"

uint64_t gw_memory_limit(void) {
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t groups = gw_memory_limit_of_groups(OWN_GROUPS);
    return groups < machine ? groups : machine;
}

uint64_t gw_memory_left(void) {
    uint64_t kilobytes = read_keyed("/proc/meminfo", "MemAvailable:");
    uint64_t machine = kilobytes < UINT64_MAX / 1024 ? 1024 * kilobytes : UINT64_MAX;
    uint64_t groups = gw_memory_left_of_groups(OWN_GROUPS);
    return groups < machine ? groups : machine;
}
