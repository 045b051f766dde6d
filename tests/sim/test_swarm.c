/* Seeds on several cores, for a time. */
#include "tools/sim/swarm.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* As soon as it is listened for. */
static void *interrupt(void *context) {
    struct sigaction now;
    do {
        sched_yield();
        cr_assert_eq(sigaction(*(int *)context, NULL, &now), 0);
    } while (now.sa_handler == SIG_DFL);
    kill(getpid(), *(int *)context);
    return NULL;
}

Test(swarm, who_interrupts_it_is_told_what_was_found_so_far) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        gw_sim_swarm swarm = {.options = gw_sim_unset(0), .first = 1, .jobs = 2, .seconds = 100000};
        gw_sim_findings findings;
        pthread_t thread;
        int signal = signals[i];
        swarm.options.peers = 3;
        cr_assert_eq(pthread_create(&thread, NULL, interrupt, &signal), 0);
        cr_assert_not(gw_sim_swarm_run(&swarm, &findings));
        pthread_join(thread, NULL);
        cr_assert_eq(findings.failed, 0, "%s", findings.why[0]);
    }
}
