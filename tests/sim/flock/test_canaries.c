/* What is broken on purpose is found: the judges of a standing flock see what they are there for. The functions that are
 * wrapped (tests/CMakeLists.txt) are those of core/flock, but for what a test breaks. */
#include "tools/sim/flock/command.h"
#include "tools/sim/flock/world.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static enum { NOTHING, GATE, UNLIKE, IDLE, GREEDY, EQUAL, SHORT } broken;

bool __real_gw_exchange_is_past_gate(const gw_exchange *exchange);
bool __wrap_gw_exchange_is_past_gate(const gw_exchange *exchange);
bool __real_gw_sides_is_lesser(const gw_sides *sides, const gw_claims *const *lists, uint32_t count,
                               uint64_t now_ns);
bool __wrap_gw_sides_is_lesser(const gw_sides *sides, const gw_claims *const *lists, uint32_t count,
                               uint64_t now_ns);
gw_allotment __real_gw_allot(const gw_allot_input *input);
gw_allotment __wrap_gw_allot(const gw_allot_input *input);

bool __real_gw_claims_get(const void *bytes, size_t length, gw_claims *claims, gw_err *err);
bool __wrap_gw_claims_get(const void *bytes, size_t length, gw_claims *claims, gw_err *err);

bool __wrap_gw_exchange_is_past_gate(const gw_exchange *exchange) {
    return broken == GATE || __real_gw_exchange_is_past_gate(exchange);
}

bool __wrap_gw_sides_is_lesser(const gw_sides *sides, const gw_claims *const *lists, uint32_t count,
                               uint64_t now_ns) {
    return broken != EQUAL && broken != GATE && __real_gw_sides_is_lesser(sides, lists, count, now_ns);
}

bool __wrap_gw_claims_get(const void *bytes, size_t length, gw_claims *claims, gw_err *err) {
    bool good = __real_gw_claims_get(bytes, length, claims, err);
    if (broken == SHORT) claims->tail_bytes /= 2;
    return good;
}

gw_allotment __wrap_gw_allot(const gw_allot_input *input) {
    static uint32_t calls;
    gw_allot_input changed = *input;
    gw_allot_job *jobs = calloc(input->job_count + 1, sizeof *jobs);
    cr_assert_not_null(jobs);
    for (uint32_t i = 0; i < input->job_count; i++) {
        jobs[i] = input->jobs[i];
        if (broken == GREEDY) jobs[i].least = 1;
    }
    changed.jobs = jobs;
    gw_allotment allotment = __real_gw_allot(&changed);
    free(jobs);
    if (allotment.count > 0 && (broken == IDLE || (broken == UNLIKE && ++calls % 2 == 0)))
        allotment.count--; /* the last job that is placed has a node less */
    return allotment;
}

/* Whether one of some seeds fails by the promise of this name. */
static bool is_found(const char *promise, uint32_t without) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        sim_flock_options options = {.seed = seed, .without = without};
        sim_flock_result result;
        sim_flock_play(&options, &result);
        if (strncmp(result.why, promise, strlen(promise)) == 0) return true;
    }
    return false;
}

/* A member that comes back would mostly be kept from that by the rule of the lesser side too, which is broken here as
 * well: a flock that has lost its power has no lesser side. */
Test(canaries, members_that_start_jobs_before_they_know_what_is_over) {
    broken = GATE;
    cr_expect(is_found("over:", 1u << SIM_CALM));
}

Test(canaries, members_that_allot_by_the_toss_of_a_coin) {
    broken = UNLIKE;
    cr_expect(is_found("alike:", 0));
}

Test(canaries, a_node_that_nobody_uses) {
    broken = IDLE;
    cr_expect(is_found("waits:", 0));
}

Test(canaries, members_that_heed_no_least) {
    broken = GREEDY;
    cr_expect(is_found("least:", ~(1u << SIM_POWER)));
}

Test(canaries, members_that_take_each_side_for_the_larger_one) {
    broken = EQUAL;
    cr_expect(is_found("apart:", ~(1u << SIM_PART)));
}

Test(canaries, members_that_pass_on_half_of_what_later_builds_tell) {
    broken = SHORT;
    cr_expect(is_found("told:", ~(1u << SIM_MIXED)));
}
