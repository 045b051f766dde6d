/* Several devices of one compute class as one device (kernels/device/device.h): the GPUs of a peer.
 *
 * Each part holds a copy of the state, and an accumulator for the shards of its own lanes. The parts share a
 * ledger, so that emptying, and the view of what is held, cover all parts at once. A reduction adds the
 * parts' accumulators exactly, so the bytes are those of one device. In host memory the group adds them and
 * the collective receives the sum; on GPUs the collective receives every part's segments and adds them with
 * the other peers'.
 *
 * Every change of the state is made by all parts at the same time, and the resulting fingerprints are
 * compared. Parts whose states differ are an error that names each part's fingerprint. */
#ifndef GODWIT_KERNELS_DEVICE_GROUP_GROUP_H
#define GODWIT_KERNELS_DEVICE_GROUP_GROUP_H

#include "kernels/device/device.h"

/* Opens part `part`. */
typedef bool gw_group_opener(void *context, uint32_t part, const gw_device_options *options,
                             gw_device **device, gw_err *err);

/* Opens `parts` devices, 2 to GW_DEVICE_PARTS, one after the other, and a device that consists of them.
 * Either all parts are GPUs or none is. Each new lane goes to the part with the fewest, so there should be at
 * least as many lanes as parts. Fails with GW_E_UNSUPPORTED where two parts have different compute classes;
 * *device is NULL on failure. Besides the parts' memory, the first reduction with segments in host memory
 * allocates a sum there. */
bool gw_device_group_open(const gw_device_options *options, uint32_t parts, gw_group_opener *open,
                          void *context, gw_device **device, gw_err *err);

#endif
