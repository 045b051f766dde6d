/* The brain of a peer among others that send it anything at all: two real ones in a world where all work is
 * done at once, and messages and datagrams that neither has sent.
 *
 * An input is a script: an operation u8, the length u16 of what follows, and that. Between operations the
 * world goes on for a while. Whatever comes, a brain may end the job, leave, or go on, but break no
 * invariant. */
#include "core/message.h"
#include "core/peer.h"
#include "core/range.h"
#include "core/rng.h"
#include "target.h"

#include <stdlib.h>
#include <string.h>

enum {
    BRAINS = 2,
    SHARDS = 6,
    CHUNKS = 2,
    STEPS = 6,
    EVENTS_MOST = 3000,
    QUEUE = 4096,
    HEAD = 3,
    PATIENCE_S = 10
};
enum { SAY_RAW, SAY_FITTING, DATAGRAM, BREAK_LINK, ASK, OPERATIONS };
#define SECOND_NS UINT64_C(1000000000)

typedef struct queued {
    uint32_t to;
    gw_event event;
    void *owned; /* what the event points to */
    gw_set held;
} queued;

typedef struct brain {
    gw_peer *peer;
    gw_peer_config config;
    gw_actions actions;
    gw_view view; /* epoch 0: the fence is closed */
    uint64_t word, step, computed_step;
    gw_set computed;
    gw_token reducing;
    int64_t slots[GW_SLOTS];
    bool finished;
} brain;

typedef struct world {
    brain brains[BRAINS];
    bool linked;
    uint64_t now;
    queued queue[QUEUE];
    uint32_t first, count, handled;
    fuzz_add *add; /* who hears of all that is said, or NULL */
    void *context;
} world;

static uint32_t shards_of(const void *context, uint64_t step) {
    (void)context, (void)step;
    return SHARDS;
}

static uint64_t state_after(uint64_t steps) {
    return gw_mix64(steps + 1) | 1;
}

/* What is over the queue's room is lost: then the world stands still, which is no fault of a brain. */
static queued *tell(world *w, uint32_t to, gw_event event) {
    static queued none;
    if (w->count == QUEUE) return &none;
    queued *q = &w->queue[(w->first + w->count++) % QUEUE];
    *q = (queued){.to = to, .event = event};
    return q;
}

static void tell_bytes(world *w, uint32_t to, gw_event event, const void *bytes, size_t length) {
    queued *q = tell(w, to, event);
    if (q->event.kind != event.kind) return;
    q->owned = malloc(length + 1);
    GW_CHECK_MEMORY(q->owned != NULL);
    memcpy(q->owned, bytes, length);
    q->event.bytes = q->owned;
    q->event.length = length;
}

static int number_of(const world *w, const gw_peer_id *id) {
    for (uint32_t i = 0; i < BRAINS; i++)
        if (gw_peer_id_equal(&w->brains[i].config.id, id)) return (int)i;
    return -1;
}

static void link_both(world *w) {
    if (w->linked) return;
    w->linked = true;
    for (uint32_t i = 0; i < BRAINS; i++)
        tell(w, i,
             (gw_event){.kind = GW_EV_LINK_UP,
                        .peer = w->brains[1 - i].config.id,
                        .incarnation = w->brains[1 - i].config.incarnation});
}

static void break_link(world *w) {
    if (!w->linked) return;
    w->linked = false;
    for (uint32_t i = 0; i < BRAINS; i++)
        tell(w, i,
             (gw_event){.kind = GW_EV_LINK_DOWN,
                        .peer = w->brains[1 - i].config.id,
                        .incarnation = w->brains[1 - i].config.incarnation,
                        .link_end = GW_LINK_CLOSED});
    link_both(w);
}

static void add_script(const world *w, uint8_t operation, const void *bytes, size_t length) {
    uint8_t script[HEAD + 4096] = {operation, (uint8_t)length, (uint8_t)(length >> 8)};
    if (w->add == NULL || length > sizeof script - HEAD) return;
    memcpy(script + HEAD, bytes, length);
    w->add(w->context, script, HEAD + length);
}

static void deal(world *w, uint32_t i, const gw_action *a) {
    brain *b = &w->brains[i];
    uint32_t position = 0;
    for (uint32_t shard = 0; shard < SHARDS && b->computed.size == SHARDS; shard++) {
        if (a->list != NULL && !gw_set_has(a->list, shard)) continue;
        if (position >= a->first && position < a->end) gw_set_add(&b->computed, shard);
        position++;
    }
    b->word = gw_word_pack((gw_word){a->tag, a->end, a->end});
    tell(w, i, (gw_event){.kind = GW_EV_DRY, .tag = a->tag});
}

