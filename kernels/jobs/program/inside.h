/* What the files of the `program` job share.
 *
 * keeper.c   the thread that starts processes and reads what they print
 * start.c    what a process is started with: arguments, environment
 * process.c  one process: its tie, requests and replies, its end
 * workers.c  the first process, the workers' slots, and how a slot gets its process
 * memory.c   the arenas
 * shard.c    a shard's contribution
 * update.c   the update of a step, and what comes after it
 * values.c   totals from exact sums
 * program.c  the job's table */
#ifndef GODWIT_KERNELS_JOBS_PROGRAM_INSIDE_H
#define GODWIT_KERNELS_JOBS_PROGRAM_INSIDE_H

#include "core/base/log.h"
#include "core/os/process.h"
#include "kernels/host/team.h"
#include "kernels/program/description.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct program program;
typedef struct program_keeper program_keeper;
typedef struct program_output program_output;

static const char program_room[] = "program";

/* keeper.c */

/* `file` is the program: frames of its folder name the place where a process has died
 * (program_output_place). */
program_keeper *program_keeper_open(const char *file, gw_err *err);
/* All outputs are closed. NULL is allowed. */
void program_keeper_close(program_keeper *keeper);
/* gw_process_spawn on the keeper's thread, which lives as long as the job. Any thread. */
bool program_keeper_spawn(program_keeper *keeper, const gw_spawn *spawn, gw_process *process, gw_err *err);
/* Opens a pipe for what process number `serial` prints; its lines go to the log (with `quiet` at the level of
 * debugging). *to becomes the end to write to, which the caller closes. NULL: it cannot be opened. */
program_output *program_output_open(program_keeper *keeper, uint32_t serial, bool quiet, int *to,
                                    gw_err *err);
/* From here on lines are logged as information. NULL is allowed. */
void program_output_show(program_output *output);
/* Reads what is left, and copies the last lines that the process printed, up to two of them, joined by " | ";
 * behind a stack only the last one. NULL gives none. */
void program_output_last(program_output *output, char *text, size_t size);
/* Reads what is left, and copies the place where a process stood if the last that it printed is a stack in
 * the form of CPython: "FILE:LINE (FUNCTION)", of the innermost frame of a file in the program's folder,
 * or of the innermost of all where there is none. Empty: it has printed none. NULL gives none. */
void program_output_place(program_output *output, char *text, size_t size);
void program_output_close(program_output *output); /* NULL is allowed */

/* start.c */

typedef struct program_command {
    const char *file; /* what is executed: Python, or the program itself */
    const char
        *origin; /* where the choice of Python comes from, for people; NULL: the program is no script */
    char **argv, **environment;
    char *text; /* which argv points into */
    char settings[17][200];
} program_command;

/* `args` is the value of --args; `python` and `args` may be NULL. `file` and `python` outlive the object. */
bool program_command_make(program_command *command, const char *file, const char *python, const char *args,
                          uint32_t threads, gw_err *err);
/* Adds to an error that a missing Python, or a module that this Python lacks, has caused which Python it
 * is and what to do. Other errors stay. */
void program_command_explain(const program_command *command, gw_err *err);
void program_command_free(program_command *command);

/* A sealed memory file. `bytes` may be 0. */
typedef struct program_arena {
    int fd;
    void *bytes;
    uint64_t size;
    bool has_huge_pages; /* program_arena_take_huge_pages has been called */
} program_arena;

/* process.c */

/* What came of a request. */
typedef enum program_outcome {
    PROGRAM_ANSWERED = 1,
    PROGRAM_RAISED,  /* the program raised an error, which it would raise anywhere */
    PROGRAM_REFUSED, /* the job is not possible */
    /* The process has died, hung or broken the protocol, and has been ended; or it was unable. */
    PROGRAM_LOST,
    PROGRAM_UNWANTED, /* the answer was not wanted any more; the process has been ended */
} program_outcome;

