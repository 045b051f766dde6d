/* Identities of jobs as text, one "name=value" a line, and the files of a directory in which they are
 * kept. A job's id is the hash of its identity, and two identities that differ can be compared line by
 * line. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_IDENTITY_H
#define GODWIT_TOOLS_GODWIT_NODE_IDENTITY_H

#include "checkpoint/manifest.h"
#include "core/os/directory.h"

#include <stdio.h>

/* The id of the job with this identity. */
gw_hash gw_identity_text_id(const char *identity);

/* Reads the identity of a job that was begun in the directory `dir`, as text that the caller frees; NULL:
 * there is none. Blocks on the disk. */
char *gw_identity_text_read(gw_io *io, const char *dir, const gw_hash *id);

/* Reads the identities of all jobs that were begun in the directory, in the order of their ids. The caller
 * frees each text and the list. Blocks on the disk. */
char **gw_identity_text_list(gw_directory *directory, uint32_t *count);

/* Records an identity in the directory, durable on return. Blocks on the disk. */
bool gw_identity_text_write(gw_directory *directory, const gw_hash *id, const char *identity, gw_err *err);

/* Records the command by which the job was last started in the directory, for people who have forgotten it,
 * unless that is what the directory has. Durable on return. Blocks on the disk. */
bool gw_identity_command_write(gw_directory *directory, const gw_hash *id, const char *command, gw_err *err);

/* Reads it from the directory at this path, which need not be open; the caller frees the text. NULL: none
 * is recorded. Blocks on the disk. */
char *gw_identity_command_read(gw_io *io, const char *dir, const gw_hash *id);

/* Removes from the directory what it records of a job beside checkpoints: its identity, its command, and
 * this peer's votes in it. Nothing is durable before the folder is flushed. A missing file is no error.
 * Blocks on the disk. */
bool gw_identity_forget(gw_directory *directory, const gw_hash *id, gw_err *err);

enum { GW_IDENTITY_NAMED = 3 }; /* differences from another job that an error names */

/* Writes for people what differs between the identity of another job, `theirs`, and this one's: first what
 * the command line gives (`given`: names of options, and NULL), then what else does; at most `most`
 * differences, and how many more there are. What follows from another difference is named where it is
 * given, and not counted. Returns in how many things they differ. */
uint32_t gw_identity_text_compare(FILE *out, const char *theirs, const char *ours, const char *const *given,
                                  uint32_t most);

/* Writes all that differs between the identity of a job and this one's, which goes on from it. */
void gw_identity_text_changes(FILE *out, const char *parent, const char *ours, const char *const *given);

/* Writes what differs between a job of which there is only a manifest and a job with these parameters. An
 * earlier build has left the manifest, with the options as they were typed, and no identity. It named the
 * build in what a job is, so that no job of this build is the same. Returns how many parameters differ. */
uint32_t gw_identity_text_compare_old(FILE *out, const gw_manifest *theirs, const gw_param *ours,
                                      uint32_t count);

#endif
