/* The header Accept of a request for metrics (RFC 9110, section 12.5.1). Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_ACCEPT_H
#define GODWIT_TOOLS_GODWIT_SHOW_ACCEPT_H

#include <stdbool.h>

/* Whether the client asks for OpenMetrics, of version 1.0.0, 0.0.1 or without a version, and likes it no less
 * than plain text. A wildcard asks for no OpenMetrics, so that a browser gets plain text. NULL: the request
 * has no such header. */
bool gw_accept_openmetrics(const char *accept);

#endif
