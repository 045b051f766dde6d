#include "kernels/memory_limit.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
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

/* The least of a group and those above it. Folders may be missing: a container often sees its own group as
 * the hierarchy's root, and is told the path that its host has. */
static uint64_t least_above(const char *mount, const char *group, const char *name) {
    uint64_t least = UINT64_MAX;
    size_t length = strcmp(group, "/") == 0 ? 0 : strlen(group);
    for (;;) {
        char path[PATH_MAX];
        int needed = snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)length, group, name);
        uint64_t limit = needed < (int)sizeof path ? read_limit(path) : UINT64_MAX;
        if (limit < least) least = limit;
        if (length == 0) return least;
        while (length > 0 && group[--length] != '/') continue;
    }
}

/* Of a line "4:cpu,memory:/group" (version 1), or "0::/group" (2, where others are mounted in a folder of its
 * own). */
static uint64_t limit_of_line(char *line, const char *mounts) {
    char mount[PATH_MAX];
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL || group[1] != '/') return UINT64_MAX;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[1] == '\0') {
        snprintf(mount, sizeof mount, "%s/unified", mounts);
        uint64_t here = least_above(mounts, group, "memory.max"),
                 apart = least_above(mount, group, "memory.max");
        return here < apart ? here : apart;
    }
    for (char *next, *name = strtok_r(controllers + 1, ",", &next); name != NULL;
         name = strtok_r(NULL, ",", &next)) {
        if (strcmp(name, "memory") != 0) continue;
        snprintf(mount, sizeof mount, "%s/memory", mounts);
        return least_above(mount, group, "memory.limit_in_bytes");
    }
    return UINT64_MAX;
}

uint64_t gw_memory_limit_of_groups(const char *list, const char *mounts) {
    char *line = NULL;
    size_t room = 0;
    uint64_t least = UINT64_MAX;
    FILE *file = fopen(list, "re");
    if (file == NULL) return least;
    while (getline(&line, &room, file) >= 0) {
        uint64_t limit = limit_of_line(line, mounts);
        if (limit < least) least = limit;
    }
    free(line);
    fclose(file);
    return least;
}

uint64_t gw_memory_limit(void) {
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t groups = gw_memory_limit_of_groups("/proc/self/cgroup", "/sys/fs/cgroup");
    return groups < machine ? groups : machine;
}
