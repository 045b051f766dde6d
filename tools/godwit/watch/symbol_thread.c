#include "tools/godwit/watch/symbol_thread.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"

#include <pthread.h>
#include <string.h>

#define PATIENCE_NS UINT64_C(5000000000)

/* One request at a time: `answered` is behind `asked` for as long as it is under way. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t asked, answered;
    int count;
    uintptr_t addresses[GW_SYMBOLS_MOST];
    char texts[GW_SYMBOLS_MOST][GW_SYMBOL_TEXT]; /* the thread's until they are the answer */
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *names_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "gw-symbols");
    pthread_mutex_lock(&names.lock);
    for (;;) {
        while (names.answered == names.asked) pthread_cond_wait(&names.changed, &names.lock);
        pthread_mutex_unlock(&names.lock);
        for (int i = 0; i < names.count; i++) gw_symbol_text(names.addresses[i], names.texts[i]);
        pthread_mutex_lock(&names.lock);
        names.answered = names.asked;
        pthread_cond_broadcast(&names.changed);
    }
    return NULL;
}

bool gw_symbol_thread_open(gw_err *err) {
    pthread_t thread;
    gw_cond_init(&names.changed);
    int failure = pthread_create(&thread, NULL, names_main, NULL);
    if (failure != 0) return gw_fail_thread(err, failure, "the thread that names functions");
    pthread_detach(thread);
    return true;
}

/* With the lock held: whether the texts are there, in time. */
static bool ask(const uintptr_t *addresses, int count) {
    if (names.answered != names.asked) return false; /* it hangs, or others' take long */
    names.count = count;
    memcpy(names.addresses, addresses, (size_t)count * sizeof *addresses);
    uint64_t number = ++names.asked, until_ns = gw_now_ns() + PATIENCE_NS;
    pthread_cond_broadcast(&names.changed);
    while (names.answered != number && gw_cond_wait_until(&names.changed, &names.lock, until_ns)) {
    }
    return names.answered == number;
}

void gw_symbol_texts(const uintptr_t *addresses, int count, char (*texts)[GW_SYMBOL_TEXT]) {
    GW_ASSERT(count <= GW_SYMBOLS_MOST);
    pthread_mutex_lock(&names.lock);
    bool named = ask(addresses, count);
    if (named) memcpy(texts, names.texts, (size_t)count * sizeof *texts);
    pthread_mutex_unlock(&names.lock);
    for (int i = 0; i < count && !named; i++) gw_symbol_place(addresses[i], texts[i]);
}
