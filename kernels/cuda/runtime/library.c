#include "kernels/cuda/runtime/library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

bool gw_cuda_library_open(const gw_library_wanted *wanted, void *table, gw_err *err) {
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    char named[2][PATH_MAX], path[GW_LIBRARY_PATH];
    const char *folders[4];
    int count = 0;
    for (int i = 0; i < 2; i++) {
        const char *toolkit = getenv(variables[i]);
        if (toolkit == NULL || toolkit[0] == '\0') continue;
        snprintf(named[i], sizeof named[i], "%.4000s/lib64", toolkit);
        folders[count++] = named[i];
    }
    folders[count++] = "/usr/local/cuda/lib64";
    folders[count] = NULL;
    gw_library_wanted in_toolkit = *wanted;
    in_toolkit.folders = folders;
    in_toolkit.advice = "it comes with the CUDA toolkit";
    return gw_library_open(&in_toolkit, table, path, err);
}
