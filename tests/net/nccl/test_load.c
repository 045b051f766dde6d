/* Opening NCCL, which may be missing, and judging its version. */
#include "net/nccl/api.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(nccl_load, versions_are_judged) {
    char warning[160], text[24];
    gw_err err;
    cr_assert(!gw_nccl_judge(22605, warning, &err));
    cr_assert(strstr(err.text, "2.26.5") != NULL && strstr(err.text, "2.27.0") != NULL, "%s", err.text);
    const int crash[] = {22803, 22807, 22808}, sound[] = {22700, 22802, 22809, 23004};
    for (size_t i = 0; i < sizeof crash / sizeof crash[0]; i++) {
        cr_assert(gw_nccl_judge(crash[i], warning, &err));
        cr_assert_neq(warning[0], '\0', "%d", crash[i]);
    }
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        cr_assert(gw_nccl_judge(sound[i], warning, &err));
        cr_assert_eq(warning[0], '\0', "%d: %s", sound[i], warning);
    }
    gw_nccl_version_text(22809, text);
    cr_assert_str_eq(text, "2.28.9");
    gw_nccl_version_text(2804, text); /* up to 2.8 it counted in thousands */
    cr_assert_str_eq(text, "2.8.4");
    gw_nccl_version_text(20903, text);
    cr_assert_str_eq(text, "2.9.3");
}

/* With the library or without it, every outcome has a text that helps. */
Test(nccl_load, the_librarys_absence_is_an_error_that_helps) {
    gw_nccl_api api;
    gw_nccl_found found = {0};
    gw_err err;
    setenv("GODWIT_NCCL", "/nonexistent/libnccl.so.2", 1);
    cr_assert(!gw_nccl_load(&api, &found, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    cr_assert(strstr(err.text, "GODWIT_NCCL") && strstr(err.text, "/nonexistent/libnccl.so.2"), "%s",
              err.text);
    unsetenv("GODWIT_NCCL");
    if (gw_nccl_load(&api, &found, &err))
        cr_assert_geq(found.version, GW_NCCL_OLDEST);
    else
        cr_assert(strstr(err.text, "libnccl2") || strstr(err.text, "too old"), "%s", err.text);
}

/* Compares the declarations of net/nccl/api.h with the header, if the machine has one. */
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

_Static_assert(sizeof(gw_nccl_id) == sizeof(ncclUniqueId), "id");
_Static_assert((int)GW_NCCL_SUCCESS == (int)ncclSuccess && (int)GW_NCCL_IN_PROGRESS == (int)ncclInProgress &&
                   (int)GW_NCCL_REMOTE_ERROR == (int)ncclRemoteError,
               "results");
_Static_assert((int)GW_NCCL_INT64 == (int)ncclInt64 && (int)GW_NCCL_FLOAT32 == (int)ncclFloat32 &&
                   (int)GW_NCCL_INT32 == (int)ncclInt32 && (int)GW_NCCL_SUM == (int)ncclSum &&
                   (int)GW_NCCL_MAX == (int)ncclMax,
               "types");
_Static_assert(GW_NCCL_UNDEFINED == NCCL_CONFIG_UNDEF_INT, "undefined");
#define SAME(ours, theirs)                                                                                   \
    _Static_assert(offsetof(gw_nccl_config, ours) == offsetof(ncclConfig_t, theirs), #theirs)
SAME(magic, magic);
SAME(version, version);
SAME(blocking, blocking);
SAME(cga_cluster_size, cgaClusterSize);
SAME(min_ctas, minCTAs);
SAME(max_ctas, maxCTAs);
SAME(net_name, netName);
SAME(split_share, splitShare);
SAME(traffic_class, trafficClass);
SAME(comm_name, commName);
SAME(collnet_enable, collnetEnable);
SAME(cta_policy, CTAPolicy);
SAME(shrink_share, shrinkShare);
SAME(nvls_ctas, nvlsCTAs);

Test(nccl_load, the_magic_number_is_the_headers) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    cr_assert_eq(config.magic, (unsigned)GW_NCCL_MAGIC);
}
#endif
