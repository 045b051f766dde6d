#include "core/record/losses.h"

static bool same_life(const gw_loss *a, const gw_loss *b) {
    return gw_peer_id_equal(&a->id, &b->id) && a->boot == b->boot;
}

bool gw_losses_add(gw_losses *losses, const gw_loss *loss) {
    bool known = loss->shard != GW_LOSS_ANY;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < losses->count; i++) {
        const gw_loss *one = &losses->list[i];
        if (same_life(one, loss)) {
            bool earlier = one->step < loss->step;
            if (one->step > loss->step || (!earlier && (!known || one->shard == loss->shard))) return false;
            if (earlier || one->shard == GW_LOSS_ANY) continue;
        }
        losses->list[kept++] = *one;
    }
    losses->count = kept;
    if (kept == GW_MAX_LOSSES) return false;
    losses->list[losses->count++] = *loss;
    return true;
}

bool gw_losses_unite(gw_losses *into, const gw_losses *more) {
    bool changed = false;
    for (uint32_t i = 0; i < more->count; i++) changed |= gw_losses_add(into, &more->list[i]);
    return changed;
}

bool gw_losses_forget_before(gw_losses *losses, uint64_t step) {
    uint32_t kept = 0, before = losses->count;
    for (uint32_t i = 0; i < before; i++)
        if (losses->list[i].step >= step) losses->list[kept++] = losses->list[i];
    losses->count = kept;
    return kept != before;
}

bool gw_losses_in_step(const gw_losses *losses, uint64_t step) {
    for (uint32_t i = 0; i < losses->count; i++)
        if (losses->list[i].step == step) return true;
    return false;
}

/* One life may have been at several shards. */
uint32_t gw_losses_lives(const gw_losses *losses, const gw_peer_id *id, uint64_t step) {
    uint32_t lives = 0;
    for (uint32_t i = 0; i < losses->count; i++) {
        const gw_loss *one = &losses->list[i];
        bool counts = one->step == step && gw_peer_id_equal(&one->id, id);
        for (uint32_t k = 0; k < i && counts; k++) counts = !same_life(&losses->list[k], one);
        lives += counts;
    }
    return lives;
}

bool gw_losses_lacks_shard(const gw_losses *losses, const gw_peer_id *id, uint64_t boot, uint64_t step) {
    const gw_loss sought = {.id = *id, .boot = boot};
    for (uint32_t i = 0; i < losses->count; i++) {
        const gw_loss *one = &losses->list[i];
        if (one->step == step && one->shard == GW_LOSS_ANY && same_life(one, &sought)) return true;
    }
    return false;
}

/* Entries are distinct: each of a shard is another life. */
static uint32_t lives_lost_at(const gw_losses *losses, uint64_t step, uint32_t shard) {
    uint32_t lives = 0;
    for (uint32_t i = 0; i < losses->count; i++)
        lives += losses->list[i].step == step && losses->list[i].shard == shard;
    return lives;
}

static void add_tie(gw_poison *poison, uint32_t shard) {
    const uint32_t most = GW_POISON_NAMED - 1;
    uint32_t at = poison->ties < most ? poison->ties : most;
    poison->ties++;
    for (; at > 0 && poison->tied[at - 1] > shard; at--)
        if (at < most) poison->tied[at] = poison->tied[at - 1];
    if (at < most) poison->tied[at] = shard;
}

bool gw_losses_poison(const gw_losses *losses, uint64_t step, gw_poison *poison) {
    *poison = (gw_poison){.step = UINT64_MAX};
    for (uint32_t i = 0; i < losses->count; i++) {
        const gw_loss *one = &losses->list[i];
        if (one->shard == GW_LOSS_ANY || one->step < step || one->step > poison->step) continue;
        uint32_t lives = lives_lost_at(losses, one->step, one->shard) +
                         (lives_lost_at(losses, one->step, GW_LOSS_ANY) > 0);
        if (lives < GW_POISON_LOSSES) continue;
        bool same_step = one->step == poison->step;
        if (same_step && (lives < poison->lives || one->shard == poison->shard)) continue;
        if (!same_step || lives > poison->lives || one->shard < poison->shard)
            *poison = (gw_poison){.step = one->step, .shard = one->shard, .lives = lives};
    }
    for (uint32_t i = 0; i < losses->count && poison->lives > 0; i++) {
        const gw_loss *one = &losses->list[i];
        bool first = one->step == poison->step && one->shard != GW_LOSS_ANY && one->shard != poison->shard;
        for (uint32_t k = 0; k < i && first; k++)
            first = losses->list[k].step != one->step || losses->list[k].shard != one->shard;
        if (first &&
            lives_lost_at(losses, one->step, one->shard) == lives_lost_at(losses, one->step, poison->shard))
            add_tie(poison, one->shard);
    }
    return poison->lives > 0;
}

void gw_losses_put(gw_writer *w, const gw_losses *losses) {
    gw_put_u32(w, losses->count);
    for (uint32_t i = 0; i < losses->count; i++) {
        const gw_loss *one = &losses->list[i];
        gw_put_peer_id(w, &one->id);
        gw_put_u64(w, one->boot);
        gw_put_u64(w, one->step);
        gw_put_u32(w, one->shard);
    }
}

void gw_losses_get(gw_reader *r, gw_losses *losses) {
    *losses = (gw_losses){0};
    uint32_t count = gw_get_u32(r);
    if (count > GW_MAX_LOSSES) r->failed = true;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_loss one;
        gw_get_peer_id(r, &one.id);
        one.boot = gw_get_u64(r);
        one.step = gw_get_u64(r);
        one.shard = gw_get_u32(r);
        if (!r->failed && (!gw_losses_add(losses, &one) || losses->count != i + 1)) r->failed = true;
    }
}
