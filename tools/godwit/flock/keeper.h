/* The keeper of a child: a process between a member of a flock and the command that it runs for a job. It outlives the
 * member, so that a member may be restarted or replaced while its children run, and it tells afterwards how the command
 * ended, whoever asks.
 *
 * Files in the child's folder DIR/jobs/ID:
 *
 *   child.json   what is to be run, written by the member before it starts the keeper
 *   child.lock   locked (flock(2)) while the keeper lives; holds its process number
 *   end.json     how the command ended; durable before the keeper ends
 *   out, err     what the command writes
 *
 * The command is the leader of a session, with a process group of its own. It gets SIGTERM when the keeper gets SIGINT,
 * which gives it all the time it takes, or SIGTERM, and when no member has held the flock's directory for `orphan_s`; and
 * SIGHUP when the keeper gets that, also after SIGTERM. `grace_s` after the keeper's SIGTERM or SIGHUP it is killed, with
 * all processes that it has started. The kernel kills it where the keeper is killed; what it has started then
 * goes on, and is found by its control group, and by a variable of its environment, GODWIT_JOB_FOLDER, which names the folder.
 *
 * The command is held to the memory that the job asked for: by the kernel, where its control group has such a limit
 * (tools/godwit/limit/group.h), and else by the keeper, which looks five times a second what all its processes have
 * together, and kills the largest one where that is more. Either way the job's processes are killed one by one, so that a
 * program may go on that can do without one. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_KEEPER_H
#define GODWIT_TOOLS_GODWIT_FLOCK_KEEPER_H

#include "core/base/err.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { GW_KEEPER_ORPHAN_S = 600, GW_KEEPER_FOLDER_TEXT = 4096 };

#define GW_KEEPER_VARIABLE "GODWIT_JOB_FOLDER="

#define GW_KEEPER_TASK "child.json"
#define GW_KEEPER_LOCK "child.lock"
#define GW_KEEPER_END  "end.json"
#define GW_KEEPER_OUT  "out"
#define GW_KEEPER_ERR  "err"

/* What is to be run. The texts belong to the caller. */
typedef struct gw_keeper_task {
    uint32_t round;
    const char *const *argv; /* ends with NULL; argv[0] is searched in PATH */
    const char *const *environment;
    const char *directory;   /* where it runs */
    const char *member_lock; /* the file that a member holds locked while it lives */
    uint32_t grace_s, orphan_s;
    const cpu_set_t *cores; /* the processors that it may use; NULL: those of the keeper */
    const char *group;      /* the control group that it runs in, which the keeper removes; NULL: none */
    uint32_t memory_mib;    /* that the job asked for; 0: any */
    bool group_limits_memory;
} gw_keeper_task;

/* How a command ended. */
typedef struct gw_keeper_end {
    uint32_t round;
    bool started;     /* false: it could not be started, and `text` says why */
    int code, signal; /* exit code; signal that ended it, 0: none */
    bool asked;       /* it was asked to end before */
    /* Processes of the command that were killed as they had more memory than the job asked for. */
    uint32_t memory_kills;
    uint32_t memory_mib;        /* that the job asked for */
    bool machine_lacked_memory; /* some were killed though the job had no more than that */
    double began, when;         /* seconds since 1970 */
    char text[300];
} gw_keeper_end;

/* Writes the task into a folder, in place of one that was there, and removes the end of an earlier child. */
bool gw_keeper_write_task(const char *folder, const gw_keeper_task *task, gw_err *err);
/* Starts a keeper, of this program, as a process of its own session. Its parent may end. The caller reaps it. */
bool gw_keeper_start(const char *folder, pid_t *pid, gw_err *err);
/* Whether a keeper lives in the folder, and its process number, 0 where it has not written it yet. */
bool gw_keeper_lives(const char *folder, pid_t *pid);
/* Reads how the command of the last keeper ended. Fails with GW_E_NOTFOUND where there is no end: the keeper lives, or was
 * killed, or the machine ended. */
bool gw_keeper_read_end(const char *folder, gw_keeper_end *end, gw_err *err);
/* The control group of the task of a folder, and the memory that its job asked for; false: it has no group. */
bool gw_keeper_group(const char *folder, char group[GW_KEEPER_FOLDER_TEXT], uint32_t *memory_mib);
/* Kills what the command of a keeper that was killed has left behind. */
void gw_keeper_kill_left(const char *folder);

/* Is the keeper of a folder: returns the exit code of this process when the command has ended. Main thread, before any
 * other is created. */
int gw_keeper_main(const char *folder);

#endif
