/* A model check of majority mode (core/record/ballot.h): every interleaving of proposals, votes, installs
 * and restarts of a few peers is visited, with the real ballots and the real quorum rule.
 *
 * A view is committed when all its members live in it at once. A view that is committed later must follow
 * from it: it must descend from it, by base or by listing (listing a view lists every other view of the
 * same peers after the base, because it needs the same majority of their members), and, as long as no peer
 * has lost its memory, know it, because one of its voters lived in it or in a view that knew it. Two
 * committed views without this relation are a fork.
 *
 * Epochs rise with the order in which views are proposed: a view that is proposed late with an early epoch
 * has heard of no later ones, and might as well have come first. Some proposals may have the epoch of the
 * previous one, with a later or an earlier name, even if they have heard of it: a proposer that was
 * restarted, or that hears little, does not know which epochs others have used. A proposer lists any set
 * of views that the rules allow, so everything that refusals could have taught it is covered. A leader is
 * the first to live in its view, if it has not proposed or voted for another one, nor reported that it
 * gave it up. It may report this at any time before it lives there, and all others hear it: a peer that
 * does not is only bound by more.
 *
 * A vote is cast, then made durable, and then answered; a peer lives in a view, and tells of it, before
 * that is durable. A peer that restarts knows what is in its record, and is no member of what was proposed
 * to its former life. Others may vote for a proposal whether or not its proposer's own vote is durable
 * yet, or ever will be. A peer that does not restart any more need not wait for its record: an answer that
 * comes sooner excludes nothing that can happen.
 *
 * Messages that are late, lost or doubled, and peers that die, are steps not taken. The use that peers
 * make of their ballots is written down here; the brain's own tests
 * (tests/core/brain/view/test_attempts.c) and the simulator check that brains do so. */
#ifndef GODWIT_TOOLS_SIM_MODEL_FORKS_H
#define GODWIT_TOOLS_SIM_MODEL_FORKS_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_FORKS_PEERS = 5, GW_FORKS_ATTEMPTS = 4 };

/* A rule that is taken out, to see that the check would find the fork that it prevents. */
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
    bool fork, full;        /* full: there are more than `most` states, and the search is not complete */
    uint64_t states, depth; /* depth: the largest number of steps from the beginning to a state */
} gw_forks_result;

/* Returns the name of the rule on the command line; NULL behind the last one. */
const char *gw_forks_rule_name(gw_forks_without without);

typedef struct gw_forks_size {
    uint32_t peers, attempts; /* attempts: the number of proposals */
    uint32_t restarts;        /* the number of peers that restart, once each */
    /* proposals that may have the epoch of the previous one; fewer than there are proposals */
    uint32_t shared;
} gw_forks_size;

/* Visits everything that can happen at this size, or up to the first fork, in at most `most` states of 24
 * to 32 bytes each. Returns false for sizes whose states need more than 128 bits. */
bool gw_forks_explore(const gw_forks_size *size, gw_forks_without without, uint64_t most,
                      gw_forks_result *result);

/* Does the same and prints the bound, the number of states and the verdict. Returns whether everything was
 * visited and no fork was found. */
bool gw_forks_print(const gw_forks_size *size, gw_forks_without without);

#endif