/* A process that was started and has not been ended. serial 0: there is none. */
typedef struct program_process {
    program *job;
    uint32_t serial;
    uint32_t template_serial; /* whose fork it is; 0: nobody's */
    gw_process process;
    int tie;
    program_output *output;
    uint8_t *received;     /* room for a message */
    program_arena own;     /* zeroed before ARENAS */
    uint64_t memory_kills; /* gw_memory_kills when it was started */
    /* The next two tell of the last process that PROGRAM_LOST was about; they stay when it is ended. */
    uint32_t lost_serial;
    gw_process_loss_kind lost_kind;
} program_process;

enum { PROGRAM_ENDS = 1024 }; /* that are kept: far more than workers of a peer end at a time */

/* How a fork of the template has ended, as that said: `status` is what waitpid gives. serial 0: there is none. */
typedef struct program_end {
    uint32_t serial;
    int status;
} program_end;

/* What is to become of a process that has not answered yet. */
typedef enum program_wait {
    PROGRAM_GOES_ON = 1,
    PROGRAM_DROPS, /* nobody wants the answer any more */
    PROGRAM_HANGS, /* it has taken too long: the process is asked where it is, and ended */
} program_wait;

/* Asked about ten times a second. */
typedef program_wait program_look(void *context);

typedef struct program_request {
    const gw_program_message *message;
    const int *fds; /* as many as the kind has */
    gw_program_kind reply;
    program_look *look; /* NULL: the answer is waited for */
    void *context;
} program_request;

/* Starts a process for the slot of this number, or has the template fork it, as the role asks, sends WELCOME
 * and waits for HELLO. */
program_outcome program_process_start(program *job, program_process *process, gw_program_role role,
                                      uint32_t slot, bool leads, gw_err *err);
/* Waits for the description. */
program_outcome program_process_describe(program_process *process, gw_program_description *description,
                                         gw_err *err);
/* Sends a request and waits for its reply. *err has the reason of every outcome but ANSWERED and UNWANTED. */
program_outcome program_process_ask(program_process *process, const program_request *request,
                                    gw_program_message *reply, gw_err *err);
/* Asks the process to leave. */
void program_process_leave(program_process *process);
/* Waits for the end of a process by itself. It never comes for a program that has started this peer. With
 * `whole` its children end with it. */
bool program_process_join(program_process *process, uint64_t patience_ns, bool whole, int *status);
/* Kills the process and frees what is its. Harmless where there is none. */
void program_process_end(program_process *process);

/* workers.c */

/* A worker's place, which has one process after the other. `turn` is held by the thread that uses the
 * slot. */
typedef struct program_slot {
    program *job;
    uint32_t number; /* from 0 on; that of a leading worker beside those of the lanes is 0, too */
    bool leads;      /* its process is the leading one */
    pthread_mutex_t turn;
    program_process process;
    pthread_mutex_t lock; /* guards what follows */
    bool busy;            /* with `shard` of `step` */
    bool asked;           /* the process has got the request; before, it is being started */
    bool interrupted;     /* the process has been busy for too long, and is to be ended */
    uint64_t step;
    uint32_t shard; /* GW_INTERRUPT_UPDATE: an update, or what comes after it */
} program_slot;

/* Starts the first process, unless there is one, and has it describe the job. The first of all gives the job
 * its description and S_0; later ones are compared with it. Called with the job's lock, or before there are
 * other threads. */
program_outcome program_first_start(program *job, gw_err *err);
/* Makes job->initial hold S_0, which is forgotten when the first update begins. */
bool program_initial_fetch(program *job, gw_err *err);
/* Opens the slot of a lane. Where the program wants AFTER, the leading worker has a slot of its own beside
 * those, so that AFTER never waits for a shard; otherwise, and where the program runs alone, the first
 * lane's leads. */
program_slot *program_slot_open(program *job, gw_err *err);
bool program_leader_open(program *job, gw_err *err);
/* Gives the slot a process that is ready for requests, if it has none. Called with the slot's turn. */
program_outcome program_slot_ready(program_slot *slot, gw_err *err);
/* Both in one, for shard `shard` of `step` (GW_INTERRUPT_UPDATE: for something else of that step). A
 * process that program_interrupt finds to be busy for too long is lost. */
program_outcome program_slot_ask(program_slot *slot, uint64_t step, uint32_t shard,
                                 const program_request *request, gw_program_message *reply, gw_err *err);
