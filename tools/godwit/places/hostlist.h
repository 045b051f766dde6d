/* Lists of hosts in the syntax of Slurm's SLURM_JOB_NODELIST: names with commas between them, in which brackets
 * hold numbers and ranges of numbers, such as "gpu[01-03,7],rack[1-2]node[0-9]". A range keeps the width of
 * its first number ("[08-11]": 08, 09, 10, 11); of several brackets the last one runs fastest. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_PLACES_HOSTLIST_H
#define GODWIT_TOOLS_GODWIT_PLACES_HOSTLIST_H

#include "core/base/err.h"

#include <stdint.h>

enum {
    GW_HOSTLIST_NAME = 256, /* room for a name with its zero */
    GW_HOSTLIST_MOST = 65536,
};

typedef struct gw_hostlist {
    char **names;
    uint32_t count;
} gw_hostlist;

/* Writes out the names of a list in their order, doubles included. Fails with GW_E_INVALID where the text is no
 * such list or a name is empty, too long or has other characters than letters, digits and "._-:@=%+" (bytes
 * above 127 are none), and with GW_E_LIMIT where there are more than `most` names (at most GW_HOSTLIST_MOST).
 * What that costs is bounded by `most` and the length of the text. On success the caller frees the list. */
bool gw_hostlist_parse(const char *text, uint32_t most, gw_hostlist *list, gw_err *err);

void gw_hostlist_free(gw_hostlist *list);

#endif
