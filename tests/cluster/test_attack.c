/* A job under attack, on real processes: before each peer stands a man in the middle, one floods besides, and
 * strangers want in. It comes to the same bytes, and no peer grows by what it was sent. */
#include "tests/cluster/lab.h"
#include "tests/net/meddler.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JOB     "synthetic --workers 1 --shards 24 --state-bytes 256k"
#define WORKING JOB " --shard-ms 11 --transport tcp"

/* Whoever lost its links to the last strike has CALM steps to come back: otherwise the others end without it.
 */
enum { PEERS = 3, MEMBERS = PEERS + 1, STEPS = 120, WARM_STEP = 20, CALM = 45, STRIKE_MS = 150 };

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

typedef struct scene {
    lab *l;
    meddler *meddlers[PEERS];
    lab_peer *peers[MEMBERS], *old_key, *no_key;
} scene;

static void open_meddlers(scene *s) {
    for (int i = 0; i < PEERS; i++) s->meddlers[i] = meddler_open(true);
}

static void close_meddlers(scene *s) {
    for (int i = 0; i < PEERS; i++) meddler_close(s->meddlers[i]);
}

/* One that the others reach through its meddler only; also where it has run before. */
static void start_peer(scene *s, int i, const char *key, int members, const char *more) {
    char line[1024], name[8];
    snprintf(line, sizeof line,
             WORKING " --steps %d --peers %d --key %s --advertise 127.0.0.1:%u --join 127.0.0.1:%u%s", STEPS,
             members, key, meddler_port(s->meddlers[i]), meddler_port(s->meddlers[0]), more);
    snprintf(name, sizeof name, "p%d", i);
    s->peers[i] = lab_start(s->l, name, NULL, line);
    meddler_target(s->meddlers[i], s->peers[i]->port);
}

/* One more, that knows the first; `key` NULL: it has none. */
static lab_peer *start_another(scene *s, const char *name, const char *key) {
    char line[1024];
    snprintf(line, sizeof line, WORKING " --steps %d --join-timeout 10m%s%s", STEPS, key ? " --key " : "",
             key ? key : "");
    return lab_start(s->l, name, s->peers[0], line);
}

/* Why what comes from a port is not taken. */
typedef struct refusal {
    unsigned port;
    const char *why;
} refusal;

static bool refuses(const json_t *event, const void *context) {
    const refusal *r = context;
    char text[256];
    snprintf(text, sizeof text, "last from 127.0.0.1:%u: %s", r->port, r->why);
    return strcmp(lab_text(event, "event"), "warning") == 0 && strstr(lab_text(event, "text"), text) != NULL;
}

/* One that has a key of before, and one that has none: the first peer has heard both, and let none in. Who
 * comes the same way with the key is the last member: nothing else kept them out. */
static void start_others(scene *s, const char *key, const char *old_key) {
    s->old_key = start_another(s, "old", old_key);
    s->no_key = start_another(s, "none", NULL);
    const refusal old = {s->old_key->port, "sealed with a key that this peer does not have"},
                  none = {s->no_key->port, "not encrypted, but this peer has a key"};
    lab_wait(s->l, s->peers[0], refuses, &old, "the refusal of an old key");
    lab_wait(s->l, s->peers[0], refuses, &none, "the refusal of who has no key");
    cr_expect_null(lab_last(s->peers[0], "view"));
    s->peers[PEERS] = start_another(s, "new", key);
    lab_wait_view(s->l, s->peers[PEERS], MEMBERS);
}

static bool is_at(const lab_peer *peer, uint64_t step) {
    const json_t *event = lab_last(peer, "step");
    return event != NULL && lab_number(event, "step") >= step;
}

/* Meddles with one thing after another until the job is so far. */
static void strike_until(scene *s, uint64_t step) {
    static uint64_t next_ms, n;
    while (!is_at(s->peers[0], step)) {
        lab_pump(s->l);
        cr_assert_geq(s->peers[0]->out, 0, "it ended: %s", s->peers[0]->stderr_text);
        if (now_ms() < next_ms) continue;
        next_ms = now_ms() + STRIKE_MS;
        meddling kind = (meddling)(MEDDLE_FLIP + n % (MEDDLINGS - MEDDLE_FLIP));
        meddler_strike(s->meddlers[n % PEERS], MEDDLE_DATAGRAM, kind);
        if (n % 4 == 0) meddler_strike(s->meddlers[n / 4 % PEERS], MEDDLE_RECORD, kind);
        if (n % 8 == 0) meddler_strike(s->meddlers[n / 8 % PEERS], MEDDLE_HANDSHAKE, MEDDLE_SPLICE);
        n++;
    }
}

/* It was turned away: it has been in no view, and is still out there. */
static void expect_out(scene *s, lab_peer *stranger) {
    const json_t *view = lab_last(stranger, "view");
    cr_expect_null(view, "a stranger was let in");
    lab_kill(s->l, stranger);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KEEPS_FREED = 1 };
#else
enum { KEEPS_FREED = 0 };
#endif

