#include "kernels/cuda/runtime/library.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
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

/* Where the dynamic linker found what it opened. */
static const char *path_of(void *library, const char *asked) {
    struct link_map *map = NULL;
    bool known = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL && map->l_name[0] != '\0';
    return known ? map->l_name : asked;
}

/* Adds to a list what of it still fits. */
static void add(char *list, size_t size, const char *between, const char *text) {
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used > 0 ? between : "", text);
}

typedef struct search {
    gw_cuda_library_judge *is_good;
    const void *context;
    char looked[300], why[200]; /* why none was opened, in the dynamic linker's words */
    char refused[300];          /* which were opened, and why they are no good */
} search;

/* What is there in this place, if it is good. */
static void *open_in(search *s, const char *place, const char *name) {
    char path[PATH_MAX + NAME_MAX];
    gw_err err;
    snprintf(path, sizeof path, "%s%s", place, name);
    if (place[0] != '\0') add(s->looked, sizeof s->looked, ", ", place);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        bool says_more = place[0] == '\0' || access(path, F_OK) == 0; /* than that a file is missing */
        if (says_more) snprintf(s->why, sizeof s->why, "%s", reason != NULL ? reason : "unknown");
        return NULL;
    }
    if (s->is_good == NULL || s->is_good(s->context, library, &err)) return library;
    (void)gw_fail_in(&err, "%s", path_of(library, path));
    if (strstr(s->refused, err.text) == NULL) add(s->refused, sizeof s->refused, "; ", err.text);
    return NULL; /* it stays open: closing runs code of it that nobody else ever runs */
}

void *gw_cuda_library_open(const char *name, gw_cuda_library_judge *is_good, const void *context,
                           gw_err *err) {
    char places[PLACES][PATH_MAX];
    search s = {.is_good = is_good, .context = context};
    int count = list_places(places);
    for (int i = 0; i < count; i++) {
        void *library = open_in(&s, places[i], name);
        if (library != NULL) return library;
    }
    gw_fail(err, GW_E_UNSUPPORTED,
            "%s cannot be %s (%s); looked where the dynamic linker does (LD_LIBRARY_PATH), %s; it comes with "
            "the CUDA toolkit",
            name, s.refused[0] != '\0' ? "used" : "opened", s.refused[0] != '\0' ? s.refused : s.why,
            s.looked);
    return NULL;
}

void *gw_cuda_library_function(void *library, const char *library_name, const char *name, gw_err *err) {
    void *function = dlsym(library, name);
    if (function == NULL) gw_fail(err, GW_E_UNSUPPORTED, "%s has no function %s", library_name, name);
    return function;
}
