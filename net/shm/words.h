/* The mapped words of another peer, on which this peer operates with its own CPU.
 *
 * The owner describes its words in a packet that brings the file's descriptor (net/shm/door.h): epoch u64,
 * view name, number of regions u8, and for each region: number u8, offset u32, bytes u32.
 *
 * Threads: gw_shm_words_do from any, all others from the control thread. */
#ifndef GODWIT_NET_SHM_WORDS_H
#define GODWIT_NET_SHM_WORDS_H

#include "core/base/wire.h"
#include "net/rail/path.h"
#include "net/shm/door.h"

#include <pthread.h>

typedef struct gw_shm_words {
    pthread_rwlock_t lock; /* read-locked during operations */
    uint8_t *memory;       /* NULL: this peer has not been given the file yet */
    gw_fence fence;
    struct {
        uint64_t offset, bytes; /* bytes 0: no words region */
    } regions[GW_MAX_REGIONS];
} gw_shm_words;

void gw_shm_words_init(gw_shm_words *theirs);
void gw_shm_words_drop(gw_shm_words *theirs);

void gw_shm_words_describe(gw_words *words, const gw_fence *fence, gw_writer *w);
/* Maps the described file in place of an earlier one. `fd` stays the caller's. */
bool gw_shm_words_take(gw_shm_words *theirs, gw_reader *r, int fd, gw_err *err);

/* As `post` of gw_path_ops. Operations that do not fit the words, or are of another fence than the owner's,
 * are passed on: the owner's own thread answers what is wrong with them. */
gw_path_posted gw_shm_words_do(gw_shm_words *theirs, const gw_op *op, gw_completion *completion);

#endif
