#include "tools/godwit/energy/counters.h"

#include "tools/godwit/energy/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No package takes more. What a counter seems to have counted beyond it is no energy: the counter began again
 * at 0, because its driver was loaded anew or the machine slept. */
#define ZONE_WATTS_MOST 5000.0

enum { ENTRIES = 256 };

/* The names in a folder of sys/class, sorted. */
typedef struct entries {
    uint32_t count;
    char name[ENTRIES][GW_ENERGY_NAME];
} entries;

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Returns 0 or the error's number. */
static int list(const char *root, const char *class, entries *found) {
    char path[GW_KERNEL_PATH];
    found->count = 0;
    if ((size_t)snprintf(path, sizeof path, "%s/sys/class/%s", root, class) >= sizeof path)
        return ENAMETOOLONG;
    DIR *folder = opendir(path);
    if (folder == NULL) return errno;
    const struct dirent *entry;
    while (found->count < ENTRIES && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= GW_ENERGY_NAME) continue;
        memcpy(found->name[found->count++], entry->d_name, strlen(entry->d_name) + 1);
    }
    closedir(folder);
    qsort(found->name, found->count, sizeof found->name[0], by_name);
    return 0;
}

/* Reads a word such as a zone's name; "" where there is none. */
static void read_word(const char *root, const char *class, const char *entry, const char *file,
                      char word[GW_ENERGY_NAME]) {
    char text[GW_KERNEL_TEXT];
    word[0] = '\0';
    if (gw_kernel_read(root, text, "sys/class/%s/%s/%s", class, entry, file) != 0) return;
    text[strcspn(text, "\n")] = '\0';
    if (strlen(text) < GW_ENERGY_NAME) memcpy(word, text, strlen(text) + 1);
}

static bool has_zone(const gw_energy_counters *c, const char *name) {
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->zones[i].name, name) == 0) return true;
    return false;
}

/* Notes a file that cannot be read. */
static void note_failure(gw_energy_counters *c, const char *file, int failure) {
    bool denied = failure == EACCES || failure == EPERM;
    if (c->denied || (c->lack[0] != '\0' && !denied)) return;
    c->denied = denied;
    if (denied)
        snprintf(c->lack, sizeof c->lack,
                 "this process may not read %s/sys/class/%s; as root, until the next start of the machine: "
                 "chmod a+r %s/sys/class/powercap/*/energy_uj",
                 c->root, file, c->root);
    else
        snprintf(c->lack, sizeof c->lack, "%s/sys/class/%s cannot be read: %s", c->root, file,
                 strerror(failure));
}

/* Adds a counter if it can be read. */
static void add_zone(gw_energy_counters *c, const char *class, const char *entry, const char *file,
                     const char *name) {
    char text[GW_KERNEL_TEXT];
    uint64_t value;
    if (c->count == GW_ENERGY_ZONES || has_zone(c, name)) return;
    gw_energy_zone *zone = &c->zones[c->count];
    *zone = (gw_energy_zone){.range = 0};
    if ((size_t)snprintf(zone->file, sizeof zone->file, "%s/%s/%s", class, entry, file) >= sizeof zone->file)
        return;
    snprintf(zone->name, sizeof zone->name, "%s", name);
    int failure = gw_kernel_read(c->root, text, "sys/class/%s", zone->file);
    if (failure == ENOENT) return;
    if (failure == 0 && !gw_kernel_number(text, &value)) failure = EBADMSG;
    if (failure != 0) {
        note_failure(c, zone->file, failure);
        return;
    }
    if (gw_kernel_read(c->root, text, "sys/class/%s/%s/max_energy_range_uj", class, entry) != 0 ||
        !gw_kernel_number(text, &zone->range))
        zone->range = 0;
    c->count++;
}

/* RAPL. The entry of a zone is "DRIVER:N", that of a domain inside of it "DRIVER:N:M". */

static void add_package(gw_energy_counters *c, const char *entry, bool platform) {
    char name[GW_ENERGY_NAME];
    read_word(c->root, "powercap", entry, "name", name);
    bool wanted = platform ? strcmp(name, "psys") == 0 : strncmp(name, "package-", 8) == 0;
    if (wanted) add_zone(c, "powercap", entry, "energy_uj", name);
}

static void add_memory(gw_energy_counters *c, const char *entry) {
    char name[GW_ENERGY_NAME], above[GW_ENERGY_NAME], outer[GW_ENERGY_NAME], both[2 * GW_ENERGY_NAME];
    read_word(c->root, "powercap", entry, "name", name);
    if (strcmp(name, "dram") != 0) return;
    snprintf(outer, sizeof outer, "%s", entry);
    *strrchr(outer, ':') = '\0';
    read_word(c->root, "powercap", outer, "name", above);
    snprintf(both, sizeof both, "%s/dram", above);
    if (strlen(both) < GW_ENERGY_NAME) add_zone(c, "powercap", entry, "energy_uj", both);
}

