#include "checkpoint/catalog.h"

#include "core/base/assert.h"
#include "core/os/durable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char suffix[] = ".manifest", quarantine_suffix[] = ".manifest.damaged";
enum { ROOT_DIGITS = 16, JOB_DIGITS = 8, MOST_QUARANTINED = 8 };

/* The common end of the file names of all manifests of this job and root. */
static const char *name_end(const gw_hash *job_id, const gw_hash *root, char end[GW_CATALOG_NAME_BYTES]) {
    char digits[ROOT_DIGITS + 1], job[JOB_DIGITS + 1];
    gw_hex(root->bytes, ROOT_DIGITS / 2, digits);
    gw_hex(job_id->bytes, JOB_DIGITS / 2, job);
    snprintf(end, GW_CATALOG_NAME_BYTES, "-%s-%s%s", digits, job, suffix);
    return end;
}

const char *gw_catalog_name(const gw_hash *job_id, uint64_t step, const gw_hash *root,
                            char name[GW_CATALOG_NAME_BYTES]) {
    char end[GW_CATALOG_NAME_BYTES];
    int length = snprintf(name, GW_CATALOG_NAME_BYTES, "%08llu%s", (unsigned long long)step,
                          name_end(job_id, root, end));
    GW_ASSERT(length > 0 && length < GW_CATALOG_NAME_BYTES);
    return name;
}

static const char *name_of(const gw_manifest *manifest, char name[GW_CATALOG_NAME_BYTES]) {
    return gw_catalog_name(&manifest->job_id, manifest->step, &manifest->root, name);
}

static bool save_checked(gw_io *io, const char *dir, const gw_manifest *manifest, const void *bytes,
                         size_t length, gw_err *err) {
    char folder[GW_PATH_BYTES], temporaries[GW_PATH_BYTES], path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    char name[GW_CATALOG_NAME_BYTES];
    name_of(manifest, name);
    return gw_durable_path(folder, err, "%s/manifests", dir) &&
           gw_durable_path(temporaries, err, "%s/tmp", dir) &&
           gw_durable_path(path, err, "%s/%s", folder, name) &&
           gw_durable_path(temporary, err, "%s/%s", temporaries, name) &&
           gw_durable_folder(io, folder, NULL, err) && gw_durable_folder(io, temporaries, NULL, err) &&
           gw_durable_sync_folder(io, dir, err) &&
           gw_durable_replace(io, temporary, folder, path, bytes, length, err);
}

bool gw_catalog_save(gw_io *io, const char *dir, const void *bytes, size_t length, gw_err *err) {
    gw_manifest manifest;
    if (!gw_manifest_decode(bytes, length, &manifest, err))
        return gw_fail_in(err, "checkpoint/catalog: a manifest to be saved");
    bool done = save_checked(io, dir, &manifest, bytes, length, err);
    if (!done)
        gw_fail_in(err, "checkpoint/catalog: manifest of step %llu", (unsigned long long)manifest.step);
    gw_manifest_free(&manifest);
    return done;
}

bool gw_catalog_read(gw_io *io, const char *path, gw_manifest *manifest, gw_err *err) {
    void *bytes;
    size_t length;
    if (!gw_durable_read(io, path, GW_MANIFEST_MAX_BYTES, &bytes, &length, err))
        return gw_fail_in(err, "checkpoint/catalog");
    bool done = gw_manifest_decode(bytes, length, manifest, err);
    free(bytes);
    return done || gw_fail_in(err, "checkpoint/catalog: %s", path);
}

static bool has_its_name(const char *path, const gw_manifest *manifest) {
    char name[GW_CATALOG_NAME_BYTES];
    const char *slash = strrchr(path, '/');
    return slash != NULL && strcmp(slash + 1, name_of(manifest, name)) == 0;
}

