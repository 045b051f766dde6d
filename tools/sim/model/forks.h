/* A model check of majority mode (core/record/ballot.h): every interleaving of proposals, votes, installs and
 * restarts of a few peers is visited, with the real ballots and the real quorum rule.
 *
 * A view is committed when all its members live in it at once. A view that is committed later must follow
 * from it: descend from it, by base or by listing (listing a view lists every other of the same peers after
 * the base, of whose members it needs the same majority), and, as long as nobody has lost his memory, know
 * it, since one of its voters lived in it or in a view that knew it. Two committed views without that are a
 * fork.
 *
 * Epochs rise with the order in which views are proposed: one that is proposed late with an early epoch has
 * heard of none that are later, and might as well have come first. Some proposals may have the epoch of the
 * one before, with a later or an earlier name, and even if they have heard of that one: a proposer that was
 * started again, or that hears little, does not know what epochs others have used. A proposer lists any set
 * of views that the rules allow, so whatever refusals could have taught it is covered. A leader is the first
 * to live in its view, if it has not proposed or voted for another, nor said that it gave it up. That it may
 * say at any time before it lives there, and all others hear it: who does not is only bound by more.
 *
 * A vote is cast, then made durable, and answered after that; a view is lived in, and told of, before that is
 * durable. A peer that restarts knows what its record has, and is no member of what was proposed to its
 * former life. Others vote for a proposal whether its proposer's own vote is durable yet or never will be.
 * Who will not restart any more need not wait for its record: an answer that comes sooner takes nothing from
 * what can happen.
 *
 * Messages that are late, lost or doubled and peers that die are steps not taken. What peers do with their
 * ballots is written down here; that brains do so is for their own tests
 * (tests/core/brain/view/test_attempts.c) and the simulator. */
#ifndef GODWIT_TOOLS_SIM_MODEL_FORKS_H
#define GODWIT_TOOLS_SIM_MODEL_FORKS_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_FORKS_PEERS = 5, GW_FORKS_ATTEMPTS = 4 };

/* A rule to be taken out, to see that the check would find the fork it prevents. */
typedef enum gw_forks_without {
    GW_FORKS_WITH_ALL = 0,
    GW_FORKS_WITHOUT_PROMISES,  /* a vote does not name the later views that its voter voted for */
    GW_FORKS_WITHOUT_LISTED,    /* no majority of the listed views is needed, only of the base */
    GW_FORKS_WITHOUT_INSTALLED, /* a vote does not name the view that its voter lives in */
    GW_FORKS_WITHOUT_LOWEST,    /* any half of an even view counts as its majority */
    GW_FORKS_WITHOUT_LEADER,    /* others live in a view that its leader gave up */
    GW_FORKS_WITHOUT_LIVES,     /* a leader's later life stands for the former one: shows with a restart */
    GW_FORKS_WITHOUT_ONCE,      /* several votes an epoch: shows where an epoch is shared */
    GW_FORKS_WITHOUT_DURABLE,   /* a vote is answered before it is durable: shows with a restart */
    GW_FORKS_WITHOUT_GIVEN_UP,  /* a leader lives in a view that it has said it gave up */
    GW_FORKS_RULES,
} gw_forks_without;

typedef struct gw_forks_result {
    bool fork, full;        /* full: `most` states were not enough, the search is not complete */
    uint64_t states, depth; /* depth: steps from the beginning to the last state, at most */
} gw_forks_result;

/* What taking it out is called on the command line; NULL beyond the last. */
const char *gw_forks_rule_name(gw_forks_without without);

typedef struct gw_forks_size {
    uint32_t peers, attempts; /* attempts: proposals */
    uint32_t restarts;        /* so many peers start again once each */
    uint32_t shared;          /* proposals that may have the epoch of the one before; fewer than there are */
} gw_forks_size;

/* Visits everything that can happen at this size, or up to the first fork; up to `most` states of 24 to 32
 * bytes each. Sizes whose states need more than 128 bits are refused: false. */
bool gw_forks_explore(const gw_forks_size *size, gw_forks_without without, uint64_t most,
                      gw_forks_result *result);

/* The same, for people: prints the bound, the number of states and the verdict. Whether all was visited and
 * no fork found. */
bool gw_forks_print(const gw_forks_size *size, gw_forks_without without);

#endif
