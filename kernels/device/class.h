/* The compute class: what must be equal on two peers for a shard to give the same bytes on both. This header
 * also makes different processors equal: OpenBLAS chooses its kernels by processor model unless the
 * environment names them before the library is loaded. */
#ifndef GODWIT_KERNELS_DEVICE_CLASS_H
#define GODWIT_KERNELS_DEVICE_CLASS_H

#include "core/base/err.h"

/* Must be the first call in main, before any thread starts. It removes from the environment what would change
 * results or start hidden threads (OPENBLAS_*, OMP_*, CUBLAS*, ...) or make NCCL wait for dead peers, and
 * makes OpenBLAS use the kernels of processor family `name` ("haswell", "skylakex", ...; any case), or with
 * NULL those of gw_cpu_class_for. If the environment has to change, the process executes itself again with
 * `argv`, and the call does not return. Fails with GW_E_USAGE for an unknown name (the message lists the
 * known ones), GW_E_UNSUPPORTED where this processor lacks the instructions or OpenBLAS the kernels, and
 * GW_E_IO where the execution fails. */
bool gw_cpu_class_apply(const char *name, char **argv, gw_err *err);

/* The family to compute as by default, on a processor that OpenBLAS classifies as `found` and that has AVX2
 * with FMA, and AVX-512, as stated. NULL: `found` itself is right. OpenBLAS classifies by processor model. It
 * takes models newer than itself for the oldest ones (an Intel with AVX2 for "Prescott", at a third of the
 * speed), and divides those with AVX-512 into several families. Pure. */
const char *gw_cpu_class_for(const char *found, bool avx2, bool avx512);

/* The family whose instructions libraries of other programs are to compute with (PyTorch, oneDNN, MKL, NumPy),
 * so that processors of one compute class take the same way: "SkylakeX" (AVX-512), "Haswell" (AVX2),
 * "Sandybridge" (AVX) or "Nehalem" (SSE4.2); "" for other processors. It follows the family that was named;
 * where OpenBLAS has chosen one by itself, it is a function of this processor's instructions alone, as a
 * program that runs without a peer finds the same (tools/python/godwit/pin.py). Behind gw_cpu_class_apply, any
 * thread. */
const char *gw_cpu_class_instructions(void);
/* The same of all that this processor has, whatever was named. Any thread. */
const char *gw_processor_instructions(void);

/* Writes the build id of this program in hexadecimal; "unknown" where it was linked without one. */
enum { GW_BUILD_ID_TEXT = 17 };
void gw_build_id(char text[GW_BUILD_ID_TEXT]);

/* The number of the kernel class: builds with the same number give the same bits on processors of one
 * family, with one version of OpenBLAS. */
int gw_kernel_class(void);

/* Writes the compute class: "cpu kernels=1 openblas=0.3.21 core=Haswell". Parts are separated by single
 * spaces, so that two classes can be compared part by part. Any thread. */
void gw_cpu_class_text(char *text, size_t size);

#endif
