/* The manifests of one peer on its disk: DIR/manifests/<step, 8 digits or more>-<16 digits of the root>-<8
 * digits of the job's id>.manifest, each written as durably as a chunk (checkpoint/durable.h). Jobs that
 * differ in nothing but how many steps they have come to the same states: each has manifests of its own.
 *
 * Thread: any, but one change at a time a directory: those go through the writer (checkpoint/writer.h). */
#ifndef GODWIT_CHECKPOINT_CATALOG_H
#define GODWIT_CHECKPOINT_CATALOG_H

#include "checkpoint/manifest.h"
#include "core/base/err.h"
#include "core/os/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_CATALOG_NAME_BYTES = 64 };

/* "00000400-1f3a5c7d9e0b2a46-8c1d22e0.manifest". Returns `name`. */
const char *gw_catalog_name(const gw_hash *job_id, uint64_t step, const gw_hash *root,
                            char name[GW_CATALOG_NAME_BYTES]);

/* Makes an encoded manifest (checked first, as by gw_manifest_decode) durable. Saving the same one again is
 * no error. */
bool gw_catalog_save(gw_io *io, const char *dir, const void *bytes, size_t length, gw_err *err);

/* Reads one file, of any name; errors name it, and the offset where that makes sense. The caller frees. */
bool gw_catalog_read(gw_io *io, const char *path, gw_manifest *manifest, gw_err *err);

/* Reads the manifest that has that name. GW_E_NOTFOUND: there is none, or the file is another's. The caller
 * frees. */
bool gw_catalog_find(gw_io *io, const char *dir, const gw_hash *job_id, uint64_t step, const gw_hash *root,
                     gw_manifest *manifest, gw_err *err);

/* Whether that error says that the file is damaged, rather than not here, not to be had just now, or of a
 * version that this program does not know. */
bool gw_catalog_is_damage(const gw_err *err);

typedef struct gw_catalog_bad {
    char *path;
    gw_err err;
} gw_catalog_bad;

typedef struct gw_catalog {
    gw_manifest *good; /* newest (highest step) first; of one step, by root, then by job */
    uint32_t good_count;
    gw_catalog_bad *bad; /* damaged, or not to be read just now: reported and passed over, never fatal */
    uint32_t bad_count;
    uint32_t aside_count; /* files named *.damaged */
} gw_catalog;

/* All manifests under DIR/manifests, of every job; an absent folder is an empty catalog. */
bool gw_catalog_load(gw_io *io, const char *dir, gw_catalog *catalog, gw_err *err);
void gw_catalog_free(gw_catalog *catalog);

/* Sorts manifests, of whatever jobs and directories: those to go on from first, that is as a catalog has
 * them, but of one job those of a later epoch before those of more steps. Of two of one step, which there
 * should not be, the one with the smaller root comes first: a job takes that, too (core/brain/world.h). */
void gw_catalog_order(const gw_manifest **list, uint32_t count);
/* The first of these of the job that was saved last; the catalog is not empty. */
const gw_manifest *gw_catalog_newest(const gw_catalog *catalog);

/* Deletes the manifests of `job_id` whose roots are not among `kept`, and of several with one kept root, the
 * state having stayed, all but that of the latest view and there of the most steps; sets damaged files,
 * unless their names say this job and a kept root, aside as *.damaged (a few of them: more are deleted); and
 * collects the chunks that the manifests left need, of every job, into memory that the caller frees.
 * *complete is false when nobody can say which chunks are needed, so that none should be deleted: the only
 * manifest of a kept root is here and damaged, or one of any job cannot be read just now, or is of another
 * version; *why then says which, and what is wrong with it. A manifest that is not here at all needs none;
 * nor does a damaged one of another checkpoint, of whatever job: it would keep all chunks here for ever. What
 * was deleted, now or before, stays deleted after a power failure. A file that cannot be deleted is GW_E_IO,
 * with nothing collected, after all others have been tried. */
bool gw_catalog_retain(gw_io *io, const char *dir, const gw_hash *job_id, const gw_hash *kept,
                       uint32_t kept_count, gw_hash **needed, size_t *needed_count, bool *complete,
                       gw_err *why, gw_err *err);

#endif
