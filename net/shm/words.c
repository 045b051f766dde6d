#include "net/shm/words.h"

#include "core/base/assert.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

void gw_shm_words_init(gw_shm_words *theirs) {
    memset(theirs, 0, sizeof *theirs);
    pthread_rwlock_init(&theirs->lock, NULL);
}

void gw_shm_words_drop(gw_shm_words *theirs) {
    if (theirs->memory != NULL) munmap(theirs->memory, GW_WORDS_BYTES);
    theirs->memory = NULL;
    pthread_rwlock_destroy(&theirs->lock);
}

void gw_shm_words_describe(gw_words *words, const gw_fence *fence, gw_writer *w) {
    uint64_t offset, bytes;
    uint32_t count = 0;
    for (uint32_t i = 0; i < GW_MAX_REGIONS; i++) count += gw_words_find(words, i, &offset, &bytes);
    gw_put_u64(w, fence->epoch);
    gw_put_view_name(w, &fence->view);
    gw_put_u8(w, (uint8_t)count);
    for (uint32_t i = 0; i < GW_MAX_REGIONS; i++) {
        if (!gw_words_find(words, i, &offset, &bytes)) continue;
        gw_put_u8(w, (uint8_t)i);
        gw_put_u32(w, (uint32_t)offset);
        gw_put_u32(w, (uint32_t)bytes);
    }
}

/* Reads a description into all fields of *into but memory and lock. */
static bool read_description(gw_reader *r, gw_shm_words *into) {
    memset(into->regions, 0, sizeof into->regions);
    into->fence.epoch = gw_get_u64(r);
    gw_get_view_name(r, &into->fence.view);
    uint8_t count = gw_get_u8(r);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t region = gw_get_u8(r), offset = gw_get_u32(r), bytes = gw_get_u32(r);
        if (region >= GW_MAX_REGIONS || offset % 8 != 0 || bytes % 8 != 0 ||
            offset < sizeof(gw_words_header) || offset > GW_WORDS_BYTES || bytes > GW_WORDS_BYTES - offset)
            return false;
        into->regions[region].offset = offset;
        into->regions[region].bytes = bytes;
    }
    return gw_reader_done(r) && !gw_view_name_is_none(&into->fence.view);
}

bool gw_shm_words_take(gw_shm_words *theirs, gw_reader *r, int fd, gw_err *err) {
    gw_shm_words fresh;
    if (!read_description(r, &fresh))
        return gw_fail(err, GW_E_PEER, "net/shm: the description of the peer's words is malformed");
    if (!gw_door_holds(fd, GW_WORDS_BYTES))
        return gw_fail(err, GW_E_PEER, "net/shm: the memory of the peer's words is not what it should be");
    void *memory = mmap(NULL, GW_WORDS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED) return gw_fail_errno(err, errno, "net/shm: mmap");
    pthread_rwlock_wrlock(&theirs->lock);
    uint8_t *old = theirs->memory;
    theirs->memory = memory;
    theirs->fence = fresh.fence;
    memcpy(theirs->regions, fresh.regions, sizeof theirs->regions);
    pthread_rwlock_unlock(&theirs->lock);
    if (old != NULL) munmap(old, GW_WORDS_BYTES);
    return true;
}

/* The first word of the operation; NULL if the operation cannot be done here. */
static uint64_t *find(const gw_shm_words *theirs, const gw_op *op) {
    uint64_t bytes = op->kind == GW_OP_READ || op->kind == GW_OP_WRITE ? op->bytes : 8;
    if (theirs->memory == NULL || op->region >= GW_MAX_REGIONS || !gw_fence_equal(&op->fence, &theirs->fence))
        return NULL;
    uint64_t size = theirs->regions[op->region].bytes;
    if (bytes == 0 || op->offset > size || bytes > size - op->offset || op->offset % 8 != 0 || bytes % 8 != 0)
        return NULL;
    return (uint64_t *)(void *)(theirs->memory + theirs->regions[op->region].offset + op->offset);
}

static void act(uint64_t *word, const gw_op *op, gw_completion *c) {
    c->status = GW_OP_OK;
    switch (op->kind) {
    case GW_OP_READ:
        for (uint64_t i = 0; i < op->bytes / 8; i++) {
            uint64_t value = gw_word_act(GW_WORD_LOAD, word + i, 0, 0);
            memcpy((uint8_t *)op->buffer + 8 * i, &value, 8);
            if (op->bytes == 8) c->value = value;
        }
        break;
    case GW_OP_WRITE:
        for (uint64_t i = 0; i < op->bytes / 8; i++) {
            uint64_t value;
            memcpy(&value, (const uint8_t *)op->buffer + 8 * i, 8);
            gw_word_act(GW_WORD_STORE, word + i, 0, value);
        }
        break;
    case GW_OP_CAS:
        c->value = gw_word_act(GW_WORD_CAS, word, op->expected, op->operand);
        if (c->value != op->expected) c->status = GW_OP_MISMATCH;
        break;
    case GW_OP_FETCH_ADD:
        c->value = gw_word_act(GW_WORD_ADD, word, 0, op->operand);
        break;
    case GW_OP_FETCH:
        GW_ASSERT(false && "a fetch is not for words");
    }
}

gw_path_posted gw_shm_words_do(gw_shm_words *theirs, const gw_op *op, gw_completion *completion) {
    gw_path_posted how = GW_PATH_PASS;
    pthread_rwlock_rdlock(&theirs->lock);
    uint64_t *word = find(theirs, op);
    uint64_t *retired = (uint64_t *)(void *)theirs->memory; /* the first field of gw_words_header */
    if (word != NULL && __atomic_load_n(retired, __ATOMIC_SEQ_CST) == 0) {
        act(word, op, completion);
        how = GW_PATH_DONE;
        /* The owner may have moved the words meanwhile, with or without the effect of this operation. */
        if (__atomic_load_n(retired, __ATOMIC_SEQ_CST) != 0) {
            bool changed = completion->status == GW_OP_OK && op->kind != GW_OP_READ;
            completion->status = changed ? GW_OP_UNKNOWN : GW_OP_FENCED;
        }
    }
    pthread_rwlock_unlock(&theirs->lock);
    return how;
}
