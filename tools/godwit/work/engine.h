/* What this peer computes with, as the compute helper sees it: the device, its workers and the state that
 * they hold; and the helper's short tasks (APPLY, LOOK, PROBE, COMMIT). Loads (load.h) and reductions
 * (reduce.h) work with the same engine.
 *
 * Threads: the compute helper's, unless a function says otherwise; it runs one task at a time. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_ENGINE_H
#define GODWIT_TOOLS_GODWIT_WORK_ENGINE_H

#include "kernels/device/device.h"
#include "tools/godwit/thread/mail.h"
#include "tools/godwit/work/payload/payload.h"
#include "tools/godwit/work/save.h"
#include "tools/godwit/work/workers/workers.h"

#include <pthread.h>
#include <stdatomic.h>

/* The state that the device holds. The lock guards the other members: the threads that serve the state to
 * other peers read them, too. */
typedef struct gw_held_state {
    pthread_rwlock_t lock;
    bool valid;           /* false while the state is being changed, and after a change that failed */
    uint64_t step;        /* number of steps done */
    gw_state_print print; /* fingerprint, taken when the state was made */
} gw_held_state;

typedef struct gw_engine {
    gw_device *device; /* The node opens and closes this and the next three. */
    gw_workers *workers;
    gw_payloads *payloads; /* NULL: the job's shards have no payload */
    gw_saver *saver;
    const gw_evaluation *evaluation; /* by which --keep-best compares states; NULL: by none */
    const gw_job_type *job_type;     /* which steps are evaluations; set where `evaluation` is */
    const void *job;                 /* its job, opened */
    gw_held_state state;
    atomic_uint_fast64_t pieces; /* counts pieces of states that arrived here: progress; any thread adds */
    atomic_bool staging; /* the compute helper waits for the checkpoint writer, for which the brain has a
                            deadline of its own */
} gw_engine;

/* Waits until no snapshot of the state is being copied: then the state may change. */
void gw_engine_wait_staged(gw_engine *engine);

/* Whether the tensors that contributions read still have the bits that they had when the state was made.
 * (APPLY checks the other tensors before it uses them.) No deal may be worked on meanwhile. False: the
 * bits differ (then *damaged is set), or they could not be hashed (*err says why). */
bool gw_engine_read_part_is_sound(gw_engine *engine, bool *damaged, gw_err *err);

/* A task, as an action of the brain asks for it; core/brain/world.h says which members an action has. */
typedef struct gw_task {
    gw_engine *engine;
    gw_token token;
    uint64_t step;
    uint32_t shard;   /* of a PROBE */
    bool skip_update; /* APPLY leaves the state as it is, and counts the step */
    bool check_state; /* APPLY compares the state's bits with its fingerprint first */
} gw_task;

/* Carries the task out. Adds to the mail what the task's event holds besides the outcome. */
typedef bool gw_task_run(const gw_task *task, gw_mail *mail, gw_err *err);

/* The next state takes the place of the present one. The mail gets the job's report as text. */
gw_task_run gw_task_apply;
/* Compares the bits of the whole state with those that it had when it was made. */
gw_task_run gw_task_look;
/* A disputed shard is computed once more from the present state, and added to nothing (--verify). */
gw_task_run gw_task_probe;
/* The job's effects of a committed step (core/godwit.h, `commit`). Tasks run in the order of the actions, so
 * the state is the one that the brain meant; workers compute the next step meanwhile. */
gw_task_run gw_task_commit;

#endif
