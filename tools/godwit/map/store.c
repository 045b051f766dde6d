/* The file is a row of segments. Pieces are written one behind the other into the current segment; each segment counts
 * the bytes of its pieces that are still needed. When it has none, its room on the disk is given back (a hole is
 * punched), and it may become the current one again. */
#include "tools/godwit/map/store.h"

#include "core/base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENT_BYTES = 4 << 20, FIRST_BYTES = 256, NONE = -1 };

struct gw_map_store {
    const char *folder;
    size_t memory, memory_most;
    int fd;
    uint32_t *needed; /* of each segment: bytes that are needed */
    uint32_t segment_count, segment_room;
    uint32_t *empty; /* segments without needed bytes, but for the current one */
    uint32_t empty_count;
    int64_t current; /* segment; NONE: there is none yet */
    uint32_t filled; /* bytes of the current segment */
};

gw_map_store *gw_map_store_open(const char *folder, size_t memory, gw_err *err) {
    gw_map_store *s = calloc(1, sizeof *s);
    if (s == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for the outputs of tasks");
        return NULL;
    }
    s->folder = folder;
    s->memory_most = memory;
    s->fd = -1;
    s->current = NONE;
    return s;
}

void gw_map_store_close(gw_map_store *s) {
    if (s == NULL) return;
    GW_ASSERT(s->memory == 0);
    if (s->fd >= 0) close(s->fd);
    free(s->needed);
    free(s->empty);
    free(s);
}

size_t gw_map_store_memory(const gw_map_store *s) {
    return s->memory;
}

uint64_t gw_map_store_file_bytes(const gw_map_store *s) {
    return (uint64_t)s->segment_count * SEGMENT_BYTES;
}

/* The file. */

static bool open_file(gw_map_store *s, gw_err *err) {
    char path[4096];
    s->fd = open(s->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd >= 0) return true;
    snprintf(path, sizeof path, "%s/godwit-map-XXXXXX", s->folder); /* a file system without O_TMPFILE */
    s->fd = mkostemp(path, O_CLOEXEC);
    if (s->fd < 0)
        return gw_fail_errno(err, errno, "cannot make a file for the outputs of tasks in '%s'", s->folder);
    unlink(path);
    return true;
}

static bool add_segment(gw_map_store *s, gw_err *err) {
    if (s->segment_count == s->segment_room) {
        uint32_t room = s->segment_room > 0 ? 2 * s->segment_room : 64;
        uint32_t *needed = realloc(s->needed, room * sizeof *needed);
        if (needed != NULL) s->needed = needed;
        uint32_t *empty = realloc(s->empty, room * sizeof *empty);
        if (empty != NULL) s->empty = empty;
        if (needed == NULL || empty == NULL)
            return gw_fail(err, GW_E_NOMEM, "no memory for the outputs of tasks");
        s->segment_room = room;
    }
    s->needed[s->segment_count] = 0;
    s->current = s->segment_count++;
    s->filled = 0;
    return true;
}

static void give_back(gw_map_store *s, uint32_t segment) {
    (void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)segment * SEGMENT_BYTES,
                    SEGMENT_BYTES); /* where the file system cannot, the room is used again all the same */
    s->empty[s->empty_count++] = segment;
}

/* Makes room for a piece in the current segment, or in another one. */
static bool take_segment(gw_map_store *s, uint32_t length, gw_err *err) {
    if (s->fd < 0 && !open_file(s, err)) return false;
    if (s->current != NONE && s->filled + length <= SEGMENT_BYTES) return true;
    if (s->current != NONE && s->needed[s->current] == 0) give_back(s, (uint32_t)s->current);
    s->current = NONE;
    if (s->empty_count == 0) return add_segment(s, err);
    s->current = s->empty[--s->empty_count];
    s->filled = 0;
    return true;
}

