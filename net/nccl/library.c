#include "net/nccl/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Opens it in a folder. A file that is there but cannot be opened says more than one that is not. */
static void *open_in(const char *folder, const gw_library_wanted *wanted, char *looked, size_t size,
                     char *trouble, size_t trouble_size) {
    char file[2 * GW_LIBRARY_PATH], why[200];
    snprintf(file, sizeof file, "%s/%s", folder, wanted->file);
    append(looked, size, ", ", folder);
    void *handle = open_file(file, why, sizeof why);
    if (handle == NULL && access(file, F_OK) == 0) snprintf(trouble, trouble_size, "%s", why);
    return handle;
}

/* The folder lib beside this program: a build that was copied brings its libraries there. "" = not known. */
static void own_folder(char folder[GW_LIBRARY_PATH]) {
    char program[GW_LIBRARY_PATH - 8];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    folder[0] = '\0';
    if (slash == NULL) return;
    *slash = '\0';
    snprintf(folder, GW_LIBRARY_PATH, "%s/lib", program);
}

static void *search(const gw_library_wanted *wanted, char *looked, size_t size, char *trouble,
                    size_t trouble_size) {
    char folder[GW_LIBRARY_PATH];
    void *handle = open_file(wanted->file, trouble, trouble_size);
    const char *search_path = getenv("LD_LIBRARY_PATH");
    append(looked, size, "the loader's places", "");
    if (search_path != NULL && search_path[0] != '\0')
        append(looked, size, ", LD_LIBRARY_PATH=", search_path);
    own_folder(folder);
    if (handle == NULL && folder[0] != '\0')
        handle = open_in(folder, wanted, looked, size, trouble, trouble_size);
    for (const char *const *at = wanted->folders; handle == NULL && *at != NULL; at++)
        handle = open_in(*at, wanted, looked, size, trouble, trouble_size);
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
        if (function == NULL && !wants->optional) {
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
