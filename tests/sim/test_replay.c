/* A run is a pure function of its options: every event and answer of a brain, and every line of the trace,
 * is the same each time. */
#include "core/brain/peer.h"
#include "core/rng.h"
#include "tools/sim/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t digest; /* digest of all events and answers of all brains of a run, in order */

static void add_word(uint64_t word) {
    digest = gw_mix64(digest ^ word);
}

static void add_bytes(const void *bytes, size_t length) {
    uint64_t hash[2] = {0};
    if (length > 0) gw_blake2b(bytes, length, (uint8_t *)hash, sizeof hash);
    add_word(length);
    add_word(hash[0]);
}

static void add_action(const gw_action *action) {
    add_word(action->kind);
    add_word(action->token);
    add_word(action->step);
    add_bytes(action->peer.bytes, sizeof action->peer.bytes);
    const char *text = action->kind == GW_ACT_LOG      ? action->log.text
                       : action->kind == GW_ACT_NOTICE ? action->notice.text
                       : action->kind == GW_ACT_FINISH ? action->finish.text
                                                       : NULL;
    if (action->kind == GW_ACT_DATAGRAM) add_bytes(action->datagram.bytes, action->datagram.length);
    if (action->kind == GW_ACT_MESSAGE) add_bytes(action->message.bytes, action->message.length);
    if (action->kind == GW_ACT_PERSIST) add_bytes(action->persist.bytes, action->persist.length);
    add_bytes(text, text == NULL ? 0 : strlen(text));
}

void __real_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions) {
    add_word(event->kind);
    add_word(at_ns);
    add_word(event->token);
    if (event->kind == GW_EV_DATAGRAM) add_bytes(event->datagram.bytes, event->datagram.length);
    if (event->kind == GW_EV_MESSAGE) add_bytes(event->message.bytes, event->message.length);
    __real_gw_peer_step(peer, event, at_ns, actions);
    for (uint32_t i = 0; i < actions->count; i++) add_action(&actions->list[i]);
}

typedef struct course {
    uint64_t digest, events;
    char *trace; /* owned */
} course;

static course run(gw_sim_options options) {
    gw_sim_result result;
    course one = {.trace = NULL};
    size_t size;
    options.trace = open_memstream(&one.trace, &size);
    cr_assert_not_null(options.trace);
    digest = 0;
    gw_sim_run(&options, &result);
    fclose(options.trace);
    one.digest = digest;
    one.events = result.events;
    return one;
}

/* Returns the first trace from the beginning of the line at which they differ. */
static const char *first_difference(const char *trace, const char *other) {
    size_t at = 0;
    while (trace[at] != '\0' && trace[at] == other[at]) at++;
    while (at > 0 && trace[at - 1] != '\n') at--;
    return trace + at;
}

/* Runs each of three seeds twice; no two seeds are alike. */
static void replay(const gw_sim_options *given, uint64_t first) {
    enum { SEEDS = 3 };
    uint64_t digests[SEEDS];
    for (uint64_t i = 0; i < SEEDS; i++) {
        const gw_sim_options options = gw_sim_prepare(given, first + i, false);
        course once = run(options), again = run(options);
        cr_expect_not_null(strstr(once.trace, " CALM: no more faults\n"));
        cr_expect_str_eq(once.trace, again.trace, "seed %llu: %.200s", (unsigned long long)options.seed,
                         first_difference(once.trace, again.trace));
        cr_expect_eq(once.digest, again.digest, "seed %llu", (unsigned long long)options.seed);
        cr_expect_eq(once.events, again.events, "seed %llu", (unsigned long long)options.seed);
        digests[i] = once.digest;
        for (uint64_t k = 0; k < i; k++) cr_expect_neq(digests[k], digests[i]);
        free(once.trace);
        free(again.trace);
    }
}

static gw_sim_options small(void) {
    gw_sim_options options = gw_sim_unset(0);
    options.peers = 4;
    options.fault_ms = 4000;
    return options;
}

Test(replay, seeds_as_they_are_drawn) {
    const gw_sim_options options = small();
    replay(&options, 7);
}

Test(replay, majority) {
    gw_sim_options options = small();
    options.majority = 1;
    options.fast = 0;
    options.core = 2;
    replay(&options, 101);
}

Test(replay, fast) {
    gw_sim_options options = small();
    options.fast = 1;
    replay(&options, 201);
}

Test(replay, verify) {
    gw_sim_options options = small();
    options.verify_permille = 1000;
    options.wrong_permille = 10;
    replay(&options, 301);
    options.majority = options.fast = options.wrong_permille = 0;
    options.flip_ms = 500;
    replay(&options, 401);
}

Test(replay, disks_that_fail) {
    gw_sim_options options = small();
    options.power_ms = 1500;
    options.wipe_permille = 200;
    options.damage_ms = 500;
    options.unsynced_permille = 300;
    options.hang_ms = 2000;
    options.full_ms = 1500;
    replay(&options, 501);
}

Test(replay, long_hauls) {
    gw_sim_options options = gw_sim_unset(0);
    options.peers = 3;
    options.haul = 30;
    options.fault_ms = 600000;
    replay(&options, 601);
}