static bool write_piece(gw_map_store *s, const uint8_t *bytes, uint32_t length, gw_map_piece *piece,
                        gw_err *err) {
    if (!take_segment(s, length, err)) return false;
    *piece = (gw_map_piece){(uint64_t)s->current * SEGMENT_BYTES + s->filled, length};
    for (uint32_t done = 0; done < length;) {
        ssize_t wrote = pwrite(s->fd, bytes + done, length - done, (off_t)(piece->at + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0)
            return gw_fail_errno(err, errno,
                                 "cannot keep the outputs of tasks in '%s' (--tmpdir names another folder)",
                                 s->folder);
        done += (uint32_t)wrote;
    }
    s->needed[s->current] += length;
    s->filled += length;
    return true;
}

static void drop_piece(gw_map_store *s, const gw_map_piece *piece) {
    uint32_t segment = (uint32_t)(piece->at / SEGMENT_BYTES);
    s->needed[segment] -= piece->length;
    if (s->needed[segment] == 0 && segment != s->current) give_back(s, segment);
}

/* Outputs. */

/* Writes a piece of an output. */
static bool add_piece(gw_map_store *s, gw_map_output *o, const uint8_t *bytes, uint32_t length, gw_err *err) {
    if (o->piece_count == o->piece_room) {
        uint32_t room = o->piece_room > 0 ? 2 * o->piece_room : 4;
        gw_map_piece *pieces = realloc(o->pieces, room * sizeof *pieces);
        if (pieces == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the output of a task");
        o->pieces = pieces;
        o->piece_room = room;
    }
    if (!write_piece(s, bytes, length, &o->pieces[o->piece_count], err)) return false;
    o->piece_count++;
    return true;
}

/* Moves the bytes in memory to the file. */
static bool move_to_file(gw_map_store *s, gw_map_output *o, gw_err *err) {
    if (o->length > 0 && !add_piece(s, o, o->bytes, o->length, err)) return false;
    free(o->bytes);
    s->memory -= o->room;
    o->bytes = NULL;
    o->length = o->room = 0;
    return true;
}

/* Makes room in memory; false: there may be no more of it. */
static bool grow(gw_map_store *s, gw_map_output *o, size_t more) {
    size_t need = o->length + more, room = o->room > 0 ? o->room : FIRST_BYTES;
    if (need <= o->room) return true;
    while (room < need) room *= 2;
    if (room > GW_MAP_PIECE_BYTES || s->memory - o->room + room > s->memory_most) return false;
    uint8_t *bytes = realloc(o->bytes, room);
    if (bytes == NULL) return false;
    s->memory += room - o->room;
    o->bytes = bytes;
    o->room = (uint32_t)room;
    return true;
}

bool gw_map_output_add(gw_map_store *s, gw_map_output *o, const void *bytes, size_t length, gw_err *err) {
    const uint8_t *at = bytes;
    o->total += length;
    while (length > 0) {
        size_t part = length < GW_MAP_PIECE_BYTES ? length : GW_MAP_PIECE_BYTES;
        if (grow(s, o, part)) {
            memcpy(o->bytes + o->length, at, part);
            o->length += (uint32_t)part;
        } else if (!move_to_file(s, o, err) || !add_piece(s, o, at, (uint32_t)part, err)) {
            return false;
        }
        at += part;
        length -= part;
    }
    return true;
}

bool gw_map_output_settle(gw_map_store *s, gw_map_output *o, gw_err *err) {
    if (o->length == 0 || s->memory <= s->memory_most / 2) return true;
    return move_to_file(s, o, err);
}

bool gw_map_output_read(gw_map_store *s, const gw_map_output *o, uint32_t index, void *bytes, gw_err *err) {
    const gw_map_piece *piece = &o->pieces[index];
    for (uint32_t done = 0; done < piece->length;) {
        ssize_t got = pread(s->fd, (uint8_t *)bytes + done, piece->length - done, (off_t)(piece->at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return gw_fail_errno(err, got < 0 ? errno : EIO, "cannot read the outputs of tasks in '%s'",
                                 s->folder);
        done += (uint32_t)got;
    }
    return true;
}

bool gw_map_output_take_lines(gw_map_store *s, gw_map_output *o, gw_map_output *lines, gw_err *err) {
    const uint8_t *last = o->length > 0 ? memrchr(o->bytes, '\n', o->length) : NULL;
    uint32_t length = last != NULL ? (uint32_t)(last - o->bytes) + 1 : 0;
    gw_map_output rest = {.bytes = NULL};
    if (last == NULL && o->total < GW_MAP_LINE_PART) return true;
    if (last != NULL && !gw_map_output_add(s, &rest, o->bytes + length, o->length - length, err))
        return false;
    *lines = *o;
    *o = rest;
    if (last != NULL) lines->length = length;
    lines->total -= rest.total;
    return true;
}

void gw_map_output_drop(gw_map_store *s, gw_map_output *o) {
    for (uint32_t i = 0; i < o->piece_count; i++) drop_piece(s, &o->pieces[i]);
    s->memory -= o->room;
    free(o->bytes);
    free(o->pieces);
    *o = (gw_map_output){.bytes = NULL};
}
