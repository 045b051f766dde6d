#include "core/os/library.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct search {
    const gw_library_wanted *wanted;
    void *table;
    char *path;        /* path of the candidate; GW_LIBRARY_PATH bytes */
    char looked[300];  /* the places that were searched */
    char trouble[200]; /* why no candidate was opened, in the dynamic linker's words */
    char refused[300]; /* which candidates were opened, and why they will not do */
} search;

/* Appends as much of `text` as fits. */
static void append(char *list, size_t size, const char *between, const char *text) {
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used > 0 ? between : "", text);
}

/* The file that the dynamic linker opened for `asked`. */
static void note_path(void *library, const char *asked, char path[GW_LIBRARY_PATH]) {
    struct link_map *map = NULL;
    bool known = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL && map->l_name[0] != '\0';
    snprintf(path, GW_LIBRARY_PATH, "%s", known ? map->l_name : asked);
}

static bool load_functions(const gw_library_wanted *wanted, void *library, void *table, gw_err *why) {
    for (size_t i = 0; i < wanted->function_count; i++) {
        const gw_library_function *wants = &wanted->functions[i];
        void *function = dlsym(library, wants->name);
        if (function == NULL && !wants->optional)
            return gw_fail(why, GW_E_UNSUPPORTED, "has no function %s: it is too old", wants->name);
        /* ISO C has no conversion from void * to a function; POSIX says how dlsym is meant to be used. */
        memcpy((char *)table + wants->offset, &function, sizeof function);
    }
    return true;
}

/* Tries one candidate. `in_place`: the candidate is in one given folder, and its absence there is not
 * reported. */
static bool try_file(search *s, const char *file, bool in_place) {
    const gw_library_wanted *wanted = s->wanted;
    gw_err why;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        if (!in_place || access(file, F_OK) == 0)
            snprintf(s->trouble, sizeof s->trouble, "%s", reason != NULL ? reason : "unknown");
        return false;
    }
    note_path(library, file, s->path);
    if (load_functions(wanted, library, s->table, &why) &&
        (wanted->judge == NULL || wanted->judge(wanted->context, s->path, s->table, &why)))
        return true;
    (void)gw_fail_in(&why, "%s", s->path);
    if (strstr(s->refused, why.text) == NULL) append(s->refused, sizeof s->refused, "; ", why.text);
    return false;
}

static bool try_folder(search *s, const char *folder) {
    char file[PATH_MAX + NAME_MAX];
    snprintf(file, sizeof file, "%s/%s", folder, s->wanted->file);
    append(s->looked, sizeof s->looked, ", ", folder);
    return try_file(s, file, true);
}

/* The folder lib beside this program, where a copied build brings its libraries; "" where it is not known. */
static void own_folder(char folder[PATH_MAX]) {
    char program[PATH_MAX - 8];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    folder[0] = '\0';
    if (length <= 0) return;
    program[length] = '\0';
    snprintf(folder, PATH_MAX, "%s/lib", dirname(program));
}

static bool try_everywhere(search *s) {
    char own[PATH_MAX];
    const char *search_path = getenv("LD_LIBRARY_PATH");
    snprintf(s->looked, sizeof s->looked, "the dynamic linker's places (LD_LIBRARY_PATH=%s)",
             search_path != NULL ? search_path : "");
    if (try_file(s, s->wanted->file, false)) return true;
    own_folder(own);
    if (own[0] != '\0' && try_folder(s, own)) return true;
    for (const char *const *at = s->wanted->folders; *at != NULL; at++)
        if (try_folder(s, *at)) return true;
    return false;
}

bool gw_library_open(const gw_library_wanted *wanted, void *table, char path[GW_LIBRARY_PATH], gw_err *err) {
    search s = {.wanted = wanted, .table = table, .path = path};
    const char *chosen = wanted->variable != NULL ? getenv(wanted->variable) : NULL;
    bool is_chosen = chosen != NULL && chosen[0] != '\0';
    if (is_chosen ? try_file(&s, chosen, false) : try_everywhere(&s)) return true;
    bool refused = s.refused[0] != '\0';
    const char *why = refused ? s.refused : s.trouble;
    if (is_chosen) return gw_fail(err, GW_E_UNSUPPORTED, "%s: %s; %s", wanted->variable, why, wanted->advice);
    return gw_fail(err, GW_E_UNSUPPORTED, "%s cannot be %s (%s); %s; searched: %s", wanted->file,
                   refused ? "used" : "opened", why, wanted->advice, s.looked);
}