static void find_rapl(gw_energy_counters *c) {
    entries *found = calloc(1, sizeof *found);
    if (found == NULL || list(c->root, "powercap", found) != 0) {
        free(found);
        return;
    }
    /* The usual way to a package comes before the others to the same one. */
    for (int pass = 0; pass < 3; pass++)
        for (uint32_t i = 0; i < found->count; i++) {
            const char *entry = found->name[i], *first = strchr(entry, ':');
            if (first == NULL) continue;
            bool usual = strncmp(entry, "intel-rapl:", 11) == 0;
            if (pass == 2 ? c->count > 0 : usual != (pass == 0)) continue;
            if (strchr(first + 1, ':') == NULL)
                add_package(c, entry, pass == 2);
            else if (pass < 2)
                add_memory(c, entry);
        }
    free(found);
    if (c->count > 0) c->source = GW_ENERGY_RAPL;
}

/* hwmon. */

typedef void add_hwmon(gw_energy_counters *c, const char *entry, const char *driver);

/* amd_energy counts each core and each socket, which is the sum of its cores and more. */
static void add_sockets(gw_energy_counters *c, const char *entry, const char *driver) {
    if (strcmp(driver, "amd_energy") != 0) return;
    for (int i = 1; i <= 2 * ENTRIES; i++) {
        char file[40], label[GW_ENERGY_NAME];
        snprintf(file, sizeof file, "energy%d_label", i);
        read_word(c->root, "hwmon", entry, file, label);
        if (label[0] == '\0') break;
        snprintf(file, sizeof file, "energy%d_input", i);
        if (strncmp(label, "Esocket", 7) == 0) add_zone(c, "hwmon", entry, file, label);
    }
}

static void add_meter(gw_energy_counters *c, const char *entry, const char *driver) {
    if (strcmp(driver, "power_meter") == 0 && c->count == 0)
        add_zone(c, "hwmon", entry, "power1_average", "machine");
}

static void find_hwmon(gw_energy_counters *c, add_hwmon *add, gw_energy_source source) {
    entries *found = calloc(1, sizeof *found);
    if (found != NULL && list(c->root, "hwmon", found) == 0)
        for (uint32_t i = 0; i < found->count; i++) {
            char driver[GW_ENERGY_NAME];
            read_word(c->root, "hwmon", found->name[i], "name", driver);
            add(c, found->name[i], driver);
        }
    free(found);
    if (c->count > 0) c->source = source;
}

void gw_energy_counters_open(gw_energy_counters *c, const char *root, bool gpus) {
    *c = (gw_energy_counters){.source = GW_ENERGY_NONE};
    if ((size_t)snprintf(c->root, sizeof c->root, "%s", strcmp(root, "/") == 0 ? "" : root) >=
        sizeof c->root) {
        snprintf(c->lack, sizeof c->lack, "the path of the folder with sys and proc is too long");
        return;
    }
    find_rapl(c);
    if (c->source == GW_ENERGY_NONE) find_hwmon(c, add_sockets, GW_ENERGY_HWMON);
    if (c->source == GW_ENERGY_NONE && !gpus) find_hwmon(c, add_meter, GW_ENERGY_METER);
    if (c->source == GW_ENERGY_NONE && c->lack[0] == '\0')
        snprintf(c->lack, sizeof c->lack,
                 "this machine shows no counter of its processors' energy (none in %s/sys/class/powercap and "
                 "hwmon), as is usual in virtual machines",
                 c->root);
}

/* The microjoules since the last read of a zone that has `value` now. */
static double since_last(gw_energy_source source, const gw_energy_zone *zone, uint64_t value,
                         uint64_t now_ns) {
    double seconds = (double)(now_ns - zone->last_ns) * 1e-9, microjoules;
    if (source == GW_ENERGY_METER)
        microjoules = ((double)zone->last + (double)value) / 2 * seconds;
    else if (value >= zone->last)
        microjoules = (double)(value - zone->last);
    else if (zone->range >= zone->last) /* it has wrapped around */
        microjoules = (double)(zone->range - zone->last) + (double)value;
    else
        return 0;
    return microjoules <= ZONE_WATTS_MOST * 1e6 * seconds ? microjoules : 0;
}

double gw_energy_counters_read(gw_energy_counters *c, uint64_t now_ns) {
    char text[GW_KERNEL_TEXT];
    double microjoules = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        gw_energy_zone *zone = &c->zones[i];
        uint64_t value;
        if (zone->gone) continue;
        int failure = gw_kernel_read(c->root, text, "sys/class/%s", zone->file);
        if (failure == 0 && !gw_kernel_number(text, &value)) failure = EBADMSG;
        zone->gone = failure != 0;
        if (zone->gone) {
            c->incomplete = true;
            note_failure(c, zone->file, failure);
            continue;
        }
        left++;
        if (zone->last_ns != 0 && now_ns > zone->last_ns)
            microjoules += since_last(c->source, zone, value, now_ns);
        zone->last = value;
        zone->last_ns = now_ns;
    }
    if (left == 0) c->source = GW_ENERGY_NONE;
    return microjoules * 1e-6;
}