/* A function of gw_job_type. It waits for nothing, as the loop of the peer calls it. */
bool program_interrupt(void *job, uint64_t step, uint32_t shard);
/* Ends all processes: politely, then by force. */
void program_workers_close(program *job);

/* memory.c */

/* With `lasting`, no further mapping can be written to. */
bool program_arena_open(program_arena *arena, const char *name, uint64_t size, bool lasting, gw_err *err);
void program_arena_close(program_arena *arena); /* a zeroed arena is allowed */
/* Puts what has been written of an arena into huge pages, through which workers and peer read and write it
 * a third faster; the system's own setting for shared memory (shmem_enabled) is mostly "never". What has
 * not been written, such as room for gradients of frozen tensors, takes no memory afterwards either. Where
 * the system refuses, the arena is only slower. Only the first call does anything: it comes when the arena
 * has been used once. Others may use the arena meanwhile. */
void program_arena_take_huge_pages(program_arena *arena);

/* values.c */

/* The place of a step (kernels/program/description.h), with the present generation of the state. */
gw_program_place program_place_now(const program *job, uint64_t step);
/* The factor that makes a fixed-point sum its total. */
double program_scale(const gw_program_array *sum, const gw_program_totals *totals);
/* Writes the total of a sum in the sum's own type. */
void program_write_total(const gw_program_array *sum, const int64_t *from, double scale, void *to);

/* shard.c, update.c: functions of gw_job_type. */

bool program_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                        gw_emitter *emitter, gw_err *err);
bool program_scalars(void *job, uint64_t step, const gw_sums *sums, const gw_state *state,
                     gw_scalars *scalars, gw_err *err);
bool program_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                   const gw_scalars *scalars, const gw_state *state, gw_err *err);
void program_report(void *job, uint64_t step, const gw_sums *sums, const gw_scalars *scalars, char *text,
                    size_t size);
void program_summary(void *job, uint64_t steps_done, const gw_state *state, char *text, size_t size);
bool program_commit(void *job, uint64_t step, const gw_state *state, gw_err *err);
bool program_finish(void *job, uint64_t steps_done, const gw_state *state, gw_err *err);
bool program_samples(void *job, uint64_t step, uint32_t shard, gw_sample_sink *sink, gw_err *err);

/* The job. */
struct program {
    const char *file; /* --program; the options' */
    program_command command;
    uint32_t threads;
    uint64_t seed;
    gw_program_description description;
    gw_tensor *tensors; /* those of the description, and the reports if there are any */
    char **names;
    uint32_t tensor_count;
    uint32_t report_count, reports[GW_PROGRAM_REPORTS]; /* the sums that are reported */
    char *identity;
    uint32_t *sum_order;                /* the numbers of the sums, in the order of their parts */
    uint32_t *alike_order, alike_count; /* the numbers of the state tensors that parts write alike */

    program_keeper *keeper;
    program_arena state, next;
    _Atomic uint64_t generation; /* rises whenever the contents of *state* change */
    double *report_values;       /* of the step being applied: those of updates, then those of evaluations */
    gw_program_totals totals;    /* of the step being applied */
    void *last_reports;          /* where the state has the reports */
    void *alike; /* what the first part of an update wrote alike, in the order of the tensors */
    gw_team *team;
    uint32_t team_size;

    _Atomic uint32_t serials;       /* processes started so far */
    pthread_mutex_t lock;           /* guards the members that follow */
    program_process first;          /* the template, or the first worker before a slot takes it */
    program_end ends[PROGRAM_ENDS]; /* the latest; that of process n is at n % PROGRAM_ENDS */
    bool is_alone;                  /* the program has started this peer, and is its only worker */
    int alone_tie;                  /* its tie until the first process takes it; -1: there is none */
    program_arena initial;          /* S_0, until the first update */
    gw_hash *initial_hashes;        /* of each state tensor of S_0; NULL before there is one */
    pthread_mutex_t
        slots_lock;       /* guards the next three beside `lock`, which is held while a program starts */
    program_slot **slots; /* of the lanes */
    uint32_t slot_count;
    program_slot *leader; /* its process leads: the first lane's, or one beside the lanes' */
    bool own_leader;      /* it is beside them */
};

#endif
