#include "net/data/words.h"

#include "core/base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST = 64, ALIGN = 64 /* the alignment of a region, so that no two share a cache line */ };

typedef struct place {
    uint64_t offset, bytes; /* set once, bytes last; bytes 0: not in use */
} place;

struct gw_words {
    pthread_rwlock_t lock; /* read-locked around every access, write-locked while the file changes */
    int fd;
    uint8_t *memory;
    uint64_t used;
    place regions[GW_MAX_REGIONS];
    const gw_word_domain *domain;
};

/* Makes a file of the right size, sealed so that nobody can make it smaller, which would kill the processes
 * that map it. */
static bool make_file(int *fd, uint8_t **memory, gw_err *err) {
    *fd = memfd_create("godwit-words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) return gw_fail_errno(err, errno, "net/data: memfd_create");
    bool sized = ftruncate(*fd, GW_WORDS_BYTES) == 0 &&
                 fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    void *at = sized ? mmap(NULL, GW_WORDS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0) : MAP_FAILED;
    if (at != MAP_FAILED) {
        *memory = at;
        return true;
    }
    gw_fail_errno(err, errno, "net/data: %d bytes of shared memory", GW_WORDS_BYTES);
    close(*fd);
    return false;
}

gw_words *gw_words_open(gw_err *err) {
    gw_words *words = calloc(1, sizeof *words);
    if (words == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/data: no memory");
        return NULL;
    }
    if (!make_file(&words->fd, &words->memory, err)) {
        free(words);
        return NULL;
    }
    words->used = FIRST;
    pthread_rwlock_init(&words->lock, NULL);
    return words;
}

void gw_words_close(gw_words *words) {
    munmap(words->memory, GW_WORDS_BYTES);
    close(words->fd);
    pthread_rwlock_destroy(&words->lock);
    free(words);
}

bool gw_words_add(gw_words *words, uint32_t region, uint64_t count, gw_err *err) {
    if (region >= GW_MAX_REGIONS)
        return gw_fail(err, GW_E_LIMIT, "net/data: region %u: numbers are below %d", region, GW_MAX_REGIONS);
    if (words->regions[region].bytes != 0)
        return gw_fail(err, GW_E_INVALID, "net/data: region %u is shared already", region);
    uint64_t left = GW_WORDS_BYTES - words->used;
    if (count == 0 || count > left / 8)
        return gw_fail(err, GW_E_LIMIT, "net/data: region %u: %llu words, where %llu are left", region,
                       (unsigned long long)count, (unsigned long long)left / 8);
    words->regions[region].offset = words->used;
    words->used = (words->used + count * 8 + ALIGN - 1) / ALIGN * ALIGN;
    __atomic_store_n(&words->regions[region].bytes, count * 8, __ATOMIC_RELEASE);
    return true;
}

bool gw_words_find(const gw_words *words, uint32_t region, uint64_t *offset, uint64_t *bytes) {
    *offset = *bytes = 0;
    if (region >= GW_MAX_REGIONS) return false;
    *bytes = __atomic_load_n(&words->regions[region].bytes, __ATOMIC_ACQUIRE);
    *offset = words->regions[region].offset;
    return *bytes != 0;
}

uint64_t gw_word_act(gw_word_do what, uint64_t *word, uint64_t expected, uint64_t operand) {
    switch (what) {
    case GW_WORD_LOAD:
        return __atomic_load_n(word, __ATOMIC_SEQ_CST);
    case GW_WORD_STORE:
        return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case GW_WORD_CAS:
        __atomic_compare_exchange_n(word, &expected, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return expected;
    case GW_WORD_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    }
    GW_ASSERT(false && "no such action");
    return 0;
}

uint64_t gw_words_do(gw_words *words, gw_word_do what, uint64_t offset, uint64_t expected, uint64_t operand) {
    GW_ASSERT(offset >= FIRST && offset % 8 == 0 && offset < GW_WORDS_BYTES);
    pthread_rwlock_rdlock(&words->lock);
    uint64_t *word = (uint64_t *)(void *)(words->memory + offset);
    const gw_word_domain *domain = words->domain;
    uint64_t before = domain != NULL ? domain->act(domain->context, what, word, expected, operand)
                                     : gw_word_act(what, word, expected, operand);
    pthread_rwlock_unlock(&words->lock);
    return before;
}

void gw_words_set_domain(gw_words *words, const gw_word_domain *domain) {
    pthread_rwlock_wrlock(&words->lock);
    words->domain = domain;
    pthread_rwlock_unlock(&words->lock);
}

bool gw_words_are_cpus(gw_words *words) {
    pthread_rwlock_rdlock(&words->lock);
    bool cpus = words->domain == NULL;
    pthread_rwlock_unlock(&words->lock);
    return cpus;
}

bool gw_words_renew(gw_words *words, gw_err *err) {
    int fd;
    uint8_t *memory;
    bool made = make_file(&fd, &memory, err);
    pthread_rwlock_wrlock(&words->lock);
    uint8_t *old = words->memory;
    gw_words_header *header = (gw_words_header *)(void *)old;
    __atomic_store_n(&header->retired, 1, __ATOMIC_SEQ_CST);
    if (!made) {
        pthread_rwlock_unlock(&words->lock);
        return false;
    }
    for (uint64_t at = FIRST; at < words->used; at += 8) {
        uint64_t word = __atomic_load_n((uint64_t *)(void *)(old + at), __ATOMIC_SEQ_CST);
        __atomic_store_n((uint64_t *)(void *)(memory + at), word, __ATOMIC_SEQ_CST);
    }
    int old_fd = words->fd;
    words->fd = fd;
    words->memory = memory;
    pthread_rwlock_unlock(&words->lock);
    munmap(old, GW_WORDS_BYTES);
    close(old_fd);
    return true;
}

int gw_words_fd(const gw_words *words) {
    return words->fd;
}

void *gw_words_memory(const gw_words *words) {
    return words->memory;
}
