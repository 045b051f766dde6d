#include "tools/godwit/limit/family.h"

#include "core/base/assert.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, MOST = 65536 };

/* Processes, in the order in which they were found. */
typedef struct list {
    pid_t *pids;
    uint32_t count, room;
} list;

static void add(list *l, pid_t pid) {
    if (l->count == MOST) return;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->pids[i] == pid) return; /* its number was given to another one meanwhile */
    if (l->count == l->room) {
        l->room = 2 * l->room + 16;
        l->pids = realloc(l->pids, l->room * sizeof *l->pids);
        GW_ASSERT_MEMORY(l->pids != NULL);
    }
    l->pids[l->count++] = pid;
}

/* Adds the children of one thread. */
static void add_children(list *l, pid_t pid, const char *thread) {
    char path[80];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, thread);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1) add(l, child);
    if (file != NULL) fclose(file);
}

typedef void each_thread(void *context, pid_t pid, const char *thread);

static void visit_threads(pid_t pid, each_thread *each, void *context) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') each(context, pid, entry->d_name);
    if (folder != NULL) closedir(folder);
}

static void add_of_thread(void *context, pid_t pid, const char *thread) {
    add_children(context, pid, thread);
}

/* A process and all its descendants. */
static list find(pid_t root) {
    list l = {.count = 0};
    add(&l, root);
    for (uint32_t i = 0; i < l.count; i++) visit_threads(l.pids[i], add_of_thread, &l);
    return l;
}

/* The sum of the lines of a file of a process that begin with one of two words, in bytes. False: it has neither, or has
 * ended. */
static bool sum_lines(pid_t pid, const char *name, const char *one, const char *other, uint64_t *bytes) {
    char path[60], line[256], word[40];
    unsigned long long kib;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    *bytes = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%39[^:]: %llu kB", word, &kib) != 2) continue;
        if (strcmp(word, one) != 0 && strcmp(word, other) != 0) continue;
        *bytes += kib << 10;
        found = true;
    }
    if (file != NULL) fclose(file);
    return found;
}

/* What a process has itself: the pages that it shares count as often as they are shared. */
static uint64_t quick_memory(pid_t pid) {
    uint64_t bytes;
    sum_lines(pid, "status", "RssAnon", "RssShmem", &bytes);
    return bytes;
}

/* The same, of pages that are shared a part. Kernels before 5.9 tell only the sum with those of files. */
static uint64_t careful_memory(pid_t pid) {
    uint64_t bytes;
    if (sum_lines(pid, "smaps_rollup", "Pss_Anon", "Pss_Shmem", &bytes) ||
        sum_lines(pid, "smaps_rollup", "Pss", "Pss", &bytes))
        return bytes;
    return quick_memory(pid);
}

static uint64_t add_up(const list *l, uint64_t (*memory)(pid_t pid), pid_t *largest) {
    uint64_t sum = 0, most = 0;
    *largest = 0;
    for (uint32_t i = 1; i < l->count; i++) { /* without the first */
        uint64_t bytes = memory(l->pids[i]);
        sum += bytes;
        if (bytes <= most) continue;
        most = bytes;
        *largest = l->pids[i];
    }
    return sum;
}

uint64_t gw_family_memory(pid_t root, uint64_t limit_bytes, pid_t *largest) {
    list l = find(root);
    uint64_t sum = add_up(&l, quick_memory, largest);
    if (sum > limit_bytes) sum = add_up(&l, careful_memory, largest);
    free(l.pids);
    return sum;
}

/* Processors. */

typedef struct move {
    const cpu_set_t *before, *set;
    bool moved;
} move;

static void move_thread(void *context, pid_t pid, const char *thread) {
    move *m = context;
    pid_t id = (pid_t)strtol(thread, NULL, 10);
    cpu_set_t now;
    (void)pid;
    if (sched_getaffinity(id, sizeof now, &now) != 0 || !CPU_EQUAL(&now, m->before)) return;
    m->moved |= sched_setaffinity(id, sizeof *m->set, m->set) == 0;
}

void gw_family_set_cores(pid_t root, const cpu_set_t *before, const cpu_set_t *set) {
    move m = {before, set, true};
    if (CPU_EQUAL(before, set)) return;
    for (int round = 0; m.moved && round < ROUNDS; round++) { /* one may have started another meanwhile */
        list l = find(root);
        m.moved = false;
        for (uint32_t i = 0; i < l.count; i++) visit_threads(l.pids[i], move_thread, &m);
        free(l.pids);
    }
}
