/* What a peer has promised: the voter's side of view formation, pure and persistent (design section 3).
 *
 * Quorum `any`: one vote an epoch, rising. Quorum `majority` (checked exhaustively by model for 3 to 5
 * peers): a proposal names its base view and lists every later view that any of its voters voted for or
 * installed; it needs a majority of the base and of each listed view; a voter refuses a proposal that omits
 * one it knows. What a listed view asks for is a majority of its peers, so a view counts as listed when one
 * of the same peers is. Voting once an epoch alone forks with three peers. What is promised is persisted
 * before it is answered.
 *
 * A view is installed by nobody before its leader has, and no leader installs one after it has proposed or
 * voted for another. So a promise need not be named to a proposal of which the view's leader, in that very
 * life, is a member: should it have installed the view, it says so by its own vote, and if not it never will.
 * And a leader's next proposal takes back its last one, unless it stands on it. Promises therefore do not
 * pile up while those who asked for them live, however many attempts a view takes. A leader that can propose
 * nothing any more, bound as it is by others, takes back by its word what it has given up, in whatever it
 * refuses (core/brain/message.h): else those whose votes it had would be bound for good, too.
 *
 * Nor do they where a leader is started again and again. Of two promises with the same peers and leader the
 * later one stands for both, once a later life of that leader has had a vote for a proposal of its own. That
 * one's epoch is past all that its earlier lives have voted for, as their votes were durable: no view that
 * may be voted for from then on, with one of those lives as a member, will ever have that life's vote. It is
 * never installed, and what a ballot says to it is all one. Of any other proposal the two ask the same, that
 * these peers be listed; and the later one is kept for as long at least. What stands for another is not taken
 * back, by a late proposal of its leader's either; nor by a late word, as the word of a life comes by a link
 * to it, and after a link to a later life there is none to it any more. */
#ifndef GODWIT_CORE_RECORD_BALLOT_H
#define GODWIT_CORE_RECORD_BALLOT_H

#include "core/record/view.h"

#include <stdbool.h>

enum {
    GW_BALLOT_LATER = 64
}; /* most views voted for and neither taken back nor superseded; a vote that would
      leave more is refused */

typedef struct gw_ballot {
    bool majority;
    uint64_t highest;  /* epoch seen anywhere */
    uint64_t voted;    /* epoch voted for last */
    gw_view installed; /* epoch 0 = none */
    gw_view *later;    /* majority: views voted for after `installed`, in rising order */
    uint32_t later_count;
} gw_ballot;

typedef enum gw_ballot_answer {
    GW_BALLOT_YES = 1,
    GW_BALLOT_OLD,      /* its epoch is not past what was voted for */
    GW_BALLOT_UNLISTED, /* it omits a view that this peer voted for or installed */
    GW_BALLOT_FULL,     /* too many promises would be outstanding */
} gw_ballot_answer;

void gw_ballot_open(gw_ballot *ballot, bool majority);
void gw_ballot_close(gw_ballot *ballot);

/* Whether this peer may vote for `view`, proposed with `listed` on the base whose epoch and name are given.
 */
gw_ballot_answer gw_ballot_consider(const gw_ballot *ballot, const gw_view *view, uint64_t base_epoch,
                                    const gw_view_name *base, const gw_view *listed, uint32_t listed_count);
/* Whether what a vote for `view`, proposed on a base of that epoch, leaves promised fits: of a full ballot,
 * too, it may take something back, or have one promise stand for another. */
bool gw_ballot_has_room(const gw_ballot *ballot, const gw_view *view, uint64_t base_epoch);
/* Of a later epoch than was voted for; there is room (both checked). `view` is not one of the ballot's. */
void gw_ballot_vote(gw_ballot *ballot, const gw_view *view, uint64_t base_epoch);
/* The view is installed: promises up to it are fulfilled. */
void gw_ballot_install(gw_ballot *ballot, const gw_view *view);
/* This life of a leader has said that no view that it has proposed, of an epoch past `since` and not past
 * `until`, has been installed or will be: what was promised of such views holds nobody any more. It need not
 * be durable: who forgets it is only bound again. */
void gw_ballot_take_back(gw_ballot *ballot, const gw_peer_id *leader, const gw_incarnation *life,
                         uint64_t since, uint64_t until);

/* Whether a proposal of `view` must list `promise`, if that is later than its base: its leader will not vote.
 */
bool gw_ballot_must_list(const gw_view *promise, const gw_view *view);

/* For a proposer: the first of `base` (epoch 0: founding) and `listed` of which `view` has no majority. NULL:
 * it may be proposed. */
const gw_view *gw_ballot_no_majority_of(const gw_view *base, const gw_view *listed, uint32_t listed_count,
                                        const gw_view *view);

/* The durable record, which begins with its version. Reading fails the reader on malformed bytes. */
enum { GW_BALLOT_VERSION = 4 };
void gw_ballot_put(gw_writer *w, const gw_ballot *ballot);
void gw_ballot_get(gw_reader *r, gw_ballot *ballot);
/* Bytes that gw_ballot_put needs at most. */
size_t gw_ballot_bytes(const gw_ballot *ballot);

#endif
