#include "kernels/host/team.h"

#include "core/base/assert.h"
#include "kernels/host/fpmode.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct member {
    gw_team *team;
    uint32_t number;
    pthread_t thread;
    bool good;
    gw_err err;
} member;

struct gw_team {
    uint32_t count;
    pthread_mutex_t turn; /* held by the thread whose task the team runs */
    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t begin, ended;
    uint64_t run;  /* number of the latest task */
    uint32_t busy; /* members that have not finished it */
    bool closing;
    gw_team_task *task;
    void *context;
    member members[];
};

static void *member_main(void *context) {
    member *m = context;
    gw_team *team = m->team;
    uint64_t seen = 0;
    char name[16];
    snprintf(name, sizeof name, "gw-part-%u", m->number);
    pthread_setname_np(pthread_self(), name);
    gw_fpmode_set();
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (team->run == seen && !team->closing) pthread_cond_wait(&team->begin, &team->lock);
        if (team->closing) break;
        seen = team->run;
        pthread_mutex_unlock(&team->lock);
        m->good = team->task(team->context, m->number, &m->err);
        pthread_mutex_lock(&team->lock);
        if (--team->busy == 0) pthread_cond_signal(&team->ended);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

gw_team *gw_team_open(uint32_t members, gw_err *err) {
    GW_ASSERT(members >= 1);
    gw_team *team = calloc(1, sizeof *team + members * sizeof team->members[0]);
    if (team == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for %u threads", members);
        return NULL;
    }
    pthread_mutex_init(&team->turn, NULL);
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->begin, NULL);
    pthread_cond_init(&team->ended, NULL);
    for (; team->count < members; team->count++) {
        member *m = &team->members[team->count];
        m->team = team;
        m->number = team->count;
        int failure = pthread_create(&m->thread, NULL, member_main, m);
        if (failure == 0) continue;
        gw_fail_thread(err, failure, "thread %u of %u", team->count, members);
        gw_team_close(team);
        return NULL;
    }
    return team;
}

void gw_team_close(gw_team *team) {
    if (team == NULL) return;
    pthread_mutex_lock(&team->lock);
    team->closing = true;
    pthread_cond_broadcast(&team->begin);
    pthread_mutex_unlock(&team->lock);
    for (uint32_t i = 0; i < team->count; i++) pthread_join(team->members[i].thread, NULL);
    pthread_cond_destroy(&team->ended);
    pthread_cond_destroy(&team->begin);
    pthread_mutex_destroy(&team->lock);
    pthread_mutex_destroy(&team->turn);
    free(team);
}

bool gw_team_run(gw_team *team, gw_team_task *task, void *context, gw_err *err) {
    uint32_t failed = 0;
    pthread_mutex_lock(&team->turn);
    pthread_mutex_lock(&team->lock);
    team->task = task;
    team->context = context;
    team->busy = team->count;
    team->run++;
    pthread_cond_broadcast(&team->begin);
    while (team->busy > 0) pthread_cond_wait(&team->ended, &team->lock);
    while (failed < team->count && team->members[failed].good) failed++;
    if (failed < team->count) *err = team->members[failed].err;
    pthread_mutex_unlock(&team->lock);
    pthread_mutex_unlock(&team->turn);
    return failed == team->count;
}
