/* What a disk gives back, or a peer that reads it from one. */
#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- manifests: without length and checksum, which are set right, so that all that is behind them is met
 * ---- */

enum { LENGTH_AT = 8, CHECKSUM = 32 };

static void manifest_examples(fuzz_add *add, void *context) {
    static const gw_tensor tensors[] = {
        {.name = "w", .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {2, 3}},
        {.name = "n", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {5}, .group = 3}};
    static const gw_param params[] = {{"lr", "0.1"}};
    gw_hash chunk = {{9}};
    gw_manifest manifest = {.job_name = "toy",
                            .step = 400,
                            .params = params,
                            .param_count = 1,
                            .tensors = tensors,
                            .tensor_count = 2,
                            .chunks = &chunk};
    void *bytes;
    size_t count;
    gw_err err;
    GW_CHECK(gw_manifest_seal(&manifest, &err) && gw_manifest_encode(&manifest, &bytes, &count, &err));
    add(context, bytes, count - CHECKSUM);
    free(bytes);
}

static void take_manifest(const uint8_t *bytes, size_t count) {
    size_t whole = count + CHECKSUM;
    uint8_t *file = malloc(whole);
    GW_CHECK(file != NULL);
    memcpy(file, bytes, count);
    for (size_t i = 0; i < 8 && LENGTH_AT + i < count; i++)
        file[LENGTH_AT + i] = (uint8_t)((uint64_t)whole >> (8 * i));
    gw_blake2b(file, count, file + count, CHECKSUM);
    gw_manifest manifest;
    gw_err err;
    if (gw_manifest_decode(file, whole, &manifest, &err)) {
        void *again;
        size_t length;
        GW_CHECK(gw_manifest_encode(&manifest, &again, &length, &err));
        GW_CHECK(length == whole && memcmp(again, file, whole) == 0);
        for (uint32_t t = 0; t < manifest.tensor_count; t++)
            GW_CHECK(gw_manifest_offset(&manifest, t) <= manifest.state_bytes);
        free(again);
        gw_manifest_free(&manifest);
    }
    free(file);
}

const fuzz_target fuzz_manifest = {"manifest", 60000, 1024, manifest_examples, take_manifest};

/* ---- chunks ---- */

static const char chunk_text[] = "the bytes of a chunk, which its name is the hash of";

static void chunk_examples(fuzz_add *add, void *context) {
    add(context, chunk_text, sizeof chunk_text);
}

/* Nothing but the chunk itself is ever given out under its name. */
static void take_chunk(const uint8_t *bytes, size_t count) {
    static gw_store *store;
    static char file[128];
    gw_hash name;
    gw_err err;
    gw_blake2b(chunk_text, sizeof chunk_text, name.bytes, sizeof name.bytes);
    if (store == NULL) {
        char hex[GW_HASH_TEXT], path[128];
        gw_hex(name.bytes, sizeof name.bytes, hex);
        snprintf(path, sizeof path, "%s/chunks", fuzz_folder());
        GW_CHECK(mkdir(path, 0700) == 0);
        snprintf(path, sizeof path, "%s/chunks/%.2s", fuzz_folder(), hex);
        GW_CHECK(mkdir(path, 0700) == 0);
        snprintf(file, sizeof file, "chunks/%.2s/%s", hex, hex);
        GW_CHECK(gw_store_open(fuzz_folder(), GW_STORE_LOOK, NULL, &store, &err));
    }
    fuzz_file(file, bytes, count, 0600);
    char read[sizeof chunk_text];
    bool same = count == sizeof chunk_text && memcmp(bytes, chunk_text, count) == 0;
    bool good = gw_store_read(store, &name, read, sizeof read, &err);
    GW_CHECK(good == same && (good || err.code == GW_E_CORRUPT));
}

const fuzz_target fuzz_chunk = {"chunk", 10000, 256, chunk_examples, take_chunk};
