/* The manifest codec: its exact bytes, and every way in which a file can be bad. */
#include "checkpoint/manifest.h"

#include "tests/checkpoint/fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gw_err err;

/* The bytes come from another implementation (Python's struct and hashlib) of the description in the header.
 * */
static const char pinned[] =
    "474f445749544d0309010000000000000700000000000000000000000000000000000000000000000000000000000000"
    "0300746f7990010000000000001d0000000000000088776655443322110068e5cf8b010000dadfe27ed04aef79a10937"
    "c1a91a1f892678b88250b09c782465617158929a99010100000002006c720300302e3102000000010077010202000000"
    "00000000030000000000000000000000000000000000000001006e050105000000000000000300000018000000000000"
    "000000400001000000bd78e1c368d70b968e194dca2c6fbda605a67d5e52824289e058c93eee073ef5177d0be588dba7"
    "3868b70e79a618d93a40d5a54be531e9e593f9d337ca9dcc05";

/* The same with epoch 9. */
static const char pinned_with_epoch[] =
    "474f445749544d0411010000000000000700000000000000000000000000000000000000000000000000000000000000"
    "0300746f7990010000000000001d0000000000000088776655443322110068e5cf8b010000dadfe27ed04aef79a10937"
    "c1a91a1f892678b88250b09c782465617158929a990109000000000000000100000002006c720300302e310200000001"
    "007701020200000000000000030000000000000000000000000000000000000001006e05010500000000000000030000"
    "0018000000000000000000400001000000bd78e1c368d70b968e194dca2c6fbda605a67d5e52824289e058c93eee073e"
    "f50eb697d028e94f4a8e088573c997824d0f70d7256e0d580e38fdb699fb2ef2da";

/* Version 5: the first tensor's name, "Schicht 1.\u03c9", is none of the earlier versions. */
static const char pinned_new[] =
    "474f445749544d0515010000000000000700000000000000000000000000000000000000000000000000000000000000"
    "0300746f7990010000000000001d0000000000000088776655443322110068e5cf8b0100004a0d6b528225e888e87fab"
    "eebf934f37252e941e304d8f0b53b16a2728bfa71f01000100000002006c720300302e31020000000c00536368696368"
    "7420312ecf8901020200000000000000030000000000000000000000000000000000000001006e050105000000000000"
    "000300000018000000000000000000400001000000bd78e1c368d70b968e194dca2c6fbda605a67d5e52824289e058c9"
    "3eee073ef521838b28404193f7f2e7dfe358c30563ea8bef0ab2a89795dc1c84d958cb1629";

/* The same with epoch 9. */
static const char pinned_new_with_epoch[] =
    "474f445749544d051d010000000000000700000000000000000000000000000000000000000000000000000000000000"
    "0300746f7990010000000000001d0000000000000088776655443322110068e5cf8b0100004a0d6b528225e888e87fab"
    "eebf934f37252e941e304d8f0b53b16a2728bfa71f010109000000000000000100000002006c720300302e3102000000"
    "0c005363686963687420312ecf8901020200000000000000030000000000000000000000000000000000000001006e05"
    "0105000000000000000300000018000000000000000000400001000000bd78e1c368d70b968e194dca2c6fbda605a67d"
    "5e52824289e058c93eee073ef55e58e65f349fc6b118228f4d1dbded54211cc898293f58fe2f2ddee5842d49fc";

/* The toy with a record of the best state, which early versions have not got either. */
static const char pinned_best[] =
    "474f445749544d055d010000000000000700000000000000000000000000000000000000000000000000000000000000"
    "0300746f7990010000000000001d0000000000000088776655443322110068e5cf8b010000dadfe27ed04aef79a10937"
    "c1a91a1f892678b88250b09c782465617158929a9901020c0076616c5f6c6f73733a6d696e0100000000000004408601"
    "000000000000030000007c010000000000005a0000000000000000000000000000000000000000000000000000000000"
    "000000000000000006400100000002006c720300302e3102000000010077010202000000000000000300000000000000"
    "00000000000000000000000001006e050105000000000000000300000018000000000000000000400001000000bd78e1"
    "c368d70b968e194dca2c6fbda605a67d5e52824289e058c93eee073ef556e810170f356648e66c07af94195421f401f8"
    "24bc9c31c09adbd099b59f86e2";

static const gw_tensor new_tensors[] = {
    {.name = "Schicht 1.\xcf\x89", .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {2, 3}},
    {.name = "n", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {5}, .group = 3},
};

