/* What tasks write, kept until it can be printed: in memory while there is little of it, and otherwise in one file without
 * a name. Memory is bounded, whatever tasks write, and the file is one descriptor, however many outputs there are. What
 * has been printed gives its room back to the disk. One thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_STORE_H
#define GODWIT_TOOLS_GODWIT_MAP_STORE_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_MAP_PIECE_BYTES =
        64 << 10 /* that are kept in memory of one output, and the largest piece in the file */
};

typedef struct gw_map_store gw_map_store;

/* A store that keeps at most `memory` bytes in memory. The file is made in `folder` when it is needed first. NULL when
 * memory runs out. The folder's name is borrowed. */
gw_map_store *gw_map_store_open(const char *folder, size_t memory, gw_err *err);
void gw_map_store_close(gw_map_store *store); /* NULL is allowed; all outputs have been dropped */

/* A piece of an output in the file. */
typedef struct gw_map_piece {
    uint64_t at;
    uint32_t length;
} gw_map_piece;

/* What a task has written to one of its descriptors: the pieces, then the bytes in memory. All zeros: nothing. */
typedef struct gw_map_output {
    uint8_t *bytes;
    uint32_t length, room;
    uint32_t piece_count, piece_room;
    gw_map_piece *pieces;
    uint64_t total; /* bytes that were ever added */
} gw_map_output;

/* All that a task has left. */
typedef struct gw_map_written {
    gw_map_output output, errors; /* what it wrote to standard output and standard error */
    gw_map_output files;          /* files that are brought back (files.h) */
} gw_map_written;

/* Adds bytes. Fails with GW_E_IO where the disk takes none, and with GW_E_NOMEM. */
bool gw_map_output_add(gw_map_store *store, gw_map_output *output, const void *bytes, size_t length,
                       gw_err *err);
/* Moves what is in memory to the file, if the store has more in memory than it may: for outputs that wait. */
bool gw_map_output_settle(gw_map_store *store, gw_map_output *output, gw_err *err);
/* Reads piece `index` into `bytes`, which have room for GW_MAP_PIECE_BYTES. */
bool gw_map_output_read(gw_map_store *store, const gw_map_output *output, uint32_t index, void *bytes,
                        gw_err *err);
/* Moves the whole lines of an output to `lines`, which is all zeros: what stands in memory up to its last line feed, and
 * the pieces before it. A part of a line that is longer than GW_MAP_LINE_PART bytes goes along. Fails with GW_E_NOMEM and
 * GW_E_IO. */
bool gw_map_output_take_lines(gw_map_store *store, gw_map_output *output, gw_map_output *lines, gw_err *err);
enum { GW_MAP_LINE_PART = 1 << 20 };
/* Gives all memory and all room on the disk back. */
void gw_map_output_drop(gw_map_store *store, gw_map_output *output);

/* Bytes in memory, and the length of the file. */
size_t gw_map_store_memory(const gw_map_store *store);
uint64_t gw_map_store_file_bytes(const gw_map_store *store);

#endif
