#include "tools/godwit/thread/helper.h"

#include "core/base/assert.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct gw_job_of_helper {
    struct gw_job_of_helper *next;
    gw_helper_task *run;
    void *task;
} gw_job_of_helper;

struct gw_helper {
    const char *name;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    gw_job_of_helper *first, **end;
    bool closing;
};

static void *helper_main(void *context) {
    gw_helper *helper = context;
    pthread_setname_np(pthread_self(), helper->name);
    pthread_mutex_lock(&helper->lock);
    for (;;) {
        while (!helper->first && !helper->closing) pthread_cond_wait(&helper->wake, &helper->lock);
        gw_job_of_helper *job = helper->first;
        if (!job) break;
        helper->first = job->next;
        if (!helper->first) helper->end = &helper->first;
        pthread_mutex_unlock(&helper->lock);
        job->run(job->task);
        free(job);
        pthread_mutex_lock(&helper->lock);
    }
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
    pthread_cond_init(&helper->wake, NULL);
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

void gw_helper_close(gw_helper *helper) {
    if (!helper) return;
    pthread_mutex_lock(&helper->lock);
    helper->closing = true;
    pthread_cond_signal(&helper->wake);
    pthread_mutex_unlock(&helper->lock);
    pthread_join(helper->thread, NULL);
    pthread_cond_destroy(&helper->wake);
    pthread_mutex_destroy(&helper->lock);
    free(helper);
}

void gw_helper_give(gw_helper *helper, gw_helper_task *run, void *task) {
    gw_job_of_helper *job = calloc(1, sizeof *job);
    GW_ASSERT_MEMORY(job != NULL);
    *job = (gw_job_of_helper){.run = run, .task = task};
    pthread_mutex_lock(&helper->lock);
    *helper->end = job;
    helper->end = &job->next;
    pthread_cond_signal(&helper->wake);
    pthread_mutex_unlock(&helper->lock);
}
