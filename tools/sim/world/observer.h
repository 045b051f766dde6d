/* The facts that the world tells its observers. An observer is a table of functions, one for each fact,
 * any of which may be NULL. It is registered before the run begins; observers are called in the order of
 * registration, at the moment that the fact's comment names. The judges (tools/sim/judge) and the faults
 * (tools/sim/faults) are observers; the world knows neither.
 *
 * An observer may read the whole cluster and end the run with a verdict (sim_violation). It draws no
 * random number and schedules nothing unless its fact allows it: judges must not change what they judge. */
#ifndef GODWIT_TOOLS_SIM_WORLD_OBSERVER_H
#define GODWIT_TOOLS_SIM_WORLD_OBSERVER_H

#include "core/brain/peer.h"

typedef struct sim_cluster sim_cluster;
typedef struct sim_peer sim_peer;

/* Events of one life of a peer that may excuse its end. */
typedef enum sim_mishap {
    SIM_ASKED_TO_LEAVE,  /* its user asks it to leave the job */
    SIM_ASKED_TO_STOP,   /* its user asks it to stop the whole job */
    SIM_LOST_DEVICE,     /* its device breaks down */
    SIM_GAVE_UP_SHARD,   /* one of its workers cannot compute a shard */
    SIM_WAS_REFUSED,     /* its machine fails at an update, effects or a look at its state */
    SIM_DISK_REFUSES,    /* its disk is full or hangs from now on */
    SIM_DISK_IS_ANOTHER, /* its disk is gone, and its name with it; it has a new name by now */
} sim_mishap;

/* Wrong bits in the memory of one peer. */
typedef enum sim_error_kind {
    SIM_WRONG_SHARD, /* it has computed a shard of its current step wrong */
    SIM_WRONG_STATE, /* a bit of its state has flipped */
    SIM_WRONG_PART,  /* a bit of its part of the step's sum has flipped, which no other peer can see */
} sim_error_kind;

/* Bits that `from` sent arrive changed at `to`; the machine at fault is one of the two. */
typedef struct sim_changed_bits {
    uint32_t from, to, at_fault; /* numbers of peers */
} sim_changed_bits;

/* A state that a peer is asked to load. */
typedef struct sim_load_request {
    gw_load_kind kind;
    uint64_t step, fingerprint;
    gw_hash root;
    uint64_t epoch;           /* epoch of the view that asks for it */
    const gw_peer_id *donors; /* GW_LOAD_PEERS: the peers that have it; borrowed for the call */
    uint32_t donor_count;
} sim_load_request;

