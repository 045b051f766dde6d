/* Chunks and the root hash. The expected hashes were computed by another implementation (Python's hashlib)
 * from the description in core/state/chunk.h. */
#include "core/state/chunk.h"

#include <criterion/criterion.h>

static const gw_tensor tensors[] = {
    {.name = "w", .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {2, 3}},
    {.name = "w-sum", .role = GW_SUMMED, .rank = 2, .dim = {2, 3}},
    {.name = "n", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {5}, .group = 3},
};

Test(chunk, counts_and_lengths) {
    cr_assert_eq(gw_chunk_count(0), 0);
    cr_assert_eq(gw_chunk_count(1), 1);
    cr_assert_eq(gw_chunk_count(GW_CHUNK_BYTES), 1);
    cr_assert_eq(gw_chunk_count(GW_CHUNK_BYTES + 1), 2);
    cr_assert_eq(gw_chunk_count(GW_MAX_STATE_BYTES), GW_MAX_STATE_CHUNKS);
    cr_assert_eq(gw_chunk_length(GW_CHUNK_BYTES + 7, 0), GW_CHUNK_BYTES);
    cr_assert_eq(gw_chunk_length(GW_CHUNK_BYTES + 7, 1), 7);
    cr_assert_eq(gw_chunk_length(GW_CHUNK_BYTES, 0), GW_CHUNK_BYTES);
    cr_assert_eq(gw_chunk_offset(GW_MAX_STATE_CHUNKS - 1), GW_MAX_STATE_BYTES - GW_CHUNK_BYTES);
}

Test(chunk, layout_and_root_are_pinned) {
    gw_err err;
    uint64_t bytes;
    cr_assert(gw_chunk_state_bytes(tensors, 3, &bytes, &err));
    cr_assert_eq(bytes, 29);
    gw_hash layout, chunk, root;
    char text[GW_HASH_TEXT];
    gw_chunk_layout_hash(tensors, 3, &layout);
    gw_hex(layout.bytes, 32, text);
    cr_assert_str_eq(text, "beeae5e6a6eb2df4815651ec0dcad6b2abbdcb8b25661758e3cfd2861e16acce");
    uint8_t image[29];
    for (uint8_t i = 0; i < 29; i++) image[i] = i;
    gw_blake2b(image, sizeof image, chunk.bytes, sizeof chunk.bytes);
    gw_chunk_root(&layout, bytes, &chunk, 1, &root);
    gw_hex(root.bytes, 32, text);
    cr_assert_str_eq(text, "dadfe27ed04aef79a10937c1a91a1f892678b88250b09c782465617158929a99");
}

Test(chunk, the_layout_is_part_of_the_root_but_groups_are_not) {
    gw_tensor other[3] = {tensors[0], tensors[1], tensors[2]};
    gw_hash a, b;
    gw_chunk_layout_hash(tensors, 3, &a);
    other[0].group = 9;
    gw_chunk_layout_hash(other, 3, &b);
    cr_assert(gw_hash_equal(&a, &b));
    other[0].dim[0] = 3;
    other[0].dim[1] = 2;
    gw_chunk_layout_hash(other, 3, &b);
    cr_assert_not(gw_hash_equal(&a, &b));
}

Test(chunk, a_state_too_large_is_refused) {
    gw_tensor huge = {
        .name = "huge", .dtype = GW_F64, .role = GW_STATE, .rank = 3, .dim = {1u << 31, 1u << 31, 8}};
    gw_err err;
    uint64_t bytes;
    cr_assert_not(gw_chunk_state_bytes(&huge, 1, &bytes, &err));
    cr_assert_eq(err.code, GW_E_LIMIT);
    cr_assert_not_null(strstr(err.text, "huge"), "%s", err.text);
    gw_tensor half = {
        .name = "half", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {GW_MAX_STATE_BYTES - 1}};
    gw_tensor two[2] = {half, half};
    cr_assert(gw_chunk_state_bytes(two, 1, &bytes, &err));
    cr_assert_not(gw_chunk_state_bytes(two, 2, &bytes, &err));
}
