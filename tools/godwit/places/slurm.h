/* What Slurm tells a task by its environment, and what a peer makes of it (`godwit run --join slurm`): which hosts
 * have the other peers, which port is whose, and which processors and GPUs are this task's.
 *
 * A peer's port follows from the job's id and the number of the task on its node alone, so that every peer knows
 * those of all others without asking: GW_SLURM_PORT + GW_SLURM_STRIDE * (JOBID modulo GW_SLURM_SLOTS) + number,
 * below 32768, where Linux begins to take ports for outgoing connections. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_PLACES_SLURM_H
#define GODWIT_TOOLS_GODWIT_PLACES_SLURM_H

#include "tools/godwit/places/hostlist.h"

#include <stdint.h>

enum {
    GW_SLURM_PORT = 20000,  /* the first port that a peer may get */
    GW_SLURM_STRIDE = 8,    /* ports between those of jobs with consecutive ids */
    GW_SLURM_SLOTS = 1596,  /* jobs whose ports differ */
    GW_SLURM_NODES = 4096,  /* of a job, at most */
    GW_SLURM_TASKS = 65536, /* of a job, at most */
    GW_SLURM_GPUS = 64,     /* that a task sees, at most */
};

/* Where variables are looked up: NULL for one that is not set. */
typedef struct gw_environment {
    const char *(*get)(void *context, const char *name);
    void *context;
} gw_environment;

/* The environment of this process. */
gw_environment gw_environment_own(void);

typedef struct gw_slurm {
    uint64_t job;
    uint32_t restarts;           /* how often the job has been requeued */
    bool in_step;                /* srun has started this task. Otherwise it is alone, as in a batch script */
    uint32_t task, tasks;        /* the number of this task in its step, and how many there are */
    uint32_t local, local_tasks; /* the same on this node */
    uint32_t node;               /* the number of this node in the step */
    const char *name;            /* of this node; a name of `nodes`, or "" where Slurm does not tell it */
    uint32_t cores;              /* processors of the allocation for this task; 0 = not told */
    uint32_t gpus[GW_SLURM_GPUS]; /* the GPUs of this task, as CUDA counts them */
    uint32_t gpu_count;           /* 0 = not told */
    gw_hostlist nodes;            /* of the job */
    uint32_t *tasks_of;           /* tasks of the step on each of them; at least 1 */
} gw_slurm;

/* Reads what the variables tell. Fails with GW_E_USAGE where this is no job of Slurm or a variable is not as
 * Slurm sets it, naming it. On success the caller calls gw_slurm_free. */
bool gw_slurm_read(const gw_environment *environment, gw_slurm *slurm, gw_err *err);

void gw_slurm_free(gw_slurm *slurm);

/* The port of a node's first task; the others have those that follow it. `cluster` is the name that a user has given
 * the cluster, so that two flocks within one job have other ports, and NULL where none has. */
uint16_t gw_slurm_port(uint64_t job, const char *cluster);

/* Writes at most `most` addresses (HOST:PORT, each for the caller to free) of tasks of this job into `seeds`: each
 * node's first task, then each node's second one, and so on; where there are more nodes, nodes at equal distances.
 * `port` is that of each node's first task. With `loopback` they are 127.0.0.1, for a job on one node. Returns their
 * number. */
uint32_t gw_slurm_seeds(const gw_slurm *slurm, uint16_t port, bool loopback, char **seeds, uint32_t most);

/* Asks Slurm (`squeue`) on which nodes another job runs, and writes the addresses of each node's first task, likewise.
 * With `loopback` that job has to run on this very node alone (GW_E_USAGE). Fails with GW_E_NOTFOUND where there is no
 * such program, or no such job that runs. Blocks for seconds. */
bool gw_slurm_seeds_of(const gw_slurm *slurm, uint64_t job, uint16_t port, bool loopback, char **seeds,
                       uint32_t most, uint32_t *count, gw_err *err);

/* Writes out a path in which %j is the job's id, %t the task's number, %n that of the node, %N the node's name and
 * %% a percent sign, as in srun's file names. Fails with GW_E_USAGE where another letter follows a percent sign. On
 * success the caller frees *path. */
bool gw_slurm_path(const gw_slurm *slurm, const char *pattern, char **path, gw_err *err);

#endif
