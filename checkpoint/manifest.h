/* A manifest describes a checkpoint: the job, the step, and the chunks of which the state consists. It does
 * not depend on the cluster that made it, except for the epoch where sums are float: then a step that was
 * lost is computed again with another result, and of two checkpoints the one from the later view counts.
 *
 * File format (core/base/wire.h; pinned by tests/checkpoint/test_manifest.c):
 *
 *   "GODWITM" version u8 | file bytes u64 | job id 32 | job name string | step u64 | state bytes u64
 *   fingerprint u64 | created_ms u64 | root 32 | ended u8
 *   version 5 only: flags u8: bit 0, an epoch follows; bit 1, a record of the best state does; others are 0
 *   version 4, and 5 with bit 0: epoch u64, from 1 to 2^61 - 1
 *   version 5 with bit 1: report and direction string ("val_loss:min"), any u8, value f64, step u64,
 *     waited u32, kept step u64, kept root 32, kept value f64 (core/record/best.h)
 *   parameters u32, each: name string, value string
 *   tensors u32, each: name string, dtype u8, rank u8, dims u64 * rank, group u32, offset u64
 *   chunk bytes u32 = GW_CHUNK_BYTES | chunks u32, each: name 32
 *   checksum 32: BLAKE2b-256 of everything before it
 *
 * Version 3 is written where there is no epoch, and version 4 where there is one. They have at most 4096
 * tensors, whose names have at most 63 bytes of [a-z0-9._-], so that earlier builds read them. Version 5 is
 * written for a job that exceeds this, and with a record of the best state; it has up to GW_MAX_TENSORS tensors with names as core/godwit.h allows
 * them. Versions 1 and 2 correspond to 3 and 4 and come from builds whose fingerprints were sums of words
 * that were not spread (core/state/exact.h). They are read, because their chunks may be kept and models made
 * of them, but no job of this build resumes from them.
 *
 * This module does no I/O; checkpoint/catalog.h stores manifests. */
#ifndef GODWIT_CHECKPOINT_MANIFEST_H
#define GODWIT_CHECKPOINT_MANIFEST_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/godwit.h"
#include "core/record/best.h"
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
    uint64_t step; /* the next step to compute, which is the number of steps done */
    uint64_t state_bytes;
    uint64_t fingerprint; /* of the state, as peers gossip it */
    uint64_t created_ms;  /* wall clock, Unix time; not part of the root */
    gw_hash root;         /* the state hash (core/state/chunk.h) */
    bool ended;           /* the job declared this its last state; not part of the root */
    uint64_t epoch;       /* of the view that saved it, if sums are float; 0: exact sums, or an early file */
    /* What is known of the best evaluated state up to this one; best_by "": nothing. */
    char best_by[GW_BEST_BY_BYTES];
    gw_best best;
    const gw_param *params;
    uint32_t param_count;
    const gw_tensor *tensors; /* only tensors of kind GW_STATE count; a decoded manifest has no others */
    uint32_t tensor_count;
    const uint64_t *offsets; /* of a decoded manifest's tensors in the state image; otherwise NULL */
    const gw_hash *chunks;   /* in order of index; gw_chunk_count(state_bytes) of them */
    uint32_t chunk_count;
    void *memory; /* what gw_manifest_free frees; NULL if the arrays belong to the caller */
} gw_manifest;

/* Computes state_bytes, chunk_count and root from tensors and chunks, which the caller has set along with
 * the other fields. To be called before gw_manifest_encode. Fails with GW_E_LIMIT if the state is too
 * large. */
bool gw_manifest_seal(gw_manifest *manifest, gw_err *err);

/* Encodes a manifest into memory that the caller frees. Fails with GW_E_LIMIT if it would exceed
 * GW_MANIFEST_MAX_BYTES or a string is too long. */
bool gw_manifest_encode(const gw_manifest *manifest, void **bytes, size_t *length, gw_err *err);

/* Decodes and checks a manifest: sizes against bounds before anything is allocated, the checksum, offsets,
 * and that the root is that of the chunks. The bytes may come from a peer or from disk; none of them is
 * trusted. Errors name the byte offset ("offset 132: ..."): GW_E_INVALID if it is no manifest,
 * GW_E_UNSUPPORTED if the version is unknown, GW_E_CORRUPT if it is truncated or damaged. On success the
 * caller frees the manifest. */
bool gw_manifest_decode(const void *bytes, size_t length, gw_manifest *manifest, gw_err *err);
/* Frees the memory that gw_manifest_decode allocated, and zeroes the manifest. */
void gw_manifest_free(gw_manifest *manifest);

/* The checkpoint of the best evaluated state of the job up to this one, and its value: this very
 * checkpoint or an earlier one. Step 0: none is known. */
gw_checkpoint_ref gw_manifest_best(const gw_manifest *manifest, double *value);

/* The value of a parameter, which lives as long as the manifest; NULL: it has none of this name. */
const char *gw_manifest_param(const gw_manifest *manifest, const char *name);

/* Whether a manifest is the copy that a job which goes on from another one (--continue) makes of that
 * one's state: its parameter "parent-step" is its own step. */
bool gw_manifest_is_copy(const gw_manifest *manifest);

/* Byte offset of tensor `index` in the state image. It is looked up in a decoded manifest, and added up in
 * others. */
uint64_t gw_manifest_offset(const gw_manifest *manifest, uint32_t index);

#endif
