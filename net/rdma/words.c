#include "net/rdma/words.h"

#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/loop/backoff.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { RECENT = 16 /* the last fences, whose keys are not used again */ };

struct gw_rdma_words {
    gw_rdma_memory *memory; /* NULL: released */
    gw_words *words;
    gw_word_domain domain;
    bool by_device;         /* the domain is the device's, not the CPU's */
    gw_rdma_loopback *loop; /* if by_device; NULL: the device was released */
    pthread_rwlock_t lock;  /* read-locked around every access, write-locked while the registration changes */
    const gw_rdma_region *region;  /* NULL: withdrawn */
    uint32_t recent[RECENT], used; /* the keys of the last fences, the latest at [(used - 1) % RECENT] */
    atomic_bool lost;              /* the device has failed, and the words were withdrawn */
    uint64_t again_ns, pause_ns;   /* a failed device is not tested before again_ns; 0: no test has failed */
};

/* Notes that the device no longer acts: the words are in the CPU's domain until they are published again. */
static void lose(gw_rdma_words *words, const gw_err *why) {
    if (atomic_exchange(&words->lost, true)) return;
    gw_log(GW_ERROR, "net/rdma", "%s: this peer's words are in the atomicity domain of the processor now",
           why->text);
    gw_rdma_words_withdraw(words);
}

/* Does one operation through the device. False if the device fails. */
static bool act_by_device(gw_rdma_words *words, gw_word_do what, uint64_t *word, uint64_t expected,
                          uint64_t operand, uint64_t *before, gw_err *err) {
    uint32_t rkey = words->region->rkey;
    if (what == GW_WORD_CAS)
        return gw_rdma_loopback_swap(words->loop, word, rkey, expected, operand, before, err);
    if (what == GW_WORD_ADD) return gw_rdma_loopback_add(words->loop, word, rkey, operand, before, err);
    return gw_rdma_loopback_store(words->loop, word, rkey, operand, before, err);
}

static uint64_t act(void *context, gw_word_do what, uint64_t *word, uint64_t expected, uint64_t operand) {
    gw_rdma_words *words = context;
    if (what == GW_WORD_LOAD) return gw_word_act(what, word, 0, 0);
    for (;;) {
        uint64_t before;
        gw_err err;
        pthread_rwlock_rdlock(&words->lock);
        bool withdrawn = words->region == NULL, done = true;
        if (withdrawn)
            before = gw_word_act(what, word, expected, operand);
        else
            done = act_by_device(words, what, word, expected, operand, &before, &err);
        pthread_rwlock_unlock(&words->lock);
        if (done) return before;
        lose(words, &err);
    }
}

