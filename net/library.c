#include "net/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the loader found what it opened. */
static void note_path(void *handle, const char *fallback, char path[GW_LIBRARY_PATH]) {
    struct link_map *map = NULL;
    bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != NULL && map->l_name[0] != '\0';
    snprintf(path, GW_LIBRARY_PATH, "%s", known ? map->l_name : fallback);
}

/* Appends what of `text` still fits. */
static void append(char *to, size_t size, const char *before, const char *text) {
    size_t used = strlen(to);
    snprintf(to + used, size - used, "%s%s", before, text);
}

static void *open_file(const char *file, char *trouble, size_t size) {
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) snprintf(trouble, size, "%s", dlerror());
    return handle;
}

/* A file that is there but cannot be opened says more than one that is not. */
static void *search(const gw_library_wanted *wanted, char *looked, size_t size, char *trouble,
                    size_t trouble_size) {
    char file[GW_LIBRARY_PATH], why[200];
    void *handle = open_file(wanted->file, trouble, trouble_size);
    const char *search_path = getenv("LD_LIBRARY_PATH");
    append(looked, size, "the loader's places", "");
    if (search_path != NULL && search_path[0] != '\0')
        append(looked, size, ", LD_LIBRARY_PATH=", search_path);
    for (const char *const *folder = wanted->folders; handle == NULL && *folder != NULL; folder++) {
        snprintf(file, sizeof file, "%s/%s", *folder, wanted->file);
        append(looked, size, ", ", *folder);
        handle = open_file(file, why, sizeof why);
        if (handle == NULL && strstr(why, "No such file") == NULL) snprintf(trouble, trouble_size, "%s", why);
    }
    return handle;
}

bool gw_library_open(const gw_library_wanted *wanted, void *table, char path[GW_LIBRARY_PATH], gw_err *err) {
    char looked[300] = "", trouble[200] = "";
    const char *chosen = wanted->variable != NULL ? getenv(wanted->variable) : NULL;
    void *handle;
    if (chosen != NULL && chosen[0] != '\0') {
        handle = open_file(chosen, trouble, sizeof trouble);
        if (handle == NULL) return gw_fail(err, GW_E_UNSUPPORTED, "%s: %s", wanted->variable, trouble);
    } else {
        handle = search(wanted, looked, sizeof looked, trouble, sizeof trouble);
        if (handle == NULL)
            return gw_fail(err, GW_E_UNSUPPORTED, "%s cannot be opened (%s); looked in %s; %s", wanted->file,
                           trouble, looked, wanted->advice);
    }
    note_path(handle, wanted->file, path);
    for (size_t i = 0; i < wanted->function_count; i++) {
        const gw_library_function *wants = &wanted->functions[i];
        void *function = dlsym(handle, wants->name);
        if (function == NULL) {
            gw_fail(err, GW_E_UNSUPPORTED, "%s has no function %s: it is too old; %s", path, wants->name,
                    wanted->advice);
            dlclose(handle);
            return false;
        }
        /* ISO C has no conversion from void * to a function; POSIX says how dlsym is meant to be used. */
        memcpy((char *)table + wants->offset, &function, sizeof function);
    }
    return true;
}
