/* The target `names`: names of objects that peers ask each other for, which are chunks of the state and of
 * the store, and manifests. A short name is filled up with zeros. */
#include "checkpoint/catalog.h"
#include "core/state/chunk.h"
#include "tests/fuzz/target.h"
#include "tools/godwit/work/fetch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEP = 10, FINGERPRINT = 5, NAME = 32 };

static const gw_layout layout = {.image_bytes = GW_CHUNK_BYTES + 100};

/* Opened once, because requests change nothing. */
static struct {
    gw_engine engine;
    gw_server server; /* its store is NULL until it is opened */
    gw_hash stored, root;
} shop;

static bool read_state(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err) {
    (void)device, (void)err;
    GW_ASSERT(offset <= layout.image_bytes && bytes <= layout.image_bytes - offset);
    memset(to, 1, bytes);
    return true;
}

static const gw_device_ops ops = {.state_read = read_state};
static gw_device device = {.ops = &ops, .layout = &layout};

static void save_manifest(const char *folder) {
    const gw_tensor tensor = {.name = "w", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {100}};
    const gw_hash chunk = {{1, 2, 3}};
    gw_manifest manifest = {.job_name = "toy",
                            .step = STEP,
                            .tensors = &tensor,
                            .tensor_count = 1,
                            .chunks = &chunk,
                            .chunk_count = 1};
    void *bytes;
    size_t length;
    gw_err err;
    GW_ASSERT(gw_manifest_seal(&manifest, &err) && gw_manifest_encode(&manifest, &bytes, &length, &err));
    GW_ASSERT(gw_catalog_save(gw_io_system(), folder, bytes, length, &err));
    free(bytes);
    shop.root = manifest.root;
}

static void open_shop(void) {
    char folder[128];
    gw_err err;
    if (shop.server.store != NULL) return;
    snprintf(folder, sizeof folder, "%s/names", fuzz_folder());
    GW_ASSERT(mkdir(folder, 0700) == 0);
    shop.server.engine = &shop.engine;
    shop.server.history = gw_history_open(&err);
    GW_ASSERT(shop.server.history != NULL);
    for (uint64_t step = 1; step <= STEP; step++)
        gw_history_add(shop.server.history, &(gw_past_step){.step = step, .report = "loss=1"});
    shop.engine.device = &device;
    shop.engine.state.valid = true;
    shop.engine.state.step = STEP;
    shop.engine.state.print = (gw_state_print){.read = FINGERPRINT};
    GW_ASSERT(pthread_rwlock_init(&shop.engine.state.lock, NULL) == 0);
    GW_ASSERT(gw_store_open(folder, GW_STORE_WRITE, NULL, &shop.server.store, &err));
    gw_store_item item = {.bytes = "sound", .length = 5};
    gw_blake2b(item.bytes, item.length, item.name.bytes, sizeof item.name.bytes);
    GW_ASSERT(gw_store_put(shop.server.store, 1, &item, 1, &err));
    shop.stored = item.name;
    save_manifest(folder);
}

static void names_examples(fuzz_add *add, void *context) {
    open_shop();
    add(context, &shop.stored, NAME);
    gw_hash name = gw_manifest_name(STEP, &shop.root);
    add(context, &name, NAME);
    for (uint64_t index = 0; index < 2; index++) {
        name = gw_state_chunk_name(STEP, FINGERPRINT, index);
        add(context, &name, NAME);
    }
}

/* Checks that the bytes given for a name have that name. */
static void check_given(const gw_hash *name, const void *bytes, uint64_t length) {
    if (memcmp(name->bytes, "gwstate", 8) == 0) {
        GW_ASSERT(length == GW_CHUNK_BYTES || length == layout.image_bytes - GW_CHUNK_BYTES);
        GW_ASSERT(((const uint8_t *)bytes)[length - 1] == 1);
        return;
    }
    gw_hash own;
    if (memcmp(name->bytes, "gwmanif", 8) == 0) {
        gw_manifest manifest;
        gw_err err;
        GW_ASSERT(gw_manifest_decode(bytes, length, &manifest, &err));
        own = gw_manifest_name(manifest.step, &manifest.root);
        gw_manifest_free(&manifest);
    } else
        gw_blake2b(bytes, length, own.bytes, sizeof own.bytes);
    GW_ASSERT(gw_hash_equal(&own, name));
}

static bool take_names(const uint8_t *bytes, size_t count) {
    gw_hash name = {{0}};
    const gw_peer_id requester = {{1}};
    const void *found;
    uint64_t length;
    open_shop();
    memcpy(name.bytes, bytes, count < NAME ? count : NAME);
    gw_fetch_provider provider = gw_server_provider(&shop.server);
    gw_op_status status = provider.find(provider.context, &requester, &name, &found, &length);
    GW_ASSERT(status == GW_OP_OK || status == GW_OP_NOTFOUND);
    if (status != GW_OP_OK) return false;
    check_given(&name, found, length);
    provider.release(provider.context, found, length);
    return true;
}

const fuzz_target fuzz_names = {"names", 40000, NAME, names_examples, NULL, take_names};
