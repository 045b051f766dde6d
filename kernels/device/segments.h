/* Whether what was given to a sum still is what was added up. */
#ifndef GODWIT_KERNELS_DEVICE_SEGMENTS_H
#define GODWIT_KERNELS_DEVICE_SEGMENTS_H

#include "kernels/device/device.h"

/* Of whole buckets in host memory, each with its header (core/state/exact.h): whether the data have the
 * fingerprint that the header says. Any thread. */
bool gw_segments_fit(gw_segments segments);
/* What reduce_begin says where it is not. Returns false. */
bool gw_fail_own_part(gw_err *err);

#endif