bool gw_catalog_find(gw_io *io, const char *dir, const gw_hash *job_id, uint64_t step, const gw_hash *root,
                     gw_manifest *manifest, gw_err *err) {
    char path[GW_PATH_BYTES], name[GW_CATALOG_NAME_BYTES];
    if (!gw_durable_path(path, err, "%s/manifests/%s", dir, gw_catalog_name(job_id, step, root, name)) ||
        !gw_catalog_read(io, path, manifest, err))
        return false;
    if (has_its_name(path, manifest)) return true;
    gw_manifest_free(manifest);
    return gw_fail(err, GW_E_NOTFOUND, "checkpoint/catalog: %s: the manifest of another checkpoint", path);
}

bool gw_catalog_bytes(gw_io *io, const char *dir, const gw_hash *job_id, uint64_t step, const gw_hash *root,
                      void **bytes, size_t *length, gw_err *err) {
    char path[GW_PATH_BYTES], name[GW_CATALOG_NAME_BYTES];
    return (gw_durable_path(path, err, "%s/manifests/%s", dir, gw_catalog_name(job_id, step, root, name)) &&
            gw_durable_read(io, path, GW_MANIFEST_MAX_BYTES, bytes, length, err)) ||
           gw_fail_in(err, "checkpoint/catalog");
}

bool gw_catalog_is_damage(const gw_err *err) {
    return err->code == GW_E_CORRUPT || err->code == GW_E_INVALID || err->code == GW_E_LIMIT;
}

/* Loading. */

static bool fail_memory(gw_err *err) {
    return gw_fail(err, GW_E_NOMEM, "checkpoint/catalog: out of memory");
}

/* Returns the array with room for one more item than `count`; NULL when out of memory, and the old array
 * stays valid. */
static void *grow(void *list, uint32_t count, size_t item_bytes) {
    if ((count & (count - 1)) != 0) return list; /* the capacity is the next power of two */
    return realloc(list, (count > 0 ? 2 * (size_t)count : 1) * item_bytes);
}

static bool add_file(gw_io *io, gw_catalog *catalog, const char *path, gw_err *err) {
    gw_manifest *good = grow(catalog->good, catalog->good_count, sizeof *good);
    if (good == NULL) return fail_memory(err);
    catalog->good = good;
    gw_err why;
    gw_manifest *manifest = &good[catalog->good_count];
    if (gw_catalog_read(io, path, manifest, &why)) {
        if (has_its_name(path, manifest)) {
            catalog->good_count++;
            return true;
        }
        gw_manifest_free(manifest);
        gw_fail(&why, GW_E_INVALID, "checkpoint/catalog: %s: not named after its step, root and job", path);
    }
    if (why.code == GW_E_NOTFOUND) return true; /* the file was deleted since the folder was read */
    gw_catalog_bad *bad = grow(catalog->bad, catalog->bad_count, sizeof *bad);
    if (bad == NULL) return fail_memory(err);
    catalog->bad = bad;
    char *copy = strdup(path);
    if (copy == NULL) return fail_memory(err);
    bad[catalog->bad_count++] = (gw_catalog_bad){copy, why};
    return true;
}

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

static int newest_first(const void *a, const void *b) {
    const gw_manifest *left = a, *right = b;
    if (left->step != right->step) return left->step > right->step ? -1 : 1;
    int order = memcmp(left->root.bytes, right->root.bytes, sizeof left->root.bytes);
    return order != 0 ? order : memcmp(left->job_id.bytes, right->job_id.bytes, sizeof left->job_id.bytes);
}

static int pointed_newest_first(const void *a, const void *b) {
    return newest_first(*(const gw_manifest *const *)a, *(const gw_manifest *const *)b);
}

static bool supersedes(const gw_manifest *one, const gw_manifest *other) {
    return one->epoch > other->epoch && gw_hash_equal(&one->job_id, &other->job_id);
}

void gw_catalog_order(const gw_manifest **list, uint32_t count) {
    if (count > 0) qsort(list, count, sizeof(const gw_manifest *), pointed_newest_first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = i;
        for (uint32_t k = i + 1; k < count; k++)
            if (supersedes(list[k], list[first])) first = k;
        const gw_manifest *newest = list[first];
        memmove(list + i + 1, list + i, (first - i) * sizeof(const gw_manifest *));
        list[i] = newest;
    }
}

typedef struct loading {
    gw_io *io;
    gw_catalog *catalog;
} loading;

