/* The other end of `godwit launch` on a host, which ssh starts: it runs one command of `godwit` and ends as that does. */
#ifndef GODWIT_TOOLS_GODWIT_LAUNCH_REMOTE_H
#define GODWIT_TOOLS_GODWIT_LAUNCH_REMOTE_H

#include "core/base/err.h"

/* Reads a request from stdin (request.h), writes the key file, and runs the command, whose output is that of this
 * process. It passes on what the launcher asks for, and SIGTERM, SIGINT and SIGHUP; when the connection is lost, which
 * the end of stdin or a long silence tells, the command gets SIGTERM, unless it is detached. Returns the exit code of
 * the command, 128 + N where signal N ended it, and -1 where it could not be started. Thread: main. */
int gw_launch_remote(gw_err *err);

#endif
