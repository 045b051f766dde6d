/* Tells names of this machine in the header Host of an HTTP request from others. A browser that reads a page of
 * another site sends the site's name, even where that site has had its name lead to an address of this machine (DNS
 * rebinding). Pure. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_HOST_H
#define GODWIT_TOOLS_GODWIT_SHOW_HOST_H

#include <stdbool.h>

/* Whether the header's value, with or without a port, is an address; a name without a dot, or below a top-level name
 * that nobody can register in public (localhost, local, internal, lan, home.arpa, svc.cluster.local ...); or a name
 * whose first part is that of `machine`. NULL or empty, as no browser sends it, is allowed. */
bool gw_host_is_ours(const char *header, const char *machine);

#endif
