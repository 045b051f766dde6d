/* Flocks whose peers are started again whenever they crash, as by a supervisor. */
#include "lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SYNTHETIC                                                                                            \
    "synthetic --steps 20 --shards 24 --shard-ms 2 --state-bytes 64k --workers 1 --checkpoint-every 2 "      \
    "--join-timeout 1s"
#define POISON " --crash-shard 3:17" /* whoever computes it is killed */

enum { MOST = 3, MOST_DEATHS = 5 };

typedef struct supervised {
    lab *l;
    uint32_t count;
    char args[400];
    lab_peer *peers[MOST];
    uint16_t ports[MOST];
} supervised;

/* At the address it had before; the first is everybody's seed, alive or not. */
static void start(supervised *s, uint32_t i, const char *more) {
    char name[8], listen[32], args[512];
    snprintf(name, sizeof name, "p%u", i);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", s->ports[i]);
    snprintf(args, sizeof args, "%s%s", s->args, more);
    s->peers[i] = lab_launch(s->l, name, i > 0 ? s->peers[0] : NULL, listen, args);
    const json_t *listening = lab_wait_event(s->l, s->peers[i], "listening");
    s->peers[i]->port = s->ports[i] = (uint16_t)lab_number(listening, "port");
}

static bool has_ended(const lab_peer *peer) {
    return peer->out < 0 && peer->err < 0;
}

static void expect_named(const supervised *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        const char *said = s->peers[i]->stderr_text ? s->peers[i]->stderr_text : "";
        cr_expect(strstr(said, "shard 17 of step 3 is poison"), "peer %u of %u: %s", i, s->count, said);
    }
}

/* Starts again who is killed, until all have given up by themselves; how often that was. */
static uint32_t supervise(supervised *s) {
    uint32_t deaths = 0;
    for (;;) {
        bool all_ended = true;
        for (uint32_t i = 0; i < s->count; i++) {
            if (!has_ended(s->peers[i])) {
                all_ended = false;
            } else if (lab_end(s->l, s->peers[i]) == 128 + SIGKILL) {
                cr_assert_lt(deaths, MOST_DEATHS, "nobody of %u names the shard", s->count);
                deaths++;
                start(s, i, POISON);
                all_ended = false;
            } else {
                cr_assert_eq(lab_end(s->l, s->peers[i]), 1);
            }
        }
        if (all_ended) return deaths;
        lab_pump(s->l);
    }
}

/* In so small a flock nobody who has seen the others die lives long enough to tell. */
static void poison(uint32_t count) {
    supervised s = {.l = lab_open(), .count = count};
    snprintf(s.args, sizeof s.args, SYNTHETIC " --peers %u", count);
    for (uint32_t i = 0; i < count; i++) start(&s, i, POISON);
    cr_expect_geq(supervise(&s), 3);
    expect_named(&s);
    for (uint32_t i = 0; i < count; i++) start(&s, i, POISON);
    cr_expect_eq(supervise(&s), 0, "they know before they try again");
    expect_named(&s);
    for (uint32_t i = 0; i < count; i++) start(&s, i, " --forget-losses");
    char hash[65];
    strcpy(hash, lab_state(s.l, s.peers[0], "done"));
    for (uint32_t i = 1; i < count; i++) cr_expect_str_eq(lab_state(s.l, s.peers[i], "done"), hash);
    cr_expect_str_eq(lab_undisturbed(s.l, SYNTHETIC), hash);
    lab_close(s.l);
}

Test(supervised, one_peer_names_its_poison_shard) {
    poison(1);
}

Test(supervised, two_peers_name_their_poison_shard) {
    poison(2);
}

Test(supervised, three_peers_name_their_poison_shard) {
    poison(3);
}
