#include "tools/godwit/node/cards.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/os/priority.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_NS  UINT64_C(1000000000)
#define LOOKED_NS UINT64_C(3000000000) /* somebody has looked: others are asked for so long */

/* What is asked of one peer, and what it has answered last. */
typedef struct slot {
    gw_data_op op; /* must come first */
    gw_cards *cards;
    gw_peer_id peer;
    bool taken;      /* the members above are those of a peer */
    bool asked;      /* an operation is under way, and the bytes belong to the transport */
    bool seen;       /* the peer was on the last list */
    uint64_t got_ns; /* when the card came; 0: none has */
    gw_card card;
    uint8_t bytes[GW_CARD_BYTES];
} slot;

struct gw_cards {
    gw_data_links *const *links;
    gw_board *board;
    pthread_t thread;
    gw_node_snapshot *snapshot; /* the thread's */
    pthread_mutex_t lock;       /* guards the members below */
    pthread_cond_t changed;
    uint64_t looked_ns; /* when somebody has looked last; 0: nobody has */
    bool stopped, joined;
    slot slots[GW_SNAPSHOT_PEERS];
};

static void answered(gw_data_op *op, const gw_completion *completion) {
    slot *s = (slot *)op;
    gw_cards *cards = s->cards;
    gw_card card;
    bool good = completion->status == GW_OP_OK && completion->value <= GW_CARD_BYTES &&
                gw_card_get(s->bytes, completion->value, &card);
    pthread_mutex_lock(&cards->lock);
    if (good) {
        s->card = card;
        s->got_ns = gw_now_ns();
    }
    s->asked = false;
    pthread_cond_broadcast(&cards->changed);
    pthread_mutex_unlock(&cards->lock);
}

/* Finds the slot of a peer, or takes a free one; NULL: all have to wait for silent peers. */
static slot *slot_of(gw_cards *cards, const gw_peer_id *peer) {
    slot *free_one = NULL;
    for (uint32_t i = 0; i < GW_SNAPSHOT_PEERS; i++) {
        slot *s = &cards->slots[i];
        if (s->taken && gw_peer_id_equal(&s->peer, peer)) return s;
        if (!s->asked && (!s->taken || !s->seen)) free_one = s;
    }
    if (free_one == NULL) return NULL;
    *free_one = (slot){.op = {.done = answered}, .cards = cards, .peer = *peer, .taken = true};
    return free_one;
}

static void ask(gw_cards *cards) {
    gw_node_snapshot *snapshot = cards->snapshot;
    gw_board_copy(cards->board, snapshot);
    pthread_mutex_lock(&cards->lock);
    for (uint32_t i = 0; i < GW_SNAPSHOT_PEERS; i++) cards->slots[i].seen = false;
    for (uint32_t i = 0; i < snapshot->peer_count; i++) {
        const gw_snapshot_peer *peer = &snapshot->peers[i];
        if (peer->self || peer->path[0] == '\0') continue;
        slot *s = slot_of(cards, &peer->id);
        if (s == NULL) continue;
        s->seen = true;
        if (s->asked) continue;
        s->asked = true;
        gw_op request = {.kind = GW_OP_FETCH,
                         .peer = peer->id,
                         .buffer = s->bytes,
                         .bytes = sizeof s->bytes,
                         .name = gw_card_name()};
        pthread_mutex_unlock(&cards->lock); /* the answer may come at once, on this thread */
        gw_data_links_post(*cards->links, &request, &s->op);
        pthread_mutex_lock(&cards->lock);
    }
    pthread_mutex_unlock(&cards->lock);
}

static void *run(void *context) {
    gw_cards *cards = context;
    uint64_t next_ns = 0;
    gw_priority_lower();
    pthread_mutex_lock(&cards->lock);
    while (!cards->stopped) {
        uint64_t now = gw_now_ns();
        bool looked = cards->looked_ns != 0 && now < cards->looked_ns + LOOKED_NS;
        if (!looked || now < next_ns) {
            gw_cond_wait_until(&cards->changed, &cards->lock, looked ? next_ns : UINT64_MAX);
            continue;
        }
        pthread_mutex_unlock(&cards->lock);
        ask(cards);
        next_ns = now + EVERY_NS;
        pthread_mutex_lock(&cards->lock);
    }
    pthread_mutex_unlock(&cards->lock);
    return NULL;
}

static uint32_t copy(void *context, gw_api_card *list, uint32_t most) {
    gw_cards *cards = context;
    uint64_t now = gw_now_ns();
    uint32_t count = 0;
    pthread_mutex_lock(&cards->lock);
    bool asleep = cards->looked_ns == 0 || now >= cards->looked_ns + LOOKED_NS;
    cards->looked_ns = now;
    if (asleep) pthread_cond_broadcast(&cards->changed);
    for (uint32_t i = 0; i < GW_SNAPSHOT_PEERS && count < most; i++) {
        const slot *s = &cards->slots[i];
        if (!s->taken || s->got_ns == 0) continue;
        list[count++] = (gw_api_card){s->peer, (double)(now - s->got_ns) * 1e-9, s->card};
    }
    pthread_mutex_unlock(&cards->lock);
    return count;
}

gw_api_cards gw_cards_source(gw_cards *cards) {
    return (gw_api_cards){.context = cards, .copy = copy};
}

gw_cards *gw_cards_open(gw_data_links *const *links, gw_board *board, gw_err *err) {
    gw_cards *cards = calloc(1, sizeof *cards);
    gw_node_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (cards == NULL || snapshot == NULL) {
        free(cards);
        free(snapshot);
        gw_fail(err, GW_E_NOMEM, "cards: out of memory");
        return NULL;
    }
    cards->links = links;
    cards->board = board;
    cards->snapshot = snapshot;
    pthread_mutex_init(&cards->lock, NULL);
    gw_cond_init(&cards->changed);
    int failed = pthread_create(&cards->thread, NULL, run, cards);
    if (failed == 0) {
        pthread_setname_np(cards->thread, "gw-cards");
        return cards;
    }
    cards->joined = true;
    gw_cards_close(cards);
    gw_fail_errno(err, failed, "cards: cannot start a thread");
    return NULL;
}

void gw_cards_stop(gw_cards *cards) {
    if (cards == NULL || cards->joined) return;
    pthread_mutex_lock(&cards->lock);
    cards->stopped = true;
    pthread_cond_broadcast(&cards->changed);
    pthread_mutex_unlock(&cards->lock);
    pthread_join(cards->thread, NULL);
    cards->joined = true;
}

void gw_cards_close(gw_cards *cards) {
    if (cards == NULL) return;
    gw_cards_stop(cards);
    pthread_mutex_lock(&cards->lock);
    for (uint32_t i = 0; i < GW_SNAPSHOT_PEERS; i++)
        while (cards->slots[i].asked) pthread_cond_wait(&cards->changed, &cards->lock);
    pthread_mutex_unlock(&cards->lock);
    pthread_cond_destroy(&cards->changed);
    pthread_mutex_destroy(&cards->lock);
    free(cards->snapshot);
    free(cards);
}
