/* The hosts of `godwit launch`. Thread: their owner's. */
#ifndef GODWIT_TOOLS_GODWIT_LAUNCH_HOSTS_H
#define GODWIT_TOOLS_GODWIT_LAUNCH_HOSTS_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_LAUNCH_HOSTS = 256 };

typedef struct gw_launch_host {
    char *ssh;      /* [USER@]HOST, as ssh gets it */
    char *name;     /* HOST, as people see it */
    char *address;  /* the address at which its peers are reached: that behind "=", or HOST */
    uint32_t twin;  /* hosts of this name before it in the list */
    uint32_t twins; /* hosts of this name in all */
} gw_launch_host;

typedef struct gw_launch_hosts {
    gw_launch_host list[GW_LAUNCH_HOSTS];
    uint32_t count;
} gw_launch_hosts;

/* Adds a list, "node[1-4],user@b,c=10.0.0.3" (tools/godwit/places/hostlist.h; a name is followed by "=" and an address
 * where the peers reach it by another one than ssh does). Fails with GW_E_USAGE where it is none, where a name or an
 * address begins with a dash, and where there are more than GW_LAUNCH_HOSTS. */
bool gw_launch_hosts_add(gw_launch_hosts *hosts, const char *list, gw_err *err);

/* Adds those of a file, which has such a list in each line; '#' begins a remark. Fails likewise, naming the line, and
 * with GW_E_USAGE where it cannot be read or is too long. */
bool gw_launch_hosts_read(gw_launch_hosts *hosts, const char *path, gw_err *err);

/* Whether all peers reach each other on loopback, since there is one host alone, this one. */
bool gw_launch_hosts_are_here(const gw_launch_hosts *hosts);

void gw_launch_hosts_free(gw_launch_hosts *hosts);

#endif
