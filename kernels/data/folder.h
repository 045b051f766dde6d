/* The files in a folder. */
#ifndef GODWIT_KERNELS_DATA_FOLDER_H
#define GODWIT_KERNELS_DATA_FOLDER_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_folder {
    char **paths; /* "FOLDER/..." in the order of their bytes, whatever the locale */
    uint32_t count;
} gw_folder;

/* Lists all files below a folder, those of its folders too, but none whose name begins with a dot or that
 * lies in a folder with such a name. Links to files count as files, and links to folders are passed over.
 * Fails with GW_E_IO where a folder cannot be read, or with GW_E_NOTFOUND where there is no file; *folder is
 * empty then. Blocks on the disk. */
bool gw_folder_list(const char *path, gw_folder *folder, gw_err *err);
void gw_folder_free(gw_folder *folder);

#endif