typedef struct sim_observer {
    /* Lives. */
    void (*life_begins)(void *context, sim_peer *p); /* boot and nonce are set; there is no brain yet */
    void (*last_word)(void *context, sim_peer *p);   /* it crashes or sends FINISH; once in a life */
    void (*finished)(void *context, sim_peer *p);    /* its FINISH is recorded in p->finish and so on */
    /* its brain is gone; its memory is about to be freed */
    void (*process_ends)(void *context, sim_peer *p);
    /* after process_ends, for a process that had finished; observers may schedule its next life */
    void (*process_exited)(void *context, sim_peer *p);
    void (*mishap)(void *context, sim_peer *p, sim_mishap mishap);
    /* its brain is about to hear of it */
    void (*worker_lost)(void *context, sim_peer *p, const gw_event *event);

    /* Views and messages. */
    void (*view_installed)(void *context, sim_peer *p, const gw_view *view);
    void (*view_announced)(void *context, sim_peer *p, const gw_view *view, const char *cause);
    void (*view_forced)(void *context, sim_peer *p); /* an operator is about to ask it to force a view */
    /* A brain sends a message, whether or not there is a link. `to` is NULL where no peer has that name
     * any more. */
    void (*message_sent)(void *context, sim_peer *p, const sim_peer *to, const uint8_t *bytes, size_t length);
    void (*message_arrives)(void *context, sim_peer *p, const sim_peer *from, uint8_t kind);
    void (*death_told)(void *context, sim_peer *p, const gw_action *notice); /* GW_NOTICE_PEER_DEAD */
    void (*logged)(void *context, sim_peer *p, const char *text);

    /* Sums. */
    void (*step_begun)(void *context, sim_peer *p); /* the accumulator is empty */
    void (*dealt)(void *context, sim_peer *p,
                  const gw_action *deal);            /* its shards of a step were dealt to it */
    void (*sum_entered)(void *context, sim_peer *p); /* it is about to enter a reduction */
    /* its reduction failed with the member `with` */
    void (*sum_failed)(void *context, sim_peer *p, const sim_peer *with);
    void (*sum_reduced)(void *context, sim_peer *p, const gw_view *view); /* it has the sum of that view */
    void (*step_applies)(void *context, sim_peer *p, uint64_t step,
                         bool skips); /* it is about to apply its sum */
    /* it has applied its sum to that state */
    void (*step_applied)(void *context, sim_peer *p, uint64_t parent);

    /* States that are loaded, shown to people, or given to the job's effects. */
    void (*state_wanted)(void *context, sim_peer *p, const sim_load_request *load);
    void (*state_loaded)(void *context, sim_peer *p, const sim_load_request *load);
    void (*state_shown)(void *context, sim_peer *p, uint64_t step, uint64_t fingerprint);
    void (*effects_done)(void *context, sim_peer *p, uint64_t step,
                         bool failed); /* effects of the state that it holds now */

    /* Wrong bits, and the notices about them. */
    void (*bits_wrong)(void *context, sim_peer *p, sim_error_kind kind);
    void (*bits_changed)(void *context, const sim_changed_bits *bits);
    /* change_arrives: the receiver is about to hear of a change of bits; `which` is its number, from 0 on,
     * in the order of bits_changed. change_heard: it has heard of it. `holds`: the receiver has the state
     * that is summed from, or the one before the state that it fetches. */
    void (*change_arrives)(void *context, sim_peer *p, uint32_t which, bool holds);
    void (*change_heard)(void *context, sim_peer *p, uint32_t which, bool in_sum);
    void (*fault_told)(void *context, sim_peer *p, const gw_action *notice); /* GW_NOTICE_CORRUPT */
    void (*bad_told)(void *context, sim_peer *p, const gw_action *notice);   /* GW_NOTICE_BAD */

    /* Checkpoints. */
    void (*checkpoint_told)(void *context, sim_peer *p, uint64_t step, const gw_hash *root); /* complete */
    /* It makes a manifest of this root. `saved`: the root is that of its last save; `told`: the manifest
     * is to be made from what others report of their chunks. */
    void (*manifest_made)(void *context, sim_peer *p, uint64_t step, const gw_hash *root, bool saved,
                          bool told);
    void (*manifest_stored)(void *context, sim_peer *p,
                            uint64_t step);            /* its brain has heard that it is stored */
    void (*retain_begins)(void *context, sim_peer *p); /* it is about to delete what it need not retain */
    void (*retain_ends)(void *context, sim_peer *p);
    void (*disks_lost)(void *context); /* some disk has lost some of its contents */
} sim_observer;

enum { SIM_OBSERVERS = 20 }; /* the most there can be */

typedef struct sim_observers {
    const sim_observer *table[SIM_OBSERVERS];
    void *context[SIM_OBSERVERS];
    uint32_t count;
} sim_observers;

/* Calls `fact` of every observer of the cluster. */
#define SIM_NOTIFY(c, fact, ...)                                                                             \
    do {                                                                                                     \
        const sim_observers *all_ = &(c)->observers;                                                         \
        for (uint32_t i_ = 0; i_ < all_->count; i_++)                                                        \
            if (all_->table[i_]->fact != NULL)                                                               \
                all_->table[i_]->fact(all_->context[i_] __VA_OPT__(, ) __VA_ARGS__);                         \
    } while (0)

/* `table` and what `context` points at must outlive the cluster. */
void sim_observe(sim_cluster *c, const sim_observer *table, void *context);

#endif
