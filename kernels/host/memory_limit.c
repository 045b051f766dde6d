#include "kernels/host/memory_limit.h"

#include "kernels/host/control_groups.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number in a group's file; UINT64_MAX where the file is missing or holds a word ("max"). */
static uint64_t read_limit(const char *folder, const char *name) {
    char line[GW_GROUP_LINE];
    return gw_group_line(folder, name, line) ? gw_group_number(line) : UINT64_MAX;
}

/* The number behind `key` on a line of its own; UINT64_MAX where there is no such line. */
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

/* The names of a group's files, by version. */
typedef struct files {
    const char *limit, *use;
    const char *idle; /* key in memory.stat of the use that consists of idle pages of files */
} files;

static const files version1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
                   version2 = {"memory.max", "memory.current", "inactive_file"};

static const files *files_of(gw_group_version version) {
    return version == GW_GROUPS_1 ? &version1 : &version2;
}

static uint64_t limit_of_group(gw_group_version version, const char *folder) {
    return read_limit(folder, files_of(version)->limit);
}

static uint64_t left_of_group(gw_group_version version, const char *folder) {
    char path[PATH_MAX];
    const files *names = files_of(version);
    uint64_t limit = limit_of_group(version, folder), use = read_limit(folder, names->use);
    if (limit == UINT64_MAX || use == UINT64_MAX) return limit;
    bool fits = snprintf(path, sizeof path, "%s/memory.stat", folder) < (int)sizeof path;
    uint64_t idle = fits ? read_keyed(path, names->idle) : UINT64_MAX;
    if (idle != UINT64_MAX) use -= idle < use ? idle : use;
    return use < limit ? limit - use : 0;
}

uint64_t gw_memory_limit_of_groups(const char *list, const char *mounts) {
    return gw_groups_least(list, mounts, "memory", limit_of_group);
}

uint64_t gw_memory_left_of_groups(const char *list, const char *mounts) {
    return gw_groups_least(list, mounts, "memory", left_of_group);
}

uint64_t gw_memory_limit(void) {
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t groups = gw_memory_limit_of_groups(GW_OWN_GROUPS);
    return groups < machine ? groups : machine;
}

uint64_t gw_memory_left(void) {
    uint64_t kilobytes = read_keyed("/proc/meminfo", "MemAvailable:");
    uint64_t machine = kilobytes < UINT64_MAX / 1024 ? 1024 * kilobytes : UINT64_MAX;
    uint64_t groups = gw_memory_left_of_groups(GW_OWN_GROUPS);
    return groups < machine ? groups : machine;
}

uint64_t gw_memory_kills(void) {
    uint64_t kills = read_keyed("/proc/vmstat", "oom_kill");
    return kills == UINT64_MAX ? 0 : kills;
}