static void look_at_word(world *w, uint32_t i, const gw_action *a) {
    bool swap = a->kind == GW_ACT_SWAP_WORD;
    int victim = number_of(w, &a->peer);
    gw_event event = {.kind = swap ? GW_EV_WORD_SWAPPED : GW_EV_WORD_READ, .token = a->token};
    event.word_outcome = victim < 0 || !w->linked ? GW_WORD_FENCED : swap ? GW_WORD_DIFFERS : GW_WORD_OK;
    if (victim >= 0) event.word = w->brains[victim].word;
    tell(w, i, event);
}

static void freeze(world *w, uint32_t i, gw_token token) {
    brain *b = &w->brains[i];
    b->view = (gw_view){.epoch = 0};
    b->word = 0;
    if (b->reducing != 0)
        tell(w, i, (gw_event){.kind = GW_EV_REDUCED, .token = b->reducing, .outcome = GW_ABORTED});
    b->reducing = 0;
    queued *q =
        tell(w, i, (gw_event){.kind = GW_EV_FROZEN, .token = token, .accumulator_step = b->computed_step});
    if (b->computed.size == 0 || q->event.kind != GW_EV_FROZEN) return;
    q->held = gw_set_copy(&b->computed);
    q->event.held = &q->held;
}

/* When all members are real and have entered, their sums are added. */
static void reduce(world *w) {
    const gw_view *view = w->brains[0].reducing != 0 ? &w->brains[0].view : &w->brains[1].view;
    int64_t slots[BRAINS * GW_SLOTS] = {0};
    uint32_t shards = 0;
    for (uint32_t rank = 0; rank < view->count; rank++) {
        int i = number_of(w, &view->members[rank].id);
        if (i < 0 || rank >= BRAINS || w->brains[i].reducing == 0 ||
            !gw_view_name_equal(&w->brains[i].view.name, &view->name))
            return;
        memcpy(slots + (size_t)rank * GW_SLOTS, w->brains[i].slots, sizeof w->brains[i].slots);
        shards += gw_set_count(&w->brains[i].computed);
    }
    for (uint32_t rank = 0; rank < view->count; rank++) {
        uint32_t i = (uint32_t)number_of(w, &view->members[rank].id);
        gw_event event = {.kind = GW_EV_REDUCED, .token = w->brains[i].reducing, .outcome = GW_DONE};
        event.coverage_ok = event.fingerprint_ok = shards == SHARDS;
        w->brains[i].reducing = 0;
        queued *q = tell(w, i, event);
        if (q->event.kind != GW_EV_REDUCED) continue;
        q->owned = malloc(sizeof slots);
        GW_CHECK_MEMORY(q->owned != NULL);
        memcpy(q->owned, slots, sizeof slots);
        q->event.slots = q->owned;
    }
}

static void store(world *w, uint32_t i, const gw_action *a) {
    queued *q = tell(
        w, i, (gw_event){.kind = GW_EV_STORED, .token = a->token, .outcome = GW_DONE, .count = a->count});
    if (q->event.kind != GW_EV_STORED) return;
    gw_hash *hashes = calloc(a->count + 1, sizeof *hashes);
    GW_CHECK_MEMORY(hashes != NULL);
    for (uint32_t k = 0; k < a->count; k++) hashes[k].bytes[0] = (uint8_t)(a->chunks[k] + a->step);
    q->event.hashes = q->owned = hashes;
}

static void send_message(world *w, uint32_t i, const gw_action *a) {
    int to = number_of(w, &a->peer);
    if (to < 0 || !w->linked) return;
    add_script(w, SAY_FITTING, a->bytes, a->length);
    tell_bytes(w, (uint32_t)to, (gw_event){.kind = GW_EV_MESSAGE, .peer = w->brains[i].config.id}, a->bytes,
               a->length);
}

static void send_datagram(world *w, uint32_t i, const gw_action *a) {
    for (uint32_t k = 0; k < BRAINS; k++) {
        if (!gw_addr_equal(&w->brains[k].config.addrs[0], &a->addr)) continue;
        add_script(w, DATAGRAM, a->bytes, a->length);
        tell_bytes(w, k, (gw_event){.kind = GW_EV_DATAGRAM, .addr = w->brains[i].config.addrs[0]}, a->bytes,
                   a->length);
    }
}

static void want_link(world *w, uint32_t i, const gw_action *a) {
    if (!a->flag) return;
    if (number_of(w, &a->peer) >= 0)
        link_both(w);
    else
        tell(w, i, (gw_event){.kind = GW_EV_LINK_DOWN, .peer = a->peer, .link_end = GW_LINK_REFUSED});
}

