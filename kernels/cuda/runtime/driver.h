/* The build of NVIDIA's driver. Two builds that support the same CUDA may compile PTX to different code. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_DRIVER_H
#define GODWIT_KERNELS_CUDA_RUNTIME_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

/* Writes what follows ".so." in the name of the file that the process has opened as `name`, after resolving
 * links: "580.95.05" for libcuda.so.1, which is the driver's build. Returns false and writes "" where the
 * library is not open, or its file names no such version. Any thread. */
bool gw_cuda_library_version(const char *name, char *text, size_t size);

/* Writes the build of the driver that compiles for this process: "580.95.05", or "unknown". Any thread, once
 * a GPU is in use. */
void gw_cuda_driver_build(char *text, size_t size);

#endif
