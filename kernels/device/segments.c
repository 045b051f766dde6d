#include "kernels/device/segments.h"

#include "core/base/assert.h"
#include "kernels/device/exact_add.h"

bool gw_segments_fit(gw_segments segments) {
    const gw_exact_path *path = gw_exact_path_best();
    for (uint32_t i = 0; i < segments.count; i++) {
        const gw_segment *bucket = &segments.list[i];
        const int64_t *words = bucket->data;
        GW_ASSERT(!bucket->is_float && bucket->count >= GW_EXACT_HEADER);
        uint64_t found = path->fingerprint(0, bucket->count - GW_EXACT_HEADER, words + GW_EXACT_HEADER);
        if (found != (uint64_t)words[GW_EXACT_FINGERPRINT]) return false;
    }
    return true;
}

bool gw_fail_own_part(gw_err *err) {
    return gw_fail(err, GW_E_CORRUPT, "its own sum has other bits than were added up");
}
