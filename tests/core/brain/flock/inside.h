/* What the flock's files share (flock.h is what tests see). Each of the functions that take an action does
 * what peer i's brain asks for; what comes of it is posted. */
#ifndef GODWIT_TESTS_CORE_BRAIN_FLOCK_INSIDE_H
#define GODWIT_TESTS_CORE_BRAIN_FLOCK_INSIDE_H

#include "tests/core/brain/flock/flock.h"

typedef struct flock_event {
    struct flock_event *next; /* for the same peer, which is stopped */
    uint64_t at, serial;
    uint32_t to;
    uint64_t life;        /* of the receiver it is meant for */
    uint32_t fatal_shard; /* with an event of kind 0: the shard at which its process dies */
    bool redial;          /* not an event: the link to event.peer comes back */
    gw_event event;
    uint8_t *bytes;
    gw_set held, claimed;
    int64_t *slots;
    uint32_t table_at; /* in the slots */
    gw_hash *hashes;
} flock_event;

/* flock.c: which peer it is; -1 = none. */
int flock_index(const flock *f, const gw_peer_id *id);

/* events.c: what happens to a peer so much later. What is returned is valid until the next post. */
flock_event *flock_post(flock *f, uint32_t to, uint64_t delay_ns, gw_event event);
/* The event has a copy of these bytes. */
void flock_keep_bytes(flock_event *e, const void *bytes, size_t length);
void flock_forget_events(flock *f);
/* What waited for peer i, which was stopped, may happen. */
void flock_release(flock *f, uint32_t i);

/* links.c */
void flock_link(flock *f, uint32_t a, uint32_t b);
/* What a dead peer had sent still arrives; then its links break, and reconnecting is refused. */
void flock_end_links(flock *f, uint32_t i);
/* Whoever dials a dead process is refused. */
void flock_refuse(flock *f, uint32_t i, uint32_t other);
void flock_link_or_drop(flock *f, uint32_t i, const gw_action *a);
void flock_datagram(flock *f, uint32_t i, const gw_action *a);
void flock_message(flock *f, uint32_t i, const gw_action *a);

/* work.c */
void flock_freeze(flock *f, uint32_t i, const gw_action *a);
void flock_begin_step(flock *f, uint32_t i, const gw_action *a);
void flock_deal(flock *f, uint32_t i, const gw_action *a);
void flock_word(flock *f, uint32_t i, const gw_action *a);
void flock_take(flock *f, uint32_t i, const gw_action *a);
void flock_seal(flock *f, uint32_t i, const gw_action *a);
void flock_probe(flock *f, uint32_t i, const gw_action *a);

/* sums.c */
void flock_reduce(flock *f, uint32_t i, const gw_action *a);
void flock_apply(flock *f, uint32_t i, const gw_action *a);
void flock_look(flock *f, uint32_t i, const gw_action *a);

/* disk.c */
void flock_load(flock *f, uint32_t i, const gw_action *a);
void flock_save(flock *f, uint32_t i, const gw_action *a);
void flock_retain(flock_peer *p, const gw_action *a);
void flock_manifest(flock *f, uint32_t i, const gw_action *a);
void flock_persist(flock *f, uint32_t i, const gw_action *a);
void flock_settle_records(flock *f, uint32_t i, bool ends);

/* actions.c: whatever it asks for. */
void flock_carry_out(flock *f, uint32_t i, const gw_action *a);

#endif
