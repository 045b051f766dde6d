/* Flocks whose peers are started again whenever they crash, as by a supervisor. */
#include "tests/cluster/lab.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYNTHETIC                                                                                            \
    "synthetic --steps 20 --shards 24 --shard-ms 2 --state-bytes 64k --workers 1 --checkpoint-every 2 "      \
    "--join-timeout 1s"
#define POISON " --crash-shard 3:17" /* whoever computes it crashes */

enum { MOST = 3, MOST_DEATHS = 5 };

typedef struct supervised {
    lab *l;
    uint32_t count;
    char args[400];
    lab_peer *peers[MOST];
    uint16_t ports[MOST];
    bool in_vain; /* who is killed is started in vain first */
} supervised;

/* At the address it had before; the first is everybody's seed, alive or not. */
static void start(supervised *s, uint32_t i, const char *more) {
    char name[8], listen[32], args[512];
    if (s->ports[i] == 0) s->ports[i] = lab_keep_port(s->l);
    snprintf(name, sizeof name, "p%u", i);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", s->ports[i]);
    snprintf(args, sizeof args, "%s%s", s->args, more);
    s->peers[i] = lab_launch(s->l, name, i > 0 ? s->peers[0] : NULL, listen, args);
    lab_wait_event(s->l, s->peers[i], "listening");
    s->peers[i]->port = s->ports[i];
}

static bool has_ended(const lab_peer *peer) {
    return peer->out < 0 && peer->err < 0;
}

static const char *what_it_said(const lab_peer *peer) {
    return peer->stderr_text ? peer->stderr_text : "";
}

static void expect_named(const supervised *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        const char *said = what_it_said(s->peers[i]);
        cr_expect(strstr(said, "shard 17 of step 3 is poison"), "peer %u of %u: %s", i, s->count, said);
    }
}

/* Where its own port is taken. */
static void start_in_vain(supervised *s, uint32_t i) {
    char more[64];
    snprintf(more, sizeof more, " --http 127.0.0.1:%u", s->ports[i]);
    start(s, i, more);
    while (!has_ended(s->peers[i])) lab_pump(s->l);
    cr_assert_eq(lab_end(s->l, s->peers[i]), 1);
}

/* The last thing that it said: it waits for others, and none has come since. */
static bool waits_alone(const lab_peer *peer) {
    const json_t *last = json_array_get(peer->events, json_array_size(peer->events) - 1);
    return !has_ended(peer) && strcmp(lab_text(last, "event"), "phase") == 0 &&
           strstr(lab_text(last, "text"), ": 1 here") != NULL;
}

/* For one that waits those who have given up are started again, too: before it has met them it does not know
 * at which step the job is, and names no shard. */
static void bring_back(supervised *s) {
    bool waits = false;
    for (uint32_t i = 0; i < s->count; i++) waits |= waits_alone(s->peers[i]);
    for (uint32_t i = 0; i < s->count && waits; i++)
        if (has_ended(s->peers[i]) && lab_end(s->l, s->peers[i]) == 1) start(s, i, POISON);
}

