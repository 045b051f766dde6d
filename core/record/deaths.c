#include "core/record/deaths.h"

static bool same_life(const gw_shard_death *a, const gw_shard_death *b) {
    return gw_peer_id_equal(&a->id, &b->id) && a->boot == b->boot && a->serial == b->serial;
}

bool gw_shard_deaths_add(gw_shard_deaths *deaths, const gw_shard_death *death) {
    bool known = death->shard != GW_SHARD_ANY;
    uint32_t kept = 0;
    if (death->boot > UINT32_MAX) return false; /* no peer starts so often */
    for (uint32_t i = 0; i < deaths->count; i++) {
        const gw_shard_death *one = &deaths->list[i];
        if (same_life(one, death)) {
            bool earlier = one->step < death->step;
            if (one->step > death->step || (!earlier && (!known || one->shard == death->shard))) return false;
            if (earlier || one->shard == GW_SHARD_ANY) continue;
        }
        deaths->list[kept++] = *one;
    }
    deaths->count = kept;
    if (kept == GW_MAX_SHARD_DEATHS) return false;
    deaths->list[deaths->count++] = *death;
    return true;
}

bool gw_shard_deaths_unite(gw_shard_deaths *into, const gw_shard_deaths *more) {
    bool changed = false;
    for (uint32_t i = 0; i < more->count; i++) changed |= gw_shard_deaths_add(into, &more->list[i]);
    return changed;
}

bool gw_shard_deaths_forget_before(gw_shard_deaths *deaths, uint64_t step) {
    uint32_t kept = 0, before = deaths->count;
    for (uint32_t i = 0; i < before; i++)
        if (deaths->list[i].step >= step) deaths->list[kept++] = deaths->list[i];
    deaths->count = kept;
    return kept != before;
}

bool gw_shard_deaths_in_step(const gw_shard_deaths *deaths, uint64_t step) {
    for (uint32_t i = 0; i < deaths->count; i++)
        if (deaths->list[i].step == step && deaths->list[i].serial == 0) return true;
    return false;
}

/* A life that computed several shards has an entry for each, and counts once. */
uint32_t gw_shard_deaths_lives(const gw_shard_deaths *deaths, const gw_peer_id *id, uint64_t step) {
    uint32_t lives = 0;
    for (uint32_t i = 0; i < deaths->count; i++) {
        const gw_shard_death *one = &deaths->list[i];
        bool counts = one->step == step && one->serial == 0 && gw_peer_id_equal(&one->id, id);
        for (uint32_t k = 0; k < i && counts; k++) counts = !same_life(&deaths->list[k], one);
        lives += counts;
    }
    return lives;
}

bool gw_shard_deaths_lacks_shard(const gw_shard_deaths *deaths, const gw_peer_id *id, uint64_t boot,
                                 uint64_t step) {
    const gw_shard_death sought = {.id = *id, .boot = boot};
    for (uint32_t i = 0; i < deaths->count; i++) {
        const gw_shard_death *one = &deaths->list[i];
        if (one->step == step && one->shard == GW_SHARD_ANY && same_life(one, &sought)) return true;
    }
    return false;
}

static bool is_at(const gw_shard_death *one, uint64_t step, uint32_t shard) {
    return one->step == step && one->shard == shard;
}

/* How many of the lives of the peer of entry `first` count that ended at this shard; 0 if an earlier entry of
 * the shard is of the same peer. Entries are distinct, so each entry of a shard is another life. */
static uint32_t lives_of_peer(const gw_shard_deaths *deaths, uint32_t first, bool alone) {
    enum { MOST = GW_POISON_DEATHS - 1 };
    const gw_shard_death *of = &deaths->list[first];
    uint32_t all = 0, own = 0;
    for (uint32_t i = 0; i < deaths->count; i++) {
        const gw_shard_death *one = &deaths->list[i];
        if (!is_at(one, of->step, of->shard) || !gw_peer_id_equal(&one->id, &of->id)) continue;
        if (i < first) return 0;
        all++;
        own += one->serial == 0;
    }
    if (alone || all <= MOST) return all;
    return own > MOST ? own : MOST;
}

