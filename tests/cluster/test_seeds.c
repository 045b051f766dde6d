/* Seeds that are names: they may lead nowhere at first, and elsewhere later. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORK "synthetic --shards 8 --shard-ms 10 --workers 1"

static char names[LAB_PATH];

/* What the resolver of peers finds under seed.test from now on, of those that run as well; NULL: nothing. */
static void lead(const lab *l, const char *address) {
    char next[LAB_PATH + 8];
    snprintf(names, sizeof names, "%s/names", l->dir);
    snprintf(next, sizeof next, "%s.next", names);
    FILE *file = fopen(next, "w");
    cr_assert_not_null(file);
    if (address != NULL) fprintf(file, "seed.test %s\n", address);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(rename(next, names), 0);
    cr_assert(setenv("RESOLVER", names, 1) == 0 && setenv("LD_PRELOAD", GODWIT_RESOLVER, 1) == 0);
}

static bool is_asked_again(const json_t *event, const void *none) {
    (void)none;
    return strstr(lab_text(event, "text"), "--join seed.test:") != NULL &&
           strstr(lab_text(event, "text"), "; it is looked up again and again") != NULL;
}

static lab_peer *start_joiner(lab *l, const char *name, uint16_t port, const char *more) {
    char args[300];
    snprintf(args, sizeof args, WORK " --join seed.test:%u %s", port, more);
    return lab_start(l, name, NULL, args);
}

/* It takes part meanwhile, so that it can be looked at and stopped. */
Test(seeds, a_name_that_comes_up_later_is_joined) {
    LAB_PRELOADS;
    lab *l = lab_open();
    lead(l, NULL);
    lab_peer *first = lab_start(l, "first", NULL, WORK);
    lab_peer *joiner = start_joiner(l, "joiner", first->port, "--join-timeout 10m");
    lab_wait(l, joiner, is_asked_again, NULL, "a warning");
    lead(l, "127.0.0.1");
    lab_wait_view(l, joiner, 2);
    cr_expect_null(lab_last(joiner, "resumed"));
    unsetenv("LD_PRELOAD");
    lab_stop_alike(l, (lab_peer *[]){joiner, first}, 2, WORK);
    lab_close(l);
}

Test(seeds, a_name_that_leads_elsewhere_later_is_followed) {
    LAB_PRELOADS;
    lab *l = lab_open();
    lead(l, "127.0.0.2"); /* where nobody is */
    lab_peer *moved = lab_launch(l, "moved", NULL, "127.0.0.3:0", WORK);
    uint16_t port = (uint16_t)lab_number(lab_wait_event(l, moved, "listening"), "port");
    lab_peer *joiner = start_joiner(l, "joiner", port, "--join-timeout 100ms");
    lab_wait_view(l, joiner, 1);
    lead(l, "127.0.0.3");
    lab_wait_view(l, joiner, 2);
    lab_wait_view(l, moved, 2);
    unsetenv("LD_PRELOAD");
    lab_stop_alike(l, (lab_peer *[]){joiner, moved}, 2, WORK);
    lab_close(l);
}

/* At its end it does not wait for a name lookup that is never answered either. */
Test(seeds, without_its_name_a_peer_begins_alone_in_the_end) {
    LAB_PRELOADS;
    lab *l = lab_open();
    lead(l, NULL);
    const char *args = "--join-timeout 100ms --steps 5 --join seed.test:1,silent.test:1";
    lab_state(l, start_joiner(l, "alone", 1, args), "done");
    lab_close(l);
}

/* Before it takes part in anything. */
Test(seeds, who_waits_for_the_name_that_it_listens_on_ends_by_a_signal) {
    LAB_PRELOADS;
    lab *l = lab_open();
    lead(l, NULL);
    lab_peer *peer = lab_launch(l, "one", NULL, "silent.test:7117", WORK);
    lab_wait_event(l, peer, "resolving");
    lab_signal(peer, SIGINT);
    cr_expect_eq(lab_end(l, peer), 128 + SIGINT);
    lab_close(l);
}
