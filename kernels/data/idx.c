#include "kernels/data/idx.h"

#include "core/base/assert.h"
#include "core/os/plain_file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { INPUT_BYTES = 64 * 1024, TYPE_U8 = 0x08 };

/* A file being read, plain or through zlib. `offset` counts bytes after decompression. */
typedef struct source {
    gw_plain_file file;
    uint64_t taken; /* bytes of the file that have been read into `input` */
    bool gzip, stream_ended, padded;
    z_stream stream;
    uint64_t offset;
    uint8_t input[INPUT_BYTES];
} source;

/* Reads more bytes of the file into `input`; none at the end of the file. */
static bool fill(source *s, gw_err *err) {
    uint64_t left = s->file.bytes - s->taken;
    size_t count = left < sizeof s->input ? left : sizeof s->input;
    if (!gw_plain_read(&s->file, s->taken, s->input, count, err)) return false;
    s->taken += count;
    s->stream.next_in = s->input;
    s->stream.avail_in = (uInt)count;
    return true;
}

static bool source_open(source *s, const char *path, gw_err *err) {
    if (!gw_plain_open(path, &s->file, err) || !fill(s, err)) return false;
    s->gzip = s->stream.avail_in >= 2 && s->input[0] == 0x1f && s->input[1] == 0x8b;
    enum { GZIP_WINDOW = 15 + 16 };
    if (s->gzip && inflateInit2(&s->stream, GZIP_WINDOW) != Z_OK) {
        s->gzip = false;
        return gw_fail(err, GW_E_NOMEM, "%s: no memory for zlib", path);
    }
    return true;
}

static void source_close(source *s) {
    if (s->gzip) inflateEnd(&s->stream);
    gw_plain_close(&s->file);
}

/* Skips zeros between the last gzip member and the end of the file, with which tapes and disks pad their last
 * block. */
static void skip_padding(source *s) {
    while (s->stream.avail_in > 0 && *s->stream.next_in == 0) {
        s->stream.next_in++;
        s->stream.avail_in--;
        s->padded = true;
    }
}

/* Inflates into stream.next_out until it is full, the input is used up, or a member ends. */
static bool inflate_some(source *s, gw_err *err) {
    uInt before = s->stream.avail_out;
    if (s->stream_ended) { /* another member may follow */
        skip_padding(s);
        if (s->stream.avail_in == 0) return true;
        if (s->padded)
            return gw_fail(err, GW_E_CORRUPT, "%s: the gzip stream continues after zeros at offset %llu",
                           s->file.path, (unsigned long long)s->offset);
        s->stream_ended = false;
        inflateReset(&s->stream);
    }
    int rc = inflate(&s->stream, Z_NO_FLUSH);
    s->offset += before - s->stream.avail_out;
    if (rc == Z_STREAM_END)
        s->stream_ended = true;
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return gw_fail(err, GW_E_CORRUPT, "%s: the gzip stream is damaged at offset %llu (%s)", s->file.path,
                       (unsigned long long)s->offset, s->stream.msg != NULL ? s->stream.msg : zError(rc));
    return true;
}

/* Reads `count` bytes; *got is less only at the end of the file. */
static bool source_read(source *s, uint8_t *bytes, uint64_t count, uint64_t *got, gw_err *err) {
    *got = 0;
    while (*got < count) {
        if (s->stream.avail_in == 0 && !fill(s, err)) return false;
        if (s->stream.avail_in == 0) break;
        uint64_t left = count - *got;
        uInt part = left > 1u << 30 ? 1u << 30 : (uInt)left;
        if (s->gzip) {
            s->stream.next_out = bytes + *got;
            s->stream.avail_out = part;
            if (!inflate_some(s, err)) return false;
            *got += part - s->stream.avail_out;
        } else {
            if (part > s->stream.avail_in) part = s->stream.avail_in;
            memcpy(bytes + *got, s->stream.next_in, part);
            s->stream.next_in += part;
            s->stream.avail_in -= part;
            s->offset += part;
            *got += part;
        }
    }
    return true;
}

static bool read_exactly(source *s, uint8_t *bytes, uint64_t count, const char *what, gw_err *err) {
    uint64_t got;
    if (!source_read(s, bytes, count, &got, err)) return false;
    if (got < count)
        return gw_fail(err, GW_E_CORRUPT, "%s: ends at offset %llu, in the middle of %s (%llu bytes missing)",
                       s->file.path, (unsigned long long)s->offset, what, (unsigned long long)(count - got));
    return true;
}

static uint32_t big_endian(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool read_header(source *s, uint32_t rank, uint64_t limit, gw_idx *idx, gw_err *err) {
    uint8_t header[4 + 4 * GW_IDX_RANK];
    if (!read_exactly(s, header, 4, "the magic number", err)) return false;
    uint32_t magic = big_endian(header), expected = TYPE_U8 << 8 | rank;
    if (magic != expected)
        return gw_fail(err, GW_E_INVALID,
                       "%s: magic number 0x%08x at offset 0, expected 0x%08x (%u-dimensional bytes)",
                       s->file.path, magic, expected, rank);
    if (!read_exactly(s, header + 4, 4 * rank, "the dimensions", err)) return false;
    *idx = (gw_idx){.rank = rank, .header_bytes = 4 + 4 * (uint64_t)rank, .count = 1};
    for (uint32_t i = 0; i < rank; i++) {
        idx->dim[i] = big_endian(header + 4 + 4 * i);
        if (idx->dim[i] == 0)
            return gw_fail(err, GW_E_INVALID, "%s: dimension %u at offset %u is 0", s->file.path, i,
                           4 + 4 * i);
        if (__builtin_mul_overflow(idx->count, idx->dim[i], &idx->count) || idx->count > limit)
            return gw_fail(err, GW_E_LIMIT,
                           "%s: dimension %u at offset %u is %u: more than %llu bytes in all", s->file.path,
                           i, 4 + 4 * i, idx->dim[i], (unsigned long long)limit);
    }
    return true;
}

static bool read_elements(source *s, gw_idx *idx, gw_err *err) {
    idx->bytes = malloc(idx->count);
    if (idx->bytes == NULL)
        return gw_fail(err, GW_E_NOMEM, "%s: no memory for %llu bytes", s->file.path,
                       (unsigned long long)idx->count);
    if (!read_exactly(s, idx->bytes, idx->count, "the elements", err)) return false;
    uint8_t extra;
    uint64_t end = s->offset, got;
    if (!source_read(s, &extra, 1, &got, err)) return false;
    if (got != 0)
        return gw_fail(err, GW_E_INVALID, "%s: continues after its last element at offset %llu", s->file.path,
                       (unsigned long long)end);
    if (s->gzip && !s->stream_ended)
        return gw_fail(err, GW_E_CORRUPT, "%s: the gzip stream ends early at offset %llu", s->file.path,
                       (unsigned long long)end);
    return true;
}

bool gw_idx_read(const char *path, uint32_t rank, uint64_t limit, gw_idx *idx, gw_err *err) {
    GW_ASSERT(rank >= 1 && rank <= GW_IDX_RANK && limit > 0);
    *idx = (gw_idx){0};
    source *s = calloc(1, sizeof *s);
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "%s: no memory", path);
    bool done =
        source_open(s, path, err) && read_header(s, rank, limit, idx, err) && read_elements(s, idx, err);
    source_close(s);
    free(s);
    if (!done) gw_idx_free(idx);
    return done;
}

void gw_idx_free(gw_idx *idx) {
    free(idx->bytes);
    *idx = (gw_idx){0};
}
