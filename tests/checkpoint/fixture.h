/* Shared by the checkpoint suites: a folder of their own, a state image with a plan, and a table of system
 * calls that can fail, or end the process, at the k-th call. */
#ifndef GODWIT_TESTS_CHECKPOINT_FIXTURE_H
#define GODWIT_TESTS_CHECKPOINT_FIXTURE_H

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/os/io.h"

#include <stdatomic.h>

/* Makes a fresh folder under $TMPDIR; fixture_remove removes it with everything in it. */
const char *fixture_folder(char path[256]);
void fixture_remove(const char *path);

/* Makes folder `to`, which does not exist, with the folders of `from` in it and a hard link to each of its
 * files. */
void fixture_link_all(const char *from, const char *to);
/* The number of files under `folder`, at any depth, that have `part` in their name. */
unsigned fixture_count_files(const char *folder, const char *part);
/* Changes one byte in the middle of a file, or cuts it. */
void fixture_damage(const char *path);
void fixture_truncate(const char *path, long bytes);
/* The path of a chunk's file. */
void fixture_chunk_path(const char *folder, const gw_hash *name, char path[512]);

/* A state of three tensors that takes several chunks, the last of them short. */
enum { FIXTURE_TENSORS = 3, FIXTURE_CHUNKS = 3 };
#define FIXTURE_STATE_BYTES (2 * (uint64_t)GW_CHUNK_BYTES + 1000)
extern const gw_tensor fixture_tensors[FIXTURE_TENSORS];

typedef struct fixture_image {
    uint8_t *bytes;
    gw_hash chunks[FIXTURE_CHUNKS];
    gw_manifest manifest; /* sealed; its arrays are static or in this struct */
} fixture_image;

/* The image of `step`: chunk 1 is the same at every step, the others differ. */
fixture_image *fixture_image_make(uint64_t step);
void fixture_image_free(fixture_image *image);
/* gw_ckpt_read_fn on a fixture_image. */
bool fixture_image_read(void *context, uint64_t offset, void *bytes, size_t length, gw_err *err);

typedef enum fixture_call {
    CALL_ANY,
    CALL_OPEN,
    CALL_READ,
    CALL_WRITE,
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_CLOSE,
    CALL_RENAME,
    CALL_UNLINK,
    CALL_MKDIR,
} fixture_call;

typedef struct fixture_io {
    gw_io io;          /* must come first: the functions cast back to the struct */
    fixture_call call; /* the kind of calls that count */
    atomic_int left;   /* calls of that kind that succeed; then `error` */
    int error;         /* errno from then on; 0: the process ends at that call, as by SIGKILL */
    bool once;         /* only that call fails */
    bool short_writes; /* every write writes 1000 bytes more than half of its bytes at most */
    atomic_int seen;   /* calls of that kind so far */
} fixture_io;

/* All calls go to the system until `left` is used up; with -1 it never is. */
void fixture_io_init(fixture_io *faulty, fixture_call call, int left, int error);

#endif
