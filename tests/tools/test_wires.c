/* The data plane of one peer by itself: what it does while nobody is there, or nothing can be had. */
#include "core/log.h"
#include "net/fabric.h"
#include "tools/godwit/node_inside.h"

#include <criterion/criterion.h>

typedef struct rig {
    gw_identity self;
    gw_keyring keyring;
    gw_local local;
    gw_node node;
} rig;

static rig r;

static bool find_nothing(void *context, const gw_peer_id *asker, const gw_hash *name, const void **bytes,
                         uint64_t *length) {
    (void)context, (void)asker, (void)name, (void)bytes, (void)length;
    return false;
}

static void open_rig(void) {
    const uint8_t seed[32] = {1};
    const gw_wires_options how = {.kinds = GW_FABRIC_TCP | GW_FABRIC_SHM, .time_scale_percent = 100};
    const gw_fetch_provider provider = {.find = find_nothing};
    gw_err err;
    gw_identity_from_seed(seed, 1, 7, &r.self);
    r.local = (gw_local){.identity = &r.self, .keyring = &r.keyring};
    r.node.loop = gw_loop_open(&err);
    cr_assert_not_null(r.node.loop, "%s", err.text);
    r.node.wires =
        gw_wires_open(r.node.loop, &r.local, &how, &provider, gw_node_collective_done, &r.node, &err);
    cr_assert_not_null(r.node.wires, "%s", err.text);
}

static void close_rig(void) {
    gw_wires_stop(r.node.wires);
    gw_wires_close(r.node.wires);
    gw_loop_close(r.node.loop);
}

TestSuite(wires, .init = open_rig, .fini = close_rig);

/* What watches a reduction that was told to end counts from then, and a FREEZE may come again and again. */
Test(wires, a_reduction_that_is_told_twice_to_end_was_told_at_first) {
    gw_node_reduce_stop(&r.node);
    uint64_t told_ns = atomic_load(&r.node.reduction.stop_ns);
    cr_assert_gt(told_ns, 0);
    while (gw_now_ns() == told_ns) {
    }
    gw_node_reduce_stop(&r.node);
    cr_assert_eq(atomic_load(&r.node.reduction.stop_ns), told_ns);
}