gw_rdma_words *gw_rdma_words_open(gw_rdma_memory *memory, gw_words *of, gw_err *err) {
    gw_rdma_words *words = calloc(1, sizeof *words);
    if (words == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    words->memory = gw_rdma_memory_hold(memory);
    words->words = of;
    words->domain = (gw_word_domain){words, act};
    pthread_rwlock_init(&words->lock, NULL);
    if (gw_rdma_memory_device(memory)->atomics != IBV_ATOMIC_HCA) return words;
    words->by_device = true;
    words->loop = gw_rdma_loopback_open(memory, err);
    if (words->loop != NULL) return words;
    gw_rdma_words_close(words);
    return NULL;
}

void gw_rdma_words_close(gw_rdma_words *words) {
    if (words == NULL) return;
    gw_rdma_words_withdraw(words);
    gw_rdma_loopback_close(words->loop);
    gw_rdma_memory_close(words->memory);
    pthread_rwlock_destroy(&words->lock);
    free(words);
}

const gw_word_domain *gw_rdma_words_domain(const gw_rdma_words *words) {
    return words->by_device ? &words->domain : NULL;
}

void gw_rdma_words_withdraw(gw_rdma_words *words) {
    pthread_rwlock_wrlock(&words->lock);
    gw_rdma_memory_drop(words->memory, words->region);
    words->region = NULL;
    pthread_rwlock_unlock(&words->lock);
}

void gw_rdma_words_release(gw_rdma_words *words) {
    gw_rdma_words_withdraw(words);
    pthread_rwlock_wrlock(&words->lock);
    if (words->by_device) atomic_store(&words->lost, true);
    gw_rdma_loopback_close(words->loop);
    words->loop = NULL;
    gw_rdma_memory_close(words->memory);
    words->memory = NULL;
    pthread_rwlock_unlock(&words->lock);
}

bool gw_rdma_words_take(gw_rdma_words *words, gw_rdma_memory *memory, gw_err *err) {
    const gw_rdma_device *device = gw_rdma_memory_device(memory);
    if (device->atomics == IBV_ATOMIC_HCA && !words->by_device)
        return gw_fail(
            err, GW_E_UNSUPPORTED,
            "net/rdma: %s is atomic among its own operations only, unlike the device before it: start "
            "this peer again to use it",
            device->name);
    pthread_rwlock_wrlock(&words->lock);
    words->memory = gw_rdma_memory_hold(memory);
    words->again_ns = words->pause_ns = 0;
    pthread_rwlock_unlock(&words->lock);
    return true;
}

static bool is_recent(const gw_rdma_words *words, uint32_t rkey) {
    for (uint32_t i = 0; i < RECENT && i < words->used; i++)
        if (words->recent[i] == rkey) return true;
    return false;
}

/* Registers the words under a key that was not in use lately. If the device gives one that was, that
 * registration is held while another one is requested. */
static const gw_rdma_region *take_fresh(gw_rdma_words *words, gw_err *err) {
    const gw_rdma_region *stale[RECENT + 1], *fresh = NULL;
    uint32_t count = 0;
    if (words->memory == NULL) gw_fail(err, GW_E_PEER, "net/rdma: the device was removed");
    while (fresh == NULL && words->memory != NULL) {
        const gw_rdma_region *region = gw_rdma_memory_take(words->memory, gw_words_memory(words->words),
                                                           GW_WORDS_BYTES, GW_RDMA_WRITABLE, err);
        if (region == NULL) break;
        if (is_recent(words, region->rkey))
            stale[count++] = region; /* all have different keys, so there are at most RECENT */
        else
            fresh = region;
    }
    while (count > 0) gw_rdma_memory_drop(words->memory, stale[--count]);
    if (fresh != NULL) words->recent[words->used++ % RECENT] = fresh->rkey;
    return fresh;
}

/* Opens another way through a failed device and tests it. Called with the lock held and nothing published. */
static bool regain(gw_rdma_words *words, const gw_rdma_region *region, gw_err *err) {
    gw_rdma_loopback *loop = gw_rdma_loopback_open(words->memory, err);
    if (loop != NULL && gw_rdma_loopback_prove(loop, region->start, region->rkey, err)) {
        gw_rdma_loopback_close(words->loop);
        words->loop = loop;
        return true;
    }
    gw_rdma_loopback_close(loop);
    return false;
}

/* Whether the device acts, or acts again. Called with the lock held. */
static bool may_act(gw_rdma_words *words, const gw_rdma_region *region, gw_err *err) {
    if (!atomic_load(&words->lost)) return true;
    if (regain(words, region, err)) {
        atomic_store(&words->lost, false);
        words->again_ns = words->pause_ns = 0;
        return true;
    }
    words->pause_ns = gw_backoff_next(words->pause_ns,
                                      GW_BACKOFF_FIRST_NS); /* each look may hold up a fence for a second */
    words->again_ns = gw_now_ns() + words->pause_ns;
    return false;
}

/* Registers the words; NULL on failure. Called with the lock held. */
static const gw_rdma_region *register_words(gw_rdma_words *words, gw_err *err) {
    if (atomic_load(&words->lost) && gw_now_ns() < words->again_ns) {
        gw_fail(err, GW_E_PEER, "net/rdma: the device has failed");
        return NULL;
    }
    const gw_rdma_region *fresh = take_fresh(words, err);
    if (fresh == NULL || may_act(words, fresh, err)) return fresh;
    gw_rdma_memory_drop(words->memory, fresh);
    return NULL;
}

bool gw_rdma_words_publish(gw_rdma_words *words, gw_err *err) {
    pthread_rwlock_wrlock(&words->lock);
    const gw_rdma_region *old = words->region;
    words->region = register_words(words, err);
    gw_rdma_memory_drop(words->memory, old);
    bool done = words->region != NULL;
    pthread_rwlock_unlock(&words->lock);
    return done;
}

void gw_rdma_words_retry_now(gw_rdma_words *words) {
    pthread_rwlock_wrlock(&words->lock);
    words->again_ns = 0;
    pthread_rwlock_unlock(&words->lock);
}

bool gw_rdma_words_due(gw_rdma_words *words) {
    pthread_rwlock_rdlock(&words->lock);
    bool due = words->region == NULL && words->memory != NULL && gw_now_ns() >= words->again_ns;
    pthread_rwlock_unlock(&words->lock);
    return due;
}

bool gw_rdma_words_key(gw_rdma_words *words, uint64_t *address, uint32_t *rkey) {
    pthread_rwlock_rdlock(&words->lock);
    bool there = words->region != NULL && gw_rdma_memory_device(words->memory)->atomics != IBV_ATOMIC_NONE;
    if (there) *address = (uintptr_t)words->region->start;
    if (there) *rkey = words->region->rkey;
    pthread_rwlock_unlock(&words->lock);
    return there;
}
