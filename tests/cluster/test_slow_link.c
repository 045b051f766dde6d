/* Peers whose links pass a state in more time than a silent peer is waited for. */
#include "tests/cluster/lab.h"
#include "tests/net/meddler.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* With half of all deadlines a peer is silent after 5 s, and a state that does not come is given up after
 * 15 s. The two chunks of this one are fetched at once, and both take 20 s. */
#define JOB                                                                                                  \
    "synthetic --shards 12 --workers 1 --state-bytes 8m --sum-elements 1024 --steps 40 --time-scale 50 "     \
    "--shard-ms "

enum { BYTES_PER_S = 400 << 10 };

static lab_peer *start_behind(lab *l, const char *name, meddler *m, const char *more) {
    char args[1024];
    snprintf(args, sizeof args, JOB "20 --transport tcp --key %.400s/key --advertise 127.0.0.1:%u%s", l->dir,
             meddler_port(m), more);
    lab_peer *peer = lab_start(l, name, NULL, args);
    meddler_target(m, peer->port);
    meddler_slow(m, BYTES_PER_S);
    return peer;
}

Test(slow_link, who_joins_over_one_gets_the_state) {
    lab *l = lab_open();
    char key[LAB_PATH], join[64];
    lab_key(l, "key", key);
    meddler *meddlers[2] = {meddler_open(true), meddler_open(true)};
    lab_peer *first = start_behind(l, "first", meddlers[0], "");
    lab_wait_step(l, first, 5);
    snprintf(join, sizeof join, " --join 127.0.0.1:%u", meddler_port(meddlers[0]));
    lab_peer *newcomer = start_behind(l, "newcomer", meddlers[1], join);
    const char *hash = lab_state(l, newcomer, "done");
    cr_expect_str_eq(lab_state(l, first, "done"), hash);
    cr_expect_eq(lab_number(lab_last(newcomer, "done"), "peers"), 2);
    cr_expect_str_eq(lab_undisturbed(l, JOB "0"), hash);
    for (int i = 0; i < 2; i++) meddler_close(meddlers[i]);
    lab_close(l);
}