static uint32_t lives_lost_at(const gw_shard_deaths *deaths, uint64_t step, uint32_t shard, bool alone) {
    uint32_t lives = 0;
    for (uint32_t i = 0; i < deaths->count; i++)
        if (is_at(&deaths->list[i], step, shard)) lives += lives_of_peer(deaths, i, alone);
    return lives;
}

/* Whether a worker process has ended at the shard. */
static bool ended_process(const gw_shard_deaths *deaths, uint64_t step, uint32_t shard) {
    for (uint32_t i = 0; i < deaths->count; i++)
        if (is_at(&deaths->list[i], step, shard) && deaths->list[i].serial != 0) return true;
    return false;
}

static void add_tie(gw_poison *poison, uint32_t shard) {
    const uint32_t most = GW_POISON_NAMED - 1;
    uint32_t at = poison->ties < most ? poison->ties : most;
    poison->ties++;
    for (; at > 0 && poison->tied[at - 1] > shard; at--)
        if (at < most) poison->tied[at] = poison->tied[at - 1];
    if (at < most) poison->tied[at] = shard;
}

bool gw_shard_deaths_poison(const gw_shard_deaths *deaths, uint64_t step, bool alone, gw_poison *poison) {
    *poison = (gw_poison){.step = UINT64_MAX};
    for (uint32_t i = 0; i < deaths->count; i++) {
        const gw_shard_death *one = &deaths->list[i];
        if (one->shard == GW_SHARD_ANY || one->step < step || one->step > poison->step) continue;
        bool same_step = one->step == poison->step;
        if (same_step && one->shard == poison->shard) continue;
        uint32_t lives = lives_lost_at(deaths, one->step, one->shard, alone);
        if (!ended_process(deaths, one->step, one->shard))
            lives += lives_lost_at(deaths, one->step, GW_SHARD_ANY, alone) > 0;
        if (lives < GW_POISON_DEATHS || (same_step && lives < poison->lives)) continue;
        if (!same_step || lives > poison->lives || one->shard < poison->shard)
            *poison = (gw_poison){.step = one->step, .shard = one->shard, .lives = lives};
    }
    for (uint32_t i = 0; i < deaths->count && poison->lives > 0; i++) {
        const gw_shard_death *one = &deaths->list[i];
        bool first = one->step == poison->step && one->shard != GW_SHARD_ANY && one->shard != poison->shard;
        for (uint32_t k = 0; k < i && first; k++)
            first = deaths->list[k].step != one->step || deaths->list[k].shard != one->shard;
        if (first && lives_lost_at(deaths, one->step, one->shard, alone) ==
                         lives_lost_at(deaths, one->step, poison->shard, alone))
            add_tie(poison, one->shard);
    }
    return poison->lives > 0;
}

void gw_shard_deaths_put(gw_writer *w, const gw_shard_deaths *deaths) {
    gw_put_u32(w, deaths->count);
    for (uint32_t i = 0; i < deaths->count; i++) {
        const gw_shard_death *one = &deaths->list[i];
        gw_put_peer_id(w, &one->id);
        gw_put_u64(w, one->boot | (uint64_t)one->serial << 32);
        gw_put_u64(w, one->step);
        gw_put_u32(w, one->shard);
    }
}

void gw_shard_deaths_get(gw_reader *r, gw_shard_deaths *deaths) {
    *deaths = (gw_shard_deaths){0};
    uint32_t count = gw_get_u32(r);
    if (count > GW_MAX_SHARD_DEATHS) r->failed = true;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_shard_death one;
        gw_get_peer_id(r, &one.id);
        uint64_t life = gw_get_u64(r);
        one.boot = (uint32_t)life;
        one.serial = (uint32_t)(life >> 32);
        one.step = gw_get_u64(r);
        one.shard = gw_get_u32(r);
        if (!r->failed && (!gw_shard_deaths_add(deaths, &one) || deaths->count != i + 1)) r->failed = true;
    }
}
