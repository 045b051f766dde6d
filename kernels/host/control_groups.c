#include "kernels/host/control_groups.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t gw_group_number(const char *text) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    return end != NULL && strchr(" \n", *end) != NULL && errno == 0 ? number : UINT64_MAX;
}

bool gw_group_line(const char *folder, const char *name, char line[GW_GROUP_LINE]) {
    char path[PATH_MAX];
    line[0] = '\0';
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool read = fgets(line, GW_GROUP_LINE, file) != NULL;
    fclose(file);
    return read;
}

/* The least value for a group and those above it. Folders may be missing: a container often sees its own
 * group as the root of the hierarchy, while the list names the path on the host. */
static uint64_t least_above(const char *mount, const char *group, gw_group_version version,
                            gw_group_measure *of) {
    uint64_t least = UINT64_MAX;
    size_t length = strcmp(group, "/") == 0 ? 0 : strlen(group);
    for (;;) {
        char folder[PATH_MAX];
        int needed = snprintf(folder, sizeof folder, "%s%.*s", mount, (int)length, group);
        uint64_t here = needed < (int)sizeof folder ? of(version, folder) : UINT64_MAX;
        if (here < least) least = here;
        if (length == 0) return least;
        while (length > 0 && group[--length] != '/') continue;
    }
}

/* The least value for one line of the list: "4:cpu,memory:/group" (version 1) or "0::/group" (version 2,
 * which may be mounted in a folder of its own beside version 1). */
static uint64_t least_of_line(char *line, const char *mounts, const char *controller, gw_group_measure *of) {
    char mount[PATH_MAX];
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL || group[1] != '/') return UINT64_MAX;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[1] == '\0') {
        snprintf(mount, sizeof mount, "%s/unified", mounts);
        uint64_t here = least_above(mounts, group, GW_GROUPS_2, of),
                 apart = least_above(mount, group, GW_GROUPS_2, of);
        return here < apart ? here : apart;
    }
    for (char *next, *name = strtok_r(controllers + 1, ",", &next); name != NULL;
         name = strtok_r(NULL, ",", &next)) {
        if (strcmp(name, controller) != 0) continue;
        snprintf(mount, sizeof mount, "%s/%s", mounts, controller);
        return least_above(mount, group, GW_GROUPS_1, of);
    }
    return UINT64_MAX;
}

uint64_t gw_groups_least(const char *list, const char *mounts, const char *controller, gw_group_measure *of) {
    char *line = NULL;
    size_t room = 0;
    uint64_t least = UINT64_MAX;
    FILE *file = fopen(list, "re");
    if (file == NULL) return least;
    while (getline(&line, &room, file) >= 0) {
        uint64_t here = least_of_line(line, mounts, controller, of);
        if (here < least) least = here;
    }
    free(line);
    fclose(file);
    return least;
}
