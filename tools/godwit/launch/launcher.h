/* The near end of `godwit launch`: an ssh connection to each host, what is asked of the commands there, and one log of
 * all their output. Thread: main; while it runs, SIGINT, SIGTERM and SIGHUP are its own. */
#ifndef GODWIT_TOOLS_GODWIT_LAUNCH_LAUNCHER_H
#define GODWIT_TOOLS_GODWIT_LAUNCH_LAUNCHER_H

#include "tools/godwit/launch/hosts.h"
#include "tools/godwit/launch/request.h"

typedef struct gw_launch_options {
    const gw_launch_hosts *hosts;
    gw_launch_request *requests; /* one for each host */
    char *const *ssh;            /* the words before the host, "ssh", ...; ends with NULL */
    const char *program;         /* of Godwit on the hosts; NULL = the copy that is made there */
    bool copy;                   /* copy this program to the hosts first */
    bool detach;
    uint32_t needed; /* so many must start, or the others are asked to leave */
} gw_launch_options;

/* Starts all, shows their output until the last has ended, and returns the exit code of the whole: that of the worst
 * command that ended by itself; 1 where a host could not be reached at the start or no command ended well; otherwise 0.
 * -1 with *err set where nothing could be started. */
int gw_launcher_run(const gw_launch_options *options, gw_err *err);

#endif
