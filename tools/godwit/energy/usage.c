#include "tools/godwit/energy/usage.h"

#include "tools/godwit/energy/kernel.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Adds the processes that a thread has started to the list. */
static void add_children(gw_energy_usage *u, const char *of, const char *thread) {
    char text[GW_KERNEL_TEXT], *at = text, *end;
    if (gw_kernel_read(u->root, text, "proc/%s/task/%s/children", of, thread) != 0) return;
    for (;;) {
        unsigned long pid = strtoul(at, &end, 10);
        if (end == at || pid == 0 || pid > UINT32_MAX || u->pid_count == GW_USAGE_PROCESSES) return;
        u->pids[u->pid_count++] = (uint32_t)pid;
        at = end;
    }
}

/* Lists the processes below this one: those that its threads have started, and theirs. */
static void list_processes(gw_energy_usage *u) {
    u->pids[0] = (uint32_t)getpid();
    u->pid_count = 1;
    for (uint32_t i = 0; u->workers && i < u->pid_count; i++) {
        char of[16] = "self", path[GW_KERNEL_PATH];
        if (i > 0) snprintf(of, sizeof of, "%u", u->pids[i]);
        if ((size_t)snprintf(path, sizeof path, "%s/proc/%s/task", u->root, of) >= sizeof path) return;
        DIR *threads = opendir(path);
        if (threads == NULL) continue;
        const struct dirent *entry;
        while ((entry = readdir(threads)) != NULL)
            if (entry->d_name[0] != '.') add_children(u, of, entry->d_name);
        closedir(threads);
    }
}

/* The ticks of this process and those below it. */
static bool read_own(gw_energy_usage *u, uint64_t *own) {
    char text[GW_KERNEL_TEXT];
    if (gw_kernel_read(u->root, text, "proc/self/stat") != 0 || !gw_kernel_own(text, own)) return false;
    list_processes(u);
    for (uint32_t i = 1; i < u->pid_count; i++) {
        uint64_t ticks;
        /* One that has ended meanwhile is in the time of the process that has waited for it. */
        if (gw_kernel_read(u->root, text, "proc/%u/stat", u->pids[i]) == 0 && gw_kernel_own(text, &ticks))
            *own += ticks;
    }
    return true;
}

/* The time since the last read; one that went back, as a process below this one has ended unseen, is none. */
static double seconds_since(uint64_t before, uint64_t now, double ticks_per_s) {
    return now > before ? (double)(now - before) / ticks_per_s : 0;
}

bool gw_energy_usage_read(gw_energy_usage *u, double *own_s, double *busy_s) {
    char text[GW_KERNEL_TEXT];
    double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    uint64_t own, busy;
    *own_s = *busy_s = 0;
    if (!read_own(u, &own)) return false;
    bool known = gw_kernel_read(u->root, text, "proc/stat") == 0 && gw_kernel_busy(text, &busy);
    if (!known) busy = u->busy;
    if (u->begun) {
        *own_s = seconds_since(u->own, own, ticks_per_s);
        *busy_s = known ? seconds_since(u->busy, busy, ticks_per_s) : -1;
    }
    u->begun = true;
    u->own = own;
    u->busy = busy;
    return true;
}
