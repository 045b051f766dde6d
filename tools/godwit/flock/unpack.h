/* Puts the files that travel with a job into its working directory. All of them are made beneath one open folder, component
 * by component, and no symbolic link is followed: neither a list of files nor what an earlier child of the job has left
 * there leads anywhere else. Any thread; waits for the disk. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_UNPACK_H
#define GODWIT_TOOLS_GODWIT_FLOCK_UNPACK_H

#include "core/flock/files.h"

/* Reads a chunk of exactly `length` bytes. */
typedef bool gw_unpack_read(void *context, const gw_hash *chunk, void *bytes, uint32_t length, gw_err *err);

/* Makes the files in `folder`, in place of files that are there under their names, with mode 0600, or 0700 where they are
 * executable. Fails with GW_E_INVALID where something that is no file has the name of one, or something that is no folder
 * that of a folder, and names it. */
bool gw_unpack(const char *folder, const gw_job_files *files, gw_unpack_read *read, void *context,
               gw_err *err);

#endif
