#include "core/shard/double_check.h"

#include "core/base/assert.h"
#include "core/rng.h"

/* Words of an entry: three pairs of a member and its result. */
enum { OWNER = 0, FIRST_CANDIDATE = 2, SECOND_CANDIDATE = 4 };

/* What a member adds to its rank, so that in a sum of tables a word that none or several have written
 * shows. */
#define ONE_MEMBER ((int64_t)1 << 32)

static int64_t member_in(int64_t word, uint32_t members) {
    int64_t rank = word - ONE_MEMBER;
    return rank >= 0 && rank < (int64_t)members ? rank : -1;
}

static void sort(uint32_t *list, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && list[k - 1] > list[k]; k--) {
            uint32_t swap = list[k];
            list[k] = list[k - 1];
            list[k - 1] = swap;
        }
}

uint32_t gw_verify_choose(uint64_t job_key, uint32_t share, uint64_t step, uint32_t shards,
                          uint32_t *chosen) {
    uint64_t key = gw_mix64(gw_mix64(job_key ^ UINT64_C(0x7665726966790000)) ^ step);
    uint32_t count = 0, start = (uint32_t)(key % shards);
    for (uint32_t i = 0; i < shards && count < GW_VERIFY_MOST; i++) {
        uint32_t shard = (uint32_t)(((uint64_t)start + i) % shards);
        if (gw_mix64(key ^ shard) % GW_VERIFY_WHOLE < share) chosen[count++] = shard;
    }
    sort(chosen, count);
    return count;
}

static void candidates_of(uint32_t members, uint64_t step, uint32_t shard, uint32_t candidates[2]) {
    uint64_t lot = gw_mix64(gw_mix64(step) ^ shard);
    candidates[0] = (uint32_t)(lot % members);
    candidates[1] = (candidates[0] + 1 + (uint32_t)((lot >> 32) % (members - 1))) % members;
}

static uint32_t owner_of(uint32_t position, const uint32_t *cuts, uint32_t members) {
    uint32_t owner = 0;
    while (owner + 1 < members && position >= cuts[owner + 1]) owner++;
    return owner;
}

static bool has_check(const gw_recheck *checks, uint32_t count, uint32_t shard) {
    for (uint32_t i = 0; i < count; i++)
        if (checks[i].shard == shard) return true;
    return false;
}

void gw_verify_divide(const uint32_t *chosen, const uint32_t *positions, uint32_t count, const uint32_t *cuts,
                      uint32_t members, uint32_t rank, uint64_t step, const gw_recheck *checks,
                      uint32_t check_count, gw_verify_part *part) {
    *part = (gw_verify_part){.first_count = 0};
    for (uint32_t i = 0; i < count; i++) {
        bool held = positions[i] == GW_VERIFY_HELD;
        uint32_t owner = held ? members : owner_of(positions[i], cuts, members), candidates[2];
        if (owner == rank) part->first[part->first_count++] = chosen[i];
        if (members < 2 || has_check(checks, check_count, chosen[i])) continue;
        candidates_of(members, step, chosen[i], candidates);
        bool first = rank == candidates[0] && owner != rank, second = rank == candidates[1] && owner != rank;
        if (first || (second && (held || owner == candidates[0])))
            part->again[part->again_count++] = chosen[i];
    }
}

static uint32_t place_of(const uint32_t *chosen, uint32_t count, uint32_t shard) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (chosen[middle] < shard)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && chosen[low] == shard ? low : count;
}

bool gw_verify_is_chosen(const uint32_t *chosen, uint32_t count, uint32_t shard) {
    return place_of(chosen, count, shard) < count;
}

static void put_pair(int64_t *pair, uint32_t rank, uint64_t fingerprint) {
    pair[0] = ONE_MEMBER + rank;
    pair[1] = (int64_t)fingerprint;
}

void gw_verify_put(int64_t *table, const uint32_t *chosen, uint32_t count, uint32_t members, uint32_t rank,
                   uint64_t step, const gw_recheck *checks, uint32_t check_count) {
    GW_ASSERT(count <= GW_VERIFY_MOST);
    for (uint32_t i = 0; i < check_count; i++) {
        uint32_t place = place_of(chosen, count, checks[i].shard), candidates[2];
        if (place == count) continue;
        int64_t *entry = table + (uint64_t)place * GW_VERIFY_WORDS;
        if (!checks[i].again) {
            put_pair(entry + OWNER, rank, checks[i].fingerprint);
            continue;
        }
        if (members < 2) continue;
        candidates_of(members, step, checks[i].shard, candidates);
        if (rank == candidates[0]) put_pair(entry + FIRST_CANDIDATE, rank, checks[i].fingerprint);
        if (rank == candidates[1]) put_pair(entry + SECOND_CANDIDATE, rank, checks[i].fingerprint);
    }
}

/* Whether the result of a candidate differs from that of the shard's owner. *again counts those of `rank`. */
static bool differs(const int64_t *entry, int candidate, uint32_t members, uint32_t rank, uint32_t *again) {
    int64_t owner = member_in(entry[OWNER], members), verifier = member_in(entry[candidate], members);
    if (owner < 0 || verifier < 0 || owner == verifier) return false;
    *again += verifier == rank;
    return entry[OWNER + 1] != entry[candidate + 1];
}

bool gw_verify_find(const int64_t *table, const uint32_t *chosen, uint32_t count, uint32_t members,
                    uint32_t rank, gw_dispute *dispute, uint32_t *again) {
    bool found = false;
    *again = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t *entry = table + (uint64_t)i * GW_VERIFY_WORDS;
        for (int candidate = FIRST_CANDIDATE; candidate <= SECOND_CANDIDATE; candidate += 2) {
            if (!differs(entry, candidate, members, rank, again) || found) continue;
            found = true;
            *dispute =
                (gw_dispute){.shard = chosen[i],
                             .ranks = {(uint32_t)member_in(entry[OWNER], members),
                                       (uint32_t)member_in(entry[candidate], members)},
                             .fingerprints = {(uint64_t)entry[OWNER + 1], (uint64_t)entry[candidate + 1]}};
        }
    }
    return found;
}

int gw_verify_judge(const gw_dispute *d, const uint64_t *told, uint32_t members) {
    uint32_t for_them[2] = {0, 0};
    for (uint32_t rank = 0; rank < members; rank++)
        for (int i = 0; i < 2; i++)
            for_them[i] += rank != d->ranks[0] && rank != d->ranks[1] && told[rank] == d->fingerprints[i];
    if (for_them[0] != for_them[1]) return for_them[0] < for_them[1] ? 0 : 1;
    for (int i = 0; i < 2; i++) {
        uint64_t others = d->fingerprints[1 - i];
        if (told[d->ranks[i]] == others && told[d->ranks[1 - i]] == others) return i;
    }
    return -1;
}
