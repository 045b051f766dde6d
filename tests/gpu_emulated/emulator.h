/* Kernels on the processor: the project's own .cu files, compiled by the host's compiler (shim.cuh) and run
 * here as a GPU would. Blocks run one after the other; the threads of one take turns as fibers and stop
 * where they wait for each other. Whoever does what a GPU leaves undefined is told: a thread that waits for
 * one that has ended or waits elsewhere, memory that is shared and was not written (it begins as NaNs;
 * not the static one of templates, which GCC puts elsewhere), accesses that are not aligned.
 *
 * One kernel at a time in a process: whoever runs one (fake_cuda.c) holds a lock. */
#ifndef GODWIT_TESTS_GPU_EMULATED_EMULATOR_H
#define GODWIT_TESTS_GPU_EMULATED_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vector_types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATED_WARP = 32 };

typedef struct emulated_shape {
    struct dim3 grid, block;
    size_t shared_bytes; /* dynamic */
} emulated_shape;

/* Where the code that runs is: in which grid, which block, which thread. */
typedef struct emulated_place {
    struct dim3 grid, block_size;
    struct uint3 block, thread;
    uint32_t number; /* of the thread in its block */
} emulated_place;
extern emulated_place emulated_here;

/* Runs `kernel(arguments)` in every thread of the shape. What went wrong, or NULL; valid until the next. */
const char *emulated_run(const emulated_shape *shape, void (*kernel)(const void *arguments),
                         const void *arguments);

/* Blocks, and threads between the places where they meet, run in another order from now on: one for each
 * seed; 0: as they are numbered. */
void emulated_shuffle(uint64_t seed);

/* ---- for code in a kernel ---- */

/* Where in the source: a place at which threads meet is the same for all. */
typedef struct emulated_site {
    const char *what, *file;
    int line;
} emulated_site;

/* Waits for all threads of the block. */
void emulated_meet_block(emulated_site site);

/* What lanes do when all of them are there; own[lane] is what each has brought. */
typedef void emulated_exchange(void *const own[EMULATED_WARP], uint32_t lanes);
/* Waits for the lanes of the warp that are in `lanes`, the caller's among them; exchange (NULL: none) runs
 * once. */
void emulated_meet_warp(emulated_site site, uint32_t lanes, emulated_exchange *exchange, void *own);

/* The block's dynamic shared memory, aligned to 1024 bytes as a GPU's may be relied on to be; whether all of
 * [at, at + bytes) is shared memory of the block, static or dynamic. */
void *emulated_shared(void);
bool emulated_is_shared(const void *at, size_t bytes);

/* A copy that the thread has begun and that is done when it waits for it: copies of all but its `left`
 * latest groups are. Bytes that are not copied become 0. */
void emulated_copy_begin(void *to, const void *from, size_t bytes, size_t copied);
void emulated_copy_commit(void);
void emulated_copy_wait(unsigned left);

/* Ends the kernel; the text is what emulated_run returns, with the thread's place. */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void emulated_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The most dynamic shared memory that a kernel was given since this was asked last. */
size_t emulated_most_shared(void);

/* Bank conflicts of wide accesses to shared memory so far: accesses that took more turns than they had to. */
uint64_t emulated_conflicts(void);
/* Eight lanes read 16 bytes each, at once. */
void emulated_count_conflicts(void *const at[8]);

#ifdef __cplusplus
}
#endif

#endif