/* Starts again who is killed, until all have given up by themselves; how often that was. */
static uint32_t supervise(supervised *s) {
    uint32_t deaths = 0;
    for (;;) {
        bool all_ended = true;
        bring_back(s);
        for (uint32_t i = 0; i < s->count; i++) {
            if (!has_ended(s->peers[i])) {
                all_ended = false;
            } else if (lab_end(s->l, s->peers[i]) == 128 + SIGSEGV) {
                cr_assert_lt(deaths, MOST_DEATHS, "nobody of %u names the shard", s->count);
                deaths++;
                if (s->in_vain) start_in_vain(s, i);
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

/* Whoever looks at its second start learns of what the first one died. */
Test(supervised, who_was_killed_by_a_shard_says_so_at_its_next_start) {
    supervised s = {.l = lab_open(), .count = 1, .args = SYNTHETIC};
    for (int life = 0; life < 2; life++) {
        start(&s, 0, POISON);
        cr_assert_eq(lab_end(s.l, s.peers[0]), 128 + SIGSEGV);
        const char *said = what_it_said(s.peers[0]);
        cr_expect_eq(strstr(said, "while it computed shard") != NULL, life == 1, "%s", said);
    }
    lab_close(s.l);
}

/* A scheduler that takes the machine back says nothing about the shard that was computed just then. */
Test(supervised, a_peer_that_was_killed_from_outside_blames_no_shard) {
    supervised s = {.l = lab_open(), .count = 1, .args = SYNTHETIC};
    for (int life = 0; life < 4; life++) {
        start(&s, 0, " --shards 2000 --shard-ms 100 --fresh");
        lab_wait_event(s.l, s.peers[0], "view");
        if (life == 3) break;
        lab_signal(s.peers[0], SIGKILL);
        cr_assert_eq(lab_end(s.l, s.peers[0]), 128 + SIGKILL);
        const char *said = what_it_said(s.peers[0]);
        cr_expect_null(strstr(said, "while it computed shard"), "%s", said);
    }
    lab_close(s.l);
}

Test(supervised, one_peer_names_its_poison_shard) {
    poison(1);
}

Test(supervised, a_start_in_vain_forgets_nothing) {
    supervised s = {.l = lab_open(), .count = 1, .args = SYNTHETIC, .in_vain = true};
    start(&s, 0, POISON);
    cr_expect_eq(supervise(&s), 3);
    expect_named(&s);
    lab_close(s.l);
}

Test(supervised, two_peers_name_their_poison_shard) {
    poison(2);
}

Test(supervised, three_peers_name_their_poison_shard) {
    poison(3);
}

#define HANGS GODWIT_FAULTY_JOB " --workers 1 --hang-timeout 2s --hang-shard 7"

/* It ends before its disk has taken the record of that, if it ever does (tests/jobs/stuck.c). */
Test(supervised, one_peer_names_a_shard_that_hangs_though_its_disk_does) {
    LAB_PRELOADS;
    lab *l = lab_open();
    cr_assert(setenv("STUCK", "fdatasync gw-disk 1", 1) == 0 && setenv("LD_PRELOAD", GODWIT_STUCK, 1) == 0);
    for (int life = 0; life < 4; life++) {
        lab_peer *peer = lab_launch(l, "one", NULL, NULL, HANGS);
        cr_expect_eq(lab_end(l, peer), 1);
        const char *said =
            life < 3 ? "shard 7 of step 3 cannot be computed here: worker 0" : "shard 7 of step 3 is poison";
        cr_expect(peer->stderr_text != NULL && strstr(peer->stderr_text, said) != NULL, "life %d: %s", life,
                  peer->stderr_text);
    }
    unsetenv("LD_PRELOAD");
    lab_close(l);
}

/* Whether somebody who asks for this very port and shares none gets it. */
static bool is_free(uint16_t port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return bound;
}

/* Somebody else's test had the port of a peer that was dead, and the peer could not come back. */
Test(supervised, the_port_of_a_dead_peer_waits_for_it) {
    supervised s = {.l = lab_open(), .count = 1, .args = SYNTHETIC};
    start(&s, 0, "");
    lab_kill(s.l, s.peers[0]);
    cr_expect_not(is_free(s.ports[0]));
    start(&s, 0, "");
    lab_state(s.l, s.peers[0], "done");
    lab_close(s.l);
}

/* Peers that were met before. */

#define LONG    SYNTHETIC " --steps 400"
#define QUICKLY " --workers 8" /* its shards sleep */

/* Until peer i has written down where `others` of this job are. */
static void wait_until_known(const supervised *s, uint32_t i, uint32_t others) {
    char path[LAB_PATH + 20];
    struct stat status;
    snprintf(path, sizeof path, "%s/known-peers", s->peers[i]->dir);
    off_t expected = 1 + 32 + 32 + 4 + (off_t)others * (16 + 19 + 8);
    while (stat(path, &status) != 0 || status.st_size < expected) lab_pump(s->l);
}

/* The only peer that the others were told of is dead, and does not come back. */
Test(supervised, they_find_each_other_when_their_seed_is_gone) {
    supervised s = {.l = lab_open(), .count = 3};
    snprintf(s.args, sizeof s.args, LONG " --peers 3 --join-timeout 30s");
    for (uint32_t i = 0; i < 3; i++) start(&s, i, "");
    for (uint32_t i = 0; i < 3; i++) wait_until_known(&s, i, 2);
    for (uint32_t i = 0; i < 3; i++) lab_wait_event(s.l, s.peers[i], "checkpoint");
    for (uint32_t i = 0; i < 3; i++) lab_kill(s.l, s.peers[i]);
    for (uint32_t i = 1; i < 3; i++) start(&s, i, QUICKLY);
    for (uint32_t i = 1; i < 3; i++) lab_wait_view(s.l, s.peers[i], 2);
    const char *hash = lab_state(s.l, s.peers[1], "done");
    cr_expect_str_eq(lab_state(s.l, s.peers[2], "done"), hash);
    cr_expect_str_eq(lab_undisturbed(s.l, LONG QUICKLY), hash);
    lab_close(s.l);
}

static bool is_warning_of(const json_t *event, const void *part) {
    return strstr(lab_text(event, "text"), part) != NULL;
}

/* Where a peer of this job was, one of another is now: nobody asked to join that. */
Test(supervised, a_stranger_at_a_known_address_is_left_alone) {
    supervised s = {.l = lab_open(), .count = 2};
    snprintf(s.args, sizeof s.args, LONG " --peers 2");
    for (uint32_t i = 0; i < 2; i++) start(&s, i, "");
    for (uint32_t i = 0; i < 2; i++) wait_until_known(&s, i, 1);
    lab_wait_event(s.l, s.peers[0], "checkpoint");
    for (uint32_t i = 0; i < 2; i++) lab_kill(s.l, s.peers[i]);
    char listen[32];
    snprintf(listen, sizeof listen, "127.0.0.1:%u", s.ports[1]);
    lab_peer *stranger = lab_launch(s.l, "stranger", NULL, listen, LONG " --seed 5 --steps 100000");
    lab_wait_step(s.l, stranger, 1);
    start(&s, 0, QUICKLY);
    lab_wait(s.l, s.peers[0], is_warning_of, "runs another job", "a warning");
    char hash[65];
    strcpy(hash, lab_state(s.l, s.peers[0], "done"));
    cr_expect_str_eq(lab_undisturbed(s.l, LONG QUICKLY), hash);
    lab_kill(s.l, stranger);
    lab_close(s.l);
}
