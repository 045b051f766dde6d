/* The files that travel with a submission. All of them are in the directory that the job is submitted in, or below it:
 * those that the user names (a folder means the files below it whose names do not begin with a dot), and by themselves the
 * script that the job runs and the modules of its folder that it imports.
 *
 * Each is read once, beneath one open folder and through no symbolic link, and kept in memory as its chunks. Main thread. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_PACK_H
#define GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_PACK_H

#include "core/flock/files.h"

typedef struct gw_pack gw_pack;

/* A pack of the working directory, with no files in it yet. The caller closes it. */
gw_pack *gw_pack_open(gw_err *err);
void gw_pack_close(gw_pack *pack); /* NULL is allowed */

/* Adds a file or folder that the user names. Fails with GW_E_USAGE where it is not below the directory, is a link, or is
 * neither a file nor a folder, or where something in it is, and with GW_E_LIMIT where there are too many files or bytes.
 * `option` is how the user has named it, for the message. */
bool gw_pack_add(gw_pack *pack, const char *path, const char *option, gw_err *err);
/* Adds a file that is in memory, and nowhere on the disk. Fails as gw_pack_add does. */
bool gw_pack_add_bytes(gw_pack *pack, const char *path, const void *bytes, size_t count, gw_err *err);
/* Adds the script that a job's words run, if they run one that is below the directory, and its modules. `is_command`: the
 * words are a command's, else those of `godwit run`. What cannot travel is said on standard error, in the name of
 * `command`, and left out. */
void gw_pack_add_script(gw_pack *pack, const char *command, char *const *words, int count, bool is_command);

/* Closes the list: *list becomes its name, all zeros where there are no files. After that come its chunks. */
bool gw_pack_seal(gw_pack *pack, gw_hash *list, gw_err *err);
/* The chunks that are to be given to the member, none twice, the list among them. */
typedef struct gw_pack_chunk {
    gw_hash name;
    const void *bytes;
    uint32_t length;
} gw_pack_chunk;
const gw_pack_chunk *gw_pack_chunks(const gw_pack *pack, uint32_t *count);

#endif