static void begin_step(brain *b, const gw_action *a) {
    gw_set_free(&b->computed);
    b->computed = gw_set_of(a->shards);
    b->computed_step = a->step;
}

/* Work that is done as soon as it is asked for. */
static void work(world *w, uint32_t i, const gw_action *a) {
    brain *b = &w->brains[i];
    gw_event done = {.token = a->token, .outcome = GW_DONE};
    if (a->kind == GW_ACT_APPLY || a->kind == GW_ACT_LOAD) {
        b->step = a->kind == GW_ACT_APPLY ? a->step + 1 : a->step;
        done.kind = a->kind == GW_ACT_APPLY ? GW_EV_APPLIED : GW_EV_LOADED;
        done.fingerprint = state_after(b->step);
    } else if (a->kind == GW_ACT_SEAL) {
        done.kind = GW_EV_SEALED;
        done.speed = 1000;
    } else if (a->kind == GW_ACT_MANIFEST) {
        done.kind = GW_EV_MANIFEST_STORED;
        gw_blake2b(a->hashes, a->count * sizeof *a->hashes, &done.root, sizeof done.root);
    } else {
        done.kind = a->kind == GW_ACT_COMMIT ? GW_EV_COMMITTED
                    : a->kind == GW_ACT_LOOK ? GW_EV_LOOKED
                                             : GW_EV_PERSISTED;
    }
    tell(w, i, done);
}

static void carry_out(world *w, uint32_t i, const gw_action *a) {
    brain *b = &w->brains[i];
    switch (a->kind) {
    case GW_ACT_DATAGRAM:
        send_datagram(w, i, a);
        break;
    case GW_ACT_LINK:
        want_link(w, i, a);
        break;
    case GW_ACT_MESSAGE:
        send_message(w, i, a);
        break;
    case GW_ACT_FREEZE:
        freeze(w, i, a->token);
        break;
    case GW_ACT_INSTALL:
        b->view = *a->view;
        break;
    case GW_ACT_BEGIN_STEP:
        begin_step(b, a);
        break;
    case GW_ACT_DEAL:
        deal(w, i, a);
        break;
    case GW_ACT_READ_WORD:
    case GW_ACT_SWAP_WORD:
        look_at_word(w, i, a);
        break;
    case GW_ACT_REDUCE:
        b->reducing = a->token;
        memcpy(b->slots, a->slots, sizeof b->slots);
        reduce(w);
        break;
    case GW_ACT_SEAL:
    case GW_ACT_APPLY:
    case GW_ACT_LOAD:
    case GW_ACT_COMMIT:
    case GW_ACT_LOOK:
    case GW_ACT_MANIFEST:
    case GW_ACT_PERSIST:
        work(w, i, a);
        break;
    case GW_ACT_SAVE:
        store(w, i, a);
        break;
    case GW_ACT_FINISH:
        b->finished = true;
        break;
    default: /* nothing to be done */
        break;
    }
}

static void feed(world *w, uint32_t i, const gw_event *event) {
    brain *b = &w->brains[i];
    if (b->finished) return;
    gw_actions_reset(&b->actions);
    gw_peer_step(b->peer, event, w->now, &b->actions);
    for (uint32_t k = 0; k < b->actions.count; k++) carry_out(w, i, &b->actions.list[k]);
    w->handled++;
}

/* The next event, or else the next deadline. False: nothing will ever happen. */
static bool go_on(world *w) {
    if (w->count > 0) {
        queued q = w->queue[w->first];
        w->first = (w->first + 1) % QUEUE;
        w->count--;
        w->now += 1000;
        if (q.event.held != NULL) q.event.held = &q.held;
        feed(w, q.to, &q.event);
        free(q.owned);
        gw_set_free(&q.held);
        return true;
    }
    uint64_t deadline = UINT64_MAX;
    uint32_t who = 0;
    for (uint32_t i = 0; i < BRAINS; i++) {
        uint64_t due = w->brains[i].finished ? UINT64_MAX : gw_peer_deadline(w->brains[i].peer);
        if (due < deadline) deadline = due, who = i;
    }
    if (deadline == UINT64_MAX) return false;
    if (deadline > w->now) w->now = deadline;
    feed(w, who, &(gw_event){.kind = GW_EV_TIMER});
    return true;
}

