#include "tools/godwit/options/headers.h"

#include "core/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_headers(const char *folder) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/core/godwit.h", folder);
    return access(path, R_OK) == 0;
}

bool gw_headers_find(char include[PATH_MAX]) {
    static const char *const beside[] = {"/../include/godwit", "/.."};
    char program[PATH_MAX], folder[PATH_MAX + 32];
    snprintf(include, PATH_MAX, "%s", GW_HEADERS_INSTALLED);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return has_headers(include);
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (slash != NULL) *slash = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        char real[PATH_MAX];
        snprintf(folder, sizeof folder, "%s%s", program, beside[i]);
        if (!has_headers(folder) || realpath(folder, real) == NULL) continue;
        snprintf(include, PATH_MAX, "%s", real);
        break;
    }
    return has_headers(include);
}

void gw_headers_quote(const char *text, char *quoted, size_t size) {
    size_t used = 0;
    bool plain =
        text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+")] == '\0';
    if (plain) {
        snprintf(quoted, size, "%s", text);
        return;
    }
    quoted[used++] = '\'';
    for (; *text != '\0' && used + 6 < size; text++) {
        if (*text == '\'') {
            memcpy(quoted + used, "'\\''", 4);
            used += 4;
        } else
            quoted[used++] = *text;
    }
    quoted[used++] = '\'';
    quoted[used] = '\0';
}

char *gw_headers_compile(const char *source, const char *object) {
    char include[PATH_MAX], folder[4 * PATH_MAX] = "FOLDER", from[4 * PATH_MAX], to[4 * PATH_MAX], *line;
    if (gw_headers_find(include)) gw_headers_quote(include, folder, sizeof folder);
    gw_headers_quote(source, from, sizeof from);
    gw_headers_quote(object, to, sizeof to);
    GW_ASSERT_MEMORY(
        asprintf(&line, "cc -std=c11 -Wall -Wextra -O2 -shared -fPIC -I%s -o %s %s", folder, to, from) >= 0);
    return line;
}
