/* Child processes that compute for this one, and never outlive it. A process is held by a descriptor
 * (pidfd), so that no signal goes to another process that has got its number meanwhile. */
#ifndef GODWIT_CORE_OS_PROCESS_H
#define GODWIT_CORE_OS_PROCESS_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

typedef struct gw_process {
    pid_t pid;
    int fd; /* readable from the end of the process on */
} gw_process;

/* What to start. `file` is searched in PATH where it has no slash. The process gets copies of fds[0 ..
 * fd_count) as descriptors 0, 1, ... and no others, default signals, a session of its own, and this
 * priority. */
typedef struct gw_spawn {
    const char *file;
    char *const *argv, *const *environment;
    const char *directory; /* where it starts; NULL: where this process is */
    const int *fds;
    uint32_t fd_count;
    bool inherits; /* descriptors that are not close-on-exec, and ignored signals but SIGPIPE and SIGXFSZ */
    int nice;
    int oom_score;    /* what the kernel goes by when it kills for lack of memory; 0: as this process */
    int death_signal; /* that it gets when the calling thread ends; 0: SIGKILL */
    uint64_t files;   /* the soft limit of its descriptors; 0: as this process */
    const char *
        entrance; /* the file cgroup.procs of a control group that it enters; NULL: it stays in that of this process */
} gw_spawn;

/* Starts a process. The kernel ends it when the calling *thread* ends, so that the caller is a thread that
 * lives as long as the process may. Fails with GW_E_NOTFOUND where there is no such file, with GW_E_DENIED where it may not
 * or cannot be executed, with GW_E_LIMIT where the system takes no command line as long, with GW_E_NOMEM where it lacks
 * processes, descriptors or memory for now, and with GW_E_IO. The caller ends the process by gw_process_kill, reaps it by
 * gw_process_wait or gw_process_reap, and calls gw_process_close. */
bool gw_process_spawn(const gw_spawn *spawn, gw_process *process, gw_err *err);

/* Takes hold of a process that another one, `parent`, has started. Fails with GW_E_NOTFOUND where `pid` is no
 * child of it. */
bool gw_process_open(pid_t pid, pid_t parent, gw_process *process, gw_err *err);

/* Takes hold of any process. False: none has this number, or the system lacks descriptors. The caller calls
 * gw_process_close. Any thread. */
bool gw_process_hold(pid_t pid, gw_process *process);

/* Whether a process is stopped, as by SIGSTOP or a terminal; false where that cannot be found out. Any
 * thread. */
bool gw_process_is_stopped(pid_t pid);

/* Sends a signal to the process alone. Harmless where it has ended. */
void gw_process_signal(const gw_process *process, int number);

/* Kills a process and, where it leads a process group, all of that. */
void gw_process_kill(const gw_process *process);

/* Waits at most `patience_ns` for the end. True: it has ended, and where it is a child of this process it
 * is reaped and *status is what waitpid gives; otherwise *status is left alone. With `whole`, what is left
 * of the group that it led is killed, whether it is a child of this process or not. */
bool gw_process_wait(const gw_process *process, uint64_t patience_ns, bool whole, int *status);

/* Reaps a child that has ended: *status is what waitpid gives, *usage what it and its own children took. With
 * `whole`, what is left of its group is killed before. Returns false, at once, while it has not ended. */
bool gw_process_reap(const gw_process *process, bool whole, int *status, struct rusage *usage);

/* Sends a signal to the process group that a child leads, which has not been reaped. */
void gw_process_signal_group(const gw_process *process, int number);

/* Closes the descriptor. */
void gw_process_close(gw_process *process);

/* Writes how a process ended: "exit status 3", "signal 11 (Segmentation fault)". */
enum { GW_PROCESS_END_TEXT = 80 };
const char *gw_process_end(int status, char text[GW_PROCESS_END_TEXT]);

#endif
