/* Several devices of one compute class as one (kernels/device/device.h): the GPUs of a peer.
 *
 * Each part has a copy of the state and an accumulator, and its own lanes' shards are in that. The parts
 * share a ledger, so that emptying and the picture of what is held are of all at once. A reduction adds the
 * parts' accumulators: exactly, so that the bytes are those of one device. In host memory that happens here,
 * and the collective is given the sum; on GPUs it is given every part's, and adds them with the other peers'.
 *
 * Whatever changes the state is done by every part, at the same time, and what comes of it is compared: parts
 * whose states differ are an error that names each one's fingerprint. */
#ifndef GODWIT_KERNELS_DEVICE_GROUP_GROUP_H
#define GODWIT_KERNELS_DEVICE_GROUP_GROUP_H

#include "kernels/device/device.h"

/* Opens part `part`. */
typedef bool gw_group_opener(void *context, uint32_t part, const gw_device_options *options,
                             gw_device **device, gw_err *err);

/* Opens `parts` devices, 2 to GW_DEVICE_PARTS, one after the other, and a device that is all of them. Either
 * all are GPUs or none is. Lanes go to the parts by turns, so there should be as many at least. Fails with
 * GW_E_UNSUPPORTED where two are not of one class. *device is NULL on failure. Memory besides the parts':
 * with the first reduction whose segments are to lie in host memory a sum there. */
bool gw_device_group_open(const gw_device_options *options, uint32_t parts, gw_group_opener *open,
                          void *context, gw_device **device, gw_err *err);

#endif
