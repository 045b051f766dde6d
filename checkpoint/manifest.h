/* A manifest says what a checkpoint is: the job, the step, and the chunks that its state is made of. Nothing
 * in it knows the cluster it came from, but for its epoch where sums are float: then a step that all have
 * forgotten is made again with another state, and of two checkpoints the one from the later view counts.
 *
 * File format (core/base/wire.h; pinned by tests/checkpoint/test_manifest.c):
 *
 *   "GODWITM" version u8 | file bytes u64 | job id 32 | job name string | step u64 | state bytes u64
 *   fingerprint u64 | created_ms u64 | root 32 | ended u8
 *   version 4 only: epoch u64, from 1 to 2^61 - 1. Version 3 is what is written where there is none. 1 and 2
 *   are the same, of builds whose fingerprints were of words that were not spread (core/state/exact.h): they
 * are read, as their chunks may be kept and models be made of them, but no job of this build goes on from
 * them parameters u32, each: name string, value string tensors u32, each: name string, dtype u8, rank u8,
 * dims u64 * rank, group u32, offset u64 chunk bytes u32 = GW_CHUNK_BYTES | chunks u32, each: name 32
 *   checksum 32: BLAKE2b-256 of everything before it
 *
 * Pure: no files here; where manifests lie is checkpoint/catalog.h's. */
#ifndef GODWIT_CHECKPOINT_MANIFEST_H
#define GODWIT_CHECKPOINT_MANIFEST_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/godwit.h"
#include "core/state/chunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_JOB_NAME_BYTES = 64,
    GW_MAX_PARAMS = 256,
    GW_MANIFEST_MAX_BYTES = 64 << 20,
};

typedef struct gw_manifest {
    char job_name[GW_JOB_NAME_BYTES];
    gw_hash job_id;
    uint64_t step; /* the next step to compute = the number of steps done */
    uint64_t state_bytes;
    uint64_t fingerprint; /* of the state; what peers gossip */
    uint64_t created_ms;  /* wall clock, Unix time; not part of the root */
    gw_hash root;         /* the state hash (core/state/chunk.h) */
    bool ended;           /* the job decided that this is its last state; not part of the root */
    uint64_t epoch; /* of the view that saved it, where sums are float; 0: exact sums, or an early file */
    const gw_param *params;
    uint32_t param_count;
    const gw_tensor *tensors; /* only the GW_STATE ones count; a decoded manifest has no others */
    uint32_t tensor_count;
    const gw_hash *chunks; /* in order of index; gw_chunk_count(state_bytes) of them */
    uint32_t chunk_count;
    void *memory; /* what gw_manifest_free frees; NULL when the arrays are the caller's */
} gw_manifest;

/* Fills in state_bytes, chunk_count and root from tensors and chunks, which the caller has set (with the
 * other fields). Call it before gw_manifest_encode. GW_E_LIMIT for a state that is too large. */
bool gw_manifest_seal(gw_manifest *manifest, gw_err *err);

/* The encoded manifest, in memory that the caller frees. GW_E_LIMIT when it would be over
 * GW_MANIFEST_MAX_BYTES or a string is too long. */
bool gw_manifest_encode(const gw_manifest *manifest, void **bytes, size_t *length, gw_err *err);

/* Parses and checks everything: sizes against bounds before anything is allocated, the checksum, offsets, and
 * that the root is that of the chunks. Errors name the byte offset ("offset 132: ..."): GW_E_INVALID for what
 * is no manifest, GW_E_UNSUPPORTED for a version we do not know, GW_E_CORRUPT for a truncated or damaged one.
 * On success the caller frees. Bytes from a peer and from disk alike. */
bool gw_manifest_decode(const void *bytes, size_t length, gw_manifest *manifest, gw_err *err);
/* Frees what decode allocated, and zeroes. */
void gw_manifest_free(gw_manifest *manifest);

/* Byte offset of tensor `index` in the state image. */
uint64_t gw_manifest_offset(const gw_manifest *manifest, uint32_t index);

#endif
