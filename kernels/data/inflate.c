#include "kernels/data/inflate.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { GZIP_WINDOW = 15 + 16, ZSTD_WINDOW = 31 /* the window of zstd --long=31 */ };

struct gw_inflater {
    gw_compression compression;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool within; /* a member or a frame has begun and not ended */
    bool padded; /* zeros follow the last member, with which tapes and disks pad their last block */
};

bool gw_compression_of(const char *bytes, size_t count, gw_compression *compression, gw_err *err) {
    static const struct {
        const char *magic;
        size_t length;
        const char *name, *program;
    } others[] = {{"\xfd"
                   "7zXZ",
                   6, "xz", "xz"},
                  {"BZh9\x31\x41", 6, "bzip2", "bzip2"}};
    *compression = GW_PLAIN;
    if (count >= 3 && memcmp(bytes, "\x1f\x8b\x08", 3) == 0) *compression = GW_GZIP;
    if (count >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0) *compression = GW_ZSTD;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (count >= others[i].length && memcmp(bytes, others[i].magic, others[i].length) == 0)
            return gw_fail(
                err, GW_E_UNSUPPORTED,
                "is compressed by %s; gzip and zstd are what can be read. Put in '%s -dc FILE |' and "
                "name - in its place",
                others[i].name, others[i].program);
    return true;
}

bool gw_inflater_open(gw_compression compression, gw_inflater **out, gw_err *err) {
    GW_ASSERT(compression != GW_PLAIN);
    gw_inflater *inflater = calloc(1, sizeof *inflater);
    if (inflater == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to decompress a file");
    inflater->compression = compression;
    bool opened = false;
    if (compression == GW_GZIP) {
        opened = inflateInit2(&inflater->gzip, GZIP_WINDOW) == Z_OK;
    } else {
        inflater->zstd = ZSTD_createDStream();
        opened = inflater->zstd != NULL &&
                 !ZSTD_isError(ZSTD_DCtx_setParameter(inflater->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW));
    }
    if (!opened) {
        ZSTD_freeDStream(inflater->zstd);
        free(inflater);
        return gw_fail(err, GW_E_NOMEM, "no memory to decompress a file");
    }
    *out = inflater;
    return true;
}

void gw_inflater_close(gw_inflater *inflater) {
    if (inflater == NULL) return;
    if (inflater->compression == GW_GZIP) inflateEnd(&inflater->gzip);
    ZSTD_freeDStream(inflater->zstd);
    free(inflater);
}

/* Skips zeros behind a member. Any other byte begins another member. */
static bool begin_member(gw_inflater *inflater, gw_err *err) {
    z_stream *z = &inflater->gzip;
    while (z->avail_in > 0 && *z->next_in == 0) {
        z->next_in++;
        z->avail_in--;
        inflater->padded = true;
    }
    if (z->avail_in == 0) return true;
    if (inflater->padded) return gw_fail(err, GW_E_CORRUPT, "has something behind its compressed data");
    inflater->within = true;
    return inflateReset(z) == Z_OK || gw_fail(err, GW_E_NOMEM, "no memory to decompress a file");
}

static bool run_gzip(gw_inflater *inflater, const char **in, size_t *left, char *out, size_t room,
                     size_t *made, gw_err *err) {
    z_stream *z = &inflater->gzip;
    bool good = true, stuck = false;
    z->next_in = (Bytef *)(uintptr_t)*in;
    z->avail_in = (uInt)*left;
    z->next_out = (Bytef *)out;
    z->avail_out = (uInt)room;
    while (good && !stuck && z->avail_out > 0) {
        if (!inflater->within) good = begin_member(inflater, err);
        if (!good || !inflater->within) break;
        int result = inflate(z, Z_NO_FLUSH);
        stuck = result == Z_BUF_ERROR; /* the decompressor needs more input */
        if (result == Z_STREAM_END) inflater->within = false;
        if (result == Z_MEM_ERROR)
            good = gw_fail(err, GW_E_NOMEM, "no memory to decompress a file");
        else if (result != Z_OK && result != Z_STREAM_END && !stuck)
            good = gw_fail(err, GW_E_CORRUPT, "its compressed data (gzip) are damaged: %s",
                           z->msg != NULL ? z->msg : "it ends in the midst of them");
    }
    *in = (const char *)z->next_in;
    *left = z->avail_in;
    *made = room - z->avail_out;
    return good;
}

static bool run_zstd(gw_inflater *inflater, const char **in, size_t *left, char *out, size_t room,
                     size_t *made, gw_err *err) {
    ZSTD_inBuffer from = {*in, *left, 0};
    ZSTD_outBuffer to = {out, room, 0};
    bool good = true, more = true;
    while (good && more && to.pos < to.size) {
        size_t taken = from.pos, written = to.pos;
        size_t result = ZSTD_decompressStream(inflater->zstd, &to, &from);
        if (ZSTD_isError(result)) {
            good = gw_fail(err, GW_E_CORRUPT, "its compressed data (zstd) are damaged: %s",
                           ZSTD_getErrorName(result));
            break;
        }
        more = from.pos > taken || to.pos > written;
        if (more) inflater->within = result != 0;
    }
    *in += from.pos;
    *left -= from.pos;
    *made = to.pos;
    return good;
}

bool gw_inflater_run(gw_inflater *inflater, const char **in, size_t *left, char *out, size_t room,
                     size_t *made, gw_err *err) {
    GW_ASSERT(room > 0 && *left <= UINT32_MAX && room <= UINT32_MAX);
    return inflater->compression == GW_GZIP ? run_gzip(inflater, in, left, out, room, made, err)
                                            : run_zstd(inflater, in, left, out, room, made, err);
}

bool gw_inflater_end(const gw_inflater *inflater, gw_err *err) {
    return !inflater->within || gw_fail(err, GW_E_CORRUPT, "was cut off: it ends within its compressed data");
}
