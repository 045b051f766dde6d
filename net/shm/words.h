/* Another peer's words, mapped: what this peer does to them with its own CPU.
 *
 * The peer describes its words in a packet, with the file's descriptor (net/shm/door.h): epoch u64, view
 * name, number of regions u8, and of each: number u8, offset u32, bytes u32.
 *
 * Threads: _do from any, the others from the control thread. */
#ifndef GODWIT_NET_SHM_WORDS_H
#define GODWIT_NET_SHM_WORDS_H

#include "core/base/wire.h"
#include "net/rail/path.h"
#include "net/shm/door.h"

#include <pthread.h>

typedef struct gw_shm_words {
    pthread_rwlock_t lock; /* held to read by who is at it */
    uint8_t *memory;       /* NULL: not handed to this peer yet */
    gw_fence fence;
    struct {
        uint64_t offset, bytes; /* bytes 0: not words */
    } regions[GW_MAX_REGIONS];
} gw_shm_words;

void gw_shm_words_init(gw_shm_words *theirs);
void gw_shm_words_drop(gw_shm_words *theirs);

void gw_shm_words_describe(gw_words *words, const gw_fence *fence, gw_writer *w);
/* Maps what was described, in place of what there was. `fd` stays the caller's. */
bool gw_shm_words_take(gw_shm_words *theirs, gw_reader *r, int fd, gw_err *err);

/* See gw_path_ops.post. Passes on what is not words, of another fence than the peer's, or makes no sense: the
 * peer's own thread says what is wrong with it. */
gw_path_posted gw_shm_words_do(gw_shm_words *theirs, const gw_op *op, gw_completion *completion);

#endif
