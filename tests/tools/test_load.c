/* What a load from a checkpoint that fails says of this disk. */
#include "scratch.h"
#include "tools/godwit/node_inside.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { STATE_BYTES = 100, PEERS = 3 };

static const gw_layout layout = {.image_bytes = STATE_BYTES};
static const gw_run_options options = {.time_scale_percent = 100};
static gw_device device = {.layout = &layout};
static gw_node *node;
static gw_err err;
static bool away[PEERS]; /* else it has no manifest */

bool __wrap_gw_node_fetch(gw_node *of, const gw_peer_id *peer, const gw_hash *name, void *bytes,
                          uint64_t capacity, uint64_t *length, gw_err *why);
bool __wrap_gw_wires_wait(gw_wires *wires, const gw_peer_id *members, uint32_t count, const gw_peer_id *self,
                          const atomic_bool *stop, uint64_t patience_ns, gw_peer_id *missing);

bool __wrap_gw_node_fetch(gw_node *of, const gw_peer_id *peer, const gw_hash *name, void *bytes,
                          uint64_t capacity, uint64_t *length, gw_err *why) {
    (void)of, (void)name, (void)bytes, (void)capacity;
    *length = 0;
    return gw_fail(why, away[peer->bytes[0]] ? GW_E_PEER : GW_E_NOTFOUND, "nothing");
}

bool __wrap_gw_wires_wait(gw_wires *wires, const gw_peer_id *members, uint32_t count, const gw_peer_id *self,
                          const atomic_bool *stop, uint64_t patience_ns, gw_peer_id *missing) {
    (void)wires, (void)members, (void)count, (void)self, (void)stop, (void)patience_ns, (void)missing;
    return true;
}

static void setup(void) {
    scratch_open();
    node = calloc(1, sizeof *node);
    cr_assert_not_null(node);
    node->device = &device;
    node->options = &options;
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, NULL, &node->store, &err), "%s", err.text);
}

static void teardown(void) {
    gw_store_close(node->store);
    free(node);
    scratch_close();
}

TestSuite(load, .init = setup, .fini = teardown);

/* Who cannot be reached may have it, and it may name chunks that are here: they are not given up. */
Test(load, only_a_manifest_that_nobody_has_makes_chunks_here_useless) {
    gw_peer_id peers[PEERS] = {{{0}}, {{1}}, {{2}}};
    node->self.id = peers[0];
    for (uint32_t k = 0; k < 4; k++) {
        uint8_t image[STATE_BYTES];
        gw_load load = {.node = node, .kind = GW_LOAD_MANIFEST, .step = 5, .peers = peers, .count = PEERS};
        away[1] = k & 1;
        away[2] = k & 2;
        cr_assert_not(gw_load_from_checkpoint(&load, image, &err));
        cr_assert_eq(load.sound.size, k == 0 ? 1 : 0, "%u: told of %u chunks", k, load.sound.size);
        cr_assert_eq(gw_set_count(&load.sound), 0);
        gw_set_free(&load.sound);
    }
}
