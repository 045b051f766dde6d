#include "core/verify.h"

#include "core/check.h"
#include "core/rng.h"

enum { OWNER, OWNER_VALUE, VERIFIER, VERIFIER_VALUE }; /* words of an entry */

/* A member in a sum of tables; -1 when none or several have put themselves there. */
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

/* Any member but the one it is dealt to. */
static uint32_t verifier_of(uint32_t owner, uint32_t members, uint64_t step, uint32_t shard) {
    uint64_t lot = gw_mix64(gw_mix64(step) ^ shard);
    return (owner + 1 + (uint32_t)(lot % (members - 1))) % members;
}

void gw_verify_divide(const uint32_t *chosen, const uint32_t *positions, uint32_t count, const uint32_t *cuts,
                      uint32_t members, uint32_t rank, uint64_t step, gw_verify_part *part) {
    *part = (gw_verify_part){.first_count = 0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t owner = 0;
        while (owner + 1 < members && positions[i] >= cuts[owner + 1]) owner++;
        if (owner == rank) part->first[part->first_count++] = chosen[i];
        if (members > 1 && verifier_of(owner, members, step, chosen[i]) == rank)
            part->again[part->again_count++] = chosen[i];
    }
}

void gw_verify_carry_over(const gw_verify_part *before, uint32_t next, const uint32_t *dealt, uint32_t count,
                          gw_verify_part *part) {
    for (uint32_t i = next; i < before->again_count; i++) {
        if (gw_verify_is_chosen(dealt, count, before->again[i])) continue;
        GW_CHECK(part->again_count < GW_VERIFY_MOST);
        part->again[part->again_count++] = before->again[i];
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

void gw_verify_put(int64_t *table, const uint32_t *chosen, uint32_t count, uint32_t rank,
                   const gw_check *checks, uint32_t check_count) {
    GW_CHECK(count <= GW_VERIFY_MOST);
    for (uint32_t i = 0; i < check_count; i++) {
        uint32_t place = place_of(chosen, count, checks[i].shard);
        if (place == count) continue;
        int64_t *entry = table + (uint64_t)place * GW_VERIFY_WORDS;
        entry[checks[i].again ? VERIFIER : OWNER] = ONE_MEMBER + rank;
        entry[checks[i].again ? VERIFIER_VALUE : OWNER_VALUE] = (int64_t)checks[i].fingerprint;
    }
}

bool gw_verify_find(const int64_t *table, const uint32_t *chosen, uint32_t count, uint32_t members,
                    uint32_t rank, gw_dispute *dispute, uint32_t *again) {
    bool found = false;
    *again = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t *entry = table + (uint64_t)i * GW_VERIFY_WORDS;
        int64_t owner = member_in(entry[OWNER], members), verifier = member_in(entry[VERIFIER], members);
        if (owner < 0 || verifier < 0 || owner == verifier) continue; /* its verifier died, for one */
        *again += verifier == rank;
        if (found || entry[OWNER_VALUE] == entry[VERIFIER_VALUE]) continue;
        found = true;
        *dispute =
            (gw_dispute){.shard = chosen[i],
                         .ranks = {(uint32_t)owner, (uint32_t)verifier},
                         .fingerprints = {(uint64_t)entry[OWNER_VALUE], (uint64_t)entry[VERIFIER_VALUE]}};
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
