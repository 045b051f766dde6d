/* The offset of a peer's clock: the shortest round counts, its way bounds the error, and drift is followed. */
#include "tools/godwit/trace/offset.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)

/* A round that leaves the client at `at`, and takes so long there and back; the peer's clock is ahead by
 * `ahead`, which may wrap around. */
static gw_trace_round round_of(uint64_t at, uint64_t there, uint64_t back, uint64_t ahead) {
    return (gw_trace_round){.sent_ns = at,
                            .peer_received_ns = at + there + ahead,
                            .peer_sent_ns = at + there + 1000 + ahead,
                            .received_ns = at + there + 1000 + back};
}

static void check_within(const gw_trace_offset *offset, uint64_t client_ns, uint64_t ahead) {
    int64_t wrong = (int64_t)(gw_trace_offset_apply(offset, client_ns + ahead) - client_ns);
    int64_t most = (int64_t)gw_trace_offset_error_ns(offset);
    cr_assert(wrong >= -most && wrong <= most, "%lld of at most %lld", (long long)wrong, (long long)most);
}

Test(trace_offset, a_clock_ahead_or_behind_is_found_within_the_error_that_is_told) {
    const uint64_t aheads[] = {0, 5 * MS, 1000000 * MS, 0 - 40 * MS, 0 - 90000 * MS};
    for (size_t i = 0; i < sizeof aheads / sizeof aheads[0]; i++) {
        gw_trace_offset offset = {0};
        const gw_trace_round slow = round_of(100000 * MS, 9 * MS, 1000, aheads[i]);
        const gw_trace_round quick = round_of(100020 * MS, 30000, 10000, aheads[i]);
        gw_trace_offset_note(&offset, &slow, false);
        gw_trace_offset_note(&offset, &quick, false);
        gw_trace_offset_note(&offset, &slow, false);
        cr_assert_leq(gw_trace_offset_error_ns(&offset), 20001);
        cr_assert_leq(llabs(gw_trace_offset_ns(&offset) - (int64_t)aheads[i]), 20001);
        check_within(&offset, 100000 * MS, aheads[i]);
        check_within(&offset, 130000 * MS, aheads[i]);
    }
}

Test(trace_offset, drift_is_a_line_between_the_ends_of_a_trace) {
    gw_trace_offset offset = {0};
    const gw_trace_round early = round_of(1000 * MS, 1000, 1000, 50 * MS),
                         late = round_of(31000 * MS, 1000, 1000, 53 * MS); /* 100 parts in a million */
    gw_trace_offset_note(&offset, &early, false);
    gw_trace_offset_note(&offset, &late, true);
    check_within(&offset, 1000 * MS, 50 * MS);
    check_within(&offset, 16000 * MS, 51 * MS + MS / 2);
    check_within(&offset, 31000 * MS, 53 * MS);
}

Test(trace_offset, what_makes_no_sense_is_not_believed) {
    gw_trace_offset offset = {0};
    const gw_trace_round good = round_of(1000 * MS, 5000, 5000, 0);
    const gw_trace_round bad[] = {
        {.sent_ns = 10, .peer_received_ns = 5, .peer_sent_ns = 4, .received_ns = 20},
        {.sent_ns = 20, .peer_received_ns = 5, .peer_sent_ns = 6, .received_ns = 10},
        {.sent_ns = 10, .peer_received_ns = 5, .peer_sent_ns = UINT64_MAX, .received_ns = 20},
        {.sent_ns = 0, .peer_received_ns = 0, .peer_sent_ns = 0, .received_ns = 0},
    };
    cr_assert_eq(gw_trace_offset_error_ns(&offset), UINT64_MAX);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gw_trace_offset_note(&offset, &bad[i], false);
        gw_trace_offset_note(&offset, &bad[i], true);
    }
    cr_assert_eq(gw_trace_offset_error_ns(&offset), UINT64_MAX);
    gw_trace_offset_note(&offset, &good, false);
    const gw_trace_round absurd = round_of(2000 * MS, 1000, 1000, UINT64_MAX / 2);
    gw_trace_offset_note(&offset, &absurd, true);
    check_within(&offset, 1500 * MS, 0);
    (void)gw_trace_offset_apply(&offset, 0);
    (void)gw_trace_offset_apply(&offset, UINT64_MAX);
}

Test(trace_offset, rounds_of_the_end_alone_are_enough) {
    gw_trace_offset offset = {0};
    const gw_trace_round late = round_of(31000 * MS, 1000, 1000, 53 * MS);
    gw_trace_offset_note(&offset, &late, true);
    check_within(&offset, 31000 * MS, 53 * MS);
}
