/* The files in a folder. */
#ifndef GODWIT_KERNELS_DATA_FOLDER_H
#define GODWIT_KERNELS_DATA_FOLDER_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_folder {
    char **paths; /* paths "FOLDER/...", sorted by their bytes in every locale */
    uint32_t count;
    char **left; /* paths of what is there and is no data: directories of Godwit, and keys */
    uint32_t left_count;
} gw_folder;

/* Lists all files below a folder and its folders. Files and folders whose names begin with a dot are left
 * out, and so are the directories of peers (godwit run --dir) and files of cluster keys (gw_folder_is_key).
 * Links to files count as files; links to folders are not followed. Fails with GW_E_IO where a folder cannot
 * be read, and with GW_E_NOTFOUND where there is no file; *folder is empty then. Blocks on the disk.
 * */
bool gw_folder_list(const char *path, gw_folder *folder, gw_err *err);
void gw_folder_free(gw_folder *folder);

/* Whether a file holds cluster keys (godwit keygen): lines of 64 hexadecimal digits, and comments. Blocks. */
bool gw_folder_is_key(const char *path);
/* Whether a file is no text, as a byte of zero is among its first ones. Blocks. */
bool gw_folder_is_binary(const char *path);

#endif
