/* Preloaded into a peer: others on its machine leave 16 MiB of memory. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

FILE *fopen(const char *path, const char *mode) {
    static char text[] = "MemTotal:       1000000 kB\nMemAvailable:     16384 kB\n";
    FILE *(*real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return strcmp(path, "/proc/meminfo") == 0 ? fmemopen(text, strlen(text), "r") : real(path, mode);
}