static const gw_tensor toy_tensors[] = {
    {.name = "w", .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {2, 3}},
    {.name = "w-sum", .role = GW_SUMMED, .rank = 2, .dim = {2, 3}},
    {.name = "n", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {5}, .group = 3},
};

static gw_manifest toy_of(gw_hash *chunk, const gw_tensor *tensors, uint32_t count) {
    static const gw_param params[] = {{"lr", "0.1"}};
    uint8_t image[29];
    for (uint8_t i = 0; i < 29; i++) image[i] = i;
    gw_blake2b(image, sizeof image, chunk->bytes, sizeof chunk->bytes);
    gw_manifest manifest = {
        .job_name = "toy",
        .job_id = {.bytes = {7}},
        .step = 400,
        .fingerprint = 0x1122334455667788,
        .created_ms = 1700000000000,
        .ended = true,
        .params = params,
        .param_count = 1,
        .tensors = tensors,
        .tensor_count = count,
        .chunks = chunk,
    };
    cr_assert(gw_manifest_seal(&manifest, &err), "%s", err.text);
    return manifest;
}

static gw_manifest toy(gw_hash *chunk) {
    return toy_of(chunk, toy_tensors, 3);
}

static uint8_t *encode(const gw_manifest *manifest, size_t *length) {
    void *bytes;
    cr_assert(gw_manifest_encode(manifest, &bytes, length, &err), "%s", err.text);
    return bytes;
}

static uint8_t *encode_toy_of(uint64_t epoch, size_t *length) {
    gw_hash chunk;
    gw_manifest manifest = toy(&chunk);
    manifest.epoch = epoch;
    return encode(&manifest, length);
}

static uint8_t *encode_toy(size_t *length) {
    return encode_toy_of(0, length);
}

/* Corrects the checksum after a change, so that the parser itself is tested. */
static void forge(uint8_t *bytes, size_t length) {
    gw_blake2b(bytes, length - 32, bytes + length - 32, 32);
}

static void expect_bytes(const gw_manifest *manifest, const char *expected) {
    size_t length;
    uint8_t *bytes = encode(manifest, &length);
    char *text = malloc(2 * length + 1);
    gw_hex(bytes, length, text);
    cr_assert_str_eq(text, expected);
    gw_manifest back;
    cr_assert(gw_manifest_decode(bytes, length, &back, &err), "%s", err.text);
    cr_assert_eq(back.epoch, manifest->epoch);
    gw_manifest_free(&back);
    free(text);
    free(bytes);
}

Test(manifest, bytes_are_pinned) {
    gw_hash chunk;
    gw_manifest early = toy(&chunk), new = toy_of(&chunk, new_tensors, 2);
    expect_bytes(&early, pinned);
    expect_bytes(&new, pinned_new);
    early.epoch = new.epoch = 9;
    expect_bytes(&early, pinned_with_epoch);
    expect_bytes(&new, pinned_new_with_epoch);
}

static gw_manifest toy_with_best(gw_hash *chunk) {
    gw_manifest manifest = toy(chunk);
    strcpy(manifest.best_by, "val_loss:min");
    manifest.best = (gw_best){
        .any = true, .value = 2.5, .step = 390, .waited = 3, .kept = {380, {{0x5a}}}, .kept_value = 2.75};
    return manifest;
}

Test(manifest, the_best_state_is_recorded) {
    gw_hash chunk;
    gw_manifest manifest = toy_with_best(&chunk), back;
    double value;
    size_t length;
    expect_bytes(&manifest, pinned_best);
    uint8_t *bytes = encode(&manifest, &length);
    cr_assert(gw_manifest_decode(bytes, length, &back, &err), "%s", err.text);
    cr_expect_str_eq(back.best_by, "val_loss:min");
    cr_expect(back.best.value == 2.5 && back.best.step == 390 && back.best.waited == 3);
    gw_checkpoint_ref best = gw_manifest_best(&back, &value);
    cr_expect(best.step == 380 && best.root.bytes[0] == 0x5a && value == 2.75);
    gw_manifest_free(&back);
    free(bytes);
    manifest.best.step = 400; /* the state of this very manifest */
    best = gw_manifest_best(&manifest, &value);
    cr_expect(best.step == 400 && gw_hash_equal(&best.root, &manifest.root) && value == 2.5);
}

