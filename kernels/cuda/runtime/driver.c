#include "kernels/cuda/runtime/driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gw_cuda_library_version(const char *name, char *text, size_t size) {
    struct link_map *map = NULL;
    char path[PATH_MAX];
    text[0] = '\0';
    void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) return false;
    bool known = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && realpath(map->l_name, path) != NULL;
    dlclose(library);
    const char *version = known ? strstr(path, ".so.") : NULL;
    if (version == NULL || strchr(version + 4, '.') == NULL) return false;
    snprintf(text, size, "%s", version + 4);
    return true;
}

/* Reads the version from "NVRM version: NVIDIA UNIX x86_64 Kernel Module 580.95.05 ...": the first word that
 * starts as a version does. */
static bool version_of_kernel(char *text, size_t size) {
    char line[300] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file == NULL) return false;
    char *read = fgets(line, sizeof line, file), *rest;
    fclose(file);
    for (char *word = read != NULL ? strtok_r(line, " ", &rest) : NULL; word;
         word = strtok_r(NULL, " ", &rest)) {
        if (strspn(word, "0123456789") == 0 || strchr(word, '.') == NULL) continue;
        snprintf(text, size, "%s", word);
        return true;
    }
    return false;
}

/* The version is that of the libraries. Where it differs from the kernel module's (cuda-compat), the
 * libraries compile. */
void gw_cuda_driver_build(char *text, size_t size) {
    if (!gw_cuda_library_version("libcuda.so.1", text, size) && !version_of_kernel(text, size))
        snprintf(text, size, "unknown");
}
