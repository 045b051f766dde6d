#include "core/os/trace.h"

#include "core/base/assert.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = sizeof(gw_trace_record) / sizeof(uint64_t) };
_Static_assert(sizeof(gw_trace_record) == 32 && (GW_TRACE_RING & (GW_TRACE_RING - 1)) == 0,
               "a ring of words");

/* A ring is a seqlock for each of its places (Boehm, "Can seqlocks get along with programming language memory
 * models?", 2012): the writer announces a record before it writes it, and publishes it afterwards. A reader
 * copies what is published, and then drops what the announced ones may have overwritten: who has loaded a word
 * of a record sees that it was announced, as the words are stored with release and loaded with acquire. */
typedef struct ring {
    _Atomic uint64_t announced, published; /* numbers of records since the process began */
    _Atomic uint64_t words[GW_TRACE_RING][WORDS];
    char name[GW_TRACE_THREAD_TEXT]; /* This and the next two are guarded by `lock`. */
    bool taken, lives;               /* a thread has it; that thread has not ended */
} ring;

_Atomic uint32_t gw_trace_readers;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t ended;
static _Atomic(ring *) rings[GW_TRACE_THREADS]; /* those in use come first; they are never freed */
static _Atomic uint64_t homeless;
static _Thread_local ring *own;
/* The number of readers so far, and what it was when the calling thread found no ring. */
static _Atomic uint64_t openings;
static _Thread_local uint64_t refused_at;

/* A thread that has a ring ends. */
static void give_back(void *context) {
    ring *r = context;
    pthread_mutex_lock(&lock);
    r->lives = false;
    pthread_mutex_unlock(&lock);
}

static void make_key(void) {
    int failed = pthread_key_create(&ended, give_back);
    GW_ASSERT(failed == 0);
}

/* Finds a ring that is not taken, or makes one; called with the lock held. NULL: there is none. */
static ring *find_ring(void) {
    for (uint32_t i = 0; i < GW_TRACE_THREADS; i++) {
        ring *r = atomic_load(&rings[i]);
        if (r != NULL && r->taken) continue;
        if (r == NULL && (r = calloc(1, sizeof *r)) == NULL) return NULL;
        atomic_store(&rings[i], r);
        return r;
    }
    return NULL;
}

/* Gives the calling thread a ring. */
static ring *take_ring(void) {
    if (refused_at == atomic_load_explicit(&openings, memory_order_relaxed)) return NULL;
    pthread_once(&once, make_key);
    pthread_mutex_lock(&lock);
    ring *r = find_ring();
    if (r != NULL) {
        r->taken = r->lives = true;
        if (pthread_getname_np(pthread_self(), r->name, sizeof r->name) != 0) r->name[0] = '\0';
    }
    pthread_mutex_unlock(&lock);
    if (r != NULL && pthread_setspecific(ended, r) != 0) {
        give_back(r);
        r = NULL;
    }
    if (r == NULL) refused_at = atomic_load_explicit(&openings, memory_order_relaxed);
    return own = r;
}

void gw_trace_add(gw_trace_kind kind, uint64_t begin_ns, uint64_t end_ns, uint32_t a, uint64_t b,
                  uint32_t c) {
    ring *r = own != NULL ? own : take_ring();
    if (r == NULL) {
        atomic_fetch_add_explicit(&homeless, 1, memory_order_relaxed);
        return;
    }
    const gw_trace_record record = {.begin_ns = begin_ns,
                                    .end_ns = end_ns,
                                    .b = b,
                                    .a = a,
                                    .c = c < UINT16_MAX ? (uint16_t)c : UINT16_MAX,
                                    .kind = (uint16_t)kind};
    uint64_t words[WORDS], at = atomic_load_explicit(&r->published, memory_order_relaxed);
    memcpy(words, &record, sizeof words);
    atomic_store_explicit(&r->announced, at + 1, memory_order_relaxed);
    for (uint32_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&r->words[at % GW_TRACE_RING][i], words[i], memory_order_release);
    atomic_store_explicit(&r->published, at + 1, memory_order_release);
}

uint64_t gw_trace_peer(const uint8_t id[8]) {
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) number = number << 8 | id[i];
    return number;
}

/* Readers. */

/* Rings whose threads have ended become free for others, while nobody reads: then no reader has a list with the
 * names of their old threads. Called with the lock held. */
static void free_rings(void) {
    for (uint32_t i = 0; i < GW_TRACE_THREADS; i++) {
        ring *r = atomic_load(&rings[i]);
        if (r != NULL && !r->lives) r->taken = false;
    }
}

void gw_trace_open(gw_trace_cursor *cursor) {
    *cursor = (gw_trace_cursor){.lost = 0};
    pthread_mutex_lock(&lock);
    if (atomic_load(&gw_trace_readers) == 0) free_rings();
    for (uint32_t i = 0; i < GW_TRACE_THREADS; i++) {
        ring *r = atomic_load(&rings[i]);
        if (r != NULL) cursor->next[i] = atomic_load_explicit(&r->published, memory_order_acquire);
    }
    atomic_fetch_add(&openings, 1);
    atomic_fetch_add(&gw_trace_readers, 1);
    pthread_mutex_unlock(&lock);
}

void gw_trace_close(gw_trace_cursor *cursor) {
    (void)cursor;
    uint32_t before = atomic_fetch_sub(&gw_trace_readers, 1);
    GW_ASSERT(before > 0);
}

uint32_t gw_trace_list(gw_trace_thread list[GW_TRACE_THREADS]) {
    uint32_t count = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < GW_TRACE_THREADS; i++) {
        const ring *r = atomic_load(&rings[i]);
        if (r == NULL || !r->taken) continue;
        list[count] = (gw_trace_thread){.number = i};
        memcpy(list[count++].name, r->name, sizeof r->name);
    }
    pthread_mutex_unlock(&lock);
    return count;
}

uint32_t gw_trace_read(gw_trace_cursor *cursor, uint32_t number, gw_trace_record *records, uint32_t most) {
    GW_ASSERT(number < GW_TRACE_THREADS);
    ring *r = atomic_load(&rings[number]);
    if (r == NULL) return 0;
    uint64_t end = atomic_load_explicit(&r->published, memory_order_acquire), first = cursor->next[number];
    if (end - first > GW_TRACE_RING) first = end - GW_TRACE_RING;
    uint32_t count = end - first < most ? (uint32_t)(end - first) : most;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t words[WORDS];
        for (uint32_t k = 0; k < WORDS; k++)
            words[k] = atomic_load_explicit(&r->words[(first + i) % GW_TRACE_RING][k], memory_order_acquire);
        memcpy(&records[i], words, sizeof words);
    }
    uint64_t announced = atomic_load_explicit(&r->announced, memory_order_relaxed);
    uint64_t torn = announced > first + GW_TRACE_RING ? announced - GW_TRACE_RING - first : 0;
    if (torn > count) torn = count;
    cursor->lost += first + torn - cursor->next[number];
    cursor->next[number] = first + count;
    memmove(records, records + torn, (count - torn) * sizeof *records);
    return count - (uint32_t)torn;
}

uint64_t gw_trace_homeless(void) {
    return atomic_load_explicit(&homeless, memory_order_relaxed);
}
