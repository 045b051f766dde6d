#include "machine.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *machine_root(void) {
    static char root[300];
    snprintf(root, sizeof root, "%s/machine", scratch_folder());
    return root;
}

static void make_folders(const char *path) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + strlen(scratch_folder()) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(folder, 0755);
        *slash = '/';
    }
}

void machine_write(const char *path, const char *format, ...) {
    char whole[600], temporary[620];
    snprintf(whole, sizeof whole, "%s/%s", machine_root(), path);
    snprintf(temporary, sizeof temporary, "%s.new", whole);
    make_folders(whole);
    FILE *out = fopen(temporary, "w");
    cr_assert_not_null(out, "%s", temporary);
    va_list args;
    va_start(args, format);
    vfprintf(out, format, args);
    va_end(args);
    cr_assert_eq(fclose(out), 0);
    cr_assert_eq(rename(temporary, whole), 0);
}

void machine_remove(const char *path) {
    char whole[600];
    snprintf(whole, sizeof whole, "%s/%s", machine_root(), path);
    cr_assert_eq(remove(whole), 0, "%s", whole);
}

void machine_count(const char *entry, uint64_t energy_uj) {
    char path[200];
    snprintf(path, sizeof path, "sys/class/powercap/%s/energy_uj", entry);
    machine_write(path, "%" PRIu64 "\n", energy_uj);
}

void machine_zone(const char *entry, const char *name, uint64_t energy_uj, uint64_t range_uj) {
    char path[200];
    snprintf(path, sizeof path, "sys/class/powercap/%s/name", entry);
    machine_write(path, "%s\n", name);
    snprintf(path, sizeof path, "sys/class/powercap/%s/max_energy_range_uj", entry);
    machine_write(path, "%" PRIu64 "\n", range_uj);
    machine_count(entry, energy_uj);
}

void machine_ticks(uint64_t machine, uint64_t own) {
    machine_write("proc/stat", "cpu  %" PRIu64 " 0 0 77777 888 0 0 999 5 0\ncpu0 1 2 3 4\n", machine);
    machine_write("proc/self/stat", "7 (a) b (c) S 1 7 7 0 -1 4194560 9 9 9 9 %" PRIu64 " 0 0 0 20 0 3 0\n",
                  own);
}
