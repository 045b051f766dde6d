/* The manifests of one peer on its disk: DIR/manifests/<step, 8 digits or more>-<16 digits of the root>-<8
 * digits of the job id>.manifest, each replaced durably (core/os/durable.h). Jobs that differ only in their
 * number of steps reach the same states; nevertheless each job has manifests of its own.
 *
 * Any thread, but only one change of a directory at a time: changes go through the writer
 * (checkpoint/writer.h). */
#ifndef GODWIT_CHECKPOINT_CATALOG_H
#define GODWIT_CHECKPOINT_CATALOG_H

#include "checkpoint/manifest.h"
#include "core/base/err.h"
#include "core/os/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_CATALOG_NAME_BYTES = 64 };

/* Formats the file name of a manifest: "00000400-1f3a5c7d9e0b2a46-8c1d22e0.manifest". Returns `name`. */
const char *gw_catalog_name(const gw_hash *job_id, uint64_t step, const gw_hash *root,
                            char name[GW_CATALOG_NAME_BYTES]);

/* Makes an encoded manifest durable, after checking it as gw_manifest_decode does. Saving the same
 * manifest again is no error. */
bool gw_catalog_save(gw_io *io, const char *dir, const void *bytes, size_t length, gw_err *err);

/* Reads one manifest file of any name. Errors name the file and, where possible, the offset. The caller
 * frees the manifest. */
bool gw_catalog_read(gw_io *io, const char *path, gw_manifest *manifest, gw_err *err);

/* Reads the manifest of this job, step and root. Fails with GW_E_NOTFOUND if there is none or the file of
 * its name holds another manifest. The caller frees the manifest. */
bool gw_catalog_find(gw_io *io, const char *dir, const gw_hash *job_id, uint64_t step, const gw_hash *root,
                     gw_manifest *manifest, gw_err *err);

/* Reads the bytes of the manifest file of this job, step and root, unchecked, into memory that the caller
 * frees. Fails with GW_E_NOTFOUND if there is none. */
bool gw_catalog_bytes(gw_io *io, const char *dir, const gw_hash *job_id, uint64_t step, const gw_hash *root,
                      void **bytes, size_t *length, gw_err *err);

/* Whether an error says that a manifest file is damaged, as opposed to missing, temporarily unreadable, or
 * of a version unknown to this program. */
bool gw_catalog_is_damage(const gw_err *err);

typedef struct gw_catalog_bad {
    char *path;
    gw_err err;
} gw_catalog_bad;

typedef struct gw_catalog {
    gw_manifest *good; /* by descending step; of one step, by root, then by job */
    uint32_t good_count;
    gw_catalog_bad *bad; /* damaged or temporarily unreadable: reported and skipped, never fatal */
    uint32_t bad_count;
    uint32_t quarantined_count; /* files named *.damaged */
} gw_catalog;

/* Loads all manifests under DIR/manifests, of every job. A missing folder is an empty catalog. */
bool gw_catalog_load(gw_io *io, const char *dir, gw_catalog *catalog, gw_err *err);
void gw_catalog_free(gw_catalog *catalog);

/* Whether this manifest of the catalog is that of its job's best evaluated state, as the newest manifest
 * of the job says. Then *value is the state's value, and *by says of what
 * ("val_loss:min"). */
bool gw_catalog_is_best(const gw_catalog *catalog, const gw_manifest *manifest, const char **by,
                        double *value);

/* Sorts manifests of any jobs and directories by preference for resuming: in the order of a catalog,
 * except that of one job a later epoch comes before a higher step. If there are two manifests of one step,
 * which should not happen, the one with the smaller root comes first; a job makes the same choice
 * (core/brain/world.h). */
void gw_catalog_order(const gw_manifest **list, uint32_t count);

/* Deletes manifests that are no longer needed and collects the chunks that the remaining manifests need.
 *
 * Deleted are the manifests of `job_id` whose roots are not among `kept`. If several have one kept root,
 * because the state did not change, only that of the latest view, and among those of the highest step, is
 * kept. Damaged files are renamed to *.damaged (a few of them; more are deleted), except those whose names
 * contain this job and a kept root.
 *
 * needed: the chunks that the remaining manifests of every job need, in memory that the caller frees.
 *
 * *complete becomes false if the needed chunks are unknown, so that no chunk may be deleted: if the only
 * manifest of a kept root exists and is damaged, or if a manifest of any job is temporarily unreadable or of
 * an unknown version. Then *why says which manifest and what is wrong with it. A missing manifest needs no
 * chunks. A damaged manifest of another checkpoint, of any job, counts as missing, since it would keep all
 * chunks forever.
 *
 * Deletions are durable on return. If a file cannot be deleted, all others are tried; then the function
 * fails with GW_E_IO, with nothing collected. */
bool gw_catalog_retain(gw_io *io, const char *dir, const gw_hash *job_id, const gw_hash *kept,
                       uint32_t kept_count, gw_hash **needed, size_t *needed_count, bool *complete,
                       gw_err *why, gw_err *err);

#endif
