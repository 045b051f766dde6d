/* What a peer serves to others by name. */
#include "manifest_rig.h"
#include "scratch.h"
#include "tools/godwit/node_inside.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const gw_layout layout = {.image_bytes = RIG_STATE_BYTES};
static gw_device device = {.layout = &layout};
static gw_node *node;
static gw_err err;

static void setup(void) {
    scratch_open();
    node = calloc(1, sizeof *node);
    cr_assert_not_null(node);
    node->device = &device;
    node->job_id = (gw_hash){{RIG_JOB}};
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, NULL, &node->store, &err), "%s", err.text);
}

static void teardown(void) {
    gw_store_close(node->store);
    free(node);
    scratch_close();
}

TestSuite(fetch, .init = setup, .fini = teardown);

/* The step of the manifest that is served by this name; 0: none is. */
static uint64_t served(uint64_t step, const gw_hash *root) {
    gw_fetch_provider provider = gw_node_provider(node);
    const gw_hash name = gw_manifest_name(step, root);
    const void *bytes;
    uint64_t length;
    gw_manifest manifest;
    if (!provider.find(provider.context, NULL, &name, &bytes, &length)) return 0;
    cr_assert(gw_manifest_decode(bytes, length, &manifest, &err), "%s", err.text);
    provider.release(provider.context, bytes, length);
    uint64_t got = manifest.step;
    gw_manifest_free(&manifest);
    return got;
}

Test(fetch, of_checkpoints_with_one_root_each_has_its_own_manifest) {
    gw_hash root = rig_save_manifest(10, RIG_JOB), again = rig_save_manifest(20, RIG_JOB);
    rig_save_manifest(30, RIG_JOB + 1);
    cr_assert(gw_hash_equal(&root, &again), "the state did not change");
    cr_assert_eq(served(10, &root), 10);
    cr_assert_eq(served(20, &root), 20);
    cr_assert_eq(served(30, &root), 0, "another job's");
    cr_assert_eq(served(40, &root), 0);
}

/* Of a chunk that the disk would not give once. */
Test(fetch, what_was_set_aside_for_nothing_is_served) {
    gw_store_item item = {.bytes = "sound", .length = 5};
    gw_blake2b(item.bytes, item.length, item.name.bytes, sizeof item.name.bytes);
    cr_assert(gw_store_put(node->store, 1, &item, 1, &err), "%s", err.text);
    char digits[GW_HASH_TEXT], path[GW_PATH_BYTES], aside[GW_PATH_BYTES];
    gw_hex(item.name.bytes, sizeof item.name.bytes, digits);
    cr_assert(gw_durable_path(path, &err, "%s/chunks/%.2s/%s", scratch_folder(), digits, digits));
    cr_assert(gw_durable_path(aside, &err, "%s/chunks/%.2s/%s.damaged", scratch_folder(), digits, digits));
    cr_assert_eq(rename(path, aside), 0);
    gw_fetch_provider provider = gw_node_provider(node);
    const void *bytes;
    uint64_t length;
    cr_assert(provider.find(provider.context, NULL, &item.name, &bytes, &length));
    cr_assert_eq(length, 5);
    cr_assert_arr_eq(bytes, "sound", 5);
    provider.release(provider.context, bytes, length);
}