static bool load_file(void *context, const char *folder, const char *name, gw_err *err) {
    const loading *l = context;
    char path[GW_PATH_BYTES];
    if (ends_with(name, quarantine_suffix)) l->catalog->quarantined_count++;
    return !ends_with(name, suffix) ||
           (gw_durable_path(path, err, "%s/%s", folder, name) && add_file(l->io, l->catalog, path, err));
}

bool gw_catalog_load(gw_io *io, const char *dir, gw_catalog *catalog, gw_err *err) {
    *catalog = (gw_catalog){0};
    char folder[GW_PATH_BYTES];
    loading l = {io, catalog};
    if (!gw_durable_path(folder, err, "%s/manifests", dir)) return false;
    if (!gw_durable_list(l.io, folder, load_file, &l, err)) {
        gw_catalog_free(catalog);
        return gw_fail_in(err, "checkpoint/catalog");
    }
    if (catalog->good_count > 0)
        qsort(catalog->good, catalog->good_count, sizeof *catalog->good, newest_first);
    return true;
}

void gw_catalog_free(gw_catalog *catalog) {
    for (uint32_t i = 0; i < catalog->good_count; i++) gw_manifest_free(&catalog->good[i]);
    for (uint32_t i = 0; i < catalog->bad_count; i++) free(catalog->bad[i].path);
    free(catalog->good);
    free(catalog->bad);
    *catalog = (gw_catalog){0};
}

/* Retention. */

typedef struct retaining {
    gw_io *io;
    const char *dir;
    const gw_hash *job_id, *kept;
    uint32_t kept_count, quarantined_count;
    gw_err *err;
    bool failed;
} retaining;

/* Whether the same state was saved again, in a later view or after steps that did not change it. The job
 * identifies the checkpoint by its root and the latest save (core/record/inventory.h), so that this
 * manifest is not asked for again. */
static bool was_saved_again(const gw_catalog *catalog, const gw_manifest *manifest) {
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *other = &catalog->good[i];
        if (!gw_hash_equal(&other->job_id, &manifest->job_id) ||
            !gw_hash_equal(&other->root, &manifest->root))
            continue;
        if (other->epoch != manifest->epoch ? other->epoch > manifest->epoch : other->step > manifest->step)
            return true;
    }
    return false;
}

static bool is_kept(const retaining *r, const gw_catalog *catalog, const gw_manifest *manifest) {
    if (!gw_hash_equal(&manifest->job_id, r->job_id)) return true;
    for (uint32_t i = 0; i < r->kept_count; i++)
        if (gw_hash_equal(&manifest->root, &r->kept[i])) return !was_saved_again(catalog, manifest);
    return false;
}

static void note_failure(retaining *r, const char *what, const char *path) {
    if (!r->failed) gw_fail_errno(r->err, errno, "checkpoint/catalog: %s %s", what, path);
    r->failed = true;
}

/* Deletes one manifest under the name that gw_catalog_save gave it. Returns whether it no longer exists. */
static bool delete_manifest(retaining *r, const gw_manifest *manifest) {
    char path[GW_PATH_BYTES], name[GW_CATALOG_NAME_BYTES];
    if (!gw_durable_path(path, r->err, "%s/manifests/%s", r->dir, name_of(manifest, name))) {
        r->failed = true;
        return false;
    }
    if (r->io->unlink(r->io, path) == 0 || errno == ENOENT) return true;
    note_failure(r, "deleting", path);
    return false;
}

/* Returns the kept root of this job that the name of a file contains, or NULL. */
static const gw_hash *find_kept(const retaining *r, const char *path) {
    char end[GW_CATALOG_NAME_BYTES];
    for (uint32_t i = 0; i < r->kept_count; i++)
        if (ends_with(path, name_end(r->job_id, &r->kept[i], end))) return &r->kept[i];
    return NULL;
}

static bool has_root(const gw_catalog *catalog, const gw_hash *root) {
    for (uint32_t i = 0; i < catalog->good_count; i++)
        if (gw_hash_equal(&catalog->good[i].root, root)) return true;
    return false;
}