Test(manifest, a_best_state_that_cannot_be_is_refused) {
    gw_hash chunk;
    for (int i = 0; i < 4; i++) {
        gw_manifest manifest = toy_with_best(&chunk), back;
        size_t length;
        if (i == 1) manifest.best.step = 401;
        if (i == 2) manifest.best.value = (double)NAN;
        if (i == 3) strcpy(manifest.best_by, "\x1b[2J");
        uint8_t *bytes = encode(&manifest, &length);
        cr_expect_eq(gw_manifest_decode(bytes, length, &back, &err), i == 0, "%d", i);
        if (i == 0) gw_manifest_free(&back);
        if (i > 0) cr_expect_str_eq(err.text, "offset 119: bad record of the best state");
        free(bytes);
    }
}

/* Writes the version that a manifest with `count` tensors named `name` and numbers gets, and expects it back.
 */
static void expect_version(uint32_t count, const char *name, uint8_t version) {
    gw_tensor *tensors = calloc(count, sizeof *tensors);
    char(*names)[GW_MAX_TENSOR_NAME + 1] = calloc(count, sizeof *names);
    for (uint32_t t = 0; t < count; t++) {
        snprintf(names[t], sizeof names[t], t == 0 ? "%s" : "%.8s.%u", name, t);
        tensors[t] = (gw_tensor){.name = names[t], .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {1}};
    }
    gw_hash chunk = {{0}};
    gw_manifest manifest = {.job_name = "many", .tensors = tensors, .tensor_count = count, .chunks = &chunk},
                back;
    cr_assert(gw_manifest_seal(&manifest, &err), "%s", err.text);
    size_t length;
    uint8_t *bytes = encode(&manifest, &length);
    cr_assert_eq(bytes[7], version, "%u tensors, '%s': version %u", count, name, bytes[7]);
    cr_assert(gw_manifest_decode(bytes, length, &back, &err), "%s", err.text);
    cr_assert_eq(back.tensor_count, count);
    for (uint32_t t = 0; t < count; t++) {
        cr_assert_str_eq(back.tensors[t].name, names[t]);
        cr_assert_eq(gw_manifest_offset(&back, t), t);
    }
    gw_manifest_free(&back);
    free(bytes);
    free(names);
    free(tensors);
}

/* Earlier builds go on reading what they can read. */
Test(manifest, a_new_version_is_written_only_where_it_is_needed) {
    char longest[GW_MAX_TENSOR_NAME + 1] = {0};
    memset(longest, 'a', 63);
    expect_version(1, longest, 3);
    expect_version(4096, "w", 3);
    expect_version(4097, "w", 5);
    expect_version(1, "Weight", 5);
    longest[63] = 'a';
    expect_version(1, longest, 5);
    memset(longest, 'a', GW_MAX_TENSOR_NAME);
    expect_version(GW_MAX_TENSORS, longest, 5);
}

