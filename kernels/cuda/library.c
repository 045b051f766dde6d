#include "kernels/cuda/library.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 6 };

/* Folders to look in, in order; "" is the dynamic linker's own way. Returns how many. */
static int list_places(char places[PLACES][PATH_MAX]) {
    int count = 0;
    char program[PATH_MAX];
    snprintf(places[count++], PATH_MAX, "%s", "");
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) {
        program[length] = '\0';
        snprintf(places[count++], PATH_MAX, "%.4000s/lib/", dirname(program));
    }
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    for (int i = 0; i < 2; i++) {
        const char *folder = getenv(variables[i]);
        if (folder != NULL && folder[0] != '\0')
            snprintf(places[count++], PATH_MAX, "%.4000s/lib64/", folder);
    }
    snprintf(places[count++], PATH_MAX, "/usr/local/cuda/lib64/");
    return count;
}

void *gw_cuda_library_open(const char *name, gw_err *err) {
    char places[PLACES][PATH_MAX], path[PATH_MAX + NAME_MAX], looked[300] = "", why[200] = "";
    int count = list_places(places);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s%s", places[i], name);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) return library;
        const char *reason = dlerror();
        bool says_more = places[i][0] == '\0' || access(path, F_OK) == 0; /* than that a file is missing */
        if (says_more) snprintf(why, sizeof why, "%s", reason != NULL ? reason : "unknown");
        size_t used = strlen(looked);
        if (places[i][0] != '\0') snprintf(looked + used, sizeof looked - used, ", %s", places[i]);
    }
    gw_fail(
        err, GW_E_UNSUPPORTED,
        "%s cannot be opened (%s); looked where the dynamic linker does (LD_LIBRARY_PATH)%s; it comes with "
        "the CUDA toolkit",
        name, why, looked);
    return NULL;
}

void *gw_cuda_library_function(void *library, const char *library_name, const char *name, gw_err *err) {
    void *function = dlsym(library, name);
    if (function == NULL) gw_fail(err, GW_E_UNSUPPORTED, "%s has no function %s", library_name, name);
    return function;
}
