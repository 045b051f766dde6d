#include "core/base/utf8.h"
#include "core/os/durable.h"
#include "tools/godwit/series/series.h"

#include <stdlib.h>
#include <string.h>

/* The file: the mark, the version, the job's id, the number of series, for each its name and its levels, and the
 * BLAKE2b-256 of all that. */
static const char mark[8] = "gwseries";

enum { VERSION = 2, HEAD_BYTES = 8 + 1 + 32 + 4, SUM_BYTES = 32 };

uint64_t gw_series_set_last(const gw_series_set *set) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < set->count; i++)
        if (set->levels[i].last > last) last = set->levels[i].last;
    return last;
}

void gw_series_set_free(gw_series_set *set) {
    for (uint32_t i = 0; i < set->count; i++) gw_levels_free(&set->levels[i]);
    set->count = 0;
}

void *gw_series_encode(const gw_series_set *set, const gw_hash *job, size_t *length) {
    size_t bytes = HEAD_BYTES + SUM_BYTES;
    for (uint32_t i = 0; i < set->count; i++)
        bytes += 2 + strlen(set->name[i]) + gw_levels_bytes(&set->levels[i]);
    uint8_t *file = malloc(bytes);
    if (file == NULL) return NULL;
    gw_writer w = gw_writer_on(file, bytes);
    gw_put_bytes(&w, mark, sizeof mark);
    gw_put_u8(&w, VERSION);
    gw_put_hash(&w, job);
    gw_put_u32(&w, set->count);
    for (uint32_t i = 0; i < set->count; i++) {
        gw_put_string(&w, set->name[i]);
        gw_levels_put(&w, &set->levels[i]);
    }
    gw_hash sum;
    gw_blake2b(file, w.length, sum.bytes, sizeof sum.bytes);
    gw_put_hash(&w, &sum);
    *length = w.length;
    return file;
}

/* Reads the series of a file whose sum is right. */
static bool get_set(gw_reader *r, gw_series_set *set) {
    uint32_t count = gw_get_u32(r);
    if (count > GW_SERIES_MOST) r->failed = true;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        char *name = set->name[i];
        gw_get_string(r, name, sizeof set->name[i]);
        gw_utf8_make_printable(name);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(name, set->name[k]) == 0) r->failed = true;
        set->count = i + 1;
        gw_levels_get(r, &set->levels[i]);
    }
    return gw_reader_done(r);
}

bool gw_series_decode(const void *bytes, size_t length, const gw_hash *job, gw_series_set *set, gw_err *err) {
    memset(set, 0, sizeof *set);
    gw_reader r = gw_reader_on(bytes, length < SUM_BYTES ? 0 : length - SUM_BYTES);
    const uint8_t *first = gw_get_view(&r, sizeof mark);
    if (first == NULL || memcmp(first, mark, sizeof mark) != 0)
        return gw_fail(err, GW_E_INVALID, "it is no file of series");
    unsigned version = gw_get_u8(&r);
    if (version != VERSION)
        return gw_fail(err, GW_E_INVALID, "it has version %u, and this build reads version %d", version,
                       VERSION);
    uint8_t sum[SUM_BYTES];
    gw_blake2b(bytes, r.length, sum, sizeof sum);
    if (memcmp(sum, (const uint8_t *)bytes + r.length, sizeof sum) != 0)
        return gw_fail(err, GW_E_CORRUPT, "its bytes are not those that were written");
    gw_hash owner;
    gw_get_hash(&r, &owner);
    if (!gw_hash_equal(&owner, job)) return gw_fail(err, GW_E_NOTFOUND, "it is of another job");
    if (get_set(&r, set)) return true;
    gw_series_set_free(set);
    return gw_fail(err, GW_E_INVALID, "it is malformed");
}

bool gw_series_read_file(const char *dir, const gw_hash *job, gw_series_set *set, gw_err *err) {
    char path[GW_PATH_BYTES];
    void *bytes = NULL;
    size_t length = 0;
    bool good = gw_durable_path(path, err, "%s/series", dir) &&
                gw_durable_read(gw_io_system(), path, GW_SERIES_FILE_BYTES, &bytes, &length, err) &&
                (gw_series_decode(bytes, length, job, set, err) || gw_fail_in(err, "%s", path));
    free(bytes);
    return good;
}
