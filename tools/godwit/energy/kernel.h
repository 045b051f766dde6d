/* Files of sysfs and procfs, and the texts in them. The folder under which both lie is a parameter: in a
 * container they may be elsewhere than in "/", and in tests they are files that a test writes.
 *
 * Thread: any; a read of such a file may wait for the hardware. */
#ifndef GODWIT_TOOLS_GODWIT_ENERGY_KERNEL_H
#define GODWIT_TOOLS_GODWIT_ENERGY_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_KERNEL_PATH = 512, GW_KERNEL_TEXT = 4096 };

/* Reads the first GW_KERNEL_TEXT - 1 bytes of ROOT/PATH. Returns 0 and a text that ends with a zero byte, or
 * the error's number. The path is formatted; one that is too long is ENAMETOOLONG. */
int gw_kernel_read(const char *root, char text[GW_KERNEL_TEXT], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A decimal number, and nothing behind it but white space. Returns false for anything else, and for numbers
 * that do not fit. */
bool gw_kernel_number(const char *text, uint64_t *number);

/* The first line of /proc/stat: the ticks in which the machine's processors have computed for anybody, which
 * is all of their time but idle, waiting for disks, and taken by a hypervisor. Returns false if the text is
 * something else. */
bool gw_kernel_busy(const char *text, uint64_t *ticks);

/* /proc/PID/stat: the ticks in which the process and those of its children that it has waited for have
 * computed. Returns false if the text is something else. */
bool gw_kernel_own(const char *text, uint64_t *ticks);

#endif
