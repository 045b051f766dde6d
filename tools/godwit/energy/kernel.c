#include "tools/godwit/energy/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int gw_kernel_read(const char *root, char text[GW_KERNEL_TEXT], const char *format, ...) {
    char path[GW_KERNEL_PATH];
    text[0] = '\0';
    size_t used = (size_t)snprintf(path, sizeof path, "%s/", root);
    if (used >= sizeof path) return ENAMETOOLONG;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path + used, sizeof path - used, format, args);
    va_end(args);
    if (length < 0 || used + (size_t)length >= sizeof path) return ENAMETOOLONG;
    /* A pipe in the place of a file holds nobody up. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return errno;
    ssize_t got;
    do got = read(fd, text, GW_KERNEL_TEXT - 1);
    while (got < 0 && errno == EINTR);
    int failure = got < 0 ? errno : 0;
    close(fd);
    text[got < 0 ? 0 : got] = '\0';
    return failure;
}

/* Reads digits from *at on, behind blanks, and moves *at behind them. */
static bool take_number(const char **at, uint64_t *number) {
    const char *from = *at + strspn(*at, " \t");
    uint64_t value = 0;
    size_t digits = strspn(from, "0123456789");
    for (size_t i = 0; i < digits; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(from[i] - '0'), &value))
            return false;
    *at = from + digits;
    *number = value;
    return digits > 0;
}

bool gw_kernel_number(const char *text, uint64_t *number) {
    const char *at = text;
    return take_number(&at, number) && at[strspn(at, " \t\n")] == '\0';
}

static bool add_up(uint64_t *sum, uint64_t part) {
    return !__builtin_add_overflow(*sum, part, sum);
}

bool gw_kernel_busy(const char *text, uint64_t *ticks) {
    enum { USER, NICE, SYSTEM, IDLE, WAITING, INTERRUPTS, SOFT_INTERRUPTS, FIELDS };
    const char *at = text + 3;
    *ticks = 0;
    if (strncmp(text, "cpu ", 4) != 0) return false;
    for (int i = USER; i < FIELDS; i++) {
        uint64_t field;
        if (!take_number(&at, &field)) return false;
        /* Guests' time is in the user's already, and a hypervisor's comes behind these fields. */
        if (i != IDLE && i != WAITING && !add_up(ticks, field)) return false;
    }
    return true;
}

bool gw_kernel_own(const char *text, uint64_t *ticks) {
    enum { BEFORE_TIMES = 11, TIMES = 4 }; /* fields behind the name: state to cmajflt; utime to cstime */
    const char *at = strrchr(text, ')');   /* the name may have spaces and parentheses in it */
    *ticks = 0;
    if (at == NULL) return false;
    at++;
    for (int i = 0; i < BEFORE_TIMES; i++) {
        at += strspn(at, " ");
        size_t length = strcspn(at, " \n");
        if (length == 0) return false;
        at += length;
    }
    for (int i = 0; i < TIMES; i++) {
        uint64_t field;
        if (!take_number(&at, &field) || !add_up(ticks, field)) return false;
    }
    return true;
}
