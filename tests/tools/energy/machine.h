/* A machine that shows what it takes: sysfs and procfs as files in the scratch folder. */
#ifndef GODWIT_TESTS_TOOLS_ENERGY_MACHINE_H
#define GODWIT_TESTS_TOOLS_ENERGY_MACHINE_H

#include <stdint.h>

/* Makes the folders and writes a text to a file below the root, in one piece; replaces an older one. */
void machine_write(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Removes a file or an empty folder below the root. */
void machine_remove(const char *path);
/* Makes a zone of powercap. */
void machine_zone(const char *entry, const char *name, uint64_t energy_uj, uint64_t range_uj);
/* Sets the counter of a zone. */
void machine_count(const char *entry, uint64_t energy_uj);
/* Sets the ticks in which the machine, and this process, have computed. */
void machine_ticks(uint64_t machine, uint64_t own);
/* The root; the scratch folder is open. */
const char *machine_root(void);

#endif
