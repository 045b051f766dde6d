/* Shards that are computed twice (--verify): which they are, which members compute them, and how a difference
 * is judged. The functions do no I/O.
 *
 * A keyed hash of (job, step, shard) chooses the shards, so that all members agree on them without
 * communication. The member to which a chosen shard is dealt computes it first, before thieves can steal it.
 * Another member, the verifier, computes it again without adding the result to a sum. Both put the
 * fingerprints of their results into a table that travels in the sum. Thus all members see a wrong
 * contribution before the sum that contains it is applied. To decide which of the two was wrong, every member
 * computes the shard once more (core/brain/faults/verify.c).
 *
 * Each shard has two candidates, chosen by hash among the members. If the shard is dealt, the verifier is
 * the first candidate to which it is not dealt. If the shard is held since before a repair, it is not
 * known by which member, nor whether its verifier computed it or is alive; then both candidates compute
 * it, unless they have already. Therefore every chosen shard of a sum of two or more members was computed
 * by two of them, except those of a deal in which members report what they compute (`careful` in
 * core/brain/world.h). */
#ifndef GODWIT_CORE_SHARD_DOUBLE_CHECK_H
#define GODWIT_CORE_SHARD_DOUBLE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GW_VERIFY_MOST = 64, /* most chosen shards of a step */
    GW_VERIFY_WORDS = 6, /* words of the table for each shard */
    GW_VERIFY_TABLE = GW_VERIFY_MOST * GW_VERIFY_WORDS,
    GW_VERIFY_WHOLE = 1000000,   /* the share that chooses every shard */
    GW_VERIFY_HELD = UINT32_MAX, /* instead of a position: the shard is held, not dealt */
};

/* One of the two computations of a chosen shard. */
typedef struct gw_recheck {
    uint32_t shard;
    bool again;           /* this is the computation of its verifier */
    uint64_t fingerprint; /* of the contribution (kernels/device/device.h) */
} gw_recheck;

/* Fills `chosen`, which has GW_VERIFY_MOST entries, in rising order and returns how many shards are chosen.
 * `share` is in millionths of the step's shards, at most GW_VERIFY_WHOLE. If there are more candidates than
 * entries, it depends on the step which of them are chosen. */
uint32_t gw_verify_choose(uint64_t job_key, uint32_t share, uint64_t step, uint32_t shards, uint32_t *chosen);

/* A member's part of a deal's chosen shards. */
typedef struct gw_verify_part {
    uint32_t first[GW_VERIFY_MOST], first_count; /* dealt to the member, which computes them before others */
    uint32_t again[GW_VERIFY_MOST],
        again_count; /* dealt to others or held, which the member computes again */
} gw_verify_part;

/* Computes the part of member `rank`. `positions` has the position of each of the `count` chosen shards in
 * the deal that `cuts` (members + 1 entries) cuts, or GW_VERIFY_HELD. `checks` are the member's results of
 * this step so far, which it need not compute once more. In a view of one member nothing is computed
 * again. */
void gw_verify_divide(const uint32_t *chosen, const uint32_t *positions, uint32_t count, const uint32_t *cuts,
                      uint32_t members, uint32_t rank, uint64_t step, const gw_recheck *checks,
                      uint32_t check_count, gw_verify_part *part);

/* Whether a shard is among `count` chosen shards in rising order. */
bool gw_verify_is_chosen(const uint32_t *chosen, uint32_t count, uint32_t shard);

/* Puts a member's results into its table, which has GW_VERIFY_TABLE words and is zero before: those of its
 * own shards, and those of shards that it computed again and is a candidate for. The tables of all members
 * are added. A pair of words into which several members have put something counts as empty. */
void gw_verify_put(int64_t *table, const uint32_t *chosen, uint32_t count, uint32_t members, uint32_t rank,
                   uint64_t step, const gw_recheck *checks, uint32_t check_count);

/* Two members that got different contributions of one shard. */
typedef struct gw_dispute {
    uint32_t shard;
    uint32_t ranks[2]; /* the member to which the shard was dealt, and the one that computed it again */
    uint64_t fingerprints[2];
} gw_dispute;

/* If the summed table has a dispute, returns true and stores the first one in *dispute. *again becomes the
 * number of shards of the table that `rank` computed again. */
bool gw_verify_find(const int64_t *table, const uint32_t *chosen, uint32_t count, uint32_t members,
                    uint32_t rank, gw_dispute *dispute, uint32_t *again);

/* Returns which of the two members of a dispute is wrong (0 or 1), or -1 if nobody can tell. `told[rank]` is
 * what each member gets when it computes the shard once more. The results of the other members count first.
 * If they do not decide, or there are none, then the member that gets the other one's result instead of its
 * own was wrong, provided that the other one gets its own again. */
int gw_verify_judge(const gw_dispute *dispute, const uint64_t *told, uint32_t members);

#endif
