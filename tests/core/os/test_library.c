/* Opening libraries that may not be there, and judging those that are. */
#include "core/os/library.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct table {
    size_t (*length)(const char *text);
} table;

static const gw_library_function c_functions[] = {{"strlen", offsetof(table, length), false}};
static const char *const nowhere[] = {"/nonexistent/lib64", NULL};

static gw_library_wanted wanted(const char *file) {
    return (gw_library_wanted){.file = file,
                               .variable = "GODWIT_TEST_LIBRARY",
                               .folders = nowhere,
                               .advice = "install what is missing",
                               .functions = c_functions,
                               .function_count = 1};
}

Test(library, a_library_that_is_there_gives_its_functions) {
    table t = {0};
    char path[GW_LIBRARY_PATH] = "";
    gw_err err;
    gw_library_wanted w = wanted("libc.so.6");
    cr_assert(gw_library_open(&w, &t, path, &err), "%s", err.text);
    cr_assert_eq(t.length("godwit"), 6);
    cr_assert(strstr(path, "libc.so.6") != NULL && path[0] == '/', "%s", path);
}

Test(library, one_that_is_missing_says_where_it_was_looked_for_and_what_to_do) {
    table t = {0};
    char path[GW_LIBRARY_PATH];
    gw_err err;
    setenv("LD_LIBRARY_PATH", "/some/place", 1);
    gw_library_wanted w = wanted("libgodwit-none.so.9");
    cr_assert(!gw_library_open(&w, &t, path, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    cr_assert(strstr(err.text, "libgodwit-none.so.9") && strstr(err.text, "/nonexistent/lib64") &&
                  strstr(err.text, "LD_LIBRARY_PATH=/some/place") &&
                  strstr(err.text, "install what is missing"),
              "%s", err.text);
}

Test(library, one_without_a_function_is_too_old_and_says_which) {
    table t = {0};
    char path[GW_LIBRARY_PATH];
    gw_err err;
    const gw_library_function odd[] = {{"gw_no_such_function", offsetof(table, length), false}};
    gw_library_wanted w = wanted("libc.so.6");
    w.functions = odd;
    cr_assert(!gw_library_open(&w, &t, path, &err));
    cr_assert(strstr(err.text, "gw_no_such_function") != NULL, "%s", err.text);
}

Test(library, a_function_that_is_optional_may_be_missing) {
    table t = {.length = strlen};
    char path[GW_LIBRARY_PATH];
    gw_err err;
    const gw_library_function odd[] = {{"gw_no_such_function", offsetof(table, length), true}};
    gw_library_wanted w = wanted("libc.so.6");
    w.functions = odd;
    cr_assert(gw_library_open(&w, &t, path, &err), "%s", err.text);
    cr_assert(t.length == NULL);
}

Test(library, a_file_that_the_user_names_is_the_one_that_is_opened) {
    table t = {0};
    char path[GW_LIBRARY_PATH];
    gw_err err;
    gw_library_wanted w = wanted("libc.so.6");
    setenv("GODWIT_TEST_LIBRARY", "/nonexistent/mine.so", 1);
    cr_assert(!gw_library_open(&w, &t, path, &err));
    cr_assert(strstr(err.text, "/nonexistent/mine.so") != NULL, "%s", err.text);
    setenv("GODWIT_TEST_LIBRARY", "", 1);
    cr_assert(gw_library_open(&w, &t, path, &err));
}

/* What the dynamic linker says tells more than that nothing was opened: the library may need another one. */
Test(library, what_the_dynamic_linker_says_is_reported) {
    table t = {0};
    char path[GW_LIBRARY_PATH];
    gw_err err;
    gw_library_wanted w = wanted("libgodwit-none.so.1");
    cr_assert(!gw_library_open(&w, &t, path, &err));
    cr_assert(strstr(err.text, "cannot open shared object file") && strstr(err.text, "LD_LIBRARY_PATH"), "%s",
              err.text);
}

/* A library that is at hand. */
static void copy_library(const char *file) {
    struct link_map *map = NULL;
    void *any = dlopen("libz.so.1", RTLD_LAZY);
    cr_assert(any != NULL && dlinfo(any, RTLD_DI_LINKMAP, &map) == 0);
    FILE *from = fopen(map->l_name, "rb"), *to = fopen(file, "wb");
    cr_assert(from != NULL && to != NULL, "%s", map->l_name);
    char bytes[4096];
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, from)) > 0;)
        cr_assert_eq(fwrite(bytes, 1, got, to), got);
    fclose(from);
    cr_assert_eq(fclose(to), 0);
}

/* Accepts a library unless its path contains `context`, and counts the questions. */
static unsigned judged;
static bool lies_elsewhere(const void *context, const char *path, const void *of, gw_err *why) {
    judged++;
    cr_assert_not_null(((const table *)of)->length);
    return strstr(path, context) == NULL || gw_fail(why, GW_E_UNSUPPORTED, "version 1 is too old");
}

/* Two folders that have the same library each; the caller asks for it with a judge. */
static char first[300], second[300];
static const char *const two_folders[] = {first, second, NULL};
static const gw_library_function zlib_functions[] = {{"zlibVersion", offsetof(table, length), false}};

static gw_library_wanted put_two(const char *unwanted_folder) {
    char *const folders[] = {first, second};
    for (int i = 0; i < 2; i++) {
        char file[400];
        snprintf(folders[i], sizeof first, "%s", scratch_path(i == 0 ? "first" : "second"));
        cr_assert_eq(mkdir(folders[i], 0700), 0);
        snprintf(file, sizeof file, "%s/libgodwit-some.so", folders[i]);
        copy_library(file);
    }
    gw_library_wanted w = wanted("libgodwit-some.so");
    w.folders = two_folders;
    w.functions = zlib_functions;
    w.judge = lies_elsewhere;
    w.context = unwanted_folder;
    return w;
}

Test(library, a_library_that_will_not_do_does_not_hide_the_next, .init = scratch_open,
     .fini = scratch_close) {
    table t = {0};
    char path[GW_LIBRARY_PATH];
    gw_err err;
    gw_library_wanted w = put_two("/first/");
    cr_assert(gw_library_open(&w, &t, path, &err), "%s", err.text);
    cr_assert_not_null(strstr(path, "/second/libgodwit-some.so"), "%s", path);
    cr_assert_eq(judged, 2);
}

Test(library, libraries_that_will_not_do_are_named_with_why, .init = scratch_open, .fini = scratch_close) {
    table t = {0};
    char path[GW_LIBRARY_PATH];
    gw_err err;
    gw_library_wanted w = put_two("libgodwit-some.so");
    cr_assert(!gw_library_open(&w, &t, path, &err));
    cr_assert(strstr(err.text, "/first/libgodwit-some.so: version 1 is too old"), "%s", err.text);
    cr_assert(strstr(err.text, "/second/libgodwit-some.so: version 1 is too old"), "%s", err.text);
}

Test(library, one_that_lacks_a_function_does_not_hide_the_next, .init = scratch_open, .fini = scratch_close) {
    const gw_library_function odd[] = {{"gw_no_such_function", offsetof(table, length), false}};
    table t = {0};
    char path[GW_LIBRARY_PATH];
    gw_err err;
    gw_library_wanted w = put_two("/first/");
    w.functions = odd;
    cr_assert(!gw_library_open(&w, &t, path, &err));
    cr_assert(strstr(err.text, "/first/") && strstr(err.text, "/second/"), "%s", err.text);
    cr_assert_eq(judged, 0);
}
