/* The sums of a group (kernels/device/group/group.h): the reductions of its parts, joined to one. */
#ifndef GODWIT_KERNELS_DEVICE_GROUP_SUMS_H
#define GODWIT_KERNELS_DEVICE_GROUP_SUMS_H

#include "kernels/device/device.h"
#include "kernels/host/team.h"

typedef struct gw_group_sums gw_group_sums;

/* Opens the sums of parts[count], which have one layout. `parts` and `team`, which has a member for each
 * part, outlive the result. Returns NULL on failure. */
gw_group_sums *gw_group_sums_open(gw_device *const *parts, uint32_t count, gw_team *team, gw_err *err);
void gw_group_sums_close(gw_group_sums *sums); /* NULL is allowed */
uint64_t gw_group_sums_bytes(const gw_group_sums *sums);

/* Do what gw_device_ops.reduce_begin and .reduce_end do. */
bool gw_group_sums_begin(gw_group_sums *sums, gw_reduce mode, gw_place place, gw_segments *send,
                         gw_segments *receive, gw_err *err);
bool gw_group_sums_end(gw_group_sums *sums, gw_verdict *verdict, gw_err *err);
/* Abandons a reduction that was begun. The caller has the parts abandon theirs. */
void gw_group_sums_release(gw_group_sums *sums);

/* Writes the name of a part for messages: "GPU 3", or "part 1" where the part is not a GPU. */
const char *gw_group_part_text(const gw_device *part, uint32_t number, char text[24]);

#endif
