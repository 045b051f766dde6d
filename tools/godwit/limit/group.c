#include "tools/godwit/limit/group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 4096, LOOK_MS = 10, LOOKS = 200, GROUP_MODE = 0755 };

#define MEMBER "member" /* the group of this process, beside the folder */

/* Files of a group. */

static bool write_file(const char *group, const char *file, const char *text, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!gw_durable_path(path, err, "%s/%s", group, file)) return false;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t done = fd >= 0 ? write(fd, text, strlen(text)) : -1;
    int why = errno;
    if (fd >= 0) close(fd);
    return done >= 0 || gw_fail_errno(err, why, "%s", path);
}

static bool read_file(const char *group, const char *file, char text[FILE_BYTES]) {
    char path[GW_PATH_BYTES];
    gw_err err;
    text[0] = '\0';
    int fd = gw_durable_path(path, &err, "%s/%s", group, file) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = fd >= 0 ? read(fd, text, FILE_BYTES - 1) : -1;
    if (fd >= 0) close(fd);
    if (got >= 0) text[got] = '\0';
    return got >= 0;
}

/* The number behind a word at the beginning of a line; 0: there is no such line. */
static uint64_t number_of(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, length) == 0 && line[length] == ' ')
            return strtoull(line + length + 1, NULL, 10);
    }
    return 0;
}

/* Where this process is. */

/* Finds where groups of version 2 are mounted: the folder, and which group that is. */
static bool find_mount(char folder[GW_PATH_BYTES], char root[GW_PATH_BYTES]) {
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file != NULL && !found && getline(&line, &size, file) > 0) {
        const char *behind = strstr(line, " - cgroup2 ");
        found = behind != NULL && sscanf(line, "%*s %*s %*s %4095s %4095s", root, folder) == 2;
    }
    if (file != NULL) fclose(file);
    free(line);
    return found;
}

static bool find_own(char own[GW_PATH_BYTES], gw_err *err) {
    char folder[GW_PATH_BYTES], root[GW_PATH_BYTES], line[GW_PATH_BYTES];
    bool found = false;
    if (!find_mount(folder, root))
        return gw_fail(err, GW_E_NOTFOUND, "this system has no control groups of version 2");
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, "0::/", 4) == 0;
    if (file != NULL) fclose(file);
    if (!found) return gw_fail(err, GW_E_NOTFOUND, "this process is in no control group of version 2");
    line[strcspn(line, "\n")] = '\0';
    size_t above = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(line + 3, root, above) != 0)
        return gw_fail(err, GW_E_NOTFOUND, "the control group of this process cannot be seen from here");
    const char *below = line + 3 + above;
    return gw_durable_path(own, err, "%s%s", folder, strcmp(below, "/") == 0 ? "" : below);
}

/* Whether this process is the only one of a group. */
static bool is_alone(const char *group) {
    char text[FILE_BYTES];
    return read_file(group, "cgroup.procs", text) && strtol(text, NULL, 10) == (long)getpid() &&
           strchr(text, '\n') == strrchr(text, '\n');
}

static bool make(const char *path, gw_err *err) {
    return mkdir(path, GROUP_MODE) == 0 || errno == EEXIST ||
           gw_fail_errno(err, errno, "the control group %s cannot be made", path);
}

/* Moves this process into a group of its own below `base`, so that others below it can have limits. */
static void step_aside(const char *base) {
    char path[GW_PATH_BYTES];
    gw_err err;
    if (gw_durable_path(path, &err, "%s/%s", base, MEMBER) && make(path, &err))
        write_file(path, "cgroup.procs", "0", &err);
}

/* Finds the group below which the folder is to be. */
static bool find_base(char base[GW_PATH_BYTES], gw_err *err) {
    if (!find_own(base, err)) return false;
    char *last = strrchr(base, '/');
    if (last != NULL && strcmp(last + 1, MEMBER) == 0)
        *last = '\0'; /* an earlier member has made it, or systemd by DelegateSubgroup= */
    else if (is_alone(base))
        step_aside(base);
    return true;
}

