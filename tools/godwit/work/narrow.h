/* The kernels by which NCCL's exact sums travel as int32 (net/nccl/narrow.h, kernels/cuda/device/int32.h). */
#ifndef GODWIT_TOOLS_GODWIT_WORK_NARROW_H
#define GODWIT_TOOLS_GODWIT_WORK_NARROW_H

#include "net/nccl/narrow.h"

extern const gw_nccl_narrow gw_gpus_narrow;

#endif
