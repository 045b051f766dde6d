/* The libraries of RDMA may be missing: a file that an environment variable names stands for one that is. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "net/rdma/rdma.h"
#include "net/rdma/verbs.h"

#include <stdlib.h>
#include <string.h>

static void expect_refusal(const char *variable, const char *file, const char *text, const char *package) {
    gw_rdma_info *devices = (gw_rdma_info *)&devices;
    uint32_t count = 1;
    gw_err err;
    cr_assert_eq(setenv(variable, file, 1), 0);
    cr_assert(!gw_rdma_list(&devices, &count, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    cr_assert(strstr(err.text, text), "%s", err.text);
    cr_assert(strstr(err.text, package), "%s", err.text);
    cr_assert(devices == NULL && count == 0);
    gw_err again;
    cr_assert_eq(unsetenv(variable), 0); /* The first call decides. */
    cr_assert(!gw_verbs_open(&again));
    cr_assert(strstr(again.text, text), "%s", again.text);
}

Test(rdma_verbs_library, without_libibverbs_there_is_no_rdma) {
    expect_refusal("GODWIT_IBVERBS", "/nowhere/libibverbs.so.1", "cannot open", "libibverbs1");
}

Test(rdma_verbs_library, without_librdmacm_there_is_no_rdma) {
    expect_refusal("GODWIT_RDMACM", "/nowhere/librdmacm.so.1", "cannot open", "librdmacm1");
}

Test(rdma_verbs_library, a_library_without_the_functions_is_refused) {
    expect_refusal("GODWIT_IBVERBS", "libc.so.6", "has no function ibv_ack_async_event", "libibverbs1");
}

/* A machine that can build net/rdma has the libraries. */
Test(rdma_verbs_library, both_libraries_are_opened) {
    gw_err err;
    cr_assert(gw_verbs_open(&err), "%s", err.text);
}
#endif