Test(attack, a_job_comes_to_the_same_bytes) {
    scene s = {.l = lab_open()};
    char key[LAB_PATH], old_key[LAB_PATH], line[256];
    uint64_t bytes[PEERS], datagrams, connections, struck = 0;
    lab_key(s.l, "new.key", key);
    lab_key(s.l, "old.key", old_key);
    open_meddlers(&s);
    for (int i = 0; i < PEERS; i++) start_peer(&s, i, key, MEMBERS, ""); /* with one more they begin */
    start_others(&s, key, old_key);
    meddler_flood(s.meddlers[0], true);
    strike_until(&s, WARM_STEP);
    for (int i = 0; i < PEERS; i++) bytes[i] = lab_resident_bytes(s.peers[i]);
    strike_until(&s, STEPS - CALM);
    for (int i = 0; i < PEERS && !KEEPS_FREED; i++)
        cr_expect_lt(lab_resident_bytes(s.peers[i]), bytes[i] + (8 << 20), "peer %d, from %lu", i, bytes[i]);
    expect_out(&s, s.old_key);
    expect_out(&s, s.no_key);
    snprintf(line, sizeof line, JOB " --shard-ms 0 --steps %d", STEPS);
    const char *hash = lab_undisturbed(s.l, line);
    int noticed = 0;
    for (int i = 0; i < MEMBERS; i++) {
        cr_expect_str_eq(lab_state(s.l, s.peers[i], "done"), hash, "peer %d", i);
        cr_expect_null(lab_last(s.peers[i], "corruption"), "peer %d", i);
        noticed += lab_logged(s.peers[i],
                              "ended because bits changed on the way (number 1 since the start): ") != NULL;
    }
    cr_expect_gt(noticed, 0, "nobody has told of a link with changed records");
    meddler_flooded(s.meddlers[0], &datagrams, &connections);
    for (int i = 0; i < PEERS; i++)
        for (int place = 0; place < MEDDLE_PLACES; place++)
            struck += meddler_struck(s.meddlers[i], (meddle_place)place);
    cr_expect(datagrams > 10000 && connections > 100 && struck > 30, "%lu %lu %lu", datagrams, connections,
              struck);
    close_meddlers(&s);
    lab_close(s.l);
}

/* Recordings. */

#define PATIENT " --time-scale 200" /* nobody is buried for want of a processor */

static void stop_all(scene *s) {
    char line[LAB_PATH + 16];
    snprintf(line, sizeof line, "stop --dir %s", s->peers[0]->dir);
    cr_assert_eq(lab_command(line), 0);
    for (int i = 0; i < PEERS; i++) lab_state(s->l, s->peers[i], "stopped");
}

static bool hears_again(const json_t *event, const void *none) {
    (void)none;
    return strcmp(lab_text(event, "event"), "warning") == 0 &&
           strstr(lab_text(event, "text"), "seen before: a replay") != NULL;
}

/* The first peer is started again, and fed all that was ever recorded: it takes each datagram that its window
 * does not know, which is why it is heard to refuse those that come a second time. */
static void start_fed(scene *s, const char *key) {
    start_peer(s, 0, key, PEERS, PATIENT);
    for (int i = 0; i < PEERS; i++) meddler_replay(s->meddlers[i], s->peers[0]->port);
    lab_wait(s->l, s->peers[0], hears_again, NULL, "that what it is fed is no news any more");
    cr_expect_null(lab_last(s->peers[0], "done"), "it has ended");
}

static void expect_all_in_view(scene *s) {
    for (int i = 0; i < PEERS; i++) {
        lab_wait_view(s->l, s->peers[i], PEERS);
        lab_mark(s->l, s->peers[i]);
    }
}

/* None of those that they have seen since is without one of them. */
static void expect_nobody_buried(const scene *s) {
    for (int i = 0; i < PEERS; i++) {
        const lab_peer *peer = s->peers[i];
        for (size_t k = peer->mark; k < json_array_size(peer->events); k++) {
            const json_t *event = json_array_get(peer->events, k);
            bool view = strcmp(lab_text(event, "event"), "view") == 0;
            cr_expect(!view || json_array_size(json_object_get(event, "members")) == PEERS, "peer %d", i);
        }
    }
}

/* What is replayed is the gossip of a job that was stopped, the goodbyes of all its peers among it, and the gossip of the
 * running job, of which one peer was killed. The first peer hears it before the others have started. */
Test(attack, recorded_gossip_does_no_harm_to_who_has_just_begun) {
    scene s = {.l = lab_open()};
    char key[LAB_PATH], line[256];
    lab_key(s.l, "key", key);
    open_meddlers(&s);
    for (int i = 0; i < PEERS; i++) meddler_record(s.meddlers[i]);
    for (int i = 0; i < PEERS; i++) start_peer(&s, i, key, PEERS, PATIENT);
    lab_wait_step(s.l, s.peers[0], WARM_STEP);
    stop_all(&s);
    start_fed(&s, key);
    for (int i = 1; i < PEERS; i++) start_peer(&s, i, key, PEERS, PATIENT);
    expect_all_in_view(&s);
    lab_wait_step(s.l, s.peers[0], 2 * WARM_STEP);
    expect_nobody_buried(&s);
    lab_kill(s.l, s.peers[0]);
    for (int i = 1; i < PEERS; i++) lab_wait_view(s.l, s.peers[i], PEERS - 1);
    start_fed(&s, key);
    expect_all_in_view(&s);
    lab_wait_step(s.l, s.peers[0], STEPS - WARM_STEP);
    expect_nobody_buried(&s);
    snprintf(line, sizeof line, JOB " --shard-ms 0 --steps %d", STEPS);
    const char *hash = lab_undisturbed(s.l, line);
    for (int i = 0; i < PEERS; i++) cr_expect_str_eq(lab_state(s.l, s.peers[i], "done"), hash, "peer %d", i);
    close_meddlers(&s);
    lab_close(s.l);
}
