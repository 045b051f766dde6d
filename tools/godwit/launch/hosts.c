#include "tools/godwit/launch/hosts.h"

#include "core/base/assert.h"
#include "tools/godwit/places/hostlist.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LINES = 4096 };

static char *copy(const char *text, size_t length) {
    char *made = strndup(text, length);
    GW_ASSERT_MEMORY(made != NULL);
    return made;
}

static bool add_one(gw_launch_hosts *hosts, const char *text, gw_err *err) {
    const size_t before = strcspn(text, "=");
    const char *at = memchr(text, '@', before), *name = at != NULL ? at + 1 : text;
    const size_t name_bytes = before - (size_t)(name - text);
    const char *address = text[before] == '=' ? text + before + 1 : name;
    const size_t address_bytes = text[before] == '=' ? strlen(address) : name_bytes;
    if (hosts->count == GW_LAUNCH_HOSTS)
        return gw_fail(err, GW_E_USAGE, "there are more than %d hosts", (int)GW_LAUNCH_HOSTS);
    if (name_bytes == 0 || address_bytes == 0 || text == at || memchr(address, '=', address_bytes) != NULL)
        return gw_fail(err, GW_E_USAGE, "'%.80s' is none of HOST, USER@HOST and HOST=ADDRESS", text);
    if (text[0] == '-' || name[0] == '-' || address[0] == '-')
        return gw_fail(err, GW_E_USAGE, "'%.80s': a host begins with no dash", text);
    gw_launch_host *host = &hosts->list[hosts->count];
    *host = (gw_launch_host){.ssh = copy(text, before),
                             .name = copy(name, name_bytes),
                             .address = copy(address, address_bytes),
                             .twins = 1};
    for (uint32_t i = 0; i < hosts->count; i++) {
        if (strcmp(hosts->list[i].name, host->name) != 0) continue;
        host->twin++;
        host->twins = ++hosts->list[i].twins;
    }
    hosts->count++;
    return true;
}

bool gw_launch_hosts_add(gw_launch_hosts *hosts, const char *list, gw_err *err) {
    gw_hostlist names;
    if (strchr(list, '[') != NULL && strchr(list, '=') != NULL)
        return gw_fail(err, GW_E_USAGE,
                       "'%.80s': a host with an address of its own is written without brackets", list);
    if (!gw_hostlist_parse(list, GW_LAUNCH_HOSTS, &names, err)) {
        if (err->code != GW_E_NOMEM) err->code = GW_E_USAGE;
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; good && i < names.count; i++) good = add_one(hosts, names.names[i], err);
    gw_hostlist_free(&names);
    return good;
}

/* Takes blanks and remarks off a line. */
static char *bare(char *line) {
    line[strcspn(line, "#\n")] = '\0';
    line += strspn(line, " \t\r");
    for (size_t length = strlen(line); length > 0 && strchr(" \t\r", line[length - 1]) != NULL; length--)
        line[length - 1] = '\0';
    return line;
}

bool gw_launch_hosts_read(gw_launch_hosts *hosts, const char *path, gw_err *err) {
    enum { LINE = 8192 };
    FILE *in = fopen(path, "re");
    if (in == NULL) return gw_fail_named(err, errno, "%s", path);
    char *line = malloc(LINE);
    GW_ASSERT_MEMORY(line != NULL);
    bool good = true;
    for (int number = 1; good && fgets(line, LINE, in) != NULL; number++) {
        if (number > FILE_LINES || (strchr(line, '\n') == NULL && !feof(in)))
            good =
                gw_fail(err, GW_E_USAGE, "this line is too long, or there are more than %d", (int)FILE_LINES);
        const char *list = bare(line);
        good = good && (list[0] == '\0' || gw_launch_hosts_add(hosts, list, err));
        if (!good) gw_fail_in(err, "%s, line %d", path, number);
    }
    if (good && ferror(in)) good = gw_fail(err, GW_E_USAGE, "%s: it cannot be read", path);
    free(line);
    fclose(in);
    return good;
}

static bool is_loopback(const char *address) {
    return strcmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 ||
           strcmp(address, "::1") == 0;
}

bool gw_launch_hosts_are_here(const gw_launch_hosts *hosts) {
    for (uint32_t i = 0; i < hosts->count; i++)
        if (!is_loopback(hosts->list[i].address)) return false;
    return true;
}

void gw_launch_hosts_free(gw_launch_hosts *hosts) {
    for (uint32_t i = 0; i < hosts->count; i++) {
        free(hosts->list[i].ssh);
        free(hosts->list[i].name);
        free(hosts->list[i].address);
    }
    *hosts = (gw_launch_hosts){.count = 0};
}
