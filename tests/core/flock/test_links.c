/* The links that members keep: few to each, and all are reached over them. */
#include "core/flock/links.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { MEMBERS = 500 };

typedef struct flock {
    gw_peer_id ids[MEMBERS];
    uint32_t count;
    bool linked[MEMBERS][MEMBERS]; /* the first one keeps the link */
} flock;

static flock *open_flock(uint32_t count) {
    flock *f = calloc(1, sizeof *f);
    gw_rng rng = gw_rng_seeded(count);
    cr_assert_not_null(f);
    f->count = count;
    for (uint32_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof f->ids[i].bytes; k++)
            f->ids[i].bytes[k] = (uint8_t)gw_rng_below(&rng, 256);
    return f;
}

/* Chooses for one member among those that live; returns how many it keeps. */
static uint32_t choose(flock *f, uint32_t number, const bool *live) {
    gw_peer_id others[MEMBERS];
    uint32_t numbers[MEMBERS], count = 0, chosen[GW_FLOCK_LINKS_ALL];
    for (uint32_t i = 0; i < f->count; i++) {
        f->linked[number][i] = false;
        if (i == number || !live[i]) continue;
        others[count] = f->ids[i];
        numbers[count++] = i;
    }
    uint32_t got = gw_flock_links_choose(&f->ids[number], others, count, chosen);
    for (uint32_t i = 0; i < got; i++) f->linked[number][numbers[chosen[i]]] = true;
    return got;
}

static uint32_t choose_all(flock *f, const bool *live) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t got = live[i] ? choose(f, i, live) : 0;
        if (got > most) most = got;
    }
    return most;
}

static bool is_linked(const flock *f, uint32_t a, uint32_t b) {
    return f->linked[a][b] || f->linked[b][a];
}

/* How many links away the farthest member is from the first one; MEMBERS: one is not reached. */
static uint32_t farthest(const flock *f, const bool *live) {
    uint32_t away[MEMBERS], last = 0, first = 0;
    while (!live[first]) first++;
    for (uint32_t i = 0; i < f->count; i++) away[i] = i == first ? 0 : MEMBERS;
    for (uint32_t step = 0; step < MEMBERS; step++)
        for (uint32_t a = 0; a < f->count; a++)
            for (uint32_t b = 0; away[a] == step && b < f->count; b++)
                if (live[b] && away[b] == MEMBERS && is_linked(f, a, b)) away[b] = last = step + 1;
    for (uint32_t i = 0; i < f->count; i++)
        if (live[i] && away[i] == MEMBERS) return MEMBERS;
    return last;
}

Test(links, of_a_small_flock_go_to_all) {
    bool live[MEMBERS];
    for (uint32_t i = 0; i < MEMBERS; i++) live[i] = true;
    for (uint32_t count = 1; count <= GW_FLOCK_LINKS_ALL + 1; count += 8) {
        flock *f = open_flock(count);
        cr_expect_eq(choose_all(f, live), count - 1);
        free(f);
    }
}

Test(links, of_a_large_flock_are_few_and_reach_all_by_few_others) {
    bool live[MEMBERS];
    flock *f = open_flock(MEMBERS);
    for (uint32_t i = 0; i < MEMBERS; i++) live[i] = true;
    cr_expect_eq(choose_all(f, live), GW_FLOCK_LINKS);
    uint32_t most = 0, sum = 0;
    for (uint32_t a = 0; a < MEMBERS; a++) {
        uint32_t links = 0;
        for (uint32_t b = 0; b < MEMBERS; b++) links += is_linked(f, a, b);
        sum += links;
        if (links > most) most = links;
    }
    cr_expect_leq(sum, 13 * MEMBERS);
    cr_expect_leq(most, 32);
    cr_expect_leq(farthest(f, live), 5);
    free(f);
}

/* When members end, a link is kept by those that kept it, and the others are few. */
Test(links, change_little_when_members_come_and_go) {
    bool live[MEMBERS];
    flock *before = open_flock(MEMBERS), *after = open_flock(MEMBERS);
    for (uint32_t i = 0; i < MEMBERS; i++) live[i] = true;
    choose_all(before, live);
    for (uint32_t i = 0; i < MEMBERS; i += 10) live[i] = false;
    choose_all(after, live);
    uint32_t gone = 0, fresh = 0;
    for (uint32_t a = 0; a < MEMBERS; a++)
        for (uint32_t b = 0; b < MEMBERS; b++) {
            if (!live[a] || !live[b]) continue;
            gone += before->linked[a][b] && !after->linked[a][b];
            fresh += !before->linked[a][b] && after->linked[a][b];
        }
    cr_expect_leq(gone, MEMBERS / 10, "only where the next one by id is another");
    cr_expect_leq(fresh, MEMBERS);
    cr_expect_lt(farthest(after, live), MEMBERS);
    free(before);
    free(after);
}
