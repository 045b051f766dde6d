/* A world for two or three brains (core/brain/peer.h), small enough to run hundreds of times a second. It
 * keeps the contract of core/brain/world.h, and checks that the actions of brains do. An input has a tape
 * of *fates*: they decide for each action whether it succeeds, and how late. When no fates are left,
 * actions succeed soon. For the fuzz room only. */
#ifndef GODWIT_TESTS_FUZZ_BRAIN_WORLD_H
#define GODWIT_TESTS_FUZZ_BRAIN_WORLD_H

#include "core/brain/peer.h"
#include "tests/fuzz/target.h"

enum {
    WORLD_BRAINS = 3,
    WORLD_SHARDS = 6,
    WORLD_CHUNKS = 2,
    WORLD_STEPS = 6,
    WORLD_QUEUE = 2048,
    WORLD_FATES = 1024,
    WORLD_SAVED = 4, /* checkpoints on a disk */
};

/* Bits of the first byte of an input. The two bits at VERIFY choose the share of the shards: none, 1 %,
 * half, all. */
enum {
    WORLD_MAJORITY = 1,
    WORLD_FAST = 2, /* only with MAJORITY */
    WORLD_THREE = 4,
    WORLD_VERIFY = 8,
    WORLD_SKIP_BAD = 32,
    WORLD_BEST = 64, /* every step is an evaluation */
};

typedef struct world_brain {
    gw_peer *peer; /* NULL = not running */
    gw_peer_config config;
    gw_actions actions;
    bool finished, wants[WORLD_BRAINS]; /* its links, by peer */

    gw_view view; /* epoch 0 = the fence is closed */
    uint64_t newest_epoch, step, state;
    uint64_t good_step; /* the step of a right sum that it was told and has not applied; UINT64_MAX = none */
    uint64_t state_free_ns, record_free_ns; /* when earlier operations of these will have ended */

    /* Its accumulator, range word and worker. */
    uint64_t accumulator_step, word;
    uint32_t accumulators; /* accumulators so far */
    bool no_shards;
    uint8_t adds[WORLD_SHARDS];
    uint32_t dealt[WORLD_SHARDS], dealt_count; /* shards by position */
    int in_flight;                             /* a shard, or -1 */
    uint32_t processes;                        /* worker processes that have ended, in all lives */
    bool careful, dry, bad;                    /* bad: an element of its sum is not finite */
    gw_token sealing, reducing, applying, loading;
    uint64_t reduce_step;
    gw_recheck checks[2 * WORLD_SHARDS];
    uint32_t check_count;
    int64_t slots[GW_SLOTS], table[GW_VERIFY_TABLE];

    /* Its disk. */
    bool disk_full;
    uint8_t *record;
    size_t record_length;
    gw_shard_death fell;             /* the shard that it was computing when it was killed */
    gw_inventory saved[WORLD_SAVED]; /* newest first */
    gw_best saved_best[WORLD_SAVED]; /* what their manifests say of the best state */
    uint32_t saved_count;
    gw_set stored; /* chunks of the state of stored_step */
    uint64_t stored_step;
} world_brain;

/* Chores: what happens in the world without an action of a brain. */
typedef enum world_chore {
    CHORE_NONE,
    CHORE_SHARD,  /* the worker has finished `shard`, which it began for accumulator `accumulators` */
    CHORE_REDIAL, /* the link to `other` is made, if a brain wants it */
    CHORE_CLOSE,  /* a brain that has finished, and whose last messages are sent, is closed */
} world_chore;

typedef struct world_event {
    uint64_t at, serial, boot;
    uint32_t to, from, link; /* the last two belong to a message */
    world_chore chore;
    gw_event event;
    uint32_t other;               /* CHORE_REDIAL */
    uint32_t shard, accumulators; /* CHORE_SHARD */
    void *owned;                  /* the data that the event points to; PERSISTED: the record */
    size_t record_length;         /* PERSISTED */
    size_t table_at;
    gw_set held, claimed;
    uint64_t step;   /* LOADED: the epoch of the state; REDUCED: of the sum */
    bool rolls_back; /* LOADED: no brain had to keep the steps after it */
} world_event;

typedef struct world {
    world_brain brains[WORLD_BRAINS];
    uint32_t count;
    bool fast, forged; /* forged: brains may show wrong states through no fault of their own */
    uint32_t links[WORLD_BRAINS][WORLD_BRAINS], link_count; /* 0 = none, else its number */
    bool cut[WORLD_BRAINS][WORLD_BRAINS];                   /* no datagram or message gets through */
    uint64_t now, serial;
    world_event queue[WORLD_QUEUE];
    uint32_t queued, handled, timers;
    uint8_t fates[WORLD_FATES];
    uint32_t fate, fate_count;
    uint64_t shown[WORLD_STEPS]; /* by step: the state that was shown; 0 = not yet */
    world_event lost;            /* events for which the queue had no room */
    /* Called for each message and datagram; may be NULL. */
    void (*listener)(void *context, bool datagram, const uint8_t *bytes, size_t length);
    void *context;
} world;

world *world_open(uint8_t kind);
void world_close(world *w);
/* Runs the next event, or else the next deadline. Returns false when nothing will ever happen. */
bool world_go_on(world *w);
bool world_is_done(const world *w); /* whether every brain has finished, and one has the last state */

void world_break_link(world *w, uint32_t a, uint32_t b);
void world_cut(world *w, uint32_t a, uint32_t b, bool on);
/* Tells both brains that their data link is lost, or stands again; operations over it are not affected. */
void world_data(world *w, uint32_t a, uint32_t b, bool lost);
/* Tells a brain that its seeds are the brains with these bits. */
void world_tell_seeds(world *w, uint32_t i, uint32_t bits);
/* Kills a brain; its disk stays. `recorded`: the record that it had asked for is durable. */
void world_kill(world *w, uint32_t i, bool recorded);
void world_start(world *w, uint32_t i);
/* removes the disk of a brain that does not run, which is another peer afterwards */
void world_lose_disk(world *w, uint32_t i);

/* Shared by brain_world.c and brain_work.c. When there is no room, an event that is posted is lost. */
world_event *world_post(world *w, uint32_t to, uint64_t delay_ns, gw_event event);
void world_post_bytes(world *w, uint32_t to, gw_event event, const void *bytes, size_t length);
int world_number_of(const world *w, const gw_peer_id *id);
uint64_t world_state_after(uint64_t steps); /* with exact sums */
void world_link(world *w, uint32_t a, uint32_t b);
void world_unlink(world *w, uint32_t i, uint32_t other);
void world_carry_out(world *w, uint32_t i, const gw_action *action);
void world_add_shard(world *w, uint32_t i, uint32_t shard);

#endif
