/* A peer's ballot: the views that it has voted for and is therefore bound to. This is the voter's side of
 * view formation (core/README.md, section 3). The functions are pure; gw_ballot_put makes a ballot durable.
 *
 * Terms. A vote is a *promise* to the view that was proposed. The promise is outstanding until that view or a
 * later one is installed, or until it is taken back. A proposal names its *base*, which is the view that it
 * builds on, and *lists* the views later than its base that its voters have promised or installed.
 *
 * Quorum `any`: a peer votes once an epoch, and for rising epochs only.
 *
 * Quorum `majority`: in addition, a voter refuses a proposal that does not list a later view which the voter
 * has promised or installed, and a proposal needs a majority of its base and of each listed view. What is
 * needed of a listed view is a majority of its peers, so a view counts as listed if any view with the same
 * peers is listed. A promise is durable before the vote is sent. Voting once an epoch alone forks with three
 * peers; an exhaustive model has checked the full rule for three to five (tools/sim/model/forks.h).
 *
 * Promises that need not be listed. No peer installs a view before its leader has, and no leader installs a
 * view after it has proposed or voted for another one. A promise therefore need not be listed by a proposal
 * that has the promised view's leader, in the same life, among its members: if that leader has installed the
 * view, its own vote says so, and otherwise the view will never be installed.
 *
 * Promises that are taken back. A leader's next proposal takes back its last one, unless the proposal builds
 * on it. A leader that can propose nothing more, because other promises bind it, takes back what it has given
 * up in the REFUSE messages that it sends (core/brain/message.h); otherwise its voters would be bound for
 * good. Promises therefore do not pile up while the leaders that asked for them live, however many attempts a
 * view takes.
 *
 * Promises that stand for others. Promises do not pile up either when a leader is restarted again and again.
 * If two promises have the same peers and the same leader, the later one stands for both as soon as a later
 * life of that leader has had a vote for a proposal of its own. The epoch of that proposal is above all
 * epochs that the leader's earlier lives have voted for, since their votes were durable. Therefore no view
 * that may be voted for from then on, with one of those lives as a member, ever gets the vote of that life:
 * it is never installed, and it does not matter how the ballot answers its proposal. Every other proposal
 * meets the same demand from both promises, that their peers be listed, and the later promise is outstanding
 * for at least as long. A promise that stands for another is never taken back. A proposal of its leader that
 * arrives late does not do so, and a late REFUSE cannot: the messages of a life arrive over a link to that
 * life, and once a later life has been linked there is no link to the earlier one. */
#ifndef GODWIT_CORE_RECORD_BALLOT_H
#define GODWIT_CORE_RECORD_BALLOT_H

#include "core/record/view.h"

#include <stdbool.h>

/* Most promises that are outstanding at a time; a vote that would leave more is refused. */
enum { GW_BALLOT_LATER = 64 };

typedef struct gw_ballot {
    bool majority;
    uint64_t highest;  /* the highest epoch seen anywhere */
    uint64_t voted;    /* the epoch voted for last */
    gw_view installed; /* the view installed last; epoch 0 = none */
    gw_view *later;    /* majority: the outstanding promises, all later than `installed`, in rising order */
    uint32_t later_count;
} gw_ballot;

typedef enum gw_ballot_answer {
    GW_BALLOT_YES = 1,
    GW_BALLOT_OLD,      /* the proposal's epoch is not past what was voted for */
    GW_BALLOT_UNLISTED, /* the proposal omits a view that this peer has promised or installed */
    GW_BALLOT_FULL,     /* too many promises would be outstanding */
} gw_ballot_answer;

/* Initializes an empty ballot, which gw_ballot_close frees. */
void gw_ballot_open(gw_ballot *ballot, bool majority);
void gw_ballot_close(gw_ballot *ballot);

/* Whether this peer may vote for `view`, proposed with `listed` on the base whose epoch and name are
 * given. */
gw_ballot_answer gw_ballot_consider(const gw_ballot *ballot, const gw_view *view, uint64_t base_epoch,
                                    const gw_view_name *base, const gw_view *listed, uint32_t listed_count);
/* Whether the promises that are outstanding after a vote for `view`, proposed on a base of that epoch, fit
 * into the ballot. They may fit a full ballot, as the vote may take a promise back or let one stand for
 * another. */
bool gw_ballot_has_room(const gw_ballot *ballot, const gw_view *view, uint64_t base_epoch);
/* Notes a vote for `view`. Its epoch is later than what was voted for and there is room (both asserted);
 * `view` does not point into the ballot. */
void gw_ballot_vote(gw_ballot *ballot, const gw_view *view, uint64_t base_epoch);
/* Notes that the view is installed, which fulfils all promises up to it. */
void gw_ballot_install(gw_ballot *ballot, const gw_view *view);
/* Takes back promises. This life of a leader has said that no view that it has proposed, of an epoch past
 * `since` and not past `until`, has been installed or will be. The change need not be durable: a voter that
 * forgets it is merely bound again. */
void gw_ballot_take_back(gw_ballot *ballot, const gw_peer_id *leader, const gw_incarnation *life,
                         uint64_t since, uint64_t until);

/* Whether a proposal of `view` must list `promise` if that is later than its base: the leader of the promised
 * view, in that life, is no member of `view`. */
bool gw_ballot_must_list(const gw_view *promise, const gw_view *view);

/* For a proposer: the first view among `base` (epoch 0: the flock is being founded) and `listed` of which
 * `view` has no majority. NULL: `view` may be proposed. */
const gw_view *gw_ballot_no_majority_of(const gw_view *base, const gw_view *listed, uint32_t listed_count,
                                        const gw_view *view);

/* The durable form, which begins with its version. Reading fails the reader on malformed bytes; the ballot is
 * open before it is read. */
enum { GW_BALLOT_VERSION = 4 };
void gw_ballot_put(gw_writer *w, const gw_ballot *ballot);
void gw_ballot_get(gw_reader *r, gw_ballot *ballot);
/* The most bytes that gw_ballot_put writes. */
size_t gw_ballot_bytes(const gw_ballot *ballot);

#endif
