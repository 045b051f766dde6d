/* The state from which a job goes on (--continue): a checkpoint of another job, its parent, in this peer's
 * directory or in another one. This file finds the checkpoint, and makes it a checkpoint of the new job; from
 * then on the new job resumes from it as from its own.
 *
 * The identity of a job that goes on has the lines "parent=" (the parent's id), "parent-step=" and
 * "parent-root=", and "parent-place=", what the job recorded of its place (core/godwit.h gw_origin). The same
 * command therefore means the same job again when it resumes, although the parent, or the job itself, has
 * newer checkpoints by then: the identities in the directory tell where it branched off.
 *
 * Peers may find different checkpoints, and a peer with an empty directory none. They take the one that a
 * running flock went on from, or the latest (core/brain/members/strangers.c), unless --continue names the
 * step.
 *
 * Main thread. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_ORIGIN_H
#define GODWIT_TOOLS_GODWIT_NODE_ORIGIN_H

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/os/directory.h"
#include "tools/godwit/options/options.h"

#include <stdio.h>

typedef struct gw_node_origin {
    bool wanted; /* --continue; the other members are meaningful */
    bool known;  /* false: other peers have to name the checkpoint */
    bool fixed;  /* this peer does not take another one that others name */
    gw_hash job, root;
    uint64_t step;
    char *place;       /* NULL: the job finds it out from the manifest's parameters */
    char *begun;       /* the identity of the job that went on from here in this directory; NULL: none did */
    char *missing;     /* why there is no checkpoint, for people; NULL: there is one, or others name it */
    char *choice;      /* for people: which of several jobs is the parent; NULL: there was no choice */
    bool has_manifest; /* this peer has the checkpoint's manifest, though perhaps not all chunks */
    gw_manifest manifest;    /* of the parent, or of the new job's own copy */
    char dir[GW_PATH_BYTES]; /* the directory of the manifest */
    gw_origin origin;        /* for the job */
} gw_node_origin;

/* Lists the checkpoints from which the command may go on, in the order in which they are to be tried:
 * those of jobs that went on in this directory before, the newest first, and then the parent's newest, or
 * the one that --continue names. The first whose job turns out to have the same identity as this command
 * is right, and otherwise the last one; where that checkpoint cannot be found, this entry is `missing`. A
 * directory, a job and a step that --continue names hold for the jobs that went on before as well, except
 * that the very command by which such a job was started last is not questioned: the parent's directory may
 * be gone by then. There is one entry, not `wanted`, without --continue. `told`: the lines of an identity
 * that another peer has named, which is then the only entry; otherwise NULL. With `anew`, jobs that went
 * on before are not listed. Fails with GW_E_USAGE where no job went on before, there is nothing to go on
 * from and nobody can name it, or several jobs have a checkpoint of the step that is named, and with
 * GW_E_INVALID where `told` is no such text. gw_node_origins_free frees the list. Blocks on the disk. */
bool gw_node_origins_find(const gw_run_options *options, gw_directory *directory, const char *told, bool anew,
                          gw_node_origin **list, uint32_t *count, gw_err *err);
void gw_node_origins_free(gw_node_origin *list, uint32_t count);
/* Frees the members of one entry, which the caller has moved out of the list. */
void gw_node_origin_close(gw_node_origin *origin);

/* Whether the parent's tensors are those of this plan. Otherwise the call fails with GW_E_USAGE and names
 * the first tensor that differs, with its shapes. */
bool gw_node_origin_check(const gw_node_origin *origin, const gw_plan *plan, gw_err *err);

/* Writes the lines of the identity; none without --continue. `place` is what the job has recorded; NULL:
 * nothing. */
void gw_node_origin_write(const gw_node_origin *origin, const char *place, FILE *out);

/* The new job, as its manifests describe it. */
typedef struct gw_node_branch {
    const char *name;
    gw_hash id;
    const gw_param *params;
    uint32_t param_count;
} gw_node_branch;

/* Makes the checkpoint a checkpoint of the new job in `store`, with as many of its chunks as this peer
 * has. Does nothing where this peer has no manifest of it. Durable on return; called again it changes
 * nothing. Blocks on the disk. */
bool gw_node_origin_import(const gw_node_origin *origin, const gw_node_branch *branch, gw_store *store,
                           gw_err *err);

#endif
