#include "kernels/host/need.h"

#include "core/base/assert.h"

#include <stdio.h>

/* Writes how to make the part smaller that does not fit. */
static void advise(const gw_need *need, char *text, size_t size) {
    const char *lighter = need->lighter;
    if (need->rest_bytes > need->most_bytes)
        snprintf(text, size, "%s", need->smaller != NULL ? need->smaller : "a smaller job");
    else if (need->workers == 1 || need->lane_bytes > need->most_bytes - need->rest_bytes)
        snprintf(text, size, "%s", lighter != NULL ? lighter : "smaller shards");
    else
        snprintf(text, size, "fewer --workers%s%s", lighter != NULL ? " or " : "",
                 lighter != NULL ? lighter : "");
}

bool gw_need_check(const gw_need *need, const char *of, const char *has, gw_err *err) {
    const double gib = 0x1p-30;
    uint64_t lanes = need->workers * need->lane_bytes, all = need->rest_bytes + lanes;
    char advice[200];
    GW_ASSERT(need->workers >= 1);
    if (all <= need->most_bytes) return true;
    advise(need, advice, sizeof advice);
    if (lanes == 0)
        return gw_fail(err, GW_E_LIMIT, "this job needs %.1f GiB of %s; %s %.1f. Take %s", (double)all * gib,
                       of, has, (double)need->most_bytes * gib, advice);
    return gw_fail(err, GW_E_LIMIT,
                   "this job needs %.1f GiB of %s: %.1f for state and sums, %.1f for %u worker%s; %s %.1f. "
                   "Take %s",
                   (double)all * gib, of, (double)need->rest_bytes * gib, (double)lanes * gib, need->workers,
                   need->workers == 1 ? "" : "s", has, (double)need->most_bytes * gib, advice);
}
