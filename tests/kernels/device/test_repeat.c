/* One step a thousand times from the same state gives the same fingerprint, in whatever order the threads
 * run. */
#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/synthetic/synthetic.h"
#include "tests/kernels/rig.h"

#include <criterion/criterion.h>
#include <inttypes.h>

enum { TIMES = 1000 };

static void repeat(const gw_job_type *type, const char *const *settings) {
    rig r;
    rig_open(&r, type, settings, 1, 3);
    uint64_t first = 0;
    for (int i = 0; i < TIMES; i++) {
        rig_init(&r);
        uint64_t fingerprint = rig_step(&r, 0, GW_REDUCE_ALONE);
        if (i == 0) first = fingerprint;
        cr_assert_eq(fingerprint, first, "run %d: %016" PRIx64 " and not %016" PRIx64, i, fingerprint, first);
    }
    rig_close(&r);
}

Test(repeat, a_step_of_digits) {
    repeat(&gw_job_digits,
           (const char *const[]){"samples=480", "hidden=24", "batch=120", "micro-batch=10", NULL});
}

Test(repeat, a_step_of_synthetic) {
    repeat(&gw_job_synthetic, (const char *const[]){"shards=24", "shard-ms=0", "state-bytes=64k", NULL});
}