static world *open_world(void) {
    world *w = calloc(1, sizeof *w);
    GW_CHECK_MEMORY(w != NULL);
    w->now = SECOND_NS;
    for (uint32_t i = 0; i < BRAINS; i++) {
        brain *b = &w->brains[i];
        b->config =
            (gw_peer_config){.id = {{(uint8_t)(i + 1)}},
                             .incarnation = {.boot = 1, .nonce = i + 1},
                             .addrs = {{.family = 4, .ip = {10, 0, 0, 1}, .port = (uint16_t)(1000 + i)}},
                             .addr_count = 1,
                             .seeds = {{.family = 4, .ip = {10, 0, 0, 1}, .port = 1000}},
                             .seed_count = i,
                             .identity = "job=fuzz\n",
                             .steps = STEPS,
                             .effects = true,
                             .shards = shards_of,
                             .state_chunks = CHUNKS,
                             .peers = BRAINS,
                             .quorum = GW_QUORUM_ANY,
                             .checkpoint_steps = 3,
                             .keep = 2,
                             .replicas = 2,
                             .join_timeout_ns = PATIENCE_S * SECOND_NS,
                             .resume_timeout_ns = PATIENCE_S * SECOND_NS,
                             .save_timeout_ns = PATIENCE_S * SECOND_NS,
                             .seed = i + 1};
        gw_err err;
        b->peer = gw_peer_create(&b->config, &err);
        GW_CHECK(b->peer != NULL);
        tell(w, i, (gw_event){.kind = GW_EV_START});
    }
    return w;
}

static void close_world(world *w) {
    for (; w->count > 0; w->first = (w->first + 1) % QUEUE, w->count--) {
        free(w->queue[w->first].owned);
        gw_set_free(&w->queue[w->first].held);
    }
    for (uint32_t i = 0; i < BRAINS; i++) {
        gw_peer_destroy(w->brains[i].peer);
        gw_actions_free(&w->brains[i].actions);
        gw_set_free(&w->brains[i].computed);
    }
    free(w);
}

/* A whole job that nobody disturbs: every message and datagram of it is an example. */
static void brain_examples(fuzz_add *add, void *context) {
    world *w = open_world();
    w->add = add;
    w->context = context;
    while (w->handled < EVENTS_MOST && !(w->brains[0].finished && w->brains[1].finished) && go_on(w))
        continue;
    GW_CHECK(w->brains[0].finished && w->brains[1].finished && w->brains[0].step == STEPS);
    close_world(w);
}

/* As if the second brain had said it; `fitting`: about this job, and the view that the first is in now. */
static void say(world *w, const uint8_t *bytes, size_t length, bool fitting) {
    gw_message message;
    gw_err err;
    uint8_t *encoded = NULL;
    if (!w->linked) return;
    if (fitting && gw_message_decode(bytes, length, &message, &err)) {
        const gw_view *view = &w->brains[0].view;
        gw_blake2b(w->brains[0].config.identity, strlen(w->brains[0].config.identity), &message.job,
                   sizeof message.job);
        if (view->epoch > 0) {
            message.epoch = view->epoch;
            message.name = view->name;
        }
        length = gw_message_encode(&message, &encoded);
        gw_message_free(&message);
        bytes = encoded;
    }
    tell_bytes(w, 0, (gw_event){.kind = GW_EV_MESSAGE, .peer = w->brains[1].config.id}, bytes, length);
    free(encoded);
}

static void operate(world *w, uint8_t operation, const uint8_t *bytes, size_t length) {
    switch (operation % 8 % OPERATIONS) {
    case SAY_RAW:
        say(w, bytes, length, false);
        break;
    case SAY_FITTING:
        say(w, bytes, length, true);
        break;
    case DATAGRAM:
        tell_bytes(w, 0, (gw_event){.kind = GW_EV_DATAGRAM, .addr = w->brains[1].config.addrs[0]}, bytes,
                   length);
        break;
    case BREAK_LINK:
        break_link(w);
        break;
    default:
        tell(w, length % BRAINS, (gw_event){.kind = length % 4 < 2 ? GW_EV_STOP : GW_EV_LEAVE});
        break;
    }
}

static bool take_brain(const uint8_t *bytes, size_t count) {
    world *w = open_world();
    for (uint32_t k = 0; k < 60; k++) go_on(w);
    for (size_t at = 0; at + HEAD <= count;) {
        size_t length = (size_t)bytes[at + 1] | (size_t)bytes[at + 2] << 8;
        uint8_t operation = bytes[at];
        at += HEAD;
        if (length > count - at) length = count - at;
        operate(w, operation, bytes + at, length);
        at += length;
        for (int k = operation / 8 % 16; k >= 0; k--) go_on(w);
    }
    for (uint32_t end = w->handled + EVENTS_MOST / 4; w->handled < end && go_on(w);) continue;
    close_world(w);
    return true;
}

const fuzz_target fuzz_brain = {"brain", 600, 4096, brain_examples, take_brain};