/* Renames a damaged file, so that it can be examined; beyond a few such files it is deleted. */
static void quarantine(retaining *r, const char *path) {
    char renamed[GW_PATH_BYTES];
    if (r->quarantined_count >= MOST_QUARANTINED) {
        if (r->io->unlink(r->io, path) < 0) note_failure(r, "deleting", path);
        return;
    }
    r->quarantined_count++;
    if (!gw_durable_path(renamed, r->err, "%s.damaged", path))
        r->failed = true;
    else if (r->io->rename(r->io, path, renamed) < 0)
        note_failure(r, "renaming", path);
}

/* Whether the needed chunks are known although this file cannot be read. A damaged manifest of a kept
 * checkpoint keeps its name, under which a good copy may come from a peer. */
static bool can_do_without(retaining *r, const gw_catalog *catalog, const gw_catalog_bad *bad) {
    const gw_hash *kept = find_kept(r, bad->path);
    if (kept != NULL) return has_root(catalog, kept);
    if (!gw_catalog_is_damage(&bad->err)) return false;
    quarantine(r, bad->path);
    return true;
}

/* Makes deletions of manifests durable, so that none reappears after its chunks are deleted. This includes
 * earlier deletions whose flush failed. */
static bool flush_deletions(const retaining *r) {
    char folder[GW_PATH_BYTES];
    return gw_durable_path(folder, r->err, "%s/manifests", r->dir) &&
           gw_durable_folder(r->io, folder, NULL, r->err) && gw_durable_sync_folder(r->io, folder, r->err);
}

/* Deletes manifests that are not kept and gathers the chunks of the others into `needed`, which has room
 * for all chunks of all manifests; returns their number. *bad becomes the first unreadable file because of
 * which the needed chunks are unknown, or NULL. */
static size_t prune(retaining *r, const gw_catalog *catalog, gw_hash *needed, const gw_catalog_bad **bad) {
    size_t count = 0;
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *manifest = &catalog->good[i];
        if (!is_kept(r, catalog, manifest) && delete_manifest(r, manifest)) continue;
        if (manifest->chunk_count > 0)
            memcpy(needed + count, manifest->chunks, manifest->chunk_count * sizeof *needed);
        count += manifest->chunk_count;
    }
    *bad = NULL;
    for (uint32_t i = 0; i < catalog->bad_count; i++)
        if (!can_do_without(r, catalog, &catalog->bad[i]) && *bad == NULL) *bad = &catalog->bad[i];
    if (!r->failed) r->failed = !flush_deletions(r);
    return count;
}

bool gw_catalog_retain(gw_io *io, const char *dir, const gw_hash *job_id, const gw_hash *kept,
                       uint32_t kept_count, gw_hash **needed, size_t *needed_count, bool *complete,
                       gw_err *why, gw_err *err) {
    gw_catalog catalog;
    if (!gw_catalog_load(io, dir, &catalog, err)) return false;
    size_t room = 1;
    for (uint32_t i = 0; i < catalog.good_count; i++) room += catalog.good[i].chunk_count;
    *needed = malloc(room * sizeof **needed);
    if (*needed == NULL) {
        gw_catalog_free(&catalog);
        return fail_memory(err);
    }
    retaining r = {.io = io,
                   .dir = dir,
                   .job_id = job_id,
                   .kept = kept,
                   .kept_count = kept_count,
                   .quarantined_count = catalog.quarantined_count,
                   .err = err};
    const gw_catalog_bad *bad;
    *needed_count = prune(&r, &catalog, *needed, &bad);
    *complete = bad == NULL;
    if (bad != NULL) *why = bad->err;
    gw_catalog_free(&catalog);
    if (!r.failed) return true;
    free(*needed);
    *needed = NULL;
    return false;
}

bool gw_catalog_is_best(const gw_catalog *catalog, const gw_manifest *manifest, const char **by,
                        double *value) {
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *one = &catalog->good[i];
        if (!gw_hash_equal(&one->job_id, &manifest->job_id)) continue;
        const gw_checkpoint_ref best = gw_manifest_best(one, value);
        *by = one->best_by;
        return best.step == manifest->step && gw_hash_equal(&best.root, &manifest->root);
    }
    return false;
}
