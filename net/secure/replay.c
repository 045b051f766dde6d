#include "net/secure/replay.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { SEEN_WORDS = GW_REPLAY_WINDOW / 64, BUCKETS = 4096 };

typedef struct life life;
struct life {
    life *next;          /* the next in its bucket */
    life *newer, *older; /* neighbours in the order in which the lives were last heard */
    gw_peer_id sender;
    uint64_t boot, nonce, newest;
    uint64_t seen[SEEN_WORDS]; /* bit (counter % window) for counters in (newest - window, newest] */
};

struct gw_replay {
    life *buckets[BUCKETS];
    life recent; /* a ring: recent.older was heard last, recent.newer has not been heard for longest */
    size_t lives, capacity;
};

gw_replay *gw_replay_open(size_t lives, gw_err *err) {
    GW_ASSERT(lives > 0);
    gw_replay *replay = calloc(1, sizeof *replay);
    if (replay == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for the replay windows");
        return NULL;
    }
    replay->capacity = lives;
    replay->recent.newer = replay->recent.older = &replay->recent;
    return replay;
}

static life **bucket_of(gw_replay *replay, const gw_peer_id *sender) {
    return &replay->buckets[(sender->bytes[0] | sender->bytes[1] << 8) %
                            BUCKETS]; /* ids are hashes, so their bits are random */
}

static void leave_ring(life *at) {
    at->newer->older = at->older;
    at->older->newer = at->newer;
}

static void heard(gw_replay *replay, life *at) {
    at->newer = &replay->recent;
    at->older = replay->recent.older;
    at->older->newer = at;
    replay->recent.older = at;
}

static void forget(gw_replay *replay, life *at) {
    life **link = bucket_of(replay, &at->sender);
    while (*link != at) link = &(*link)->next;
    *link = at->next;
    leave_ring(at);
    free(at);
    replay->lives--;
}

void gw_replay_close(gw_replay *replay) {
    if (replay == NULL) return;
    while (replay->recent.newer != &replay->recent) forget(replay, replay->recent.newer);
    GW_ASSERT(replay->lives == 0);
    free(replay);
}

static bool seen_before(const life *at, uint64_t counter) {
    if (counter > at->newest) return false;
    if (at->newest - counter >= GW_REPLAY_WINDOW) return true;
    return (at->seen[counter % GW_REPLAY_WINDOW / 64] >> (counter % 64) & 1) != 0;
}

static void mark(life *at, uint64_t counter) {
    if (counter > at->newest) {
        if (counter - at->newest >= GW_REPLAY_WINDOW)
            memset(at->seen, 0, sizeof at->seen);
        else
            for (uint64_t c = at->newest + 1; c <= counter; c++)
                at->seen[c % GW_REPLAY_WINDOW / 64] &= ~(UINT64_C(1) << (c % 64));
        at->newest = counter;
    }
    at->seen[counter % GW_REPLAY_WINDOW / 64] |= UINT64_C(1) << (counter % 64);
}

/* Finds the life with this nonce, and forgets the sender's lives of older boots. *outdated becomes true if
 * one of a newer boot is known. */
static life *find(gw_replay *replay, const gw_peer_id *sender, uint64_t boot, uint64_t nonce,
                  bool *outdated) {
    life *found = NULL;
    for (life *at = *bucket_of(replay, sender), *next; at != NULL; at = next) {
        next = at->next;
        if (!gw_peer_id_equal(&at->sender, sender)) continue;
        if (at->boot > boot) *outdated = true;
        if (at->boot < boot)
            forget(replay, at);
        else if (at->boot == boot && at->nonce == nonce)
            found = at;
    }
    return found;
}

static life *remember(gw_replay *replay, const gw_peer_id *sender, uint64_t boot, uint64_t nonce) {
    if (replay->lives == replay->capacity) forget(replay, replay->recent.newer);
    life *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL) return NULL;
    life **bucket = bucket_of(replay, sender);
    *fresh = (life){.next = *bucket, .sender = *sender, .boot = boot, .nonce = nonce};
    *bucket = fresh;
    heard(replay, fresh);
    replay->lives++;
    return fresh;
}

gw_replay_verdict gw_replay_accept(gw_replay *replay, const gw_peer_id *sender, uint64_t boot, uint64_t nonce,
                                   uint64_t counter) {
    bool outdated = false;
    life *at = find(replay, sender, boot, nonce, &outdated);
    if (outdated) return GW_REPLAY_OUTDATED;
    if (at == NULL) at = remember(replay, sender, boot, nonce);
    if (at == NULL) return GW_REPLAY_SEEN; /* out of memory: a lost packet is the lesser harm */
    leave_ring(at);
    heard(replay, at);
    if (counter == 0 || seen_before(at, counter)) return GW_REPLAY_SEEN; /* counters begin at 1 */
    mark(at, counter);
    return GW_REPLAY_FRESH;
}
