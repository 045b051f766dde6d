/* The chunks of one peer on its disk: DIR/chunks/<2 digits>/<64 digits>, named by the hash of their
 * contents.
 *
 * A chunk file is written under DIR/tmp, flushed and renamed, and its folder is flushed. Thus a file with
 * the name of a chunk is complete unless the disk has damaged it since. Every read verifies the hash, and
 * some puts of an existing chunk read it. A damaged file is *quarantined*: renamed to <64 digits>.damaged,
 * so that a good copy can take its place.
 *
 * Pins: a chunk that is pinned under a tag (for instance the step of a checkpoint) is not deleted before
 * the tag is released. gw_store_put pins the chunks that it stores; gw_store_pin pins chunks that this
 * peer has declared to hold. Therefore the chunks of an unfinished checkpoint stay, although no manifest
 * names them yet.
 *
 * Every function may be called from any thread unless its comment says otherwise, and may wait for the
 * disk, except gw_store_unpin and gw_store_release. A process opens one store a directory, and takes the
 * lock of the directory (checkpoint/dirlock.h) first unless it opens the store to look only. */
#ifndef GODWIT_CHECKPOINT_STORE_H
#define GODWIT_CHECKPOINT_STORE_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/os/io.h"
#include "core/state/chunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_store gw_store;

typedef enum gw_store_mode {
    GW_STORE_WRITE, /* creates DIR/chunks and DIR/tmp as needed, removes remains of crashed writes */
    GW_STORE_LOOK,  /* changes nothing on disk, not even the names of damaged files: for `godwit inspect` */
} gw_store_mode;

/* Opens a store. `io` must outlive the store; NULL means that of the operating system. Fails with GW_E_IO
 * if the disk is read-only or full. */
bool gw_store_open(const char *dir, gw_store_mode mode, gw_io *io, gw_store **store, gw_err *err);
/* Closes a store; NULL is allowed. No other thread may be in a function of the store. */
void gw_store_close(gw_store *store);
/* Reports that the bytes of a chunk do not match its name, on the thread that reads or puts the chunk. A
 * damaged file is reported once, or again if it could not be quarantined. */
typedef void gw_store_damaged(void *context, const gw_err *err);
/* Sets the callback for damage, before any other thread uses the store. */
void gw_store_watch(gw_store *store, gw_store_damaged *damaged, void *context);
/* The directory and the counting io of the store; valid until it is closed. */
const char *gw_store_dir(const gw_store *store);
gw_io *gw_store_io(const gw_store *store);
/* The number of calls through gw_store_io that changed the disk and of chunks read by puts since the store
 * was opened, of all threads. It grows as long as the disk makes progress. */
uint64_t gw_store_changes(gw_store *store);

enum { GW_STORE_BATCH = 8 };

typedef struct gw_store_item {
    gw_hash name; /* BLAKE2b-256 of the bytes, which the caller has just computed or checked */
    const void *bytes;
    uint32_t length; /* 1 to GW_CHUNK_BYTES */
    bool written;    /* out: false if the store had the chunk already and it was sound */
} gw_store_item;

/* Makes up to GW_STORE_BATCH chunks durable together, as flushing one batch costs little more than
 * flushing one chunk, and pins them under `tag`. A chunk that the store has is not written again unless it
 * is damaged: it is read from the disk, bypassing the page cache, the first time that a put finds it and
 * occasionally after that (checkpoint/sound.h), and written if it cannot be read. On failure some chunks
 * may have been stored; the error names the first that was not. */
bool gw_store_put(gw_store *store, uint64_t tag, gw_store_item *items, uint32_t count, gw_err *err);

/* Whether the store has a file of this name and of `length` bytes, not quarantined. The hash is not
 * checked. */
bool gw_store_has(gw_store *store, const gw_hash *name, uint32_t length);

/* Like gw_store_has, and pins the chunk under `tag` if the store has it. A peer answers "have" on this
 * basis. */
bool gw_store_pin(gw_store *store, uint64_t tag, const gw_hash *name, uint32_t length);

/* Removes one pin of this name and tag, as set by gw_store_put or gw_store_pin. */
void gw_store_unpin(gw_store *store, uint64_t tag, const gw_hash *name);

/* Removes all pins of a tag, when the manifest is on disk or the checkpoint was abandoned. */
void gw_store_release(gw_store *store, uint64_t tag);

/* Reads a chunk of exactly `length` bytes into `bytes` and verifies it. Fails with GW_E_NOTFOUND if the
 * store does not have it, GW_E_CORRUPT if its bytes or length do not match, GW_E_IO if the disk cannot
 * read it. A file that exists but cannot be read or verified is quarantined, so that a put can replace it.
 * If a file that was quarantined turns out to be sound and has not been replaced, it gets its name back. */
bool gw_store_read(gw_store *store, const gw_hash *name, void *bytes, uint32_t length, gw_err *err);

/* Like gw_store_read for an unknown length: `bytes` has room for GW_CHUNK_BYTES. */
bool gw_store_find(gw_store *store, const gw_hash *name, void *bytes, uint32_t *length, gw_err *err);

/* Sets *any to whether the store has a chunk, not quarantined, that is not in `named` (any order, duplicates
 * allowed). */
bool gw_store_has_others(gw_store *store, const gw_hash *named, size_t named_count, bool *any, gw_err *err);

typedef struct gw_store_swept {
    uint32_t kept, deleted;
    uint64_t deleted_bytes;
} gw_store_swept;

/* Deletes every chunk that is neither pinned nor in `needed` (any order, duplicates allowed), also those
 * quarantined, and damaged files that have been replaced. If a file cannot be deleted, all others are tried;
 * then the function fails. */
bool gw_store_sweep(gw_store *store, const gw_hash *needed, size_t needed_count, gw_store_swept *swept,
                    gw_err *err);

#endif