bool gw_groups_open(const char *name, gw_groups *groups, gw_err *err) {
    static const struct {
        unsigned kind;
        const char *word;
    } controllers[] = {
        {GW_GROUP_MEMORY, "+memory"}, {GW_GROUP_PROCESSES, "+pids"}, {GW_GROUP_CORES, "+cpuset"}};
    char base[GW_PATH_BYTES];
    gw_err ignored;
    *groups = (gw_groups){.kinds = 0};
    if (!find_base(base, err) || !gw_durable_path(groups->path, err, "%s/%s", base, name) ||
        !make(groups->path, err)) {
        groups->path[0] = '\0';
        return false;
    }
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
        if (write_file(base, "cgroup.subtree_control", controllers[i].word, &ignored) &&
            write_file(groups->path, "cgroup.subtree_control", controllers[i].word, &ignored))
            groups->kinds |= controllers[i].kind;
    return true;
}

void gw_groups_close(const gw_groups *groups) {
    if (groups->path[0] != '\0') rmdir(groups->path);
}

/* Groups of jobs. */

bool gw_group_limit(const gw_groups *groups, const char *path, const gw_group_limits *limits, gw_err *err) {
    char text[32];
    gw_err ignored;
    if ((groups->kinds & GW_GROUP_MEMORY) != 0) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)limits->memory_bytes);
        if (!write_file(path, "memory.max", limits->memory_bytes > 0 ? text : "max", err)) return false;
        /* The file is not there on machines without swap. */
        write_file(path, "memory.swap.max", limits->memory_bytes > 0 ? "0" : "max", &ignored);
    }
    if ((groups->kinds & GW_GROUP_PROCESSES) != 0) {
        snprintf(text, sizeof text, "%u", limits->processes);
        if (!write_file(path, "pids.max", limits->processes > 0 ? text : "max", err)) return false;
    }
    return true;
}

bool gw_group_make(const gw_groups *groups, const char *name, const gw_group_limits *limits,
                   char path[GW_PATH_BYTES], gw_err *err) {
    if (!gw_durable_path(path, err, "%s/%s", groups->path, name)) return false;
    if (gw_group_kill(path)) gw_group_remove(path); /* what it counts begins anew */
    return make(path, err) && gw_group_limit(groups, path, limits, err);
}

bool gw_group_set_cores(const char *path, const cpu_set_t *set, gw_err *err) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return gw_fail(err, GW_E_NOMEM, "the list of processors");
    const char *between = "";
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, set)) continue;
        fprintf(out, "%s%zu", between, i);
        between = ",";
    }
    bool good = fclose(out) == 0 && write_file(path, "cpuset.cpus", text, err);
    free(text);
    return good;
}

bool gw_group_entrance(const char *path, char entrance[GW_PATH_BYTES], gw_err *err) {
    return gw_durable_path(entrance, err, "%s/cgroup.procs", path);
}

uint32_t gw_group_killed(const char *path, bool *own) {
    char text[FILE_BYTES];
    read_file(path, "memory.events", text);
    *own = number_of(text, "oom") > 0;
    return (uint32_t)number_of(text, "oom_kill");
}

/* Before Linux 5.14 each process is killed by itself, until none is left. */
static void kill_each(const char *path) {
    char text[FILE_BYTES];
    for (int i = 0; i < LOOKS && read_file(path, "cgroup.procs", text) && text[0] != '\0'; i++) {
        for (char *at = text, *after;; at = after) {
            pid_t pid = (pid_t)strtol(at, &after, 10);
            if (after == at) break;
            if (pid > 1) kill(pid, SIGKILL);
        }
        poll(NULL, 0, LOOK_MS);
    }
}

bool gw_group_kill(const char *path) {
    gw_err err;
    if (access(path, F_OK) != 0) return false;
    if (!write_file(path, "cgroup.kill", "1", &err)) kill_each(path);
    return true;
}

void gw_group_remove(const char *path) {
    for (int i = 0; i < LOOKS && rmdir(path) != 0 && errno == EBUSY; i++) poll(NULL, 0, LOOK_MS);
}
