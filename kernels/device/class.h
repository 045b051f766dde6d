/* The compute class: what must be alike on two peers for a shard to give the same bytes on both. And the way
 * to make different processors alike: OpenBLAS chooses its kernels by processor, unless told before it is
 * loaded. */
#ifndef GODWIT_KERNELS_DEVICE_CLASS_H
#define GODWIT_KERNELS_DEVICE_CLASS_H

#include "core/base/err.h"

/* Call first in main, before any thread: removes from the environment what would change results or start
 * threads behind our back (OPENBLAS_*, OMP_*, CUBLAS*, ...) or have NCCL wait for the dead, and makes
 * OpenBLAS use the kernels of processor family `name` ("haswell", "skylakex", ...; any case). NULL: those of
 * gw_cpu_class_for. If the environment had to change, the process is executed again with `argv` and the call
 * does not return. Fails with GW_E_USAGE for an unknown name (the message lists those there are),
 * GW_E_UNSUPPORTED when this processor lacks the instructions or OpenBLAS the kernels, and GW_E_IO when the
 * execution fails. */
bool gw_cpu_class_apply(const char *name, char **argv, gw_err *err);

/* What to compute as when nobody says, on a processor that OpenBLAS by itself takes for `found`, and that
 * runs AVX2 with FMA, and AVX-512. NULL: as that. OpenBLAS looks at a processor's model: those that are newer
 * than itself it takes for the oldest there are (an Intel with AVX2 for "Prescott", at a third of the speed),
 * and those with AVX-512 that it knows for several kinds. Pure. */
const char *gw_cpu_class_for(const char *found, bool avx2, bool avx512);

/* Which build of the program this is, in hexadecimal: "unknown" when it was linked without a build id. */
enum { GW_BUILD_ID_TEXT = 17 };
void gw_build_id(char text[GW_BUILD_ID_TEXT]);

/* "cpu godwit=0.1.0 build=5f92... openblas=0.3.21 core=Haswell kernels=1": parts separated by single spaces,
 * so that two classes can be compared part by part. Any thread. */
void gw_cpu_class_text(char *text, size_t size);

#endif
