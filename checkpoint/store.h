/* The chunks of one peer on its disk: DIR/chunks/<2 digits>/<64 digits>, named by what they hold.
 *
 * A chunk file is written under DIR/tmp, flushed, renamed and its folder flushed: a file under a chunk's name
 * is whole, or the disk has damaged it since. That is found by its hash at every read, some of which a put of
 * the same chunk makes; a damaged file is set aside as <64 digits>.damaged, so that a good copy can take its
 * place.
 *
 * Pins: a chunk pinned under a tag (the checkpoint's step, say) is not deleted before that tag is released.
 * Everything put is pinned under the putter's tag; gw_store_pin pins what a peer has said it has. So a chunk
 * that an open checkpoint counts on cannot go, although no manifest names it yet.
 *
 * Thread: every function may be called from any thread unless it says otherwise, and may wait for the disk,
 * but for gw_store_unpin and gw_store_release. One store a directory and process; against a second process,
 * take the lock first (checkpoint/dirlock.h), unless opened to look only.
 */
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
    GW_STORE_WRITE, /* creates DIR/chunks and DIR/tmp as needed, removes what crashed writes left */
    GW_STORE_LOOK,  /* changes nothing on disk, not even damaged files' names: for `godwit inspect` */
} gw_store_mode;

/* `io` NULL: the operating system's; it must outlive the store. Read-only or full disk: GW_E_IO. */
bool gw_store_open(const char *dir, gw_store_mode mode, gw_io *io, gw_store **store, gw_err *err);
/* NULL is allowed. No other thread may be inside. */
void gw_store_close(gw_store *store);
/* Is told that a chunk's bytes are not what its name says, by whoever reads or puts it, on its thread; once,
 * unless the disk will not have the file set aside. */
typedef void gw_store_damaged(void *context, const gw_err *err);
/* Before any other thread is inside. */
void gw_store_watch(gw_store *store, gw_store_damaged *damaged, void *context);
/* The directory it was opened on, and its io, counted; valid until close. */
const char *gw_store_dir(const gw_store *store);
gw_io *gw_store_io(const gw_store *store);
/* How many calls that change the disk have returned since it was opened, by whatever thread, of those that
 * went through that io, and chunks that a put has read: it changes as long as the disk gets on. */
uint64_t gw_store_changes(gw_store *store);

enum { GW_STORE_BATCH = 8 };

typedef struct gw_store_item {
    gw_hash name; /* must be the BLAKE2b-256 of the bytes: the caller has just computed or checked it */
    const void *bytes;
    uint32_t length; /* 1 to GW_CHUNK_BYTES */
    bool written;    /* out: false when it was there already, and sound */
} gw_store_item;

/* Makes up to GW_STORE_BATCH chunks durable together (one batch costs little more flushing than one chunk)
 * and pins them under `tag`. Chunks already there are not written again, unless they are damaged: they are
 * read, from the disk and not from the page cache, the first time that a put finds them and now and then
 * after that (checkpoint/sound.h), as by gw_store_read; what cannot be read is written. On failure some may
 * have been stored; the error names the first that was not. */
bool gw_store_put(gw_store *store, uint64_t tag, gw_store_item *items, uint32_t count, gw_err *err);

/* Whether a file of that name and of `length` bytes is there, not set aside (its hash is not checked). */
bool gw_store_has(gw_store *store, const gw_hash *name, uint32_t length);

/* Like gw_store_has, and when it is there pins it under `tag`: what stands behind a "have" answer. */
bool gw_store_pin(gw_store *store, uint64_t tag, const gw_hash *name, uint32_t length);

/* Takes back one pin of that name and tag, as set by gw_store_put or gw_store_pin. */
void gw_store_unpin(gw_store *store, uint64_t tag, const gw_hash *name);

/* Drops all pins of a tag: its manifest is on disk, or its checkpoint was abandoned. */
void gw_store_release(gw_store *store, uint64_t tag);

/* Reads and verifies a chunk of exactly `length` bytes into `bytes`. GW_E_NOTFOUND: not here. GW_E_CORRUPT:
 * its bytes or length are not what its name says. GW_E_IO: the disk would not give it. A file that is there
 * but cannot be had is set aside, so that a put can replace it; where none has, and it can be had after all,
 * it goes back to its place. */
bool gw_store_read(gw_store *store, const gw_hash *name, void *bytes, uint32_t length, gw_err *err);

/* Like gw_store_read where the length is not known: `bytes` has room for GW_CHUNK_BYTES. */
bool gw_store_find(gw_store *store, const gw_hash *name, void *bytes, uint32_t *length, gw_err *err);

/* Whether there is a chunk, not set aside, that is not in `named` (any order; duplicates allowed). */
bool gw_store_has_others(gw_store *store, const gw_hash *named, size_t named_count, bool *any, gw_err *err);

typedef struct gw_store_swept {
    uint32_t kept, deleted;
    uint64_t deleted_bytes;
} gw_store_swept;

/* Deletes every chunk that is neither pinned nor in `needed` (any order; duplicates allowed), set aside or
 * not, and damaged files that have been replaced. A file that cannot be deleted is an error, after all others
 * have been tried. */
bool gw_store_sweep(gw_store *store, const gw_hash *needed, size_t needed_count, gw_store_swept *swept,
                    gw_err *err);

#endif
