/* What this peer computes with, as the compute helper sees it: the device, its workers and the state that
 * they hold; and the helper's short tasks. Loads (load.h) and reductions (reduce.h) work with the same
 * engine.
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

/* The state that the device holds. Protected by `lock`: threads that serve it to other peers read it too. */
typedef struct gw_held_state {
    pthread_rwlock_t lock;
    bool valid;
    uint64_t step;
    gw_state_print print; /* taken when the state was made */
} gw_held_state;

typedef struct gw_engine {
    gw_device *device; /* this and the next three are borrowed */
    gw_workers *workers;
    gw_payloads *payloads; /* NULL: the job's shards have none */
    gw_saver *saver;
    gw_held_state state;
    atomic_uint_fast64_t pieces; /* pieces of states that have been brought here; any thread adds */
    atomic_bool
        staging; /* the compute helper waits for the checkpoint writer, for which the brain has a deadline */
} gw_engine;

/* Waits until no snapshot of the state is being copied: the state may change. */
void gw_engine_wait_staged(gw_engine *engine);

/* Whether the state in memory has the bits it had when it was made, while no deal is being worked on. False:
 * it has not (*damaged), or that could not be found out. */
bool gw_engine_is_sound(gw_engine *engine, bool *damaged, gw_err *err);
/* The same for what contributions read of the state: APPLY checks the rest before that is used. */
bool gw_engine_read_soundly(gw_engine *engine, bool *damaged, gw_err *err);
/* The same for a state that was found to have this fingerprint. */
bool gw_engine_expects(const gw_engine *engine, gw_state_print found, bool *damaged, gw_err *err);
/* Whether units failed because the copies of the state on several GPUs differ: it is damaged. Logs which. */
bool gw_engine_copies_differ(const gw_err *err);

/* A task, as an action of the brain asks for it; core/brain/world.h says which members an action has. */
typedef struct gw_task {
    gw_engine *engine;
    gw_token token;
    uint64_t step;
    uint32_t shard;  /* PROBE */
    bool skip, look; /* APPLY */
} gw_task;

/* Carries the task out, and adds to the mail what its event tells besides the outcome. */
typedef bool gw_task_run(const gw_task *task, gw_mail *mail, gw_err *err);

gw_task_run gw_task_apply, gw_task_look, gw_task_probe;
/* The job's effects of a committed step (core/godwit.h, `commit`), in the order of the actions: the state is
 * the one the brain meant, while workers compute the next step. */
gw_task_run gw_task_commit;

#endif