/* Refuses a manifest of version 5 after the byte at `at` was changed. */
static void refuse_new(size_t at, uint8_t value, const char *text) {
    gw_hash chunk;
    gw_manifest manifest = toy_of(&chunk, new_tensors, 2), back;
    size_t length;
    uint8_t *bytes = encode(&manifest, &length);
    bytes[at] = value;
    forge(bytes, length);
    cr_assert_not(gw_manifest_decode(bytes, length, &back, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert_str_eq(err.text, text);
    free(bytes);
}

Test(manifest, what_the_new_version_does_not_allow_is_refused) {
    refuse_new(16 + 32 + 5 + 32 + 32 + 1, 4, "offset 118: unknown flags");
    refuse_new(136 + 2, '\t',
               "offset 136: tensor 0: its name '?chicht 1.\xcf\x89' has a control character at byte 0");
    refuse_new(136 + 3, 0xff,
               "offset 136: tensor 0: its name 'S?hicht 1.\xcf\x89' has bytes that are not UTF-8 at byte 1");
}

/* Without this refusal, its chunks could not be told from orphans. */
Test(manifest, those_of_earlier_builds_are_read) {
    for (uint64_t epoch = 0; epoch < 10; epoch += 9) {
        size_t length;
        uint8_t *bytes = encode_toy_of(epoch, &length);
        bytes[7] = (uint8_t)(bytes[7] - 2);
        forge(bytes, length);
        gw_manifest back;
        cr_assert(gw_manifest_decode(bytes, length, &back, &err), "%s", err.text);
        cr_assert_eq(back.epoch, epoch);
        gw_manifest_free(&back);
        free(bytes);
    }
}

Test(manifest, an_epoch_that_cannot_be_is_refused) {
    static const uint64_t epochs[] = {0, UINT64_C(1) << 61, UINT64_C(1) << 62, UINT64_MAX};
    const size_t at = 16 + 32 + 5 + 32 + 32 + 1;
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        size_t length;
        uint8_t *bytes = encode_toy_of(9, &length);
        for (size_t k = 0; k < 8; k++) bytes[at + k] = (uint8_t)(epochs[i] >> (8 * k));
        forge(bytes, length);
        gw_manifest back;
        cr_assert_not(gw_manifest_decode(bytes, length, &back, &err), "%zu", i);
        cr_assert_eq(err.code, GW_E_CORRUPT);
        cr_assert_not_null(strstr(err.text, "offset 118: impossible epoch"), "%s", err.text);
        free(bytes);
    }
}

Test(manifest, decodes_what_was_encoded) {
    fixture_image *image = fixture_image_make(400);
    size_t length;
    uint8_t *bytes = encode(&image->manifest, &length);
    gw_manifest back;
    cr_assert(gw_manifest_decode(bytes, length, &back, &err), "%s", err.text);
    free(bytes);
    cr_assert_str_eq(back.job_name, "test");
    cr_assert(gw_hash_equal(&back.job_id, &image->manifest.job_id));
    cr_assert(gw_hash_equal(&back.root, &image->manifest.root));
    cr_assert_eq(back.step, 400);
    cr_assert_eq(back.fingerprint, 4400);
    cr_assert_eq(back.created_ms, 1700000000000);
    cr_assert_eq(back.param_count, 2);
    cr_assert_str_eq(back.params[1].name, "hidden");
    cr_assert_str_eq(back.params[1].value, "128");
    cr_assert_eq(back.tensor_count, FIXTURE_TENSORS);
    cr_assert_str_eq(back.tensors[2].name, "count");
    cr_assert_eq(back.tensors[2].group, 1);
    cr_assert_eq(back.tensors[1].dim[1], 1024);
    cr_assert_eq(gw_manifest_offset(&back, 2), 2ull << 22);
    cr_assert_eq(back.chunk_count, FIXTURE_CHUNKS);
    cr_assert(gw_hash_equal(&back.chunks[2], &image->chunks[2]));
    gw_manifest_free(&back);
    gw_manifest_free(&back);
    fixture_image_free(image);
}

Test(manifest, an_empty_state_is_a_state) {
    gw_manifest empty = {.job_name = "empty"}, back;
    cr_assert(gw_manifest_seal(&empty, &err), "%s", err.text);
    size_t length;
    uint8_t *bytes = encode(&empty, &length);
    cr_assert(gw_manifest_decode(bytes, length, &back, &err), "%s", err.text);
    cr_assert_eq(back.chunk_count, 0);
    gw_manifest_free(&back);
    free(bytes);
}

Test(manifest, every_truncation_is_refused) {
    size_t length;
    uint8_t *bytes = encode_toy(&length);
    for (size_t cut = 0; cut < length; cut++) {
        uint8_t *exact = malloc(cut > 0 ? cut : 1); /* the sanitizer sees a read past its end */
        memcpy(exact, bytes, cut);
        gw_manifest back;
        cr_assert_not(gw_manifest_decode(exact, cut, &back, &err), "%zu bytes", cut);
        cr_assert_eq(strncmp(err.text, "offset ", 7), 0, "%s", err.text);
        free(exact);
    }
    free(bytes);
}

Test(manifest, every_flipped_byte_is_found) {
    size_t length;
    uint8_t *bytes = encode_toy(&length);
    for (size_t i = 0; i < length; i++) {
        bytes[i] ^= 0x40;
        gw_manifest back;
        cr_assert_not(gw_manifest_decode(bytes, length, &back, &err), "byte %zu", i);
        bytes[i] ^= 0x40;
    }
    free(bytes);
}

/* Even with a correct checksum the parser must never read or write outside its memory, whatever the bytes
 * are. */
Test(manifest, forged_bytes_are_parsed_safely) {
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    size_t length;
    uint8_t *bytes = encode_toy(&length);
    unsigned accepted = 0, refused = 0;
    for (size_t i = 16; i + 32 < length; i++)
        for (size_t v = 0; v < sizeof values; v++) {
            uint8_t before = bytes[i];
            bytes[i] = values[v];
            forge(bytes, length);
            gw_manifest back;
            if (gw_manifest_decode(bytes, length, &back, &err)) {
                accepted++;
                gw_manifest_free(&back);
            } else {
                refused++;
                cr_assert_null(back.memory);
                cr_assert_eq(strncmp(err.text, "offset ", 7), 0, "%s", err.text);
            }
            bytes[i] = before;
        }
    cr_assert_gt(accepted, 0, "a step may be any number");
    cr_assert_gt(refused, accepted / 2);
    free(bytes);
}

/* Sets the u32 at `offset`, and expects a refusal that names the offset and says `what`. */
static void refuse_u32(size_t offset, uint32_t value, const char *what) {
    size_t length;
    uint8_t *bytes = encode_toy(&length);
    for (int i = 0; i < 4; i++) bytes[offset + (size_t)i] = (uint8_t)(value >> (8 * i));
    forge(bytes, length);
    gw_manifest back;
    cr_assert_not(gw_manifest_decode(bytes, length, &back, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    char expected[100];
    snprintf(expected, sizeof expected, "offset %zu: %s", offset, what);
    cr_assert_str_eq(err.text, expected);
    free(bytes);
}

/* Offsets in the pinned file. */
enum {
    PARAMS_AT = 16 + 32 + 5 + 32 + 32 + 1,
    TENSORS_AT = PARAMS_AT + 4 + 9,
    CHUNKS_AT = TENSORS_AT + 4 + 33 + 25
};

Test(manifest, hostile_counts_are_refused_before_they_cost_anything) {
    refuse_u32(PARAMS_AT, UINT32_MAX, "impossible number of parameters");
    refuse_u32(PARAMS_AT, 200, "impossible number of parameters");
    refuse_u32(TENSORS_AT, UINT32_MAX, "impossible number of tensors");
    refuse_u32(TENSORS_AT, 4096, "impossible number of tensors");
    refuse_u32(CHUNKS_AT + 4, UINT32_MAX, "impossible number of chunks");
    refuse_u32(CHUNKS_AT, 1 << 20, "unknown chunk size");
}

Test(manifest, other_files_and_versions_are_told_apart) {
    gw_manifest back;
    cr_assert_not(gw_manifest_decode("#!/bin/sh\necho hello, this is a script\n", 39, &back, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_not_null(strstr(err.text, "not a manifest"), "%s", err.text);
    size_t length;
    uint8_t *bytes = encode_toy(&length);
    static const uint8_t others[] = {0, 6};
    for (size_t i = 0; i < sizeof others; i++) {
        bytes[7] = others[i];
        cr_assert_not(gw_manifest_decode(bytes, length, &back, &err));
        cr_assert_eq(err.code, GW_E_UNSUPPORTED);
        char text[20];
        snprintf(text, sizeof text, "version %u", others[i]);
        cr_assert_not_null(strstr(err.text, text), "%s", err.text);
    }
    free(bytes);
}

Test(manifest, bytes_after_the_end_are_refused) {
    size_t length;
    uint8_t *bytes = encode_toy(&length);
    uint8_t *longer = calloc(1, length + 8);
    memcpy(longer, bytes, length);
    gw_manifest back;
    cr_assert_not(gw_manifest_decode(longer, length + 8, &back, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    free(longer);
    free(bytes);
}

Test(manifest, a_value_too_long_is_an_error_not_a_file) {
    char *value = malloc(70001);
    memset(value, 'x', 70000);
    value[70000] = '\0';
    gw_param param = {"data", value};
    gw_hash chunk;
    gw_manifest manifest = toy(&chunk);
    manifest.params = &param;
    void *bytes;
    size_t length;
    cr_assert_not(gw_manifest_encode(&manifest, &bytes, &length, &err));
    cr_assert_eq(err.code, GW_E_LIMIT);
    free(value);
}

/* The root depends on the state alone. */
Test(manifest, the_root_depends_on_the_state_alone) {
    gw_hash chunk;
    gw_manifest a = toy(&chunk), b = a;
    b.step = 401;
    b.created_ms++;
    b.job_id.bytes[0]++;
    b.fingerprint++;
    b.epoch++;
    cr_assert(gw_manifest_seal(&b, &err));
    cr_assert(gw_hash_equal(&a.root, &b.root));
    chunk.bytes[31] ^= 1;
    cr_assert(gw_manifest_seal(&b, &err));
    cr_assert_not(gw_hash_equal(&a.root, &b.root));
}
