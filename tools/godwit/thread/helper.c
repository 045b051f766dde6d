#include "tools/godwit/thread/helper.h"

#include "core/base/assert.h"
#include "core/os/condition.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct entry {
    struct entry *next;
    gw_helper_task *run;
    void *task;
} entry;

struct gw_helper {
    const char *name;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    entry *first, **end;
    bool closing, ended;
};

static void *helper_main(void *context) {
    gw_helper *helper = context;
    pthread_setname_np(pthread_self(), helper->name);
    pthread_mutex_lock(&helper->lock);
    for (;;) {
        while (!helper->first && !helper->closing) pthread_cond_wait(&helper->wake, &helper->lock);
        entry *next = helper->first;
        if (!next) break;
        helper->first = next->next;
        if (!helper->first) helper->end = &helper->first;
        pthread_mutex_unlock(&helper->lock);
        next->run(next->task);
        free(next);
        pthread_mutex_lock(&helper->lock);
    }
    helper->ended = true;
    pthread_cond_broadcast(&helper->wake);
    pthread_mutex_unlock(&helper->lock);
    return NULL;
}

gw_helper *gw_helper_open(const char *name, gw_err *err) {
    gw_helper *helper = calloc(1, sizeof *helper);
    if (!helper) {
        gw_fail(err, GW_E_NOMEM, "helper thread: out of memory");
        return NULL;
    }
    helper->name = name;
    helper->end = &helper->first;
    pthread_mutex_init(&helper->lock, NULL);
    gw_cond_init(&helper->wake);
    int failure = pthread_create(&helper->thread, NULL, helper_main, helper);
    if (failure != 0) {
        gw_fail_thread(err, failure, "helper thread");
        pthread_cond_destroy(&helper->wake);
        pthread_mutex_destroy(&helper->lock);
        free(helper);
        return NULL;
    }
    return helper;
}

bool gw_helper_close_until(gw_helper *helper, uint64_t end_ns) {
    if (!helper) return true;
    pthread_mutex_lock(&helper->lock);
    helper->closing = true;
    pthread_cond_broadcast(&helper->wake);
    while (!helper->ended && gw_cond_wait_until(&helper->wake, &helper->lock, end_ns)) {
        /* The thread is at its tasks. */
    }
    bool ended = helper->ended;
    pthread_mutex_unlock(&helper->lock);
    if (!ended) return false;
    pthread_join(helper->thread, NULL);
    pthread_cond_destroy(&helper->wake);
    pthread_mutex_destroy(&helper->lock);
    free(helper);
    return true;
}

void gw_helper_close(gw_helper *helper) {
    (void)gw_helper_close_until(helper, UINT64_MAX);
}

void gw_helper_give(gw_helper *helper, gw_helper_task *run, void *task) {
    entry *next = calloc(1, sizeof *next);
    GW_ASSERT_MEMORY(next != NULL);
    *next = (entry){.run = run, .task = task};
    pthread_mutex_lock(&helper->lock);
    *helper->end = next;
    helper->end = &next->next;
    pthread_cond_signal(&helper->wake);
    pthread_mutex_unlock(&helper->lock);
}
