/* The search for the peers that have the chunks of a checkpoint: as a running peer tells, or as far as a
 * directory tells. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_OTHERS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_INSPECT_OTHERS_H

#include "tools/godwit/service/client.h"

typedef struct gw_inspect_others {
    gw_chunk_holders holders;
    bool asked;    /* they were asked; else the chunks are those that each should have by its id */
    char why[400]; /* why nobody could be asked; empty if somebody was */
} gw_inspect_others;

/* Asks a running peer, and through it the others. */
bool gw_inspect_ask(gw_client *client, const gw_manifest *manifest, gw_inspect_others *others, gw_err *err);

/* Asks through the peer that runs in this directory. Where none does, or it does not answer, the other
 * peers are those that were met there last in this job, and each chunk is with the one by whose id it is
 * placed there (core/state/placement.h). That is where the chunks are if the flock had the same members
 * when the checkpoint was saved. */
void gw_inspect_find_others(const char *dir, const char *program, const gw_manifest *manifest,
                            gw_inspect_others *others);
void gw_inspect_others_free(gw_inspect_others *others);

#endif
