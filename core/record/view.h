/* A view: which peers compute together, and under which leader (core/README.md, section 3). A view does not
 * change once it is named. Its name is the BLAKE2b-128 of everything in it. If two halves of a partition both
 * install epoch e+1, the names differ, and everything that crosses the network carries epoch and name. */
#ifndef GODWIT_CORE_RECORD_VIEW_H
#define GODWIT_CORE_RECORD_VIEW_H

#include "core/base/id.h"

enum { GW_MAX_MEMBERS = 256 };

/* Readers refuse epochs from this one on, which no job reaches, so that the successor of an epoch never
 * overflows. */
#define GW_EPOCH_END (UINT64_C(1) << 62)

typedef struct gw_member {
    gw_peer_id id;
    uint64_t boot, nonce; /* the life that is a member; a later life of the same peer is none */
} gw_member;

typedef struct gw_view {
    uint64_t epoch; /* 0 = no view */
    gw_view_name name;
    gw_view_name parent;
    gw_peer_id leader;
    gw_hash job;
    uint32_t count;
    gw_member members[GW_MAX_MEMBERS]; /* sorted by id; a member's index is its rank */
} gw_view;

/* Whether this life of the member's peer is the member. */
bool gw_member_is(const gw_member *member, const gw_incarnation *life);

/* Sorts the members and names the view. Members must be distinct and include the leader. */
void gw_view_seal(gw_view *view);
/* The rank of a peer, or -1. */
int gw_view_rank(const gw_view *view, const gw_peer_id *id);
/* The rank of this very life of a peer, or -1. */
int gw_view_rank_of_life(const gw_view *view, const gw_peer_id *id, uint64_t boot, uint64_t nonce);
/* Views are totally ordered by (epoch, name): <0, 0, >0. */
int gw_view_compare(const gw_view *a, const gw_view *b);
/* Whether two views have the same peers; their lives may differ. */
bool gw_view_same_peers(const gw_view *a, const gw_view *b);
/* How many of the peers of `of` are in `some`; their lives may differ. */
uint32_t gw_view_common(const gw_view *of, const gw_view *some);
/* Whether the peers of `some` are a majority of the members of `of` (by id): more than half, or, with an even
 * size, half including the lowest-ranked member. */
bool gw_view_majority(const gw_view *of, const gw_view *some);

/* Writes the ranks of the members in the order in which a sum arranges them (net/collective/collective.h);
 * `ranks` has room for all. Arrangement 0 is the order of ranks. From each arrangement to the next, every
 * member gets other neighbours on both sides of a ring and another partner for its first exchange of
 * recursive doubling (net/collective/doubling.h). Views of three or four members have too few arrangements
 * for that; there it holds from each arrangement to the next but one. */
void gw_view_arrange(const gw_view *view, uint32_t arrangement, uint32_t *ranks);

/* Fails the reader from GW_EPOCH_END on. */
uint64_t gw_get_epoch(gw_reader *r);
void gw_view_put(gw_writer *w, const gw_view *view);
/* Fails the reader if the members are not sorted and distinct, or if the name does not match the contents. */
void gw_view_get(gw_reader *r, gw_view *view);

/* Names one view. */
typedef struct gw_view_ref {
    uint64_t epoch; /* 0 = no view */
    gw_view_name name;
} gw_view_ref;

#endif
