/* A checkpoint in the directories of peers, or of a running flock: found, chosen, and read without a lock,
 * also while a run writes there. */
#ifndef GODWIT_TOOLS_GODWIT_WEIGHTS_CHECKPOINT_H
#define GODWIT_TOOLS_GODWIT_WEIGHTS_CHECKPOINT_H

#include "checkpoint/catalog.h"
#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/base/id.h"
#include "core/os/durable.h"
#include "tools/godwit/service/client.h"

struct argp_state;

#define GW_CHECKPOINT_NEWEST UINT64_MAX

/* The choice of a checkpoint. */
typedef struct gw_checkpoint_choice {
    const char *job_name; /* the name of its job; NULL = any */
    const char *job;      /* the first digits of its job's id (gw_checkpoint_job_digits); NULL = any job */
    uint64_t step;        /* its step; GW_CHECKPOINT_NEWEST = the newest whole checkpoint */
    bool best;            /* that of the best evaluated state (--keep-best), and no other one */
    gw_client_place
        place; /* a running peer that is asked for what is not in the directories; `from` may be NULL */
} gw_checkpoint_choice;

enum { GW_CHECKPOINT_JOB_TEXT = 9 };

/* The flock, as far as it is asked for chunks. */
typedef struct gw_checkpoint_flock {
    char *const *dirs; /* where a peer may run that asks the others */
    uint32_t dir_count;
    const char *program;
    gw_client *client;           /* NULL: not connected */
    gw_err why;                  /* why there is no client; code GW_OK: nobody was asked yet */
    const gw_manifest *manifest; /* the one whose holders are known; NULL = none */
    gw_chunk_holders holders;
} gw_checkpoint_flock;

/* A checkpoint that is being read. */
typedef struct gw_checkpoint {
    const gw_manifest *manifest;
    gw_store *const *stores;
    uint32_t store_count;
    gw_checkpoint_flock *flock; /* NULL = it is not asked */
    uint32_t jobs;              /* from which the first was taken, though the choice allows others as well */
    bool unreadable;            /* one of its chunks could not be read */
} gw_checkpoint;

/* Reads chunk number `chunk` of the checkpoint, gw_chunk_length bytes, from the first directory that has
 * it, or else from the flock. Fails with GW_E_NOTFOUND where it is nowhere, with GW_E_PEER where the
 * connection to the flock is lost, and otherwise as gw_store_read does; the text names the checkpoint.
 * Blocks. */
bool gw_checkpoint_chunk(gw_checkpoint *checkpoint, uint32_t chunk, void *bytes, gw_err *err);

/* Does something with a checkpoint, which is valid during the call. */
typedef bool gw_checkpoint_user(void *context, gw_checkpoint *checkpoint, gw_err *err);

/* Calls `use` with the checkpoint that is chosen, in these state directories. Each peer's directory may hold
 * a part of it. What is in none of them is asked of the flock (tools/godwit/service): through the peer that
 * choice->place names, or else through one that runs in one of the directories. There may be no directory if
 * a peer is named.
 *
 * With `program`, the name of the command in messages, the function is lenient: among several jobs it takes
 * the one that was saved last by the wall clock, of those that have the step if one is chosen; the copy of
 * another job's state with which a job begins (gw_manifest_is_copy) does not count as saved by that job.
 * Where a call of `use` fails because a chunk cannot be read, it calls `use` with the next older checkpoint
 * of the same job; both are reported on stderr. If a run deletes the checkpoint that is being read, it starts
 * again, up to five times. Any other failure of `use` ends it.
 *
 * With NULL it chooses the same job and reports nothing. For peers that must all read the same it then uses
 * the newest checkpoint or none, and asks nobody. Either way it fails with GW_E_USAGE where the given digits
 * of an id fit several jobs.
 *
 * The function changes nothing on disk and needs no lock. It fails with GW_E_USAGE when there is no such
 * directory or checkpoint, with GW_E_NOTFOUND when the peer there has saved none yet, or none of the
 * directories has a chunk, with GW_E_CORRUPT when the last checkpoint that was tried is damaged, and as
 * `use` does. Blocks. */
bool gw_checkpoint_use(char *const *dirs, uint32_t dir_count, const gw_checkpoint_choice *choice,
                       const char *program, gw_checkpoint_user *use, void *context, gw_err *err);

/* Returns the checkpoint of a catalog that gw_checkpoint_use tries first, a part of the catalog, and
 * reports on stderr which of several jobs it takes. `where` names the
 * catalog in messages, and `peer` tells that a peer runs there. Returns NULL where gw_checkpoint_use fails
 * so. */
const gw_manifest *gw_checkpoint_choose(const gw_catalog *catalog, const gw_checkpoint_choice *choice,
                                        const char *program, const char *where, bool peer, gw_err *err);

/* Writes the path of the directory of a peer that is named on a command line: `given`, or its godwit-data.
 * Where it is the latter and a model lies beside it, that is reported on stderr, unless `program` is NULL.
 * Fails with GW_E_USAGE where there is no such folder. */
bool gw_checkpoint_dir_find(const char *given, const char *program, char path[GW_PATH_BYTES], gw_err *err);

/* Writes the first 8 hexadecimal digits of a job's id, as `godwit run` shows it. Returns `text`. */
const char *gw_checkpoint_job_short(const gw_hash *id, char text[GW_CHECKPOINT_JOB_TEXT]);
/* Returns the part of a text that is the beginning of a job's id, 1 to 64 hexadecimal digits: all of it, or
 * what follows the letter j, which a file of metrics has before it. NULL: the text is neither. */
const char *gw_checkpoint_job_digits(const char *text);
/* Does so with the argument of --job; where it is neither, argp_error ends the process with a message. */
const char *gw_checkpoint_job_of_option(struct argp_state *state, const char *text);
/* Splits "@STEP", "@best", "@JOB:", "@JOB:STEP" or "@JOB:best" off a directory's name, unless a file has the
 * whole name, and sets choice->step, choice->best and choice->job, which points into `dir`. */
void gw_checkpoint_choice_cut(char *dir, gw_checkpoint_choice *choice);
/* Does so with a directory of a command line. Returns false if the choice has a step, the best state or a
 * job already, and the name gives one as well. */
bool gw_checkpoint_choice_take(char *dir, gw_checkpoint_choice *choice);

#endif
